"""Types and ranges of settings, stated in their annotations and checked before anything is opened."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date, datetime, time
from functools import cache
from typing import Any, Protocol, get_type_hints

from reticent.errors import QueryError, has_type, is_list, is_mapping

_SHOWN = 60
_LONGEST_BITS = 256
"""Python refuses to write whole numbers of thousands of digits."""


class Rule(Protocol):
    """What a setting may be."""

    @property
    def quoted(self) -> bool:
        """Whether a TOML file writes it in quotes."""
        ...

    @property
    def wanted(self) -> str:
        """The remedy, as it follows "give"."""
        ...

    def typed(self, value: object) -> bool:
        """Whether the value has the right type."""
        ...

    def holds(self, value: Any) -> bool:
        """Whether a value of the right type is in the range."""
        ...


@dataclass(frozen=True)
class Number:
    """A finite number; `over` and `under` are excluded bounds."""

    least: float | None = None
    most: float | None = None
    over: float | None = None
    under: float | None = None
    whole: bool = False
    quoted = False

    @property
    def wanted(self) -> str:
        noun = "a whole number" if self.whole else "a number"
        if self.least is not None and self.most is not None:
            return f"{noun} from {_plain(self.least)} to {_plain(self.most)}"
        bounds = (
            ("of at least", self.least),
            ("above", self.over),
            ("of at most", self.most),
            ("below", self.under),
        )
        return f"{noun} {' and '.join(f'{words} {_plain(bound)}' for words, bound in bounds if bound is not None)}"

    def typed(self, value: object) -> bool:
        return not has_type(value, bool) and has_type(value, int if self.whole else (int, float))

    def holds(self, value: Any) -> bool:
        try:
            finite = math.isfinite(value)
        except OverflowError:
            return False
        return (
            finite
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.over is None or value > self.over)
            and (self.under is None or value < self.under)
        )


@dataclass(frozen=True)
class Text:
    """Text without zero bytes; `noun` says what it names."""

    noun: str = "text"
    empty: bool = False
    longest: int | None = None
    quoted = True

    @property
    def wanted(self) -> str:
        return self.noun if self.longest is None else f"{self.noun} of at most {self.longest} characters"

    def typed(self, value: object) -> bool:
        return has_type(value, str)

    def holds(self, value: Any) -> bool:
        fits = self.longest is None or len(value) <= self.longest
        return fits and "\0" not in value and (self.empty or bool(value.strip()))


@dataclass(frozen=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]
    quoted = True

    @property
    def wanted(self) -> str:
        return " or ".join(json.dumps(word) for word in self.words)

    def typed(self, value: object) -> bool:
        return has_type(value, str)

    def holds(self, value: Any) -> bool:
        return value in self.words


@dataclass(frozen=True)
class Flag:
    """True or false."""

    quoted = False
    wanted = "true or false"

    def typed(self, value: object) -> bool:
        return has_type(value, bool)

    def holds(self, value: Any) -> bool:
        return True


@cache
def rules_of(kind: type) -> Mapping[str, Rule]:
    """The rule of each field that states one, from its annotation `Annotated[type, rule]`."""
    hints = get_type_hints(kind, include_extras=True)
    found = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: stated[0] for name, stated in found.items() if stated}


def check_values(values: Mapping[str, Any], kind: type, where: str = "") -> None:
    """Refuse the first value with a wrong type or outside its range; `where` names its section of a file.

    None is accepted where it is the default. The message shows no text that could hold a password.
    """
    rules = rules_of(kind)
    absent = {item.name for item in fields(kind) if item.default is None}
    for name, value in values.items():
        rule = rules.get(name)
        if rule is None or (value is None and name in absent):
            continue
        if not rule.typed(value):
            marks = ", in quotes" if rule.quoted else ", without quotes" if has_type(value, str) else ""
            raise QueryError(f"{where}{name} is {_shown(value)} ({_noun(value)}); give {rule.wanted}{marks}")
        if not rule.holds(value):
            raise QueryError(f"{where}{name} is {_ranged(value, rule)}; give {rule.wanted}")


def check_present(values: Mapping[str, Any], kind: type, examples: Mapping[str, str], where: str) -> None:
    """Refuse a section without one of its required settings."""
    needed = (item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING)
    for name in needed:
        if name not in values:
            raise QueryError(f"{where} states no {name}; add {name} = {examples[name]}")


def _plain(bound: float) -> str:
    return f"{bound:,}" if has_type(bound, int) else f"{bound:g}"


def _ranged(value: Any, rule: Rule) -> str:
    """A value outside its range; of free text only the defect, since the URL of a table may hold a password."""
    if not has_type(rule, Text):
        return _shown(value)
    if not value.strip():
        return "empty"
    return "text with a zero byte" if "\0" in value else f"{len(value):,} characters long"


def _shown(value: object) -> str:
    """A value as TOML writes it; of lists and sections nothing."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        return "too long to show"
    if is_list(value) or is_mapping(value):
        return "[...]" if is_list(value) else "{...}"
    text = json.dumps(value) if has_type(value, (str, bool)) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _noun(value: object) -> str:
    if value is None:
        return "nothing"
    nouns: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (str, "text"),
        (bool, "a truth value"),
        ((int, float), "a number"),
        ((datetime, date, time), "a date or time"),
        (list, "a list"),
        (Mapping, "a section"),
    )
    return next((noun for kind, noun in nouns if has_type(value, kind)), type(value).__name__)
