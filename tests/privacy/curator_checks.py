"""Plain checks of the curator: they pass on main and must raise AssertionError under each planted bug."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from reticent.domain import Domain
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts, joint_price
from reticent.kernel.statistics import (
    AnswerErrors,
    BlockCounts,
    CellScores,
    ConjunctionScores,
    GroupCounts,
    LinearCount,
    MarginalCounts,
    MaxError,
    PartitionCounts,
    Statistic,
)
from reticent.kernel.table import Table, exact_counts
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.distribution import WHOLE, Distribution, Questions
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Marginal, Residual, Weighted
from reticent.queries.predicate import col

DOMAIN = Domain({"a": 2, "b": 3})
BUDGET = Budget(rho=1)
RECORDS = 3
Row = tuple[int, int]


def table(rows: tuple[Row, ...], neighbours: str = "replace-one") -> Table:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 2)
    source = Records.of_codes(DOMAIN, {"a": codes[:, 0], "b": codes[:, 1]}, np.ones(len(rows), dtype=np.int64))
    declared = len(rows) if neighbours == "replace-one" else None
    return Table(source, DOMAIN, records=declared, neighbours=neighbours)  # pyright: ignore[reportArgumentType]


def curator(rows: tuple[Row, ...] = ((0, 0), (0, 1), (1, 2)), budget: Budget = BUDGET) -> tuple[Curator, Ledger]:
    private = table(rows)
    ledger = Ledger.memory(budget, private.identity)
    return Curator(private, ledger), ledger


def neighbours_of(kind: str) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    """Every pair of tiny neighbouring tables, up to the order of rows."""
    values = list(itertools.product(range(2), range(3)))
    for kept in itertools.combinations_with_replacement(values, RECORDS - 1):
        for first in values:
            if kind == "add-remove":
                yield (*kept, first), kept
            else:
                yield from (((*kept, first), (*kept, second)) for second in values if second != first)


def statistics() -> list[Statistic]:
    """Each statistic of the kernel with fixed public guesses."""
    rng = np.random.default_rng(3)
    sets = (("a",), ("a", "b"))
    guesses = tuple(rng.uniform(0, 2, DOMAIN.shape_of(s)) for s in sets)
    half = Weighted({"a": [0.25, 1.0], "b": [0.0, 0.5, 1.0]})
    both = Count((col("a") == 1) & (col("b") >= 1))
    cells = Conjunctions.of_cells(DOMAIN, [("a", "b")])
    return [
        LinearCount(half, DOMAIN),
        LinearCount(both, DOMAIN),
        MarginalCounts(Marginal(("a", "b")), DOMAIN),
        GroupCounts(Groups(["b"], col("a") == 1), DOMAIN),
        GroupCounts(Groups(["a"], (col("a") == 1) | (col("b") >= 1)), DOMAIN),
        GroupCounts(Groups(["a"], col("a") >= 0, "b"), DOMAIN),
        BlockCounts(("b",), (2,), DOMAIN),
        PartitionCounts((half,), DOMAIN),
        PartitionCounts((both,), DOMAIN),
        PartitionCounts((both, Count(col("b") >= 1), Count(col("b") >= 2)), DOMAIN),
        BlockCounts(("a", "b"), (2, 2), DOMAIN),
        *(ResidualCounts(Residual(names), DOMAIN) for names in ((), ("a",), ("b",), ("a", "b"))),
        MaxError("cells", sets, guesses),
        MaxError("boxes", sets, guesses),
        MaxError("predicates", sets, guesses),
        AnswerErrors((half, both), np.array([0.3, 1.7]), DOMAIN),
        *quantiles(),
        CellScores(sets, guesses, weights=rng.uniform(0.1, 1, 8), bonuses=rng.uniform(-1, 1, 8)),
        CellScores(sets, tuple(-g for g in guesses)),
        ConjunctionScores(cells, rng.uniform(-1, 1, len(cells))),
    ]


def quantiles() -> list[ErrorQuantile]:
    """Enumerated and drawn lists of questions, at the lowest, a middle and the highest rank."""
    rng = np.random.default_rng(4)
    every = Questions(DOMAIN, Distribution("mixed", (("a",), ("b",), ("a", "b")), (1, 2, 5)))
    drawn = Questions(DOMAIN, Distribution.over(DOMAIN, 2), b"q" * 32, 40)
    cells = Questions(DOMAIN, Distribution.over(DOMAIN, 2, "cells"), b"c" * 32, 40)
    ranks = [(every, WHOLE // 2), (every, 9 * WHOLE // 10), (drawn, 1), (drawn, 20), (drawn, 40), (cells, 30)]
    guesses = [tuple(rng.uniform(0, 2, DOMAIN.shape_of(s)) for s in questions.sets) for questions, _ in ranks]
    return [ErrorQuantile(listed, guess, rank) for (listed, rank), guess in zip(ranks, guesses, strict=True)]


def check_sensitivities(kind: str) -> None:
    """No statistic moves further between neighbours than it declares, in L1 (per score) and in L2."""
    pairs = [(tuple(sorted(one)), tuple(sorted(other))) for one, other in neighbours_of(kind)]
    for statistic in statistics():
        check_moves(statistic, kind, pairs, lambda rows: exact_counts(table(rows, kind)), 1)


GRID = 2
"""A person's weight in the check of persons: two halves, wherever they lie."""


