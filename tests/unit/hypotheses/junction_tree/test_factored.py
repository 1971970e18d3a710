"""The factored hypothesis against a dense tensor that does the same by enumeration."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.unit.hypotheses.structures import assert_close, collapse, random_structure

from reticent.domain import Domain
from reticent.errors import DomainError
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.queries.forms import Dense, Product
from reticent.queries.linear import Marginal

ADULT_14 = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
PROJECTION = 1e-12


def random_form(generator: np.random.Generator, domain: Domain, *, most: int = 3) -> Product | Dense:
    count = int(generator.integers(0, min(most, len(domain)) + 1))
    names = domain.canonical(generator.choice(domain.names, count, replace=False).tolist())
    binary = bool(generator.integers(2))
    draw = (lambda shape: generator.integers(0, 2, shape)) if binary else generator.random
    if generator.integers(2):
        return Product(names, tuple(np.asarray(draw(n), float) for n in domain.shape_of(names)))
    return Dense(names, np.asarray(draw(domain.shape_of(names)), float))


def on_universe(domain: Domain, form: Product | Dense) -> np.ndarray:
    shape = [domain[n].size if n in form.attributes else 1 for n in domain.names]
    return np.broadcast_to(form.tensor().reshape(shape), domain.shape)


def moved(tensor: np.ndarray, values: np.ndarray, eta: float) -> np.ndarray:
    tensor = tensor * np.exp(eta * values)
    return tensor / tensor.sum()


@pytest.mark.parametrize("seed", range(150))
def test_a_sequence_of_updates_matches_enumeration(seed: int) -> None:
    generator = np.random.default_rng(seed)
    structure = random_structure(generator, scale=1.0, distinct=True)
    domain = Domain(structure.domain)
    hypothesis = FactoredHypothesis(domain, dict(zip(structure.named, structure.factors, strict=True)))
    tensor = structure.enumerate()[1]
    for _ in range(6):
        form = random_form(generator, domain)
        values = on_universe(domain, form)
        if generator.integers(2):
            eta = float(generator.normal(scale=3.0))
            hypothesis.reweight(form, eta)
        else:
            target = float(generator.uniform(*form.range))
            eta = hypothesis.project(form, target)
            if eta != 0.0:
                assert abs(hypothesis.expect(form) - target) < PROJECTION
            else:
                assert np.ptp(values) == 0.0 or abs(target - float((tensor * values).sum())) < PROJECTION
        tensor = moved(tensor, values, eta)
        question = random_form(generator, domain, most=len(domain))
        assert_close(np.array(hypothesis.expect(question)), (tensor * on_universe(domain, question)).sum())
        kept = tuple(np.flatnonzero(generator.random(len(domain)) < 0.5).tolist())
        marginal = hypothesis.marginal([domain.names[p] for p in reversed(kept)])
        assert_close(marginal, collapse(tensor, kept))


def updated(seed: int, rounds: int = 12) -> tuple[FactoredHypothesis, np.random.Generator]:
    generator = np.random.default_rng(seed)
    domain = Domain({f"a{i}": int(s) for i, s in enumerate(generator.integers(2, 6, 9))})
    hypothesis = FactoredHypothesis(domain)
    for _ in range(rounds):
        hypothesis.reweight(random_form(generator, domain), float(generator.normal()))
    return hypothesis, generator


@pytest.mark.parametrize("seed", range(10))
def test_save_load_copy_and_replay_are_bit_identical(seed: int) -> None:
    hypothesis, generator = updated(seed)
    form = random_form(generator, hypothesis.domain)
    hypothesis.expect(form)  # a question leaves no trace in later answers
    loaded = FactoredHypothesis.from_bytes(hypothesis.to_bytes())
    twins = [hypothesis, loaded, hypothesis.copy(), updated(seed)[0]]
    assert len({twin.to_bytes() for twin in twins}) == 1
    questions = [random_form(generator, hypothesis.domain, most=9) for _ in range(10)]
    eta = [twin.project(form, 0.3) for twin in twins]
    assert len(set(eta)) == 1
    for question in questions:
        assert len({twin.expect(question) for twin in twins}) == 1
    assert len({twin.to_bytes() for twin in twins}) == 1


def test_a_copy_is_independent() -> None:
    hypothesis, _ = updated(3)
    form = Product(("a0", "a5"), (np.eye(hypothesis.domain["a0"].size)[0], np.eye(hypothesis.domain["a5"].size)[1]))
    before, twin = hypothesis.expect(form), hypothesis.copy()
    twin.project(form, 0.7)
    assert hypothesis.expect(form) == before
    assert twin.expect(form) == pytest.approx(0.7, abs=PROJECTION)
    assert isinstance(hypothesis, Hypothesis)


@pytest.mark.parametrize("independent", [True, False])
def test_rows_follow_the_hypothesis(independent: bool) -> None:
    hypothesis, generator = updated(5)
    rows = 40_000
    draw = hypothesis.sample if independent else hypothesis.systematic
    codes = draw(rows, generator)
    assert codes.shape == (rows, 9)
    sets = [names for names in hypothesis.factors if names]
    for names in sets:
        shape = hypothesis.domain.shape_of(names)
        columns = [codes[:, hypothesis.domain.index(n)] for n in names]
        counts = np.bincount(np.ravel_multi_index(columns, shape), minlength=int(np.prod(shape)))
        expected = hypothesis.marginal(names).ravel()
        # E|X - np| of a binomial is below its standard deviation, sqrt(np): chance allows this mean distance
        chance = 0.5 * np.sqrt(expected / rows).sum()
        assert 0.5 * np.abs(counts / rows - expected).sum() < 1.3 * chance
    assert hypothesis.sample(0, generator).shape == (0, 9)


def test_systematic_rows_are_closer_than_chance() -> None:
    hypothesis, generator = updated(6)
    rows = 20_000

    def distance(codes: np.ndarray) -> float:
        total = 0.0
        for names in (n for n in hypothesis.factors if n):
            shape = hypothesis.domain.shape_of(names)
            columns = [codes[:, hypothesis.domain.index(n)] for n in names]
            counts = np.bincount(np.ravel_multi_index(columns, shape), minlength=int(np.prod(shape)))
            total += 0.5 * np.abs(counts / rows - hypothesis.marginal(names).ravel()).sum()
        return total

    assert distance(hypothesis.systematic(rows, generator)) < 0.5 * distance(hypothesis.sample(rows, generator))


def test_multiplicative_weights_on_one_hundred_binary_attributes() -> None:
    """PMW on 2^100 records: projections to a planted distribution's answers never raise the divergence to it."""
    generator = np.random.default_rng(11)
    domain = Domain({f"b{i}": 2 for i in range(100)})
    rows = (generator.random((2000, 100)) < generator.uniform(0.1, 0.9, 100)).astype(int)
    rows[:, 1::2] = np.where(generator.random((2000, 50)) < 0.7, rows[:, ::2], rows[:, 1::2])
    hypothesis = FactoredHypothesis(domain, limit=2**20)
    gain = 0.0
    for _ in range(40):
        chosen = np.sort(generator.choice(100, 3, replace=False))
        literals = generator.integers(0, 2, 3)
        form = Product(tuple(f"b{i}" for i in chosen), tuple(np.eye(2)[v] for v in literals))
        truth = float((rows[:, chosen] == literals).all(axis=1).mean())
        before = hypothesis.expect(form)
        eta = hypothesis.project(form, truth)
        assert hypothesis.expect(form) == pytest.approx(min(max(truth, 2.0**-40), 1.0), abs=PROJECTION)
        # KL(D||p) - KL(D||p') = eta q(D) - log E_p exp(eta q), for a 0/1 query
        drop = eta * truth - float(np.log1p(before * np.expm1(eta)))
        assert drop >= 2.0 * (truth - before) ** 2 - 1e-12
        gain += drop
    assert gain > 0.1
    wide = Product(domain.names, tuple(np.full(2, 0.5) for _ in range(100)))
    assert hypothesis.expect(wide) == pytest.approx(0.5**100, rel=1e-10)


