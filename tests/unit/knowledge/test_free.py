"""A session that has bought nothing says so wherever it answers, and stops saying it of what it has measured."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import reticent as rt
from reticent.knowledge.free import UNMEASURED

DOMAIN = rt.Domain(
    sex=rt.Categorical(["f", "m"], other=False, nullable=True),
    smokes=rt.Categorical([True, False]),
    age=rt.Numeric(edges=[0, 30, 60, 90]),
)
ROWS = pa.table({"sex": ["f"] * 900 + ["m"] * 100, "smokes": [True, False] * 500, "age": [10.0, 50.0] * 500})
BY_SEX = "SELECT sex, COUNT(*), AVG(age) FROM t GROUP BY sex"


@pytest.fixture
def session() -> Iterator[rt.Session]:
    table = rt.Table.of(ROWS, DOMAIN)
    with rt.Session.open(None, table, rt.Budget(epsilon=2, delta=1e-6), warm_start=0) as opened:
        yield opened


def test_every_free_answer_says_that_nothing_was_measured(session: rt.Session) -> None:
    asked = [
        rt.count(rt.col("sex") == "f"),
        rt.marginal("sex", "age"),
        rt.mean("age", where=rt.col("sex") == "f"),
        BY_SEX,
    ]
    for question in asked:
        answer = session.ask(question)
        assert answer.note == UNMEASURED
        assert UNMEASURED in repr(answer)
    assert "nothing measured yet" in repr(session)
    assert "nothing measured: synthetic rows are uniform" in repr(session.release())
    assert session.release().ask(asked[0]).note == UNMEASURED


def test_what_is_known_needs_no_such_words(session: rt.Session) -> None:
    assert session.ask(rt.count()).note == ""
    assert session.ask("SELECT COUNT(*) FROM t").note == ""


def test_a_measured_column_is_no_longer_unmeasured(session: rt.Session) -> None:
    session.ask(rt.marginal("sex"), error=0.05)
    assert session.ask(rt.count(rt.col("sex") == "f")).note == ""
    assert session.ask(BY_SEX).note == ""
    assert session.ask(rt.marginal("smokes")).note == UNMEASURED
    assert "nothing measured" not in repr(session)
    assert "nothing measured" not in repr(session.release())


def test_a_certified_session_says_nothing_of_the_kind() -> None:
    table = rt.Table.of(ROWS, DOMAIN)
    with rt.Session.open(None, table, rt.Budget(epsilon=2, delta=1e-6), warm_start=0.5) as session:
        assert session.ask(BY_SEX).note == ""
        assert "nothing measured" not in repr(session)
