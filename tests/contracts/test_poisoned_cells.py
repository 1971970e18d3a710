"""One cell never moves another: every cell has the code it would have alone, in every source and kind of attribute."""

from __future__ import annotations

import csv
import datetime
import enum
import math
import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.contracts.nasty import ATTRIBUTES, COLUMNS
from tests.contracts.test_sources import open_in_polars, open_in_postgres, open_in_spark

from reticent.custodian.check import check
from reticent.domain import Categorical, Domain, Numeric
from reticent.errors import SourceError
from reticent.kernel.table import exact_counts
from reticent.sources import Table, open_rows
from reticent.sources.engine import Engine
from reticent.sources.weighing import Weighing, load_records


class Spelled(str, enum.Enum):  # noqa: UP042
    """A text whose own `str()` is another text."""

    A = "a"


class Deceiver:
    """A class whose every method lies or fails."""

    def __str__(self) -> str:
        raise RuntimeError("never called")

    __float__ = __int__ = __eq__ = __str__  # type: ignore[assignment]
    __hash__ = object.__hash__


DAY = datetime.date(2010, 6, 15)
CLEAN: dict[str, list[Any]] = {
    "texts": ["a", "é", "1", "2.5", "true", "2020-01-01", "nowhere", Spelled.A, None, "a"],
    "wholes": [0, 1, 3, 45, -3, 2**53 + 1, 2**62, 7, None, 1],
    "numbers": [0.1, 1.0, 2.5, 1e300, -3.0, math.inf, math.nan, 45.0, None, 3.0],
    "truths": [True, False, True, None, False, True, True, False, True, True],
    "days": [DAY, datetime.date(1969, 12, 31), None, datetime.date(2020, 1, 1), *[DAY] * 6],
    "moments": [datetime.datetime(2010, 6, 15, 12, 30, 0, 1), datetime.datetime(2000, 1, 1), None, *[pd.NaT] * 7],
    "mixed": ["a", 1, 2.5, True, DAY, None, Decimal("0.1"), Fraction(1, 10), b"a", pd.NA],
}
POISONS: dict[str, Any] = {
    "bytes": b"a",
    "memory": memoryview(b"a"),
    "huge decimal": Decimal("1E+30"),
    "long decimal": Decimal("0." + "1" * 60),
    "signalling": Decimal("sNaN"),
    "huge integer": 10**400,
    "unsigned": 2**63,
    "text": "nowhere",
    "number text": "1",
    "surrogate": "\ud800",
    "zero": "a\0",
    "float": 0.5,
    "infinity": -math.inf,
    "complex": 1j,
    "truth": np.True_,
    "day": DAY,
    "moment": datetime.datetime(1, 1, 1),
    "zoned": datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=14))),
    "far moment": np.datetime64("30000-01-01"),
    "span": datetime.timedelta(days=10**8),
    "clock": datetime.time(12),
    "list": [1, "a"],
    "mapping": {"a": 1},
    "array": np.ones(3),
    "uuid": uuid.UUID(int=1),
    "deceiver": Deceiver(),
}
PLAIN = ("number_both", "whole", "datetime", "names_null", "numbers", "truth", "integer")
RULED = ("folded", "euros", "european")
NAMES = {f"{kind} {name}": (kind, name) for kind in CLEAN for name in (*PLAIN, "folded")}
DOMAIN = Domain({column: ATTRIBUTES[name] for column, (_, name) in NAMES.items()})


def counted(engine: Engine, domain: Domain) -> dict[str, np.ndarray]:
    try:
        records = load_records(engine, domain, Weighing(None, 1))
    finally:
        engine.close()
    assert records is not None
    return {name: records.marginal((name,)) for name in domain.names}


def cells(poison: list[Any]) -> dict[str, list[Any]]:
    return {column: [*CLEAN[kind], *poison] for column, (kind, _) in NAMES.items()}


def as_objects(columns: dict[str, list[Any]]) -> Any:
    return pd.DataFrame({name: pd.Series(listed, dtype=object) for name, listed in columns.items()})


