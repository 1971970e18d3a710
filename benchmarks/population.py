"""Do intervals for the population cover it? Tables are drawn from a known one, released, and asked about it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import reticent as rt
from benchmarks.release import DATA, DELTA, read
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.domain import Domain
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.replicates import Replicates, drawn_table
from reticent.knowledge.population import effective_wilson, spread

CONFIDENCE = 0.95
COLUMNS = ("marital-status", "race", "sex", "income>50K", "age")
"""Of adult_reduced7: small enough for many populations."""
CELLS, RARE_CELLS, GROUPS = 140, 30, ("sex", "race", "marital-status")
LEAST = 10
"""Records that a cell has in the population on average; below, not even raw rows have a normal interval, and cells are
counted apart."""
BOOTSTRAPS = 40
"""Draws behind the intervals of those who have rows and take them for a sample."""
RARE = "rare cell"
MODES = ("estimated", "raw sample", "synthetic rows taken for real")
CASES = {"epsilon 1": 1.0, "epsilon 0.2": 0.2}
WORST = 0.1
POPULATIONS, REPLICATES = 20, 40
"""20 replicates took 6 s of processor time at epsilon 1 (median of 8 populations); a whole run has not been timed."""


class Statistics(NamedTuple):
    """What is asked of every distribution: cells of the workload, means by group, deciles, coefficients."""

    domain: Domain
    cells: Sequence[tuple[tuple[str, ...], tuple[int, ...]]]
    """The last `RARE_CELLS` are rare."""

    @property
    def kinds(self) -> np.ndarray:
        means = 1 + sum(self.domain[name].size for name in GROUPS)
        slopes = 2 + self.domain["sex"].size - 1 + self.domain["marital-status"].size - 1
        parts = {"count": CELLS, RARE: RARE_CELLS, "mean": means, "quantile": 9, "coefficient": slopes}
        return np.repeat(list(parts), list(parts.values()))

    def of(self, distribution: Any) -> np.ndarray:
        held: dict[tuple[str, ...], np.ndarray] = {}
        sets = dict.fromkeys(
            [*(names for names, _ in self.cells), *(self._with_age(name) for name in GROUPS), self._model]
        )
        held = dict(zip(sets, distribution.marginals(list(sets)), strict=True))
        counts = [float(held[names][cell]) for names, cell in self.cells]
        return np.array([*counts, *self._means(held), *self._deciles(held), *self._slopes(held[self._model])])

    @property
    def _model(self) -> tuple[str, ...]:
        return self.domain.canonical(("marital-status", "sex", "income>50K", "age"))

    def _with_age(self, name: str) -> tuple[str, ...]:
        return self.domain.canonical((name, "age"))

    def _means(self, held: Any) -> list[float]:
        ages = np.arange(self.domain["age"].size)
        found = []
        for name in GROUPS:
            joint = held[self._with_age(name)]  # age is the domain's last attribute
            found += list((joint @ ages) / np.maximum(joint.sum(axis=1), 1e-12))
        return [float(held[self._with_age("sex")].sum(axis=0) @ ages), *found]

    def _deciles(self, held: Any) -> list[float]:
        ends = np.cumsum(held[self._with_age("sex")].sum(axis=0))
        return [float(np.interp(share, [0.0, *ends], np.arange(len(ends) + 1))) for share in np.arange(1, 10) / 10]

    def _slopes(self, joint: np.ndarray) -> np.ndarray:
        """Least squares of income on age, sex and marital status, by the weights of all cells."""
        codes = dict(zip(self._model, np.indices(joint.shape).reshape(joint.ndim, -1), strict=True))
        columns = [np.ones(joint.size), codes["age"] / 10.0, codes["sex"].astype(float)]
        columns += [(codes["marital-status"] == c).astype(float) for c in range(1, self.domain["marital-status"].size)]
        features, weights = np.stack(columns, axis=1), np.maximum(joint.ravel(), 0.0)
        gram = features.T @ (features * weights[:, None]) + 1e-12 * np.eye(features.shape[1])
        return np.linalg.solve(gram, features.T @ (weights * codes["income>50K"]))


def population() -> tuple[Domain, np.ndarray]:
    """The columns of a real table, and its counts in every cell."""
    table, file, _ = read("adult_reduced7")
    from pyarrow import csv

    rows = csv.read_csv(pa.input_stream(str(file), compression="gzip"))
    domain = Domain({name: table.domain[name].size for name in COLUMNS})
    counts = np.zeros(domain.shape)
    np.add.at(counts, tuple(rows[name].to_numpy() for name in COLUMNS), 1)
    return domain, counts


def chosen_cells(domain: Domain, counts: np.ndarray, generator: np.random.Generator) -> list[Any]:
    """Of the workload's triples, uniformly among the cells with enough records, then among the others not empty."""
    truth, total = DenseHypothesis(domain, counts), counts.sum()
    often, rare = [], []
    for names in combinations(domain.names, 3):
        marginal = truth.marginal(names) * total
        for cell in np.argwhere(marginal > 0.5):
            (often if marginal[tuple(cell)] >= LEAST else rare).append((names, tuple(map(int, cell))))
    chosen = []
    for cells, count in ((often, CELLS), (rare, RARE_CELLS)):
        chosen += [cells[i] for i in sorted(generator.choice(len(cells), size=count, replace=False))]
    return chosen


