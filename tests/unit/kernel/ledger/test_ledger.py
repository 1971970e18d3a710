"""The ledger's rules, on every store: charge first, one result per charge, same key same bytes, never a refund."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from reticent.errors import BudgetError, LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger import verify as verification
from reticent.kernel.ledger.anchor import Anchor, Mark, newest
from reticent.kernel.ledger.events import FORMAT, GENESIS, Event, History
from reticent.kernel.ledger.ledger import Ledger, Reservation
from reticent.kernel.ledger.store import VERSION
from reticent.kernel.ledger.verify import verify

IDENTITY = {"domain": "f00d", "neighbours": "replace-one", "unit": "record", "records": 100, "version": None}
BUDGET = Budget(rho=1e-6)
LIMIT = 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


def opened(path: Path, **changes: object) -> Ledger:
    return Ledger.open(path, identity=IDENTITY | changes, budget=BUDGET)


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, path: Path) -> Iterator[Ledger]:
    with Ledger.memory(BUDGET, IDENTITY) if request.param == "memory" else opened(path) as ledger:
        yield ledger
        if ledger._writer.unusable is None:
            ledger.verify()


def buy(ledger: Ledger, key: str | None, cost: int = 10, value: object = 1, analyst: str | None = None) -> Event:
    return ledger.settle(ledger.reserve(key, "measure", cost, {"q": 1}, analyst=analyst), {"value": value})


def test_a_result_leaves_only_after_charge_and_record(ledger: Ledger) -> None:
    reservation = ledger.reserve("k", "measure", 10, {"q": 1}, analyst="ann")
    assert (ledger.spent, ledger.remaining, ledger.spent_by("ann")) == (10, LIMIT - 10, 10)
    assert ledger.lookup("k") == reservation
    event = ledger.settle(reservation, {"value": (1, 2.5)})
    assert event.payload == {"value": [1, 2.5]}
    assert (event.cost, event.key, event.analyst, event.kind) == (10, "k", "ann", "settle")
    assert ledger.lookup("k") == event
    assert ledger.lookup("other") is None
    assert [e.kind for e in ledger.events()] == ["open", "reserve", "settle"]
    assert [e.sequence for e in ledger.events()] == [1, 2, 3]


def test_same_key_same_request_gives_the_same_bytes_and_costs_nothing(ledger: Ledger) -> None:
    event = buy(ledger, "k", cost=LIMIT, value=0.1 + 0.2)
    again = ledger.settled("k", "measure", {"q": 1})
    assert again is not None
    assert again.body == event.body
    assert ledger.spent == LIMIT
    ledger.affordable(LIMIT, key="k")  # paid already, though nothing remains
    with pytest.raises(LedgerError, match="answered already"):
        ledger.reserve("k", "measure", LIMIT, {"q": 1})


@pytest.mark.parametrize(("kind", "request_"), [("measure", {"q": 2}), ("select", {"q": 1}), ("measure", {})])
def test_same_key_other_request_is_refused(ledger: Ledger, kind: str, request_: dict[str, int]) -> None:
    buy(ledger, "k")
    for use in (ledger.settled, lambda key, kind, request: ledger.reserve(key, kind, 10, request)):
        with pytest.raises(LedgerError, match="belongs to another request: use a new key"):
            use("k", kind, request_)
    assert ledger.spent == 10


def test_the_budget_refuses_before_anything_is_written_and_carries_both_amounts(ledger: Ledger) -> None:
    buy(ledger, None, cost=990)
    before = list(ledger.events())
    for use in (lambda: ledger.affordable(11), lambda: ledger.reserve("k", "measure", 11, {})):
        with pytest.raises(BudgetError, match="budget has 1e-08 left") as caught:
            use()
        assert (caught.value.requested, caught.value.remaining) == (1.1e-8, 1e-8)
    assert list(ledger.events()) == before
    buy(ledger, None, cost=10)
    assert ledger.remaining == 0
    buy(ledger, "free", cost=0)


def test_caps_bind_below_the_limit_and_outlive_a_restart(path: Path) -> None:
    with opened(path) as ledger:
        ledger.set_cap("ann", 50)
        buy(ledger, "a", cost=40, analyst="ann")
        with pytest.raises(BudgetError, match="analyst's cap has 1e-08 left"):
            ledger.reserve("b", "measure", 11, {"q": 1}, analyst="ann")
        buy(ledger, "c", cost=100, analyst="bob")
        ledger.set_cap("ann", 30)
        assert ledger.remaining_for("ann") == 0
    with opened(path) as ledger:
        assert ledger.caps == {"ann": 30}
        assert (ledger.spent_by("ann"), ledger.spent_by("bob"), ledger.spent_by("eve")) == (40, 100, 0)
        assert ledger.remaining_for("bob") == ledger.remaining == LIMIT - 140
        ledger.set_cap("ann", 60)
        assert ledger.remaining_for("ann") == 20


@pytest.mark.parametrize("cost", [-1, 1.0, True, None, "10"])
def test_costs_and_caps_are_whole_numbers(ledger: Ledger, cost: int) -> None:
    for use in (lambda: ledger.reserve("k", "measure", cost, {}), lambda: ledger.set_cap("ann", cost)):
        with pytest.raises(LedgerError, match="whole number of nano-units"):
            use()
    assert ledger.spent == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda ledger: ledger.reserve("", "measure", 1, {}),
        lambda ledger: ledger.reserve("k" * 201, "measure", 1, {}),
        lambda ledger: ledger.reserve(7, "measure", 1, {}),
        lambda ledger: ledger.reserve("k", "", 1, {}),
        lambda ledger: ledger.reserve("k", "measure", 1, {"x": float("nan")}),
        lambda ledger: ledger.reserve("k", "measure", 1, {"x": object()}),
        lambda ledger: ledger.append("settle", {}),
        lambda ledger: ledger.append("rollback", {"head": None}),
        lambda ledger: ledger.append("note", {"x": {1, 2}}),
        lambda ledger: ledger.set_cap("ann", LIMIT + 1),
        lambda ledger: ledger.set_cap("", 1),
        lambda ledger: ledger.get_blob("00"),
        lambda ledger: ledger.settle(Reservation("k", "measure", 1, "", None, True, 2), {"value": 1}),
    ],
)
def test_bad_input_is_one_line_and_spends_nothing(ledger: Ledger, use: Callable[[Ledger], object]) -> None:
    with pytest.raises(LedgerError) as caught:
        use(ledger)
    assert "\n" not in str(caught.value)
    assert ledger.spent == 0
    assert len(list(ledger.events())) == 1
    buy(ledger, "k")


def test_a_result_that_is_not_json_leaves_the_reservation_as_it_was(ledger: Ledger) -> None:
    reservation = ledger.reserve("k", "measure", 10, {"q": 1})
    with pytest.raises(LedgerError, match="plain finite JSON"):
        ledger.settle(reservation, {"value": float("inf")})
    assert ledger.settle(reservation, {"value": 1}).payload == {"value": 1}


def test_a_reservation_settles_once_and_only_by_its_holder(ledger: Ledger) -> None:
    reservation = ledger.reserve("k", "measure", 10, {"q": 1})
    with pytest.raises(LedgerError, match="being answered right now"):
        ledger.reserve("k", "measure", 10, {"q": 1})
    ledger.settle(reservation, {"value": 1})
    with pytest.raises(LedgerError, match="settle once"):
        ledger.settle(reservation, {"value": 2})


def test_a_pending_key_is_redeemed_once_then_forfeited_and_always_charged(ledger: Ledger) -> None:
    ledger.abandon(ledger.reserve("k", "measure", LIMIT, {"q": 1}))
    pending = ledger.lookup("k")
    assert isinstance(pending, Reservation)
    with pytest.raises(LedgerError, match="reserve first"):
        ledger.settle(pending, {"value": 1})
    for cost, analyst in ((LIMIT - 1, None), (LIMIT, "ann")):
        with pytest.raises(LedgerError, match="another price or by another analyst"):
            ledger.reserve("k", "measure", cost, {"q": 1}, analyst=analyst)
    ledger.abandon(ledger.reserve("k", "measure", LIMIT, {"q": 1}))
    with pytest.raises(LedgerError, match="is forfeited and stays charged"):
        ledger.reserve("k", "measure", LIMIT, {"q": 1})
    with pytest.raises(LedgerError, match="forfeited"):
        ledger.settled("k", "measure", {"q": 1})
    assert ledger.spent == LIMIT
    assert [e.kind for e in ledger.events()] == ["open", "reserve", "redeem", "forfeit"]


def test_a_crash_leaves_a_pending_key_one_redemption_and_an_epoch_none(path: Path) -> None:
    with opened(path) as ledger:
        ledger.reserve("k", "measure", 10, {"q": 1})
        ledger.reserve("epoch", "watch", 20, {"t": 1}, redeemable=False)
    with opened(path) as ledger:
        assert ledger.spent == 30
        assert [(event.kind, event.key) for event in ledger.events()][3:] == [("forfeit", "epoch")]
        with pytest.raises(LedgerError, match="forfeited and stays charged"):
            ledger.reserve("epoch", "watch", 20, {"t": 1}, redeemable=False)
        ledger.reserve("k", "measure", 10, {"q": 1})
    with opened(path) as ledger:
        with pytest.raises(LedgerError, match="forfeited"):
            ledger.reserve("k", "measure", 10, {"q": 1})
        assert ledger.spent == 30
        kinds = [(event.kind, event.key) for event in ledger.events()][3:]
        assert kinds == [("forfeit", "epoch"), ("redeem", "k"), ("forfeit", "k")]


def test_an_abandoned_epoch_is_forfeited_too(ledger: Ledger) -> None:
    ledger.abandon(ledger.reserve("epoch", "watch", 20, {}, redeemable=False))
    with pytest.raises(LedgerError, match="forfeited and stays charged"):
        ledger.reserve("epoch", "watch", 20, {}, redeemable=False)
    assert ledger.spent == 20


def test_keyless_requests_never_meet(ledger: Ledger) -> None:
    assert buy(ledger, None).key != buy(ledger, None).key
    assert ledger.spent == 20


def test_blobs_come_back_and_travel_with_their_event(ledger: Ledger) -> None:
    digest = ledger.put_blob(b"\0public")
    assert ledger.put_blob(b"\0public") == digest
    ledger.append("snapshot", {"blob": digest}, blobs=[b"more"])
    reservation = ledger.reserve("k", "measure", 10, {})
    ledger.settle(reservation, {}, blobs=[b"result"])
    for data in (b"\0public", b"more", b"result"):
        assert ledger.get_blob(ledger.put_blob(data)) == data


def test_everything_is_there_after_reopening(path: Path) -> None:
    with opened(path) as ledger:
        event = buy(ledger, "k", value=0.1)
        digest = ledger.put_blob(b"snapshot")
        ledger.append("note", {"certificate": [1, 2]})
        before = list(ledger.events())
    with opened(path) as ledger:
        assert list(ledger.events()) == before
        again = ledger.settled("k", "measure", {"q": 1})
        assert again == event
        assert ledger.get_blob(digest) == b"snapshot"
        ledger.verify()
    statement = verify(path)
    assert statement.events == tuple(before)
    assert (statement.history.spent, statement.history.limit, statement.anchored) == (10, LIMIT, True)


@pytest.mark.parametrize("changed", [("records", 101), ("domain", "beef"), ("version", "2"), ("grid", 4)])
def test_another_identity_is_refused_and_the_field_is_named(path: Path, changed: tuple[str, object]) -> None:
    opened(path).close()
    with pytest.raises(LedgerError, match=f"opened for {changed[0]} .* not .*: use it with the table"):
        opened(path, **dict([changed]))


@pytest.mark.parametrize("budget", [Budget(rho=2e-6), Budget(epsilon=1e-6), Budget(epsilon=1, delta=1e-9)])
def test_another_budget_is_refused(path: Path, budget: Budget) -> None:
    opened(path).close()
    with pytest.raises(LedgerError, match="opened for budget"):
        Ledger.open(path, identity=IDENTITY, budget=budget)
    opened(path).close()


def test_one_writer_per_ledger_and_per_anchor(path: Path, tmp_path: Path) -> None:
    with opened(path) as ledger:
        with pytest.raises(LedgerError, match=r"a\.ledger\.lock is in use .* close that one first"):
            opened(path)
        link = tmp_path / "link.ledger"
        link.symlink_to(path)
        with pytest.raises(LedgerError, match="in use"):
            opened(link)
        (tmp_path / "b.ledger").touch()
        with pytest.raises(LedgerError, match=r"a\.ledger\.anchor is in use"):
            Ledger.open(tmp_path / "b.ledger", identity=IDENTITY, budget=BUDGET, anchor=f"{path}.anchor")
        buy(ledger, "k")
    opened(path).close()


SECOND_PROCESS = """
import sys
from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.verify import verify
assert verify(sys.argv[1]).history.spent == 10
try:
    Ledger.open(sys.argv[1], identity={}, budget=Budget(rho=1e-6))
