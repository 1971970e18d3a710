"""MWEM: in each round select the worst cell, measure it, project onto it, replay the past (Hardt et al. 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.algorithms.allocation import TOTAL_SHARE, divide, noise_costing, too_little
from reticent.algorithms.cells import CellClass, replay
from reticent.algorithms.outcome import Outcome, Progress, Report, silent
from reticent.algorithms.tails import counted
from reticent.errors import whole_number
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.choose import choose
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms import Exponential, Sensitivity
from reticent.queries.linear import Conjunction, Count
from reticent.queries.workload import Workload

__all__ = ["MWEM"]

MOST_ROUNDS, FEWEST_ROUNDS = 200, 10
ONE = Sensitivity.scalar()


@dataclass(frozen=True)
class MWEM:
    """`rounds` single queries, half of each round's budget to select and half to measure; the last hypothesis is kept.

    Targets are conservative by one standard deviation of the noise: a plan, not a guarantee (spec 4.4). With
    `replay=False` only the newest measurement is projected onto. Without `rounds` their number balances noise and
    progress, a hundredth of what the worst case would ask.
    """

    rounds: int | None = None
    replay: bool = True

    def __post_init__(self) -> None:
        if self.rounds is not None:
            object.__setattr__(self, "rounds", whole_number(self.rounds, "rounds", 1))

    def describe(self) -> dict[str, Any]:
        return {"algorithm": "MWEM", "rounds": self.rounds, "replay": self.replay}

    def run(
        self, curator: Curator, workload: Workload, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome:
        """Spend `allowance`; the same key after a crash reads back every round already paid."""
        domain, budget = curator.domain, curator.budget
        cells = CellClass(workload, domain, "MWEM")
        hypothesis = choose(domain, workload).build(np.random.default_rng(0))
        records, error, left = self._count(curator, allowance, key)
        rounds = self.rounds or default_rounds(records, math.log(domain.size), budget, left)
        if left < 2 * rounds:
            raise too_little(left, curator.budget, f"{rounds} rounds", needed=2 * rounds)
        answers: list[tuple[Conjunction, float, float]] = []
        measurements: list[Measurement] = []
        for turn, (to_select, to_measure) in enumerate(_halves(left, rounds)):
            mechanism = _selection(budget, to_select)
            scores = cells.scores(hypothesis, records)
            chosen = curator.select(scores, mechanism, key=f"{key}:select {turn}")
            query, _ = cells.query(int(chosen.values[0][0]))
            noise = noise_costing(budget, ONE, to_measure)
            settled = curator.measure([query], noise, key=f"{key}:measure {turn}")
            answers.append((query, float(settled.values[0]) / records, noise.sd / records))
            measurements.append(Measurement(query, np.array(answers[-1][1]), answers[-1][2], noise.describe()))
            replay(hypothesis, answers if self.replay else answers[-1:])
            report(Progress(turn + 1, rounds, f"measured {query.text}", (turn + 1) / rounds))
        notes = {"rounds": rounds, "cells": cells.size, "records_error": error}
        return Outcome(hypothesis, tuple(measurements), (), records, notes)

    def _count(self, curator: Curator, allowance: int, key: str) -> tuple[float, float, int]:
        """The number of records, a bound on its relative error, and the units left."""
        if curator.records is not None:
            return float(curator.records), 0.0, allowance
        units, left = divide(allowance, [float(TOTAL_SHARE), float(1 - TOTAL_SHARE)])
        noise = noise_costing(curator.budget, ONE, max(units, 1))
        settled = curator.measure([Count()], noise, key=f"{key}:total")
        return *counted(float(settled.values[0]), noise.sd, pure=curator.budget.pure), left


def default_rounds(records: float, log_universe: float, budget: Budget, units: int) -> int:
    """Where the noise of a round, growing with their number, meets the progress sqrt(ln|U| / 2T) still to come."""
    amount = units / NANO
    if budget.pure:
        balance = (records * amount / 2) ** (2 / 3) * (log_universe / 2) ** (1 / 3)
    else:
        balance = records * math.sqrt(amount * log_universe / 2)
    return int(min(MOST_ROUNDS, max(FEWEST_ROUNDS, balance / 100)))


def _halves(units: int, rounds: int) -> list[tuple[int, int]]:
    parts = divide(units, [1.0] * (2 * rounds))
    return list(zip(parts[::2], parts[1::2], strict=True))


def _selection(budget: Budget, units: int) -> Exponential:
    amount = Fraction(units, NANO)
    return Exponential(amount) if budget.pure else Exponential.costing(rho=amount)
