"""Opening a session: its first terms are written before anything is spent, and rule every later opening."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from reticent.algorithms.epochs import EpochPlan, Epochs
from reticent.algorithms.knowledge import Knowledge
from reticent.algorithms.online import learn, refitted, understand
from reticent.algorithms.outcome import Report
from reticent.algorithms.tails import noise_failure
from reticent.epoch_planning import ENGINES, epoch_plan
from reticent.errors import LedgerError, QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import choose
from reticent.hypotheses.support import SupportHypothesis
from reticent.journal import ASK, Journal
from reticent.kernel.curator import Curator
from reticent.planning import Setting, expected, gaussian, plain_answers
from reticent.publications import Publication, behind, budget_of
from reticent.queries.groups import Groups
from reticent.queries.workload import Workload, marginals
from reticent.releases import Release
from reticent.warmup import AUDIT_SHARE, certified_knowledge, untouched, warm_units, warm_up

USUAL_QUERIES = 10_000
"""How many questions a threshold engine is planned for when nobody says."""
WARM_SHARE = 0.5
"""Of the budget, for a warm start (online.md 3)."""
PUBLIC_SEED = 20240301
"""Draws a support: public post-processing, the same at every opening."""


@dataclass(frozen=True, eq=False)
class Terms:
    """What the caller of `Session.open` chose; only the first opening of a ledger counts."""

    engine: str = "default"
    warm_start: float | None = None
    workload: Workload | None = None
    start: Release | None = None
    queries: int | None = None
    support: int | None = None
    confidence: float = 0.95
    error: float | None = None

    def __post_init__(self) -> None:
        if self.engine not in ("default", *ENGINES):
            raise QueryError(f"engine={self.engine!r} is unknown; use 'default', 'textbook' or 'tuned'")
        if self.warm_start is not None and not 0 <= self.warm_start <= 1 - AUDIT_SHARE:
            bound = float(1 - AUDIT_SHARE)
            raise QueryError(f"warm_start={self.warm_start!r} is a share of the budget from 0 to {bound}")
        if self.error is not None and not 0 < self.error < 1:
            raise QueryError(f"error={self.error!r} is the wanted share of the table, above 0 and below 1")


def chosen_share(curator: Curator, terms: Terms) -> float:
    """What the caller said; else half the budget, or nothing where plain answers should do better.

    Plain answers do better when so few are coming that all of them err less than a fit is expected to; with a wanted
    error, when all of them cost less than a fit, or when no fit is expected to be that good (online.md 4).
    """
    if terms.warm_start is not None:
        return terms.warm_start
    if curator.records is None or curator.budget.pure or (terms.queries is None and terms.error is None):
        return WARM_SHARE
    setting = Setting(
        records=curator.records,
        log_universe=log(2),
        queries=terms.queries or 1,
        failure=1 - terms.confidence,
        pure=False,
        amount=curator.budget.amount(curator.remaining),
    )
    fit = expected(setting, curator.domain, share=WARM_SHARE)
    if terms.error is None:
        return 0.0 if gaussian(setting) < fit else WARM_SHARE
    affordable = terms.queries is not None and terms.queries <= plain_answers(setting, terms.error) * WARM_SHARE
    return 0.0 if affordable or fit > terms.error else WARM_SHARE


def know(curator: Curator, journal: Journal, terms: Terms, progress: Report) -> tuple[Knowledge, Epochs | None]:
    """All that the ledger's session knows; a new session spends its warm start here."""
    settings = journal.settings()
    if settings is None:
        settings = _settle_terms(curator, journal, terms)
    elif settings["engine"] != terms.engine:
        raise LedgerError(
            f"this ledger's session runs engine {settings['engine']!r}, not {terms.engine!r}: open it with that engine"
        )
    if terms.engine == "default":
        return _remember(curator, journal, warm_up(curator, journal, settings, terms.workload, progress)), None
    return _epochs(curator, journal, settings)


