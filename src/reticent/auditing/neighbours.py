"""Generated tables of many shapes, each with neighbours that differ by one record or one person.

Also generated losses of every kind, for record and replay.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from reticent.domain import Domain, Numeric, Undeclared
from reticent.domain.numeric import STEPS, has_positions
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Neighbours, Table, Unit
from reticent.losses.losses import (
    LOSSES,
    ConvexLoss,
    Hinge,
    Huber,
    Logistic,
    Margin,
    MeanVector,
    Multinomial,
    Poisson,
    Quantile,
    Ridge,
)
from reticent.sources import Table as SourceTable
from reticent.sources import open_undeclared

SIZES = (2, 2, 3, 5, 9)
RECORDS = (1, 2, 3, 7, 30, 120)
PERSONS = (1, 2, 5, 12)
ROWS = (1, 1, 2, 3, 5, 7, 11)
"""Numbers of rows of one person, including numbers that divide no person grid."""
UNDECLARED = (2, 30, 150)
CANDIDATES = 6
EDGES = (0.0, 1.0, 2.5, 7.0, 10.0, 30.0)

Row = list[int]


@dataclass(frozen=True)
class Neighbourhood:
    """A table and some of its neighbours."""

    table: Table
    others: tuple[Table, ...]


def random_domain(rng: random.Random, *, most: int = 4) -> Domain:
    """A few attributes; one of them may be numeric with uneven bins."""
    sizes: dict[str, Any] = {f"x{place}": rng.choice(SIZES) for place in range(rng.randint(2, most))}
    if rng.random() < 0.4:
        sizes["x0"] = Numeric(edges=list(EDGES[: rng.randint(3, len(EDGES))]), other=False)
    return Domain(sizes)


def neighbourhood(
    rng: random.Random, domain: Domain, neighbours: Neighbours, unit: Unit, on_demand: float = 0.3
) -> Neighbourhood:
    """A random table of the unit's kind, with random and extreme neighbours.

    For a share `on_demand` of the tables with persons a database counts, set by set; the others are held in memory.
    """
    if unit == "record":
        return _of_records(rng, domain, neighbours)
    return _of_persons(rng, domain, neighbours, rng.choice([1, 2, 3]) if unit == "row" else None, on_demand)


def undeclared(rng: random.Random, neighbours: Neighbours, unit: Unit) -> Neighbourhood:
    """Undeclared columns: numbers and texts, rare and common, of records or of persons with several rows."""
    rows = ROWS if unit == "person" else (1,)
    people = [_loose_rows(rng, rng.choice(rows)) for _ in range(rng.choice(UNDECLARED))]
    place = rng.randrange(len(people))
    changed = [] if neighbours == "add-remove" else _loose_rows(rng, rng.choice(rows))
    facts: dict[str, Any] = {"neighbours": neighbours, "person": "who" if unit == "person" else None}
    if neighbours == "replace-one":
        facts["records"] = len(people)
    bounds: dict[str, Any] = {"lower": -50, "upper": 100} if rng.random() < 0.5 else {}
    domain = Domain(size=Undeclared("number", **bounds), name=Undeclared("text"))

    def table(listed: list[list[tuple[float, str]]]) -> Table:
        loose = [(number, *row) for number, person in enumerate(listed) for row in person]
        who, size, name = zip(*loose, strict=True) if loose else ((), (), ())
        columns = {"who": pa.array(who, pa.int64()), "size": pa.array(size, pa.float64())}
        return open_undeclared(pa.table({**columns, "name": pa.array(name, pa.string())}), domain, **facts)

    return Neighbourhood(table(people), (table([*people[:place], changed, *people[place + 1 :]]),))


def _loose_rows(rng: random.Random, count: int) -> list[tuple[float, str]]:
    """Common and rare texts; numbers on and between grid points, out of bounds, and missing."""
    numbers = (0.0, 1.0, 17.0, 1 / 3, -1e9, 1e300, float("nan"), float("inf"))
    return [(rng.choice(numbers), rng.choice(["often"] * 6 + [f"rare {rng.randrange(50)}"])) for _ in range(count)]


def _rows(rng: random.Random, domain: Domain, count: int) -> list[Row]:
    """Rows that are uniform, all equal, or in two groups at opposite ends of the universe."""
    sizes = domain.shape
    low, high = [0] * len(sizes), [size - 1 for size in sizes]
    match rng.randrange(4):
        case 0:
            return [list(rng.choice([low, high])) for _ in range(count)]
        case 1:
            same = [rng.randrange(size) for size in sizes]
            return [list(same) for _ in range(count)]
        case _:
            return [[rng.randrange(size) for size in sizes] for _ in range(count)]


def _replacements(rng: random.Random, domain: Domain, row: Row) -> list[Row]:
    """Replacement records: the corners of the universe, the farthest point, a step in one attribute, and random
    ones.
    """
    sizes = domain.shape
    farthest = [0 if 2 * code >= size else size - 1 for code, size in zip(row, sizes, strict=True)]
    stepped = list(row)
    place = rng.randrange(len(sizes))
    stepped[place] = (stepped[place] + 1) % sizes[place]
    corners = [[0] * len(sizes), [size - 1 for size in sizes]]
    return [*corners, farthest, stepped, *_rows(rng, domain, CANDIDATES - 4)]


def _of_records(rng: random.Random, domain: Domain, neighbours: Neighbours) -> Neighbourhood:
    rows = _rows(rng, domain, rng.choice(RECORDS))
    declared = len(rows) if neighbours == "replace-one" else None

    def table(listed: list[Row]) -> Table:
        codes = np.array(listed, dtype=np.int64).reshape(len(listed), len(domain))
        columns = {name: codes[:, place].copy() for place, name in enumerate(domain.names)}
        places = {name: np.array([_place(row) for row in listed], dtype=np.int64) for name in _hiding(domain)}
        source = Records.of_codes(domain, columns, np.ones(len(listed), dtype=np.int64), places)
        return Table(source, domain, records=declared, neighbours=neighbours)

    others = []
    for _ in range(CANDIDATES):
        place = rng.randrange(len(rows))
        if neighbours == "replace-one":
            replacement = rng.choice(_replacements(rng, domain, rows[place]))
            others.append([*rows[:place], replacement, *rows[place + 1 :]])
        elif rng.random() < 0.5:
            others.append([*rows[:place], *rows[place + 1 :]])
        else:
            others.append([*rows, rng.choice(_replacements(rng, domain, rows[place]))])
    return Neighbourhood(table(rows), tuple(map(table, others)))


def _hiding(domain: Domain) -> list[str]:
    """Attributes whose bins hide the exact numbers."""
    return [name for name in domain.names if has_positions(domain[name])]


def _place(row: Row) -> int:
    """The position of a row's number in its bin, at an end or in the middle; the same for the same row."""
    return (0, STEPS, STEPS // 2, STEPS, 0)[sum(row) % 5]


def _of_persons(
    rng: random.Random, domain: Domain, neighbours: Neighbours, most: int | None, on_demand: float
) -> Neighbourhood:
    """All rows of one person replaced by any number of others, or removed; read as a custodian reads a table.

    With `most`, at most that many rows of a person count.
    """
    people = [_rows(rng, domain, rng.choice(ROWS)) for _ in range(rng.choice(PERSONS))]
    facts: dict[str, Any] = {"neighbours": neighbours}
    if most is not None:
        facts |= {"rows": "bounded", "most": most}
    elif neighbours == "replace-one":
        facts["records"] = len(people)
    if rng.random() < on_demand:
        # Counted by the database, covering set by covering set; or one of two neighbours is, and the other one held.
        facts["hold"] = rng.choice([1, len({tuple(row) for person in people for row in person})])
    if rng.random() < 0.5:
        facts["numbers"] = True

    def table(listed: list[list[Row]]) -> Table:
        rows = [[number, *row] for number, person in enumerate(listed) for row in person]
        columns = {"who": pa.array([row[0] for row in rows], pa.int64())}
        for place, name in enumerate(domain.names):
            columns[name] = _values(domain, name, [row[1:] for row in rows], place)
        return SourceTable.of(pa.table(columns), domain, person="who", progress=False, **facts)

    others = []
    for _ in range(1):  # each is read by an engine, which takes its time
        place = rng.randrange(len(people))
        changed = [] if neighbours == "add-remove" else _rows(rng, domain, rng.choice(ROWS))
        others.append([*people[:place], changed, *people[place + 1 :]])
    return Neighbourhood(table(people), tuple(map(table, others)))


def _values(domain: Domain, name: str, rows: list[Row], place: int) -> pa.Array:
    """Values that the attribute bins into these codes."""
    attribute = domain[name]
    if isinstance(attribute, Numeric):
        bins = [(attribute.bin(row[place]), _place(row) / STEPS) for row in rows]
        # Short of the upper edge, which belongs to the next bin.
        return pa.array([low + (high - low) * min(at, 0.9999) for (low, high), at in bins], pa.float64())
    return pa.array([row[place] for row in rows], pa.int64())


__all__ = ["EVERY", "GENERALISED", "some_loss"]

EVERY = tuple(LOSSES.values())
GENERALISED = (Logistic, Hinge, Huber, Quantile, Poisson, Margin, Multinomial)
"""Losses for which a generalised linear minimiser may find a bounded slope; its refusals of the others are compared
too.
"""


def some_loss(rng: random.Random, domain: Domain, *kinds: type) -> ConvexLoss:
    """A loss of one kind on some columns of the domain; it may refuse its label when it meets the domain."""
    names, kind = list(domain.names), rng.choice(kinds)
    label = rng.choice([name for name in names if not isinstance(domain[name], Numeric)])
    features = rng.sample([name for name in names if name != label], rng.randint(1, len(names) - 1))
    if kind is MeanVector:
        return MeanVector(features=features)
    options: dict[str, Any] = {"ridge": rng.choice([0.05, 0.5])} if kind is Ridge or rng.random() < 0.5 else {}
    if kind in (Logistic, Hinge):
        options["positive"] = rng.randrange(domain[label].size)
    elif kind is Quantile:
        options |= {"level": rng.choice([0.05, 0.5, 0.9]), "width": rng.choice([0.0, 0.25])}
    elif kind is Poisson:
        options["cap"] = rng.choice([0.5, 1.0, 4.0, None])
    elif kind is Margin:
        options["slopes"] = _slopes(rng, domain[label].size)
    return kind(features=features, label=label, radius=rng.choice([0.5, 2.0]), **options)


def _slopes(rng: random.Random, labels: int) -> Any:
    """Knots of a non-decreasing slope: of the residual, or for every label; two at one margin make a kink."""

    def knots() -> list[tuple[float, float]]:
        margins = sorted(rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0]) for _ in range(2))
        return list(zip(margins, sorted(rng.uniform(-2, 2) for _ in range(2)), strict=True))

    return knots() if rng.random() < 0.5 else {label: knots() for label in range(labels)}
