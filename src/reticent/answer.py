"""An answer is a frozen public value: what was asked, what came out, how sure one may be, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import Any

import numpy as np

ORIGINS = {
    "cache": "the same question was answered before",
    "certificate": "covered by an audit of the published hypothesis",
    "derived": "a sum of cells measured before",
    "measured": "measured for this question with fresh noise",
    "batch": "passed a joint audit of the declared batch",
    "tested": "the hypothesis passed a noisy threshold test",
    "hypothesis": "read from the hypothesis; no certificate covers it",
}


@dataclass(frozen=True, eq=False)
class Answer:
    """`value` in the query's own unit (a fraction for counts), `count` in records where that makes sense.

    `error` bounds `abs(value - truth)` with probability `confidence` when `certified`; otherwise it is None.
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
    """For a marginal: the attributes in the order asked, each with the text of its codes."""

    @classmethod
    def built(cls, asked: Any, **fields: Any) -> Answer:
        """From a query and all other fields at once, for free answers by the thousand; its text waits for a reader."""
        answer = object.__new__(cls)
        answer.__dict__.update(fields, _asked=asked)
        return answer

    def __getattr__(self, name: str) -> Any:
        asked = self.__dict__.get("_asked")
        if name != "query" or asked is None:
            raise AttributeError(f"an answer has no {name!r}")
        return self.__dict__.setdefault("query", asked.text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer):
            return NotImplemented
        return self._stated == other._stated and all(
            np.array_equal(np.asarray(mine), np.asarray(theirs))
            for mine, theirs in ((self.value, other.value), (self.count, other.count))
        )

    def __hash__(self) -> int:
        return hash(self._stated)

    @property
    def _stated(self) -> tuple[Any, ...]:
        """All but the arrays."""
        return tuple(getattr(self, field.name) for field in fields(self) if field.name not in ("value", "count"))

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        head = f"{self.value:.6g}" if np.ndim(self.value) == 0 else f"array{np.shape(self.value)}"
        size = ""
        if self.count is not None and np.ndim(self.count) == 0:
            size = f", about {float(self.count):,.0f} records"
        return f"Answer({head}{size}, {self.guarantee}, {self.origin}, price {self.price:.3g})"

    @property
    def guarantee(self) -> str:
        """The error statement in a few words."""
        if not self.certified or self.error is None or self.confidence is None:
            return "uncertified"
        return f"±{self.error:.3g} at {self.confidence:.4g}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
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
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Answer:
        labels = tuple((name, tuple(texts)) for name, texts in fields.get("labels", ()))
        value, count = (np.asarray(x) if isinstance(x, list) else x for x in (fields["value"], fields["count"]))
        return cls(**(fields | {"labels": labels, "value": value, "count": count}))

    def to_arrow(self) -> Any:
        """One row per cell: the labels, value, count, error."""
        import pyarrow as pa

        values = np.atleast_1d(np.asarray(self.value, dtype=float))
        columns: dict[str, Any] = {}
        for axis, (name, texts) in enumerate(self.labels):
            index = np.indices(values.shape)[axis].ravel()
            columns[name] = pa.array(np.asarray(texts, dtype=object)[index].tolist())
        columns["value"] = pa.array(values.ravel())
        if self.count is not None:
            columns["count"] = pa.array(np.atleast_1d(np.asarray(self.count, dtype=float)).ravel())
        columns["error"] = pa.array([self.error] * values.size, type=pa.float64())
        return pa.table(columns)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def plot(self) -> Any:
        """A marginal as bars with error bars; needs matplotlib."""
        from reticent.plotting import plot_answer

        return plot_answer(self)

    def _repr_html_(self) -> str:
        meaning = ORIGINS.get(self.origin, self.origin)
        if np.ndim(self.value):
            rows = self.to_arrow().slice(0, 20).to_pylist()
            head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
            body = "".join(
                "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row.values()) + "</tr>" for row in rows
            )
            shown = f"<table><tr>{head}</tr>{body}</table>"
        else:
            count = "" if self.count is None else f" (about {float(np.asarray(self.count)):,.0f} records)"
            shown = f"<b>{float(self.value):.6g}</b>{count}"
        return (
            f"<div>{shown}<br><small>{escape(self.guarantee)}; {escape(meaning)}; price {self.price:.3g}</small></div>"
        )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))
