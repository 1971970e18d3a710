"""The exact data player: an integer program solved by HiGHS, with a proven bound on what any record could win."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from reticent.algorithms.data_player import Clauses, Reply, Search
from reticent.errors import QueryError

ROUNDING = 1e-6
WARM_MOVES = 20_000


@dataclass(frozen=True)
class ExactPlayer:
    """Optimal where HiGHS finishes within `seconds`, else the better of its record and the search's, the gap known.

    A run whose rounds meet the time limit need not repeat exactly, and then cannot be resumed after a crash.
    """

    seconds: float = 15.0

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise QueryError(f"seconds={self.seconds} must be above 0")

    def respond(self, clauses: Clauses, sizes: np.ndarray, start: np.ndarray, seed: int) -> Reply:
        """Untouched attributes keep the value they have in `start`."""
        searched = Search(WARM_MOVES).respond(clauses, sizes, start, seed)
        if searched.bound is not None:
            return searched
        program = _Program(clauses, sizes)
        result = milp(
            program.costs,
            integrality=program.whole,
            bounds=Bounds(0, 1),
            constraints=program.constraints,
            options={"time_limit": self.seconds},
        )
        dual = getattr(result, "mip_dual_bound", None)
        # The program minimises minus the gain; its bound is rounded inwards because gains are whole.
        known = dual is not None and math.isfinite(dual)
        bound = clauses.penalty + math.floor(ROUNDING - float(dual or 0.0)) if known else None
        if result.x is None:
            return Reply(searched.record, searched.satisfied, bound)
        record = program.record(result.x, start)
        found = clauses.satisfied(record)
        best, satisfied = (record, found) if found > searched.satisfied else (searched.record, searched.satisfied)
        return Reply(best, satisfied, bound)


class _Program:
    """Variables: one per literal that occurs (chosen or not), then one per clause (met or not)."""

    def __init__(self, clauses: Clauses, sizes: np.ndarray) -> None:
        present = clauses.attributes >= 0
        clause, place = np.nonzero(present)
        pairs = np.stack([clauses.attributes[clause, place], clauses.codes[clause, place]], axis=1)
        self.literals, literal = np.unique(pairs, axis=0, return_inverse=True)
        literal = literal.ravel()
        self._sizes = sizes
        count, total = len(self.literals), len(clauses.gains)
        self.costs = np.concatenate([np.zeros(count), -clauses.gains.astype(float)])
        self.whole = np.concatenate([np.ones(count), np.zeros(total)])
        self.constraints = [
            self._one_code_each(count, total),
            *_met_implies_literals(clauses, clause, literal, count),
            *_literals_imply_met(clauses, clause, literal, count),
        ]

    def _one_code_each(self, count: int, total: int) -> LinearConstraint:
        """At most one code of an attribute; exactly one where every code occurs, for then there is no other to take."""
        owners, row, used = np.unique(self.literals[:, 0], return_inverse=True, return_counts=True)
        matrix = coo_array((np.ones(count), (row.ravel(), np.arange(count))), shape=(len(owners), count + total))
        return _bounded(matrix, np.where(used == self._sizes[owners], 1.0, 0.0), np.ones(len(owners)))

    def record(self, solution: np.ndarray, start: np.ndarray) -> np.ndarray:
        record = start.astype(np.int64, copy=True)
        for attribute in np.unique(self.literals[:, 0]):
            mine = np.flatnonzero(self.literals[:, 0] == attribute)
            chosen = mine[solution[mine] > 0.5]
            codes = self.literals[mine, 1]
            if len(chosen):
                record[attribute] = self.literals[chosen[0], 1]
            elif record[attribute] in codes:
                record[attribute] = np.setdiff1d(np.arange(int(self._sizes[attribute])), codes)[0]
        return record


def _met_implies_literals(
    clauses: Clauses, clause: np.ndarray, literal: np.ndarray, count: int
) -> list[LinearConstraint]:
    """`met_c <= chosen_l` for every literal of a clause worth meeting."""
    wanted = clauses.gains[clause] > 0
    rows = int(wanted.sum())
    if rows == 0:
        return []
    row = np.arange(rows)
    columns = np.concatenate([count + clause[wanted], literal[wanted]])
    values = np.concatenate([np.ones(rows), -np.ones(rows)])
    matrix = coo_array((values, (np.concatenate([row, row]), columns)), shape=(rows, count + len(clauses.gains)))
    return [_bounded(matrix, np.full(rows, -np.inf), np.zeros(rows))]


def _literals_imply_met(
    clauses: Clauses, clause: np.ndarray, literal: np.ndarray, count: int
) -> list[LinearConstraint]:
    """`met_c >= (sum of its literals) - (their number - 1)` for every clause worth missing."""
    avoided = np.flatnonzero(clauses.gains < 0)
    if len(avoided) == 0:
        return []
    kept = clauses.gains[clause] < 0
    row = np.searchsorted(avoided, clause[kept])
    rows = np.concatenate([row, np.arange(len(avoided))])
    columns = np.concatenate([literal[kept], count + avoided])
    values = np.concatenate([np.ones(len(row)), -np.ones(len(avoided))])
    matrix = coo_array((values, (rows, columns)), shape=(len(avoided), count + len(clauses.gains)))
    width = np.bincount(row, minlength=len(avoided))
    return [_bounded(matrix, np.full(len(width), -np.inf), width - 1.0)]


def _bounded(matrix: coo_array, lower: np.ndarray, upper: np.ndarray) -> LinearConstraint:
    return LinearConstraint(matrix.tocsr(), lower, upper)  # pyright: ignore[reportArgumentType]
