"""MWEM: in each round select the worst cell, measure it, project onto it, replay the past (Hardt et al. 2012)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.errors import whole_number
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.choose import CLIQUE_CELLS
from reticent.kernel.accounting import NANO, Budget, Real
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms.base import Exponential, Sensitivity
from reticent.knowledge.guarantees import Outcome, Progress, Report, silent
from reticent.knowledge.tails import check_confidence, counted
from reticent.queries.base import Linear
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.linear import Count
from reticent.queries.workload import Workload
from reticent.releases.budgeting import TOTAL_SHARE, Steps, checked_share, divide, noise_costing, too_little
from reticent.releases.query_class import Learner, QueryClass
from reticent.releases.workload_audit import AUDIT_SHARE, audited

__all__ = ["MWEM"]

MOST_ROUNDS, FEWEST_ROUNDS = 200, 10
USUAL_CONFIDENCE = 0.95
ONE = Sensitivity.scalar()


@dataclass(frozen=True)
class MWEM:
    """Multiplicative weights with the exponential mechanism (Hardt, Ligett, McSherry 2012), for any linear queries.

    Each round selects a badly answered query, measures it and projects onto it, then onto all earlier ones. Half of a
    round's budget pays for the selection, half for the measurement. Targets are conservative by one standard deviation
    of the noise, which is a plan and not a guarantee (spec 4.4). A closing audit certifies every query of the workload.
    A universe that is too large to hold is learned on a junction tree, then on records drawn from it.

    Args:
        rounds: How many; by default their number balances noise and progress, a hundredth of what the worst case asks.
        replay: Whether earlier measurements are projected onto again in every round.
        tree_cells: The largest junction tree; by default one that is read as fast as a support.
        audit_share: Share of the budget for the closing audit, from 0 to 0.5; by default 1/25.
        confidence: With which the audit's bound holds.

    Raises:
        QueryError: A number is out of range.

    Example:
        >>> import pyarrow as pa
        >>> import reticent as rt
        >>> domain = rt.Domain({"a": 3, "b": 4})
        >>> table = rt.Table.of(pa.table({"a": [0, 1, 2, 1] * 500, "b": [3, 3, 0, 1] * 500}), domain)
        >>> workload = rt.Workload([rt.mean("b"), rt.count((rt.col("a") == 1) | (rt.col("b") == 0))])
        >>> release = rt.release(table, workload, rt.Budget(epsilon=1, delta=1e-9), algorithm=rt.MWEM(rounds=10))
        >>> release.answer(rt.mean("b")).certified
        True
    """

    rounds: int | None = None
    replay: bool = True
    tree_cells: int | None = None
    audit_share: Real | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.rounds is not None:
            object.__setattr__(self, "rounds", whole_number(self.rounds, "rounds", 1))
        if self.tree_cells is not None:
            object.__setattr__(self, "tree_cells", whole_number(self.tree_cells, "tree_cells", 1))
        object.__setattr__(self, "audit_share", checked_share(self.audit_share))
        check_confidence(self.confidence)

    def describe(self) -> dict[str, Any]:
        """Plain values that identify this run in its ledger. Options that older versions lacked appear only if they are
        set.

        Returns:
            The algorithm and its settings, as plain values.

        Example:
            >>> import reticent as rt
            >>> rt.MWEM(rounds=3).describe()["rounds"]
            3
        """
        chosen: dict[str, Any] = {} if self.tree_cells is None else {"tree_cells": self.tree_cells}
        chosen |= {} if self.audit_share is None else {"audit_share": str(self.audit_share)}
        chosen |= {} if self.confidence == USUAL_CONFIDENCE else {"confidence": self.confidence}
        return {"algorithm": "MWEM", "rounds": self.rounds, "replay": self.replay} | chosen

    def terms(self) -> dict[str, Any]:
        """Settings that a run keeps once it has begun, even if later versions have other defaults.

        Returns:
            Plain values, as `resumed` reads them.

        Example:
            >>> import reticent as rt
            >>> sorted(rt.MWEM().terms())
            ['audit_share', 'tree_cells']
        """
        share = AUDIT_SHARE if self.audit_share is None else self.audit_share
        return {"tree_cells": self.tree_cells, "audit_share": str(share)}

    def resumed(self, begun: Mapping[str, Any]) -> MWEM:
        """This algorithm with the settings of a run that has begun.

        Args:
            begun: What `terms` wrote; runs older than a setting lack it, and had the largest tree and no audit.

        Returns:
            The algorithm.

        Example:
            >>> import reticent as rt
            >>> rt.MWEM().resumed({}).audit_share
            Fraction(0, 1)
        """
        share = Fraction(begun.get("audit_share", 0))
        return replace(self, tree_cells=begun.get("tree_cells", CLIQUE_CELLS), audit_share=share)

    def run(
        self, curator: Curator, workload: Workload | Conjunctions, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome:
        """Select, measure and project in rounds, then audit. After a crash, the same key returns every round already
        paid.

        Args:
            curator: The only way to the rows; it charges the ledger.
            workload: The queries to answer.
            allowance: Nano-units to spend.
            key: Names the run in the ledger.
            report: Called with public progress.

        Returns:
            The hypothesis, what was measured, and what is certified.

        Raises:
            BudgetError: The allowance does not pay for all rounds.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1), table.identity)
            >>> workload = rt.marginals(table.domain, 1)
            >>> run = rt.MWEM(rounds=2).run(Curator(table, ledger), workload, allowance=10**9, key="run")
            >>> len(run.measurements)
            2
        """
        domain, budget = curator.domain, curator.budget
        queries = QueryClass(workload, domain)
        learner = Learner.uniform(queries, self.tree_cells, "MWEM")
        steps = Steps(curator, allowance, key)
        self._check_units(curator, allowance, key)
        records, error = count_records(curator, steps)
        closing = self._closing(steps.left)
        steps, audit = Steps(curator, steps.left - closing, key), Steps(curator, closing, key)
        rounds = self.rounds or default_rounds(records, math.log(domain.size), budget, steps.left)
        rounds = min(rounds, max(0, steps.left) // 2)  # what is paid is published, even if a crash lost the rest
        answers: list[tuple[Linear, float, float]] = []
        measurements: list[Measurement] = []
        for turn, (to_select, to_measure) in enumerate(_halves(steps.left, rounds)):
            named = steps.begin(f"select {turn}")
            if not steps.pays(units := steps.share(to_select)):
                break
            mechanism = _selection(budget, units)
            chosen = curator.select(learner.scores(records, measurements), mechanism, key=named)
            steps.paid(chosen.cost, to_select)
            query, _ = queries.query(int(chosen.values[0][0]))
            named = steps.begin(f"measure {turn}")
            if not steps.pays(units := steps.share(to_measure)):
                break
            settled = curator.measure([query], noise_costing(budget, curator.moved(ONE), units), key=named)
            noise = settled.noises[0]
            steps.paid(settled.cost, to_measure)
            answers.append((query, float(settled.values[0]) / records, noise.sd / records))
            measurements.append(Measurement(query, np.array(answers[-1][1]), answers[-1][2], noise.describe()))
            learner.replay(answers if self.replay else answers[-1:])
            report(Progress(turn + 1, rounds, f"measured {query.wording}", (turn + 1) / rounds))
        notes = {"rounds": len(measurements), "cells": queries.size, "records_error": error} | learner.described
        hypothesis, certificates, guarantees = audited(
            curator,
            workload,
            learner.hypothesis,
            audit,
            records=records,
            records_error=error,
            confidence=self.confidence,
            key=key,
        )
        return Outcome(hypothesis, tuple(measurements), certificates, records, notes, guarantees=guarantees)

    def _closing(self, units: int) -> int:
        """The units of the closing audit."""
        return int(max(0, units) * (checked_share(self.audit_share) or 0))

    def _check_units(self, curator: Curator, allowance: int, key: str) -> None:
        """Check, before anything is spent, that the allowance pays for the number of records and for all rounds."""
        rounds, left = self.rounds or FEWEST_ROUNDS, allowance
        if curator.records is None:
            if curator.begun(curator.successor(f"{key}:total")[0]) is not None:
                return
            left -= records_units(allowance) or allowance
        if left - self._closing(left) < 2 * rounds:
            raise too_little(allowance, curator.budget, f"{rounds} rounds", needed=max(2 * rounds, allowance + 1))


def records_units(units: int) -> int:
    """What a private number of records costs of this many units."""
    return divide(units, [float(TOTAL_SHARE), float(1 - TOTAL_SHARE)])[0]


def count_records(curator: Curator, steps: Steps) -> tuple[float, float]:
    """The number of records and a bound on its relative error; if it is private, a share of the steps pays for it."""
    if curator.records is not None:
        return float(curator.records), 0.0
    units = records_units(steps.left)
    named = steps.begin("total")
    noise = noise_costing(curator.budget, curator.moved(ONE), max(steps.share(units), 1))
    settled = curator.measure([Count()], noise, key=named)
    steps.paid(units)  # whole: what rounding left over is nobody's
    return counted(float(settled.values[0]), settled.noises[0].sd, pure=curator.budget.pure)


def default_rounds(records: float, log_universe: float, budget: Budget, units: int) -> int:
    """The number of rounds at which their noise, which grows with it, equals the remaining progress sqrt(ln|U|
    / 2T).
    """
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
    amount = budget.amount_of_other_noise(units)
    return Exponential(amount) if budget.pure else Exponential.costing(rho=amount)
