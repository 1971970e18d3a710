"""Files and objects become the same table; what cannot be read fails in one line that quotes no cell."""

from __future__ import annotations

import datetime
import gzip
import os
import re
import time
import traceback
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from reticent.custodian.declared import declared_columns
from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.errors import DomainError, SourceError
from reticent.kernel import table as kernel
from reticent.kernel.table import exact_counts
from reticent.sources import Table

SECRET = "sesame"
DOMAIN = Domain(
    age=Numeric(edges=[0, 18, 65, 120], whole=True),
    sex=Categorical(["f", "m"], nullable=True, other=True),
    visits=Integer(4),
    born=Numeric(edges=[datetime.date(1900, 1, 1), datetime.date(2000, 1, 1), datetime.date(2030, 1, 1)]),
)
ROWS = pa.table(
    {
        "age": [10, 44, 90, None, 130, 18],
        "sex": ["f", "m", None, "x", "m", "f"],
        "visits": [0, 1, 2, 3, 9, 1],
        "born": [datetime.date(1950, 1, 1), None, datetime.date(2000, 1, 1)] * 2,
        "extra": list("abcdef"),
    }
)
EXPECTED = {"age": [1, 2, 2, 1], "sex": [2, 2, 1, 1], "visits": [2, 2, 1, 1], "born": [2, 2, 2]}


def as_csv(folder: Path, delimiter: str = ",", name: str = "rows.csv") -> Path:
    ROWS.to_pandas().astype({"age": "Int64"}).to_csv(folder / name, sep=delimiter, index=False)
    return folder / name


def as_parquet(folder: Path) -> Path:
    pyarrow.parquet.write_table(ROWS, folder / "rows.parquet")
    return folder / "rows.parquet"


def as_folder(folder: Path) -> Path:
    (folder / "parts" / "deep").mkdir(parents=True)
    pyarrow.parquet.write_table(ROWS.slice(0, 2), folder / "parts" / "one.parquet")
    pyarrow.parquet.write_table(ROWS.slice(2), folder / "parts" / "deep" / "two.parquet")
    return folder / "parts"


def as_packed_csv(folder: Path) -> Path:
    (folder / "rows.csv.gz").write_bytes(gzip.compress(as_csv(folder).read_bytes()))
    return folder / "rows.csv.gz"


def as_feather(folder: Path) -> Path:
    pyarrow.feather.write_feather(ROWS, str(folder / "rows.feather"))
    return folder / "rows.feather"


def as_arrow_stream(folder: Path) -> Path:
    with pa.OSFile(str(folder / "rows.arrow"), "wb") as sink, pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return folder / "rows.arrow"


FILES = {
    "csv": as_csv,
    "semicolons": lambda folder: as_csv(folder, ";"),
    "tabs": lambda folder: as_csv(folder, "\t", "rows.tsv"),
    "gzip": as_packed_csv,
    "parquet": as_parquet,
    "folder": as_folder,
    "glob": lambda folder: as_folder(folder) / "**" / "*.parquet",
    "feather": as_feather,
    "stream": as_arrow_stream,
}
OBJECTS = {
    "arrow": lambda: ROWS,
    "batch": lambda: ROWS.to_batches()[0],
    "pandas": ROWS.to_pandas,
    "pandas with objects": lambda: ROWS.to_pandas().astype({"age": object, "visits": object}),
    "pandas categories": lambda: ROWS.to_pandas().astype({"sex": "category"}),
    "polars": lambda: pl.from_arrow(ROWS),
    "dictionary": lambda: ROWS.set_column(1, "sex", ROWS["sex"].dictionary_encode()),
}


def check(table: Table) -> None:
    assert table.records == 6
    for name, counts in EXPECTED.items():
        found = exact_counts(table).marginal((name,))
        assert found.tolist() == counts + [0] * (len(found) - len(counts)), name


@pytest.mark.parametrize("kind", FILES)
def test_every_file_gives_the_same_table(tmp_path: Path, kind: str) -> None:
    check(Table.read(FILES[kind](tmp_path), DOMAIN))


@pytest.mark.parametrize("kind", OBJECTS)
def test_every_object_gives_the_same_table(kind: str) -> None:
    check(Table.of(OBJECTS[kind](), DOMAIN))


