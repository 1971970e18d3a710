"""EXPLAIN names each question behind a statement, where its answer would come from, its bound and its price."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt

ASKED = "SELECT sex, COUNT(*) AS n, AVG(age) FROM t WHERE age >= 20 GROUP BY sex"


@pytest.fixture
def session() -> rt.Session:
    generator = np.random.default_rng(3)
    people = pa.table({"age": generator.integers(0, 100, 3000), "sex": generator.choice(["F", "M"], 3000)})
    domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), sex=rt.Categorical(["F", "M"]))
    return rt.Session.open(None, rt.Table.of(people, domain), rt.Budget(epsilon=1, delta=1e-9), purpose="unlimited")


def test_free_questions_have_their_origin_and_bound(session: rt.Session) -> None:
    found = session.ask(f"EXPLAIN {ASKED}")
    assert found.columns == ("question", "origin", "bound", "confidence", "price")
    assert len(found) >= 2
    answers = {text: (origin, bound) for text, origin, bound, *_ in found.rows}
    counted = session.ask(rt.count(rt.col("age") >= 20))
    assert all(row[-1] == 0 for row in found.rows)
    assert all(origin in ("certificate", "derived", "cache") for origin, _ in answers.values())
    explained = session.ask("EXPLAIN SELECT COUNT(*) FROM t WHERE age >= 20").rows[0]
    assert explained[:3] == ("count(age >= 20)", counted.origin, counted.error)


def test_the_price_is_that_of_cost_and_nothing_is_bought(session: rt.Session) -> None:
    asked = "SELECT sex, COUNT(*), COUNT(*) FILTER (WHERE age >= 50) FROM t GROUP BY sex"
    explained, spent = f"EXPLAIN {asked}", session.spent
    found = session.ask(explained, error="2%")
    prices = [row[-1] for row in found.rows]
    assert sum(prices) == pytest.approx(session.cost(asked, error="2%"), rel=1e-9)
    assert sum(prices) > 0
    assert {row[1] for row in found.rows if row[-1]} == {"measured"}
    assert (found.price, session.cost(explained, error="2%"), session.spent) == (0, 0, spent)
    paid = session.ask(asked, error="2%")
    assert 0 < paid.price <= sum(prices) * (1 + 1e-9)
    assert sum(row[-1] for row in session.ask(explained, error="2%").rows) == 0


def test_what_is_public_asks_nothing(session: rt.Session) -> None:
    for text in ("SELECT MAX(age) FROM t", "SELECT * FROM t_synthetic", "SELECT DISTINCT sex FROM t"):
        found = session.ask(f"EXPLAIN {text}")
        assert (len(found), found.note) == (0, "nothing is asked: the result is public")


def test_what_is_refused_is_refused_with_the_same_words(session: rt.Session) -> None:
    for text, error in (("SELECT age FROM t", None), ("SELECT AVG(age) FROM t", "90%")):
        with pytest.raises(rt.QueryError) as told:
            session.ask(text, error=error)
        with pytest.raises(rt.QueryError) as explained:
            session.ask(f"EXPLAIN {text}", error=error)
        assert str(told.value) == str(explained.value)


def test_tables_and_columns_are_described(session: rt.Session) -> None:
    assert session.ask("SHOW TABLES").rows == (("t",),)
    described = session.ask("DESCRIBE t")
    assert described.rows == session.ask("SHOW COLUMNS FROM t").rows
    assert described.rows[0] == ("age", "DOUBLE", "NO", "10 bins from 0 to 100")
    assert [row[1] for row in described.rows] == ["DOUBLE", "VARCHAR"]
    assert described.guarantee == "public"
