"""The parts of the universe on which several queries with values 0 and 1 are all constant."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.base import Linear

__all__ = ["MAX_PARTITIONED", "partition_of", "values_on"]

MAX_PARTITIONED = 2**20
"""Cells that several queries may divide; a query alone may have more."""
BITS = 31
"""Answers of so many queries are compared as one number, beside the number of a part."""


def partition_of(queries: Sequence[Linear], domain: Domain) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """The attributes, the number of every cell's part, and which of the queries count the records of each part.

    Parts are numbered in the order of their answers, those of the first query before those of the second. A single
    query, whose values may lie between 0 and 1, divides cells themselves: it has two parts, and no cell has a number.

    Raises:
        QueryError: There are no queries, several with other values than 0 and 1, or too many cells.
    """
    if not queries:
        raise QueryError("a partition needs at least one query")
    names = domain.canonical({name for query in queries for name in query.attributes})
    if len(queries) == 1:
        return names, np.zeros(0, dtype=np.int64), np.array([[False], [True]])
    if not all(query.compile(domain).binary for query in queries):
        raise QueryError("several queries of one partition need the values 0 and 1; measure the others alone")
    if (cells := domain.cells(names)) > MAX_PARTITIONED:
        raise QueryError(f"a partition of {cells} cells; at most {MAX_PARTITIONED}: measure its queries alone")
    shape = domain.shape_of(names)
    parts = np.zeros(math.prod(shape), dtype=np.int64)
    taken = [values_on(query, names, domain).astype(bool).ravel() for query in queries]
    for start in range(0, len(taken), BITS):
        for bits in taken[start : start + BITS]:
            parts = 2 * parts + bits
        parts = np.unique(parts, return_inverse=True)[1].reshape(-1)
    first = np.unique(parts, return_index=True)[1]
    return names, parts.reshape(shape), np.array([[bool(bits[cell]) for bits in taken] for cell in first])


def values_on(query: Linear, names: tuple[str, ...], domain: Domain) -> np.ndarray:
    """The values of a query on every cell of attributes that include its own."""
    form = query.compile(domain)
    extents = [domain[name].size if name in form.attributes else 1 for name in names]
    return np.broadcast_to(form.tensor().reshape(extents), domain.shape_of(names))
