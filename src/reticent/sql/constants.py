"""Constants of a statement: literals, dates, and arithmetic on numbers alone."""

from __future__ import annotations

import datetime
import math
from typing import Any

from sqlglot import exp

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql.refusals import only, refused, refused_node, wording

_LONGEST_INTEGER = 40
_DATES = (exp.DType.DATE,)
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg)


def is_constant(node: exp.Expr) -> bool:
    """Whether it is a literal, a date, or arithmetic on numbers alone."""
    if isinstance(node, (exp.Literal, exp.Boolean, exp.Null)):
        return True
    if isinstance(node, exp.Cast):
        return node.to.this in (*_DATES, *_TIMES) and isinstance(node.this, exp.Literal)
    if isinstance(node, (exp.Paren, exp.Neg)):
        return is_constant(node.this)
    if isinstance(node, _ARITHMETIC):
        sides = (node.this, node.expression)
        return all(is_constant(side) and not isinstance(side, exp.Cast) for side in sides)
    return False


def literal_value(node: exp.Expr) -> Any:
    """Of a literal: text, a number, a truth value, or None for NULL."""
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    return bool(node.this) if isinstance(node, exp.Boolean) else None


def constant(node: exp.Expr) -> Any:
    """Text, number, truth value, date, datetime, or None for NULL."""
    if isinstance(node, (exp.Literal, exp.Boolean, exp.Null)):
        return literal_value(node)
    if isinstance(node, exp.Paren):
        return constant(node.this)
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, _ARITHMETIC):
        return _computed(node)
    raise refused_node(node, "write a literal value")


def number(node: exp.Expr) -> float:
    """A constant that must be a finite number."""
    value = constant(node)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refused(f"{wording(node)} is not a number", "write a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise refused(f"{wording(node)} is not a finite number", "write a smaller one")
    return found


def whole_constant(node: exp.Expr, what: str, largest: int) -> int:
    """A constant for LIMIT, OFFSET, a position or a number of decimals."""
    value = constant(node) if is_constant(node) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise refused(f"{what} {wording(node)} is not a whole number from 0 to {largest}", "write one")
    return value


def _number(text: str) -> int | float:
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST_INTEGER:
        return int(text)
    try:
        found = float(text)
    except ValueError:
        raise refused(f"{shown(text)} is not a number", "write it in decimal") from None
    if not math.isfinite(found):
        raise refused(f"{shown(text)} is not a finite number", "write a smaller one")
    return found


def _computed(node: exp.Expr) -> int | float:
    if isinstance(node, exp.Neg):
        value = constant(node.this)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refused(f"{wording(node)} is not a number", "write a number")
        return -value
    left, right = number(node.this), number(node.expression)
    if isinstance(node, exp.Div) and right == 0:
        raise refused(f"{wording(node)} divides by zero", "use another divisor")
    result = {exp.Add: left + right, exp.Sub: left - right, exp.Mul: left * right}.get(type(node))
    result = left / right if result is None else result
    if not math.isfinite(result):
        raise refused(f"{wording(node)} is not a finite number", "write a smaller one")
    return int(result) if result.is_integer() and abs(result) < 2**53 else result


def _cast(node: exp.Cast) -> Any:
    only(node, "this", "to")
    kind, value = node.to.this, constant(node.this)
    readers = {
        **dict.fromkeys(_DATES, datetime.date.fromisoformat),
        **dict.fromkeys(_TIMES, datetime.datetime.fromisoformat),
    }
    if kind not in readers or not isinstance(value, str):
        raise refused(f"{wording(node)} converts a constant", "write the value itself, a date as DATE '2024-12-31'")
    try:
        return readers[kind](value)
    except ValueError:
        raise QueryError(f"{shown(value)} is not an ISO date; write it as DATE '2024-12-31'") from None
