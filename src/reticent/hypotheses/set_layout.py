"""Where rows stand in the tables of several attribute sets, for loops that change one value of a row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from reticent.domain import Domain

__all__ = ["SetLayout", "rule_tables"]


@dataclass(frozen=True, eq=False)
class SetLayout:
    """Tables of some sets, flattened one after the other, and how a change of one code moves a row in them."""

    strides: np.ndarray
    """`strides[c, axis]`: by how much a row moves in the table of set c if its code of an attribute grows by one."""
    offsets: np.ndarray
    """Where the table of each set begins."""
    size: int
    """Cells of all tables together."""
    listed: np.ndarray
    """The sets that hold each attribute, one attribute after the other."""
    borders: np.ndarray
    """Where each attribute's sets begin in that list."""
    sizes: np.ndarray
    """Codes of every attribute."""

    @classmethod
    def of(cls, domain: Domain, sets: Sequence[tuple[str, ...]]) -> Self:
        strides = np.zeros((len(sets), len(domain)), dtype=np.int64)
        offsets = np.zeros(len(sets), dtype=np.int64)
        position = 0
        for place, names in enumerate(sets):
            offsets[place] = position
            step = 1
            for name in reversed(names):
                strides[place, domain.index(name)] = step
                step *= domain[name].size
            position += step
        touching = [np.flatnonzero(strides[:, axis]) for axis in range(len(domain))]
        borders = np.cumsum([0, *(sets_of.size for sets_of in touching)])
        listed = np.concatenate([*touching, np.empty(0, dtype=np.int64)]).astype(np.int64)
        return cls(strides, offsets, position, listed, borders, np.array(domain.shape, dtype=np.int64))

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """`cells[i, c]`: where row i is in the table of set c."""
        # Half the memory of the default integers: on wide tables this array is the largest of a release.
        found = np.empty((len(codes), len(self.offsets)), dtype=np.int32 if self.size < 2**31 else np.int64)
        for place, offset in enumerate(self.offsets):
            found[:, place] = codes @ self.strides[place] + offset
        return found


def rule_tables(codes: np.ndarray, domain: Domain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each row is in each rule's table, the tables one after the other, and the steps of the axes in them."""
    steps = np.zeros((len(domain.impossible), len(domain)), dtype=np.int64)
    tables, ruled, position = [np.empty(0, dtype=bool)], [], 0
    for place, rule in enumerate(domain.impossible):
        step = 1
        for name, size in reversed(list(zip(rule.attributes, rule.cells.shape, strict=True))):
            steps[place, domain.index(name)] = step
            step *= size
        tables.append(rule.cells.ravel())
        ruled.append(codes @ steps[place] + position)
        position += step
    inside = np.stack(ruled, axis=1) if ruled else np.empty((len(codes), 0), dtype=np.int64)
    return np.ascontiguousarray(inside), np.concatenate(tables), steps
