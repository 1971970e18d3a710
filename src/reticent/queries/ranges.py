"""All ranges of an attribute, or all boxes of several, as one structured entry of a workload."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.base import Query, domain_order
from reticent.queries.literals import name_text
from reticent.queries.predicate import col


@dataclass(frozen=True, eq=False, repr=False)
class AllRanges(Query):
    """Every interval of codes of one attribute (or every prefix), among its declared values.

    With more columns `across`, every box: an interval of each of them at once.
    """

    column: str
    prefixes: bool = False
    across: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "across", tuple(self.across))
        for name in self.columns:
            col(name)
        if len(set(self.columns)) < len(self.columns):
            raise QueryError(f"a box names {', '.join(self.columns)}: each column once")
        if not isinstance(self.prefixes, bool):
            raise QueryError("prefixes must be true or false")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.across)

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.columns)

    def count(self, domain: Domain) -> int:
        """Number of intervals, or of boxes."""
        known = (domain[name].known for name in domain_order(domain, self.columns))
        return math.prod(size if self.prefixes else size * (size + 1) // 2 for size in known)

    def spans(self, domain: Domain) -> tuple[np.ndarray, np.ndarray]:
        """First and last code of every interval of its first column."""
        return self._spans(domain, self.column)

    def boxes(self, domain: Domain) -> Iterator[dict[str, tuple[int, int]]]:
        """First and last code of each column, box by box."""
        each = [list(zip(*map(np.ndarray.tolist, self._spans(domain, name)), strict=True)) for name in self.columns]
        for spans in itertools.product(*each):
            yield dict(zip(self.columns, spans, strict=True))

    def answers(self, domain: Domain, counts: np.ndarray) -> np.ndarray:
        """All answers from the marginal over its columns, in the domain's order; no query is built for each."""
        for axis, name in enumerate(domain_order(domain, self.columns)):
            first, last = self._spans(domain, name)
            sums = np.zeros((*counts.shape[:axis], counts.shape[axis] + 1, *counts.shape[axis + 1 :]), counts.dtype)
            np.cumsum(counts, axis=axis, out=sums[(slice(None),) * axis + (slice(1, None),)])
            counts = sums.take(last + 1, axis=axis) - sums.take(first, axis=axis)
        return counts.ravel()

    def _spans(self, domain: Domain, name: str) -> tuple[np.ndarray, np.ndarray]:
        (found,) = domain_order(domain, (name,))
        known = domain[found].known
        if self.prefixes:
            return np.zeros(known, dtype=np.int64), np.arange(known)
        return np.triu_indices(known)

    def to_dict(self) -> dict[str, Any]:
        across = {"across": list(self.across)} if self.across else {}
        return {"query": "ranges", "column": self.column, "prefixes": self.prefixes, **across}

    def _write(self) -> str:
        names = ", ".join(map(name_text, (self.column,) if not self.across else sorted(self.columns)))
        return f"{'prefixes' if self.prefixes else 'ranges'}({names})"
