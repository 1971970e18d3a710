"""Readers of private rows: an engine bins, weights and groups them and returns only encoded counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from reticent.domain import Domain
from reticent.errors import SourceError, given, has_type, whole_number
from reticent.kernel import table as kernel
from reticent.kernel.table import CountSource
from reticent.sources.engine import Engine
from reticent.sources.files import open_file
from reticent.sources.grouping import placed_attributes
from reticent.sources.objects import open_object
from reticent.sources.on_demand import OnDemand
from reticent.sources.postgres import PostgresEngine
from reticent.sources.progress import ReadListener, ReadProgress, Stopwatch, read_listener
from reticent.sources.undeclared import UndeclaredValues
from reticent.sources.weighing import HOLD, Weighing, load_records

RowsOfPerson = Literal["shared", "bounded"]

__all__ = ["ReadListener", "ReadProgress", "Table", "open_rows", "open_undeclared"]


class Table(kernel.Table):
    """A private table with its public facts; `Table.read` reads files and databases, `Table.of` objects in memory.

    Only its domain and declared facts can be printed or read; only the kernel counts rows.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = pyarrow.table({"smoker": ["yes", "no", "no"]})
        >>> table = rt.Table.of(rows, rt.Domain(smoker=rt.Categorical(["no", "yes"])))
        >>> table.neighbours
        'replace-one'
    """

    __slots__ = ()

    @classmethod
    def read(
        cls,
        path: str | Path,
        domain: Domain,
        *,
        query: str | None = None,
        person: str | None = None,
        rows: RowsOfPerson = "shared",
        most: int | None = None,
        records: int | None = None,
        neighbours: kernel.Neighbours = "replace-one",
        version: str | None = None,
        hold: int = HOLD,
        numbers: bool = False,
        progress: ReadListener | bool | None = True,
    ) -> Table:
        """Read a file, a folder of Parquet files, or a database.

        Args:
            path: A CSV, Parquet or Arrow file, a folder of Parquet files, or a URL such as `postgresql://...`.
            domain: The public description of the columns.
            query: One SELECT statement; required for a database, optional for a file, which it names `rows`.
            person: The column that identifies the person of each row, if a person may have several rows.
            rows: How the rows of a person count. "shared": all of them together count as one record. "bounded": each
                row counts as one, with at most `most` rows of each person; the choice of rows depends only on that
                person's rows and identifier.
            most: The number of rows of a person that count with `rows="bounded"`. Noise grows in proportion.
            records: The public number of records or persons under replace-one; by default it is counted if it is
                public.
            neighbours: "replace-one" or "add-remove".
            version: The custodian's name for this state of the table; a ledger opens only with the same version.
            hold: The largest number of distinct records to hold in memory; if there are more, the engine counts on
                demand.
            numbers: Store the position of each number within its bin, so that sessions can sell means of the rows' own
                numbers. Reading then takes about twice as long. An engine that counts on demand reads positions only
                when they are needed.
            progress: Whether to show a progress bar on terminals and in notebooks; or a function that is called with
                the stage of reading.

        Returns:
            The table, which shows nothing of its rows.

        Raises:
            SourceError: If the rows cannot be read or the declarations contradict each other.

        Example:
            >>> import tempfile, pathlib
            >>> file = pathlib.Path(tempfile.mkdtemp()) / "visits.csv"
            >>> _ = file.write_text("patient,ward\\n1,a\\n1,b\\n2,a\\n")
            >>> from reticent.domain import Categorical
            >>> domain = Domain(ward=Categorical(["a", "b"]))
            >>> Table.read(file, domain, person="patient", rows="bounded", most=2)
            <Table 'visits.csv': size private, at most 2 rows a person, 1 attributes, replace-one>
        """
        declared = _Declared(domain, query, person, rows, most, records, neighbours, version, hold, numbers=numbers)
        with read_listener(progress) as listener:
            stopwatch = Stopwatch(listener)
            stopwatch.tell("opening")
            return _built(cls, open_rows(path, domain, query=query), declared, stopwatch)

    @classmethod
    def of(
        cls,
        data: Any,
        /,
        domain: Domain,
        *,
        person: str | None = None,
        rows: RowsOfPerson = "shared",
        most: int | None = None,
        records: int | None = None,
        neighbours: kernel.Neighbours = "replace-one",
        name: str = "table",
        version: str | None = None,
        hold: int = HOLD,
        numbers: bool = False,
        progress: ReadListener | bool | None = True,
    ) -> Table:
        """Take a table that is in memory or in a connected engine.

        Args:
            data: A pandas, polars or Arrow table, a DuckDB relation, an Ibis expression or a Spark frame.
            domain: The public description of the columns.
            person: As for `Table.read`, which describes all arguments in more detail.
            rows: "shared" or "bounded".
            most: The number of rows of a person that count with `rows="bounded"`.
            records: The public number of records or persons.
            neighbours: "replace-one" or "add-remove".
            name: The table's name in reports.
            version: The custodian's name for this state of the table.
            hold: The largest number of distinct records to hold in memory.
            numbers: Whether to store the position of each number within its bin.
            progress: Whether to show a progress bar; or a function that is called with the stage of reading.

        Returns:
            The table, which shows nothing of its rows.

        Raises:
            SourceError: If the rows cannot be read or the declarations contradict each other.

        Example:
            >>> import pyarrow as pa
            >>> from reticent.domain import Categorical
            >>> Table.of(pa.table({"ward": ["a", "b", "a"]}), Domain(ward=Categorical(["a", "b"])))
            <Table 'table': 3 records, 1 attributes, replace-one>
        """
        declared = _Declared(domain, None, person, rows, most, records, neighbours, version, hold, name, numbers)
        with read_listener(progress) as listener:
            stopwatch = Stopwatch(listener)
            stopwatch.tell("opening")
            return _built(cls, open_object(data, domain, name, person), declared, stopwatch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_rows(
    rows: Any, domain: Domain, *, query: str | None = None, name: str = "table", person: str | None = None
) -> Engine:
    """The engine behind a path, a URL or an object."""
    if isinstance(rows, str) and rows.startswith(("postgresql://", "postgres://")):
        return PostgresEngine.connect(rows, query)
    if isinstance(rows, (str, Path)):
        return open_file(rows, domain, query)
    return open_object(rows, domain, name, person)


def open_undeclared(
    rows: Any,
    domain: Domain,
    *,
    query: str | None = None,
    person: str | None = None,
    records: int | None = None,
    neighbours: kernel.Neighbours = "replace-one",
    version: str | None = None,
    judge: Callable[[Engine], None] | None = None,
) -> Table:
    """A table of undeclared columns, for private discovery; the caller closes it.

    `judge` may refuse the engine's columns, which it knows by their types.
    """
    declared = _Declared(domain, query, person, "shared", None, records, neighbours, version, HOLD)
    unit = declared.unit
    engine = open_rows(rows, domain, query=query, person=person)
    try:
        if engine.filtered and records is None and neighbours == "replace-one":
            raise SourceError(f"{engine.label} may filter rows: declare records=, or use neighbours='add-remove'")
        if judge is not None:
            judge(engine)
        grid = 1 if person is None else kernel.person_grid(records)
        source = UndeclaredValues(engine, domain, person=person, grid=grid)
        total = source.total()
        if records is None and neighbours == "replace-one":
            records = total  # public by definition, as for any table (spec 1.1)
        if total > kernel.most_records(records) * grid or records == 0:
            raise SourceError(f"{engine.label} has no rows, or more than the integer grid allows; declare records=")
        facts: dict[str, Any] = {"records": records, "neighbours": neighbours, "unit": unit, "version": version}
        return Table(source, domain, name=engine.label, **facts)  # pyright: ignore[reportArgumentType]
    except BaseException:
        engine.close()
        raise


@dataclass(frozen=True)
class _Declared:
    """The custodian's declarations about a table, checked before any row is read."""

    domain: Domain
    query: str | None
    person: str | None
    rows: RowsOfPerson
    most: int | None
    records: int | None
    neighbours: kernel.Neighbours
    version: str | None
    hold: int
    name: str | None = None
    numbers: bool = False

    def __post_init__(self) -> None:
        if not has_type(self.domain, Domain):
            kind = type(self.domain).__name__
            raise SourceError(f"domain must be a Domain, not {kind}; use Domain.read or Domain(...)")
        if self.query is not None and not (has_type(self.query, str) and self.query.strip()):
            raise SourceError("query must be the text of one SELECT")
        if self.person is not None and not (has_type(self.person, str) and self.person):
            raise SourceError(f"person={given(self.person)} must be the name of a column")
        for text, called in ((self.name, "name"), (self.version, "version")):
            if text is not None and not has_type(text, str):
                raise SourceError(f"{called}={given(text)} must be text")
        whole_number(self.hold, "hold", 1, error=SourceError)
        if not has_type(self.numbers, bool):
            raise SourceError(f"numbers={given(self.numbers)} must be True or False")
        self._check_rows()
        kernel.validate_facts(records=self.records, neighbours=self.neighbours, unit=self.unit, most=self.most)
        if self.sized and self.records is None and (self.person is not None or self.query is not None):
            why = "persons are counted" if self.person is not None else "a query may filter"
            raise SourceError(f"replace-one needs a public size because {why}: declare records=, or use add-remove")

    def _check_rows(self) -> None:
        if not (has_type(self.rows, str) and self.rows in get_args(RowsOfPerson)):
            raise SourceError(f"rows={given(self.rows)} is unknown: use 'shared' or 'bounded'")
        if self.rows == "bounded" and (self.person is None or self.most is None):
            raise SourceError("rows='bounded' needs person=, the column of persons, and most=, for example most=5")
        if self.rows == "shared" and self.most is not None:
            raise SourceError(f"most={given(self.most)} has no effect on shared rows: give rows='bounded' with it")

    @property
    def unit(self) -> kernel.Unit:
        if self.person is None:
            return "record"
        return "row" if self.rows == "bounded" else "person"

    @property
    def sized(self) -> bool:
        """Whether the number of records or persons is a public fact."""
        return self.neighbours == "replace-one" and self.rows == "shared"


