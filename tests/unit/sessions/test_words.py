"""Refusals give the unit of what was asked, and a remedy that helps."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt

N = 400
CODES = [f"{number:05d}" for number in range(50_000)]


@pytest.fixture(scope="module")
def session() -> rt.Session:
    generator = np.random.default_rng(2)
    rows = {
        "code": [CODES[number] for number in generator.integers(0, len(CODES), N)],
        "y": generator.uniform(0, 100, N),
        "kids": generator.integers(0, 4, N),
    }
    domain = rt.Domain(
        code=rt.Categorical(CODES, other=False),
        y=rt.Numeric(edges=[0, 30, 50, 100], other=False),
        kids=rt.Categorical([0, 1, 2, 3], nullable=True),
    )
    table = rt.Table.of(pa.table(rows), domain, numbers=True)
    return rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), warm_start=0)


def refusal(session: rt.Session, question: object, error: object = None) -> str:
    with pytest.raises(rt.QueryError) as found:
        session.ask(question, error=error)  # type: ignore[arg-type]
    assert session.spent == 0
    return str(found.value)


def test_a_mean_is_refused_in_its_own_unit(session: rt.Session) -> None:
    told = refusal(session, rt.mean("y", rt.col("kids") == 1), 0.02)
    assert "records:" not in told
    assert "one record may change it by 100" in told


def test_errors_are_printed_as_people_write_them(session: rt.Session) -> None:
    told = refusal(session, "SELECT kids, AVG(y), SUM(y) FROM t GROUP BY kids", 97 * 0.15 / 10)
    assert "1.455 " in told
    explained = repr(session.ask("EXPLAIN SELECT kids, AVG(y) FROM t GROUP BY kids", error=100 / 7))
    assert not re.search(r"\.0*[1-9]\d{6}", explained)


def test_null_in_a_list_has_the_remedy_of_its_condition(session: rt.Session) -> None:
    assert "OR ... IS NULL" in refusal(session, "SELECT COUNT(*) FROM t WHERE kids IN (1, NULL)")
    for where in ("kids NOT IN (1, NULL)", "NOT (kids IN (1, NULL))"):
        told = refusal(session, f"SELECT COUNT(*) FROM t WHERE {where}")
        assert "leave NULL out of the list" in told
        assert "OR ..." not in told


def test_functions_of_very_many_values(session: rt.Session) -> None:
    some: Any = session.ask("SELECT COUNT(*) FROM t WHERE LEFT(code, 3) = '000'").rows[0][0]
    assert some == pytest.approx(N * 100 / len(CODES))
    others = session.ask("SELECT COUNT(*) FROM t WHERE NOT (LEFT(code, 3) = '000')").rows[0][0]
    assert others == pytest.approx(N - some)
    told = refusal(session, "SELECT LEFT(code, 2), COUNT(*) FROM t GROUP BY LEFT(code, 2)")
    assert "code has 50000 values: declare a coarser column" in told


@pytest.mark.parametrize("fails", [False, True])
def test_a_closed_session_says_that_it_is_closed(fails: bool) -> None:
    table = rt.Table.of(pa.table({"kids": [0, 1, 2] * 100}), rt.Domain(kids=3))
    session = rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0)
    assert "closed" not in repr(session)
    if fails:
        with pytest.raises(ZeroDivisionError), session:
            raise ZeroDivisionError
    session.close()
    assert repr(session).startswith("<Session on 'table', closed: rho ")
    question = rt.count(rt.col("kids") == 1)
    assert session.ask(question).price == 0
    paid = (
        lambda: session.ask(question, error=0.05),
        lambda: session.ask("SELECT COUNT(*) FROM t WHERE kids = 1", error=10),
        lambda: session.ask_all([question], error=0.05),
        lambda: session.certify(order=1),
        lambda: session.set_cap("ana", 0.5),
    )
    for ask in paid:
        with pytest.raises(rt.LedgerError, match=r"^this session is closed: open it again with rt\.Session\.open"):
            ask()


def test_what_is_left_is_named_as_the_analysts_cap() -> None:
    table = rt.Table.of(pa.table({"kids": [0, 1, 2] * 100}), rt.Domain(kids=3))
    with rt.Session.open(None, table, rt.Budget(rho=0.01), warm_start=0) as session:
        session.set_cap("ana", 1e-5)
        question = rt.count(rt.col("kids") == 1)
        assert "1e-05 is left of ana's cap" in session.ask(question, error=0.05, analyst="ana").note
        told = session.ask(question, error=0.005).note
        assert " is left" in told
        assert "cap" not in told