def test_mixed_objects_are_encoded_by_the_reference(tmp_path: Path) -> None:
    mixed = [1, "2", 2.0, None, float("nan"), [1], "x", True, 10**40, b"1"]
    frame = pd.DataFrame({"a": pd.Series(mixed, dtype=object), "ignored": pd.Series([[1], 2] * 5, dtype=object)})
    domain = Domain(a=Categorical([1, 2], nullable=True, other=True))
    assert exact_counts(Table.of(frame, domain)).marginal(("a",)).tolist() == [2, 2, 2, 4]


def test_duckdb_relations_keep_their_connection() -> None:
    connection = duckdb.connect()
    connection.register("people", ROWS)
    connection.execute("CREATE TABLE stored AS SELECT * FROM people")
    check(Table.of(connection.table("stored"), DOMAIN))
    filtered = connection.sql("SELECT * FROM stored WHERE age >= 18")
    with pytest.raises(SourceError, match="may filter rows: declare records="):
        Table.of(filtered, DOMAIN)
    declared = Table.of(filtered, DOMAIN, records=4, name="adults")
    assert repr(declared) == "<Table 'adults': 4 records, 4 attributes, replace-one>"
    assert exact_counts(declared).total() == 4
    assert connection.sql("SELECT COUNT(*) FROM stored").fetchall() == [(6,)]


def test_a_query_sees_the_file_as_rows(tmp_path: Path) -> None:
    path = as_parquet(tmp_path)
    query = "SELECT * FROM rows WHERE age < 100"
    with pytest.raises(SourceError, match="a query may filter"):
        Table.read(path, DOMAIN, query=query)
    table = Table.read(path, DOMAIN, query=query, neighbours="add-remove")
    assert table.records is None
    assert exact_counts(table).total() == 4


def test_the_declared_size_is_used_whatever_the_rows_say(tmp_path: Path) -> None:
    table = Table.read(as_parquet(tmp_path), DOMAIN, records=5)
    assert table.records == 5
    assert exact_counts(table).total() == 6


def test_persons_need_a_declared_size(tmp_path: Path) -> None:
    path = as_parquet(tmp_path)
    with pytest.raises(SourceError, match="persons are counted"):
        Table.read(path, DOMAIN, person="extra")
    table = Table.read(path, DOMAIN, person="sex", records=3)
    assert (table.grid, table.unit) == (720720, "person")
    assert exact_counts(table).total() == 3 * table.grid
    private = Table.read(path, DOMAIN, person="sex", neighbours="add-remove")
    assert (private.grid, private.records) == (7560, None)


def test_nameless_rows_weigh_nothing() -> None:
    rows = pa.table({"a": [0, 1, 1, 2], "who": [1.0, float("nan"), None, 1.0]})
    table = Table.of(rows, Domain(a=3), person="who", records=1)
    half = table.grid // 2
    assert exact_counts(table).marginal(("a",)).tolist() == [half, 0, half]


def test_add_remove_tells_no_emptiness(tmp_path: Path) -> None:
    empty, full = ROWS.slice(0, 0), ROWS
    told = {repr(Table.of(rows, DOMAIN, neighbours="add-remove")) for rows in (empty, full)}
    assert told == {"<Table 'table': size private, 4 attributes, add-remove>"}


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_parquet(tmp_path)
    spills = tmp_path / "spills"
    spills.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spills))
    monkeypatch.chdir(spills)
    Table.read(path, DOMAIN)
    with pytest.raises(SourceError):
        Table.read(path, Domain(nobody=3))
    assert list(spills.iterdir()) == []


def ragged(folder: Path) -> Path:
    (folder / "ragged.csv").write_text(f"age,sex,visits,born\n1,f,0,2000-01-01\n2,{SECRET},m\n3\n")
    return folder / "ragged.csv"


def binary(folder: Path) -> Path:
    (folder / "binary.csv").write_bytes(b"age,sex,visits,born\n1,\xff\xfe" + SECRET.encode() + b",0,2000-01-01\n")
    return folder / "binary.csv"


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def truncated(folder: Path) -> Path:
    return written(folder, "cut.parquet", as_parquet(folder).read_bytes()[:-30])


