"""`ResultTable`: a frozen public value with rows, the error of every aggregate, and their joint confidence.

The module also states the basis of numbers: values clipped to their declared range, or each person's own mean.
"""

from __future__ import annotations

import datetime
import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.domain.values import confidence_text, decimals_of, number_text, with_error
from reticent.errors import QueryError
from reticent.knowledge.answer import ORIGINS, Cell, Framed, html_cell, key_column, new_name, shown_key
from reticent.queries.forms import scaled_numbers
from reticent.queries.literals import readable_name
from reticent.sql.expressions import Expr, MeanExpr, Partly, Run, Sum, walk
from reticent.sql.intervals import Interval
from reticent.sql.refusals import refused
from reticent.sql.vectors import (
    DATE,
    NUMERIC,
    SHOWN_UNIT,
    TEMPORAL,
    TEXT,
    Bins,
    BinText,
    Labels,
    Truth,
    Vector,
    shown_text,
    value_at,
)

if TYPE_CHECKING:
    from reticent.sql.population import PopulationTable
    from reticent.sql.statement import Statement


SHOWN_ROWS = 40
EXPLAINED = ("question", "origin", "bound", "confidence", "price")
"""The columns of EXPLAIN."""


@dataclass(frozen=True)
class ResultTable(Framed):
    """What a SQL statement returned.

    `errors` has the shape of `rows`: for an aggregate, a bound on `abs(value - truth)`, in days for dates and
    timestamps, or None where nothing is certified; None for group columns. With probability `confidence` all stated
    bounds hold at once. Which groups HAVING, ORDER BY and LIMIT leave is decided on the noisy values, and no statement
    is made about the groups left out.
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
    basis: str = ""
    """What sums and averages are of, in one line: values clipped to the declared range, persons' means."""
    types: tuple[str, ...] = ()
    """The kind of each column: number, integer, text, truth, date or timestamp; dates are shown as ISO text.

    An estimate of an integer may have a fraction.
    """
    typical: tuple[tuple[float | None, ...], ...] = ()
    """As `errors`, for counts: what 19 of 20 such questions err at most. Empty where nothing is stated."""

    def __post_init__(self) -> None:
        widths = {len(self.columns), len(self.aggregates), *map(len, self.rows), *map(len, self.errors)}
        if len(widths) > 1 or len(self.rows) != len(self.errors):
            raise QueryError("a result table needs one value and one error per row and column")

    def drawn_from(self, sample: Any) -> ResultTable:
        """The same table with a reference to its origin, which `population` needs."""
        self.__dict__["_sample"] = sample
        return self

    def population(self, confidence: float = 0.95, *, mode: str | None = None) -> PopulationTable:
        """The same rows with intervals for the population that the table's records were drawn from, independently.

        Args:
            confidence: Of each interval if estimated, of all together if certified.
            mode: "estimated" or "certified"; by default the estimate where the release has replicates.

        Returns:
            A result table whose errors are half-widths of these intervals, labelled with the mode. Counts are those
            expected in a table of the same size.

        Raises:
            QueryError: There are no replicates, nothing is certified, or the result came over HTTP or from a file.
        """
        from reticent.sql.population import population_table

        sample = self.__dict__.get("_sample")
        if sample is None:
            raise QueryError(
                "this result does not know its release or session, as after HTTP or a file; ask rt.Release.load(...)"
            )
        return population_table(self, sample, confidence, mode)

    def __getstate__(self) -> dict[str, Any]:
        """Without what it came from, which may be large and is not part of a result."""
        return {name: value for name, value in self.__dict__.items() if name != "_sample"}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def guarantee(self) -> str:
        """The error statement in a few words."""
        if not self.rows:
            return "no group is left"
        if self.origin == "public" and not any(self.aggregates):
            return "public"
        if self.confidence is None or not any(error is not None for row in self.errors for error in row):
            return "uncertified"
        together = f"all bounds hold together with probability {confidence_text(self.confidence)}"
        return together if self.certified else f"{together}; values without ± are uncertified"

    @property
    def usual(self) -> str:
        """What most such questions err, in a few words; what bounds every question bounds most of them."""
        found = []
        for place, name in enumerate(self.columns):
            stated = [error for row in self.typical if (error := row[place]) is not None]
            bounds = [error for row in self.errors if (error := row[place]) is not None]
            if stated:
                most = min(max(stated), max(bounds)) if len(bounds) == len(self.rows) else max(stated)
                if most > 0:  # nothing to add to exact numbers
                    found.append(f"{name} ± {most:,.3g}")
        return f"19 of 20 such questions are within {', '.join(found)}" if found else ""

    def __repr__(self) -> str:
        cells = [list(self.columns), *(self._texts(place) for place in range(min(len(self.rows), SHOWN_ROWS)))]
        widths = [max(text_width(row[place]) for row in cells) for place in range(len(self.columns))]
        lines = ["  ".join(self._aligned(row, widths)).rstrip() for row in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        if len(self.rows) > SHOWN_ROWS:
            lines.append(f"... {len(self.rows) - SHOWN_ROWS} more rows")
        lines.append(f"({self._footer()})")
        return "\n".join(lines)

    def _aligned(self, row: list[str], widths: list[int]) -> list[str]:
        return [
            " " * (width - text_width(text)) + text if number else text + " " * (width - text_width(text))
            for text, width, number in zip(row, widths, self.aggregates, strict=True)
        ]

    def _footer(self) -> str:
        count = f"{len(self.rows)} {'row' if len(self.rows) == 1 else 'rows'}"
        parts = (count, self.guarantee, self.origin, f"price {self.price:.3g}", self.usual, self.basis, self.note)
        return "; ".join(dict.fromkeys(text for text in parts if text))

    def _texts(self, place: int) -> list[str]:
        if self.columns == EXPLAINED and not any(self.aggregates):
            return [f"{value:.6g}" if isinstance(value, float) else shown_key(value) for value in self.rows[place]]
        kinds = self.types or ("",) * len(self.columns)
        columns = zip(self.rows[place], self.errors[place], self.aggregates, kinds, strict=True)
        return [_text(value, error, number, kind) for value, error, number, kind in columns]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        listed = {name: list(plain[name]) for name in ("columns", "aggregates", "types")}
        return plain | listed | {name: [list(row) for row in plain[name]] for name in ("rows", "errors", "typical")}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> ResultTable:
        """The inverse of `to_dict`."""
        listed: dict[str, Any] = {name: tuple(content.get(name, ())) for name in ("columns", "aggregates", "types")}
        listed |= {name: tuple(map(tuple, content.get(name, ()))) for name in ("rows", "errors", "typical")}
        return cls(**(content | listed))

    def to_arrow(self) -> Any:
        """Each aggregate is followed by a column with its error."""
        import pyarrow as pa

        columns: dict[str, Any] = {}
        for place, name in enumerate(self.columns):
            values = [row[place] for row in self.rows]
            if not self.aggregates[place]:
                columns[name] = key_column(values)
                continue
            if any(isinstance(value, (str, bool)) for value in values):
                columns[name] = key_column(values)
            else:
                columns[name] = pa.array(values, type=pa.float64())
            title = new_name(f"{name}_error", [*columns, *self.columns])
            columns[title] = pa.array([row[place] for row in self.errors], type=pa.float64())
        return pa.table(columns)

    def plot(self) -> Any:
        """A panel per aggregate: bars with error bars, or a heat map of two group columns; needs matplotlib.

        Aggregates that are texts or dates have no panel.
        """
        from reticent.knowledge.plotting import plot_groups

        keys = [place for place, number in enumerate(self.aggregates) if not number]
        worded = [any(isinstance(row[place], str) for row in self.rows) for place in range(len(self.columns))]
        numbers = [place for place, number in enumerate(self.aggregates) if number and not worded[place]]
        return plot_groups(
            [self.columns[place] for place in keys],
            [tuple(shown_key(row[place]) for place in keys) for row in self.rows],
            {
                self.columns[place]: (
                    [float(row[place] or 0.0) for row in self.rows],
                    [row[place] for row in self.errors],
                )
                for place in numbers
            },
            self.guarantee,
        )

    def _repr_html_(self) -> str:
        head = "".join(
            html_cell(name, number, "th") for name, number in zip(self.columns, self.aggregates, strict=True)
        )
        places = range(min(len(self.rows), SHOWN_ROWS))
        body = "".join(
            "<tr>"
            + "".join(html_cell(text, number) for text, number in zip(self._texts(place), self.aggregates, strict=True))
            + "</tr>"
            for place in places
        )
        more = "" if len(self.rows) <= SHOWN_ROWS else f" ({len(self.rows) - SHOWN_ROWS} more rows not shown)"
        meaning = "; ".join(ORIGINS.get(origin, origin) for origin in self.origin.split(" + "))
        noted = "".join(f"; {text}" for text in (self.usual, self.basis, self.note) if text)
        footer = f"{self.guarantee}; {meaning}; price {self.price:.3g}{more}{noted}"
        return f"<div><table><tr>{head}</tr>{body}</table><small>{escape(footer)}</small></div>"


def text_width(text: str) -> int:
    """The places that a text takes where letters have one width: two for wide ones, none for marks on others."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _text(value: Cell, error: float | None, number: bool, kind: str) -> str:
    if isinstance(value, str) and number and error and kind in TEMPORAL:
        return f"{value} ± {error:,.{decimals_of(error, error)}f} days"
    if value is None or not number or isinstance(value, (str, bool)):
        return shown_key(value)
    return with_error(float(value), error)


@dataclass(frozen=True)
class ResultColumn:
    """One column of a result: values, the error of each, and whether it is a number that noise may blur."""

    values: Sequence[Cell]
    errors: Sequence[float | None]
    number: bool
    kind: str


def column_of(expr: Expr, vector: Vector, rows: np.ndarray) -> ResultColumn:
    """Some rows of a computed column, as a result shows them."""
    if isinstance(vector, (Labels, Bins)) and expr.known is not None:
        return ResultColumn(
            _shown(vector.take(rows).listed()), [None] * len(rows), False, _shown_kind(vector, expr.kind)
        )
    if isinstance(vector, Truth):
        vector = vector.labelled()
    if isinstance(vector, Interval):
        picked = vector.take(rows)
        if expr.kind in TEMPORAL:
            if expr.kind == DATE:  # shown is the day itself, from which its error counts
                picked = Interval(np.floor(picked.value), picked.low, picked.high, picked.null)
            values: list[Cell] = _shown([value_at(number, expr.kind) for number in picked.value])
            return ResultColumn(values, _plain(picked.error / SHOWN_UNIT.get(expr.kind, 1.0)), True, expr.kind)
        return ResultColumn(_plain(picked.value), _plain(picked.error), True, expr.kind)
    labels = vector.labelled() if isinstance(vector, Bins) else vector
    picked_labels = labels.take(rows)
    sure = np.ones(len(rows), dtype=bool) if picked_labels.certain is None else picked_labels.certain
    values = _shown(picked_labels.listed())
    errors = [0.0 if one else None for one in sure.tolist()]
    return ResultColumn(values, errors, True, _shown_kind(vector, expr.kind))


def _shown(values: list[Any]) -> list[Cell]:
    return [shown_text(value) if isinstance(value, (datetime.date, BinText)) else value for value in values]


def _shown_kind(vector: Labels | Bins, kind: str) -> str:
    """Bins are shown by their text, also where a column holds other values beside them."""
    shown = vector.values if isinstance(vector, Labels) else vector.listed()
    return TEXT if any(isinstance(value, str) for value in shown) else kind


def _plain(values: np.ndarray) -> list[float | None]:
    """JSON knows neither NaN (our NULL) nor infinity (no bound); zero has no sign."""
    return [value if math.isfinite(value) else None for value in (values + 0.0).tolist()]


def basis_of(statement: Statement, table: ResultTable, run: Run, unit: str) -> str:
    """One line; empty for statements that only count, or sum values that are their own bins."""
    exprs = [one.expr for one in statement.fields if one.expr.known is None]
    columns = sorted({column for expr in exprs for column in _columns(statement, expr)})
    if not columns:
        return ""
    words = []
    for column in columns:
        try:
            _, lower, upper = scaled_numbers(statement.domain, column)
        except QueryError:  # a category that only chooses between numbers
            continue
        words.append(f"{readable_name(column)} clipped to [{number_text(lower)}, {number_text(upper)}]")
    if unit == "person":
        words.append("averages are means of persons' means")
    coarse = sorted({column for expr in exprs if _dominated(expr, run) for column in _binned(statement, expr)})
    if coarse and len(table):
        listed = ", ".join(map(readable_name, coarse))
        words.append(f"most of the error is what bins hide: finer ones of {listed} would help")
    return "; ".join(words)


def refuse_sums(statement: Statement, unit: str) -> None:
    """Where each person weighs one, a row weighs a part of one: SUM would be no sum of anything."""
    if unit != "person":
        return
    for one in statement.fields:
        if one.expr.known is None and _sums(statement, one.expr):
            raise refused(
                f"{one.name} is a sum, and every person weighs one however many rows they have",
                "use AVG, the mean of persons' means, or read the table with rows='bounded'",
            )


def _sums(statement: Statement, expr: Expr) -> bool:
    """Whether a sum of a column is shown, not only divided by a count inside a mean."""
    if isinstance(expr, Sum):
        return any(statement.columns[place] is not None for _, place in expr.terms)
    if isinstance(expr, MeanExpr):
        return False
    return any(_sums(statement, child) for child in expr.children)


def _columns(statement: Statement, expr: Expr) -> Iterator[str]:
    for place in expr.places:
        yield from statement.columns[place] or ()


def _binned(statement: Statement, expr: Expr) -> Iterator[str]:
    for place in expr.places:
        if place in statement.binned:
            yield from statement.binned[place].columns
        elif place in statement.coarse:
            yield from statement.coarse[place]


def _dominated(expr: Expr, run: Run) -> bool:
    """Whether binning is more than half of what is stated in some row, or leaves nothing to state."""
    if expr.kind not in NUMERIC or not any(_blurred(one) for one in walk((expr,))):
        return False
    stated, noise = run.numbers(expr).error, run.unbinned().numbers(expr).error
    with np.errstate(invalid="ignore"):
        return bool(np.any(np.isfinite(noise) & (stated > 2 * noise)))


def _blurred(expr: Expr) -> bool:
    return isinstance(expr, (Sum, MeanExpr, Partly)) or hasattr(expr, "second") or hasattr(expr, "product")
