"""What the curator charges covers what its noise has to hide: on every pair of neighbours, for every unit and verb.

Other tests compare a mechanism with its price, and a statistic with its sensitivity. These look at what the curator
makes of both: the integers and the noise that meet in one call, and the charge that the ledger holds for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from tests.privacy import curator_checks, numeric_checks
from tests.privacy.minimizer_checks import transcript

from reticent.domain import Domain, Undeclared
from reticent.errors import QueryError
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.discovery.lines import NumberLine
from reticent.kernel.discovery.medians import POSITIONS, MedianScores, PositionRuns
from reticent.kernel.discovery.values import ValueCounts
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.linear_scores import LargestError, LinearScores
from reticent.kernel.mechanisms.base import Exponential, Gaussian, Laplace, Thresholded
from reticent.kernel.mechanisms.noise import Noise
from reticent.kernel.mechanisms.thresholded import tail_above
from reticent.kernel.minimizers.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.minimizers.families import MINIMIZERS, Minimizer, SufficientStatistics
from reticent.kernel.table import Table, person_grid
from reticent.losses.losses import Logistic, MeanVector, Squared
from reticent.queries.linear import Residual, Weighted, count, marginal
from reticent.queries.predicate import col
from reticent.queries.scalars import ScalarQueries
from reticent.queries.workload import Workload
from reticent.sources import open_undeclared

RELATIONS = ("replace-one", "add-remove")
UNITS = ("record", "person", "row")
MOST = 2
DECLARED = 3
LARGE = Budget(rho=10**5)
PURE = Budget(epsilon=10**5)
DOMAIN = curator_checks.DOMAIN
Rows = tuple[Any, ...]
CELLS = list(itertools.product(range(2), range(3)))
UNEVEN = [Gaussian(Fraction(5, 2)), Gaussian(7), Gaussian(3), Gaussian(11)]


class Met(NamedTuple):
    """Integers in units of 1/grid records, and the noise that was added to them."""

    values: np.ndarray
    noise: Noise
    grid: int


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[Met]:
    """What meets in `release`; the numbers are settled without noise."""
    seen: list[Met] = []

    def release(self: Noise, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        seen.append(Met(np.ravel(counts).astype(object), self, grid))
        return counts

    monkeypatch.setattr(Noise, "release", release)
    return seen


def source(domain: Domain, rows: Sequence[Rows], weight: int) -> Records:
    columns = {name: np.array([row[place] for row in rows], dtype=np.int64) for place, name in enumerate(domain.names)}
    return Records.of_codes(domain, columns, np.full(len(rows), weight, dtype=np.int64))


def curator(domain: Domain, unit: str, kind: str, rows: Sequence[Rows], budget: Budget = LARGE) -> Curator:
    """Persons have two rows of half a weight each; rows are those of one person and of one who stays."""
    records = DECLARED if kind == "replace-one" and unit != "row" else None
    weight = person_grid(records) // 2 if unit == "person" else 1
    numbers = domain is numeric_checks.DOMAIN
    held = numeric_checks.source(rows) if numbers else source(domain, rows, weight)
    facts: dict[str, Any] = {"records": records, "neighbours": kind, "unit": unit}
    table = Table(held, domain, **facts, most=MOST if unit == "row" else None)
    return Curator(table, Ledger.memory(budget, table.identity))


def pairs(unit: str, kind: str, cells: Sequence[Rows] = CELLS) -> Iterator[tuple[tuple[Rows, ...], tuple[Rows, ...]]]:
    """Two records stay; a third one, the two halves of a person, or up to two rows come, go, or are replaced."""
    sizes = {"record": (1,), "person": (2,), "row": range(MOST + 1)}[unit]
    units = [rows for size in sizes for rows in itertools.combinations_with_replacement(cells, size)]
    beside = (cells[1], cells[-2])
    for one in units:
        others = [()] if kind == "add-remove" else units
        yield from (((*beside, *one), (*beside, *other)) for other in others if other != one)


def told(one: Sequence[Met], other: Sequence[Met], *, pure: bool) -> float:
    """The loss of one call on this pair: pure epsilon of Laplace noise, or rho."""
    total = 0.0
    for here, there in zip(one, other, strict=True):
        assert (here.noise, here.grid) == (there.noise, there.grid), "noise that depends on rows"
        move = [abs(a - b) / here.grid for a, b in zip(here.values, there.values, strict=True)]
        scale = float(getattr(here.noise, "sigma", None) or getattr(here.noise, "scale", 0))
        total += sum(move) / scale if pure else sum(m * m for m in move) / (2 * scale**2)
    return total


def calls(domain: Domain, unit: str, kind: str) -> list[tuple[str, Callable[[Curator, type], Any]]]:
    """Every statistic that is measured, and residuals together."""
    listed: list[Any] = numeric_checks.statistics() if domain is numeric_checks.DOMAIN else measured()
    found = [(type(one).__name__, lambda held, of, one=one: held.measure([one], of(Fraction(9, 2)))) for one in listed]
    if domain is DOMAIN:
        residuals = [Residual(names) for names in (("a",), ("b",), ("a", "b"), ())]
        shared = [residual for residual in residuals if residual.names or kind == "add-remove" or unit == "row"]
        found.append(("residuals", lambda held, of: held.measure(shared, UNEVEN[: len(shared)])))
        both = [marginal("a"), count(col("b") == 1)]
        found.append(("batch", lambda held, of: held.measure(both, [of(3), of(8)])))
    return found


def measured() -> list[Any]:
    listed = [getattr(one, "groups", one) for one in curator_checks.statistics() if not curator_checks.is_scores(one)]
    queries = ScalarQueries(workload(), DOMAIN)
    guesses = np.random.default_rng(8).uniform(0, 3, queries.size)
    return [*listed, LargestError(queries, guesses), excess(ExcessRisk)]


def workload() -> Workload:
    half = Weighted({"a": [0.25, 1.0], "b": [0.0, 0.5, 1.0]})
    return Workload([marginal("b"), half, count((col("a") == 1) | (col("b") == 0))], weights=[1, 0.3, 0.7])


def excess(of: type[ExcessRisks]) -> ExcessRisks:
    losses = (Logistic(features=["b"], label="a", radius=2), MeanVector(features=["a", "b"]))
    problems = [loss.on(DOMAIN) for loss in losses]
    thetas = tuple(np.full(problem.dimension, 0.3 * problem.radius / problem.dimension) for problem in problems)
    return of(losses, thetas, tuple(problem.scale for problem in problems), DOMAIN, DECLARED)


NUMBERS = numeric_checks.DOMAIN
RAW: list[Rows] = [(None, 0), (-3.0, 1), (0.0, 0), (2.6, 1), (4.0, 0), (1e12, 1)]
KINDS = [
    (domain, unit, kind, of)
    for domain, unit, kind in itertools.product((DOMAIN, NUMBERS), UNITS, RELATIONS)
    for of in (Gaussian, Laplace)
    if domain is DOMAIN or unit != "person"
]


@pytest.mark.parametrize(
    ("domain", "unit", "kind", "of"), KINDS, ids=lambda value: getattr(value, "__name__", None) or str(value)[:12]
)
def test_a_measurement_is_charged_what_it_tells(domain: Domain, unit: str, kind: str, of: type, met: list[Met]) -> None:
    """No pair of neighbours is told more than was charged, and some pair of some statistic nearly as much."""
    pure = of is Laplace
    listed = list(pairs(unit, kind, CELLS if domain is DOMAIN else RAW))
    for name, call in calls(domain, unit, kind):
        if pure and name == "residuals":
            continue
        known: dict[Any, tuple[list[Met], int]] = {}
        for rows in {rows for pair in listed for rows in pair}:
            held = curator(domain, unit, kind, rows, PURE if pure else LARGE)
            met.clear()
            call(held, of)
            known[rows] = (list(met), held.budget.limit - held.remaining)
        (charge,) = {charge for _, charge in known.values()}
        worst = max(told(known[one][0], known[other][0], pure=pure) for one, other in listed)
        assert worst * NANO <= charge * (1 + 1e-9), f"{name} tells {worst:g} and is charged {charge / NANO:g}"
        if name in ("MarginalCounts", "batch", "residuals") and (unit, kind) != ("row", "replace-one"):
            assert worst * NANO >= 0.98 * charge, f"{name} tells {worst:g} and is charged {charge / NANO:g}"


@pytest.mark.parametrize("kind", RELATIONS)
@pytest.mark.parametrize("unit", UNITS)
def test_a_selection_is_drawn_for_what_its_scores_move(unit: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw costs its price only if no score moves further than the sensitivity by which the softmax divides."""
    seen: list[tuple[np.ndarray, Fraction]] = []

    def draw(self: Exponential, scores: np.ndarray, sensitivity: Any, grid: int = 1, draws: int = 1) -> np.ndarray:
        seen.append((scores.astype(object), Fraction(sensitivity) * grid))
        return np.zeros(draws, dtype=np.int64)

    monkeypatch.setattr(Exponential, "draw", draw)
    queries = ScalarQueries(workload(), DOMAIN)
    scores = [one for one in curator_checks.statistics() if curator_checks.is_scores(one)]
    listed = list(pairs(unit, kind))
    for one in [*scores, LinearScores(queries, np.zeros(queries.size), weights=queries.weights), excess(ExcessRisks)]:
        known = {}
        for rows in {rows for pair in listed for rows in pair}:
            held = curator(DOMAIN, unit, kind, rows)
            held.select(one, Exponential(Fraction(1, 2)), draws=3)
            assert held.budget.limit - held.remaining == 3 * NANO // 32
            known[rows] = seen[-1]
        worst = max(int(np.abs(known[x][0] - known[y][0]).max()) for x, y in listed)
        (allowed,) = {allowed for _, allowed in known.values()}
        assert worst <= allowed, f"{type(one).__name__} moves by {worst}, drawn for {allowed}"


