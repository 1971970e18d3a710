"""Declared batches: one audit of the largest error certifies all questions; if it fails, they are asked singly."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import NAMED, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace, restore
from reticent.kernel.statistics import VALUE_ROUNDING, AnswerErrors, fine
from reticent.knowledge.answer import Answer
from reticent.knowledge.certificates import LAST_INDEX, NOISE_SHARE, WORTH, Certificate
from reticent.knowledge.free import finished, resolved
from reticent.knowledge.knowledge import CertifiedBatch
from reticent.knowledge.request import Request
from reticent.knowledge.tails import audit_reading, reach
from reticent.queries.base import Linear, Query, checked_query
from reticent.releases.budgeting import divide
from reticent.sessions.engine import Certify, Measure, Quote, Split
from reticent.sessions.journal import AUDIT
from reticent.sessions.state import State

if TYPE_CHECKING:
    from reticent.sessions.engine import SessionEngine


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """One audit of the largest error of some questions of a batch on one snapshot."""

    declared: str
    """The digest of the whole batch."""
    places: tuple[int, ...]
    queries: tuple[Linear, ...]
    forms: tuple[str, ...]
    """Digests of the compiled queries."""
    snapshot: Snapshot
    noise: Noise
    key: str

    @property
    def state(self) -> str:
        return _state(self.snapshot, self.queries)


def quote_batch(engine: SessionEngine, request: Request) -> Certify | Split:
    """The quote of a batch. Answers come in the order asked; each holds with the confidence, those of one audit
    jointly.
    """
    state, knowledge = engine.state, engine.state.knowledge
    assert isinstance(request.question, tuple), "a batch"
    queries = map(checked_query, request.question)
    requests = [resolved(request.but(question=query), query, knowledge) for query in queries]
    if len({one.error for one in requests}) > 1:
        raise QueryError("a percentage is another error for each of these questions; ask means on their own")
    singly = [engine.quote_part(one) for one in requests]
    plan = _planned(state, requests, singly) if engine.audits_batches else None
    if plan is not None and not engine.may_audit(plan.key, _audit_cost(state, plan.queries, plan.noise)):
        plan = None
    if plan is None:
        join = partial(_finished, state, requests)
        return Split(request, knowledge, singly, join, between=engine.between(singly))
    audit = 0 if state.charged(plan.key) else _audit_cost(state, plan.queries, plan.noise)
    most = audit + sum(one.price for one in singly)
    return Certify(request, knowledge, partial(_run, engine, plan, requests, singly, most), lambda: most)


def _run(
    engine: SessionEngine, plan: AuditPlan, requests: Sequence[Request], singly: Sequence[Quote], most: int
) -> list[Answer]:
    """Run the audit, then answer each question, for at most what it was quoted singly; the price of the audit is part
    of their prices, whether it passed or not. A strict session must be able to pay all of it, `most`.
    """
    state, shares = engine.state, {}
    if requests[0].strict:
        state.ledger.affordable(most, analyst=requests[0].analyst)
    engine.audits(plan.key, _audit_cost(state, plan.queries, plan.noise))
    cost = _audit(state, plan, requests[0])
    if cost:
        shares = dict(zip(plan.forms, divide(cost, [1.0] * len(plan.forms)), strict=True))
    answers = []
    for request, quote in zip(requests, singly, strict=True):
        answer = finished(engine.carry_out(quote), request, state.knowledge)
        share = shares.pop(_form_digest(state, request.question), 0) if shares else 0
        price = answer.price + state.budget.amount(share)
        answers.append(replace(answer, query=answer.query, price=price) if share else answer)
    return answers


def _finished(state: State, requests: Sequence[Request], answers: Sequence[Answer]) -> list[Answer]:
    told = zip(answers, requests, strict=True)
    return [finished(answer, request, state.knowledge) for answer, request in told]


def _state(snapshot: Snapshot, queries: Sequence[Linear]) -> str:
    """Identify questions by their text, as the ledger describes them: different texts are different requests."""
    return hashlib.sha256("".join([snapshot.digest, *(query.digest for query in queries)]).encode()).hexdigest()


def _form_digest(state: State, query: Any) -> str:
    return state.knowledge.form(query).digest if isinstance(query, Linear) else ""


def _planned(state: State, requests: Sequence[Request], singly: Sequence[Quote]) -> AuditPlan | None:
    """The audit that this batch has already begun; otherwise a new audit if it is worth its price."""
    asked, error = requests[0], requests[0].error
    assert isinstance(error, float), "one error for all of them"
    queries: list[Any] = [request.question for request in requests]
    named = repr(([query.digest for query in queries], error, asked.confidence, asked.analyst or ""))
    declared = hashlib.sha256(named.encode()).hexdigest()
    found = _unknown(state, queries, singly)
    if not found:
        return None
    begun, knowledge, journal = state.journal.declared(declared), state.knowledge, state.journal
    if begun is not None and state.charged(begun["audit"]):
        audited = tuple(query for place in begun["places"] if isinstance(query := queries[place], Linear))
        forms = tuple(knowledge.form(query).digest for query in audited)
        snapshot = journal.snapshot(begun["snapshot"])
        key, noise = journal.usable(begun["audit"]), restore(begun["noise"])
        return AuditPlan(declared, tuple(begun["places"]), audited, forms, snapshot, noise, key)  # pyright: ignore[reportArgumentType]
    unknown = tuple(queries[place] for place in found.values())
    noise = _worthwhile(state, unknown, sum(singly[place].price for place in found.values()), asked)
    if noise is None:
        return None
    key = f"{AUDIT}batch:{_state(knowledge.current, unknown)[:NAMED]}:{float(noise.sd):.17g}:{asked.analyst or ''}"
    places = tuple(found.values())
    return AuditPlan(declared, places, unknown, tuple(found), knowledge.current, noise, journal.usable(key))


def _unknown(state: State, queries: Sequence[Query], singly: Sequence[Quote]) -> dict[str, int]:
    """Indices of the linear count questions without a sufficient free answer, each compiled form once."""
    found: dict[str, int] = {}
    for place, (query, quote) in enumerate(zip(queries, singly, strict=True)):
        if isinstance(query, Linear) and query.units(state.domain) == (0.0, 1.0) and isinstance(quote, Measure):
            found.setdefault(state.knowledge.form(query).digest, place)
    return found


def _worthwhile(state: State, unknown: Sequence[Linear], singly: int, asked: Request) -> Noise | None:
    """The noise of the audit, or None if asking singly is expected to be cheaper."""
    index, known, error = state.journal.audit_index(""), state.knowledge, asked.error
    assert isinstance(error, float), "one error for all of them"
    doubt = 0.0 if asked.counting else known.records_error
    room = NOISE_SHARE * (error - doubt) * known.records
    if index > LAST_INDEX or room <= 1:
        return None
    one: Noise = Laplace(1) if state.budget.pure else Gaussian(1)
    # Tails scale with the noise: it is as wide as its one-sided bound allows.
    width = room / reach(one, (1 - asked.confidence) * known.shares.certificate(index))
    noise: Noise = Laplace(width) if state.budget.pure else Gaussian(width)
    cost = _audit_cost(state, unknown, noise)
    return noise if cost <= WORTH * singly and cost <= state.ledger.remaining else None


def _audit_cost(state: State, unknown: Sequence[Linear], noise: Noise) -> int:
    errors = AnswerErrors(tuple(unknown), np.zeros(len(unknown)), state.domain)
    return state.budget.cost(state.curator.price([errors], noise))


def _audit(state: State, plan: AuditPlan, request: Request) -> int:
    """Pay for the audit, or read its result again; returns what this call was charged, in nano-units."""
    knowledge, journal = state.knowledge, state.journal
    settled_before, begun = state.settled(plan.key), journal.declared(plan.declared)
    if begun is None or not state.charged(begun["audit"]):
        journal.save_snapshot(knowledge)
        journal.save_declared(plan.declared, plan.places, plan.key, plan.snapshot.digest, plan.noise.describe())
    guesses = np.array([plan.snapshot.expect(query) for query in plan.queries]) * knowledge.records
    statistic = AnswerErrors(plan.queries, guesses, state.domain, state=plan.state)
    index = journal.audit_index(plan.key)
    try:
        settled = state.curator.measure([statistic], plan.noise, key=plan.key, analyst=request.analyst)
    except BudgetError:
        return 0
    certificate = Certificate(
        kind="cells",
        sets=(),  # it covers no class, only the questions it names
        snapshot=plan.snapshot.digest,
        reading=audit_reading(float(settled.values[0]), knowledge.records),
        noise=settled.noises[0].describe(),
        # Guesses and discrete noise are off by up to one step each; values of fractional queries were rounded before.
        slack=2 / fine(1) / knowledge.records + VALUE_ROUNDING,
        records=knowledge.records,
        records_error=knowledge.records_error,
        index=index,
        confidence=request.confidence,
        ledger_id=settled.ledger_id,
        joint=knowledge.shares.joint,
        plain=knowledge.shares.plain,
    )
    assert isinstance(request.error, float), "one error for all of them"
    stated = certificate.of_counts if request.counting else certificate
    if stated.bound <= request.error and not journal.has_batch(certificate.ledger_id):
        journal.save_batch(certificate, list(plan.forms))
        state.learn(knowledge.with_batch(plan.forms, CertifiedBatch(plan.snapshot, certificate)))
    return 0 if settled_before else settled.cost
