"""One suite for every hypothesis: whatever the representation, it must agree with enumeration of the universe."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.hypotheses import (
    DenseHypothesis,
    Hypothesis,
    Measurement,
    RecordsHypothesis,
    Snapshot,
    SupportHypothesis,
    load,
)
from reticent.hypotheses.base import MARGIN, conservative_target
from reticent.queries.forms import Dense, Product
from reticent.queries.linear import Marginal

RELATIVE_ERROR = 1e-10
TARGET_ERROR = 1e-12
# Probabilities below this come from exponents of several hundred, whose own rounding exceeds the bound above.
NEGLIGIBLE = 1e-60
# KL values of small tables are sums of a few hundred terms of order one.
KL_ROUNDING = 1e-11


def all_records(domain: Domain) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(domain.size), domain.shape), axis=1)


def compiled_dense(domain: Domain) -> DenseHypothesis:
    """The compiled path, which otherwise serves large universes only."""
    from reticent.hypotheses.dense import kernels as dense_kernels

    hypothesis = DenseHypothesis(domain)
    hypothesis._compiled, hypothesis._kernels = True, dense_kernels
    return hypothesis


BUILDERS: dict[str, Callable[[Domain], Hypothesis]] = {
    "dense": DenseHypothesis,
    "dense-compiled": compiled_dense,
    "support": lambda domain: SupportHypothesis(domain, all_records(domain)),
    "records": lambda domain: RecordsHypothesis(domain, all_records(domain)),
}
if find_spec("reticent.hypotheses.junction_tree.factored"):
    from reticent.hypotheses.junction_tree.factored import FactoredHypothesis

    BUILDERS["factored"] = FactoredHypothesis

every_hypothesis = pytest.mark.parametrize("kind", BUILDERS)
some_examples = settings(max_examples=80, deadline=None)
few_examples = settings(max_examples=25, deadline=None)


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    assume(math.prod(sizes) <= 500)
    return Domain({f"a{place}": size for place, size in enumerate(sizes)})


class Script:
    """Random queries, updates and questions on a domain, all from one seed."""

    def __init__(self, domain: Domain, seed: int) -> None:
        self.domain = domain
        self.random = np.random.default_rng(seed)

    def names(self) -> tuple[str, ...]:
        order = self.random.integers(0, len(self.domain) + 1)
        return self.domain.canonical(self.random.choice(self.domain.names, order, replace=False))

    def query(self) -> Product | Dense:
        names = self.names()
        shape = self.domain.shape_of(names)
        style = self.random.integers(4)
        if style == 0:
            return Product(names, tuple(self.random.integers(0, 2, size).astype(float) for size in shape))
        if style == 1:
            return Product(names, tuple(self.random.random(size) for size in shape))
        if style == 2:
            return Dense(names, self.random.integers(0, 2, shape).astype(float))
        return Dense(names, self.random.random(shape))

    def target(self, query: Product | Dense) -> float:
        """Anything for a 0/1 query; for others a tenth of the range away from its ends, where eta stays tame."""
        if query.binary:
            return float(self.random.choice([0.0, 1.0, 0.5, *self.random.random(5)]))
        low, high = query.range
        return low + (high - low) * float(self.random.uniform(0.1, 0.9))

    def updates(self, count: int) -> list[tuple[str, Product | Dense, float]]:
        steps = []
        for _ in range(count):
            if self.random.random() < 0.6:
                query = self.query()
                steps.append(("project", query, self.target(query)))
            else:
                steps.append(("reweight", self.query(), float(self.random.normal(scale=2.0))))
        return steps


def on_universe(query: Product | Dense, domain: Domain) -> np.ndarray:
    """q at every cell."""
    aligned = [size if name in query.attributes else 1 for name, size in zip(domain.names, domain.shape, strict=True)]
    return np.broadcast_to(query.tensor().reshape(aligned), domain.shape)


def tilted(p: np.ndarray, q: np.ndarray, eta: float) -> np.ndarray:
    exponents = eta * q
    weights = p * np.exp(exponents - exponents[p > 0].max())
    return weights / weights.sum()


def summed(p: np.ndarray, domain: Domain, names: tuple[str, ...]) -> np.ndarray:
    return p.sum(axis=tuple(place for place, name in enumerate(domain.names) if name not in names))


def divergence(first: np.ndarray, second: np.ndarray) -> float:
    held = first > 0
    return float((first[held] * np.log(first[held] / second[held])).sum())


def apply(hypothesis: Hypothesis, step: tuple[str, Product | Dense, float]) -> float:
    verb, query, number = step
    if verb == "project":
        return hypothesis.project(query, number)
    hypothesis.reweight(query, number)
    return number


def check_agreement(hypothesis: Hypothesis, p: np.ndarray, script: Script) -> None:
    domain = hypothesis.domain
    for _ in range(2):
        query = script.query()
        expected = float((p * on_universe(query, domain)).sum())
        assert hypothesis.expect(query) == pytest.approx(expected, rel=RELATIVE_ERROR, abs=NEGLIGIBLE)
    sets = [script.names() for _ in range(3)]
    for names, marginal in zip(sets, hypothesis.marginals(sets), strict=True):
        assert marginal.shape == domain.shape_of(names)
        np.testing.assert_allclose(marginal, summed(p, domain, names), rtol=RELATIVE_ERROR, atol=NEGLIGIBLE)
        np.testing.assert_allclose(hypothesis.marginal(names[::-1]), marginal, rtol=RELATIVE_ERROR, atol=NEGLIGIBLE)


@every_hypothesis
@given(domain=domains(), seed=st.integers(0, 2**32), count=st.integers(1, 6))
@some_examples
def test_update_sequences_agree_with_enumeration(kind: str, domain: Domain, seed: int, count: int) -> None:
    script, hypothesis = Script(domain, seed), BUILDERS[kind](domain)
    p = np.full(domain.shape, 1.0 / domain.size)
    check_agreement(hypothesis, p, script)
    for step in script.updates(count):
        eta = apply(hypothesis, step)
        verb, query, number = step
        q = on_universe(query, domain)
        if verb == "project":
            low, high = float(q[p > 0].min()), float(q[p > 0].max())
            if low == high:
                assert eta == 0.0
            else:
                aim = min(max(number, low + MARGIN * (high - low)), high - MARGIN * (high - low))
                assert abs(hypothesis.expect(query) - aim) <= TARGET_ERROR
        p = tilted(p, q, eta)
        check_agreement(hypothesis, p, script)


@every_hypothesis
@given(domain=domains(), seed=st.integers(0, 2**32))
@some_examples
def test_divergence_to_the_data_never_grows(kind: str, domain: Domain, seed: int) -> None:
    """Spec 4.3: a noisy answer within c of the truth, moved by c toward the hypothesis, never loses ground."""
    script, hypothesis = Script(domain, seed), BUILDERS[kind](domain)
    data = script.random.dirichlet(np.full(domain.size, 0.3)).reshape(domain.shape)
    for _ in range(5):
        query = script.query()
        q = on_universe(query, domain)
        before, guess, truth = hypothesis.marginal(domain.names), hypothesis.expect(query), float((data * q).sum())
        bound = float(script.random.choice([0.0, 0.02, 0.2]))
        measured = truth + bound * float(script.random.uniform(-1.0, 1.0))
        target = conservative_target(measured=measured, bound=bound, guess=guess)
        if target is None:
            continue
        hypothesis.project(query, target)
        after = hypothesis.marginal(domain.names)
        assume((after[data > 0] > 0).all())
        drop = divergence(data, before) - divergence(data, after)
        moved = hypothesis.expect(query) - guess
        assert drop >= divergence(after, before) - KL_ROUNDING
        if q.min() < q.max():
            assert drop >= 2.0 * moved**2 / float(q.max() - q.min()) ** 2 - KL_ROUNDING


@every_hypothesis
@given(domain=domains(), seed=st.integers(0, 2**32))
@few_examples
def test_saved_and_loaded_is_the_same_bit_for_bit(kind: str, domain: Domain, seed: int) -> None:
    script, hypothesis = Script(domain, seed), BUILDERS[kind](domain)
    for step in script.updates(4):
        apply(hypothesis, step)
    saved = hypothesis.to_bytes()
    loaded = load(saved)
    assert type(loaded) is type(hypothesis)
    assert loaded.domain == domain
    assert loaded.to_bytes() == saved
    if kind == "dense-compiled":
        loaded = type(hypothesis).from_bytes(saved)
        loaded.__dict__.update(_compiled=True, _kernels=hypothesis.__dict__["_kernels"])
    for step in script.updates(3):
        assert apply(loaded, step) == apply(hypothesis, step)
    assert loaded.to_bytes() == hypothesis.to_bytes()


@every_hypothesis
@given(domain=domains(), seed=st.integers(0, 2**32))
@few_examples
def test_a_replay_is_bit_identical_whatever_was_read_between(kind: str, domain: Domain, seed: int) -> None:
    script = Script(domain, seed)
    steps = script.updates(6)
    first, second = BUILDERS[kind](domain), BUILDERS[kind](domain)
    for step in steps:
        apply(first, step)
        first.expect(script.query())
        first.expect(step[1])
        first.marginals([script.names(), domain.names])
    for step in steps:
        apply(second, step)
    assert first.to_bytes() == second.to_bytes()


@every_hypothesis
def test_a_copy_moves_alone(kind: str) -> None:
    domain = Domain({"a": 3, "b": 2})
    hypothesis = BUILDERS[kind](domain)
    query = Product(("a",), (np.array([1.0, 0.0, 0.0]),))
    twin = hypothesis.copy()
    twin.project(query, 0.7)
    assert hypothesis.expect(query) == pytest.approx(1 / 3)
    assert twin.expect(query) == pytest.approx(0.7)
    assert isinstance(hypothesis, Hypothesis)
    assert hypothesis.log_size == pytest.approx(math.log(6))


@every_hypothesis
def test_a_lost_support_stays_lost_and_a_constant_query_changes_nothing(kind: str) -> None:
    domain = Domain({"a": 2, "b": 2})
    hypothesis = BUILDERS[kind](domain)
    before = hypothesis.to_bytes()
    assert hypothesis.project(Product((), ()), 0.3) == 0.0
    assert hypothesis.project(Product(("a",), (np.ones(2),)), 0.3) == 0.0
    assert hypothesis.project(Dense(("a", "b"), np.full((2, 2), 0.4)), 0.3) == 0.0
    np.testing.assert_array_equal(hypothesis.marginal(domain.names), load(before).marginal(domain.names))
    with pytest.raises(QueryError, match="finite"):
        hypothesis.project(Product(("a",), (np.array([0.0, 1.0]),)), math.nan)


@every_hypothesis
def test_extreme_targets_are_met_and_can_be_left_again(kind: str) -> None:
    domain = Domain({"a": 3, "b": 4})
    hypothesis = BUILDERS[kind](domain)
    query = Product(("a", "b"), (np.array([0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])))
    for target in (1.0, 0.25, 0.0, 0.9, 1.0, 1.0, 0.5):
        hypothesis.project(query, target)
        assert abs(hypothesis.expect(query) - target) <= TARGET_ERROR


@every_hypothesis
def test_samples_follow_the_distribution(kind: str) -> None:
    domain = Domain({"a": 3, "b": 2, "c": 2})
    hypothesis = BUILDERS[kind](domain)
    random = np.random.default_rng(7)
    for names in itertools.combinations(domain.names, 2):
        hypothesis.reweight(Dense(names, random.random(domain.shape_of(names))), 2.0)
    rows = 40_000
    codes = hypothesis.sample(rows, np.random.default_rng(11))
    assert codes.shape == (rows, 3)
    counts = np.bincount(np.ravel_multi_index(tuple(codes.T), domain.shape), minlength=domain.size)
    expected = hypothesis.marginal(domain.names).ravel() * rows
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    # 11 degrees of freedom: the 0.01% and 99.99% points
    assert 0.9 < chi_square < 37.4
    assert hypothesis.sample(0, random).shape == (0, 3)


@every_hypothesis
def test_a_fit_comes_near_precise_measurements(kind: str) -> None:
    domain = Domain({"a": 3, "b": 2, "c": 2})
    random = np.random.default_rng(3)
    truth = random.dirichlet(np.ones(domain.size)).reshape(domain.shape)
    sets = [names for order in (1, 2) for names in itertools.combinations(domain.names, order)]
    measurements = [Measurement(Marginal(names), summed(truth, domain, names), 1e-3) for names in sets]
    hypothesis = BUILDERS[kind](domain)
    report = hypothesis.fit(measurements)
    assert report.iterations > 0
    for names, marginal in zip(sets, hypothesis.marginals(sets), strict=True):
        assert np.abs(marginal - summed(truth, domain, names)).max() < 5e-3


@every_hypothesis
@given(domain=domains(), seed=st.integers(0, 2**32))
@few_examples
def test_a_snapshot_answers_as_its_hypothesis_did(kind: str, domain: Domain, seed: int) -> None:
    script, hypothesis = Script(domain, seed), BUILDERS[kind](domain)
    for step in script.updates(2):
        apply(hypothesis, step)
    snapshot = Snapshot(hypothesis)
    queries = [script.query() for _ in range(4)]
    expected = [hypothesis.expect(query) for query in queries]
    digest = snapshot.digest
    apply(hypothesis, ("reweight", script.query(), 1.5))
    for query, value in zip(queries, expected, strict=True):
        assert snapshot.expect(query) == pytest.approx(value, rel=RELATIVE_ERROR, abs=NEGLIGIBLE)
    assert snapshot.digest == digest == Snapshot(snapshot.thaw()).digest