except LedgerError as error:
    print(error)
"""


def test_a_second_process_may_verify_but_not_open(path: Path) -> None:
    with opened(path) as ledger:
        buy(ledger, "k")
        run = subprocess.run(
            [sys.executable, "-c", SECOND_PROCESS, str(path)], capture_output=True, text=True, check=True
        )
        assert "is in use by another session or process" in run.stdout
        buy(ledger, "l")


def test_a_forked_child_may_not_use_its_parents_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(LedgerError, match="opened by a parent process"):
        ledger.reserve("k", "measure", 10, {})
    monkeypatch.undo()
    buy(ledger, "k")


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="is closed: open it again"):
        ledger.reserve("k", "measure", 10, {})


def test_threads_share_one_ledger(ledger: Ledger) -> None:
    answers: list[tuple[str, int]] = []
    refusals: list[str] = []

    def ask(name: int) -> None:
        for number in range(10):
            key = f"shared-{number}"
            try:
                event = ledger.settled(key, "measure", {"q": 1})
                answers.append((key, (event or buy(ledger, key, value=name)).payload["value"]))
            except LedgerError as error:
                refusals.append(str(error))
            buy(ledger, None, cost=1)

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent == 10 * 10 + 60
    assert len({key for key, _ in answers}) == len(set(answers)) == 10
    assert all("right now" in refusal or "answered already" in refusal for refusal in refusals)
    ledger.verify()


def test_concurrent_buyers_never_pass_the_limit(ledger: Ledger) -> None:
    refused: list[BudgetError] = []

    def drain() -> None:
        try:
            while True:
                buy(ledger, None, cost=31)
        except BudgetError as error:
            refused.append(error)

    threads = [threading.Thread(target=drain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent == LIMIT // 31 * 31
    assert len(refused) == 4


def test_a_writer_that_begins_during_verification_is_no_rollback(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was opened without its empty log; then the log and the mark grew, and the mark was read."""
    opened(path).close()
    with opened(path) as ledger:
        begun: list[bool] = []

        def written_meanwhile(marks: Path) -> tuple[int, Mark | None]:
            if not begun:
                begun.append(True)
                for _ in range(3):
                    ledger.append("note", {})
            return newest(marks)

        monkeypatch.setattr(verification, "newest", written_meanwhile)
        assert verify(path).history.sequence == ledger.event(4).sequence


