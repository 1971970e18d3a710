"""Compiled interpreters of a contraction tape: values, slopes, and the derivative of both along a direction."""

from __future__ import annotations

import numba
import numpy as np

# Columns of a tape row; a side (two of them, A and B) is a factor of a product and its packed copy.
INNER, BATCH, LEFT, JOINT, RIGHT, OUT = range(6)
SIDES = (6, 12)
NODE, PACK, KEEP, KEPT, DROP, DROPPED = range(6)
COLUMNS = 18
_A, _B = SIDES
_CHUNK = 256


@numba.njit(cache=True)
def _pack(pool, values, side):  # pragma: no cover - compiled
    """Lay a factor out for the product, summing the axes nobody needs."""
    node, pack = side[NODE], side[PACK]
    if node == pack:
        return
    keep = pool[side[KEEP] : side[KEEP] + side[KEPT]]
    drop = pool[side[DROP] : side[DROP] + side[DROPPED]]
    if drop.size == 1:
        for k in range(keep.size):
            values[pack + k] = values[node + keep[k]]
    else:
        for k in range(keep.size):
            total = 0.0
            for d in range(drop.size):
                total += values[node + keep[k] + drop[d]]
            values[pack + k] = total


@numba.njit(cache=True)
def _unpack(pool, slopes, side):  # pragma: no cover - compiled
    node, pack = side[NODE], side[PACK]
    if node == pack:
        return
    keep = pool[side[KEEP] : side[KEEP] + side[KEPT]]
    drop = pool[side[DROP] : side[DROP] + side[DROPPED]]
    if drop.size == 1:
        for k in range(keep.size):
            slopes[node + keep[k]] = slopes[pack + k]
    else:
        for k in range(keep.size):
            slope = slopes[pack + k]
            for d in range(drop.size):
                slopes[node + keep[k] + drop[d]] = slope


@numba.njit(cache=True)
def _side(space, side):  # pragma: no cover - compiled
    return space[side[PACK] : side[PACK] + side[KEPT]]


@numba.njit(cache=True)
def _result(space, row):  # pragma: no cover - compiled
    return space[row[OUT] : row[OUT] + row[BATCH] * row[LEFT] * row[RIGHT]]


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _multiply(row, a, b, out):  # pragma: no cover - compiled
    """out[b,l,r] += sum over j of a[b,l,j] b[b,j,r]; batch innermost when the row says so."""
    nb, nl, nj, nr = row[BATCH], row[LEFT], row[JOINT], row[RIGHT]
    if row[INNER]:
        for start in range(0, nb, _CHUNK):
            stop = min(nb, start + _CHUNK)
            for left in range(nl):
                for right in range(nr):
                    at = (left * nr + right) * nb
                    target = out[at + start : at + stop]
                    for joint in range(nj):
                        at = (left * nj + joint) * nb
                        bt = (joint * nr + right) * nb
                        x = a[at + start : at + stop]
                        y = b[bt + start : bt + stop]
                        for i in range(stop - start):
                            target[i] += x[i] * y[i]
        return
    if nr == 1:
        for batch in range(nb):
            y = b[batch * nj : (batch + 1) * nj]
            for left in range(nl):
                at = batch * nl + left
                x = a[at * nj : (at + 1) * nj]
                total = 0.0
                for i in range(nj):
                    total += x[i] * y[i]
                out[at] += total
        return
    for batch in range(nb):
        for left in range(nl):
            at = batch * nl + left
            target = out[at * nr : (at + 1) * nr]
            for joint in range(nj):
                x = a[at * nj + joint]
                bt = (batch * nj + joint) * nr
                y = b[bt : bt + nr]
                for i in range(nr):
                    target[i] += x * y[i]


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _differentiate(row, a, b, slope, a_slope, b_slope):  # pragma: no cover - compiled
    """a_slope += slope b', b_slope += a' slope: the two products that reverse `_multiply`."""
    nb, nl, nj, nr = row[BATCH], row[LEFT], row[JOINT], row[RIGHT]
    if row[INNER]:
        for start in range(0, nb, _CHUNK):
            stop = min(nb, start + _CHUNK)
            for left in range(nl):
                for right in range(nr):
                    at = (left * nr + right) * nb
                    s = slope[at + start : at + stop]
                    for joint in range(nj):
                        at = (left * nj + joint) * nb
                        bt = (joint * nr + right) * nb
                        x = a[at + start : at + stop]
                        y = b[bt + start : bt + stop]
                        xs = a_slope[at + start : at + stop]
                        ys = b_slope[bt + start : bt + stop]
                        for i in range(stop - start):
                            xs[i] += s[i] * y[i]
                        for i in range(stop - start):
                            ys[i] += s[i] * x[i]
        return
    if nr == 1:
        for batch in range(nb):
            y = b[batch * nj : (batch + 1) * nj]
            ys = b_slope[batch * nj : (batch + 1) * nj]
            for left in range(nl):
                at = batch * nl + left
                x = a[at * nj : (at + 1) * nj]
                xs = a_slope[at * nj : (at + 1) * nj]
                fixed = slope[at]
                for i in range(nj):
                    xs[i] += fixed * y[i]
                for i in range(nj):
                    ys[i] += fixed * x[i]
        return
    for batch in range(nb):
        for left in range(nl):
            at = batch * nl + left
            s = slope[at * nr : (at + 1) * nr]
            for joint in range(nj):
                bt = (batch * nj + joint) * nr
                y = b[bt : bt + nr]
                ys = b_slope[bt : bt + nr]
                x = a[at * nj + joint]
                total = 0.0
                for i in range(nr):
                    total += s[i] * y[i]
                for i in range(nr):
                    ys[i] += s[i] * x
                a_slope[at * nj + joint] += total


