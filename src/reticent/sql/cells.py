"""Expressions over one record, evaluated on the cells of their columns; every possible record is in one cell.

A column of categories has one value in a cell, a column of bins an interval. An expression therefore has a value, an
interval or several possible outcomes in each cell, which determines its possible uses: a condition, a key of GROUP BY,
or a number to be summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import OTHER_LABEL, Domain, Numeric
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of, any_of, col
from reticent.sql.expressions import Expr, Known
from reticent.sql.functions import Compiler
from reticent.sql.refusals import CELLS_A_STEP, Meter, refused, refused_node, wording
from reticent.sql.scope import Scope
from reticent.sql.vectors import Bins, Labels, column_vector, kind_of

MAX_CELLS = 2**16
"""Combinations of codes on which one expression is evaluated."""
CELL_STEPS = 30
"""Of writing one run of codes as a predicate."""


class CellCompiler(Compiler):
    """Expressions over all combinations of the codes of some columns."""

    def __init__(self, scope: Scope, names: tuple[str, ...], tree: exp.Expr, *, opened: bool = False) -> None:
        self.scope = scope
        self.names = names
        shape = scope.domain.shape_of(names)
        cells = scope.domain.cells(names)
        if cells > MAX_CELLS:
            listed = ", ".join(names)
            raise refused(
                f"{wording(tree)} combines {cells} codes of {listed}; at most {MAX_CELLS}",
                "use fewer or coarser columns",
            )
        super().__init__(cells, scope.meter)
        self.meter.charge(len(names) * (10 + cells // CELLS_A_STEP))
        codes = np.unravel_index(np.arange(cells), shape) if names else ()
        self._columns = {}
        for name, places in zip(names, codes, strict=True):
            vector = column_vector(scope.domain[name], np.asarray(places), literal=scope.literal)
            if opened and isinstance(vector, Bins):
                vector = replace(vector, open=True)
            self._columns[name] = Known(vector, kind_of(scope.domain[name]))

    def leaf(self, tree: exp.Expr) -> Expr | None:
        if isinstance(tree, exp.Column):
            return self._columns[self.scope.attribute(tree)]
        if isinstance(tree, (exp.Query, exp.Subquery)):
            return self.scope.scalar(tree, self.rows)
        return None

    def unusable(self, tree: exp.Expr) -> QueryError:
        if isinstance(tree, (exp.AggFunc, exp.Filter)):
            return refused(f"{wording(tree)} is an aggregate, and this is evaluated for each record", "use HAVING")
        if isinstance(tree, exp.Window):
            return refused(f"{wording(tree)} ranks records", "group first, and rank the groups")
        return refused_node(tree, "use columns, constants and functions of them")


@dataclass(frozen=True, eq=False)
class OnCells:
    """An expression on every cell of the columns that it names."""

    names: tuple[str, ...]
    """In the domain's order."""
    found: Expr
    scope: Scope

    @property
    def known(self) -> Known | None:
        """Its column, unless it depends on an answer."""
        return self.found if isinstance(self.found, Known) else None

    @property
    def size(self) -> int:
        return self.scope.domain.cells(self.names)

    def first_open(self) -> str:
        """The first cell in which the expression has several values, described by its bins."""
        known = self.known
        if known is None:
            return ""
        vector = known.vector.interval if isinstance(known.vector, Bins) else known.vector
        certain = vector.certain if isinstance(vector, Labels) else vector.decided
        open_ = np.flatnonzero(~certain) if certain is not None else np.zeros(0, dtype=int)
        if not open_.size:
            return ""
        return self.bins_of(int(open_[0]))

    def bins_of(self, cell: int) -> str:
        """The bins of a cell."""
        codes = np.unravel_index(cell, self.scope.domain.shape_of(self.names))
        found = []
        for name, code in zip(self.names, codes, strict=True):
            attribute = self.scope.domain[name]
            if attribute.radii[int(code)] > 0:
                found.append(f"the bin {attribute.labels[int(code)]} of {name}")
        return " and ".join(found)

    def predicate(self, mask: np.ndarray) -> Predicate:
        """The records in some of the cells."""
        domain = self.scope.domain
        return predicate_of(mask.reshape(domain.shape_of(self.names)), self.names, domain, self.scope.meter)


def on_cells(tree: exp.Expr, scope: Scope, *, opened: bool = False) -> OnCells:
    """Evaluate an expression over one record; the scope's own columns must be plain.

    `opened`: the last bin of a column is taken without its upper edge.
    """
    found = {scope.attribute(column) for column in columns_of(tree)}
    names = scope.domain.canonical(found)
    return OnCells(names, CellCompiler(scope, names, tree, opened=opened).expr(tree), scope)


def columns_of(tree: exp.Expr) -> list[exp.Column]:
    """Columns of an expression, without those of subqueries in it."""
    found: list[exp.Column] = []
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Column):
            found.append(node)
        elif not isinstance(node, exp.Query):
            waiting += list(node.iter_expressions())
    return found


def predicate_of(mask: np.ndarray, names: Sequence[str], domain: Domain, meter: Meter) -> Predicate:
    """A predicate that is true exactly in the cells of a mask.

    Codes of the first column with the same allowed codes of the others are written once.
    """
    if not names:
        return Everything() if bool(mask) else ~Everything()
    if len(names) == 1:
        return codes_predicate(names[0], mask, domain, meter)
    rows = np.packbits(mask.reshape(len(mask), -1), axis=1)
    meter.charge(CELL_STEPS + len(rows) + mask.size // CELLS_A_STEP)
    members: dict[bytes, list[int]] = {}
    for code, row in enumerate(rows):
        members.setdefault(row.tobytes(), []).append(code)
    parts: list[Predicate] = []
    for codes in members.values():
        if mask[codes[0]].any():
            chosen = np.zeros(len(mask), dtype=bool)
            chosen[codes] = True
            first = codes_predicate(names[0], chosen, domain, meter)
            parts.append(all_of((first, predicate_of(mask[codes[0]], names[1:], domain, meter))))
    return any_of(parts)


def codes_predicate(name: str, chosen: np.ndarray, domain: Domain, meter: Meter) -> Predicate:
    """True for some codes of one column."""
    attribute, column = domain[name], col(name)
    if chosen.all():
        return Everything()
    listed: list[Predicate] = []
    known = np.flatnonzero(chosen[: attribute.known])
    meter.charge(CELL_STEPS + 3 * len(known))
    if isinstance(attribute, Numeric):
        listed += [
            _run(attribute, column, run) for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1) if run.size
        ]
    elif known.size:
        listed.append(column.isin([attribute.value(int(code)) for code in known]))
    if attribute.null_code is not None and chosen[attribute.null_code]:
        listed.append(column.is_null())
    if attribute.other_code is not None and chosen[attribute.other_code]:
        listed.append(column == OTHER_LABEL)
    meter.charge(CELL_STEPS * len(listed))
    return any_of(listed)


def _run(attribute: Numeric, column: Any, run: np.ndarray) -> Predicate:
    """Consecutive bins; values beyond the edges are clamped, so the end bins are open outwards."""
    first, last = int(run[0]), int(run[-1])
    if first == 0 and last == attribute.known - 1:
        return column.is_known()
    lower, upper = column >= attribute.edges[first], column < attribute.edges[min(last + 1, attribute.known)]
    if last == attribute.known - 1:
        return lower
    return upper if first == 0 else all_of((lower, upper))
