"""Compiled inner loops of DualQuery's data player; public numbers in, public numbers out."""

from __future__ import annotations

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, inline="always")
def _next(state: np.ndarray) -> np.uint64:
    """SplitMix64: whole numbers only, so a run repeats bit for bit on another machine (public randomness)."""
    state[0] += GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@njit(cache=True, inline="always")
def _below(state: np.ndarray, bound: int) -> int:
    """A whole number in [0, bound), bound < 2^31."""
    return np.int64(((_next(state) >> np.uint64(33)) * np.uint64(bound)) >> np.uint64(31))


@njit(cache=True)
def _put(
    attribute: int,
    code: int,
    record: np.ndarray,
    mismatches: np.ndarray,
    gains: np.ndarray,
    first: np.ndarray,
    ends: np.ndarray,
    members: np.ndarray,
) -> int:
    """Set one attribute and return the change in satisfied weight; only clauses naming the old or new code move."""
    change = 0
    literal = first[attribute] + record[attribute]
    for position in range(ends[literal], ends[literal + 1]):
        clause = members[position]
        if mismatches[clause] == 0:
            change -= gains[clause]
        mismatches[clause] += 1
    record[attribute] = code
    literal = first[attribute] + code
    for position in range(ends[literal], ends[literal + 1]):
        clause = members[position]
        mismatches[clause] -= 1
        if mismatches[clause] == 0:
            change += gains[clause]
    return change


@njit(cache=True)
def anneal(
    attributes: np.ndarray,
    codes: np.ndarray,
    gains: np.ndarray,
    sizes: np.ndarray,
    first: np.ndarray,
    ends: np.ndarray,
    members: np.ndarray,
    record: np.ndarray,
    limits: np.ndarray,
    moves: int,
    seed: np.uint64,
) -> int:
    """Simulated annealing by clause moves; leaves the best record found in `record`, returns its gain.

    `gains[c]` is won when all literals of clause c hold: its weight, or minus it for a negated clause. `limits[stage, loss]` is the
    chance, in units of 2^-31, of accepting a move that loses that much in that stage of the cooling.
    """
    clauses, width = attributes.shape
    mismatches = np.zeros(clauses, np.int64)
    value = 0
    for clause in range(clauses):
        for place in range(width):
            attribute = attributes[clause, place]
            if attribute >= 0 and record[attribute] != codes[clause, place]:
                mismatches[clause] += 1
        if mismatches[clause] == 0:
            value += gains[clause]
    state = np.full(1, seed, np.uint64)
    best, best_record = value, record.copy()
    before = np.empty(width, np.int64)
    stages, losses = limits.shape
    for move in range(moves):
        clause = _below(state, clauses)
        change = 0
        if gains[clause] > 0:
            if mismatches[clause] == 0:
                continue
            for place in range(width):
                attribute = attributes[clause, place]
                if attribute >= 0:
                    before[place] = record[attribute]
                    if before[place] != codes[clause, place]:
                        change += _put(attribute, codes[clause, place], record, mismatches, gains, first, ends, members)
        else:
            place = _below(state, width)
            attribute = attributes[clause, place]
            if attribute < 0 or sizes[attribute] < 2:
                continue
            before[0] = record[attribute]
            code = (record[attribute] + 1 + _below(state, sizes[attribute] - 1)) % sizes[attribute]
            change = _put(attribute, code, record, mismatches, gains, first, ends, members)
        if change < 0:
            stage = move * stages // moves
            limit = limits[stage, -change] if -change < losses else 0
            if np.int64(_next(state) >> np.uint64(33)) >= limit:
                if gains[clause] > 0:
                    for place in range(width):
                        attribute = attributes[clause, place]
                        if attribute >= 0 and before[place] != record[attribute]:
                            _put(attribute, before[place], record, mismatches, gains, first, ends, members)
                else:
                    _put(attribute, before[0], record, mismatches, gains, first, ends, members)
                continue
        value += change
        if value > best:
            best = value
            best_record[:] = record
    record[:] = best_record
    return best
