"""Records moved through a log-linear model: its distribution stays, and missing records come in."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from reticent.domain import Domain
from reticent.domain.impossible import impossible_cells
from reticent.hypotheses import Measurement, SupportHypothesis, moving
from reticent.hypotheses.fitting.loglinear import LogLinear
from reticent.hypotheses.moving import drawn_support, fit_and_move, log_density, moved_records
from reticent.queries.linear import Marginal

SMALL = Domain({"a": 2, "b": 3, "c": 4})
RULED = Domain({"a": 2, "b": 3, "c": 4}, impossible=["a = 0 AND b = 2", "b = 1 AND c > 1"])
ROWS = 200_000


def model_on(domain: Domain, seed: int = 5) -> LogLinear:
    random = np.random.default_rng(seed)
    sets = (*((name,) for name in domain.names), ("a", "b"), ("b", "c"), domain.names)
    return LogLinear(sets, tuple(random.normal(0, 1, domain.shape_of(names)) for names in sets))


def probabilities(domain: Domain, model: LogLinear) -> np.ndarray:
    every = np.stack(np.unravel_index(np.arange(domain.size), domain.shape), axis=1)
    weights = np.exp(log_density(domain, every, model)).reshape(domain.shape)
    ruled = impossible_cells(domain, domain.names)
    return (weights if ruled is None else np.where(ruled, 0.0, weights)) / (
        weights.sum() if ruled is None else weights[~ruled].sum()
    )


def counts(support: SupportHypothesis, model: LogLinear) -> np.ndarray:
    """How often each record was drawn: what the density of a support of distinct records was divided by."""
    domain = support.domain
    times = np.exp(log_density(domain, support.codes, model) - support._log_density)
    places = np.ravel_multi_index(tuple(support.codes.T), domain.shape)
    return np.bincount(places, weights=times, minlength=domain.size).reshape(domain.shape)


@pytest.mark.parametrize("domain", [SMALL, RULED], ids=["free", "ruled"])
def test_records_of_the_model_stay_its_records(domain: Domain) -> None:
    """A chi-square test of all cells that fails once in a million draws; seeds are fixed."""
    model = model_on(domain)
    expected = probabilities(domain, model)
    cells = np.flatnonzero(expected)
    every = np.stack(np.unravel_index(cells, domain.shape), axis=1)
    start = SupportHypothesis(domain, every, expected.ravel()[cells])
    found = counts(moved_records(start, model, ROWS, np.random.default_rng(1)), model)
    assert found.sum() == pytest.approx(ROWS)
    assert (found[expected == 0] == 0).all()
    aim = ROWS * expected.ravel()[cells]
    assert (((found.ravel()[cells] - aim) ** 2) / aim).sum() < chi2.ppf(1 - 1e-6, cells.size - 1)


@pytest.mark.parametrize("domain", [SMALL, RULED], ids=["free", "ruled"])
def test_one_record_becomes_all_of_them(domain: Domain) -> None:
    model = model_on(domain)
    held = SupportHypothesis(domain, np.zeros((1, 3), dtype=int))
    for seed in range(24):
        held = moved_records(held, model, ROWS // 8, np.random.default_rng(seed))
        times = counts(held, model)[tuple(held.codes.T)]
        held = SupportHypothesis(domain, held.codes, times, log_density=held._log_density)
    aim = probabilities(domain, model)
    assert np.abs(counts(held, model) / (ROWS // 8) - aim).sum() / 2 < 0.02


def test_a_fit_on_distinct_records_is_the_fit_on_all() -> None:
    random = np.random.default_rng(3)
    codes = random.integers(0, SMALL.shape, (400, 3))
    density = random.normal(0, 0.3, SMALL.shape)[tuple(codes.T)]
    truth = np.random.default_rng(4).dirichlet(np.ones(SMALL.size)).reshape(SMALL.shape)
    pairs = list(combinations(range(3), 2))
    measured = [
        Measurement(Marginal([SMALL.names[i] for i in s]), truth.sum(axis=tuple({0, 1, 2} - set(s))), 1e-2)
        for s in pairs
    ]
    fits = []
    for distinct in (False, True):
        support = drawn_support(SMALL, codes, density, distinct=distinct)
        support.fit(measured)
        fits.append(support.marginal(SMALL.names))
    assert len(drawn_support(SMALL, codes, density).codes) <= SMALL.size < len(codes)
    np.testing.assert_allclose(fits[1], fits[0], atol=2e-4)


def test_moved_records_reach_what_weights_alone_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column copies a code that is none of them, so that records of independent columns hardly have any pair."""
    codes, columns, rows = 8, 5, 4000
    domain, random = Domain({f"c{i}": codes for i in range(columns)}), np.random.default_rng(7)
    hidden = random.integers(0, codes, rows)
    table = np.column_stack(
        [np.where(random.random(rows) < 0.85, hidden, random.integers(0, codes, rows)) for _ in range(columns)]
    )
    sd, measured, truth = 1e-4, [], {}
    for pair in combinations(range(columns), 2):
        places = np.ravel_multi_index(tuple(table[:, i] for i in pair), (codes, codes))
        truth[pair] = np.bincount(places, minlength=codes**2).reshape(codes, codes) / rows
        noisy = truth[pair] + random.normal(0, sd, (codes, codes))
        measured.append(Measurement(Marginal([domain.names[i] for i in pair]), noisy, sd))
    flat = LogLinear(tuple((name,) for name in domain.names), tuple(np.zeros(codes) for _ in domain.names))

    def distance(moves: int) -> tuple[float, float]:
        monkeypatch.setattr(moving, "MOVES", moves)
        start = drawn_support(domain, np.random.default_rng(8).integers(0, codes, (2048, columns)), np.zeros(2048))
        held, fitted = fit_and_move(start, measured, flat, 2048, seed=9)
        found = (held.marginal([domain.names[i] for i in pair]) for pair in truth)
        variations = [np.abs(f - t).sum() / 2 for f, t in zip(found, truth.values(), strict=True)]
        return float(np.mean(variations)), fitted.misfit

    (stayed, far), (moved, near) = distance(0), distance(2)
    assert moved < stayed / 2
    assert near < far / 2