WHOLE = NumberLine().size * POSITIONS


def opened(kind: str, values: Sequence[Any], column: str, budget: Budget) -> Curator:
    frame = pd.DataFrame({column: pd.Series(values, dtype=float if column == "x" else object)})
    domain = Domain({column: Undeclared("number" if column == "x" else "text")})
    table = open_undeclared(frame, domain, neighbours=kind)  # pyright: ignore[reportArgumentType]
    return Curator(table, Ledger.memory(budget, table.identity))


def segments(runs: PositionRuns, starts: np.ndarray, slope: float) -> np.ndarray:
    """Of the candidates from each start on, the logarithm of the chance, up to the copies that both tables share."""
    logits = slope * runs.scores
    total = np.log((runs.copies * np.exp(logits - logits.max())).sum()) + logits.max()
    return logits[np.searchsorted(runs.first, starts, side="right") - 1] - total


@pytest.mark.parametrize("kind", RELATIONS)
def test_a_median_is_charged_what_it_tells(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[PositionRuns], float]] = []

    def draw(self: MedianScores, runs: Any, mechanism: Exponential, sensitivity: Any, grid: int) -> np.ndarray:
        seen.append((runs, float(mechanism.epsilon / (2 * sensitivity.l1 * grid))))
        return np.zeros(1, dtype=np.int64)

    monkeypatch.setattr(MedianScores, "draw", draw)
    left, right = [-5.0] * 8, [5.0] * 8
    tables = ((*left, *right), (*left[1:], *right, 5.0) if kind == "replace-one" else (*left, *right, 5.0))
    found = []
    for values in tables:
        held = opened(kind, values, "x", PURE)
        held.select_medians(MedianScores("x", NumberLine(), ((0, WHOLE),)), Exponential(Fraction(3, 4)))
        found.append((*seen[-1], held.budget.limit - held.remaining))
    starts = np.unique(np.concatenate([runs[0].first for runs, _, _ in found]))
    one, other = (segments(runs[0], starts, slope) for runs, slope, _ in found)
    worst, charge = float(np.abs(one - other).max()), found[0][2]
    assert 0.9 * charge <= worst * NANO <= charge