@numba.njit(cache=True, fastmath={"reassoc", "nnan", "ninf", "nsz"})
def _extremes(table):  # pragma: no cover - compiled
    """Lowest and highest entry of a table of finite numbers."""
    lowest = highest = table[0]
    for i in range(table.size):
        lowest = min(lowest, table[i])
        highest = max(highest, table[i])
    return lowest, highest


@numba.njit(cache=True)
def forward(rows, pool, values, leaf_starts, scales):  # pragma: no cover - compiled
    """log Z, and the lowest value of any normalised table: far below 1 it warns of underflow."""
    log_partition, lowest = 0.0, 1.0
    for leaf in range(leaf_starts.size - 1):
        table = values[leaf_starts[leaf] : leaf_starts[leaf + 1]]
        low, highest = _extremes(table)
        log_partition += highest
        lowest = min(lowest, np.exp(low - highest))
        for i in range(table.size):
            table[i] = np.exp(table[i] - highest)
    for step in range(rows.shape[0]):
        row = rows[step]
        a, b = row[_A : _A + 6], row[_B : _B + 6]
        _pack(pool, values, a)
        _pack(pool, values, b)
        out = _result(values, row)
        out[:] = 0.0
        _multiply(row, _side(values, a), _side(values, b), out)
        # dividing by a constant leaves the marginals alone and keeps every table at maximum 1
        low, highest = _extremes(out)
        if not highest > 0.0:
            return -np.inf, 0.0
        log_partition += np.log(highest)
        scales[step] = 1.0 / highest
        lowest = min(lowest, low * scales[step])
        out *= scales[step]
    return log_partition, lowest


@numba.njit(cache=True)
def mark_possible(rows, pool, possible):  # pragma: no cover - compiled
    """Which entries of every table can be above zero (1, else 0), given those of the leaves."""
    for step in range(rows.shape[0]):
        row = rows[step]
        a, b = row[_A : _A + 6], row[_B : _B + 6]
        _pack(pool, possible, a)
        _pack(pool, possible, b)
        out = _result(possible, row)
        out[:] = 0.0
        _multiply(row, _side(possible, a), _side(possible, b), out)
        for i in range(out.size):
            out[i] = 1.0 if out[i] > 0.0 else 0.0


