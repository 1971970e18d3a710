"""The data player answers drawn queries with a record that meets as many as it can; it sees nothing private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from reticent.errors import QueryError
from reticent.releases.dualquery.data_player_kernels import anneal
from reticent.releases.dualquery.tables import DrawnTables

MOVES, MOVES_PER_CLAUSE = 2_000, 4
STAGES = 32
# Acceptance of a loss is tabulated: beyond this loss it is below 2^-31 at every temperature used.
LOSSES = 64
HOT, COLD = 1.0, 0.15
FINENESS = 32
"""Fractional losses are tabulated in steps of one over this."""


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
    def total(self) -> int:
        """Drawn weight, complements that cancelled left out: no record wins more."""
        return int(np.abs(self.gains).sum())

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


def merged_clauses(attributes: np.ndarray, codes: np.ndarray, gains: np.ndarray) -> Clauses:
    """Equal conjunctions become one clause; a query drawn together with its own complement cancels."""
    rows, index = np.unique(np.hstack([attributes, codes]), axis=0, return_inverse=True)
    net = np.bincount(index.ravel(), weights=gains, minlength=len(rows)).astype(np.int64)
    rows, net = rows[net != 0], net[net != 0]
    width = attributes.shape[1]
    return Clauses(rows[:, :width], rows[:, width:], net)


Drawn = Clauses | DrawnTables
"""What the data player answers: conjunctions, or any linear queries."""


@dataclass(frozen=True, eq=False)
class PlayerReply:
    """A record, the drawn weight it satisfies, and an upper bound on what any record could (None if unknown)."""

    record: np.ndarray
    satisfied: float
    bound: float | None


class DataPlayer(Protocol):
    """Any rule is safe: the reply is a function of drawn queries and public randomness."""

    def respond(self, drawn: Drawn, sizes: np.ndarray, start: np.ndarray, seed: int) -> PlayerReply: ...


def _acceptance(fineness: int = 1) -> np.ndarray:
    """`limits[stage, loss * fineness]` in units of 2^-31, geometric cooling."""
    temperatures, losses = np.geomspace(HOT, COLD, STAGES), np.arange(LOSSES * fineness) / fineness
    return np.floor(2.0**31 * np.exp(-losses[None, :] / temperatures[:, None])).astype(np.int64)


@dataclass(frozen=True)
class Search:
    """Annealing by moves that aim at one drawn query: optimal or close to it, in milliseconds. The default.

    `moves=None` grows with the queries; several replies a round make up for what one of them misses. The work is
    counted in moves, never in seconds, so that a run repeats.
    """

    moves: int | None = None

    def __post_init__(self) -> None:
        if self.moves is not None and self.moves < 1:
            raise QueryError(f"{self.moves} moves: the search needs at least 1")

    def respond(self, drawn: Drawn, sizes: np.ndarray, start: np.ndarray, seed: int) -> PlayerReply:
        """Untouched attributes keep the value they have in `start`."""
        if isinstance(drawn, DrawnTables):
            return self._among_tables(drawn, sizes, start, seed)
        return self._among_clauses(drawn, sizes, start, seed)

    def _among_tables(self, drawn: DrawnTables, sizes: np.ndarray, start: np.ndarray, seed: int) -> PlayerReply:
        from reticent.releases.dualquery.table_kernels import anneal_tables

        record = start.astype(np.int64, copy=True)
        if len(drawn.forms) == 0 or len(drawn.touched) == 0:
            won = drawn.satisfied(record)
            return PlayerReply(record, won, won)
        first, members = drawn.occurrences
        goal_ends, goals = drawn.goals
        anneal_tables(
            drawn.dense,
            drawn.starts,
            drawn.places,
            drawn.steps,
            drawn.base,
            drawn.values,
            drawn.gains,
            goal_ends,
            goals,
            drawn.touched,
            sizes.astype(np.int64),
            first,
            members,
            record,
            _FINE_LIMITS,
            FINENESS,
            self.moves or max(MOVES, MOVES_PER_CLAUSE * len(drawn.forms)),
            np.uint64(seed),
        )
        won = drawn.satisfied(record)
        return PlayerReply(record, won, won if won >= drawn.total else None)

    def _among_clauses(self, clauses: Clauses, sizes: np.ndarray, start: np.ndarray, seed: int) -> PlayerReply:
        record = start.astype(np.int64, copy=True)
        if len(clauses.gains) == 0:
            return PlayerReply(record, 0, 0)
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
        return PlayerReply(record, satisfied, ceiling if satisfied == ceiling else None)


def _occurrences(local: np.ndarray, codes: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every literal (attribute, code) the clauses that name it, as one list with end positions."""
    clause, place = np.nonzero(local >= 0)
    literals = first[local[clause, place]] + codes[clause, place]
    order = np.argsort(literals, kind="stable")
    ends = np.searchsorted(literals[order], np.arange(first[-1] + 1))
    return ends, clause[order]


_LIMITS = _acceptance()
_FINE_LIMITS = _acceptance(FINENESS)
