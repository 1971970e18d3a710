"""Mechanism objects: validation, prices and calibration, saturation, secrecy, and a proof for each."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import QueryError
from reticent.kernel.mechanisms.base import (
    MECHANISMS,
    AboveThreshold,
    Exponential,
    Gaussian,
    Laplace,
    Sensitivity,
    restore,
)
from reticent.kernel.mechanisms.noise import INT64, root_above, saturating_sum

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = [
    Laplace(0.3),
    Gaussian(Fraction(22, 7)),
    Exponential(0.1),
    AboveThreshold(threshold_epsilon=0.5, query_epsilon=2),
    AboveThreshold(threshold_epsilon=0.5, query_epsilon=2, one_sided=True),
]
positive = st.fractions(min_value=Fraction(1, 10**4), max_value=10**4, max_denominator=10**5)


@pytest.mark.parametrize("kind", MECHANISMS.values(), ids=lambda kind: kind.__name__)
def test_every_mechanism_names_an_existing_proof(kind: type) -> None:
    text = (ROOT / kind.proof).read_text()
    assert text.startswith("# ")
    assert len(text) > 800
    assert "price" in text


@pytest.mark.parametrize("name", ["sampler", "accounting", "audit"])
def test_shared_proofs_exist(name: str) -> None:
    assert (ROOT / "docs" / "proofs" / f"{name}.md").read_text().startswith("# ")


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=str)
def test_description_restores_an_equal_mechanism(mechanism) -> None:
    assert restore(mechanism.describe()) == mechanism
    assert all(isinstance(value, str) for value in mechanism.describe().values())


def test_unknown_descriptions_are_refused() -> None:
    with pytest.raises(QueryError, match="Laplace"):
        restore({"mechanism": "os.system"})


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan, 1e-12, 1e30, "3", None, True])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_impossible_scales_are_refused(kind: type, bad: object) -> None:
    with pytest.raises(QueryError):
        kind(bad)


@pytest.mark.parametrize("bad", [0, -0.5, math.inf, math.nan, 1e9])
def test_impossible_epsilons_are_refused(bad: float) -> None:
    with pytest.raises(QueryError):
        Exponential(bad)
    with pytest.raises(QueryError):
        AboveThreshold(threshold_epsilon=bad, query_epsilon=1)
    with pytest.raises(QueryError):
        AboveThreshold(threshold_epsilon=1, query_epsilon=bad)


def test_l2_cannot_exceed_l1() -> None:
    assert Sensitivity(2, 2).l2_squared == 2
    with pytest.raises(QueryError):
        Sensitivity(1, 2)
    with pytest.raises(QueryError):
        Sensitivity(0, 0)


def test_prices_are_the_table_of_the_specification() -> None:
    marginal = Sensitivity(2, 2)
    assert Laplace(10).price(marginal).pure == Fraction(1, 5)
    assert Laplace(10).price(marginal).rho == Fraction(1, 100)
    assert Gaussian(10).price(marginal).rho == Fraction(1, 100)
    assert Exponential(0.4).price().rho == Fraction(2, 100)
    assert EXAMPLES[3].price().pure == Fraction(5, 2)
    assert EXAMPLES[3].price().rho == Fraction(25, 8)
    assert EXAMPLES[3].price() == EXAMPLES[4].price()


@given(positive, positive)
def test_calibration_never_costs_more_than_asked(rho: Fraction, size: Fraction) -> None:
    sensitivity = Sensitivity.scalar(size)
    bought = Gaussian.costing(sensitivity=sensitivity, rho=rho)
    assert rho * (1 - Fraction(1, 2**40)) <= bought.price(sensitivity).rho <= rho
    assert rho * (1 - Fraction(1, 2**40)) <= Exponential.costing(rho=rho).price().rho <= rho
    assert Laplace.costing(sensitivity=sensitivity, epsilon=rho).price(sensitivity).pure == rho


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**12))
def test_roots_round_up(square: Fraction) -> None:
    root = root_above(square)
    assert square <= root**2 <= square * (1 + Fraction(1, 2**40))
    assert root_above(square**2) == square


@given(positive, st.integers(1, 2**30))
def test_drawn_scale_is_never_below_the_priced_one(scale: Fraction, grid: int) -> None:
    drawn = Laplace(scale).grid_scale(grid)
    assert scale * grid <= drawn <= scale * grid * (1 + Fraction(1, 2**51))
    assert Fraction(float(drawn)) == drawn


@pytest.mark.parametrize("mechanism", [Laplace(2), Gaussian(2)])
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (4, 4), (5, 40)])
def test_release_keeps_shape_and_kind(mechanism: Laplace | Gaussian, shape: tuple[int, ...]) -> None:
    counts = np.full(shape, 7, dtype=np.int64)
    noisy = mechanism.release(counts, 3)
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert (counts == 7).all()


@pytest.mark.parametrize("size", [3, 5000])
def test_releases_saturate_instead_of_wrapping(size: int) -> None:
    for edge, sign in ((INT64.max, 1), (INT64.min, -1)):
        noisy = Laplace(1000).release(np.full(size, edge), 4)
        assert (noisy.astype(object) * sign > 2**62).all()
    assert (np.abs(Laplace(2**60).release(np.zeros(size, np.int64)).astype(object)) <= 2**63).all()


@given(st.lists(st.tuples(st.integers(INT64.min, INT64.max), st.integers(INT64.min, INT64.max)), min_size=1))
def test_saturating_sums_equal_clamped_big_integers(pairs: list[tuple[int, int]]) -> None:
    values, noise = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    expected = [min(max(a + b, INT64.min), INT64.max) for a, b in pairs]
    assert saturating_sum(values, noise).tolist() == expected
    assert saturating_sum(values, noise.astype(object)).tolist() == expected


def test_kernel_refuses_numbers_that_are_not_int64() -> None:
    with pytest.raises(TypeError):
        Laplace(1).release(np.zeros(3))
    with pytest.raises(TypeError):
        Laplace(1).release(np.zeros(3, dtype=np.int32))
    with pytest.raises(TypeError):
        Exponential(1).draw(np.zeros(3), 1)
    with pytest.raises(TypeError):
        Exponential(1).draw(np.zeros((2, 2), dtype=np.int64), 1)
    with pytest.raises(TypeError):
        EXAMPLES[3].open(0.5, 1)  # type: ignore[union-attr]
    with pytest.raises(QueryError):
        Laplace(2**50).release(np.zeros(1, dtype=np.int64), 2**20)


def test_selection_refuses_nothing_to_select() -> None:
    for scores, draws in (([], 1), ([1], 0)):
        with pytest.raises(QueryError):
            Exponential(1).draw(np.array(scores, dtype=np.int64), 1, draws=draws)


def test_selection_survives_extreme_scores() -> None:
    """The gap between the extremes overflows int64; only the best can be drawn."""
    scores = np.array([INT64.min, INT64.max, 0])
    assert set(Exponential(1).draw(scores, 1, draws=50).tolist()) == {1}
    flat = np.full(5, INT64.min)
    assert set(Exponential(1e-6).draw(flat, 1, draws=400).tolist()) == set(range(5))


def test_selection_among_more_candidates_than_forty_bits_allow() -> None:
    scores = np.zeros(2**22, dtype=np.int64)
    drawn = Exponential(1).draw(scores, 1, draws=200)
    assert drawn.min() >= 0
    assert drawn.max() < 2**22
    assert len(set(drawn.tolist())) > 190


def test_a_watch_ends_with_its_first_yes() -> None:
    watch = AboveThreshold(threshold_epsilon=1, query_epsilon=1).open(0, 1)
    assert not watch.exceeds(-(10**6))
    assert not watch.spent
    assert watch.exceeds(10**6)
    assert watch.spent
    with pytest.raises(QueryError, match="new one"):
        watch.exceeds(-(10**6))


def test_a_watch_keeps_its_secret() -> None:
    watch = AboveThreshold(threshold_epsilon=1, query_epsilon=1).open(123_456, 1)
    assert not any(character.isdigit() for character in repr(watch) + str(watch))
    assert not hasattr(watch, "__dict__")
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="secret"):
            leak(watch)


def test_only_one_thread_gets_the_yes() -> None:
    watch = AboveThreshold(threshold_epsilon=1, query_epsilon=1).open(0, 1)
    verdicts: list[bool] = []

    def ask() -> None:
        try:
            verdicts.append(watch.exceeds(10**6))
        except QueryError:
            verdicts.append(False)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(verdicts) == 1


def test_sensitivity_of_an_epoch_must_be_positive() -> None:
    mechanism = AboveThreshold(threshold_epsilon=1, query_epsilon=1)
    with pytest.raises(QueryError):
        mechanism.open(0, 0)
    with pytest.raises(QueryError):
        mechanism.open(0, 2**63)
