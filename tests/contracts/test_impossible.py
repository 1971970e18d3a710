"""Rules of a domain in every hypothesis: exactly zero where they hold, and elsewhere what enumeration gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.domain.impossible import impossible_cells, impossible_rows
from reticent.errors import DomainError
from reticent.hypotheses import (
    DenseHypothesis,
    Hypothesis,
    Measurement,
    RecordsHypothesis,
    Snapshot,
    SupportHypothesis,
    load,
)
from reticent.hypotheses.choose import drawn_support
from reticent.hypotheses.junction_tree.engine import FactoredEngine
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.hypotheses.junction_tree.log_space import LogEngine
from reticent.hypotheses.junction_tree.tree import JunctionTree, check_rules, rule_masks
from reticent.hypotheses.sampling import low_variance_rows
from reticent.queries.linear import Conjunction, Marginal

RELATIVE_ERROR = 1e-9


def possible_records(domain: Domain) -> np.ndarray:
    codes = np.stack(np.unravel_index(np.arange(domain.size), domain.shape), axis=1)
    return codes[~impossible_rows(domain, codes)]


def compiled_dense(domain: Domain) -> DenseHypothesis:
    """The compiled path, which otherwise serves large universes only."""
    from reticent.hypotheses.dense import kernels as dense_kernels

    hypothesis = DenseHypothesis(domain)
    hypothesis._compiled, hypothesis._kernels = True, dense_kernels
    return hypothesis


BUILDERS: dict[str, Callable[[Domain], Hypothesis]] = {
    "dense": DenseHypothesis,
    "dense-compiled": compiled_dense,
    "factored": FactoredHypothesis,
    "support": lambda domain: SupportHypothesis(domain, possible_records(domain)),
    "records": lambda domain: RecordsHypothesis(domain, possible_records(domain)),
}
every_hypothesis = pytest.mark.parametrize("kind", BUILDERS)
few_examples = settings(max_examples=8, deadline=None)


def rule_text(random: np.random.Generator, names: list[str], sizes: list[int]) -> str:
    """A conjunction of comparisons over up to three columns, each true of some codes and not of all."""
    chosen = random.choice(len(names), min(len(names), int(random.integers(1, 4))), replace=False)
    parts = []
    for place in chosen:
        some = random.choice(sizes[place], int(random.integers(1, sizes[place])), replace=False)
        parts.append(f"{names[place]} IN ({', '.join(map(str, sorted(some)))})")
    return " AND ".join(parts)


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    sizes = draw(st.lists(st.integers(2, 4), min_size=2, max_size=5))
    assume(np.prod(sizes) <= 300)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = [f"a{place}" for place in range(len(sizes))]
    rules = [rule_text(random, names, sizes) for _ in range(int(random.integers(1, 5)))]
    domain = Domain(dict(zip(names, sizes, strict=True)), impossible=rules)
    assume(len(possible_records(domain)))
    return domain


def brute_mask(domain: Domain) -> np.ndarray:
    """Impossible cells of the universe, one record after the other."""
    mask = np.zeros(domain.shape, dtype=bool)
    for codes in itertools.product(*map(range, domain.shape)):
        record = dict(zip(domain.names, codes, strict=True))
        mask[codes] = any(rule.cells[tuple(record[name] for name in rule.attributes)] for rule in domain.impossible)
    return mask


def whole(hypothesis: Hypothesis) -> np.ndarray:
    return hypothesis.marginal(hypothesis.domain.names)


def agree(hypothesis: Hypothesis, expected: np.ndarray, mask: np.ndarray) -> None:
    """The distribution is the expected one, exactly zero on the mask."""
    found = whole(hypothesis)
    assert (found[mask] == 0).all()
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=RELATIVE_ERROR, atol=1e-13)


@every_hypothesis
@few_examples
@given(domains(), st.integers(0, 2**32))
def test_updates_keep_zeros_and_are_those_of_enumeration(kind: str, domain: Domain, seed: int) -> None:
    random, mask, hypothesis = np.random.default_rng(seed), brute_mask(domain), BUILDERS[kind](domain)
    expected = np.where(mask, 0.0, 1.0)
    agree(hypothesis, expected, mask)
    for _ in range(6):
        names = domain.canonical(random.choice(domain.names, int(random.integers(1, 3)), replace=False))
        codes = {name: int(random.integers(domain[name].size)) for name in names}
        query = Conjunction(codes)
        values = query.compile(domain)
        indicator = np.zeros(domain.shape_of(names))
        indicator[tuple(codes.values())] = 1.0
        spread = indicator.reshape([domain[n].size if n in names else 1 for n in domain.names])
        assert hypothesis.expect(values) == pytest.approx(float((expected * spread).sum() / expected.sum()), rel=1e-9)
        if random.integers(2):
            eta = float(random.normal())
            hypothesis.reweight(query, eta)
        else:
            eta = hypothesis.project(query, float(random.uniform(0.05, 0.95)))
        expected = expected * np.exp(eta * spread)
        agree(hypothesis, expected, mask)
    agree(load(hypothesis.to_bytes()), expected, mask)
    agree(Snapshot(hypothesis).thaw(), expected, mask)
    for attributes in itertools.combinations(domain.names, 2):
        others = tuple(i for i, name in enumerate(domain.names) if name not in attributes)
        np.testing.assert_allclose(
            hypothesis.marginal(attributes), expected.sum(axis=others) / expected.sum(), rtol=1e-9, atol=1e-13
        )


@every_hypothesis
@few_examples
@given(domains(), st.integers(0, 2**32))
def test_rows_are_possible(kind: str, domain: Domain, seed: int) -> None:
    random, hypothesis = np.random.default_rng(seed), BUILDERS[kind](domain)
    hypothesis.reweight(Conjunction({domain.names[0]: 0}), float(random.normal(scale=3)))
    for rows in (hypothesis.sample(50, random), low_variance_rows(hypothesis, 40, random)):
        assert not impossible_rows(domain, rows).any()
    singles = low_variance_rows(hypothesis, 40, random, sets=[(name,) for name in domain.names])
    assert not impossible_rows(domain, singles).any()


@every_hypothesis
@settings(max_examples=3, deadline=None)
@given(domains(), st.integers(0, 2**32))
def test_a_fit_converges_with_zeros(kind: str, domain: Domain, seed: int) -> None:
    """Marginals of a table without impossible records, measured with small noise, are met within it."""
    random, mask, hypothesis = np.random.default_rng(seed), brute_mask(domain), BUILDERS[kind](domain)
    truth = np.where(mask, 0.0, random.gamma(1.0, size=domain.shape))
    truth /= truth.sum()
    sd = 0.003
    measured = []
    for names in itertools.combinations(domain.names, 2):
        others = tuple(i for i, name in enumerate(domain.names) if name not in names)
        exact = truth.sum(axis=others)
        measured.append(Measurement(Marginal(names), exact + random.normal(0, sd, exact.shape), sd))
    report = hypothesis.fit(measured)
    assert (whole(hypothesis)[mask] == 0).all()
    # Below one in a million: the largest of at most 160 standard normals, and shrinkage of about one deviation.
    assert report.misfit < 8
    for measurement in measured:
        names = domain.canonical(measurement.query.attributes)
        ruled = impossible_cells(domain, names)
        if ruled is not None:
            assert (hypothesis.marginal(names)[ruled] == 0).all()


@few_examples
@given(domains(), st.integers(0, 2**32))
def test_engines_of_a_fit_agree_with_enumeration(domain: Domain, seed: int) -> None:
    random, mask = np.random.default_rng(seed), brute_mask(domain)
    sets = [*((name,) for name in domain.names), *itertools.combinations(domain.names, 2)]
    parameters = [random.normal(size=domain.shape_of(names)) for names in sets]
    weights = [random.normal(size=domain.shape_of(names)) for names in sets]

    def spread(arrays: list[np.ndarray]) -> np.ndarray:
        total = np.zeros(domain.shape)
        for names, array in zip(sets, arrays, strict=True):
            total = total + array.reshape([domain[n].size if n in names else 1 for n in domain.names])
        return total

    def reduced(table: np.ndarray) -> list[np.ndarray]:
        return [table.sum(axis=tuple(i for i, n in enumerate(domain.names) if n not in names)) for names in sets]

    cells = np.where(mask, 0.0, np.exp(spread(parameters)))
    probabilities = cells / cells.sum()
    direction = spread(weights)
    direction -= (direction * probabilities).sum()
    rules = rule_masks(domain)
    tree = JunctionTree(domain, [*sets, *rules])
    positions = {tree.positions(names): ruled for names, ruled in rules.items()}
    from reticent.hypotheses.dense.dense import DenseEngine

    engines = [
        FactoredEngine(tree, sets, rules),
        LogEngine(tree, [tree.positions(names) for names in sets], positions),
        DenseEngine(domain.shape, [tuple(domain.index(n) for n in names) for names in sets], mask),
    ]
    for engine in engines:
        log_partition, marginals = engine.evaluate(parameters)
        assert log_partition == pytest.approx(float(np.log(cells.sum())), abs=1e-9)
        for found, wanted in zip(marginals, reduced(probabilities), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-13)
            assert (found[wanted == 0] == 0).all()
        for found, wanted in zip(engine.covary(weights), reduced(direction * probabilities), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-11)


def test_extreme_factors_beside_zeros_are_collected_in_logarithms() -> None:
    """Beyond 600 nats products leave float64; zeros must stay apart from what underflows."""
    domain = Domain({"a": 2, "b": 3, "c": 2}, impossible=["a = 0 AND b = 1", "b = 2 AND c = 0"])
    logs = np.array([[0.0, 5.0, -700.0], [-800.0, 3.0, 0.0]])
    hypothesis = FactoredHypothesis(domain, {("a", "b"): logs, ("b", "c"): np.full((3, 2), 1000.0)})
    mask = brute_mask(domain)
    cells = np.where(mask, 0.0, np.exp(logs - 5.0)[:, :, None])
    np.testing.assert_allclose(whole(hypothesis), cells / cells.sum(), rtol=1e-9, atol=1e-300)
    assert (whole(hypothesis)[mask] == 0).all()
    rules = rule_masks(domain)
    tree = JunctionTree(domain, [("a", "b"), *rules])
    engine = FactoredEngine(tree, [("a", "b")], rules)
    (found,) = engine.evaluate([logs])[1]
    np.testing.assert_allclose(found, (cells / cells.sum()).sum(axis=2), rtol=1e-9, atol=1e-300)


@few_examples
@given(domains(), st.integers(0, 2**32))
def test_supports_drawn_and_proposed_are_possible(domain: Domain, seed: int) -> None:
    random = np.random.default_rng(seed)
    one_ways = {name: random.gamma(1.0, size=domain[name].size) for name in domain.names}
    for support in (
        SupportHypothesis.uniform(domain, 200, random),
        SupportHypothesis.product(domain, one_ways, 200, random),
        drawn_support(FactoredHypothesis(domain), 200),
    ):
        assert not impossible_rows(domain, support.codes).any()
    assert (DenseHypothesis.product(domain, one_ways).probabilities()[brute_mask(domain)] == 0).all()


def test_a_support_refuses_an_impossible_record() -> None:
    domain = Domain({"a": 2, "b": 2}, impossible=["a = 0 AND b = 0"])
    with pytest.raises(DomainError, match="declared impossible"):
        SupportHypothesis(domain, np.array([[0, 0], [1, 1]]))


def test_rules_that_leave_nothing_are_refused_before_anything_is_spent() -> None:
    with pytest.raises(DomainError, match="exclude every record"):
        check_rules(Domain({"a": 2, "b": 2}, impossible=["a = 0", "b = 0 AND a = 1", "b = 1 AND a = 1"]))
    with pytest.raises(DomainError, match="exclude every record"):
        check_rules(Domain({"a": 2, "b": 2}, impossible=["a = 0", "a = 1"]))
    wide = {f"a{place}": 50 for place in range(6)}
    pairs = [f"{a} = 0 AND {b} = 0" for a, b in itertools.combinations(wide, 2)]
    with pytest.raises(DomainError, match="junction tree of more than 131072 cells"):
        check_rules(Domain(wide, impossible=pairs))
    check_rules(Domain({"a": 2, "b": 2}, impossible=["a = 0 AND b = 0"]))