def _settle_terms(curator: Curator, journal: Journal, terms: Terms) -> dict[str, Any]:
    settings: dict[str, Any] = {"engine": terms.engine, "confidence": terms.confidence}
    if terms.engine == "default":
        share = 0.0 if terms.start is not None else chosen_share(curator, terms)
        settings |= {"share": share, "attempt": 0}
        settings["warm"], settings["audit"] = warm_units(curator.remaining, share)
        if terms.start is not None:
            journal.save_start(_fitting(terms.start, curator))
    else:
        if terms.start is not None:
            raise QueryError(
                f"engine={terms.engine!r} starts from uniform: its bound on updates needs that; drop start="
            )
        queries = terms.queries or USUAL_QUERIES
        settings |= {"queries": queries, "support": terms.support}
        knowledge = untouched(curator, journal, _uniform(curator, terms.support))
        failure = noise_failure(terms.confidence, knowledge.records_error)
        if not failure > 0:
            raise QueryError(f"confidence {terms.confidence:.9g} is beyond what a noisy number of records allows")
        setting = Setting(
            records=int(knowledge.records),
            log_universe=max(knowledge.current.log_size, log(2)),
            queries=queries,
            failure=failure,
            pure=curator.budget.pure,
            amount=curator.budget.amount(curator.remaining),
        )
        settings["plan"] = epoch_plan(terms.engine, setting).widened(knowledge.records_error).to_dict()
    journal.save_settings(settings)
    return settings


def _fitting(start: Release, curator: Curator) -> Release:
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
    budget_of([Publication("", curator.budget, 0), *behind(start.facts)])  # refuses what together protects nobody
    return start


def _uniform(curator: Curator, support: int | None) -> Hypothesis:
    if support is not None:
        return SupportHypothesis.uniform(curator.domain, support, np.random.default_rng(PUBLIC_SEED))
    return choose(curator.domain, marginals(curator.domain, 1)).build(np.random.default_rng(PUBLIC_SEED))


def _remember(curator: Curator, journal: Journal, knowledge: Knowledge) -> Knowledge:
    """Takes in what earlier runs paid for; every value comes from its settled event."""
    stored = journal.latest()
    seen, waiting = (0, 0) if stored is None else (stored.sequence, stored.unfitted)
    late = sum(bought.sequence > seen for bought in journal.published())
    for bought in journal.bought(ASK):
        settled = curator.measure(bought.queries, bought.noises, key=bought.key, analyst=bought.analyst)
        measured = understand(knowledge, bought.queries, bought.noises, settled)
        knowledge = learn(knowledge, measured, fitted=bought.sequence < seen)
    knowledge = replace(knowledge, unfitted=knowledge.unfitted + waiting + late)
    if late:  # a release was made since
        knowledge = refitted(knowledge)
        journal.save_snapshot(knowledge)
    return knowledge


def _epochs(curator: Curator, journal: Journal, settings: dict[str, Any]) -> tuple[Knowledge, Epochs]:
    """The mechanism with every update made again; an epoch that was open counts as spent (spec 2.1)."""
    knowledge = untouched(curator, journal, _uniform(curator, settings["support"]))
    epochs = Epochs(
        curator,
        EpochPlan.from_dict(settings["plan"]),
        knowledge,
        confidence=settings["confidence"],
        certified=not isinstance(knowledge.current.thaw(), SupportHypothesis),
        opened=journal.epochs(),
        tests=journal.tests(),
        log_tests=journal.save_tests,
    )
    for bought in journal.bought(ASK):
        settled = curator.measure(bought.queries, bought.noises, key=bought.key, analyst=bought.analyst)
        query = bought.queries[0]
        assert not isinstance(query, Groups), "threshold engines measure groups one by one"
        epochs.absorb(query, np.asarray(settled.values[0]) / knowledge.records, settled.ledger_id)
        measured = understand(knowledge, bought.queries, bought.noises, settled)
        knowledge = learn(knowledge, measured, fitted=True)
    return certified_knowledge(journal, knowledge.with_current(epochs.snapshot)), epochs
