"""Cells that a model without interactions gives next to nothing, and many records were measured in."""

from itertools import combinations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseEngine, DenseHypothesis
from reticent.hypotheses.fitting.forest import forest_parameters
from reticent.hypotheses.fitting.loglinear import FitProblem, terms_of
from reticent.hypotheses.fitting.prior import Prior, product_base
from reticent.hypotheses.fitting.proportional import consistent_marginals, proportional_start, within_noise
from reticent.queries.linear import Marginal

SIZE, SD = 12, 1e-4
DOMAIN = Domain({"a": SIZE, "b": SIZE, "c": 3})


def diagonal():
    """The second column tells the first; the last code is rare: its cell is expected to hold a hundred thousandth."""
    weights = np.append(np.full(SIZE - 1, (1 - 0.003) / (SIZE - 1)), 0.003)
    return np.multiply.outer(np.diag(weights), np.array([0.5, 0.3, 0.2]))


def measured(seed=1):
    truth, generator, found = diagonal(), np.random.default_rng(seed), []
    for names, dropped in ((("a", "b"), 2), (("b", "c"), 0), (("a", "c"), 1)):
        values = truth.sum(axis=dropped)
        found.append(Measurement(Marginal(names), values + generator.normal(0, SD, values.shape), SD))
    return found


def problem():
    terms = terms_of(measured(), DOMAIN, Prior())
    base = product_base(DOMAIN, [(t.attributes, t.values, t.sd) for t in terms.values()])
    return FitProblem(
        list(terms.values()),
        base,
        lambda sets: DenseEngine(DOMAIN.shape, [tuple(map(DOMAIN.index, s)) for s in sets]),
        degrees=2.0,
    )


def test_a_forest_has_the_pairs_it_was_made_of():
    truth = diagonal()
    singles = {"a": truth.sum(axis=(1, 2)), "b": truth.sum(axis=(0, 2)), "c": truth.sum(axis=(0, 1))}
    pairs = {
        names: (truth.sum(axis=dropped), np.multiply.outer(*(singles[n] for n in names)), SD)
        for names, dropped in ((("a", "b"), 2), (("b", "c"), 0), (("a", "c"), 1))
    }
    found = forest_parameters(pairs, singles)
    assert list(found) == [("a", "b")]  # the others are independent
    table = pairs["a", "b"][1] * np.exp(found["a", "b"])
    assert np.diag(table) == pytest.approx(np.diag(truth.sum(axis=2)), abs=SIZE * SD / 2)


def test_a_missed_cell_is_put_where_it_was_measured():
    at = problem()
    revived = at.revived(np.zeros(at.size), 4.0)
    assert revived is not None
    assert at.value(revived) < at.value(np.zeros(at.size)) / 2
    raised = at.part(("a", "b"), revived).reshape(SIZE, SIZE)
    assert raised[-1, -1] > 1  # the rare cell: 0.003 in place of 1e-5
    assert (raised[~np.eye(SIZE, dtype=bool)] == 0).all()


def test_nothing_is_revived_where_noise_explains_the_distance():
    at = problem()
    consistent = consistent_marginals(at)
    assert consistent is not None
    near = proportional_start(at, consistent, np.zeros(at.size))
    assert at.misfit(near) < 5
    assert at.revived(near, 4.0) is None


def test_a_fit_misses_no_cell_by_more_than_noise():
    hypothesis = DenseHypothesis(DOMAIN)
    assert hypothesis.fit(measured()).misfit < 4
    for measurement in measured():
        assert np.abs(hypothesis.marginal(measurement.query.names) - measurement.values).max() < 4 * SD


def test_a_fit_of_a_rare_pair_finds_it():
    hypothesis = DenseHypothesis(DOMAIN)
    hypothesis.fit(measured())
    assert hypothesis.marginal(("a", "b"))[-1, -1] == pytest.approx(0.003, abs=10 * SD)


def test_cells_beyond_noise_are_moved_within_it_and_others_stay_in_proportion():
    at = problem()
    consistent = consistent_marginals(at)
    assert consistent is not None
    moved = within_noise(at, consistent, np.zeros(at.size), 4.0)
    values, sd = consistent.marginal(("a", "b"))
    before, after = (
        at.engine.evaluate(at.potentials(point))[1][at.place(("a", "b"))] for point in (np.zeros(at.size), moved)
    )
    assert np.abs(before - values).max() > 100 * sd
    assert np.abs(after - values).max() < 4.5 * sd
    assert after.sum() == pytest.approx(1)
    assert within_noise(at, consistent, moved, 5.0) is moved


def test_a_replicate_may_be_further_off():
    """Its values carry the noise twice: cells within that are left where they are."""
    at, largest = problem(), []
    consistent = consistent_marginals(at)
    assert consistent is not None
    values, _ = consistent.marginal(("a", "b"))
    for perturbed in (1.0, np.sqrt(2)):
        moved = within_noise(at, consistent, np.zeros(at.size), 4.0, perturbed)
        cells = at.engine.evaluate(at.potentials(moved))[1][at.place(("a", "b"))]
        largest.append(np.abs(cells - values).max())
        assert within_noise(at, consistent, moved, 4.0, perturbed) is moved
    assert largest[1] == pytest.approx(np.sqrt(2) * largest[0], rel=0.05)


def test_independent_columns_stay_independent():
    """The furthest of many cells is about as far off as noise is expected to be: cells were moved toward that noise,
    in every table, and left a few of them three times as far from the product.
    """
    domain, sd = Domain({"a": 5, "b": 6, "c": 4, "d": 7}), 0.02
    sets, largest = list(combinations(domain.names, 3)), []
    for seed in range(8):
        noise = np.random.default_rng(seed)
        measured = [
            Measurement(Marginal(s), 1 / domain.cells(s) + noise.normal(0, sd, domain.shape_of(s)), sd) for s in sets
        ]
        hypothesis = DenseHypothesis(domain)
        hypothesis.fit(measured)
        away = []
        for names in sets:
            singles = [hypothesis.marginal((name,)) for name in names]
            product = singles[0][:, None, None] * singles[1][:, None] * singles[2]
            away.append(float(np.abs(hypothesis.marginal(names) - product).max()))
        largest.append(max(away))
    assert np.median(largest) < 0.1 * sd
