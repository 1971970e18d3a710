"""How long a paid call takes must not depend on rows: every verb takes the same steps on neighbouring tables.

Counted, not timed: the sequence of all bytecode instructions of the library, on pairs of neighbours that drive solvers
to their extremes. Noise is replaced by public numbers, because what follows it is a function of released values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import reticent
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import OTHER_STATISTICS, SCORES, Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.linear_scores import LargestError, LinearScores
from reticent.kernel.mechanisms.noise import Gaussian
from reticent.kernel.minimizers import families as minimizers_module
from reticent.kernel.minimizers import phased
from reticent.kernel.minimizers import solvers as minimizer_steps
from reticent.kernel.minimizers.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.minimizers.families import MINIMIZERS, Minimizer, RidgeGLM
from reticent.kernel.numeric_sums import BinOffsets, ClippedSums
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts
from reticent.kernel.statistics import (
    STATISTICS,
    AnswerErrors,
    BlockCounts,
    CellScores,
    ConjunctionScores,
    GroupCounts,
    LinearCount,
    MarginalCounts,
    MaxError,
    PartitionCounts,
)
from reticent.kernel.table import Table
from reticent.losses.losses import ConvexLoss, Hinge, Huber, Logistic, MeanVector, Ridge, Squared
from reticent.losses.solver import minimum
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.distribution import WHOLE, Distribution, Questions
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Residual, count
from reticent.queries.predicate import col
from reticent.queries.scalars import ScalarQueries
from reticent.queries.workload import Workload

SOURCE = str(Path(reticent.__file__).parent)
DOMAIN = Domain({"a": 3, "b": 2, "y": 2})
RECORDS = 12

Row = tuple[int, int, int]
LOSSES: list[ConvexLoss] = [
    Logistic(features=["a", "b"], label="y", radius=4),
    Logistic(features=["b"], label="y", radius=2, ridge=0.2),
    Hinge(features=["a", "b"], label="y", radius=2, width=0.2),
    Huber(features=["a"], label="y", radius=1, width=0.1),
    Squared(features=["a", "b"], label="y", radius=1.5),
    Ridge(features=["a"], label="y", ridge=0.1, radius=2),
    MeanVector(features=["a", "b"]),
    Hinge(features=["b"], label="y", radius=1, width=0),
]
SEPARABLE: list[Row] = [(0, 0, 0)] * 6 + [(2, 1, 1)] * 6
"""No finite minimiser without a ball; one record of the wrong label makes one."""
EXTREMES: list[tuple[list[Row], list[Row]]] = [
    (SEPARABLE, [*SEPARABLE[:-1], (2, 1, 0)]),
    ([(0, 0, 0)] * RECORDS, [(0, 0, 0)] * (RECORDS - 1) + [(2, 1, 1)]),
    ([(i % 3, i % 2, i // 6) for i in range(RECORDS)], [(i % 3, i % 2, min(i, 10) // 6) for i in range(RECORDS)]),
]
REMOVED: list[tuple[list[Row], list[Row]]] = [
    (SEPARABLE, SEPARABLE[:-1]),
    ([(0, 0, 0)], []),
    ([(2, 1, 1)] * RECORDS, [(2, 1, 1)] * (RECORDS + 1)),
]
PAIRS = [*(("replace-one", pair) for pair in EXTREMES), *(("add-remove", pair) for pair in REMOVED)]


def source(rows: list[Row]) -> Records:
    """Distinct records with their weights, as sources load them."""
    distinct = sorted(set(rows))
    codes = np.array(distinct, dtype=np.int64).reshape(-1, 3)
    weights = np.array([rows.count(row) for row in distinct], dtype=np.int64)
    return Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes.T, strict=True)), weights)


@contextmanager
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """All instructions of the library that run inside: their number, and a hash of their order."""
    number = order = 0
    own: dict[CodeType, bool] = {}

    def within(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal number, order
        if event == "opcode":
            number += 1
            order = hash((order, frame.f_lasti))
            return within
        code = frame.f_code
        if code not in own:
            own[code] = code.co_filename.startswith(SOURCE)
        if not own[code]:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return within

    before = sys.gettrace()
    sys.settrace(within)
    try:
        yield lambda: (number, order)
    finally:
        sys.settrace(before)


def steps(call: Callable[[Records], object], rows: list[Row]) -> tuple[int, int]:
    held = source(rows)
    call(held)  # what is computed once and kept (prices, designs) is none of the second run's
    held = source(rows)
    with traced() as taken:
        call(held)
    return taken()


def statistics() -> list[Any]:
    size = RECORDS
    everything = [("a",), ("a", "b"), ("b", "y")]
    guesses = tuple(np.full(DOMAIN.shape_of(s), size / DOMAIN.cells(s)) for s in everything)
    queries = (count(col("a") == 1), count((col("a") > 0) & (col("y") == 1)))
    pairs = Conjunctions(DOMAIN, np.array([[0, 1], [1, 2], [0, 2]]), np.array([[1, 1], [0, 1], [2, 0]]))
    listed = ScalarQueries(Workload([Marginal(("a", "b")), *queries]), DOMAIN)
    asked = Questions(DOMAIN, Distribution("mixed", (("a",), ("b", "y"))))
    scores = tuple((loss, np.zeros(loss.on(DOMAIN).dimension), loss.on(DOMAIN).scale) for loss in LOSSES[:4:3])
    return [
        LinearCount(queries[1], DOMAIN),
        MarginalCounts(Marginal(("a", "y")), DOMAIN),
        GroupCounts(Groups(("a",), col("b") == 1), DOMAIN),
        BlockCounts(("a", "y"), (2, 1), DOMAIN),
        PartitionCounts(queries[1:], DOMAIN),
        PartitionCounts(queries, DOMAIN),
        ResidualCounts(Residual(("a", "y")), DOMAIN),
        *(MaxError(kind, tuple(everything), guesses) for kind in ("cells", "boxes", "predicates")),
        AnswerErrors(queries, np.array([3.0, 2.0]), DOMAIN),
        ClippedSums(Groups((), col("b") == 1, "a"), DOMAIN),
        ClippedSums(Groups(("y",), col("b") == 1, "a"), DOMAIN),
        LinearScores(listed, np.zeros(listed.size)),
        LargestError(listed, np.full(listed.size, 2.0)),
        ErrorQuantile(asked, tuple(np.zeros(DOMAIN.shape_of(s)) for s in asked.sets), WHOLE // 2),
        CellScores(sets=tuple(everything), offsets=tuple(-g for g in guesses)),
        ConjunctionScores(conjunctions=pairs, offsets=np.zeros(3)),
        ExcessRisks(*(tuple(part) for part in zip(*scores, strict=True)), DOMAIN, float(size)),  # pyright: ignore
        *(
            ExcessRisk(
                (loss,),
                (np.zeros(loss.on(DOMAIN).dimension),),
                (loss.on(DOMAIN).scale,),
                DOMAIN,
                float(size),
                hidden=0.0 if np.isfinite(loss.on(DOMAIN).smoothness) else 0.25,
            )
            for loss in LOSSES
        ),
    ]


def check_statistics() -> None:
    """`measure`, `select` and `exceeds`."""
    for neighbours, pair in PAIRS:
        for statistic in statistics():
            left, right = (steps(lambda s, q=statistic: q.evaluate(s, 1), rows) for rows in pair)
            assert left == right, (type(statistic).__name__, neighbours, left[0], right[0])


def test_every_statistic_of_the_kernel_is_counted() -> None:
    """`BinOffsets` reads what `ClippedSums` reads, and subtracts."""
    counted = {type(statistic) for statistic in statistics()}
    assert {*STATISTICS, *OTHER_STATISTICS, *SCORES} - counted == {BinOffsets}


def declared(neighbours: str) -> Iterator[Minimizer]:
    for kind in MINIMIZERS:
        several = kind is phased.PhasedERM
        for loss in LOSSES[-2:] if several else LOSSES:
            try:
                # a price that buys several phases
                yield kind(loss, DOMAIN, neighbours=neighbours, records=RECORDS, rho=1 if several else 0.01)
            except QueryError:
                continue


def check_minimizers() -> None:
    """`minimize`: what is drawn is replaced by a public vector, so that every later step starts from the same."""

    def drawn(values: np.ndarray, noise: Gaussian) -> np.ndarray:
        return np.full(np.shape(values), 0.25)

    with pytest.MonkeyPatch.context() as patch:
        for place in (minimizers_module, phased):
            patch.setattr(place, "noisy", drawn)
        # drawn before the first compiled round
        patch.setattr(Gaussian, "release", lambda self, counts, grid=1: np.asarray(counts) + grid // 4)
        for neighbours, pair in PAIRS:
            for minimizer in declared(neighbours):
                left, right = (steps(lambda s, m=minimizer: m.release(m.fetch(s, 1)), rows) for rows in pair)
                assert left == right, (minimizer.describe(), neighbours, left[0], right[0])


@pytest.mark.parametrize("check", [check_statistics, check_minimizers])
@pytest.mark.parametrize("listed", [0, minimizer_steps.LISTED], ids=["plain", "compiled"])
def test_neighbours_take_the_same_steps(
    check: Callable[[], None], listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the plain loop every step is seen; compiled descent takes a number of steps that it is given."""
    monkeypatch.setattr(minimizer_steps, "LISTED", listed)
    check()


