"""Do intervals for the population cover it? Tables are drawn from a known one, released, and asked about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import reticent as rt
from benchmarks import nist
from benchmarks.populations import Truth, adult, american, generated, skewed
from benchmarks.release import DATA, DELTA, read
from benchmarks.shown import Claim, Grid, Plot, Shown
from benchmarks.survey import survey_coverage
from reticent.errors import QueryError
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.replicates import Replicates, drawn_table
from reticent.knowledge.population import effective_wilson, spread

CONFIDENCE = 0.95
CELLS, RARE_CELLS = 140, 30
LEAST = 10
"""Records that a cell has in the population on average; below, not even raw rows have a normal interval, and cells are
counted apart."""
BOOTSTRAPS = 40
"""Draws behind the intervals of those who have rows and take them for a sample."""
RARE = "rare cell"
ESTIMATED, RAW, NAIVE = MODES = ("estimated", "raw sample", "synthetic rows taken for real")
CERTIFIED_CELLS = 24
"""Cells whose certified intervals are asked for, each by itself."""
WORST = 0.1
PUBLISHED = ("adult", "nist")
"""The sources of real tables, over which the mean coverage has a mark of its own."""
REPLICATES = 12
SURVEYED, SURVEYS = (48_842, 20_000), 20
"""Records of the tables that are surveyed, and tables of each size."""
FULL, CORES = 80, 2
"""Replicates that are timed, and the cores that their processor time is divided by: other work runs beside them."""
MINUTES = {"adult_reduced7": 2.0, "national2019": 5.0}


class Source(NamedTuple):
    """Where tables come from."""

    truth: Callable[[int], Truth]
    """By the number of the trial."""
    same: bool = True
    """Whether every trial has the same population, so that a statistic is the same in all of them."""
    tables: int = 100
    """So many are drawn from it."""


class Case(NamedTuple):
    """A source and the epsilon its tables are released with."""

    source: Source
    epsilon: float


EPSILONS = (0.2, 1.0, 10.0)
SOURCES = {
    "adult": Source(cache(lambda _: adult())),
    "nist": Source(cache(lambda _: american())),
    "skewed": Source(partial(skewed, records=20_000), same=False, tables=20),
    "small": Source(partial(generated, records=1_000), same=False, tables=20),
}
CASES = {f"{name}, epsilon {e:g}": Case(source, e) for name, source in SOURCES.items() for e in EPSILONS}


class Statistics(NamedTuple):
    """What is asked of every distribution: cells of the workload, means by group, deciles, coefficients."""

    truth: Truth
    cells: Sequence[tuple[tuple[str, ...], tuple[int, ...]]]
    rare: int
    """So many of the cells, the last ones, are rare."""

    @property
    def kinds(self) -> np.ndarray:
        domain = self.truth.domain
        means = 1 + sum(domain[name].size for name in self.truth.groups)
        slopes = 2 + sum(domain[name].size - 1 for name in self.truth.features)
        often = len(self.cells) - self.rare
        parts = {"count": often, RARE: self.rare, "mean": means, "quantile": 9, "coefficient": slopes}
        return np.repeat(list(parts), list(parts.values()))

    @property
    def names(self) -> list[str]:
        """What to call each statistic in the list of the worst."""
        truth, domain = self.truth, self.truth.domain
        number, (two, many) = domain.names[-1], truth.features
        cells = [" ".join(f"{n}={c}" for n, c in zip(names, cell, strict=True)) for names, cell in self.cells]
        means = [f"mean {number}", *(f"mean {number} if {g}={c}" for g in truth.groups for c in range(domain[g].size))]
        slopes = [f"{truth.label} on {each}" for each in ("1", number)]
        slopes += [f"{truth.label} on {each}={c}" for each in (two, many) for c in range(1, domain[each].size)]
        return [*cells, *means, *(f"decile {d} of {number}" for d in range(1, 10)), *slopes]

    def of(self, distribution: Any) -> np.ndarray:
        sets = dict.fromkeys(
            [*(names for names, _ in self.cells), *(self._with_number(g) for g in self.truth.groups), self._model]
        )
        held = dict(zip(sets, distribution.marginals(list(sets)), strict=True))
        counts = [float(held[names][cell]) for names, cell in self.cells]
        return np.array([*counts, *self._means(held), *self._deciles(held), *self._slopes(held[self._model])])

    @property
    def _model(self) -> tuple[str, ...]:
        domain = self.truth.domain
        return domain.canonical((*self.truth.features, self.truth.label, domain.names[-1]))

    def _with_number(self, name: str) -> tuple[str, ...]:
        return self.truth.domain.canonical((name, self.truth.domain.names[-1]))

    def _means(self, held: Any) -> list[float]:
        numbers = np.arange(self.truth.domain.shape[-1])
        found = []
        for name in self.truth.groups:
            joint = held[self._with_number(name)]
            found += list((joint @ numbers) / np.maximum(joint.sum(axis=1), 1e-12))
        return [float(held[self._with_number(self.truth.groups[0])].sum(axis=0) @ numbers), *found]

    def _deciles(self, held: Any) -> list[float]:
        ends = np.cumsum(held[self._with_number(self.truth.groups[0])].sum(axis=0))
        return [float(np.interp(share, [0.0, *ends], np.arange(len(ends) + 1))) for share in np.arange(1, 10) / 10]

    def _slopes(self, joint: np.ndarray) -> np.ndarray:
        """Least squares of the label on the number and both features, by the weights of all cells."""
        domain = self.truth.domain
        codes = dict(zip(self._model, np.indices(joint.shape).reshape(joint.ndim, -1), strict=True))
        columns = [np.ones(joint.size), codes[domain.names[-1]] / 10.0]
        for name in self.truth.features:
            columns += [(codes[name] == c).astype(float) for c in range(1, domain[name].size)]
        features, weights = np.stack(columns, axis=1), np.maximum(joint.ravel(), 0.0)
        gram = features.T @ (features * weights[:, None]) + 1e-12 * np.eye(features.shape[1])
        return np.linalg.solve(gram, features.T @ (weights * codes[self.truth.label]))


def questions(truth: Truth, generator: np.random.Generator) -> Statistics:
    """Cells of the workload's triples, uniformly among those with enough records, then among the others not empty."""
    whole = truth.distribution
    often, rare = [], []
    for names in combinations(truth.domain.names, 3):
        marginal = whole.marginal(names) * truth.records
        for cell in np.argwhere(marginal > 0.5):
            (often if marginal[tuple(cell)] >= LEAST else rare).append((names, tuple(map(int, cell))))
    chosen, fewer = [], min(RARE_CELLS, len(rare))
    for cells, count in ((often, min(CELLS, len(often))), (rare, fewer)):
        chosen += [cells[i] for i in sorted(generator.choice(len(cells), size=count, replace=False))]
    return Statistics(truth, chosen, fewer)


