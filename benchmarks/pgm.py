"""private-pgm's own AIM and MWEM+PGM beside ours: same rows, neighbours (add-remove), budget, workload and score.

They are scripts, not a package: RETICENT_PGM names a checkout of private-pgm; its environment is made on first use
(`benchmarks/peers/environment.py`). Fitted models and rows drawn from them are scored apart, ours and theirs alike.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import reticent as rt
from benchmarks.beside import beside
from benchmarks.fresh import WARM, first_release, how_timed
from benchmarks.peers.environment import PeerAbsent, told
from benchmarks.release import DATA, DELTA, middle_of, ours, read, rows_ratio, triples
from benchmarks.shown import Shown
from reticent.queries.workload import Workload

CPU_SECONDS = 900
"""What a peer may compute; clocks say little on a shared machine."""
CLOCK_SECONDS = 2400
CASES = (
    ("mwem+pgm", "adult_reduced7", 1.0),
    ("mwem+pgm", "adult_reduced7", 0.1),
    ("aim", "adult_reduced7", 0.1),
    ("aim", "adult_reduced7", 1.0),
    ("mwem+pgm", "adult_orig", 1.0),
)
"""AIM on adult_orig had used 8% of its budget after ten minutes."""
MINUTES = float(os.environ.get("RETICENT_PGM_MINUTES", "120"))
"""After these no further peer is begun."""


def workload_of(table: rt.Table, name: str) -> Workload:
    return rt.marginals(table.domain, 3).on(table.domain) if name == "adult_reduced7" else triples(table.domain, 64, 0)


def peer(algorithm: str, rows: Path, domain: Path, workload: Workload, epsilon: float) -> dict[str, float]:
    """Mean total variation, largest error, seconds, processor seconds and GiB of a peer's fitted model."""
    checkout = os.environ.get("RETICENT_PGM")
    if not checkout:
        raise PeerAbsent("set RETICENT_PGM to a checkout of private-pgm")
    with tempfile.TemporaryDirectory() as scratch:
        plain, sets = Path(scratch) / "rows.csv", Path(scratch) / "sets.json"
        with gzip.open(rows) as packed, plain.open("wb") as out:
            shutil.copyfileobj(packed, out)
        sets.write_text(json.dumps([list(s) for s in workload.marginals]))
        arguments = [Path(checkout).resolve(), algorithm, plain, domain, sets, epsilon, DELTA, CPU_SECONDS]
        return told("pgm", "pgm_release.py", arguments, CLOCK_SECONDS)


def run(quick: bool) -> dict[str, Any]:
    """Each case: their error and time, ours, and the ratios; the time ratio is the larger of clock and processor."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    rows, start = [], time.monotonic()
    for algorithm, name, epsilon in CASES[:0] if quick else CASES:
        rows.append(case(algorithm, name, epsilon, time.monotonic() - start > 60 * MINUTES))
        print(rows[-1], flush=True)
    return {"cases": rows}


def case(algorithm: str, name: str, epsilon: float, late: bool) -> dict[str, Any]:
    """Ours, and the peer beside it where it ran."""
    table, file, domain = read(name, "add-remove")
    workload = workload_of(table, name)
    runs = [ours(table, workload, epsilon) for _ in range(5)]
    mine, drawn = middle_of(runs), rows_ratio(runs, table, [workload] * len(runs))
    sizes = {attribute: table.domain[attribute].size for attribute in table.domain.names}
    first = first_release(file, sizes, workload.marginals, epsilon, DELTA, len(runs))
    row = {"peer": algorithm.upper(), "table": name, "epsilon": epsilon}
    row |= {"our mean TV": mine["tv"], "our largest error": mine["max"]}
    row |= {"our seconds": first["seconds"], WARM: mine["seconds"]}
    row["our rows' mean TV"] = drawn * mine["tv"]
    try:
        if late:
            raise PeerAbsent(f"not begun: the suite had used its {MINUTES:g} minutes (RETICENT_PGM_MINUTES)")
        return row | compared(mine["tv"], first, peer(algorithm, file, domain, workload, epsilon))
    except PeerAbsent as reason:
        return row | {"skipped": str(reason)}


def compared(tv: float, first: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
    return {
        "its mean TV": theirs["tv"],
        "its largest error": theirs["max"],
        "its seconds": theirs["seconds"],
        "its GiB": theirs["GiB"],
        "its rows' mean TV": theirs["rows tv"],
        "TV ratio": tv / theirs["tv"],
        "time ratio": max(first["seconds"] / theirs["seconds"], first["cpu"] / theirs["cpu"]),
    }


def present(found: dict[str, Any]) -> list[Shown]:
    columns = {"peer": "", "table": "", "epsilon": "", "its mean TV": "", "our mean TV": "", "its largest error": ""}
    columns |= {"our largest error": "", "its seconds": "s", "our seconds": "s", WARM: "s", "its GiB": ""}
    columns |= {"its rows' mean TV": "", "our rows' mean TV": ""}
    return [
        (
            f"Add-remove, delta {DELTA:g}; all 35 triples of adult_reduced7, 64 random ones of adult_orig; one run of"
            " each peer with its own defaults, medians of five for ours. The time ratio is the larger of clock and"
            f" processor time; a peer is given {CPU_SECONDS} s of it."
        ),
        how_timed(found["cases"]),
        *beside("private-pgm", "pgm", found["cases"], _name, columns),
    ]


def _name(row: dict[str, Any]) -> str:
    return f"{row['peer']}, {row['table']}, epsilon {row['epsilon']:g}"
