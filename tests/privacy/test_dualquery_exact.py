"""DualQuery's output distribution, enumerated whole on a tiny universe, against the price it claims (spec 7.2).

The real run is driven by a scripted curator: it returns prescribed draws and adds up, for every possible table at once,
the exact logarithm of their probability under the mechanism and scores the run asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp

from reticent.domain import Domain
from reticent.kernel import statistics
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.counting import records
from reticent.kernel.counting.records import Records, Subsample
from reticent.kernel.curator import Settled
from reticent.kernel.mechanisms.base import Exponential
from reticent.kernel.table import Table, exact_counts
from reticent.queries.linear import Conjunction, Marginal, Mean, Range
from reticent.queries.tabulated import linear
from reticent.queries.workload import Workload
from reticent.releases.dualquery import query_player
from reticent.releases.dualquery.data_player import Search
from reticent.releases.dualquery.dualquery import DualQuery
from reticent.releases.dualquery.plan import DualQueryPlan

VALUES, RECORDS, ROUNDS = 3, 2, 3
CANDIDATES = 2 * VALUES
DOMAIN = Domain(x=VALUES)
TABLES = list(itertools.combinations_with_replacement(range(VALUES), RECORDS))
SOURCES = [Records.of_codes(DOMAIN, {"x": np.array(t)}, np.ones(RECORDS, dtype=np.int64)) for t in TABLES]
ORDERS = np.concatenate([[1.0001, 1.1, 1.5], np.arange(2.0, 65.0)])
SLACK = 1e-9
LOOSEST = 2.0
"""For steps up to 1 the true loss is at least the claimed one divided by this."""


def neighbours(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Tables of one size that differ in exactly one record."""
    common = sum(min(first.count(value), second.count(value)) for value in range(VALUES))
    return common == RECORDS - 1


class ScriptedCurator:
    """Stands where the kernel stands, with the draws written down beforehand."""

    domain = DOMAIN
    records = RECORDS
    neighbours = "replace-one"
    budget = Budget(epsilon=10**5)

    def __init__(self, script: Sequence[tuple[int, ...]]) -> None:
        self._script = list(script)
        self.log_probability = np.zeros(len(TABLES))
        self.charged = Price.free()

    def successor(self, key: str) -> tuple[str, int]:
        return key, 0

    def select(self, scores, mechanism: Exponential, *, draws: int, key: str) -> Settled:
        drawn = np.array(self._script.pop(0))
        assert len(drawn) == draws
        self.charged = self.charged + mechanism.price() * draws
        for index, source in enumerate(SOURCES):
            exact = scores.evaluate(source, 1) / scores.resolution(1)
            assert len(exact) in (CANDIDATES, len(WEIGHTED_CANDIDATES))
            logits = float(mechanism.epsilon) * exact / (2 * float(scores.sensitivity("replace-one").l1))
            self.log_probability[index] += (logits - logsumexp(logits))[drawn].sum()
        return Settled((drawn,), 1, 0)


def enumerate_outputs(
    algorithm: DualQuery, workload: Workload | None = None, candidates: Sequence[int] = range(CANDIDATES)
) -> tuple[np.ndarray, Price]:
    """Log-probability of every output (rows) under every table (columns), and what the kernel was asked to charge."""
    draws = algorithm.draws or 1
    options = list(itertools.product(candidates, repeat=draws))
    rows, charged = [], Price.free()
    for script in itertools.product(options, repeat=ROUNDS - 1):
        curator = ScriptedCurator(script)
        algorithm.run(curator, workload or WORKLOAD, allowance=10**14, key="exact")  # type: ignore[arg-type]
        rows.append(curator.log_probability)
        charged = curator.charged
    return np.array(rows), charged


WORKLOAD = Workload([Marginal(("x",))])
WEIGHTED = Workload([Marginal(("x",)), Conjunction({"x": 0})], weights=[1, 4])
WEIGHTED_CANDIDATES = range(2 * (VALUES + 1))


def game(step: Fraction, *, draws: int = 1, seed: int = 0) -> DualQuery:
    return DualQuery(rounds=ROUNDS, draws=draws, step=step, replies=1, memory=1, player=Search(40), seed=seed)


def claimed(step: Fraction, draws: int = 1) -> Price:
    return DualQueryPlan(RECORDS, ROUNDS, draws, step).price


def losses(log_probabilities: np.ndarray) -> tuple[float, float]:
    """The largest pure loss, and the largest Renyi divergence divided by its order, over all neighbours."""
    pure = renyi = 0.0
    for i, j in itertools.permutations(range(len(TABLES)), 2):
        if not neighbours(TABLES[i], TABLES[j]):
            continue
        p, q = log_probabilities[:, i], log_probabilities[:, j]
        pure = max(pure, float(np.max(p - q)))
        for order in ORDERS:
            divergence = logsumexp(order * p + (1 - order) * q) / (order - 1)
            renyi = max(renyi, float(divergence) / order)
    return pure, renyi


