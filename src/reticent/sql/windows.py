"""Window functions over the rows of a result: shares of a total, running totals, ranks, neighbouring rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from reticent.sql.expressions import Expr, Run, array_steps
from reticent.sql.intervals import Interval
from reticent.sql.ordering import Ranking, order_codes, rank_positions, signed_keys
from reticent.sql.reduction import Reducer, Weight
from reticent.sql.vectors import INTEGER, NUMBER, Bins, Labels, Truth, Vector, taken, to_interval

ROW_STEPS = 10
"""Of placing one row in its part."""
MAX_FRAMES = 2**21
"""Rows of all frames of one window function together."""


@dataclass(frozen=True)
class Frame:
    """The rows of its partition that a row's frame contains, relative to itself; with `peers`, rows of equal keys are
    included together.
    """

    start: float
    end: float
    peers: bool

    @property
    def whole(self) -> bool:
        return self.start == -np.inf and self.end == np.inf

    @property
    def counted(self) -> bool:
        """Whether an end is a number of rows away: which rows are between depends on what is shown."""
        return not {self.start, self.end} <= {-np.inf, 0.0, np.inf}

    def ends(self, peers: np.ndarray, place: int) -> tuple[int, int]:
        """The first and the last place of the frame of a sorted row, by the peers of all; the last is before the first
        if the frame is empty.
        """
        last = len(peers) - 1
        own = self._level(peers, place) if self.peers else (place, place)
        start = 0 if self.start == -np.inf else min(max(0, own[0] + int(self.start)), last + 1)
        end = last if self.end == np.inf else min(last, own[1] + int(self.end))
        return start, max(end, start - 1)

    @staticmethod
    def _level(peers: np.ndarray, place: int) -> tuple[int, int]:
        own = peers[place]
        return int(np.searchsorted(peers, own, "left")), int(np.searchsorted(peers, own, "right")) - 1


WHOLE = Frame(-np.inf, np.inf, False)
RUNNING = Frame(-np.inf, 0.0, True)
CURRENT = Frame(0.0, 0.0, True)
"""A row and those level with it."""


@dataclass(frozen=True, eq=False)
class _Sorted:
    """The rows of one partition in the order of their estimates."""

    rows: np.ndarray
    peers: np.ndarray
    """A number for each row, the same for rows of equal keys."""
    certain: np.ndarray
    """Whether the rows up to each are certainly those before all later ones."""
    level: np.ndarray
    """Whether each and the rows with its estimated keys certainly have the same keys."""

    @property
    def decided(self) -> np.ndarray:
        """For each place, and the one after the last, whether the rows before it are certainly those."""
        return np.concatenate([[True], self.certain])


@dataclass(frozen=True, eq=False)
class Windowed(Expr):
    """Common part of all window functions: partitions, an order, and which rows are present."""

    operands: tuple[Expr, ...] = field()
    presence: Expr | None = field()
    parts: np.ndarray = field()
    """The part of each row: public."""
    order: tuple[Ranking, ...] = field()
    kind: str = field()

    @property
    def rows(self) -> int:  # type: ignore[override]
        return len(self.parts)

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        keys = tuple(ranking.expr for ranking in self.order)
        return (*self.operands, *keys, *(() if self.presence is None else (self.presence,)))

    @property
    def cost(self) -> int:
        sorted_ = array_steps(self.rows) * (40 + 20 * len(self.order))
        return sorted_ + ROW_STEPS * self.rows + self._framed_steps()

    def _framed_steps(self) -> int:
        return 0

    def there(self, run: Run) -> Truth | None:
        return None if self.presence is None else run.truth(self.presence).is_true()

    def sorted_parts(self, run: Run, kept: np.ndarray) -> list[_Sorted]:
        """The sorted partitions with present rows only."""
        keys = [signed_keys(run.of(ranking.expr), ranking) for ranking in self.order]
        rows = np.flatnonzero(kept)
        rows = rows[np.lexsort((*(key[rows] for key in reversed(keys)), self.parts[rows]))]
        public = all(ranking.expr.known is not None for ranking in self.order)
        _, low, high = (rows,) * 3 if public else order_codes(run, self.order, self.parts)
        found = []
        for members in np.split(rows, np.flatnonzero(np.diff(self.parts[rows])) + 1):
            if members.size:
                table = np.stack([key[members] for key in keys], axis=1) if keys else np.zeros((len(members), 1))
                changes = np.any(_changes(table), axis=1)
                peers = np.concatenate([[0], np.cumsum(changes)])
                certain = level = np.ones(len(members), bool)
                if not public:
                    certain, level = _apart(low[members], high[members]), _level(peers, low[members], high[members])
                found.append(_Sorted(members, peers, certain, level))
        return found


def _apart(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether the rows up to each are certainly before all later ones, by the first and last keys they may have."""
    upto, after = np.maximum.accumulate(high), np.minimum.accumulate(low[::-1])[::-1]
    return np.append(upto[:-1] < after[1:], True)


