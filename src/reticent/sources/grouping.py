"""Grouping packs a row's codes into few 62-bit keys, which the engine weighs and counts; unpacking happens here."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.kernel.records import Layout, Records, plane_layout, spread
from reticent.sources.codes import coding
from reticent.sources.dialects import Dialect
from reticent.sources.engine import ColumnType, Engine
from reticent.sources.progress import Stopwatch, watched
from reticent.sources.readings import present

_KEY_BITS = 62
_CHUNK = 1 << 14

HOLD = 1 << 27
"""Distinct records kept in memory unless told otherwise: with 16 attributes 3 GiB."""


@dataclass(frozen=True)
class Packing:
    """Attributes split, in order, into keys that fit a signed 64-bit integer; each code has bits of its own.

    Unpacking is then shifts and masks, several times faster than the divisions of a tight mixed radix.
    """

    domain: Domain
    groups: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, domain: Domain, names: Sequence[str]) -> Packing:
        groups: list[list[str]] = [[]]
        bits = 0
        for name in names:
            width = _bits(domain, name)
            bits += width
            if bits > _KEY_BITS:
                groups.append([])
                bits = width
            groups[-1].append(name)
        return cls(domain, tuple(map(tuple, groups)))

    def keys(self, codes: Mapping[str, str], bigint: str) -> list[str]:
        """One SQL expression per key; comparing keys in turn compares codes lexicographically."""
        packed = []
        for group in self.groups:
            key = f"CAST({codes[group[0]] if group else 0} AS {bigint})"
            for name in group[1:]:
                key = f"({key} * {1 << _bits(self.domain, name)} + {codes[name]})"
            packed.append(key)
        return packed

    def digits(self, dialect: Dialect) -> dict[str, str]:
        """Each attribute's code as SQL over the packed keys k0, k1, ..."""
        found = {}
        for place, group in enumerate(self.groups):
            shift = 0
            for name in reversed(group):
                found[name] = f"({dialect.divided(f'k{place}', str(1 << shift))} % {1 << _bits(self.domain, name)})"
                shift += _bits(self.domain, name)
        return found

    def unpacked(self, keys: np.ndarray) -> dict[str, np.ndarray]:
        """The codes of each attribute from rows of packed keys."""
        columns = {}
        for group, key in zip(self.groups, keys, strict=True):
            shift = 0
            for name in reversed(group):
                columns[name] = (key >> shift) & ((1 << _bits(self.domain, name)) - 1)
                shift += _bits(self.domain, name)
        return columns

    def planes(self, layout: Layout, keys: np.ndarray) -> np.ndarray:
        """Byte planes of the layout's attributes, a chunk at a time: fresh large arrays cost more than the shifts."""
        found = np.empty((sum(map(len, layout.values())), keys.shape[1]), dtype=np.uint8)
        for start in range(0, keys.shape[1], _CHUNK):
            part = slice(start, start + _CHUNK)
            spread(layout, self.unpacked(keys[:, part]), found[:, part])
        return found


def _bits(domain: Domain, name: str) -> int:
    return (domain[name].size - 1).bit_length()


def required_columns(engine: Engine, names: Sequence[str]) -> Mapping[str, ColumnType]:
    """The engine's columns, once all that the domain and the privacy unit name are among them."""
    columns = engine.columns()
    missing = [name for name in names if name not in columns]
    if missing:
        raise SourceError(f"{engine.label} has no column {_listed(missing, 5)}; it has {_listed(list(columns), 12)}")
    return columns


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def coded_rows(engine: Engine, domain: Domain, packing: Packing, person: str | None) -> str:
    """A subquery of every row's packed keys k0, k1, ... and, if persons are the unit, its person."""
    dialect = engine.dialect
    names = [name for group in packing.groups for name in group]
    columns = required_columns(engine, [*names, *([] if person is None else [person])])
    codings = {name: coding(domain[name], name, columns[name], dialect, domain.index(name)) for name in names}
    projected = [part for made in codings.values() for part in made.projected]
    keys = packing.keys({name: made.code for name, made in codings.items()}, dialect.bigint)
    listed = [f"{key} AS k{i}" for i, key in enumerate(keys)]
    where = ""
    if person is not None:
        column = dialect.quoted(person)
        projected.append(f"{column} AS person")
        listed.append("person")
        # A row that names no person weighs nothing (docs/proofs/person-weights.md).
        where = f" WHERE {present(column, columns[person], dialect)}"
    inner = f"SELECT {', '.join(projected) or '0 AS nothing'} FROM {engine.relation}{where}"
    return f"SELECT {', '.join(listed)} FROM ({inner}) AS reading"


def grouping(
    engine: Engine, domain: Domain, names: Sequence[str], *, person: str | None, grid: int
) -> tuple[Packing, str]:
    """The statement whose rows are packed keys and their total weight."""
    packing = Packing.of(domain, names)
    keys = ", ".join(f"k{i}" for i in range(len(packing.groups)))
    coded = coded_rows(engine, domain, packing, person)
    bigint = engine.dialect.bigint
    if person is None:
        return packing, f"SELECT {keys}, CAST(COUNT(*) AS {bigint}) AS w FROM ({coded}) AS coded GROUP BY {keys}"
    # A person's m rows weigh floor(G/m), one more on the first G mod m in lexicographic order (spec 1.2). Equal rows
    # are first counted together (c of them, b before), so a person with a million rows is not sorted row by row.
    share = engine.dialect.divided(str(grid), "m")
    counted = f"SELECT person, {keys}, COUNT(*) AS c FROM ({coded}) AS coded GROUP BY person, {keys}"
    placed = (
        f"SELECT {keys}, CAST(c AS {bigint}) AS c, "
        f"CAST(SUM(c) OVER (PARTITION BY person) AS {bigint}) AS m, "
        f"CAST(SUM(c) OVER (PARTITION BY person ORDER BY {keys} ROWS UNBOUNDED PRECEDING) AS {bigint}) - c AS b "
        f"FROM ({counted}) AS counted"
    )
    weight = f"c * {share} + GREATEST(LEAST({grid} % m - b, c), 0)"
    summed = f"CAST(SUM({weight}) AS {bigint})"
    return packing, f"SELECT {keys}, {summed} AS w FROM ({placed}) AS placed GROUP BY {keys} HAVING {summed} > 0"


def load(
    engine: Engine,
    domain: Domain,
    *,
    person: str | None,
    grid: int,
    hold: int = HOLD,
    stopwatch: Stopwatch | None = None,
) -> Records | None:
    """The distinct encoded records of an engine's relation, with their weights; None if they are more than `hold`."""
    packing, statement = grouping(engine, domain, domain.names, person=person, grid=grid)
    layout = plane_layout(domain)
    keys = len(packing.groups)
    planes = [packing.planes(layout, np.empty((keys, 0), dtype=np.int64))]
    weights: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
    held = 0
    with contextlib.closing(watched(engine, statement, keys + 1, stopwatch)) as blocks:
        for block in blocks:
            held += block.shape[1]
            if held > hold:
                return None
            planes.append(packing.planes(layout, block[:keys]))
            weights.append(block[keys].copy())
    return Records(domain, np.concatenate(planes, axis=1), np.concatenate(weights))
