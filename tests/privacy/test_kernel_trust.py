"""The kernel believes its own classes and the public values it checked, and nothing else that a caller claims."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reticent.domain import Domain, Undeclared
from reticent.errors import LedgerError, QueryError
from reticent.kernel import statistics
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.discovery.lines import NumberLine
from reticent.kernel.discovery.medians import MedianScores
from reticent.kernel.discovery.values import ValueCounts
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms import sampling
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace, Sensitivity, Thresholded
from reticent.kernel.minimizers.families import NoisyGradientDescent
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts
from reticent.kernel.statistics import AnswerErrors, CellScores, LinearCount, MaxError, PartitionCounts
from reticent.kernel.table import Table, exact_counts
from reticent.losses.losses import MeanVector
from reticent.queries.distribution import Distribution, Questions
from reticent.queries.forms import Dense, Product, mask_product
from reticent.queries.groups import Groups
from reticent.queries.linear import Range, Residual
from reticent.sources import open_undeclared

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


@pytest.mark.parametrize("kind", statistics.KINDS)
def test_guesses_whose_sums_leave_int64_are_refused(kind: statistics.Kind) -> None:
    """Each fits by itself. A box of them could wrap round: one record would turn the largest number into the least."""
    guesses = (np.full(3, 2.0**42),)
    listed = Questions(DOMAIN, Distribution("mixed", (("a",),)))
    for statistic in (MaxError(kind, (("a",),), guesses), ErrorQuantile(listed, guesses, 1)):
        with pytest.raises(QueryError, match="guesses must be finite and below"):
            statistic.evaluate(exact_counts(table([0, 1])), 1)


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


class ClaimedGroups(Groups):
    def form(self, domain: Domain) -> Dense:
        return Loud(("a",), np.ones(3))


def test_only_the_kernels_own_mechanisms_and_forms_are_believed() -> None:
    held = curator(table([0, 1]))
    with pytest.raises(QueryError, match="cannot be used here; use Laplace or Gaussian"):
        held.measure([Range({"a": (0, 1)})], Quiet())  # pyright: ignore[reportArgumentType]
    for claim in (Claim({"a": (0, 1)}), ClaimedGroups(["b"])):
        with pytest.raises(QueryError, match="not a form"):
            held.measure([claim], Laplace(1))
    assert held.remaining == held.budget.limit


class Cheap(Laplace):
    """A mechanism of the kernel, but for its price."""

    def price(self, sensitivity: Sensitivity) -> Price:
        return Price.free()


class CheapSelection(Exponential):
    def price(self, draws: int = 1) -> Price:
        return Price.free()


class CheapWatch(AboveThreshold):
    def price(self) -> Price:
        return Price.free()


class Insensitive(MedianScores):
    def sensitivity(self, neighbours: str) -> Sensitivity:
        return Sensitivity.scalar(Fraction(1, 1000))


class Curious(NumberLine):
    """A line that keeps what it is shown."""

    def located(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        SHOWN.append(values)
        return super().located(values)


SHOWN: list[np.ndarray] = []


def undeclared() -> Curator:
    rows = pd.DataFrame({"x": [1.0, 2.5, 40.0], "t": ["a", "a", "b"]})
    found = open_undeclared(rows, Domain(x=Undeclared("number"), t=Undeclared("text")))
    budget = Budget(epsilon=4, delta=1e-3, approximate=5e-4)
    return Curator(found, Ledger.memory(budget, found.identity))


def medians(of: type[MedianScores] = MedianScores, line: type[NumberLine] = NumberLine) -> MedianScores:
    made = line()
    return of("x", made, ((0, made.size * 32),))


def test_a_subclass_of_a_mechanism_is_not_believed() -> None:
    """Its price is its own claim, as that of a stranger is."""
    held, open_one = curator(table([0, 1])), undeclared()
    watch = CheapWatch(threshold_epsilon=1, query_epsilon=1)
    refused: list[Callable[[], object]] = [
        lambda: held.measure([Range({"a": (0, 1)})], Cheap(1)),
        lambda: held.select(CellScores((("a",),), (np.zeros(3),)), CheapSelection(1)),
        lambda: held.watch(1.0, watch),
        lambda: open_one.select_medians(medians(), CheapSelection(1)),
        lambda: open_one.select_medians(medians(Insensitive), Exponential(1)),
        lambda: open_one.select_medians(medians(line=Curious), Exponential(1)),
    ]
    for request in refused:
        with pytest.raises(QueryError, match="cannot be used here"):
            request()
    assert held.remaining == held.budget.limit
    assert not SHOWN


class Signed(Range):
    """A compiler that lets a factor below zero through: the whole product still seems to run from 0 to 1."""

    def _compile(self, domain: Domain) -> Product:
        return mask_product(("a", "b"), (np.array([-1.0, 0.0, 1.0]), np.array([0.0, 1.0])))


class Stretched(Range):
    """One value for all codes: broadcasting would hide that it has not the shape of its attribute."""

    def _compile(self, domain: Domain) -> Dense:
        return Dense(("a",), np.ones(1))


class Reordered(Residual):
    def canonical(self, domain: Domain) -> tuple[str, ...]:
        return self.names


def test_factors_axes_and_parts_are_checked_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain({"a": 3, "b": 2})
    with pytest.raises(QueryError, match="values run from -1 to 1"):
        LinearCount(Signed({"a": (0, 1)}), domain)
    with pytest.raises(QueryError, match="shape of its attributes"):
        LinearCount(Stretched({"a": (0, 1)}), domain)
    assert ResidualCounts(Reordered(("b", "a")), domain).shape == (3, 2)
    halves = (Range({"a": (0, 1)}), Range({"a": (1, 2)}))
    names, parts, answers = statistics.partition_of(halves, domain)
    monkeypatch.setattr(statistics, "partition_of", lambda *_: (names, np.stack([parts, parts]), answers))
    with pytest.raises(QueryError, match="one part"):  # each record would count twice
        PartitionCounts(halves, domain)


VERBS: dict[str, Callable[[], tuple[Curator, Callable[[], Any]]]] = {}


def verb(make: Callable[[], tuple[Curator, Callable[[], Any]]]) -> Callable[[], tuple[Curator, Callable[[], Any]]]:
    VERBS[make.__name__] = make
    return make


@verb
def measure() -> tuple[Curator, Callable[[], Any]]:
    held = curator(table([0, 1]))
    return held, lambda: held.measure([Range({"a": (0, 1)})], Gaussian(5))


@verb
def select() -> tuple[Curator, Callable[[], Any]]:
    held = curator(table([0, 1]))
    return held, lambda: held.select(CellScores((("a",),), (np.zeros(3),)), Exponential(1))


@verb
def select_medians() -> tuple[Curator, Callable[[], Any]]:
    held = undeclared()
    return held, lambda: held.select_medians(medians(), Exponential(Fraction(1, 10)))


@verb
def select_values() -> tuple[Curator, Callable[[], Any]]:
    held = undeclared()
    mechanism = Thresholded.costing(rho=Fraction(1, 100), delta=Fraction(1, 10**4), neighbours="replace-one")
    return held, lambda: held.select_values(ValueCounts("t"), mechanism)


@verb
def exceeds() -> tuple[Curator, Callable[[], Any]]:
    held = curator(table([0, 1]))
    errors = AnswerErrors((Range({"a": (0, 1)}),), np.zeros(1), DOMAIN)
    return held, lambda: held.exceeds(errors, held.watch(10.0, WATCH))


@verb
def minimize() -> tuple[Curator, Callable[[], Any]]:
    held = curator(table([0, 1]))
    means = MeanVector(features=["a"])
    minimizer = NoisyGradientDescent(means, DOMAIN, neighbours="replace-one", records=2, rho=Fraction(1, 100))
    return held, lambda: held.minimize(minimizer)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_charged_before_it_draws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first random bit of its mechanism the ledger has the whole charge, its delta included."""
    held, call = VERBS[name]()
    ledger, seen, original = held._ledger, list[tuple[int, Fraction]](), sampling.os.urandom

    def drawn(count: int) -> bytes:
        seen.append((ledger.spent, ledger.delta))
        return original(count)

    monkeypatch.setattr(sampling.os, "urandom", drawn)
    call()
    assert seen[0] == (ledger.spent, ledger.delta)
    assert ledger.spent > 0
    assert (ledger.delta > 0) == (name == "select_values")


def test_an_epoch_refuses_statistics_of_another_sensitivity_or_grid() -> None:
    """Its noises are drawn once, for what it tests first; anything that moves more would be underpaid."""
    held, halves = curator(table([0, 1])), Range({"a": (0, 1)})
    whole = LinearCount(halves, DOMAIN)
    fine = AnswerErrors((halves,), np.zeros(1), DOMAIN)
    for first, second in ((whole, fine), (fine, whole)):
        epoch = held.watch(1e9, WATCH)
        assert held.exceeds(first, epoch) is False
        with pytest.raises(QueryError, match="one sensitivity and resolution"):
            held.exceeds(second, epoch)
        assert held.exceeds(first, epoch) is False


def test_a_table_is_read_against_its_own_ledger_only() -> None:
    """One budget for each of two ledgers would be two budgets for one table."""
    of, other = table([0, 1]), table([0, 1, 1])
    with pytest.raises(LedgerError, match="opened for records 3, not 2"):
        Curator(of, Ledger.memory(Budget(rho=1), other.identity))


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
