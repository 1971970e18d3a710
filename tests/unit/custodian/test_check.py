"""The custodian learns exactly what did not fit, and is told not to publish it."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime

import pandas as pd
import pyarrow as pa
import pytest

from reticent.custodian.check import WARNING, check, refuse_misfits
from reticent.domain import Attribute, Categorical, Domain, Integer, Numeric
from reticent.errors import QueryError, SourceError

DOMAIN = Domain(
    age=Numeric(edges=[0, 18, 65], whole=True),
    sex=Categorical(["f", "m"]),
    visits=Integer(3),
    seen=Numeric(edges=[date(2000, 1, 1), date(2020, 12, 31)], nullable=True),
)
ROWS = pa.table(
    {
        "age": ["17", "65", "65.5", "66", "-1", "x", None],
        "sex": ["f", "m", "F", None, "m", "m", ""],
        "visits": [0.0, 1.5, 2.0, 3.0, -1.0, float("nan"), None],
        "seen": [datetime(2020, 12, 31, 23), datetime(2021, 1, 1), None, None, None, None, datetime(1999, 1, 1)],
        "who": ["a", "a", "b", None, "c", "c", None],
    }
)
EXPECTED = {"age": (1, 1, 2), "sex": (1, 2, 0), "visits": (2, 3, 0), "seen": (4, 0, 2)}


def test_counts_of_what_did_not_fit() -> None:
    found = check(ROWS, DOMAIN, person="who", records=4)
    assert {fit.attribute: (fit.null, fit.unfit, fit.outside) for fit in found.attributes} == EXPECTED
    assert (found.rows, found.units, found.nameless) == (7, 3, 2)
    assert not any(fit.fits for fit in found.attributes)
    text = str(found)
    assert text.startswith(WARNING)
    assert "records=4 was declared but there are 3" in text
    assert "2 rows name no person" in text
    assert found.to_dict()["warning"] == WARNING


def test_records_as_the_unit() -> None:
    found = check(ROWS, DOMAIN, records=7)
    assert (found.rows, found.units, found.nameless) == (7, 7, 0)
    assert "declared" not in str(found)


def test_a_fitting_table() -> None:
    rows = pa.table({"a": [0, 1, 2]})
    assert check(rows, Domain(a=3)).attributes[0].fits


def test_missing_columns_are_named() -> None:
    with pytest.raises(SourceError, match="no column 'b'"):
        check(pa.table({"a": [1]}), Domain(a=3, b=2))


def test_what_fits_nowhere_is_counted_against_the_limit() -> None:
    """Values that fit nowhere, nulls of a column that has none, and values outside edges that are not clamped."""
    domain = Domain(
        a=Categorical(["x"]),
        b=Categorical(["x"], nullable=True),
        c=Numeric(edges=[0, 1], outside="other"),
        d=Integer(2),
    )
    rows = pa.table(
        {"a": ["x", None, None, "x"], "b": ["x", None, None, "y"], "c": [0.5, 2, 3, None], "d": [0, 1, 1, 0]}
    )
    found = check(rows, domain)
    assert {fit.attribute: fit.unplaced for fit in found.attributes} == {"a": 2, "b": 1, "c": 3, "d": 0}
    assert found.over == ("a", "c")
    assert check(rows, domain, limit=0.5).over == ("c",)
    assert check(rows, domain, limit=0).over == ("a", "b", "c")
    with pytest.raises(SourceError, match="column 'a', and of 1 more column, does not fit") as raised:
        refuse_misfits(rows, domain)
    assert "--accept-misfits" in str(raised.value)
    refuse_misfits(pa.table({"a": ["x"], "b": [None], "c": [0.5], "d": [0]}), domain)


def test_a_declared_number_far_from_the_counted_one_is_refused() -> None:
    """Under `records=5` every share of 80 records was published as a share of five."""
    rows, domain = pa.table({"who": [i // 2 for i in range(80)], "a": [0, 1] * 40}), Domain(a=2)
    for person, units in ((None, 80), ("who", 40)):
        for declared in (None, units, units * 5 // 4, units * 9 // 10):
            refuse_misfits(rows, domain, person=person, records=declared)
        for declared in (5, units // 2, units * 2):
            with pytest.raises(SourceError, match=f"^records={declared} differs by over 25%") as raised:
                refuse_misfits(rows, domain, person=person, records=declared)
            assert str(units) not in str(raised.value).replace(str(declared), "")
            assert "--accept-misfits" in str(raised.value)
            assert check(rows, domain, person=person, records=declared, limit=1).units == units


def test_a_value_of_another_type_is_not_its_own_alias() -> None:
    """The hint was `looks short for "x": aliases = {"x" = "x"}`."""
    (fit,) = check(pa.table({"a": [b"x"]}), Domain(a=Categorical(["x", "y"]))).attributes
    assert (fit.unfit, fit.examples) == (1, ("'x'",))
    assert fit.hint == "is written like a declared value, but the column's type is not read as text"


HINTS = [
    (Numeric(edges=[date(2000, 1, 1), date(2020, 1, 1)]), "31/12/2010", "dd/mm/yyyy"),
    (Numeric(edges=[date(2000, 1, 1), date(2020, 1, 1)]), "31.12.10", 'format = "%d.%m.%y"'),
    (Numeric(edges=[date(2000, 1, 1), date(2020, 1, 1)]), "12/31/2010 11:59 PM", 'format = "%m/%d/%Y %I:%M %p"'),
    (Numeric(edges=[date(2000, 1, 1), date(2020, 1, 1)]), "5-Mar-2010", 'format = "%d-%b-%Y"'),
    (Numeric(edges=[0, 1]), "0,5", "decimal comma"),
    (Numeric(edges=[0, 1]), "1,234,567", "thousands"),
    (Numeric(edges=[0, 1]), "$12", "currency"),
    (Numeric(edges=[0, 1]), "12%", "percentage"),
    (Numeric(edges=[0, 1]), "€ 1.234,50", 'units = "€", thousands = ".", decimal = ","'),
    (Numeric(edges=[0, 1]), "1’234", 'thousands = "\'"'),
    (Numeric(edges=[0, 1]), "12 kg", 'units = "kg"'),
    (Numeric(edges=[0, 1]), "NA", 'missing = ["NA"]'),
    (Categorical(["Male"]), "male ", "case or blanks alone: strip = true, casefold = true"),
    (Categorical(["Male", "Female"]), "F", 'aliases = {"F" = "Female"}'),
    (Categorical([True, False]), "yes", 'truth value: aliases = {"yes" = true}'),
    (Categorical([True, False]), "1", 'truth value: aliases = {"1" = true}'),
    (Categorical(["yes", "no"]), "0", 'truth value: aliases = {"0" = "no"}'),
    (Numeric(edges=[datetime(2000, 1, 1), datetime(2020, 1, 1)]), "2010-12-31T01:02:03Z", "%Y-%m-%dT%H:%M:%S%z"),
    (Numeric(edges=[datetime(2000, 1, 1), datetime(2020, 1, 1)]), "2010-12-31T01:02:03.5Z", "%H:%M:%S.%f%z"),
    (Numeric(edges=[datetime(2000, 1, 1), datetime(2020, 1, 1)]), "31/Dec/2010:01:02:03 +0000", "%d/%b/%Y:"),
    (Numeric(edges=[datetime(2000, 1, 1), datetime(2020, 1, 1)]), "2010-12-31 01:02:03+02", "%Y-%m-%d %H:%M:%S%z"),
    (Numeric(edges=[datetime(2000, 1, 1), datetime(2020, 1, 1)]), "31.12.2010 01:02 -0330", "%d.%m.%Y %H:%M %z"),
    (Numeric(edges=[-1, 1]), "(1,234.50)", 'thousands = ",", negative = "parentheses"'),
    (Numeric(edges=[-1, 1]), "($ 12)", 'currency sign: units = "$", negative = "parentheses"'),
    (Numeric(edges=[-1, 1]), "12,5-", 'decimal = ",", negative = "trailing"'),
    (Categorical([-12, 12]), "12 USD-", 'units = "USD", negative = "trailing"'),
]


def test_hints_are_rules_that_read_the_text() -> None:
    """What a hint says may be written into the domain, and then the value fits."""
    for attribute, text, _ in HINTS:
        (fit,) = check(pa.table({"a": [text]}), Domain(a=attribute)).attributes
        assert fit.hint is not None
        rules = fit.hint.partition(": ")[2]
        entry = attribute.to_dict() | tomllib.loads("\n".join(_pairs(rules)))
        (mended,) = check(pa.table({"a": [text]}), Domain.from_dict({"a": entry})).attributes
        assert mended.unfit == 0, (text, rules)


def _pairs(rules: str) -> list[str]:
    return re.split(r", (?=[a-z]+ = )", rules)


def test_several_hints_and_what_lies_outside() -> None:
    rows = pa.table({"a": ["NA", "1,5", "1,5", "2,5", "7", "-3"]})
    (fit,) = check(rows, Domain(a=Numeric(edges=[0, 5]))).attributes
    assert (
        fit.hint == 'looks like a decimal comma: decimal = ","; looks like a mark for missing values: missing = ["NA"]'
    )
    assert set(fit.beyond) == {"'7'", "'-3'"}
    assert "outside its edges, such as" in str(check(rows, Domain(a=Numeric(edges=[0, 5]))))
    assert check(rows, Domain(a=Numeric(edges=[0, 5])), examples=0).attributes[0].examples == ()
    with pytest.raises(QueryError, match="examples"):
        check(rows, Domain(a=Numeric(edges=[0, 5])), examples=-1)


@pytest.mark.parametrize(("attribute", "text", "hint"), HINTS)
def test_examples_come_with_a_hint(attribute: Attribute, text: str, hint: str) -> None:
    for rows in (pa.table({"a": [text]}), pd.DataFrame({"a": pd.Series([text, b"x"], dtype=object)})):
        (fit,) = check(rows, Domain(a=attribute)).attributes
        assert repr(text) in fit.examples
        assert fit.hint is not None
        assert hint in fit.hint


def test_examples_are_the_commonest_and_few() -> None:
    rows = pa.table({"a": [f"v{i % 10}" for i in range(100)] + ["often"] * 20})
    (fit,) = check(rows, Domain(a=Categorical(["x"]))).attributes
    assert fit.examples == ("'often'", "'v0'", "'v1'", "'v2'", "'v3'")
    assert "a: such as 'often', 'v0'" in str(check(rows, Domain(a=Categorical(["x"]))))


def _hint(texts: list[str], attribute: Attribute) -> str | None:
    return check(pa.table({"a": texts}), Domain(a=attribute)).attributes[0].hint


def test_one_hint_reads_all_texts_of_a_likeness() -> None:
    assert _hint(["NORTH", "South ", "EAST"], Categorical(["north", "south", "east"])) == (
        'differs from "east" in case or blanks alone, others likewise: strip = true, casefold = true'
    )
    assert _hint(["Y", "N", "1", "0"], Categorical([True, False])) == (
        'looks like a truth value: aliases = {"0" = false, "1" = true, "N" = false, "Y" = true}'
    )
    assert _hint(["f", "m"], Categorical(["female", "male"])) == (
        'looks short for "female", others likewise: aliases = {"f" = "female", "m" = "male"}'
    )
    assert _hint(["$1,000", "7 USD", "2,500"], Numeric(edges=[0, 1])) == (
        'has a currency sign, others likewise: units = ["$", "USD"], thousands = ","'
    )


def test_a_hint_keeps_the_rules_that_are_there() -> None:
    edges = [date(2000, 1, 1), date(2020, 1, 1)]
    assert _hint(["20101231"], Numeric(edges=edges, format="%d.%m.%Y")) == (
        'looks like yyyymmdd: format = ["%d.%m.%Y", "%Y%m%d"]'
    )
    assert _hint(["?"], Numeric(edges=[0, 1], missing=["NA"])) == (
        'looks like a mark for missing values: missing = ["NA", "?"]'
    )


def test_two_formats_are_hinted_at_but_never_both_orders_of_day_and_month() -> None:
    edges = [date(2000, 1, 1), date(2020, 1, 1)]
    assert _hint(["31.12.2010", "20101231"], Numeric(edges=edges)) == (
        'looks like dd.mm.yyyy, or yyyymmdd: format = ["%d.%m.%Y", "%Y%m%d"]'
    )
    assert _hint(["31/12/2010", "30/12/2010", "12/31/2010"], Numeric(edges=edges)) == (
        'looks like dd/mm/yyyy: format = "%d/%m/%Y"'
    )


def test_one_hint_reads_offsets_and_both_kinds_of_negative_numbers() -> None:
    assert _hint(["($126.57)", "3-", "(4)"], Numeric(edges=[0, 1])) == (
        'has a currency sign, others likewise: units = "$", negative = ["parentheses", "trailing"]'
    )
    attribute = Numeric(edges=[date(2000, 1, 1), date(2020, 1, 1)])
    assert _hint(["2010-12-31T01:02:03+02:00", "2010-12-31T01:02:03Z"], attribute) == (
        'looks like yyyy-mm-dd and a time: format = "%Y-%m-%dT%H:%M:%S%z"'
    )


def test_nulls_over_the_limit_are_explained() -> None:
    rows = pa.table({"a": [None, "x"]})
    assert "a: rows without a value" in str(check(rows, Domain(a=Categorical(["x"]))))
    assert "nullable = true" not in str(check(rows, Domain(a=Categorical(["x"], nullable=True))))


def test_the_tail_of_discovered_values_is_named_as_such() -> None:
    rows = pa.table({"a": ["x", "rare", "seldom"], "b": [1, 2, 3]})
    declared = Domain(a=Categorical(["x"]), b=Numeric(edges=[0, 5]))
    paid = {"ledger": "1" * 32, "budget": {"rho": "1/100"}, "spent": 1, "neighbours": "add-remove", "unit": "record"}
    with pytest.raises(SourceError) as told:
        check(rows, declared).refuse("mend it")
    assert "rare" not in str(told.value)
    with pytest.raises(SourceError, match=r"mend it; private discovery leaves rare values in \(other\)"):
        check(rows, declared.with_discovered(paid)).refuse("mend it")
