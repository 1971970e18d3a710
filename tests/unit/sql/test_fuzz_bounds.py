"""Random statements on certified answers: whatever is published contains what DuckDB computes of the rows."""

from __future__ import annotations

import datetime
import itertools
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.published import Published
from tests.unit.sql.comparison import plain
from tests.unit.sql.sql_grammar import DOMAIN, Grammar, Statement
from tests.unit.sql.sql_table import Exact

from reticent.errors import QueryError
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.request import Request
from reticent.sql import ResultTable, run
from reticent.sql import Statement as CompiledStatement
from reticent.sql.asking import free_table
from reticent.sql.expressions import Binning
from reticent.sql.scan import Scan
from reticent.sql.statement import compile_sql

CLOSE = 1e-7
"""The relative distance that two orders of summation may have."""
SHOWN = {
    "integer": (int, float),
    "number": (int, float),
    "text": (str,),
    "truth": (bool,),
    "date": (str,),
    "timestamp": (str,),
}
"""The Python types of the values of each kind of column."""
MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00:00")
EDGE = "and beyond are in the last bin"
"""What a result says whose groups take numbers at the upper edge of a column for smaller ones."""
OTHERS = re.compile(r"(\d+) others may")

Row = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class World:
    """Rows in DuckDB, and a wrong published distribution of them whose certificate is true."""

    table: Exact
    within: str
    """Where in their bins the numbers lie."""
    blur: float = 0.05
    """How wrong the distribution is."""
    column: str = ""
    """The one column along which it is wrong; empty if it is wrong everywhere."""
    records_error: float = 0.0
    """How wrong the number of records is."""
    released: bool = False
    """Whether statements go the way of releases and sessions, whose answers must agree with each other."""

    @cached_property
    def view(self) -> Published:
        return self.table.blurred(self.blur, self.table.seed, records_error=self.records_error, column=self.column)

    @cached_property
    def rows(self) -> duckdb.DuckDBPyConnection:
        """The rows; a quotient by zero is NULL there, as it is for us."""
        found = self.table.raw(self.within, self.table.seed, closed=True)
        found.execute("SET ieee_floating_point_ops = false; SET error_on_division_by_zero = false")
        return found

    def ask(self, text: str) -> ResultTable:
        domain, view = self.table.domain, self.view
        if not self.released:
            return run(text, domain, view.answer, records=view.records, records_error=view.records_error)
        found = free_table(view.knowledge, Request(compile_sql(text, domain)))
        assert found is not None, "no error was requested"
        return found

    def truth(self, text: str) -> tuple[list[str], list[Row]]:
        """DuckDB's names and rows."""
        found = self.rows.execute(text)
        return [column[0] for column in found.description], found.fetchall()


@dataclass
class Outcome:
    """What became of one statement."""

    refused: str = ""
    foreign: str = ""
    """Why DuckDB refuses what we answer."""
    numbers: int = 0
    """Bounds that were compared with the truth."""
    undetermined: bool = False
    """Whether there is nothing to compare."""
    complaints: list[str] = field(default_factory=list)


def outcome_of(world: World, statement: Statement) -> Outcome:
    """Ask both; a refusal must be one line about the statement, an answer must contain DuckDB's.

    There is nothing to compare where SQL leaves the answer open, because it depends on how ties are broken, and where
    the result means other groups than DuckDB: it says so of numbers at the upper edge of a column, and groups without
    records are counted one by one or looked up.
    """
    try:
        result = world.ask(statement.ours)
    except QueryError as refusal:
        message = str(refusal)
        return Outcome(refused=message, complaints=["more than a line"] if "\n" in message else [])
    except Exception as error:
        return Outcome(complaints=[f"{type(error).__name__}: {error}"])
    try:
        names, rows = world.truth(statement.theirs())
        _, others = world.truth(statement.theirs(descending=True))
        empty = world.truth(statement.of_no_records)[1][0] if statement.of_no_records else None
        told = EDGE in result.note or not all(_same_groups(world, Statement(part)) for part in statement.listed)
    except duckdb.Error as error:
        return Outcome(foreign=str(error).partition("\n")[0], complaints=list(malformed(result)))
    found = Outcome(complaints=list(malformed(result)))
    if list(result.columns) != names:
        found.complaints.append(f"the columns are {result.columns} instead of {names}")
    if told or Counter(map(_comparable, rows)) != Counter(map(_comparable, others)):
        found.undetermined = True
    else:
        compare(found, result, rows, empty)
    return found


def _same_groups(world: World, statement: Statement) -> bool:
    """Whether all groups that we list have records; LAG, frames of ROWS, LIMIT and joins count those that have none."""
    return len(world.ask(statement.ours)) == len(world.truth(statement.theirs())[1])