def check_persons(kind: str) -> None:
    """The same where a person is any two halves of a record."""
    cells = list(itertools.product(range(2), range(3)))
    persons = list(itertools.combinations_with_replacement(cells, GRID))
    beside = persons[3]
    if kind == "add-remove":
        pairs = [((*beside, *person), beside) for person in persons]
    else:
        pairs = [((*beside, *one), (*beside, *other)) for one, other in itertools.permutations(persons, 2)]
    for statistic in statistics():
        check_moves(statistic, kind, pairs, lambda rows: exact_counts(table(rows, kind)), GRID)


def told(noise: Gaussian, move: np.ndarray, steps: int) -> Fraction:
    """Half of the squared distance that noise has to hide, in its variances: zCDP of this one move."""
    return Fraction(int((np.ravel(move).astype(object) ** 2).sum()), 2 * steps**2) / noise.sigma**2


def check_residuals_together(kind: str) -> None:
    """The joint price of residuals covers what each pair of neighbours tells, and some pair tells nearly all of it."""
    names = ((), ("a",), ("b",), ("a", "b")) if kind == "add-remove" else (("a",), ("b",), ("a", "b"))
    asked = [ResidualCounts(Residual(listed), DOMAIN) for listed in names]
    pairs = [(tuple(sorted(one)), tuple(sorted(other))) for one, other in neighbours_of(kind)]
    known = {rows: [s.evaluate(exact_counts(table(rows, kind)), 1) for s in asked] for pair in pairs for rows in pair}
    rng = np.random.default_rng(5)
    for _ in range(8):
        noises = [Gaussian(Fraction(int(size), 4)) for size in rng.integers(2, 60, len(asked))]
        priced = joint_price(list(zip(asked, noises, strict=True)), kind).rho
        most = max(
            sum(
                told(noise, here - there, statistic.cells)
                for noise, here, there, statistic in zip(noises, known[one], known[other], asked, strict=True)
            )
            for one, other in pairs
        )
        assert most <= priced <= most * (1 + Fraction(1, 10**9)), f"priced {float(priced):g}, told {float(most):g}"


def is_scores(statistic: object) -> bool:
    """Whether every entry has the sensitivity for itself."""
    return isinstance(statistic, (CellScores, ConjunctionScores))


def check_moves(
    statistic: Any,
    kind: str,
    pairs: list[Any],
    source: Callable[[Any], Any],
    grid: int,
    *,
    scores: bool | None = None,
) -> None:
    """One statistic between all pairs of neighbours; weights are whole numbers of 1/grid."""
    declared, steps, name = statistic.sensitivity(kind), statistic.resolution(grid) * grid, type(statistic).__name__
    scores = is_scores(statistic) if scores is None else scores
    tables = {rows for pair in pairs for rows in pair}
    known = {rows: statistic.evaluate(source(rows), grid).astype(object) for rows in tables}
    for one, other in pairs:
        move = np.abs(known[one] - known[other]).ravel() if np.ndim(known[one]) else [abs(known[one] - known[other])]
        # A selection needs every single score to move little; a measurement the whole vector.
        reached = max(move) if scores else sum(move)
        assert Fraction(int(reached)) <= declared.l1 * steps, f"{name} moved {reached} of {declared.l1 * steps}"
        squares = max(m * m for m in move) if scores else sum(m * m for m in move)
        assert Fraction(int(squares)) <= declared.l2_squared * steps**2, f"{name} moved too far in L2"


