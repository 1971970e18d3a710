"""Grouping: a row's codes are packed into a few 62-bit keys, which the engine counts; unpacking happens here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.domain import Domain
from reticent.domain.numeric import HALF, has_positions
from reticent.errors import SourceError
from reticent.kernel.counting.records import Layout, write_planes
from reticent.sources.dialects import Dialect
from reticent.sources.encoding import coding, readings_of
from reticent.sources.engine import ColumnType, Engine
from reticent.sources.persons import identifier_text
from reticent.sources.readings import present

_KEY_BITS = 62
_CHUNK = 1 << 14


@dataclass(frozen=True)
class Packing:
    """Attributes divided, in order, into keys that fit a signed 64-bit integer; each code has its own bits.

    Unpacking needs only shifts and masks, several times faster than the divisions of a tight mixed radix.
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
        """Byte planes of the layout's attributes, a chunk at a time, because allocating large arrays costs more than
        the shifts.
        """
        found = np.empty((sum(map(len, layout.values())), keys.shape[1]), dtype=np.uint8)
        for start in range(0, keys.shape[1], _CHUNK):
            part = slice(start, start + _CHUNK)
            write_planes(layout, self.unpacked(keys[:, part]), found[:, part])
        return found


def _bits(domain: Domain, name: str) -> int:
    return (domain[name].size - 1).bit_length()


def required_columns(engine: Engine, names: Sequence[str]) -> Mapping[str, ColumnType]:
    """The engine's columns; refused if a column of the domain or the privacy unit is missing."""
    columns = engine.columns()
    missing = [name for name in names if name not in columns]
    if missing:
        near = {name.lower() for name in missing} & {name.lower() for name in columns}
        case = "; one differs only in case: rename it" if near else ""
        raise SourceError(
            f"{engine.label} has no column {_listed(missing, 5)}; it has {_listed(list(columns), 12)}{case}"
        )
    return columns


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def coded_rows(
    engine: Engine,
    domain: Domain,
    packing: Packing,
    person: str | None,
    placed: Sequence[str] = (),
    *,
    naming: bool = False,
) -> str:
    """A subquery of every row's packed keys k0, k1, ..., the positions p0, p1, ... of `placed` attributes in their bins
    and, if persons are the unit, its person; with `naming` also a hash of the identifier's text, which
    no collation compares.
    """
    dialect = engine.dialect
    names = [*dict.fromkeys([*(name for group in packing.groups for name in group), *placed])]
    columns = required_columns(engine, [*names, *([] if person is None else [person])])
    codings = {name: coding(domain[name], name, columns[name], dialect, domain.index(name)) for name in names}
    others: list[str] = []
    # A code that a position needs too is computed once, in a subquery of its own.
    own = {name: f"c{domain.index(name)}" for name in placed}
    keys = packing.keys({name: own.get(name, made.code) for name, made in codings.items()}, dialect.bigint)
    listed = [f"{key} AS k{i}" for i, key in enumerate(keys)]
    listed += [f"CAST({codings[name].position or HALF} AS {dialect.bigint}) AS q{i}" for i, name in enumerate(placed)]
    where = ""
    if person is not None:
        column = dialect.quoted(person)
        others.append(f"{column} AS person")
        listed.append("person")
        if naming:
            others.append(f"{dialect.hashed(identifier_text(column, columns[person], dialect))} AS named")
            listed.append("named")
        # A row that names no person weighs nothing (docs/proofs/person-weights.md).
        where = f" WHERE {present(column, columns[person], dialect)}"
    inner = readings_of(codings.values(), engine.relation, dialect, others, where)
    if own:
        codes = ", ".join(f"{codings[name].code} AS {code}" for name, code in own.items())
        inner = f"SELECT reading.*, {codes} FROM ({inner}) AS reading"
    return f"SELECT {', '.join(listed)} FROM ({inner}) AS reading"


def placed_attributes(domain: Domain) -> tuple[str, ...]:
    """Attributes whose numbers differ within bins, so that positions can be read."""
    return tuple(name for name in domain.names if has_positions(domain[name]))
