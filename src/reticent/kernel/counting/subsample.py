"""A secret sample of a table, drawn without replacement: smaller and faster, but no more private (spec 7.4)."""

from __future__ import annotations

from typing import Any

from reticent.errors import SourceError
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table, exact_counts


class Subsample(Table):
    """`size` records of a table; which ones stays secret, and lives as long as this object.

    What is asked of it is priced for `size` records and charged unamplified to the ledger of the whole table. The
    smaller epsilon of a stand-alone run (`dualquery_analysis.amplified`) holds for one sample and one run.
    """

    __slots__ = ("_identity",)

    _identity: dict[str, Any]

    def __init__(self, table: Table, size: int) -> None:
        if table.neighbours != "replace-one" or table.unit != "record" or table.records is None:
            raise SourceError("sampling needs a replace-one table whose unit is the record; use the whole table")
        source = exact_counts(table)
        # A table that is held only because many of its rows are alike is refused too: that is no public fact.
        if not isinstance(source, Records) or source.room < table.records:
            raise SourceError(
                f"sampling needs the rows in memory: read the table with hold={table.records} or more, or use all of it"
            )
        if not 1 <= size <= table.records:
            raise SourceError(f"a sample of {size} must have between 1 and {table.records} records")
        super().__init__(
            source.sampled(table.records, size),
            table.domain,
            records=size,
            neighbours=table.neighbours,
            unit=table.unit,
            name=f"a sample of {table.name}",
            version=table.version,
        )
        object.__setattr__(self, "_identity", dict(table.identity))

    @property
    def identity(self) -> dict[str, Any]:
        """The whole table's: its ledger pays."""
        return dict(self._identity)
