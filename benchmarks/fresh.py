"""Our release as the first of a fresh process, timed as peers are: `python -m benchmarks.fresh ROWS ASKED.json`.

A peer's clock starts in a fresh process once its packages are imported and the rows are read, and runs over the fit
with all that is compiled on the way. Ours starts when the rows are read: modules that a first release loads are inside,
and so is loading compiled functions from the disk, where an earlier run left them, as wherever a release ran before.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import reticent as rt

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 900
WARM = "our warm seconds"
TIMED = (
    "Seconds, theirs and ours, are those of the fit in a fresh process after the rows were read. Theirs: one process,"
    " packages imported before, compilation included. Ours: medians of several processes, each timed at its first"
    " release, loading of modules and of compiled functions from the disk included; *warm* seconds are those of later"
    " releases in one process."
)
TIMED_WARM = (
    "**To be measured again:** the recorded seconds of ours are those of warm runs in one process, theirs of one fresh"
    " process with compilation; a first run of ours takes longer than is shown."
)


def how_timed(cases: Iterable[dict[str, Any]]) -> str:
    """What the recorded seconds of ours are."""
    return TIMED if any(WARM in row for row in cases) else TIMED_WARM


def first_release(
    rows: Path, sizes: dict[str, int], sets: Sequence[Sequence[str]], epsilon: float, delta: float, runs: int
) -> dict[str, float]:
    """Medians of clock and processor seconds over fresh processes; `rows` holds codes. Run after a release here."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "asked.json"
        file.write_text(
            json.dumps({"sizes": sizes, "sets": [list(s) for s in sets], "epsilon": epsilon, "delta": delta})
        )
        command = [sys.executable, "-m", "benchmarks.fresh", str(rows), str(file)]
        found = [
            json.loads(
                subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True, cwd=ROOT).stdout
            )
            for _ in range(runs)
        ]
    return {key: statistics.median(one[key] for one in found) for key in ("seconds", "cpu")}


def main() -> None:
    rows, asked = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    domain = rt.Domain(asked["sizes"])
    table = rt.Table.read(rows, domain, neighbours="add-remove")
    workload = rt.Workload([rt.marginal(*names) for names in asked["sets"]], domain=domain)
    terms = {"epsilon": asked["epsilon"]} | ({"delta": asked["delta"]} if asked["delta"] else {})
    start, cpu = time.perf_counter(), time.process_time()
    rt.release(table, workload, rt.Budget(**terms))
    print(json.dumps({"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
