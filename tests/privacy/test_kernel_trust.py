"""The kernel believes its own classes and the public values it checked, and nothing else that a caller claims."""

from __future__ import annotations

import threading
import time
from fractions import Fraction

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import AboveThreshold, Laplace
from reticent.kernel.statistics import AnswerErrors, CellScores, LinearCount, MaxError
from reticent.kernel.table import Table, exact_counts
from reticent.queries.forms import Dense
from reticent.queries.linear import Range

DOMAIN = Domain({"a": 3, "b": 1})
WATCH = AboveThreshold(threshold_epsilon=Fraction(1, 100), query_epsilon=Fraction(1, 100))


def table(codes: list[int]) -> Table:
    columns = {"a": np.array(codes), "b": np.zeros(len(codes), dtype=np.int64)}
    return Table(Records.of_codes(DOMAIN, columns, np.ones(len(codes), dtype=np.int64)), DOMAIN, records=len(codes))


def curator(of: Table) -> Curator:
    return Curator(of, Ledger.memory(Budget(rho=1), of.identity))


@pytest.mark.parametrize("guess", [2.0**43, -(2.0**44) + 7, 2.0**60, float("nan")])
def test_a_huge_guess_is_refused_by_its_public_value(guess: float) -> None:
    """An overflow raised or not by the exact count, before anything was charged: a free oracle."""
    guesses = (np.array([guess, 0.0, 0.0]),)
    verdicts = set()
    for codes in ([0, 0, 1], [0, 1, 1], [1, 1, 1]):
        for statistic in (
            CellScores((("a",),), guesses),
            MaxError("boxes", (("a",),), guesses),
        ):
            try:
                statistic.evaluate(exact_counts(table(codes)), 1)
            except Exception as problem:
                verdicts.add((type(statistic), type(problem), str(problem)))
    assert {kind for kind, _, _ in verdicts} == {CellScores, MaxError}
    assert len(verdicts) == 2
    assert all(kind is QueryError for _, kind, _ in verdicts)


def test_a_query_of_another_shape_is_refused() -> None:
    """Broadcasting a column of size one against four values counted every record four times."""
    other = Domain({"a": 3, "b": 4})
    errors = AnswerErrors((Range({"b": (0, 3)}),), np.zeros(1), other)
    with pytest.raises(QueryError, match="another domain"):
        curator(table([0, 1])).measure([errors], Laplace(1))
    with pytest.raises(QueryError, match="shape"):
        LinearCount(Range({"b": (0, 3)}), other).evaluate(exact_counts(table([0, 1])), 1)


class Quiet:
    """Claims a price that its noise does not earn."""

    def price(self, sensitivity: object) -> Price:
        return Price.free()

    def describe(self) -> dict[str, str]:
        return {}

    def release(self, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        return counts


class Loud(Dense):
    """Says that its values lie in [0, 1]."""

    @property
    def range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 0.0, 1.0

    def tensor(self) -> np.ndarray:
        return 1000 * self.values


class Claim(Range):
    def _compile(self, domain: Domain) -> Dense:
        return Loud(("a",), np.ones(3))


def test_only_the_kernels_own_mechanisms_and_forms_are_believed() -> None:
    held = curator(table([0, 1]))
    with pytest.raises(QueryError, match="cannot be used here; use Laplace or Gaussian"):
        held.measure([Range({"a": (0, 1)})], Quiet())  # pyright: ignore[reportArgumentType]
    with pytest.raises(QueryError, match="not a form"):
        held.measure([Claim({"a": (0, 1)})], Laplace(1))
    assert held.remaining == held.budget.limit


def test_an_epoch_serves_only_the_table_whose_ledger_paid() -> None:
    errors = AnswerErrors((Range({"a": (0, 1)}),), np.zeros(1), DOMAIN)
    paid, other = curator(table([0, 1])), curator(table([0, 2]))
    epoch = paid.watch(10.0, WATCH)
    paid.exceeds(errors, epoch)
    with pytest.raises(QueryError, match="paid from another ledger"):
        other.exceeds(errors, epoch)


def test_threads_that_meet_a_fresh_epoch_share_one_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    original = AboveThreshold.open

    def slow(self: AboveThreshold, threshold: int, sensitivity: int) -> object:
        drawn.append(threshold)
        time.sleep(0.05)
        return original(self, threshold, sensitivity)

    monkeypatch.setattr(AboveThreshold, "open", slow)
    held = curator(table([0, 1]))
    epoch = held.watch(1e6, WATCH)
    errors = AnswerErrors((Range({"a": (0, 1)}),), np.zeros(1), DOMAIN)
    threads = [threading.Thread(target=held.exceeds, args=(errors, epoch)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 1
