"""Free tables of a statement's groups are kept for one value of knowledge, and nobody can change them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.knowledge.free import free_single
from reticent.knowledge.request import Request
from reticent.queries.groups import Groups
from reticent.sql import asking, compile_sql
from reticent.sql.asking import free_table

DOMAIN = rt.Domain(
    age=rt.Numeric(edges=[0, 20, 40, 60, 80]),
    sex=rt.Categorical(["f", "m"]),
    region=rt.Categorical(["n", "s", "w"]),
)
TEXT = "SELECT region, COUNT(*), AVG(age) FROM t WHERE sex = 'f' GROUP BY region"


@pytest.fixture
def session() -> rt.Session:
    rows = pa.table({"age": [5, 25, 45, 65] * 500, "sex": ["f", "m"] * 1000, "region": ["n", "s", "w", "n"] * 500})
    return rt.Session.open(
        None, rt.Table.of(rows, DOMAIN), rt.Budget(epsilon=1, delta=1e-9), purpose="unlimited", progress=False
    )


def asked(text: str, confidence: float = 0.95) -> Request:
    return Request(compile_sql(text, DOMAIN), confidence=confidence)


def test_kept_tables_answer_as_fresh_ones_do(session: rt.Session) -> None:
    known = session.state.knowledge
    first = free_table(known, asked(TEXT))
    again = free_table(known, asked(TEXT))
    assert known.tables
    known.tables.clear()
    assert first is not None
    assert first == again == free_table(known, asked(TEXT))
    assert free_table(known, asked(TEXT, 0.99)) != first


def test_another_order_reads_the_same_groups(session: rt.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    known = session.state.knowledge
    free_table(known, asked(TEXT))
    monkeypatch.setattr(asking, "free_single", lambda *_, **__: pytest.fail("computed again"))
    assert free_table(known, asked(TEXT + " ORDER BY 2 DESC LIMIT 2")) is not None


def test_a_purchase_forgets_what_was_kept(session: rt.Session) -> None:
    free_table(session.state.knowledge, asked(TEXT))
    session.ask(rt.count(rt.col("age") >= 40), error=0.04)
    assert session.state.knowledge.queries
    assert not session.state.knowledge.tables


def test_kept_tables_are_few_and_cannot_be_changed(session: rt.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "KEPT_TABLES", 2)
    known = session.state.knowledge
    for column in ("region", "sex", "age"):
        free_table(known, asked(f"SELECT {column}, COUNT(*) FROM t GROUP BY {column}"))
        assert 1 <= len(known.tables) <= 2
    for answer in known.tables.values():
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(answer.value)[0] = 1.0


def test_large_tables_are_not_kept(session: rt.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "KEPT_CELLS", 1)
    known = session.state.knowledge
    found = free_table(known, asked(TEXT))
    assert found is not None
    assert not known.tables
    groups = next(query for query in compile_sql(TEXT, DOMAIN).queries if isinstance(query, Groups))
    assert free_single(known, groups, None, 0.95, strict=False) is not None


@pytest.mark.parametrize("numbers", ["COUNT(*)", "SUM(age)", "AVG(age)", "COUNT(*) FILTER (WHERE age < 40)"])
@pytest.mark.parametrize("where", ["", "WHERE age < 60"])
def test_the_order_of_the_columns_does_not_change_a_group(session: rt.Session, numbers: str, where: str) -> None:
    """The same groups in another order are an equal query whose values are laid out otherwise."""
    known = session.state.knowledge

    def groups(listed: str) -> dict[tuple[str, str], float]:
        text = f"SELECT sex, region, {numbers} FROM t {where} GROUP BY {listed}"
        found = free_table(known, asked(text))
        assert found is not None
        return {row[:2]: row[2] for row in found.rows}

    first = groups("region, sex")
    assert len(first) == DOMAIN.cells(("sex", "region"))
    assert groups("sex, region") == pytest.approx(first)
    known.tables.clear()
    assert groups("sex, region") == pytest.approx(first)


@pytest.mark.parametrize("numbers", ["COUNT(*)", "AVG(age)"])
def test_both_orders_in_one_statement(session: rt.Session, numbers: str) -> None:
    text = f"SELECT sex, region, {numbers} FROM t WHERE age < 60 GROUP BY "
    found = free_table(session.state.knowledge, asked(f"{text} region, sex UNION ALL {text} sex, region"))
    assert found is not None
    rows = sorted(found.rows, key=str)
    assert rows[::2] == rows[1::2]
    assert len({row[2] for row in rows}) > 2