def _level(peers: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether the rows of equal estimates certainly have equal keys; true of a row alone."""
    least, most, number = np.full(len(peers), np.inf), np.full(len(peers), -np.inf), np.bincount(peers)
    np.minimum.at(least, peers, low)
    np.maximum.at(most, peers, high)
    return (least == most)[peers] | (number == 1)[peers]


def _changes(keys: np.ndarray) -> np.ndarray:
    """Where a key differs from the preceding one; NULLs are equal, and so are infinite keys, whose difference is not
    zero.
    """
    return keys[1:] != keys[:-1]


@dataclass(frozen=True, eq=False)
class WindowAggregate(Windowed):
    """SUM, AVG, COUNT and the like over each row's frame."""

    reducer: Reducer = field()
    frame: Frame = WHOLE
    shown: Expr | None = None
    """Which rows the result has, whatever FILTER adds to `presence`: frames are of these rows."""
    tight: Expr | None = None
    """The same number as a measure of its own, which may be known better."""

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        inner = Windowed.children.fget(self)  # type: ignore[attr-defined]
        return (*inner, *(expr for expr in (self.shown, self.tight) if expr is not None))

    def _framed_steps(self) -> int:
        return 30 * array_steps(frame_rows(self.parts, self.frame))

    def evaluate(self, run: Run) -> Vector:
        truth = self.there(run)
        weight = Weight.of(truth, self.rows)
        operands = [run.of(operand) for operand in self.operands]
        if self.frame.whole:
            groups = int(self.parts.max(initial=-1)) + 1
            found = taken(self.reducer(operands, weight, (self.parts, groups)), self.parts)
        else:
            found = self._framed(run, operands, weight)
        if self.tight is not None and isinstance(found, Interval):
            better = run.numbers(self.tight)
            return found.meet(Interval(found.value, better.low, better.high))
        return found

    def _framed(self, run: Run, operands: Sequence[Vector], weight: Weight) -> Vector:
        """Each frame is a separate group, and its rows are listed.

        A frame is certain if the place of its own row and its ends are: a row that may stand elsewhere has another one.
        """
        shown = None if self.shown is None else run.truth(self.shown).is_true()
        kept = np.ones(self.rows, dtype=bool) if shown is None else shown.holds if self.frame.counted else shown.true
        listed, owners = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        certain = np.ones(self.rows, dtype=bool)
        open_ = np.zeros(self.rows, dtype=bool)  # parts in which a row may come or go, and shift the others
        if shown is not None and self.frame.counted:
            open_ = np.isin(self.parts, self.parts[~shown.decided])
        for part in self.sorted_parts(run, kept):
            decided = part.decided
            for place, row in enumerate(part.rows.tolist()):
                first, last = self.frame.ends(part.peers, place)
                listed.append(part.rows[first : last + 1])
                owners.append(np.full(len(listed[-1]), row))
                certain[row] = not open_[row] and self._placed(part, decided, place) and decided[first]
                certain[row] &= decided[max(last + 1, first)]
        rows = np.concatenate(listed)
        picked = Weight(weight.value[rows], weight.sure[rows], weight.possible[rows])
        groups = (np.concatenate(owners), self.rows)
        found = self.reducer([taken(operand, rows) for operand in operands], picked, groups)
        if certain.all():
            return found
        if isinstance(found, Labels):
            return Labels(found.codes, found.values, certain if found.certain is None else certain & found.certain)
        numbers = to_interval(found)
        return numbers.where(certain, Interval.unknown(numbers.value))

    def _placed(self, part: _Sorted, decided: np.ndarray, place: int) -> bool:
        """Whether a row, or with peers the row and those level with it, certainly stands where its estimate says."""
        if not self.frame.peers:
            return bool(decided[place] and decided[place + 1])
        first, last = CURRENT.ends(part.peers, place)
        return bool(decided[first] and decided[last + 1] and part.level[place])


@dataclass(frozen=True, eq=False)
class Rank(Windowed):
    """RANK, DENSE_RANK, ROW_NUMBER, PERCENT_RANK, CUME_DIST and NTILE."""

    what: str = field()
    buckets: int = 1

    def evaluate(self, run: Run) -> Interval:
        truth = self.there(run)
        found = rank_positions(run, self.order, self.parts, truth)
        kept = np.ones(self.rows, dtype=bool) if truth is None else truth.holds
        rank = Interval(found.before + 1, found.least + 1, found.most + 1)
        if self.what == "rank":
            return rank
        numbered = np.full(self.rows, np.nan)
        dense = np.full(self.rows, np.nan)
        exact = all(ranking.expr.known is not None for ranking in self.order)
        for part in self.sorted_parts(run, kept):
            numbered[part.rows] = np.arange(1.0, len(part.rows) + 1)
            dense[part.rows] = part.peers + 1.0
        numbered = np.where(np.isnan(numbered), found.before + 1, numbered)
        row = Interval(numbered, numbered, numbered) if exact and truth is None else Interval(
            numbered, found.least + 1, found.level_most + 1
        )  # fmt: skip
        if self.what == "row_number":
            return row
        if self.what == "dense_rank":
            dense = np.where(np.isnan(dense), found.before + 1, dense)
            if exact and truth is None:
                return Interval.exact(dense)
            return Interval(dense, np.minimum(dense, 1.0 + (found.least > 0)), np.maximum(dense, found.most + 1))
        return self._relative(rank, row, found.before + found.level, found, truth)

    def _relative(
        self, rank: Interval, row: Interval, upto: np.ndarray, found: object, truth: Truth | None
    ) -> Interval:
        weight = Weight.of(truth, self.rows)
        size = int(self.parts.max(initial=-1)) + 1
        parts = (weight.value >= 0.5, weight.sure, weight.possible)
        totals = [np.bincount(self.parts, part.astype(float), size)[self.parts] for part in parts]
        count = Interval(*totals)
        one = Interval.exactly(1.0, self.rows)
        if self.what == "percent_rank":
            value = np.where(count.value > 1, (rank.value - 1) / np.maximum(count.value - 1, 1.0), 0.0)
            plain = ((rank - one) / (count - one)).clipped(0.0, 1.0)
            return Interval(value, np.minimum(plain.low, value), np.maximum(plain.high, value))
        if self.what == "cume_dist":
            level_most = found.level_most  # type: ignore[attr-defined]
            place = Interval(upto, rank.low, level_most + 1)
            plain = (place / count).clipped(0.0, 1.0)
            if all(ranking.expr.known is not None for ranking in self.order) and truth is None:
                return Interval.exact(plain.value)
            return plain
        value = _bucket(row.value, count.value, self.buckets)
        low, high = _bucket(row.low, count.high, self.buckets), _bucket(row.high, count.low, self.buckets)
        return Interval(value, np.minimum(low, value), np.maximum(high, value))


def _bucket(row: np.ndarray, count: np.ndarray, buckets: int) -> np.ndarray:
    """NTILE: the first buckets have one more row if they cannot be equal."""
    size, more = np.divmod(np.maximum(count, 1.0), buckets)
    large = more * (size + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(size > 0, more + np.floor((row - 1 - large) / size), buckets - 1.0)
    found = np.where(row <= large, np.floor((row - 1) / (size + 1)), rest)
    return np.clip(found + 1, 1.0, buckets)


@dataclass(frozen=True, eq=False)
class Neighbour(Windowed):
    """LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE: a column of another row of the same partition."""

    place: Callable[[np.ndarray, int], int] = field()
    """From the peers of a sorted part and a row's place in it to that of the other row; outside there is none."""

    def evaluate(self, run: Run) -> Vector:
        truth = self.there(run)
        kept = np.ones(self.rows, dtype=bool) if truth is None else truth.holds
        picks = np.full(self.rows, -1, dtype=np.int64)
        certain = np.ones(self.rows, dtype=bool) if truth is None else truth.decided.copy()
        for part in self.sorted_parts(run, kept):
            last = len(part.rows) - 1
            alone = part.decided[:-1] & part.decided[1:]
            whole = truth is None or bool(truth.decided[part.rows].all())
            for place, row in enumerate(part.rows.tolist()):
                other = self.place(part.peers, place)
                inside = 0 <= other <= last
                picks[row] = part.rows[other] if inside else -1
                certain[row] &= whole and bool(alone[place]) and (not inside or bool(alone[other]))
        found = taken(run.of(self.operands[0]), picks)
        if len(self.operands) > 1:
            found = self._filled(found, run.of(self.operands[1]), picks < 0)
        if certain.all():
            return found
        if isinstance(found, (Labels, Bins)):
            labels = found.labelled() if isinstance(found, Bins) else found
            sure = certain if labels.certain is None else certain & labels.certain
            return Labels(labels.codes, labels.values, sure)
        numbers = to_interval(found)
        return numbers.where(certain, Interval.unknown(numbers.value))

    def _filled(self, found: Vector, default: Vector, missing: np.ndarray) -> Vector:
        """The default, if there is no such row."""
        if isinstance(found, Labels) and isinstance(default, Labels):
            codes = np.where(missing, default.codes + len(found.values), found.codes)
            return Labels(codes, (*found.values, *default.values), found.certain)
        return to_interval(default).where(missing, to_interval(found))


RANKS = {
    "rank": INTEGER,
    "dense_rank": INTEGER,
    "row_number": INTEGER,
    "ntile": INTEGER,
    "percent_rank": NUMBER,
    "cume_dist": NUMBER,
}
"""Kinds of the rank functions."""


def frame_rows(parts: np.ndarray, frame: Frame) -> int:
    """An upper bound on the number of rows of all frames together."""
    if frame.whole:
        return len(parts)
    sizes = np.bincount(parts).astype(float)
    if np.isfinite(frame.start) and np.isfinite(frame.end) and not frame.peers:
        return int((np.minimum(sizes, max(frame.end - frame.start + 1, 0)) * sizes).sum())
    return int((sizes * sizes).sum())
