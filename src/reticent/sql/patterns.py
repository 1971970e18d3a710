"""SQL's LIKE and regular expressions in time linear in the text: no pattern can make a match backtrack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ANYTHING = "%"
ANY_ONE = "_"
REGULAR_STEPS = 10
"""Of reading one character of a regular expression."""
WORD_BITS = 2048
"""Bits of a state that one step of Python's integers passes over."""


@dataclass(frozen=True, eq=False)
class Matcher:
    """An automaton with one state per character of the pattern; all states it is in are the bits of one integer.

    Reading a character moves each state whose character fits one place on, and a `%` lets its state stay: two shifts
    and masks for each character of the text, however many `%` there are.
    """

    places: tuple[str | None, ...]
    """The characters of the pattern without its `%`; None for `_`."""
    staying: int
    """States before which the pattern has a `%`."""
    ignore_case: bool
    _fitting: dict[str, int] = field(default_factory=dict)
    """For each character met so far, the places that it fits."""

    @classmethod
    def of(cls, pattern: str, escape: str = "", *, ignore_case: bool = False) -> Matcher:
        """`escape` takes the meaning from the `%` or `_` that follows it; alone at the end it is itself."""
        places: list[str | None] = []
        staying = 0
        for character, special in _read(pattern, escape):
            if special and character == ANYTHING:
                staying |= 1 << len(places)
            else:
                places.append(None if special and character == ANY_ONE else character)
        return cls(tuple(places), staying, ignore_case)

    def matches(self, text: str) -> bool:
        """Whether the pattern covers the whole text."""
        state, staying = 1, self.staying
        for character in text:
            fits = self._fitting.get(character)
            if fits is None:
                fits = self._fitting[character] = self._fits(character)
            state = (state & fits) << 1 | state & staying
            if not state:
                return False
        return bool(state >> len(self.places) & 1)

    def steps(self, text: str) -> int:
        """About the microseconds that `matches` takes."""
        return 1 + len(text) * (1 + len(self.places) // WORD_BITS)

    def _fits(self, character: str) -> int:
        alike = {place: place is None or self._same(place, character) for place in set(self.places)}
        found = 0
        for number, place in enumerate(self.places):
            if alike[place]:
                found |= 1 << number
        return found

    def _same(self, one: str, other: str) -> bool:
        if not self.ignore_case:
            return one == other
        return re.fullmatch(re.escape(one), other, re.IGNORECASE) is not None


def _read(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    """Each character, and whether it may stand for others."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield next(characters, escape), False
        else:
            yield character, True


def matching_texts(pattern: str, texts: Sequence[str], *, whole: bool, ignore_case: bool) -> frozenset[str] | None:
    """Those texts that a regular expression of RE2 matches, as a whole or in some part; None where it is none."""
    import pyarrow as pa
    from pyarrow.compute import MatchSubstringOptions, call_function

    written = rf"\A(?:{pattern})\z" if whole else pattern
    try:
        listed = pa.array([*texts, ""], pa.string())  # never none: a pattern is judged wherever it stands
        options = MatchSubstringOptions(written, ignore_case=ignore_case)
        found = call_function("match_substring_regex", [listed], options)
    except pa.ArrowInvalid:
        return None
    return frozenset(text for text, matched in zip(texts, found.to_pylist(), strict=False) if matched)