@pytest.mark.parametrize("kind", RELATIONS)
@pytest.mark.parametrize("most", [1, 2])
def test_values_are_charged_what_they_tell(kind: str, most: int, met: list[Met]) -> None:
    """A person has two texts that others have, or two of its own: the first cost rho, the second delta.

    Replaced persons pay twice the delta (docs/proofs/values.md, Claim 4).
    """
    budget = Budget(epsilon=4, delta=1e-2, approximate=5e-3)
    who, texts = ["p", "p", "q", "q", "r", "r", "s", "s"], ["a", "b", "a", "b", "c", "d", "c", "d"]
    mechanism, replaced = Thresholded(4, 20, most), kind == "replace-one"
    chance = 1 - (1 - float(tail_above(Fraction(4), 19))) ** most
    moved = ["a", "b", "a", "b", "c", "d", "a", "b"] if replaced else texts[:6]
    held = []
    for there in (texts, moved):
        frame = pd.DataFrame({"who": who[: len(there)], "t": there})
        facts: dict[str, Any] = {"neighbours": kind, "person": "who"} | ({"records": 4} if replaced else {})
        table = open_undeclared(frame, Domain(t=Undeclared("text")), **facts)
        held.append(Curator(table, Ledger.memory(budget, table.identity)))
        held[-1].select_values(ValueCounts("t", most), mechanism)
    one, other = met
    if most == 2:
        assert (one.values.tolist(), other.values.tolist()) == (
            [2, 2, 2, 2],
            [3, 3, 1, 1] if replaced else [2, 2, 1, 1],
        )
        charge = budget.limit - held[0].remaining
        assert told([one], [other], pure=False) * NANO == pytest.approx(charge, abs=1)
    assert one.values.sum() == 4 * most
    assert float(held[0]._ledger.delta) == pytest.approx(chance * (2 if replaced else 1))
    with pytest.raises(QueryError, match="use the same number"):
        held[0].select_values(ValueCounts("t", most), Thresholded(4, 20, most + 1))


