"""Messages to a client, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reticent.service.postgres.failures import Refusal

_COLUMN = struct.Struct("!ihihih")
_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
NULL = _INT32.pack(-1)

PARSE_COMPLETE = b"1\0\0\0\4"
BIND_COMPLETE = b"2\0\0\0\4"
CLOSE_COMPLETE = b"3\0\0\0\4"
NO_DATA = b"n\0\0\0\4"
EMPTY_QUERY = b"I\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"
READY = {status: b"Z\0\0\0\5" + status.encode() for status in "ITE"}
SSL_YES, SSL_NO = b"S", b"N"


@dataclass(frozen=True)
class WireType:
    """A type as a client sees it: its OID, its length in bytes (-1 varies), its modifier."""

    oid: int
    length: int
    modifier: int = -1


def framed(kind: bytes, body: bytes) -> bytes:
    return kind + _INT32.pack(len(body) + 4) + body


def _text(text: str) -> bytes:
    """Ends at NUL, so it may hold none."""
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def authentication(code: int, content: bytes = b"") -> bytes:
    return framed(b"R", _INT32.pack(code) + content)


def parameter_status(name: str, value: str) -> bytes:
    return framed(b"S", _text(name) + _text(value))


def backend_key(process: int, secret: int) -> bytes:
    return framed(b"K", struct.pack("!ii", process, secret))


def negotiate_version(options: Sequence[str]) -> bytes:
    """The newest minor version of protocol 3 spoken here is 0; these options are not known."""
    names = b"".join(map(_text, options))
    return framed(b"v", struct.pack("!ii", 0, len(options)) + names)


def row_description(names: Iterable[str], types: Sequence[WireType], formats: Sequence[int]) -> bytes:
    parts = [_INT16.pack(len(types))]
    for name, kind, form in zip(names, types, formats, strict=True):
        parts.append(_text(name) + _COLUMN.pack(0, 0, kind.oid, kind.length, kind.modifier, form))
    return framed(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    return framed(b"t", _INT16.pack(len(oids)) + b"".join(map(_INT32.pack, oids)))


def data_row(values: Sequence[bytes | None]) -> bytes:
    parts = [_INT16.pack(len(values))]
    for value in values:
        parts.append(NULL if value is None else _INT32.pack(len(value)) + value)
    return framed(b"D", b"".join(parts))


def command_complete(tag: str) -> bytes:
    return framed(b"C", _text(tag))


def copy_out(columns: int, form: int) -> bytes:
    return framed(b"H", struct.pack("!bh", form, columns) + _INT16.pack(form) * columns)


def copy_data(data: bytes) -> bytes:
    return framed(b"d", data)


def error(refusal: Refusal) -> bytes:
    fields = {"S": refusal.severity, "V": refusal.severity, "C": refusal.state, "M": refusal.message}
    return _noted(b"E", fields | ({"H": refusal.hint} if refusal.hint else {}))


def notice(message: str, severity: str = "NOTICE", state: str = "00000") -> bytes:
    return _noted(b"N", {"S": severity, "V": severity, "C": state, "M": message})


def _noted(kind: bytes, fields: dict[str, str]) -> bytes:
    return framed(kind, b"".join(name.encode() + _text(text) for name, text in fields.items()) + b"\0")
