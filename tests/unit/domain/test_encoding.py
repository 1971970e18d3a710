"""Every value has exactly one code, whatever it is, and the rule is the one the documentation states."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.domain import Attribute, Categorical, Integer, Numeric
from reticent.domain.values import Unread, microsecond_of, number_of, text_of

AGE = Numeric(edges=[17, 25, 35, 45], whole=True)
WIDTH = Numeric(edges=[0, 0.5, 2.5])
DAY = Numeric(edges=[datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2022, 1, 1)])
MOMENT = Numeric(edges=[datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 12)])
ATTRIBUTES: list[Attribute] = [
    AGE,
    WIDTH,
    DAY,
    MOMENT,
    Numeric(edges=[0, 1], outside="other"),
    Numeric(lower=0, upper=9, bins=5, whole=True, nullable=True),
    Numeric(edges=[0, 1], nullable=True, other=True),
    Numeric(edges=[0, 1, 2], other=False),
    Categorical(["a", "b", "1", "true"]),
    Categorical(["a", "b"], nullable=True, other=True),
    Categorical(["a", "b"], other=False),
    Categorical([1, 2.5, -3], nullable=True),
    Categorical([True, False]),
    Integer(7),
]


class Hostile:
    """Raises whenever anything is done with it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __float__(self) -> float:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __bool__ = __index__ = __int__ = __str__  # type: ignore[assignment]


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300),
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())),
    st.timedeltas(),
    st.complex_numbers(),
    st.sampled_from(["a", "1", " 17 ", "1e2", "1e400", "nan", "inf", "0x10", "2020-02-30", "2020-02-03 25:00", ""]),
    st.sampled_from([pd.NA, pd.NaT, pd.Timestamp("2020-06-01"), np.datetime64("NaT"), np.datetime64("2020-06-01")]),
    st.sampled_from([np.datetime64(10**15, "Y"), np.timedelta64(3, "D"), np.longdouble("1e4000"), np.float16(1.5)]),
    st.sampled_from([np.int8(3), np.uint64(2**64 - 1), np.bool_(True), np.str_("a"), np.bytes_(b"a"), np.complex64(1)]),
    st.sampled_from([Decimal("sNaN"), Decimal("Infinity"), Decimal("1e9999"), Fraction(10**400), (), [], {}, object()]),
    st.builds(Hostile),
)


@given(st.lists(anything, max_size=8), st.sampled_from(ATTRIBUTES))
def test_every_value_has_exactly_one_code(values: list[Any], attribute: Attribute) -> None:
    codes = attribute.encode(values)
    assert codes.shape == (len(values),)
    assert codes.dtype == np.int64
    assert ((codes >= 0) & (codes < attribute.size)).all()
    for value, code in zip(values, codes, strict=True):
        assert attribute.encode([value]) == [code]


@given(
    st.sampled_from(ATTRIBUTES),
    st.lists(st.floats(), min_size=1, max_size=20),
    st.sampled_from([np.float64, np.float32]),
)
def test_arrays_of_floats_encode_like_single_values(attribute: Attribute, values: list[float], kind: type) -> None:
    with np.errstate(over="ignore"):
        array = np.array(values, dtype=kind)
    assert attribute.encode(array).tolist() == attribute.encode(array.tolist()).tolist()


