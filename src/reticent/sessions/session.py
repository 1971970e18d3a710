"""`Session` answers questions one after another: for free if its knowledge suffices, otherwise from the budget."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from reticent.domain import Domain
from reticent.domain.files import named_path
from reticent.errors import QueryError, ReticentError, real_number, require, whole_number
from reticent.hypotheses.memory import keeping
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.statistics import KINDS, Kind
from reticent.kernel.table import Table
from reticent.knowledge.answer import Answer
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.free import nothing_measured
from reticent.knowledge.population import Sample
from reticent.knowledge.publications import PublishedBudget, budget_of, discovered, each_ledger_once
from reticent.knowledge.request import USUAL_CONFIDENCE, Promise, Question, Records, Request
from reticent.knowledge.tails import check_confidence
from reticent.knowledge.typical import TypicalError
from reticent.losses.losses import ConvexLoss
from reticent.planning.plan import MOST
from reticent.planning.smooth import MOST_SUPPORT, Smooth
from reticent.progress.bars import Report, listening
from reticent.queries.base import Query, checked_query
from reticent.queries.predicate import Predicate
from reticent.queries.statistics import StatisticQuery
from reticent.queries.workload import Workload
from reticent.releases.release import Release
from reticent.sessions.describe import describe_session, opened_with, published
from reticent.sessions.engine import Quote, Result, SessionEngine
from reticent.sessions.journal import Journal
from reticent.sessions.open import OPENERS, Opening, open_engine
from reticent.sessions.warm_start import AUDIT_SHARE, TYPICAL_SHARE, certify, certify_typical

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reticent.releases.models import Model
    from reticent.sql.result import ResultTable


CLOSED = "this session is closed: open it again with rt.Session.open"


class Session:
    """Answers questions about one table under one privacy budget; `Session.open` creates or resumes one.

    Free answers are functions of the question and of public state: any number of threads may ask without waiting for
    each other. Paid answers are made one at a time: charged on disk, measured, recorded, then returned. Use a session
    as a context manager, so that its ledger is closed.

    Attributes:
        name: The table's name.
        confidence: The probability with which a stated error holds, unless a question states another.
        strict: Whether answers that cannot be certified are refused.
        synthetic_rows: Whether `SELECT *` and other lists of records in SQL show synthetic rows. False by default: such
            statements are refused, and `SELECT * FROM t_synthetic` shows synthetic rows explicitly.
        state: Curator, ledger, journal and knowledge, for code that builds on a session.
        answering: The engine that quotes and carries out requests.

    Example:
        >>> import pyarrow, reticent as rt
        >>> people = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
        >>> with rt.Session.open(None, rt.Table.of(people, domain), rt.Budget(epsilon=1, delta=1e-9)) as session:
        ...     answer = session.ask(rt.count(rt.col("age") >= 40), error=0.05)
        >>> answer.certified
        True
    """

    def __init__(self, engine: SessionEngine, *, name: str = "table", strict: bool = False) -> None:
        self.answering = engine
        self.state = engine.state
        self.confidence = engine.confidence
        self.strict = strict
        self.synthetic_rows = False
        self.name = name

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        table: Table,
        budget: Budget,
        *,
        warm_start: float | None = None,
        workload: Workload | None = None,
        start: Release | None = None,
        queries: int | None = None,
        error: float | Records | None = None,
        engine: str = "default",
        losses: Sequence[ConvexLoss] | None = None,
        support: int | Smooth | None = None,
        confidence: float = USUAL_CONFIDENCE,
        strict: bool = False,
        anchor: str | Path | None = None,
        progress: Report | bool = True,
        purpose: Literal["unlimited", "few"] | None = None,
        useful: float | None = None,
    ) -> Session:
        """Create the session of a new ledger, or resume that of an existing one, with everything it has paid for.

        The first three arguments suffice. By default the session decides from public facts whether to spend half of the
        budget on a warm start: it does so if the warm start is predicted to answer all ranges on up to three columns
        within 2% of the table. Later questions are then free unless they need a smaller error. Otherwise the session
        keeps the budget for the questions. `opening` states the decision.

        The first opening of a ledger decides how its budget is used; later openings need the same path, table, budget
        and `engine`.

        Args:
            path: The ledger's file; None keeps the ledger in memory until the process ends.
            table: The private table, from `rt.Table.read` or `rt.Table.of`.
            budget: The total that may be spent on this ledger.
            warm_start: The share of the budget that the first opening spends on a warm start. With `queries`, `error`
                or `workload` the default is half the budget, or none if direct noisy answers are expected to be more
                accurate for the announced questions.
            workload: The marginals that the warm start measures; by default all triples of attributes, fewer in a wide
                table.
            start: A release of the same table to start from, instead of a warm start.
            queries: The number of questions that will be asked, if it is known. The threshold engines plan for this
                number.
            error: The error that questions will request, as a share of the table, or `rt.records(80)` if they will be
                counts; for the convex engines the excess risk of their models, by default the smallest that they can
                certify.
            engine: "default" measures where a question requests a smaller error than is known. "tuned", "textbook" and
                "hardt-rothblum" answer all questions within one common error, by private multiplicative weights with
                a noisy threshold; the last two use the constants of their papers. "convex-tuned" and
                "convex-textbook" do the same for convex losses.
            losses: Examples of the losses that will be asked; `queries` is their number. The convex engines plan for
                them: later losses must use the same attributes and have no wider range. The default engine reserves the
                price of one audit for each loss, and limits each loss to its share of the remaining budget.
            support: For threshold and convex engines on a universe too large to enumerate: the number of sampled
                records, or, for counts, an `rt.Smooth` from which it is computed.
            confidence: The probability with which a stated error holds.
            strict: Raise an error if an answer cannot be certified, instead of answering from the hypothesis.
            anchor: The file of the ledger's anchor; by default in the same folder. On another volume it detects a
                rollback.
            progress: Whether to show a progress bar for the warm start, on terminals and in notebooks; or a function
                that is called with each step.
            purpose: Without `warm_start`, `queries`, `error`, `workload` and `start`: "unlimited" buys the warm start,
                "few" keeps the budget for the questions; by default the predicted bound decides.
            useful: The largest predicted bound, as a share of the table, at which the warm start is bought; by default
                0.02.

        Returns:
            The session. Close it, or use it as a context manager.

        Raises:
            QueryError: An argument has the wrong type, is out of range, or has no effect together with the others.
            LedgerError: The file is not a ledger, belongs to another table or engine, was edited, or is in use.
            BudgetError: The remaining budget cannot pay for the number of records of a table whose size is private.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
            >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
            >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9))
            >>> session.spent < session.budget.amount(session.budget.limit)
            True
        """
        require(table, Table, "table", "rt.Table.read(file, domain)")
        require(budget, Budget, "budget", "rt.Budget(epsilon=1, delta=1e-9)")
        require(workload, Workload | None, "workload", "rt.marginals(domain, 3) or rt.Workload([...])")
        require(start, Release | None, "start", "a release of this table, for example rt.Release.load(file)")
        require(engine, str, "engine", "one of " + ", ".join(map(repr, OPENERS)))
        require(strict, bool, "strict", "True or False")
        require(anchor, str | Path | None, "anchor", "the name of a file, or None")
        if path is None and anchor is not None:
            raise QueryError("anchor= has no effect without a path: nothing outlives the process; leave it out")
        path = None if path is None else named_path(path, "census.ledger")
        opening = Opening(
            engine=engine,
            warm_start=None if warm_start is None else real_number(warm_start, "warm_start", "a share of the budget"),
            workload=workload,
            start=start,
            queries=None if queries is None else whole_number(queries, "queries", 1, MOST),
            support=_checked_support(support),
            confidence=check_confidence(confidence),
            error=error
            if error is None or isinstance(error, Records)
            else real_number(error, "error", "a share of the table, above 0 and below 1"),
            losses=_declared_losses(losses),
            purpose=purpose,
            useful=None
            if useful is None
            else real_number(useful, "useful", "a share of the table, above 0 and below 1"),
        )
        found = discovered(table.domain, table.neighbours, table.unit)
        budget_of([PublishedBudget("", budget, 0), *found])  # refuses vacuous sums
        new = opening.composing(budget, found)
        if path is None:
            ledger = Ledger.memory(identity=table.identity, budget=new)
        else:
            ledger = Ledger.open(path, identity=table.identity, budget=budget, anchor=anchor, noise=new.noise)
        try:
            with keeping("the opening", path), listening(progress) as report:
                opened = open_engine(Curator(table, ledger), Journal(ledger), opening, report)
        except BaseException:
            ledger.close()
            raise
        return cls(opened, name=table.name, strict=strict)

    @property
    def domain(self) -> Domain:
        """The public description of the columns."""
        return self.state.domain

    @property
    def budget(self) -> Budget:
        """The total that may be spent."""
        return self.state.budget

    @property
    def spent(self) -> float:
        """The amount that all analysts together have spent, in the unit of the budget."""
        return self.budget.amount(self.state.ledger.spent)

    @property
    def remaining(self) -> float:
        """The amount that can still be spent, in the unit of the budget."""
        return self.budget.amount(self.state.ledger.remaining)

    @property
    def engine(self) -> str:
        """The name of the engine, as passed to `open`."""
        return self.answering.name

    @property
    def opening(self) -> str | None:
        """One line: what the first opening bought, and what plain noise would have achieved with the same budget.

        None if the opening stated how to use the budget, and for ledgers of earlier versions.
        """
        return opened_with(self)

    # -- asking --------------------------------------------------------------------------------------------

    @overload
    def ask(
        self,
        question: Query | StatisticQuery,
        *,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
        promise: Promise = "certified",
    ) -> Answer: ...

    @overload
    def ask(
        self,
        question: str,
        *,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
        promise: Promise = "certified",
    ) -> ResultTable: ...

    def ask(
        self,
        question: Query | StatisticQuery | str,
        *,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
        promise: Promise = "certified",
    ) -> Answer | ResultTable:
        """Answer a question: for free from existing knowledge, or by paying for a requested error.

        Args:
            question: `rt.count(...)`, `rt.mean(...)`, `rt.marginal(...)`, `rt.median(...)` and the like, or SQL text.
            error: The largest acceptable error, in the unit of the answer: a share of the table for `rt.count`, the
                column's own unit for means, records for `COUNT(*)` in SQL. `rt.records(80)` means 80 records, "1%" one
                hundredth of the answer's range. Without it, the session returns the best free answer.
            confidence: The probability with which the error holds; by default the session's.
            key: An idempotency key: what was paid under it is charged once and returned byte for byte, also after a
                crash; a free answer is not recorded.
            analyst: The name of the analyst who pays.
            promise: "certified" requires a bound for this question. "typical" also accepts a free answer whose typical
                error is small enough: 19 of 20 questions like it are within the error.

        Returns:
            An `Answer`, or a `ResultTable` for SQL. If the remaining budget cannot pay, a free answer that says so in
            `note`.

        Raises:
            QueryError: The question cannot be answered in this form; nothing was spent.
            BudgetError: A strict session cannot pay; nothing was spent.
            KeyReusedError: The key belongs to another question.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
            >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
            >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9))
            >>> session.ask(rt.count(rt.col("age") >= 40), error=rt.records(300), key="over-40").certified
            True
            >>> session.ask("SELECT COUNT(*) FROM people WHERE age >= 40").columns
            ('count(*)',)
        """
        if isinstance(question, Query):
            confidence = self.confidence if confidence is None else confidence
            request = Request(question, error, confidence, key, analyst, self.strict, None, promise)  # type: ignore[arg-type]
            return self._drawn(self.answering.ask(request), question)
        asked: Any = question
        if not isinstance(asked, (str, StatisticQuery)):
            checked_query(asked)
        request = self.request(asked, error, confidence, key, analyst, promise)
        found = self.answering.ask(request)
        if isinstance(question, StatisticQuery):
            from reticent.sql.asking import answer_of, wanted_of

            return answer_of(question, found, wanted_of(question, self.domain, error))
        from reticent.sql.population import TableSample

        statement: Any = request.question
        return found.drawn_from(TableSample(self.state.knowledge, statement))

    def _drawn(self, answer: Answer, asked: Query) -> Answer:
        """Lets an answer tell about the population."""
        state = self.state
        query = asked.resolve(state.domain)
        return answer.drawn_from(Sample(state.knowledge, query, None, self._published, state.neighbours))

    def _published(self) -> Budget:
        """Of all that was published about the table."""
        return budget_of(self.publications)

    def ask_all(
        self,
        questions: Sequence[Query],
        *,
        error: float | Records | str,
        confidence: float | None = None,
        analyst: str | None = None,
    ) -> list[Answer]:
        """Ask several questions at once, which may cost less: one audit of their largest error can certify them all.

        Questions with a free answer stay free; questions that the audit does not certify are asked singly.

        Args:
            questions: Queries; the error applies to each in its own unit.
            error: As for `ask`; the same for all questions.
            confidence: The probability with which each error holds; by default the session's.
            analyst: The name of the analyst who pays.

        Returns:
            One answer for each question, in the same order; their prices add up to the charge.

        Raises:
            QueryError: A question cannot be answered in this form, or a percentage means different errors.
            BudgetError: A strict session cannot pay for all of them, should the audit fail; nothing was spent.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
            >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
            >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9))
            >>> answers = session.ask_all([rt.count(rt.col("age") >= edge) for edge in (20, 40, 60)], error=0.1)
            >>> [answer.certified for answer in answers]
            [True, True, True]
        """
        require(questions, Sequence, "questions", "a list of queries")
        asked = tuple(map(checked_query, questions))
        request = self.request(asked, error, confidence, None, analyst)
        found: list[Answer] = self.answering.ask(request) if asked else []
        return [self._drawn(answer, query) for answer, query in zip(found, asked, strict=True)]

    @overload
    def minimize(
        self,
        loss: ConvexLoss,
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Model: ...

    @overload
    def minimize(
        self,
        loss: Sequence[ConvexLoss],
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> list[Model]: ...

    def minimize(
        self,
        loss: ConvexLoss | Sequence[ConvexLoss],
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Model | list[Model]:
        """Fit a model: the minimiser of a convex loss.

        Args:
            loss: A loss such as `rt.Squared(...)`, or a list of losses: one audit may certify the models of all of
                them.
            error: The largest acceptable excess risk, in the unit of the loss. Without it, the free model of the
                hypothesis; a convex engine uses its own error instead, and may charge.
            confidence: The probability with which the error holds; by default the session's.
            key: As for `ask`.
            analyst: The name of the analyst who pays.

        Returns:
            A `Model` for one loss, a list of models for a list. A model that neither an audit nor a purchase can
            certify is not `certified`; a strict session raises an error instead.

        Raises:
            QueryError: The loss does not fit the table, or a strict session cannot certify it.
            BudgetError: A strict session cannot pay.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> smoker = rt.Categorical(["no", "yes"], other=False)
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=smoker)
            >>> session = rt.Session.open(None, rt.Table.of(people, domain), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = session.minimize(rt.Squared(features=["smoker"], label="age"))
            >>> sorted(model.coefficients)
            ['(intercept)', 'smoker=yes']
        """
        request = self.request(_checked_losses(loss), error, confidence, key, analyst)
        found: Model | list[Model] = self.answering.ask(request)
        for model in found if isinstance(found, list) else [found]:
            self._with_sample(model)
        return found

    def _with_sample(self, model: Model) -> Model:
        """Attach the sample that `population_excess` of a model needs."""
        from reticent.knowledge.population_losses import LossSample

        knowledge = self.state.knowledge
        fewest = knowledge.records * (1 - knowledge.records_error)
        sample = LossSample(fewest, knowledge.unit, self.state.neighbours, self._published)
        return model.drawn_from(None, sample)

    def cost(
        self,
        question: Query | StatisticQuery | str | ConvexLoss | Sequence[Query] | Sequence[ConvexLoss],
        *,
        error: float | Records | str,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
        promise: Promise = "certified",
    ) -> float:
        """The price of a question before it is asked. `cost` itself is free and reads no rows.

        Args:
            question: A query or SQL text as for `ask`, a list of queries as for `ask_all`, a loss or a list of losses
                as for `minimize`.
            error: As for these methods.
            confidence: As for these methods.
            key: As for these methods; amounts that this key has already paid are not charged again.
            analyst: As for these methods.
            promise: As for `ask`.

        Returns:
            An upper bound on the charge for the same arguments now, in the unit of the budget; 0 if the answer is free.
            The charge is smaller only if an audit or a test makes later purchases unnecessary, or one part of the
            question answers another.

        Raises:
            QueryError: The question cannot be answered in this form.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
            >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
            >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), warm_start=0)
            >>> question, before = rt.count(rt.col("age") >= 40), session.spent
            >>> price = session.cost(question, error=0.05)
            >>> answer = session.ask(question, error=0.05)
            >>> 0 < price == session.spent - before
            True
        """
        asked: Any = question
        if isinstance(question, Predicate):
            checked_query(question)
        if isinstance(question, Sequence) and not isinstance(question, str):
            queries = bool(question) and all(isinstance(one, Query) for one in question)
            asked = tuple(question) if queries else _checked_losses(question)
        elif not isinstance(question, (str, Query, StatisticQuery)):
            asked = _checked_losses(question)
        request = self.request(asked, error, confidence, key, analyst, promise)
        if request.error is None:
            raise QueryError("give error=: without it every answer is free")
        return self.budget.amount(self.quote(request).price)

    def request(
        self,
        question: Question | StatisticQuery | str,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        key: str | None = None,
        analyst: str | None = None,
        promise: Promise = "certified",
    ) -> Request:
        """Check a question and its terms and return them as one value for `quote`.

        Args:
            question: A query, a loss, a statistic, or SQL text.
            error: The requested error, as a share of the table, as `rt.records(...)`, or as text such as "1%"; None for
                a free answer.
            confidence: The probability with which the error holds; None for the session's own.
            key: An idempotency key, so that a repeated request is not paid twice.
            analyst: The name of the analyst who pays.
            promise: "certified", or "typical" for an error that holds for most questions.

        Returns:
            The request.

        Raises:
            QueryError: The question or one of its terms is refused.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0)
            >>> session.request(rt.count(rt.col("a") == 1), error=0.05).error
            0.05
            >>> session.close()
        """
        if isinstance(question, str):
            from reticent.sql.statement import compile_sql

            question = compile_sql(question, self.domain, star=self.synthetic_rows)
        elif isinstance(question, StatisticQuery):
            from reticent.sql.asking import compile_statistic

            question = compile_statistic(question, self.domain)
        confidence = self.confidence if confidence is None else confidence
        return Request(question, error, confidence, key, analyst, self.strict, promise=promise)  # type: ignore[arg-type]

    def quote(self, request: Request) -> Quote:
        """Decide how a request would be answered now, with an upper bound on its price. Nothing is spent.

        Args:
            request: The result of `Session.request`.

        Returns:
            The quote; `price` is the largest amount that `carry_out` would pay.

        Raises:
            QueryError: The request cannot be answered.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0)
            >>> session.quote(session.request(rt.count(rt.col("a") == 1), error=0.05)).price > 0
            True
            >>> session.close()
        """
        return self.answering.quote(request)

    def carry_out(self, quote: Quote) -> Result:
        """Answer according to a quote and pay at most its price; less if the session has learned more since.

        Args:
            quote: The result of `Session.quote`.

        Returns:
            An answer, a result table, or a model.

        Raises:
            BudgetError: The budget or the analyst's cap cannot pay.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0)
            >>> quote = session.quote(session.request(rt.count(rt.col("a") == 1), error=0.05))
            >>> session.carry_out(quote).error <= 0.05
            True
            >>> session.close()
        """
        return self.answering.finish(quote)

    # -- certifying and publishing ---------------------------------------------------------------------------

    def refit(self) -> bool:
        """Fit the working hypothesis to all measurements so far. This is free.

        `certify` and `release` call it.

        Returns:
            Whether there were new measurements to fit.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1))
            >>> session.refit()
            False
        """
        return self.answering.refit()

    def certify(self, kind: Kind = "boxes", *, order: int = 2, amount: float | None = None) -> Certificate:
        """Buy a certificate: a bound on the error of every question of a class. Such questions are then free.

        Args:
            kind: "boxes" for ranges of values on each column and single values, "cells" for combinations of values,
                "predicates" for every condition on the columns.
            order: The largest number of columns in one question.
            amount: The price to pay, in the unit of the budget; by default a twentieth of the budget.

        Returns:
            The certificate; `bound` is the largest error as a share of the table.

        Raises:
            QueryError: The kind is unknown, or the order exceeds the number of columns.
            BudgetError: The remaining budget cannot pay; nothing was spent.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
            >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
            >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9))
            >>> session.certify("boxes", order=1).confidence
            0.95
        """
        order = whole_number(order, "order", 1)
        require(kind, str, "kind", f"one of {', '.join(KINDS)}")
        if kind not in KINDS:
            raise QueryError(f"kind is {kind!r}; give one of {', '.join(KINDS)}")
        units = int(self.budget.limit * AUDIT_SHARE) if amount is None else self._units(amount, "amount")
        state = self.state
        with state.lock:
            self.refit()
            knowledge, certificate = certify(
                state.curator, state.journal, state.knowledge, kind, order, self.confidence, units
            )
            state.learn(knowledge)
        return certificate

    def certify_typical(self, *, order: int = 3, amount: float | None = None) -> TypicalError:
        """Buy a typical error: a bound that holds for 19 of 20 questions drawn from a declared distribution.

        The distribution draws a set of at most `order` columns, then for each column a range of bins, one value, or
        several values. Answers to such questions state the bound as `typical`, in addition to `error`. A certificate
        bounds the worst of millions of questions; a typical error bounds a question that was not chosen because its
        answer looks wrong.

        Args:
            order: The largest number of columns in one question.
            amount: The price to pay, in the unit of the budget; by default a twentieth of the budget.

        Returns:
            The typical error; `bound` is a share of the table.

        Raises:
            QueryError: The order exceeds the number of columns, or no column has two values.
            BudgetError: The remaining budget cannot pay; nothing was spent.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
            >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
            >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), warm_start=0.5)
            >>> session.certify_typical(order=1).share
            0.95
        """
        order = whole_number(order, "order", 1)
        units = int(self.budget.limit * TYPICAL_SHARE) if amount is None else self._units(amount, "amount")
        state = self.state
        with state.lock:
            self.refit()
            knowledge, error = certify_typical(
                state.curator, state.journal, state.knowledge, order, self.confidence, units
            )
            state.learn(knowledge)
        return error

    @property
    def typical(self) -> tuple[TypicalError, ...]:
        """All typical errors bought so far, oldest first."""
        return tuple(typical.error for typical in self.state.knowledge.typical)

    def audit(self, kind: Kind = "boxes", *, order: int = 2, amount: float | None = None) -> Certificate:
        """Deprecated: use `certify`. `reticent audit` has another meaning: it tests the library's own mechanisms.

        Args:
            kind: As for `certify`.
            order: As for `certify`.
            amount: As for `certify`.

        Returns:
            The certificate.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0)
            >>> certificate = session.certify(order=1)  # audit() is the same, with a warning
            >>> session.close()
        """
        warnings.warn("Session.audit is called Session.certify", DeprecationWarning, stacklevel=2)
        return self.certify(kind, order=order, amount=amount)

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """All certificates, oldest snapshot first."""
        return self.state.knowledge.certificates

    def release(self) -> Release:
        """Publish the current state of the session as a release. It is free, because it was already paid for.

        Returns:
            A release of the newest certified snapshot with its certificates; if there is none, of the working
            hypothesis fitted to all measurements.

        Example:
            >>> import pyarrow, reticent as rt
            >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
            >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
            >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9))
            >>> session.release().synthesize(rows=5).num_rows
            5
        """
        if not self.state.knowledge.certified:
            self.refit()
        return published(self)

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def publications(self) -> tuple[PublishedBudget, ...]:
        """The session's own ledger, then other ledgers that paid for its start or its domain; their prices add up."""
        ledger, curator = self.state.ledger, self.state.curator
        own = PublishedBudget(ledger.name, self.budget, ledger.spent)
        found = discovered(self.domain, curator.neighbours, curator.unit)
        return each_ledger_once(own, *self.state.journal.elsewhere, *found)

    def describe(self) -> dict[str, Any]:
        """Public facts about the session: its guarantee, the amount spent, its certificates.

        Returns:
            Plain values that can be written as JSON.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1))
            >>> session.describe()["engine"]
            'default'
        """
        return describe_session(self)

    def set_cap(self, analyst: str, amount: float) -> None:
        """Limit the total that one analyst may spend.

        Args:
            analyst: The name used in `ask(..., analyst=)`.
            amount: In the unit of the budget, at most the whole budget; a later call may raise or lower it.

        Raises:
            QueryError: The amount is not between 0 and the budget.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1))
            >>> session.set_cap("ann", 0.1)
        """
        require(analyst, str, "analyst", "the analyst's name")
        self.state.ledger.set_cap(analyst, self._units(amount, "a cap"))

    def _units(self, amount: object, name: str) -> int:
        """Nano-units of an amount in the budget's unit, from nothing to all of it."""
        most = self.budget.amount(self.budget.limit)
        bounds = f"between 0 and the budget, {self.budget.unit} {most:g}"
        number = real_number(amount, name, f"a number {bounds}")
        if not 0 <= number <= most:
            raise QueryError(f"{name} of {number!r} must lie {bounds}")
        return int(number * NANO)

    def spent_by(self, analyst: str) -> float:
        """The amount that one analyst has spent, in the unit of the budget.

        Args:
            analyst: The name used in `ask(..., analyst=)`.

        Returns:
            The amount; 0 for a name that has not paid.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1))
            >>> session.spent_by("ann")
            0.0
        """
        require(analyst, str, "analyst", "the analyst's name")
        return self.budget.amount(self.state.ledger.spent_by(analyst))

    def report(self, path: str | Path) -> Path:
        """Write a self-contained HTML page with the amount spent, the guarantee and the certificates.

        Args:
            path: The file to write.

        Returns:
            The path.

        Raises:
            ReticentError: The file cannot be written.

        Example:
            >>> import tempfile
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     session.report(f"{folder}/session.html").name
            'session.html'
        """
        from reticent.report import write_session

        return write_session(self, named_path(path))

    def plot(self) -> Figure:
        """Plot the spending, charge by charge. It needs matplotlib.

        Returns:
            A matplotlib figure.

        Raises:
            QueryError: Matplotlib is not installed.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0)
            >>> figure = session.plot()  # doctest: +SKIP
            >>> session.close()
        """
        from reticent.knowledge.plotting import plot_budget

        charges = [self.budget.amount(event.cost) for event in self.state.ledger.events() if event.kind == "reserve"]
        return plot_budget(self.budget.unit, charges, self.budget.amount(self.budget.limit))

    def _repr_html_(self) -> str:
        from reticent.report import session_summary

        return session_summary(self)

    def close(self) -> None:
        """Close the ledger. The session first records the savings of its free answers, unless that fails.

        A closed session still gives free answers and prices; whatever must be paid raises LedgerError.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> session = rt.Session.open(None, table, rt.Budget(rho=1))
            >>> session.close()
        """
        with suppress(ReticentError):
            self.answering.written()
        self.state.ledger.close(CLOSED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close() if kind is None else self.state.ledger.close(CLOSED)

    def __repr__(self) -> str:
        unit = self.budget.unit
        measured = ", nothing measured yet" if nothing_measured(self.state.knowledge) else ""
        closed = ", closed" if self.state.ledger.closed else ""
        spent = f"{unit} {self.spent:.4g} spent, {self.remaining:.4g} left"
        return f"<Session on {self.name!r}{closed}: {spent}{measured}>"


def _declared_losses(losses: Any) -> tuple[ConvexLoss, ...] | None:
    if losses is None:
        return None
    checked = _checked_losses(losses)
    return checked if isinstance(checked, tuple) else (checked,)


def _checked_support(support: int | Smooth | None) -> int | Smooth | None:
    if support is None or isinstance(support, Smooth):
        return support
    return whole_number(support, "support", 2, MOST_SUPPORT)


def _checked_losses(loss: Any) -> ConvexLoss | tuple[ConvexLoss, ...]:
    """One loss, or a batch of them."""
    from reticent.losses.losses import checked_loss

    if not isinstance(loss, Sequence):
        return checked_loss(loss)
    if not loss:
        raise QueryError("a batch needs at least one loss")
    return tuple(map(checked_loss, cast("Sequence[Any]", loss)))
