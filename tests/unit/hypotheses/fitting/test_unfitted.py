"""What a fit left of the measurements: found, and put into a distribution without touching anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.prior import LEAST_KEPT
from reticent.hypotheses.fitting.unfitted import RAISED, SWEEPS, factors_moving, unfitted
from reticent.hypotheses.replicates import RECORDS, difference, tilted_further
from reticent.hypotheses.support import SupportHypothesis

DOMAIN = rt.Domain({"a": 3, "b": 4, "c": 2})
ORDERED = rt.Domain({"a": 3, "b": 6, "c": 5})
"""Of `b` and `c` the codes are in order, and there are enough of them."""
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


def ordered(seed: int) -> DenseHypothesis:
    cells = np.random.default_rng(seed).dirichlet(np.full(90, 30.0))
    return DenseHypothesis(ORDERED, cells.reshape(ORDERED.shape))


def means(cells: np.ndarray) -> np.ndarray:
    """The sum of the last attribute's codes by code of the first."""
    return cells @ np.arange(cells.shape[1])


def test_it_is_measured_less_fitted_of_singles_and_trends() -> None:
    fitted, other = ordered(1), ordered(2)
    measured = [Measurement(rt.marginal("a", "b"), other.marginal(("a", "b")), 0.01)]
    left = unfitted(fitted, measured)
    assert list(left) == [("a",), ("b",), ("a", "b")], "others were not measured"
    for name in "ab":
        assert left[name,] == pytest.approx(other.marginal((name,)) - fitted.marginal((name,)), abs=1e-12)
    away = other.marginal(("a", "b")) - fitted.marginal(("a", "b"))
    interacting = away - away.mean(axis=0) - away.mean(axis=1, keepdims=True) + away.mean()
    assert means(left["a", "b"]) == pytest.approx(means(interacting), abs=1e-12), "means by group are whole"
    assert np.linalg.matrix_rank(left["a", "b"], tol=1e-12) == 1, "and nothing else"


def test_trends_along_both_attributes() -> None:
    fitted, other = ordered(1), ordered(2)
    left = unfitted(fitted, [Measurement(rt.marginal("b", "c"), other.marginal(("b", "c")), 0.01)])["b", "c"]
    away = other.marginal(("b", "c")) - fitted.marginal(("b", "c"))
    interacting = away - away.mean(axis=0) - away.mean(axis=1, keepdims=True) + away.mean()
    assert means(left) == pytest.approx(means(interacting), abs=1e-12)
    assert means(left.T) == pytest.approx(means(interacting.T), abs=1e-12)
    assert np.abs(left - interacting).max() > 1e-4, "other parts of the table are left to the prior"


def test_trends_follow_the_numbers_of_uneven_bins() -> None:
    bins = rt.Numeric(edges=[0, 1, 2, 4, 10, 100])
    domain = rt.Domain(a=rt.Categorical(["x", "y"]), b=bins)
    cells = np.full(domain.shape, 1.0) + np.random.default_rng(1).random(domain.shape)
    fitted, other = DenseHypothesis(domain, np.ones(domain.shape)), DenseHypothesis(domain, cells)
    left = unfitted(fitted, [Measurement(rt.marginal("a", "b"), other.marginal(("a", "b")), 0.01)])["a", "b"]
    away = other.marginal(("a", "b")) - fitted.marginal(("a", "b"))
    interacting = away - away.mean(axis=0) - away.mean(axis=1, keepdims=True) + away.mean()
    numbers = domain["b"].representatives
    assert numbers is not None
    known = numbers[np.isfinite(numbers)] - np.nanmean(numbers)
    assert known.size < domain["b"].size, "there is a code without a number"
    assert left[:, : known.size] @ known == pytest.approx(interacting[:, : known.size] @ known, abs=1e-9)


def test_pairs_without_an_order_stay() -> None:
    """What their cells are off by is the prior's to tell: no statistic adds many of them up."""
    fitted, other = dense(1), dense(2)
    left = unfitted(fitted, [Measurement(rt.marginal("a", "b", "c"), other.marginal(DOMAIN.names), 0.01)])
    assert [names for names in left if len(names) == 2] == SETS, "pairs inside a wider marginal count as measured"
    assert all(not left[names].any() for names in SETS)


def test_no_cell_is_raised_without_bound() -> None:
    fitted = ordered(1)
    loud = fitted.marginal(("a", "b"))
    loud[0, 0] = 100.0
    left = unfitted(fitted, [Measurement(rt.marginal("a", "b"), loud, 0.01)])
    for names, away in left.items():
        assert (np.abs(away) <= RAISED * fitted.marginal(names) * (1 + 1e-12)).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_singles_arrive_with_their_pairs(sign: int) -> None:
    start, other = ordered(1), ordered(2)
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    moves = unfitted(start, [Measurement(rt.marginal(*n), other.marginal(n), 0.01) for n in pairs])
    logs = factors_moving(start, {names: sign * 0.5 * away for names, away in moves.items()})
    found = tilted_further(start, {}, logs)
    cells = start.probabilities()
    for names, table in found.items():
        kept = [slice(None) if name in names else None for name in ORDERED.names]
        cells = cells * np.exp(table)[tuple(kept)]
    arrived = DenseHypothesis(ORDERED, cells)
    for name in ORDERED.names:
        wanted = start.marginal((name,)) + sign * 0.5 * moves[name,]
        assert np.abs(moves[name,]).max() > 0.003, "else nothing is tested"
        assert arrived.marginal((name,)) == pytest.approx(wanted, abs=3e-4)


@pytest.mark.parametrize("sign", [1, -1])
def test_pairs_arrive_and_singles_stay(sign: int) -> None:
    start, other = dense(1), dense(2)
    # Moves along a line between two distributions with the same singles, so that both ways are possible.
    near = after(start, factors_moving(start, {n: 0.3 * (other.marginal(n) - start.marginal(n)) for n in SETS}))
    moves = {names: sign * 0.5 * (near.marginal(names) - start.marginal(names)) for names in SETS}
    arrived = after(start, factors_moving(start, moves))
    for names in SETS:
        assert np.abs(moves[names]).max() > 0.003, "else nothing is tested"
        assert arrived.marginal(names) == pytest.approx(start.marginal(names) + moves[names], abs=2e-4)
    for name in DOMAIN.names:
        assert arrived.marginal((name,)) == pytest.approx(start.marginal((name,)), abs=2e-4)


def test_what_is_below_zero_keeps_a_hundredth() -> None:
    domain = rt.Domain({"a": 2, "b": 2})
    start = DenseHypothesis(domain, np.array([[0.1, 0.4], [0.4, 0.1]]))
    move = np.array([[-0.2, 0.2], [0.2, -0.2]])
    factors = factors_moving(start, {("a", "b"): move})
    assert list(factors) == [("a", "b")]
    cells = start.probabilities() * np.exp(factors["a", "b"])
    assert cells.sum(axis=0) == pytest.approx([0.5, 0.5])
    assert cells[0, 0] / cells[0, 1] == pytest.approx(LEAST_KEPT * 0.1 / 0.6, rel=1e-6)


def test_records_are_moved_as_cells_are() -> None:
    start, other = dense(1), dense(2)
    moves = {names: 0.4 * (other.marginal(names) - start.marginal(names)) for names in SETS}
    records = listed(start)
    of_cells, of_records = factors_moving(start, moves), factors_moving(records, moves)
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
    for logs in factors_moving(start, moves).values():
        assert np.isfinite(logs).all()
        assert np.abs(logs).max() <= SWEEPS * np.log(1 / LEAST_KEPT)
