"""A session answers questions as they come: from what is known while that is good enough, else by paying a little."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from reticent.algorithms.knowledge import Knowledge, Reading, best
from reticent.algorithms.online import learn, purchase
from reticent.algorithms.outcome import Outcome, Report, silent
from reticent.algorithms.tails import check_confidence
from reticent.answer import Answer
from reticent.compound import ask_groups, ask_sql, compound_cost
from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError
from reticent.journal import ASK, Journal
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger import Ledger
from reticent.kernel.table import Table
from reticent.queries.base import Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Ratio
from reticent.queries.workload import Workload
from reticent.releases import Release
from reticent.view import ratio_of

WARM = "session:warm"
AUDIT_SHARE = 0.05
WIDEST_AUDIT = 3e9
"""Kadane steps a default audit of boxes may take; beyond, it covers pairs instead of triples."""


class Session:
    """One table, one ledger, one budget; open it with `Session.open` and use it as a context manager.

    Free answers are functions of the query and of stored public state; they run on an immutable value and never wait.
    Paid answers are serialised: charged durably, measured, recorded, then returned.
    """

    def __init__(
        self, curator: Curator, ledger: Ledger, knowledge: Knowledge, *, confidence: float, strict: bool, name: str
    ) -> None:
        self._curator = curator
        self._ledger = ledger
        self._journal = Journal(ledger)
        self._knowledge = knowledge
        self._paying = threading.RLock()
        self.confidence = confidence
        self.strict = strict
        self.name = name

    @classmethod
    def open(
        cls,
        path: str | Path,
        table: Table,
        budget: Budget,
        *,
        warm_start: float = 0.5,
        workload: Workload | None = None,
        confidence: float = 0.95,
        strict: bool = False,
        anchor: str | Path | None = None,
        progress: Report = silent,
    ) -> Session:
        """Create the session of this ledger, or resume it after any crash: what was paid for is known again."""
        from reticent.warmup import warm_up

        check_confidence(confidence)
        if not 0 <= warm_start <= 1 - AUDIT_SHARE:
            raise QueryError(f"warm_start is {warm_start!r}; it is a share of the budget from 0 to {1 - AUDIT_SHARE}")
        ledger = Ledger.open(path, identity=table.identity, budget=budget, anchor=anchor)
        try:
            curator = Curator(table, ledger)
            knowledge = warm_up(curator, Journal(ledger), warm_start, workload, confidence, progress)
            session = cls(curator, ledger, knowledge, confidence=confidence, strict=strict, name=table.name)
            session._remember()
        except BaseException:
            ledger.close()
            raise
        return session

    def _remember(self) -> None:
        """Takes in what earlier runs paid for; every value comes from its settled event."""
        for bought in self._journal.bought(ASK):
            settled = self._curator.measure(bought.queries, bought.noises, key=bought.key, analyst=bought.analyst)
            self._knowledge = learn(self._knowledge, bought.queries, bought.noises, settled)

    @property
    def domain(self) -> Domain:
        return self._curator.domain

    @property
    def budget(self) -> Budget:
        return self._ledger.budget

    @property
    def spent(self) -> float:
        return self.budget.amount(self._ledger.spent)

    @property
    def remaining(self) -> float:
        return self.budget.amount(self._ledger.remaining)

    def ask(
        self,
        question: Query | str,
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Any:
        """Answer within `error` with probability `confidence`, paying if need be; without `error`, the best free answer.

        `error` is in the unit of the answer (a fraction for counts). `key` makes a paid answer repeatable: the same
        key returns the same bytes, also after a crash.
        """
        confidence = self.confidence if confidence is None else check_confidence(confidence)
        if isinstance(question, str):
            return ask_sql(self, question, error, confidence, key, analyst)
        query = question.resolve(self.domain)
        if isinstance(query, Ratio):
            return self._ask_ratio(query, error, confidence, key, analyst)
        if isinstance(query, Groups):
            return ask_groups(self, query, error, confidence, key, analyst)
        if not isinstance(query, (Linear, Marginal)):
            raise QueryError(
                f"{query.text} is a workload entry, not one question; ask rt.count, rt.mean or rt.marginal"
            )
        wanted = None if error is None else self._fraction(query, error)
        paid = None if key is None or wanted is None else self._repeated(query, key, wanted, confidence, analyst)
        if paid is not None:
            return paid
        reading = self._free(query, confidence, wanted)
        if reading is not None:
            return self._answer(query, reading, confidence)
        if wanted is None:
            return self._guess(query)
        return self._pay(query, wanted, confidence, key, analyst)

    def cost(self, question: Query | str, *, error: float, confidence: float | None = None) -> float:
        """What `ask` with the same arguments would charge now, in the budget's unit; asking costs nothing."""
        confidence = self.confidence if confidence is None else check_confidence(confidence)
        query = question if isinstance(question, str) else question.resolve(self.domain)
        if isinstance(query, (str, Groups)):
            return compound_cost(self, query, error, confidence)
        if isinstance(query, Ratio):
            part = self._part_error(query, error, confidence)
            return sum(
                self.cost(q, error=part, confidence=_half(confidence)) for q in (query.numerator, query.denominator)
            )
        if not isinstance(query, (Linear, Marginal)):
            raise QueryError(f"{query.text} is not one question; ask its parts")
        wanted = self._fraction(query, error)
        if self._free(query, confidence, wanted) is not None:
            return 0.0
        bought = purchase(self._curator, self._knowledge, query, wanted, confidence)
        return self.budget.amount(bought.cost)

    def _fraction(self, query: Linear | Marginal, error: float) -> float:
        """The wanted error on the scale of fractions."""
        if not error > 0:
            raise QueryError(f"an error of {error!r} cannot be met; ask for one above 0")
        return error / abs(query.units(self.domain)[1]) if isinstance(query, Linear) else error

    def _free(self, query: Linear | Marginal, confidence: float, wanted: float | None) -> Reading | None:
        if isinstance(query, Linear):
            return best(self._knowledge.readings(query, confidence), wanted)
        return best(self._knowledge.cells(query.canonical(self.domain), confidence), wanted)

    def _repeated(
        self, query: Linear | Marginal, key: str, wanted: float, confidence: float, analyst: str | None
    ) -> Answer | None:
        """The answer this key already paid for: same key, same bytes."""
        bought = purchase(self._curator, self._knowledge, query, wanted, confidence)
        if self._ledger.lookup(ASK + key) is None:
            return None
        with self._paying:
            settled = self._curator.measure([bought.query], bought.noise, key=ASK + key, analyst=analyst)
            fresh = learn(_bare(self._knowledge), [bought.query], [bought.noise], settled)
        return self._measured(query, fresh, confidence, settled.cost)

    def _pay(
        self, query: Linear | Marginal, wanted: float, confidence: float, key: str | None, analyst: str | None
    ) -> Answer:
        with self._paying:
            reading = self._free(query, confidence, wanted)
            if reading is not None:
                return self._answer(query, reading, confidence)
            bought = purchase(self._curator, self._knowledge, query, wanted, confidence)
            ledger_key = ASK + (key or f"{bought.query.digest[:24]}:{float(bought.noise.sd):.17g}")
            try:
                settled = self._curator.measure([bought.query], bought.noise, key=ledger_key, analyst=analyst)
            except BudgetError:
                if self.strict:
                    raise
                reading = self._free(query, confidence, None)
                return self._guess(query) if reading is None else self._answer(query, reading, confidence)
            fresh = learn(_bare(self._knowledge), [bought.query], [bought.noise], settled)
            self._knowledge = learn(self._knowledge, [bought.query], [bought.noise], settled)
        return self._measured(query, fresh, confidence, settled.cost)

    def _measured(self, query: Linear | Marginal, fresh: Knowledge, confidence: float, cost: int) -> Answer:
        """The answer from one purchase alone, so that a repeated key yields the same bytes whatever else is known."""
        readings = (
            fresh.readings(query, confidence)
            if isinstance(query, Linear)
            else fresh.cells(query.canonical(self.domain), confidence)
        )
        reading = best(readings)
        assert reading is not None, "a purchase answers its own question"
        measured = Reading(reading.error, "measured", reading.compute, None, reading.ledger_id)
        return self._answer(query, measured, confidence, cost)

    def _guess(self, query: Linear | Marginal) -> Answer:
        """The working hypothesis' own answer, without any certificate."""
        current = self._knowledge.current
        if isinstance(query, Linear):
            compute = partial(current.expect, query)
        else:
            compute = partial(current.marginal, query.canonical(self.domain))
        return self._answer(query, Reading(np.inf, "hypothesis", compute, current.digest), None)

    def _answer(self, query: Linear | Marginal, reading: Reading, confidence: float | None, cost: int = 0) -> Answer:
        records = self._knowledge.records
        certified = reading.error < math.inf
        shared: dict[str, Any] = {
            "query": query.text,
            "confidence": confidence if certified else None,
            "origin": reading.origin,
            "certified": certified,
            "price": self.budget.amount(cost),
            "snapshot": reading.snapshot,
            "ledger_id": reading.ledger_id,
        }
        if isinstance(query, Marginal):
            canonical = query.canonical(self.domain)
            value = np.transpose(np.asarray(reading.compute()), [canonical.index(name) for name in query.names])
            labels = tuple((name, self.domain[name].labels) for name in query.names)
            error = reading.error if certified else None
            return Answer(value=value, count=value * records, error=error, labels=labels, **shared)
        offset, scale = query.units(self.domain)
        share = float(reading.compute())
        return Answer(
            value=offset + scale * share,
            count=share * records if (offset, scale) == (0, 1) else None,
            error=abs(scale) * reading.error if certified else None,
            **shared,
        )

    def _ask_ratio(
        self, query: Ratio, error: float | None, confidence: float, key: str | None, analyst: str | None
    ) -> Answer:
        part = None if error is None else self._part_error(query, error, confidence)
        answers = [
            self.ask(q, error=part, confidence=_half(confidence), key=key and f"{key}:{name}", analyst=analyst)
            for name, q in (("top", query.numerator), ("bottom", query.denominator))
        ]
        return ratio_of(query, answers[0], answers[1], self.domain)

    def _part_error(self, query: Ratio, error: float, confidence: float) -> float:
        """Equal errors e for both parts give a quotient within about e (1 + ratio) / bottom."""
        top, bottom = (
            float(self.ask(q, confidence=_half(confidence)).value) for q in (query.numerator, query.denominator)
        )
        if bottom <= 0:
            raise QueryError(f"{query.text}: hardly any record satisfies the condition; ask for its count first")
        scale = abs(query.units(self.domain)[1])
        e = error / scale
        return e * bottom / (1 + min(1.0, max(0.0, top / bottom)) + e)

    def ask_all(self, questions: Sequence[Query], *, error: float, confidence: float | None = None) -> list[Answer]:
        """A declared batch: what is not free yet is audited together, and only if that fails asked singly."""
        from reticent.batches import ask_batch

        return ask_batch(
            self, questions, error, self.confidence if confidence is None else check_confidence(confidence)
        )

    def audit(self, kind: str = "boxes", *, order: int = 2, rho: float | None = None) -> Any:
        """Certify the working hypothesis for a class of queries over all sets of `order` attributes; pays for one audit."""
        from reticent.warmup import certify

        with self._paying:
            self._knowledge, certificate = certify(
                self._curator, self._journal, self._knowledge, kind, order, self.confidence, rho
            )
        return certificate

    @property
    def certificates(self) -> tuple[Any, ...]:
        return tuple(c for certified in self._knowledge.certified for c in certified.certificates)

    def describe(self) -> dict[str, Any]:
        """Public facts: what is guaranteed, what is spent, what is certified."""
        return {
            "table": self.name,
            "neighbours": self._curator.neighbours,
            "budget": str(self.budget.describe()),
            "spent": self.spent,
            "remaining": self.remaining,
            "guarantee": self.budget.guarantee(self._ledger.spent),
            "certificates": [
                {"kind": c.kind, "sets": len(c.sets), "bound": c.bound, "confidence": c.confidence}
                for c in self.certificates
            ],
            "measured": len(self._knowledge.marginals) + len(self._knowledge.queries),
        }

    def release(self) -> Release:
        """What is known so far, as a Release: free to publish, it was paid for already."""
        knowledge = self._knowledge
        newest = knowledge.certified[-1] if knowledge.certified else None
        snapshot = newest.snapshot if newest else knowledge.current
        outcome = Outcome(
            snapshot.thaw(), (), newest.certificates if newest else (), knowledge.records, {"origin": "session"}
        )
        facts = {
            "name": self.name,
            "unit": self._ledger.identity["unit"],
            "neighbours": self._curator.neighbours,
            "version": self._ledger.identity["version"],
            "budget": self.budget.to_dict(),
            "spent": self._ledger.spent,
            "privacy": self.budget.guarantee(self._ledger.spent),
            "algorithm": {"algorithm": "Session"},
        }
        return Release.of(outcome, facts)

    def set_cap(self, analyst: str, amount: float | None) -> None:
        """The most this analyst may spend, in the budget's unit; None lifts the cap."""
        self._ledger.set_cap(analyst, None if amount is None else int(amount * 1e9))

    def close(self) -> None:
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        unit = self.budget.unit
        return f"<Session on {self.name!r}: {unit} {self.spent:.4g} spent, {self.remaining:.4g} left>"


def _half(confidence: float) -> float:
    """Two parts that each fail half as often hold together."""
    return 1 - (1 - confidence) / 2


def _bare(knowledge: Knowledge) -> Knowledge:
    """The same hypothesis and size, nothing measured: what a purchase means on its own."""
    return Knowledge(knowledge.current, knowledge.records, knowledge.records_error)
