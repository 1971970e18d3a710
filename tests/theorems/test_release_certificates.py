"""The certified bound of a release holds in at least as many runs as its confidence promises."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest

import reticent as rt
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table

DOMAIN = rt.Domain({"a": 3, "b": 4, "c": 2, "d": 3})
ROWS = 1500
RARE = 1e-3
"""A test that fails by chance this seldom."""


def table(seed: int) -> tuple[Table, np.ndarray]:
    rng = np.random.default_rng(seed)
    cells = rng.choice(72, size=ROWS, p=rng.dirichlet(np.full(72, 0.4)))
    codes = np.stack(np.unravel_index(cells, DOMAIN.shape))
    columns = dict(zip(DOMAIN.names, codes, strict=True))
    source = Records.of_codes(DOMAIN, columns, np.ones(ROWS, dtype=np.int64))
    return Table(source, DOMAIN, records=ROWS), np.bincount(cells, minlength=72).reshape(DOMAIN.shape) / ROWS


def largest_miss(release: rt.Release, truth: np.ndarray, kind: str) -> float:
    worst = 0.0
    for names in itertools.combinations(DOMAIN.names, 3):
        axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)
        difference = truth.sum(axis=axes) - release.hypothesis.marginal(names)
        if kind == "cells":
            worst = max(worst, float(np.abs(difference).max()))
            continue
        spans = [[(i, j) for i in range(n) for j in range(i + 1, n + 1)] for n in difference.shape]
        for box in itertools.product(*spans):
            worst = max(worst, abs(float(difference[tuple(slice(i, j) for i, j in box)].sum())))
    return worst


def too_many(misses: int, runs: int, failure: float) -> bool:
    """Whether so many misses would happen with probability below RARE if each had probability `failure`."""
    tail = sum(comb(runs, j) * failure**j * (1 - failure) ** (runs - j) for j in range(misses, runs + 1))
    return tail < RARE


@pytest.mark.parametrize("runs", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_certified_bounds_hold_as_often_as_promised(runs: int) -> None:
    misses = 0
    for seed in range(runs):
        private, truth = table(seed)
        release = rt.release(private, rt.marginals(DOMAIN, 3), rt.Budget(epsilon=1, delta=1e-9))
        assert {c.kind for c in release.certificates} == {"cells", "boxes"}
        misses += any(largest_miss(release, truth, c.kind) > c.bound for c in release.certificates)
    assert not too_many(misses, runs, 0.05), f"{misses} of {runs} releases broke a bound of confidence 0.95"


def test_the_count_can_fail() -> None:
    assert too_many(25, 25, 0.05)
    assert not too_many(2, 25, 0.05)
