"""What the numbers of a statement are of: values clipped to their declared range, and each person's own mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.values import number_text
from reticent.errors import QueryError
from reticent.queries.literals import readable_name
from reticent.queries.numbers import scaled_numbers
from reticent.sql.expressions import Expr, MeanExpr, Partly, Run, Sum, walk
from reticent.sql.refusals import refused
from reticent.sql.vectors import NUMERIC

if TYPE_CHECKING:
    from reticent.sql.result import ResultTable
    from reticent.sql.statement import Statement


def basis_of(statement: Statement, table: ResultTable, run: Run, unit: str) -> str:
    """One line; empty for statements that only count, or sum values that are their own bins."""
    exprs = [one.expr for one in statement.fields if one.expr.known is None]
    columns = sorted({column for expr in exprs for column in _columns(statement, expr)})
    if not columns:
        return ""
    words = []
    for column in columns:
        try:
            _, lower, upper = scaled_numbers(statement.domain, column)
        except QueryError:  # a category that only chooses between numbers
            continue
        words.append(f"{readable_name(column)} clipped to [{number_text(lower)}, {number_text(upper)}]")
    if unit == "person":
        words.append("averages are means of persons' means")
    coarse = sorted({column for expr in exprs if _dominated(expr, run) for column in _binned(statement, expr)})
    if coarse and len(table):
        listed = ", ".join(map(readable_name, coarse))
        words.append(f"most of the error is what bins hide: finer ones of {listed} would help")
    return "; ".join(words)


def refuse_sums(statement: Statement, unit: str) -> None:
    """Where each person weighs one, a row weighs a part of one: SUM would be no sum of anything."""
    if unit != "person":
        return
    for one in statement.fields:
        if one.expr.known is None and _sums(statement, one.expr):
            raise refused(
                f"{one.name} is a sum, and every person weighs one however many rows they have",
                "use AVG, the mean of persons' means, or read the table with rows='bounded'",
            )


def _sums(statement: Statement, expr: Expr) -> bool:
    """Whether a sum of a column is shown, not only divided by a count inside a mean."""
    if isinstance(expr, Sum):
        return any(statement.columns[place] is not None for _, place in expr.terms)
    if isinstance(expr, MeanExpr):
        return False
    return any(_sums(statement, child) for child in expr.children)


def _columns(statement: Statement, expr: Expr) -> Iterator[str]:
    for place in expr.places:
        yield from statement.columns[place] or ()


def _binned(statement: Statement, expr: Expr) -> Iterator[str]:
    for place in expr.places:
        if place in statement.binned:
            yield statement.binned[place].column
        elif place in statement.coarse:
            yield statement.coarse[place]


def _dominated(expr: Expr, run: Run) -> bool:
    """Whether binning is more than half of what is stated in some row, or leaves nothing to state."""
    if expr.kind not in NUMERIC or not any(_blurred(one) for one in walk((expr,))):
        return False
    stated, noise = run.numbers(expr).error, run.unbinned().numbers(expr).error
    with np.errstate(invalid="ignore"):
        return bool(np.any(np.isfinite(noise) & (stated > 2 * noise)))


def _blurred(expr: Expr) -> bool:
    return isinstance(expr, (Sum, MeanExpr, Partly)) or hasattr(expr, "second") or hasattr(expr, "product")
