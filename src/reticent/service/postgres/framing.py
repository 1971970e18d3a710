"""The byte stream of a client, split into messages and read field by field; malformed messages are refused.

Message formats: PostgreSQL documentation, "Frontend/Backend Protocol", "Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from reticent.service.postgres.failures import ENCODING, TOO_LARGE, ProtocolViolation, Refusal

STARTUP_LIMIT = 10_000
"""Bytes of a startup packet, as in PostgreSQL."""
SIGN_IN_LIMIT = 2_048
"""Bytes of a message before the client has signed in."""
CANCEL_CODE = (1234 << 16) + 5678
SSL_CODE = (1234 << 16) + 5679
GSS_CODE = (1234 << 16) + 5680

_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_HEAD = struct.Struct("!ci")


@dataclass(frozen=True)
class QueryMessage:
    text: str


@dataclass(frozen=True)
class Parse:
    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True)
class Describe:
    portal: bool
    name: str


@dataclass(frozen=True)
class Execute:
    portal: str
    limit: int
    """Rows at most; 0 means all."""


@dataclass(frozen=True)
class Close:
    portal: bool
    name: str


@dataclass(frozen=True)
class Password:
    """The first or a later message of an authentication exchange."""

    content: bytes


@dataclass(frozen=True)
class Plain:
    """A message without content that matters: Flush, Sync, Terminate, and what belongs to COPY or function calls."""

    kind: str


Message = QueryMessage | Parse | Bind | Describe | Execute | Close | Password | Plain


class Fields:
    """Reads the fields of one message from left to right; every read checks that it is within the message."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._place = 0

    def int16(self) -> int:
        return _INT16.unpack(self.take(2))[0]

    def int32(self) -> int:
        return _INT32.unpack(self.take(4))[0]

    def take(self, size: int) -> bytes:
        end = self._place + size
        if size < 0 or end > len(self._body):
            raise ProtocolViolation("a message ends before its last field")
        part, self._place = self._body[self._place : end], end
        return part

    def text(self) -> str:
        end = self._body.find(b"\0", self._place)
        if end < 0:
            raise ProtocolViolation("a text in a message has no end")
        part, self._place = self._body[self._place : end], end + 1
        try:
            return part.decode()
        except UnicodeDecodeError:
            raise Refusal(ENCODING, "text must be UTF-8") from None

    def counted(self, read: Callable[[], int]) -> tuple[int, ...]:
        """A list of numbers after their count."""
        return tuple(read() for _ in range(self._count()))

    def values(self) -> tuple[bytes | None, ...]:
        """Values after their count, each after its length; a length of -1 is NULL."""
        return tuple(self._value() for _ in range(self._count()))

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._place)

    @property
    def at_end(self) -> bool:
        return self._place == len(self._body)

    def end(self) -> None:
        if not self.at_end:
            raise ProtocolViolation("a message goes on after its last field")

    def _count(self) -> int:
        count = self.int16()
        if count < 0:
            raise ProtocolViolation("a message states a negative number of fields")
        return count

    def _value(self) -> bytes | None:
        size = self.int32()
        return None if size == -1 else self.take(size)


def _target(fields: Fields) -> tuple[bool, str]:
    kind = fields.take(1)
    if kind not in (b"S", b"P"):
        raise ProtocolViolation("only a statement (S) or a portal (P) can be described or closed")
    return kind == b"P", fields.text()


_READERS: dict[bytes, Callable[[Fields], Message]] = {
    b"Q": lambda f: QueryMessage(f.text()),
    b"P": lambda f: Parse(f.text(), f.text(), f.counted(f.int32)),
    b"B": lambda f: Bind(f.text(), f.text(), f.counted(f.int16), f.values(), f.counted(f.int16)),
    b"D": lambda f: Describe(*_target(f)),
    b"E": lambda f: Execute(f.text(), f.int32()),
    b"C": lambda f: Close(*_target(f)),
    b"p": lambda f: Password(f.rest()),
}
_PLAIN = frozenset(b"HSXdcfF")


def read_message(kind: bytes, body: bytes) -> Message:
    """One message from its type and content."""
    reader = _READERS.get(kind)
    if reader is None:
        return Plain(kind.decode("latin-1"))
    fields = Fields(body)
    message = reader(fields)
    fields.end()
    return message


class Decoder:
    """Collects bytes and gives whole messages; holds at most one message and what arrived behind it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self.signed_in = False
        """Before that a message may only have `SIGN_IN_LIMIT` bytes."""

    def feed(self, data: bytes) -> None:
        self._buffer += data

    @property
    def held(self) -> int:
        """Bytes that wait to be read."""
        return len(self._buffer)

    def drop(self) -> None:
        self._buffer.clear()

    def startup(self) -> tuple[int, bytes] | None:
        """Code and content of a packet that opens a connection; None until all of it has arrived."""
        if len(self._buffer) < 4:
            return None
        size = _INT32.unpack_from(self._buffer)[0]
        if not 8 <= size <= STARTUP_LIMIT:
            raise ProtocolViolation("not a startup packet of the PostgreSQL protocol")
        if len(self._buffer) < size:
            return None
        code = _INT32.unpack_from(self._buffer, 4)[0]
        body = bytes(self._buffer[8:size])
        del self._buffer[:size]
        return code, body

    def message(self) -> tuple[bytes, bytes] | None:
        """Type and content of the next message; None until all of it has arrived."""
        if not self._buffer:
            return None
        kind = bytes(self._buffer[:1])
        if kind not in _READERS and kind[0] not in _PLAIN:
            raise ProtocolViolation(f"unknown message type {kind[0]}")
        if len(self._buffer) < 5:
            return None
        size = _HEAD.unpack_from(self._buffer)[1] - 4
        limit = self._limit if self.signed_in else SIGN_IN_LIMIT
        if size < 0:
            raise ProtocolViolation("a message states a size below its own head's")
        if size > limit:
            raise ProtocolViolation(f"a message has {size} bytes, at most {limit}", TOO_LARGE)
        if len(self._buffer) < size + 5:
            return None
        body = bytes(self._buffer[5 : size + 5])
        del self._buffer[: size + 5]
        return kind, body


def startup_parameters(body: bytes) -> dict[str, str]:
    """Names and values of a startup message."""
    fields, found = Fields(body), dict[str, str]()
    while True:
        name = fields.text()
        if not name:
            fields.end()
            return found
        found[name] = fields.text()
