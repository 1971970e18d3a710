"""Refuses columns in which discovery would find nothing, by their types, which are public; no cell is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reticent.domain import Domain, Undeclared
from reticent.errors import SourceError
from reticent.sources.engine import ColumnType, Engine
from reticent.sources.files import declares_types
from reticent.sources.grouping import required_columns
from reticent.sources.objects import untyped

__all__ = ["refuse_types"]

_NUMBERS = ("integer", "decimal", "float", "boolean")
_TIMES = ("date", "timestamp", "instant")
_READ_AS = {"number": "a number", "date": "a date", "datetime": "a time", "text": "text"}


def refuse_types(rows: Any, domain: Domain, engine: Engine) -> None:
    """Refuse, before anything is paid, undeclared columns whose type shows that nothing can be read."""
    columns = required_columns(engine, domain.names)
    plain = isinstance(rows, (str, Path)) and not declares_types(rows)
    free = domain.names if plain else untyped(rows)
    for name, attribute in domain.items():
        kind = columns[name]
        if isinstance(attribute, Undeclared) and _is_never_read(attribute, kind, typed=name not in free):
            held = "values of another type" if kind.kind == "other" else f"values of type {kind.kind}"
            remedy = "declare it as what it is, or leave it out"
            if kind.kind == "text":
                remedy = "declare it as text; if its texts are numbers, state how they are read, such as strip=True"
            raise SourceError(
                f"column {name!r} has {held}, of which none is read as {_READ_AS[attribute.kind]}, and edges would be "
                f"paid for all the same: {remedy}"
            )


def _is_never_read(attribute: Undeclared, kind: ColumnType, *, typed: bool) -> bool:
    """Whether the type of a column alone shows that discovery finds nothing in it.

    Text may hold dates, in formats without types too, and numbers where the source is not `typed` or rules are stated.
    """
    if kind.read:
        return False
    formatted = attribute.rules is not None and bool(attribute.rules.formats)
    if attribute.kind == "number":
        return kind.kind not in _NUMBERS and (kind.kind != "text" or (typed and attribute.rules is None))
    if attribute.kind == "text":
        return kind.kind not in (*_NUMBERS, "text", "date")
    return kind.kind not in (*_TIMES, "text") and not (kind.kind == "integer" and formatted)