def test_a_public_amount_of_work_is_refused_before_it_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(source(SEPARABLE), DOMAIN, records=RECORDS)
    ledger = Ledger.memory(Budget(rho=100), table.identity)
    curator = Curator(table, ledger)
    loss = LOSSES[0]
    audit = ExcessRisk((loss,), (np.zeros(loss.on(DOMAIN).dimension),), (loss.on(DOMAIN).scale,), DOMAIN, RECORDS)
    fit = RidgeGLM(loss, DOMAIN, neighbours="replace-one", records=RECORDS, rho=0.1)
    paid = curator.minimize(fit, key="before")
    spent, worked = ledger.spent, curator.worked
    assert worked == fit.work > 0
    monkeypatch.setattr(minimizer_steps, "MOST_WORK", 10)
    for refused in (lambda: curator.minimize(fit), lambda: curator.measure([audit], Gaussian(1))):
        with pytest.raises(QueryError, match="cells in all of its steps"):
            refused()
    assert (ledger.spent, curator.worked) == (spent, worked)
    again = curator.minimize(fit, key="before")
    assert again.values[0].tobytes() == paid.values[0].tobytes()


def _early_exit(risk: Any, descent: minimizer_steps.Descent) -> np.ndarray:
    """What the library did once: Newton's method, and the guaranteed one where that fails."""
    theta, gap = minimum(risk, radius=descent.radius)
    return theta if gap <= 1e-9 else minimizer_steps.guaranteed_minimum(risk, descent)