def as_categories(columns: dict[str, list[Any]]) -> Any:
    def category(listed: list[Any]) -> pd.Categorical:
        """Its categories in the order of the cells: some cannot be sorted, some not be hashed."""
        places = [-1 if cell is None else i for i, cell in listed]
        kept = [i for i in places if i >= 0]
        found = pd.Index([listed[i][1] for i in kept], dtype=object)
        return pd.Categorical.from_codes([-1 if i < 0 else kept.index(i) for i in places], categories=found)

    distinct = {name: list(enumerate(_spread_out(listed))) for name, listed in columns.items()}
    return pd.DataFrame({name: category(listed) for name, listed in distinct.items()})


def _spread_out(listed: list[Any]) -> list[Any]:
    """Categories must differ, so cells seen before become nulls."""
    seen: list[Any] = []
    for cell in listed:
        known = cell is None or cell is pd.NA or cell is pd.NaT or cell != cell
        seen.append(None if known or any(cell == other for other in seen if other is not None) else cell)
    return seen


def as_polars_objects(columns: dict[str, list[Any]]) -> Any:
    return pl.DataFrame([pl.Series(name, listed, dtype=pl.Object) for name, listed in columns.items()])


def as_memtable(columns: dict[str, list[Any]]) -> Any:
    return ibis.memtable(as_objects(columns), schema=ibis.schema(dict.fromkeys(columns, "string")))


UNTYPED: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas objects": as_objects,
    "polars objects": as_polars_objects,
    "Ibis memory": as_memtable,
}


@pytest.mark.parametrize("source", UNTYPED)
def test_no_cell_recodes_a_column_of_objects(source: str) -> None:
    make = UNTYPED[source]
    before = counted(open_rows(make(cells([])), DOMAIN), DOMAIN)
    for column, (kind, name) in NAMES.items():
        alone = np.bincount(ATTRIBUTES[name].encode(CLEAN[kind]), minlength=ATTRIBUTES[name].size)
        np.testing.assert_array_equal(before[column], alone, err_msg=column)
    for poison in POISONS.values():
        after = counted(open_rows(make(cells([poison])), DOMAIN), DOMAIN)
        for column, (_, name) in NAMES.items():
            own = np.bincount(ATTRIBUTES[name].encode([poison]), minlength=ATTRIBUTES[name].size)
            np.testing.assert_array_equal(after[column] - before[column], own, err_msg=f"{column}, {poison!r:.40}")


UNHASHABLE = ("list", "mapping", "array", "memory", "deceiver", "signalling")
HASHABLE = [name for name in POISONS if name not in UNHASHABLE]


def test_no_category_recodes_a_categorical_column() -> None:
    before = counted(open_rows(as_categories(cells([])), DOMAIN), DOMAIN)
    for poison in map(POISONS.__getitem__, HASHABLE):
        made = cells([poison])
        after = counted(open_rows(as_categories(made), DOMAIN), DOMAIN)
        for column, (_, name) in NAMES.items():
            own = np.bincount(ATTRIBUTES[name].encode(_spread_out(made[column])[-1:]), minlength=ATTRIBUTES[name].size)
            np.testing.assert_array_equal(after[column] - before[column], own, err_msg=f"{column}, {poison!r:.40}")


@pytest.mark.parametrize("poison", POISONS)
def test_the_custodian_sees_one_more_misfit_at_most(poison: str) -> None:
    """What `check` says of a column changes by the poisoned cell alone."""
    columns = [column for column in NAMES if column.startswith(("texts", "wholes"))]
    domain = Domain({column: DOMAIN[column] for column in columns})
    for column, fit in zip(
        columns,
        check(as_objects(cells([POISONS[poison]])), domain).attributes,
        strict=True,
    ):
        kind, name = NAMES[column]
        statuses = ATTRIBUTES[name].judge([*CLEAN[kind], POISONS[poison]])[1]
        assert (fit.null, fit.unfit, fit.outside) == tuple(int((statuses == s).sum()) for s in (1, 2, 3)), column


def test_persons_are_told_apart_cell_by_cell() -> None:
    """A poisoned name neither merges two persons nor makes the column unreadable."""
    names = ["a", "b", "b", 1, 1.0, Decimal(1), None, float("nan"), 2**53, 2**53 + 1, DAY, uuid.UUID(int=5), b"a"]
    for poison in map(POISONS.__getitem__, ("bytes", "huge decimal", "text", "list", "uuid", "deceiver", "far moment")):
        persons = [*names, poison]
        frame = pd.DataFrame({"who": pd.Series(persons, dtype=object), "x": [0] * len(persons)})
        before, after = (
            Table.of(rows, Domain(x=2), person="who", neighbours="add-remove")
            for rows in (frame.iloc[: len(names)], frame)
        )
        grid = before.grid
        assert exact_counts(before).total() == 8 * grid
        assert 0 <= exact_counts(after).total() - exact_counts(before).total() <= grid