def _built(cls: type[Table], engine: Engine, declared: _Declared, stopwatch: Stopwatch) -> Table:
    # NumPy's integers would not go into a ledger.
    records, most = (None if number is None else int(number) for number in (declared.records, declared.most))
    domain, unit = declared.domain, declared.unit
    try:
        if engine.filtered and records is None and declared.sized:
            raise SourceError(f"{engine.label} may filter rows: declare records=, or use neighbours='add-remove'")
        weighing = Weighing(declared.person, kernel.person_grid(records) if unit == "person" else 1, most)
        placed = placed_attributes(domain) if declared.numbers else ()
        held = load_records(engine, domain, weighing, placed=placed, hold=int(declared.hold), stopwatch=stopwatch)
        # Too many distinct records: the engine stays open. Only time tells, and only the custodian's: what can be asked
        # of the table is the same either way.
        source: CountSource = OnDemand(engine, domain, weighing, placed) if held is None else held
        total = source.total()
        if held is None and total >= kernel.WEIGHT_LIMIT:
            raise SourceError("the table is too large for its integer grid: declare a larger records=, or split it")
        if records is None and declared.sized:
            # Replace-one with records as the unit: the number of rows is public by definition (spec 1.1).
            records = total
            if records == 0:
                raise SourceError(f"{engine.label} has no rows; replace-one needs at least one")
        if total > kernel.most_records(records) * weighing.grid:
            most_held = f"{kernel.most_records(records):,} {unit}s"
            raise SourceError(
                f"the table holds more than {most_held}: split it, or use replace-one and declare records="
            )
        stopwatch.tell("ready")
    except BaseException:
        engine.close()
        raise
    if held is not None:
        engine.close()
    return cls(
        source,
        domain,
        records=records,
        neighbours=declared.neighbours,
        unit=unit,
        most=most,
        name=engine.label,
        version=declared.version,
    )
