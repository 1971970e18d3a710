"""`Answer`: a frozen public value with the question, its value, its error and confidence, and its price.

Results convert to data frames by Arrow's C stream, the interchange protocol, or named rows.

A missing value is None (NaN in a row's numbers), a truth value True or False, in results as in synthetic rows; text
shows NULL, true and false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from itertools import islice
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.domain.attribute import NULL_LABEL
from reticent.domain.values import confidence_text, shown_bound, shown_number, with_error
from reticent.errors import QueryError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from reticent.knowledge.population import Mode, Population, Sample


Cell = str | int | float | bool | None


class Framed:
    """A result that data frame libraries can read directly: `pl.DataFrame(result)`, `pd.DataFrame(result)`."""

    def to_arrow(self) -> pa.Table:
        """An Arrow table with one column for each key, each value and each error."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """A pandas frame with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self.to_arrow().__dataframe__(nan_as_null, allow_copy)

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        """The rows of `to_arrow`, including errors; pandas takes the column names from their `_fields`.

        A missing number is NaN here, because pandas would turn a column of None into objects, which cannot be summed.
        """
        import pyarrow as pa

        table = self.to_arrow()
        row = type("Row", (tuple,), {"__slots__": (), "_fields": tuple(table.column_names)})
        columns = [
            [nan if value is None else value for value in column.to_pylist()]
            if pa.types.is_floating(column.type)
            else column.to_pylist()
            for column in table.columns
        ]
        return iter([row(each) for each in zip(*columns, strict=True)])


def key_column(values: Sequence[Cell]) -> pa.Array:
    """A key column with one type: numbers and truth values next to `(other)` become text; a column of nulls is text."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds and (kinds <= {int, float} or len(kinds) == 1):
        return pa.array(values)
    return pa.array([None if value is None else _key_text(value) for value in values], pa.string())


def new_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, with underscores appended if it is taken."""
    while wanted in taken:
        wanted += "_"
    return wanted


def html_cell(text: str, number: bool, kind: str = "td") -> str:
    """A cell of a notebook's table; numbers are aligned right, so that their digits stand below each other."""
    return f"<{kind} style='text-align:{'right' if number else 'left'}'>{escape(text)}</{kind}>"


def shown_key(value: Cell) -> str:
    """The text of a key: NULL for a missing value, 'NULL' for this text, true and false for truth values."""
    if value is None:
        return "NULL"
    return f"'{value}'" if value == "NULL" else _key_text(value)


def _key_text(value: Cell) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


SHOWN_ROWS = 20
ORIGINS = {
    "cache": "the same question was answered before",
    "certificate": "covered by a certificate of the published hypothesis",
    "theorem": "bounded by the theorem of the algorithm that published the hypothesis",
    "derived": "a sum of cells measured before",
    "measured": "measured for this question with fresh noise",
    "batch": "passed a joint audit of the declared batch",
    "tested": "the hypothesis passed a noisy threshold test",
    "synthetic": "computed from synthetic rows, which are drawn from the published hypothesis",
    "public": "known from the domain alone",
    "hypothesis": "read from the hypothesis; no certificate covers it",
    "typical": "no bound on this question, but on most questions like it",
    "conflict": "certified statements contradict each other, so one of them failed; the hypothesis answers",
}


JOINT_ORIGINS = ("certificate", "theorem")
"""Origins whose answers all hold jointly with the confidence of any of them."""


