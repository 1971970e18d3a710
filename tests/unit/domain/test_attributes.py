"""Codes know their labels, representatives and bounds, and comparisons on codes follow SQL's three values."""

from __future__ import annotations

import datetime
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reticent.domain import Attribute, Categorical, Integer, Numeric
from reticent.errors import DomainError, QueryError

AGE = Numeric(edges=[17, 25, 35, 45, 55, 65, 90], whole=True)
WIDTH = Numeric(edges=[0, 0.5, 2, 10])
DAY = Numeric(edges=[datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2022, 1, 1)])
SMOKER = Categorical(["no", "yes"], nullable=True, other=True)

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def test_codes_of_null_and_other() -> None:
    def places(attribute: Attribute) -> tuple[Any, ...]:
        found = (attribute.size, attribute.null_code, attribute.other_code)
        return (*found, attribute.missing_code, attribute.misfit_code)

    assert places(Categorical(["a", "b"])) == (3, None, 2, 2, 2)
    assert places(Categorical(["a", "b"], nullable=True)) == (3, 2, None, 2, 2)
    assert places(Categorical(["a", "b"], nullable=True, other=True)) == (4, 2, 3, 2, 3)
    assert places(Categorical(["a", "b"], other=False)) == (2, None, None, 0, 0)
    assert places(Categorical(["a", "b"], nullable=True, other=False)) == (3, 2, None, 2, 2)
    assert places(Integer(5)) == (5, None, None, 0, 0)
    assert places(Categorical(["only"], other=False)) == (1, None, None, 0, 0)


def test_labels() -> None:
    assert AGE.labels == ("17-24", "25-34", "35-44", "45-54", "55-64", "65-90", "(other)")
    assert WIDTH.labels == ("[0, 0.5)", "[0.5, 2)", "[2, 10]", "(other)")
    assert DAY.labels == ("2020-01-01 to 2020-12-31", "2021-01-01 to 2022-01-01", "(other)")
    assert Numeric(edges=[-5, 0, 1, 1], whole=True).labels == ("-5 to -1", "0", "1", "(other)")
    assert SMOKER.labels == ("no", "yes", "(null)", "(other)")
    assert Categorical([1, 2.5], other=False).labels == ("1", "2.5")
    assert Categorical([True, False], other=False).labels == ("true", "false")


def test_representatives_and_bounds() -> None:
    np.testing.assert_array_equal(AGE.representatives, [20, 29, 39, 49, 59, 77, np.nan])
    assert AGE.value(0) == 20
    assert isinstance(AGE.value(0), int)
    assert AGE.bounds == (17, 90)
    assert AGE.bin(0) == (17, 24)
    assert AGE.bin(5) == (65, 90)
    np.testing.assert_array_equal(WIDTH.representatives, [0.25, 1.25, 6, np.nan])
    assert DAY.value(0) == datetime.date(2020, 7, 1)
    np.testing.assert_array_equal(Categorical([5, 2], nullable=True).representatives, [5, 2, np.nan])
    assert Categorical([5, 2]).bounds == (2, 5)
    assert SMOKER.representatives is None
    assert SMOKER.bounds is None
    assert [SMOKER.value(code) for code in range(4)] == ["no", "yes", None, "(other)"]
    with pytest.raises(DomainError, match=r"code 4 is outside 0\.\.3"):
        SMOKER.value(4)


def test_even_bins() -> None:
    assert Numeric(lower=0, upper=1, bins=4).edges == (0, 0.25, 0.5, 0.75, 1)
    assert Numeric(lower=0, upper=9, bins=10, whole=True).labels[:-1] == tuple("0123456789")
    assert Numeric(lower=0, upper=9, bins=3, whole=True).labels[:-1] == ("0-2", "3-5", "6-9")
    year = Numeric(lower=datetime.date(2023, 1, 1), upper=datetime.date(2023, 12, 31), bins=5)
    assert [year.bin(code)[1] - year.bin(code)[0] + 1 for code in range(5)] == [73] * 5
    half = Numeric(lower=datetime.datetime(2023, 1, 1), upper=datetime.datetime(2023, 1, 2), bins=2)
    assert half.edges[1] == datetime.datetime(2023, 1, 1, 12)