def holds(log_probabilities: np.ndarray, price: Price) -> bool:
    pure, renyi = losses(log_probabilities)
    assert price.pure is not None
    return pure <= float(price.pure) + SLACK and renyi <= float(price.rho) + SLACK


def seeds_of_all_first_draws() -> list[int]:
    """Round 1 is public and uniform: one seed for each of its outcomes."""
    found: dict[int, int] = {}
    for seed in range(200):
        found.setdefault(int(np.random.default_rng([seed, 1]).integers(0, CANDIDATES, size=1)[0]), seed)
    assert len(found) == CANDIDATES
    return list(found.values())


@pytest.mark.parametrize("step", [Fraction(1, 4), Fraction(1), Fraction(3)])
def test_every_output_keeps_the_claimed_price(step):
    for seed in seeds_of_all_first_draws():
        outputs, charged = enumerate_outputs(game(step, seed=seed))
        assert len(outputs) == CANDIDATES ** (ROUNDS - 1)
        np.testing.assert_allclose(logsumexp(outputs, axis=0), 0, atol=1e-12)
        assert charged == claimed(step)
        assert holds(outputs, claimed(step))


@pytest.mark.parametrize("step", [Fraction(1, 4), Fraction(1, 2), Fraction(1)])
def test_the_price_is_not_loose(step):
    outputs, _ = enumerate_outputs(game(step))
    pure, renyi = losses(outputs)
    price = claimed(step)
    assert price.pure is not None
    assert float(price.pure) <= LOOSEST * pure
    assert float(price.rho) <= LOOSEST * renyi


def test_several_draws_a_round_pay_each():
    outputs, charged = enumerate_outputs(game(Fraction(1), draws=2))
    assert len(outputs) == CANDIDATES ** (2 * (ROUNDS - 1))
    assert charged == claimed(Fraction(1), draws=2)
    assert holds(outputs, claimed(Fraction(1), draws=2))


def test_memory_and_replies_are_free():
    algorithm = DualQuery(rounds=ROUNDS, draws=1, step=1, replies=3, memory=2, player=Search(40))
    outputs, charged = enumerate_outputs(algorithm)
    assert charged == claimed(Fraction(1))
    assert holds(outputs, claimed(Fraction(1)))


def test_a_weighted_workload_keeps_the_price():
    """Weights above 1 would raise the sensitivity: they are divided by the largest."""
    outputs, charged = enumerate_outputs(game(Fraction(1)), WEIGHTED, WEIGHTED_CANDIDATES)
    np.testing.assert_allclose(logsumexp(outputs, axis=0), 0, atol=1e-12)
    assert charged == claimed(Fraction(1))
    assert holds(outputs, claimed(Fraction(1)))


@pytest.mark.parametrize("weights", [None, [1, 0.3, 0.8]])
def test_any_linear_queries_keep_the_price(weights):
    """An interval, a table of values and a mean, against the same enumeration of all outputs on all tables."""
    workload = Workload([Range({"x": (0, 1)}), linear("x", values=[0.0, 0.4, 1.0]), Mean("x")], weights=weights)
    outputs, charged = enumerate_outputs(game(Fraction(1)), workload.on(DOMAIN))
    np.testing.assert_allclose(logsumexp(outputs, axis=0), 0, atol=1e-12)
    assert charged == claimed(Fraction(1))
    assert holds(outputs, claimed(Fraction(1)))


def test_weights_that_are_not_divided_are_caught(monkeypatch):
    monkeypatch.setattr(statistics.Scores, "__post_init__", lambda self: None)
    monkeypatch.setattr(query_player, "_relative", lambda weights: None if np.ptp(weights) == 0 else weights)
    outputs, _ = enumerate_outputs(game(Fraction(1)), WEIGHTED, WEIGHTED_CANDIDATES)
    assert not holds(outputs, claimed(Fraction(1)))


def step_not_divided_by_records(plan: DualQueryPlan, turn: int) -> Exponential:
    return Exponential(2 * plan.step * (turn - 1))


def round_off_by_one(plan: DualQueryPlan, turn: int) -> Exponential:
    return Exponential(plan.epsilon(turn + 1))


def one_sided_sensitivity(plan: DualQueryPlan, turn: int) -> Exponential:
    """As if raising one query by 1/n moved nothing else: twice the slope that the price stands for."""
    return Exponential(2 * plan.epsilon(turn))