@numba.njit(cache=True)
def _possible_extremes(table, possible):  # pragma: no cover - compiled
    """Lowest and highest of the entries that are possible; minus infinity for the highest where none is."""
    lowest, highest = np.inf, -np.inf
    for i in range(table.size):
        if possible[i] > 0.0:
            lowest = min(lowest, table[i])
            highest = max(highest, table[i])
    return lowest, highest


@numba.njit(cache=True)
def forward_possible(rows, pool, values, leaf_starts, scales, possible):  # pragma: no cover - compiled
    """As `forward`, with zeros where nothing is possible: only the other entries tell of underflow."""
    log_partition, lowest = 0.0, 1.0
    for leaf in range(leaf_starts.size - 1):
        table = values[leaf_starts[leaf] : leaf_starts[leaf + 1]]
        allowed = possible[leaf_starts[leaf] : leaf_starts[leaf + 1]]
        low, highest = _possible_extremes(table, allowed)
        log_partition += highest
        lowest = min(lowest, np.exp(low - highest))
        for i in range(table.size):
            table[i] = np.exp(table[i] - highest) if allowed[i] > 0.0 else 0.0
    for step in range(rows.shape[0]):
        row = rows[step]
        a, b = row[_A : _A + 6], row[_B : _B + 6]
        _pack(pool, values, a)
        _pack(pool, values, b)
        out = _result(values, row)
        out[:] = 0.0
        _multiply(row, _side(values, a), _side(values, b), out)
        low, highest = _possible_extremes(out, _result(possible, row))
        if not highest > 0.0:
            return -np.inf, 0.0
        log_partition += np.log(highest)
        scales[step] = 1.0 / highest
        lowest = min(lowest, low * scales[step])
        out *= scales[step]
    return log_partition, lowest


@numba.njit(cache=True)
def backward(rows, pool, values, slopes, scales, totals):  # pragma: no cover - compiled
    """Slopes d log Z / d value, from the components' totals (equal to 1) back to the leaves."""
    for step in range(rows.shape[0] - 1, -1, -1):
        row = rows[step]
        a, b = row[_A : _A + 6], row[_B : _B + 6]
        slope = _result(slopes, row)
        if totals[step]:
            slope[0] = 1.0
        slope *= scales[step]
        a_slope, b_slope = _side(slopes, a), _side(slopes, b)
        a_slope[:] = 0.0
        b_slope[:] = 0.0
        _differentiate(row, _side(values, a), _side(values, b), slope, a_slope, b_slope)
        _unpack(pool, slopes, a)
        _unpack(pool, slopes, b)


@numba.njit(cache=True)
def forward_along(rows, pool, values, scales, moves):  # pragma: no cover - compiled
    """Derivatives of all values along the direction already written to the leaves of `moves`."""
    for step in range(rows.shape[0]):
        row = rows[step]
        a, b = row[_A : _A + 6], row[_B : _B + 6]
        _pack(pool, moves, a)
        _pack(pool, moves, b)
        out = _result(moves, row)
        out[:] = 0.0
        _multiply(row, _side(moves, a), _side(values, b), out)
        _multiply(row, _side(values, a), _side(moves, b), out)
        out *= scales[step]


@numba.njit(cache=True)
def backward_along(rows, pool, values, slopes, scales, totals, moves, bends):  # pragma: no cover - compiled
    """Derivatives of all slopes along the same direction; d(1/T) = -dT at T = 1."""
    for step in range(rows.shape[0] - 1, -1, -1):
        row = rows[step]
        a, b = row[_A : _A + 6], row[_B : _B + 6]
        bend = _result(bends, row)
        if totals[step]:
            bend[0] = -_result(moves, row)[0]
        bend *= scales[step]
        a_bend, b_bend = _side(bends, a), _side(bends, b)
        a_bend[:] = 0.0
        b_bend[:] = 0.0
        _differentiate(row, _side(values, a), _side(values, b), bend, a_bend, b_bend)
        _differentiate(row, _side(moves, a), _side(moves, b), _result(slopes, row), a_bend, b_bend)
        _unpack(pool, bends, a)
        _unpack(pool, bends, b)
