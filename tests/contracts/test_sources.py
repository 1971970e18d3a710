"""Every engine gives every value the code that `Attribute.encode` gives it, and every person the same weights."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nasty import ATTRIBUTES, COLUMNS

from reticent.domain import Domain
from reticent.queries.conjunctions import Conjunctions
from reticent.sources.codes import coding
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.engine import Engine
from reticent.sources.grouping import load
from reticent.sources.ibis import open_expression
from reticent.sources.ondemand import OnDemand
from reticent.sources.postgres import PostgresEngine
from reticent.sources.spark import SparkEngine

Opener = Callable[[pa.Table], Engine]


QUICK = ["duckdb", "postgres", "polars"]
CLUSTER = ["spark"]


@pytest.fixture(params=[*QUICK, *CLUSTER])
def open_table(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Copies an Arrow table into the engine and opens it there."""
    opened: list[Engine] = []
    openers = {"duckdb": open_in_duckdb, "polars": open_in_polars, "postgres": open_in_postgres, "spark": open_in_spark}
    opener = openers[request.param]
    place = request.getfixturevalue(request.param) if request.param in ("postgres", "spark") else None

    def open_instead(table: pa.Table) -> Engine:
        while opened:
            opened.pop().close()
        opened.append(opener(table, place))
        return opened[-1]

    yield open_instead
    while opened:
        opened.pop().close()


def open_in_duckdb(table: pa.Table, _: None) -> Engine:
    return DuckDBEngine.over(table, label="nasty")


def open_in_polars(table: pa.Table, _: None) -> Engine:
    """One of the backends that Ibis only streams from."""
    return open_expression(ibis.polars.connect().create_table("nasty", table), "nasty")


POSTGRES_TYPES = {
    pa.string(): "text",
    pa.float64(): "double precision",
    pa.float32(): "real",
    pa.int64(): "bigint",
    pa.int16(): "smallint",
    pa.decimal128(10, 2): "numeric(10, 2)",
    pa.decimal128(38, 20): "numeric",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.binary(): "bytea",
}


def open_in_postgres(table: pa.Table, url: str) -> Engine:
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    columns = ", ".join(f'"{field.name}" {POSTGRES_TYPES[field.type]}' for field in table.schema)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        with cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(list(row.values()))
    return PostgresEngine.connect(url, f"SELECT * FROM {name}")


def open_in_spark(table: pa.Table, session: Any) -> Engine:
    from pyspark.sql.pandas.types import from_arrow_schema

    # Left to itself Spark takes timestamps without a zone for local times and makes instants of them.
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    return SparkEngine.of_frame(session.createDataFrame(table, schema), label="nasty")


def codes_in(engine: Engine, column: str, rows: int) -> dict[str, np.ndarray]:
    """The codes of one column by every attribute, in one statement."""
    kind = engine.columns()[column]
    made = [coding(a, column, kind, engine.dialect, place) for place, a in enumerate(ATTRIBUTES.values())]
    projected = ", ".join(part for coded in made for part in coded.projected)
    inner = f"SELECT {engine.dialect.quoted('id')} AS id, {projected} FROM {engine.relation}"
    listed = ", ".join(f"CAST({coded.code} AS BIGINT) AS code{place}" for place, coded in enumerate(made))
    codes = np.full((len(made), rows), -99)
    for block in engine.fetch(f"SELECT id, {listed} FROM ({inner}) AS reading", len(made) + 1):
        codes[:, block[0]] = block[1:]
    return dict(zip(ATTRIBUTES, codes, strict=True))


def numbered(values: pa.Array) -> pa.Table:
    return pa.table({"id": np.arange(len(values), dtype=np.int64), "value": values})


@pytest.mark.parametrize("column", COLUMNS)
def test_codes_equal_the_reference_encoder(open_table: Opener, column: str) -> None:
    values = COLUMNS[column]
    engine = open_table(numbered(values))
    listed = values.to_pylist()
    for name, found in codes_in(engine, "value", len(values)).items():
        expected = ATTRIBUTES[name].encode(listed)
        wrong = [(listed[i], int(found[i]), int(expected[i])) for i in np.flatnonzero(found != expected)]
        assert not wrong, f"{name} over {column}: (value, engine, reference) {wrong}"


