"""Medians of the pieces of a column, as scores for the exponential mechanism (docs/proofs/medians.md).

Every place of a line is divided into 32 positions: records with exactly the same value are spread over its positions as
evenly as whole numbers allow, so that a median may fall among them. A candidate is a position; records before it are
below. Its score is minus the difference between the weights below and not below, within the piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.discovery.lines import Line
from reticent.kernel.mechanisms.base import Exponential, Sensitivity
from reticent.kernel.mechanisms.sampling import uniform_integer

POSITIONS = 32
"""Of each place."""


class NumberSource(Protocol):
    """The distinct numbers of an undeclared column, with the weight of the records that have them."""

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True, eq=False)
class PositionRuns:
    """The candidates of one piece: run i has positions first[i] to last[i], one score, and a total of copies."""

    first: np.ndarray
    last: np.ndarray
    scores: np.ndarray
    copies: np.ndarray


@dataclass(frozen=True, eq=False)
class MedianScores:
    """One median for each piece, a half-open range of positions; pieces do not overlap.

    The sensitivity of all their scores together is 1 (add-remove) or 2 (replace-one), so one price pays for all of
    them.
    """

    name: str
    line: Line
    pieces: tuple[tuple[int, int], ...]
    bounds: tuple[float, float] | None = None
    """Public; values beyond them count as the nearest one."""

    def __post_init__(self) -> None:
        bounds = [bound for piece in self.pieces for bound in piece]
        if not bounds or bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > self.line.size * POSITIONS:
            raise QueryError("pieces are ranges of positions of the line, in order and without overlap; at least one")

    def resolution(self, person_grid: int) -> int:
        return 1

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return Sensitivity.scalar(2 if neighbours == "replace-one" else 1)

    def evaluate(self, source: NumberSource, person_grid: int) -> list[PositionRuns]:
        """Candidates grouped by equal scores; the copies of each run are exact."""
        values, weights = source.numbers(self.name)
        if self.bounds is not None:
            values = np.clip(values, *self.bounds)
        slots, weights = occupied_positions(self.line, values, weights)
        return [self._runs(slots, weights, piece) for piece in self.pieces]

    def _runs(self, slots: np.ndarray, weights: np.ndarray, piece: tuple[int, int]) -> PositionRuns:
        start, end = piece
        inside = slice(*np.searchsorted(slots, piece, side="left"))
        held, total = weights[inside], int(weights[inside].sum())
        # Beyond an occupied slot one more record is below; a slot just before the end has no candidate beyond it.
        first = np.concatenate([[start], slots[inside] + 1])
        below = np.concatenate([[0], np.cumsum(held)])
        if len(first) > 1 and first[-1] >= end:
            first, below = first[:-1], below[:-1]
        last = np.append(first[1:] - 1, max(end - 1, start))
        copies = self._copies_upto(last) - self._copies_upto(first - 1)
        return PositionRuns(first, last, -np.abs(2 * below - total), copies)

    def _copies_upto(self, positions: np.ndarray) -> np.ndarray:
        places, part = np.divmod(positions, POSITIONS)
        before = self.line.copies_upto(places - 1)
        return POSITIONS * before + (part + 1) * (self.line.copies_upto(places) - before)

    def draw(
        self, runs: Sequence[PositionRuns], mechanism: Exponential, sensitivity: Sensitivity, grid: int
    ) -> np.ndarray:
        """One position for each piece: a run by the exponential mechanism, then one of its copies uniformly."""
        found = []
        for piece in runs:
            (run,) = mechanism.draw(piece.scores, sensitivity.l1, grid, copies=piece.copies)
            found.append(self._position(int(piece.first[run]), int(piece.last[run])))
        return np.array(found, dtype=np.int64)

    def _position(self, first: int, last: int) -> int:
        before = int(self._copies_upto(np.array(first - 1)))
        wanted = before + uniform_integer(int(self._copies_upto(np.array(last))) - before)
        while first < last:
            middle = (first + last) // 2
            if int(self._copies_upto(np.array(middle))) > wanted:
                last = middle
            else:
                first = middle + 1
        return first

    def describe(self) -> dict[str, object]:
        bounds = {} if self.bounds is None else {"bounds": list(self.bounds)}
        pieces = [list(piece) for piece in self.pieces]
        return {"medians of": self.name, "pieces": pieces, **bounds, **self.line.describe()}


def occupied_positions(line: Line, values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Occupied positions, in order, and their weights.

    A value on the line is spread over its positions: of a weight w the j-th has floor((w + 31 - j) / 32). Each of these
    grows with w and all of them together are w, so the histogram moves by no more than w does. What lies between two
    values goes to the last position of the lower one.
    """
    places, exact = line.located(np.asarray(values, dtype=np.float64))
    shared, index = np.unique(places[exact], return_inverse=True)
    held = np.zeros(len(shared), dtype=np.int64)
    np.add.at(held, index, weights[exact])
    parts = np.arange(POSITIONS)
    divided = (held[:, None] + (POSITIONS - 1 - parts)) // POSITIONS
    slots = np.concatenate([(shared[:, None] * POSITIONS + parts).ravel(), places[~exact] * POSITIONS + POSITIONS - 1])
    occupied, index = np.unique(slots, return_inverse=True)
    total = np.zeros(len(occupied), dtype=np.int64)
    np.add.at(total, index, np.concatenate([divided.ravel(), weights[~exact]]))
    return occupied[total > 0], total[total > 0]
