"""Reading rules: they rewrite one text cell into the plain text that every engine can read.

A rule depends on its own cell and on the declaration only (docs/proofs/reading.md). Blanks are stripped first, then
case is folded for comparisons, then marks of missing values and aliases are looked up. The result is read as a
category, a number or a date. `reticent.sources.readings` implements the same rules in SQL.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from reticent.domain.attribute import checked_text, shown
from reticent.domain.formats import Format, escaped, parsed_format
from reticent.domain.values import EXACT_FLOAT, day_of, number_of, number_text, plain, text_of, truth_of
from reticent.errors import DomainError, has_items

BLANKS = " \t\n\v\f\r\u00a0\u2007\u202f\u3000\ufeff"
"""What `strip` takes off both ends: what keyboards and spreadsheets write for a space, and a stray byte order mark."""
UNREADABLE = "?"
"""The plain text of a number that the rules do not understand: nothing reads it."""
MOST_UNITS, LONGEST_UNIT = 32, 16
Template = tuple[str | int, ...]
"""Texts, and groups of a pattern by number."""

_SPACES = "[ \u00a0\u202f]*"
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""Thousands marks that are written in several ways."""
_THOUSANDS = (",", ".", "'", " ", "_")
_NEGATIVE = ("parentheses", "trailing")
"""How negative numbers may be written beside a leading minus: `(1,234.50)` and `1,234.50-`."""
_ALLOWED = {
    "text": ("strip", "casefold", "aliases", "missing"),
    "truth values": ("strip", "casefold", "aliases", "missing"),
    "numbers": ("strip", "casefold", "aliases", "missing", "decimal", "thousands", "units", "negative"),
    "dates": ("strip", "casefold", "aliases", "missing", "format"),
}


def fold(text: str) -> str:
    """Fold each character separately (Unicode's simple case folding), as SQL can do too."""
    return "".join(map(_folded, text))


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    full = character.casefold()
    if len(full) == 1:
        return full
    lower = character.lower()
    return lower if len(lower) == 1 else character


@lru_cache(maxsize=1)
def _unfolded() -> dict[str, list[str]]:
    """For each folded character, the characters that fold to it."""
    found: dict[str, list[str]] = {}
    for code in (*range(0xD800), *range(0xE000, 0x1F000)):  # no cased letter lies beyond
        character = chr(code)
        if (folded := _folded(character)) != character:
            found.setdefault(folded, []).append(character)
    return found


def folding(keys: Iterable[str] | None) -> tuple[str, str]:
    """Characters that must be folded to compare a text with the folded keys, and their folded forms; None: all.

    Any other character is in none of the keys, folded or not, so it need not be folded to compare.
    """
    wanted = sorted(_unfolded()) if keys is None else sorted({*"".join(keys)})
    pairs = [(source, target) for target in wanted for source in _unfolded().get(target, ())]
    return "".join(source for source, _ in pairs), "".join(target for _, target in pairs)


