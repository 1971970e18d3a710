"""Constants of plans and fits that no derivation fixes: the errors of releases with other values of each.

Every constant is set to smaller and larger values in turn, and tables on which it decides something are released. The
mean error over all that is asked, over that with the constant's own value, is the geometric mean over runs, whose noise
is not seeded. A constant is sound if no other value is clearly better on its tables taken together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.pieces import Pieces
from benchmarks.shown import Claim, Grid, Shown
from reticent.domain import Domain, Integer
from reticent.hypotheses.fitting import (
    consistent,
    forest,
    halves,
    histogram,
    levels,
    loglinear,
    near_queries,
    pooling,
    posterior,
    prior,
    smoothness,
)
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.workload import Workload
from reticent.releases import adaptive, allocation, direct, pure_plan, residual_plan, rounds

DELTA, SEED = 1e-9, 20261119
OWN_RUNS = 2
"""Times the runs of other values, with a constant's own value: all other values are compared with it."""
MARK = 1.1
Asked = tuple[Table, Workload]


@dataclass(frozen=True)
class Case:
    """A generated table, what is asked of it, and the budget; `runs` grows where single releases vary more."""

    make: Callable[[np.random.Generator], Asked]
    epsilon: float
    runs: int
    pure: bool = False

    def error(self, run: int) -> float:
        table, workload = self.make(np.random.default_rng(SEED + run))
        budget = rt.Budget(epsilon=self.epsilon) if self.pure else rt.Budget(epsilon=self.epsilon, delta=DELTA)
        return rt.evaluate(rt.release(table, workload, budget, progress=False), table, workload).mean_error


def table_of(domain: Domain, shares: np.ndarray, records: int, generator: np.random.Generator) -> Table:
    """Records drawn from a distribution over all cells."""
    counts = generator.multinomial(records, shares.ravel())
    found = np.flatnonzero(counts)
    columns = dict(zip(domain.names, np.unravel_index(found, domain.shape), strict=True))
    return Table(Records.of_codes(domain, columns, counts[found].astype(np.int64)), domain, neighbours="add-remove")


def domain_of(*sizes: int) -> Domain:
    return Domain({f"c{i}": size for i, size in enumerate(sizes)})


def interactions(shape: Sequence[int], order: int, scale: float, generator: np.random.Generator) -> np.ndarray:
    """A random log-linear model with all interactions up to an order."""
    logits = np.zeros(shape)
    for among in (combo for k in range(1, order + 1) for combo in combinations(range(len(shape)), k)):
        logits = logits + generator.normal(0, scale, [size if axis in among else 1 for axis, size in enumerate(shape)])
    weights = np.exp(logits)
    return weights / weights.sum()


def sparse(generator: np.random.Generator) -> Asked:
    domain = domain_of(3, 5, 6, 8, 10)
    shares = generator.dirichlet(np.full(domain.size, 0.01))
    return table_of(domain, shares, 3_000, generator), rt.marginals(domain, 2)


def dense(generator: np.random.Generator) -> Asked:
    domain = domain_of(4, 4, 4, 4, 4)
    return table_of(domain, interactions(domain.shape, 3, 0.4, generator), 20_000, generator), rt.marginals(domain, 3)


def unequal(generator: np.random.Generator) -> Asked:
    domain = domain_of(2, 3, 8, 30, 40)
    shares = interactions(domain.shape, 2, 0.5, generator)
    sets = [*combinations(domain.names, 1), *combinations(domain.names, 2), domain.names[:3]]
    return table_of(domain, shares, 20_000, generator), Workload([rt.marginal(*s) for s in sets], domain=domain)


def unasked(generator: np.random.Generator) -> Asked:
    domain = domain_of(3, 4, 5, 6, 7)
    shares = interactions(domain.shape, 2, 0.5, generator)
    return table_of(domain, shares, 5_000, generator), Workload([rt.marginal("c0", "c1", "c2")], domain=domain)


def tiny(generator: np.random.Generator) -> Asked:
    domain = domain_of(4, 4, 4)
    return table_of(domain, interactions(domain.shape, 2, 0.5, generator), 60, generator), rt.marginals(domain, 2)


def small(generator: np.random.Generator) -> Asked:
    domain = domain_of(5, 5, 5)
    shares = generator.dirichlet(np.full(domain.size, 0.1))
    return table_of(domain, shares, 2_000, generator), rt.marginals(domain, 2)


