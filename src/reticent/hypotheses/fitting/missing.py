"""Records for cells that were clearly measured and that proposed records hardly have.

A fit on chosen records moves their weights: where a cell has no record, or so few that their weights would have to grow
many times, no weights reach what was measured. That is so for pairs that a junction tree has no room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.fitting.consistent import WIDEST, consistent_of
from reticent.hypotheses.fitting.descent import furthest_noise

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Measurement

__all__ = ["with_missing_cells"]

Set = tuple[str, ...]

LARGEST = 3
"""Attributes of the sets whose cells are looked at."""


def with_missing_cells(domain: Domain, codes: np.ndarray, measurements: Sequence[Measurement], most: int) -> np.ndarray:
    """The records, and up to `most` in all for cells that hold less than a third of what was measured beyond all noise.

    As many as make up the share that was measured. Each is another record with one of its codes replaced, in turn each
    attribute of the set, so that it is like records that share its other codes. Where rules exclude records there are
    none.
    """
    known = consistent_of([m for m in measurements if len(m.query.attributes) <= WIDEST], domain)
    sets = [s for s in known.precisions if 2 <= len(s) <= LARGEST and known.knows(s)]
    furthest, records = furthest_noise(measurements), codes
    for names in sorted(sets, key=len) if not domain.impossible else ():
        values, sd = known.marginal(names)
        columns = [domain.index(name) for name in names]
        places = np.ravel_multi_index(tuple(records[:, i] for i in columns), values.shape)
        shares = np.bincount(places, minlength=values.size).reshape(values.shape) / len(codes)
        missing = (values > e * shares) & (values - shares > furthest * sd)
        cells, counts = np.argwhere(missing), (values - shares)[missing] * len(codes)
        counts *= min(1.0, max(0, most - len(records)) / max(counts.sum(), 1.0))
        new = [_records_of(records, columns, cell, int(count)) for cell, count in zip(cells, counts, strict=True)]
        records = np.concatenate([records, *new]) if new else records
    return records


def _records_of(records: np.ndarray, columns: Sequence[int], cell: np.ndarray, wanted: int) -> np.ndarray:
    """So many records of a cell, made of those that have all but one of its codes; of any where there are none."""
    alike = records[:, columns] == cell
    missed = alike.shape[1] - alike.sum(axis=1)
    near = [np.flatnonzero((missed == 1) & ~alike[:, axis]) for axis in range(alike.shape[1])]
    near = [places for places in near if places.size] or [np.arange(len(records))]
    parts = []
    for i, places in enumerate(near):
        count = wanted // len(near) + (i < wanted % len(near))
        parts.append(places[np.linspace(0, places.size, count, endpoint=False).astype(np.intp)])
    made = records[np.concatenate(parts)]
    made[:, columns] = cell
    return made
