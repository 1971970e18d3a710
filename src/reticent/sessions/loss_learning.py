"""A late start: what losses look at is learned before their models are audited, where a session has bought no start.

A hypothesis that has seen no pair of a loss' attributes is far from its minimiser, and an audit of it is money lost. A
private minimiser answers that one loss; a start at its price makes audits pass for this loss and for others. It is an
investment (spec answers 4), within what the rule allows, bought once, and written down before anything is paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from reticent.errors import BudgetError
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.learning import learn, refitted
from reticent.losses.losses import ConvexLoss
from reticent.releases.adaptive import Adaptive
from reticent.sessions.investments import Investments
from reticent.sessions.journal import Journal
from reticent.sessions.resume import WARM, understood
from reticent.sessions.state import State
from reticent.sessions.warm_start import default_workload

LATE = f"{WARM}:late"
"""Key of what a late start buys."""
LEAST_SHARE = Fraction(1, 100)
"""Of the budget: a late start for less would tell next to nothing, and there is only one."""


def unmeasured(knowledge: Knowledge, sets: Iterable[Iterable[str]]) -> bool:
    """Whether a pair of attributes within one of the sets is covered by no measured marginal."""
    domain, measured = knowledge.domain, [set(marginal.attributes) for marginal in knowledge.marginals]
    for attributes in sets:
        names = domain.canonical(attributes)
        for pair in combinations(names, min(2, len(names))):
            if not any(covered >= set(pair) for covered in measured):
                return True
    return False


def late_units(
    state: State, rule: Investments | None, losses: Sequence[ConvexLoss], singly: int | None, analyst: str | None
) -> int:
    """What a start would cost that is worth buying before these losses are audited, in ledger units; 0 for none.

    At most what their minimisers cost, if these can be had (`singly`), and what the rule and the analyst's cap allow.
    """
    settings = state.journal.settings() or {}
    if rule is None or settings.get("share") or "late" in settings or state.journal.start() is not None:
        return 0
    units = rule.left if singly is None else min(rule.left, singly)
    if units < LEAST_SHARE * state.budget.limit or units > state.ledger.remaining_for(analyst):
        return 0
    return units if unmeasured(state.knowledge, [loss.on(state.domain).attributes for loss in losses]) else 0


def start_late(
    state: State, rule: Investments, units: int, *, key: str | None, analyst: str | None, limit: int
) -> None:
    """Buy the start for whoever asked first, and go on from it.

    `limit` is what the rest of the request may cost: after a crash its key goes on within the same quote.
    """
    settings = state.journal.settings() or {}
    rule.invest(LATE, units)
    asked = {"late": units, "late for": analyst, "late key": key, "late limit": limit}
    state.journal.save_settings({**settings, **asked})
    state.learn(finish_late(state.curator, state.journal, state.knowledge))


def bought_for(state: State, key: str | None) -> tuple[tuple[str, ...], int | None]:
    """Keys of the late start that the request with this key has paid for, and what the rest of it may cost."""
    settings = state.journal.settings() or {}
    if key is None or settings.get("late key") != key or not state.ledger.charged(LATE):
        return (), None
    return (LATE,), settings["late limit"]


def finish_late(curator: Curator, journal: Journal, knowledge: Knowledge) -> Knowledge:
    """Buy the late start that was written down, or read again what it bought; the same where it is finished.

    Where it cannot be finished, what it has measured is learned all the same.
    """
    settings = journal.settings() or {}
    units = settings.get("late", 0)
    if not units or settings.get("late fitted"):
        return knowledge
    before = {marginal.ledger_id for marginal in knowledge.marginals}
    warm = Adaptive(audit_share=Fraction(0), histogram_cells=0, at_once=True)
    asked = default_workload(curator.domain).on(curator.domain)
    outcome = None
    if not journal.forfeited(LATE):  # two crashes lose what was paid for
        with suppress(BudgetError):  # others have spent what the rest needs
            outcome = warm.run(curator, asked, allowance=units, key=LATE, analyst=settings.get("late for"))
    waiting = knowledge.unfitted or bool(knowledge.marginals or knowledge.groups or len(knowledge.queries))
    if outcome is not None:
        knowledge = replace(knowledge, current=Snapshot(outcome.hypothesis))
    found = [bought for bought in journal.bought(LATE) if bought.sequence not in before]
    for bought in found:
        knowledge = learn(knowledge, understood(journal, knowledge, bought, declared=False), fitted=True)
    if found:
        # Of an unfinished start no hypothesis has seen anything.
        knowledge = refitted(replace(knowledge, unfitted=int(bool(waiting) or outcome is None)))
        journal.save_snapshot(knowledge)
    journal.save_settings({**settings, "late fitted": True})
    return knowledge
