"""Every engine gives every value the code that `Attribute.encode` gives it, and every person the same weights."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.nasty import ATTRIBUTES, COLUMNS

from reticent.custodian.misfits import count_misfits, misfit_texts
from reticent.domain import Attribute, Categorical, Domain, Numeric, Status
from reticent.domain.numeric import has_positions, positions
from reticent.domain.values import name_of
from reticent.queries.conjunctions import Conjunctions
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.encoding import Coding, coding, readings_of
from reticent.sources.engine import Engine
from reticent.sources.ibis import open_expression
from reticent.sources.on_demand import OnDemand
from reticent.sources.postgres import PostgresEngine
from reticent.sources.spark import SparkEngine
from reticent.sources.weighing import Weighing, load_records

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
    return coded_in(engine, column, rows, ATTRIBUTES, lambda made: made.code)


def coded_in(
    engine: Engine, column: str, rows: int, attributes: dict[str, Attribute], part: Callable[[Coding], str]
) -> dict[str, np.ndarray]:
    kind = engine.columns()[column]
    made = [coding(a, column, kind, engine.dialect, place) for place, a in enumerate(attributes.values())]
    inner = readings_of(made, engine.relation, engine.dialect, [f"{engine.dialect.quoted('id')} AS id"])
    codes = ", ".join(f"{coded.code} AS c{place}" for place, coded in enumerate(made))
    inner = f"SELECT reading.*, {codes} FROM ({inner}) AS reading"
    listed = ", ".join(f"CAST({part(coded)} AS BIGINT) AS code{place}" for place, coded in enumerate(made))
    codes = np.full((len(made), rows), -99)
    for block in engine.fetch(f"SELECT id, {listed} FROM ({inner}) AS reading", len(made) + 1):
        codes[:, block[0]] = block[1:]
    return dict(zip(attributes, codes, strict=True))


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


MEASURED: dict[str, Numeric] = {
    name: attribute
    for name, attribute in ATTRIBUTES.items()
    if isinstance(attribute, Numeric) and has_positions(attribute)
}


def check_positions(engine: Engine, values: list, column: str) -> None:
    found = coded_in(engine, "value", len(values), dict(MEASURED), lambda made: made.position)
    for name, inside in found.items():
        expected = positions(MEASURED[name], values)
        wrong = [(values[i], int(inside[i]), int(expected[i])) for i in np.flatnonzero(inside != expected)]
        assert not wrong, f"{name} over {column}: (value, engine, reference) {wrong}"


@pytest.mark.parametrize("column", COLUMNS)
def test_positions_equal_the_reference(open_table: Opener, column: str) -> None:
    """Where in its bin a value lies is the same whole number in every engine."""
    values = COLUMNS[column]
    check_positions(open_table(numbered(values)), values.to_pylist(), column)


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
        engine = open_table(numbered(values))
        check_codes(engine, values.to_pylist())
        check_positions(engine, values.to_pylist(), str(values.type))


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
    records = load_records(open_table(table), domain, Weighing("who", grid))
    assert records is not None
    np.testing.assert_array_equal(records.marginal(("small", "large")), counts)
    assert records.total() == grid * len({p for p in persons if p is not None})


HIDING = Domain(
    {
        "x": Numeric(edges=[0, 1, 2.5, 100], nullable=True),
        "kind": Categorical(["u", "v"]),
        "day": Numeric(edges=[date(2000, 1, 1), date(2010, 1, 1), date(2020, 1, 1)]),
        "year": Numeric(edges=[1, 2, 3, 3], whole=True),
    }
)
PLACED = ("x", "day")


def hiding_rows(rows: int, seed: int) -> pa.Table:
    """Numbers, dates and kinds that repeat now and then, and whose rows they are."""
    rng = np.random.default_rng(seed)
    days = [date(1999, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 9000, rows)]
    values = rng.choice([None, -3.0, 0.25, 0.5, 1.75, 2.25, 50.0, 1e9], rows)
    return pa.table(
        {
            "who": pa.array(rng.choice([None, "a", "b", "c", "d"], rows), pa.string()),
            "x": pa.array(values, pa.float64()),
            "kind": pa.array(rng.choice(["u", "v", "w"], rows), pa.string()),
            "day": pa.array([days[i // 2] for i in range(rows)], pa.date32()),
            "year": pa.array(rng.integers(0, 5, rows), pa.int64()),
        }
    )


Row = tuple[tuple[int, ...], tuple[int, ...]]
"""Codes of all attributes, and positions of those that have them."""


def encoded(table: pa.Table) -> list[Row]:
    columns = {name: table[name].to_pylist() for name in HIDING}
    codes = np.stack([HIDING[name].encode(columns[name]) for name in HIDING], axis=1)
    inside = np.stack([positions(numeric(name), columns[name]) for name in PLACED], axis=1)
    return list(zip(map(tuple, codes.tolist()), map(tuple, inside.tolist()), strict=True))


def numeric(name: str) -> Numeric:
    attribute = HIDING[name]
    assert isinstance(attribute, Numeric)
    return attribute


def reference_sums(table: pa.Table, weighing: Weighing) -> dict[tuple[int, ...], list[int]]:
    """For each distinct record its weight and the sums of weight times position, word by word."""
    persons = table["who"].to_pylist()
    owned: dict[object, list[Row]] = {}
    for place, (person, row) in enumerate(zip(persons, encoded(table), strict=True)):
        owner = place if weighing.person is None else person
        if owner is not None:
            owned.setdefault(owner, []).append(row)
    found: dict[tuple[int, ...], list[int]] = {}
    for person, rows in owned.items():
        for code, sums in (kept(person, rows, weighing.most) if weighing.most else shared(rows, weighing.grid)).items():
            known = found.setdefault(code, [0] * (1 + len(PLACED)))
            found[code] = [left + right for left, right in zip(known, sums, strict=True)]
    return {code: sums for code, sums in found.items() if sums[0]}


def shared(rows: list[Row], grid: int) -> dict[tuple[int, ...], list[int]]:
    """A person's weights by spec 1.2; equal codes have the mean of their positions, rounded down after weighing."""
    share, extra = divmod(grid, len(rows))
    weights: dict[tuple[int, ...], int] = {}
    own: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for place, (code, inside) in enumerate(sorted(rows)):
        weights[code] = weights.get(code, 0) + share + (place < extra)
        own.setdefault(code, []).append(inside)
    return {
        code: [weight, *(weight * sum(column) // len(own[code]) for column in zip(*own[code], strict=True))]
        for code, weight in weights.items()
    }


def kept(person: object, rows: list[Row], most: int) -> dict[tuple[int, ...], list[int]]:
    """The first rows by the hash of the person, the packed codes, the positions and the number among equal rows."""
    name = name_of(person)
    assert name is not None
    digest = hashlib.md5(name.encode()).hexdigest()
    seen: dict[Row, int] = {}
    ranked = []
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
        key = 0
        for name, code in zip(HIDING, row[0], strict=True):
            key = (key << (HIDING[name].size - 1).bit_length()) + code
        text = ":".join(map(str, (HIDING.fingerprint, digest, key, *row[1], seen[row])))
        ranked.append((hashlib.md5(text.encode()).hexdigest(), row))
    found: dict[tuple[int, ...], list[int]] = {}
    for _, (code, inside) in sorted(ranked)[:most]:
        known = found.setdefault(code, [0] * (1 + len(PLACED)))
        found[code] = [left + right for left, right in zip(known, (1, *inside), strict=True)]
    return found


WEIGHINGS = {
    "records": Weighing(),
    "persons": Weighing("who", 60),
    "persons on a coarse grid": Weighing("who", 7),
    "bounded rows": Weighing("who", most=5),
    "one row a person": Weighing("who", most=1),
}


@pytest.mark.parametrize("weighing", WEIGHINGS.values(), ids=WEIGHINGS)
def test_weights_and_sums_of_positions_equal_their_definition(open_table: Opener, weighing: Weighing) -> None:
    table = hiding_rows(90, 5)
    expected = reference_sums(table, weighing)
    engine = open_table(table)
    held, asked = load_records(engine, HIDING, weighing, placed=PLACED), OnDemand(engine, HIDING, weighing)
    assert held is not None
    if weighing.most is not None:
        assert held.total() <= 4 * weighing.most
    for names in (HIDING.names, ("kind", "day"), ("x",), ()):
        counts, sums = np.zeros(HIDING.shape_of(names), np.int64), np.zeros((2, *HIDING.shape_of(names)), np.int64)
        for code, (weight, *inside) in expected.items():
            place = tuple(code[HIDING.index(name)] for name in names)
            counts[place] += weight
            for axis, total in enumerate(inside):
                sums[(axis, *place)] += total
        for source in (held, asked):
            np.testing.assert_array_equal(source.marginal(names), counts)
            for axis, name in enumerate(PLACED):
                np.testing.assert_array_equal(source.positions(name, names), sums[axis])
    vectors = {"kind": np.array([1, 0, 1]), "day": np.array([0, 1, 1])}
    for source in (held, asked):
        found = source.weigh_bins("x", vectors)
        wanted = np.zeros((2, HIDING["x"].size), np.int64)
        for code, (weight, inside, _) in expected.items():
            if vectors["kind"][code[1]] and vectors["day"][code[2]]:
                wanted[:, code[0]] += (weight, inside)
        np.testing.assert_array_equal(found, wanted)


def identifiers() -> dict[str, pa.Array]:
    """Four persons with identifiers of every kind."""
    noon = datetime(2000, 2, 29, 12, 0, 0, 7)
    moments = [noon, datetime(1, 1, 1), datetime(2003, 7, 1, 23), datetime(9999, 12, 31, 23, 59, 59, 999_999)]
    uuids = [str(uuid.UUID(int=number)) for number in (0, 7, 2**127, 2**128 - 1)]
    exact = [Decimal(text) for text in ("12345678901234567.5", "3", "-0.00000000000000000001", "0")]
    return {
        "texts": pa.array(["a", "é'\\", "b:1", " "]),
        "UUIDs": pa.array(uuids),
        "wholes": pa.array([0, -7, 2**62 + 1, 41], pa.int64()),
        "small wholes": pa.array([0, -7, 300, 41], pa.int16()),
        "cents": pa.array([Decimal(text) for text in ("0.00", "-5.00", "0.50", "12.34")], pa.decimal128(10, 2)),
        "exact numbers": pa.array(exact, pa.decimal128(38, 20)),
        "doubles": pa.array([-0.0, 3.0, 0.1, -1e300], pa.float64()),
        "more doubles": pa.array([float("inf"), -1e-300, -2.5, 2.0**61], pa.float64()),
        "singles": pa.array([0.0, 0.1, -2.5, 1e30], pa.float32()),
        "days": pa.array([date(1, 1, 1), date(1969, 12, 31), date(2000, 2, 29), date(9999, 12, 31)], pa.date32()),
        "moments": pa.array(moments, pa.timestamp("us")),
        "instants": pa.array(moments, pa.timestamp("us", tz="UTC")),
        "truths": pa.array([True, False, True, False]),
    }


def owned_by(persons: pa.Array) -> pa.Table:
    """Rows whose persons have these identifiers."""
    table = hiding_rows(60, 8)
    places = pa.array([None if who is None else "abcd".index(who) for who in table["who"].to_pylist()], pa.int64())
    return table.set_column(0, "who", persons.take(places))


def check_kept(engine: Engine, table: pa.Table, most: int = 4) -> None:
    weighing = Weighing("who", most=most)
    expected = reference_sums(table, weighing)
    held = load_records(engine, HIDING, weighing)
    assert held is not None
    counts = np.zeros(HIDING.shape, np.int64)
    for code, (weight, *_) in expected.items():
        counts[code] += weight
    np.testing.assert_array_equal(held.marginal(HIDING.names), counts)


@pytest.mark.parametrize("kind", identifiers())
def test_every_engine_keeps_the_same_rows_of_every_kind_of_person(open_table: Opener, kind: str) -> None:
    table = owned_by(identifiers()[kind])
    check_kept(open_table(table), table)


def test_uuids_of_databases_are_their_texts(postgres: str) -> None:
    """Columns of the type UUID keep the rows that texts of the same identifiers keep."""
    table = owned_by(identifiers()["UUIDs"])
    typed = "SELECT * REPLACE (CAST(who AS UUID) AS who) FROM rows"
    with contextlib.closing(DuckDBEngine.over(table, label="typed", query=typed)) as engine:
        check_kept(engine, table)
    copied = open_in_postgres(table, postgres)
    listed = ", ".join(f'"{name}"' for name in HIDING)
    query = f"SELECT CAST(who AS UUID) AS who, {listed} FROM {copied.relation}"
    copied.close()
    with contextlib.closing(PostgresEngine.connect(postgres, query)) as engine:
        check_kept(engine, table)


def test_spellings_that_an_engine_takes_for_one_person() -> None:
    """Which of them a row has is part of the hash, so that the order of rows decides nothing."""
    rng = np.random.default_rng(3)
    rows = [
        (str(who), int(a)) for who, a in zip(rng.choice(["ab", "AB", "Ab"], 60), rng.integers(0, 4, 60), strict=True)
    ]
    domain = Domain(a=4)

    def counted(listed: list[tuple[str, int]]) -> list[int]:
        connection = duckdb.connect()
        connection.execute("CREATE TABLE t (who VARCHAR COLLATE NOCASE, a INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", listed)
        held = load_records(DuckDBEngine.of_relation(connection.table("t"), label="t"), domain, Weighing("who", most=9))
        assert held is not None
        return held.marginal(("a",)).tolist()

    found = counted(rows)
    assert sum(found) == 9
    assert all(counted(order) == found for order in (rows[::-1], sorted(rows), sorted(rows, key=lambda row: row[1])))


def test_wide_domains_need_several_keys(open_table: Opener) -> None:
    """Thirty attributes of 300 codes are far beyond one 64-bit key."""
    rng = np.random.default_rng(1)
    names = [f"a{i}" for i in range(30)]
    codes = rng.integers(0, 300, (200, 30))
    table = pa.table({name: codes[:, i] for i, name in enumerate(names)} | {"who": rng.integers(0, 40, 200)})
    domain = Domain(dict.fromkeys(names, 300))
    for person, grid in ((None, 1), ("who", 60)):
        records = load_records(open_table(table), domain, Weighing(person, grid))
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
        records = load_records(open_table(table), Domain(a=3), Weighing(person, 60 if person else 1))
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
    held, asked = load_records(engine, domain, Weighing(person, grid)), OnDemand(engine, domain, Weighing(person, grid))
    assert held is not None
    assert load_records(engine, domain, Weighing(person, grid), hold=10) is None
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


def test_examples_of_misfits_are_the_same_everywhere(open_table: Opener) -> None:
    """For the custodian: the commonest values that fit nowhere, as text."""
    table = pa.table({"a": ["x", "31/12/2010", None, "31/12/2010", "é"], "b": pa.array([0.5, 7.25, 7.25, None, 3.5])})
    engine = open_table(table)
    domain = Domain(a=ATTRIBUTES["date"], b=Categorical([0.5]))
    assert misfit_texts(engine, domain, "a", 2, Status.UNFIT) == ["31/12/2010", "x"]
    assert misfit_texts(engine, domain, "a", 2, Status.OUTSIDE) == []
    assert misfit_texts(engine, domain, "b", 5, Status.UNFIT) == ["7.25", "3.5"]
    assert count_misfits(engine, domain, None).attributes == {"a": (1, 4, 0), "b": (1, 3, 0)}
