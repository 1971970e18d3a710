"""The default release beside linear baselines on tables of many shapes: it should lose nowhere.

Each cell of the grid is a table, a workload and an epsilon. Baselines are those of `linear.py`: plain Gaussian noise
with least-squares consistency, ResidualPlanner's allocation with the same reconstruction, and the product of noisy
one-ways. Scores are the mean total variation over the workload's marginals and the largest error of a cell; medians
over runs, of which cells that take little time have more.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from math import exp, inf, log
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.grid_tables import Case, cases, workload
from benchmarks.linear import Set, noisy_product, plain_gaussian, residual_planner
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.accounting import NANO
from reticent.kernel.table import Table
from reticent.knowledge.publications import composing

DELTA = 1e-9
QUICK_RUNS = 1
RUNS = {3.0: 15, 30.0: 5, inf: 3}
"""Runs of a cell by the processor seconds that its releases take at most."""
TV_MARK, MAX_MARK, PRODUCT_MARK, MEAN_MARK = 1.1, 1.25, 1.4, 0.8


def score(answers: Mapping[Set, np.ndarray], truth: Mapping[Set, np.ndarray], records: float) -> tuple[float, float]:
    """Mean total variation and the largest error."""
    distances = [np.abs(answers[names] - truth[names] / records) for names in truth]
    return statistics.mean(float(d.sum()) / 2 for d in distances), max(float(d.max()) for d in distances)


def wanted_runs(seconds: list[float]) -> int:
    """Of a cell whose releases took so many processor seconds so far."""
    return next(runs for most, runs in RUNS.items() if not seconds or statistics.median(seconds) <= most)


def compared(table: Table, order: int, epsilon: float, most_runs: int) -> dict[str, Any]:
    """Median scores of ours and of the baselines, and what our fits said."""
    source, domain = table._source, table.domain
    asked = workload(domain, order)
    sets = [domain.canonical(names) for names in asked.marginals]
    records = float(source.total())
    truth = dict(zip(sets, (np.asarray(m, dtype=np.float64) for m in source.marginals(sets)), strict=True))
    singles = {name: np.asarray(source.marginal((name,)), dtype=np.float64) for name in domain.names}
    sizes, budget = dict(zip(domain.names, domain.shape, strict=True)), rt.Budget(epsilon=epsilon, delta=DELTA)
    rho = composing(budget).limit / NANO  # plain noise is Gaussian too: both sides compose it exactly where it can be
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "plain": [], "planner": [], "product": []}
    seconds: list[float] = []
    unconverged, misfit = 0, 0.0
    while len(seconds) < min(most_runs, wanted_runs(seconds)):
        generator = np.random.default_rng(len(seconds))
        found["plain"].append(score(plain_gaussian(truth, sizes, rho, generator), truth, records))
        found["planner"].append(score(residual_planner(truth, sizes, rho, generator), truth, records))
        found["product"].append(score(noisy_product(singles, sets, rho, generator), truth, records))
        start = time.process_time()
        release = rt.release(table, asked, budget)
        seconds.append(time.process_time() - start)
        answers = dict(zip(sets, release.hypothesis.marginals(sets), strict=True))
        found["ours"].append(score(answers, truth, records))
        unconverged += int("not" in str(release.notes.get("fit", "")))
        misfit = max(misfit, float(release.notes.get("misfit", 0.0)))
    tv = {name: statistics.median(s[0] for s in scores) for name, scores in found.items()}
    largest = {name: statistics.median(s[1] for s in scores) for name, scores in found.items()}
    return {
        "TV": tv["ours"],
        "over plain": tv["ours"] / tv["plain"],
        "over planner": tv["ours"] / tv["planner"],
        "over product": tv["ours"] / tv["product"],
        "max": largest["ours"],
        "max over plain": largest["ours"] / largest["plain"],
        "max over planner": largest["ours"] / largest["planner"],
        "misfit": misfit,
        "unconverged": unconverged,
        "runs": len(seconds),
        "cpu": statistics.median(seconds),
    }


def run(quick: bool) -> dict[str, Any]:
    """Every cell, printed as it comes; misses stay."""
    most_runs = QUICK_RUNS if quick else max(RUNS.values())
    rows = [row for case in cases(quick) for row in rows_of(case, most_runs)]
    over = [row[name] for row in rows for name in ("over plain", "over planner")]
    return {"cells": rows, "geometric mean": exp(statistics.mean(map(log, over)))}


def rows_of(case: Case, most_runs: int) -> list[dict[str, Any]]:
    """Of every epsilon of one table and workload."""
    name, make, order, epsilons = case
    table = make()
    rows = []
    for epsilon in epsilons:
        found = compared(table, order, epsilon, most_runs)
        rows.append({"table": name, "order": order, "epsilon": epsilon} | found)
        print({key: float(f"{v:.3g}") if isinstance(v, float) else v for key, v in rows[-1].items()}, flush=True)
    return rows


def present(found: dict[str, Any]) -> list[Shown]:
    cells = found["cells"]
    units = {"cpu": "s", "misfit": "sd"}
    return [
        (
            "Ratios are ours over the baseline's, medians of both; all runs at delta 1e-9, add-remove. A cell has"
            " 15 runs where a release takes up to 3 processor seconds, 5 up to 30 seconds, else 3."
        ),
        *(
            Claim(f"{row['table']}, order {row['order']}, epsilon {row['epsilon']:g}: {name}", row[name], at_most=mark)
            for row in cells
            for name, mark in (
                ("over plain", TV_MARK),
                ("over planner", TV_MARK),
                ("over product", PRODUCT_MARK),
                ("max over plain", MAX_MARK),
                ("max over planner", MAX_MARK),
            )
        ),
        Claim("geometric mean of total variation over both baselines", found["geometric mean"], at_most=MEAN_MARK),
        Plot(
            "grid-over-plain",
            "Total variation over that of plain noise",
            "epsilon",
            "ratio",
            log="xy",
            series={
                table: [(row["epsilon"], row["over plain"]) for row in cells if row["table"] == table]
                for table in dict.fromkeys(row["table"] for row in cells)
            },
            marks={"mark": TV_MARK},
            expected="Below the mark everywhere; lower where noise is large.",
        ),
        Grid("All cells", {name: units.get(name, "") for name in cells[0]}, cells),
    ]
