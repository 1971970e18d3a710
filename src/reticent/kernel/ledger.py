"""The ledger charges before noise is drawn and records before a result leaves: reserve -> sample -> settle.

What a crash leaves behind is never refunded. A pending reservation was charged and nothing left for it: its
own key may redeem it once, with fresh noise; otherwise it stays charged (docs/ledger.md).
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from reticent.errors import (
    BudgetError,
    EntryError,
    KeyBusyError,
    KeyForfeitedError,
    KeyReusedError,
    LedgerError,
)
from reticent.kernel.anchor import Anchor, Mark, breach, places
from reticent.kernel.events import (
    FORMAT,
    GENESIS,
    TRUSTED_KINDS,
    Event,
    History,
    Reservation,
    canonical,
    sha256,
)
from reticent.kernel.store import LedgerStore, MemoryStore, SqliteStore, io_errors

if TYPE_CHECKING:
    from reticent.kernel.accounting import Budget

NANO = 1_000_000_000
NOBODY = {"key": None, "analyst": None, "cost": 0}
Payload = dict[str, Any]


class Ledger:
    """One budget for one table; threads may share it, processes may not; unusable after a failed write."""

    def __init__(
        self,
        store: LedgerStore,
        anchor: Anchor | None,
        *,
        identity: Payload,
        budget: Budget,
        accept_rollback: bool = False,
    ) -> None:
        self.budget = budget
        self._store = store
        self._anchor: Anchor | None = None
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self._unusable: str | None = None
        self._held: set[str] = set()
        self._history = History.replay(store.events())
        self._begin(anchor, identity, accept_rollback)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        identity: Payload,
        budget: Budget,
        anchor: str | os.PathLike[str] | None = None,
        accept_rollback: bool = False,
    ) -> Ledger:
        """Create or resume the ledger at `path`; its anchor (`<path>.anchor`) belongs on another volume.

        `accept_rollback` is the custodian's word that a file at odds with its anchor may go on: what the
        anchor saw spent stays charged, pending reservations are forfeited, and the chain records it.
        """
        file, marks = places(path, anchor)
        if marks.exists() and not file.exists() and not accept_rollback:
            raise LedgerError(f"{file} is missing but its anchor {marks} is there: restore the ledger's file")
        with ExitStack() as undo, io_errors(file):
            store = undo.enter_context(closing(SqliteStore(file)))
            empty = next(store.events(), None) is None
            held = undo.enter_context(closing(Anchor(marks, create=empty or accept_rollback)))
            ledger = cls(store, held, identity=identity, budget=budget, accept_rollback=accept_rollback)
            undo.pop_all()
        return ledger

    @classmethod
    def memory(cls, budget: Budget, identity: Payload | None = None) -> Ledger:
        """The same rules without a file, for a release whose budget nothing else shares."""
        return cls(MemoryStore(), None, identity=identity or {}, budget=budget)

    def _begin(self, anchor: Anchor | None, identity: Payload, accept_rollback: bool) -> None:
        history, mark = self._history, None if anchor is None else anchor.mark
        if history.sequence and (written := history.opening["format"]) < FORMAT:
            raise LedgerError(
                f"ledger format {written} < {FORMAT}: its answers would be misread; `reticent ledger show` and `verify`"
                " take it, spend on with the version that wrote it"
            )
        problem = None if anchor is None else breach(history, self._store, mark)
        if problem is not None and not accept_rollback:
            raise LedgerError(problem)
        name = secrets.token_hex(16) if mark is None else mark.ledger
        # Only a mark ahead of the file bounds what was lost; otherwise all that remains counts as spent.
        seen = mark.spent if mark is not None and mark.sequence > history.sequence else None
        if anchor is not None and mark is None and problem is None:
            # Anchored before its first event: from here on a missing anchor is never innocent.
            anchor.write(Mark(name, 0, GENESIS, 0))
        if history.sequence == 0:
            facts = {"format": FORMAT, "ledger": name, "identity": identity, "budget": self._terms()}
            self._append("open", facts)
        self.require(identity)
        if problem is not None:
            charge = max((history.limit if seen is None else seen) - history.spent, 0)
            self._append("rollback", {"head": mark and mark.head}, cost=charge)
        # No mark was overwritten so far: a crash during recovery finds the old one, and recovers again.
        self._anchor = anchor
        self._write_mark()
        for reservation in history.pending():
            if not reservation.redeemable or reservation.status == "redeemed":
                self._advance("forfeit", reservation)

    @property
    def name(self) -> str:
        """A random name, given when it was made: what one ledger paid for is known by it."""
        return self._history.opening["ledger"]

    def _terms(self) -> Payload:
        return {**self.budget.to_dict(), "limit": self.budget.limit, "unit": self.budget.unit}

    def require(self, identity: Payload) -> None:
        """LedgerError unless this ledger was opened for the same public facts and the same budget."""
        opening = self._history.opening
        was = opening["identity"] | {f"budget's {name}": term for name, term in opening["budget"].items()}
        terms = {f"budget's {name}": term for name, term in self._terms().items()}
        now = json.loads(canonical(identity | terms))
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                told = f"{_short(was.get(name))}, not {_short(now.get(name))}"
                if name == "domain":
                    told = "with other columns, values or bins, not this one"
                raise LedgerError(
                    f"the ledger was opened for {name} {told}:"
                    " use it with the table and budget it was made for; one table has one ledger"
                )

    @property
    def spent(self) -> int:
        """Nano-units charged so far, settled or not."""
        return self._history.spent

    @property
    def remaining(self) -> int:
        return self._history.remaining()

    def remaining_for(self, analyst: str | None) -> int:
        """What this analyst can still spend under cap and limit."""
        return self._history.remaining(analyst)

    def spent_by(self, analyst: str) -> int:
        return self._history.spent_by.get(analyst, 0)

    def keys(self, prefix: str) -> list[str]:
        """Keys that were ever reserved and start so, oldest first."""
        return [key for key in self._history.reservations.copy() if key.startswith(prefix)]

    def charged(self, key: str) -> int:
        """Nano-units reserved under this key and the keys of its parts (`key:part`), answered or not."""
        held = self._history.reservations.copy().values()
        return sum(old.cost for old in held if old.key == key or old.key.startswith(f"{key}:"))

    @property
    def caps(self) -> dict[str, int]:
        return self._history.caps.copy()

    def set_cap(self, analyst: str, cap: int) -> Event:
        """Bound what one analyst may spend in all, in nano-units; what is spent stays spent."""
        _require_text("analyst", analyst)
        if _amount("cap", cap) > self._history.limit:
            raise EntryError(f"cap {cap} is above the limit {self._history.limit}: choose a lower one")
        with self._using():
            return self._append("cap", {"cap": cap}, analyst=analyst)

    def settled(self, key: str, kind: str, request: Payload) -> Event | None:
        """The settlement this key has; LedgerError if it belongs to another request or is forfeited."""
        with self._using():
            reservation = self._history.reservations.get(key)
            if reservation is None:
                return None
            if reservation.digest != _digest(kind, request):
                raise KeyReusedError(f"key {_short(key)} belongs to another request: use a new key")
            if reservation.status == "forfeited":
                raise KeyForfeitedError(f"key {_short(key)} is forfeited and stays charged: use a new key")
            return None if reservation.pending else self._store.event(reservation.settled)

    def affordable(self, cost: int, *, key: str | None = None, analyst: str | None = None) -> None:
        """BudgetError when the limit or the analyst's cap cannot pay; a key that is pending has paid.

        Names that no reservation may have are refused here too: whoever passes may reserve.
        """
        _amount("cost", cost)
        if key is not None:
            _require_text("key", key)
        if analyst is not None:
            _require_text("analyst", analyst)
        with self._using():
            if key is not None and key in self._history.reservations:
                return
            rest, left = self._history.remaining(analyst), self._history.remaining()
            if cost > rest:
                purse, raised = ("budget", "") if rest == left else ("analyst's cap", " or have it raised")
                requested, remaining = cost / NANO, rest / NANO
                raise BudgetError(
                    f"this costs {self.budget.unit} {requested:.9g} and the {purse} has {remaining:.9g} left:"
                    f" ask for less accuracy{raised}",
                    requested=requested,
                    remaining=remaining,
                )

    def reserve(
        self,
        key: str | None,
        kind: str,
        cost: int,
        request: Payload,
        *,
        analyst: str | None = None,
        redeemable: bool = True,
    ) -> Reservation:
        """Charge durably, before any noise is drawn; or hand out, once, what this key paid before a crash.

        The caller settles before anything leaves, or abandons. Ask `settled` first: answered keys fail.
        """
        _require_text("kind", kind)
        key = f"auto-{secrets.token_hex(16)}" if key is None else _require_text("key", key)
        with self._using():
            if self.settled(key, kind, request) is not None:
                raise LedgerError(f"key {_short(key)} was answered already: read it with settled()")
            self.affordable(cost, key=key, analyst=analyst)
            old = self._history.reservations.get(key)
            if old is not None:
                self._redeem(old, cost, analyst)
            else:
                facts = {"kind": kind, "digest": _digest(kind, request), "redeemable": redeemable}
                self._append("reserve", {**facts, "request": request}, key=key, analyst=analyst, cost=cost)
            self._held.add(key)
            return self._history.reservations[key]

    def _redeem(self, old: Reservation, cost: int, analyst: str | None) -> None:
        if (old.cost, old.analyst) != (cost, analyst):
            raise KeyReusedError(f"key {_short(old.key)} was reserved at another price or by another analyst")
        if old.key in self._held:
            raise KeyBusyError(f"key {_short(old.key)} is being answered right now: ask again later")
        if not old.redeemable or old.status == "redeemed":
            self._advance("forfeit", old)
            raise KeyForfeitedError(f"key {_short(old.key)} is forfeited and stays charged: use a new key")
        self._advance("redeem", old)

    def settle(self, reservation: Reservation, result: Payload, *, blobs: Iterable[bytes] = ()) -> Event:
        """Record a reservation's one result; only what the returned event and its blobs hold may leave.

        If this raises, nothing may leave: whether the result reached the disk is known after reopening.
        """
        with self._using():
            if reservation.key not in self._held:
                raise LedgerError(f"key {_short(reservation.key)} is not held: reserve first, settle once")
            event = self._advance("settle", self._history.reservations[reservation.key], result, blobs)
            self._held.discard(reservation.key)
            return event

    def abandon(self, reservation: Reservation) -> None:
        """Sampling failed and nothing left: the charge stands, and the key may come back as after a crash."""
        with self._mutex:
            self._held.discard(reservation.key)

    def lookup(self, key: str) -> Event | Reservation | None:
        """A key's settlement, or its unsettled reservation (a fact, not a right to sample), or None."""
        with self._using():
            reservation = self._history.reservations.get(key)
            settled = reservation.settled if reservation else 0
            return self._store.event(settled) if settled else reservation

    def append(self, kind: str, payload: Payload, *, blobs: Iterable[bytes] = ()) -> Event:
        """A free public event: a snapshot, a certificate, a note."""
        if _require_text("kind", kind) in TRUSTED_KINDS:
            raise LedgerError(f"event kind {kind} is the ledger's own: choose another name")
        with self._using():
            return self._append(kind, payload, blobs)

    def put_blob(self, data: bytes) -> str:
        """Keep public bytes under their hash; an event that names the hash binds them to the chain."""
        with self._using(), self._writing():
            self._store.append(None, {sha256(data): data})
            return sha256(data)

    def get_blob(self, digest: str) -> bytes:
        """The bytes of that hash, checked."""
        with self._using():
            data = self._store.blob(digest)
        if data is None or sha256(data) != digest:
            raise LedgerError(f"blob {_short(digest)} is missing or damaged: restore the ledger's file")
        return data

    def events(self) -> Iterator[Event]:
        """All events so far, read from the store and checked against their hashes."""
        with self._using():
            return iter(tuple(self._store.events()))

    def verify(self) -> None:
        """LedgerError unless the stored chain replays to exactly the live state."""
        with self._using():
            if History.replay(self._store.events()) != self._history:
                raise LedgerError("the stored ledger is not the running one: stop, and restore the file")

    def close(self) -> None:
        """Free file and lock; what is pending stays charged."""
        with self._mutex:
            if self._unusable != "is closed":
                self._unusable = "is closed"
                with ExitStack() as resources:
                    resources.callback(self._store.close)
                    if self._anchor is not None:
                        resources.callback(self._anchor.close)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._history.sequence} events, {self.spent} of {self._history.limit} nano spent)"

    def _advance(
        self, kind: str, held: Reservation, payload: Payload | None = None, blobs: Iterable[bytes] = ()
    ) -> Event:
        return self._append(kind, payload or {}, blobs, key=held.key, analyst=held.analyst, cost=held.cost)

    def _append(self, kind: str, payload: Payload, blobs: Iterable[bytes] = (), **fields: Any) -> Event:
        """Commit, then mark: when this returns, the event survives the machine and a rollback would show."""
        link = {"sequence": self._history.sequence + 1, "previous": self._history.head, "at": int(time.time())}
        event = Event.build(kind=kind, payload=payload, **link, **(NOBODY | fields))
        with self._writing():
            self._store.append(event, {sha256(data): data for data in blobs})
            self._history.apply(event)
            self._write_mark()
        return event

    def _write_mark(self) -> None:
        if self._anchor is not None:
            history = self._history
            self._anchor.write(Mark(history.opening["ledger"], history.sequence, history.head, history.spent))

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._mutex, io_errors("the ledger"):
            if self._unusable is not None:
                raise LedgerError(f"the ledger {self._unusable}: open it again; what is charged stays charged")
            if os.getpid() != self._process:
                raise LedgerError("the ledger was opened by a parent process: use it in one process only")
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Whatever interrupts a write, even a signal, leaves its outcome in doubt: reopening tells."""
        try:
            yield
        except BaseException:
            self._unusable = "failed to write"
            raise


def _digest(kind: str, request: Payload) -> str:
    return sha256(canonical({"kind": kind, "request": request}).encode())


def _amount(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise EntryError(f"{name} {value!r} is not a whole number of nano-units from 0: round prices up")
    return value


def _require_text(name: str, value: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise EntryError(f"{name} must be a text of 1 to 200 characters")
    return value


def _short(value: object) -> str:
    text = canonical(value)
    return text if len(text) <= 60 else text[:57] + "..."
