"""Counts assembled from the texts of their parts: a new combination of cached comparisons is not parsed again.

A body is divided into its comparisons, which are the innermost objects of its JSON, and the structure around them. Each
comparison and each structure is parsed once, by the parser of whole bodies. Dividing at braces is safe: a brace inside
a text would leave a piece that is not a JSON object, because the quotes around an object's keys would be escaped there.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from reticent.errors import QueryError
from reticent.queries.linear import Count
from reticent.queries.predicate import Predicate, all_of, any_of, negated, predicate_from_dict

KEPT_COMPARISONS = 4096
LONGEST_COMPARISON = 256
KEPT_ARRANGEMENTS = 1024
"""The size of both caches, because analysts choose the bodies; bodies are short, so these are a few MB."""
_COMPARISON = re.compile(rb"(\{[^{}]*\})")
_COUNT_KEYS = {"query", "where"}

Sides = tuple[Predicate, Predicate]
"""A comparison and its negation."""
Signed = tuple[int, int]
"""The position of a comparison in the body, and whether it is negated."""


class Arrangement(NamedTuple):
    """The structure of a count: the condition with placeholders for its comparisons."""

    where: Any
    conjunction: list[Signed] | None
    """The comparisons of a conjunction, if the condition is one."""

    def over(self, sides: list[Sides]) -> Predicate:
        if self.conjunction is not None:
            return all_of([sides[place][side] for place, side in self.conjunction])
        return _built(self.where, sides)


class CountReader:
    """Reads counts about one table on one thread."""

    def __init__(self) -> None:
        self._comparisons: dict[bytes, Sides] = {}
        self._arrangements: dict[tuple[bytes, ...], Arrangement] = {}

    def read(self, body: bytes) -> Count | None:
        """The count of a body without terms; None if its structure is not cached."""
        parts = _COMPARISON.split(body)
        arrangement = self._arrangements.get(tuple(parts[::2]))
        if arrangement is None:
            return None
        sides, known = [], self._comparisons
        for text in parts[1::2]:
            found = known.get(text) or self._parsed(text)
            if found is None:
                return None
            sides.append(found)
        return Count(arrangement.over(sides))

    def learn(self, body: bytes) -> None:
        """Cache the structure of a body that the full parser read as a count without terms."""
        parts = _COMPARISON.split(body)
        if tuple(parts[::2]) in self._arrangements or any(self._parsed(text) is None for text in parts[1::2]):
            return
        places = [b"%d" % place for place in range(len(parts) // 2)]
        parts[1::2] = places
        description = json.loads(b"".join(parts))["query"]
        if not places or description.keys() != _COUNT_KEYS:
            return
        if len(self._arrangements) >= KEPT_ARRANGEMENTS:
            self._arrangements.clear()
        where = description["where"]
        self._arrangements[tuple(parts[::2])] = Arrangement(where, _conjunction(where))

    def _parsed(self, text: bytes) -> Sides | None:
        """A comparison; None if the text is not one, or is too long."""
        if len(text) > LONGEST_COMPARISON:
            return None
        try:
            predicate = predicate_from_dict(json.loads(text))
        except (ValueError, QueryError):
            return None
        if len(self._comparisons) >= KEPT_COMPARISONS:
            self._comparisons.clear()
        found = self._comparisons[text] = (predicate, negated(predicate))
        return found


def _built(where: Any, sides: list[Sides]) -> Predicate:
    if isinstance(where, int):
        return sides[where][0]
    if where["op"] == "not":
        return negated(_built(where["of"], sides))
    operands = [_built(part, sides) for part in where["of"]]
    return all_of(operands) if where["op"] == "and" else any_of(operands)


def _conjunction(where: Any) -> list[Signed] | None:
    """The comparisons of a conjunction, each or its negation; None if the condition has another form."""
    if isinstance(where, int):
        return [(where, 0)]
    if where["op"] == "not":
        return [(where["of"], 1)] if isinstance(where["of"], int) else None
    if where["op"] == "or":
        return None
    parts = [_conjunction(part) for part in where["of"]]
    return None if None in parts else [signed for part in parts if part is not None for signed in part]
