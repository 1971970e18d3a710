"""Durability bugs as somebody might write them, each planted by replacing the one function that would hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

from reticent.errors import KeyBusyError
from reticent.kernel.ledger import anchor, ledger, store
from reticent.kernel.ledger.anchor import SLOT, Anchor, Mark
from reticent.kernel.ledger.chain import NOBODY, ChainWriter
from reticent.kernel.ledger.events import TRANSITIONS, Event, History, canonical, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.store import SqliteStore


def patched(*changes: tuple[Any, str, Any]) -> AbstractContextManager[None]:
    stack = ExitStack()
    for owner, name, value in changes:
        stack.enter_context(patch.object(owner, name, value))
    return stack  # type: ignore[return-value]


def with_pragma(text: str) -> AbstractContextManager[None]:
    prepare = SqliteStore._prepare

    def prepared(self: SqliteStore, path: Any) -> None:
        prepare(self, path)
        self._connection.execute(text)

    return patched((SqliteStore, "_prepare", prepared))


def sync_skipped() -> AbstractContextManager[None]:
    """Commits are left to the system."""
    return with_pragma("PRAGMA synchronous=OFF")


def sync_normal() -> AbstractContextManager[None]:
    """As most guides advise for WAL: a commit is not flushed, only a checkpoint is."""
    return with_pragma("PRAGMA synchronous=NORMAL")


def mark_not_flushed() -> AbstractContextManager[None]:
    return patched((anchor, "_flush", lambda descriptor: None))


def names_not_flushed() -> AbstractContextManager[None]:
    """Files are flushed, the directories that name them are not."""
    nothing = lambda path: None  # noqa: E731
    return patched((store, "flush_directory", nothing), (anchor, "flush_directory", nothing))


def leftovers_not_flushed() -> AbstractContextManager[None]:
    """What a killed process wrote is answered from as it is found (our own bug until the simulation showed it)."""
    return patched((store, "flush_leftovers", lambda path: None))


def anchor_name_not_flushed() -> AbstractContextManager[None]:
    """An anchor that is there already is taken to be durable (our own bug until the simulation showed it)."""
    made = Anchor.__init__

    def opened(self: Anchor, path: Any, *, create: bool) -> None:
        made(self, path, create=create and not path.exists())

    return patched((Anchor, "__init__", opened))


def settle_before_charge() -> AbstractContextManager[None]:
    """Charge and result are written down when the next request comes: the answer need not wait for the disk."""
    append = ChainWriter.append

    def late(self: ChainWriter, kind: str, payload: Any, blobs: Iterable[bytes] = (), **fields: Any) -> Event:
        waiting = self.__dict__.setdefault("waiting", [])
        if kind not in ("reserve", "settle"):
            flush(self, waiting)
            return append(self, kind, payload, blobs, **fields)
        if kind == "reserve":
            flush(self, waiting)
        link = {"sequence": self.history.sequence + 1, "previous": self.history.head, "at": 0}
        event = Event.build(kind=kind, payload=payload, **link, **(NOBODY | fields))
        self._chain.apply(event)
        waiting.append((event, {sha256(data): data for data in blobs}))
        return event

    def flush(self: ChainWriter, waiting: list[tuple[Event, Mapping[str, bytes]]]) -> None:
        due, waiting[:] = list(waiting), []
        with store.io_errors("the ledger"), self._writing():
            for event, blobs in due:
                self.store.append(event, blobs)
            if due:
                self._write_mark()

    def after_flush(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: Ledger, *arguments: Any, **options: Any) -> Any:
            flush(self._writer, self._writer.__dict__.setdefault("waiting", []))
            return function(self, *arguments, **options)

        return called

    reading = ("settled", "lookup", "get_blob", "events", "verify", "checkpoint", "close")
    changes = [(Ledger, name, after_flush(getattr(Ledger, name))) for name in reading]
    return patched((ChainWriter, "append", late), *changes)


def anchor_late() -> AbstractContextManager[None]:
    """The mark of an event is written with the next one."""

    def write(self: ChainWriter) -> None:
        history = self.history
        mark = Mark(history.opening["ledger"], history.sequence, history.head, history.spent)
        held, self.__dict__["late"] = self.__dict__.get("late"), mark
        if self._anchor is not None and held is not None:
            self._anchor.write(held)

    return patched((ChainWriter, "_write_mark", write))


def anchor_early() -> AbstractContextManager[None]:
    """The mark is written before the event it marks."""

    def append(self: ChainWriter, kind: str, payload: Any, blobs: Iterable[bytes] = (), **fields: Any) -> Event:
        link = {"sequence": self.history.sequence + 1, "previous": self.history.head, "at": 0}
        event = Event.build(kind=kind, payload=payload, **link, **(NOBODY | fields))
        with self._writing():
            self._chain.apply(event)
            self._write_mark()
            self.store.append(event, {sha256(data): data for data in blobs})
        return event

    return patched((ChainWriter, "append", append))


def rollback_accepted() -> AbstractContextManager[None]:
    """A file is believed whatever its anchor says."""
    return patched((ledger, "breach", lambda *arguments, **options: None))


def double_settle() -> AbstractContextManager[None]:
    """A key that comes back after a restart is sampled again, although it was answered."""
    settled = Ledger.settled

    def forgetful(self: Ledger, key: str, kind: str, request: Any) -> Event | None:
        found = settled(self, key, kind, request)
        return found if found is None or key in self.__dict__.setdefault("known", set()) else None

    def redeem(self: Ledger, old: Any, cost: int, analyst: str | None) -> None:
        if old.key in self._held:
            raise KeyBusyError("being answered")
        self._advance("redeem", old)

    def advance(self: History, event: Event) -> bool:
        old = self.reservations[str(event.key)]
        status = TRANSITIONS[event.kind]
        self.reservations[old.key] = old._replace(
            status=status, settled=event.sequence if status == "settled" else old.settled
        )
        return True

    return patched((Ledger, "settled", forgetful), (Ledger, "_redeem", redeem), (History, "_advance", advance))


def redeemed_for_ever() -> AbstractContextManager[None]:
    """A reservation that was redeemed may be redeemed again after the next crash."""

    def redeem(self: Ledger, old: Any, cost: int, analyst: str | None) -> None:
        if old.key in self._held:
            raise KeyBusyError("being answered")

    return patched((Ledger, "_redeem", redeem))


def torn_header() -> AbstractContextManager[None]:
    """The anchor has one slot, overwritten in place."""

    def write(self: Anchor, mark: Mark) -> None:
        generation = self._generation + 1
        body = canonical({"generation": generation, "mark": asdict(mark)})
        record = f"{sha256(body.encode())} {body}".encode().ljust(SLOT, b"\0")
        anchor.os.lseek(self._descriptor, 0, anchor.os.SEEK_SET)
        if anchor.os.write(self._descriptor, record) != SLOT:
            raise OSError("the anchor's disk is full")
        anchor._flush(self._descriptor)
        self._generation, self.mark = generation, mark

    return patched((Anchor, "write", write))


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "sync skipped": sync_skipped,
    "commits not flushed": sync_normal,
    "mark not flushed": mark_not_flushed,
    "names not flushed": names_not_flushed,
    "leftovers of a killed process not flushed": leftovers_not_flushed,
    "name of an old anchor not flushed": anchor_name_not_flushed,
    "settle before charge": settle_before_charge,
    "anchor late": anchor_late,
    "anchor early": anchor_early,
    "rollback accepted": rollback_accepted,
    "double settle": double_settle,
    "redeemed for ever": redeemed_for_ever,
    "torn header": torn_header,
}
