"""The compiled loop that moves synthetic rows toward the marginals they should have."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["sweep"]


@njit(cache=True, nogil=True, error_model="numpy")
def _forbid(scores, code, ruled, forbidden, steps):
    """An infinite score for every code that would move a row to a forbidden cell of a rule's table."""
    for r in range(steps.size):
        if steps[r]:
            start = ruled[r] - code * steps[r]
            for v in range(scores.size):
                if forbidden[start + v * steps[r]]:
                    scores[v] = np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _add(scores, excess, start, stride):
    """Add the excess of every code's cell; neighbours are read as a slice, which compiles to vector instructions."""
    if stride == 1:
        beside = excess[start : start + scores.size]
        for v in range(scores.size):
            scores[v] += beside[v]
    else:
        for v in range(scores.size):
            scores[v] += excess[start + v * stride]


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(codes, cells, excess, order, strides, sizes, listed, borders, ruled, forbidden, steps):
    """Give each value of each row the code that lowers the squared excess most.

    `cells[i, c]` is the cell in which row i is counted in set c. Moving one row from cell x to cell y changes the
    squared excess by 2 (excess[y] - excess[x] + 1). A value is skipped if its cells together hold no more rows than
    they should, which halves the work at the same accuracy. `ruled[i, r]` is the position of row i in the table of rule
    r, which `forbidden` holds and in which an axis has the stride `steps[r, axis]`; no row moves to a forbidden cell.
    """
    scores = np.empty(sizes.max())
    for i in order:
        for axis in range(sizes.size):
            first, last = borders[axis], borders[axis + 1]
            if first == last:
                continue
            size, code = sizes[axis], codes[i, axis]
            crowd = 0.0
            for at in range(first, last):
                crowd += excess[cells[i, listed[at]]]
            if crowd <= 0.0:
                continue
            scores[:size] = 0.0
            for at in range(first, last):
                c = listed[at]
                stride = strides[c, axis]
                _add(scores[:size], excess, cells[i, c] - code * stride, stride)
            _forbid(scores[:size], code, ruled[i], forbidden, steps[:, axis])
            best = code
            lowest = scores[code] - (last - first)
            for v in range(size):
                if scores[v] < lowest:
                    best, lowest = v, scores[v]
            if best != code:
                for at in range(first, last):
                    c = listed[at]
                    excess[cells[i, c]] -= 1.0
                    cells[i, c] += (best - code) * strides[c, axis]
                    excess[cells[i, c]] += 1.0
                ruled[i] += (best - code) * steps[:, axis]
                codes[i, axis] = best
