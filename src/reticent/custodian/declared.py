"""Declarations of a file or a database about its columns: names, types, constraints. Values are never read.

The dictionaries of Arrow and Parquet, and the tables that foreign keys point to, hold values that are *present*: they
are read only where the custodian says that they are public.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from reticent.domain.draft import MOST_VALUES, ColumnFacts, Kind
from reticent.errors import SourceError
from reticent.sources.files import declared_names, file_format
from reticent.sources.frames import check_names
from reticent.sources.postgres import PostgresEngine

_CATALOGUE = """
SELECT a.attname, t.typname, t.typtype, t.oid, b.typname, a.attnotnull OR t.typnotnull,
       ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       ARRAY(SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c
             WHERE c.contype = 'c' AND (c.contypid = t.oid OR (c.conrelid = a.attrelid AND c.conkey = ARRAY[a.attnum]))
             ORDER BY c.conname),
       EXISTS(SELECT 1 FROM pg_constraint c
              WHERE c.conrelid = a.attrelid AND c.contype IN ('p', 'u') AND c.conkey = ARRAY[a.attnum]),
       (SELECT c.confrelid::regclass::text || '.' || quote_ident(f.attname) FROM pg_constraint c
        JOIN pg_attribute f ON f.attrelid = c.confrelid AND f.attnum = c.confkey[1]
        WHERE c.conrelid = a.attrelid AND c.contype = 'f' AND c.conkey = ARRAY[a.attnum] LIMIT 1),
       col_description(a.attrelid, a.attnum)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
