"""A desk serves one table: free answers at once from what is known, paid ones in a queue of their own."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reticent.compound import shared_confidence
from reticent.domain import Domain
from reticent.errors import BudgetError, LedgerError
from reticent.journal import ASK
from reticent.kernel.accounting import Budget
from reticent.kernel.statement import verify
from reticent.queries.linear import Ratio
from reticent.ratios import part_error
from reticent.service.answers import Answers
from reticent.service.asking import Request, Requests, encode
from reticent.service.free import MustPay, NoCredit, free_session
from reticent.service.problems import Problem
from reticent.service.settings import Settings, TableSettings
from reticent.service.shelf import Shelf
from reticent.service.ticks import Ticks
from reticent.service.tokens import Principal
from reticent.session import Session
from reticent.view import ratio_of

PARTS = "parts"
"""Ledger events that fix the error asked of a ratio's two parts."""


class Desk:
    """The writer's side of one table."""

    def __init__(self, session: Session, table: TableSettings, settings: Settings) -> None:
        self.session = session
        self.table = table
        self.settings = settings
        self.ledger = session._ledger
        self.requests = Requests(session.domain, settings)
        self.identity: dict[str, Any] = next(self.ledger.events()).payload["identity"]
        self.answers = Answers(self.ledger)
        self.shelf = Shelf(Path(f"{table.ledger}.releases"))
        self._ticks = Ticks(settings.tick)
        self._free = free_session(
            session._knowledge,
            NoCredit(session.budget, self.identity),
            confidence=session.confidence,
            name=table.name,
        )
        self._paying = ThreadPoolExecutor(1, thread_name_prefix=f"pay-{table.name}")
        self._working = ThreadPoolExecutor(2, thread_name_prefix=f"free-{table.name}")
        self._answering: set[tuple[str, str]] = set()

    @property
    def domain(self) -> Domain:
        return self.session.domain

    @property
    def budget(self) -> Budget:
        return self.session.budget

    async def ask(self, request: Request, who: Principal, key: str | None) -> tuple[bytes, str, bool]:
        """The answer's bytes, its origin, and whether it went through the paying queue."""
        if request.error is None or key is None:
            try:
                return *await self.free(request), False
            except MustPay:
                pass
        try:
            return await self._pay(request, who.name, key or f"auto-{secrets.token_hex(12)}")
        finally:
            await self._ticks.wait()

    async def free(self, request: Request) -> tuple[bytes, str]:
        """From what is known now; MustPay where that is not good enough."""
        known = self._free._knowledge = self.session._knowledge
        recalled = self.requests.recall(request, known)
        if recalled is not None:
            return recalled
        result = self._answer(request) if request.work.quick else await self.work(self._answer, request)
        return self.requests.remember(request, known, result)

    def _answer(self, request: Request) -> Any:
        return self._free.ask(request.question, error=request.error, confidence=request.confidence)

    async def _pay(self, request: Request, analyst: str, key: str) -> tuple[bytes, str, bool]:
        replayed = self.answers.replay(analyst, key, request)
        if replayed is not None:
            return replayed, "cache", True
        if (analyst, key) in self._answering:
            raise Problem("busy", "this Idempotency-Key is being answered right now: ask again", retry_after=1)
        if len(self._answering) >= self.settings.waiting:
            raise Problem("rate", "too many paid questions are waiting: ask again", retry_after=2)
        self._answering.add((analyst, key))
        try:
            loop = asyncio.get_running_loop()
            # Shielded: a client that hangs up must not leave a charge without its answer.
            paid = loop.run_in_executor(self._paying, self._pay_now, request, analyst, key)
            return await asyncio.shield(paid)
        finally:
            self._answering.discard((analyst, key))

    def _pay_now(self, request: Request, analyst: str, key: str) -> tuple[bytes, str, bool]:
        """In the paying thread: check the whole price, pay, keep, return."""
        full_key = f"{analyst}/{key}"
        self._affordable(request, analyst, full_key)
        result = self._bought(request, full_key, analyst)
        body = encode(result)
        if result.price > 0:
            self.answers.keep(analyst, key, request, result.price, body)
        return body, result.origin, True

    def _bought(self, request: Request, full_key: str, analyst: str) -> Any:
        question = request.question if isinstance(request.question, str) else request.question.resolve(self.domain)
        if isinstance(question, Ratio):
            return self._bought_ratio(question, request, full_key, analyst)
        return self.session.ask(
            question, error=request.error, confidence=request.confidence, key=full_key, analyst=analyst
        )

    def _bought_ratio(self, question: Ratio, request: Request, full_key: str, analyst: str) -> Any:
        """The error of its parts depends on what is known now: written down, so that a retry asks for the same."""
        assert request.error is not None
        confidence = self.session.confidence if request.confidence is None else request.confidence
        found = [e.payload["error"] for e in self.ledger.events() if e.kind == PARTS and e.payload["key"] == full_key]
        error = found[0] if found else part_error(self.session, question, request.error, confidence)
        if not found:
            self.ledger.append(PARTS, {"key": full_key, "error": error})
        top, bottom = (
            self.session.ask(
                part,
                error=error,
                confidence=shared_confidence(confidence, 2),
                key=f"{full_key}:{name}",
                analyst=analyst,
            )
            for name, part in (("top", question.numerator), ("bottom", question.denominator))
        )
        return ratio_of(question, top, bottom, self.domain)

    def _affordable(self, request: Request, analyst: str, full_key: str) -> None:
        """A question of several parts is refused whole rather than paid in part."""
        price = self.cost(request)
        if request.max_price is not None and price > request.max_price:
            raise Problem("price", f"this costs {price:.9g}, you allowed {request.max_price:.9g}", price=price)
        remaining = self.budget.amount(self.ledger.remaining_for(analyst))
        if price > remaining and not self._begun(full_key):
            raise BudgetError(
                f"this costs {self.budget.unit} {price:.9g} and {remaining:.9g} is left: ask for less accuracy",
                requested=price,
                remaining=remaining,
            )

    def _begun(self, full_key: str) -> bool:
        """Whether a crash interrupted this very question: what it reserved is paid already."""
        return any(
            event.kind == "reserve" and (event.key or "").startswith(ASK + full_key) for event in self.ledger.events()
        )

    def cost(self, request: Request) -> float:
        assert request.error is not None
        return self.session.cost(request.question, error=request.error, confidence=request.confidence)

    async def work(self, function: Any, *arguments: Any) -> Any:
        """Free work that takes its time, away from the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._working, function, *arguments)

    async def paying(self, function: Any, *arguments: Any) -> Any:
        """Whatever writes to the ledger, one by one; it leaves at a tick as paid answers do."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._paying, function, *arguments)
        finally:
            await self._ticks.wait()

    def verified(self) -> dict[str, Any]:
        """The chain from first event to last, the anchor, and the running state against the stored one."""
        try:
            statement = verify(self.table.ledger, anchor=self.table.anchor)
            self.ledger.verify()
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
            "events": len(statement.events),
            "spent": self.budget.amount(statement.history.spent),
            "anchored": statement.anchored,
            "problem": None,
        }

    def close(self) -> None:
        """Whoever is paying finishes first."""
        self._paying.shutdown(wait=True)
        self._working.shutdown(wait=True)
        self.session.close()
