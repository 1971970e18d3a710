"""`Undeclared`: a column whose reading rules are known but whose edges or categories are not."""

# Arguments are checked at run time too, for callers without a type checker.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from reticent.domain.attribute import Attribute, Status, checked_extras, declare, shown
from reticent.domain.categorical import Categorical
from reticent.domain.numeric import Edge, Numeric, checked_edge
from reticent.domain.rules import Rules
from reticent.domain.values import Unread, microsecond_of, number_of, text_of
from reticent.errors import DomainError

Kind = Literal["number", "date", "datetime", "text"]
_RULES = {"number": "numbers", "date": "dates", "datetime": "dates", "text": "text"}


@dataclass(frozen=True, init=False, eq=False)
class Undeclared(Attribute):
    """A column without edges or categories, which private discovery (`rt.discover`) can find. All values share one
    code.

    Args:
        kind: The type of the cells: "number", "date", "datetime" or "text".
        nullable, other: Whether the discovered attribute has these codes, as for `Numeric` and `Categorical`.
        whole: Whether numbers, and therefore edges, are whole.
        lower, upper: Public bounds of numbers or dates, if they are known. They make discovery more accurate, because
            fewer edges are possible, and the end bins extend to the bounds.
        format, strip, casefold, aliases, missing, decimal, thousands, units, negative: Reading rules (docs/domain.md).

    Raises:
        DomainError: The kind is unknown, or a reading rule does not apply to it.

    Example:
        >>> Undeclared("date", format="%d/%m/%Y").read("31/12/1999")
        946598400.0
    """

    kind: Kind
    whole: bool
    lower: Edge | None
    upper: Edge | None
    rules: Rules | None
    extras: Mapping[str, bool]
    type: ClassVar[str] = "undeclared"

    def __init__(
        self,
        kind: Kind,
        *,
        nullable: bool = False,
        other: bool | None = None,
        whole: bool = False,
        lower: Edge | None = None,
        upper: Edge | None = None,
        format: str | Iterable[str] = (),
        strip: bool = False,
        casefold: bool = False,
        aliases: Mapping[str, Any] | None = None,
        missing: Iterable[Any] = (),
        decimal: str = ".",
        thousands: str = "",
        units: str | Iterable[str] = (),
        negative: str | Iterable[str] = (),
    ) -> None:
        if not isinstance(kind, str) or kind not in get_args(Kind):
            raise DomainError(f"kind {shown(kind)} must be one of {', '.join(get_args(Kind))}")
        rules = Rules.of(
            _RULES[kind],
            format=format,
            strip=strip,
            casefold=casefold,
            aliases=aliases,
            missing=missing,
            decimal=decimal,
            thousands=thousands,
            units=units,
            negative=negative,
        )
        if not isinstance(whole, bool) or (whole and kind != "number"):
            raise DomainError(f"whole {shown(whole)} must be true or false, and is for numbers only")
        bounds = [None if bound is None else _bound(bound, kind) for bound in (lower, upper)]
        if None not in bounds and not _seconds(bounds[0]) < _seconds(bounds[1]):
            raise DomainError(f"lower {shown(lower)} must be below upper {shown(upper)}")
        checked_extras(nullable, other)
        extras = ({"nullable": True} if nullable else {}) | ({} if other is None else {"other": other})
        fields = {"kind": kind, "whole": whole, "lower": bounds[0], "upper": bounds[1], "rules": rules}
        declare(self, known=1, nullable=False, other=False, extras=extras, **fields)

    def to_dict(self) -> dict[str, Any]:
        stated = {"whole": self.whole, "lower": _plain(self.lower), "upper": _plain(self.upper)}
        kept = {name: value for name, value in stated.items() if value is not None and value is not False}
        rules = {} if self.rules is None else self.rules.to_dict()
        return {"type": self.type, "kind": self.kind, **kept, **self.extras, **rules}

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both public bounds, as numbers or seconds since 1970; None unless both are given."""
        if self.lower is None or self.upper is None:
            return None
        return _seconds(self.lower), _seconds(self.upper)

    def found(self, edges: Iterable[Edge]) -> Numeric:
        """The numeric attribute with the discovered edges and the other settings of this column.

        Args:
            edges: Edges of its bins.

        Returns:
            A numeric attribute.

        Raises:
            DomainError: The edges do not increase.

        Example:
            >>> import reticent as rt
            >>> rt.Undeclared("number").found([0, 10, 20]).known
            2
        """
        rules = {} if self.rules is None else self.rules.to_dict()
        return Numeric(edges=edges, whole=self.whole, **self.extras, **rules)

    def listing(self, texts: Iterable[str]) -> Categorical:
        """The categorical attribute with the discovered categories and the other settings of this column.

        Args:
            texts: Its categories; aliases of other values are left out.

        Returns:
            A categorical attribute.

        Raises:
            DomainError: A category is listed twice.

        Example:
            >>> import reticent as rt
            >>> rt.Undeclared("text").listing(["no", "yes"]).known
            2
        """
        listed = list(texts)
        rules = {} if self.rules is None else self.rules.to_dict()
        if self.rules is not None and self.rules.aliases:
            targets = {alias: self.rules.key(value) for alias, value in self.rules.aliases.items()}
            rules["aliases"] = {alias: target for alias, target in targets.items() if target in listed}
        return Categorical(listed, **self.extras, **rules)

    def read(self, value: Any) -> str | float | None:
        """The text or number of one raw value.

        Args:
            value: A cell.

        Returns:
            A text, a number, or seconds since 1970; None if the value cannot be read.

        Example:
            >>> import reticent as rt
            >>> rt.Undeclared("number").read("12.5")
            12.5
        """
        plain = value if self.rules is None else self.rules.plain(value)
        reader = {"number": number_of, "text": text_of}.get(self.kind, microsecond_of)
        reading = reader(plain)
        if isinstance(reading, Unread):
            return None
        if isinstance(reading, str):
            return reading
        number = reading if self.kind == "number" else reading / 1e6
        days = number / 86_400 if self.kind != "number" else number
        return None if self.rules is not None and self.rules.means_missing(days) else number

    def _known_labels(self) -> tuple[str, ...]:
        return ("(undeclared)",)

    def _known_value(self, code: int) -> None:
        return None

    def _known_numbers(self) -> None:
        return None

    def _judge_one(self, value: Any) -> tuple[int, Status]:
        return 0, Status.FITS

    def _encode_numbers(self, values: np.ndarray) -> np.ndarray:
        return np.zeros(len(values), dtype=np.int64)

    def _members(self, op: str, values: list[Any], name: str) -> np.ndarray:
        raise DomainError(f"{name} is not declared yet: discover its values first")

    def _above(self, op: str, value: Any, name: str) -> np.ndarray:
        raise DomainError(f"{name} is not declared yet: discover its edges first")


def _bound(value: Any, kind: Kind) -> Edge:
    edge = checked_edge(value)
    fits = {
        "number": isinstance(edge, (int, float)),
        "date": isinstance(edge, datetime.date) and not isinstance(edge, datetime.datetime),
        "datetime": isinstance(edge, datetime.date),
    }
    if not fits.get(kind, False):
        raise DomainError(f"bound {shown(value)} is not a {kind}; give one, or leave it out")
    return edge


def _seconds(edge: Any) -> float:
    reading = number_of(edge) if isinstance(edge, (int, float)) else microsecond_of(edge)
    assert isinstance(reading, float)
    return reading if isinstance(edge, (int, float)) else reading / 1e6


def _plain(edge: Edge | None) -> Any:
    return edge.isoformat() if isinstance(edge, datetime.date) else edge