def damaged(folder: Path) -> Path:
    whole = bytearray(as_parquet(folder).read_bytes())
    whole[10:200] = b"\xa5" * 190
    return written(folder, "damaged.parquet", bytes(whole))


HEADER = b"age,sex,visits,born\n"
BAD = {
    "missing file": (lambda f: f / "none.csv", {}, "does not exist"),
    "empty file": (lambda f: written(f, "a.csv", b""), {}, "is empty"),
    "blank header": (lambda f: written(f, "a.csv", b"\n1,2\n"), {}, "has no header line"),
    "header only": (lambda f: written(f, "a.csv", HEADER), {}, "has no rows"),
    "empty name": (lambda f: "", {}, "the path is empty"),
    "unknown format": (lambda f: written(f, "a.xlsx", b"x"), {}, "no known format"),
    "no ending": (lambda f: written(f, "rows", b"x"), {}, "no known format"),
    "ragged": (ragged, {}, "as many fields in each line"),
    "not text": (binary, {}, "cannot be read"),
    "header not text": (lambda f: written(f, "a.csv", b"\xff\xfe,\x80\n1,2\n"), {}, "UTF-8"),
    "column twice": (lambda f: written(f, "a.csv", b"age,age,sex\n1,2,f\n"), {}, "'age' twice"),
    "missing column": (
        lambda f: written(f, "a.csv", b"age,sex\n1,f\n"),
        {},
        "no column 'visits', 'born'; it has",
    ),
    "not parquet": (lambda f: written(f, "a.parquet", SECRET.encode() * 9), {}, "cannot be read"),
    "cut parquet": (truncated, {}, "cannot be read"),
    "damaged parquet": (damaged, {}, "cannot be"),
    "not arrow": (lambda f: written(f, "a.arrow", SECRET.encode() * 9), {}, "not a complete Arrow file"),
    "bad gzip": (lambda f: written(f, "a.csv.gz", b"\x1f\x8b" + SECRET.encode()), {}, "cannot be read"),
    "empty folder": (lambda f: f, {}, "has no .parquet file in it"),
    "missing person": (as_parquet, {"person": "nobody", "records": 3}, "no column 'nobody'"),
    "person not text": (as_parquet, {"person": 5, "records": 3}, "name of a column"),
    "bad query": (as_parquet, {"query": "SELEC", "records": 3}, "the query does not run"),
    "query error": (as_parquet, {"query": "SELECT error(extra) AS age FROM rows", "records": 3}, "no column 'sex'"),
    "empty query": (as_parquet, {"query": " ", "records": 3}, "one SELECT"),
    "two statements": (as_parquet, {"query": "SELECT 1; SELECT 2", "records": 3}, "does not run"),
    "no records": (as_parquet, {"records": 0}, "at least 1"),
    "bad neighbours": (as_parquet, {"neighbours": "none"}, "replace-one"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_without_cells(tmp_path: Path, case: str) -> None:
    make, options, message = BAD[case]
    path = make(tmp_path)
    with pytest.raises(SourceError, match=message) as raised:
        Table.read(path, DOMAIN, **options)
    assert "\n" not in str(raised.value)
    told = "".join(traceback.format_exception(raised.value))
    shown = raised.value
    while shown is not None:  # not even a suppressed context may hold a cell
        assert SECRET not in str(shown)
        shown = shown.__cause__ or shown.__context__
    assert f"{SECRET}" not in told.replace("SECRET", "")


def test_failing_cells_are_not_quoted(tmp_path: Path) -> None:
    """A query of the custodian's own that fails on a cell must not print the cell."""
    path = written(tmp_path, "a.csv", HEADER + f"1,{SECRET},0,2000-01-01\n".encode())
    query = "SELECT CAST(sex AS INTEGER) AS age, sex, visits, born FROM rows"
    with pytest.raises(SourceError, match="cannot be read") as raised:
        Table.read(path, DOMAIN, query=query, records=1)
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    assert raised.value.__context__ is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = as_csv(tmp_path)
    path.chmod(0)
    with pytest.raises(SourceError, match="permissions"):
        Table.read(path, DOMAIN)


@pytest.mark.parametrize("rows", [[1, 2], {"age": [1]}, None, np.ones((2, 2)), pl.DataFrame({"a": [1]}).lazy()])
def test_what_is_no_table_is_refused(rows: object) -> None:
    with pytest.raises(SourceError, match="is not a table"):
        Table.of(rows, DOMAIN)


def test_a_name_is_no_table_and_is_not_repeated() -> None:
    for name in ("postgresql://reader:secret@db/x", Path("census.parquet")):
        with pytest.raises(
            SourceError, match=r"is not a table; .* or read a file or a database with Table\.read$"
        ) as refused:
            Table.of(name, DOMAIN)
        assert "secret" not in str(refused.value)


def test_the_folder_one_is_in_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(pa.table({"other": [1]}), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=f"^{tmp_path.name} has no column"):
        Table.read(".", DOMAIN)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (pd.DataFrame(), "no column whose name is text"),
        (pd.DataFrame([[SECRET]]), "no column whose name is text"),
        (pa.table({}), "no column whose name is text"),
        (pd.DataFrame([[1, SECRET, 2]], columns=["age", "sex", "age"]), "'age' twice"),
        (pa.table([[1], [SECRET], [2]], names=["age", "sex", "age"]), "'age' twice"),
    ],
    ids=["empty frame", "numbered columns", "empty Arrow", "column twice", "column twice in Arrow"],
)
def test_columns_need_names_of_their_own(rows: Any, told: str) -> None:
    with pytest.raises(SourceError, match=told) as refused:
        Table.of(rows, DOMAIN)
    assert SECRET not in str(refused.value)