@dataclass(frozen=True)
class Rules:
    """The rules of one attribute, checked; `kind` is what its values are: text, numbers, truth values or dates."""

    kind: str
    strip: bool
    casefold: bool
    aliases: Mapping[str, Any]
    missing: tuple[Any, ...]
    formats: tuple[Format, ...]
    decimal: str
    thousands: str
    units: tuple[str, ...]
    negative: tuple[str, ...]

    @classmethod
    def of(cls, kind: str, known: Callable[[Any], bool] | None = None, **given: Any) -> Rules | None:
        """The checked rules; None if there is no rule. `known` states whether the target of an alias is a category."""
        stated = {name: value for name, value in given.items() if not _left_out(name, value)}
        for name in stated:
            if name not in _ALLOWED[kind]:
                raise DomainError(f"{name} does not apply to {kind}; leave it out")
        if not stated:
            return None
        for name in ("strip", "casefold"):
            if not isinstance(stated.get(name, False), bool):
                raise DomainError(f"{name} {shown(stated[name])} must be true or false")
        formats = stated.get("format", ())
        rules = cls(
            kind,
            stated.get("strip", False),
            stated.get("casefold", False),
            _checked_aliases(stated.get("aliases", {}), kind),
            _checked_missing(stated.get("missing", ()), kind),
            tuple(map(parsed_format, _listed([formats] if isinstance(formats, str) else formats, "format"))),
            _mark("decimal", stated.get("decimal", "."), (".", ",")),
            _mark("thousands", stated.get("thousands", ""), ("", *_THOUSANDS)),
            _checked_units(stated.get("units", ())),
            _checked_negative(stated.get("negative", ())),
        )
        rules._refuse_conflicts(known)
        return rules

    def _refuse_conflicts(self, known: Callable[[Any], bool] | None) -> None:
        if self.thousands and self.thousands == self.decimal:
            other = shown("," if self.decimal == "." else ".")
            raise DomainError(
                f"thousands and decimal are both {shown(self.decimal)}; "
                f"give two different marks, such as decimal = {other}"
            )
        if "parentheses" in self.negative and any("(" in unit or ")" in unit for unit in self.units):
            raise DomainError("a unit holds parentheses, which negative numbers stand in; leave one of the two out")
        if len({self.key(text) for text in self.aliases}) < len(self.aliases):
            raise DomainError("two aliases read the same; leave one out")
        for text, value in self.aliases.items():
            if self.key(text) in self.missing_texts:
                raise DomainError(f"{shown(text)} is both an alias and a mark of missing values; leave one out")
            if known is not None and not known(value):
                raise DomainError(f"alias {shown(text)} leads to {shown(value)}, which is not a declared value")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a domain file, without omitted keys."""
        formats = [form.text for form in self.formats]
        written = {
            "strip": self.strip,
            "casefold": self.casefold,
            "aliases": dict(self.aliases),
            "missing": list(self.missing),
            "format": formats[0] if len(formats) == 1 else formats,
            "decimal": self.decimal if self.decimal != "." else "",
            "thousands": self.thousands,
            "units": list(self.units),
            "negative": list(self.negative),
        }
        return {name: value for name, value in written.items() if value}

    def key(self, text: str) -> str:
        """The part of a text that is compared with categories, aliases and marks."""
        stripped = self.stripped(text)
        return fold(stripped) if self.casefold else stripped

    def stripped(self, text: str) -> str:
        return text.strip(BLANKS) if self.strip else text

    @cached_property
    def missing_texts(self) -> frozenset[str]:
        """Keys of the texts that mean a missing value."""
        return frozenset(self.key(mark) for mark in self.missing if isinstance(mark, str))

    @cached_property
    def missing_numbers(self) -> frozenset[float]:
        """Numbers (days since 1970 where the values are dates) that mean a missing value."""
        readings = [day_of(mark) if self.kind == "dates" else number_of(mark) for mark in self.missing]
        wanted = [m for m, mark in zip(readings, self.missing, strict=True) if self._by_value(mark)]
        return frozenset(number for number in wanted if isinstance(number, float))

    def _by_value(self, mark: Any) -> bool:
        return self.kind == "dates" or not isinstance(mark, str)

    @cached_property
    def alias_texts(self) -> dict[str, str]:
        """The key of each alias, and the plain text of its target."""
        return {self.key(text): self._plain_of(value) for text, value in self.aliases.items()}

    def _plain_of(self, value: Any) -> str:
        if self.kind == "numbers":
            return number_text(float(value))
        return self.key(str(text_of(value))) if self.kind == "text" else str(text_of(value))

    @cached_property
    def number_forms(self) -> tuple[tuple[str, Template], ...]:
        """Patterns of numbers, and the groups of sign and digits; empty if no rule rewrites numbers.

        No text matches two of them.
        """
        if self.decimal == "." and not self.thousands and not self.units and not self.negative:
            return ()
        # Without bounds on the digits, which PostgreSQL unrolls: the plain reading of numbers has them.
        point, digits = escaped(self.decimal), "[0-9]+"
        if self.thousands:
            digits = f"(?:[0-9]{{1,3}}(?:[{self.thousands_marks}][0-9]{{3}})+|{digits})"
        unit = f"(?:{'|'.join(map(escaped, self.units))})"
        before, after = (f"(?:{unit}{_SPACES})?", f"(?:{_SPACES}{unit})?") if self.units else ("", "")
        number = f"((?:{digits}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]{{1,2}})?)"
        # No two repetitions of blanks meet, so that no cell takes longer than its length.
        start, end = f"^{_SPACES}{before}", f"{after}{_SPACES}$"
        forms: list[tuple[str, Template]] = [(f"{start}(?:([+-]){_SPACES}{before})?{number}{end}", (1, 2))]
        if "parentheses" in self.negative:
            forms.append((f"{start}\\({_SPACES}{before}{number}{after}{_SPACES}\\){end}", ("-", 1)))
        if "trailing" in self.negative:
            forms.append((f"{start}{number}{after}{_SPACES}\\-{end}", ("-", 1)))
        return tuple(forms)

    @property
    def thousands_marks(self) -> str:
        return _ALIKE.get(self.thousands, self.thousands)

    @cached_property
    def _numbers(self) -> tuple[tuple[re.Pattern[str], Template], ...]:
        return tuple(
            (re.compile(pattern.removesuffix("$") + r"\Z"), template) for pattern, template in self.number_forms
        )

    def plain(self, value: Any) -> Any:
        """The cell as it would be written without rules: text is rewritten, other values are unchanged.

        Whole numbers count as their digits where categories are text, and where dates have a format.
        """
        value = plain(value)
        text = text_of(value) if self.kind == "text" or (self.formats and type(value) is int) else value
        return self.rewritten(text) if isinstance(text, str) else value

    def rewritten(self, text: str) -> str | None:
        """The plain text of a text cell; None if it marks a missing value."""
        key = self.key(text)
        if key in self.missing_texts:
            return None
        if key in self.alias_texts:
            return self.alias_texts[key]
        stripped = self.stripped(text)
        if self.kind == "text":
            return key
        if self.kind == "numbers" and self._numbers:
            return self._pointed(stripped)
        for form in self.formats:
            if (iso := form.read(stripped)) is not None:
                return iso
        return stripped

    def _pointed(self, text: str) -> str:
        """The plain decimal text of a number; sign and exponent hold no mark."""
        for pattern, template in self._numbers:
            if (found := pattern.match(text)) is not None:
                pieces = [(found[piece] or "") if isinstance(piece, int) else piece for piece in template]
                return "".join(pieces).translate(str.maketrans(self.decimal, ".", self.thousands_marks))
        return UNREADABLE

    def means_missing(self, number: float) -> bool:
        """Whether a number, or an instant in days, is declared to mean a missing value."""
        day = self.kind == "dates" and math.isfinite(number)
        return (math.floor(number) if day else number) in self.missing_numbers


def _left_out(name: str, value: Any) -> bool:
    empty = isinstance(value, (str, list, tuple, dict)) and not value
    return value is None or value is False or empty or (name == "decimal" and isinstance(value, str) and value == ".")


def _listed(given: Any, name: str) -> list[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not has_items(given):
        raise DomainError(f"{name} {shown(given)} must be a list")
    return list(given)


def _mark(name: str, value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(shown(mark) for mark in known if mark)
        raise DomainError(f"{name} {shown(value)} must be one of {listed}")
    return value


def _checked_units(given: Any) -> tuple[str, ...]:
    units = _listed([given] if isinstance(given, str) else given, "units")
    for unit in units:
        odd = not isinstance(unit, str) or not 0 < len(unit) <= LONGEST_UNIT or unit != unit.strip(BLANKS)
        if odd or any(c.isdigit() or not c.isprintable() or c in "+-.,'_" for c in unit):
            raise DomainError(
                f'unit {shown(unit)} must be a short text without digits, signs and points, such as "$" or "kg"'
            )
        checked_text(unit)
    if len(units) > MOST_UNITS:
        raise DomainError(f"units has {len(units)} entries; at most {MOST_UNITS}")
    return tuple(sorted(set(units), key=lambda unit: (-len(unit), unit)))


def _checked_negative(given: Any) -> tuple[str, ...]:
    ways = _listed([given] if isinstance(given, str) else given, "negative")
    for way in ways:
        if not isinstance(way, str) or way not in _NEGATIVE:
            raise DomainError(f'negative {shown(way)} must be "parentheses", as in (5), or "trailing", as in 5-')
    return tuple(way for way in _NEGATIVE if way in ways)


def _checked_missing(given: Any, kind: str) -> tuple[Any, ...]:
    marks = []
    for mark in _listed(given, "missing"):
        value = plain(mark)
        if isinstance(value, datetime.date) and kind == "dates":
            value = value.isoformat()[:10]
        if kind == "text" and not isinstance(value, str):
            value = text_of(value)
        if isinstance(value, str):
            value = checked_text(value)
        elif kind == "numbers" and not isinstance(value, bool) and _finite(value):
            value = _number(value)
        else:
            raise DomainError(f"mark {shown(mark)} of missing values must be text{_or_value(kind)}")
        if value not in marks:
            marks.append(value)
    return tuple(marks)


def _finite(value: Any) -> bool:
    number = number_of(value)
    return isinstance(number, float) and math.isfinite(number)


def _number(value: Any) -> int | float:
    """A number in its plain form: 9 and 9.0 are the same declaration."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < EXACT_FLOAT else number


