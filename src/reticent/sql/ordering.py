"""Orders of rows with noisy keys: positions by estimate, and bounds on the true positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from reticent.sql.expressions import Expr, Run
from reticent.sql.vectors import TRUTH, Bins, Labels, Truth, Vector, to_interval


@dataclass(frozen=True, eq=False)
class Ranking:
    """One item of ORDER BY."""

    expr: Expr
    descending: bool
    nulls_first: bool


def signed_keys(vector: Vector, ranking: Ranking) -> np.ndarray:
    """Numbers that sort as the ranking wants; NULL is before or after all of them."""
    keys = vector.ranks if isinstance(vector, (Labels, Bins)) else to_interval(vector).value
    null = np.isnan(keys)
    signed = -keys if ranking.descending else keys
    return np.where(null, -np.inf if ranking.nulls_first else np.inf, signed)


def sorted_rows(run: Run, order: Sequence[Ranking], rows: np.ndarray) -> np.ndarray:
    """Some rows in the order of their estimates; ties stay as they are."""
    for ranking in reversed(order):
        vector = run.of(ranking.expr)
        keys = vector.ranks if isinstance(vector, (Labels, Bins)) else to_interval(vector).value
        chosen = keys[rows]
        null = np.isnan(chosen)
        signed = np.where(null, 0.0, -chosen if ranking.descending else chosen)
        rows = rows[np.lexsort((signed, null != ranking.nulls_first))]
    return rows


@dataclass(frozen=True, eq=False)
class Positions:
    """How many rows stand before each, by estimate, at least and at most; and how many beside it."""

    before: np.ndarray
    least: np.ndarray
    most: np.ndarray
    level: np.ndarray
    """Rows that stand level with it by estimate, itself included."""
    level_most: np.ndarray
    """Rows that may stand level with it or before it, without itself."""


@dataclass(frozen=True, eq=False)
class _Weight:
    value: np.ndarray
    sure: np.ndarray
    possible: np.ndarray

    @classmethod
    def of(cls, truth: Truth | None, rows: int) -> _Weight:
        if truth is None:
            ones = np.ones(rows)
            return cls(ones, ones, ones)
        return cls(truth.holds.astype(float), truth.sure.astype(float), truth.true.astype(float))


def rank_positions(run: Run, order: Sequence[Ranking], parts: np.ndarray, weight: Truth | None) -> Positions:
    """Within each part. Rows whose first keys are certainly equal are ordered by the keys after them."""
    weights = _Weight.of(weight, len(parts))
    value, low, high = order_codes(run, order, parts)

    def upto(codes: np.ndarray, weight: np.ndarray, limits: np.ndarray, side: str) -> np.ndarray:
        totals = np.bincount(parts, weight)
        return _summed(codes, weight, limits, side) - (np.cumsum(totals) - totals)[parts]

    before = upto(value, weights.value, value, "left")
    # Itself is among those whose low end is below its high end, unless all its keys are exact.
    itself = np.where(low < high, weights.possible, 0.0)
    return Positions(
        before,
        upto(high, weights.sure, low, "left"),
        upto(low, weights.possible, high, "left") - itself,
        upto(value, weights.value, value, "right") - before,
        upto(low, weights.possible, high, "right") - weights.possible,
    )


def order_codes(run: Run, order: Sequence[Ranking], parts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three numbers for each row: of its estimated keys, and of the first and last keys that it may have.

    They order the rows by their parts, and within a part by all keys in turn. A row certainly stands before another one
    if its last keys are before the other's first ones: where two ends are equal, the next key decides.
    """
    ends = [_key_ends(run.of(ranking.expr), ranking) for ranking in order]
    columns = [np.tile(parts.astype(float), 3), *(np.concatenate(end) for end in ends)]
    placed = np.lexsort(columns[::-1])
    rises = np.zeros(len(placed), dtype=np.int64)
    for column in columns:
        ordered = column[placed]
        rises[1:] |= ordered[1:] != ordered[:-1]
    codes = np.empty_like(rises)
    codes[placed] = np.cumsum(rises)
    value, low, high = np.split(codes, 3)
    return value, low, high


def _key_ends(vector: Vector, ranking: Ranking) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A key as numbers that sort as the ranking wants: the estimate, the first and the last that it may be."""
    value = signed_keys(vector, ranking)
    if isinstance(vector, (Bins, Labels)):
        certain = vector.certain if isinstance(vector, Labels) else None
        if certain is None:
            return value, value, value
        return value, np.where(certain, value, -np.inf), np.where(certain, value, np.inf)
    numbers = to_interval(vector)
    low, high = (-numbers.high, -numbers.low) if ranking.descending else (numbers.low, numbers.high)
    low, high = np.where(np.isnan(low), value, low), np.where(np.isnan(high), value, high)
    # A row whose key may be NULL may stand at that end, wherever its number would put it.
    end = -np.inf if ranking.nulls_first else np.inf
    maybe = numbers.maybe_null
    return value, np.where(maybe, np.minimum(low, end), low), np.where(maybe, np.maximum(high, end), high)


def _summed(keys: np.ndarray, weights: np.ndarray, limits: np.ndarray, side: str) -> np.ndarray:
    """Total weight of keys below each limit, or up to it."""
    order = np.argsort(keys)
    running = np.concatenate([[0.0], np.cumsum(weights[order])])
    return running[np.searchsorted(keys[order], limits, side=side)]  # type: ignore[call-overload]


@dataclass(frozen=True, eq=False)
class Limited(Expr):
    """Whether each row is among those that LIMIT and OFFSET leave."""

    order: tuple[Ranking, ...]
    presence: Expr | None
    limit: int | None
    offset: int
    rows: int = field()
    kind: str = TRUTH

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        keys = tuple(ranking.expr for ranking in self.order)
        return keys if self.presence is None else (*keys, self.presence)

    @property
    def arrays(self) -> int:
        return 40 + 20 * len(self.order)

    def evaluate(self, run: Run) -> Truth:
        presence = None if self.presence is None else run.truth(self.presence).is_true()
        kept = np.ones(self.rows, dtype=bool) if presence is None else presence.holds
        ordered = sorted_rows(run, self.order, np.flatnonzero(kept))
        stop = None if self.limit is None else self.offset + self.limit
        chosen = np.zeros(self.rows)
        chosen[ordered[self.offset : stop]] = 1.0
        found = rank_positions(run, self.order, np.zeros(self.rows, dtype=np.int64), presence)
        last = np.inf if stop is None else float(stop)
        possible = (found.least < last) & (found.level_most >= self.offset)
        sure = (found.level_most < last) & (found.least >= self.offset)
        if presence is not None:
            possible, sure = possible & presence.true, sure & presence.sure
        if all(ranking.expr.known is not None for ranking in self.order) and presence is None:
            # Ties of public keys are broken alike here and wherever the rows are shown.
            possible = sure = chosen > 0
        return Truth(chosen, possible | (chosen > 0), ~sure, np.zeros(self.rows, dtype=bool))
