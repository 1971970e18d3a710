"""The estimated total variation of a fit tracks the true one; checked where the truth is known."""

from __future__ import annotations

import itertools

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.knowledge.typical import expected_variation
from reticent.queries.linear import Marginal

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5})
LEAST, MOST = 0.3, 4.0
"""An estimate may be off by a factor; an order of magnitude would be useless."""


def test_estimates_are_of_the_right_size_and_grow_with_the_set() -> None:
    rng = np.random.default_rng(5)
    truth = rng.dirichlet(np.full(120, 0.5)).reshape(DOMAIN.shape)
    for sd in (0.001, 0.01):
        measurements, sets = [], [s for k in (1, 2, 3) for s in itertools.combinations(DOMAIN.names, k)]
        for names in sets:
            axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)
            exact = truth.sum(axis=axes)
            measurements.append(Measurement(Marginal(names), exact + sd * rng.normal(size=exact.shape), sd))
        hypothesis = DenseHypothesis(DOMAIN)
        hypothesis.fit(measurements)
        estimates = expected_variation(hypothesis, measurements)
        assert set(estimates) == set(sets)
        for names in sets:
            assert all(estimates[names] >= estimates[s] for s in sets if set(s) <= set(names))
        triples = [s for s in sets if len(s) == 3]
        axes = {s: tuple(i for i, name in enumerate(DOMAIN.names) if name not in s) for s in triples}
        true = np.mean([0.5 * np.abs(hypothesis.marginal(s) - truth.sum(axis=axes[s])).sum() for s in triples])
        ratio = np.mean([estimates[s] for s in triples]) / true
        assert LEAST < ratio < MOST, f"estimate over truth is {ratio:.2f} at sd {sd}"
