"""The data player answers drawn queries with a record that meets as many as it can; it sees nothing private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from reticent.algorithms.data_player_kernels import anneal
from reticent.errors import QueryError

MOVES, MOVES_PER_CLAUSE = 2_000, 4
STAGES = 32
# Acceptance of a loss is tabulated: beyond this loss it is below 2^-31 at every temperature used.
LOSSES = 64
HOT, COLD = 1.0, 0.15


@dataclass(frozen=True, eq=False)
class Clauses:
    """Drawn conjunctions, each with the weight a record wins by meeting it (negative: by missing it).

    Rows of `attributes` and `codes` are literals `record[attribute] == code`; attribute -1 pads shorter ones.
    """

    attributes: np.ndarray
    codes: np.ndarray
    gains: np.ndarray

    def __post_init__(self) -> None:
        if self.attributes.ndim != 2 or self.attributes.shape != self.codes.shape:
            raise QueryError(
                f"literals of shape {self.attributes.shape} and {self.codes.shape} do not match: give two equal tables"
            )
        if self.gains.shape != self.attributes.shape[:1]:
            raise QueryError(f"{self.gains.size} gains for {len(self.attributes)} clauses: give one for each")

    @property
    def penalty(self) -> int:
        """The weight of all negated clauses: what a record that meets none of them wins."""
        return -int(self.gains[self.gains < 0].sum())

    def satisfied(self, record: np.ndarray) -> int:
        """How much drawn weight `record` satisfies, negated clauses included."""
        met = (self.attributes < 0) | (record[self.attributes] == self.codes)
        return self.penalty + int(self.gains[met.all(axis=1)].sum())

    @cached_property
    def touched(self) -> np.ndarray:
        """The attributes that occur, ascending; only they need a decision."""
        return np.unique(self.attributes[self.attributes >= 0])


def merged(attributes: np.ndarray, codes: np.ndarray, gains: np.ndarray) -> Clauses:
    """Equal conjunctions become one clause; a query drawn together with its own complement cancels."""
    rows, index = np.unique(np.hstack([attributes, codes]), axis=0, return_inverse=True)
    net = np.bincount(index.ravel(), weights=gains, minlength=len(rows)).astype(np.int64)
    rows, net = rows[net != 0], net[net != 0]
    width = attributes.shape[1]
    return Clauses(rows[:, :width], rows[:, width:], net)


@dataclass(frozen=True, eq=False)
class Reply:
    """A record, the drawn weight it satisfies, and an upper bound on what any record could (None if unknown)."""

    record: np.ndarray
    satisfied: int
    bound: int | None


class DataPlayer(Protocol):
    """Any rule is safe: the reply is a function of drawn queries and public randomness."""

    def respond(self, clauses: Clauses, sizes: np.ndarray, start: np.ndarray, seed: int) -> Reply: ...


def _acceptance() -> np.ndarray:
    """`limits[stage, loss]` in units of 2^-31, geometric cooling."""
    temperatures = np.geomspace(HOT, COLD, STAGES)
    return np.floor(2.0**31 * np.exp(-np.arange(LOSSES)[None, :] / temperatures[:, None])).astype(np.int64)


@dataclass(frozen=True)
class Search:
    """Annealing by clause moves: optimal or close to it, in milliseconds. The default.

    `moves=None` grows with the clauses; several replies a round make up for what one of them misses.
    """

    moves: int | None = None

    def __post_init__(self) -> None:
        if self.moves is not None and self.moves < 1:
            raise QueryError(f"{self.moves} moves: the search needs at least 1")

    def respond(self, clauses: Clauses, sizes: np.ndarray, start: np.ndarray, seed: int) -> Reply:
        """Untouched attributes keep the value they have in `start`."""
        record = start.astype(np.int64, copy=True)
        if len(clauses.gains) == 0:
            return Reply(record, 0, 0)
        touched = clauses.touched
        local = np.where(clauses.attributes < 0, -1, np.searchsorted(touched, clauses.attributes))
        local_sizes = sizes[touched].astype(np.int64)
        first = np.concatenate([[0], np.cumsum(local_sizes)])
        ends, members = _occurrences(local, clauses.codes, first)
        state = record[touched]
        codes = clauses.codes.astype(np.int64)
        moves = self.moves or max(MOVES, MOVES_PER_CLAUSE * len(codes))
        gain = anneal(
            local, codes, clauses.gains, local_sizes, first, ends, members, state, _LIMITS, moves, np.uint64(seed)
        )
        record[touched] = state
        satisfied = clauses.penalty + int(gain)
        ceiling = int(np.abs(clauses.gains).sum())
        return Reply(record, satisfied, ceiling if satisfied == ceiling else None)


def _occurrences(local: np.ndarray, codes: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every literal (attribute, code) the clauses that name it, as one list with end positions."""
    clause, place = np.nonzero(local >= 0)
    literals = first[local[clause, place]] + codes[clause, place]
    order = np.argsort(literals, kind="stable")
    ends = np.searchsorted(literals[order], np.arange(first[-1] + 1))
    return ends, clause[order]


_LIMITS = _acceptance()
