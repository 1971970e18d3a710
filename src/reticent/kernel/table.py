"""`Table`: public facts, and a source of exact counts that only the kernel may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import SourceError, given, whole_number
from reticent.queries.conjunctions import Conjunctions

Neighbours = Literal["replace-one", "add-remove"]
Unit = Literal["record", "person", "row"]
"""The unit of counting: records; persons, whose rows have a total weight of one; rows, at most `most` of each person.
"""

QUERY_GRID = 1 << 20
"""Query values are multiples of 1/QUERY_GRID (`G_q` of spec 1.3)."""

WEIGHT_LIMIT = (1 << 63) // QUERY_GRID
"""`n G` stays below this, so that every weighted answer `n G G_q` is an exact int64 (spec 1.3)."""

MOST_UNDECLARED = 1 << 30
"""The largest number of records or persons if none, or fewer, were declared. It is public, because the person grid and
the allowance for float sums depend on it."""

MOST_ROWS = 1 << 20
"""The largest `most`; noise grows with it."""

# Highly composite numbers: 2, 3, 4, ... rows of a person have equal weights without a remainder.
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

    def positions(self, name: str, attributes: tuple[str, ...]) -> np.ndarray:
        """For each cell of `attributes` the sum over its records of weight times position in the bin of `name`."""
        ...

    def weigh_bins(self, name: str, vectors: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Weight, and weight times position, in each bin of `name`, of the records where all vectors are 1."""
        ...

    def remembered(self, key: str, count: Callable[[], np.ndarray]) -> np.ndarray:
        """The result of `count`, cached under a public name."""
        ...


def person_grid(records: int | None) -> int:
    """The weight `G` of one person: the largest of a public list that the declared `n` allows (spec 1.3)."""
    persons = MOST_UNDECLARED if records is None else max(records, 1)
    allowed = [grid for grid in PERSON_GRIDS if persons * grid < WEIGHT_LIMIT]
    if not allowed:
        raise SourceError(f"records={given(records)} is too many: at most {WEIGHT_LIMIT - 1} fit the integer grid")
    return allowed[-1]


def most_records(records: float | None) -> float:
    """The largest number of records or persons for this declared number; loading refuses more."""
    return max(records or 0, MOST_UNDECLARED)


class Table:
    """Public facts and a private source; it cannot be printed, copied, pickled, measured or changed."""

    __slots__ = ("_source", "domain", "grid", "most", "name", "neighbours", "records", "unit", "version")

    domain: Domain
    neighbours: Neighbours
    records: int | None
    grid: int
    unit: Unit
    most: int | None
    """How many rows of one person count, where rows are the unit."""
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
        most: int | None = None,
        name: str = "table",
        version: str | None = None,
    ) -> None:
        validate_facts(records=records, neighbours=neighbours, unit=unit, most=most)
        if neighbours == "replace-one" and records is None and unit != "row":
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
            "most": most,
            "version": version,
        }
        for key, value in facts.items():
            object.__setattr__(self, key, value)

    def has_numbers(self, column: str) -> bool:
        """Whether the table was read with the numbers inside the bins of a column.

        Args:
            column: Its name.

        Returns:
            True if sums and means of the rows' own numbers can be purchased.

        Example:
            >>> import pyarrow, reticent as rt
            >>> domain = rt.Domain(a=rt.Numeric(edges=[0, 10, 20]))
            >>> rt.Table.of(pyarrow.table({"a": [1.5, 12.0]}), domain, numbers=True).has_numbers("a")
            True
        """
        return column in getattr(self._source, "placed", ())

    def close(self) -> None:
        """Close the database that counts on demand for this table; it has no effect on a table held in memory.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> table.close()
        """
        close = getattr(self._source, "close", None)
        if close is not None:
            close()

    def __repr__(self) -> str:
        size = "size private" if self.records is None else f"{self.records} {self.unit}s"
        size += "" if self.most is None else f", at most {self.most} rows a person"
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
        """The public facts that a ledger records: a session refuses to resume on another table."""
        return {
            "domain": self.domain.fingerprint,
            "neighbours": self.neighbours,
            "records": self.records,
            "unit": self.unit,
            "grid": self.grid,
            "version": self.version,
        } | ({} if self.most is None else {"most": self.most})


def exact_counts(table: Table) -> CountSource:
    """The count source behind a table: only for the kernel, the custodian's own functions and the audit of mechanisms.

    A test lists the modules that import this function.
    """
    return table._source


def validate_facts(*, records: object, neighbours: object, unit: object, most: object = None) -> None:
    """Refuse inconsistent declarations before any row is read."""
    if not (isinstance(neighbours, str) and neighbours in ("replace-one", "add-remove")):
        raise SourceError(f"neighbours={given(neighbours)} is unknown: use 'replace-one' or 'add-remove'")
    if not (isinstance(unit, str) and unit in ("record", "person", "row")):
        raise SourceError(f"unit={given(unit)} is unknown: use 'record', 'person' or 'row'")
    if (unit == "row") != (most is not None):
        raise SourceError(f"most={given(most)} is how many rows of a person count: give it with unit 'row' only")
    if most is not None:
        whole_number(most, "most", 1, MOST_ROWS, error=SourceError)
    if records is None:
        return
    if unit == "row":
        raise SourceError("records= is private where rows of persons are counted: leave it out")
    if isinstance(records, bool) or not isinstance(records, (int, np.integer)) or records < 1:
        raise SourceError(f"records={given(records)} must be a whole number, at least 1")
    if records >= WEIGHT_LIMIT:
        raise SourceError(f"records={records} is too many: at most {WEIGHT_LIMIT - 1} fit the integer grid")
    if neighbours == "add-remove":
        raise SourceError("records= is private under add-remove: leave it out, or use neighbours='replace-one'")
