"""The best record for drawn linear queries as an integer program."""

from __future__ import annotations

import numpy as np
from scipy.optimize import LinearConstraint
from scipy.sparse import coo_array

from reticent.errors import QueryError
from reticent.queries.forms import Form, Product
from reticent.releases.dualquery.tables import VALUE, DrawnTables

MOST_CELLS = 1 << 12
"""Cells of one query that is neither on one attribute nor a product of sets of codes; each needs a variable."""
ROUNDING = 1e-6


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
