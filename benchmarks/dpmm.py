"""dpmm's own AIM and MST beside ours: same rows, neighbours (add-remove), budget, triples; rows scored on both sides.

Its environment is made on first use (`benchmarks/peers/environment.py`).
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.beside import beside
from benchmarks.coded import RUNS, Coded, beside_peer, our_side
from benchmarks.fresh import WARM, how_timed
from benchmarks.release import DATA, DELTA
from benchmarks.shown import Shown

CPU_SECONDS = 600
"""What a peer may compute; clocks say little on a shared machine."""
CASES = (
    ("mst", "adult_reduced7"),
    ("aim", "adult_reduced7"),
    ("mst", "adult_orig"),
    ("mst", "nist"),
    ("mst", "plants"),
)
"""AIM is run where it can be expected to finish."""


def run(quick: bool) -> dict[str, Any]:
    """Each case: its error and time, ours, and the ratios."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    found = []
    for algorithm, name in itertools.islice(CASES, 1 if quick else None):
        coded = Coded.read(name)
        label = f"dpmm {algorithm.upper()}"
        found.append(beside_peer(coded, our_side(coded), label, "dpmm", "dpmm_release.py", [algorithm], CPU_SECONDS))
        print(found[-1], flush=True)
    return {"cases": found}


def present(found: dict[str, Any]) -> list[Shown]:
    columns = {"peer": "", "table": "", "its mean TV": "", "our mean TV": "", "its largest error": ""}
    columns |= {"our largest error": "", "its seconds": "s", "our seconds": "s", WARM: "s"}
    return [
        (
            f"Epsilon 1, delta {DELTA:g}, add-remove; all 35 triples of adult_reduced7, 64 random ones of the others."
            " As many synthetic rows as the table has are scored, theirs and ours; one run of each peer, medians of"
            f" {RUNS} for ours. The time ratio is the larger of clock and processor time; a peer is given"
            f" {CPU_SECONDS} s of it."
        ),
        how_timed(found["cases"]),
        *beside("dpmm", "dpmm", found["cases"], _name, columns),
    ]


def _name(row: dict[str, Any]) -> str:
    return f"{row['peer']}, {row['table']}"
