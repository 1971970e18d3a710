"""Made-up tables of a few records: an audit reads nobody's rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from reticent.domain import Domain
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Neighbours, Table

DOMAIN = Domain({"a": 2, "b": 2})
CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))
RECORDS = 3
"""Of the tables that exact checks enumerate."""

Counts = tuple[int, ...]
"""Records in each of the four cells."""


def four_cell_table(counts: Sequence[int], neighbours: Neighbours = "replace-one") -> Table:
    """So many records in each of the four cells."""
    codes = np.array(CELLS, dtype=np.int64)
    source = Records.of_codes(DOMAIN, {"a": codes[:, 0], "b": codes[:, 1]}, np.array(counts, dtype=np.int64))
    return Table(source, DOMAIN, records=sum(counts) if neighbours == "replace-one" else None, neighbours=neighbours)


@lru_cache
def neighbours_far_apart(records: int = 8) -> tuple[Table, Table]:
    """One record moves from the first cell to the last: every marginal changes in two cells."""
    rest = records // 4
    counts = [records - 3 * rest, rest, rest, rest]
    return four_cell_table(counts), four_cell_table([counts[0] - 1, rest, rest, rest + 1])


@lru_cache
def neighbours_alone(records: int) -> tuple[Table, Table]:
    """Everybody in the first cell, or all but one: far from a uniform guess, so that threshold tests fail."""
    return four_cell_table([records, 0, 0, 0]), four_cell_table([records - 1, 0, 0, 1])


def every_pair(neighbours: Neighbours) -> Iterator[tuple[Counts, Counts]]:
    """Every two neighbouring tables of up to three records."""
    for kept in itertools.combinations_with_replacement(range(len(CELLS)), RECORDS - 1):
        for first in range(len(CELLS)):
            if neighbours == "add-remove":
                yield _counts(*kept, first), _counts(*kept)
            else:
                yield from ((_counts(*kept, first), _counts(*kept, other)) for other in range(first))


def _counts(*cells: int) -> Counts:
    return tuple(np.bincount(cells, minlength=len(CELLS)).tolist())
