"""Which error each question behind a statement needs, so that averages and other quotients reach the wanted one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from reticent.answer import Answer
from reticent.queries import Query
from reticent.sql.expressions import Node, Number, Shares, Sum
from reticent.sql.intervals import Interval
from reticent.sql.keys import ClassKey, ColumnKey
from reticent.sql.outputs import Output
from reticent.sql.refusals import refused
from reticent.sql.result import ResultTable

if TYPE_CHECKING:
    from reticent.sql.statement import Statement

LARGEST = 0.5
"""An error of a share beyond it says nothing."""
SMALLEST = 1e-12
STEPS = 30
"""Halvings on a logarithmic scale: what is found is within a hair of the largest error that serves."""
TURNED = 4
"""So many measures of one expression are moved up and down in all combinations; more of them all together."""


def targets(
    statement: Statement, estimates: Mapping[Query, Answer], wanted: float, *, records: float, records_error: float
) -> dict[Query, float]:
    """`wanted` is a share of the table for counts and sums, and the number's own unit for averages and quotients.

    Judged at the estimates, moved by as much as noise may move the answers. Where the estimates are far off, so is
    the bound that is stated in the end; asking once more starts from better ones.
    """
    needed = [math.inf] * len(statement.measures)
    group = statement.judged(estimates, records, records_error)
    for output in statement.outputs:
        if isinstance(output.source, (ColumnKey, ClassKey, Number)):
            continue
        error = wanted if isinstance(output.source, Sum) else _reaching(statement, output, group.shares, wanted)
        for place in output.source.places:
            needed[place] = min(needed[place], error)
    found: dict[Query, float] = {}
    for blocks, error in zip(statement.measures, needed, strict=True):
        for block in blocks:
            if block.query is not None:
                # What only HAVING or ORDER BY look at is asked as a count is.
                found[block.query] = min(found.get(block.query, math.inf), error if error < math.inf else wanted)
    return {query: found[query] for query in statement.queries}


def shortfall(statement: Statement, table: ResultTable, wanted: float) -> str:
    """Says plainly where an average or quotient did not reach the wanted error; empty if all did."""
    found = []
    for place, output in enumerate(statement.outputs):
        if isinstance(output.source, (ColumnKey, ClassKey, Number, Sum)):
            continue
        cells = [(row[place], errors[place]) for row, errors in zip(table.rows, table.errors, strict=True)]
        missed = [error for value, error in cells if value is not None and (error is None or error > wanted)]
        if missed:
            bounds = [error for error in missed if error is not None]
            reached = f"±{max(bounds):.3g} was" if len(bounds) == len(missed) else "no bound was"
            rows = "" if len(cells) == 1 else f" in {len(missed)} of {len(cells)} rows"
            found.append(f"{output.name}: ±{wanted:g} was not reached{rows}, {reached}")
    return "; ".join(found)


def _reaching(statement: Statement, output: Output, shares: Shares, wanted: float) -> float:
    """The largest error of the shares with which the expression stays within `wanted` in every row that has a value."""
    node, places = _number(output), _number(output).places
    known = ~np.isnan(node.evaluate(shares).value)
    low, high = math.log(SMALLEST), math.log(LARGEST)
    if not known.any() or _worst(node, places, shares, LARGEST, known) <= wanted:
        return LARGEST
    if _worst(node, places, shares, SMALLEST, known) > wanted:
        raise refused(
            f"{output.name} cannot reach an error of {wanted:g} however much is paid",
            "ask for a larger one, without rounding, or leave small groups out with HAVING",
        )
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _worst(node, places, shares, math.exp(middle), known) <= wanted:
            low = middle
        else:
            high = middle
    return math.exp(low)


def _worst(node: Node, places: Sequence[int], shares: Shares, error: float, known: np.ndarray) -> float:
    """The largest error over all rows when every measure is off by `error`, in any direction, and known as well."""
    worst = 0.0
    signs = itertools.product((-1.0, 1.0), repeat=len(places)) if len(places) <= TURNED else _together(len(places))
    for turned in signs:
        measures = list(shares.measures)
        for place, sign in zip(places, turned, strict=True):
            measures[place] = _around(shares.measures[place], sign * error, error)
        errors = node.evaluate(Shares(shares.rows, measures, shares.records)).error[known]
        worst = max(worst, float(np.where(np.isnan(errors), np.inf, errors).max()))
    return worst


def _together(count: int) -> list[tuple[float, ...]]:
    return [(sign,) * count for sign in (-1.0, 1.0)]


def _around(share: Interval, moved: float, error: float) -> Interval:
    """What would be stated if the answer came out so far off; shares that are known exactly stay so."""
    exact = share.low == share.high
    value = np.where(exact, share.value, share.value + moved)
    return Interval(
        value,
        np.where(exact, share.low, np.clip(value - error, 0.0, 1.0)),
        np.where(exact, share.high, np.clip(value + error, 0.0, 1.0)),
    )


def _number(output: Output) -> Node:
    assert not isinstance(output.source, (ColumnKey, ClassKey)), "keys are not computed"
    return output.source
