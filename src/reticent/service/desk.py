"""A desk serves one table: free answers at once from what is known, paid ones in a queue of their own."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reticent.domain import Domain
from reticent.errors import BudgetError, LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.statement import verify
from reticent.service.answers import Answers
from reticent.service.asking import Requests
from reticent.service.free import MustPay, NoCredit, free_session
from reticent.service.learning import Fits
from reticent.service.orders import Memory, Order, encode
from reticent.service.problems import Problem
from reticent.service.settings import Settings, TableSettings
from reticent.service.shelf import Shelf
from reticent.service.ticks import Ticks
from reticent.service.tokens import Principal
from reticent.session import Session


class Desk:
    """The writer's side of one table."""

    def __init__(self, session: Session, table: TableSettings, settings: Settings) -> None:
        self.session = session
        self.table = table
        self.settings = settings
        self.ledger = session._ledger
        self.requests = Requests(session.domain, settings)
        self.fits = Fits(session.domain, settings)
        self._memory = Memory()
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

    async def answer(self, order: Order, who: Principal, key: str | None) -> tuple[bytes, str, bool]:
        """The answer's bytes, its origin, and whether it went through the paying queue."""
        if order.terms.error is None or key is None:
            try:
                return *await self.free(order), False
            except MustPay:
                pass
        try:
            return await self._pay(order, who.name, key or f"auto-{secrets.token_hex(12)}")
        finally:
            await self._ticks.wait()

    async def free(self, order: Order) -> tuple[bytes, str]:
        """From what is known now; MustPay where that is not good enough."""
        known = self._free._knowledge = self.session._knowledge
        recalled = self._memory.recall(order, known)
        if recalled is not None:
            return recalled
        result = order.answer(self._free) if order.work.quick else await self.work(order.answer, self._free)
        return self._memory.remember(order, known, result)

    async def _pay(self, order: Order, analyst: str, key: str) -> tuple[bytes, str, bool]:
        replayed = self.answers.replay(analyst, key, order)
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
            paid = loop.run_in_executor(self._paying, self._pay_now, order, analyst, key)
            return await asyncio.shield(paid)
        finally:
            self._answering.discard((analyst, key))

    def _pay_now(self, order: Order, analyst: str, key: str) -> tuple[bytes, str, bool]:
        """In the paying thread: check the whole price, pay, keep, return."""
        full_key = f"{analyst}/{key}"
        self._affordable(order, analyst, full_key)
        result = order.buy(self.session, full_key, analyst)
        body = encode(result)
        if result.price > 0:
            self.answers.keep(analyst, key, order, result.price, body)
        return body, result.origin, True

    def _affordable(self, order: Order, analyst: str, full_key: str) -> None:
        """A question of several parts is refused whole rather than paid in part; a crash may have paid some already."""
        price, most = order.price(self.session, analyst, full_key), order.terms.max_price
        paid = self.budget.amount(order.charged(self.session, full_key))
        if most is not None and paid + price > most:
            before = f" beside {paid:.9g} paid before" if paid else ""
            raise Problem("price", f"this costs {price:.9g}{before}, you allowed {most:.9g}", price=paid + price)
        remaining = self.budget.amount(self.ledger.remaining_for(analyst))
        if price > remaining and not paid:
            raise BudgetError(
                f"this costs {self.budget.unit} {price:.9g} and {remaining:.9g} is left: ask for less accuracy",
                requested=price,
                remaining=remaining,
            )

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