FRAME = pd.DataFrame({SECRET: [SECRET] * 3})


@pytest.mark.parametrize("argument", ["domain", "person", "records", "neighbours", "name", "version", "hold"])
def test_a_frame_given_by_mistake_is_not_printed(argument: str) -> None:
    for mistake in (FRAME, FRAME[SECRET], FRAME.to_numpy(), pa.table(FRAME), [FRAME], [[SECRET] * 3], {"a": FRAME}):
        with pytest.raises(SourceError) as raised:
            Table.of(ROWS, **({"domain": DOMAIN} | {argument: mistake}))
        assert SECRET not in "".join(traceback.format_exception(raised.value)).replace("SECRET", "")
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: Domain({"a": frame}),
        lambda frame: Domain.from_dict({"a": {"values": {"x": frame}}}),
        lambda frame: Domain.from_dict({"a": frame}),
        lambda frame: Categorical([frame]),
        lambda frame: Categorical(["a"], nullable=frame),
        lambda frame: Numeric(edges=[0, frame]),
        lambda frame: Numeric(edges=[0, 1], whole=frame),
        lambda frame: Numeric(lower=frame, upper=1, bins=2),
        lambda frame: Integer(frame),
    ],
)
def test_a_domain_does_not_print_a_frame(make: Any) -> None:
    for mistake in (FRAME, FRAME[SECRET], FRAME.to_numpy(), pa.table(FRAME)):
        with pytest.raises(DomainError) as raised:
            make(mistake)
        assert SECRET not in str(raised.value)
        assert "\n" not in str(raised.value)


def test_headers_of_any_length_and_line_end(tmp_path: Path) -> None:
    """Over 128 KiB in one name, CR alone as line end, and both refused and told where a header is too long."""
    long = "x" * 200_000
    for end in ("\n", "\r\n", "\r"):
        text = end.join([f"age,{long},sex,visits,born", "20,1,f,0,2000-01-01", '"30",2,"m",1,', ""])
        table = Table.read(written(tmp_path, "rows.csv", text.encode()), DOMAIN)
        assert table.records == 2
        assert exact_counts(table).marginal(("sex",)).tolist() == [1, 1, 0, 0]
    with pytest.raises(SourceError, match="header line over 1,048,576 bytes"):
        Table.read(written(tmp_path, "rows.csv", b"x" * 1_100_000), DOMAIN)
    with pytest.raises(SourceError, match="no column 'age'"):
        Table.read(written(tmp_path, "rows.csv", b'"' + b"x" * 300_000 + b"\n1"), DOMAIN)


