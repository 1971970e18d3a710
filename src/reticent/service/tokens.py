"""A token says who asks and in which role; the file keeps only its hash, and only its owner can read the file."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from reticent.service.problems import Problem

Role = Literal["custodian", "analyst"]
NAME = r"^[a-z0-9][a-z0-9._-]{0,39}$"
_TOKEN = re.compile(r"rt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, digest BLOB NOT NULL, tables TEXT,
  created INTEGER NOT NULL, expires INTEGER, revoked INTEGER)
"""
_COLUMNS = "id, name, role, digest, tables, created, expires, revoked"


@dataclass(frozen=True)
class Principal:
    """Whoever holds a token; `tables` None means all of them."""

    id: str
    name: str
    role: Role
    digest: bytes
    tables: tuple[str, ...] | None
    created: int
    expires: int | None
    revoked: int | None

    def valid(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)

    def may_see(self, table: str) -> bool:
        return self.tables is None or table in self.tables

    def describe(self) -> dict[str, Any]:
        """Everything but the hash."""
        facts = {name: getattr(self, name) for name in ("id", "name", "role", "created", "expires", "revoked")}
        return facts | {"tables": None if self.tables is None else list(self.tables)}


class Tokens:
    """The token file; readers in other processes see a change with their next request."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        os.chmod(path, 0o600)
        self._clock = clock
        self._lock = threading.Lock()
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.execute(_SCHEMA)
        self._version = -1
        self._known: dict[str, Principal] = {}

    def find(self, token: str) -> Principal:
        """Whose token this is; all that is wrong with one sounds alike."""
        found = _TOKEN.fullmatch(token)
        principal = self._current().get(found.group(1)) if found else None
        digest = _digest(token)
        known = principal.digest if principal is not None else bytes(32)
        if not hmac.compare_digest(digest, known) or principal is None or not principal.valid(self._clock()):
            raise Problem("unauthorized", "the token is unknown, expired or revoked: ask the custodian for a new one")
        return principal

    def create(
        self, name: str, role: str, *, expires: int | None = None, tables: Sequence[str] | None = None
    ) -> tuple[Principal, str]:
        """A new token, in clear for this once."""
        if not re.fullmatch(NAME, name):
            raise Problem("request", "a name has 1 to 40 lower-case letters, digits, '.', '_' or '-'")
        if role not in get_args(Role):
            raise Problem("request", "a role is custodian or analyst")
        if any(p.name == name and p.valid(self._clock()) for p in self.all()):
            raise Problem("conflict", f"{name} has a token: rotate it, or revoke it first")
        identity, text = _fresh()
        listed = None if tables is None else json.dumps(list(tables))
        row = (identity, name, role, _digest(text), listed, int(self._clock()), expires, None)
        self._write("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return self.get(identity), text

    def rotate(self, identity: str, *, expires: int | None = None) -> tuple[Principal, str]:
        """A new secret for the same person; the old one ends at once."""
        old = self.get(identity)
        if old.revoked is not None:
            raise Problem("conflict", f"the token of {old.name} was revoked: create a new one")
        fresh = _fresh(old.id)[1]
        ends = old.expires if expires is None else expires
        self._write("UPDATE tokens SET digest = ?, expires = ? WHERE id = ?", (_digest(fresh), ends, old.id))
        return self.get(identity), fresh

    def revoke(self, identity: str) -> Principal:
        """For ever; the last custodian stays."""
        old, now = self.get(identity), self._clock()
        others = [p for p in self.all() if p.role == "custodian" and p.id != old.id and p.valid(now)]
        if old.role == "custodian" and not others:
            raise Problem("conflict", "this is the last custodian: create another one first")
        self._write("UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", (int(now), old.id))
        return self.get(identity)

    def get(self, identity: str) -> Principal:
        principal = self._current().get(identity)
        if principal is None:
            raise Problem("not-found", "no token has this id")
        return principal

    def all(self) -> list[Principal]:
        return sorted(self._current().values(), key=lambda p: (p.created, p.id))

    def close(self) -> None:
        self._file.close()

    def _write(self, statement: str, values: tuple) -> None:
        with self._lock:
            self._file.execute(statement, values)
            self._version = -1

    def _current(self) -> dict[str, Principal]:
        """What the file says; read again only when some process has written."""
        with self._lock:
            version = self._file.execute("PRAGMA data_version").fetchone()[0]
            if version != self._version:
                rows = self._file.execute(f"SELECT {_COLUMNS} FROM tokens").fetchall()
                self._known = {row[0]: _principal(row) for row in rows}
                self._version = version
            return self._known


def _principal(row: tuple) -> Principal:
    identity, name, role, digest, tables, created, expires, revoked = row
    listed = None if tables is None else tuple(json.loads(tables))
    return Principal(identity, name, role, digest, listed, created, expires, revoked)


def _fresh(identity: str | None = None) -> tuple[str, str]:
    identity = identity or secrets.token_hex(6)
    return identity, f"rt_{identity}_{secrets.token_urlsafe(32)}"


def _digest(token: str) -> bytes:
    """256 random bits need no slow hash."""
    return hashlib.sha256(token.encode()).digest()
