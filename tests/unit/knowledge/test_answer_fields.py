"""Fields of an answer that wait for a reader are as if they had been there from the start."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.knowledge.answer import Answer

FIELDS: dict[str, Any] = {
    "value": 0.25,
    "count": 25.0,
    "error": 0.01,
    "confidence": 0.95,
    "origin": "certificate",
    "certified": True,
}


def waiting(calls: list[int]) -> Answer:
    def typical() -> float:
        calls.append(1)
        return 0.004

    return Answer.built(rt.count(rt.col("age") >= 40), typical, **FIELDS)


def test_a_typical_error_is_computed_once_and_only_where_it_is_read() -> None:
    calls: list[int] = []
    answer = waiting(calls)
    assert answer.value == 0.25
    assert not calls
    assert answer.typical == 0.004
    assert answer.typical == 0.004
    assert len(calls) == 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a)), replace])
def test_a_copy_has_what_was_not_read_yet(again: Any) -> None:
    plain = Answer(rt.count(rt.col("age") >= 40).text, **FIELDS, typical=0.004)
    assert again(waiting([])) == plain
    assert again(waiting([])).to_dict() == plain.to_dict()
    assert repr(again(waiting([]))) == repr(plain)


def test_without_a_typical_error_it_is_none() -> None:
    assert Answer.built(rt.count(), None, **FIELDS).typical is None
    assert Answer("count()", **FIELDS).typical is None
    with pytest.raises(AttributeError, match="has no 'typicall'"):
        Answer("count()", **FIELDS).typicall  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        (37445.2, 20_812.0, "Answer(37,445, ±20,800 at 0.95"),
        (37445.28, 0.52, "Answer(37,445.3, ±0.52 at 0.95"),
        (1234567.0, 1e6, "Answer(1,234,567, ±1,000,000 at 0.95"),
        (0.0918866, 0.0185, "Answer(0.0918866, ±0.0185 at 0.95"),
        (-2500.0, 12.0, "Answer(-2,500, ±12 at 0.95"),
        (1e20, 1e18, "Answer(1e+20, ±1e+18 at 0.95"),
    ],
)
def test_large_numbers_have_thousands_and_no_exponent(value: float, error: float, told: str) -> None:
    answer = Answer("mean", value, None, error, 0.95, "certificate", True)
    assert repr(answer).startswith(told)
    assert f"<b>{told.removeprefix('Answer(').partition(', ±')[0]}</b>" in answer._repr_html_()


def test_a_notebook_shows_shares_and_their_error_in_one_unit_aligned_right() -> None:
    table = Answer(
        "marginal",
        np.array([0.1605345, 0.8394655]),
        np.array([3210.69, 16789.31]),
        0.0155365,
        0.95,
        "certificate",
        True,
        labels=(("sex", ("f", "(null)")),),
        keys=(("f", None),),
    )
    shown = table._repr_html_()
    right = "style='text-align:right'"
    assert f"<td {right}>0.161 ± 0.016</td><td {right}>3,211</td>" in shown
    assert f"<th {right}>share</th><th {right}>records</th>" in shown
    assert "<td style='text-align:left'>NULL</td>" in shown
    assert "3210.69" not in shown
    means = replace(table, count=None, value=np.array([41250.0, 2.0]), error=1200.0)._repr_html_()
    assert f"<td {right}>41,250 ± 1,200</td></tr>" in means
    assert f"<th {right}>value</th></tr>" in means


def test_a_category_named_null_does_not_look_like_a_missing_value() -> None:
    rows = pa.table({"g": ["NULL", None, "a"] * 1000})
    table = rt.Table.of(rows, rt.Domain(g=rt.Categorical(["NULL", "a"], nullable=True)))
    with rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), progress=False) as session:
        found = session.ask("SELECT g, COUNT(*) FROM t GROUP BY g", error=200)
        answer = session.ask(rt.marginal("g"))
    shown = [line.split()[0] for line in repr(found).splitlines()[2:-1]]
    assert shown.count("'NULL'") == shown.count("NULL") == 1, shown
    assert "&#x27;NULL&#x27;" in answer._repr_html_()
    texts = found.to_arrow()["g"].to_pylist()
    assert texts.count("NULL") == texts.count(None) == 1
