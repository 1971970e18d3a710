"""How rows reach a table: an engine bins, weighs and groups them, and only encoded counts come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.kernel import table as kernel
from reticent.kernel.table import CountSource
from reticent.sources.engine import Engine
from reticent.sources.files import open_file
from reticent.sources.grouping import HOLD, load
from reticent.sources.objects import open_object
from reticent.sources.ondemand import OnDemand
from reticent.sources.postgres import PostgresEngine
from reticent.sources.progress import ReadListener, ReadProgress, Stopwatch

__all__ = ["ReadListener", "ReadProgress", "Table", "open_rows"]


class Table(kernel.Table):
    """A private table with its public facts; made by `Table.read` from files and databases, `Table.of` from objects."""

    __slots__ = ()

    @classmethod
    def read(
        cls,
        path: str | Path,
        domain: Domain,
        *,
        query: str | None = None,
        person: str | None = None,
        records: int | None = None,
        neighbours: kernel.Neighbours = "replace-one",
        version: str | None = None,
        hold: int = HOLD,
        progress: ReadListener | None = None,
    ) -> Table:
        """Read a file (CSV, Parquet, Arrow), a folder of Parquet, or a database by URL with `query`."""
        _validate(domain, query, person, records, neighbours)
        stopwatch = Stopwatch(progress)
        stopwatch.tell("opening")
        engine = open_rows(path, domain, query=query)
        return _built(cls, engine, domain, person, records, neighbours, version, hold, stopwatch)

    @classmethod
    def of(
        cls,
        rows: Any,
        domain: Domain,
        *,
        person: str | None = None,
        records: int | None = None,
        neighbours: kernel.Neighbours = "replace-one",
        name: str = "table",
        version: str | None = None,
        hold: int = HOLD,
        progress: ReadListener | None = None,
    ) -> Table:
        """Take a pandas, polars or Arrow table, a DuckDB relation or an Ibis expression."""
        _validate(domain, None, person, records, neighbours)
        stopwatch = Stopwatch(progress)
        stopwatch.tell("opening")
        engine = open_object(rows, domain, name)
        return _built(cls, engine, domain, person, records, neighbours, version, hold, stopwatch)

    def close(self) -> None:
        """Let go of a database that still counts for this table; a table held in memory has nothing to close."""
        if isinstance(self._source, OnDemand):
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_rows(rows: Any, domain: Domain, *, query: str | None = None, name: str = "table") -> Engine:
    """The engine behind a path, a URL or an object."""
    if isinstance(rows, str) and rows.startswith(("postgresql://", "postgres://")):
        return PostgresEngine.connect(rows, query)
    if isinstance(rows, (str, Path)):
        return open_file(rows, domain, query)
    return open_object(rows, domain, name)


def _validate(domain: object, query: object, person: object, records: object, neighbours: object) -> None:
    if not isinstance(domain, Domain):
        raise SourceError(f"domain must be a Domain, not {type(domain).__name__}; use Domain.read or Domain(...)")
    if query is not None and not (isinstance(query, str) and query.strip()):
        raise SourceError("query must be the text of one SELECT")
    if person is not None and not (isinstance(person, str) and person):
        raise SourceError(f"person={person!r} must be the name of a column")
    unit = "record" if person is None else "person"
    kernel.validate_facts(records=records, neighbours=neighbours, unit=unit)
    if neighbours == "replace-one" and records is None and (person is not None or query is not None):
        why = "persons are counted" if person is not None else "a query may filter"
        raise SourceError(f"replace-one needs a public size because {why}: declare records=, or use add-remove")


def _built(
    cls: type[Table],
    engine: Engine,
    domain: Domain,
    person: str | None,
    records: int | None,
    neighbours: kernel.Neighbours,
    version: str | None,
    hold: int,
    stopwatch: Stopwatch,
) -> Table:
    unit: kernel.Unit = "record" if person is None else "person"
    records = None if records is None else int(records)  # NumPy's would not go into a ledger
    try:
        if engine.filtered and records is None and neighbours == "replace-one":
            raise SourceError(f"{engine.label} may filter rows: declare records=, or use neighbours='add-remove'")
        grid = 1 if person is None else kernel.person_grid(records)
        held = load(engine, domain, person=person, grid=grid, hold=hold, stopwatch=stopwatch)
        # Too many distinct records: the engine stays open. Only time tells, and only the custodian's.
        source: CountSource = OnDemand(engine, domain, person=person, grid=grid) if held is None else held
        total = source.total()
        if held is None and total >= kernel.WEIGHT_LIMIT:
            raise SourceError("the table outgrows its integer grid: declare a larger records=, or split it")
        if records is None and neighbours == "replace-one":
            # Replace-one with records as the unit: the number of rows is public by definition (spec 1.1).
            records = total
            if records == 0:
                raise SourceError(f"{engine.label} has no rows; replace-one needs at least one")
        if total > kernel.most_records(records) * grid:
            most = f"{kernel.most_records(records):,} {unit}s"
            raise SourceError(f"the table holds more than {most}: split it, or use replace-one and declare records=")
        stopwatch.tell("ready")
    except BaseException:
        engine.close()
        raise
    if held is not None:
        engine.close()
    return cls(source, domain, records=records, neighbours=neighbours, unit=unit, name=engine.label, version=version)
