"""The anchor of a ledger: a copy kept elsewhere of how far the ledger has come."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.events import canonical, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.store import companions


def test_a_forged_recovery_does_not_get_around_the_anchor(tmp_path: Path) -> None:
    """Whoever can write the file alone could end an old copy with a `rollback` that names the anchored head."""
    path, anchor, old = tmp_path / "l", tmp_path / "elsewhere", tmp_path / "old"
    terms = {"identity": {"name": "t"}, "budget": Budget(rho=1), "anchor": anchor}
    Ledger.open(path, **terms).close()
    shutil.copy(path, old)
    with Ledger.open(path, **terms) as ledger:
        for place in range(3):
            ledger.settle(ledger.reserve(f"k{place}", "measure", 300_000_000, {}), {"values": []})
    with sqlite3.connect(path) as newest:
        sequence, head = newest.execute("SELECT sequence, digest FROM events ORDER BY sequence DESC").fetchone()
    newest.close()
    shutil.copy(old, path)
    for left in (path.with_name("l-wal"), path.with_name("l-shm")):
        left.unlink(missing_ok=True)
    with sqlite3.connect(path) as forged:
        place, previous = forged.execute("SELECT sequence, digest FROM events ORDER BY sequence DESC").fetchone()
        while place <= sequence:
            place += 1
            kind, payload = ("note", {}) if place <= sequence else ("rollback", {"head": head})
            link = {"sequence": place, "previous": previous, "at": 0, "kind": kind, "payload": payload}
            body = canonical(link | {"key": None, "analyst": None, "cost": 0})
            previous = sha256(body.encode())
            forged.execute("INSERT INTO events VALUES (?, ?, ?)", (place, body, previous))
    forged.close()
    with pytest.raises(LedgerError, match="forgets charges"):
        Ledger.open(path, **terms)
    with Ledger.open(path, **terms, accept_rollback=True) as ledger:
        assert ledger.remaining == 0


def test_an_opening_flushes_what_a_killed_writer_may_have_left_unflushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is answered from it, or its other slot is overwritten: a loss of power could undo it later."""
    path, seen = tmp_path / "a.ledger", list[int]()
    Ledger.open(path, identity={}, budget=Budget(rho=1)).close()
    log = companions(path)[0]
    log.touch()
    flush = os.fsync

    def watched(descriptor: int) -> None:
        seen.append(os.fstat(descriptor).st_ino)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    wanted = {Path(f"{path}.anchor").stat().st_ino, log.stat().st_ino, tmp_path.stat().st_ino}
    with Ledger.open(path, identity={}, budget=Budget(rho=1)):
        assert wanted <= set(seen)
