"""One default release after another on generated tables: error, time and memory against epsilon, n, k and |U|.

Rows follow a chain in which every attribute mostly repeats the one before, so neighbouring attributes depend on each
other and distant ones hardly do. Each point is a process of its own.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import resource
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

import reticent as rt
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table

DELTA = 1e-9
VALUES = 4
REPEATED = 0.6
RUNS = 1
SLOPE_WITHIN = 0.25
"""Fits gain more where data is scarce, and an epsilon with a delta buys rho a little faster than its square."""


@dataclass(frozen=True)
class Point:
    """What one release is asked for."""

    epsilon: float = 1.0
    records: int = 100_000
    sets: int = 56
    attributes: int = 8

    @property
    def queries(self) -> int:
        return self.sets * VALUES**3


SWEEPS: dict[str, Sequence[Point]] = {
    "epsilon": [Point(epsilon=e) for e in (0.1, 0.3, 1.0, 3.0, 10.0)],
    "records": [Point(records=n) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)],
    "queries": [Point(sets=k) for k in (1, 3, 8, 20, 56)],
    "universe": [Point(attributes=d) for d in (4, 6, 8, 10, 14)],
}
QUICK = {name: SWEEPS[name][:2] for name in ("epsilon", "records")}


def table(point: Point) -> Table:
    generator = np.random.default_rng(11)
    skewed = 1 / np.arange(1, VALUES + 1)
    fresh = [generator.choice(VALUES, point.records, p=skewed / skewed.sum()) for _ in range(point.attributes)]
    columns = [fresh[0]]
    for column in fresh[1:]:
        columns.append(np.where(generator.random(point.records) < REPEATED, columns[-1], column))
    domain = rt.Domain({f"x{place}": VALUES for place in range(point.attributes)})
    codes = dict(zip(domain.names, columns, strict=True))
    return Table(Records.of_codes(domain, codes, np.ones(point.records, dtype=np.int64)), domain, records=point.records)


def measured(point: Point, runs: int) -> dict[str, float]:
    """Medians of what a release certifies, what is true, and what it takes."""
    private = table(point)
    triples = list(itertools.combinations(private.domain.names, 3))
    chosen = np.random.default_rng(3).permutation(len(triples))[: point.sets]
    workload = rt.Workload([rt.marginal(*triples[place]) for place in sorted(chosen)], domain=private.domain)
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        release = rt.release(private, workload, rt.Budget(epsilon=point.epsilon, delta=DELTA))
        seconds = time.perf_counter() - start
        scored = rt.evaluate(release, private, workload)
        found.append((release.certificates[0].bound, scored.max_error, scored.mean_total_variation or 0.0, seconds))
    names = ("certified", "largest error", "mean TV", "seconds")
    medians = map(statistics.median, zip(*found, strict=True))
    values: dict[str, float] = dict(zip(names, medians, strict=True))
    values["missed"] = float(sum(largest > certified for certified, largest, _, _ in found))
    return values | {"peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def run(quick: bool) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {}
    for name, points in (QUICK if quick else SWEEPS).items():
        found[name] = []
        for point in points:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as alone:
                values = alone.submit(measured, point, RUNS).result()
            found[name].append({name: _at(name, point), **values, "runs": RUNS})
            print(name, found[name][-1], flush=True)
    return found


def _at(name: str, point: Point) -> float:
    return float(VALUES) ** point.attributes if name == "universe" else float(getattr(point, name))


def slope(rows: list[dict[str, float]], x: str, y: str) -> float:
    return float(np.polyfit(np.log([row[x] for row in rows]), np.log([row[y] for row in rows]), 1)[0])


LABELS = {"epsilon": "epsilon", "records": "records n", "queries": "queries k", "universe": "possible records |U|"}
EXPECTED = {
    "epsilon": "Expected: half the error at twice the budget (dashed).",
    "records": "Expected: noise is counted in records, so the error falls as one over n (dashed).",
    "queries": "Expected: the budget is divided, so errors grow, far slower than in proportion to k.",
    "universe": "Expected: error follows what is measured, not |U|; time follows the hypothesis that holds it.",
}


def present(found: dict[str, Any]) -> list[Shown]:
    base = Point()
    setting = f"The default algorithm on generated tables. Where not varied: epsilon {base.epsilon:g}, delta {DELTA:g}"
    setting += f", {base.records:,} records, {base.sets} triples of {base.attributes} attributes with {VALUES} values."
    shown: list[Shown] = [setting]
    for name in ("epsilon", "records"):
        value = slope(found[name], name, "certified")
        shown.append(Claim(f"slope of the certified error in {name}", value, expected=-1, within=SLOPE_WITHIN))
    shown.append(_misses([row for rows in found.values() for row in rows]))
    errors = ("certified", "largest error", "mean TV")
    columns = {**dict.fromkeys(errors, ""), "seconds": "s", "peak GiB": "GiB"}
    for name, rows in found.items():
        lines = {"slope -1": _line(rows, name)} if name in ("epsilon", "records") else {}
        series = {error: [(row[name], row[error]) for row in rows] for error in errors}
        title = f"Error against {LABELS[name]}"
        shown.append(Plot(name, title, LABELS[name], "error", series, lines=lines, log="xy", expected=EXPECTED[name]))
    takes = {
        LABELS[name]: [(row[name] / rows[0][name], row["seconds"]) for row in rows] for name, rows in found.items()
    }
    grown = "Expected: time follows cells and measured sets, not epsilon."
    times = Plot("seconds", "Time of one release", "times the smallest", "seconds", takes, log="xy", expected=grown)
    grids = [
        Grid(f"By {LABELS[name]}", {name: "", **columns}, [_kept(row) for row in rows]) for name, rows in found.items()
    ]
    return [*shown, times, *grids]


def _kept(row: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name not in ("missed", "runs")}


def _misses(rows: list[dict[str, float]]) -> Claim:
    """A bound at confidence 0.95 may fail one time in twenty; so many runs fail more often than this by bad luck alone
    one time in a hundred."""
    runs = int(sum(row["runs"] for row in rows))
    most = float(binom.ppf(0.99, runs, 0.05)) / runs
    missed = sum(row["missed"] for row in rows) / runs
    return Claim(f"share of {runs} releases that err more than they certified at 0.95", missed, at_most=most)


def _line(rows: list[dict[str, float]], x: str) -> list[tuple[float, float]]:
    middle = math.exp(statistics.fmean(math.log(row["certified"] * row[x]) for row in rows))
    return [(row[x], middle / row[x]) for row in (rows[0], rows[-1])]
