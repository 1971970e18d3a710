"""Tokens identify a user and a role; the token file keeps only hashes, and only its owner can read it.

It also keeps verifiers of tokens for SCRAM-SHA-256 (RFC 5802): salted keys from which no token can be computed.
"""

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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from reticent.errors import QueryError
from reticent.service.http.problems import HttpProblem
from reticent.service.settings import PERSON_NAME

Role = Literal["custodian", "analyst"]
_TOKEN = re.compile(r"rt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, digest BLOB NOT NULL, tables TEXT,
  created INTEGER NOT NULL, expires INTEGER, revoked INTEGER)
"""
_VERIFIERS = """
CREATE TABLE IF NOT EXISTS verifiers (
  id TEXT PRIMARY KEY, digest BLOB NOT NULL, salt BLOB NOT NULL, iterations INTEGER NOT NULL,
  stored_key BLOB NOT NULL, server_key BLOB NOT NULL)
"""
"""Beside the tokens: a file of version 0.1 has none, and gets them as its tokens are used."""
CHANGES = (4, 24)
"""Length and place of SQLite's file change counter: every commit adds one, and without a WAL it stands in the file."""
NEVER_READ = b""
NOBODY = ""
"""Its digest is the secret from which salts for unknown names are made: they stay the same, as real ones do."""
_COLUMNS = "id, name, role, digest, tables, created, expires, revoked"


@dataclass(frozen=True)
class Principal:
    """The holder of a token; `tables` None means all tables."""

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

    def may_manage(self, other: Principal) -> bool:
        """A custodian's token for some tables manages tokens for subsets of these tables only."""
        if self.role != "custodian":
            return False
        return self.tables is None or (other.tables is not None and set(other.tables) <= set(self.tables))

    def describe(self) -> dict[str, Any]:
        """All fields except the hash."""
        facts = {name: getattr(self, name) for name in ("id", "name", "role", "created", "expires", "revoked")}
        return facts | {"tables": None if self.tables is None else list(self.tables)}


