"""Junction trees against brute-force enumeration: beliefs, partition functions, crossings, engines, guards."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.hypotheses.structures import assert_close, collapse, random_structure

from reticent.errors import DomainError
from reticent.hypotheses.junction_tree.crossing import across
from reticent.hypotheses.junction_tree.engine import FactoredEngine
from reticent.hypotheses.junction_tree.potentials import reduce
from reticent.hypotheses.junction_tree.tree import JunctionTree

SCALES = (0.1, 1.0, 5.0, 300.0)
"""Nats of a factor's entries; the last leaves what probability space can hold."""


def cases(count: int):
    return pytest.mark.parametrize(("seed", "scale"), [(seed, SCALES[seed % len(SCALES)]) for seed in range(count)])


@pytest.mark.parametrize("seed", range(40))
def test_running_intersection(seed: int) -> None:
    structure = random_structure(np.random.default_rng(seed), scale=1.0)
    tree = JunctionTree(structure.domain, structure.named)
    for clique, parent in enumerate(tree.parents):
        assert parent < clique
        above = set().union(*tree.cliques[:clique]) if clique else set()
        assert set(tree.separators[clique]) == set(tree.cliques[clique]) & above


@cases(200)
def test_beliefs_match_enumeration(seed: int, scale: float) -> None:
    structure = random_structure(np.random.default_rng(seed), scale=scale, distinct=True)
    tree = JunctionTree(structure.domain, structure.named)
    beliefs = tree.calibrate(dict(zip(structure.named, structure.factors, strict=True)))
    log_partition, tensor = structure.enumerate()
    assert beliefs.log_partition == pytest.approx(log_partition, rel=1e-12, abs=1e-12)
    for clique, members in enumerate(tree.cliques):
        assert_close(beliefs.inside(members, clique), collapse(tensor, members))


@cases(100)
def test_updates_drop_exactly_what_they_change(seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    structure = random_structure(generator, scale=scale, distinct=True)
    tree = JunctionTree(structure.domain, structure.named)
    beliefs = tree.calibrate(dict(zip(structure.named, structure.factors, strict=True)))
    for _ in range(4):
        if structure.sets:
            index = int(generator.integers(len(structure.sets)))
            structure.factors[index] = scale * generator.normal(size=structure.factors[index].shape)
            beliefs.update(structure.sets[index], structure.factors[index])
        clique = int(generator.integers(len(tree.cliques)))
        expected = collapse(structure.enumerate()[1], tree.cliques[clique])
        assert_close(beliefs.inside(tree.cliques[clique], clique), expected)
        fresh = tree.calibrate(dict(zip(structure.named, structure.factors, strict=True)))
        assert beliefs.belief(clique).tobytes() == fresh.belief(clique).tobytes()


@cases(150)
def test_crossings_match_enumeration(seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    structure = random_structure(generator, scale=scale, distinct=True)
    tree = JunctionTree(structure.domain, structure.named)
    beliefs = tree.calibrate(dict(zip(structure.named, structure.factors, strict=True)))
    tensor, count = structure.enumerate()[1], len(structure.sizes)
    keep = tuple(np.flatnonzero(generator.random(count) < 0.5).tolist())
    vectors = {i: generator.random(structure.sizes[i]) for i in range(count) if i not in keep or i % 2}
    weighted = tensor
    for i, vector in vectors.items():
        weighted = weighted * vector.reshape([-1 if j == i else 1 for j in range(count)])
    assert_close(across(beliefs, vectors, keep, limit=2**20), collapse(weighted, keep))


@cases(200)
def test_engine_matches_enumeration(seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    structure = random_structure(generator, scale=scale)
    engine = FactoredEngine(JunctionTree(structure.domain, structure.named), structure.named)
    directions = [generator.normal(size=f.shape) for f in structure.factors]
    log_partition, tensor = structure.enumerate()
    along = structure.spread(directions)
    bend = tensor * (along - float((tensor * along).sum()))
    for _ in range(2):
        found, marginals = engine.evaluate(structure.factors)
        assert found == pytest.approx(log_partition, rel=1e-12, abs=1e-12)
        covariances = engine.covary(directions)
        for positions, marginal, covariance in zip(structure.sets, marginals, covariances, strict=True):
            assert_close(marginal, collapse(tensor, positions), floor=1e-140)
            error = np.abs(covariance - collapse(bend, positions)).max() / np.abs(along).max()
            assert error < (1e-13 if scale < 100 else 1e-8)


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 2)])
def test_sums_of_many_equal_cells_do_not_drift(axes: tuple[int, ...]) -> None:
    shape = (100, 120, 140)
    kept = [shape[a] for a in axes]
    expected = 0.1 * float(np.prod(shape)) / float(np.prod(kept))
    sums = reduce(shape, np.full(int(np.prod(shape)), 0.1), axes)
    np.testing.assert_allclose(sums, np.full(int(np.prod(kept)), expected), rtol=2e-14)


def test_one_hundred_binary_attributes() -> None:
    generator = np.random.default_rng(7)
    names = [f"b{i}" for i in range(100)]
    sets = [tuple(generator.choice(names, 3, replace=False)) for _ in range(50)]
    tree = JunctionTree(dict.fromkeys(names, 2), sets)
    named = [tuple(names[p] for p in s) for s in tree.sets]
    factors = [generator.normal(size=(2, 2, 2)) for _ in named]
    log_partition, marginals = FactoredEngine(tree, named).evaluate(factors)
    beliefs = tree.calibrate(dict(zip(named, factors, strict=True)))
    assert beliefs.log_partition == pytest.approx(log_partition, rel=1e-13)
    for positions, marginal in zip(tree.sets, marginals, strict=True):
        assert_close(marginal, across(beliefs, {}, positions, limit=2**20))
    assert tree.cells < 2**12


def test_the_guard_refuses_before_building() -> None:
    names = [f"a{i}" for i in range(14)]
    sizes = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
    with pytest.raises(DomainError, match=r"2\^59\.\d cells, the limit is 2\^24\.0"):
        JunctionTree(dict(zip(names, sizes, strict=True)), [names])
    tree = JunctionTree(dict(zip(names, sizes, strict=True)), [names[i : i + 2] for i in range(13)])
    beliefs = tree.calibrate({})
    with pytest.raises(DomainError, match="this marginal needs a table"):
        across(beliefs, {}, range(14), limit=2**24)
    ones = {i: np.full(size, 0.5) for i, size in enumerate(sizes)}
    assert float(across(beliefs, ones, (), limit=2**24)) == pytest.approx(0.5**14, rel=1e-13)


def test_factors_are_checked() -> None:
    tree = JunctionTree({"a": 2, "b": 3, "c": 2}, [("a", "b")])
    with pytest.raises(DomainError, match="no clique holds"):
        tree.calibrate({("a", "c"): np.zeros((2, 2))})
    with pytest.raises(DomainError, match="shape"):
        tree.calibrate({("a", "b"): np.zeros((3, 2))})
    with pytest.raises(DomainError, match="infinite"):
        tree.calibrate({("a", "b"): np.full((2, 3), -np.inf)})
    with pytest.raises(DomainError, match="do not match"):
        FactoredEngine(tree, [("a", "b")]).evaluate([np.zeros((3, 2))])
