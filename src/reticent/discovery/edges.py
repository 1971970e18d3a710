"""Edges of an attribute from released positions on a line: post-processing."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np

from reticent.domain import Undeclared
from reticent.domain.numeric import Edge, Numeric
from reticent.kernel.discovery.lines import CalendarLine, Line, NumberLine
from reticent.kernel.discovery.medians import POSITIONS

_EPOCH = datetime.datetime(1970, 1, 1)


def line_for(attribute: Undeclared) -> Line:
    """The possible positions of an undeclared column's edges."""
    if attribute.kind == "number":
        return NumberLine(lowest=0) if attribute.whole else NumberLine()
    return CalendarLine(minutes=attribute.kind == "datetime")


def clipped_note(name: str, found: Numeric, declared: Undeclared) -> str:
    """What sums and averages of a discovered column leave out, in one line; empty if both bounds were declared.

    An outer bin holds the records beyond an outer median and ends at the next round value: heavy tails reach further.
    """
    open_ends = [
        text
        for bound, text in ((declared.lower, f"below {found.edges[0]}"), (declared.upper, f"above {found.edges[-1]}"))
        if bound is None
    ]
    if not open_ends:
        return ""
    ends = " and ".join(end for end, bound in (("lower", declared.lower), ("upper", declared.upper)) if bound is None)
    return (
        f"{name}: values {' and '.join(open_ends)} are counted, but clipped in sums and averages; if there may be many,"
        f" give the {ends} bound in the draft."
    )


def first_piece(line: Line, attribute: Undeclared) -> list[int]:
    """The first piece: the whole line, or the part between public bounds."""
    first, last = 0, line.size - 1
    if attribute.bounds is not None:
        first, last = (int(place) for place in line.located(np.array(attribute.bounds))[0])
    return [first * POSITIONS, (last + 1) * POSITIONS]


def edges_of(line: Line, positions: Sequence[int], attribute: Undeclared) -> list[Edge]:
    """Strictly increasing edges.

    Equal medians indicate a value that many records share: it becomes a separate bin. Beyond the outer medians there is
    one more bin on each side, up to the public bound if there is one; values further out are clipped into it.
    """
    places = [
        _whole(line, position // POSITIONS) if attribute.whole else position // POSITIONS for position in positions
    ]
    found: set[Edge] = set()
    for place in places:
        found.add(_edge(line, place, attribute))
        if places.count(place) > 1:
            found.add(_edge(line, _next(line, place, attribute), attribute))
    inner = sorted(found, key=_order)
    low = attribute.lower if attribute.lower is not None else _beyond(inner[0], -1)
    high = attribute.upper
    if high is None:
        beyond = _beyond(_edge(line, max(places), attribute), 1)
        high = beyond if _order(beyond) > _order(inner[-1]) else _beyond(inner[-1], 1)
    inside = [edge for edge in inner if _order(low) < _order(edge) < _order(high)]
    return [low, *inside, high]


def _beyond(edge: Edge, sign: int) -> Edge:
    """The next round value beyond an outer edge: two digits (whole beyond a whole number), a year, or a day."""
    if isinstance(edge, datetime.datetime):
        midnight = datetime.datetime.combine(edge.date(), datetime.time())
        return (
            midnight + datetime.timedelta(days=1) if sign > 0 else midnight - datetime.timedelta(days=midnight == edge)
        )
    if isinstance(edge, datetime.date):
        return datetime.date(edge.year + 1 if sign > 0 else edge.year - (edge == datetime.date(edge.year, 1, 1)), 1, 1)
    if edge == 0:
        return sign
    number = Decimal(repr(edge))
    step = Decimal((0, (1,), number.adjusted() - 1))
    rounded = number.quantize(step, ROUND_CEILING if sign > 0 else ROUND_FLOOR)
    outer = rounded + sign * step if rounded == number else rounded
    if isinstance(edge, int):
        return int(outer) if outer == outer.to_integral_value() else int(edge) + sign
    return float(outer)


def _whole(line: Line, place: int) -> int:
    """The position of the next whole number; an edge between two whole numbers divides them as the upper one does."""
    value = math.ceil(line.value(place))
    return int(line.located(np.array([float(value)]))[0][0])


def _next(line: Line, place: int, attribute: Undeclared) -> int:
    if attribute.whole:
        return int(line.located(np.array([line.value(place) + 1.0]))[0][0])
    return min(place + 1, line.size - 1)


def _edge(line: Line, place: int, attribute: Undeclared) -> Edge:
    value = line.value(place)
    if attribute.kind == "number":
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    moment = _EPOCH + datetime.timedelta(seconds=value)
    return moment.date() if attribute.kind == "date" else moment


def _order(edge: Edge) -> float:
    """A number, or seconds since 1970."""
    if isinstance(edge, datetime.datetime):
        return (edge - _EPOCH).total_seconds()
    if isinstance(edge, datetime.date):
        return (datetime.datetime.combine(edge, datetime.time()) - _EPOCH).total_seconds()
    return float(edge)