@dataclass(frozen=True, eq=False)
class Answer(Framed):
    """The answer to one question: `value` in the question's own unit (a fraction for counts), `count` in records if
    applicable.

    `error` bounds `abs(value - truth)` with probability `confidence` if `certified`; otherwise it is None.
    """

    query: str
    value: float | np.ndarray
    count: float | np.ndarray | None
    error: float | None
    confidence: float | None
    origin: str
    certified: bool
    price: float = 0.0
    snapshot: str | None = None
    ledger_id: int | None = None
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For a marginal: the attributes in the order asked, each with the labels of its codes."""
    keys: tuple[tuple[Any, ...], ...] = ()
    """The keys of these codes in a data frame: categories, labels of bins, None for a missing value."""
    wanted: float | None = None
    """The requested error, if it was not reached."""
    note: str = ""
    """The reason why it was not reached, or another remark."""
    basis: str = ""
    """The values that the answer refers to, if that does not follow from the question: clipped values, persons'
    means."""
    interval: tuple[float, float] | tuple[np.ndarray, np.ndarray] | None = None
    """An interval that contains the true value with probability `confidence`: the intersection of all certified
    statements and logical bounds."""
    fitted: float | np.ndarray | None = None
    """The hypothesis' own value; fitted values of parts add up to that of the whole, `value` need not."""
    typical: float | None = field(default_factory=lambda: None)
    """The typical error: 19 of 20 questions of the declared distribution are within it. `error` bounds the worst of
    millions of questions; this bounds all but a twentieth of them. A question that was chosen because its answer looks
    wrong is not a typical one."""

    @classmethod
    def built(cls, asked: Any, typical: Callable[[], float | None] | None, **fields: Any) -> Answer:
        """An answer from a query and all other fields, for thousands of free answers.

        Its text and its typical error are computed on first use; both are functions of public values that never change.
        """
        answer = object.__new__(cls)
        fields["_asked"], fields["_typical"] = asked, typical
        object.__setattr__(answer, "__dict__", fields)
        return answer

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        if name == "query" and "_asked" in state:
            return state.setdefault("query", state["_asked"].text)
        if name == "typical" and "_typical" in state:
            found = state["_typical"]
            return state.setdefault("typical", None if found is None else found())
        raise AttributeError(f"an answer has no {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer):
            return NotImplemented
        return self._stated == other._stated and all(
            np.array_equal(np.asarray(getattr(self, name)), np.asarray(getattr(other, name))) for name in _ARRAYS
        )

    def __hash__(self) -> int:
        return hash(self._stated)

    @property
    def _stated(self) -> tuple[Any, ...]:
        """All fields except the arrays."""
        return tuple(getattr(self, field.name) for field in fields(self) if field.name not in _ARRAYS)

    def drawn_from(self, sample: Sample) -> Answer:
        """The same answer with a reference to its origin, which `population` needs."""
        self.__dict__["_sample"] = sample
        return self

    def population(self, confidence: float = 0.95, *, mode: Mode | None = None) -> Population:
        """What the answer says about the population that the table's records were drawn from, independently.

        Free post-processing. `estimated` intervals need a release with replicates; `certified` ones a certified answer.
        Neither holds for clustered, stratified or weighted samples (docs/guide/population.md).

        Args:
            confidence: Of the interval.
            mode: "estimated" or "certified"; by default the estimate where there are replicates.

        Returns:
            The interval, labelled with its mode; for a table, each cell's by itself.

        Raises:
            QueryError: There are no replicates, nothing is certified, or the answer came over HTTP or from a file.

        Example:
            >>> import pyarrow as pa, reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=[0, 40, 99]))
            >>> table = rt.Table.of(pa.table({"age": [23, 41, 67] * 1000}), domain)
            >>> release = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> interval = release.ask(rt.count(rt.col("age") >= 40)).population(mode="certified")
            >>> interval.low < 2 / 3 < interval.high
            True
        """
        from reticent.knowledge.population import population_of

        sample = self.__dict__.get("_sample")
        if sample is None:
            raise QueryError(
                "this answer does not know its release or session, as after HTTP or a file; ask rt.Release.load(...)"
            )
        return population_of(self, sample, confidence, mode)

    def __getstate__(self) -> dict[str, Any]:
        """Its fields, without the reference to its origin, which may be large."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        whole = np.ndim(self.value) == 0
        head = shown_number(float(self.value), self.error) if whole else f"array{np.shape(self.value)}"
        size = ""
        if self.count is not None and np.ndim(self.count) == 0:
            size = f", about {float(self.count):,.0f} records"
        noted = "".join(f"; {text}" for text in (self.basis, self.note) if text)
        return f"Answer({head}{size}, {self.guarantee}, {self.origin}, price {self.price:.3g}{noted})"

    @property
    def guarantee(self) -> str:
        """The error statement in a few words."""
        sure = self.confidence if self.certified else None
        error = None if sure is None else self.error
        parts = [] if sure is None or error is None else [f"±{shown_bound(error)} at {confidence_text(sure)}"]
        if self.typical is not None:
            # A bound on every question also bounds most of them.
            usual = self.typical if error is None else min(self.typical, error)
            parts.append(f"typically ±{shown_bound(usual)}")
        return ", ".join([*parts, "uncertified"] if error is None else parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that can be written as JSON."""
        return {
            "query": self.query,
            "value": _plain(self.value),
            "count": _plain(self.count),
            "error": self.error,
            "confidence": self.confidence,
            "origin": self.origin,
            "certified": self.certified,
            "price": self.price,
            "snapshot": self.snapshot,
            "ledger_id": self.ledger_id,
            "labels": [[name, list(texts)] for name, texts in self.labels],
            **({} if self.keys == _texts(self.labels) else {"keys": [list(keys) for keys in self.keys]}),
            "wanted": self.wanted,
            "note": self.note,
            "basis": self.basis,
            "interval": None if self.interval is None else [_plain(end) for end in self.interval],
            "fitted": _plain(self.fitted),
            "typical": self.typical,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Answer:
        """The inverse of `to_dict`; QueryError for other values."""
        try:
            return cls._restored(fields)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError):
            raise QueryError("these fields are not those of an answer; give what answer.to_dict() returned") from None

    @classmethod
    def _restored(cls, fields: dict[str, Any]) -> Answer:
        labels = tuple((name, tuple(texts)) for name, texts in fields.get("labels", ()))
        arrays = {name: _restored(fields.get(name)) for name in ("value", "count", "fitted")}
        ends = fields.get("interval")
        interval = None if ends is None else (_restored(ends[0]), _restored(ends[1]))
        keys = tuple(map(tuple, fields["keys"])) if "keys" in fields else _texts(labels)
        return cls(**(fields | arrays | {"labels": labels, "keys": keys, "interval": interval}))

    def to_arrow(self) -> Any:
        """One row per cell: the labels, value, count, error."""
        import pyarrow as pa

        values = np.atleast_1d(np.asarray(self.value, dtype=float))
        columns: dict[str, Any] = {}
        for axis, ((name, _), keys) in enumerate(zip(self.labels, self.keys, strict=True)):
            index = np.indices(values.shape)[axis].ravel()
            columns[name] = key_column(keys).take(pa.array(index))
        columns[new_name("value", [*columns])] = pa.array(values.ravel())
        if self.count is not None:
            count = np.atleast_1d(np.asarray(self.count, dtype=float)).ravel()
            columns[new_name("count", [*columns])] = pa.array(count)
        columns[new_name("error", [*columns])] = pa.array([self.error] * values.size, type=pa.float64())
        for name, ends in zip(("low", "high"), self.interval or (), strict=False):
            end = np.atleast_1d(np.asarray(ends, dtype=float)).ravel()
            columns[new_name(name, [*columns])] = pa.array(end)
        return pa.table(columns)

    def plot(self) -> Any:
        """Bars with error bars for one attribute, a heat map for two; needs matplotlib."""
        from reticent.knowledge.plotting import plot_answer

        return plot_answer(self)

    def _repr_html_(self) -> str:
        meaning = ORIGINS.get(self.origin, self.origin)
        if np.ndim(self.value):
            drawn = self._html_table()
        else:
            count = "" if self.count is None else f" (about {float(np.asarray(self.count)):,.0f} records)"
            drawn = f"<b>{shown_number(float(self.value), self.error)}</b>{count}<br>"
        noted = "".join(f"; {text}" for text in (self.basis, self.note) if text)
        return (
            f"<div>{drawn}<small>{escape(self.guarantee)}; {escape(meaning)}; price {self.price:.3g}"
            f"{escape(noted)}</small></div>"
        )

    def _html_table(self) -> str:
        """One row per cell: the labels, the value with its error, and the number of records."""
        values = np.asarray(self.value, dtype=float)
        counts = None if self.count is None else np.asarray(self.count, dtype=float)
        head = [html_cell(name, False, "th") for name, _ in self.labels]
        head += [html_cell(name, True, "th") for name in (("value",) if counts is None else ("share", "records"))]
        rows = [head]
        for cell in islice(np.ndindex(values.shape), SHOWN_ROWS):
            keys = [html_cell(shown_key(keys[code]), False) for keys, code in zip(self.keys, cell, strict=True)]
            keys.append(html_cell(with_error(float(values[cell]), self.error), True))
            rows.append(keys if counts is None else [*keys, html_cell(f"{counts[cell]:,.0f}", True)])
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
        left_out = values.size - len(rows) + 1
        more = f"<small>{left_out:,} more rows not shown; to_pandas() has all</small><br>" if left_out else ""
        return f"<table>{body}</table>{more}"


_ARRAYS = ("value", "count", "interval", "fitted")
"""Fields that hold one number, or one per cell."""


def _restored(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _texts(labels: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[tuple[str | None, ...], ...]:
    """The keys of attributes whose values are text."""
    return tuple(tuple(None if text == NULL_LABEL else text for text in texts) for _, texts in labels)
