"""The error that each query behind a statement needs, so that quotients reach the requested error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.values import shown_bound, shown_number
from reticent.knowledge.answer import Answer
from reticent.knowledge.request import ROUNDING, Percent, Records, WantedError
from reticent.queries import Query
from reticent.queries.literals import readable_name
from reticent.sql.expressions import Expr, Run, Sum, is_count
from reticent.sql.intervals import Interval
from reticent.sql.refusals import refused
from reticent.sql.vectors import NUMERIC, SHOWN_UNIT, TEMPORAL, shown_text, value_at

if TYPE_CHECKING:
    from reticent.sql.result import ResultTable
    from reticent.sql.statement import Statement

LARGEST = 0.5
"""An error of a share beyond it says nothing."""
EXAMPLE = 0.01
"""A share of the table that is shown as an example of an error."""
SMALLEST = 1e-12
STEPS = 30
"""Halvings on a logarithmic scale: what is found is within a hair of the largest error that serves."""
TURNED = 4
"""So many measures of one expression are moved up and down in all combinations; more of them all together."""


def targets(
    statement: Statement,
    estimates: Mapping[Query, Answer],
    wish: WantedError,
    *,
    records: float,
    records_error: float,
    counting: bool = False,
) -> dict[Query, float]:
    """The error each query needs, as a share of the table, so that every number of the result reaches the wish.

    Judged at the estimates, moved by as much as noise may move the answers. Where the estimates are far off, so is
    the bound that is stated in the end; the same wish asked again starts from what was measured.
    """
    needed = [math.inf] * len(statement.measures)
    run = statement.evaluation(estimates, records, records_error, counting=counting)
    kept = statement.kept(run)
    shown = np.ones(statement.relation.rows, dtype=bool) if kept is None else kept.holds
    wanted = wanted_errors(statement, wish, records)
    asked = [place for place in wanted if _bought(statement, statement.fields[place].expr)]
    _refuse_vacuous(statement, wanted, asked, statement.possible(records, records_error), shown)
    for place in asked:
        error = _reaching(statement, place, run, wanted[place], shown)
        for measure in run.read_places(statement.fields[place].expr.places):
            needed[measure] = min(needed[measure], error)
    shared = min((error for error in needed if error < math.inf), default=LARGEST)
    found: dict[Query, float] = {}
    for blocks, error in zip(statement.read_blocks(estimates), needed, strict=True):
        for block in blocks:
            if block.query is not None:
                # What only HAVING or ORDER BY look at is asked as what is shown.
                found[block.query] = min(found.get(block.query, math.inf), error if error < math.inf else shared)
    return {query: found[query] for query in estimates}


def check_wish(statement: Statement, wish: WantedError, records: float, records_error: float) -> None:
    """Refuse a wish in the wrong unit, or one that costs nothing to state."""
    wanted = wanted_errors(statement, wish, records)
    asked = [place for place in wanted if _bought(statement, statement.fields[place].expr)]
    possible = statement.possible(records, records_error)
    _refuse_vacuous(statement, wanted, asked, possible, np.ones(statement.relation.rows, dtype=bool))


def _refuse_vacuous(
    statement: Statement, wanted: Mapping[int, float], asked: Sequence[int], possible: Run, shown: np.ndarray
) -> None:
    """Refuse errors of half the range or more of every number that is asked, and errors of numbers that are NULL."""
    ranges = {place: _extremes(statement.fields[place].expr, possible, shown) for place in asked}
    null = [place for place, (low, _) in ranges.items() if math.isnan(low)]
    if asked and all(place in null or high - low <= 2 * wanted[place] for place, (low, high) in ranges.items()):
        first = asked[0]
        name, kind = statement.fields[first].name, statement.fields[first].expr.kind
        if first in null:
            raise refused(f"{name} is NULL whatever the rows are", "leave it out, or ask without an error")
        low, high = (shown_text(value_at(end, kind)) if kind in TEMPORAL else f"{end:g}" for end in ranges[first])
        raise refused(
            f"an error of {error_text(wanted[first], kind)} is half the range of {name} or more, {low} to {high}, "
            "which costs nothing to state",
            "ask for a smaller one",
        )


def wanted_errors(statement: Statement, wish: WantedError, records: float, *, bought: bool = False) -> dict[int, float]:
    """The wish for each number of the result, by its place, in the unit of its column: records for counts.

    A number is of days for dates and times, which are computed in microseconds.
    What was `bought` for less than one record was bought by version 0.1, for which it was a share of the table.
    """
    found: dict[int, float] = {}
    for place, one in enumerate(statement.fields):
        if one.expr.known is None and one.expr.kind in (*NUMERIC, *TEMPORAL) and one.expr.places:
            found[place] = _wanted(statement, place, wish, records, bought)
    return found


def _wanted(statement: Statement, place: int, wish: WantedError, records: float, bought: bool) -> float:
    name, expr = statement.fields[place].name, statement.fields[place].expr
    counts = is_count(expr, statement.columns)
    if isinstance(wish, Records):
        if not counts:
            unit = "of days" if expr.kind in TEMPORAL else "in its own unit"
            raise refused(f"{name} is not counted in records", f"give its error as a number {unit}")
        return wish.number
    if isinstance(wish, Percent):
        return wish.share * _range(statement, place, records)
    if counts and wish < 1 and bought:
        return wish * records
    if counts and wish < 1:
        # Half of the records or more would be refused as well.
        share = wish if wish < LARGEST else EXAMPLE
        number = max(1, round(share * records))
        remedy = f"give a number of records, for example {number}, or a share of the table as text: '{100 * share:g}%'"
        raise refused(f"an error of {wish:g} is less than one record of {name}", remedy)
    return wish * SHOWN_UNIT.get(expr.kind, 1.0)


def error_text(error: float, kind: str) -> str:
    """An error in the unit in which it is shown and asked for."""
    shown = f"{error / SHOWN_UNIT.get(kind, 1.0):g}"
    return f"{shown} {'day' if shown == '1' else 'days'}" if kind in TEMPORAL else shown


def _range(statement: Statement, place: int, records: float) -> float:
    """How far apart two possible values of a number are."""
    name, expr = statement.fields[place].name, statement.fields[place].expr
    parts = [one for one in expr.value_columns if one.known is None]
    if all(isinstance(one, Sum) for one in parts):
        return max(records * sum(abs(weight) for weight, _ in one.terms) for one in parts if isinstance(one, Sum))
    low, high = _extremes(expr, statement.possible(records), np.ones(statement.relation.rows, dtype=bool))
    if not math.isfinite(high - low):
        raise refused(f"{name} has no range, so its error cannot be a percentage", "give the error in its own unit")
    return high - low


def _bought(statement: Statement, expr: Expr) -> bool:
    """Whether any of its measures is asked for at all: the number of all records is not."""
    return any(block.query is not None for place in expr.places for block in statement.measures[place])


def _extremes(expr: Expr, possible: Run, shown: np.ndarray) -> tuple[float, float]:
    """The smallest and largest number that any row may have, whatever the records are; infinite if it has no range, NaN
    if it is NULL in every row.
    """
    found = possible.numbers(expr)
    low, high = found.low[shown], found.high[shown]
    numbers = ~np.isnan(low)
    if not numbers.any():
        return (math.nan, math.nan) if low.size else (-math.inf, math.inf)
    return float(low[numbers].min()), float(high[numbers].max())


def shortfall(
    statement: Statement, table: ResultTable, wish: WantedError, records: float, *, for_sale: bool = False
) -> str:
    """What a result says in its note, and where a number did not reach the wanted error.

    With `for_sale`, only numbers that a purchase can improve: the number of all records is not one of them.
    """
    found = [table.note] if table.note else []
    if statement.synthetic is not None or statement.explained is not None:
        return table.note
    wanted = wanted_errors(statement, wish, records, bought=True)
    for place, one in enumerate(statement.fields):
        if place not in wanted or (for_sale and not _bought(statement, one.expr)):
            continue
        kind = one.expr.kind
        most, days = wanted[place] / SHOWN_UNIT.get(kind, 1.0), " days" if kind in TEMPORAL else ""
        cells = [(row[place], errors[place]) for row, errors in zip(table.rows, table.errors, strict=True)]
        missed = [e for value, e in cells if value is not None and (e is None or e > most * ROUNDING)]
        if missed:
            bounds = [error for error in missed if error is not None]
            reached = f"±{shown_bound(max(bounds))}{days} was" if len(bounds) == len(missed) else "no bound was"
            rows = "" if len(cells) == 1 else f" in {len(missed)} of {len(cells)} rows"
            found.append(f"{one.name}: ±{shown_number(most)}{days} was not reached{rows}, {reached}")
    return "; ".join(found)


def reached(statement: Statement, table: ResultTable, wish: WantedError, records: float) -> bool:
    """Whether every number of a result that a purchase can improve is within the wanted error."""
    return not shortfall(statement, replace(table, note=""), wish, records, for_sale=True)


def _reaching(statement: Statement, place: int, run: Run, wanted: float, shown: np.ndarray) -> float:
    """The largest error of the shares with which the expression stays within `wanted` in every row that has a value."""
    name, expr = statement.fields[place].name, statement.fields[place].expr
    # What only tightens bounds is not bought, so nothing will be known of it.
    idle = statement.aside.difference(run.centred.values())
    places = [measure for measure in run.read_places(expr.places) if measure not in idle]
    known = ~np.isnan(run.numbers(expr).value) & shown
    low, high = math.log(SMALLEST), math.log(LARGEST)
    if not known.any() or _worst(expr, places, run, LARGEST, known) <= wanted:
        return LARGEST
    if _worst(expr, places, run, SMALLEST, known) > wanted:
        hidden = [statement.binned[p].columns for p in places if p in statement.binned]
        hidden += [statement.coarse[p] for p in places if p in statement.coarse]
        finer = sorted({column for columns in hidden for column in columns})
        bins = f", or declare finer bins for {', '.join(map(readable_name, finer))}" if finer else ""
        cut = "; ".join(note for note in statement.told if "cuts" in note)
        raise refused(
            f"{name} cannot reach an error of {error_text(wanted, expr.kind)} at any price",
            cut or f"ask for a larger one, without rounding, or leave small groups out with HAVING{bins}",
        )
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _worst(expr, places, run, math.exp(middle), known) <= wanted:
            low = middle
        else:
            high = middle
    return math.exp(low)


def _worst(expr: Expr, places: Sequence[int], run: Run, error: float, known: np.ndarray) -> float:
    """The largest error over all rows when every measure is off by `error`, in any direction, and known as well."""
    worst = 0.0
    signs = itertools.product((-1.0, 1.0), repeat=len(places)) if len(places) <= TURNED else _together(len(places))
    for turned in signs:
        measures = list(run.measures)
        for place, sign in zip(places, turned, strict=True):
            measures[place] = _around(
                run.measures[place], sign * error, error, run.limits(place), known=run.public.get(place)
            )
        errors = run.changed(measures).numbers(expr).error[known]
        worst = max(worst, float(np.where(np.isnan(errors), np.inf, errors).max()))
    return worst


def trials(expr: Expr) -> int:
    """How often an expression is evaluated to find the error its measures need."""
    places = len(expr.places)
    return (STEPS + 2) * (2**places if places <= TURNED else len(_together(places)))


def _together(count: int) -> list[tuple[float, ...]]:
    return [(sign,) * count for sign in (-1.0, 1.0)]


def _around(
    share: Interval, moved: float, error: float, limits: tuple[float, float], *, known: np.ndarray | None = None
) -> Interval:
    """What would be stated if the answer came out so far off; shares that are known exactly, or that no purchase
    tells better, stay so.
    """
    exact = share.low == share.high
    exact = exact if known is None else exact | known
    value = np.where(exact, share.value, share.value + moved)
    return Interval(
        value,
        np.where(exact, share.low, np.clip(value - error, *limits)),
        np.where(exact, share.high, np.clip(value + error, *limits)),
    )