def test_adults_fourteen_attributes_stay_under_the_guard() -> None:
    generator = np.random.default_rng(2)
    domain = Domain({f"a{i}": size for i, size in enumerate(ADULT_14)})
    hypothesis = FactoredHypothesis(domain, limit=2**20)
    refused = 0
    for _ in range(30):
        chosen = np.sort(generator.choice(14, 2, replace=False))
        names = tuple(f"a{i}" for i in chosen)
        form = Product(names, tuple(np.arange(ADULT_14[i]) % 2.0 for i in chosen))
        size = hypothesis.hypothetical_size(names)
        before = hypothesis.to_bytes()
        try:
            hypothesis.project(form, 0.4)
            assert hypothesis.expect(form) == pytest.approx(0.4, abs=PROJECTION)
            assert hypothesis.tree.log2_cells == pytest.approx(size)
        except DomainError:
            refused += 1
            assert size > 20.0
            assert hypothesis.to_bytes() == before
        assert hypothesis.tree.cells <= 2**20
    assert 0 < refused < 30


def test_fit_reaches_noiseless_marginals() -> None:
    truth, _ = updated(8)
    sets = [names for names in truth.factors if names]
    fitted = FactoredHypothesis(truth.domain)
    measured = [Measurement(Marginal(names), truth.marginal(names), 1e-4) for names in sets]
    fitted.fit(measured)
    for names in sets:
        assert 0.5 * np.abs(fitted.marginal(names) - truth.marginal(names)).sum() < 1e-3
    loaded = FactoredHypothesis.from_bytes(fitted.to_bytes())
    assert loaded.marginal(sets[0]).tobytes() == fitted.marginal(sets[0]).tobytes()
    again = [h.fit(measured) for h in (fitted, loaded)]
    assert again[0] == again[1]
    assert fitted.to_bytes() == loaded.to_bytes()


