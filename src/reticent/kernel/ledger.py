"""The ledger charges before noise is drawn and records before a result leaves: reserve -> sample -> settle.

What a crash leaves behind is never refunded. A pending reservation was charged and nothing left for it: its own key
may redeem it once, with fresh noise; otherwise it stays charged. docs/ledger.md gives the format and the argument.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from reticent.errors import BudgetError, LedgerError
from reticent.kernel.anchor import SLOT, Anchor, Mark, latest
from reticent.kernel.events import (
    FORMAT,
    GENESIS,
    TRUSTED_KINDS,
    Entry,
    Event,
    History,
    Reservation,
    canonical,
    sha256,
)
from reticent.kernel.store import LedgerStore, MemoryStore, SqliteStore

__all__ = ["Event", "Ledger", "Reservation", "Statement", "verify"]


class Limit(Protocol):
    """What the ledger needs of a budget: `kernel.accounting.Budget` is one."""

    @property
    def limit(self) -> int: ...

    @property
    def unit(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


Budget = TypeVar("Budget", bound=Limit)


@dataclass(frozen=True)
class Statement:
    """What a verified ledger file says, in nano-units; `anchored` is False where no anchor was there to compare."""

    events: tuple[Event, ...]
    head: str
    spent: int
    limit: int
    unit: str
    identity: dict[str, Any]
    caps: dict[str, int]
    spent_by: dict[str, int]
    pending: tuple[Reservation, ...]
    anchored: bool


class Ledger(Generic[Budget]):
    """One budget for one table. Safe to share between threads; one process at a time; useless after an I/O error."""

    def __init__(
        self,
        store: LedgerStore,
        anchor: Anchor | None,
        *,
        identity: dict[str, Any],
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
        self._history = replay(store.events())
        self._begin(anchor, identity, accept_rollback)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        identity: dict[str, Any],
        budget: Budget,
        anchor: str | os.PathLike[str] | None = None,
        accept_rollback: bool = False,
    ) -> Ledger[Budget]:
        """Create or resume the ledger at `path`; its anchor (default `<path>.anchor`) belongs on another volume.

        `accept_rollback` is the custodian's word that a file behind its anchor may go on: all that the anchor saw
        spent stays charged, pending reservations are forfeited, and the chain records it.
        """
        file = Path(path).resolve()
        mark_file = Path(anchor).resolve() if anchor is not None else default_anchor(file)
        if mark_file.exists() and not file.exists() and not accept_rollback:
            raise LedgerError(
                f"{file} is missing but its anchor {mark_file} is there: restore the ledger's file"
            )
        with ExitStack() as stack, _io_errors(file):
            store = stack.enter_context(closing(SqliteStore(file)))
            empty = next(store.events(), None) is None
            mark = stack.enter_context(closing(Anchor(mark_file, create=empty or accept_rollback)))
            ledger = cls(store, mark, identity=identity, budget=budget, accept_rollback=accept_rollback)
            stack.pop_all()
        return ledger

    @classmethod
    def memory(cls, budget: Budget, identity: dict[str, Any] | None = None) -> Ledger[Budget]:
        """The same rules without a file: for a single release whose budget is not shared."""
        return cls(MemoryStore(), None, identity=identity or {}, budget=budget)

    def _begin(self, anchor: Anchor | None, identity: dict[str, Any], accept_rollback: bool) -> None:
        mark = anchor.read() if anchor is not None else None
        breach = None if anchor is None else _breach(self._history, self._store, mark)
        if breach is not None and not accept_rollback:
            raise LedgerError(breach)
        name = mark.ledger if mark is not None else secrets.token_hex(16)
        if breach is None and anchor is not None and mark is None:
            # Anchored before the first event: from here on a missing anchor is never innocent.
            anchor.write(Mark(name, 0, GENESIS, 0))
        if self._history.sequence == 0:
            budget = self.budget.to_dict() | {"limit": self.budget.limit, "unit": self.budget.unit}
            self._append("open", {"format": FORMAT, "ledger": name, "identity": identity, "budget": budget})
        self.require(identity)
        if breach is not None:
            # A ruined or stale anchor bounds nothing: then all that remains counts as spent.
            bounded = mark is not None and mark.sequence > self._history.sequence
            seen = mark.spent if mark is not None and bounded else self._history.limit
            lost = {"head": mark.head if mark else None, "sequence": mark.sequence if mark else None}
            self._append("rollback", lost, cost=max(seen - self._history.spent, 0))
        # Until here no mark was overwritten, so a crash during recovery finds the old mark and recovers again.
        self._anchor = anchor
        self._write_mark()
        for entry in self._history.pending():
            if not entry.redeemable:
                self._forfeit(entry)

    def require(self, identity: dict[str, Any]) -> None:
        """LedgerError unless this ledger was opened for the same public facts and the same budget."""
        opening = self._history.opening
        wanted = json.loads(canonical(identity))
        budget = json.loads(canonical(self.budget.to_dict())) | {
            "limit": self.budget.limit,
            "unit": self.budget.unit,
        }
        if opening["budget"] != budget:
            raise LedgerError(
                f"the ledger's budget is {_short(opening['budget'])}, not {_short(budget)}: open it with its own budget"
            )
        for name in sorted({*opening["identity"], *wanted}):
            if opening["identity"].get(name) != wanted.get(name):
                raise LedgerError(
                    f"the ledger belongs to a table with {name} {_short(opening['identity'].get(name))},"
                    f" not {_short(wanted.get(name))}: open it with that table, or keep one ledger per table"
                )

    @property
    def identity(self) -> dict[str, Any]:
        return json.loads(canonical(self._history.opening["identity"]))

    @property
    def limit(self) -> int:
        return self._history.limit

    @property
    def spent(self) -> int:
        """Nano-units charged so far, settled or not."""
        return self._history.spent

    @property
    def remaining(self) -> int:
        return self._history.remaining()

    def remaining_for(self, analyst: str | None) -> int:
        """What this analyst can still spend under the cap and the limit."""
        return self._history.remaining(analyst)

    def spent_by(self, analyst: str) -> int:
        return self._history.spent_by.get(analyst, 0)

    @property
    def caps(self) -> dict[str, int]:
        with self._mutex:
            return dict(self._history.caps)

    def set_cap(self, analyst: str, cap: int | None) -> Event:
        """Bound what one analyst may spend, in nano-units; None lifts the cap. What is spent stays spent."""
        _require_text(analyst, "analyst")
        if cap is not None and (not _is_amount(cap) or cap > self.limit):
            raise LedgerError(
                f"cap {cap!r} is not a whole number of nano-units from 0 to {self.limit}: choose one"
            )
        with self._using():
            return self._append("cap", {"cap": cap}, analyst=analyst)

    def settled(self, key: str, kind: str, request: dict[str, Any]) -> Event | None:
        """The settlement this key already has; LedgerError if the key belongs to another request or is forfeited."""
        with self._using():
            entry = self._history.entries.get(key)
            if entry is None:
                return None
            if entry.reservation.digest != _digest(kind, request):
                raise LedgerError(
                    f"key {_short(key)} belongs to another request: use a new key for a new request"
                )
            if entry.status == "forfeited":
                raise LedgerError(
                    f"key {_short(key)} was forfeited in a crash and stays charged: use a new key"
                )
            return self._store.event(entry.settled) if entry.status == "settled" else None

    def affordable(self, cost: int, *, key: str | None = None, analyst: str | None = None) -> None:
        """BudgetError when the limit or the analyst's cap cannot pay; a pending key was paid already."""
        if not _is_amount(cost):
            raise LedgerError(f"cost {cost!r} is not a whole number of nano-units >= 0: round prices up")
        with self._using():
            if key is not None and key in self._history.entries:
                return
            remaining = self._history.remaining(analyst)
            if cost > remaining:
                unit, whose = self.budget.unit, "the budget" if analyst is None else "this analyst"
                raise BudgetError(
                    f"costs {unit} {cost / 1e9:.9g}, but {whose} has {remaining / 1e9:.9g} left: ask for less accuracy",
                    requested=cost / 1e9,
                    remaining=remaining / 1e9,
                )

    def reserve(
        self,
        key: str | None,
        kind: str,
        cost: int,
        request: dict[str, Any],
        *,
        analyst: str | None = None,
        redeemable: bool = True,
    ) -> Reservation:
        """Charge durably, before any noise is drawn; or hand out, once, what this key paid before a crash.

        The caller must settle before anything leaves, and `abandon` when sampling failed. Ask `settled` first.
        """
        for text, name in ((kind, "kind"), *([] if key is None else [(key, "key")])):
            _require_text(text, name)
        with self._using():
            if key is not None and self.settled(key, kind, request) is not None:
                raise LedgerError(f"key {_short(key)} was answered already: read it with settled()")
            self.affordable(cost, key=key, analyst=analyst)
            entry = self._history.entries.get(key) if key is not None else None
            if entry is not None:
                return self._redeem(entry, cost, analyst)
            key = key if key is not None else f"auto-{secrets.token_hex(16)}"
            payload = {
                "kind": kind,
                "digest": _digest(kind, request),
                "request": request,
                "redeemable": redeemable,
            }
            self._append("reserve", payload, key=key, analyst=analyst, cost=cost)
            self._held.add(key)
            return self._history.entries[key].reservation

    def _redeem(self, entry: Entry, cost: int, analyst: str | None) -> Reservation:
        reservation = entry.reservation
        if (reservation.cost, reservation.analyst) != (cost, analyst):
            raise LedgerError(
                f"key {_short(reservation.key)} was reserved at another price or for another analyst"
            )
        if reservation.key in self._held:
            raise LedgerError(f"key {_short(reservation.key)} is being answered right now: ask again later")
        if not entry.redeemable:
            self._forfeit(entry)
            raise LedgerError(
                f"key {_short(reservation.key)} was redeemed once and stays charged: use a new key"
            )
        self._append("redeem", {}, key=reservation.key, analyst=analyst, cost=cost)
        self._held.add(reservation.key)
        return reservation

    def _forfeit(self, entry: Entry) -> None:
        held = entry.reservation
        self._append("forfeit", {}, key=held.key, analyst=held.analyst, cost=held.cost)

    def settle(
        self, reservation: Reservation, result: dict[str, Any], *, blobs: Iterable[bytes] = ()
    ) -> Event:
        """Record the one result of a reservation; only what the returned event holds may leave.

        If this raises, nothing may leave: the result may or may not be on disk, and reopening tells.
        """
        with self._using():
            if reservation.key not in self._held:
                raise LedgerError(f"key {_short(reservation.key)} is not reserved here: call reserve first")
            event = self._append(
                "settle",
                result,
                blobs,
                key=reservation.key,
                analyst=reservation.analyst,
                cost=reservation.cost,
            )
            self._held.discard(reservation.key)
            return event

    def abandon(self, reservation: Reservation) -> None:
        """Sampling failed and nothing left: the charge stands, and the key may come back as after a crash."""
        with self._mutex:
            self._held.discard(reservation.key)

    def lookup(self, key: str) -> Event | Reservation | None:
        """Where a key stands: its settlement, its unsettled reservation (a fact, not a right to sample), or nothing."""
        with self._using():
            entry = self._history.entries.get(key)
            if entry is None:
                return None
            return self._store.event(entry.settled) if entry.settled else entry.reservation

    def append(self, kind: str, payload: dict[str, Any], *, blobs: Iterable[bytes] = ()) -> Event:
        """A free public event: a session's snapshot, a certificate, a note."""
        _require_text(kind, "kind")
        if kind in TRUSTED_KINDS:
            raise LedgerError(f"kind {kind!r} is the ledger's own: choose another name")
        with self._using():
            return self._append(kind, payload, blobs)

    def put_blob(self, data: bytes) -> str:
        """Store public bytes under their hash; name the hash in an event to bind them to the chain."""
        with self._using(), self._writing():
            digest = sha256(data)
            self._store.put_blob(digest, data)
            return digest

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
            if replay(self._store.events()) != self._history:
                raise LedgerError("the stored ledger differs from the running one: stop and restore the file")

    def close(self) -> None:
        """Release file and lock; what is pending stays charged."""
        with self._mutex:
            if self._unusable != "is closed":
                self._unusable = "is closed"
                self._store.close()
                if self._anchor is not None:
                    self._anchor.close()

    def __enter__(self) -> Ledger[Budget]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger(events={self._history.sequence}, spent={self.spent / 1e9:.9g}, limit={self.limit / 1e9:.9g})"

    def _append(
        self,
        kind: str,
        payload: dict[str, Any],
        blobs: Iterable[bytes] = (),
        *,
        key: str | None = None,
        analyst: str | None = None,
        cost: int = 0,
    ) -> Event:
        """Commit, then anchor, then count: when this returns, the event survives the machine and a rollback shows."""
        event = Event.build(
            sequence=self._history.sequence + 1,
            kind=kind,
            at=int(time.time()),
            key=key,
            analyst=analyst,
            cost=cost,
            payload=payload,
            previous=self._history.head,
        )
        with self._writing():
            self._store.append(event, {sha256(data): data for data in blobs})
            self._history.apply(event)
            self._write_mark()
        return event

    def _write_mark(self) -> None:
        if self._anchor is not None:
            history = self._history
            mark = Mark(history.opening["ledger"], history.sequence, history.head, history.spent)
            self._anchor.write(mark)

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._mutex:
            if self._unusable is not None:
                raise LedgerError(
                    f"the ledger {self._unusable}: open it again; what was charged stays charged"
                )
            if os.getpid() != self._process:
                raise LedgerError("the ledger was opened by a parent process: open it in one process only")
            with _io_errors(None):
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Whatever interrupts a write, even a signal, leaves its outcome in doubt: only reopening can tell."""
        try:
            yield
        except BaseException:
            self._unusable = "failed to write"
            raise


def replay(events: Iterable[Event]) -> History:
    """The history a chain adds up to; LedgerError where it was edited."""
    history = History()
    for event in events:
        history.apply(event)
    return history


def default_anchor(path: Path) -> Path:
    return path.with_name(path.name + ".anchor")


def verify(path: str | os.PathLike[str], *, anchor: str | os.PathLike[str] | None = None) -> Statement:
    """Check a ledger file without writing, also while a process uses it; LedgerError where it was edited or cut."""
    file = Path(path).resolve()
    mark_file = Path(anchor).resolve() if anchor is not None else default_anchor(file)
    if not file.exists():
        raise LedgerError(f"{file} does not exist: check the path")
    with _io_errors(file), closing(SqliteStore(file, read_only=True)) as store:
        before = _peek(mark_file)
        events = tuple(store.events())
        history = replay(events)
        # A running writer moves the anchor while we read; then only its earlier mark must be part of the chain.
        breach = _breach(history, store, before, running=_peek(mark_file) != before)
        if mark_file.exists() and breach is not None:
            raise LedgerError(breach)
    opening = history.opening
    return Statement(
        events=events,
        head=history.head,
        spent=history.spent,
        limit=history.limit,
        unit=opening["budget"]["unit"] if opening else "",
        identity=opening["identity"] if opening else {},
        caps=history.caps,
        spent_by=history.spent_by,
        pending=tuple(entry.reservation for entry in history.pending()),
        anchored=mark_file.exists(),
    )


def _peek(path: Path) -> Mark | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        return latest(file.read(2 * SLOT))[1]


def _breach(history: History, store: LedgerStore, mark: Mark | None, *, running: bool = False) -> str | None:
    """Why the file and its anchor cannot both be true, with the remedy; None when they agree.

    The file may be ahead by one event: the crash fell between commit and mark.
    """
    remedy = "restore the newest file, or open once with accept_rollback=True, which charges"
    if mark is None:
        return (
            None
            if history.sequence == 0
            else f"the anchor is empty or ruined: restore it, or {remedy[25:]} all"
        )
    if history.sequence and history.opening["ledger"] != mark.ledger:
        return "the anchor belongs to another ledger: give the right one with anchor="
    if mark.sequence > history.sequence:
        return (
            f"the ledger was rolled back or cut: it has {history.sequence} events, its anchor saw {mark.sequence}"
            f" and {mark.spent / 1e9:.9g} spent; {remedy} that amount"
        )
    last = store.event(history.sequence) if history.sequence else None
    if last is not None and last.kind == "rollback" and last.payload["head"] == mark.head:
        return None
    if mark.sequence and store.event(mark.sequence).digest != mark.head:
        return (
            f"the ledger was edited or forked before event {mark.sequence}: restore the file its anchor saw"
        )
    if history.sequence > mark.sequence + 1 and not running:
        return f"the anchor is {history.sequence - mark.sequence} events behind: restore it, or {remedy[25:]} all"
    return None


@contextmanager
def _io_errors(path: Path | None) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        where = f"{path}" if path is not None else "the ledger"
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LedgerError(
            f"{where} cannot be read or written ({reason}): check disk space and permissions"
        ) from error


def _digest(kind: str, request: dict[str, Any]) -> str:
    return sha256(canonical({"kind": kind, "request": request}).encode())


def _is_amount(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _require_text(value: object, name: str) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise LedgerError(f"{name} must be a text of 1 to 200 characters: shorten or set it")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= 40 else text[:37] + "..."
