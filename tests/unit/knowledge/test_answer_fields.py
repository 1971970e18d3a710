"""Fields of an answer that wait for a reader are as if they had been there from the start."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

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
