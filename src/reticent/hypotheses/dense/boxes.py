"""Where queries live in a dense tensor: the runs of cells of a 0/1 product, and factors in a blocked layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["CellBox", "TensorFactor", "alike_rows"]

# A trailing block of at least this many cells makes inner loops long; its factors still fit the nearest cache.
_BLOCK = 512


class CellBox(NamedTuple):
    """The cells where a 0/1 product holds: at each row offset the same runs, all in ascending order."""

    rows: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @property
    def cells(self) -> int:
        return int(self.rows.size * self.lengths.sum())

    @classmethod
    def of(cls, shape: np.ndarray, axes: Sequence[int], vectors: Sequence[np.ndarray]) -> CellBox | None:
        """Work proportional to the rows touched, not to the tensor; None when some value is neither 0 nor 1."""
        from reticent.hypotheses.dense.kernels import box_layout

        masks = np.concatenate(vectors, dtype=np.float64) if vectors else np.empty(0)
        binary, *layout = box_layout(shape, np.array(axes, dtype=np.int64), masks, _BLOCK)
        return cls(*layout) if binary else None


@dataclass(frozen=True, eq=False)
class TensorFactor:
    """A function of a few attributes, laid out as the tensor is: (outer axes ..., trailing block).

    `values` has size one along every outer axis it ignores, and along the block when it ignores all of that.
    """

    view_shape: tuple[int, ...]
    values: np.ndarray

    @classmethod
    def of(cls, shape: Sequence[int], axes: Sequence[int], values: np.ndarray) -> TensorFactor:
        wanted = set(axes)
        aligned = tuple(size if axis in wanted else 1 for axis, size in enumerate(shape))
        block, width = len(shape), 1
        while block > 0 and width < _BLOCK:
            block -= 1
            width *= shape[block]
        outer = aligned[:block]
        if max(axes, default=-1) < block:
            spread = values.reshape((*outer, 1))
        else:
            inner = tuple(shape[block:])
            spread = np.broadcast_to(values.reshape(aligned), outer + inner).reshape((*outer, width))
        return cls((*shape[:block], width), np.ascontiguousarray(spread))

    @property
    def rows(self) -> int:
        """Distinct rows of the table."""
        return math.prod(self.values.shape[:-1])

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct rows of the factor, and for each row of the tensor which of them applies."""
        table = self.values.reshape(self.rows, -1)
        rows = np.arange(self.rows).reshape(self.values.shape[:-1])
        return table, np.broadcast_to(rows, self.view_shape[:-1]).reshape(-1)

    def wide_table(self) -> tuple[np.ndarray, np.ndarray]:
        """The same with every row spread over the whole block."""
        table, rows = self.table()
        return np.ascontiguousarray(np.broadcast_to(table, (table.shape[0], self.view_shape[-1]))), rows


def alike_rows(first: TensorFactor, second: TensorFactor) -> tuple[np.ndarray, int]:
    """An order of the tensor's rows in which as many as the second number share their rows of both factors."""
    sizes = first.view_shape[:-1]
    used = [a > 1 or b > 1 for a, b in zip(first.values.shape[:-1], second.values.shape[:-1], strict=True)]
    axes = sorted(range(len(sizes)), key=lambda axis: not used[axis])
    alike = math.prod(size for size, is_used in zip(sizes, used, strict=True) if not is_used)
    return np.arange(math.prod(sizes)).reshape(sizes).transpose(axes).reshape(-1), alike