WHERE a.attrelid = %s AND a.attnum = %s
"""
_POSTGRES: dict[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8", "money"), "number"),
    **dict.fromkeys(("text", "varchar", "bpchar", "citext", "name", "uuid"), "text"),
    "bool": "truth",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamptz"), "datetime"),
}
_BOUNDS = {exp.GTE: "lower", exp.GT: "lower", exp.LTE: "upper", exp.LT: "upper"}
_MIRRORED = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.LT: exp.GT}


def declared_columns(
    source: str | Path, *, query: str | None = None, public_dictionaries: bool = False
) -> tuple[str, list[ColumnFacts]]:
    """A description of the source, and its columns; SourceError if the source cannot be read."""
    if isinstance(source, str) and source.startswith(("postgresql://", "postgres://")):
        columns = _postgres(source, query, public_dictionaries)
        return _words("the catalogue of its database", public_dictionaries), columns
    if query is not None:
        raise SourceError("--query is for a database; a file's columns are in its header or schema")
    location = Path(source).expanduser()
    form, schema = file_format(location)
    if form == "csv":
        return _words("its header line", False), [ColumnFacts(name) for name in declared_names(location)]
    arrow = _parquet_schema(schema) if form == "parquet" else _ipc_schema(schema)
    check_names(arrow.names, location.name, unnamed="name it, or leave it out", fold=str.lower)
    columns = [_arrow(field) for field in arrow]
    if public_dictionaries:
        columns = [_with_dictionary(column, arrow, schema, form) for column in columns]
    return _words("its schema", public_dictionaries), columns


def _words(read: str, dictionaries: bool) -> str:
    return f"{read} and its public dictionaries" if dictionaries else f"{read}: no value was read"


def _parquet_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError):
        raise SourceError(f"{path.name} cannot be read as Parquet; check that the file is whole") from None


def _ipc_schema(path: Path) -> pa.Schema:
    try:
        with pa.memory_map(str(path)) as stream:
            try:
                return pa.ipc.open_file(stream).schema
            except pa.ArrowInvalid:
                stream.seek(0)
                return pa.ipc.open_stream(stream).schema
    except (pa.ArrowException, OSError):
        raise SourceError(f"{path.name} is an incomplete Arrow file; write it again") from None


def _arrow(field: pa.Field) -> ColumnFacts:
    held = field.type
    spelled = str(held)
    if pa.types.is_dictionary(held):
        note = (
            "a dictionary: its values are present in the rows; --dictionary-is-public lists them where they are public"
        )
        inner = _arrow(field.with_type(held.value_type))
        return replace(inner, declared=spelled.split("<")[0], notes=(note,)) if inner.kind == "text" else inner
    bounds: dict[str, Any] = {}
    if pa.types.is_integer(held) and held.bit_width == 8:
        low = 0 if pa.types.is_unsigned_integer(held) else -128
        bounds = {"notes": (f"its type holds {low} to {low + 255}",)}
    whole = pa.types.is_integer(held) or (pa.types.is_decimal(held) and held.scale == 0)
    return ColumnFacts(field.name, _arrow_kind(held), declared=spelled, whole=whole, nullable=field.nullable, **bounds)


def _arrow_kind(held: pa.DataType) -> Kind:
    tests: tuple[tuple[Any, Kind], ...] = (
        (pa.types.is_boolean, "truth"),
        (pa.types.is_integer, "number"),
        (pa.types.is_floating, "number"),
        (pa.types.is_decimal, "number"),
        (pa.types.is_date, "date"),
        (pa.types.is_timestamp, "datetime"),
        (pa.types.is_string, "text"),
        (pa.types.is_large_string, "text"),
        (pa.types.is_string_view, "text"),
    )
    found: list[Kind] = [kind for test, kind in tests if test(held)]
    return found[0] if found else "unread"


def _with_dictionary(column: ColumnFacts, schema: pa.Schema, path: Path, form: str) -> ColumnFacts:
    """The column with the values of its dictionary, which the custodian has declared public."""
    held = schema.field(column.name).type
    if not (pa.types.is_dictionary(held) and column.kind == "text"):
        return column
    if form == "parquet":
        table = pq.read_table(path, columns=[column.name], read_dictionary=[column.name])
    else:
        with pa.memory_map(str(path)) as stream:
            try:
                table = pa.ipc.open_file(stream).read_all().select([column.name])
            except pa.ArrowInvalid:
                stream.seek(0)
                table = pa.ipc.open_stream(stream).read_all().select([column.name])
    values = {value for chunk in table.column(0).chunks for value in chunk.dictionary.to_pylist() if value is not None}
    return _listed(column, sorted(values))


def _listed(column: ColumnFacts, values: list[Any]) -> ColumnFacts:
    if not values or len(values) > MOST_VALUES:
        return replace(column, notes=(f"{len(values)} values in its dictionary: too many to list here",))
    return replace(column, values=tuple(values), notes=())


# -- PostgreSQL ------------------------------------------------------------------------------------------------------


def _postgres(url: str, query: str | None, public_dictionaries: bool) -> list[ColumnFacts]:
    if query is None:
        raise SourceError(
            "a database needs --query, such as 'SELECT * FROM visits': its columns are drafted, no row read"
        )
    engine = PostgresEngine.connect(url, query)
    try:
        return [_of_catalogue(engine, *each, public_dictionaries) for each in engine.origins()]
    finally:
        engine.close()


def _of_catalogue(
    engine: PostgresEngine, name: str, spelled: str, table: int, number: int, public_dictionaries: bool
) -> ColumnFacts:
    """A column of the query; a computed column has only a type."""
    facts = engine.catalogue(_CATALOGUE, (table, number)) if table else []
    if not facts:
        return ColumnFacts(
            name, _POSTGRES.get(spelled, "unknown"), declared=spelled, nullable=True, whole=_whole(spelled)
        )
    _, own, kind, _, base, required, labels, checks, unique, points_to, told = facts[0]
    plain = base if kind == "d" and base else own
    column = ColumnFacts(
        name,
        "text" if kind == "e" else _POSTGRES.get(plain, "unknown"),
        declared=own,
        whole=_whole(plain),
        nullable=not required,
        values=tuple(labels),
        identifier=unique,
        title=told or "",
    )
    for check in checks:
        column = constrained(column, check)
    if points_to is not None and not column.values:
        if not public_dictionaries:
            note = (
                f"points to {points_to}: its values are rows; --dictionary-is-public lists them where they are public"
            )
            return replace(column, notes=(*column.notes, note), identifier=False)
        place, field = points_to.rsplit(".", 1)
        listed = engine.catalogue(f"SELECT {field}::text FROM {place} ORDER BY 1 LIMIT {MOST_VALUES + 1}", ())
        return _listed(replace(column, identifier=False), [value for (value,) in listed if value is not None])
    return column


def _whole(spelled: str) -> bool:
    return spelled in ("int2", "int4", "int8")


def constrained(column: ColumnFacts, check: str) -> ColumnFacts:
    """The column with the facts of check constraints about this column alone; other constraints are ignored."""
    try:
        condition = sqlglot.parse_one(check.removeprefix("CHECK").removesuffix("NOT VALID"), read="postgres")
    except SqlglotError:
        return replace(column, notes=(*column.notes, f"constraint not understood: {check}"))
    for part in _parts(condition):
        found = _told(part)
        if found is None:
            column = replace(column, notes=(*column.notes, f"constraint: {part.sql('postgres')}"))
        else:
            column = replace(column, **{name: value for name, value in found.items() if not getattr(column, name)})
    return column


def _parts(condition: exp.Expr) -> Iterable[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from _parts(condition.left)
        yield from _parts(condition.right)
    else:
        yield condition


def _told(part: exp.Expr) -> Mapping[str, Any] | None:
    """`values`, `lower` or `upper` of one condition without AND; None for any other condition."""
    if isinstance(part, exp.Between):
        low, high = _bound(part.args["low"]), _bound(part.args["high"])
        return None if low is None or high is None else {"lower": low, "upper": high}
    if isinstance(part, exp.In):
        return _values([_constant(item) for item in part.expressions])
    if isinstance(part, exp.EQ):
        listed = part.right.find(exp.Array)
        if listed is not None and part.right.find(exp.Any):
            return _values([_constant(item) for item in listed.expressions])
        return _values([_constant(part.right)])
    kind = type(part)
    if kind in _BOUNDS and isinstance(part, exp.Binary):
        constant = _bound(part.right)
        if constant is None:
            constant, kind = _bound(part.left), _MIRRORED[kind]
        return None if constant is None else {_BOUNDS[kind]: constant}
    return None


def _values(found: list[Any]) -> Mapping[str, Any] | None:
    return None if not found or None in found else {"values": tuple(found)}


def _bound(node: exp.Expr | None) -> Any:
    """A number or a date, also one that is written as text and cast."""
    constant = _constant(node)
    if not isinstance(constant, str):
        return constant
    for read in (int, float, datetime.date.fromisoformat):
        try:
            return read(constant)
        except ValueError:
            continue
    return None


def _constant(node: exp.Expr | None) -> Any:
    """The number or text that a node is, behind casts and parentheses; None for anything else."""
    while isinstance(node, (exp.Cast, exp.Paren)):
        node = node.this
    if isinstance(node, exp.Neg):
        inner = _constant(node.this)
        return None if not isinstance(inner, (int, float)) else -inner
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return node.this
    number = float(node.this)
    return int(number) if number.is_integer() else number
