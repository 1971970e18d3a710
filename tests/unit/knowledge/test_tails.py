"""Certified statements are intersected, and the fit is moved into what they leave."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.knowledge.tails import JOINT, KINDS, SESSION_WIDE, SINGLE, hull, joined, placed, session_share

fractions = st.floats(0, 1)
widths = st.floats(1e-6, 0.5)


@given(truth=fractions, offsets=st.lists(st.tuples(st.floats(-1, 1), widths), min_size=1, max_size=6), fit=fractions)
def test_what_all_statements_hold_of_is_in_the_interval_and_within_the_error(
    truth: float, offsets: list[tuple[float, float]], fit: float
) -> None:
    statements = [(truth + offset * width, width) for offset, width in offsets]
    bounds = joined(statements, fit)
    value = bounds.value()
    assert bounds.low - 1e-12 <= truth <= bounds.high + 1e-12
    assert bounds.low >= 0
    assert bounds.high <= 1
    assert abs(value - truth) <= bounds.error(value) + 1e-12
    assert bounds.error(value) <= bounds.width
    assert value == fit or not bounds.low <= fit <= bounds.high


@given(centre=fractions, width=widths, fit=fractions)
def test_a_value_asked_for_an_error_has_it_and_is_the_nearest_to_the_fit(
    centre: float, width: float, fit: float
) -> None:
    bounds = joined([(centre, width)], fit)
    wanted = bounds.width / 2 * (1 + 1e-9) + 1e-15
    value = bounds.value(wanted)
    assert bounds.error(value) <= wanted * (1 + 1e-9) + 1e-12


def test_a_purchase_at_exactly_the_wanted_error_returns_its_reading() -> None:
    assert joined([(0.4, 0.1)], 0.45).value(0.1) == pytest.approx(0.4)


def test_statements_that_contradict_each_other_leave_nothing_and_their_hull_says_what_was_claimed() -> None:
    statements = [(0.2, 0.05), (0.6, 0.05)]
    assert joined(statements, 0.4).empty
    told = hull(statements, 0.4)
    assert (told.low, told.high) == pytest.approx((0.15, 0.65))


def test_cells_are_moved_one_by_one() -> None:
    bounds = joined([(np.array([0.0, 0.5]), 0.1), (np.array([0.05, 0.4]), 0.1)], np.array([0.5, 0.45]))
    assert np.allclose(bounds.value(), [0.1, 0.45])


def test_shares_of_all_statements_that_may_ever_be_made_add_up_to_the_failure_probability() -> None:
    """Every sum telescopes: 1/(j (j + 1)) = 1/j - 1/(j + 1)."""
    many = 2000
    wide = sum(session_share(kind, j) for kind in KINDS for j in range(1, many + 1))
    assert wide == SESSION_WIDE * (1 - Fraction(1, many + 1))
    assert sum(KINDS.values()) == 1
    assert JOINT.own + float(SESSION_WIDE) == 1
    assert SINGLE.own == 1


@pytest.mark.parametrize(
    ("told", "moved"),
    [
        ((0.5, 0.4, 0.6), (0.5, 0.4, 0.6)),
        ((-0.1, -0.3, 0.1), (0.0, 0.0, 0.1)),
        ((1.1, 0.9, 1.3), (1.0, 0.9, 1.0)),
        ((-0.4, -0.6, -0.2), (0.0, 0.0, 0.2)),
        ((1.5, 1.2, 1.6), (1.0, 0.7, 1.0)),
        ((0.2, -inf, inf), (0.2, 0.0, 1.0)),
    ],
)
def test_an_estimate_beyond_all_that_is_possible_is_moved_and_keeps_its_error(
    told: tuple[float, float, float], moved: tuple[float, float, float]
) -> None:
    assert tuple(map(float, placed(*told, 0.0, 1.0))) == pytest.approx(moved)
