"""The free side answers from public knowledge alone: it has no rows to look at and no credit to spend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.events import Event
from reticent.kernel.table import Table
from reticent.session import Session


class MustPay(Exception):
    """What is known is not good enough: only the writer, who holds table and ledger, can answer."""


class NoRows:
    """A count source that was never given a table."""

    def __getattr__(self, name: str) -> NoReturn:
        raise MustPay


class NoCredit:
    """Stands where a session expects its ledger: nothing settled, nothing affordable."""

    def __init__(self, budget: Budget, identity: Mapping[str, Any]) -> None:
        self.budget = budget
        self.identity = dict(identity)

    def require(self, identity: Mapping[str, Any]) -> None:
        """Nothing is charged, so nothing can be charged to the wrong table."""

    def settled(self, key: str, kind: str, request: dict[str, Any]) -> Event | None:
        return None

    def affordable(self, cost: int, **_: Any) -> NoReturn:
        raise MustPay

    def lookup(self, key: str) -> NoReturn:
        """Only payers look for their keys."""
        raise MustPay

    def events(self) -> Iterator[Event]:
        return iter(())


def public_table(domain: Domain, identity: Mapping[str, Any], name: str) -> Table:
    """The public facts of a table around no rows at all."""
    facts = {key: identity[key] for key in ("neighbours", "records", "unit", "version")}
    return Table(NoRows(), domain, name=name, **facts)  # pyright: ignore[reportArgumentType]


def free_session(knowledge: Any, ledger: NoCredit, *, confidence: float, name: str) -> Session:
    """A session that raises MustPay where another one would pay; without a wanted error it always answers."""
    table: Any = public_table(knowledge.domain, ledger.identity, name)
    credit: Any = ledger
    return Session(table, Curator(table, credit), credit, knowledge, None, confidence=confidence, strict=False)