@given(st.integers(-50, 50), st.integers(0, 60), st.integers(1, 20))
def test_even_whole_bins_differ_by_at_most_one_integer(lower: int, extent: int, bins: int) -> None:
    assume(bins <= extent + 1)
    attribute = Numeric(lower=lower, upper=lower + extent, bins=bins, whole=True)
    widths = np.bincount(attribute.encode(np.arange(lower, lower + extent + 1)), minlength=bins)
    assert len(widths) == bins
    assert widths.max() - widths.min() <= 1


whole_edges = st.lists(st.integers(-12, 12), min_size=2, max_size=6, unique=True).map(sorted)


@given(whole_edges, st.sampled_from(sorted(COMPARE)), st.integers(-28, 28).map(lambda half: half / 2))
def test_whole_comparisons_decide_or_cut(edges: list[int], op: str, value: float) -> None:
    attribute = Numeric(edges=edges, whole=True)
    integers = np.arange(edges[0], edges[-1] + 1)
    codes = attribute.encode(integers)
    holds = COMPARE[op](integers, value)
    outcomes = [set(holds[codes == code].tolist()) for code in range(attribute.known)]
    if any(len(outcome) == 2 for outcome in outcomes):
        with pytest.raises(QueryError, match=r"cuts the bin .* nearest edges are"):
            attribute.where(op, value)
    else:
        expected = [outcome.pop() for outcome in outcomes]
        assert attribute.where(op, value).tolist() == [*expected, False]
        assert attribute.truth(op, value).false.tolist() == [*(not held for held in expected), False]


@given(whole_edges, st.sampled_from(sorted(COMPARE)), st.integers(-28, 28).map(lambda half: half / 2))
def test_real_comparisons_decide_or_cut(edges: list[int], op: str, value: float) -> None:
    attribute = Numeric(edges=edges)
    # Ends, near-ends and the asked value itself are witnesses for every way to cut a bin.
    points = np.array([*edges, *(edge + 0.25 for edge in edges), *(edge - 0.25 for edge in edges), value])
    points = points[(points >= edges[0]) & (points <= edges[-1])]
    codes, holds = attribute.encode(points), COMPARE[op](points, value)
    outcomes = [set(holds[codes == code].tolist()) for code in range(attribute.known)]
    if any(len(outcome) == 2 for outcome in outcomes):
        with pytest.raises(QueryError, match="cuts the bin"):
            attribute.where(op, value)
    else:
        assert attribute.where(op, value)[:-1].tolist() == [outcome.pop() for outcome in outcomes]


@given(whole_edges, st.lists(st.integers(-14, 14), min_size=1, max_size=30))
def test_lists_of_integers_decide_or_cut(edges: list[int], values: list[int]) -> None:
    attribute = Numeric(edges=edges, whole=True)
    integers = np.arange(edges[0], edges[-1] + 1)
    codes, holds = attribute.encode(integers), np.isin(integers, values)
    outcomes = [set(holds[codes == code].tolist()) for code in range(attribute.known)]
    if any(len(outcome) == 2 for outcome in outcomes):
        with pytest.raises(QueryError, match="cuts the bin"):
            attribute.where("in", values)
    else:
        assert attribute.where("in", values)[:-1].tolist() == [outcome.pop() for outcome in outcomes]


def test_three_truth_values() -> None:
    def outcome(attribute: Attribute, op: str, value: Any = None) -> str:
        truth = attribute.truth(op, value)
        assert not (truth.true & truth.false).any()
        return "".join(
            "t" if true else "f" if false else "?" for true, false in zip(truth.true, truth.false, strict=True)
        )

    assert outcome(SMOKER, "==", "yes") == "ft?f"
    assert outcome(SMOKER, "!=", "yes") == "tf?t"
    assert outcome(SMOKER, "in", ("yes", "no")) == "tt?f"
    assert outcome(SMOKER, "==", "(other)") == "ff?t"
    assert outcome(SMOKER, "!=", "(other)") == "tt?f"
    assert outcome(SMOKER, "is_null") == "fftf"
    assert outcome(SMOKER, "is_known") == "ttff"
    assert outcome(Categorical(["a", "b"]), "is_null") == "fff"
    score = Categorical([1, 2, 3], nullable=True, other=True)
    assert outcome(score, ">=", 2) == "ftt??"
    assert outcome(score, "==", 2) == "ftf?f"
    assert outcome(AGE, ">", 44) == "ffftt" + "t?"
    assert outcome(AGE, "!=", 1000) == "tttttt?"
    assert outcome(AGE, "==", "(other)") == "fffffft"
    assert outcome(Integer(3), "<", 1) == "tff"


