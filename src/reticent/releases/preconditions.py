"""What synthetic rows and replicates require, from public facts alone.

A release checks it when rows are drawn. A caller who knows beforehand which rows it will draw checks it before the
release is paid for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import QueryError, whole_number
from reticent.hypotheses.memory import refuse_beyond
from reticent.hypotheses.sampling import three_way_sets
from reticent.queries.conjunctions import Conjunctions
from reticent.releases.candidates import target_sets
from reticent.releases.levels import level_sets
from reticent.releases.replicates import FEWEST_REPLICATES, MOST_REPLICATES, SUPPORTED
from reticent.releases.synthesize import check_weight_names, decode

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.queries.workload import Workload

__all__ = ["check_replicable", "check_rows_to_draw", "checked_replicates", "checked_rows", "rows_memory"]

MOST_ROWS = 2**31 - 1
LEAST_ROWS_RATIO = 4
"""Rows per record with replicate weights. The sampling of rows then adds at most an eighth to a standard error, and far
less if cells have enough rows for systematic sampling.
"""


def checked_replicates(count: object) -> int:
    return whole_number(count, "replicates", FEWEST_REPLICATES, MOST_REPLICATES)


def check_replicable(algorithm: str | None, *, levels: bool) -> None:
    """Refuse replicates of a release that another algorithm made, or that joins levels of ranges."""
    if algorithm != SUPPORTED:
        raise QueryError(f"replicates repeat the fit of rt.Adaptive(); this release is made by {algorithm}")
    if levels:
        raise QueryError("replicates repeat fits of marginals; this release joins levels of ranges: leave ranges out")


def checked_rows(
    rows: object, domain: Domain, records: float | None, *, sets: int = 0, replicates: int | None = None
) -> int | None:
    """The number of rows to draw: `rows`, or the default for this many records; None if it depends on unknown records.

    Args:
        rows: As asked for; None for the default.
        domain: The columns.
        records: The number of records; None where it is private and not yet measured.
        sets: Attribute sets whose marginals the rows keep (`rows_memory`).
        replicates: Columns of replicate weights.

    Raises:
        QueryError: Rows are too few or too many, or a column has the name of a weight.
        ResourceError: The rows need more memory than there is.
    """
    number = None if rows is None else whole_number(rows, "rows", 1, MOST_ROWS)
    if replicates is not None:
        check_weight_names(domain, replicates)
    if records is not None:
        least = 1 if replicates is None else LEAST_ROWS_RATIO * max(1, round(records))
        number = max(least, round(records)) if number is None else number
        if number < least:
            raise QueryError(f"{number} rows are too few for replicate weights; ask for at least {least}, 4 a record")
    if number is not None:
        needed = rows_memory(domain, number, sets=sets, replicates=replicates)
        refuse_beyond(needed, f"drawing {number:,} rows", "ask for fewer rows")
    return number


def rows_memory(domain: Domain, rows: int, *, sets: int = 0, replicates: int | None = None) -> int:
    """Bytes that drawing holds at once, from below: codes, their cells in each set, columns and weights."""
    codes = (8 + 4) * len(domain) + 8 * len(domain.impossible)
    decoded = 8 * len(domain)
    if replicates is None:
        return rows * (codes + decoded + 4 * sets)
    # The ratios in double precision, one copy of them, and the weights in single precision.
    return rows * (codes + decoded + (8 + 8 + 4) * replicates)


def check_rows_to_draw(
    domain: Domain,
    workload: Workload | Conjunctions,
    algorithm: Any,
    records: int | None,
    *,
    rows: int | None = None,
    replicates: int | None = None,
    drawn: bool = True,
) -> None:
    """Check, before a release is paid for, the rows and replicates that are to be made of it.

    Args:
        domain: The table's domain.
        workload: The release's workload.
        algorithm: The release's algorithm.
        records: The public number of records; None where it is private.
        rows: Synthetic rows; None for the default.
        replicates: Their number; None for none.
        drawn: Whether rows are drawn at all.

    Raises:
        QueryError: The release would refuse to make them.
        ResourceError: They need more memory than there is.
    """
    if replicates is not None:
        replicates = checked_replicates(replicates)
        levels = not isinstance(workload, Conjunctions) and bool(level_sets(workload, domain))
        check_replicable(algorithm.describe().get("algorithm"), levels=levels)
    if drawn:
        decode(np.empty((0, len(domain)), dtype=np.int32), domain)
        asked = () if isinstance(workload, Conjunctions) else target_sets(workload, domain)
        checked_rows(rows, domain, records, sets=len(three_way_sets(domain, asked)), replicates=replicates)
