"""A session answers questions as they come: from what is known while that is good enough, else by paying a little."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Self

from reticent.algorithms.epochs import Epochs
from reticent.algorithms.knowledge import Certified, Knowledge
from reticent.algorithms.online import Measured, Purchase, learn, purchase, refitted, understand
from reticent.algorithms.outcome import Report, silent
from reticent.algorithms.tails import check_confidence
from reticent.answer import Answer
from reticent.compound import ask_parts, ask_sql, one_by_one, parts_cost, sql_cost
from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError, require, whole_number
from reticent.journal import ASK, Journal
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator
from reticent.kernel.events import Reservation
from reticent.kernel.ledger import Ledger
from reticent.kernel.statistics import Kind
from reticent.kernel.table import Table
from reticent.opening import Terms, know
from reticent.passed import Passed
from reticent.publications import Publication
from reticent.queries.base import Linear, Query, checked_query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Ratio
from reticent.queries.predicate import Predicate
from reticent.queries.workload import Workload
from reticent.ratios import ask_ratio, ratio_cost
from reticent.reading import Question, answered, free, guess, readings
from reticent.releases import Release
from reticent.standing import published, standing
from reticent.thresholds import ask_epochs
from reticent.view import View
from reticent.warmup import AUDIT_SHARE, certify


class Session:
    """One table, one ledger, one budget; open it with `Session.open` and use it as a context manager.

    Free answers are functions of the query and of public state; they run on an immutable value and never wait.
    Paid answers are serialised: charged durably, measured, recorded, then returned.
    """

    def __init__(
        self,
        table: Table,
        curator: Curator,
        ledger: Ledger,
        knowledge: Knowledge,
        epochs: Epochs | None,
        *,
        confidence: float,
        strict: bool,
    ) -> None:
        self._curator = curator
        self._ledger = ledger
        self._journal = Journal(ledger)
        self._knowledge = knowledge
        self._epochs = epochs
        self._passed = Passed(ledger)
        self._paying = threading.RLock()
        self._identity = table.identity
        self.confidence = confidence
        self.strict = strict
        self.name = table.name

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        table: Table,
        budget: Budget,
        *,
        engine: str = "default",
        warm_start: float | None = None,
        workload: Workload | None = None,
        start: Release | None = None,
        queries: int | None = None,
        error: float | None = None,
        support: int | None = None,
        confidence: float = 0.95,
        strict: bool = False,
        anchor: str | Path | None = None,
        progress: Report = silent,
    ) -> Session:
        """Create the session of this ledger, or resume it after any crash: what was paid for is known again.

        `engine` "default" spends `warm_start` of the budget now (or starts from a Release), then measures what is not
        known well enough. Unsaid, that is half; or nothing, when plain answers should do better for as many `queries`
        as are coming, or within the `error` they are asked with. "textbook" and "tuned" plan for so many `queries`.
        Without a path nothing outlives the process. `strict` refuses what cannot be certified instead of answering from
        the hypothesis.
        """
        require(table, Table, "table", "rt.Table.read(file, domain)")
        require(budget, Budget, "budget", "rt.Budget(epsilon=1, delta=1e-9)")
        require(workload, Workload | None, "workload", "rt.marginals(domain, 3) or rt.Workload([...])")
        require(start, Release | None, "start", "a release of this table, for example rt.Release.load(file)")
        queries = None if queries is None else whole_number(queries, "queries", 1)
        support = None if support is None else whole_number(support, "support", 2)
        terms = Terms(engine, warm_start, workload, start, queries, support, check_confidence(confidence), error)
        if path is None:
            ledger = Ledger.memory(identity=table.identity, budget=budget)
        else:
            ledger = Ledger.open(path, identity=table.identity, budget=budget, anchor=anchor)
        try:
            curator = Curator(table, ledger)
            knowledge, epochs = know(curator, Journal(ledger), terms, progress)
            # The constants of a threshold engine were chosen for the confidence of its first opening.
            stated = terms.confidence if epochs is None else epochs.confidence
        except BaseException:
            ledger.close()
            raise
        return cls(table, curator, ledger, knowledge, epochs, confidence=stated, strict=strict)

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

    # -- asking --------------------------------------------------------------------------------------------

    def ask(
        self,
        question: Query | str,
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Any:
        """Answer within `error` at `confidence`, paying if need be; without `error`, the best free answer.

        `error` is in the unit of the answer (a fraction for counts). `key` makes a paid answer repeatable: the same
        key returns the same bytes, also after a crash.
        """
        confidence = self.confidence if confidence is None else check_confidence(confidence)
        if error is not None:
            require(error, Real, "error", "a number above 0, for example 0.01")
        if isinstance(question, str):
            return ask_sql(self, question, error, confidence, key, analyst)
        query = checked_query(question).resolve(self.domain)
        if isinstance(query, (Linear, Marginal)):
            return self._ask_one(query, error, confidence, key, analyst)
        if isinstance(query, Ratio):
            return ask_ratio(self, query, error, confidence, key, analyst)
        if isinstance(query, Groups):
            if one_by_one(self, query):
                return ask_parts(self, query, error, confidence, key, analyst)
            return self._ask_one(query, error, confidence, key, analyst)
        raise QueryError(f"{query.text} is a workload entry, not one question; ask rt.count, rt.mean or rt.marginal")

    def ask_all(
        self,
        questions: Sequence[Query],
        *,
        error: float,
        confidence: float | None = None,
        analyst: str | None = None,
    ) -> list[Answer]:
        """A declared batch: what is not free yet is audited together, and only if that fails asked singly."""
        from reticent.batches import ask_batch

        confidence = self.confidence if confidence is None else check_confidence(confidence)
        require(questions, Sequence, "questions", "a list of queries")
        return ask_batch(self, [checked_query(question) for question in questions], error, confidence, analyst)

    def minimize(
        self,
        loss: Any,
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Any:
        """The model of a convex loss: free from the hypothesis, or within `error` of the best excess risk.

        A list of losses is a declared batch: one audit of their largest excess risk may certify them all.
        """
        from reticent.fitting import minimize

        confidence = self.confidence if confidence is None else check_confidence(confidence)
        return minimize(self, loss, error, confidence, key, analyst, self.strict)

    def cost(self, question: Any, *, error: float, confidence: float | None = None, key: str | None = None) -> float:
        """The most that `ask`, `ask_all` of a list, or `minimize` of losses would charge now with the same arguments.

        In the budget's unit; asking for it costs nothing. What `key` has paid already is not charged again.
        """
        confidence = self.confidence if confidence is None else check_confidence(confidence)
        require(error, Real, "error", "a number above 0, for example 0.01")
        if isinstance(question, Sequence) and question and all(isinstance(one, Query) for one in question):
            from reticent.batches import batch_cost

            return batch_cost(self, question, error, confidence)
        if isinstance(question, Predicate):
            question = checked_query(question)
        if not isinstance(question, (Query, str)):
            from reticent.fitting import Wish, cost

            wish = Wish(error, confidence, key, batch=isinstance(question, Sequence))
            return self.budget.amount(cost(self, question, wish))
        query = question if isinstance(question, str) else question.resolve(self.domain)
        if isinstance(query, str):
            return sql_cost(self, query, error, confidence, key)
        if isinstance(query, Ratio):
            return ratio_cost(self, query, error, confidence, key)
        if not isinstance(query, (Linear, Marginal, Groups)):
            raise QueryError(f"{query.text} is not one question; ask its parts")
        wanted = self._fraction(query, error)
        if free(self._knowledge, query, confidence, wanted) is not None:
            return 0.0
        if key is not None and self._ledger.lookup(ASK + key) is not None:
            return 0.0
        if isinstance(query, Groups) and one_by_one(self, query):
            return parts_cost(self, query, error, confidence, key)
        if self._epochs is not None and not isinstance(query, Groups):
            paid = key is not None and self._passed.find(key, query) is not None
            return 0.0 if paid else self.budget.amount(self._epochs.cost(query))
        return self.budget.amount(purchase(self._curator, self._knowledge, query, wanted, confidence).cost)

    def _ask_one(
        self, query: Question, error: float | None, confidence: float, key: str | None, analyst: str | None
    ) -> Answer:
        wanted = None if error is None else self._fraction(query, error)
        if self._epochs is not None and not isinstance(query, Groups):
            return ask_epochs(self, self._epochs, query, wanted, confidence, key, analyst)
        if key is not None and wanted is not None and self._ledger.lookup(ASK + key) is not None:
            return self._pay(query, wanted, confidence, key, analyst)
        knowledge = self._knowledge
        reading = free(knowledge, query, confidence, wanted)
        if reading is not None:
            return answered(knowledge, query, reading, confidence)
        if wanted is None:
            return self._guess(query)
        return self._pay(query, wanted, confidence, key, analyst)

    def _fraction(self, query: Question, error: float) -> float:
        """The wanted error on the scale of fractions."""
        if not error > 0:
            raise QueryError(f"an error of {error!r} cannot be met; ask for one above 0")
        return error / abs(query.units(self.domain)[1]) if isinstance(query, Linear) else error

    def _pay(self, query: Question, wanted: float, confidence: float, key: str | None, analyst: str | None) -> Answer:
        """Buy the answer, or read again what this key bought: same key, same bytes."""
        with self._paying:
            known = self._knowledge
            if key is None and (reading := free(known, query, confidence, wanted)) is not None:
                return answered(known, query, reading, confidence)  # another thread was faster
            bought = purchase(self._curator, known, query, wanted, confidence)
            ledger_key = self._own_key(bought, analyst) if key is None else ASK + key
            fresh = not self._answered(ledger_key)
            try:
                settled = self._curator.measure([bought.query], bought.noise, key=ledger_key, analyst=analyst)
            except BudgetError:
                if self.strict:
                    raise
                reading = free(known, query, confidence, None)
                return self._guess(query) if reading is None else answered(known, query, reading, confidence)
            measured = understand(known, [bought.query], [bought.noise], settled)
            if fresh:
                self._knowledge = learn(known, measured)
        return self._measured(query, measured, confidence, settled.cost)

    def _answered(self, key: str) -> bool:
        found = self._ledger.lookup(key)
        return found is not None and not isinstance(found, Reservation)

    def _own_key(self, bought: Purchase, analyst: str | None) -> str:
        """One key per purchase, so that a crash loses no answer; what a second crash forfeited gets a new one."""
        named = f"{ASK}{bought.query.digest[:24]}:{float(bought.noise.sd):.17g}:{analyst or ''}"
        return self._journal.usable(named)

    def _measured(self, query: Question, measured: Sequence[Measured], confidence: float, cost: int) -> Answer:
        """The answer from one purchase alone, so that a repeated key yields the same bytes whatever else is known."""
        known = self._knowledge
        alone = learn(Knowledge(known.current, known.records, known.records_error), measured, fitted=True)
        # Not `best`, which knows no bound beyond a half: whoever wanted less than that has paid for less.
        found = min(readings(alone, query, confidence), key=lambda reading: reading.error)
        return answered(alone, query, found._replace(origin="measured"), confidence, cost)

    def _guess(self, query: Question) -> Answer:
        if self.strict:
            raise QueryError(
                f"{query.text}: no certificate covers it; give error= to pay for an answer, or strict=False"
            )
        return answered(self._knowledge, query, guess(self._knowledge, query), None)

    # -- certifying and publishing ---------------------------------------------------------------------------

    def refit(self) -> bool:
        """Fit the working hypothesis to everything measured so far: free. Says whether there was anything new.

        An audit and `release` do it by themselves: only then does the hypothesis speak for the session.
        """
        with self._paying:
            if self._epochs is not None or not self._knowledge.unfitted:
                return False
            self._knowledge = refitted(self._knowledge)
            self._journal.save_snapshot(self._knowledge)
            return True

    def audit(self, kind: Kind = "boxes", *, order: int = 2, amount: float | None = None) -> Any:
        """Certify the working hypothesis for a class of queries over all sets of up to `order` attributes.

        Pays `amount` in the budget's unit, by default a twentieth of the budget.
        """
        order = whole_number(order, "order", 1)
        self.refit()
        units = int(self.budget.limit * AUDIT_SHARE) if amount is None else int(amount * NANO)
        with self._paying:
            self._knowledge, certificate = certify(
                self._curator, self._journal, self._knowledge, kind, order, self.confidence, units
            )
        return certificate

    @property
    def view(self) -> View:
        """The newest certified snapshot, or the working hypothesis without certificates: answers from it are free."""
        known = self._knowledge
        newest = known.certified[-1] if known.certified else Certified(known.current, ())
        return View(newest.snapshot, newest.certificates, known.records, newest.snapshot.digest, known.records_error)

    @property
    def certificates(self) -> tuple[Any, ...]:
        return tuple(c for certified in self._knowledge.certified for c in certified.certificates)

    def release(self) -> Release:
        """What is known so far, as a Release: free to publish, it was paid for already.

        The newest certified snapshot with its certificates; without one, the working hypothesis refitted.
        """
        if not self._knowledge.certified:
            self.refit()
        return published(self)

    # -- standing --------------------------------------------------------------------------------------------

    @property
    def publications(self) -> tuple[Publication, ...]:
        """What this session's ledger paid for, then what its start rests on that others did: prices add."""
        return (Publication(self._ledger.name, self.budget, self._ledger.spent), *self._journal.elsewhere)

    @property
    def engine(self) -> str:
        return "default" if self._epochs is None else self._epochs.plan.engine

    def describe(self) -> dict[str, Any]:
        """Public facts: what is guaranteed, what is spent, what is certified."""
        return standing(self)

    def set_cap(self, analyst: str, amount: float) -> None:
        """The most this analyst may spend in all, in the budget's unit; may be raised again up to the budget."""
        most = self.budget.amount(self.budget.limit)
        require(amount, Real, "a cap", "a number in the budget's unit")
        if not 0 <= amount <= most:
            raise QueryError(f"a cap of {amount!r} must lie between 0 and the budget, {self.budget.unit} {most:g}")
        self._ledger.set_cap(analyst, int(amount * NANO))

    def spent_by(self, analyst: str) -> float:
        return self.budget.amount(self._ledger.spent_by(analyst))

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page: what was spent, what is guaranteed, what is certified."""
        from reticent.report import write_session

        return write_session(self, Path(path))

    def plot(self) -> Any:
        """Where the budget went, charge by charge; needs matplotlib."""
        from reticent.plotting import plot_budget

        charges = [self.budget.amount(event.cost) for event in self._ledger.events() if event.kind == "reserve"]
        return plot_budget(self.budget.unit, charges, self.budget.amount(self.budget.limit))

    def _repr_html_(self) -> str:
        from reticent.report import session_summary

        return session_summary(self)

    def close(self) -> None:
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        unit = self.budget.unit
        return f"<Session on {self.name!r}: {unit} {self.spent:.4g} spent, {self.remaining:.4g} left>"
