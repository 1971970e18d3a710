"""Opening a session: its first terms are recorded before anything is spent, and apply to every later opening."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import inf, log
from typing import Any

import numpy as np

from reticent.errors import LedgerError, QueryError, given
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import CLIQUE_CELLS, TREE_CELLS, choose
from reticent.hypotheses.junction_tree.tree import check_rules
from reticent.hypotheses.memory import refuse_beyond
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.knowledge.guarantees import Report
from reticent.knowledge.learning import learn, understand
from reticent.knowledge.publications import PublishedBudget, behind, budget_of, composing
from reticent.knowledge.request import Records
from reticent.knowledge.tails import PLAIN_RULE, noise_failure
from reticent.losses.losses import ConvexLoss
from reticent.planning.convex import ENGINES as CONVEX_ENGINES
from reticent.planning.convex import ConvexPlan, convex_plan
from reticent.planning.plan import Setting
from reticent.planning.smooth import Smooth
from reticent.planning.thresholds import ENGINES, EpochPlan, epoch_plan
from reticent.queries.groups import Groups
from reticent.queries.workload import Workload, marginals
from reticent.releases.convex_plan import Task
from reticent.releases.release import Release
from reticent.sessions.convex import ConvexEngine, learn_again, save_failed_guess
from reticent.sessions.convex_counts import ConvexCounts
from reticent.sessions.convex_epochs import WITHIN, ConvexEpochs
from reticent.sessions.default import DefaultEngine
from reticent.sessions.engine import SessionEngine
from reticent.sessions.epochs import Epochs
from reticent.sessions.investments import Investments
from reticent.sessions.journal import ASK, Journal
from reticent.sessions.loss_audits import finish_late
from reticent.sessions.resume import indexed, with_certificates, with_means, with_models, with_purchases
from reticent.sessions.start import PURPOSES, announced_error, investable, losses_share, told_share, untold_start
from reticent.sessions.state import State
from reticent.sessions.threshold import ThresholdEngine
from reticent.sessions.warm_start import (
    AUDIT_SHARE,
    HELD_COPIES,
    OFFSET_SHARE,
    PUBLIC_SEED,
    USEFUL,
    placed_columns,
    untouched,
    warm_units,
    warm_up,
)

USUAL_QUERIES = 10_000
"""The default number of questions for which a threshold engine is planned."""
USUAL_LOSSES = 400
"""The default number of losses for which a convex engine is planned."""

OWN_LOSSES = {"losses": f"but with {' and '.join(map(repr, ('default', *CONVEX_ENGINES)))}"}


@dataclass(frozen=True, eq=False)
class Opening:
    """The arguments of `Session.open`; only the first opening of a ledger uses them."""

    engine: str = "default"
    warm_start: float | None = None
    workload: Workload | None = None
    start: Release | None = None
    queries: int | None = None
    support: int | Smooth | None = None
    confidence: float = 0.95
    error: float | Records | None = None
    losses: tuple[ConvexLoss, ...] | None = None
    purpose: str | None = None
    useful: float | None = None

    def __post_init__(self) -> None:
        if self.engine not in OPENERS:
            known = " or ".join(map(repr, OPENERS))
            raise QueryError(f"engine={self.engine!r} is unknown; use {known}")
        if self.warm_start is not None and not 0 <= self.warm_start <= 1 - AUDIT_SHARE:
            bound = float(1 - AUDIT_SHARE)
            raise QueryError(f"warm_start={self.warm_start!r} is a share of the budget from 0 to {bound}")
        if isinstance(self.error, Records):
            if self.engine != "default" or self.losses is not None:
                raise QueryError("error=rt.records(...) announces counts to the default engine; give a number here")
        elif self.error is not None and not 0 < self.error < (1 if self.losses is None else inf):
            raise QueryError(f"error={self.error!r} is the wanted share of the table, above 0 and below 1")
        if self.purpose is not None and not (isinstance(self.purpose, str) and self.purpose in PURPOSES):
            raise QueryError(f"purpose={given(self.purpose)} is unknown; use {' or '.join(map(repr, PURPOSES))}")
        if self.useful is not None and not 0 < self.useful < 1:
            raise QueryError(
                f"useful={self.useful!r} must lie above 0 and below 1, for example {USEFUL}: a share of the table"
            )
        for name, needed in self._unused().items():
            if getattr(self, name) is not None:
                raise QueryError(f"{name}= has no effect {needed}; leave it out")

    @property
    def told(self) -> bool:
        """Whether the caller stated how the budget will be used or what to start from; the planner then decides."""
        said = (self.warm_start, self.workload, self.start, self.queries, self.error, self.losses)
        return any(one is not None for one in said)

    def composing(self, budget: Budget, found: Sequence[PublishedBudget]) -> Budget:
        """The budget of a new ledger: the default engine needs Gaussian noise only."""
        behind_start = () if self.start is None or not self.start.stated else behind(self.start.facts)
        return composing(budget, [*found, *behind_start]) if self.engine == "default" else budget

    def _unused(self) -> dict[str, str]:
        """Arguments without effect, and the reason."""
        untold = ("purpose", "useful")
        if self.engine in CONVEX_ENGINES:
            why = f"with engine={self.engine!r}, which starts from uniform"
            return dict.fromkeys(("warm_start", "workload", *untold), why)
        if self.engine != "default":
            why = f"with engine={self.engine!r}, which starts from uniform"
            return dict.fromkeys(("warm_start", "workload", "error", *untold), why) | OWN_LOSSES
        others = ", ".join(repr(name) for name in OPENERS if name != "default")
        unused = {"support": f"with the default engine, only with {others}"}
        if self.start is not None:
            planned = () if self.losses is not None else ("queries", "error")
            unused |= dict.fromkeys(("warm_start", "workload", *planned), "with start=, which replaces it")
        if self.told:
            said = "where warm_start=, workload=, start=, queries=, error= or losses= says what comes"
            unused |= dict.fromkeys(untold, said)
        elif self.purpose is not None:
            unused |= {"useful": f"with purpose={self.purpose!r}, which decides"}
        return unused


def open_engine(curator: Curator, journal: Journal, opening: Opening, progress: Report) -> SessionEngine:
    """The engine of this ledger's session with all its knowledge; a new session buys its warm start here.

    The engine is chosen only here, by the terms of the first opening.
    """
    check_rules(curator.domain)
    settings = journal.settings()
    if settings is None:
        settings = _settled_terms(curator, journal, opening)
    elif settings["engine"] != opening.engine:
        theirs = settings["engine"]
        raise LedgerError(
            f"this ledger's session runs engine {theirs!r}, not {opening.engine!r}: open it with that engine"
        )
    return OPENERS[opening.engine](curator, journal, settings, opening, progress)


def _default(
    curator: Curator, journal: Journal, settings: dict[str, Any], opening: Opening, progress: Report
) -> DefaultEngine:
    knowledge = finish_late(curator, journal, warm_up(curator, journal, settings, opening.workload, progress))
    knowledge, refitted = with_purchases(journal, knowledge)
    if refitted:
        journal.save_snapshot(knowledge)
    knowledge = replace(indexed(journal, with_means(journal, with_models(journal, knowledge))), unit=curator.unit)
    allowance = settings.get("allowance")  # ledgers of earlier versions have no such rule
    few = settings.get("purpose") == "few"
    investments = None if allowance is None else Investments(journal, curator, allowance, audits=few)
    return DefaultEngine(State(curator, journal, knowledge), opening.confidence, investments, settings.get("losses"))


def _threshold(
    curator: Curator, journal: Journal, settings: dict[str, Any], opening: Opening, progress: Report
) -> ThresholdEngine:
    """The mechanism with every update repeated; an epoch that was open counts as spent (spec 2.1)."""
    knowledge = untouched(curator, journal, _uniform(curator, settings))
    epochs = Epochs(
        curator,
        EpochPlan.from_dict(settings["plan"]),
        knowledge,
        confidence=settings["confidence"],
        opened=journal.epochs(),
        tests=journal.tests(),
        log_tests=journal.save_tests,
    )
    for bought in journal.bought(ASK):
        settled, query = journal.released(bought, curator.domain), bought.queries[0]
        assert not isinstance(query, Groups), "threshold engines measure groups one by one"
        epochs.absorb(query, np.asarray(settled.values[0]) / knowledge.records, settled.ledger_id)
        measured = understand(knowledge, bought.queries, bought.noises, settled)
        knowledge = learn(knowledge, measured, fitted=True)
    knowledge = with_certificates(journal, knowledge.with_current(epochs.snapshot))
    knowledge = replace(with_models(journal, knowledge), unit=curator.unit)
    return ThresholdEngine(State(curator, journal, knowledge), epochs)


def _convex(
    curator: Curator, journal: Journal, settings: dict[str, Any], opening: Opening, progress: Report
) -> ConvexEngine:
    """The mechanism with every update repeated from the recorded parameters; an open epoch counts as spent."""
    knowledge = untouched(curator, journal, _uniform(curator, settings))
    epochs = ConvexEpochs(
        curator,
        ConvexPlan.from_dict(settings["plan"]),
        knowledge.current,
        opened=journal.epochs(),
        tests=journal.tests(),
        log_tests=journal.save_tests,
        log_guess=partial(save_failed_guess, journal),
    )
    counts = ConvexCounts(curator, epochs)
    learn_again(journal, epochs, counts)
    for bought in journal.bought(ASK):
        settled = journal.released(bought, curator.domain)
        knowledge = learn(knowledge, understand(knowledge, bought.queries, bought.noises, settled), fitted=True)
    knowledge = with_models(journal, with_certificates(journal, knowledge.with_current(epochs.snapshot)))
    state = State(curator, journal, replace(knowledge, unit=curator.unit))
    return ConvexEngine(state, epochs, counts, settings["confidence"])


OPENERS: dict[str, Callable[[Curator, Journal, dict[str, Any], Opening, Report], SessionEngine]] = {
    "default": _default,
    **dict.fromkeys(ENGINES, _threshold),
    **dict.fromkeys(CONVEX_ENGINES, _convex),
}
"""How each engine is opened and resumed from the journal; a new engine is one more line."""


def _settled_terms(curator: Curator, journal: Journal, opening: Opening) -> dict[str, Any]:
    settings: dict[str, Any] = {"engine": opening.engine, "confidence": opening.confidence}
    if opening.engine == "default":
        settings |= _default_terms(curator, journal, opening)
        if opening.start is not None:
            journal.save_start(_fitting(opening.start, curator))
    else:
        if opening.start is not None:
            raise QueryError(
                f"engine={opening.engine!r} starts from uniform: its bound on updates needs that; drop start="
            )
        terms = _convex_terms if opening.engine in CONVEX_ENGINES else _threshold_terms
        settings |= {"possible": True, **terms(curator, journal, opening)}
    journal.save_settings(settings)
    return settings


def _default_terms(curator: Curator, journal: Journal, opening: Opening) -> dict[str, Any]:
    """The terms of the default engine: what is bought first, and what may be invested later (spec answers 4)."""
    told: dict[str, Any] = {}
    error = announced_error(curator, journal, opening.error)
    count = None if opening.losses is None else opening.queries or USUAL_LOSSES
    if opening.start is not None:
        share, told["purpose"] = 0.0, "told"
    elif opening.losses is not None and opening.warm_start is None:
        share = losses_share(curator, opening.losses, count or 1, error, opening.confidence)
        told["purpose"] = "told"
    elif opening.told:
        share, told["purpose"] = (
            told_share(curator, journal, opening.warm_start, opening.queries, error, opening.confidence),
            "told",
        )
    else:
        decided = untold_start(curator, journal, opening.purpose, opening.useful or USEFUL, opening.confidence)
        share, told = decided.share, decided.to_dict()
    terms = {
        "share": share,
        "attempt": 0,
        "joint": True,
        "in_records": True,
        **told,
        **warm_units(curator.remaining, share),
    }
    if error is not None:
        # Each question will request that error and pay for itself.
        terms |= {"typical": 0, "error": error}
        if isinstance(opening.error, Records):
            terms["counts"] = True
        if share == 0 and opening.start is None:
            terms["plain"] = PLAIN_RULE
    if count is not None:
        # Certificates for classes of questions do not bound models.
        terms |= {"losses": count, "audit": 0, "typical": 0}
    if share and placed_columns(curator):
        taken = terms["warm"] + terms["audit"] + terms["typical"]
        terms["offsets"] = min(int(curator.remaining * OFFSET_SHARE), curator.remaining - taken)
    return terms | {"allowance": investable(curator, journal, terms)}


def _convex_terms(curator: Curator, journal: Journal, opening: Opening) -> dict[str, Any]:
    """The plan for losses like the declared ones; refused if it would certify less than zero parameters achieve."""
    if curator.budget.pure:
        raise QueryError(f"engine={opening.engine!r} adds Gaussian noise: give the budget a delta, or state it in rho")
    losses, count = opening.losses, opening.queries or USUAL_LOSSES
    if losses is None:
        raise QueryError(f"engine={opening.engine!r} plans for losses like those to come: state them in losses=[...]")
    if isinstance(opening.support, Smooth):
        raise QueryError("rt.Smooth computes a support for counts: give support= a number of records instead")
    terms: dict[str, Any] = {"queries": count, "support": opening.support, "tree_cells": TREE_CELLS}
    knowledge = untouched(curator, journal, _uniform(curator, terms))
    facts = (losses, curator.domain, curator.neighbours, knowledge.records, count, 1 - opening.confidence)
    task = Task(*facts, log(2), knowledge.records_error, WITHIN)
    # Only the attributes of the losses: updates change nothing else (spec 8.5).
    sampled = opening.support is not None
    universe = knowledge.current.log_size if sampled else log(curator.domain.cells(task.attributes))
    task = replace(task, log_size=max(universe, log(2)))
    assert not isinstance(opening.error, Records), "an excess risk"
    plan = convex_plan(
        opening.engine, task, float(curator.budget.amount_of_other_noise(curator.remaining)), opening.error
    )
    return terms | {"losses": [loss.to_dict() for loss in losses], "plan": plan.to_dict()}


def _threshold_terms(curator: Curator, journal: Journal, opening: Opening) -> dict[str, Any]:
    """Queries, support and plan; for a declared smooth table the support's size and gamma (003, Lemmas 3.5 and 3.6)."""
    queries, support = opening.queries or USUAL_QUERIES, opening.support
    terms: dict[str, Any] = {"queries": queries, "support": support, "tree_cells": TREE_CELLS}
    gamma, share = 0.0, 1.0
    if isinstance(support, Smooth):
        if curator.domain.impossible:
            raise QueryError("rt.Smooth draws from the whole universe: leave the domain's impossible rules out with it")
        gamma, share = support.error, 0.5  # the other half of the failures is that of the sample
        records = support.records(curator.domain, queries=queries, failure=(1 - opening.confidence) / 2)
        # Questions fixed in advance are independent of records drawn now, but not of a seed known before.
        terms |= {"support": records, "support_seed": secrets.randbits(63), "smooth": asdict(support)}
    knowledge = untouched(curator, journal, _uniform(curator, terms))
    failure = noise_failure(1 - share * (1 - opening.confidence), knowledge.records_error)
    if not failure > 0:
        raise QueryError(f"confidence {opening.confidence:.9g} is beyond what a noisy number of records allows")
    delta, most = curator.budget.delta, curator.most or 1
    setting = Setting(
        # A person with `most` rows changes a count by `most`: the plan is that of a table with fewer records.
        records=max(1, int(knowledge.records) // most),
        log_universe=max(knowledge.current.log_size, log(2)),
        queries=queries,
        failure=failure,
        pure=curator.budget.pure,
        amount=float(curator.budget.amount_of_other_noise(curator.remaining)),
        delta=None if delta is None else float(delta),
        gamma=gamma,
    )
    plan = epoch_plan(opening.engine, setting).of_rows(most).widened(knowledge.records_error)
    return terms | {"plan": plan.to_dict()}


def _fitting(start: Release, curator: Curator) -> Release:
    if not start.stated:
        raise QueryError("start= was fitted to measurements made elsewhere and states no privacy; start from a release")
    compared = {
        "domain": (start.domain.fingerprint, curator.domain.fingerprint),
        "unit of privacy": (start.facts["unit"], curator.unit),
        "kind of neighbours": (start.facts["neighbours"], curator.neighbours),
        "table version": (start.facts.get("version"), curator.version),
        "number of records": (start.records if curator.records is not None else None, curator.records),
    }
    for name, (theirs, ours) in compared.items():
        if theirs != ours:
            raise QueryError(f"the release was made for another {name}; start from one of the same table")
    budget_of([PublishedBudget("", curator.budget, 0), *behind(start.facts)])  # refuses vacuous sums
    return start


def _uniform(curator: Curator, settings: dict[str, Any]) -> Hypothesis:
    """The uniform hypothesis; sessions of earlier versions always used the largest tree and are replayed on it."""
    domain, support = curator.domain, settings["support"]
    generator = np.random.default_rng(settings.get("support_seed", PUBLIC_SEED))
    if support is not None:
        return SupportHypothesis.uniform(domain, support, generator)
    tree_cells = settings.get("tree_cells", CLIQUE_CELLS)
    choice = choose(domain, marginals(domain, 1), tree_cells=tree_cells)
    refuse_beyond(HELD_COPIES * choice.bytes, "the session", "use fewer or coarser attributes, or support=")
    return choice.build(generator)
