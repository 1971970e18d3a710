"""A result table is a frozen public value: rows, the error of every aggregate, and with what confidence they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from html import escape
from typing import Any

from reticent.answer import ORIGINS
from reticent.errors import QueryError

SHOWN_ROWS = 40
Cell = str | int | float | bool | None


@dataclass(frozen=True)
class ResultTable:
    """What a SQL statement returned.

    `errors` has the shape of `rows`: for an aggregate, a bound on `abs(value - truth)`, or None where nothing is
    certified; None for group columns. With probability `confidence` all stated bounds hold at once. Which groups
    HAVING, ORDER BY and LIMIT leave is decided on the noisy values, and no statement is made about the groups left out.
    """

    sql: str
    columns: tuple[str, ...]
    aggregates: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]
    errors: tuple[tuple[float | None, ...], ...]
    confidence: float | None
    certified: bool
    origin: str
    price: float
    note: str = ""
    """What was wanted and not reached, in one line."""

    def __post_init__(self) -> None:
        widths = {len(self.columns), len(self.aggregates), *map(len, self.rows), *map(len, self.errors)}
        if len(widths) > 1 or len(self.rows) != len(self.errors):
            raise QueryError("a result table needs one value and one error per row and column")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        return iter(self.rows)

    @property
    def guarantee(self) -> str:
        """The error statement in a few words."""
        if not self.rows:
            return "no group is left"
        if self.confidence is None or not any(error is not None for row in self.errors for error in row):
            return "uncertified"
        together = f"all bounds hold together with probability {self.confidence:.6g}"
        return together if self.certified else f"{together}; values without ± are uncertified"

    def __repr__(self) -> str:
        cells = [list(self.columns), *(self._texts(place) for place in range(min(len(self.rows), SHOWN_ROWS)))]
        widths = [max(len(row[place]) for row in cells) for place in range(len(self.columns))]
        lines = ["  ".join(self._aligned(row, widths)).rstrip() for row in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        if len(self.rows) > SHOWN_ROWS:
            lines.append(f"... {len(self.rows) - SHOWN_ROWS} more rows")
        lines.append(f"({self._footer()})")
        return "\n".join(lines)

    def _aligned(self, row: list[str], widths: list[int]) -> list[str]:
        return [
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, self.aggregates, strict=True)
        ]

    def _footer(self) -> str:
        count = f"{len(self.rows)} {'row' if len(self.rows) == 1 else 'rows'}"
        noted = f"; {self.note}" if self.note else ""
        return f"{count}; {self.guarantee}; {self.origin}; price {self.price:.3g}{noted}"

    def _texts(self, place: int) -> list[str]:
        columns = zip(self.rows[place], self.errors[place], self.aggregates, strict=True)
        return [_text(value, error, number) for value, error, number in columns]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        listed = {name: list(plain[name]) for name in ("columns", "aggregates")}
        return plain | listed | {name: [list(row) for row in plain[name]] for name in ("rows", "errors")}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> ResultTable:
        """The inverse of `to_dict`."""
        listed: dict[str, Any] = {name: tuple(content[name]) for name in ("columns", "aggregates")}
        listed |= {name: tuple(map(tuple, content[name])) for name in ("rows", "errors")}
        return cls(**(content | listed))

    def to_arrow(self) -> Any:
        """Each aggregate is followed by a column with its error."""
        import pyarrow as pa

        columns: dict[str, Any] = {}
        for place, name in enumerate(self.columns):
            values = [row[place] for row in self.rows]
            if not self.aggregates[place]:
                columns[name] = pa.array(_uniform(values))
                continue
            columns[name] = pa.array(values, type=pa.float64())
            title = f"{name}_error"
            while title in columns or title in self.columns:
                title += "_"
            columns[title] = pa.array([row[place] for row in self.errors], type=pa.float64())
        return pa.table(columns)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def plot(self) -> Any:
        """Bars with error bars, one panel per aggregate; needs matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise QueryError("plot() needs matplotlib; install it, or use to_pandas()") from None
        numbers = [place for place, number in enumerate(self.aggregates) if number]
        figure = Figure(figsize=(7, 2.6 * len(numbers)), layout="constrained")
        labels = [self._label(row) for row in self.rows]
        for panel, place in enumerate(numbers, start=1):
            axes = figure.add_subplot(len(numbers), 1, panel)
            values = [float(row[place] or 0.0) for row in self.rows]
            axes.bar(range(len(values)), values, yerr=[row[place] or 0.0 for row in self.errors], capsize=3)
            axes.set_xticks(range(len(values)), labels, rotation=30 if len(labels) > 6 else 0)
            axes.set_title(self.columns[place])
        return figure

    def _label(self, row: tuple[Cell, ...]) -> str:
        keys = zip(row, self.aggregates, strict=True)
        return ", ".join("(null)" if cell is None else str(cell) for cell, number in keys if not number)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        shown = range(min(len(self.rows), SHOWN_ROWS))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in self._texts(place)) + "</tr>" for place in shown
        )
        more = "" if len(self.rows) <= SHOWN_ROWS else f" ({len(self.rows) - SHOWN_ROWS} more rows not shown)"
        meaning = "; ".join(ORIGINS.get(origin, origin) for origin in self.origin.split(" + "))
        noted = f"; {self.note}" if self.note else ""
        footer = f"{self.guarantee}; {meaning}; price {self.price:.3g}{more}{noted}"
        return f"<div><table><tr>{head}</tr>{body}</table><small>{escape(footer)}</small></div>"


def _text(value: Cell, error: float | None, number: bool) -> str:
    if value is None:
        return "NULL"
    if not number or isinstance(value, str):
        return str(value)
    decimals = _decimals(float(value), error)
    shown = f"{value:,.{decimals}f}"
    return shown if error is None else f"{shown} ± {error:,.{decimals}f}"


def _decimals(value: float, error: float | None) -> int:
    """Two digits of the error are enough, and digits of the value below them say nothing."""
    if error:
        return min(12, max(0, 1 - math.floor(math.log10(error))))
    if value == round(value):
        return 0
    return min(12, max(0, 5 - math.floor(math.log10(abs(value)))))


def _uniform(values: list[Cell]) -> list[Cell]:
    """Arrow wants one type per column: numbers beside `(other)` become text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or len(kinds) < 2:
        return values
    return [None if value is None else str(value) for value in values]
