"""The exact data player: an integer program solved by HiGHS, with a proven bound on what any record could win.

The best record for drawn linear queries as an integer program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from reticent.errors import QueryError, whole_number
from reticent.queries.forms import Form, Product
from reticent.releases.dualquery.data_player import Clauses, Drawn, PlayerReply, Search
from reticent.releases.dualquery.tables import VALUE, DrawnTables

ROUNDING = 1e-6
WARM_MOVES = 20_000
NODES = 1_000


@dataclass(frozen=True)
class IntegerProgram:
    """The best record if HiGHS finishes within `nodes` of its search tree; otherwise the better of two records, with a
    known gap.

    The other record is that of `Search`. Work is counted in nodes, never in seconds, so a run can be repeated and
    resumed.
    """

    nodes: int = NODES

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", whole_number(self.nodes, "nodes", 1))

    def respond(self, drawn: Drawn, sizes: np.ndarray, start: np.ndarray, seed: int) -> PlayerReply:
        """Untouched attributes keep the value they have in `start`."""
        return _answered(drawn, sizes, start, seed, {"node_limit": self.nodes})


@dataclass(frozen=True)
class ExactPlayer:
    """Like `IntegerProgram`, but stopped by the clock.

    A run whose rounds reach the time limit need not repeat exactly, and then cannot be resumed after a crash.
    """

    seconds: float = 15.0

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise QueryError(f"seconds={self.seconds} must be above 0")

    def respond(self, drawn: Drawn, sizes: np.ndarray, start: np.ndarray, seed: int) -> PlayerReply:
        """Untouched attributes keep the value they have in `start`."""
        return _answered(drawn, sizes, start, seed, {"time_limit": self.seconds})


def _answered(
    drawn: Drawn, sizes: np.ndarray, start: np.ndarray, seed: int, limit: Mapping[str, float | bool]
) -> PlayerReply:
    searched = Search(WARM_MOVES).respond(drawn, sizes, start, seed)
    if searched.bound is not None:
        return searched
    program = TableProgram(drawn, sizes) if isinstance(drawn, DrawnTables) else _ClauseProgram(drawn, sizes)
    result = milp(
        program.costs,
        integrality=program.whole,
        bounds=Bounds(0, 1),
        constraints=program.constraints,
        options=dict(limit),
    )
    dual = getattr(result, "mip_dual_bound", None)
    bound = program.bound(-float(dual)) if dual is not None and math.isfinite(dual) else None
    if result.x is None:
        return PlayerReply(searched.record, searched.satisfied, bound)
    record = program.record(result.x, start)
    found = drawn.satisfied(record)
    best, satisfied = (record, found) if found > searched.satisfied else (searched.record, searched.satisfied)
    return PlayerReply(best, satisfied, bound)


class _ClauseProgram:
    """Variables: one per literal that occurs (chosen or not), then one per clause (met or not)."""

    def __init__(self, clauses: Clauses, sizes: np.ndarray) -> None:
        present = clauses.attributes >= 0
        clause, place = np.nonzero(present)
        pairs = np.stack([clauses.attributes[clause, place], clauses.codes[clause, place]], axis=1)
        self.literals, literal = np.unique(pairs, axis=0, return_inverse=True)
        literal = literal.ravel()
        self._sizes = sizes
        self._penalty = clauses.penalty
        count, total = len(self.literals), len(clauses.gains)
        self.costs = np.concatenate([np.zeros(count), -clauses.gains.astype(float)])
        self.whole = np.concatenate([np.ones(count), np.zeros(total)])
        self.constraints = [
            self._one_code_each(count, total),
            *_met_implies_literals(clauses, clause, literal, count),
            *_literals_imply_met(clauses, clause, literal, count),
        ]

    def bound(self, gain: float) -> int:
        """Rounded inwards because gains are whole."""
        return self._penalty + math.floor(ROUNDING + gain)

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


MOST_CELLS = 1 << 12
"""Cells of one query that is neither on one attribute nor a product of sets of codes; each needs a variable."""


class TableProgram:
    """Variables: one per code of each touched attribute, exactly one of them chosen; then what the queries need.

    A query on one attribute is linear in these. A product of sets of codes has one variable: at most the chosen codes
    of each set where it is worth meeting, at least their sum minus all but one where it is worth missing. Any other
    query is the sum of its cells, each treated like a product of single codes.
    """

    def __init__(self, drawn: DrawnTables, sizes: np.ndarray) -> None:
        self._penalty = drawn.penalty
        # The search rounds products of several fractions once for each factor.
        self._stray = drawn.total * max(map(len, (form.attributes for form in drawn.forms)), default=0) / VALUE
        self._touched = drawn.touched
        self._first = np.concatenate([[0], np.cumsum(sizes[self._touched])])
        self._rows: list[tuple[list[int], list[float], float, float]] = []
        self._costs: list[float] = [0.0] * int(self._first[-1])
        for place in range(len(self._touched)):
            codes = range(int(self._first[place]), int(self._first[place + 1]))
            self._rows.append((list(codes), [1.0] * len(codes), 1.0, 1.0))
        for query, form in enumerate(drawn.forms):
            attributes = drawn.places[drawn.starts[query] : drawn.starts[query + 1]]
            bases = self._first[np.searchsorted(self._touched, attributes)].tolist()
            self._add(form, float(drawn.gains[query]), bases)
        self.costs = np.array(self._costs)
        # With one code chosen for each attribute, the other variables are whole by themselves.
        self.whole = (np.arange(len(self._costs)) < self._first[-1]).astype(float)
        self.constraints = [self._matrix()]

    def bound(self, gain: float) -> float:
        """What no record exceeds; floating point is rounded outwards."""
        return self._penalty + gain + ROUNDING * (1 + abs(gain)) + self._stray

    def record(self, solution: np.ndarray, start: np.ndarray) -> np.ndarray:
        record = start.astype(np.int64, copy=True)
        for place, attribute in enumerate(self._touched):
            record[attribute] = int(np.argmax(solution[self._first[place] : self._first[place + 1]]))
        return record

    def _add(self, form: Form, gain: float, bases: list[int]) -> None:
        if isinstance(form, Product):
            if len(form.vectors) == 1:
                for code, value in enumerate(_rounded(form.vectors[0])):
                    self._costs[bases[0] + code] -= gain * value
                return
            if form.binary:
                sets = [(np.flatnonzero(v) + base).tolist() for v, base in zip(form.vectors, bases, strict=True)]
                self._indicator(sets, gain)
                return
        values = _rounded(form.tensor())
        if values.size > MOST_CELLS:
            raise QueryError(
                f"the exact player takes tables of at most {MOST_CELLS} values, one has {values.size}; use the search"
            )
        cells = np.argwhere(values)
        own = []
        for cell in cells.tolist():
            own.append(len(self._costs))
            codes = [[base + code] for base, code in zip(bases, cell, strict=True)]
            self._indicator(codes, gain * float(values[tuple(cell)]))
        if gain > 0 and own:
            self._rows.append((own, [1.0] * len(own), -np.inf, 1.0))  # cells exclude each other

    def _indicator(self, sets: list[list[int]], gain: float) -> None:
        """One variable that is 1 exactly where each set holds its attribute's chosen code."""
        own = len(self._costs)
        self._costs.append(-gain)
        if gain > 0:
            for codes in sets:
                self._rows.append(([own, *codes], [1.0] + [-1.0] * len(codes), -np.inf, 0.0))
            return
        codes = [code for held in sets for code in held]
        self._rows.append(([own, *codes], [-1.0] + [1.0] * len(codes), -np.inf, float(len(sets) - 1)))

    def _matrix(self) -> LinearConstraint:
        row = np.repeat(np.arange(len(self._rows)), [len(columns) for columns, _, _, _ in self._rows])
        column = np.concatenate([columns for columns, _, _, _ in self._rows]).astype(np.int64)
        value = np.concatenate([values for _, values, _, _ in self._rows])
        matrix = coo_array((value, (row, column)), shape=(len(self._rows), len(self._costs)))
        low, high = (np.array([entry[end] for entry in self._rows]) for end in (2, 3))
        return LinearConstraint(matrix.tocsr(), low, high)  # pyright: ignore[reportArgumentType]


def _rounded(values: np.ndarray) -> np.ndarray:
    """As the search counts them."""
    return np.rint(values * VALUE) / VALUE
