"""Water-filling: never above what equal or plain shares leave, nothing where there is nothing to learn."""

from itertools import combinations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.releases.allocation import Allocation
from reticent.releases.candidates import measured_sets

DOMAIN = Domain({"a": 2, "b": 5, "c": 3, "d": 1, "e": 4})
TARGETS = dict.fromkeys(combinations(DOMAIN.names, 3), 1.0)


def left(allocation: Allocation, precisions: np.ndarray) -> float:
    """Sum over targets of the root of cells times squared error, from the definition; nothing known beforehand."""
    known = dict(zip(allocation.sets, allocation.precisions(precisions), strict=True))
    total = 0.0
    for names in TARGETS:
        squared = 0.0
        for order in (1, 2, 3):
            for inner in combinations(names, order):
                kept = np.prod([1 - 1 / DOMAIN[name].size for name in inner])
                squared += kept * DOMAIN.cells(inner) ** 2 / DOMAIN.cells(names) / known[inner]
        total += np.sqrt(DOMAIN.cells(names) * squared)
    return total


def test_shares_are_at_least_as_good_as_equal_and_as_plain_ones():
    sets = measured_sets(DOMAIN, TARGETS, 2**20)
    allocation = Allocation(DOMAIN, sets, TARGETS)
    found = allocation.fill(7.0, np.zeros(len(sets)), np.zeros(len(sets)), [None] * len(sets))
    assert found.sum() == pytest.approx(7)
    assert found.min() >= 0
    plain = np.array([float(s in TARGETS) for s in sets])
    for other in (np.ones(len(sets)), plain):
        assert left(allocation, found) <= 1.001 * left(allocation, 7 * other / other.sum())


def test_what_is_known_to_be_faint_is_not_measured():
    sets = measured_sets(DOMAIN, TARGETS, 2**20)
    allocation = Allocation(DOMAIN, sets, TARGETS)
    faint = [None if len(s) < 3 else np.full(DOMAIN.shape_of(s), 1e-9) for s in sets]
    found = allocation.fill(1.0, np.zeros(len(sets)), np.zeros(len(sets)), faint)
    strong = allocation.fill(1.0, np.zeros(len(sets)), np.zeros(len(sets)), [None] * len(sets))
    triples = np.array([len(s) == 3 and "d" not in s for s in sets])  # a set with d is one without it
    assert found[triples].sum() < 0.1 * strong[triples].sum()


def test_sets_of_any_order_are_measured():
    sets = measured_sets(DOMAIN, [DOMAIN.names], 2**20)
    assert DOMAIN.names in sets
    assert len(sets) == 2**5 - 1
    assert DOMAIN.names not in measured_sets(DOMAIN, [DOMAIN.names], 100)