def test_messages_name_no_other_format(tmp_path: Path) -> None:
    """A damaged Parquet file is no CSV, an object no file."""
    for make in (truncated, lambda folder: written(folder, "a.parquet", b"PAR1" * 9)):
        with pytest.raises(SourceError) as raised:
            Table.read(make(tmp_path), DOMAIN)
        assert "CSV" not in str(raised.value)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 'x' AS a")
    with pytest.raises(SourceError) as raised:
        Table.of(connection.sql("SELECT CAST(a AS INTEGER) AS a FROM t"), Domain(a=2), records=1)
    assert "CSV" not in str(raised.value)
    assert "file" not in str(raised.value)


def test_many_columns_are_read_in_linear_time() -> None:
    """Twice the columns take about twice as long; counting each name among all took four times."""
    taken = []
    for width in (4_000, 16_000):
        frame = pa.table({f"c{i}": pa.nulls(1) for i in range(width)} | {"a": [1]})
        start = time.process_time()
        Table.of(frame, Domain(a=2), records=1)
        taken.append(time.process_time() - start)
    assert taken[1] < 9 * taken[0]


def test_the_domain_must_be_one() -> None:
    with pytest.raises(SourceError, match="not dict"):
        Table.of(ROWS, {"age": 3})  # type: ignore[arg-type]


def test_what_cannot_be_held_is_counted_on_demand(tmp_path: Path) -> None:
    path = as_parquet(tmp_path)
    table = Table.read(path, DOMAIN, hold=2)
    assert repr(table) == repr(Table.read(path, DOMAIN))
    assert repr(exact_counts(table)) == "<OnDemand: private>"
    check(table)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_what_outgrows_the_integer_grid_is_refused_while_loading(tmp_path: Path, monkeypatch, neighbours) -> None:
    """Also where nothing is held, and the total would be met first by a question."""
    monkeypatch.setattr(kernel, "WEIGHT_LIMIT", 2)
    with pytest.raises(SourceError, match="too large for its integer grid") as raised:
        Table.read(as_parquet(tmp_path), DOMAIN, hold=2, neighbours=neighbours)
    assert "\n" not in str(raised.value)


def test_a_database_url_is_never_repeated() -> None:
    for url in (f"mysql://keeper:{SECRET}@host/db", f"postgresql://keeper:{SECRET}@127.0.0.1:1/db"):
        with pytest.raises(SourceError) as raised:
            Table.read(url, DOMAIN, query="SELECT 1", records=1)
        assert SECRET not in "".join(traceback.format_exception(raised.value))
        assert raised.value.__context__ is None
    with pytest.raises(SourceError, match="needs query="):
        Table.read("postgresql://host/db", DOMAIN)


EMPTY = Domain(
    reason=Categorical(["", "ill", "away"], nullable=True, other=True),
    spelled=Categorical(["none", "some"], nullable=True, other=True, aliases={"": "none"}),
    plain=Categorical(["a"], nullable=True, other=True),
    number=Numeric(edges=[0, 5, 10], nullable=True, other=True),
)
"""Two columns in which the empty text has a code, and two in which it has none."""


@pytest.mark.parametrize("query", [None, 'SELECT reason, spelled, plain, "number" FROM rows'])
def test_a_declared_empty_text_is_read_from_csv(tmp_path: Path, query: str | None) -> None:
    rows = pa.table(
        {
            "reason": ["", "ill", None, "", "x"],
            "spelled": ["", "none", None, "some", ""],
            "plain": ["a", None, None, "b", "a"],
            "number": pa.array([1, 7, None, None, 2]),
        }
    )
    pyarrow.csv.write_csv(rows, tmp_path / "rows.csv")
    pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
    tables = [
        Table.of(rows, EMPTY),
        *(Table.read(tmp_path / f"rows.{e}", EMPTY, query=query, records=5) for e in ("csv", "parquet")),
    ]
    for name in EMPTY.names:
        first, *others = (exact_counts(table).marginal((name,)).tolist() for table in tables)
        assert others == [first, first], name
    assert exact_counts(tables[1]).marginal(("reason",)).tolist() == [2, 1, 0, 1, 1]


