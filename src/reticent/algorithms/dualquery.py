"""DualQuery: a game between queries and records, for tables whose universe fits no memory (spec 7).

Weights live on the queries. Each round draws a few queries that the records played so far answer badly, and the data
player answers with records that satisfy them. Only the draws touch the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.algorithms.allocation import TOTAL_SHARE, noise_costing, too_little
from reticent.algorithms.data_player import DataPlayer, Search
from reticent.algorithms.dualquery_game import Game
from reticent.algorithms.dualquery_plan import REPLIES, DualQueryPlan, textbook, tuned
from reticent.algorithms.outcome import Outcome, Progress, Report, silent
from reticent.algorithms.query_player import query_player
from reticent.algorithms.tails import counted
from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError, whole_number
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.records import RecordsHypothesis
from reticent.kernel.accounting import Budget, Real, exact
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms import Sensitivity
from reticent.kernel.statistics import of_one_marginal
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.linear import Marginal, count
from reticent.queries.workload import Workload

START_FLOOR = 0.1
"""In standard deviations: no code of a start record is ruled out by noise alone."""
_WHOLE = {"rounds": 2, "draws": 1, "replies": 1, "memory": 1, "seed": 0, "sample": 1}
"""Parameters that are whole numbers, and the least of each; the first round sees no data."""


@dataclass(frozen=True)
class DualQuery:
    """Rounds, draws and step follow from the budget unless given; `error` asks for the textbook's instead (spec 7.3).

    `refine` is the share of the budget spent on one-way marginals: replies start from them, and the records' weights
    are fitted to them at the end. `seed` is public randomness of the data player: it costs no privacy, and makes a run
    repeatable. `sample` plays on that many secret records only: faster, and priced for so few (spec 7.4).
    """

    rounds: int | None = None
    draws: int | None = None
    step: Real | None = None
    error: float | None = None
    refine: Real = Fraction(0)
    replies: int = REPLIES
    memory: int | None = None
    player: DataPlayer = field(default_factory=Search)
    seed: int = 0
    sample: int | None = None

    def __post_init__(self) -> None:
        share = Fraction(0) if self.refine == 0 else exact(self.refine, "refine")
        if share >= 1:
            raise QueryError(f"refine={self.refine} is a share of the budget: at least 0 and below 1")
        if self.error is not None and (self.rounds, self.draws, self.step) != (None, None, None):
            raise QueryError("error= asks for the textbook's rounds, draws and step; give it alone")
        for name, least in _WHOLE.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole_number(getattr(self, name), name, least))
        object.__setattr__(self, "refine", share)
        object.__setattr__(self, "step", None if self.step is None else exact(self.step, "step"))

    def describe(self) -> dict[str, Any]:
        names = ("rounds", "draws", "step", "error", "refine", "replies", "memory", "player", "seed", "sample")
        return {"algorithm": "DualQuery", **{name: _plain(getattr(self, name)) for name in names}}

    def plan(self, records: int, queries: int, domain: Domain, budget: Budget, units: int) -> DualQueryPlan:
        """What a run does with `units` of the budget, from public facts; `queries` before closing under complement."""
        rounds, draws, step, replies, memory = self.rounds, self.draws, self.step, self.replies, self.memory
        if self.error is not None:
            wanted = textbook(records, 2 * queries, math.log(domain.size), error=self.error)
            rounds, draws, step, replies, memory = wanted.rounds, wanted.draws, wanted.step, 1, 1
        return tuned(
            records,
            budget,
            attributes=len(domain),
            units=units,
            rounds=rounds,
            draws=draws,
            step=None if step is None else exact(step, "step"),
            replies=replies,
            memory=memory,
        )

    def run(
        self,
        curator: Curator,
        workload: Workload | Conjunctions,
        *,
        allowance: int,
        key: str,
        report: Report = silent,
    ) -> Outcome:
        """Spend at most `allowance`; the same key and allowance continue an interrupted run from its paid rounds."""
        domain = curator.domain
        queries = query_player(workload, domain)
        purse = _Purse(allowance)
        records, uncertain = (curator.records, 0.0) if curator.records else self._total(curator, purse, key)
        measurements = self._one_ways(curator, purse, records, key)
        plan = self.plan(records, len(queries), domain, curator.budget, purse.left)
        sizes, shares = np.array(domain.shape), _shares(measurements)
        game = Game(plan, queries, sizes, self.player, seed=self.seed, shares=shares)

        def draw(turn: int) -> np.ndarray:
            mechanism = plan.mechanism(turn)
            scores = queries.scores(game.scale(turn), float(mechanism.epsilon))
            settled = curator.select(scores, mechanism, draws=plan.draws, key=f"{key}:round {turn}")
            purse.pay(settled.cost)
            return settled.values[0]

        for turn in range(1, plan.rounds + 1):
            try:
                game.play(turn, draw)
            except BudgetError:
                # Others spent from the same ledger since the plan was made: what was played is still a release.
                if turn <= 2:
                    raise
                break
            message = f"records meet {game.satisfied:.0%} of the drawn queries"
            report(Progress(turn, plan.rounds, message, purse.spent / allowance))
        hypothesis = RecordsHypothesis(domain, game.played)
        if measurements:
            hypothesis.fit(measurements)
        return Outcome(hypothesis, tuple(measurements), (), float(records), game.notes() | {"records_error": uncertain})

    def _total(self, curator: Curator, purse: _Purse, key: str) -> tuple[int, float]:
        """A noisy number of records, paid once; every guess and price uses it, never the true one (spec 1.1)."""
        units = int(purse.left * TOTAL_SHARE)
        if units < 1:
            needed = math.ceil(1 / TOTAL_SHARE)
            raise too_little(purse.left, curator.budget, "a count of the records and 2 rounds", needed=needed)
        noise = noise_costing(curator.budget, Sensitivity.scalar(), units)
        settled = curator.measure([count()], noise, key=f"{key}:total")
        purse.pay(settled.cost)
        records, uncertain = counted(round(float(settled.values[0])), noise.sd, pure=curator.budget.pure)
        return round(records), uncertain

    def _one_ways(self, curator: Curator, purse: _Purse, records: int, key: str) -> list[Measurement]:
        queries = [Marginal((name,)) for name in curator.domain.names]
        each = int(purse.left * Fraction(str(self.refine))) // len(queries)
        if each == 0:
            return []
        noise = noise_costing(curator.budget, of_one_marginal(curator.neighbours), each)
        settled = curator.measure(queries, noise, key=f"{key}:refine")
        purse.pay(settled.cost)
        sd = noise.sd / records
        return [Measurement(q, v / records, sd, noise.describe()) for q, v in zip(queries, settled.values, strict=True)]


class _Purse:
    """What one run may still spend, and has spent."""

    def __init__(self, allowance: int) -> None:
        self.left = allowance
        self.spent = 0

    def pay(self, cost: int) -> None:
        self.left -= cost
        self.spent += cost


def _shares(measurements: list[Measurement]) -> list[np.ndarray] | None:
    """Noisy one-way marginals as distributions to start records from."""
    if not measurements:
        return None
    return [np.maximum(m.values.ravel(), 0.0) + START_FLOOR * m.sd for m in measurements]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else str(value)
