"""What a fit left of the measurements: found, and put into a distribution without touching anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.prior import LEAST_KEPT
from reticent.hypotheses.fitting.unfitted import RAISED, SWEEPS, moved_pairs, unfitted
from reticent.hypotheses.replicates import RECORDS, difference, tilted_further
from reticent.hypotheses.support import SupportHypothesis

DOMAIN = rt.Domain({"a": 3, "b": 4, "c": 2})
SETS = [("a", "b"), ("a", "c"), ("b", "c")]


def dense(seed: int = 1) -> DenseHypothesis:
    return DenseHypothesis(DOMAIN, np.random.default_rng(seed).dirichlet(np.full(24, 3.0)).reshape(DOMAIN.shape))


def listed(held: DenseHypothesis) -> SupportHypothesis:
    """The same distribution as records."""
    codes = np.stack([axis.ravel() for axis in np.indices(DOMAIN.shape)], axis=1)
    return SupportHypothesis(DOMAIN, codes, held.probabilities().ravel())


def after(held: DenseHypothesis, factors: dict[tuple[str, ...], np.ndarray]) -> DenseHypothesis:
    cells = held.probabilities()
    for names, logs in factors.items():
        kept = [slice(None) if name in names else None for name in DOMAIN.names]
        cells = cells * np.exp(logs)[tuple(kept)]
    return DenseHypothesis(DOMAIN, cells)


def test_it_is_measured_less_fitted_of_the_pairs() -> None:
    fitted, other = dense(1), dense(2)
    measured = [Measurement(rt.marginal("a", "b"), other.marginal(("a", "b")), 0.01)]
    measured.append(Measurement(rt.marginal("c"), other.marginal(("c",)), 0.01))
    left = unfitted(fitted, measured)
    assert list(left) == [("a", "b")], "other pairs were not measured"
    away = other.marginal(("a", "b")) - fitted.marginal(("a", "b"))
    assert left["a", "b"] == pytest.approx(away, abs=1e-12)


def test_pairs_inside_a_wider_marginal_count_as_measured() -> None:
    fitted, other = dense(1), dense(2)
    left = unfitted(fitted, [Measurement(rt.marginal("a", "b", "c"), other.marginal(DOMAIN.names), 0.01)])
    assert list(left) == SETS
    for names, away in left.items():
        assert away == pytest.approx(other.marginal(names) - fitted.marginal(names), abs=1e-12)


def test_no_cell_is_raised_without_bound() -> None:
    fitted = dense(1)
    loud = fitted.marginal(("a", "b"))
    loud[0, 0] = 100.0
    left = unfitted(fitted, [Measurement(rt.marginal("a", "b"), loud, 0.01)])
    assert (np.abs(left["a", "b"]) <= RAISED * fitted.marginal(("a", "b")) * (1 + 1e-12)).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_pairs_arrive_and_singles_stay(sign: int) -> None:
    start, other = dense(1), dense(2)
    # Moves along a line between two distributions with the same singles, so that both ways are possible.
    near = after(start, moved_pairs(start, {n: 0.3 * (other.marginal(n) - start.marginal(n)) for n in SETS}))
    moves = {names: sign * 0.5 * (near.marginal(names) - start.marginal(names)) for names in SETS}
    arrived = after(start, moved_pairs(start, moves))
    for names in SETS:
        assert np.abs(moves[names]).max() > 0.003, "else nothing is tested"
        assert arrived.marginal(names) == pytest.approx(start.marginal(names) + moves[names], abs=2e-4)
    for name in DOMAIN.names:
        assert arrived.marginal((name,)) == pytest.approx(start.marginal((name,)), abs=2e-4)


def test_what_is_below_zero_keeps_a_hundredth() -> None:
    domain = rt.Domain({"a": 2, "b": 2})
    start = DenseHypothesis(domain, np.array([[0.1, 0.4], [0.4, 0.1]]))
    move = np.array([[-0.2, 0.2], [0.2, -0.2]])
    factors = moved_pairs(start, {("a", "b"): move})
    assert list(factors) == [("a", "b")]
    cells = start.probabilities() * np.exp(factors["a", "b"])
    assert cells.sum(axis=0) == pytest.approx([0.5, 0.5])
    assert cells[0, 0] / cells[0, 1] == pytest.approx(LEAST_KEPT * 0.1 / 0.6, rel=1e-6)


def test_records_are_moved_as_cells_are() -> None:
    start, other = dense(1), dense(2)
    moves = {names: 0.4 * (other.marginal(names) - start.marginal(names)) for names in SETS}
    records = listed(start)
    of_cells, of_records = moved_pairs(start, moves), moved_pairs(records, moves)
    for names, logs in of_cells.items():
        assert of_records[names] == pytest.approx(logs, abs=1e-9)
    found = tilted_further(records, difference(records, records), of_records)
    assert list(found) == [RECORDS]
    cells = records.weights * np.exp(found[RECORDS])
    expected = after(start, of_cells).probabilities()
    assert cells.reshape(DOMAIN.shape) / cells.sum() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", [lambda held: held, listed], ids=["cells", "records"])
def test_cells_that_a_replicate_emptied_are_moved_by_a_bounded_factor(kind: Any) -> None:
    """A replicate may give a cell next to nothing where its release did not: the quotient was infinite."""
    moves = {names: 0.4 * (dense(2).marginal(names) - dense(1).marginal(names)) for names in SETS}
    cells = dense(1).probabilities()
    cells[np.unravel_index(np.argmax(moves["a", "b"]), moves["a", "b"].shape)] = [1e-310, 1e-309]
    start = kind(DenseHypothesis(DOMAIN, cells))
    for logs in moved_pairs(start, moves).values():
        assert np.isfinite(logs).all()
        assert np.abs(logs).max() <= SWEEPS * np.log(1 / LEAST_KEPT)