def drawn(most: int) -> Callable[[Callable], Callable]:
    """Hypothesis with few examples where each costs a second of planning."""
    return settings(max_examples=most, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


DRAWN_VALUES = {
    "texts": st.lists(st.none() | st.text("0123456789+-.eE_ ,naifTt:", max_size=12) | st.text(max_size=4), min_size=1),
    "numbers": st.lists(st.none() | st.floats() | st.sampled_from([0.1, 2.5, 100.0]), min_size=1),
    "wholes": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 105), min_size=1),
    "moments": st.lists(st.none() | st.datetimes(), min_size=1),
}


@pytest.mark.parametrize("open_table", QUICK, indirect=True)
@drawn(12)
@given(**DRAWN_VALUES)
def test_codes_of_drawn_values(open_table: Opener, **values: list) -> None:
    check_drawn_values(open_table, **values)


@pytest.mark.parametrize("open_table", CLUSTER, indirect=True)
@drawn(3)
@given(**DRAWN_VALUES)
def test_codes_of_drawn_values_on_a_cluster(open_table: Opener, **values: list) -> None:
    check_drawn_values(open_table, **values)


def check_drawn_values(open_table: Opener, texts: list, numbers: list, wholes: list, moments: list) -> None:
    clean = [t if t is None else t.replace("\x00", "").encode("utf-8", "ignore").decode() for t in texts]
    columns = [
        pa.array(clean, pa.string()),
        pa.array(numbers, pa.float64()),
        pa.array(wholes, pa.int64()),
        pa.array(moments, pa.timestamp("us")),
    ]
    for values in columns:
        check_codes(open_table(numbered(values)), values.to_pylist())


def reference_weights(persons: list, codes: np.ndarray, grid: int) -> dict[tuple, int]:
    """Spec 1.2, word by word."""
    rows: dict[object, list[tuple]] = {}
    for person, code in zip(persons, map(tuple, codes.tolist()), strict=True):
        if person is not None:
            rows.setdefault(person, []).append(code)
    weights: dict[tuple, int] = {}
    for own in rows.values():
        share, extra = divmod(grid, len(own))
        for place, code in enumerate(sorted(own)):
            weights[code] = weights.get(code, 0) + share + (place < extra)
    return {code: weight for code, weight in weights.items() if weight}


DRAWN_PERSONS = {
    "rows": st.lists(
        st.tuples(st.none() | st.sampled_from("abcdé"), st.integers(0, 2), st.integers(-1, 300)),
        min_size=1,
        max_size=60,
    ),
    "grid": st.sampled_from([1, 2, 7, 60, 720720]),
}


@pytest.mark.parametrize("open_table", QUICK, indirect=True)
@drawn(25)
@given(**DRAWN_PERSONS)
def test_a_person_weighs_exactly_the_grid(open_table: Opener, rows: list, grid: int) -> None:
    check_persons(open_table, rows, grid)


@pytest.mark.parametrize("open_table", CLUSTER, indirect=True)
@drawn(6)
@given(**DRAWN_PERSONS)
def test_a_person_weighs_exactly_the_grid_on_a_cluster(open_table: Opener, rows: list, grid: int) -> None:
    check_persons(open_table, rows, grid)


def check_persons(open_table: Opener, rows: list, grid: int) -> None:
    persons = [row[0] for row in rows]
    domain = Domain(small=3, large=300)
    codes = np.array([[small, large if 0 <= large < 300 else 0] for _, small, large in rows])
    columns = {"small": [row[1] for row in rows], "large": [row[2] for row in rows]}
    table = pa.table({"who": pa.array(persons, pa.string()), **columns})
    expected = reference_weights(persons, codes, grid)
    counts = np.zeros((3, 300), dtype=np.int64)
    for code, weight in expected.items():
        counts[code] = weight
    records = load(open_table(table), domain, person="who", grid=grid)
    assert records is not None
    np.testing.assert_array_equal(records.marginal(("small", "large")), counts)
    assert records.total() == grid * len({p for p in persons if p is not None})


