"""Compiled loops over a dense tensor: boxes, scaled rows and the fused pass; imported for large universes only.

A compiled exponential that the compiler can vectorise: NumPy's is scalar on processors without AVX-512.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from reticent.hypotheses.dense.marginal_kernels import LANES, STRETCH, row_sum

__all__ = ["box_complement_sum", "box_layout", "box_scale", "box_sum", "exponentiate", "scale_and_answer", "scale_rows"]


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
    if stop - start <= STRETCH:
        return row_sum(flat[start:stop])
    total = 0.0
    while start < stop:
        end = min(start + STRETCH, stop)
        total += row_sum(flat[start:end])
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


@njit(cache=True, fastmath=LANES, nogil=True, error_model="numpy")
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


_LOWEST = -708.0
_LOG2_E = 1.4426950408889634
# ln 2 in two parts: whole multiples of the first are exact up to 2^21
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding and subtracting 1.5 * 2^52 rounds to a whole number and leaves it in the low bits of the sum.
_ROUNDER = 6755399441055744.0
_C = tuple(1.0 / math.factorial(order) for order in range(14))


@njit(cache=True, fastmath={"contract"}, nogil=True, error_model="numpy")
def _exponentiate_row(row, peak):
    """exp(x) = 2^n exp(r), r = x - n ln 2, |r| < 0.35: Taylor to order 13 errs by less than 1e-17."""
    for j in range(row.size):
        x = row[j] - peak
        y = max(x, _LOWEST)
        shifted = y * _LOG2_E + _ROUNDER
        n = shifted - _ROUNDER
        r = (y - n * _LN2_HIGH) - n * _LN2_LOW
        p = _C[13] * r + _C[12]
        p = p * r + _C[11]
        p = p * r + _C[10]
        p = p * r + _C[9]
        p = p * r + _C[8]
        p = p * r + _C[7]
        p = p * r + _C[6]
        p = p * r + _C[5]
        p = p * r + _C[4]
        p = p * r + _C[3]
        p = p * r + _C[2]
        p = p * r * r + r + 1.0
        bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
        # below the smallest normal number the result is zero
        row[j] = p * np.int64(bits).view(np.float64) if x >= _LOWEST else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def exponentiate(flat, peak):
    """exp(x - peak) in place, for peak at least every x; returns the sum."""
    total = 0.0
    for start in range(0, flat.size, STRETCH):
        row = flat[start : min(start + STRETCH, flat.size)]
        _exponentiate_row(row, peak)
        total += row_sum(row)
    return total