def test_a_person_column_may_be_an_attribute_too() -> None:
    frame = pd.DataFrame({"who": pd.Series(["a", "b", 7, 7], dtype=object)})
    table = Table.of(frame, Domain(who=ATTRIBUTES["names"]), person="who", neighbours="add-remove")
    assert exact_counts(table).total() == 3 * table.grid


# ---- sources with declared types: the extremes of each type are the poison

TYPED = ["text", "double", "bigint", "decimal", "wide_decimal", "truth", "day", "moment", "instant", "bytes"]


def typed_table(last: int | None) -> pa.Table:
    """The first values of every column, and one more, the `last` of its list."""

    def column(values: pa.Array) -> pa.Array:
        clean = values.slice(0, 3) if len(values) > 3 else values.slice(0, 2)
        listed = clean.to_pylist() + clean.to_pylist()
        return pa.array(listed if last is None else [*listed, values[last % len(values)].as_py()], values.type)

    return _equal_lengths({name: column(COLUMNS[name]) for name in TYPED})


def _equal_lengths(columns: dict[str, pa.Array]) -> pa.Table:
    longest = max(map(len, columns.values()))
    return pa.table({n: pa.concat_arrays([pa.nulls(longest - len(c), c.type), c]) for n, c in columns.items()})


TYPED_DOMAINS = [Domain(dict.fromkeys(TYPED, ATTRIBUTES[chosen])) for chosen in (*PLAIN, *RULED)]


def as_parquet(table: pa.Table, folder: Path) -> Engine:
    pyarrow.parquet.write_table(table, folder / "rows.parquet")
    return open_rows(folder / "rows.parquet", TYPED_DOMAINS[0])


def as_typed_pandas(table: pa.Table, _: Path) -> Engine:
    return open_rows(table.to_pandas(types_mapper=pd.ArrowDtype), TYPED_DOMAINS[0])


QUICK: dict[str, Callable[[pa.Table, Any], Engine]] = {
    "Arrow": lambda table, _: open_rows(table, TYPED_DOMAINS[0]),
    "pandas": as_typed_pandas,
    "polars": lambda table, _: open_rows(pl.from_arrow(table), TYPED_DOMAINS[0]),
    "Parquet": as_parquet,
    "Ibis": lambda table, _: open_in_polars(table, None),
    "PostgreSQL": lambda table, url: open_in_postgres(table, url),
    "Spark": lambda table, session: open_in_spark(table, session),
}
POISONED_ROWS = {"Spark": (-2,)}