def malformed(result: ResultTable) -> Iterator[str]:
    """Values that have not the type of their column, and bounds that are none."""
    for row, errors in zip(result.rows, result.errors, strict=True):
        for cell, error, kind in zip(row, errors, result.types, strict=True):
            if cell is not None and not _has_type(cell, kind):
                yield f"{cell!r} is no {kind}"
            if isinstance(cell, float) and not math.isfinite(cell):
                yield f"{cell} is not finite"
            if error is not None and not 0 <= error < math.inf:
                yield f"the bound of {cell!r} is {error}"


def _has_type(cell: Any, kind: str) -> bool:
    return isinstance(cell, SHOWN[kind]) and isinstance(cell, bool) == (kind == "truth")


def compare(found: Outcome, result: ResultTable, rows: Sequence[Row], empty: Row | None) -> None:
    """Each row of DuckDB must lie within the bounds of one of ours with the same keys.

    Rows may be missing as far as the result says so. Groups of ours that DuckDB does not have are groups without
    records, which noise cannot tell from small ones; the numbers of those that the statement itself lists must contain
    what DuckDB says of no records.
    """
    keys = [place for place, number in enumerate(result.aggregates) if not number]
    places = [place for place, number in enumerate(result.aggregates) if number]
    ours = _by_key(list(zip(result.rows, result.errors, strict=True)), list(result.rows), keys)
    truths = _by_key(rows, rows, keys)
    missing = 0
    for key, true in truths.items():
        mine = ours.get(key, [])
        missing += max(0, len(true) - len(mine))
        wrong = [[_outside(one, row, result.types, places) for one in mine] for row in true]
        found.numbers += sum(error is not None for _, errors in mine[: len(true)] for error in errors)
        matched = _matched([[not cells for cells in row] for row in wrong])
        if matched < min(len(true), len(mine)):
            closest = min((cells for row in wrong for cells in row if cells), key=len)
            found.complaints.append(f"{key}: {'; '.join(closest)}")
    if missing > _others(result):
        found.complaints.append(f"{missing} rows are missing, {_others(result)} are said to")
    if empty is not None:
        whole = (*[None] * (len(result.columns) - len(empty)), *empty)
        for key in ours.keys() - truths.keys():
            for one in ours[key]:
                found.numbers += sum(error is not None for error in one[1])
                if wrong_cells := _outside(one, whole, result.types, places):
                    found.complaints.append(f"{key} without records: {'; '.join(wrong_cells)}")


def _by_key(values: Sequence[Any], rows: Sequence[Row], keys: Sequence[int]) -> dict[Row, list[Any]]:
    found: dict[Row, list[Any]] = {}
    for value, row in zip(values, rows, strict=True):
        found.setdefault(tuple(_comparable_cell(row[place]) for place in keys), []).append(value)
    return found


def _comparable(row: Row) -> Row:
    return tuple(map(_comparable_cell, row))


def _comparable_cell(cell: Any) -> Any:
    """Equal for equal values of both: a date is a time at midnight."""
    value = plain(cell)
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str) and (midnight := MIDNIGHT.fullmatch(value)):
        return midnight[1]
    return value


def _others(result: ResultTable) -> int:
    """How many rows the result says may be missing from it."""
    said = OTHERS.search(result.note)
    return int(said[1]) if said else 0


def _outside(one: tuple[Row, Row], true: Row, kinds: Sequence[str], places: Sequence[int]) -> list[str]:
    """The cells of a row whose bounds exclude the truth; a cell without a bound claims nothing."""
    row, errors = one
    return [
        f"column {place}: {row[place]!r} ± {errors[place]}, but {true[place]!r}"
        for place in places
        if errors[place] is not None and not _within(row[place], errors[place], plain(true[place]), kinds[place])
    ]


def _within(cell: Any, error: float, true: Any, kind: str) -> bool:
    if isinstance(true, float) and isinstance(cell, (int, float)) and not isinstance(cell, bool):
        return abs(cell - true) <= error * (1 + CLOSE) + CLOSE * max(1.0, abs(true))
    if kind in ("date", "timestamp") and isinstance(cell, str) and isinstance(true, str):
        days = (
            abs(datetime.datetime.fromisoformat(cell) - datetime.datetime.fromisoformat(true)).total_seconds() / 86400
        )
        return days <= error + CLOSE
    return type(cell) is type(true) and cell == true


def _matched(allowed: Sequence[Sequence[bool]]) -> int:
    """The largest number of rows that each get an allowed column of their own."""
    taken: dict[int, int] = {}

    def placed(row: int, tried: set[int]) -> bool:
        for column, good in enumerate(allowed[row]):
            if good and column not in tried:
                tried.add(column)
                if column not in taken or placed(taken[column], tried):
                    taken[column] = row
                    return True
        return False

    return sum(placed(row, set()) for row in range(len(allowed)))