def test_a_running_ledger_can_be_verified_from_outside(path: Path) -> None:
    stop = threading.Event()
    with opened(path) as ledger:

        def spend() -> None:
            while not stop.is_set():
                ledger.append("note", {})

        thread = threading.Thread(target=spend)
        thread.start()
        try:
            seen = [verify(path).history.sequence for _ in range(20)]
        finally:
            stop.set()
            thread.join()
    assert seen == sorted(seen)


def test_it_shows_public_facts_only_and_cannot_be_pickled(ledger: Ledger) -> None:
    buy(ledger, "k")
    assert repr(ledger) == "Ledger(3 events, 10 of 1000 nano spent)"
    with pytest.raises(TypeError):
        pickle.dumps(ledger)


def test_an_older_schema_is_migrated_and_its_chain_kept(path: Path) -> None:
    """Version 1 had events only: no blobs, no guards against editing."""
    facts = {"format": FORMAT, "ledger": "old", "identity": IDENTITY}
    facts |= {"budget": {**BUDGET.to_dict(), "limit": LIMIT, "unit": "rho"}}
    common = {"at": 0, "analyst": None}
    first = Event.build(sequence=1, kind="open", key=None, cost=0, payload=facts, previous=GENESIS, **common)
    charge = {"kind": "measure", "digest": "00", "redeemable": True, "request": {}}
    second = Event.build(sequence=2, kind="reserve", key="k", cost=7, payload=charge, previous=first.digest, **common)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE events (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)"
        )
        for event in (first, second):
            connection.execute("INSERT INTO events VALUES (?, ?, ?)", (event.sequence, event.body, event.digest))
        connection.execute("PRAGMA user_version=1")
    connection.close()
    anchor = Anchor(path.with_name("a.ledger.anchor"), create=True)
    anchor.write(Mark("old", 2, second.digest, 7))
    anchor.close()

    assert verify(path).history.spent == 7
    with opened(path) as ledger:
        assert list(ledger.events()) == [first, second]
        assert ledger.get_blob(ledger.put_blob(b"new")) == b"new"
        assert ledger.spent == 7
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("DELETE FROM events")
    connection.close()


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    opened(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version={VERSION + 1}")
    connection.close()
    content = path.read_bytes()
    for reader in (lambda: opened(path), lambda: verify(path)):
        with pytest.raises(LedgerError, match=f"schema version {VERSION + 1}, .*upgrade reticent"):
            reader()
    assert path.read_bytes() == content


def test_a_newer_event_format_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_in_format(path, FORMAT + 1, monkeypatch)
    with pytest.raises(LedgerError, match=f"ledger format {FORMAT + 1} > {FORMAT}: upgrade reticent"):
        opened(path)


def test_an_older_event_format_is_shown_but_not_spent_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 1 kept fractional answers in other steps: they would be read as twice what they are."""
    write_in_format(path, FORMAT - 1, monkeypatch)
    content = path.read_bytes()
    with pytest.raises(LedgerError, match=f"ledger format {FORMAT - 1} < {FORMAT}: its answers would be misread"):
        opened(path)
    assert verify(path).history.spent == 0
    assert path.read_bytes() == content


def write_in_format(path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ledger", "events"):
        monkeypatch.setattr(f"reticent.kernel.ledger.{module}.FORMAT", number)
    opened(path).close()
    monkeypatch.undo()


def test_paths_that_cannot_be_opened_are_one_clear_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "a.ledger", tmp_path):
        for reader in (opened, verify):
            with pytest.raises(LedgerError) as caught:
                reader(path)
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)


def test_the_file_holds_exactly_what_was_given_to_it(path: Path) -> None:
    """Secret state has no way in: the body of every event is the caller's public payload and the chain's own fields."""
    with opened(path) as ledger:
        buy(ledger, "k", value=5)
        bodies = [json.loads(event.body) for event in ledger.events()]
    assert [set(body) for body in bodies] == [
        {"sequence", "kind", "at", "key", "analyst", "cost", "payload", "previous"}
    ] * 3
    assert bodies[1]["payload"]["request"] == {"q": 1}
    assert bodies[2]["payload"] == {"value": 5}


def test_events_are_stamped_with_the_minute() -> None:
    """A finer stamp would show how long the computation between two events took."""
    before = time.time()
    ledger = Ledger.memory(Budget(rho=1))
    ledger.settle(ledger.reserve("k", "measure", 5, {}), {})
    for event in ledger.events():
        assert event.at % 60 == 0
        assert before - 60 <= event.at <= time.time()


FAILING = Budget(rho=1e-6, approximate=Fraction(1, 10**6))
"""A part of its delta is set aside for mechanisms that may fail."""


def spend_delta(ledger: Ledger, key: str, delta: Fraction) -> Event:
    return ledger.settle(ledger.reserve(key, "select", 10, {"q": key}, delta=delta), {"value": 1})


def test_deltas_add_up_and_more_than_was_set_aside_is_refused_unspent() -> None:
    ledger = Ledger.memory(FAILING, IDENTITY)
    spend_delta(ledger, "a", Fraction(6, 10**7))
    for _ in range(2):
        with pytest.raises(BudgetError, match="sets 4e-07 aside"):
            ledger.reserve("b", "select", 10, {"q": "b"}, delta=Fraction(5, 10**7))
        assert (ledger.spent, ledger.delta) == (10, Fraction(6, 10**7))
    spend_delta(ledger, "c", Fraction(4, 10**7))
    assert ledger.delta == FAILING.approximate
    with pytest.raises(BudgetError):
        ledger.affordable(10, delta=Fraction(1, 10**300))
    with pytest.raises(BudgetError, match="sets 0 aside"):
        Ledger.memory(BUDGET, IDENTITY).reserve("a", "select", 10, {"q": 1}, delta=Fraction(1, 10**9))
    ledger.verify()


def test_a_chain_that_spends_more_delta_than_was_set_aside_is_refused() -> None:
    ledger = Ledger.memory(FAILING, IDENTITY)
    spend_delta(ledger, "a", Fraction(6, 10**7))
    *_, last = events = list(ledger.events())
    facts = {"kind": "select", "digest": "0" * 64, "redeemable": True, "request": {}}
    for delta, allowed in ((Fraction(4, 10**7), True), (Fraction(5, 10**7), False)):
        link = {"sequence": last.sequence + 1, "previous": last.digest, "at": last.at, "analyst": None}
        more = Event.build(kind="reserve", key="b", cost=1, payload=facts | {"delta": str(delta)}, **link)
        if allowed:
            assert Fraction(History.replay([*events, more]).delta) == FAILING.approximate
        else:
            with pytest.raises(LedgerError, match="breaks its rules"):
                History.replay([*events, more])


def test_a_rollback_uses_up_the_delta_that_the_lost_part_may_have_spent(path: Path) -> None:
    """The anchor tells what was spent, not with what probability it may fail."""
    with Ledger.open(path, identity=IDENTITY, budget=FAILING) as ledger:
        spend_delta(ledger, "a", Fraction(1, 10**7))
    before = path.read_bytes()
    with Ledger.open(path, identity=IDENTITY, budget=FAILING) as ledger:
        spend_delta(ledger, "b", Fraction(8, 10**7))
    path.write_bytes(before)
    with Ledger.open(path, identity=IDENTITY, budget=FAILING, accept_rollback=True) as ledger:
        assert ledger.spent == 20
        assert ledger.delta == FAILING.approximate
        with pytest.raises(BudgetError, match="sets 0 aside"):
            spend_delta(ledger, "c", Fraction(1, 10**9))
