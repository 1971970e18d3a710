"""`Ledger` charges before noise is drawn and records before a result is returned: reserve -> sample -> settle.

A crash never refunds a charge. A pending reservation was charged, but no result of it was returned: its key may
redeem it once, with fresh noise; otherwise it stays charged (docs/ledger.md).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import (
    BudgetError,
    EntryError,
    KeyBusyError,
    KeyForfeitedError,
    KeyReusedError,
    LedgerError,
    QueryError,
    has_type,
    require,
)
from reticent.kernel.ledger.anchor import Anchor, Mark, breach, newest, places
from reticent.kernel.ledger.chain import ChainWriter, first_event
from reticent.kernel.ledger.columns import Reservation
from reticent.kernel.ledger.events import FORMAT, GENESIS, TRUSTED_KINDS, Event, History, canonical, sha256
from reticent.kernel.ledger.store import (
    LedgerStore,
    MemoryStore,
    SqliteStore,
    create,
    io_errors,
    lock_of,
    open_locked,
    stored_anything,
)

if TYPE_CHECKING:
    from reticent.kernel.accounting import Budget

NANO = 1_000_000_000
NO_DELTA = Fraction(0)
Payload = dict[str, Any]


class Ledger:
    """The durable account of one budget for one table: every charge is on disk before its noise is drawn.

    Threads may share a ledger, processes may not. After a failed write it is unusable until it is opened again.
    `Ledger.open` creates or resumes one, `Ledger.memory` creates one without a file.

    Example:
        >>> import reticent as rt
        >>> ledger = rt.Ledger.memory(rt.Budget(rho=0.1))
        >>> ledger.spent
        0
        >>> ledger.verify()
    """

    def __init__(
        self,
        store: LedgerStore,
        anchor: Anchor | None,
        *,
        identity: Payload,
        budget: Budget,
        accept_rollback: bool = False,
        created: bool = False,
    ) -> None:
        self._held: set[str] = set()
        trusted = 0 if anchor is None or accept_rollback else _anchored(store, anchor.mark)
        self._writer = ChainWriter(store, trusted=trusted)
        self.budget = budget.composed_like(self._history.opening.get("budget", {}).get("noise"))
        self._begin(anchor, identity, accept_rollback, created)
        self.checkpoint()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        identity: Payload,
        budget: Budget,
        anchor: str | os.PathLike[str] | None = None,
        accept_rollback: bool = False,
        noise: str | None = None,
    ) -> Ledger:
        """Create or resume the ledger at `path`.

        Args:
            path: The ledger's file; only its owner can read a new one.
            identity: Public facts of the table; `table.identity` of a `Table`.
            budget: The whole budget; it must be the one of the first opening, which may have decided its `noise`.
            anchor: The anchor's file, by default `<path>.anchor`. On another volume it detects a restored backup.
            accept_rollback: Continue although the anchor records more events than the ledger holds.
            noise: The `noise` of a budget that leaves it out, if the ledger is new; whoever creates it decides.

        Returns:
            The ledger, locked for this process until `close`.

        Raises:
            LedgerError: The file is not a ledger, belongs to another table or budget, was edited or rolled back, or is
                in use.

        Example:
            >>> import tempfile
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with rt.Ledger.open(f"{folder}/l", identity=table.identity, budget=rt.Budget(rho=1)) as ledger:
            ...         ledger.spent
            0
        """
        cls._check(identity, budget)
        file, marks = places(path, anchor)
        with ExitStack() as undo, io_errors(file):
            lock = open_locked(lock_of(file), create=True)
            free = undo.enter_context(ExitStack())
            free.callback(os.close, lock)
            new = not stored_anything(file)
            if not file.exists() and not accept_rollback and (mark := newest(marks)[1]) and mark.sequence:
                raise LedgerError(f"{file} is missing but its anchor {marks} is there: restore the ledger's file")
            if not new and not marks.exists() and (beside := places(file, None)[1]).exists():
                raise LedgerError(
                    f"anchor {marks} is missing, but there is one at {beside}: move that file there,"
                    " or leave anchor= out"
                )
            held = Anchor(marks, create=new or accept_rollback)
            undo.callback(held.close)
            if new and not accept_rollback and held.mark and held.mark.sequence:
                raise LedgerError(
                    f"{file}: it has 0 events, its anchor saw {held.mark.sequence}: a file copied without its -wal"
                    " looks like this; restore the newest whole file, or accept the loss with ledger accept-rollback"
                )
            if new:
                cls._create(file, held, identity, budget.composed_like(noise))
            free.pop_all()  # from here on the lock is the store's
            store = undo.enter_context(closing(SqliteStore(file, lock=lock)))
            ledger = cls(store, held, identity=identity, budget=budget, accept_rollback=accept_rollback, created=new)
            undo.pop_all()
        return ledger

    @classmethod
    def _create(cls, file: Path, anchor: Anchor, identity: Payload, budget: Budget) -> None:
        """Create the anchor before the first event, so that a missing anchor is always an error."""
        name = secrets.token_hex(16) if anchor.mark is None else anchor.mark.ledger
        if anchor.mark is None:
            anchor.write(Mark(name, 0, GENESIS, 0))
        create(file, _first(name, identity, budget))

    @classmethod
    def memory(cls, budget: Budget, identity: Payload | None = None) -> Ledger:
        """Create a ledger without a file, for a release that shares its budget with nothing else.

        Args:
            budget: The whole budget.
            identity: Public facts of the table; `table.identity` of a `Table`.

        Returns:
            The ledger.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).remaining
            1000000000
        """
        cls._check(identity or {}, budget)
        return cls(MemoryStore(), None, identity=identity or {}, budget=budget)

    @staticmethod
    def _check(identity: object, budget: object) -> None:
        """Check the arguments before a file is created, because they bind every later opening."""
        require(identity, dict, "identity", "table.identity")
        canonical(identity)
        if not isinstance(getattr(budget, "limit", None), int):
            raise QueryError(f"budget is of type {type(budget).__name__}; give rt.Budget(epsilon=1, delta=1e-9)")

    def _begin(self, anchor: Anchor | None, identity: Payload, accept_rollback: bool, created: bool) -> None:
        if self._history.sequence == 0:
            self._writer.begin(_first(secrets.token_hex(16), identity, self.budget))
        history, mark = self._history, None if anchor is None else anchor.mark
        if (written := history.opening["format"]) < FORMAT:
            raise LedgerError(
                f"ledger format {written} < {FORMAT}: its answers would be misread; `reticent ledger show` and `verify`"
                " take it, spend on with the version that wrote it"
            )
        problem = None if anchor is None else breach(history, self._writer.store, mark)
        if problem is not None and not accept_rollback:
            raise LedgerError(problem)
        # Only a mark ahead of the file bounds the loss; otherwise the whole remaining budget counts as spent.
        seen = mark.spent if mark is not None and (created or mark.sequence > history.sequence) else None
        self.require(identity)
        if problem is not None:
            charge = max((history.limit if seen is None else seen) - history.spent, 0)
            self._writer.append("rollback", {"head": mark and mark.head}, cost=charge)
        # No mark has been overwritten yet: after a crash during recovery, the old mark starts it again.
        self._writer.attach(anchor)
        for reservation in history.pending():
            if not reservation.redeemable or reservation.status == "redeemed":
                self._advance("forfeit", reservation)

    @property
    def _history(self) -> History:
        return self._writer.history

    @property
    def name(self) -> str:
        """The ledger's random name, chosen when it was created; it identifies what this ledger paid for."""
        return self._history.opening["ledger"]

    def require(self, identity: Payload) -> None:
        """Check that this ledger belongs to a table and to the current budget.

        Args:
            identity: Public facts of the table; `table.identity` of a `Table`.

        Raises:
            LedgerError: It was created for another table or budget; the message names the first difference.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1), {"table": "people"}).require({"table": "people"})
        """
        opening = self._history.opening
        was = opening["identity"] | {f"budget's {name}": term for name, term in opening["budget"].items()}
        terms = {f"budget's {name}": term for name, term in _terms(self.budget).items()}
        now = json.loads(canonical(identity | terms))
        for name in sorted({*was, *now}, key=lambda name: (name in ("budget's limit", "grid"), name)):  # others decide
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
    def delta(self) -> Fraction:
        """The exact sum of the failure probabilities of all mechanisms so far."""
        return Fraction(self._history.delta)

    @property
    def remaining(self) -> int:
        return self._history.remaining()

    def remaining_for(self, analyst: str | None) -> int:
        """Nano-units that one analyst can still spend under the cap and the budget.

        Args:
            analyst: The name; None for spending without an analyst.

        Returns:
            The amount.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).remaining_for("ann")
            1000000000
        """
        return self._history.remaining(analyst)

    def spent_by(self, analyst: str) -> int:
        """Nano-units that one analyst has spent.

        Args:
            analyst: The name.

        Returns:
            The amount; 0 for a name that has not paid.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).spent_by("ann")
            0
        """
        return self._history.spent_by.get(analyst, 0)

    @property
    def identity(self) -> Payload:
        """The public facts of the ledger's table."""
        return self._history.opening["identity"]

    def keys(self, prefix: str, kind: str | None = None) -> list[str]:
        """All reserved keys that begin with a prefix, oldest first.

        Args:
            prefix: First characters of the keys; empty for all.
            kind: Kind of request, such as "measure"; None for every kind.

        Returns:
            The keys.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> charge = ledger.reserve("ask:1", "measure", 10, {"query": "count"})
            >>> ledger.keys("ask:")
            ['ask:1']
        """
        with self._writer.mutex:
            return [old.key for old in self._history.reservations.starting(prefix) if kind in (None, old.kind)]

    def successor(self, key: str) -> tuple[str, int]:
        """The key to use next: this key, or the first of `key:1`, `key:2`, ... that is not forfeited.

        Args:
            key: Key of the request.

        Returns:
            The key, and the nano-units charged for forfeited keys.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).successor("ask:1")
            ('ask:1', 0)
        """
        return self._history.reservations.successor(key)

    def requested(self, key: str) -> Payload | None:
        """The request for which a key was reserved.

        Args:
            key: Key of the request.

        Returns:
            Its description; None if the key was never reserved.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> charge = ledger.reserve("ask:1", "measure", 10, {"query": "count"})
            >>> ledger.requested("ask:1")
            {'query': 'count'}
        """
        with self._writer.using():
            old = self._history.reservations.get(key)
            return None if old is None else self._writer.event(old.sequence).payload["request"]

    def charged(self, key: str) -> int:
        """Nano-units reserved under a key and the keys of its parts (`key:part`), settled or not.

        Args:
            key: Key of the request.

        Returns:
            The sum.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> charge = ledger.reserve("ask:1", "measure", 10, {"query": "count"})
            >>> ledger.charged("ask")
            10
        """
        with self._writer.mutex:
            own = self._history.reservations.get(key)
            parts = self._history.reservations.starting(f"{key}:")
        return sum(part.cost for part in parts) + (0 if own is None else own.cost)

    def reservation(self, key: str) -> Reservation | None:
        """The reservation of one key with its current state.

        Args:
            key: Key of the request.

        Returns:
            The reservation; None if the key was never reserved.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).reservation("ask:1") is None
            True
        """
        return self._history.reservations.get(key)

    def reservations(self, kind: str) -> list[Reservation]:
        """All reservations of one kind, oldest first.

        Args:
            kind: Kind of request, such as "measure".

        Returns:
            The reservations, settled or not.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> charge = ledger.reserve("ask:1", "measure", 10, {"query": "count"})
            >>> [one.cost for one in ledger.reservations("measure")]
            [10]
        """
        with self._writer.mutex:
            return self._history.reservations.of_kind(kind)

    def settlements(self, kind: str, prefix: str, after: int = 0) -> list[Reservation]:
        """Settled reservations of one kind, in the order of their settlements.

        Args:
            kind: Kind of request, such as "measure".
            prefix: First characters of their keys.
            after: Sequence of an event; only settlements after it are listed.

        Returns:
            The reservations.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).settlements("measure", "ask:")
            []
        """
        with self._writer.mutex:
            return self._history.reservations.settled(kind, prefix, after)

    def settlement_places(self, kind: str, prefix: str, after: int = 0) -> np.ndarray:
        """Sequence numbers of the same settlements, without reading the reservations.

        Args:
            kind: Kind of request, such as "measure".
            prefix: First characters of their keys.
            after: Sequence of an event; only settlements after it are listed.

        Returns:
            The sequences, ascending.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).settlement_places("measure", "ask:").tolist()
            []
        """
        with self._writer.mutex:
            return self._history.reservations.settlements(kind, prefix, after)

    def noted(self, kind: str, after: int = 0) -> list[int]:
        """Sequence numbers of the free events of one kind.

        Args:
            kind: The kind that `append` was given.
            after: Sequence of an event; only those after it are listed.

        Returns:
            The sequences, ascending.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> event = ledger.append("note", {"text": "opened"})
            >>> ledger.noted("note") == [event.sequence]
            True
        """
        with self._writer.mutex:
            return self._history.noted(kind, after)

    def newest(self, kind: str) -> int | None:
        """Sequence of the last free event of one kind.

        Args:
            kind: The kind that `append` was given.

        Returns:
            The sequence; None if there is no such event.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).newest("note") is None
            True
        """
        return self._history.newest(kind)

    def named(self, kind: str, key: str) -> int | None:
        """Sequence of the newest free event of one kind whose payload names a key.

        Args:
            kind: The kind that `append` was given.
            key: The payload's "key".

        Returns:
            The sequence; None if there is no such event.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).named("note", "ask:1") is None
            True
        """
        return self._history.named.get(f"{kind}:{key}")

    def event(self, sequence: int) -> Event:
        """One event of the chain.

        Args:
            sequence: Its number; the first event is 1.

        Returns:
            The event, checked against its hash.

        Raises:
            LedgerError: The file was edited, or the ledger is closed.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).event(1).kind
            'open'
        """
        with self._writer.using():
            return self._writer.event(sequence)

    @property
    def caps(self) -> dict[str, int]:
        return self._history.caps.copy()

    def set_cap(self, analyst: str, cap: int) -> Event:
        """Limit the total that one analyst may spend. Past spending is not affected.

        Args:
            analyst: The name.
            cap: Nano-units, at most the whole budget.

        Returns:
            The event that records the cap.

        Raises:
            LedgerError: The cap is negative, not whole, or above the budget.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> event = ledger.set_cap("ann", 1000)
            >>> ledger.remaining_for("ann")
            1000
        """
        _require_text("analyst", analyst)
        if _amount("cap", cap) > self._history.limit:
            raise EntryError(f"cap {cap} is above the limit {self._history.limit}: choose a lower one")
        with self._writer.using():
            return self._writer.append("cap", {"cap": cap}, analyst=analyst)

    def settled(self, key: str, kind: str, request: Payload) -> Event | None:
        """The settled event of a key, for the same request only.

        Args:
            key: Key of the request.
            kind: Kind of the request.
            request: Its description.

        Returns:
            The event that holds the result; None if the key is new or still pending.

        Raises:
            LedgerError: The key belongs to another request, or two crashes forfeited it.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).settled("ask:1", "measure", {"query": "count"}) is None
            True
        """
        with self._writer.using():
            reservation = self._history.reservations.get(key)
            if reservation is None:
                return None
            if self._request_of(reservation) != _digest(kind, request):
                raise KeyReusedError(f"key {_short(key)} belongs to another request: use a new key")
            if reservation.status == "forfeited":
                raise KeyForfeitedError(f"key {_short(key)} is forfeited and stays charged: use a new key")
            return None if reservation.pending else self._writer.event(reservation.settled)

    def _request_of(self, reservation: Reservation) -> str:
        """Digest of the request of a key."""
        return reservation.digest or self._writer.event(reservation.sequence).payload["digest"]

    def affordable(
        self, cost: int, *, key: str | None = None, analyst: str | None = None, delta: Fraction = NO_DELTA
    ) -> None:
        """Check that the budget and the analyst's cap can pay. A key that was reserved before has already paid.

        Invalid names are refused here too, so that a request that passes this check can be reserved.

        Args:
            cost: Nano-units.
            key: Key of the request; None for a random key that `reserve` will create.
            analyst: The analyst who pays; None for spending without an analyst.
            delta: Probability with which the mechanism may fail.

        Raises:
            BudgetError: The remaining budget is too small; the error carries both amounts.
            LedgerError: The cost is negative or not a whole number, or a name is invalid.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).affordable(10**9)
        """
        _amount("cost", cost)
        if key is not None:
            _require_text("key", key)
        if analyst is not None:
            _require_text("analyst", analyst)
        with self._writer.using():
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
            if delta > (room := self._history.delta_left):
                raise BudgetError(
                    f"this may fail with delta {float(delta):.3g} and the budget sets {float(room):.3g} aside for that:"
                    " open a ledger with more",
                    requested=float(delta),
                    remaining=float(room),
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
        delta: Fraction = NO_DELTA,
    ) -> Reservation:
        """Record a charge on disk before any noise is drawn; or return, once, the charge of this key before a crash.

        The caller settles the reservation before it returns a result, or abandons it. Call `settled` first: a settled
        key raises an error.

        Args:
            key: Key of the request; None creates a random key.
            kind: Kind of the request, such as "measure".
            cost: Nano-units.
            request: Its description; a key belongs to one request.
            analyst: The analyst who pays; None for spending without an analyst.
            redeemable: Whether the same key may redeem the reservation after a crash before its settlement.
            delta: Probability with which the mechanism may fail.

        Returns:
            The reservation, held by the caller until `settle` or `abandon`.

        Raises:
            BudgetError: The budget or the analyst's cap cannot pay.
            LedgerError: The key is settled, held by another call, forfeited, or belongs to another request.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> charge = ledger.reserve("ask:1", "measure", 10, {"query": "count"})
            >>> ledger.spent
            10
        """
        _require_text("kind", kind)
        key = f"auto-{secrets.token_hex(16)}" if key is None else _require_text("key", key)
        self.checkpoint()  # before anything is charged: where it cannot be written, nothing else can
        with self._writer.using():
            if self.settled(key, kind, request) is not None:
                raise LedgerError(f"key {_short(key)} was answered already: read it with settled()")
            self.affordable(cost, key=key, analyst=analyst, delta=delta)
            old = self._history.reservations.get(key)
            if old is not None:
                self._redeem(old, cost, analyst)
            else:
                facts = {"kind": kind, "digest": _digest(kind, request), "redeemable": redeemable}
                facts |= {"delta": str(delta)} if delta else {}
                self._writer.append("reserve", {**facts, "request": request}, key=key, analyst=analyst, cost=cost)
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
        """Record the single result of a reservation; only the content of the returned event and its blobs may be
        returned.

        If this method raises an error, nothing may be returned: whether the result reached the disk is known only after
        reopening.

        Args:
            reservation: The result of `reserve`.
            result: The released values, as plain JSON.
            blobs: Bytes that the result names by their hashes.

        Returns:
            The event that holds the result.

        Raises:
            LedgerError: The reservation is not held, or the write failed.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> charge = ledger.reserve("ask:1", "measure", 10, {"query": "count"})
            >>> ledger.settle(charge, {"values": [7]}).kind
            'settle'
        """
        with self._writer.using():
            if reservation.key not in self._held:
                raise LedgerError(f"key {_short(reservation.key)} is not held: reserve first, settle once")
            event = self._advance("settle", self._history.reservations[reservation.key], result, blobs)
            self._held.discard(reservation.key)
            return event

    def abandon(self, reservation: Reservation) -> None:
        """Give up a reservation whose sampling failed. The charge stands; the key may be redeemed as after a crash.

        Args:
            reservation: The result of `reserve`.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> ledger.abandon(ledger.reserve("ask:1", "measure", 10, {"query": "count"}))
            >>> ledger.spent
            10
        """
        with self._writer.mutex:
            self._held.discard(reservation.key)

    def lookup(self, key: str) -> Event | Reservation | None:
        """The state of a key. A pending reservation returned here does not permit sampling.

        Args:
            key: Key of the request.

        Returns:
            The event that settled it, or its pending or forfeited reservation, or None for a new key.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).lookup("ask:1") is None
            True
        """
        with self._writer.using():
            reservation = self._history.reservations.get(key)
            settled = reservation.settled if reservation else 0
            return self._writer.event(settled) if settled else reservation

    def append(self, kind: str, payload: Payload, *, blobs: Iterable[bytes] = (), discard: Iterable[str] = ()) -> Event:
        """Record a free public event: a snapshot, a certificate, a note.

        Args:
            kind: Name of the kind; the ledger's own kinds are refused.
            payload: Plain JSON.
            blobs: Bytes that the payload names by their hashes.
            discard: Hashes of blobs that this event replaces.

        Returns:
            The event.

        Raises:
            LedgerError: The kind is the ledger's own, or the write failed.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).append("note", {"text": "opened"}).kind
            'note'
        """
        if _require_text("kind", kind) in TRUSTED_KINDS:
            raise LedgerError(f"event kind {kind} is the ledger's own: choose another name")
        with self._writer.using():
            event = self._writer.append(kind, payload, blobs)
            self._writer.discard(discard)
            return event

    def put_blob(self, data: bytes) -> str:
        """Store public bytes under their hash; an event that names the hash binds them to the chain.

        Args:
            data: The bytes.

        Returns:
            The hash.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> ledger.get_blob(ledger.put_blob(b"public"))
            b'public'
        """
        return self._writer.put_blob(data)

    def get_blob(self, digest: str) -> bytes:
        """The bytes stored under a hash.

        Args:
            digest: The hash returned by `put_blob`.

        Returns:
            The bytes, checked against the hash.

        Raises:
            LedgerError: The bytes are missing or damaged.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> ledger.get_blob(ledger.put_blob(b"public"))
            b'public'
        """
        with self._writer.using():
            data = self._writer.store.blob(digest)
        if data is None or sha256(data) != digest:
            raise LedgerError(f"blob {_short(digest)} is missing or damaged: restore the ledger's file")
        return data

    def events(self, after: int = 0) -> Iterator[Event]:
        """All events after a given one, read from the store in pieces.

        Args:
            after: Sequence of an event; 0 for all events.

        Returns:
            An iterator over events, each checked against its hash.

        Raises:
            LedgerError: The file was edited.

        Example:
            >>> import reticent as rt
            >>> [event.kind for event in rt.Ledger.memory(rt.Budget(rho=1)).events()]
            ['open']
        """
        with self._writer.using():
            upto = self._history.sequence
        return self._writer.read(after, upto)

    def verify(self) -> None:
        """Check that a replay of the stored chain gives exactly the live state; payments may continue meanwhile.

        Raises:
            LedgerError: The replay differs.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).verify()
        """
        with self._writer.using():
            live = self._history.copy()
        if History.replay(self._writer.read(0, live.sequence)) != live:
            raise LedgerError("the stored ledger is not the running one: stop, and restore the file")

    def checkpoint(self) -> None:
        """Store the state after all events if there are enough new ones, so that the next opening reads only later
        events.

        Example:
            >>> import reticent as rt
            >>> rt.Ledger.memory(rt.Budget(rho=1)).checkpoint()
        """
        self._writer.checkpoint()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._writer.closed

    def close(self, told: str = "the ledger is closed: open it again") -> None:
        """Close the file and release its lock; pending reservations stay charged.

        Args:
            told: The message of the errors that later uses raise.

        Example:
            >>> import reticent as rt
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1))
            >>> ledger.close()
            >>> ledger.closed
            True
        """
        self._writer.close(told)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._history.sequence} events, {self.spent} of {self._history.limit} nano spent)"

    def _advance(
        self, kind: str, held: Reservation, payload: Payload | None = None, blobs: Iterable[bytes] = ()
    ) -> Event:
        return self._writer.append(kind, payload or {}, blobs, key=held.key, analyst=held.analyst, cost=held.cost)


