"""What did not fit a domain, counted exactly: for the custodian's eyes, never for publication."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reticent.domain import Domain
from reticent.sources.codes import coding
from reticent.sources.engine import Engine
from reticent.sources.grouping import required_columns
from reticent.sources.progress import watched
from reticent.sources.readings import present

_NULL, _UNFIT, _OUTSIDE = 1, 2, 3


@dataclass(frozen=True)
class Misfits:
    """Rows in all, persons among them, rows that name none; per attribute (null, fits nowhere, outside the edges)."""

    rows: int
    persons: int
    nameless: int
    attributes: dict[str, tuple[int, int, int]]


def count_misfits(engine: Engine, domain: Domain, person: str | None) -> Misfits:
    """One pass over the relation; without a person column every row is its own person."""
    dialect = engine.dialect
    columns = required_columns(engine, [*domain.names, *([] if person is None else [person])])
    codings = [coding(domain[name], name, columns[name], dialect, place) for place, name in enumerate(domain.names)]
    projected = [part for made in codings for part in made.projected]
    counted = ["COUNT(*)", "COUNT(*)", "0"]
    if person is not None:
        projected.append(f"{dialect.quoted(person)} AS person")
        named = present("person", columns[person], dialect)
        counted[1] = f"COUNT(DISTINCT CASE WHEN {named} THEN person END)"
        counted[2] = f"COUNT(CASE WHEN {named} THEN NULL ELSE 1 END)"
    for made in codings:
        counted += [f"COUNT(CASE WHEN {made.status} = {status} THEN 1 END)" for status in (_NULL, _UNFIT, _OUTSIDE)]
    listed = ", ".join(f"CAST({sql} AS {dialect.bigint}) AS n{place}" for place, sql in enumerate(counted))
    statement = f"SELECT {listed} FROM (SELECT {', '.join(projected)} FROM {engine.relation}) AS reading"
    counts = np.concatenate(list(watched(engine, statement, len(counted))), axis=1)[:, 0].tolist()
    by_name = {name: tuple(counts[3 * place : 3 * place + 3]) for place, name in enumerate(domain.names, start=1)}
    return Misfits(counts[0], counts[1], counts[2], by_name)