@given(st.sampled_from(ATTRIBUTES), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_arrays_of_integers_encode_like_single_values(attribute: Attribute, values: list[int]) -> None:
    assert attribute.encode(np.array(values)).tolist() == attribute.encode(values).tolist()


def test_arrow_and_pandas_columns_encode() -> None:
    assert AGE.encode(pa.array([18, None, 40])).tolist() == [0, 3, 2]
    assert AGE.encode(pd.Series([18, None, 40])).tolist() == [0, 3, 2]
    assert AGE.encode(pd.Series([18, None, 40], dtype="Int64")).tolist() == [0, 3, 2]
    assert DAY.encode(pd.to_datetime(pd.Series(["2020-05-01", None]))).tolist() == [0, 2]
    assert Categorical(["1", "2"]).encode(np.array([True, False])).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("attribute", "value", "code"),
    [
        (AGE, 17, 0),
        (AGE, 24.999, 0),
        (AGE, 25, 1),
        (AGE, 45, 2),
        (AGE, 45.9, 2),
        (AGE, 99, 2),
        (AGE, -5, 0),
        (AGE, math.inf, 2),
        (AGE, -math.inf, 0),
        (AGE, 10**400, 2),
        (AGE, -(10**400), 0),
        (AGE, " 30 ", 1),
        (AGE, "3e1", 1),
        (AGE, "thirty", 3),
        (AGE, "1e400", 3),
        (AGE, "inf", 3),
        (AGE, "", 3),
        (AGE, None, 3),
        (AGE, math.nan, 3),
        (AGE, True, 0),
        (AGE, datetime.date(2020, 1, 1), 3),
        (WIDTH, 0.5, 1),
        (WIDTH, 2.5, 1),
        (WIDTH, Decimal("0.49"), 0),
        (Numeric(edges=[0, 1], outside="other"), 1.5, 1),
        (Numeric(edges=[0, 1], outside="other"), 1, 0),
        (Numeric(edges=[0, 1], outside="other", nullable=True), 1.5, 1),
        (Numeric(edges=[0, 1], nullable=True, other=True), None, 1),
        (Numeric(edges=[0, 1], nullable=True, other=True), math.nan, 1),
        (Numeric(edges=[0, 1], nullable=True, other=True), "x", 2),
        (Numeric(edges=[0, 1, 2], other=False), "x", 0),
        (Numeric(edges=[0, 1, 2], other=False), None, 0),
        (DAY, "2020-12-31", 0),
        (DAY, "2020-12-31 23:59:59.999999", 0),
        (DAY, datetime.datetime(2021, 1, 1), 1),
        (DAY, datetime.datetime(2021, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), 0),
        (DAY, "2021-02-30", 2),
        (DAY, 18_300, 2),
        (MOMENT, datetime.datetime(2020, 1, 1, 12), 0),
        (Categorical(["1", "true"]), 1, 0),
        (Categorical(["1", "true"]), 1.0, 0),
        (Categorical(["1", "true"]), Decimal("1.0"), 0),
        (Categorical(["1", "true"]), True, 1),
        (Categorical(["1", "true"]), "1.0", 2),
        (Categorical(["2020-01-31"]), datetime.date(2020, 1, 31), 0),
        (Categorical(["2020-01-31"]), np.datetime64("2020-01-31"), 0),
        (Categorical(["2020-01-31"]), datetime.datetime(2020, 1, 31), 1),
        (Categorical(["Male"]), "male", 1),
        (Categorical(["Male"]), " Male", 1),
        (Categorical([1, 2]), "2", 1),
        (Categorical([1, 2]), "2.0", 1),
        (Categorical([1, 2]), True, 0),
        (Categorical([1, 2]), 2.000001, 2),
        (Categorical([True, False]), "FALSE", 1),
        (Categorical([True, False]), 1, 0),
        (Categorical([True, False]), 2, 2),
        (Categorical([True, False]), "yes", 2),
        (Categorical(["a", "b"], other=False), "z", 0),
        (Categorical(["a"], nullable=True), "z", 1),
        (Categorical(["a"], nullable=True, other=True), None, 1),
        (Categorical(["a"], nullable=True, other=True), "z", 2),
        (Integer(3), 2, 2),
        (Integer(3), "2", 2),
        (Integer(3), 3, 0),
        (Integer(3), 1.5, 0),
        (Integer(3), None, 0),
    ],
)
def test_the_rule(attribute: Attribute, value: Any, code: int) -> None:
    assert attribute.encode([value]).tolist() == [code]


@given(st.sampled_from(ATTRIBUTES))
def test_decoded_values_encode_to_their_own_code(attribute: Attribute) -> None:
    for code in range(attribute.known):
        assert attribute.encode([attribute.value(code)]).tolist() == [code]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**60), 2**60))
def test_numbers_read_alike_as_text(number: float, integer: int) -> None:
    assert number_of(str(integer)) == float(integer)
    text = f"{number:.20f}" if abs(number) < 1e90 else "1"
    assert number_of(text) == float(text)


@given(st.datetimes())
def test_instants_read_alike_as_text(moment: datetime.datetime) -> None:
    assert microsecond_of(moment.isoformat()) == microsecond_of(moment)
    assert microsecond_of(np.datetime64(moment, "us")) == microsecond_of(moment)


def test_integers_too_long_for_any_engine_are_misfits() -> None:
    assert text_of(2**126) == str(2**126)
    assert text_of(10**5000) is Unread.MISFIT
