"""Compiled search for a record that wins much drawn weight of any linear queries; public whole numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from reticent.releases.dualquery.data_player_kernels import below, next_word
from reticent.releases.dualquery.tables import VALUE_BITS

RANDOM_MOVES = 3
"""One move in so many changes one attribute at random; the others aim at one drawn query."""


@njit(cache=True, inline="always")
def _value(
    query: int,
    dense: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    steps: np.ndarray,
    base: np.ndarray,
    values: np.ndarray,
    record: np.ndarray,
) -> Any:
    """One query on one record, in units of 2^-VALUE_BITS."""
    if dense[query]:
        cell = base[query]
        for place in range(starts[query], starts[query + 1]):
            cell += steps[place] * record[places[place]]
        return values[cell]
    product = np.int64(1 << VALUE_BITS)
    for place in range(starts[query], starts[query + 1]):
        product = (product * values[steps[place] + record[places[place]]]) >> VALUE_BITS
    return product


@njit(cache=True)
def evaluate_queries(
    dense: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    steps: np.ndarray,
    base: np.ndarray,
    values: np.ndarray,
    record: np.ndarray,
) -> np.ndarray:
    """Every query on one record."""
    found = np.empty(dense.size, np.int64)
    for query in range(dense.size):
        found[query] = _value(query, dense, starts, places, steps, base, values, record)
    return found


@njit(cache=True)
def _exchange(
    count: int,
    chosen: np.ndarray,
    codes: np.ndarray,
    record: np.ndarray,
    current: np.ndarray,
    gains: np.ndarray,
    first: np.ndarray,
    members: np.ndarray,
    dense: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    steps: np.ndarray,
    base: np.ndarray,
    values: np.ndarray,
) -> Any:
    """Swap `codes` with the record's at the attributes `chosen`; returns the change in won weight. Again undoes it."""
    change = np.int64(0)
    for step in range(count):
        attribute = chosen[step]
        record[attribute], codes[step] = codes[step], record[attribute]
        for position in range(first[attribute], first[attribute + 1]):
            query = members[position]
            value = _value(query, dense, starts, places, steps, base, values, record)
            change += gains[query] * (value - current[query])
            current[query] = value
    return change


@njit(cache=True)
def _propose(
    state: np.ndarray,
    touched: np.ndarray,
    sizes: np.ndarray,
    gains: np.ndarray,
    goal_ends: np.ndarray,
    goals: np.ndarray,
    record: np.ndarray,
    chosen: np.ndarray,
    codes: np.ndarray,
    dense: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    steps: np.ndarray,
) -> int:
    """Meet a random query as well as it can be met, or spoil it where it is worth missing; sometimes any one change."""
    if below(state, RANDOM_MOVES) == 0:
        attribute = touched[below(state, touched.size)]
        chosen[0], codes[0] = attribute, below(state, sizes[attribute])
        return 1
    query = below(state, gains.size)
    begin, end = starts[query], starts[query + 1]
    if begin == end:
        return 0
    if dense[query]:
        options = goal_ends[begin + 1] - goal_ends[begin]
        if options == 0:
            return 0
        cell = goals[goal_ends[begin] + below(state, options)]
        count = 0
        for place in range(begin, end):
            code = cell // steps[place]
            cell -= code * steps[place]
            if record[places[place]] != code:
                chosen[count], codes[count] = places[place], code
                count += 1
        return count
    if gains[query] < 0:
        # One factor at its smallest is enough.
        begin += below(state, end - begin)
        end = begin + 1
    count = 0
    for place in range(begin, end):
        options = goal_ends[place + 1] - goal_ends[place]
        if options > 0:
            chosen[count], codes[count] = places[place], goals[goal_ends[place] + below(state, options)]
            count += 1
    return count


@njit(cache=True)
def anneal_tables(
    dense: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    steps: np.ndarray,
    base: np.ndarray,
    values: np.ndarray,
    gains: np.ndarray,
    goal_ends: np.ndarray,
    goals: np.ndarray,
    touched: np.ndarray,
    sizes: np.ndarray,
    first: np.ndarray,
    members: np.ndarray,
    record: np.ndarray,
    limits: np.ndarray,
    fineness: int,
    moves: int,
    seed: np.uint64,
) -> int:
    """Simulated annealing; leaves the best record found in `record`, returns its gain in units of 2^-VALUE_BITS.

    `limits[stage, loss]` is the chance, in units of 2^-31, of accepting a move that loses `loss / fineness`.
    """
    state = np.full(1, seed, np.uint64)
    widest = 1
    for query in range(gains.size):
        widest = max(widest, starts[query + 1] - starts[query])
    chosen, codes = np.empty(widest, np.int64), np.empty(widest, np.int64)
    current = evaluate_queries(dense, starts, places, steps, base, values, record)
    value = np.int64(0)
    for query in range(gains.size):
        value += gains[query] * current[query]
    best, best_record = value, record.copy()
    stages, losses = limits.shape
    for move in range(moves):
        count = _propose(
            state, touched, sizes, gains, goal_ends, goals, record, chosen, codes, dense, starts, places, steps
        )
        change = _exchange(
            count, chosen, codes, record, current, gains, first, members, dense, starts, places, steps, base, values
        )
        if change < 0:
            loss = (-change * fineness) >> VALUE_BITS
            limit = limits[move * stages // moves, loss] if loss < losses else 0
            if np.int64(next_word(state) >> np.uint64(33)) >= limit:
                _exchange(
                    count,
                    chosen,
                    codes,
                    record,
                    current,
                    gains,
                    first,
                    members,
                    dense,
                    starts,
                    places,
                    steps,
                    base,
                    values,
                )
                continue
        value += change
        if value > best:
            best = value
            best_record[:] = record
    record[:] = best_record
    return best  # pyright: ignore[reportReturnType]
