"""Intervals for the population cover it: tables drawn from a known distribution, released, and asked about it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.replicates import drawn_table

DOMAIN = rt.Domain({"a": 4, "b": 3, "c": 5, "d": 2})
SETS = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("a", "b", "d")]
POPULATIONS, REPLICATES = 24, 40


def distribution(generator: np.random.Generator) -> DenseHypothesis:
    """Interactions of two attributes as strong as half a nat, of three a sixth of it."""
    logits = np.zeros(DOMAIN.shape)
    for order, scale in ((1, 0.7), (2, 0.4), (3, 0.12)):
        for axes in [axes for axes in np.ndindex(*(2,) * len(DOMAIN)) if sum(axes) == order]:
            shape = [size if chosen else 1 for size, chosen in zip(DOMAIN.shape, axes, strict=True)]
            logits = logits + generator.normal(0.0, scale, shape)
    return DenseHypothesis(DOMAIN, np.exp(logits))


def shares(held) -> np.ndarray:
    return np.concatenate([marginal.ravel() for marginal in held.marginals(SETS)])


@pytest.mark.slow
@pytest.mark.parametrize(("records", "epsilon"), [(5000, 0.5), (500, 1.0)])
def test_estimated_and_certified_intervals_cover_and_naive_ones_do_not(records: int, epsilon: float) -> None:
    estimated, naive, certified = [], [], []
    for seed in range(POPULATIONS):
        generator = np.random.default_rng(seed)
        population = distribution(generator)
        counts = np.rint(drawn_table(population, records, generator).marginal(DOMAIN.names) * records).astype(int)
        rows = np.repeat(np.argwhere(counts >= 0), counts.ravel(), axis=0)
        table = rt.Table.of(pa.table(dict(zip(DOMAIN.names, rows.T, strict=True))), DOMAIN)
        workload = rt.Workload([rt.marginal(*names) for names in SETS], domain=DOMAIN)
        release = rt.release(table, workload, rt.Budget(epsilon=epsilon, delta=1e-9)).replicates(REPLICATES, seed=seed)
        truth = shares(population)
        intervals = [release.ask(rt.marginal(*names)).population() for names in SETS]
        low, high = (np.concatenate([np.ravel(getattr(i, end)) for i in intervals]) for end in ("low", "high"))
        estimated.append((low <= truth) & (truth <= high))
        codes = np.stack([release.synthesize(records, seed=seed)[name].to_numpy() for name in DOMAIN.names])
        fake = np.zeros(DOMAIN.shape)
        np.add.at(fake, tuple(codes), 1)
        value = shares(DenseHypothesis(DOMAIN, fake))
        naive.append(np.abs(value - truth) <= 1.96 * np.sqrt(value * (1 - value) / records))
        intervals = [release.ask(rt.marginal(*names)).population(mode="certified") for names in SETS]
        low, high = (np.concatenate([np.ravel(getattr(i, end)) for i in intervals]) for end in ("low", "high"))
        certified.append((low <= truth) & (truth <= high))
    assert 0.92 <= np.mean(estimated) <= 0.985
    assert np.mean(naive) < np.mean(estimated) - 0.05
    assert np.mean(certified) >= 0.95
