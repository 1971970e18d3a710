"""Compiled loops over a dense tensor; imported only for universes large enough to pay for the compiler.

Sums may be reassociated by the compiler (vector lanes), nothing else is relaxed: the same machine yields the
same bits.
"""

from __future__ import annotations

from numba import njit

__all__ = ["expand_fans", "reduce_fans"]

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
def _reduce_fan(source, space, a, b, c, d, no_a, no_b, no_c, no_d):
    """source[a, b, c, d] summed over each block that has a place (>= 0) in the workspace, in one read."""
    slab = c * d
    if no_a >= 0:
        space[no_a : no_a + b * slab] = 0.0
    if no_b >= 0:
        space[no_b : no_b + a * slab] = 0.0
    if no_c >= 0:
        space[no_c : no_c + a * b * d] = 0.0
    for i in range(a):
        for j in range(b):
            start = (i * b + j) * slab
            if no_a >= 0:
                _add_into(space[no_a + j * slab : no_a + (j + 1) * slab], source[start : start + slab])
            if no_b >= 0:
                _add_into(space[no_b + i * slab : no_b + (i + 1) * slab], source[start : start + slab])
            if no_c >= 0:
                place = no_c + (i * b + j) * d
                for k in range(c):
                    _add_into(space[place : place + d], source[start + k * d : start + (k + 1) * d])
            if no_d >= 0:
                place = no_d + (i * b + j) * c
                for k in range(c):
                    space[place + k] = _row_sum(source[start + k * d : start + (k + 1) * d])


@njit(cache=True, nogil=True, error_model="numpy")
def _expand_fan(source, space, a, b, c, d, no_a, no_b, no_c, no_d):
    """The adjoint: every cell gains the entries that its sums without one block would have gone to."""
    slab = c * d
    for i in range(a):
        for j in range(b):
            start = (i * b + j) * slab
            view = source[start : start + slab]
            if no_a >= 0:
                _add_into(view, space[no_a + j * slab : no_a + (j + 1) * slab])
            if no_b >= 0:
                _add_into(view, space[no_b + i * slab : no_b + (i + 1) * slab])
            for k in range(c):
                row = view[k * d : (k + 1) * d]
                if no_c >= 0:
                    place = no_c + (i * b + j) * d
                    _add_into(row, space[place : place + d])
                if no_d >= 0:
                    row += space[no_d + (i * b + j) * c + k]


@njit(cache=True, nogil=True, error_model="numpy")
def _source_of(root, space, start, cells):
    return root if start < 0 else space[start : start + cells]


@njit(cache=True, nogil=True, error_model="numpy")
def reduce_fans(root, space, table):
    """Run the steps of a MarginalTree; each row is source, (a, b, c, d), the places of the four sums."""
    for step in range(table.shape[0]):
        start, a, b, c, d, no_a, no_b, no_c, no_d = table[step]
        _reduce_fan(_source_of(root, space, start, a * b * c * d), space, a, b, c, d, no_a, no_b, no_c, no_d)


@njit(cache=True, nogil=True, error_model="numpy")
def expand_fans(root, space, table):
    """Run the steps backwards, adding each node into the one it was summed from."""
    for step in range(table.shape[0] - 1, -1, -1):
        start, a, b, c, d, no_a, no_b, no_c, no_d = table[step]
        _expand_fan(_source_of(root, space, start, a * b * c * d), space, a, b, c, d, no_a, no_b, no_c, no_d)