def bootstrap(asked: Statistics, distribution: Any, records: int, generator: np.random.Generator) -> np.ndarray:
    """Standard errors by drawing tables of the same size again."""
    draws = [asked.of(drawn_table(distribution, records, generator)) for _ in range(BOOTSTRAPS)]
    return np.std(draws, axis=0, ddof=1)


def trial(asked: Statistics, counts: np.ndarray, epsilon: float, replicates: int, seed: int) -> dict[str, Any]:
    """One table from the population: coverage and widths of each kind of interval."""
    generator, domain = np.random.default_rng(seed), asked.domain
    truth = DenseHypothesis(domain, counts)
    records = int(counts.sum())
    sample = drawn_table(truth, records, generator)
    cells = np.rint(sample.marginal(domain.names) * records).astype(int)
    rows = np.repeat(np.argwhere(cells >= 0), cells.ravel(), axis=0)
    table = rt.Table.of(pa.table(dict(zip(domain.names, rows.T, strict=True))), domain, neighbours="add-remove")
    release = rt.release(table, rt.marginals(domain, 3), rt.Budget(epsilon=epsilon, delta=DELTA))
    start = time.process_time()
    release = release.replicates(replicates, seed=seed)
    seconds = time.process_time() - start
    assert isinstance(release.replicated, Replicates)
    target, value = asked.of(truth), asked.of(release.hypothesis)
    low, high = estimated(asked, value, np.array([asked.of(one) for one in release.replicated]), records)
    synthetic = release.synthesize(records, seed=seed)
    codes = np.stack([synthetic[name].to_numpy() for name in domain.names])
    fake = np.zeros(domain.shape)
    np.add.at(fake, tuple(codes), 1)
    naive = DenseHypothesis(domain, fake)
    found = {"estimated": (low, high)}
    for name, held in (("raw sample", sample), ("synthetic rows taken for real", naive)):
        centre, reach = asked.of(held), 1.96 * bootstrap(asked, held, records, generator)
        found[name] = centre - reach, centre + reach
    return {
        "covered": {name: (a - 1e-12 <= target) & (target <= b + 1e-12) for name, (a, b) in found.items()},
        "widths": {name: (b - a) / 2 for name, (a, b) in found.items()},
        "certified": certified(release, asked, target),
        "seconds": seconds,
    }


