"""Types and examples of parameters whose type a client has not stated, inferred from the compared columns."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from reticent.domain import Domain
from reticent.domain.attribute import Attribute
from reticent.domain.categorical import Categorical
from reticent.domain.numeric import Numeric
from reticent.service.postgres.commands import Read
from reticent.service.postgres.lexer import Token
from reticent.service.postgres.messages import WireType
from reticent.service.postgres.types import ARRAYS, BOOL, DATE, ELEMENTS, FLOAT8, INT4, INT8, KINDS, TEXT, TIMESTAMP
from reticent.sql.vectors import kind_of

_STATED = {
    "int": INT4,
    "integer": INT4,
    "int4": INT4,
    "int8": INT8,
    "bigint": INT8,
    "smallint": INT4,
    "float8": FLOAT8,
    "double": FLOAT8,
    "real": FLOAT8,
    "numeric": FLOAT8,
    "text": TEXT,
    "varchar": TEXT,
    "bool": BOOL,
    "boolean": BOOL,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
_COMPARING = ("=", "<", ">", "<=", ">=", "<>", "!=")


def column_type(attribute: Attribute) -> WireType:
    """The catalog's type of a column."""
    return KINDS[kind_of(attribute)]


def parameter_types(command: Read, stated: Sequence[int], domain: Domain | None) -> tuple[int, ...]:
    """The OID of each parameter; text if nothing else can be inferred."""
    found = list(stated)
    for place, token in enumerate(command.tokens):
        if token.kind != "parameter":
            continue
        number = int(token.text[1:]) - 1
        if 0 <= number < len(found) and not found[number]:
            told = _told(command.tokens, place, domain).oid
            found[number] = ARRAYS.get(told, told) if _listed(command.tokens, place) else told
    return tuple(oid or TEXT.oid for oid in found)


def _told(tokens: Sequence[Token], place: int, domain: Domain | None) -> WireType:
    if place + 2 < len(tokens) and tokens[place + 1].is_sign("::"):
        return _STATED.get(tokens[place + 2].text, TEXT)
    if place and tokens[place - 1].is_word("limit", "offset"):
        return INT8
    column = _compared(tokens, place, domain)
    return TEXT if column is None or domain is None else column_type(domain[column])


def _listed(tokens: Sequence[Token], place: int) -> bool:
    """`= ANY($1)` and `$1::text[]` take an array."""
    if place + 3 < len(tokens) and tokens[place + 1].is_sign("::"):
        return tokens[place + 3].is_sign("[")
    return place >= 2 and tokens[place - 1].is_sign("(") and tokens[place - 2].is_word("any", "some", "all")


def _compared(tokens: Sequence[Token], place: int, domain: Domain | None) -> str | None:
    """The column nearest before the parameter, without a new condition in between; else the one right after it."""
    names = {} if domain is None else {name.lower(): name for name in domain}
    for token in reversed(tokens[max(0, place - 40) : place]):
        if token.is_word("where", "and", "or", "having", "when", "select", "limit", "offset") and not _between(
            tokens, place
        ):
            break
        if token.is_name and token.text.lower() in names:
            return names[token.text.lower()]
    if place + 2 < len(tokens) and tokens[place + 1].text in _COMPARING:
        return names.get(tokens[place + 2].text.lower())
    return None


def _between(tokens: Sequence[Token], place: int) -> bool:
    """`x BETWEEN $1 AND $2`: the AND before $2 begins no new condition."""
    return place >= 3 and tokens[place - 1].is_word("and") and tokens[place - 3].is_word("between")


def example_values(command: Read, types: Sequence[int], domain: Domain | None) -> list[Any]:
    """A value of each parameter for which a statement can be answered: the first that its column declares."""
    examples = [_example(oid) for oid in types]
    for place, token in enumerate(command.tokens):
        number = int(token.text[1:]) - 1 if token.kind == "parameter" else -1
        if not 0 <= number < len(examples):
            continue
        column = _compared(command.tokens, place, domain)
        if column is not None and domain is not None:
            first = _first(domain[column])
            examples[number] = [first] if types[number] in ELEMENTS else first
    return examples


def _first(attribute: Attribute) -> Any:
    if isinstance(attribute, Numeric):
        return attribute.edges[0]
    if isinstance(attribute, Categorical):
        return attribute.values[0]
    return 0


def _example(oid: int) -> Any:
    if oid in ELEMENTS:
        return []
    if oid == BOOL.oid:
        return True
    if oid == DATE.oid:
        return datetime.date(2000, 1, 1)
    if oid == TIMESTAMP.oid:
        return datetime.datetime(2000, 1, 1)
    return "" if oid == TEXT.oid else 1
