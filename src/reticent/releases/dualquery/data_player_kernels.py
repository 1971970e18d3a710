"""Compiled inner loops of DualQuery's data player; public numbers in, public numbers out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, inline="always")
def next_word(state: np.ndarray) -> np.uint64:
    """SplitMix64: whole numbers only, so a run repeats bit for bit on another machine (public randomness)."""
    state[0] += GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@njit(cache=True, inline="always")
def below(state: np.ndarray, bound: Any) -> Any:
    """A whole number in [0, bound), bound < 2^31."""
    return np.int64(((next_word(state) >> np.uint64(33)) * np.uint64(bound)) >> np.uint64(31))


@njit(cache=True)
def _exchange(
    count: int,
    places: np.ndarray,
    values: np.ndarray,
    record: np.ndarray,
    mismatches: np.ndarray,
    gains: np.ndarray,
    first: np.ndarray,
    ends: np.ndarray,
    members: np.ndarray,
) -> Any:
    """Swap `values` with the record's codes at `places` and return the change in won weight; again undoes it.

    Only clauses that name an old or a new code are touched.
    """
    change = 0
    for step in range(count):
        attribute = places[step]
        old, new = record[attribute], values[step]
        for position in range(ends[first[attribute] + old], ends[first[attribute] + old + 1]):
            clause = members[position]
            if mismatches[clause] == 0:
                change -= gains[clause]
            mismatches[clause] += 1
        for position in range(ends[first[attribute] + new], ends[first[attribute] + new + 1]):
            clause = members[position]
            mismatches[clause] -= 1
            if mismatches[clause] == 0:
                change += gains[clause]
        record[attribute], values[step] = new, old
    return change


@njit(cache=True)
def _propose(
    state: np.ndarray,
    attributes: np.ndarray,
    codes: np.ndarray,
    gains: np.ndarray,
    sizes: np.ndarray,
    record: np.ndarray,
    places: np.ndarray,
    values: np.ndarray,
) -> int:
    """A clause move: meet a random clause whole, or change one literal of it if it is worth missing."""
    clauses, width = attributes.shape
    clause = below(state, clauses)
    if gains[clause] < 0:
        place = below(state, width)
        attribute = attributes[clause, place]
        if attribute < 0 or sizes[attribute] < 2:
            return 0
        places[0] = attribute
        values[0] = (record[attribute] + 1 + below(state, sizes[attribute] - 1)) % sizes[attribute]
        return 1
    count = 0
    for place in range(width):
        attribute = attributes[clause, place]
        if attribute >= 0 and record[attribute] != codes[clause, place]:
            places[count], values[count] = attribute, codes[clause, place]
            count += 1
    return count


@njit(cache=True)
def _mismatches(attributes: np.ndarray, codes: np.ndarray, record: np.ndarray) -> np.ndarray:
    """How many literals of each clause the record misses."""
    missed = np.zeros(attributes.shape[0], np.int64)
    for clause in range(attributes.shape[0]):
        for place in range(attributes.shape[1]):
            attribute = attributes[clause, place]
            if attribute >= 0 and record[attribute] != codes[clause, place]:
                missed[clause] += 1
    return missed


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

    `gains[c]` is won when all literals of clause c hold: its weight, or minus it for a negated clause.
    `limits[stage, loss]` is the chance, in units of 2^-31, of accepting a move that loses that much in that stage.
    """
    state = np.full(1, seed, np.uint64)
    places = np.empty(attributes.shape[1], np.int64)
    values = np.empty(attributes.shape[1], np.int64)
    mismatches = _mismatches(attributes, codes, record)
    value = gains[mismatches == 0].sum()
    best, best_record = value, record.copy()
    stages, losses = limits.shape
    for move in range(moves):
        count = _propose(state, attributes, codes, gains, sizes, record, places, values)
        change = _exchange(count, places, values, record, mismatches, gains, first, ends, members)
        if change < 0:
            limit = limits[move * stages // moves, -change] if -change < losses else 0
            if np.int64(next_word(state) >> np.uint64(33)) >= limit:
                _exchange(count, places, values, record, mismatches, gains, first, ends, members)
                continue
        value += change
        if value > best:
            best = value
            best_record[:] = record
    record[:] = best_record
    return best
