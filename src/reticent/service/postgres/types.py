"""Values in PostgreSQL's formats: OIDs, text and binary, in both directions."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from reticent.client.dbapi import sql_literal as sql_literal
from reticent.errors import QueryError
from reticent.service.postgres.failures import BAD_TEXT, FEATURE, PROTOCOL, Refusal
from reticent.service.postgres.messages import WireType

BOOL = WireType(16, 1)
CHAR = WireType(18, 1)
INT8 = WireType(20, 8)
INT2 = WireType(21, 2)
INT4 = WireType(23, 4)
REGPROC = WireType(24, 4)
TEXT = WireType(25, -1)
OID = WireType(26, 4)
FLOAT4 = WireType(700, 4)
FLOAT8 = WireType(701, 8)
UNKNOWN = WireType(705, -2)
VARCHAR = WireType(1043, -1)
DATE = WireType(1082, 4)
TIMESTAMP = WireType(1114, 8)
TIMESTAMPTZ = WireType(1184, 8)
NUMERIC = WireType(1700, -1)

KINDS = {"number": FLOAT8, "integer": INT8, "text": TEXT, "truth": BOOL, "date": DATE, "timestamp": TIMESTAMP}
"""Wire types of the kinds of columns that statements know."""
ARRAYS: dict[int, int] = {16: 1000, 18: 1002, 19: 1003, 20: 1016, 21: 1005, 23: 1007, 25: 1009, 26: 1028, 701: 1022}
"""OID of the array of each type."""
ELEMENTS = {array: element for element, array in ARRAYS.items()} | {1015: 1043, 1021: 700, 1231: 1700, 1182: 1082}

EPOCH = datetime.date(2000, 1, 1)
"""Day 0 of binary dates."""
_MICROSECONDS = 86_400_000_000
_TEXT_OIDS = (0, 18, 19, 25, 705, 1042, 1043)


def wire_text(value: Any) -> str:
    """A value in PostgreSQL's text format."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(map(_element_text, value)) + "}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return str(value)


def float_text(value: float) -> str:
    """The shortest text that reads back the same, without `.0`, as PostgreSQL since version 12."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def _element_text(value: Any) -> str:
    if value is None:
        return "NULL"
    text = wire_text(value)
    if isinstance(value, str):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def binary_of(value: Any, oid: int) -> bytes:
    """A value in the binary format of this type."""
    writer = _WRITERS.get(oid)
    if writer is not None:
        return writer(value)
    element = ELEMENTS.get(oid)
    if element is None:
        raise Refusal(FEATURE, f"type {oid} has no binary format here; ask for text")
    items = [None if item is None else binary_of(item, element) for item in value]
    head = struct.pack("!iii", 1 if items else 0, any(item is None for item in items), element)
    if items:
        head += struct.pack("!ii", len(items), 1)
    sized = (struct.pack("!i", -1) if item is None else struct.pack("!i", len(item)) + item for item in items)
    return head + b"".join(sized)


def _days(value: Any) -> int:
    return (_date(value) - EPOCH).days


def _date(value: Any) -> datetime.date:
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(str(value)[:10])


def _microseconds(value: Any) -> int:
    moment = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(str(value))
    since = moment.replace(tzinfo=None) - datetime.datetime(2000, 1, 1)
    return since // datetime.timedelta(microseconds=1)


def _numeric(value: Any) -> bytes:
    """Sign, weight and groups of four decimal digits."""
    number = Decimal(value)
    if not number.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "a finite number has one"
    whole = "".join(map(str, digits)) + "0" * max(exponent, 0)
    scale = max(-exponent, 0)
    whole = whole.zfill(scale + 1)
    before, after = whole[: len(whole) - scale], whole[len(whole) - scale :]
    before = before.zfill(-(-len(before) // 4) * 4)
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    groups = [int((before + after)[place : place + 4]) for place in range(0, len(before) + len(after), 4)]
    head = struct.pack("!hhHh", len(groups), len(before) // 4 - 1, 0x4000 if sign else 0, scale)
    return head + b"".join(struct.pack("!h", group) for group in groups)


def _packed(form: str, convert: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    packer = struct.Struct(form)
    return lambda value: packer.pack(convert(value))


def _encoded(value: Any) -> bytes:
    return wire_text(value).encode()


_WRITERS: dict[int, Callable[[Any], bytes]] = {
    BOOL.oid: _packed("!?", bool),
    INT8.oid: _packed("!q", int),
    INT2.oid: _packed("!h", int),
    INT4.oid: _packed("!i", int),
    OID.oid: _packed("!I", int),
    REGPROC.oid: _packed("!I", int),
    FLOAT4.oid: _packed("!f", float),
    FLOAT8.oid: _packed("!d", float),
    DATE.oid: _packed("!i", _days),
    TIMESTAMP.oid: _packed("!q", _microseconds),
    TIMESTAMPTZ.oid: _packed("!q", _microseconds),
    NUMERIC.oid: _numeric,
    **dict.fromkeys(_TEXT_OIDS, _encoded),
}


def parameter_value(data: bytes | None, oid: int, form: int) -> Any:
    """A parameter's value as Python has it: None, bool, int, float, Decimal, str, date, datetime, or a list of them."""
    if data is None:
        return None
    if form not in (0, 1):
        raise Refusal(PROTOCOL, f"format {form} is neither text (0) nor binary (1)")
    try:
        return _from_binary(data, oid) if form else _from_text(data.decode(), oid)
    except (ValueError, struct.error, InvalidOperation, OverflowError):
        raise Refusal(BAD_TEXT, f"a parameter value does not fit its type (OID {oid})") from None