class Tokens:
    """The token file; readers in other processes see a change with their next request."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            os.chmod(path, 0o600)
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._file.execute(_SCHEMA)
            self._file.execute(_VERIFIERS)
            unknown = (NOBODY, secrets.token_bytes(32), b"", 0, b"", b"")
            self._file.execute("INSERT OR IGNORE INTO verifiers VALUES (?, ?, ?, ?, ?, ?)", unknown)
        except FileNotFoundError:
            raise QueryError(
                f"{path}: the folder {Path(path).absolute().parent} does not exist; create it first"
            ) from None
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no file of tokens, or the disk is full"
            raise QueryError(
                f"{path}: the file of tokens cannot be used ({reason}); name another with tokens"
            ) from None
        self._bytes = os.open(path, os.O_RDONLY)
        self._version = NEVER_READ
        self._known: dict[str, Principal] = {}
        self._proved: dict[str, Principal] = {}
        """By token: whose it is by the file as it was read last."""
        self._verifiers: dict[str, tuple[bytes, Verifier]] = {}

    def find(self, token: str) -> Principal:
        """The holder of a token; the message is the same for all invalid tokens."""
        known = self._current()
        principal = self._proved.get(token)
        if principal is not None and principal.valid(self._clock()):
            return principal
        found = _TOKEN.fullmatch(token)
        principal = known.get(found.group(1)) if found else None
        digest = _digest(token)
        stored = principal.digest if principal is not None else bytes(32)
        if not hmac.compare_digest(digest, stored) or principal is None or not principal.valid(self._clock()):
            raise HttpProblem(
                "unauthorized", "the token is unknown, expired or revoked: ask the custodian for a new one"
            )
        if principal.id not in self._verifiers:
            self._learn(principal, token)
        self._proved[token] = principal
        return principal

    def verifier(self, name: str) -> tuple[Principal | None, Verifier]:
        """The current holder of this name and the verifier of the token; a mock verifier if there is none."""
        now = self._clock()
        for principal in self._current().values():
            if principal.name == name and principal.valid(now):
                digest, verifier = self._verifiers.get(principal.id, (b"", None))
                if verifier is not None and digest == principal.digest:
                    return principal, verifier
        return None, mock_verifier(self._verifiers[NOBODY][0], name)

    def still(self, principal: Principal) -> Principal:
        """The same holder according to the current file; refused if the token was revoked, rotated or has expired."""
        known = self._current().get(principal.id)
        if known is None or known.digest != principal.digest or not known.valid(self._clock()):
            raise HttpProblem("unauthorized", "the token was revoked, rotated or has expired: sign in with a new one")
        return known

    def create(
        self, name: str, role: str, *, expires: int | None = None, tables: Sequence[str] | None = None
    ) -> tuple[Principal, str]:
        """Create a token; its clear text is returned only here."""
        if not re.fullmatch(PERSON_NAME, name):
            raise HttpProblem("request", "a name has 1 to 40 lower-case letters, digits, '.', '_' or '-'")
        if role not in get_args(Role):
            raise HttpProblem("request", "a role is custodian or analyst")
        if any(p.name == name and p.valid(self._clock()) for p in self.all()):
            raise HttpProblem("conflict", f"{name} has a token: rotate it, or revoke it first")
        identity, text = _fresh()
        listed = None if tables is None else json.dumps(list(tables))
        row = (identity, name, role, _digest(text), listed, int(self._clock()), expires, None)
        self._write("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        created = self.get(identity)
        self._learn(created, text)
        return created, text

    def rotate(self, identity: str, *, expires: int | None = None) -> tuple[Principal, str]:
        """A new secret for the same holder; the old one becomes invalid at once."""
        old = self.get(identity)
        if old.revoked is not None:
            raise HttpProblem("conflict", f"the token of {old.name} was revoked: create a new one")
        ends = old.expires if expires is None else expires
        if ends is not None and ends <= self._clock():
            raise HttpProblem(
                "conflict", f"the token of {old.name} has expired: state for how many days the new one is valid"
            )
        fresh = _fresh(old.id)[1]
        self._write("UPDATE tokens SET digest = ?, expires = ? WHERE id = ?", (_digest(fresh), ends, old.id))
        rotated = self.get(identity)
        self._learn(rotated, fresh)
        return rotated, fresh

    def revoke(self, identity: str) -> Principal:
        """Revoke a token permanently; the last custodian of all tables cannot be revoked."""
        old, now = self.get(identity), self._clock()
        if old.valid(now) and self.custodians() == [old]:
            raise HttpProblem("conflict", "this is the last custodian of all tables: create another one first")
        self._write("UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", (int(now), old.id))
        return self.get(identity)

    def get(self, identity: str) -> Principal:
        principal = self._current().get(identity)
        if principal is None:
            raise HttpProblem("not-found", "no token has this id")
        return principal

    def all(self) -> list[Principal]:
        return sorted(self._current().values(), key=lambda p: (p.created, p.id))

    def custodians(self) -> list[Principal]:
        """Holders of valid custodian tokens for all tables."""
        now = self._clock()
        return [p for p in self.all() if p.role == "custodian" and p.tables is None and p.valid(now)]

    def close(self) -> None:
        self._file.close()
        # Not before: closing any descriptor of the file ends the locks that this process holds on it.
        os.close(self._bytes)

    def _learn(self, principal: Principal, token: str) -> None:
        """Store the verifier of a token that was sent; if the file cannot be written, the token is still accepted."""
        made = verifier_of(token)
        row = (principal.id, principal.digest, made.salt, made.iterations, made.stored_key, made.server_key)
        with suppress(HttpProblem):
            self._write("INSERT OR REPLACE INTO verifiers VALUES (?, ?, ?, ?, ?, ?)", row)

    def _write(self, statement: str, values: tuple) -> None:
        with self._lock:
            try:
                self._file.execute(statement, values)
            except sqlite3.Error:
                raise HttpProblem("storage", "the file of tokens cannot be written: nothing was changed") from None
            self._version = NEVER_READ

    def _current(self) -> dict[str, Principal]:
        """The content of the file; read again only after a change."""
        with self._lock:
            try:
                # Before the rows: those that are written meanwhile are read again next time.
                version = os.pread(self._bytes, *CHANGES)
                if version == self._version:
                    return self._known
                rows = self._file.execute(f"SELECT {_COLUMNS} FROM tokens").fetchall()
                verifying = self._file.execute("SELECT * FROM verifiers").fetchall()
            except (OSError, sqlite3.Error):
                raise HttpProblem("storage", "the file of tokens cannot be read") from None
            self._known = {row[0]: _principal(row) for row in rows}
            self._verifiers = {row[0]: (row[1], Verifier(*row[2:])) for row in verifying}
            self._proved = {}
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
    """A plain hash suffices for 256 random bits."""
    return hashlib.sha256(token.encode()).digest()


ITERATIONS = 4096
"""RFC 7677's least: the secret has 256 random bits, so more would only slow honest clients down."""
SALT_BYTES = 16


@dataclass(frozen=True)
class Verifier:
    """StoredKey and ServerKey of RFC 5802, section 3."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def verifier_of(token: str) -> Verifier:
    """A new verifier of this token; tokens are ASCII, so SASLprep does not change them."""
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", token.encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return Verifier(salt, ITERATIONS, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"))


def mock_verifier(secret: bytes, name: str) -> Verifier:
    """A verifier for a name without a token: a constant salt, as a real one has, and keys that match nothing."""
    salt = hmac.digest(secret, name.encode(), "sha256")[:SALT_BYTES]
    return Verifier(salt, ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))
