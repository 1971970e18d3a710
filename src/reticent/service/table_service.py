"""One served table: free answers at once from knowledge, paid answers in a separate queue."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from reticent.domain import Domain
from reticent.errors import BudgetError, LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.verify import verify
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.request import Request
from reticent.losses.losses import ConvexLoss
from reticent.service.admission import Workers
from reticent.service.auth import Principal
from reticent.service.http.problems import HttpProblem
from reticent.service.paid_answers import PaidAnswers, Ticks
from reticent.service.published import PublishedReleases
from reticent.service.quick_path import light_answer
from reticent.service.replies import AnswerCache, encode, encoded_reply, reply_of
from reticent.service.requests import LossParser, ParsedRequest, Parser, QuestionParser
from reticent.service.settings import Settings, TableSettings
from reticent.sessions.engine import Free, free_result
from reticent.sessions.journal import ASK, SUM
from reticent.sessions.models import charged
from reticent.sessions.session import Session

FREE_THREADS = 2
T = TypeVar("T")


class TableService:
    """The writer's side of one table."""

    def __init__(self, session: Session, table: TableSettings, settings: Settings) -> None:
        self.session = session
        self.table = table
        self.settings = settings
        self.ledger = session.state.ledger
        self.questions = QuestionParser(
            session.domain, settings, session.confidence, table.name, synthetic_rows=table.synthetic_rows
        )
        self.losses = LossParser(session.domain, settings, session.confidence)
        self.identity: dict[str, Any] = self.ledger.identity
        self.answers = PaidAnswers(self.ledger)
        self.releases = PublishedReleases(Path(f"{table.ledger}.releases"))
        self._cache = AnswerCache()
        self._ticks = Ticks(settings.tick)
        self._paying = Workers(1, f"pay-{table.name}", settings.waiting_each)
        self._working = Workers(FREE_THREADS, f"free-{table.name}", settings.waiting_each)
        self._answering: set[tuple[str, str]] = set()

    @property
    def domain(self) -> Domain:
        return self.session.domain

    @property
    def budget(self) -> Budget:
        return self.session.budget

    @property
    def records(self) -> float:
        """The public number of records, or its released noisy total."""
        return self.session.state.knowledge.records

    async def parse(self, parser: Parser, body: bytes, who: Principal) -> ParsedRequest:
        """Parsed and weighed; at once where that is little work, else among this person's other work."""
        return parser.find(body) or await self.work(who, parser.parse, body)

    async def answer(self, parsed: ParsedRequest, who: Principal, key: str | None) -> tuple[bytes, str, bool]:
        """The answer's bytes, its origin, and whether it went through the paying queue."""
        if parsed.request.error is None or key is None:
            found = await self.free(parsed, who)
            if found is not None:
                return *found, False
        try:
            return await self._pay(parsed, who, key or f"auto-{secrets.token_hex(12)}")
        finally:
            await self._ticks.wait()

    def quick_answer(self, body: bytes) -> tuple[bytes, str] | None:
        """Bytes and origin of an answer that is free and little work; None elsewhere."""
        if self.session.engine != "default":
            return None
        state = self.session.state
        return light_answer(body, self.questions, self._cache, state.knowledge, state.recall, state.told)

    async def free_answer(self, body: bytes, who: Principal) -> tuple[bytes, str] | None:
        """Bytes and origin of a free answer to a question's body; None where what is known is not good enough."""
        known = self.session.state.knowledge
        answered = await self.free(await self.parse(self.questions, body, who), who)
        if answered is not None and self.session.engine == "default" and self.session.state.knowledge is known:
            self._cache.remember(body, known, answered)  # where `quick_answer` looks
        return answered

    async def free(self, parsed: ParsedRequest, who: Principal) -> tuple[bytes, str] | None:
        """From what is known now; None where that is not good enough."""
        known = self.session.state.knowledge
        recalled = self._cache.recall(parsed, known)
        if recalled is not None:
            return recalled
        if parsed.work.quick:
            found = self._known(known, parsed.request)
            answered = None if found is None else encoded_reply(reply_of(found))
        else:
            results = [await self.work(who, self._known, known, part) for part in parsed.parts]
            if None in results:
                return None
            whole: Any = results[0] if len(results) == 1 else results
            answered = await self.work(who, lambda: encoded_reply(reply_of(whole)))
        if answered is not None:
            self._cache.remember(parsed, known, answered)
        return answered

    def _known(self, known: Knowledge, request: Request) -> Any:
        """What is free: of the default engine a function of what is known, of the others what they have tested."""
        if self.session.engine == "default":
            return free_result(known, request, self.session.state.recall, self.session.state.told)
        quote = self.session.quote(request)
        return self.session.carry_out(quote) if isinstance(quote, Free) else None

    def price(self, parsed: ParsedRequest, analyst: str) -> float:
        """The most that paying for it would charge this analyst now."""
        return self.budget.amount(self.session.quote(parsed.request.but(analyst=analyst)).price)

    async def _pay(self, parsed: ParsedRequest, who: Principal, key: str) -> tuple[bytes, str, bool]:
        analyst = who.name
        replayed = self.answers.replay(analyst, key, parsed)
        if replayed is not None:
            return replayed, "cache", True
        if (analyst, key) in self._answering:
            raise HttpProblem(
                "busy", "a request with this Idempotency-Key is in progress: try again later", retry_after=1
            )
        if len(self._answering) >= self.settings.waiting:
            raise HttpProblem("rate", "too many paid questions are waiting: try again later", retry_after=2)
        self._answering.add((analyst, key))
        try:
            return await self._paying.run(analyst, self._pay_now, parsed, analyst, key)
        finally:
            self._answering.discard((analyst, key))

    def _pay_now(self, parsed: ParsedRequest, analyst: str, key: str) -> tuple[bytes, str, bool]:
        """In the paying thread: check the whole price, pay, keep, return."""
        request = parsed.request.but(key=f"{analyst}/{key}", analyst=analyst)
        quote = self.session.quote(request)
        self._refuse_price(request, quote.price)
        begun, curator = time.monotonic(), self.session.state.curator
        before = curator.worked
        try:
            result: Any = self.session.carry_out(quote)
        finally:
            self._ticks.hold(begun, curator.worked - before)
        reply = reply_of(result, self.budget.amount(self._charged(request)))
        body = encode(reply)
        if reply.price > 0:
            self.answers.keep(analyst, key, parsed, reply.price, body)
        return body, reply.origin, True

    def _charged(self, request: Request) -> int:
        """Nano-units that the request's key has paid so far."""
        assert request.key is not None, "whoever pays has a key"
        if isinstance(request.question, (ConvexLoss, tuple)):
            return charged(self.session.state, request.key)
        return self.ledger.charged(ASK + request.key) + self.ledger.charged(SUM + request.key)

    def _refuse_price(self, request: Request, price: int) -> None:
        """A question of several parts is refused whole rather than paid in part; a crash may have paid some already."""
        asked, paid = self.budget.amount(price), self.budget.amount(self._charged(request))
        most = request.max_price
        if most is not None and paid + asked > most:
            before = f" beside {paid:.9g} paid before" if paid else ""
            raise HttpProblem("price", f"this costs {asked:.9g}{before}, you allowed {most:.9g}", price=paid + asked)
        remaining = self.budget.amount(self.ledger.remaining_for(request.analyst))
        if asked > remaining and not paid:
            raise BudgetError(
                f"this costs {self.budget.unit} {asked:.9g} and {remaining:.9g} is left: ask for less accuracy",
                requested=asked,
                remaining=remaining,
            )

    async def work(self, who: Principal, function: Callable[..., T], *arguments: Any) -> T:
        """Free work that takes its time, away from the event loop."""
        return await self._working.run(who.name, function, *arguments)

    async def paying(self, who: Principal, function: Callable[..., T], *arguments: Any) -> T:
        """Whatever writes to the ledger, one by one; it leaves at a tick as paid answers do."""
        try:
            return await self._paying.run(who.name, function, *arguments)
        finally:
            await self._ticks.wait()

    def verified(self) -> dict[str, Any]:
        """The chain from first event to last, the anchor, and the running state against the stored one."""
        try:
            statement = verify(self.table.ledger, anchor=self.table.anchor, keep=False)
            self.ledger.verify()
            if statement.damaged:
                raise LedgerError(f"the chain is intact, but damaged: {', '.join(statement.damaged[:3])}")
        except LedgerError as problem:
            return {
                "verified": False,
                "events": 0,
                "spent": self.session.spent,
                "anchored": False,
                "problem": str(problem),
            }
        return {
            "verified": True,
            "events": statement.history.sequence,
            "spent": self.budget.amount(statement.history.spent),
            "anchored": statement.anchored,
            "problem": None,
        }

    def close(self) -> None:
        """Close the table after the current payment has finished."""
        self._paying.close()
        self._working.close()
        self.session.close()
