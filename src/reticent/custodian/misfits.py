"""Exact counts of values that do not fit a domain, for the custodian only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.domain import Domain, Status
from reticent.errors import given
from reticent.sources.encoding import coding, readings_of
from reticent.sources.engine import Engine
from reticent.sources.frames import untyped_cells
from reticent.sources.grouping import required_columns
from reticent.sources.progress import watched
from reticent.sources.readings import present
from reticent.sources.weighing import grouping

_COUNTED = tuple(map(int, (Status.NULL, Status.UNFIT, Status.OUTSIDE)))


@dataclass(frozen=True)
class Misfits:
    """The number of rows, of persons, and of rows without a person; per attribute (null, fits no code, outside the
    edges).
    """

    rows: int
    persons: int
    nameless: int
    attributes: dict[str, tuple[int, int, int]]


def count_misfits(engine: Engine, domain: Domain, person: str | None) -> Misfits:
    """One pass over the relation; without a person column every row is its own person."""
    dialect = engine.dialect
    columns = required_columns(engine, [*domain.names, *([] if person is None else [person])])
    codings = [coding(domain[name], name, columns[name], dialect, place) for place, name in enumerate(domain.names)]
    others: list[str] = []
    counted = ["COUNT(*)", "COUNT(*)", "0"]
    if person is not None:
        others.append(f"{dialect.quoted(person)} AS person")
        named = present("person", columns[person], dialect)
        counted[1] = f"COUNT(DISTINCT CASE WHEN {named} THEN person END)"
        counted[2] = f"COUNT(CASE WHEN {named} THEN NULL ELSE 1 END)"
    for made in codings:
        counted += [f"COUNT(CASE WHEN {made.status} = {status} THEN 1 END)" for status in _COUNTED]
    listed = ", ".join(f"CAST({sql} AS {dialect.bigint}) AS n{place}" for place, sql in enumerate(counted))
    statement = f"SELECT {listed} FROM ({readings_of(codings, engine.relation, dialect, others)}) AS reading"
    counts = np.concatenate(list(watched(engine, statement, len(counted))), axis=1)[:, 0].tolist()
    by_name = {name: tuple(counts[3 * place : 3 * place + 3]) for place, name in enumerate(domain.names, start=1)}
    return Misfits(counts[0], counts[1], counts[2], by_name)


def count_violations(engine: Engine, domain: Domain) -> list[int]:
    """Rows that satisfy each of the domain's impossible rules, as the domain reads them; one pass for each rule."""
    found = []
    for rule in domain.impossible:
        packing, statement = grouping(engine, domain, rule.attributes)
        width, count = len(packing.groups), 0
        for block in watched(engine, statement, width + 1):
            codes = packing.unpacked(block[:width])
            count += int(block[width][rule.cells[tuple(codes[name] for name in rule.attributes)]].sum())
        found.append(count)
    return found


def misfit_texts(engine: Engine, domain: Domain, name: str, most: int, status: Status) -> list[str]:
    """The commonest values of a column that fit no code or lie outside its edges, as text."""
    dialect = engine.dialect
    kind = required_columns(engine, [name])[name]
    if kind.stored is not None:
        return []
    made = coding(domain[name], name, kind, dialect, 0)
    cell = f"{dialect.as_text(dialect.quoted(name))} AS cell"
    wanted = f"{made.status} = {int(status)}"
    return engine.texts(
        f"SELECT cell FROM ({readings_of([made], engine.relation, dialect, [cell])}) AS reading WHERE {wanted} "
        f"GROUP BY cell ORDER BY COUNT(*) DESC, cell LIMIT {most}"
    )


def misfit_cells(rows: Any, domain: Domain, name: str, most: int, status: Status) -> list[Any]:
    """The first distinct cells of a frame's untyped column that fit no code or lie outside its edges."""
    cells = untyped_cells(rows, name)
    statuses = domain[name].judge(cells)[1]
    found = (cells[int(place)] for place in np.flatnonzero(statuses == status))
    return list({given(cell): cell for cell in found}.values())[:most]
