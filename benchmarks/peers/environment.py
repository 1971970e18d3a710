"""A peer's own environment, made on first use from pinned requirements: `python -m benchmarks.peers.environment NAME`.

Environments lie in `.peers` beside the benchmarks, or in the folder RETICENT_PEERS names. A peer that cannot be had is
skipped with the reason; quick runs take those only that are already here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("RETICENT_PEERS") or HERE.parents[1] / ".peers")
INSTALL_SECONDS = 900
OUT_OF_MEMORY = ("Cannot allocate memory", "MemoryError", "RESOURCE_EXHAUSTED")
"""What compilers and allocators of peers say."""
AS_FOUND = "RETICENT_PEERS_AS_FOUND"
"""Set in the environment of quick runs: nothing is installed."""


class PeerAbsent(Exception):
    """Why a peer does not run; one line."""


def python_of(name: str) -> Path:
    """The interpreter of the environment `name`, installed when absent."""
    python = FOLDER / name / "bin" / "python"
    if python.exists():
        return python
    if AS_FOUND in os.environ:
        raise PeerAbsent(f"not installed; `python -m benchmarks.peers.environment {name}` installs it")
    venv.create(FOLDER / name, with_pip=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["-r", HERE / f"requirements-{name}.txt"]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        python.unlink()
        raise PeerAbsent(f"the pinned packages of {name} could not be installed here") from None
    return python


def told(name: str, script: str, arguments: list[Any], seconds: float) -> dict[str, Any]:
    """What a peer's script prints as its last line of JSON, or why there is none."""
    command = [python_of(name), "-W", "ignore", HERE / script, *arguments]
    try:
        done = subprocess.run(
            [str(c) for c in command], capture_output=True, text=True, timeout=seconds, check=False, cwd=FOLDER
        )
    except subprocess.TimeoutExpired:
        raise PeerAbsent(f"did not finish in {seconds:g} s") from None
    if done.returncode:
        if any(sign in done.stderr for sign in OUT_OF_MEMORY):
            raise PeerAbsent("did not finish: out of memory")
        raise PeerAbsent((done.stderr.strip().splitlines() or ["died without a word"])[-1][:120])
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        python_of(wanted)
        print(f"{wanted}: ready")
