"""Where queries live in a dense tensor: the runs of cells of a 0/1 product, and factors in a blocked layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Box", "Factor"]

# A trailing block of at least this many cells makes inner loops long; its factors still fit the nearest cache.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Box:
    """The cells where a 0/1 product holds: at each row offset the same runs, all in ascending order."""

    rows: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @property
    def cells(self) -> int:
        return int(self.rows.size * self.lengths.sum())

    @classmethod
    def of(cls, shape: np.ndarray, axes: Sequence[int], vectors: Sequence[np.ndarray]) -> Box:
        """Work proportional to the rows touched, not to the tensor."""
        from reticent.hypotheses.dense_kernels import box_layout

        masks = np.concatenate([np.empty(0), *vectors])
        return cls(*box_layout(shape, np.array(axes, dtype=np.int64), masks, _BLOCK))


@dataclass(frozen=True, eq=False)
class Factor:
    """A function of a few attributes, laid out as the tensor is: (outer axes ..., trailing block).

    `values` has size one along every outer axis it ignores, and along the block when it ignores all of that.
    """

    view_shape: tuple[int, ...]
    values: np.ndarray

    @classmethod
    def of(cls, shape: Sequence[int], axes: Sequence[int], values: np.ndarray) -> Factor:
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

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct rows of the factor, and for each row of the tensor which of them applies."""
        outer = self.values.shape[:-1]
        table = self.values.reshape(-1, self.values.shape[-1])
        rows = np.arange(math.prod(outer)).reshape(outer)
        return table, np.broadcast_to(rows, self.view_shape[:-1]).reshape(-1)
