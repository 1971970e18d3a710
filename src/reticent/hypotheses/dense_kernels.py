"""Compiled loops over a dense tensor; imported only for universes large enough to pay for the compiler.

Sums may be reassociated by the compiler (vector lanes), nothing else is relaxed: the same machine yields the
same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = [
    "box_complement_sum",
    "box_layout",
    "box_scale",
    "box_sum",
    "expand_fans",
    "reduce_fans",
    "scale_and_answer",
    "scale_rows",
]

# 16 strips of this many cells are 128 KiB: a second-level cache holds them while four sums are taken.
_TILE_CELLS = 1024
_SHORT_ROW = 24
_LANES = {"reassoc", "nsz", "contract"}


@njit(cache=True, fastmath=_LANES, nogil=True, error_model="numpy")
def _row_sum(row):
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
            if no_c >= 0:
                place = no_c + line * d
                _add_rows(space[place : place + d], source, line * slab + k0 * d, d, k1 - k0)
            if no_d >= 0:
                place = no_d + line * c
                for k in range(k0, k1):
                    start = line * slab + k * d
                    space[place + k] = _row_sum(source[start : start + d])


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
    rows = max(4, _TILE_CELLS // d)
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
def _expand_fan(source, space, a, b, c, d, places, fresh):
    """The adjoint: every cell gains the entries that its sums without one block would have gone to."""
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


@njit(cache=True, nogil=True, error_model="numpy")
def _spans(shape, axes, masks, first, last):
    """Offsets of the cells allowed along axes first..last-1, and their number of cells; ascending."""
    ends = np.zeros(axes.size + 1, np.int64)
    for place in range(axes.size):
        ends[place + 1] = ends[place] + shape[axes[place]]
    count, cells = 1, 1
    allowed = np.ones(last - first, np.int64) * -1
    for place in range(axes.size):
        if first <= axes[place] < last:
            allowed[axes[place] - first] = place
    for axis in range(first, last):
        place, held = allowed[axis - first], shape[axis]
        if place >= 0:
            held = 0
            for at in range(ends[place], ends[place + 1]):
                held += masks[at] != 0.0
        count *= held
        cells *= shape[axis]
    offsets = np.zeros(count, np.int64)
    filled, stride = min(count, 1), 1
    for axis in range(last - 1, first - 1, -1):
        place, kept = allowed[axis - first], 0
        # from the highest code down, so that the offsets already there are copied before code 0 keeps them
        for code in range(shape[axis] if count else 0):
            if place < 0 or masks[ends[place] + code] != 0.0:
                kept += 1
        written = kept * filled
        for code in range(shape[axis] - 1 if count else -1, -1, -1):
            if place < 0 or masks[ends[place] + code] != 0.0:
                written -= filled
                for at in range(filled):
                    offsets[written + at] = offsets[at] + code * stride
        filled *= kept
        stride *= shape[axis]
    return offsets, cells


@njit(cache=True, nogil=True, error_model="numpy")
def box_layout(shape, axes, masks, block):
    """Row offsets, run starts and run lengths of the box where all masks (one after the other) hold.

    The first result says whether the masks are 0/1 at all.
    """
    for at in range(masks.size):
        if masks[at] != 0.0 and masks[at] != 1.0:
            nothing = np.empty(0, np.int64)
            return False, nothing, nothing, nothing
    last = -1
    for place in range(axes.size):
        last = max(last, axes[place])
    width = 1
    for axis in range(last + 1, shape.size):
        width *= shape[axis]
    start, cells = last + 1, width
    while start > 0 and cells < block:
        start -= 1
        cells *= shape[start]
    inner, inner_cells = _spans(shape, axes, masks, start, last + 1)
    rows, _ = _spans(shape, axes, masks, 0, start)
    rows *= inner_cells * width
    runs = 0
    for at in range(inner.size):
        runs += at == 0 or inner[at] != inner[at - 1] + 1
    starts, lengths = np.empty(runs, np.int64), np.zeros(runs, np.int64)
    run = -1
    for at in range(inner.size):
        if at == 0 or inner[at] != inner[at - 1] + 1:
            run += 1
            starts[run] = inner[at] * width
        lengths[run] += width
    return True, rows, starts, lengths


@njit(cache=True, nogil=True, error_model="numpy")
def _span_sum(flat, start, stop):
    """A sum in short stretches, so that the rounding error stays near one unit in the last place."""
    if stop - start <= _TILE_CELLS:
        return _row_sum(flat[start:stop])
    total = 0.0
    while start < stop:
        end = min(start + _TILE_CELLS, stop)
        total += _row_sum(flat[start:end])
        start = end
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def box_sum(flat, rows, starts, lengths):
    """The weight inside a box."""
    total = 0.0
    for r in range(rows.size):
        part = 0.0
        for u in range(starts.size):
            start = rows[r] + starts[u]
            part += _span_sum(flat, start, start + lengths[u])
        total += part
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def box_complement_sum(flat, rows, starts, lengths):
    """The weight outside a box, added up cell by cell: no cancellation when almost all of it is inside."""
    total, position = 0.0, 0
    for r in range(rows.size):
        for u in range(starts.size):
            start = rows[r] + starts[u]
            total += _span_sum(flat, position, start)
            position = start + lengths[u]
    return total + _span_sum(flat, position, flat.size)


@njit(cache=True, nogil=True, error_model="numpy")
def _scale_row(row, scale):
    for j in range(row.size):
        row[j] *= scale


@njit(cache=True, nogil=True, error_model="numpy")
def box_scale(flat, rows, starts, lengths, scale):
    """Multiply the cells of a box in place."""
    for r in range(rows.size):
        for u in range(starts.size):
            start = rows[r] + starts[u]
            _scale_row(flat[start : start + lengths[u]], scale)


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply_row(row, factor):
    for j in range(row.size):
        row[j] *= factor[j]


@njit(cache=True, nogil=True, error_model="numpy")
def scale_rows(flat, factors, factor_rows):
    """Multiply each row of the tensor by its row of factors, or by its one number."""
    width = flat.size // factor_rows.size
    for r in range(factor_rows.size):
        row = flat[r * width : (r + 1) * width]
        if factors.shape[1] == 1:
            _scale_row(row, factors[factor_rows[r], 0])
        else:
            _multiply_row(row, factors[factor_rows[r]])


@njit(cache=True, fastmath=_LANES, nogil=True, error_model="numpy")
def scale_and_answer(grid, factors, factor_rows, values, value_rows, order, alike):
    """One pass: scale every row by its factors, return the new total and the next query's weight.

    Each `alike` consecutive entries of `order` are rows that share factors and values. Four of them at a time
    keep four streams of memory busy and load the shared numbers once.
    """
    total, answer = 0.0, 0.0
    for first in range(0, order.size, alike):
        factor, value = factors[factor_rows[order[first]]], values[value_rows[order[first]]]
        at = first
        while at + 4 <= first + alike:
            a, b, c, d = order[at], order[at + 1], order[at + 2], order[at + 3]
            part, partial_answer = 0.0, 0.0
            for j in range(grid.shape[1]):
                scale = factor[j]
                weight_a, weight_b = grid[a, j] * scale, grid[b, j] * scale
                weight_c, weight_d = grid[c, j] * scale, grid[d, j] * scale
                grid[a, j], grid[b, j], grid[c, j], grid[d, j] = weight_a, weight_b, weight_c, weight_d
                weight = (weight_a + weight_b) + (weight_c + weight_d)
                part += weight
                partial_answer += weight * value[j]
            total += part
            answer += partial_answer
            at += 4
        while at < first + alike:
            a = order[at]
            part, partial_answer = 0.0, 0.0
            for j in range(grid.shape[1]):
                weight = grid[a, j] * factor[j]
                grid[a, j] = weight
                part += weight
                partial_answer += weight * value[j]
            total += part
            answer += partial_answer
            at += 1
    return total, answer