def _first(name: str, identity: Payload, budget: Budget) -> Event:
    return first_event({"format": FORMAT, "ledger": name, "identity": identity, "budget": _terms(budget)})


def _terms(budget: Budget) -> Payload:
    """What every opening must have in common. Only exact composition is named; ledgers once knew no other than zCDP."""
    terms = {name: text for name, text in budget.to_dict().items() if name != "noise" or budget.gaussian}
    return {**terms, "limit": budget.limit, "unit": budget.unit}


def _anchored(store: LedgerStore, mark: Mark | None) -> int:
    """The last event that the anchor confirms; 0 if it confirms none of this file."""
    if mark is None or not (rows := store.rows(mark.sequence - 1, mark.sequence)):
        return 0
    return mark.sequence if rows[0][2] == mark.head else 0


def _digest(kind: str, request: Payload) -> str:
    return sha256(canonical({"kind": kind, "request": request}).encode())


def _amount(name: str, value: int) -> int:
    if not has_type(value, int) or has_type(value, bool) or value < 0:
        raise EntryError(f"{name} {value!r} is not a whole number of nano-units from 0: round prices up")
    return value


def _require_text(name: str, value: str) -> str:
    if not has_type(value, str) or not 0 < len(value) <= 200:
        raise EntryError(f"{name} must be a text of 1 to 200 characters")
    return value


def _short(value: object) -> str:
    text = canonical(value)
    return text if len(text) <= 60 else text[:57] + "..."
