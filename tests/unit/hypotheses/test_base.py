"""Targets, clamps and the one-dimensional tilt.

Saved bytes: exact, and refused when they are not what they claim to be.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import ReticentError
from reticent.hypotheses import load
from reticent.hypotheses.base import binary_eta, conservative_target, pack, saved_kind, solve_tilt, unpack

fractions = st.floats(0.0, 1.0)


def mean_at(values: np.ndarray, weights: np.ndarray, eta: float) -> float:
    tilted = weights * np.exp(eta * values - (eta * values).max())
    return float(tilted @ values / tilted.sum())


@given(measured=st.floats(-0.5, 1.5), bound=st.floats(0.0, 0.5), guess=fractions, truth=fractions)
def test_the_conservative_target_lies_between_guess_and_truth(
    measured: float, bound: float, guess: float, truth: float
) -> None:
    target = conservative_target(measured=measured, bound=bound, guess=guess)
    if target is None:
        assert abs(measured - guess) <= bound
    elif abs(measured - truth) <= bound:
        assert min(guess, truth) - 1e-15 <= target <= max(guess, truth) + 1e-15


def test_the_conservative_target_takes_its_numbers_by_name() -> None:
    assert conservative_target(measured=0.5, bound=0.1, guess=0.2) == pytest.approx(0.4)
    assert conservative_target(measured=0.1, bound=0.1, guess=0.4) == pytest.approx(0.2)
    assert conservative_target(measured=0.3, bound=0.1, guess=0.25) is None
    with pytest.raises(TypeError):
        conservative_target(0.5, 0.1, 0.2)  # pyright: ignore[reportCallIssue]


@given(seed=st.integers(0, 2**32), count=st.integers(2, 40), share=st.floats(0.0, 1.0), spread=st.floats(0.0, 30.0))
@settings(max_examples=300, deadline=None)
def test_the_tilt_meets_every_target(seed: int, count: int, share: float, spread: float) -> None:
    random = np.random.default_rng(seed)
    values, weights = random.random(count), np.exp(-spread * random.random(count))
    target = values.min() + share * (values.max() - values.min())
    eta = solve_tilt(values, weights, target)
    assert abs(mean_at(values, weights, eta) - target) <= 1e-12


def test_the_tilt_ignores_what_has_no_weight() -> None:
    values, weights = np.array([0.0, 0.4, 0.6, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])
    eta = solve_tilt(values, weights, 1.0)
    assert mean_at(values[1:3], weights[1:3], eta) == pytest.approx(0.6, abs=1e-12)
    assert solve_tilt(values, np.array([0.0, 2.0, 0.0, 0.0]), 0.9) == 0.0
    assert solve_tilt(values, np.zeros(4), 0.9) == 0.0


@given(q=st.floats(1e-9, 1 - 1e-9), target=fractions)
def test_binary_queries_have_a_closed_form(q: float, target: float) -> None:
    eta = binary_eta(q, 1.0 - q, target)
    odds = q / (1.0 - q) * math.exp(eta)
    assert odds / (1.0 + odds) == pytest.approx(target, abs=1e-12)


ARRAYS = [np.array([0.1, 1e-320, 7.0]), np.arange(6, dtype=np.int32).reshape(2, 3), np.array(3.5)]
HEADER = {"z": 0.1 + 0.2, "a": [1, "b"], "domain": {"second": 2, "first": 1}}


def test_everything_returns_exactly() -> None:
    data = pack("some", HEADER, ARRAYS)
    header, arrays = unpack("some", data)
    assert header == HEADER
    assert list(header["domain"]) == ["second", "first"]
    assert saved_kind(data) == "some"
    for array, original in zip(arrays, ARRAYS, strict=True):
        assert array.dtype == original.dtype
        assert array.shape == original.shape
        assert array.tobytes() == original.tobytes()
        assert array.flags.writeable


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "cut short"),
        (lambda data: data + b"x", "after its end"),
        (lambda data: b"other" + data, "not a saved hypothesis"),
        (lambda data: data[:30] + b"\xff" + data[31:], "damaged"),
        (lambda data: data[:5], "not a saved hypothesis"),
    ],
)
def test_damage_is_named(damage, message: str) -> None:
    with pytest.raises(ReticentError, match=message):
        unpack("some", damage(pack("some", HEADER, ARRAYS)))


def test_a_kind_is_not_taken_for_another() -> None:
    with pytest.raises(ReticentError, match="hold a some hypothesis, not a other"):
        unpack("other", pack("some", {}, []))
    with pytest.raises(ReticentError, match="not known"):
        load(pack("some", {}, []))
