"""An engine decides how questions are answered and does it: `quote` makes the decision, `carry_out` pays and answers.

Whatever consists of several questions is taken apart here, the same way for all engines; an engine itself quotes and
buys single questions. Which one a session has is decided once, when its ledger is first opened (`sessions/open.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from reticent.kernel.statistics import MARGINAL_CELLS
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import answered, finished, not_one, resolved, uncertified
from reticent.knowledge.knowledge import Reading, Single
from reticent.knowledge.request import Request
from reticent.losses.losses import ConvexLoss
from reticent.queries.base import Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Ratio
from reticent.sessions.quote import Certify, Free, Measure, Quote, Split
from reticent.sessions.split import quote_groups, quote_ratio, quote_statement
from reticent.sessions.state import State

if TYPE_CHECKING:
    from reticent.releases.models import Model


class SessionEngine(ABC):
    """One way to answer single questions within a budget; callers need no lock."""

    name: ClassVar[str] = ""
    audits_batches: ClassVar[bool] = False
    """Whether a declared batch may be certified by one audit; else its questions are asked singly."""

    reads_knowledge: ClassVar[bool] = False
    """Whether free answers are functions of knowledge alone, as those of readers are."""

    def __init__(self, state: State, confidence: float) -> None:
        self.state = state
        self.confidence = confidence
        """Of answers to those who state none."""

    # -- what every engine does alike ------------------------------------------------------------------------

    def ask(self, request: Request) -> Any:
        return self.finish(self.quote(request))

    def finish(self, quote: Quote) -> Any:
        """Carry out the quote of a whole request, and say where the answer falls short of it."""
        result = self.carry_out(quote)
        return finished(result, quote.request, self.state.knowledge) if isinstance(result, Answer) else result

    def quote(self, request: Request) -> Quote:
        """How a request would be answered now, and the most that would be charged; no row is looked at."""
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
        """Of one loss or a declared batch; by default certified by an audit, or bought singly."""
        from reticent.sessions.models import quote_models

        return quote_models(self.state, request)

    def quote_part(self, request: Request) -> Quote:
        """Of one resolved query, perhaps for a question of several; its error is a number in its own unit."""
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
        """Pay what the quote says, unless more is known by now, and answer."""
        if isinstance(quote, Split):
            if not quote.begin():
                return self.carry_out(self.anew(quote))
            return quote.join([self.carry_out(self.renewed(part)) for part in quote.parts])
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

    def given(self, quote: Free) -> None:
        """A free answer is given; an engine may count what that saved."""
        return

    def may_audit(self, key: str, cost: int) -> bool:
        """Whether an audit may be paid for that a batch did not order; what was begun goes on."""
        return True

    def audits(self, key: str, cost: int) -> None:
        """Such an audit is about to be paid for."""
        return

    def sells(self, query: Query) -> bool:
        """Whether a total behind a statement can be bought of the rows' own numbers, which bins hide."""
        return False

    def written(self) -> None:
        """Write down what only memory knows, when a session is closed."""
        return

    def renewed(self, quote: Quote) -> Quote:
        """The quote, made anew where more is known than when it was made."""
        return quote if quote.known is self.state.knowledge else self.anew(quote)

    def anew(self, quote: Quote) -> Quote:
        """A quote for the same request; a query was resolved when it was first made."""
        resolved_before = isinstance(quote.request.question, Query)
        return self.quote_part(quote.request) if resolved_before else self.quote(quote.request)

    def splits_query(self, query: Query) -> bool:
        """Whether a question is of groups that must be asked one by one: the kernel measures so many cells at once."""
        return isinstance(query, Groups) and self.splits(query)

    def splits(self, query: Groups) -> bool:
        """Whether groups must be asked one by one."""
        return self.state.domain.cells(query.span(self.state.domain)) > MARGINAL_CELLS

    def guessed(self, request: Request, query: Single) -> Answer:
        """The hypothesis' own answer, uncertified; refused to a strict asker."""
        if request.strict:
            raise uncertified(query)
        knowledge = self.state.knowledge
        return answered(knowledge, query, knowledge.guess(query), None)

    # -- what makes an engine --------------------------------------------------------------------------------

    @abstractmethod
    def reading(self, query: Single, confidence: float, wanted: float | None) -> Reading | None:
        """The free reading within `wanted`, a fraction; without one, the best there is."""

    @abstractmethod
    def quote_single(self, request: Request, query: Single) -> Free | Measure:
        """How one measurement at most answers this question."""

    @abstractmethod
    def buy(self, quote: Measure) -> Answer | Model:
        """Pay and answer; the lock is held and the quote is current."""

    @property
    def own_error(self) -> float | None:
        """The one error within which this engine answers everything; None where every question has its own."""
        return None

    @abstractmethod
    def refit(self) -> bool:
        """Fit the working hypothesis to everything measured so far; says whether there was anything new."""

    def facts(self) -> Mapping[str, Any]:
        """What `describe` says of the engine beside its name."""
        return {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Where learning did not fit, and what became of the hypothesis."""
        return self.state.knowledge.notes
