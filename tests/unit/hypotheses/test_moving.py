"""Records moved toward measured marginals: missing records come in, and none that is declared impossible."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.domain.impossible import impossible_rows
from reticent.hypotheses import Measurement, SupportHypothesis, moving
from reticent.hypotheses.fitting.loglinear import LogLinear
from reticent.hypotheses.moving import Mover, fit_and_move, log_density, stratified_support
from reticent.queries.linear import Marginal

SMALL = Domain({"a": 2, "b": 3, "c": 4})
RULED = Domain({"a": 2, "b": 3, "c": 4}, impossible=["a = 0 AND b = 2", "b = 1 AND c > 1"])
ROWS = 4000


def product_model(domain: Domain) -> LogLinear:
    sets = tuple((name,) for name in domain.names)
    return LogLinear(sets, tuple(np.zeros(domain.shape_of(names)) for names in sets))


def pairs_of(domain: Domain, cells: np.ndarray, sd: float) -> list[Measurement]:
    """Pairs of a whole distribution, as if measured without noise."""
    axes = range(len(domain))
    return [
        Measurement(Marginal([domain.names[i] for i in pair]), cells.sum(axis=tuple(set(axes) - set(pair))), sd)
        for pair in combinations(axes, 2)
    ]


@pytest.mark.parametrize("domain", [SMALL, RULED], ids=["free", "ruled"])
def test_one_record_becomes_all_that_were_measured(domain: Domain) -> None:
    every = np.stack(np.unravel_index(np.arange(domain.size), domain.shape), axis=1)
    possible = ~impossible_rows(domain, every)
    weights = np.where(possible, np.random.default_rng(5).random(domain.size), 0.0)
    truth = (weights / weights.sum()).reshape(domain.shape)
    measured = pairs_of(domain, truth, 1e-4)
    held = SupportHypothesis(domain, every[np.flatnonzero(possible)[:1]])
    held.fit(measured, start=product_model(domain))
    mover = Mover.of(domain, measured, ROWS, seed=3)
    assert mover is not None
    moved = mover.moved(held)
    assert held.model is not None
    times = np.exp(log_density(domain, moved.codes, held.model) - moved._log_density)
    assert times.sum() == pytest.approx(ROWS)
    found = SupportHypothesis(domain, moved.codes, times)
    for measurement in measured:
        names = domain.canonical(measurement.query.attributes)
        assert np.abs(found.marginal(names) - measurement.values).sum() / 2 < 0.02


def test_a_fit_on_distinct_records_is_the_fit_on_all() -> None:
    random = np.random.default_rng(3)
    codes = random.integers(0, SMALL.shape, (400, 3))
    density = random.normal(0, 0.3, SMALL.shape)[tuple(codes.T)]
    truth = np.random.default_rng(4).dirichlet(np.ones(SMALL.size)).reshape(SMALL.shape)
    measured = pairs_of(SMALL, truth, 1e-2)
    fits = []
    for distinct in (False, True):
        support = stratified_support(SMALL, codes, density, distinct=distinct)
        support.fit(measured)
        fits.append(support.marginal(SMALL.names))
    assert len(stratified_support(SMALL, codes, density).codes) <= SMALL.size < len(codes)
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

    def distance(moves: int) -> tuple[float, float]:
        monkeypatch.setattr(moving, "MOVES", moves)
        start = stratified_support(domain, np.random.default_rng(8).integers(0, codes, (2048, columns)), np.zeros(2048))
        held, fitted = fit_and_move(start, measured, product_model(domain), 2048, seed=9)
        found = (held.marginal([domain.names[i] for i in pair]) for pair in truth)
        variations = [np.abs(f - t).sum() / 2 for f, t in zip(found, truth.values(), strict=True)]
        return float(np.mean(variations)), fitted.misfit

    (stayed, far), (moved, near) = distance(0), distance(2)
    assert moved < stayed / 2
    assert near < far / 2
