"""A session that dies while it buys a late start for its first loss: nothing is charged twice and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from tests.faults.payments import Disk, Killed, content
from tests.session_tables import of_codes

import reticent as rt
from reticent.kernel.accounting import NANO
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Table
from reticent.sessions.loss_audits import LATE
from reticent.sessions.session import Session

DOMAIN = rt.Domain({"a": 4, "b": 3, "c": 3, "y": 2})
BUDGET = rt.Budget(rho=0.03)
LOSS = rt.Logistic(features=["a", "b"], label="y", radius=2)
ASKED: dict[str, dict[str, Any]] = {
    "unkeyed": {},
    "keyed": {"key": "k"},
    "an analyst's": {"analyst": "ann", "key": "k"},
}


def drawn() -> Table:
    generator = np.random.default_rng(4)
    codes = {name: generator.integers(0, size, 20_000) for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)}
    codes["y"] = (generator.random(20_000) < 0.1 + 0.25 * codes["a"]).astype(int)
    return of_codes(DOMAIN, codes)


ROWS = drawn()


@contextmanager
def opened(disk: Disk) -> Iterator[Session]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "memory", classmethod(lambda *_, **__: disk.ledger(BUDGET, ROWS)))
        session = Session.open(None, ROWS, BUDGET, warm_start=0)
    yield session
    disk.arm(0)
    session.close()


def ask(session: Session, options: dict[str, Any]) -> rt.Model:
    model = session.minimize(LOSS, error=0.05, **options)
    assert isinstance(model, rt.Model)
    return model


def life(disk: Disk, options: dict[str, Any], fatal: int) -> bool:
    """Whether a process that opens the session and asks came to its end; killed at a write, those of opening too."""
    disk.arm(fatal)
    with suppress(Killed), opened(disk) as session:
        ask(session, options)
        return True
    return False


def writes(options: dict[str, Any]) -> int:
    disk = Disk()
    disk.arm(0)
    with opened(disk) as session:
        ask(session, options)
        return disk.steps


def settled(disk: Disk) -> set[str]:
    return {str(event.key) for event in disk.events() if event.kind == "settle"}


def check(disk: Disk, options: dict[str, Any], quoted: int, deaths: int) -> None:
    """The same call ends, then finds everything; what was lost for good is at most what died twice."""
    before = disk.reserved()
    with opened(disk) as session:
        first = ask(session, options)
        charged = disk.reserved()
        again = ask(session, options)
        assert disk.reserved() == charged, "the third call found everything"
        assert content(first) == content(again)
        learned = {marginal.ledger_id for marginal in session.state.knowledge.marginals}
        whole = {
            event.sequence for event in disk.events() if event.kind == "settle" and str(event.key).startswith(LATE)
        }
        assert whole <= learned, "what a late start has measured is known"
        assert session.spent == pytest.approx(sum(charged.values()) / NANO)
        notes = [event for event in disk.events() if event.kind == "investment"]
        assert len(notes) <= 1, "a late start is invested once"
    if deaths == 1:
        assert before.keys() <= settled(disk), "what was charged before the crash is answered after it"
        assert sum(charged.values()) <= quoted, "a crash makes nothing dearer"
    assert sum(charged.values()) <= BUDGET.limit
    if "key" in options:
        assert round(first.price * NANO) == round(again.price * NANO) == sum(charged.values())
    if "analyst" in options:
        payers = {event.analyst for event in disk.events() if event.kind == "reserve"}
        assert payers == {"ann"}
    with opened(disk) as session:
        assert content(ask(session, options)) == content(first)
        assert disk.reserved() == charged, "and so does the next process"


def quote(options: dict[str, Any]) -> int:
    with opened(Disk()) as session:
        return round(session.cost(LOSS, error=0.05, **options) * NANO)


def test_the_start_is_bought_late() -> None:
    disk = Disk()
    assert life(disk, {}, 0)
    assert any(key.startswith(LATE) for key in disk.reserved())


def killed_once(options: dict[str, Any], every: int) -> None:
    """How many audits follow the start is chance: a life that is armed beyond its last write comes to its end."""
    quoted, died = quote(options), 0
    for fatal in range(1, writes(options) + 1, every):
        disk = Disk()
        died += not life(disk, options, fatal)
        check(disk, options, quoted, 1)
    assert died >= 16 // every, "a start, its notes and its snapshot are more writes than that"


def test_a_late_start_that_died_is_paid_once_and_its_key_states_it() -> None:
    """The key of a request that died after its start, before its audit, stated the audit alone."""
    killed_once(ASKED["an analyst's"], 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_a_late_start_killed_at_any_write_is_paid_once(name: str) -> None:
    killed_once(ASKED[name], 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_a_late_start_killed_twice_still_ends(name: str) -> None:
    options = ASKED[name]
    for fatal in range(1, writes(options) + 1, 2):
        for second in (1, 2, 3, 4, 6):
            disk = Disk()
            life(disk, options, fatal)
            life(disk, options, second)
            check(disk, options, 0, 2)
