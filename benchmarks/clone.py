"""A stranger's first hour: clone, `make demo`, `make test`, with an empty home, no cache and nothing installed.

Only what finds the package index is taken over from the environment. Needs network, git and a bare Python; the download
is the size of the pinned wheels.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.shown import Claim, Grid, Plot, Shown

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("PATH", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
TEST_MINUTES = 12.0
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


def bare(home: Path) -> dict[str, str]:
    """No caches, no settings but where packages come from."""
    kept = {name: value for name, value in os.environ.items() if name.upper() in KEPT or name.startswith("PIP_")}
    settings = Path.home() / ".config" / "pip" / "pip.conf"
    found = {"PIP_CONFIG_FILE": str(settings)} if settings.exists() else {}
    return kept | found | {"HOME": str(home), "PIP_NO_CACHE_DIR": "1", "PYTHON": sys.executable}


def timed(
    command: list[str], folder: Path, environment: dict[str, str], *, may_fail: bool = False
) -> tuple[float, str]:
    """Seconds and what was printed; a failure ends the suite unless it is itself the result."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode and not may_fail:
        tail = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise RuntimeError(f"{' '.join(command)} failed:\n" + "\n".join(tail))
    return seconds, done.stdout


def size(folder: Path) -> float:
    """Megabytes of all files."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) / 1e6


def run(quick: bool) -> dict[str, Any]:
    if quick:
        return {"skipped": "it takes as long as the whole test suite"}
    with tempfile.TemporaryDirectory() as name:
        home, clone = Path(name) / "home", Path(name) / "reticent"
        home.mkdir()
        environment = bare(home)
        cloned, _ = timed(["git", "clone", "--quiet", str(ROOT), str(clone)], home, environment)
        print(f"cloned in {cloned:.1f} s", flush=True)
        setup, _ = timed(["make", "setup"], clone, environment)
        print(f"make setup: {setup:.0f} s", flush=True)
        demo, _ = timed(["make", "demo"], clone, environment)
        print(f"make demo: {demo:.0f} s", flush=True)
        test, said = timed(["make", "test"], clone, environment, may_fail=True)
        counts = {kind: int(count) for count, kind in COUNTED.findall(said)}
        print(f"make test: {test:.0f} s, {counts}", flush=True)
        python, wheels = str(clone / ".venv" / "bin" / "python"), Path(name) / "wheels"
        download = [python, "-m", "pip", "download", "--quiet", "--no-deps", "-r", "requirements/dev.txt", "-d"]
        timed([*download, str(wheels)], clone, environment)
        return {
            "clone MB": size(clone / ".git"),
            "download MB": size(wheels),
            "environment MB": size(clone / ".venv"),
            "setup seconds": setup,
            "demo seconds": demo,
            "test seconds": test,
            "tests": counts,
        }


def present(found: dict[str, Any]) -> list[Shown]:
    seconds = [(name, found[f"{name} seconds"]) for name in ("setup", "demo", "test")]
    rows = [{"": name, "MB": found[f"{name} MB"]} for name in ("clone", "download", "environment")]
    told = ", ".join(f"{count} {kind}" for kind, count in found["tests"].items())
    return [
        f"Fresh clone and virtual environment, empty home, no cache. `make test`: {told}.",
        Claim("make test", found["test seconds"] / 60, at_most=TEST_MINUTES, unit="minutes"),
        Claim("tests that fail", found["tests"].get("failed", 0), at_most=0),
        Plot(
            "seconds",
            "From nothing to a tested copy",
            "",
            "seconds",
            {"make": seconds},
            log="y",
            expected=f"Expected: a demo within seconds once set up, tests within {TEST_MINUTES:.0f} minutes.",
        ),
        Grid("Sizes", {"": "", "MB": ""}, rows),
    ]
