"""dpsynth's own SWIFT, AIM and MST beside ours: same rows, neighbours, budget, triples; rows scored on both sides.

dpsynth and the mbi that it needs are not packages on the registry: RETICENT_DPSYNTH and RETICENT_MBI name checkouts.
The environment of their other packages is made on first use (`benchmarks/peers/environment.py`). A suite that was
stopped goes on where it was.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks.beside import beside
from benchmarks.coded import EPSILON, RUNS, Coded, beside_peer, our_side
from benchmarks.fresh import WARM, how_timed
from benchmarks.pieces import Pieces
from benchmarks.release import DATA, DELTA
from benchmarks.shown import Claim, Shown

CPU_SECONDS = 900
"""What a peer may compute; clocks say little on a shared machine."""
CASES = {
    "adult_reduced7": ("swift", "mst", "aim"),
    "nist": ("swift", "mst", "aim"),
    "adult_orig": ("swift", "mst"),
    "plants": ("swift", "mst"),
}
"""AIM is run where it can be expected to finish."""
BEST_PEER = 0.8
FASTER = 0.05


def run(quick: bool) -> dict[str, Any]:
    """Each case: the peer's error and time, ours, and the ratios."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    checkouts = [os.environ.get(f"RETICENT_{name}") for name in ("DPSYNTH", "MBI")]
    if not all(checkouts):
        return {"skipped": "set RETICENT_DPSYNTH and RETICENT_MBI to checkouts of dpsynth and mbi"}
    where = [Path(checkout or "").resolve() for checkout in checkouts]
    pieces, found = Pieces("dpsynth", quick), []
    for name, algorithms in list(CASES.items())[: 1 if quick else None]:
        coded = Coded.read(name)
        our = pieces.of(name, lambda coded=coded: our_side(coded))
        for algorithm in algorithms[: 1 if quick else None]:
            label, arguments = f"dpsynth {algorithm.upper()}", [*where, algorithm]
            measure = (coded, our, label, "dpsynth", "dpsynth_release.py", arguments, CPU_SECONDS)
            found.append(pieces.of(f"{name} {algorithm}", lambda measure=measure: beside_peer(*measure)))
            print(found[-1], flush=True)
    pieces.end()
    return {"cases": found}


def present(found: dict[str, Any]) -> list[Shown]:
    if "skipped" in found:
        return [found["skipped"]]
    cases = found["cases"]
    columns = {"peer": "", "table": "", "its mean TV": "", "our mean TV": "", "its largest error": ""}
    columns |= {
        "our largest error": "",
        "its seconds": "s",
        "our seconds": "s",
        WARM: "s",
        "our processor seconds": "s",
    }
    best = {name: [row["TV ratio"] for row in cases if row["table"] == name and "TV ratio" in row] for name in CASES}
    return [
        (
            f"Epsilon {EPSILON:g}, delta {DELTA:g}, add-remove; all 35 triples of adult_reduced7, 64 random ones of the"
            " others. As many synthetic rows as the table has are scored, theirs and ours; one run of each peer with"
            f" its own defaults, medians of {RUNS} for ours. The time ratio is the larger of clock and processor time;"
            f" a peer is given {CPU_SECONDS} s of it. The search for the peer's budget begins at a positive value,"
            " because the released accounting library divides by it; nothing else of the peer is changed."
        ),
        how_timed(cases),
        *(
            Claim(f"our error over that of the best peer that ended, {name}", max(ratios), at_most=BEST_PEER)
            for name, ratios in best.items()
            if ratios
        ),
        *beside("dpsynth", "dpsynth", cases, lambda row: f"{row['peer']}, {row['table']}", columns, faster=FASTER),
    ]
