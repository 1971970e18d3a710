"""Date formats: a pattern whose groups are rearranged into the ISO text of an instant.

Python and SQL (`reticent.sources.readings`) use the same pattern, so that no cell depends on an engine's own date
parser with its own rules for locales and inexact matches.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from reticent.domain.attribute import shown
from reticent.errors import DomainError

FULL_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MONTHS = tuple(name[:3] for name in FULL_MONTHS)
PIVOT = "69"
"""Two-digit years from 69 on are of the 20th century, as POSIX has it."""
NO_INSTANT = "?"
"""The plain text of a time that has no instant in UTC: nothing reads it."""

# Digits with an optional leading zero, and exactly two digits where nothing stands between two numbers.
_NUMBERS = {
    "d": ("(0?[1-9]|[12][0-9]|3[01])", "(0[1-9]|[12][0-9]|3[01])"),
    "m": ("(0?[1-9]|1[0-2])", "(0[1-9]|1[0-2])"),
    "H": ("([01]?[0-9]|2[0-3])", "([01][0-9]|2[0-3])"),
    "I": ("(0?[1-9]|1[0-2])", "(0[1-9]|1[0-2])"),
    "M": ("([0-5]?[0-9])", "([0-5][0-9])"),
    "S": ("([0-5]?[0-9])", "([0-5][0-9])"),
    "Y": ("([0-9]{4})", "([0-9]{4})"),
    "y": ("([0-9]{2})", "([0-9]{2})"),
    "f": ("([0-9]{1,6})", "([0-9]{6})"),
}


def _any_case(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" for letter in word)


_WORDS = {
    "b": f"({'|'.join(map(_any_case, MONTHS))})",
    "B": f"({'|'.join(map(_any_case, FULL_MONTHS))})",
    "p": "([AaPp][Mm])",
    "z": "([Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)",
}
_SAME = ("d", "mbB", "Yy", "HI", "M", "S", "f", "p", "z")
"""Directives that say the same thing: at most one of each may stand in a format."""


@dataclass(frozen=True)
class Format:
    """A format such as `%d/%m/%Y`: its pattern, and the directive of each group."""

    text: str
    pattern: str
    groups: tuple[str, ...]

    def iso(self, found: tuple[str, ...]) -> str:
        """The ISO text of the groups, in UTC if one of them is the offset; otherwise the reader checks the calendar."""
        piece = dict(zip(self.groups, found, strict=True))
        year = piece["Y"] if "Y" in piece else ("19" if piece["y"] >= PIVOT else "20") + piece["y"]
        named = piece.get("b", piece.get("B"))
        month = piece.get("m", "1") if named is None else str(MONTHS.index(named[:3].lower()) + 1)
        hour = piece.get("H", "0")
        if "I" in piece:
            hour = str(int(piece["I"]) % 12 + (12 if piece["p"].lower() == "pm" else 0))
        date = f"{year}-{month:0>2}-{piece.get('d', '1'):0>2}"
        iso = f"{date} {hour:0>2}:{piece.get('M', '0'):0>2}:{piece.get('S', '0'):0>2}.{piece.get('f', '0'):0<6}"
        return _in_utc(iso, piece["z"]) if "z" in piece else iso

    def read(self, text: str) -> str | None:
        """The ISO text of a cell in this format; None if the cell has another format."""
        found = _compiled(self.pattern).match(text)
        return None if found is None else self.iso(found.groups())


def _in_utc(iso: str, offset: str) -> str:
    """A local time, and how far it is ahead of UTC: `Z`, `+02`, `+0200` or `+02:00`."""
    digits = offset[1:].replace(":", "")
    ahead = datetime.timedelta(hours=int(digits[:2] or 0), minutes=int(digits[2:] or 0))
    try:
        local = datetime.datetime.fromisoformat(iso)
        moment = local + ahead if offset[0] == "-" else local - ahead
    except (OverflowError, ValueError):
        return NO_INSTANT
    return moment.isoformat(sep=" ", timespec="microseconds")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.removesuffix("$") + r"\Z")


def parsed_format(text: Any) -> Format:
    """Parse a text with strftime's directives; DomainError names an unknown directive."""
    if not isinstance(text, str) or not 0 < len(text) <= 60:
        raise DomainError(f'format {shown(text)} must be a text such as "%d/%m/%Y"')
    pieces = re.findall(r"%.|[^%]|%", text, re.DOTALL)
    directives = [piece[1] for piece in pieces if len(piece) == 2 and piece != "%%"]
    for piece in pieces:
        if piece == "%" or (len(piece) == 2 and piece != "%%" and piece[1] not in _NUMBERS | _WORDS):
            known = " ".join(f"%{name}" for name in (*_NUMBERS, *_WORDS))
            raise DomainError(f"format {shown(text)}: {piece} is not understood; use {known}")
    for same in _SAME:
        if sum(directive in same for directive in directives) > 1:
            raise DomainError(f"format {shown(text)} states one part of the date twice")
    if not {"Y", "y"} & set(directives):
        raise DomainError(f"format {shown(text)} has no year; add %Y")
    if ("I" in directives) != ("p" in directives):
        raise DomainError(f"format {shown(text)}: %I and %p belong together; use %H for 24 hours")
    if re.search(r"%z(%[dmHIMSYyf]|[0-9:])", text):
        raise DomainError(f"format {shown(text)}: nothing that %z could hold may follow it; put a blank between")
    numbers = [(len(piece) == 2 and piece[1] in _NUMBERS) or piece.isdigit() for piece in pieces]
    fixed = any(first and second for first, second in pairwise(numbers))
    pattern = "".join(_piece(piece, fixed) for piece in pieces)
    return Format(text, f"^{pattern}$", tuple(directives))


def _piece(piece: str, fixed: bool) -> str:
    if len(piece) == 2 and piece != "%%":
        return _WORDS[piece[1]] if piece[1] in _WORDS else _NUMBERS[piece[1]][fixed]
    return escaped(piece[-1])


def escaped(text: str) -> str:
    """Text as a pattern with the same meaning in RE2, Java, PostgreSQL and Python: only ASCII signs get a backslash."""
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() and c not in " _" else c for c in text)