@pytest.mark.parametrize(
    ("attribute", "op", "value", "message"),
    [
        (AGE, ">=", 40, "x >= 40 cuts the bin 35-44; nearest edges are 35 and 45"),
        (WIDTH, ">=", 1, "x >= 1 cuts the bin [0.5, 2); nearest edges are 0.5 and 2"),
        (WIDTH, "<=", 2, "x <= 2 cuts the bin [2, 10]; nearest edges are 2 and 10; use x < 2"),
        (WIDTH, ">", 2, "x > 2 cuts the bin [2, 10]; nearest edges are 2 and 10; use x >= 2"),
        (
            WIDTH,
            "<",
            10,
            "x < 10 cuts the bin [2, 10]; nearest edges are 2 and 10; the last bin is closed: use x <= 10",
        ),
        (WIDTH, "==", 1, "x == 1 cuts the bin [0.5, 2); nearest edges are 0.5 and 2; use >= and < with edges"),
        (
            DAY,
            ">=",
            "2020-06-01",
            'x >= "2020-06-01" cuts the bin 2020-01-01 to 2020-12-31; nearest edges are 2020-01-01 and 2021-01-01',
        ),
        (DAY, ">=", 5, 'x >= 5: expected a date such as "2024-12-31"'),
        (AGE, ">=", "40", 'x >= "40": expected a finite number'),
        (AGE, ">=", float("inf"), "x >= inf: expected a finite number"),
        (AGE, "==", True, "x == True: expected a finite number"),
        (SMOKER, "==", "yess", 'x == "yess": not one of the 2 declared values; did you mean yes'),
        (SMOKER, "==", "perhaps", 'x == "perhaps": not one of the 2 declared values; known: no, yes'),
        (SMOKER, "<", "yes", 'x < "yes": values declared as text have no order; use == or isin'),
        (Categorical(["a"], other=False), "==", "(other)", "declared values"),
        (Integer(3), "==", 3, "x == 3: not one of the integers 0..2"),
        (Integer(3), "==", 0.5, "x == 0.5: not one of the integers 0..2"),
        (AGE, "~", 3, "x ~: unknown comparison; use one of == != < <= > >= in is_null is_known"),
        (AGE, "==", [3], "x ==: cannot compare with list"),
    ],
)
def test_refused_comparisons(attribute: Attribute, op: str, value: Any, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        attribute.where(op, value, name="x")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_dates_compare_with_dates_texts_and_datetimes() -> None:
    expected = [False, True, False]
    assert DAY.where(">=", datetime.date(2021, 1, 1)).tolist() == expected
    assert DAY.where(">=", "2021-01-01").tolist() == expected
    assert DAY.where(">", datetime.datetime(2020, 12, 31, 12)).tolist() == expected


def test_remembered_masks_do_not_confuse_equal_values_of_other_types() -> None:
    text = Categorical(["1", "true"])
    assert text.where("==", 1).tolist() == [True, False, False]
    assert text.where("==", True).tolist() == [False, True, False]
    assert text.where("in", (1,)).tolist() == [True, False, False]
    assert text.where("in", (True,)).tolist() == [False, True, False]


def test_shared_masks_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        AGE.where(">=", 45)[0] = True


def test_equal_declarations_are_equal() -> None:
    assert Numeric(edges=[0, 1, 2]) == Numeric(lower=0.0, upper=2.0, bins=2)
    assert Categorical([1, 0]) != Categorical([True, False])
    assert Categorical([1.0]) == Categorical([1])
    assert Categorical(["a"], other=True) == Categorical(["a"])
    assert len({Integer(3), Integer(3), Integer(4)}) == 2
