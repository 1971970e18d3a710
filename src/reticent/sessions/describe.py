"""A session's public facts: guarantee, spending, certificates, releases, and generalisation to the population."""

from __future__ import annotations

import platform
from math import comb, isfinite
from typing import TYPE_CHECKING, Any

from reticent.knowledge.certificates import Certificate
from reticent.knowledge.guarantees import Outcome
from reticent.knowledge.population import population_facts
from reticent.knowledge.publications import budget_of, statement
from reticent.queries.workload import Workload
from reticent.releases.release import Release
from reticent.sessions.start import opening_line
from reticent.sessions.warm_start import AUDIT_SHARE, audited_bound

if TYPE_CHECKING:
    from reticent.sessions.session import Session


def describe_session(session: Session) -> dict[str, Any]:
    """The public facts of a session as plain values; they depend on rows only through released values."""
    knowledge, budget, total = session.state.knowledge, session.budget, statement(session.publications)
    facts: dict[str, Any] = {
        "table": session.name,
        "engine": session.engine,
        "neighbours": session.state.curator.neighbours,
        "unit": session.state.curator.unit,
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
        "opening": opened_with(session),
        "predicted": _predicted(session),
        "uncovered": _uncovered(session),
        "typical": [
            {
                "distribution": error.distribution["distribution"],
                "sets": len(error.distribution["sets"]),
                "share": error.share,
                "bound": error.bound if isfinite(error.bound) else None,
                "confidence": error.confidence,
            }
            for error in session.typical
        ],
        "measured": len(knowledge.marginals) + len(knowledge.queries) + len(knowledge.groups),
        "generalisation": _generalisation(session),
        "hypothesis": {"representation": knowledge.current.kind, "notes": list(session.answering.notes)},
    }
    if session.domain.impossible:
        facts["impossible"] = [rule.text for rule in session.domain.impossible]
    return {**facts, **session.answering.facts()}


def opened_with(session: Session) -> str | None:
    """The line that states the decision of a default opening."""
    settings, knowledge = session.state.journal.settings(), session.state.knowledge
    boxes = [c.bound for c in session.certificates if c.kind == "boxes" and isfinite(c.bound)]
    return (
        None
        if settings is None
        else opening_line(settings, session.budget, knowledge.records, boxes[0] if boxes else None)
    )


def _predicted(session: Session) -> dict[str, Any] | None:
    """The predicted bound of the warm start's audit of boxes, recorded before the audit was paid."""
    told = session.state.journal.prediction()
    return None if told is None else {"kind": "boxes", "order": told["order"], "bound": told["bound"]}


def _uncovered(session: Session) -> list[dict[str, Any]]:
    """Classes without a certificate, the narrowest of each kind, and the default price of `certify` for them.

    `expected` is the bound that this price is expected to buy, if the warm start has predicted it.
    """
    domain, found = session.domain, []
    units = int(session.budget.limit * AUDIT_SHARE)
    price = session.budget.amount(units)
    for kind in ("boxes", "predicates"):
        covered = max((_order(c, len(domain)) for c in session.certificates if c.kind == kind), default=0)
        if covered < len(domain):
            told = {"kind": kind, "order": covered + 1, "price": price, "affordable": price <= session.remaining}
            expected = _expected(session, covered + 1, units) if kind == "predicates" else None
            found.append(told if expected is None else told | {"expected": expected})
    return found


def _expected(session: Session, order: int, units: int) -> float | None:
    """The expected bound for all predicates on a number of columns; None if the warm start did not predict it."""
    state, knowledge = session.state, session.state.knowledge
    largest = (state.journal.prediction() or {}).get("variations", {}).get(str(order))
    if largest is None:
        return None
    index = 1 + len(session.certificates)
    facts = (knowledge.records, knowledge.records_error, session.confidence, units)
    bound = audited_bound(state.curator, largest, *facts, index=index)
    return bound if isfinite(bound) else None


def _order(certificate: Certificate, columns: int) -> int:
    """The largest number of columns of which a certificate covers all sets."""
    widest = max((len(names) for names in certificate.sets), default=0)
    return widest if len(certificate.sets) >= comb(columns, widest) else 0


def _generalisation(session: Session) -> dict[str, Any]:
    """What answers within their error imply for the population of the records (spec 8.7)."""
    batches = {id(batch): batch.certificate for batch in session.state.knowledge.batches.values()}
    return population_facts(
        budget_of(session.publications),
        [*session.certificates, *batches.values()],
        confidence=session.confidence,
        neighbours=session.state.curator.neighbours,
    )


def published(session: Session) -> Release:
    """A release of the newest certified snapshot with its certificates; without one, of the working hypothesis."""
    knowledge = session.state.knowledge
    snapshot, certificates = knowledge.newest.snapshot, knowledge.newest.certificates
    notes = {"origin": "session", "records_error": knowledge.records_error}
    typical = tuple(one.error for one in knowledge.typical if one.snapshot.digest == snapshot.digest)
    measurements = tuple(knowledge.measurements())
    outcome = Outcome(snapshot.thaw(), measurements, certificates, knowledge.records, notes, typical=typical)
    return Release.of(outcome, _facts(session))


def _facts(session: Session) -> dict[str, Any]:
    from reticent import __version__

    return {
        "name": session.name,
        "unit": session.state.curator.unit,
        "neighbours": session.state.curator.neighbours,
        "version": session.state.curator.version,
        **statement(session.publications),
        "algorithm": {"algorithm": "Session", "engine": session.engine},
        "workload": Workload().to_dict(),
        "reticent": __version__,
        "python": platform.python_version(),
    }