def _from_text(text: str, oid: int) -> Any:
    if oid == BOOL.oid:
        if text.lower() in ("t", "true", "1", "on", "yes", "y"):
            return True
        if text.lower() in ("f", "false", "0", "off", "no", "n"):
            return False
        raise ValueError(text)
    if oid in (INT2.oid, INT4.oid, INT8.oid, OID.oid):
        return int(text)
    if oid in (FLOAT4.oid, FLOAT8.oid):
        return float(text)
    if oid == NUMERIC.oid:
        return Decimal(text)
    if oid == DATE.oid:
        return datetime.date.fromisoformat(text)
    if oid in (TIMESTAMP.oid, TIMESTAMPTZ.oid):
        return datetime.datetime.fromisoformat(text)
    if oid in ELEMENTS:
        return [None if item is None else _from_text(item, ELEMENTS[oid]) for item in array_items(text)]
    return text


def array_items(text: str) -> list[str | None]:
    """The items of `{a, "b c", NULL}`; arrays of arrays are refused."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    items: list[str | None] = []
    end = len(text) - 1
    place = _past_space(text, 1)
    while place < end:
        if text[place] == '"':
            item, place = _quoted_item(text, place + 1)
            items.append(item)
            place = _past_space(text, place)
        else:
            stop = next((p for p in range(place, end) if text[p] == ","), end)
            item = text[place:stop].strip()
            if not item or set(item) & set('{}"\\'):
                raise ValueError(text)
            items.append(None if item.upper() == "NULL" else item)
            place = stop
        if place < end:
            if text[place] != "," or not text[place + 1 : end].strip():
                raise ValueError(text)
            place = _past_space(text, place + 1)
    return items


def _past_space(text: str, place: int) -> int:
    while text[place].isspace():
        place += 1
    return place


def _quoted_item(text: str, place: int) -> tuple[str, int]:
    parts: list[str] = []
    while place < len(text) - 1:
        letter = text[place]
        if letter == '"':
            return "".join(parts), place + 1
        if letter == "\\":
            place += 1
            letter = text[place]
        parts.append(letter)
        place += 1
    raise ValueError(text)


_FORMS = {BOOL.oid: "!?", INT2.oid: "!h", INT4.oid: "!i", INT8.oid: "!q", OID.oid: "!I"}
_FORMS |= {FLOAT4.oid: "!f", FLOAT8.oid: "!d"}


def _from_binary(data: bytes, oid: int) -> Any:
    if oid in _FORMS:
        return struct.unpack(_FORMS[oid], data)[0]
    if oid in _TEXT_OIDS:
        return data.decode()
    if oid == DATE.oid:
        return EPOCH + datetime.timedelta(days=struct.unpack("!i", data)[0])
    if oid in (TIMESTAMP.oid, TIMESTAMPTZ.oid):
        since = datetime.timedelta(microseconds=struct.unpack("!q", data)[0])
        return datetime.datetime(2000, 1, 1) + since
    if oid == NUMERIC.oid:
        return _from_numeric(data)
    if oid in ELEMENTS:
        return _from_array(data)
    raise Refusal(FEATURE, f"parameters of type {oid} are not supported in binary; send text")


def _from_numeric(data: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000) or len(data) != 8 + 2 * count or scale < 0:
        raise ValueError("numeric")
    groups = struct.unpack_from(f"!{count}h", data, 8)
    total = Decimal(0)
    for place, group in enumerate(groups):
        total += Decimal(group).scaleb(4 * (weight - place))
    return -total if sign else total


def _from_array(data: bytes) -> list[Any]:
    dimensions, _, element = struct.unpack_from("!iii", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise Refusal(FEATURE, "arrays of arrays are not supported")
    count, _ = struct.unpack_from("!ii", data, 12)
    items, place = [], 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", data, place)
        place += 4
        if size < -1 or place + max(size, 0) > len(data):
            raise ValueError("array")
        items.append(None if size == -1 else _from_binary(data[place : place + size], element))
        place += max(size, 0)
    return items


def wire_literal(value: Any) -> str:
    """A value as a SQL literal that can end nothing."""
    try:
        return sql_literal(value)
    except QueryError as error:
        raise Refusal(BAD_TEXT, str(error)) from None


def formats_of(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """One format per column: none stated means text, one is meant for all."""
    if any(form not in (0, 1) for form in formats):
        raise Refusal(PROTOCOL, "a format is 0 (text) or 1 (binary)")
    if len(formats) <= 1:
        return (formats[0] if formats else 0,) * count
    if len(formats) != count:
        raise Refusal(PROTOCOL, f"{len(formats)} formats for {count} values")
    return tuple(formats)
