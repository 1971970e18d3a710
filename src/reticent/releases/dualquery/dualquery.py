"""DualQuery: a game between queries and records, for tables whose universe fits no memory (spec 7).

Weights live on the queries. Each round draws a few queries that the records played so far answer badly, and the data
player answers with records that satisfy them. Only the draws touch the table.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError, real_number, whole_number
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.memory import refuse_beyond
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import RecordsHypothesis
from reticent.kernel.accounting import Budget, Real, exact, is_zero
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.statistics import VALUE_ROUNDING, of_one_marginal
from reticent.knowledge.guarantees import Guarantee, Outcome, Progress, Report, silent
from reticent.knowledge.knowledge import VACUOUS
from reticent.knowledge.tails import check_confidence, counted
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.linear import Marginal, count
from reticent.queries.scalars import ScalarQueries
from reticent.queries.workload import Workload
from reticent.releases.budgeting import TOTAL_SHARE, Steps, checked_share, noise_costing, too_little
from reticent.releases.dualquery.analysis import analyse, game_bound, sample_error, sample_size
from reticent.releases.dualquery.data_player import DataPlayer, Search
from reticent.releases.dualquery.exact_player import IntegerProgram
from reticent.releases.dualquery.game import Game, RecordMender
from reticent.releases.dualquery.plan import FEWEST_DRAWS, REPLIES, STEP, DualQueryPlan, textbook, tuned
from reticent.releases.dualquery.query_player import query_player
from reticent.releases.workload_audit import AUDIT_SHARE, audited

START_FLOOR = 0.1
"""In standard deviations: noise alone rules out no code of a start record."""
USUAL_FAILURE, USUAL_CONFIDENCE, USUAL_DELTA = 0.05, 0.95, 1e-9
THEOREM = "theorem"
_WHOLE = {"rounds": 2, "draws": 1, "replies": 1, "memory": 1, "seed": 0, "sample": 1, "work": 1}
"""Parameters that are whole numbers, with their minima; the first round sees no data."""


@dataclass(frozen=True)
class DualQuery:
    """DualQuery (Gaboardi and others 2014; 002) for workloads of any linear queries, without the universe in memory.

    Rounds, draws and step follow from the budget unless they are given. With `error` they are those of the theorem
    (spec 7.3), and every answer to the workload states the theorem's bound for this run. Every release states the
    privacy cost of the run under each analysis. A closing audit certifies the workload.

    Args:
        rounds: T, at least 2; the first round sees no data.
        draws: s, the number of queries drawn in each round.
        step: eta, of the query player's weights.
        error: a of the theorem; alone, without rounds, draws and step.
        failure: The probability with which the theorem's bound may fail.
        refine: Share of the budget for one-way marginals: replies start from them, and the records' weights are fitted
            to them at the end.
        replies: Records the data player answers with in each round.
        memory: Rounds whose draws the data player sees.
        player: "search" (annealing), "exact" (an integer program by HiGHS, which proves its bound), or a data player.
        work: Limit of one reply: moves of the search, or nodes of the exact player. Never seconds, so a run repeats.
        seed: Public randomness of the data player: it costs no privacy.
        sample: Play on so many secret records only, priced for so few (spec 7.4); "theorem" takes the size that
            represents the table within half of `error`, and plays for the other half (002, section 4).
        audit_share: Share of the budget for the closing audit, from 0 to 0.5; by default 1/25, none with `error`.
        confidence: The probability with which the audit's bound holds.

    Raises:
        QueryError: A parameter is out of range, or `error` is given with others that it would choose.

    Example:
        >>> import pyarrow as pa
        >>> import reticent as rt
        >>> domain = rt.Domain({"a": 3, "b": 4})
        >>> table = rt.Table.of(pa.table({"a": [0, 1, 2, 1] * 500, "b": [3, 3, 0, 1] * 500}), domain)
        >>> workload = rt.Workload([rt.mean("b"), rt.count((rt.col("a") == 1) | (rt.col("b") == 0))])
        >>> budget = rt.Budget(epsilon=1, delta=1e-9)
        >>> release = rt.release(table, workload, budget, algorithm=rt.DualQuery(seed=1))
        >>> sorted(release.notes["analyses"])[:3]
        ['bounded_range', 'delta', 'loss_distribution']
        >>> release.answer(rt.mean("b")).certified
        True
    """

    rounds: int | None = None
    draws: int | None = None
    step: Real | None = None
    error: float | None = None
    refine: Real = Fraction(0)
    replies: int = REPLIES
    memory: int | None = None
    player: DataPlayer | str = field(default_factory=Search)
    seed: int = 0
    sample: int | str | None = None
    work: int | None = None
    failure: float = USUAL_FAILURE
    audit_share: Real | None = None
    confidence: float = USUAL_CONFIDENCE

    def __post_init__(self) -> None:
        share = Fraction(0) if is_zero(self.refine) else exact(self.refine, "refine")
        if share >= 1:
            raise QueryError(f"refine={self.refine} is a share of the budget: at least 0 and below 1")
        if self.error is not None:
            if (self.rounds, self.draws, self.step) != (None, None, None):
                raise QueryError("error= asks for the textbook's rounds, draws and step; give it alone")
            if not 0 < real_number(self.error, "error", "a number strictly between 0 and 1") < 1:
                raise QueryError(f"error={self.error} must lie strictly between 0 and 1")
        if not 0 < real_number(self.failure, "failure", "a number strictly between 0 and 1") < 1:
            raise QueryError(f"failure={self.failure} must lie strictly between 0 and 1")
        if self.sample is not None and self.audit_share:
            raise QueryError("audit_share= with sample=: an audit of the sample would not bound errors on the table")
        if isinstance(self.sample, str) and (self.sample != THEOREM or self.error is None):
            raise QueryError(f"sample={self.sample!r}: give a number of records, or {THEOREM!r} together with error=")
        for name, least in _WHOLE.items():
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value == THEOREM):
                object.__setattr__(self, name, whole_number(value, name, least))
        object.__setattr__(self, "refine", share)
        object.__setattr__(self, "step", None if self.step is None else exact(self.step, "step"))
        object.__setattr__(self, "player", _player(self.player, self.work))
        object.__setattr__(self, "audit_share", checked_share(self.audit_share))
        check_confidence(self.confidence)

    def describe(self) -> dict[str, Any]:
        """Plain values that identify this run in its ledger. Options that older versions lacked appear only if they are
        set.

        Returns:
            The algorithm and its settings, as plain values.

        Example:
            >>> import reticent as rt
            >>> rt.DualQuery(rounds=5).describe()["rounds"]
            5
        """
        names = ("rounds", "draws", "step", "error", "refine", "replies", "memory", "player", "seed", "sample")
        later = {"failure": USUAL_FAILURE, "audit_share": None, "confidence": USUAL_CONFIDENCE}
        chosen = [name for name, usual in later.items() if getattr(self, name) != usual]
        return {"algorithm": "DualQuery", **{name: _plain(getattr(self, name)) for name in (*names, *chosen)}}

    def terms(self) -> dict[str, Any]:
        """Settings that a run keeps once it has begun, even if later versions have other defaults.

        Returns:
            Plain values, as `resumed` reads them.

        Example:
            >>> import reticent as rt
            >>> sorted(rt.DualQuery().terms())
            ['audit_share']
        """
        usual = AUDIT_SHARE if self.error is None and self.sample is None else Fraction(0)
        return {"audit_share": str(usual if self.audit_share is None else self.audit_share)}

    def resumed(self, begun: Mapping[str, Any]) -> DualQuery:
        """This algorithm with the settings of a run that has begun. The player's limit was set when the algorithm was
        created.

        Args:
            begun: What `terms` wrote; runs older than a setting lack it, and had no audit.

        Returns:
            The algorithm.

        Example:
            >>> import reticent as rt
            >>> rt.DualQuery().resumed({}).audit_share
            Fraction(0, 1)
        """
        return replace(self, work=None, audit_share=Fraction(begun.get("audit_share", 0)))

    def sampled(self, workload: Workload | Conjunctions, domain: Domain, records: int | None) -> int | None:
        """The number of records that a run plays on.

        Args:
            workload: The queries to answer.
            domain: The domain of the table.
            records: Public number of records; None where it is private.

        Returns:
            The size of the secret sample; None for all records.

        Example:
            >>> import reticent as rt
            >>> rt.DualQuery().sampled(rt.marginals(rt.Domain(a=3), 1), rt.Domain(a=3), 1000) is None
            True
        """
        if self.sample != THEOREM:
            return self.sample  # pyright: ignore[reportReturnType]
        assert self.error is not None
        wanted = sample_size(2 * ScalarQueries(workload, domain).size, error=self.error, failure=self.failure)
        return None if records is not None and wanted >= records else wanted

    def plan(self, records: int, queries: int, domain: Domain, budget: Budget, units: int) -> DualQueryPlan:
        """The plan of a run with this allowance, from public facts alone.

        Args:
            records: Number of records, public or noisy.
            queries: Number of queries before each gets its complement.
            domain: The domain of the table.
            budget: The ledger's budget.
            units: Nano-units that the run may spend.

        Returns:
            Rounds, draws and step, with their price.

        Raises:
            QueryError: The wanted error needs more than the allowance.

        Example:
            >>> import reticent as rt
            >>> plan = rt.DualQuery(rounds=5).plan(10_000, 20, rt.Domain(a=3, b=2), rt.Budget(rho=1), 10**9)
            >>> plan.rounds
            5
        """
        rounds, draws, step, replies, memory = self.rounds, self.draws, self.step, self.replies, self.memory
        if self.error is not None:
            # On a sample, half of the error and of the failure is what the sample may hide (002, section 4).
            half = 2 if self.sample == THEOREM else 1
            error, failure = self.error / half, self.failure / half
            wanted = textbook(records, 2 * queries, math.log(domain.size), error=error, failure=failure)
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
        """Play the game and audit its result. The same key and allowance continue an interrupted run after its paid
        rounds.

        Args:
            curator: The only way to the rows; it charges the ledger.
            workload: The queries to answer.
            allowance: Nano-units to spend at most.
            key: Names the run in the ledger.
            report: Called with public progress.

        Returns:
            The records played, as a hypothesis, and what is certified of them.

        Raises:
            QueryError: The workload or the plan is refused.
            BudgetError: The allowance is too small.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1), table.identity)
            >>> workload = rt.marginals(table.domain, 1)
            >>> run = rt.DualQuery(rounds=3).run(Curator(table, ledger), workload, allowance=10**9, key="run")
            >>> run.records
            3000.0
        """
        domain = curator.domain
        asked = ScalarQueries(workload, domain)
        refuse_beyond(asked.bytes, "DualQuery", "use a smaller workload")
        queries = query_player(workload, domain)
        steps = Steps(curator, allowance, key)
        if curator.records:
            kept = steps.left - self._closing(steps.left)
            each = self._one_way_units(kept, len(domain))
            self.plan(curator.records, len(queries), domain, curator.budget, kept - each * len(domain))
        records, uncertain = (curator.records, 0.0) if curator.records else self._total(curator, steps)
        closing = self._closing(steps.left)
        steps, audit = Steps(curator, steps.left - closing, key), Steps(curator, closing, key)
        measurements = self._one_ways(curator, steps, records)
        paid = bool(measurements) or not curator.records
        try:
            plan = self.plan(records, len(queries), domain, curator.budget, steps.left)
        except (BudgetError, QueryError):
            if not paid:
                raise
            plan = DualQueryPlan(records, 1, self.draws or FEWEST_DRAWS, STEP)  # its only round sees no data
        sizes, shares = np.array(domain.shape), _shares(measurements)
        rules = RecordMender.of(domain)
        game = Game(plan, queries, sizes, _player(self.player, None), seed=self.seed, shares=shares, rules=rules)
        drawn = hashlib.sha256()

        def draw(turn: int) -> np.ndarray:
            mechanism = plan.mechanism(turn)
            # Which records were played follows from what was drawn: the request is bound to that.
            scores = replace(queries.scores(game.scale(turn), float(mechanism.epsilon)), state=drawn.hexdigest())
            named, cost = steps.begin(f"round {turn}"), curator.budget.cost(mechanism.price() * plan.draws)
            if not steps.pays(cost):
                raise too_little(max(0, steps.left), curator.budget, "another round", needed=cost)
            settled = curator.select(scores, mechanism, draws=plan.draws, key=named)
            steps.paid(settled.cost)
            drawn.update(settled.values[0].tobytes())
            return settled.values[0]

        for turn in range(1, plan.rounds + 1):
            try:
                game.play(turn, draw)
            except BudgetError:
                # Others spent from the same ledger since the plan was made: what was played is still a release.
                if turn <= 2 and not paid:
                    raise
                break
            message = f"records meet {game.satisfied:.0%} of the drawn queries"
            report(Progress(turn, plan.rounds, message, 1 - steps.left / allowance))
        hypothesis = RecordsHypothesis(domain, game.played)
        if measurements:
            hypothesis.fit(measurements)
        delta = float(curator.budget.delta or USUAL_DELTA)
        notes = game.notes() | {"records_error": uncertain, "analyses": analyse(plan, delta).to_dict()}
        hypothesis, certificates, guarantees = audited(
            curator,
            workload,
            hypothesis,
            audit,
            records=float(records),
            records_error=uncertain,
            confidence=self.confidence,
            key=key,
        )
        if uncertain == 0 and not measurements and plan.step < 1:
            bound = self._bound(plan, game, 2 * len(queries), log_universe_of(workload, domain))
            notes |= {"theorem_error": bound, "shortfall": game.shortfall}
            if bound < VACUOUS:
                guarantees = (*guarantees, self._theorem(bound, hypothesis, workload, domain))
        return Outcome(hypothesis, tuple(measurements), certificates, float(records), notes, guarantees=guarantees)

    def _closing(self, units: int) -> int:
        """The units of the closing audit."""
        return int(max(0, units) * (checked_share(self.audit_share) or 0))

    def _one_way_units(self, units: int, attributes: int) -> int:
        """What each measured one-way marginal costs."""
        return int(max(0, units) * Fraction(str(self.refine))) // attributes

    def _bound(self, plan: DualQueryPlan, game: Game, queries: int, log_universe: float) -> float:
        """The theorem's bound for this run; on a sample, half of the failure probability covers the sampling error."""
        failure = self.failure if self.sample is None else self.failure / 2
        hidden = 0.0 if self.sample is None else sample_error(queries, sample=plan.records, failure=failure)
        played = game_bound(plan, queries, log_universe, rounds=game.rounds, shortfall=game.shortfall, failure=failure)
        return hidden + played

    def _theorem(
        self, bound: float, hypothesis: Hypothesis, workload: Workload | Conjunctions, domain: Domain
    ) -> Guarantee:
        return Guarantee(
            theorem="DualQuery (002): regret of the query player, sampling, and what the data player's replies missed",
            error=bound + VALUE_ROUNDING,
            confidence=1 - self.failure,
            snapshot=Snapshot(hypothesis).digest,
            workload=workload,
            domain=domain,
            weighted=True,
        )

    def _total(self, curator: Curator, steps: Steps) -> tuple[int, float]:
        """A noisy number of records, paid once; every guess and price uses it, never the true number (spec 1.1)."""
        named = steps.begin("total")
        units = int(max(0, steps.left) * TOTAL_SHARE)
        if units < 1:
            needed = math.ceil(1 / TOTAL_SHARE)
            raise too_little(max(0, steps.left), curator.budget, "a count of the records and 2 rounds", needed=needed)
        noise = noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units)
        settled = curator.measure([count()], noise, key=named)
        steps.paid(settled.cost)
        records, uncertain = counted(round(float(settled.values[0])), settled.noises[0].sd, pure=curator.budget.pure)
        return round(records), uncertain

    def _one_ways(self, curator: Curator, steps: Steps, records: int) -> list[Measurement]:
        queries = [Marginal((name,)) for name in curator.domain.names]
        named = steps.begin("refine")
        each = self._one_way_units(steps.left, len(queries))
        if each == 0:
            return []
        noise = noise_costing(curator.budget, curator.moved(of_one_marginal(curator.neighbours)), each)
        settled = curator.measure(queries, noise, key=named)
        steps.paid(settled.cost)
        return [
            Measurement(query, values / records, drawn.sd / records, drawn.describe())
            for query, values, drawn in zip(queries, settled.values, settled.noises, strict=True)
        ]


def _shares(measurements: list[Measurement]) -> list[np.ndarray] | None:
    """Noisy one-way marginals as distributions to start records from."""
    if not measurements:
        return None
    return [np.maximum(m.values.ravel(), 0.0) + START_FLOOR * m.sd for m in measurements]


def log_universe_of(workload: Workload | Conjunctions, domain: Domain) -> float:
    """Logarithm of the universe over the attributes in the workload; records that agree on them have the same
    answers.
    """
    return math.log(domain.cells(ScalarQueries(workload, domain).attributes))


def _player(player: DataPlayer | str, work: int | None) -> DataPlayer:
    """The data player of this name, with its work limit."""
    if not isinstance(player, str):
        if work is None:
            return player
        if player != Search():
            raise QueryError("work= limits a player given by its name; give the limit to the player itself")
        player = "search"
    if player == "search":
        return Search(work)
    if player == "exact":
        return IntegerProgram() if work is None else IntegerProgram(work)
    raise QueryError(f"player={player!r} is unknown; use 'search' or 'exact'")


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else str(value)
