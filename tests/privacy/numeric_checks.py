"""Checks of sums of numbers over every pair of tiny tables with raw values: offsets, clipped sums, rows of a person."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from tests.privacy.curator_checks import check_moves

from reticent.domain import Domain, Numeric, numeric
from reticent.kernel.counting.records import Records
from reticent.kernel.numeric_sums import BinOffsets, ClippedSums
from reticent.kernel.statistics import Statistic
from reticent.queries.groups import Groups
from reticent.queries.predicate import col

VALUES = (None, -3.0, 0.0, 0.75, 1.0, 2.6, 3.9, 4.0, 1e12)
"""Beyond, at and within the edges; two bins of different width."""
GROUPS = (0, 1)
NUMBER = Numeric(edges=[0, 1, 4], nullable=True)
WHOLE = Numeric(edges=[0, 2, 2], whole=True)
DOMAIN = Domain(x=NUMBER, g=2, k=WHOLE)
Row = tuple[float | None, int]
ROWS: tuple[Row, ...] = tuple(itertools.product(VALUES, GROUPS))


def source(rows: Sequence[Row]) -> Records:
    """A table whose third column repeats the first one, floored."""
    values = [value for value, _ in rows]
    codes = {
        "x": NUMBER.encode(values),
        "g": np.array([group for _, group in rows], dtype=np.int64),
        "k": WHOLE.encode(values),
    }
    inside = {"x": numeric.positions(NUMBER, values), "k": numeric.positions(WHOLE, values)}
    return Records.of_codes(DOMAIN, codes, np.ones(len(rows), dtype=np.int64), inside)


def statistics() -> list[Statistic]:
    some = (col("g") == 1) | (col("x") >= 1)
    return [
        BinOffsets("x", DOMAIN),
        BinOffsets("k", DOMAIN),
        ClippedSums(Groups((), None, "x"), DOMAIN),
        ClippedSums(Groups((), some, "x"), DOMAIN),
        ClippedSums(Groups(("g",), None, "x"), DOMAIN),
        ClippedSums(Groups(("g", "x"), col("k") == 2, "x"), DOMAIN),
        ClippedSums(Groups(("g",), None, "k"), DOMAIN),
        ClippedSums(Groups((), None, "g"), DOMAIN),
    ]


BESIDE: Row = (2.6, 0)


def pairs(kind: str) -> list[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    """All neighbours beside one fixed record: every statistic here is a sum over records, rounded once."""
    if kind == "add-remove":
        return [((BESIDE, row), (BESIDE,)) for row in ROWS]
    return [((BESIDE, one), (BESIDE, other)) for one, other in itertools.permutations(ROWS, 2)]


def check_numbers(kind: str) -> None:
    """One record moves no sum further than it declares."""
    for statistic in statistics():
        check_moves(statistic, kind, pairs(kind), source, 1)


def check_declared_is_reached() -> None:
    """The declared sensitivities are attained: none is larger than it must be."""
    for kind in ("replace-one", "add-remove"):
        for statistic in statistics()[:5]:
            steps = statistic.resolution(1)
            tables = {rows for pair in pairs(kind) for rows in pair}
            known = {rows: statistic.evaluate(source(rows), 1).astype(object) for rows in tables}
            moves = [np.ravel(known[one] - known[other]) for one, other in pairs(kind)]
            farthest = max(Fraction(int((move**2).sum()), steps**2) for move in moves)
            assert farthest == statistic.sensitivity(kind).l2_squared, f"{type(statistic).__name__}: {farthest}"


GRID = 3


def check_person_sums(kind: str) -> None:
    """A person of any three thirds of records: values are means over a person's own rows."""
    persons = list(itertools.combinations_with_replacement(ROWS[::2], GRID))
    beside = persons[5]
    if kind == "add-remove":
        chosen = [((*beside, *person), beside) for person in persons]
    else:
        chosen = [((*beside, *one), (*beside, *other)) for one, other in itertools.combinations(persons[::3], 2)]
    for statistic in statistics():
        check_moves(statistic, kind, chosen, source, GRID)


CHECKS: dict[str, Callable[[], None]] = {
    "numbers under replace-one": lambda: check_numbers("replace-one"),
    "numbers under add-remove": lambda: check_numbers("add-remove"),
    "persons' numbers under replace-one": lambda: check_person_sums("replace-one"),
    "persons' numbers under add-remove": lambda: check_person_sums("add-remove"),
    "declared sensitivities are reached": check_declared_is_reached,
}