THREE = Domain({"a": 3, "b": 2, "y": 2})


def minimizers(kind: str) -> Iterator[Minimizer]:
    losses = [
        MeanVector(features=["a", "b"]),
        Logistic(features=["a", "b"], label="y", radius=2),
        Squared(features=["a"], label="y"),
    ]
    for of, loss in itertools.product(MINIMIZERS, losses):
        try:
            yield of(loss, THREE, neighbours=kind, records=DECLARED, rho=Fraction(1, 2))
        except QueryError:
            continue  # of another family


@pytest.mark.parametrize("kind", RELATIONS)
def test_a_minimizer_is_charged_what_it_tells(kind: str) -> None:
    cells = [(0, 0, 0), (2, 1, 1), (2, 0, 1), (1, 1, 0)]
    listed = list(pairs("record", kind, cells))
    kinds = set()
    for minimizer in minimizers(kind):
        known = {}
        for rows in {rows for pair in listed for rows in pair}:
            held, seen = curator(THREE, "record", kind, rows), list[tuple[np.ndarray, Gaussian]]()
            with transcript(seen):
                held.minimize(minimizer)
            known[rows] = (seen, held.budget.limit - held.remaining)
        worst = max(
            sum(
                float(np.square(a - b).sum()) / (2 * float(noise.sigma) ** 2)
                for (a, noise), (b, _) in zip(known[one][0], known[other][0], strict=True)
            )
            for one, other in listed
        )
        (charge,) = {charge for _, charge in known.values()}
        assert worst * NANO <= charge * (1 + 1e-9), f"{type(minimizer).__name__} tells {worst:g}"
        kinds.add(type(minimizer))
    assert kinds == set(MINIMIZERS)


def test_a_minimizer_of_another_relation_unit_or_class_is_refused() -> None:
    class Cheap(SufficientStatistics):
        pass

    loss = Squared(features=["a"], label="y")
    facts: dict[str, Any] = {"neighbours": "replace-one", "records": DECLARED, "rho": Fraction(1, 2)}
    rows = [(0, 0, 0), (1, 0, 1), (2, 1, 1)]
    held = curator(THREE, "record", "replace-one", rows)
    refused = {
        "another domain or neighbour relation": SufficientStatistics(
            loss, THREE, **facts | {"neighbours": "add-remove"}
        ),
        "divides by 2": SufficientStatistics(loss, THREE, **facts | {"records": 2}),
        "not a minimiser of the kernel": Cheap(loss, THREE, **facts),
    }
    for message, minimizer in refused.items():
        with pytest.raises(QueryError, match=message):
            held.minimize(minimizer)
    of_rows = curator(THREE, "row", "replace-one", rows)
    with pytest.raises(QueryError, match="rows='bounded'"):
        of_rows.minimize(SufficientStatistics(loss, THREE, **facts))
    assert held.remaining == of_rows.remaining == LARGE.limit
