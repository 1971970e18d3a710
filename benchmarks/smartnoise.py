"""SmartNoise's own MWEM and AIM beside ours: same rows, neighbours (add-remove), budget, triples and score.

SmartNoise takes the number of records and the column ranges from the rows without charge; ours declares the ranges and
pays for the number.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

import reticent as rt
from benchmarks.beside import beside
from benchmarks.fresh import WARM, first_release, how_timed
from benchmarks.peers.environment import PeerAbsent, told
from benchmarks.shown import Shown

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult"
DELTA = 1e-9
EPSILON = 1.0
SECONDS = 900
CASES = (("mwem", 4), ("mwem", 5), ("aim", 7))
"""Which of its algorithms on how many of the seven attributes: unsplit MWEM takes over ten minutes on all of them."""


def rows_of(attributes: int) -> tuple[pd.DataFrame, rt.Domain]:
    """The attributes with the fewest values, in order of the file."""
    domain = rt.Domain.read(DATA / "adult_reduced7-domain.json")
    small = sorted(domain.names, key=lambda name: domain[name].size)[:attributes]
    names = [name for name in domain.names if name in small]
    rows = pd.read_csv(DATA / "adult_reduced7.csv.gz").reindex(columns=names)
    return rows, rt.Domain({name: domain[name] for name in names})


def ours(rows: pd.DataFrame, domain: rt.Domain, delta: float, runs: int) -> dict[str, float]:
    """Medians of mean total variation, largest error and seconds of warm runs in this process."""
    budget = rt.Budget(epsilon=EPSILON, delta=delta) if delta else rt.Budget(epsilon=EPSILON)
    table, workload = rt.Table.of(rows, domain, neighbours="add-remove"), rt.marginals(domain, 3)
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        release = rt.release(table, workload, budget)
        seconds = time.perf_counter() - start
        scored = rt.evaluate(release, table, workload)
        found.append((scored.mean_total_variation or 0.0, scored.max_error, seconds))
    return dict(zip(("tv", "max", "seconds"), map(statistics.median, zip(*found, strict=True)), strict=True))


def case(algorithm: str, attributes: int, runs: int) -> dict[str, Any]:
    rows, domain = rows_of(attributes)
    delta = DELTA if algorithm == "aim" else 0.0
    row: dict[str, Any] = {"peer": f"SmartNoise {algorithm.upper()}", "attributes": attributes, "delta": delta}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        rows.to_csv(file, index=False)
        mine, sizes = ours(rows, domain, delta, runs), {name: domain[name].size for name in domain.names}
        first = first_release(file, sizes, list(itertools.combinations(domain.names, 3)), EPSILON, delta, runs)
        row |= {"our mean TV": mine["tv"], "our largest error": mine["max"]}
        row |= {"our seconds": first["seconds"], WARM: mine["seconds"]}
        try:
            theirs = told("smartnoise", "smartnoise_release.py", [algorithm, file, EPSILON, delta], SECONDS)
        except PeerAbsent as reason:
            return row | {"skipped": str(reason)}
    row |= {"its mean TV": theirs["tv"], "its largest error": theirs["max"], "its seconds": theirs["seconds"]}
    return row | {"TV ratio": mine["tv"] / theirs["tv"], "time ratio": first["seconds"] / theirs["seconds"]}


def run(quick: bool) -> dict[str, Any]:
    """Each case: its error and time, ours, and the ratios."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    found = []
    for algorithm, attributes in itertools.islice(CASES, 1 if quick else None):
        found.append(case(algorithm, attributes, 1 if quick else 5))
        print(found[-1], flush=True)
    return {"cases": found}


def present(found: dict[str, Any]) -> list[Shown]:
    columns = {"peer": "", "attributes": "", "delta": "", "its mean TV": "", "our mean TV": "", "its largest error": ""}
    columns |= {"our largest error": "", "its seconds": "s", "our seconds": "s", WARM: "s"}
    return [
        "Epsilon 1, add-remove, all triples of the attributes with the fewest values; medians of five runs for ours.",
        how_timed(found["cases"]),
        *beside("SmartNoise", "smartnoise", found["cases"], _name, columns),
    ]


def _name(row: dict[str, Any]) -> str:
    return f"{row['peer']}, {row['attributes']} attributes"


if __name__ == "__main__":
    import sys

    run("--quick" in sys.argv)
