"""Record and replay: a whole run on one table, then the same run on a neighbour with every released value frozen.

Privacy composes only if each step depends on rows through released values alone. Therefore a run is recorded and
repeated on a neighbouring table with the recorded values. Everything must be the same: the draws and their mechanisms,
the events and charges in the ledger, the reads of rows, the answers and the refusals. The privacy loss of each draw
between the exact numbers of both tables must not exceed its charge.

The idea is that of Re:cord-play (PETS 2026); the implementation is independent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.auditing.cases import Effort, VerdictLine
from reticent.auditing.neighbours import Neighbourhood
from reticent.auditing.observation import Divergence, Observer, Recording, Replayer
from reticent.auditing.programs import Program, Run
from reticent.kernel.accounting import Budget
from reticent.kernel.mechanisms.sampler_check import verify_samplers
from reticent.kernel.table import Table, exact_counts

__all__ = ["Divergence", "Replay", "record_and_replay", "replay_line", "replay_pair"]

GROUP = "record and replay"
LEAST_PAIRS = 3


@dataclass(frozen=True)
class Replay:
    """One pair: the number of compared draws, the largest share of a price they revealed, and the parts that
    took part.
    """

    draws: int
    share: float
    parts: frozenset[type]


def record_and_replay(run: Run, first: Table, others: Sequence[Table], budget: Budget, seed: int = 0) -> Replay:
    """Run on `first`, and replay on the neighbour about which its statistics reveal most.

    Args:
        run: A generator of answers, called with a table, a budget and a random generator; see `programs`.
        first: The table of the recorded run.
        others: Neighbours of it; one, or several to choose the worst from.
        budget: What either run may spend.
        seed: Of the generator that both runs get.

    Returns:
        What was compared.

    Raises:
        Divergence: The runs differ, or a draw tells more than was paid for; with the first difference.
    """
    verify_samplers()
    recorder = Observer()
    _observed(recorder, run, first, budget, seed)
    replayer = Replayer(recorder.seen)
    _observed(replayer, run, most_exposed(recorder.seen, first, others), budget, seed)
    return Replay(replayer.compared, replayer.largest_share, frozenset(recorder.seen.parts))


def _observed(observer: Observer, run: Run, table: Table, budget: Budget, seed: int) -> None:
    with observer.watching():
        for answer in run(table, budget, random.Random(seed)):
            observer.answered(answer)
        observer.finish()


def most_exposed(recorded: Recording, first: Table, others: Sequence[Table]) -> Table:
    """The neighbour for which some statistic of the run moves furthest, as a share of its declared sensitivity."""
    if len(others) == 1:
        return others[0]
    return max(others, key=lambda other: max((_moved(s, first, other) for s in recorded.statistics[:40]), default=0))


def _moved(statistic: Any, first: Table, second: Table) -> Fraction:
    here, there = (np.ravel(statistic.evaluate(exact_counts(t), t.grid)).astype(object) for t in (first, second))
    steps = statistic.resolution(first.grid) * first.grid
    return Fraction(int(np.abs(here - there).max(initial=0))) / (statistic.sensitivity(first.neighbours).l1 * steps)


def replay_pair(program: Program, seed: int) -> Replay:
    """A program on a generated table and one of its neighbours, all determined by one seed."""
    rng = random.Random(seed)
    neighbours, unit = rng.choice(program.neighbours), rng.choice(program.units)
    made: Neighbourhood = program.tables(rng, neighbours, unit)
    budget = rng.choice(program.budgets)
    if rng.random() < 0.6:
        return record_and_replay(program.run, made.table, made.others, budget, seed)
    other = rng.choice(made.others)
    first, second = (made.table, other) if rng.random() < 0.5 else (other, made.table)
    return record_and_replay(program.run, first, [second], budget, seed)


def replay_line(name: str, program: Program, effort: Effort) -> VerdictLine:
    """A program on as many pairs as the processor time allows."""
    end, pairs, draws, share, found = time.process_time() + effort.seconds, 0, 0, 0.0, ""
    while not found and (pairs < LEAST_PAIRS or time.process_time() < end):
        try:
            replay = replay_pair(program, pairs)
            draws, share = draws + replay.draws, max(share, replay.share)
        except Divergence as difference:
            found = f"pair {pairs}: {difference}"
        pairs += 1
    note = found or f"{pairs:,} pairs, {draws:,} draws; told at most {share:.0%} of what was paid"
    return VerdictLine(name, GROUP, not found, runs=pairs, note=note)