def check_charged_before_sampled() -> None:
    """When the sampler runs, the ledger has the charge already; nothing is settled before it ran."""
    private, ledger = curator()
    seen, release = list[int](), Gaussian.release

    def watched(noise: Gaussian, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        seen.append(ledger.spent)
        assert not any(event.kind == "settle" for event in ledger.events())
        return release(noise, counts, grid)

    with patch.object(Gaussian, "release", watched):
        private.measure([Count()], Gaussian(10))
    assert seen == [BUDGET.cost(private.price([Count()], Gaussian(10)))], f"ledger held {seen} while noise was drawn"


def check_threshold_is_paid_again() -> None:
    """A curator that restarts on the same ledger pays for a fresh epoch: the old noisy threshold is gone."""
    private, ledger = curator()
    mechanism = AboveThreshold(threshold_epsilon=Fraction(1, 10), query_epsilon=Fraction(1, 10))
    private.watch(1.0, mechanism)
    once = ledger.spent
    assert once == BUDGET.cost(mechanism.price())
    restarted = Curator(private._table, ledger)
    restarted.watch(1.0, mechanism)
    assert ledger.spent == 2 * once, "a redrawn threshold was free"


def check_only_a_bit_leaves_the_comparison() -> None:
    """`exceeds` yields True or False and nothing else, and nothing about the comparison reaches the ledger."""
    private, ledger = curator()
    epoch = private.watch(1.0, AboveThreshold(threshold_epsilon=Fraction(1, 2), query_epsilon=Fraction(1, 2)))
    before = len(list(ledger.events()))
    outcome = private.exceeds(AnswerErrors((Count(),), np.array([0.0]), DOMAIN), epoch)
    assert outcome is True or outcome is False, "the compared value left the kernel"
    assert len(list(ledger.events())) == before


SAME_NOISE = 0.2
"""Two independent draws of scale 20 agree with probability about 0.01."""


def check_noise_is_fresh_for_each_question() -> None:
    """Two questions with the same true answer get independent noise, also inside one event."""
    private, _ = curator(budget=Budget(rho=100))
    first, second = Count(col("a") == 0), Count(col("b") != 0)
    agree = [
        float(values[0]) == float(values[1])
        for values in (private.measure([first, second], Laplace(20)).values for _ in range(60))
    ]
    assert np.mean(agree) < SAME_NOISE, "noise was reused"


def check_a_key_belongs_to_one_question() -> None:
    """The same key brings back the same bytes; another question under it is refused."""
    from reticent.errors import LedgerError

    private, ledger = curator()
    once = private.measure([Count(col("a") == 0)], Laplace(50), key="k")
    spent = ledger.spent
    again = private.measure([Count(col("a") == 0)], Laplace(50), key="k")
    assert float(once.values[0]) == float(again.values[0])
    assert ledger.spent == spent
    try:
        private.measure([Count(col("a") == 1)], Laplace(50), key="k")
    except LedgerError:
        return
    raise AssertionError("one key answered two questions")


def check_price_is_the_sum_of_events() -> None:
    """The ledger's total is the sum of the prices of what it holds, and k single draws cost as one event of k."""
    private, ledger = curator(budget=Budget(rho=10))
    private.measure([Count(), Marginal(("a", "b"))], [Gaussian(7), Laplace(9)])
    private.select(CellScores((("a",),), (np.zeros(2),)), Exponential(Fraction(1, 3)), draws=5)
    private.watch(1.0, AboveThreshold(threshold_epsilon=Fraction(1, 7), query_epsilon=Fraction(1, 9)))
    reserved = [event.cost for event in ledger.events() if event.kind == "reserve"]
    budget = Budget(rho=10)
    expected = [
        budget.cost(private.price([Count()], Gaussian(7)) + private.price([Marginal(("a", "b"))], Laplace(9))),
        budget.cost(Price(Fraction(5, 3), Fraction(5, 72))),
        budget.cost(AboveThreshold(threshold_epsilon=Fraction(1, 7), query_epsilon=Fraction(1, 9)).price()),
    ]
    assert reserved == expected
    assert ledger.spent == sum(expected)


CHECKS: dict[str, Callable[[], None]] = {
    "sensitivities under replace-one": lambda: check_sensitivities("replace-one"),
    "sensitivities under add-remove": lambda: check_sensitivities("add-remove"),
    "sensitivities of persons under replace-one": lambda: check_persons("replace-one"),
    "sensitivities of persons under add-remove": lambda: check_persons("add-remove"),
    "residuals together under replace-one": lambda: check_residuals_together("replace-one"),
    "residuals together under add-remove": lambda: check_residuals_together("add-remove"),
    "charged before sampled": check_charged_before_sampled,
    "threshold paid again": check_threshold_is_paid_again,
    "only a bit leaves": check_only_a_bit_leaves_the_comparison,
    "noise fresh": check_noise_is_fresh_for_each_question,
    "key belongs to one question": check_a_key_belongs_to_one_question,
    "price is the sum": check_price_is_the_sum_of_events,
}
