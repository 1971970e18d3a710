"""Certified sums and means are of the rows' own numbers: bounds include what bins hide."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.sql.sql_table import trips

import reticent as rt
from reticent.knowledge.answer import Answer
from reticent.queries.base import Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Total
from reticent.sql import ResultTable, run
from reticent.sql.statement import compile_sql

RECORDS = 4000
BUDGET = rt.Budget(epsilon=4, delta=1e-9)
COARSE, FINE = [0, 50, 100], [0, 1, 2, 4, 8, 16, 32, 64, 100]
SHAPES = ["exponential", "low end", "high end", "uniform", "outliers", "two points"]


def numbers(shape: str, generator: np.random.Generator) -> np.ndarray:
    if shape == "exponential":
        return generator.exponential(6.0, RECORDS)
    if shape == "low end":
        return np.where(generator.random(RECORDS) < 0.5, 0.0, 50.0)
    if shape == "high end":
        return np.where(generator.random(RECORDS) < 0.5, 49.999, 99.999)
    if shape == "uniform":
        return generator.uniform(0, 100, RECORDS)
    if shape == "outliers":
        return np.where(generator.random(RECORDS) < 0.05, 1e9, -1e9) + generator.normal(0, 1, RECORDS)
    return np.where(generator.random(RECORDS) < 0.9, 0.5, 51.0)


class Rows:
    """Raw rows, never binned, beside a session that sees bins only."""

    def __init__(self, shape: str, edges: list[int], seed: int, *, whole: bool, nulls: bool) -> None:
        generator = np.random.default_rng(seed)
        raw = numbers(shape, generator)
        raw = np.floor(raw) if whole else raw
        self.missing = generator.random(RECORDS) < (0.2 if nulls else 0.0)
        self.group = generator.integers(0, 3, RECORDS)
        self.flag = (generator.random(RECORDS) < 0.3) ^ (raw > np.median(raw))
        self.number = np.clip(raw, edges[0], edges[-1])
        domain = rt.Domain(
            x=rt.Numeric(edges=edges, whole=whole, nullable=nulls, other=False),
            g=rt.Categorical(["a", "b", "c"], other=False),
            f=rt.Categorical(["no", "yes"], other=False),
        )
        cells = [None if gone else value for gone, value in zip(self.missing, raw.tolist(), strict=True)]
        columns = {
            "x": cells,
            "g": ["abc"[code] for code in self.group],
            "f": [["no", "yes"][f] for f in self.flag * 1],
        }
        table = rt.Table.of(pa.table(columns), domain, name="t")
        self.session = rt.Session.open(None, table, BUDGET, warm_start=0.5)

    def statements(self, generator: np.random.Generator, count: int) -> list[tuple[str, np.ndarray]]:
        """SQL and the records it selects."""
        found = []
        for _ in range(count):
            aggregate = generator.choice(["AVG(x)", "SUM(x)", "SUM(2 * x - 3)", "AVG(10 - x)", "SUM(x) / COUNT(x)"])
            chosen, words = np.ones(RECORDS, dtype=bool), []
            if generator.random() < 0.6:
                group = int(generator.integers(3))
                words.append(f"g = '{'abc'[group]}'")
                chosen &= self.group == group
            if generator.random() < 0.5:
                flag = bool(generator.random() < 0.5)
                words.append(f"f = '{'yes' if flag else 'no'}'")
                chosen &= self.flag == flag
            where = f" WHERE {' AND '.join(words)}" if words else ""
            found.append((f"SELECT {aggregate} FROM t{where}", chosen))
        return found

    def truth(self, text: str, chosen: np.ndarray) -> float:
        values = self.number[chosen & ~self.missing]
        if "2 * x" in text:
            return float((2 * values - 3).sum())
        if "10 - x" in text:
            return float((10 - values).mean())
        return float(values.sum() if text.startswith("SELECT SUM(x) FROM") else values.mean())


def misses(rows: Rows, generator: np.random.Generator, count: int) -> tuple[int, int]:
    """How many certified bounds miss the truth of the raw rows, and how many there are."""
    missed = certified = 0
    for text, chosen in rows.statements(generator, count):
        table = rows.session.ask(text)
        assert isinstance(table, ResultTable)
        assert "x clipped to [0, 100]" in table.basis
        (value,), (error,) = table.rows[0], table.errors[0]
        if error is None or value is None:
            continue
        certified += 1
        missed += abs(float(value) - rows.truth(text, chosen)) > error * (1 + 1e-9)
    return missed, certified


@pytest.mark.parametrize("edges", [COARSE, FINE], ids=["coarse", "fine"])
def test_two_hundred_statements_hold_on_the_raw_rows(edges: list[int]) -> None:
    generator = np.random.default_rng(7)
    missed = certified = 0
    for seed, shape in enumerate(SHAPES):
        rows = Rows(shape, edges, seed, whole=seed % 2 == 1, nulls=seed % 3 == 2)
        found = misses(rows, generator, 100 // len(SHAPES) + 1)
        missed, certified = missed + found[0], certified + found[1]
    assert certified >= 50
    assert missed <= 0.05 * certified


def test_bin_middles_alone_are_no_bound_for_a_mean() -> None:
    rows = Rows("low end", COARSE, 3, whole=False, nulls=False)
    everybody = np.ones(RECORDS, dtype=bool)
    mean = rows.session.ask(rt.mean("x"))
    truth = rows.truth("SELECT AVG(x) FROM t", everybody)
    assert abs(mean.value - truth) > 20, "the middles are far off"
    assert mean.error is None or abs(mean.value - truth) <= mean.error
    assert mean.basis.startswith("of values clipped to [0, 100]")
    assert "bins of x" in mean.basis
    some = rows.session.ask(rt.mean("x", rt.col("f") == "yes"))
    assert some.error is None or abs(some.value - rows.truth("SELECT AVG(x) FROM t", rows.flag)) <= some.error


def test_paid_means_and_sums_hold_on_the_raw_rows() -> None:
    rows = Rows("exponential", FINE, 5, whole=False, nulls=False)
    generator = np.random.default_rng(5)
    for text, chosen in rows.statements(generator, 12):
        if "/" in text:
            continue
        table = rows.session.ask(text, error="40%")
        error = table.errors[0][0]
        assert error is None or abs(float(table.rows[0][0]) - rows.truth(text, chosen)) <= error


def test_an_error_that_bins_cannot_reach_is_refused_unspent() -> None:
    rows = Rows("uniform", COARSE, 6, whole=False, nulls=False)
    before = rows.session.spent
    with pytest.raises(rt.QueryError, match="finer bins"):
        rows.session.ask(rt.mean("x"), error=20)
    with pytest.raises(rt.QueryError, match="finer bins for x"):
        rows.session.ask("SELECT AVG(x) FROM t WHERE f = 'yes'", error=5)
    assert rows.session.spent == before


def test_columns_of_single_values_hide_nothing() -> None:
    domain = rt.Domain(
        n=rt.Categorical([1, 2, 30], other=False), k=rt.Integer(6), g=rt.Categorical(["a", "b"], other=False)
    )
    generator = np.random.default_rng(8)
    number = generator.choice([1, 2, 30], 2000)
    columns = {"n": number, "k": generator.integers(0, 6, 2000), "g": generator.choice(["a", "b"], 2000)}
    table = rt.Table.of(pa.table(columns), domain, name="t")
    session = rt.Session.open(None, table, BUDGET, purpose="unlimited")
    assert "bins" not in session.ask("SELECT AVG(n), SUM(k) FROM t").basis
    mean = session.ask(rt.mean("n"))
    assert mean.error is not None
    assert mean.error < 3
    assert abs(mean.value - number.mean()) <= mean.error


def test_persons_have_means_and_no_sums() -> None:
    generator = np.random.default_rng(9)
    persons = np.repeat(np.arange(500), generator.integers(1, 6, 500))
    rate = generator.uniform(0, 10, 500)[persons] + generator.normal(0, 0.5, persons.size)
    domain = rt.Domain(x=rt.Numeric(lower=0, upper=10, bins=20, other=False), g=rt.Categorical(["a"], other=False))
    rows = pa.table({"x": rate, "g": ["a"] * persons.size, "id": persons})
    table = rt.Table.of(rows, domain, person="id", records=500, name="t")
    session = rt.Session.open(None, table, BUDGET, purpose="unlimited")
    clipped = np.clip(rate, 0, 10)
    truth = np.mean([clipped[persons == person].mean() for person in range(500)])
    found = session.ask("SELECT AVG(x) FROM t")
    assert abs(float(found.rows[0][0]) - truth) <= found.errors[0][0]
    assert "persons' means" in found.basis
    assert "persons' means" in session.ask(rt.mean("x")).basis
    assert "persons' means" in session.release().ask("SELECT AVG(x) FROM t").basis
    spent = session.spent
    for ask in (session.ask, session.release().ask):
        with pytest.raises(rt.QueryError, match="every person weighs one"):
            ask("SELECT SUM(x) FROM t")
    with pytest.raises(rt.QueryError, match="every person weighs one"):
        session.ask("SELECT g, 2 * SUM(x) FROM t GROUP BY g", error=100)
    assert session.spent == spent
    assert session.ask("SELECT COUNT(*) FROM t").rows[0][0] == 500


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("SELECT AVG(x) FROM t WHERE x >= 50", 50.0, 100.0),
        ("SELECT g, AVG(x) FROM t WHERE x < 50 GROUP BY g", 0.0, 50.0),
        ("SELECT AVG(10 - x) FROM t WHERE x >= 50", -90.0, -40.0),
        (
            "SELECT CASE WHEN x < 50 THEN 'low' ELSE 'high' END AS c, AVG(x) FROM t GROUP BY 1 HAVING c = 'high'",
            50,
            100,
        ),
        ("SELECT x, AVG(x) FROM t WHERE x < 50 GROUP BY x", 0.0, 50.0),
        ("SELECT AVG(x) FROM t WHERE x > 60", 50.0, 100.0),
        ("SELECT AVG(CASE WHEN g = 'a' THEN x ELSE -5 END) FROM t WHERE x >= 50", -5.0, 100.0),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.09, 0.2, 1.0])
def test_no_mean_lies_outside_the_bins_that_its_condition_allows(
    text: str, least: float, most: float, share: float
) -> None:
    """Total and count are moved into their own intervals: their quotient may leave the bins, and is moved back."""
    domain = rt.Domain(
        x=rt.Numeric(edges=COARSE, other=False, nullable=False), g=rt.Categorical(["a", "b"], other=False)
    )
    statement = compile_sql(text, domain)

    def noisy(query: Query) -> Answer:
        shape = domain.shape_of(query.names) if isinstance(query, (Groups, Marginal)) else ()
        of_numbers = isinstance(query, Total) or (isinstance(query, Groups) and not query.counts)
        value = np.full(shape, share if of_numbers else 0.1)
        stated = {"error": 0.05, "confidence": 0.95, "origin": "derived", "certified": True}
        return Answer("", value, None, interval=(value - 0.05, value + 0.05), **stated)

    table = statement.run(noisy, records=1000)
    assert table.rows
    for row, errors in zip(table.rows, table.errors, strict=True):
        assert least <= float(row[-1]) <= most
        assert errors[-1] is None or (errors[-1] <= most - least)


def test_each_column_that_needs_finer_bins_is_named() -> None:
    """The numbers of two columns together were named as one column with a comma in its name."""
    text = "SELECT SUM(CASE WHEN fare < 15 THEN trip_total ELSE 0 END) FROM trips"
    view = trips().blurred(1e-6, 1)
    table = run(text, trips().domain, view.answer, records=view.records)
    assert "finer ones of fare, trip_total would help" in table.basis
