"""Values that engines like to disagree about, as Arrow columns, and attributes that read them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa

from reticent.domain import Attribute, Categorical, Integer, Numeric

UTC = datetime.UTC
DAY = datetime.date
MOMENT = datetime.datetime

TEXTS = [
    "", " ", "a", "A", "a ", "é", "e\u0301", "\u00df", "\U0001f600", "z" * 60, "a'b", 'q"', "back\\slash", "%", "_",
    "0", "-0", "+0", "1", "1.0", "01", " 1 ", "1 ", "\t1", "1\n", "1_000", "1,5", "1e2", "1E+2", ".5", "5.", "0x10",
    "1e99", "1e100", "-1e-99", "9" * 100, "9" * 101, "nan", "NaN", "inf", "-Infinity", "١", "１",
    "2.4999999999999999999", "0.1", "0.1000000000000000055511151231257827", "9007199254740993",
    "true", "TRUE", "True", "t", "false", "False", "yes", "null", "None",
    "2020-02-29", "2021-02-29", "1900-02-29", "2000-02-29", "2020-01-01", "2020-1-1", "2020-01-01 ", "0000-01-01",
    "0001-01-01", "9999-12-31", "9999-12-31 23:59:59.999999", "10000-01-01", "2020-13-01", "2020-04-31",
    "2020-01-01T00:00", "2020-01-01 23:59:59.999999", "2020-01-01 24:00:00", "2020-01-01T12:60", "2020-01-01T12:00:60",
    "2020-01-01T12:00:00Z", "2020-01-01T12:00:00+02:00", "20200101", "01/02/2020", "infinity", "epoch", "now",
    # what reading rules are about: blanks, case, marks, aliases, currency, separators, formats
    "\u00a0A\u3000", "\ufeffa", "É", "\u212a", "k", "K", "ſ", "S", "ẞ", "SS", "İ", "ı", "N/A", "n/a ", "?", "-9",
    "-9.0", "999", "90+", " Yes", "YES", "m", "M", "one", "ΣΑΣ", "σας", "Σ", "ς", "1,234", "1.234", "1.234,5",
    "1234,5", "-1.234.567,25", "1.2345", "12.34", ",5", "5,", "$5", "$ -5", "-$5", "5 €", "€5", "5\u00a0\u20ac",
    "5€€", "EUR 5", "5EUR", "5 eur", "$", "5$\n", "1'000", "1’000", "1 000", "1\u202f000,5", "1 0000", "1e2 €",
    "2,5%", "%5", "+2,5", "--5", "(5)", "1.000e1", "0.1 $", "100$", "$100.01", "31/12/1999", "1/2/2000", "29/2/2000",
    "29/02/2001", "31/4/2000", "32/1/2000", "1/13/2000", "15/06/10", "15/06/69", "15/06/68", " 01/01/1970 ",
    "15 Jun 2010", "15 JUN 2010", "5 jun 2010", "15 Juni 2010", "June 15, 2010", "june 1, 2000",
    "06/15/2010 12:30 PM", "6/5/2010 12:05 am", "06/15/2010 13:30 PM", "20100615", "20100631", "201006155",
    "15.06.2010 1:2:3.5", "31.12.1999 23:59:59.999999", "01/01/0000", "1/1/1", "2010", "9999-12-31", "never",
    "1900-01-01",
    # negative numbers of accountants and of mainframes, offsets from UTC
    "(2.5)", "( 2,50 )", "($1,234.50)", "$(1,234.50)", "$ ( 5 ) ", "(5) USD", "(5 USD)", "(-5)", "((5))", "(5", "5)",
    "()", "-(5)", "(5)-", "5-", "1,234.50-", "5 -", "5- USD", "5 USD-", "-5-", "5--", "5+", "1e2-", "(1e2)", "-",
    "(.1)", ".1-",
    "2020-01-01T01:30:00+02:00", "2020-01-01T01:30:00-0230", "2019-12-31T22:00:00-02", "2020-01-01T00:00:00z",
    "2020-01-01T00:00:00.000001+00:00", "1999-12-31T23:59:59.999999-00:01", "2000-03-01T00:30:00+23:59",
    "2021-02-29T12:00:00+02:00", "0001-01-01T00:00:00+00:01", "0001-01-01T00:01:00+00:01", "9999-12-31T23:59:59-00:01",
    "9999-12-31T23:59:59Z", "0000-12-31T23:59:00-23:59", "2020-01-01T12:00:00+24:00", "2020-01-01T12:00:00+2:00",
    "2020-01-01T12:00:00 +0200", "2020-01-01T12:00:00+020", "[29/Feb/2000:23:30:00 -0100]",
    "[15/jun/2010:05:30:00 -0700]", "06/15/10 5:30 am -07", "12/31/99 12:00 AM +14:00", "12/31/69 11:30 pm -0030",
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 0.1, math.nextafter(0.1, 1), math.nextafter(0.1, 0), 0.5, 1.0, 2.5, math.nextafter(2.5, 3), 3.0, 99.999,
    100.0, math.nextafter(100.0, 101), -1e-300, 5e-324, 1e300, 1e308, -1e308, 2.0**53, 2.0**63, -(2.0**64),
    math.inf, -math.inf, math.nan, 4.0, 44.999, 45.0,
]  # fmt: skip
INTEGERS = [
    0, 1, 2, 3, 4, 5, 44, 45, 100, 101, -1, -3, -9, 127, 999, 2010, 20_100_615, 20_000_229, 20_000_230, 2**53,
    2**53 + 1, 2**63 - 1, -(2**63), 7, 1_577_836_800,
]  # fmt: skip
DAYS = [
    DAY(1, 1, 1), DAY(1969, 12, 31), DAY(1970, 1, 1), DAY(1999, 12, 31), DAY(2000, 1, 1), DAY(2000, 2, 29),
    DAY(2019, 12, 31), DAY(2020, 1, 1), DAY(2020, 1, 2), DAY(9999, 12, 31),
]  # fmt: skip
MOMENTS = [
    *(MOMENT(d.year, d.month, d.day) for d in DAYS), MOMENT(1999, 12, 31, 23, 59, 59, 999_999),
    MOMENT(1969, 12, 31, 23, 59, 59, 999_999), MOMENT(2020, 1, 1, 0, 0, 0, 1), MOMENT(2010, 6, 15, 12, 30, 0, 1),
    MOMENT(2010, 6, 15, 12, 30), MOMENT(9999, 12, 31, 23, 59, 59, 999_999), MOMENT(2500, 1, 1, 23, 59, 59, 999_999),
]  # fmt: skip
DECIMALS = [
    "0", "0.10", "0.09", "1", "1.00", "2.50", "2.49", "99.99", "100.01", "-3", "3", "99999999.99", "44.99", "45.00",
]  # fmt: skip
WIDE_DECIMALS = [
    "1", "1.00000000000000000001", "0.1", "0.10000000000000000001", "0.09999999999999999999", "2.49999999999999999999",
    "123456789012345678.12345678901234567890", "-3", "100.00000000000000000001", "9007199254740993",
    "3.00000000000000000000",
]  # fmt: skip

COLUMNS: dict[str, pa.Array] = {
    "text": pa.array([*TEXTS, None]),
    "double": pa.array([*FLOATS, None], pa.float64()),
    "single": pa.array([*[f for f in FLOATS if not math.isfinite(f) or abs(f) < 1e38], None], pa.float32()),
    "bigint": pa.array([*INTEGERS, None], pa.int64()),
    "smallint": pa.array([0, 1, 2, 3, 4, 5, 44, 45, 100, 101, -1, -3, 127, -32768, 32767, None], pa.int16()),
    "decimal": pa.array([*map(Decimal, DECIMALS), None], pa.decimal128(10, 2)),
    "wide_decimal": pa.array([*map(Decimal, WIDE_DECIMALS), None], pa.decimal128(38, 20)),
    "truth": pa.array([True, False, None]),
    "day": pa.array([*DAYS, None], pa.date32()),
    "moment": pa.array([*MOMENTS, None], pa.timestamp("us")),
    "instant": pa.array([*[m.replace(tzinfo=UTC) for m in MOMENTS], None], pa.timestamp("us", tz="UTC")),
    "bytes": pa.array([b"a", b"1", b"", None], pa.binary()),
}

_EDGES = [0, 0.1, 1, 2.5, 100]
_DAY_EDGES = [DAY(1970, 1, 1), DAY(2000, 1, 1), DAY(2000, 2, 29), DAY(2020, 1, 1)]
_MOMENT_EDGES = [MOMENT(1970, 1, 1), MOMENT(2000, 1, 1), MOMENT(2010, 6, 15, 12, 30, 0, 1), MOMENT(2020, 1, 1)]
_NAMES = [
    "a",
    "é",
    "e\u0301",
    "",
    " ",
    "1",
    "-3",
    "007",
    "true",
    "2020-01-01",
    "\U0001f600",
    "a'b",
    'q"',
    "back\\slash",
]

_MANY = [f"word {number}" for number in range(100)]
"""More texts than an engine compares one by one."""
ATTRIBUTES: dict[str, Attribute] = {
    "number": Numeric(edges=_EDGES),
    "number_null": Numeric(edges=_EDGES, nullable=True),
    "number_both": Numeric(edges=_EDGES, nullable=True, other=True, outside="other"),
    "number_bare": Numeric(edges=_EDGES, other=False),
    "whole": Numeric(edges=[0, 3, 45, 100], whole=True, outside="other"),
    "huge": Numeric(edges=[-1e300, -1.0, 2.0**53, 1e300], nullable=True, outside="other"),
    "even": Numeric(lower=0, upper=1, bins=10, outside="other"),
    "date": Numeric(edges=_DAY_EDGES, nullable=True, other=True, outside="other"),
    "date_clamped": Numeric(edges=[DAY(2000, 1, 1), DAY(2020, 1, 1)]),
    "date_far": Numeric(edges=[DAY(1, 1, 1), DAY(2500, 1, 2), DAY(9999, 12, 31)], outside="other"),
    "datetime": Numeric(edges=_MOMENT_EDGES, nullable=True, other=True, outside="other"),
    "names": Categorical(_NAMES),
    "names_null": Categorical(_NAMES[::-1], nullable=True, other=True),
    "numbers": Categorical([0, 0.1, 1, -3, 2.5, 3, 1e300, 45], nullable=True, other=True),
    "numbers_bare": Categorical([3, 1], other=False),
    "truth": Categorical([True, False], nullable=True, other=True),
    "integer": Integer(5),
    "folded": Categorical(
        ["A", "é", "k", "ß", "s", "İ", "σας", "Yes", "1", "2020-01-01", "male"],
        strip=True,
        casefold=True,
        aliases={"M": "male", " one": "1", "3": "Yes", "2000-01-01": "A", "true": "Yes"},
        missing=["n/a", "?", "", -9, "45", "1969-12-31", "false"],
        nullable=True,
        other=True,
    ),
    "many_names": Categorical([*_NAMES[::-1], *_MANY], nullable=True, other=True),
    "many_folded": Categorical(
        ["A", "é", "k", "ß", "s", "İ", "σας", "Yes", "1", "male", *_MANY],
        strip=True,
        casefold=True,
        aliases={"M": "male", " one": "1", "3": "Yes", "true": "Yes"},
        missing=["n/a", "?", "", -9, "45", "false"],
        nullable=True,
        other=True,
    ),
    "stripped": Categorical(
        ["a", "é", "1", "-3", "a'b", 'q"', "back\\slash"],
        strip=True,
        missing=["007", "%", "_"],
        other=True,
        nullable=True,
    ),
    "spelled": Categorical(
        [True, False],
        aliases={"yes": True, "t": True, "90+": False},
        missing=["None", "null"],
        casefold=True,
        strip=True,
    ),
    "euros": Numeric(
        edges=_EDGES,
        nullable=True,
        other=True,
        outside="other",
        decimal=",",
        thousands=".",
        units=["€", "EUR", "$", "%"],
        missing=["n/a", -9, 999, 2.5, 0.1, 2**53],
        aliases={"90+": 90, "never": 1e-5},
        casefold=True,
        strip=True,
    ),
    "accounts": Numeric(
        edges=[-1000, -5, -2.5, 0, 0.1, 100],
        nullable=True,
        other=True,
        outside="other",
        thousands=",",
        units=["$", "USD"],
        negative=["trailing", "parentheses"],
        missing=[-100],
        aliases={"(5": -5},
    ),
    "trailing": Categorical([-5, 5, -100, -0.1], negative="trailing", strip=True),
    "swiss": Numeric(edges=[0, 1, 1000, 1e6], thousands="'", missing=[3]),
    "french": Numeric(edges=[0, 1, 1000, 1e6], thousands=" ", decimal=",", other=False),
    "dollars": Categorical([0.1, 1, 5, -5, 45, 100], units="$", missing=[44], nullable=True),
    "marked": Numeric(edges=[0, 3, 45, 100], whole=True, missing=[-1, 44, "0", "inf"], nullable=True),
    "european": Numeric(
        edges=_DAY_EDGES,
        nullable=True,
        other=True,
        outside="other",
        format=["%d/%m/%Y", "%d/%m/%y", "%d.%m.%Y %H:%M:%S.%f", "%d %b %Y", "%Y%m%d"],
        strip=True,
        missing=[DAY(1900, 1, 1), DAY(9999, 12, 31), DAY(1970, 1, 1), "?"],
        aliases={"never": DAY(2010, 1, 1)},
    ),
    "american": Numeric(
        edges=_MOMENT_EDGES,
        nullable=True,
        format=["%m/%d/%Y %I:%M %p", "%B %d, %Y", "%Y"],
        missing=["9999-12-31", DAY(2000, 2, 29)],
    ),
    "offset": Numeric(
        edges=_MOMENT_EDGES,
        nullable=True,
        other=True,
        outside="other",
        format=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "[%d/%b/%Y:%H:%M:%S %z]", "%m/%d/%y %I:%M %p %z"],
        missing=[DAY(9999, 12, 31)],
    ),
    "offset_day": Numeric(edges=_DAY_EDGES, outside="other", strip=True, format="%Y-%m-%dT%H:%M:%S%z"),
}