def _located_early(risk: Any, shape: minimizer_steps.Shape, distance: float) -> np.ndarray:
    theta = np.zeros(risk.problem.dimension)
    for _ in range(shape.to_distance(distance).steps):
        there = minimizer_steps.into_ball(theta - risk.gradient(theta) / shape.smoothness, shape.radius)
        if np.linalg.norm(there - theta) < 1e-9:
            return there
        theta = there
    return theta


def _counted_truth(neighbours: str, weight: int, person_grid: int, records: Fraction) -> float:
    return max(1.0, weight / (person_grid * float(records)))


BUGS: list[tuple[str, Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = [
    (
        "an audit accepts Newton's minimum",
        lambda p: p.setattr("reticent.kernel.minimizers.excess_risk.guaranteed_minimum", _early_exit),
        check_statistics,
    ),
    (
        "a solver stops when it no longer moves",
        lambda p: p.setattr(minimizers_module, "located_minimum", _located_early),
        check_minimizers,
    ),
    (
        "steps for the true number of records",
        lambda p: p.setattr(minimizers_module, "weight_class", _counted_truth),
        check_minimizers,
    ),
]


@pytest.mark.parametrize(("plant", "check"), [b[1:] for b in BUGS], ids=[b[0] for b in BUGS])
def test_planted_bugs_turn_red(plant: Callable[[pytest.MonkeyPatch], None], check: Callable[[], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimizer_steps, "LISTED", 0)
        plant(patch)
        with pytest.raises(AssertionError):
            check()
