"""`SessionEngine`: `quote` decides how a request is answered and at what price, `carry_out` pays and answers.

A quote is decided once, from public facts alone. `cost` reads its price, `ask` carries it out. A quote is made on one
value of knowledge; if knowledge has grown before it is carried out, it is made again, so that nobody pays for what
another thread has bought meanwhile.

Questions with several parts (SQL statements, quotients, and groups that must be asked one by one) are split here in the
same way for all engines; an engine quotes and buys single questions. The engine of a session is chosen once, when its
ledger is first opened (`sessions/open.py`).

`free_result` gives free results for every kind of question from knowledge alone; the service's readers use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from reticent.errors import BudgetError, QueryError
from reticent.kernel.accounting import NANO
from reticent.kernel.curator import Noise
from reticent.kernel.statistics import MARGINAL_CELLS
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import (
    Recall,
    Told,
    answered,
    finished,
    free_answer,
    free_ratio,
    free_single,
    known_for,
    known_mean,
    not_one,
    parts_of,
    ratio_of,
    ratio_part_error,
    resolved,
    together,
    uncertified,
)
from reticent.knowledge.knowledge import Knowledge, Reading, Single
from reticent.knowledge.request import Request, excess_error, part_name, shared_confidence, with_shortfall
from reticent.losses.losses import ConvexLoss
from reticent.queries.base import RECORDS_FAILURE, Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Ratio
from reticent.releases.models import Model, free_model
from reticent.sessions.journal import ASK, KEY_REFUSALS, SUM, as_given, reused
from reticent.sessions.state import State
from reticent.sql.asking import (
    Part,
    chosen_errors,
    fitting,
    free_table,
    narrowest,
    part_confidence,
    refuse_sums,
    result_table,
    wanted_parts,
)
from reticent.sql.error_targets import reached
from reticent.sql.result import ResultTable
from reticent.sql.statement import Statement


class SessionEngine(ABC):
    """Answers single questions within a budget; callers need no lock."""

    name: ClassVar[str] = ""
    audits_batches: ClassVar[bool] = False
    """Whether a declared batch may be certified by one audit; otherwise its questions are asked singly."""

    reads_knowledge: ClassVar[bool] = False
    """Whether free answers are functions of knowledge alone, as readers require."""

    def __init__(self, state: State, confidence: float) -> None:
        self.state = state
        self.confidence = confidence
        """Of answers to those who state none."""

    # -- common to all engines -------------------------------------------------------------------------------

    def ask(self, request: Request) -> Any:
        question = request.question
        if request.error is None and request.key is None and self.reads_knowledge and isinstance(question, Linear):
            # Nothing can be bought and no key has been told anything, so there is nothing to quote.
            found = free_answer(self.state.knowledge, request)
            if found is None:
                raise uncertified(question.resolve(self.state.domain))
            return found
        return self.finish(self.quote(request))

    def finish(self, quote: Quote) -> Any:
        """Carry out the quote of a whole request, and note if the answer misses the requested error."""
        try:
            result = self.carry_out(quote)
        except KEY_REFUSALS as refusal:
            raise as_given(refusal) from None
        if not isinstance(result, Answer):
            return result
        answer = finished(result, quote.request, self.state.knowledge)
        if answer.wanted is None or result.wanted is not None or quote.request.key is not None:
            return answer  # what a key is told depends on its own purchase alone
        return replace(answer, note=f"{answer.note}; {_left_to_buy(self, quote.request)}")

    def quote(self, request: Request) -> Quote:
        """How a request would be answered now, and an upper bound on the charge; reads no rows."""
        try:
            return self._quoted(request)
        except KEY_REFUSALS as refusal:
            raise as_given(refusal) from None

    def _quoted(self, request: Request) -> Quote:
        question = request.question
        if isinstance(question, Query):
            return self.quote_part(resolved(request, question, self.state.knowledge))
        if isinstance(question, ConvexLoss) or (isinstance(question, tuple) and isinstance(question[0], ConvexLoss)):
            return self.quote_losses(request)
        if isinstance(question, tuple):
            from reticent.sessions.batch import quote_batch

            return quote_batch(self, request)
        return quote_statement(self, request, question)

    def quote_losses(self, request: Request) -> Quote:
        """The quote of one loss or a declared batch; by default certified by an audit, or bought singly."""
        from reticent.sessions.models import quote_models

        return quote_models(self.state, request)

    def quote_part(self, request: Request) -> Quote:
        """The quote of one resolved query, possibly a part of a question; its error is in its own unit."""
        query = request.question
        if isinstance(query, (Linear, Marginal)):
            return self.quote_single(request, query)
        if isinstance(query, Groups):
            return quote_groups(self, request, query) if self.splits(query) else self.quote_single(request, query)
        if isinstance(query, Ratio):
            return quote_ratio(self, request, query)
        assert isinstance(query, Query), "a resolved query"
        raise not_one(query)

    def carry_out(self, quote: Quote) -> Any:
        """Pay the quoted purchase, unless knowledge has grown meanwhile, and answer."""
        if isinstance(quote, Split):
            parts = self.payable(quote)
            if parts is quote.parts and not quote.begin():
                return self.carry_out(self.anew(quote))
            result = quote.join([self.carry_out(self.renewed(part)) for part in parts])
            remaining = quote.ended(result)
            # Offsets within bins move a quotient by what the fit says now.
            moved = isinstance(quote.request.question, Ratio) and bool(self.state.knowledge.bin_means)
            self._write_end(quote, remaining, changed=moved or remaining is not result)
            return remaining
        if isinstance(quote, Free):
            self.given(quote)
            return quote.result
        with self.state.lock:
            current = self.renewed(quote)
            if isinstance(current, Measure):
                return self.buy(current)
            if isinstance(current, Certify):
                return current.run()
        return self.carry_out(current)

    def payable(self, quote: Split) -> Sequence[Quote]:
        """The parts of a question that can be paid as a whole, otherwise as they are known: a part is no answer.

        A strict session refuses instead, before anything is spent. The questions of a batch are answered one by one,
        and an engine that tests each part may need to pay for none.
        """
        request, batch = quote.request, isinstance(quote.request.question, tuple)
        if not quote.price or not (request.strict or (self.reads_knowledge and not batch)):
            return quote.parts
        try:
            self.state.ledger.affordable(quote.price, analyst=request.analyst)
        except BudgetError:
            if request.strict:
                raise
            return [self._as_known(part) if part.price else part for part in quote.parts]
        return quote.parts

    def _write_end(self, quote: Split, result: Answer | ResultTable, *, changed: bool) -> None:
        """Record the answer of a key that has paid for only some of its parts, before the answer is returned.

        The other parts were free or missed their error, or the answer depends on more than its parts (`changed`):
        knowledge may change, the answer of the key must not.
        """
        key, state = quote.request.key, self.state
        if key is None or not quote.price:
            return
        with state.lock:
            left = changed or any(not _is_charged(state, part) for part in _leaves(quote))
            if left and (state.ledger.charged(ASK + key) or state.ledger.charged(SUM + key)):
                state.journal.save_told(key, _asked(quote.request), result.to_dict())

    def told_before(self, request: Request) -> Free | None:
        """The recorded answer of a key for a question of several parts, if there is one."""
        told = None if request.key is None else self.state.journal.passed(request.key)
        if told is None:
            return None
        if told["asked"] != _asked(request):
            raise reused(str(request.key))
        kept = self.state.journal.told(told)
        if kept is None:
            return None
        kind = ResultTable if isinstance(request.question, Statement) else Answer
        return Free(request, self.state.knowledge, kind.from_dict(kept))

    def unpaid_as_known(self, request: Request, parts: Sequence[Quote]) -> Sequence[Quote]:
        """The parts of a question without purchases, if its key has ended and its answer was not recorded."""
        if request.key is None or self.state.journal.passed(request.key) is None:
            return parts
        return [self._as_known(part) if part.price else part for part in parts]

    def _as_known(self, part: Quote) -> Quote:
        """The answer to a part if nothing can be paid."""
        if isinstance(part, Split):
            return replace(part, parts=[self._as_known(one) if one.price else one for one in part.parts], between=0)
        request, query = part.request, part.request.question
        assert isinstance(query, Single), "parts of questions are single"
        plain = request.but(error=None, promise="certified", numbers="")  # as it is answered, if it is asked again
        return Free(plain, part.known, self.unpaid(request, query))

    def unpaid(self, request: Request, query: Single) -> Answer:
        """The answer to a single question if nothing can be paid."""
        known = known_for(self.state.knowledge, request)
        found = free_single(known, query, None, request.confidence, strict=request.strict)
        if found is None:
            raise uncertified(query)
        return found

    def between(self, parts: Sequence[Quote]) -> int:
        """An upper bound on what carrying out one part may add to the prices of the following parts."""
        return 0

    def given(self, quote: Free) -> None:
        """Called for each free answer; an engine may count its saving."""
        return

    def may_audit(self, key: str, cost: int) -> bool:
        """Whether an audit that no batch requested may be paid for; an audit that was begun continues."""
        return True

    def audits(self, key: str, cost: int) -> None:
        """Called before such an audit is paid for."""
        return

    def sells(self, query: Query) -> bool:
        """Whether a total behind a statement can be bought as a sum of the rows' own numbers."""
        return False

    def written(self) -> None:
        """Record the state that only memory holds, when a session is closed."""
        return

    def renewed(self, quote: Quote) -> Quote:
        """The quote, made again if knowledge has grown since.

        A purchase that would now cost more stays as it was quoted: it still meets its error.
        """
        if quote.known is self.state.knowledge:
            return quote
        current = self.anew(quote)
        dearer = isinstance(quote, Measure) and isinstance(current, Measure) and current.price > quote.price
        return quote if dearer else current

    def anew(self, quote: Quote) -> Quote:
        """A new quote for the same request; its query is already resolved."""
        resolved_before = isinstance(quote.request.question, Query)
        return self.quote_part(quote.request) if resolved_before else self.quote(quote.request)

    def splits_query(self, query: Query) -> bool:
        """Whether a question has groups that must be asked one by one, because it has too many cells for one
        measurement.
        """
        return isinstance(query, Groups) and self.splits(query)

    def splits(self, query: Groups) -> bool:
        """Whether groups must be asked one by one."""
        return self.state.domain.cells(query.span(self.state.domain)) > MARGINAL_CELLS

    def guessed(self, request: Request, query: Single) -> Answer:
        """The hypothesis' own answer, uncertified; refused for a strict request."""
        if request.strict:
            raise uncertified(query)
        knowledge = known_for(self.state.knowledge, request)
        return answered(knowledge, query, knowledge.guess(query), None)

    # -- defined by each engine ------------------------------------------------------------------------------

    @abstractmethod
    def reading(self, request: Request, query: Single, wanted: float | None) -> Reading | None:
        """The free reading within `wanted`, a fraction; without `wanted`, the best reading."""

    @abstractmethod
    def quote_single(self, request: Request, query: Single) -> Free | Measure:
        """The quote for a question that needs at most one measurement."""

    @abstractmethod
    def buy(self, quote: Measure) -> Answer | Model:
        """Pay and answer; the caller holds the lock and the quote is current."""

    @property
    def own_error(self) -> float | None:
        """The common error of all answers of this engine; None if every question has its own."""
        return None

    @abstractmethod
    def refit(self) -> bool:
        """Fit the working hypothesis to all measurements so far; returns whether there were new ones."""

    def facts(self) -> Mapping[str, Any]:
        """The facts of the engine in `describe`, besides its name."""
        return {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about learning that did not fit in memory, and its effect on the hypothesis."""
        return self.state.knowledge.notes


Result: TypeAlias = "Answer | ResultTable | Model | list[Answer] | list[Model]"


class Free(NamedTuple):
    """A request that knowledge answers well enough, or that has no requested error."""

    request: Request
    known: Knowledge
    result: Any
    price: int = 0


@dataclass(frozen=True, eq=False)
class Purchase:
    """The measurement that would meet a requested error: a whole marginal or one query, its noise and its price."""

    query: Single
    noise: Noise
    cost: int
    invested: int = 0
    """The part of the cost beyond the question asked: a cell may be bought with its whole marginal."""
    beside: tuple[Marginal, Noise] | None = None
    """A marginal that is measured in the same charge, for later questions."""

    @property
    def queries(self) -> tuple[Single, ...]:
        """All queries that one charge measures."""
        return (self.query,) if self.beside is None else (self.query, self.beside[0])

    @property
    def noises(self) -> tuple[Noise, ...]:
        return (self.noise,) if self.beside is None else (self.noise, self.beside[1])


@dataclass(frozen=True, eq=False)
class Measure:
    """At most one charge; none if the key was charged before and only its result is read again.

    `bought` is empty if a test decides whether anything is measured. A second entry is the purchase that an earlier
    version would have made under the same key.
    """

    request: Request
    known: Knowledge
    price: int
    bought: tuple[Purchase, ...] = ()


@dataclass(frozen=True, eq=False)
class Certify:
    """One charge made by `run`: an audit, followed by single purchases for what it does not certify; or one mean of
    numbers.
    """

    request: Request
    known: Knowledge
    run: Callable[[], Any]
    most: Callable[[], int]

    @cached_property
    def price(self) -> int:
        """The price of the audit and of all single purchases, should it fail."""
        return self.most()


@dataclass(frozen=True, eq=False)
class Split:
    """A question of several parts: each is carried out separately, and their answers are combined.

    The price is at most the sum: a part may buy what answers the next one. `begin` records what a retry must know
    before the first part is paid; it returns False if another thread began the same question meanwhile.
    """

    request: Request
    known: Knowledge
    parts: Sequence[Quote]
    join: Callable[[list[Any]], Any]
    begin: Callable[[], bool] = lambda: True
    between: int = 0
    """An upper bound on what one part may add to the prices of the next ones."""
    ended: Callable[[Any], Any] = lambda joined: joined
    """The final result, from that of the parts: with what else is known, and what is missing."""

    @cached_property
    def price(self) -> int:
        return self.between + sum(part.price for part in self.parts)


Quote = Free | Measure | Certify | Split


def _leaves(quote: Split) -> Iterator[Quote]:
    """All single questions among the parts and their parts."""
    for part in quote.parts:
        if isinstance(part, Split):
            yield from _leaves(part)
        else:
            yield part


def _is_charged(state: State, part: Quote) -> bool:
    key = part.request.key
    return key is not None and (state.charged(ASK + key) or state.charged(SUM + key))


def _asked(request: Request) -> str:
    """The identifier of a question of several parts."""
    question = request.question
    assert isinstance(question, (Statement, Query)), "of several parts"
    return part_name(question.text, request.error or 0.0, request.confidence)


def quote_statement(engine: SessionEngine, request: Request, statement: Statement) -> Quote:
    """The quote of a statement: each query behind it is a part, and paid parts share the failure probability."""
    knowledge, error, confidence = engine.state.knowledge, request.error, request.confidence
    refuse_sums(statement, knowledge.unit)
    if (told := engine.told_before(request)) is not None:
        return told
    if statement.explained is not None and error is not None:
        return _explained(engine, request, statement.text, statement.explained)
    if error is None and engine.reads_knowledge and not any(map(engine.splits_query, statement.queries)):
        table = free_table(knowledge, request)
        if table is not None:
            return Free(request, knowledge, table)
    if error is not None and engine.reads_knowledge:
        return _quote_wish(engine, request, statement)
    begin = _nothing
    if error is None:
        asked, each = [Part(query, None) for query in statement.queries], confidence
    else:
        name = part_name(statement.text, error, confidence)
        noted = engine.state.recall(name, request.key)
        errors = fitting(statement, noted)
        if errors is None:
            free, own = partial(_is_free, engine, request), engine.own_error
            errors = chosen_errors(statement, knowledge, error, confidence, own=own, sold=engine.sells, free=free)
            begin = partial(_write_down, engine, request, name, errors, noted)
        asked, each = wanted_parts(statement, errors), part_confidence(statement, errors, confidence)
    return _statement_parts(engine, request, statement, asked, each, begin)


def _statement_parts(
    engine: SessionEngine,
    request: Request,
    statement: Statement,
    asked: Sequence[Part],
    confidence: float,
    begin: Callable[[], bool],
    ended: Callable[[Any], Any] | None = None,
) -> Split:
    """A statement's parts, each quoted with its own error."""
    knowledge = engine.state.knowledge
    parts = [
        engine.quote_part(
            request.part(
                part.query,
                part.error,
                confidence=confidence,
                name=part.query.digest[:16],
                numbers=part.numbers,
                counting=knowledge.of_counts.counting,
            )
        )
        for part in asked
    ]
    parts = engine.unpaid_as_known(request, parts)
    join = partial(result_table, statement, knowledge, asked, error=request.error, confidence=confidence)
    begin = begin if any(part.price for part in parts) else _nothing
    return Split(request, knowledge, parts, join, begin, engine.between(parts), ended or _as_joined)


def _quote_wish(engine: SessionEngine, request: Request, statement: Statement) -> Quote:
    """The quote of a statement with a requested error: free if what is known meets it, otherwise what is missing.

    The errors of its parts are chosen at estimates. Where these were far off, the purchase misses the requested error:
    the same question then chooses again, from what was measured. A key goes on with the errors it began with.
    """
    knowledge, error, confidence, state = engine.state.knowledge, request.error, request.confidence, engine.state
    assert error is not None, "a wish"
    name = part_name(statement.text, error, confidence)
    noted = state.recall(name, request.key)
    recalled = fitting(statement, noted)
    begun = recalled is not None and request.key is not None and state.has_begun(request.key)
    if not begun:
        found = free_table(knowledge, request, lambda _: recalled, state.told)
        if found is not None:
            return Free(request, knowledge, found)
    before = None if begun else free_table(knowledge, request.but(error=None, strict=True, promise="certified"))
    ended = partial(_ended, engine, request, statement, before)
    if recalled is not None:
        asked, each = wanted_parts(statement, recalled), part_confidence(statement, recalled, confidence)
        begin = partial(_write_down, engine, request, name, recalled, recalled)
        quote = _statement_parts(engine, request, statement, asked, each, begin, ended)
        if begun or not all(isinstance(part, Free) for part in quote.parts):
            return quote  # a crash may have left a part charged and not yet measured
        try:
            return _quote_chosen(engine, request, statement, name, recalled, ended)
        except QueryError:
            return quote  # nothing reaches the error: the same as was bought
    return _quote_chosen(engine, request, statement, name, noted, ended)


def _quote_chosen(
    engine: SessionEngine,
    request: Request,
    statement: Statement,
    name: str,
    recalled: list[float] | None,
    ended: Callable[[Any], Any],
) -> Quote:
    """The quote of parts whose errors are chosen from what is known now."""
    knowledge, error, confidence = engine.state.knowledge, request.error, request.confidence
    assert error is not None, "a wish"
    free = partial(_is_free, engine, request)
    errors = chosen_errors(statement, knowledge, error, confidence, own=None, sold=engine.sells, free=free)
    while True:
        asked, each = wanted_parts(statement, errors), part_confidence(statement, errors, confidence)
        begin = partial(_write_down, engine, request, name, errors, recalled)
        quote = _statement_parts(engine, request, statement, asked, each, begin, ended)
        if not all(isinstance(part, Free) for part in quote.parts):
            return quote
        # All parts are known as well as estimates ask for, and their result still misses the error: ask for less.
        errors = [part / 2 for part in errors]
        if all(abs(part) < LEAST for part in errors):
            raise QueryError(
                f"{statement.text}: all that it asks is known, and its error is larger; ask for a larger one"
            )


LEAST = 1e-12
"""An error, as a share of the table, that no budget pays for."""


def _ended(
    engine: SessionEngine, request: Request, statement: Statement, before: ResultTable | None, table: ResultTable
) -> ResultTable:
    """The result with narrower bounds where they were known before, and with what is left to buy if it misses the
    requested error.

    What was known before may not be known in the same words later, so such a result is recorded for all who repeat it.
    """
    state, error = engine.state, request.error
    assert error is not None, "a wish"
    knowledge = state.knowledge
    found = table if before is None else narrowest(statement, knowledge, table, before, error)
    if reached(statement, found, error, knowledge.records):
        if found is not table and table.price:
            state.record(part_name(statement.text, error, request.confidence), found.to_dict())
        return found
    return replace(found, note=f"{found.note}; {_left_to_buy(engine, request)}")


def _left_to_buy(engine: SessionEngine, request: Request) -> str:
    """What asking again would cost, in a few words; judged at noisy answers, so that it may not suffice either."""
    budget = engine.state.budget
    try:
        price = engine.anew(Free(request.but(key=None), engine.state.knowledge, None)).price
    except QueryError as refusal:
        return f"no further purchase reaches it: {refusal}"
    if not price:
        return "no further purchase reaches it"
    left = engine.state.ledger.remaining_for(request.analyst)
    if price > left:
        whose = f" of {request.analyst}'s cap" if left < engine.state.ledger.remaining else ""
        needed = f"{budget.unit} {budget.amount(price):.3g} more would be needed"
        return f"{needed}, and {budget.amount(left):.3g} is left{whose}"
    part = f"{100 * price / left:.2g}% of what is left"
    return f"{budget.unit} {budget.amount(price):.3g} more, {part}, may reach it: ask again"


def _is_free(engine: SessionEngine, request: Request, query: Query, error: float, confidence: float) -> bool:
    counting = engine.state.knowledge.of_counts.counting
    part = request.part(query, error, confidence=confidence, name=query.digest[:16], counting=counting)
    return isinstance(engine.quote_part(part), Free)


def _explained(engine: SessionEngine, request: Request, text: str, statement: Statement) -> Free:
    """The origin and price of each part's answer; nothing is bought."""
    from reticent.sql.describe import Prospect, explained_table

    quote = quote_statement(engine, request.but(question=statement), statement)
    prospects = []
    for part in quote.parts if isinstance(quote, Split) else ():
        query = part.request.question
        assert isinstance(query, Query), "parts of statements are queries"
        if isinstance(part, Free):
            prospects.append(Prospect.free(query, part.result))
        else:
            wanted = part.request.error
            bound = wanted if isinstance(wanted, float) else None
            prospects.append(Prospect(query, "measured", bound, part.request.confidence, part.price / NANO))
    return Free(request, quote.known, explained_table(text, prospects, wanted=True))


def quote_ratio(engine: SessionEngine, request: Request, query: Ratio) -> Quote:
    """The quote of a quotient: two counts that hold jointly, within the error that the quotient needs."""
    knowledge, error, confidence = engine.state.knowledge, request.error, request.confidence
    assert error is None or isinstance(error, float), "resolved before"
    if (known := known_mean(query, knowledge.domain)) is not None:
        return Free(request, knowledge, known)
    if (told := engine.told_before(request)) is not None:
        return told
    each, begin, part = shared_confidence(confidence, 2), _nothing, None
    if engine.own_error is None and error is None:
        found = free_ratio(knowledge, query, None, confidence, strict=request.strict)
        if found is None:
            raise uncertified(query)
        return Free(request, knowledge, found)
    before = None
    if engine.own_error is None and error is not None:
        name, key = part_name(query.text, error, confidence), request.key
        recalled = engine.state.recall(name, key)
        if engine.reads_knowledge and not (key is not None and engine.state.has_begun(key)):
            found = free_ratio(knowledge, query, error, confidence, strict=request.strict, recall=lambda _: recalled)
            if found is not None:
                return Free(request, knowledge, found)
            before = free_ratio(knowledge, query, None, confidence, strict=False)
            known = knowledge.of_counts
            if (
                recalled is not None
                and known.shares.joint
                and all(known.free(count, each, recalled[0]) is not None for count in parts_of(query))
            ):
                # What was bought misses the error: choose again, from what was measured, if anything can reach it.
                with suppress(QueryError):
                    part = ratio_part_error(known, query, error, confidence)
                while part and part > LEAST and all(known.free(q, each, part) is not None for q in parts_of(query)):
                    part /= 2
        if part is None:
            part = ratio_part_error(knowledge, query, error, confidence) if recalled is None else recalled[0]
        begin = partial(_write_down, engine, request, name, [part], recalled)
    named = zip(parts_of(query), ("top", "bottom"), strict=True)
    counting = knowledge.of_counts.counting
    quotes = [
        engine.quote_part(request.part(count, part, confidence=each, name=name, counting=counting))
        for count, name in named
    ]
    top, bottom = engine.unpaid_as_known(request, quotes)
    return Split(
        request,
        knowledge,
        (top, bottom),
        lambda answers: ratio_of(query, answers[0], answers[1], knowledge),
        begin if top.price or bottom.price else _nothing,
        engine.between((top, bottom)),
        partial(_ended_ratio, engine, request, before) if engine.reads_knowledge else _as_joined,
    )


def _as_joined(result: Any) -> Any:
    return result


def _ended_ratio(engine: SessionEngine, request: Request, before: Answer | None, answer: Answer) -> Answer:
    """The answer, or what was known before where that is narrower, with what is left to buy.

    What was known before takes its place only if both hold jointly and it is as sure: else choosing the narrower of two
    bounds would miss more often than stated.
    """
    error = request.error
    known = before is not None and together(engine.state.knowledge).issuperset(before.origin.split(" + "))
    if before is not None and known and before.error is not None and before.confidence is not None:
        sure = before.confidence >= request.confidence - 2 * RECORDS_FAILURE
        if sure and (answer.error is None or answer.error > before.error):
            answer = replace(before, price=answer.price, ledger_id=answer.ledger_id)
    told = with_shortfall(answer, error) if isinstance(error, float) else answer
    return told if told.wanted is None else replace(told, note=f"{told.note}; {_left_to_buy(engine, request)}")


def quote_groups(engine: SessionEngine, request: Request, query: Groups) -> Quote:
    """The quote of groups: from knowledge if it is good enough, otherwise group by group."""
    knowledge, confidence = engine.state.knowledge, request.confidence
    error = engine.own_error if request.error is None else request.error
    assert error is None or isinstance(error, float), "resolved before"
    if (told := engine.told_before(request)) is not None:
        return told
    reading = engine.reading(request, query, error)
    if reading is not None:
        return Free(request, knowledge, answered(known_for(knowledge, request), query, reading, confidence))
    if error is None:
        return Free(request, knowledge, engine.guessed(request, query))
    listed = list(query.parts(knowledge.domain))
    each = shared_confidence(confidence, len(listed))
    parts = [
        engine.quote_part(request.part(part, error, confidence=each, name=str(place), counting=request.counting))
        for place, part in enumerate(listed)
    ]
    parts = engine.unpaid_as_known(request, parts)
    return Split(
        request,
        knowledge,
        parts,
        partial(_joined, query, confidence, known_for(knowledge, request)),
        between=engine.between(parts),
    )


def _nothing() -> bool:
    """Free parts record nothing."""
    return True


def _write_down(
    engine: SessionEngine, request: Request, name: str, errors: list[float], before: list[float] | None
) -> bool:
    """Record the errors of this question's parts; returns whether they apply from now on.

    They take the place of those recorded `before`, unless another thread has recorded others meanwhile. A key keeps its
    own, because others may choose again.
    """
    state, key = engine.state, request.key
    with state.lock:
        begun = state.recall(name, key)
        if begun not in (before, errors):
            return False
        if begun != errors or (key is not None and not state.has_begun(key)):
            state.remember(name, key, errors)
        return True


def _joined(query: Groups, confidence: float, knowledge: Knowledge, parts: Sequence[Answer]) -> Answer:
    """The joint bound of the parts; none if one part is uncertified."""
    errors = [part.error for part in parts if part.certified and part.error is not None]
    error = max(errors) if len(errors) == len(parts) else inf
    origins = {part.origin for part in parts}
    origin = "measured" if "measured" in origins else origins.pop() if len(origins) == 1 else "derived"
    values = np.array([float(part.value) for part in parts]).reshape(knowledge.domain.shape_of(query.names))
    joint = _joint_confidence([part.confidence or 0.0 for part in parts], confidence)
    whole = answered(knowledge, query, Reading(error, origin, lambda: values), joint)
    return replace(whole, query=query.text, price=sum(part.price for part in parts))


def _joint_confidence(stated: Sequence[float], confidence: float) -> float:
    """The joint confidence: parts were asked to hold jointly with `confidence`; lower values come from threshold
    engines.

    Answers of threshold engines hold jointly with the confidence of the session's opening.
    """
    each = shared_confidence(confidence, len(stated))
    planned = max((1 - part for part in stated if part < each), default=0.0)
    return 1 - planned - sum(1 - each for part in stated if part >= each) if planned else confidence


def free_result(
    knowledge: Knowledge, request: Request, recall: Recall | None = None, told: Told | None = None
) -> Answer | ResultTable | Model | list[Model] | None:
    """The free result of a question; None if it is not accurate enough and only a session can answer.

    `recall` finds the errors with which the parts of a question were bought before, `told` its recorded answer.
    """
    question = request.question
    if isinstance(question, Query):
        return free_answer(knowledge, request, recall)
    if isinstance(question, Statement):
        return free_table(knowledge, request, recall, told)
    if isinstance(question, ConvexLoss):
        return _free_model(knowledge, question, request)
    found = [_free_model(knowledge, loss, request) for loss in question if isinstance(loss, ConvexLoss)]
    assert len(found) == len(question), "batches of queries are asked one by one"
    return None if None in found else [model for model in found if model is not None]


def _free_model(knowledge: Knowledge, loss: ConvexLoss, request: Request) -> Model | None:
    model = free_model(knowledge, loss, request.confidence)
    if request.error is None:
        return model
    reached = model.certified and model.error is not None and model.error <= excess_error(request.error)
    return model if reached else None
