"""A result as rows of a relation: names, types and values, with a column of errors after each aggregate.

COPY (SELECT ...) TO STDOUT: rows in PostgreSQL's text, CSV or binary format.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from reticent.service.postgres.commands import Copy
from reticent.service.postgres.failures import FEATURE, Refusal
from reticent.service.postgres.messages import COPY_DONE, WireType, copy_data, copy_out, data_row, row_description
from reticent.service.postgres.types import BOOL, DATE, FLOAT8, INT8, KINDS, TEXT, TIMESTAMP, binary_of, wire_text

if TYPE_CHECKING:
    from reticent.knowledge.knowledge import Knowledge
    from reticent.service.table_service import TableService

UNNAMED = "?column?"
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")
_CALL = re.compile(r"([a-z_][a-z0-9_]*)\(.*\)", re.DOTALL)


class FreeSource(NamedTuple):
    """A table and what was known of it: while that is all, the same statement has the same rows."""

    table: TableService
    knowledge: Knowledge
    origin: str

    @property
    def current(self) -> bool:
        return self.table.session.state.knowledge is self.knowledge


@dataclass
class WireRows:
    """Rows to be sent; the bytes of a format that was asked for before are kept."""

    names: tuple[str, ...]
    types: tuple[WireType, ...]
    rows: Sequence[Sequence[Any]]
    notices: tuple[tuple[str, str], ...] = ()
    """Severity and text."""
    source: FreeSource | None = None
    """Where rows come from that were free; None for all others."""
    _written: dict[tuple[int, ...], list[bytes]] = field(default_factory=dict, repr=False)

    def described(self, formats: Sequence[int]) -> bytes:
        return row_description(self.names, self.types, formats)

    def written(self, formats: tuple[int, ...]) -> list[bytes]:
        """One DataRow per row."""
        found = self._written.get(formats)
        if found is None:
            found = [data_row(self._values(row, formats)) for row in self.rows]
            if len(set(formats)) <= 1:
                self._written[formats] = found
        return found

    def _values(self, row: Sequence[Any], formats: Sequence[int]) -> list[bytes | None]:
        return [
            None if value is None else binary_of(value, kind.oid) if form else wire_text(value).encode()
            for value, kind, form in zip(row, self.types, formats, strict=True)
        ]


def relation_of(answer: bytes, sql: str, *, errors: bool) -> WireRows:
    """The relation in a document of the HTTP service (`reticent.service.replies`)."""
    content = json.loads(answer)["result"]
    rows, bounds, aggregates = content["rows"], content["errors"], content["aggregates"]
    stated = content.get("types") or [None] * len(aggregates)
    names: list[str] = []
    types: list[WireType] = []
    columns: list[list[Any]] = []
    shown = [_shown(name, sql) for name in content["columns"]]
    for place, (name, aggregate) in enumerate(zip(shown, aggregates, strict=True)):
        values = [row[place] for row in rows]
        kind = _type_of(values, stated[place], aggregate=aggregate)
        names.append(name)
        types.append(kind)
        columns.append([_converted(value, kind) for value in values])
        if aggregate and errors:
            names.append(_error_name(name, names, shown))
            types.append(FLOAT8)
            columns.append([row[place] for row in bounds])
    listed = list(zip(*columns, strict=True)) if rows else []
    return WireRows(tuple(names), tuple(types), listed, _notices(content))


def _error_name(name: str, taken: Sequence[str], others: Sequence[str]) -> str:
    title = f"{name}_error"
    while title in taken or title in others:
        title += "_"
    return title


def _shown(name: str, sql: str) -> str:
    """As PostgreSQL calls a column without an alias: by its function alone."""
    quoted = '"' + name.replace('"', '""') + '"'
    if quoted in sql:
        return name
    call = _CALL.fullmatch(name)
    if call is None:
        return name
    written = call.group(1).replace("quantile_", "percentile_")
    if written in sql.lower() and call.group(1) not in sql.lower():
        return written
    return UNNAMED if call.group(1) == "cast" else call.group(1)


def _type_of(values: Sequence[Any], stated: str | None, *, aggregate: bool) -> WireType:
    """The stated type where all values have it: a label such as `(other)` makes a column of numbers one of text."""
    kinds = {type(value) for value in values if value is not None}
    if stated in KINDS:
        # A count is whole, but its noisy value need not be.
        kind = FLOAT8 if aggregate and stated == "integer" else KINDS[stated]
        return kind if kinds <= _PYTHON[kind.oid] and (kind not in _DATES or _dated(values)) else TEXT
    if aggregate and kinds <= {int, float}:
        return FLOAT8
    if kinds == {bool}:
        return BOOL
    if kinds == {int}:
        return INT8
    if kinds and kinds <= {int, float}:
        return FLOAT8
    return TEXT


_DATES = (DATE, TIMESTAMP)
_PYTHON: dict[int, set[type]] = {
    FLOAT8.oid: {int, float},
    INT8.oid: {int},
    TEXT.oid: {str},
    BOOL.oid: {bool},
    DATE.oid: {str},
    TIMESTAMP.oid: {str},
}


def _dated(values: Sequence[Any]) -> bool:
    return all(value is None or _ISO.fullmatch(value) for value in values)


def _converted(value: Any, kind: WireType) -> Any:
    if value is None:
        return None
    if kind is FLOAT8:
        return float(value)
    if kind is TEXT and not isinstance(value, str):
        return wire_text(value)
    return value


def reshaped(relation: WireRows, wanted: WireRows) -> WireRows:
    """The same rows with the columns that were described to the client; refused if they have changed."""
    if relation.names == wanted.names and relation.types == wanted.types:
        return relation
    rows = relation.rows
    if relation.names != wanted.names or (rows and any(kind is not TEXT for kind in _changed(relation, wanted))):
        raise Refusal(FEATURE, "the columns of this statement have changed since it was described: prepare it again")
    converted = [tuple(_converted(value, kind) for value, kind in zip(row, wanted.types, strict=True)) for row in rows]
    return WireRows(wanted.names, wanted.types, converted, relation.notices)


def _changed(relation: WireRows, wanted: WireRows) -> list[WireType]:
    return [new for old, new in zip(relation.types, wanted.types, strict=True) if old != new]


def _notices(content: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a reader of the bare numbers must know: which are uncertified, what was not reached, what was paid."""
    found: list[tuple[str, str]] = []
    if content["rows"] and not content["certified"]:
        found.append(("WARNING", "uncertified: values without an error have no stated accuracy"))
    found += [("NOTICE", content[name]) for name in ("note", "basis") if content.get(name)]
    if content["price"]:
        found.append(("NOTICE", f"bought for {content['price']:.6g} of the budget; asking the same again is free"))
    return tuple(found)


