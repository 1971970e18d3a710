"""Compiled loops of the reduction tree; imported only for tensors large enough to pay for the compiler.

Sums may be reassociated by the compiler (vector lanes), nothing else is relaxed: the same machine yields the
same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["LANES", "STRETCH", "expand_fans", "reduce_fans", "row_sum"]

# 16 strips of this many cells are 128 KiB: a second-level cache holds them while four sums are taken.
STRETCH = 1024
_SHORT_ROW = 24
LANES = {"reassoc", "nsz", "contract"}


@njit(cache=True, fastmath=LANES, nogil=True, error_model="numpy")
def row_sum(row):
    total = 0.0
    for j in range(row.size):
        total += row[j]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _add_into(total, row):
    for j in range(row.size):
        total[j] += row[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_four(total, first, second, third, fourth):
    for j in range(total.size):
        total[j] += (first[j] + second[j]) + (third[j] + fourth[j])


@njit(cache=True, fastmath=LANES, nogil=True, error_model="numpy")
def _add_and_sum_four(total, first, second, third, fourth):
    """Add four rows to a total and return the sum of each, in one go."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for j in range(total.size):
        w, x, y, z = first[j], second[j], third[j], fourth[j]
        total[j] += (w + x) + (y + z)
        a += w
        b += x
        c += y
        d += z
    return a, b, c, d


@njit(cache=True, nogil=True, error_model="numpy")
def _reduce_matrix(source, sums, totals, d):
    """Column sums (added) and row sums of a matrix with rows of d cells."""
    count = sums.size
    k = 0
    while k + 4 <= count:
        start = k * d
        sums[k], sums[k + 1], sums[k + 2], sums[k + 3] = _add_and_sum_four(
            totals,
            source[start : start + d],
            source[start + d : start + 2 * d],
            source[start + 2 * d : start + 3 * d],
            source[start + 3 * d : start + 4 * d],
        )
        k += 4
    while k < count:
        row = source[k * d : (k + 1) * d]
        _add_into(totals, row)
        sums[k] = row_sum(row)
        k += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _add_rows(total, source, start, stride, count):
    """total += the rows that begin at start, start + stride, ...; four at a time spare three of four stores."""
    size = total.size
    row = 0
    while row + 4 <= count:
        first = start + row * stride
        second, third, fourth = first + stride, first + 2 * stride, first + 3 * stride
        _add_four(
            total,
            source[first : first + size],
            source[second : second + size],
            source[third : third + size],
            source[fourth : fourth + size],
        )
        row += 4
    while row < count:
        _add_into(total, source[start + row * stride : start + row * stride + size])
        row += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _reduce_short(source, space, start, d, at_c, at_d, k0, k1):
    """Column and row sums of a matrix with short rows, where slicing each row would cost more than adding it."""
    for k in range(k0, k1):
        total = 0.0
        for t in range(d):
            value = source[start + k * d + t]
            total += value
            space[at_c + t] += value
        space[at_d + k] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_short_rows(source, sums, d, count):
    for k in range(count):
        total = 0.0
        for t in range(d):
            total += source[k * d + t]
        sums[k] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _reduce_tile(source, space, b, c, d, places, i0, i1, j0, j1, k0, k1):
    """All four sums of a few hundred rows while they are in cache."""
    slab, size = c * d, (k1 - k0) * d
    no_a, no_b, no_c, no_d = places
    if no_a >= 0:
        for j in range(j0, j1):
            place = no_a + j * slab + k0 * d
            _add_rows(space[place : place + size], source, (i0 * b + j) * slab + k0 * d, b * slab, i1 - i0)
    if no_b >= 0:
        for i in range(i0, i1):
            place = no_b + i * slab + k0 * d
            _add_rows(space[place : place + size], source, (i * b + j0) * slab + k0 * d, slab, j1 - j0)
    for i in range(i0, i1):
        for j in range(j0, j1):
            line = i * b + j
            if no_c >= 0 and no_d >= 0 and d < _SHORT_ROW:
                _reduce_short(source, space, line * slab, d, no_c + line * d, no_d + line * c, k0, k1)
                continue
            if no_d >= 0 and d < _SHORT_ROW:
                _sum_short_rows(source[line * slab + k0 * d :], space[no_d + line * c + k0 :], d, k1 - k0)
                continue
            if no_c >= 0 and no_d >= 0:
                at_c, at_d = no_c + line * d, no_d + line * c
                block = source[line * slab + k0 * d : line * slab + k1 * d]
                _reduce_matrix(block, space[at_d + k0 : at_d + k1], space[at_c : at_c + d], d)
                continue
            if no_c >= 0:
                place = no_c + line * d
                _add_rows(space[place : place + d], source, line * slab + k0 * d, d, k1 - k0)
            if no_d >= 0:
                place = no_d + line * c
                for k in range(k0, k1):
                    start = line * slab + k * d
                    space[place + k] = row_sum(source[start : start + d])


