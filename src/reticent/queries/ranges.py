"""All ranges of an attribute as one structured entry of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.base import Query, canonical
from reticent.queries.literals import name_text
from reticent.queries.predicate import col


@dataclass(frozen=True, eq=False, repr=False)
class AllRanges(Query):
    """Every interval of codes of one attribute (or every prefix), among its declared values."""

    column: str
    prefixes: bool = False

    def __post_init__(self) -> None:
        col(self.column)
        if not isinstance(self.prefixes, bool):
            raise QueryError("prefixes must be true or false")

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset({self.column})

    def count(self, domain: Domain) -> int:
        """Number of intervals."""
        (name,) = canonical(domain, (self.column,))
        known = domain[name].known
        return known if self.prefixes else known * (known + 1) // 2

    def spans(self, domain: Domain) -> tuple[np.ndarray, np.ndarray]:
        """First and last code of every interval."""
        (name,) = canonical(domain, (self.column,))
        known = domain[name].known
        if self.prefixes:
            return np.zeros(known, dtype=np.int64), np.arange(known)
        return np.triu_indices(known)

    def answers(self, domain: Domain, counts: np.ndarray) -> np.ndarray:
        """All answers from the attribute's one-way marginal, without building a query for each."""
        first, last = self.spans(domain)
        sums = np.concatenate([np.zeros(1, dtype=counts.dtype), np.cumsum(counts)])
        return sums[last + 1] - sums[first]

    def to_dict(self) -> dict[str, Any]:
        return {"query": "ranges", "column": self.column, "prefixes": self.prefixes}

    def _write(self) -> str:
        return f"{'prefixes' if self.prefixes else 'ranges'}({name_text(self.column)})"
