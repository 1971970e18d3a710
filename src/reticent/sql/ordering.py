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
    """Within each part. Keys up to the first noisy one decide; those after it only break ties of estimates."""
    rows = len(parts)
    weights = _Weight.of(weight, rows)
    exact, noisy = _split(run, order)
    codes = _codes([parts.astype(float), *(signed_keys(run.of(r.expr), r) for r in exact)])
    found = Positions(*(np.zeros(rows) for _ in range(5)))
    _exact_before(parts, codes, weights, found)
    if noisy is None:
        return found
    vector = run.numbers(noisy.expr)
    low, high = (vector.low, vector.high) if not noisy.descending else (-vector.high, -vector.low)
    value = signed_keys(vector, noisy)
    low, high = np.where(np.isnan(low), value, low), np.where(np.isnan(high), value, high)
    # A row whose key may be NULL may stand at that end, wherever its number would put it.
    end = -np.inf if noisy.nulls_first else np.inf
    maybe = vector.maybe_null
    low, high = np.where(maybe, np.minimum(low, end), low), np.where(maybe, np.maximum(high, end), high)
    for members in _members(codes):
        _within(members, value, low, high, weights, found)
    return found


def _split(run: Run, order: Sequence[Ranking]) -> tuple[list[Ranking], Ranking | None]:
    """The leading keys that are public, and the first one that is not."""
    exact: list[Ranking] = []
    for ranking in order:
        vector = ranking.expr.known
        if vector is None:
            return exact, ranking
        exact.append(ranking)
    return exact, None


def _codes(keys: Sequence[np.ndarray]) -> np.ndarray:
    """A number for each combination of keys, in their order."""
    table = np.stack(keys, axis=1)
    _, codes = np.unique(table, axis=0, return_inverse=True)
    return codes.ravel()


def _members(codes: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _exact_before(parts: np.ndarray, codes: np.ndarray, weights: _Weight, found: Positions) -> None:
    """Rows of the same part with a smaller code stand before; those with the same one beside."""
    size = int(codes.max(initial=0)) + 1
    owner = np.zeros(size)
    owner[codes] = parts
    starts = np.concatenate([[True], np.diff(owner) != 0])
    for weight, before, level in (
        (weights.value, found.before, found.level),
        (weights.sure, found.least, None),
        (weights.possible, found.most, found.level_most),
    ):
        totals = np.bincount(codes, weight, size)
        running = np.cumsum(totals) - totals
        offset = np.maximum.accumulate(np.where(starts, running, 0.0))
        before += (running - offset)[codes]
        if level is not None:
            level += totals[codes]
    found.level_most[:] = found.level_most + found.most - weights.possible


def _within(
    members: np.ndarray, value: np.ndarray, low: np.ndarray, high: np.ndarray, weights: _Weight, found: Positions
) -> None:
    """Among rows that the exact keys leave level, by the noisy one."""
    own, lows, highs = value[members], low[members], high[members]
    found.before[members] += _summed(own, weights.value[members], own, "left")
    found.level[members] = _summed(own, weights.value[members], own, "right") - _summed(
        own, weights.value[members], own, "left"
    )
    found.least[members] += _summed(highs, weights.sure[members], lows, "left")
    possible = weights.possible[members]
    # Itself is among those whose low end is below its high end, unless it is one exact number.
    before = _summed(lows, possible, highs, "left") - np.where(lows < highs, possible, 0.0)
    beside = _summed(lows, possible, highs, "right") - possible
    base = found.most[members]
    found.most[members] = base + before
    found.level_most[members] = base + beside


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
