"""Drawn linear queries as tables of whole numbers: what a record wins is exact, and a run repeats bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from reticent.domain import Domain
from reticent.queries.forms import Form, Product

VALUE_BITS = 19
VALUE = 1 << VALUE_BITS
"""A query's value 1; products of values are rounded down to this grid again."""
MOST_GOALS = 256
"""Cells of a tensor that the search aims at: some of the largest, or of the smallest where a query is worth missing."""


class DrawnTables:
    """Distinct drawn queries, each with the weight a record wins per unit of its value (negative: by its absence).

    A product has one vector a place, `values[offset + code]`; a tensor has one table, `values[base + stride code ...]`.
    """

    def __init__(self, domain: Domain, forms: Sequence[Form], gains: np.ndarray) -> None:
        self.forms = tuple(forms)
        self.gains = np.asarray(gains, dtype=np.int64)
        self.dense = np.array([not isinstance(form, Product) for form in forms], dtype=bool)
        places, steps, starts, base, values = [], [], [0], [], []
        filled = 0
        for form in forms:
            base.append(filled)
            places += [domain.index(name) for name in form.attributes]
            starts.append(len(places))
            for table in form.vectors if isinstance(form, Product) else (form.values,):
                # Of a product: where each vector begins. Of a tensor: the strides of its axes.
                steps += [filled] if isinstance(form, Product) else _strides(table.shape)
                values.append(np.rint(np.ravel(table) * VALUE).astype(np.int64))
                filled += table.size
        self.places = np.array(places, dtype=np.int64)
        self.steps = np.array(steps, dtype=np.int64)
        self.starts = np.array(starts, dtype=np.int64)
        self.base = np.array(base, dtype=np.int64)
        self.values = np.concatenate([np.zeros(0, dtype=np.int64), *values])

    @property
    def total(self) -> float:
        """Drawn weight, complements that cancelled left out: no record wins more."""
        return float(np.abs(self.gains).sum())

    @property
    def penalty(self) -> float:
        """The weight of all queries worth missing: what a record wins on which they are all 0."""
        return float(-self.gains[self.gains < 0].sum())

    def satisfied(self, record: np.ndarray) -> float:
        """How much drawn weight `record` satisfies, complements included."""
        return self.penalty + float(self.gains @ self.evaluated(record)) / VALUE

    def evaluated(self, record: np.ndarray) -> np.ndarray:
        """Each query's value on one record, in units of 1/VALUE."""
        from reticent.releases.dualquery.table_kernels import evaluate_queries

        return evaluate_queries(self.dense, self.starts, self.places, self.steps, self.base, self.values, record)

    @cached_property
    def touched(self) -> np.ndarray:
        """The attributes that occur, ascending; only they need a decision."""
        return np.unique(self.places)

    @cached_property
    def occurrences(self) -> tuple[np.ndarray, np.ndarray]:
        """The queries of each attribute as one list, with where each attribute's part of it begins."""
        query = np.repeat(np.arange(len(self.forms)), np.diff(self.starts))
        order = np.argsort(self.places, kind="stable")
        most = int(self.places.max(initial=-1)) + 1
        return np.searchsorted(self.places[order], np.arange(most + 1)), query[order]

    @cached_property
    def goals(self) -> tuple[np.ndarray, np.ndarray]:
        """What the search aims at, as one list with ends: codes for each place of a product, cells for a tensor.

        The largest values where a query is worth meeting, the smallest where it is worth missing. Constant vectors have
        no goal. A tensor's goals stand at its first place.
        """
        ends, found = [0], []
        for query, form in enumerate(self.forms):
            wanted = np.argmax if self.gains[query] > 0 else np.argmin
            tables = form.vectors if isinstance(form, Product) else (form.values,)
            for table in tables:
                flat = np.ravel(table)
                best = flat[int(wanted(flat))]
                goal = np.flatnonzero(flat == best) if np.ptp(flat) > 0 else np.zeros(0, dtype=np.int64)
                goal = goal[:: max(1, -(-goal.size // MOST_GOALS))]
                found.append(goal)
                ends.append(ends[-1] + goal.size)
            if not isinstance(form, Product):
                ends += [ends[-1]] * (len(form.attributes) - 1)
        return np.array(ends, dtype=np.int64), np.concatenate([np.zeros(0, dtype=np.int64), *found]).astype(np.int64)


def _strides(shape: tuple[int, ...]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]
