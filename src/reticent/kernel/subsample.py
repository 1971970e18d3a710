"""A secret sample of a table, drawn without replacement: smaller and faster, but no more private (spec 7.4)."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from reticent.errors import SourceError
from reticent.kernel.records import Records
from reticent.kernel.table import Table


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
        if not isinstance(table._source, Records):
            raise SourceError("sampling needs the rows in memory; use the whole table")
        if not 1 <= size <= table.records:
            raise SourceError(f"a sample of {size} must have between 1 and {table.records} records")
        super().__init__(
            _sampled(table._source, table.records, size),
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


def _sampled(source: Records, records: int, size: int) -> Records:
    """Every set of `size` places is equally likely; equal records are told apart by their place in the weights.

    Where fewer records were read than declared, the places behind them are persons without rows: drawn like the others,
    they weigh nothing. Where more were read, all of them have a place. So for every two neighbours, also where one
    person's rows appear or vanish, samples can be coupled to differ in one record (docs/proofs/dualquery.md).
    """
    ends = np.cumsum(source._weights)
    total = int(ends[-1]) if len(ends) else 0
    places = np.array(secrets.SystemRandom().sample(range(max(records, total)), size), dtype=np.int64)
    rows = np.searchsorted(ends, places[places < total], side="right")
    weights = np.bincount(rows, minlength=len(ends))
    kept = np.flatnonzero(weights)
    return Records(source._domain, np.ascontiguousarray(source._planes[:, kept]), weights[kept].astype(np.int64))
