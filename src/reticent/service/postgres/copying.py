"""COPY (SELECT ...) TO STDOUT: rows in PostgreSQL's text, CSV or binary format."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from reticent.service.postgres.commands import Copy
from reticent.service.postgres.messages import COPY_DONE, copy_data, copy_out
from reticent.service.postgres.results import WireRows
from reticent.service.postgres.types import binary_of, wire_text

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
