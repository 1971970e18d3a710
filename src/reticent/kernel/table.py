"""A table is its public facts and a source of exact counts that only the kernel may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.queries.conjunctions import Conjunctions

Neighbours = Literal["replace-one", "add-remove"]
Unit = Literal["record", "person"]

QUERY_GRID = 1 << 20
"""Query values are multiples of 1/QUERY_GRID (`G_q` of spec 1.3)."""

WEIGHT_LIMIT = (1 << 63) // QUERY_GRID
"""`n G` stays below this, so that every weighted answer `n G G_q` is an exact int64 (spec 1.3)."""

MOST_UNDECLARED = 1 << 30
"""How many records or persons a table may hold beyond its declared number: public, because the person grid and what
float sums are allowed to err follow from it."""

# Highly composite numbers: a person with 2, 3, 4, ... rows weighs each of them alike, with no remainder to hand out.
PERSON_GRIDS = (1, 2, 12, 60, 120, 360, 840, 2520, 5040, 7560, 15120, 27720, 55440, 110880, 166320, 332640, 720720)


class CountSource(Protocol):
    """Exact weighted counts; attribute sets are tuples of names in domain order."""

    def total(self) -> int: ...

    def marginal(self, attributes: tuple[str, ...]) -> np.ndarray: ...

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[np.ndarray]: ...

    def weigh(self, vectors: Mapping[str, np.ndarray]) -> int:
        """The sum over records of weight times the product of `vectors[attribute][code]`."""
        ...

    def conjunctions(self, conjunctions: Conjunctions) -> np.ndarray: ...


def person_grid(records: int | None) -> int:
    """The weight `G` of one person: the largest of a public list that the declared `n` allows (spec 1.3)."""
    persons = MOST_UNDECLARED if records is None else max(records, 1)
    allowed = [grid for grid in PERSON_GRIDS if persons * grid < WEIGHT_LIMIT]
    if not allowed:
        raise SourceError(f"records={records} is too many: at most {WEIGHT_LIMIT - 1} fit the integer grid")
    return allowed[-1]


def most_records(records: float | None) -> float:
    """How many records or persons a table of this declared number can hold; more are refused while loading."""
    return max(records or 0, MOST_UNDECLARED)


class Table:
    """Public facts and a private source; it cannot be printed, copied, pickled, measured or changed."""

    __slots__ = ("_source", "domain", "grid", "name", "neighbours", "records", "unit", "version")

    domain: Domain
    neighbours: Neighbours
    records: int | None
    grid: int
    unit: Unit
    name: str
    version: str | None
    _source: CountSource

    def __init__(
        self,
        source: CountSource,
        domain: Domain,
        *,
        records: int | None = None,
        neighbours: Neighbours = "replace-one",
        unit: Unit = "record",
        name: str = "table",
        version: str | None = None,
    ) -> None:
        validate_facts(records=records, neighbours=neighbours, unit=unit)
        if neighbours == "replace-one" and records is None:
            raise SourceError("replace-one needs a public size: declare records=, or use neighbours='add-remove'")
        grid = person_grid(records) if unit == "person" else 1
        facts = {
            "_source": source,
            "domain": domain,
            "grid": grid,
            "name": name,
            "neighbours": neighbours,
            "records": records if neighbours == "replace-one" else None,
            "unit": unit,
            "version": version,
        }
        for key, value in facts.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        size = "size private" if self.records is None else f"{self.records} {self.unit}s"
        version = "" if self.version is None else f", version {self.version!r}"
        return f"<Table {self.name!r}: {size}, {len(self.domain)} attributes, {self.neighbours}{version}>"

    def __setattr__(self, key: str, value: object) -> NoReturn:
        raise AttributeError(f"a table's {key} is fixed when it is built")

    def __delattr__(self, key: str) -> NoReturn:
        raise AttributeError(f"a table's {key} is fixed when it is built")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a table holds private rows and is neither pickled nor copied; read it again instead")

    @property
    def identity(self) -> dict[str, Any]:
        """The public facts a ledger is bound to: a session refuses to resume on another table."""
        return {
            "domain": self.domain.fingerprint,
            "neighbours": self.neighbours,
            "records": self.records,
            "unit": self.unit,
            "grid": self.grid,
            "version": self.version,
        }


def validate_facts(*, records: object, neighbours: object, unit: object) -> None:
    """Refuse inconsistent declarations before any row is read."""
    if neighbours not in ("replace-one", "add-remove"):
        raise SourceError(f"neighbours={neighbours!r} is unknown: use 'replace-one' or 'add-remove'")
    if unit not in ("record", "person"):
        raise SourceError(f"unit={unit!r} is unknown: use 'record' or 'person'")
    if records is None:
        return
    if isinstance(records, bool) or not isinstance(records, (int, np.integer)) or records < 1:
        raise SourceError(f"records={records!r} must be a whole number, at least 1")
    if records >= WEIGHT_LIMIT:
        raise SourceError(f"records={records} is too many: at most {WEIGHT_LIMIT - 1} fit the integer grid")
    if neighbours == "add-remove":
        raise SourceError("records= is private under add-remove: leave it out, or use neighbours='replace-one'")