def test_quoted_empty_fields_are_null_where_nothing_declares_them(tmp_path: Path) -> None:
    """Programs that quote every field write a missing value as a quoted empty one."""
    (tmp_path / "rows.csv").write_text('"reason","plain","number"\n"","",""\n"ill","a","3"\n')
    domain = Domain({name: EMPTY[name] for name in ("reason", "plain", "number")})
    for chosen in (domain, Domain({name: EMPTY[name] for name in ("plain", "number")})):
        counts = exact_counts(Table.read(tmp_path / "rows.csv", chosen))
        assert counts.marginal(("plain",)).tolist() == [1, 1, 0]
        assert counts.marginal(("number",)).tolist() == [1, 0, 1, 0]
    assert exact_counts(Table.read(tmp_path / "rows.csv", domain)).marginal(("reason",)).tolist() == [1, 1, 0, 0, 0]


TWINS = pa.table({"Sex": ["f", "m"], "sex": ["1", "2"], "age": [2, 3]})
NAMELESS = pa.table([["f", "m"], ["1", "2"]], names=["sex", ""])
FOLDED = "has no column 'sex'; it has 'Sex', 'sex_1', 'age'; one differs only in case: rename it"
SEXES = Domain(sex=Categorical(["f", "m"], other=True))


def named(folder: Path, name: str, rows: pa.Table | None) -> Path:
    """A file of these rows, in the format of its name; an empty one without rows."""
    path = folder / name
    if rows is None:
        path.touch()
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(rows, path)
    elif path.suffix == ".arrow":
        pyarrow.feather.write_feather(rows, path)
    else:
        columns = [",".join(rows.column_names), *(",".join(map(str, row.values())) for row in rows.to_pylist())]
        path.write_text("\n".join(columns) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "rows", "reading", "drafting"),
    [
        ("a.csv", TWINS, "names columns 'Sex' and 'sex', which differ only in case", ""),
        (
            "a.parquet",
            TWINS,
            FOLDED,
            "names columns 'Sex' and 'sex', which",
        ),
        (
            "a.arrow",
            TWINS,
            FOLDED,
            "names columns 'Sex' and 'sex', which",
        ),
        ("a.csv", NAMELESS, "a.csv: column 2 has no name; name it in the first line", ""),
        ("a.csv", pa.table({"sex": ["f"], " ": ["x"]}), "a.csv: column 2 has no name", ""),
        ("a.parquet", NAMELESS, None, "a.parquet: column 2 has no name; name it, or leave it out"),
        ("a.arrow", NAMELESS, None, "a.arrow: column 2 has no name; name it, or leave it out"),
        ("a.csv", None, "a.csv is empty; write at least a header line", ""),
        ("a.parquet", None, "a.parquet is empty; write it again with its columns", ""),
        ("a.arrow", None, "a.arrow is empty; write it again with its columns", ""),
        ("a.xyz", None, "a.xyz has no known format", ""),
    ],
)
def test_columns_and_files_are_refused_for_the_right_reason(
    name: str, rows: pa.Table | None, reading: str | None, drafting: str, tmp_path: Path
) -> None:
    """No query is blamed where none was given, and no draft holds names that the reading refuses."""
    path = named(tmp_path, name, rows)
    with pytest.raises(SourceError, match=re.escape(drafting or reading or "")):
        declared_columns(path)
    if reading is None:
        Table.read(path, SEXES)
    else:
        with pytest.raises(SourceError, match=re.escape(reading)) as caught:
            Table.read(path, SEXES)
        assert "query" not in str(caught.value)
        assert "permissions" not in str(caught.value)


@pytest.mark.parametrize(("name", "told"), [("", "has no .parquet file in it"), ("*.parquet", "does not exist")])
def test_a_place_without_files_is_told_as_such(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("sex\n")
    with pytest.raises(SourceError, match=told):
        Table.read(tmp_path / name if name else tmp_path, SEXES)


def test_a_broken_parquet_file_is_one_line_for_a_draft(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match="check that the file is whole"):
        declared_columns(tmp_path / "a.parquet")


def test_names_that_only_unicode_folds_are_two_columns(tmp_path: Path) -> None:
    """DuckDB tells them apart, so such a file is read as before."""
    (tmp_path / "a.csv").write_text("É,é,sex\n1,2,f\n")
    assert Table.read(tmp_path / "a.csv", SEXES).domain.names == ("sex",)
