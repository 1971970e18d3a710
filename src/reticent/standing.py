"""A session's standing: what is guaranteed, spent, certified and publishable, and how far answers generalise."""

from __future__ import annotations

import platform
from math import isfinite
from typing import TYPE_CHECKING, Any

from reticent.algorithms.generalisation import expected_bias, generalisation
from reticent.algorithms.outcome import Outcome
from reticent.publications import budget_of, statement
from reticent.queries.workload import Workload
from reticent.releases import Release

if TYPE_CHECKING:
    from reticent.session import Session


def standing(session: Session) -> dict[str, Any]:
    """JSON-ready; nothing in it depends on rows beyond what was released."""
    knowledge, budget, total = session._knowledge, session.budget, statement(session.publications)
    facts: dict[str, Any] = {
        "table": session.name,
        "engine": session.engine,
        "neighbours": session._curator.neighbours,
        "unit": session._identity["unit"],
        "budget": budget.describe(),
        "spent": session.spent,
        "remaining": session.remaining,
        "guarantee": total["privacy"],
        "builds_on": total["publications"][1:],
        "certificates": [
            {
                "kind": c.kind,
                "sets": len(c.sets),
                "bound": c.bound if isfinite(c.bound) else None,  # JSON knows no infinity
                "confidence": c.confidence,
            }
            for c in session.certificates
        ],
        "measured": len(knowledge.marginals) + len(knowledge.queries) + len(knowledge.groups),
        "generalisation": _generalisation(session),
    }
    if session._epochs is not None:
        epochs, plan = session._epochs, session._epochs.plan
        facts["epochs"] = {
            "error": plan.error,
            "planned": plan.epochs,
            "opened": epochs.opened,
            "updates": epochs.updates,
            "questions": plan.queries,
            "tested": epochs.tests,
            "certified": epochs.certified,
        }
    return facts


def _generalisation(session: Session) -> dict[str, Any]:
    """What answers within their error say about the population the records were drawn from (spec 8.7)."""
    budget = budget_of(session.publications)
    facts: dict[str, Any] = {"expected_bias": expected_bias(budget), "confidence": session.confidence}
    certificates = session.certificates
    if certificates:
        newest = certificates[-1]
        failure, neighbours = 1 - session.confidence, session._curator.neighbours
        bound = generalisation(budget, lambda b: newest.bound_at(1 - b), failure=failure, neighbours=neighbours)
        facts["population_error"] = bound if bound < 1 else None
    return facts


def published(session: Session) -> Release:
    """The newest certified snapshot with its certificates; without one, the working hypothesis."""
    knowledge = session._knowledge
    newest = knowledge.certified[-1] if knowledge.certified else None
    snapshot = newest.snapshot if newest else knowledge.current
    certificates = newest.certificates if newest else ()
    notes = {"origin": "session", "records_error": knowledge.records_error}
    outcome = Outcome(snapshot.thaw(), tuple(knowledge.measurements()), certificates, knowledge.records, notes)
    return Release.of(outcome, _facts(session))


def _facts(session: Session) -> dict[str, Any]:
    from reticent import __version__

    return {
        "name": session.name,
        "unit": session._identity["unit"],
        "neighbours": session._curator.neighbours,
        "version": session._identity["version"],
        **statement(session.publications),
        "algorithm": {"algorithm": "Session", "engine": session.engine},
        "workload": Workload().to_dict(),
        "reticent": __version__,
        "python": platform.python_version(),
    }
