"""The same SQL on a session and on a release: free where something certified is known, paid part by part else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.sessions.session import Session
from reticent.sql import ResultTable

RECORDS = 20_000
DOMAIN = rt.Domain(
    age=rt.Numeric(edges=[17, 25, 35, 45, 55, 65, 90], whole=True, other=False),
    sex=rt.Categorical(["F", "M"], other=False),
    smoker=rt.Categorical(["no", "yes"], nullable=True),
)
FREE = "SELECT sex, COUNT(*), AVG(age) FROM census WHERE smoker = 'yes' GROUP BY sex"
PAID = "SELECT sex, COUNT(*) FROM census WHERE smoker = 'yes' GROUP BY sex"


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> Iterator[Session]:
    generator = np.random.default_rng(0)
    columns = {
        "age": generator.integers(17, 90, RECORDS),
        "sex": generator.choice(["F", "M"], RECORDS),
        "smoker": generator.choice(["no", "yes"], RECORDS),
    }
    table = rt.Table.of(pa.table(columns), DOMAIN)
    path = tmp_path_factory.mktemp("sql") / "census.ledger"
    with Session.open(path, table, rt.Budget(epsilon=1.0, delta=1e-9), warm_start=0.3) as opened:
        yield opened


def test_a_free_statement_costs_nothing_and_is_certified(session: Session) -> None:
    before = session.spent
    table = session.ask(FREE)
    assert isinstance(table, ResultTable)
    assert (table.certified, table.price) == (True, 0.0)
    assert set(table.origin.split(" + ")) <= {"certificate", "derived"}
    assert session.spent == before
    for (sex, count, mean), (_, count_error, mean_error) in zip(table.rows, table.errors, strict=True):
        assert sex in ("F", "M")
        assert 0 < count_error < count
        assert 0 < mean_error < 20 < mean < 80


def test_a_release_answers_the_same_statements(session: Session) -> None:
    published = session.release()
    table = published.ask(FREE)
    assert table.certified
    assert table.columns == session.ask(FREE).columns
    assert published.ask("SELECT COUNT(*) FROM t").rows == ((float(RECORDS),),)


def test_a_paid_statement_costs_at_most_what_was_said_and_is_then_known(session: Session) -> None:
    wanted = min(error for row in session.ask(PAID).errors for error in row if error is not None) / 2
    said = session.cost(PAID, error=wanted)
    before = session.spent
    table = session.ask(PAID, error=wanted)
    assert said > 0
    assert 0 < session.spent - before <= said + 1e-8
    assert table.price == pytest.approx(session.spent - before, abs=1e-8)
    assert table.certified
    assert table.confidence >= 0.95 - 1e-9
    assert all(error <= wanted * (1 + 1e-9) for _, error in table.errors if error is not None)
    assert session.ask(PAID, error=wanted).rows == table.rows
    assert session.cost(PAID, error=wanted) == 0.0


def test_the_same_key_returns_the_same_rows(session: Session) -> None:
    text = "SELECT COUNT(*) FROM census WHERE smoker = 'yes' AND age >= 45 OR sex = 'F'"
    first = session.ask(text, error=80, key="mine")
    spent = session.spent
    assert session.ask(text, error=80, key="mine").rows == first.rows
    assert session.spent == spent


def test_a_refused_statement_spends_nothing(session: Session) -> None:
    before = session.spent
    text = "SELECT COUNT(*) FROM census WHERE smoker = 'yes' HAVING MEDIAN(age) FILTER (WHERE age > 30) > 3"
    with pytest.raises(rt.QueryError, match="cuts the bin"):
        session.ask(text, error=20)
    assert session.spent == before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sex, smoker, COUNT(*) AS n FROM census GROUP BY ROLLUP(sex, smoker)",
        "SELECT sex, COUNT(*) AS n FROM census GROUP BY GROUPING SETS ((sex), ())",
        "SELECT 'all' AS who, COUNT(*) AS n FROM census UNION ALL SELECT sex, COUNT(*) FROM census GROUP BY sex",
        "SELECT sex, (SELECT COUNT(*) FROM census WHERE age >= 35) AS n FROM census GROUP BY sex",
        "SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM census GROUP BY sex) x ORDER BY sex DESC",
    ],
)
def test_counts_of_arranged_rows_have_the_unit_of_counts(session: Session, text: str) -> None:
    """Totals below groups, stacked and repeated tables: a percentage of the table, a number of records."""
    for error in ("3%", rt.records(0.03 * RECORDS), 0.03 * RECORDS):
        table = session.ask(text, error=error)
        place = table.columns.index("n")
        errors = [row[place] for row in table.errors]
        assert all(bound is not None and bound <= 0.03 * RECORDS * (1 + 1e-9) for bound in errors)
    with pytest.raises(rt.QueryError, match="less than one record"):
        session.ask(text, error=0.5)


def test_percentages_of_means_below_groups(session: Session) -> None:
    table = session.ask("SELECT sex, AVG(age) AS mean FROM census GROUP BY ROLLUP(sex)", error="25%")
    assert all(error is not None and error <= 0.25 * 73 * (1 + 1e-9) for _, error in table.errors)