@pytest.mark.parametrize("bug", [step_not_divided_by_records, round_off_by_one, one_sided_sensitivity])
@pytest.mark.parametrize("step", [Fraction(1, 4), Fraction(1)])
def test_planted_bugs_are_caught(monkeypatch, bug, step):
    monkeypatch.setattr(DualQueryPlan, "mechanism", bug)
    outputs, _ = enumerate_outputs(game(step))
    assert not holds(outputs, claimed(step))


def sampled_loss(log_probabilities: np.ndarray, whole: int) -> float:
    """The largest pure loss when the run sees a secret sample of RECORDS out of `whole` records."""
    column = {table: index for index, table in enumerate(TABLES)}
    tables = list(itertools.combinations_with_replacement(range(VALUES), whole))
    mixed = []
    for table in tables:
        samples = [column[tuple(sorted(pair))] for pair in itertools.combinations(table, RECORDS)]
        mixed.append(logsumexp(log_probabilities[:, samples], axis=1) - np.log(len(samples)))
    loss = 0.0
    for i, j in itertools.permutations(range(len(tables)), 2):
        common = sum(min(tables[i].count(value), tables[j].count(value)) for value in range(VALUES))
        if common == whole - 1:
            loss = max(loss, float(np.max(mixed[i] - mixed[j])))
    return loss


@pytest.mark.parametrize("whole", [3, 4])
def test_a_secret_sample_is_priced_for_its_own_size(whole):
    """`ln(1 + (m/n)(exp(e') - 1))` holds with e' for m records; pricing the inner run for n does not (spec 7.4, 9)."""
    step = Fraction(1, 4)
    outputs, _ = enumerate_outputs(game(step))
    loss = sampled_loss(outputs, whole)

    def amplified(inner: float) -> float:
        return float(np.log1p(RECORDS / whole * np.expm1(inner)))

    price = claimed(step).pure
    assert price is not None
    assert loss <= amplified(float(price)) + SLACK
    assert amplified(float(price)) <= LOOSEST * loss
    assert loss > amplified(float(price) * (RECORDS / whole) ** 2)


class EverySample:
    """Stands in for the secret generator: each of its samples in turn, so that none is drawn and all are seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def counts(self, rows: tuple[int, ...], declared: int, size: int) -> list[np.ndarray]:
        """The count of each value in every equally likely sample of a table that declares `declared` records."""
        source = Records.of_codes(DOMAIN, {"x": np.array(rows, dtype=int)}, np.ones(len(rows), dtype=np.int64))
        whole, found, places = Table(source, DOMAIN, records=declared), [], []

        def script(places_of: range, wanted: int) -> list[int]:
            places[:] = itertools.combinations(places_of, wanted)
            return list(places[len(found)])

        self._patch.setattr(records.secrets, "SystemRandom", lambda: SimpleNamespace(sample=script))
        while not places or len(found) < len(places):
            sample = Subsample(whole, size)
            assert sample.records == size
            found.append(exact_counts(sample).marginal(("x",)))
        return found


def selected(samples: list[np.ndarray], epsilon: float) -> np.ndarray:
    """Log-probability of each value when one is drawn by its count in a secret sample."""
    logits = np.array(samples) * epsilon / 2
    return logsumexp(logits - logsumexp(logits, axis=1, keepdims=True), axis=0) - np.log(len(samples))


@pytest.mark.parametrize("declared", [2, 3, 4])
def test_samples_of_every_table_keep_the_price_whatever_was_declared(declared, monkeypatch):
    """More records than declared, or fewer; one replaced, or gone because a filter drops what it became."""
    epsilon, every = 2.0, EverySample(monkeypatch)
    tables = [t for rows in range(5) for t in itertools.combinations_with_replacement(range(VALUES), rows)]
    drawn = {t: selected(every.counts(t, declared, 2), epsilon) for t in tables}
    worst_loss = 0.0
    for first, second in itertools.permutations(tables, 2):
        common = sum(min(first.count(value), second.count(value)) for value in range(VALUES))
        if max(len(first), len(second)) - common == 1:
            worst_loss = max(worst_loss, float(np.max(drawn[first] - drawn[second])))
    assert epsilon / LOOSEST / 2 < worst_loss <= epsilon + SLACK


def test_places_behind_the_last_row_are_drawn_and_empty(monkeypatch):
    counts = EverySample(monkeypatch).counts((1, 2), 4, 2)
    assert sorted(int(c.sum()) for c in counts) == [0, 1, 1, 1, 1, 2]
    assert len(EverySample(monkeypatch).counts((0, 1, 1, 2), 3, 2)) == 6