CI_STATEMENTS = 200
"""For each world."""
SLOW_SECONDS = 600
LEAST_ANSWERED = 0.5
"""Of all statements."""
LEAST_NUMBERS = 2.0
"""Compared for each statement, on average."""
MOST_FOREIGN = 0.05
"""Statements that we answer and DuckDB refuses, for it does not count truth values as numbers."""
CAUGHT_WITHIN = 400
"""Statements until a planted bug is found."""
UNUSED = 100_000
"""Seeds from here on are of statements that no other test has compiled."""

EVEN = Exact(DOMAIN, 1, records=3000, evenness=1.0, related=0.4)
SPARSE = Exact(DOMAIN, 2, records=200, evenness=0.15, related=0.4)
FEW = Exact(DOMAIN, 3, records=40, evenness=0.2, related=0.4)
WORLDS = {
    "anywhere": World(EVEN, "even"),
    "at the ends": World(EVEN, "ends", blur=0.3, column="kids", released=True),
    "at the lower ends": World(EVEN, "low", blur=0.01, records_error=0.02),
    "at the upper ends": World(EVEN, "high", blur=0.3, column="vip", records_error=0.02, released=True),
    "empty groups": World(SPARSE, "ends"),
    "hardly any records": World(FEW, "even", blur=0.5, records_error=0.1, released=True),
}


@dataclass
class Tally:
    """Of all statements of a world."""

    statements: int = 0
    refused: int = 0
    foreign: int = 0
    numbers: int = 0
    complaints: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, seed: int, statement: Statement) -> None:
        self.statements += 1
        self.refused += bool(outcome.refused)
        self.foreign += bool(outcome.foreign)
        self.numbers += outcome.numbers
        self.complaints += [f"seed {seed}: {statement.marked}\n    {complaint}" for complaint in outcome.complaints]


def tally(world: World, seeds: Iterable[int], until: Callable[[Tally], bool] = lambda found: False) -> Tally:
    found = Tally()
    for seed in seeds:
        statement = Grammar(seed).statement()
        found.add(outcome_of(world, statement), seed, statement)
        if until(found):
            break
    return found


@pytest.mark.parametrize("name", WORLDS)
def test_every_published_number_contains_the_truth(name: str) -> None:
    first = 1000 * list(WORLDS).index(name)
    found = tally(WORLDS[name], range(first, first + CI_STATEMENTS))
    assert not found.complaints, "\n".join(found.complaints)
    assert found.refused <= (1 - LEAST_ANSWERED) * found.statements
    assert found.foreign <= MOST_FOREIGN * found.statements
    assert found.numbers >= LEAST_NUMBERS * found.statements


@pytest.mark.slow
@pytest.mark.timeout(SLOW_SECONDS + 120)
def test_every_published_number_contains_the_truth_for_ten_minutes() -> None:
    """A failure prints the seed of the table, which is that of its first statement, and the statement."""
    until = time.monotonic() + SLOW_SECONDS
    generator = random.SystemRandom()
    for name, world in itertools.cycle(WORLDS.items()):
        seed = generator.getrandbits(32)
        fresh = replace(world, table=replace(world.table, seed=seed))
        found = tally(fresh, range(seed, seed + CI_STATEMENTS), lambda _: time.monotonic() > until)
        assert not found.complaints, f"{name}, table {seed}\n" + "\n".join(found.complaints)
        if time.monotonic() > until:
            return


def bounds_of_certificates_are_halved(patch: pytest.MonkeyPatch) -> None:
    bound_at = Certificate.bound_at
    patch.setattr(Certificate, "bound_at", lambda self, confidence: bound_at(self, confidence) / 2)


def bins_have_no_width(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Binning, "hidden", lambda self, total, present, reach: np.zeros(len(total.value)))


def the_number_of_records_is_exact(patch: pytest.MonkeyPatch) -> None:
    evaluation = CompiledStatement.evaluation
    patch.setattr(
        CompiledStatement, "evaluation", lambda self, answers, records, error: evaluation(self, answers, records, 0.0)
    )


def all_groups_have_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scan, "exists", None)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (bounds_of_certificates_are_halved, "at the ends"),
        (bins_have_no_width, "at the lower ends"),
        (the_number_of_records_is_exact, "at the upper ends"),
        (all_groups_have_records, "empty groups"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    world = replace(WORLDS[name])  # without what it computed before
    found = tally(world, range(UNUSED, UNUSED + CAUGHT_WITHIN), lambda found: bool(found.complaints))
    assert found.complaints
