"""Attributes whose values are listed: categories, and integers that are their own codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from reticent.domain.attribute import (
    NULL_LABEL,
    OTHER_LABEL,
    Attribute,
    Status,
    asked_number,
    checked_extras,
    checked_text,
    closest,
    declare,
    extras_of,
    shown,
)
from reticent.domain.rules import Rules
from reticent.domain.values import EXACT_FLOAT, Unread, number_of, number_text, plain, text_of, truth_of
from reticent.errors import DomainError, QueryError, has_items, whole_number

_COMPARE = {">=": np.greater_equal, "<": np.greater_equal, ">": np.greater, "<=": np.greater}
_READERS = {"text": text_of, "numbers": number_of, "truth values": truth_of}


@dataclass(frozen=True, init=False, eq=False)
class Categorical(Attribute):
    """A declared list of values: all text, all numbers or all truth values.

    Text values match exactly (whole numbers, truth values and dates by their text: 1 and 1.0 match "1"). Numbers match
    as 64-bit floats (text of a decimal number counts). Truth values match 1, 0, "true" and "false".

    Reading rules change how a cell is read, never the declared values: `strip` removes blanks, `casefold` ignores case,
    `aliases` maps other spellings to declared values, `missing` lists marks of a missing value. For numbers, `decimal`,
    `thousands`, `units` and `negative` describe how they are written (docs/domain.md).

    Args:
        values: The declared values, in the order of their codes.
        nullable: Whether missing values have a separate code; otherwise they are treated as values outside the list.
        other: Whether values outside the list have a separate code.
        strip: Remove blanks at both ends of a text.
        casefold: Ignore case.
        aliases: A mapping from other spellings to declared values.
        missing: Marks of a missing value.
        decimal: The decimal mark of numbers.
        thousands: The separator of thousands.
        units: Texts that may stand before or after a number.
        negative: How negative numbers may be written: "parentheses" as in (5), "trailing" as in 5-.

    Raises:
        DomainError: There are no values, repeated values, or values of mixed types.

    Example:
        >>> import reticent as rt
        >>> rt.Domain(sex=rt.Categorical(["f", "m"], other=False))["sex"].size
        2
    """

    values: tuple[Any, ...]
    nullable: bool
    other: bool
    rules: Rules | None
    type: ClassVar[str] = "categorical"

    def __init__(
        self,
        values: Iterable[Any],
        *,
        nullable: bool = False,
        other: bool | None = None,
        strip: bool = False,
        casefold: bool = False,
        aliases: Mapping[str, Any] | None = None,
        missing: Iterable[Any] = (),
        decimal: str = ".",
        thousands: str = "",
        units: str | Iterable[str] = (),
        negative: str | Iterable[str] = (),
    ) -> None:
        if isinstance(values, (str, bytes, Mapping)) or not has_items(values):
            raise DomainError(f"values {shown(values)} must be a list")
        listed = tuple(_category(value) for value in values)
        if not listed:
            raise DomainError("values is empty; list at least one value")
        kinds = {_kind_of(value) for value in listed}
        if len(kinds) > 1:
            raise DomainError(f"values mix {' and '.join(sorted(kinds))}; write them all as text or all as numbers")
        nullable, other = checked_extras(nullable, other)
        rules = Rules.of(
            kinds.pop(),
            strip=strip,
            casefold=casefold,
            aliases=aliases,
            missing=missing,
            decimal=decimal,
            thousands=thousands,
            units=units,
            negative=negative,
            known=frozenset(listed).__contains__,
        )
        declare(self, values=listed, known=len(listed), nullable=nullable, other=other, rules=rules)
        if len(self._codes) < len(listed):
            twice = next(value for place, value in enumerate(listed) if self._codes[self._key(value)] != place)
            again = "is listed twice" if rules is None else "reads like another one listed"
            raise DomainError(f"value {shown(twice)} {again}")
        if rules is not None:
            self._refuse_hidden(rules)

    def _refuse_hidden(self, rules: Rules) -> None:
        """Refuse a declared value that the rules read as something else, because no cell could match it."""
        for code, value in enumerate(self.values):
            if self._judge_one(value) != (code, Status.FITS):
                raise DomainError(f"value {shown(value)} is also an alias or a mark of missing values; leave one out")

    @cached_property
    def kind(self) -> str:
        """`text`, `numbers` or `truth values`: the type that decides equality."""
        return _kind_of(self.values[0])

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "values": list(self.values), **extras_of(self)}

    def _read(self, value: Any) -> Any:
        return _READERS[self.kind](value)

    def _key(self, value: Any) -> Any:
        """The comparison key of a declared value; without blanks and case if the rules say so."""
        reading = self._read(value)
        return self.rules.key(reading) if self.rules is not None and self.kind == "text" else reading

    @cached_property
    def _codes(self) -> dict[Any, int]:
        codes: dict[Any, int] = {}
        for code, value in enumerate(self.values):
            codes.setdefault(self._key(value), code)
        return codes

    @property
    def keys(self) -> tuple[Any, ...]:
        """The comparison key of each declared value."""
        return tuple(self._key(value) for value in self.values)

    @cached_property
    def _listed(self) -> dict[Any, int]:
        """Questions use declared values as written: rules apply to cells only."""
        return {self._read(value): code for code, value in enumerate(self.values)}

    def _known_labels(self) -> tuple[str, ...]:
        if self.kind == "numbers":
            return tuple(number_text(value) for value in self.values)
        return tuple(str(text_of(value)) for value in self.values)

    def _known_value(self, code: int) -> Any:
        return self.values[code]

    def _known_numbers(self) -> np.ndarray | None:
        return np.array(self.values, dtype=np.float64) if self.kind == "numbers" else None

    def _judge_one(self, value: Any) -> tuple[int, Status]:
        reading = self._read(value if self.rules is None else self.rules.plain(value))
        if self.rules is not None and isinstance(reading, float) and self.rules.means_missing(reading):
            reading = Unread.NULL
        if reading is Unread.NULL:
            return self.missing_code, Status.NULL
        code = self._codes.get(reading)
        return (self.misfit_code, Status.UNFIT) if code is None else (code, Status.FITS)

    def _encode_numbers(self, values: np.ndarray) -> np.ndarray:
        distinct, place = np.unique(values, return_inverse=True)
        codes = np.array([self._judge_one(value)[0] for value in distinct], dtype=np.int64)
        return codes[place]

    def _members(self, op: str, values: list[Any], name: str) -> np.ndarray:
        mask = np.zeros(self.known, dtype=bool)
        for value in values:
            code = self._listed.get(self._read(value))
            if code is None:
                hint = closest(str(text_of(value)), self.labels[: self.known])
                raise QueryError(f"{name} {op} {shown(value)}: not one of the {self.known} declared values{hint}")
            mask[code] = True
        return mask

    def _above(self, op: str, value: Any, name: str) -> np.ndarray:
        numbers = self._known_numbers()
        if numbers is None:
            raise QueryError(
                f"{name} {op} {shown(value)}: values declared as {self.kind} have no order; use == or isin"
            )
        return _COMPARE[op](numbers, asked_number(op, value, name))


@dataclass(frozen=True, init=False, eq=False)
class Integer(Attribute):
    """Integers 0..size-1 that are their own codes; every other value gets code 0.

    Args:
        size: The number of codes, at least 1.

    Raises:
        DomainError: `size` is not a whole number above 0.

    Example:
        >>> import reticent as rt
        >>> rt.Domain(day=rt.Integer(7))["day"].size
        7
    """

    known: int
    type: ClassVar[str] = "integer"

    def __init__(self, size: int) -> None:
        declare(self, known=whole_number(size, "size", 1, error=DomainError), nullable=False, other=False)

    def __repr__(self) -> str:
        return f"Integer({self.known})"

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "size": self.known}

    def _known_labels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.known)))

    def _known_value(self, code: int) -> int:
        return code

    def _known_numbers(self) -> np.ndarray:
        return np.arange(self.known, dtype=np.float64)

    def _judge_one(self, value: Any) -> tuple[int, Status]:
        number = number_of(value)
        if isinstance(number, float) and 0 <= number < self.known and number.is_integer():
            return int(number), Status.FITS
        return 0, Status.NULL if number is Unread.NULL else Status.UNFIT

    def _encode_numbers(self, values: np.ndarray) -> np.ndarray:
        numbers = values.astype(np.float64)
        fits = (numbers >= 0) & (numbers < self.known) & (np.floor(numbers) == numbers)
        return np.where(fits, numbers, 0).astype(np.int64)

    def _members(self, op: str, values: list[Any], name: str) -> np.ndarray:
        mask = np.zeros(self.known, dtype=bool)
        for value in values:
            number = asked_number(op, value, name)
            if not (0 <= number < self.known and number.is_integer()):
                raise QueryError(f"{name} {op} {shown(value)}: not one of the integers 0..{self.known - 1}")
            mask[int(number)] = True
        return mask

    def _above(self, op: str, value: Any, name: str) -> np.ndarray:
        return _COMPARE[op](self._known_numbers(), asked_number(op, value, name))


def _category(value: Any) -> Any:
    """One declared value in its plain form: whole floats as integers, so 1 and 1.0 are one declaration."""
    value = plain(value)
    if isinstance(value, str):
        if value in (NULL_LABEL, OTHER_LABEL):
            raise DomainError(f"value {shown(value)} is reserved; use nullable = true or other = true")
        return checked_text(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < EXACT_FLOAT:
        return int(value)
    if isinstance(value, float) and abs(value) < float("inf"):
        return int(value) if value.is_integer() and abs(value) < EXACT_FLOAT else value
    raise DomainError(f"value {shown(value)} must be text, a finite number below 2^53 or a truth value")


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    return "truth values" if isinstance(value, bool) else "numbers"