def _or_value(kind: str) -> str:
    return {"numbers": " or a finite number", "dates": " or a date"}.get(kind, "")


def _checked_aliases(given: Any, kind: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise DomainError(f'aliases {shown(given)} must be a table such as {{M = "Male"}}')
    aliases = {}
    for text, value in given.items():
        if not isinstance(text, str):
            raise DomainError(f"alias {shown(text)} must be text")
        aliases[checked_text(text)] = _alias_value(text, plain(value), kind)
    return aliases


def _alias_value(text: str, value: Any, kind: str) -> Any:
    if kind == "dates" and isinstance(value, datetime.date):
        return value.isoformat()[:10]
    fits = {
        "text": isinstance(value, str),
        "numbers": not isinstance(value, (bool, str)) and _finite(value),
        "truth values": isinstance(truth_of(value), bool) and isinstance(value, bool),
        "dates": isinstance(value, str) and isinstance(day_of(value), float),
    }
    if not fits[kind]:
        wanted = {"text": "a declared text", "numbers": "a number", "dates": "a date"}.get(kind, "true or false")
        raise DomainError(f"alias {shown(text)} leads to {shown(value)}; it must lead to {wanted}")
    if kind != "numbers":
        return value
    if not isinstance(number_of(number_text(float(value))), float):
        raise DomainError(f"alias {shown(text)} leads to {shown(value)}; it must lead to a number below 1e99")
    return _number(value)