def bootstrap(asked: Statistics, distribution: Any, records: int, generator: np.random.Generator) -> np.ndarray:
    """Standard errors by drawing tables of the same size again."""
    draws = [asked.of(drawn_table(distribution, records, generator)) for _ in range(BOOTSTRAPS)]
    return np.std(draws, axis=0, ddof=1)


def trial(asked: Statistics, epsilon: float, replicates: int, seed: int) -> dict[str, Any]:
    """One table from the population: coverage and widths of each kind of interval."""
    generator, truth = np.random.default_rng(seed), asked.truth
    domain, records = truth.domain, truth.records
    sample, table = truth.sample(generator)
    release = rt.release(table, rt.marginals(domain, 3), rt.Budget(epsilon=epsilon, delta=DELTA))
    start = time.process_time()
    release = release.replicates(replicates, seed=seed)
    seconds = time.process_time() - start
    assert isinstance(release.replicated, Replicates)
    target, value = asked.of(truth.distribution), asked.of(release.hypothesis)
    low, high = estimated(asked, value, np.array([asked.of(one) for one in release.replicated]), records)
    synthetic = release.synthesize(records, seed=seed)
    fake = np.zeros(domain.shape)
    np.add.at(fake, tuple(synthetic[name].to_numpy() for name in domain.names), 1)
    naive = DenseHypothesis(domain, fake)
    found = {ESTIMATED: (low, high)}
    for name, held in ((RAW, sample), (NAIVE, naive)):
        centre, reach = asked.of(held), 1.96 * bootstrap(asked, held, records, generator)
        found[name] = centre - reach, centre + reach
    widths = {name: (b - a) / 2 for name, (a, b) in found.items()}
    places = np.linspace(0, len(asked.cells) - 1, min(CERTIFIED_CELLS, len(asked.cells))).astype(int)
    low, high = certified(release, asked, places)
    with np.errstate(divide="ignore"):
        wide = (high - low) / 2 / widths[RAW][places]
    return {
        "kinds": asked.kinds,
        "covered": {name: (a - 1e-12 <= target) & (target <= b + 1e-12) for name, (a, b) in found.items()},
        "widths": widths,
        "certified": (low <= target[places]) & (target[places] <= high),
        "certified widths": wide[np.isfinite(wide)],
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


def certified(release: rt.Release, asked: Statistics, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the certified intervals of some cells."""
    ends = []
    for names, cell in (asked.cells[place] for place in places):
        where = rt.col(names[0]) == cell[0]
        for name, code in zip(names[1:], cell[1:], strict=True):
            where &= rt.col(name) == code
        try:
            found = release.ask(rt.count(where)).population(CONFIDENCE, mode="certified")
        except QueryError:
            # At small budgets nothing certifies a cell: then all shares are possible.
            ends.append((0.0, 1.0))
            continue
        ends.append((found.low, found.high))
    low, high = np.array(ends).T
    return low, high


def coverage(case: Case, populations: int, replicates: int) -> dict[str, Any]:
    """Over several tables drawn from the same population, or from one each."""
    source = case.source
    asked = [questions(source.truth(n), np.random.default_rng(1 if source.same else n)) for n in range(populations)]
    trials = [trial(each, case.epsilon, replicates, seed) for seed, each in enumerate(asked)]
    kinds = np.concatenate([t["kinds"] for t in trials])
    usual = kinds != RARE
    rows = []
    raw = np.concatenate([t["widths"][RAW] for t in trials])
    for name in MODES:
        covered = np.concatenate([t["covered"][name] for t in trials])
        row = {"intervals": name, "all": float(covered[usual].mean())}
        row |= {kind: float(covered[kinds == kind].mean()) for kind in dict.fromkeys(kinds.tolist())}
        widths = np.concatenate([t["widths"][name] for t in trials])
        wide = usual & (raw > 0)
        rows.append(row | {"width over raw": float(np.median(widths[wide] / raw[wide]))})
    by_table = [float(t["covered"][ESTIMATED][t["kinds"] != RARE].mean()) for t in trials]
    found = {
        "coverage": rows,
        "standard error": float(np.std(by_table, ddof=1) / np.sqrt(populations)),
        "certified": float(np.mean(np.concatenate([t["certified"] for t in trials]))),
        "certified width over raw": float(np.median(np.concatenate([t["certified widths"] for t in trials]))),
        "seconds": float(np.median([t["seconds"] for t in trials])),
        "populations": populations,
        "replicates": replicates,
        "statistics": len(asked[0].kinds),
    }
    return found | (_worst(asked[0], trials) if source.same else {})


def _worst(asked: Statistics, trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The weak tail: the tenth of the statistics that are covered least, and the names of the last of them."""
    usual = np.flatnonzero(asked.kinds != RARE)
    covered = np.mean([t["covered"]["estimated"] for t in trials], axis=0)[usual]
    order = np.argsort(covered, kind="stable")
    tenth = order[: max(1, round(WORST * len(usual)))]
    listed = [{"statistic": asked.names[usual[i]], "covered": float(covered[i])} for i in order[:5]]
    return {"worst tenth": float(covered[tenth].mean()), "worst": listed}


def times() -> list[dict[str, Any]]:
    """Processor time of the replicates of whole tables, and what it makes on two cores."""
    adult_table, _, _ = read("adult_reduced7")
    people = rt.Table.of(pa.Table.from_pandas(nist.people(), preserve_index=False), nist.domain_of())
    rows = []
    for name, table, order in (("adult_reduced7", adult_table, 3), ("national2019", people, 2)):
        release = rt.release(table, rt.marginals(table.domain, order), rt.Budget(epsilon=1, delta=DELTA))
        start, wall = time.process_time(), time.perf_counter()
        release.replicates(FULL)
        spent = time.process_time() - start
        whole = spent / CORES
        rows.append(
            {"table": name, "replicates": FULL, "wall": time.perf_counter() - wall, "processor": spent, "whole": whole}
        )
        print(rows[-1], flush=True)
    return rows


def run(quick: bool) -> dict[str, Any]:
    """Coverage of nominal 95% intervals over the tables of every source, or over a few."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    found: dict[str, Any] = {}
    if not quick:
        found["survey"] = {f"{n:,} records": survey_coverage(adult(), n, SURVEYS) for n in SURVEYED}
        print(found["survey"], flush=True)
        found["times"] = times()
    for name, case in list(CASES.items())[: 1 if quick else None]:
        found[name] = coverage(case, *((3, 10) if quick else (case.source.tables, REPLICATES)))
        print(name, found[name], flush=True)
    return found


def present(found: dict[str, Any]) -> list[Shown]:
    cases = {name: case for name, case in found.items() if name in CASES}
    first = next(iter(cases.values()))
    lead = (
        "Tables are drawn from a known population and released with all triples as workload (add-remove, delta"
        f" {DELTA:g}). `adult` and `nist` are five columns of adult_reduced7 and national2019, taken for populations,"
        " without rules for what is impossible, tables of their size; `skewed` are log-linear models with rare codes"
        " and strong dependence, 20,000 records, `small` others of random order, 1,000 records, a new one for each"
        f" table. About {first['statistics']} questions about the population: cells of at least {LEAST} records, means"
        " by group, deciles, coefficients of least squares. Rarer cells are counted apart, not in `all`. Certified"
        f" intervals of {CERTIFIED_CELLS} cells. {first['replicates']} replicates each, nominal 95%. Tables: "
        + "; ".join(f"{name}: {case['populations']}" for name, case in cases.items())
        + "."
    )
    absent = [name for name in (*CASES, "survey", "times") if name not in found]
    if absent:
        lead += f" Not measured in this run: {'; '.join(absent)}."
    shown: list[Shown] = [lead, *_average(cases)]
    for name, case in cases.items():
        rows = {row["intervals"]: row for row in case["coverage"]}
        shown += [
            Claim(f"coverage of estimated intervals, {name}", rows[ESTIMATED]["all"], expected=0.95, within=0.02),
            Claim(f"coverage of certified intervals, {name}", case["certified"], at_least=0.95),
            Claim(f"coverage of synthetic rows taken for real, {name}", rows[NAIVE]["all"], at_most=0.93),
        ]
    for name, case in cases.items():
        shown.append(Grid(f"Coverage, {name}", dict.fromkeys(case["coverage"][0], ""), case["coverage"]))
        if "worst" in case:
            shown.append(f"The worst tenth of the statistics: {case['worst tenth']:.3f} on average.")
            shown.append(Grid(f"Covered least, {name}", dict.fromkeys(case["worst"][0], ""), case["worst"]))
    return [*shown, *_plots(cases), *_survey(found.get("survey", {})), *_times(found.get("times", []))]


def _average(cases: dict[str, Any]) -> list[Shown]:
    """Over all cases, and over those of real tables."""
    by_case = {name: {row["intervals"]: row for row in case["coverage"]} for name, case in cases.items()}
    rows = list(by_case.values())
    real = [row[ESTIMATED]["all"] for name, row in by_case.items() if name.startswith(PUBLISHED)]
    mean, slopes, naive = (
        float(np.mean([row[mode][kind] for row in rows]))
        for mode, kind in ((ESTIMATED, "all"), (ESTIMATED, "coefficient"), (NAIVE, "all"))
    )
    of_real = f"coverage of estimated intervals, mean of {len(real)} cases of real tables"
    return [
        Claim(of_real, float(np.mean(real)), expected=0.95, within=0.02),
        Claim(f"coverage of estimated intervals, mean of {len(rows)} cases", mean, expected=0.95, within=0.02),
        Claim(f"coverage of coefficients, mean of {len(rows)} cases", slopes, expected=0.95, within=0.02),
        Claim(f"coverage of synthetic rows taken for real, mean of {len(rows)} cases", naive, at_most=0.93),
    ]


def _plots(cases: dict[str, Any]) -> list[Shown]:
    rows = {name: {row["intervals"]: row for row in case["coverage"]} for name, case in cases.items()}
    covered = {mode: [(name, row[mode]["all"]) for name, row in rows.items()] for mode in MODES}
    covered["certified"] = [(name, case["certified"]) for name, case in cases.items()]
    widths = {ESTIMATED: [(name, row[ESTIMATED]["width over raw"]) for name, row in rows.items()]}
    widths["certified"] = [(name, case["certified width over raw"]) for name, case in cases.items()]
    return [
        Plot(
            "coverage",
            "Coverage of nominal 95% intervals",
            "",
            "coverage",
            covered,
            marks={"nominal": 0.95},
            expected="Estimated at 0.95, certified above it, rows taken for real below it.",
        ),
        Plot(
            "width",
            "Median width over that of raw rows",
            "",
            "times",
            widths,
            marks={"raw rows": 1.0},
            expected="Near one where the noise is small beside the sampling of records; certified ones wider.",
        ),
    ]


def _survey(survey: dict[str, Any]) -> list[Shown]:
    shown: list[Shown] = []
    for size, part in survey.items():
        if "coefficients" not in part:
            shown.append(f"Survey, {size}: {part['skipped']}.")
            continue
        rows, by = part["coefficients"], part["by"]
        mean = float(np.mean([row["covered"] for row in rows]))
        told = (
            f"Rows with replicate weights, {size}: logistic regression of income on age, sex and being married by"
            f" {by}, {part['tables']} tables of Adult, {part['replicates']} replicate weights, epsilon 1; weights of"
            f" {part['refused']} more were refused as too uneven. Equal rows are one row with the sum of their weights."
            " The error of the estimates themselves is told beside the width: no honest interval is narrower."
        )
        if "difference" in part:
            told += f" Python's ten lines differ from svyglm by {part['difference']:.1g} standard errors at most."
        shown += [
            told,
            Claim(f"coverage of intervals from replicate weights, {size}", mean, expected=0.95, within=0.02),
            Claim(f"their standard errors over those of the raw rows, median, {size}", part["width"], at_most=1.5),
            Grid(f"Coefficients from replicate weights, {size}", dict.fromkeys(rows[0], ""), rows),
        ]
    return shown


def _times(rows: list[dict[str, Any]]) -> list[Shown]:
    if not rows:
        return []
    units = {"table": "", "replicates": "", "wall": "s", "processor": "s", "whole": "s"}
    claims = [
        Claim(f"{FULL} replicates of {r['table']} on two cores", r["whole"], at_most=60 * MINUTES[r["table"]], unit="s")
        for r in rows
    ]
    made = rows[0]["replicates"]
    told = f"Times of {FULL} replicates are told from the processor time of {made}, by a table, over two cores."
    return [told, *claims, Grid("Time of replicates", units, rows)]
