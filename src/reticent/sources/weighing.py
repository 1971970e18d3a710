"""Weights of rows: each row alike, each person alike, or a bounded number of rows of each person (spec 1.2, answers 6).

The weights of a person's rows, and the choice of those that are kept, depend on that person's rows and
identifier alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reticent.domain import Domain
from reticent.kernel.counting.records import Records, narrow, plane_layout
from reticent.sources.engine import Engine
from reticent.sources.grouping import Packing, coded_rows, placed_attributes
from reticent.sources.progress import Stopwatch, watched

HOLD = 1 << 27
"""Distinct records kept in memory unless told otherwise: with 16 attributes 3 GiB."""


@dataclass(frozen=True)
class Weighing:
    """Without `person` every row has weight 1. With it a person has weight `grid`, or up to `most` rows of weight 1."""

    person: str | None = None
    grid: int = 1
    most: int | None = None


RECORDS = Weighing()


def grouping(
    engine: Engine, domain: Domain, names: Sequence[str], weighing: Weighing = RECORDS, placed: Sequence[str] = ()
) -> tuple[Packing, str]:
    """The statement whose rows are the packed keys of `names`, their total weight, and for each `placed` attribute the
    sum of weight times position."""
    packing = Packing.of(domain, names)
    if weighing.person is None:
        return packing, _counted(engine, coded_rows(engine, domain, packing, None, placed), packing, len(placed))
    # Which rows of a person weigh what depends on all codes, so whole records are weighed before they are cut.
    whole, weighed = weighed_rows(engine, domain, names, weighing, placed)
    if tuple(names) == domain.names:
        return whole, weighed
    bigint = engine.dialect.bigint
    keys = packing.keys(whole.digits(engine.dialect), bigint)
    summed = ["w", *(f"s{place}" for place in range(len(placed)))]
    listed = ", ".join([*(f"{key} AS j{place}" for place, key in enumerate(keys)), *summed])
    grouped = ", ".join(f"j{place}" for place in range(len(keys)))
    totals = ", ".join(f"CAST(SUM({name}) AS {bigint}) AS {name}" for name in summed)
    cut = f"SELECT {listed} FROM ({weighed}) AS weighed"
    return packing, f"SELECT {grouped}, {totals} FROM ({cut}) AS cut GROUP BY {grouped}"


def weighed_rows(
    engine: Engine, domain: Domain, names: Sequence[str], weighing: Weighing, placed: Sequence[str] = ()
) -> tuple[Packing, str]:
    """Packed keys, a weight and weight times position: of the rows themselves where each weighs one, else of whole
    records."""
    if weighing.person is None:
        packing = Packing.of(domain, names)
        coded = coded_rows(engine, domain, packing, None, placed)
        sums = "".join(f", q{place} AS s{place}" for place in range(len(placed)))
        one = f"CAST(1 AS {engine.dialect.bigint})"
        return packing, f"SELECT {_keys(packing)}, {one} AS w{sums} FROM ({coded}) AS coded"
    packing = Packing.of(domain, domain.names)
    if weighing.most is None:
        coded = coded_rows(engine, domain, packing, weighing.person, placed)
        return packing, _shared(engine, coded, packing, weighing.grid, len(placed))
    # Positions are part of a row's content whether they are asked for or not: else other rows would be kept.
    everywhere = placed_attributes(domain)
    columns = [*placed, *(name for name in everywhere if name not in placed)]
    coded = coded_rows(engine, domain, packing, weighing.person, columns, naming=True)
    content = [*_keys(packing).split(", "), *(f"q{columns.index(name)}" for name in everywhere)]
    # Of attributes whose bins hide nothing every position is the middle: carried along, no part of the content.
    middles = [f"q{place}" for place, name in enumerate(placed) if name not in everywhere]
    kept = _kept(engine, coded, content, weighing.most, domain.fingerprint, middles)
    return packing, _counted(engine, kept, packing, len(placed))


def _keys(packing: Packing) -> str:
    return ", ".join(f"k{place}" for place in range(len(packing.groups)))


def _counted(engine: Engine, rows: str, packing: Packing, placed: int) -> str:
    keys, bigint = _keys(packing), engine.dialect.bigint
    sums = "".join(f", CAST(SUM(q{place}) AS {bigint}) AS s{place}" for place in range(placed))
    return f"SELECT {keys}, CAST(COUNT(*) AS {bigint}) AS w{sums} FROM ({rows}) AS coded GROUP BY {keys}"


def _shared(engine: Engine, coded: str, packing: Packing, grid: int, placed: int) -> str:
    """Each of a person's m rows has weight floor(G/m), one more on the first G mod m in lexicographic order (spec 1.2).

    Equal rows are first counted together (c of them, b before), so a person with a million rows is not sorted row by
    row. If v of a person's weight lies on c rows with a sum of positions s, then v s / c of it, rounded down, counts.
    """
    keys, bigint, divided = _keys(packing), engine.dialect.bigint, engine.dialect.divided
    sums = "".join(f", CAST(SUM(q{place}) AS {bigint}) AS s{place}" for place in range(placed))
    counted = f"SELECT person, {keys}, COUNT(*) AS c{sums} FROM ({coded}) AS coded GROUP BY person, {keys}"
    kept = "".join(f", s{place}" for place in range(placed))
    ordered = (
        f"SELECT {keys}, CAST(c AS {bigint}) AS c{kept}, "
        f"CAST(SUM(c) OVER (PARTITION BY person) AS {bigint}) AS m, "
        f"CAST(SUM(c) OVER (PARTITION BY person ORDER BY {keys} ROWS UNBOUNDED PRECEDING) AS {bigint}) - c AS b "
        f"FROM ({counted}) AS counted"
    )
    weight = f"c * {divided(str(grid), 'm')} + GREATEST(LEAST({grid} % m - b, c), 0)"
    weighed = f"SELECT {keys}, c{kept}, {weight} AS v FROM ({ordered}) AS ordered"
    # In two parts, because v s may leave 64 bits.
    parts = "".join(
        f", CAST(SUM(v * {divided(f's{place}', 'c')} + {divided(f'v * (s{place} % c)', 'c')}) AS {bigint}) AS s{place}"
        for place in range(placed)
    )
    total = f"CAST(SUM(v) AS {bigint})"
    return f"SELECT {keys}, {total} AS w{parts} FROM ({weighed}) AS weighed GROUP BY {keys} HAVING {total} > 0"


def _kept(engine: Engine, coded: str, content: Sequence[str], most: int, key: str, carried: Sequence[str] = ()) -> str:
    """Each person's first rows by a hash of the identifier, the row's content and its number among that person's equal
    rows.

    Equal rows may be numbered in any order. Spellings of an identifier that the engine takes for equal are numbered
    apart, so that the hashes are the same in whatever order rows lie. The key is public, so that every engine keeps the
    same rows at any time; privacy does not depend on it (docs/proofs/bounded-rows.md).
    """
    dialect, listed = engine.dialect, ", ".join(content)
    number = f"ROW_NUMBER() OVER (PARTITION BY person, {listed}, named ORDER BY {content[0]})"
    shown = ", ".join([*content, *carried])
    numbered = f"SELECT {shown}, person, named, {number} AS t FROM ({coded}) AS coded"
    texts = ", ':', ".join(["named", *(f"CAST({part} AS {dialect.text})" for part in (*content, "t"))])
    digest = dialect.hashed(f"CONCAT({dialect.literal(key)}, ':', {texts})")
    hashed = f"SELECT {shown}, person, t, {digest} AS h FROM ({numbered}) AS numbered"
    place = f"ROW_NUMBER() OVER (PARTITION BY person ORDER BY h, {listed}, t)"
    return f"SELECT {shown} FROM (SELECT {shown}, {place} AS r FROM ({hashed}) AS hashed) AS ranked WHERE r <= {most}"


def load_records(
    engine: Engine,
    domain: Domain,
    weighing: Weighing = RECORDS,
    *,
    placed: Sequence[str] = (),
    hold: int = HOLD,
    stopwatch: Stopwatch | None = None,
) -> Records | None:
    """The distinct encoded records of an engine's relation, with their weights; None if there are more than `hold`.

    Positions in bins are read of `placed` attributes only, because reading them takes as long as reading the codes.
    """
    packing, statement = grouping(engine, domain, domain.names, weighing, placed)
    layout = plane_layout(domain)
    keys = len(packing.groups)
    planes = [packing.planes(layout, np.empty((keys, 0), dtype=np.int64))]
    weights: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
    sums: list[list[np.ndarray]] = [[np.empty(0, dtype=np.uint16)] for _ in placed]
    held = 0
    with contextlib.closing(watched(engine, statement, keys + 1 + len(placed), stopwatch)) as blocks:
        for block in blocks:
            held += block.shape[1]
            if held > hold:
                return None
            planes.append(packing.planes(layout, block[:keys]))
            weights.append(block[keys].copy())
            for column, sum_of in zip(sums, block[keys + 1 :], strict=True):
                column.append(narrow(sum_of))
    positions = {name: np.concatenate(column) for name, column in zip(placed, sums, strict=True)}
    return Records(domain, np.concatenate(planes, axis=1), np.concatenate(weights), positions, room=hold)