_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_END = struct.pack("!h", -1)
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def copy_messages(command: Copy, relation: WireRows) -> Iterator[bytes]:
    """All messages from CopyOutResponse to CopyDone."""
    binary = command.form == "binary"
    yield copy_out(len(relation.names), int(binary))
    if binary:
        # As PostgreSQL does: the signature goes with the first row, where readers look for both.
        lines = [*(_binary_row(row, relation) for row in relation.rows), _END]
        lines[0] = _SIGNATURE + lines[0]
        yield from map(copy_data, lines)
    else:
        line = _csv_line if command.form == "csv" else _text_line
        if command.options.get("header") == "true":
            yield copy_data(line(relation.names))
        for row in relation.rows:
            yield copy_data(line(row))
    yield COPY_DONE


def _binary_row(row: Sequence[Any], relation: WireRows) -> bytes:
    parts = [struct.pack("!h", len(row))]
    for value, kind in zip(row, relation.types, strict=True):
        data = None if value is None else binary_of(value, kind.oid)
        parts.append(struct.pack("!i", -1) if data is None else struct.pack("!i", len(data)) + data)
    return b"".join(parts)


def _text_line(row: Sequence[Any]) -> bytes:
    return ("\t".join("\\N" if v is None else wire_text(v).translate(_ESCAPES) for v in row) + "\n").encode()


def _csv_line(row: Sequence[Any]) -> bytes:
    return (",".join("" if value is None else _csv_value(wire_text(value)) for value in row) + "\n").encode()


def _csv_value(text: str) -> str:
    if not text or any(sign in text for sign in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text
