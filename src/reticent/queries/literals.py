"""Literals: the values in queries (text, numbers, truth values, dates, datetimes), each in one plain form."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from reticent.domain.attribute import shown
from reticent.domain.values import EXACT_FLOAT, number_text, plain
from reticent.errors import QueryError

Literal = int | float | str | bool | datetime.date | datetime.datetime

MAX_TEXT = 10_000
_ESCAPED = re.compile(r"\\(?:u[0-9a-f]{4}(?:\\u[0-9a-f]{4})*|.)")
"""An escape of JSON, or a run of code points: letters beyond the first plane are two."""
_SIMPLE = frozenset({str, int, bool, float})
_WORDS = frozenset({"and", "or", "not", "in", "is", "null", "known", "everything", "true", "false"})


def literal(value: Any, name: str) -> Literal:
    """The plain form of a value compared with column `name`: whole floats as integers, aware datetimes in UTC."""
    kind = type(value)
    if (kind is int and -EXACT_FLOAT < value < EXACT_FLOAT) or kind is bool:
        return value
    if kind is str:
        if len(value) > MAX_TEXT:
            raise QueryError(f"{readable_name(name)}: a text of {len(value)} characters; at most {MAX_TEXT}")
        return value
    value = plain(value)
    if value is None:
        raise QueryError(f"{readable_name(name)}: comparing with null is never true; use is_null()")
    if isinstance(value, (bool, str)):
        return literal(value if isinstance(value, bool) else str(value), name)
    if isinstance(value, (int, float, Decimal)):
        return _number(value, name)
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return value
    raise QueryError(
        f"{readable_name(name)}: cannot compare with {kind.__name__}; use text, a number, a truth value or a date"
    )


def _number(value: Any, name: str) -> int | float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise QueryError(f"{readable_name(name)}: {shown(value)} is not a finite number")
    return int(number) if number.is_integer() and abs(number) < EXACT_FLOAT else number


def literal_text(value: Literal) -> str:
    """Canonical text; different literals have different texts."""
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return f'datetime "{value.isoformat()}"'
    if isinstance(value, datetime.date):
        return f'date "{value.isoformat()}"'
    return number_text(value)


def literal_to_plain(value: Literal) -> Any:
    """For JSON; dates become {"date": ...} or {"datetime": ...}."""
    if isinstance(value, datetime.datetime):
        return {"datetime": value.isoformat()}
    return {"date": value.isoformat()} if isinstance(value, datetime.date) else value


def literal_from_plain(value: Any, name: str) -> Literal:
    """The inverse of `literal_to_plain`, for unchecked input."""
    if type(value) in _SIMPLE:  # most of what is asked: tests of abstract classes cost more than the rest
        return literal(value, name)
    if isinstance(value, (list, tuple)) or (isinstance(value, Mapping) and len(value) != 1):
        raise QueryError(f"{readable_name(name)}: a value must be text, a number, a truth value or a date")
    if isinstance(value, Mapping):
        ((kind, text),) = value.items()
        readers = {"date": datetime.date.fromisoformat, "datetime": datetime.datetime.fromisoformat}
        if kind not in readers or not isinstance(text, str):
            raise QueryError(f'{readable_name(name)}: write a date as {{"date": "2024-12-31"}}')
        try:
            return literal(readers[kind](text), name)
        except (ValueError, OverflowError):
            raise QueryError(f"{readable_name(name)}: {shown(text)} is not an ISO {kind}") from None
    return literal(value, name)


def name_text(name: str) -> str:
    """A column name in canonical text: bare if it is a plain word, else quoted."""
    return name if name.isidentifier() and name.isascii() and name not in _WORDS else _quoted(name)


def readable_name(name: str) -> str:
    """A column name in a message: the canonical text, with letters of all scripts unescaped."""
    return readable_text(name_text(name))


def readable_text(text: str) -> str:
    """A canonical text as messages show it, with printable letters of all scripts unescaped."""
    return _ESCAPED.sub(_unescaped, text) if "\\" in text else text


def _unescaped(escape: re.Match[str]) -> str:
    found = escape.group()
    if not found.startswith("\\u"):
        return found
    letters = json.loads(f'"{found}"')
    return letters if letters.isprintable() else found


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(text)