def test_a_product_base_keeps_its_one_ways() -> None:
    domain = Domain({"a": 3, "b": 2})
    hypothesis = FactoredHypothesis.product(domain, {"a": np.array([2.0, 1.0, 0.0])})
    assert hypothesis.marginal(("a",)) == pytest.approx([2 / 3, 1 / 3, 0.0], abs=1e-15)
    assert hypothesis.marginal(("b",)) == pytest.approx([0.5, 0.5])
    assert hypothesis.log_size == pytest.approx(np.log(6))
    with pytest.raises(DomainError, match="add them up first"):
        FactoredHypothesis(domain, {("a", "b"): np.zeros((3, 2)), ("b", "a"): np.zeros((3, 2))})


def test_a_query_inside_a_clique_is_quick() -> None:
    generator = np.random.default_rng(1)
    domain = Domain({f"a{i}": 8 for i in range(6)})
    hypothesis = FactoredHypothesis(domain, {domain.names: generator.normal(size=domain.shape)})
    hypothesis.marginal(("a0",))
    form = Product(("a0", "a2", "a4"), tuple(np.eye(8)[i] for i in (1, 2, 3)))
    best = 1.0
    for _ in range(20):
        start = time.perf_counter()
        hypothesis.expect(form)
        best = min(best, time.perf_counter() - start)
    assert best < 100e-6


def test_a_rebuilt_tree_holds_every_factor_that_a_fill_in_clique_held() -> None:
    """Sets that fit a fill-in clique shape no tree of their own: the next rebuild must not lose them."""
    domain = Domain({f"c{i}": 2 for i in range(14)})
    generator = np.random.default_rng(7)
    dense, factored = DenseHypothesis(domain), FactoredHypothesis(domain)
    for _ in range(60):
        names = domain.canonical(generator.choice(domain.names, 3, replace=False).tolist())
        form = Product(names, tuple(np.eye(2)[generator.integers(2)] for _ in names))
        target = float(generator.uniform(0.05, 0.3))
        dense.project(form, target)
        factored.project(form, target)
        assert all(factored.tree.host(factored.tree.positions(held)) is not None for held in factored.factors)
        asked = random_form(generator, domain)
        assert factored.expect(asked) == pytest.approx(dense.expect(asked), abs=1e-9)
    again = FactoredHypothesis.from_bytes(factored.to_bytes())
    assert again.marginal(("c1", "c7")).tobytes() == factored.marginal(("c1", "c7")).tobytes()