def estimated(
    asked: Statistics, value: np.ndarray, replicates: np.ndarray, records: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals that `answer.population` gives: Wilson's for cells, Student's for the others."""
    error, reach = spread(replicates, value, CONFIDENCE)
    low, high = value - reach, value + reach
    cells = len(asked.cells)
    low[:cells], high[:cells] = effective_wilson(value[:cells], error[:cells], len(replicates), records, CONFIDENCE)
    return low, high


def certified(release: rt.Release, asked: Statistics, target: np.ndarray) -> np.ndarray:
    """Whether certified intervals of the cells hold."""
    held = []
    for place, (names, cell) in enumerate(asked.cells):
        where = rt.col(names[0]) == cell[0]
        for name, code in zip(names[1:], cell[1:], strict=True):
            where &= rt.col(name) == code
        found = release.ask(rt.count(where)).population(CONFIDENCE, mode="certified")
        held.append(found.low <= target[place] <= found.high)
    return np.array(held)


def coverage(epsilon: float, populations: int, replicates: int) -> dict[str, Any]:
    """Over several tables drawn from the same population."""
    domain, counts = population()
    asked = Statistics(domain, chosen_cells(domain, counts, np.random.default_rng(1)))
    trials = [trial(asked, counts, epsilon, replicates, seed) for seed in range(populations)]
    kinds = asked.kinds
    rows = []
    widths = {name: np.median([t["widths"][name] for t in trials], axis=0) for name in MODES}
    usual = kinds != RARE
    for name in MODES:
        by_statistic = np.mean([t["covered"][name] for t in trials], axis=0)
        row = {"intervals": name, "all": float(by_statistic[usual].mean())}
        row |= {kind: float(by_statistic[kinds == kind].mean()) for kind in dict.fromkeys(kinds)}
        worst = np.sort(by_statistic[usual])[: max(1, round(WORST * usual.sum()))]
        width = np.median(widths[name][usual] / widths["raw sample"][usual])
        rows.append(row | {"worst tenth": float(worst.mean()), "width over raw": float(width)})
    return {
        "coverage": rows,
        "certified": float(np.mean([t["certified"] for t in trials])),
        "seconds": float(np.median([t["seconds"] for t in trials])),
        "populations": populations,
        "replicates": replicates,
        "statistics": len(kinds),
    }


def run(quick: bool) -> dict[str, Any]:
    """Coverage of nominal 95% intervals over `POPULATIONS` tables, or a few."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    populations, replicates = (3, 20) if quick else (POPULATIONS, REPLICATES)
    found = {}
    for name, epsilon in CASES.items():
        found[name] = coverage(epsilon, populations, replicates)
        print(name, found[name], flush=True)
        if quick:
            break
    return found


def present(found: dict[str, Any]) -> list[Shown]:
    cases = {name: case for name, case in found.items() if name in CASES}
    first = next(iter(cases.values()))
    lead = (
        f"Tables of as many records as adult_reduced7 are drawn from its own rows ({', '.join(COLUMNS)}), released with"
        f" all triples as workload (add-remove, delta {DELTA:g}) and asked {first['statistics']} questions about the"
        f" population: cells of at least {LEAST} records, means by group, deciles, coefficients of least squares. Rarer"
        f" cells are counted apart, not in `all`. {first['populations']} populations, nominal 95%."
    )
    shown: list[Shown] = [lead]
    bars: dict[str, list[tuple[str, float]]] = {mode: [] for mode in MODES}
    for name, case in cases.items():
        rows = {row["intervals"]: row for row in case["coverage"]}
        shown += [
            Claim(f"coverage of estimated intervals, {name}", rows["estimated"]["all"], expected=0.95, within=0.02),
            Claim(f"coverage of certified intervals, {name}", case["certified"], at_least=0.95),
            Claim(f"coverage of synthetic rows taken for real, {name}", rows[MODES[2]]["all"], at_most=0.93),
        ]
        for mode in MODES:
            bars[mode].append((name, rows[mode]["all"]))
        shown.append(Grid(f"Coverage, {name}", dict.fromkeys(case["coverage"][0], ""), case["coverage"]))
    expected = "Estimated at 0.95; rows taken for real below it."
    plot = Plot(
        "coverage",
        "Coverage of nominal 95% intervals",
        "",
        "coverage",
        bars,
        marks={"nominal": 0.95},
        expected=expected,
    )
    return [*shown, plot]
