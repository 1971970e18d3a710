"""The curator keeps its promises exactly, and each planted bug turns its check red."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tests.privacy.curator_checks import BUDGET, CHECKS, DOMAIN, curator

from reticent.errors import BudgetError, LedgerError, QueryError
from reticent.kernel import curator as module
from reticent.kernel import order_statistic, residual_counts, statistics
from reticent.kernel.curator import Curator, Settled
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms import noise
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace, Sensitivity, Watch
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts
from reticent.kernel.statistics import AnswerErrors, BlockCounts, CellScores, GroupCounts, MaxError, PartitionCounts
from reticent.queries.distribution import Questions
from reticent.queries.linear import Count, Marginal

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("name", CHECKS)
def test_the_curator_keeps(name: str) -> None:
    CHECKS[name]()


def charge_after_sampling(patch: Patch) -> None:
    def paid(self: Curator, verb: str, price: Any, request: Any, prepare: Any, key: Any, analyst: Any, **_: Any) -> Any:
        values = [module.pack_array(array) for array in prepare()()]
        held = self._ledger.reserve(key, verb, self.budget.cost(price), request, analyst=analyst)
        return self._ledger.settle(held, {"values": values})

    patch.setattr(Curator, "_paid", paid)


def free_second_threshold(patch: Patch) -> None:
    original = Curator.watch

    def watch(self: Curator, threshold: float, mechanism: AboveThreshold, **_: Any) -> Any:
        if self._ledger.spent:
            return module.Epoch(mechanism, threshold, Settled((), 0, 0))
        return original(self, threshold, mechanism)

    patch.setattr(Curator, "watch", watch)


def release_compared_value(patch: Patch) -> None:
    original = Watch.exceeds
    patch.setattr(Watch, "exceeds", lambda self, value: value if original(self, value) else -value)


def reuse_noise(patch: Patch) -> None:
    @lru_cache
    def drawn(kind: type, scale: Any, size: int) -> np.ndarray:
        return noise.discrete_laplace(scale, size)

    def release(self: Any, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        return counts + drawn(type(self), self.grid_scale(grid), counts.size).reshape(counts.shape)

    patch.setattr(noise.Noise, "release", release)


def guess_from_data(patch: Patch) -> None:
    """A guess scaled to the true total: the 'bound taken from the data'."""

    def difference(self: MaxError, counts: np.ndarray, guess: np.ndarray, person_grid: int) -> np.ndarray:
        steps = statistics.fine(person_grid)
        return counts * steps - statistics.on_grid(guess * counts.sum() * 4, steps * person_grid).reshape(counts.shape)

    patch.setattr(MaxError, "_difference", difference)


def forget_request(patch: Patch) -> None:
    original = Ledger.settled

    def settled(self: Ledger, key: str, kind: str, request: Any) -> Any:
        held = self.lookup(key)
        return held if held is not None and hasattr(held, "payload") else original(self, key, kind, request)

    patch.setattr(Ledger, "settled", settled)


def one_draw_for_many(patch: Patch) -> None:
    original = Exponential.price
    patch.setattr(Exponential, "price", lambda self, draws=1: original(self))
    patch.setattr(module.Price, "__mul__", lambda self, count: self)


def count_in_every_group(self: GroupCounts, source: Any, person_grid: int) -> np.ndarray:
    counts = source.marginal(self.span)
    return np.full(counts.shape, counts.sum(), dtype=np.int64)


def overlapping_blocks(self: BlockCounts, source: Any, person_grid: int) -> np.ndarray:
    """Blocks that share a code with their neighbours: a record counts twice."""
    counts = source.marginal(self.names)
    for axis, width in enumerate(self.widths):
        starts = range(0, counts.shape[axis], width)
        parts = [counts.take(np.arange(s, min(s + width + 1, counts.shape[axis])), axis=axis) for s in starts]
        counts = np.stack([part.sum(axis=axis) for part in parts], axis=axis)
    return counts


def queries_beside_parts(self: PartitionCounts, source: Any, person_grid: int) -> np.ndarray:
    """Every query by itself: a record counts in as many numbers as queries count it."""
    counts = source.marginal(self.attributes) if len(self.queries) > 1 else None
    if counts is None:
        return original_parts(self, source, person_grid)
    return np.array([counts[self.answers[:, place][self.parts]].sum() for place in range(len(self.queries))])


original_parts = PartitionCounts.evaluate


def whole_beside_query(self: PartitionCounts, source: Any, person_grid: int) -> np.ndarray:
    """The number of records in place of the rest: a record counts in both numbers."""
    values = original_parts(self, source, person_grid)
    return np.array([values.sum(), values[1]]) if len(self.queries) == 1 else values


def add_twice(patch: Patch) -> None:
    """A cell that a question counts twice moves its error by two."""
    sums, every = order_statistic._sums, order_statistic._every_sum
    patch.setattr(order_statistic, "_sums", lambda difference, block: 2 * sums(difference, block))
    patch.setattr(order_statistic, "_every_sum", lambda difference, selections: 2 * every(difference, selections))


def draw_list_from_table(patch: Patch) -> None:
    original = order_statistic.ErrorQuantile.evaluate

    def evaluate(self: ErrorQuantile, source: Any, person_grid: int) -> np.ndarray:
        if self.questions.seed is None:
            return original(self, source, person_grid)
        seed = hashlib.sha256(source.marginal(("a", "b")).tobytes()).digest()
        fresh = Questions(self.domain, self.questions.distribution, seed, self.questions.drawn)
        guesses = tuple(np.zeros(self.domain.shape_of(names)) for names in fresh.sets)
        return original(ErrorQuantile(fresh, guesses, self.rank), source, person_grid)

    patch.setattr(order_statistic.ErrorQuantile, "evaluate", evaluate)


def double_residual(patch: Patch) -> None:
    original = ResidualCounts.evaluate
    patch.setattr(ResidualCounts, "evaluate", lambda self, source, grid: 2 * original(self, source, grid))


def halve_residual(patch: Patch) -> None:
    original = ResidualCounts.sensitivity
    patch.setattr(ResidualCounts, "sensitivity", lambda self, _: original(self, "add-remove"))


def mean_pair(patch: Patch) -> None:
    """Averaged over all records that may come in place of one, residuals move by twice what one record adds."""
    patch.setattr(
        residual_counts, "_largest_move", lambda group: sum(weight * statistic.freedom for statistic, weight in group)
    )


def each_by_itself(patch: Patch) -> None:
    """Safe, but too much: the check holds the price against what some pair of neighbours tells."""
    patch.setattr(residual_counts, "_groups", lambda weights: [[entry] for entry in weights])


def round_down(patch: Patch) -> None:
    patch.setattr(residual_counts, "ceil", lambda value: int(value * Fraction(999, 1000)))


MUTATIONS: list[tuple[str, Callable[[Patch], None], str]] = [
    ("charge after sampling", charge_after_sampling, "charged before sampled"),
    ("threshold redrawn free after a restart", free_second_threshold, "threshold paid again"),
    ("compared value released", release_compared_value, "only a bit leaves"),
    ("cached noise reused for a different query", reuse_noise, "noise fresh"),
    ("a bound taken from the data", guess_from_data, "sensitivities under add-remove"),
    (
        "sensitivity 1 where a marginal has 2",
        lambda patch: patch.setattr(statistics, "of_one_marginal", lambda _: Sensitivity(1, 1)),
        "sensitivities under replace-one",
    ),
    (
        "a record counted in every group",
        lambda patch: patch.setattr(GroupCounts, "evaluate", count_in_every_group),
        "sensitivities under add-remove",
    ),
    (
        "blocks of codes that overlap",
        lambda patch: patch.setattr(BlockCounts, "evaluate", overlapping_blocks),
        "sensitivities under add-remove",
    ),
    (
        "queries of a partition that overlap",
        lambda patch: patch.setattr(PartitionCounts, "evaluate", queries_beside_parts),
        "sensitivities under add-remove",
    ),
    (
        "the number of records in place of a query's rest",
        lambda patch: patch.setattr(PartitionCounts, "evaluate", whole_beside_query),
        "sensitivities under add-remove",
    ),
    ("a residual counted twice", double_residual, "sensitivities under add-remove"),
    ("a residual's own price halved", halve_residual, "sensitivities under replace-one"),
    ("the mean pair of records in place of the worst", mean_pair, "residuals together under replace-one"),
    ("each residual priced by itself", each_by_itself, "residuals together under replace-one"),
    ("weights of residuals rounded down", round_down, "residuals together under add-remove"),
    (
        "total variation without its larger half",
        lambda patch: patch.setattr(
            MaxError, "_largest", lambda self, d: int(np.abs(d).sum()) if self.kind == "predicates" else 0
        ),
        "sensitivities under replace-one",
    ),
    (
        "a score's sensitivity halved",
        lambda patch: patch.setattr(
            CellScores, "sensitivity", lambda self, _: Sensitivity(Fraction(1, 2), Fraction(1, 4))
        ),
        "sensitivities under replace-one",
    ),
    ("a cell counted twice by a question", add_twice, "sensitivities under replace-one"),
    ("a list of questions drawn from the table", draw_list_from_table, "sensitivities under add-remove"),
    (
        "the sum of errors in place of an order statistic",
        lambda patch: patch.setattr(
            order_statistic, "weighted_quantile", lambda errors, weights, rank: int(errors.sum())
        ),
        "sensitivities under add-remove",
    ),
    ("a key answers any question", forget_request, "key belongs to one question"),
    ("five draws at the price of one", one_draw_for_many, "price is the sum"),
]


@pytest.mark.parametrize(("plant", "check"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_a_planted_bug_turns_its_check_red(plant: Callable[[Patch], None], check: str, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check]()


def test_refusals_spend_nothing_and_read_nothing() -> None:
    private, ledger = curator()

    class Sealed:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("rows were touched by a request that must be refused")

    object.__setattr__(private._table, "_source", Sealed())
    guesses = (np.zeros(2),)
    cells = CellScores((("a",),), guesses)
    refused: list[Callable[[], object]] = [
        lambda: private.measure([Count()], Gaussian(0.01)),
        lambda: private.measure([], Gaussian(10)),
        lambda: private.measure([Count()], [Gaussian(10), Gaussian(10)]),
        lambda: private.measure([Marginal(("nobody",))], Gaussian(10)),
        lambda: private.select(cells, Exponential(1), draws=0),
        lambda: private.select(cells, Exponential(1), draws=100),
        lambda: private.watch(1.0, AboveThreshold(threshold_epsilon=2, query_epsilon=2)),
        lambda: private.measure([object()], Gaussian(10)),  # pyright: ignore[reportArgumentType]
    ]
    for request in refused:
        with pytest.raises((BudgetError, QueryError, ValueError)):
            request()
    assert ledger.spent == 0


def test_a_callers_own_statistic_is_refused() -> None:
    private, ledger = curator()

    class Claimed(AnswerErrors):
        def sensitivity(self, neighbours: str) -> Sensitivity:
            return Sensitivity(1, 1)

    with pytest.raises(QueryError, match="not a statistic of the kernel"):
        private.measure([Claimed((Count(),), np.zeros(1), DOMAIN)], Laplace(10))
    assert ledger.spent == 0


def test_an_epoch_keeps_one_scale_and_ends_with_its_first_yes() -> None:
    private, _ = curator()
    epoch = private.watch(-1000.0, AboveThreshold(threshold_epsilon=0.5, query_epsilon=0.5))
    question = AnswerErrors((Count(),), np.array([0.0]), DOMAIN)
    assert private.exceeds(question, epoch) is True
    assert not epoch.open
    with pytest.raises(QueryError, match="ended"):
        private.exceeds(question, epoch)


def test_an_epoch_refuses_what_moves_more_than_it_was_opened_for() -> None:
    private, _ = curator()
    mechanism = AboveThreshold(threshold_epsilon=0.5, query_epsilon=0.5)
    question = AnswerErrors((Count(),), np.array([0.0]), DOMAIN)
    narrow = private.watch(0.0, mechanism, moved=Fraction(1, 2))
    for _ in range(2):  # no threshold was drawn, so the refusal says nothing about the rows
        with pytest.raises(QueryError, match="one person moves this statistic by 1, in this epoch"):
            private.exceeds(question, narrow)
    assert narrow.open
    assert private.exceeds(question, private.watch(-1e6, mechanism, moved=Fraction(3))) is True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_cannot_go_on_with_an_epoch() -> None:
    """Parent and child would each be told True once, for one charge."""
    private, _ = curator()
    epoch = private.watch(0.0, AboveThreshold(threshold_epsilon=0.5, query_epsilon=0.5))
    question = AnswerErrors((Count(),), np.array([0.0]), DOMAIN)
    child = os.fork()
    if child == 0:
        try:
            private.exceeds(question, epoch)
        except LedgerError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert private.exceeds(question, epoch) in (True, False)


def test_a_key_opens_one_epoch_only() -> None:
    """A settled measurement may be read again; a settled epoch would get a second noisy threshold for one charge."""
    private, ledger = curator()
    mechanism = AboveThreshold(threshold_epsilon=0.1, query_epsilon=0.1)
    private.watch(1.0, mechanism, key="named")
    for again in (private, Curator(private._table, ledger)):
        with pytest.raises(LedgerError, match="answered already"):
            again.watch(1.0, mechanism, key="named")
    assert ledger.spent == BUDGET.cost(mechanism.price())


def test_live_and_replayed_answers_are_the_same_bytes() -> None:
    private, ledger = curator()
    live = private.measure([Marginal(("a", "b"))], Gaussian(20), key="m")
    replayed = Curator(private._table, ledger).measure([Marginal(("a", "b"))], Gaussian(20), key="m")
    assert live.values[0].tobytes() == replayed.values[0].tobytes()
    assert (live.cost, live.ledger_id) == (replayed.cost, replayed.ledger_id)
    assert live.cost == BUDGET.cost(private.price([Marginal(("a", "b"))], Gaussian(20)))