@njit(cache=True, nogil=True, error_model="numpy")
def _reduce_fan(source, space, a, b, c, d, places):
    """source[a, b, c, d] summed over each block that has a place (>= 0) in the workspace, in one read."""
    no_a, no_b, no_c, _ = places
    if no_a >= 0:
        space[no_a : no_a + b * c * d] = 0.0
    if no_b >= 0:
        space[no_b : no_b + a * c * d] = 0.0
    if no_c >= 0:
        space[no_c : no_c + a * b * d] = 0.0
    # at least four, because rows are added in fours
    rows = max(4, STRETCH // d)
    for i0 in range(0, a, 4):
        for j0 in range(0, b, 4):
            for k0 in range(0, c, rows):
                tile = min(i0 + 4, a), j0, min(j0 + 4, b), k0, min(k0 + rows, c)
                _reduce_tile(source, space, b, c, d, places, i0, *tile)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_three_and_one(row, first, second, third, number):
    for j in range(row.size):
        row[j] += (first[j] + second[j]) + (third[j] + number)


@njit(cache=True, nogil=True, error_model="numpy")
def _set_three_and_one(row, first, second, third, number):
    for j in range(row.size):
        row[j] = (first[j] + second[j]) + (third[j] + number)


@njit(cache=True, nogil=True, error_model="numpy")
def _expand_short(source, space, a, b, c, d, places, fresh):
    """The same for short rows: blocks A and B by the slab, C and D cell by cell without slicing rows."""
    no_a, no_b, no_c, no_d = places
    slab = c * d
    for i in range(a):
        for j in range(b):
            line = i * b + j
            view = source[line * slab : (line + 1) * slab]
            if fresh:
                view[:] = 0.0
            if no_a >= 0:
                _add_into(view, space[no_a + j * slab : no_a + (j + 1) * slab])
            if no_b >= 0:
                _add_into(view, space[no_b + i * slab : no_b + (i + 1) * slab])
            for k in range(c):
                number = 0.0 if no_d < 0 else space[no_d + line * c + k]
                if no_c >= 0:
                    for t in range(d):
                        view[k * d + t] += space[no_c + line * d + t] + number
                elif no_d >= 0:
                    for t in range(d):
                        view[k * d + t] += number


@njit(cache=True, nogil=True, error_model="numpy")
def _expand_fan(source, space, a, b, c, d, places, fresh):
    """The adjoint: every cell gains the entries that its sums without one block would have gone to."""
    if d < _SHORT_ROW:
        _expand_short(source, space, a, b, c, d, places, fresh)
        return
    no_a, no_b, no_c, no_d = places
    nothing = np.zeros(d)
    for i in range(a):
        for j in range(b):
            line = i * b + j
            third = nothing if no_c < 0 else space[no_c + line * d : no_c + (line + 1) * d]
            for k in range(c):
                at_a, at_b = no_a + (j * c + k) * d, no_b + (i * c + k) * d
                first = nothing if no_a < 0 else space[at_a : at_a + d]
                second = nothing if no_b < 0 else space[at_b : at_b + d]
                number = 0.0 if no_d < 0 else space[no_d + line * c + k]
                row = source[(line * c + k) * d : (line * c + k + 1) * d]
                if fresh:
                    _set_three_and_one(row, first, second, third, number)
                else:
                    _add_three_and_one(row, first, second, third, number)


@njit(cache=True, nogil=True, error_model="numpy")
def _source_of(root, space, start, cells):
    return root if start < 0 else space[start : start + cells]


@njit(cache=True, nogil=True, error_model="numpy")
def reduce_fans(root, space, table):
    """Run the steps of a MarginalTree; each row is source, (a, b, c, d), the places of the four sums."""
    for step in range(table.shape[0]):
        start, a, b, c, d, no_a, no_b, no_c, no_d = table[step]
        source = _source_of(root, space, start, a * b * c * d)
        _reduce_fan(source, space, a, b, c, d, (no_a, no_b, no_c, no_d))


@njit(cache=True, nogil=True, error_model="numpy")
def expand_fans(root, space, table, fresh):
    """Run the steps backwards, adding each node into its source; a `fresh` root holds nothing worth keeping."""
    for step in range(table.shape[0] - 1, -1, -1):
        start, a, b, c, d, no_a, no_b, no_c, no_d = table[step]
        source = _source_of(root, space, start, a * b * c * d)
        _expand_fan(source, space, a, b, c, d, (no_a, no_b, no_c, no_d), fresh and start < 0)
        fresh = fresh and start >= 0