@pytest.mark.parametrize("source", QUICK)
def test_no_cell_recodes_a_typed_column(source: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    servers = {"PostgreSQL": "postgres", "Spark": "spark"}
    place = request.getfixturevalue(servers[source]) if source in servers else tmp_path
    domains = TYPED_DOMAINS if source != "Spark" else TYPED_DOMAINS[:1]
    for domain in domains:
        before = counted(QUICK[source](typed_table(None), place), domain)
        for last in POISONED_ROWS.get(source, (-2, 5, 33)):
            after = counted(QUICK[source](typed_table(last), place), domain)
            for name in TYPED:
                poison = COLUMNS[name][last % len(COLUMNS[name])].as_py()
                own = np.bincount(domain[name].encode([poison]), minlength=domain[name].size)
                longer = after[name] - before[name]
                # The table grew by as many rows as its longest column: shorter ones are padded with nulls.
                padding = np.bincount(domain[name].encode([None]), minlength=domain[name].size)
                np.testing.assert_array_equal(longer, own + (longer.sum() - 1) * padding, err_msg=f"{name}, {poison!r}")


FINITE = [0.5, 3.0, 41.0, 9.75, math.nan, math.nan, None, 2.0, math.nan, 7.0]
EXTREMES = [math.inf, -math.inf, 1e300, math.nan, None, 0.5]
NUMERIC = Domain(
    wide=Numeric(edges=[0, 1, 5, 10], nullable=True, other=False),
    narrow=Numeric(edges=[0, 1, 5, 10], nullable=True, outside="other"),
)


def numeric_file(extreme: list[float | None], folder: Path) -> Path:
    """Numbers with NaN, which the statistics of the file leave out."""
    columns = {
        "wide": pa.array([*FINITE, *extreme], pa.float64()),
        "narrow": pa.array([*FINITE, *extreme], pa.float32()),
    }
    pyarrow.parquet.write_table(pa.table(columns), folder / "rows.parquet")
    return folder / "rows.parquet"


def of_relation(path: Path, text: str | None) -> Engine:
    connection = duckdb.connect()
    read = f"read_parquet('{path}')"
    return open_rows(connection.sql(f"SELECT * FROM {read}" if text is None else text.format(read)), NUMERIC)


def in_ibis(path: Path) -> Engine:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # Ibis calls what DuckDB renamed
        return open_rows(ibis.duckdb.connect().read_parquet(path), NUMERIC)


FILES: dict[str, Callable[[Path], Engine]] = {
    "file": lambda path: open_rows(path, NUMERIC),
    "folder": lambda path: open_rows(path.parent, NUMERIC),
    "query": lambda path: open_rows(path, NUMERIC, query="SELECT * FROM rows"),
    "query that reads": lambda path: open_rows(path, NUMERIC, query=f"SELECT * FROM read_parquet('{path}')"),
    "query that filters": lambda path: open_rows(path, NUMERIC, query="SELECT * FROM rows WHERE wide > 42"),
    "relation": lambda path: of_relation(path, None),
    "relation that computes": lambda path: of_relation(path, "SELECT wide * 1 AS wide, narrow FROM {}"),
    "Ibis": in_ibis,
}


def refuse_recoded_nan(source: str, folder: Path) -> None:
    """Every row more adds its own codes, and NaN is missing, whatever the largest number of the file is."""
    filters = source == "query that filters"

    def codes(name: str, values: list[float | None]) -> np.ndarray:
        kept = [v for v in values if not filters or (v is not None and v > 42)]
        return np.bincount(NUMERIC[name].encode(kept), minlength=NUMERIC[name].size)

    for extreme in ([], *([one] for one in EXTREMES)):
        found = counted(FILES[source](numeric_file(extreme, folder)), NUMERIC)
        for name in NUMERIC.names:
            np.testing.assert_array_equal(found[name], codes(name, [*FINITE, *extreme]), err_msg=f"{name}, {extreme}")


@pytest.mark.parametrize("source", FILES)
def test_no_statistic_of_a_file_recodes_nan(source: str, tmp_path: Path) -> None:
    """DuckDB decides `x = NaN` by the largest number of a Parquet file: all NaN fell into the last bin, and one
    infinite number took them out of it."""
    refuse_recoded_nan(source, tmp_path)


@pytest.mark.parametrize("source", FILES)
def test_nan_left_in_is_noticed(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent.sources.duckdb.without_nan", lambda run, relation: relation)
    with pytest.raises(AssertionError):
        refuse_recoded_nan(source, tmp_path)


def test_no_cell_recodes_a_column_of_a_csv(tmp_path: Path) -> None:
    """Fields stay text, so no type follows from them: neither dates, numbers, truth values nor leading zeros."""
    clean = {"n": ["1", "2.5", "100"], "d": ["2020-01-01", "2000-01-01", "2010-06-15"], "z": ["007", "1", "-3"]}
    clean["t"] = ["true", "false", "true"]
    names = {f"{field} {name}": (field, name) for field in clean for name in (*PLAIN, *RULED)}
    domain = Domain({column: ATTRIBUTES[name] for column, (_, name) in names.items()})

    def read(poison: list[str]) -> dict[str, np.ndarray]:
        with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(zip(*([*clean[field], *poison] for field, _ in names.values()), strict=True))
        parts = [[column for column, (_, name) in names.items() if name == each] for each in (*PLAIN, *RULED)]
        domains = [Domain({column: domain[column] for column in part}) for part in parts]
        return {name: c for d in domains for name, c in counted(open_rows(tmp_path / "rows.csv", d), d).items()}

    before = read([])
    for poisons in (["x"], ["1e400", "01/02/2020", "NA", '"'], ["a,b", "a\nb", "0x10", "2020-02-30", "ﬀ", "1;2", "\t"]):
        after = read(poisons)
        for column, (_, name) in names.items():
            own = np.bincount(ATTRIBUTES[name].encode(poisons), minlength=ATTRIBUTES[name].size)
            np.testing.assert_array_equal(after[column] - before[column], own, err_msg=f"{column}, {poisons!r}")


def test_relations_that_infer_types_are_refused(tmp_path: Path) -> None:
    """DuckDB takes the types of a CSV, of JSON and of pandas objects from the cells; a relation over them has those."""
    (tmp_path / "rows.csv").write_text("a\n01\n")
    (tmp_path / "rows.json").write_text('{"a": 1}\n')
    connection = duckdb.connect()
    frame = pd.DataFrame({"a": pd.Series([1, "x"], dtype=object)})
    csv_text = f"'{tmp_path / 'rows.csv'}'"
    connection.execute(f"CREATE VIEW seen AS SELECT * FROM {csv_text}")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # Ibis calls what DuckDB renamed
        seen_by_ibis = ibis.duckdb.connect().read_csv(tmp_path / "rows.csv")
    relations = [
        connection.read_csv(str(tmp_path / "rows.csv")),
        connection.sql(f"SELECT a FROM {csv_text} WHERE a IS NOT NULL"),
        connection.table("seen"),
        connection.read_json(str(tmp_path / "rows.json")),
        connection.from_df(frame),
        seen_by_ibis,
    ]
    for relation in relations:
        with pytest.raises(SourceError, match="its column types depend on the cells") as refused:
            Table.of(relation, Domain(a=3), records=1)
        assert "\n" not in str(refused.value)
    pyarrow.parquet.write_table(pa.table({"a": [1, 2]}), tmp_path / "rows.parquet")
    assert Table.of(connection.read_parquet(str(tmp_path / "rows.parquet")), Domain(a=3), records=2).records == 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM read_csv_auto({csv})",
        "SELECT a FROM {csv}",
        "SELECT a FROM read_json_auto({json})",
        "WITH other AS (SELECT * FROM read_csv({csv})) SELECT other.a FROM rows, other",
        "SELECT (SELECT MAX(a) FROM read_csv_auto({csv})) AS a FROM rows",
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_queries_that_infer_types_are_refused(tmp_path: Path, query: str, ending: str) -> None:
    """`rows` itself is read as text; what a query reads beside it was sniffed, all rows at once."""
    (tmp_path / "other.csv").write_text("a\n01\n")
    (tmp_path / "other.json").write_text('{"a": 1}\n')
    (tmp_path / "rows.csv").write_text("a\n1\n2\n")
    pyarrow.parquet.write_table(pa.table({"a": [1, 2]}), tmp_path / "rows.parquet")
    rows = tmp_path / f"rows.{ending}"
    named = {form: f"'{tmp_path / f'other.{form}'}'" for form in ("csv", "json")}
    with pytest.raises(SourceError, match="its column types depend on the cells") as refused:
        Table.read(rows, Domain(a=3), query=query.format(**named), records=2, progress=False)
    assert "\n" not in str(refused.value)
    joined = f"SELECT rows.a FROM rows JOIN read_parquet('{tmp_path / 'rows.parquet'}') AS other ON rows.a = other.a"
    assert Table.read(rows, Domain(a=3), query=joined, records=2, progress=False).records == 2


@pytest.mark.parametrize("name", ["truth values", "days"])
def test_values_in_the_names_of_folders_are_each_read_alone(tmp_path: Path, name: str) -> None:
    """`code=1/part.parquet`: a type that suits the names of all folders would change with one record's."""
    attributes = {
        "truth values": Categorical([True, False]),
        "days": Numeric(edges=[datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2022, 1, 1)]),
    }
    clean = {"truth values": ["1", "0"], "days": ["2020-1-1", "2021-02-03"]}[name]
    domain = Domain(a=3, code=attributes[name])

    def read(values: list[str]) -> np.ndarray:
        folder = tmp_path / f"of {len(values)}"
        for value in values:
            (folder / f"code={value}").mkdir(parents=True)
            pyarrow.parquet.write_table(pa.table({"a": [0, 1, 2]}), folder / f"code={value}" / "part.parquet")
        return exact_counts(Table.read(folder, domain, progress=False)).marginal(("code",))

    moved = read([*clean, "x"]) - read(clean)
    assert np.abs(moved).sum() == 3, "the three records of one folder more"