def test_wide_domains_need_several_keys(open_table: Opener) -> None:
    """Thirty attributes of 300 codes are far beyond one 64-bit key."""
    rng = np.random.default_rng(1)
    names = [f"a{i}" for i in range(30)]
    codes = rng.integers(0, 300, (200, 30))
    table = pa.table({name: codes[:, i] for i, name in enumerate(names)} | {"who": rng.integers(0, 40, 200)})
    domain = Domain(dict.fromkeys(names, 300))
    for person, grid in ((None, 1), ("who", 60)):
        records = load(open_table(table), domain, person=person, grid=grid)
        assert records is not None
        persons = table["who"].to_pylist() if person else list(range(200))
        expected = reference_weights(persons, codes, grid)
        for i, name in enumerate(names):
            counts = np.zeros(300, dtype=np.int64)
            for code, weight in expected.items():
                counts[code[i]] += weight
            np.testing.assert_array_equal(records.marginal((name,)), counts)


def test_a_relation_without_rows_counts_nothing(open_table: Opener) -> None:
    table = pa.table({"a": pa.array([], pa.int64()), "who": pa.array([], pa.int64())})
    for person in (None, "who"):
        records = load(open_table(table), Domain(a=3), person=person, grid=60 if person else 1)
        assert records is not None
        assert records.total() == 0
        assert records.marginal(("a",)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("person", [None, "who"])
def test_counts_on_demand_equal_records_in_memory(open_table: Opener, person: str | None) -> None:
    rng = np.random.default_rng(4)
    sizes = {"a": 3, "b": 5, "c": 300, "d": 2, "e": 1, "f": 2000, "g": 2000}
    columns = {name: rng.integers(-1, size + 1, 300) for name, size in sizes.items()}
    table = pa.table(columns | {"who": rng.integers(0, 50, 300)})
    domain = Domain(sizes)
    grid = 60 if person else 1
    engine = open_table(table)
    held, asked = load(engine, domain, person=person, grid=grid), OnDemand(engine, domain, person=person, grid=grid)
    assert held is not None
    assert load(engine, domain, person=person, grid=grid, hold=10) is None
    # Five covering tables, so that an engine in this process counts them in one pass; the next two are grouped.
    sets = [(), ("a",), ("b", "c"), ("a", "d", "e"), ("c", "f"), ("f", "g"), ("b", "f"), ("b", "g"), ("c", "g")]
    for wanted in (sets, [("a", "f"), ("a", "g")]):
        for left, right in zip(held.marginals(wanted), asked.marginals(wanted), strict=True):
            np.testing.assert_array_equal(left, right)
    vectors = {name: rng.integers(1 if size < 3 else 0, 3, size) for name, size in sizes.items()}
    assert asked.weigh(vectors) == held.weigh(vectors) > 0
    literals = np.array([[0, 1, -1], [2, 5, 6], [0, 1, -1]]), np.array([[1, 2, -1], [0, 0, 0], [0, 0, -1]])
    wide = Conjunctions(domain, *literals)
    assert asked.conjunctions(wide).tolist() == held.conjunctions(wide).tolist()


def test_types_that_only_duckdb_has() -> None:
    """Nanoseconds before 1970 are floored; 128-bit integers round to doubles as Python's do."""
    nanoseconds = [-1, 0, 1, -1_000, 946_684_799_999_999_999, 946_684_800_000_000_000]
    moments = DuckDBEngine.over(
        pa.table({"id": np.arange(6), "value": pa.array(nanoseconds, pa.timestamp("ns"))}), label="nanoseconds"
    )
    floored = [datetime(1970, 1, 1) + timedelta(microseconds=ns // 1000) for ns in nanoseconds]
    check_codes(moments, floored)
    moments.close()
    huge = [2**63, 2**53 + 1, 2**54 + 3, -(2**126), 2**126 + 2**73 + 1, 3, 45]
    listed = ", ".join(f"({place}, {value}::HUGEINT)" for place, value in enumerate(huge))
    integers = DuckDBEngine(
        duckdb.connect().sql, label="huge", query=f"SELECT * FROM (VALUES {listed}) AS v(id, value)"
    )
    check_codes(integers, huge)


def check_codes(engine: Engine, values: list) -> None:
    for name, found in codes_in(engine, "value", len(values)).items():
        np.testing.assert_array_equal(found, ATTRIBUTES[name].encode(values), err_msg=name)