def blocks(generator: np.random.Generator) -> Asked:
    domain = Domain({"c0": Integer(256)})
    heights = np.repeat(generator.dirichlet(np.full(16, 0.4)), 16) / 16
    spikes = 0.3 * generator.dirichlet(np.full(256, 0.02))
    return table_of(domain, 0.7 * heights + spikes, 10_000, generator), rt.ranges("c0", domain=domain)


def slope(generator: np.random.Generator) -> Asked:
    domain = Domain({"c0": Integer(256)})
    shares = np.exp(-np.linspace(0, generator.uniform(2, 6), 256))
    return table_of(domain, shares / shares.sum(), 10_000, generator), rt.prefixes("c0", domain=domain)


def waves(generator: np.random.Generator) -> Asked:
    domain = Domain({"c0": Integer(60), "c1": 4})
    phases = generator.uniform(0, 2 * np.pi, 4)
    weights = np.exp(np.cos(np.linspace(0, 2 * np.pi, 60)[:, None] + phases))
    return table_of(domain, weights / weights.sum(), 5_000, generator), rt.marginals(domain, 2)


def nested(generator: np.random.Generator) -> Asked:
    domain = Domain({"c0": Integer(1000), "c1": 3})
    shares = np.outer(generator.dirichlet(np.full(1000, 0.3)), generator.dirichlet(np.full(3, 2.0)))
    counts = [rt.count(rt.col("c0") <= int(end)) for end in np.linspace(40, 960, 24)]
    return table_of(domain, shares, 20_000, generator), Workload(counts, domain=domain)


CASES = {
    "sparse pairs": Case(sparse, 1.0, runs=40),
    "dense triples": Case(dense, 0.5, runs=48),
    "unequal columns": Case(unequal, 0.5, runs=48),
    "columns not asked": Case(unasked, 0.5, runs=160),
    "tiny table": Case(tiny, 0.3, runs=400),
    "small universe": Case(small, 1.0, runs=160),
    "ranges of blocks": Case(blocks, 0.1, runs=240),
    "prefixes of a slope": Case(slope, 0.1, runs=240),
    "waves along an order": Case(waves, 0.5, runs=160),
    "nested counts": Case(nested, 0.5, runs=160),
    "sparse pairs, pure": Case(sparse, 1.0, pure=True, runs=80),
    "dense triples, pure": Case(dense, 1.0, pure=True, runs=48),
    "small universe, pure": Case(small, 1.0, pure=True, runs=160),
    "ranges of blocks, pure": Case(blocks, 0.3, pure=True, runs=240),
}
ROUNDS = ("sparse pairs", "dense triples", "unequal columns")
FITTED = ("sparse pairs", "dense triples", "unequal columns", "sparse pairs, pure", "dense triples, pure")
PURE = ("sparse pairs, pure", "dense triples, pure", "small universe, pure")
RANGES = ("ranges of blocks", "prefixes of a slope", "ranges of blocks, pure")


@dataclass(frozen=True)
class Constant:
    """A constant by its module and name, other values, and the tables on which it decides something."""

    module: ModuleType
    name: str
    others: tuple[Any, ...]
    cases: tuple[str, ...]
    also: tuple[ModuleType, ...] = ()
    """Modules that have imported it by name."""

    @property
    def label(self) -> str:
        return f"{self.module.__name__.removeprefix('reticent.')}.{self.name}"

    @property
    def own(self) -> Any:
        return getattr(self.module, self.name)

    @contextmanager
    def set_to(self, value: Any) -> Iterator[None]:
        modules, own = [self.module, *self.also], self.own
        try:
            for module in modules:
                setattr(module, self.name, value)
            yield
        finally:
            for module in modules:
                setattr(module, self.name, own)


CONSTANTS = (
    Constant(rounds, "ROUNDS", ((0.03, 0.3, 1.0), (0.2, 0.3, 1.0), (0.1, 0.2, 1.0), (0.1, 0.5, 1.0)), ROUNDS),
    Constant(rounds, "PURE_ROUNDS", ((0.025, 1.0), (0.1, 1.0)), PURE),
    Constant(rounds, "ORDER_GROWTH", (1.0, 4.0), (*ROUNDS, *PURE)),
    Constant(rounds, "SIZE_POWER", (0.2, 0.8), (*ROUNDS, *PURE)),
    Constant(rounds, "UNASKED_SHARE", (Fraction(1, 50), Fraction(2, 25)), ("columns not asked",)),
    Constant(allocation, "RAISED", (0.12, 0.5), ("unequal columns", "dense triples, pure"), (residual_plan,)),
    Constant(residual_plan, "LOWER_NOISE", (1.0, 4.0), ("unequal columns", "sparse pairs", "dense triples")),
    Constant(pure_plan, "TOLERATED", (1.02, 1.1), PURE),
    Constant(pure_plan, "PLAUSIBLE", (1.5, 6.0), PURE),
    Constant(direct, "SINGLES_SHARE", (Fraction(1, 50), Fraction(2, 25)), ("nested counts",)),
    Constant(adaptive, "HISTOGRAM_NOISE", (0.2, 0.8), ("small universe", "small universe, pure", "tiny table")),
    Constant(halves, "NEIGHBOURS", ((0, 1), (-1, 0, 1), (-2, -1, 0, 1, 2, 3)), RANGES),
    Constant(halves, "OTHERWISE", (0.01, 0.1), RANGES),
    Constant(halves, "UNSEEN_BLOCKS", (0.25, 1.0), RANGES),
    Constant(levels, "LEAST_KEPT", (0.003, 0.03), RANGES),
    Constant(pooling, "UNSEEN_SETS", (0.5, 2.0), ROUNDS),
    Constant(pooling, "UNSEEN_POWER", (2, 6), ROUNDS),
    Constant(pooling, "SHRINKING", (0.25, 1.0), FITTED, (loglinear,)),
    Constant(loglinear, "DEGREES", (1.0, 4.0), FITTED),
    Constant(prior, "LEAST_KEPT", (0.003, 0.03), FITTED, (consistent,)),
    Constant(forest, "RAISED", (2.0, 4.5), FITTED),
    Constant(forest, "APART", (1.0, 4.0), FITTED),
    Constant(posterior, "SCALES", ((0.25, 0.12, 0.05), (1.0, 0.5, 0.2)), ("tiny table",)),
    Constant(posterior, "OWN_SCALE", (0.05, 0.2), ("tiny table",)),
    Constant(posterior, "LOOSENESS", (0.35, 1.4), ("tiny table",)),
    Constant(histogram, "DROWNED", (0.5, 2.0), ("tiny table", "small universe")),
    Constant(histogram, "LEAST_KEPT", (0.01, 0.04), ("small universe", "small universe, pure")),
    Constant(smoothness, "CLEARLY", (2.0, 8.0), ("waves along an order",)),
    Constant(near_queries, "FAR", (1.5, 6.0), ("nested counts",), (loglinear,)),
    Constant(near_queries, "CLOSE", (0.25, 1.0), ("nested counts",), (loglinear,)),
)


def errors_of(name: str, times: int = 1) -> list[float]:
    case = CASES[name]
    return [case.error(run % case.runs) for run in range(times * case.runs)]


def over(found: Sequence[float], own: Sequence[float]) -> float:
    """The ratio of geometric means."""
    return math.exp(float(np.mean(np.log(found)) - np.mean(np.log(own))))


def run(quick: bool) -> dict[str, Any]:
    """Each constant with its own value and with the others; a suite that was stopped goes on where it was."""
    pieces, rows = Pieces("sensitivity", quick), []
    for constant in CONSTANTS[: 2 if quick else None]:
        own = {name: pieces.of(name, lambda name=name: errors_of(name, OWN_RUNS)) for name in constant.cases}
        for value in constant.others:
            with constant.set_to(value):
                found = {
                    name: pieces.of(f"{constant.label} {value} {name}", lambda name=name: errors_of(name))
                    for name in constant.cases
                }
            ratios = {name: over(found[name], own[name]) for name in constant.cases}
            mean = math.exp(float(np.mean(np.log(list(ratios.values())))))
            row = {"constant": constant.label, "own": str(constant.own), "other": str(value), "all tables": mean}
            rows.append(row | {"each": ratios})
            print(rows[-1], flush=True)
    pieces.end()
    return {"rows": rows}


def present(found: dict[str, Any]) -> list[Shown]:
    rows = found["rows"]
    best = min(rows, key=lambda row: row["all tables"])
    listed = [
        {key: row[key] for key in ("constant", "own", "other", "all tables")}
        | {"each table": ", ".join(f"{name} {ratio:.2f}" for name, ratio in row["each"].items())}
        for row in rows
    ]
    return [
        (
            "Each entry is the mean error of releases with another value over that with the constant's own: above 1 the"
            " own value is better. Single entries vary by a hundredth or two, because noise is not seeded."
        ),
        Claim(
            f"error with the own value over that with the best other value of any constant ({best['constant']},"
            f" {best['other']})",
            1 / best["all tables"],
            at_most=MARK,
        ),
        Grid("Mean error with other values, over that with the own", dict.fromkeys(listed[0], ""), listed),
    ]
