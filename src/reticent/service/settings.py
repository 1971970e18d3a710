"""Settings of a server: tables, budgets and limits, from a TOML file or the command line.

All limits on what clients may send and get are defined here; `Settings` holds those that an operator may change.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from reticent.errors import QueryError, ReticentError
from reticent.kernel.accounting import Budget
from reticent.losses.losses import read_losses
from reticent.planning.smooth import stated_support

WARM_SHARE = 0.5
"""Of the budget, for the warm start of a served table."""
IDLE_SECONDS = 75
"""Idle connections stay open longer here than at clients and proxies, so that those close first."""
WRITER_IDLE_SECONDS = 120
"""The same between readers and writer."""


@dataclass(frozen=True)
class TableSettings:
    """One table: its rows, its public facts, and its ledger."""

    name: str
    table: str
    domain: str
    ledger: str
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    title: str = ""
    anchor: str | None = None
    query: str | None = None
    person: str | None = None
    most: int | None = None
    """With `person`: every row has weight one, with at most this many rows of each person."""
    records: int | None = None
    neighbours: str = "replace-one"
    version: str | None = None
    warm_start: float | None = None
    """Half of the budget, unless another share, a purpose or a useful bound is stated."""
    purpose: str | None = None
    """"unlimited" or "few": how the first opening uses the budget, instead of a stated share."""
    useful: float | None = None
    """The largest predicted bound at which the warm start is bought, instead of a stated share."""
    engine: str = "default"
    queries: int | None = None
    losses: str | None = None
    """For the convex engines: a file with examples of the losses to come."""
    error: float | None = None
    """For the convex engines: the excess risk of their models; by default the smallest that they can certify."""
    support: int | None = None
    smoothness: float | None = None
    gamma: float | None = None
    distance: float | None = None
    confidence: float = 0.95
    numbers: bool = False
    """Whether to store the position of each number within its bin, so that AVG and SUM of the rows' own numbers can be
    sold."""
    accept_misfits: bool = False
    synthetic_rows: bool = False
    """Whether `SELECT *` in SQL shows synthetic rows instead of being refused."""

    def __post_init__(self) -> None:
        if not re.fullmatch(TABLE_NAME, self.name):
            raise QueryError(f"table name {self.name!r} must be letters, digits, '_' and '-', at most 64")
        self.budget  # noqa: B018  refused now rather than after the rows were read
        self.opening  # noqa: B018

    @property
    def budget(self) -> Budget:
        if self.epsilon is None and self.rho is None:
            raise QueryError(f"table {self.name}: state a budget: epsilon and delta, epsilon (pure), or rho")
        return Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    @property
    def opening(self) -> dict[str, Any]:
        """The arguments of `Session.open`."""
        sampled = stated_support(self.support, self.smoothness, self.gamma, self.distance)
        decided = self.engine != "default" or self.purpose is not None or self.useful is not None
        share = WARM_SHARE if self.warm_start is None and not decided else self.warm_start
        opening = {"engine": self.engine, "warm_start": share, "queries": self.queries, "support": sampled}
        return opening | {
            "error": self.error,
            "purpose": self.purpose,
            "useful": self.useful,
            "losses": None if self.losses is None else read_losses(self.losses),
        }

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of `Table.read`."""
        names = ("query", "person", "most", "records", "neighbours", "version")
        given = {name: getattr(self, name) for name in names}
        rows: dict[str, Any] = {} if self.most is None else {"rows": "bounded"}
        rows |= {"numbers": True} if self.numbers else {}
        return rows | {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Settings:
    """One server; times in seconds, sizes in bytes and cells.

    `rate` and `burst` are requests per token and second, `wrong_tokens` refused tokens per address; 0 means no limit.
    """

    tables: tuple[TableSettings, ...]
    tokens: str
    host: str = "127.0.0.1"
    port: int = 8000
    readers: int = 0
    tick: float = 0.25
    rate: float = 50.0
    burst: float = 100.0
    wrong_tokens: float = 5.0
    body_limit: int = 65_536
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    work_cells: int = 2**22
    answer_cells: int = 20_000
    purchases: int = 64
    work_steps: int = 10_000_000
    waiting: int = 256
    waiting_each: int = 16
    log_level: str = "info"
    postgres: int | None = None
    """The PostgreSQL port; None for none."""
    postgres_connections: int = 100
    postgres_plaintext: bool = False
    """Allows other machines to connect without TLS, for a tunnel or proxy that encrypts."""
    tls_certificate: str | None = None
    tls_key: str | None = None

    def __post_init__(self) -> None:
        if not self.tables or len({table.name for table in self.tables}) < len(self.tables):
            raise QueryError("a server needs at least one table, each with its own name")
        if len({table.name.lower() for table in self.tables}) < len(self.tables):
            raise QueryError("two tables have names that differ only in case, which SQL ignores: rename one")
        if len({Path(table.ledger).absolute() for table in self.tables}) < len(self.tables):
            raise QueryError("two tables name the same ledger: one table has one ledger")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise QueryError("TLS needs both a certificate and a key")
        if not 0 <= self.tick <= LONGEST_TICK:
            raise QueryError(f"tick {self.tick!r} must lie between 0 and {LONGEST_TICK:g} seconds")
        if self.postgres is not None:
            self._check_postgres()
        if not 0 <= self.readers <= 64:
            raise QueryError(f"readers {self.readers} must lie between 0 and 64")
        if self.readers and any(table.engine != "default" for table in self.tables):
            raise QueryError("readers answer from certificates, threshold engines test each question: set readers to 0")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise QueryError(f"log level {self.log_level!r}: use debug, info, warning or error")

    def _check_postgres(self) -> None:
        if not 1 <= self.postgres_connections <= 10_000:
            raise QueryError(f"postgres_connections {self.postgres_connections} must lie between 1 and 10000")
        local = self.host in ("localhost", "127.0.0.1", "::1")
        if not local and self.tls_certificate is None and not self.postgres_plaintext:
            raise QueryError(
                f"the PostgreSQL port on {self.host} needs TLS: state tls_certificate and tls_key, listen on 127.0.0.1,"
                " or set postgres_plaintext where a tunnel encrypts"
            )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Settings:
        rest = {name: value for name, value in content.items() if name != "tables"}
        return cls(tables=tuple(TableSettings(**entry) for entry in content["tables"]), **rest)


@dataclass(frozen=True)
class _File:
    """The shape of the TOML file: [server] and one [tables.NAME] per table."""

    server: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read_settings(path: str | Path, **overrides: Any) -> Settings:
    """A server from its TOML file; paths in it are relative to the file."""
    path = Path(path)
    try:
        if path.is_char_device():
            raise QueryError("a device, not a file; give the name of a file")
        content = _File(**tomllib.loads(path.read_text(encoding="utf-8")))
        tables = tuple(_table(name, entry, path.parent) for name, entry in content.tables.items())
        server = {**content.server, **overrides}
        if "guesses" in server:  # its name in version 0.1
            server["wrong_tokens"] = server.pop("guesses")
        _only(server, Settings, "server")
        for name in ("tokens", "tls_certificate", "tls_key"):
            if name in server:
                server[name] = str(path.parent / server[name])
        server.setdefault("tokens", str(path.with_suffix(".tokens")))
        return Settings(tables=tables, **server)
    except OSError as error:
        raise QueryError(f"{path}: cannot be read ({error.strerror})") from None
    except ReticentError as error:
        raise QueryError(f"{path}: {error}") from None
    except (TypeError, ValueError, tomllib.TOMLDecodeError) as error:
        raise QueryError(f"{path}: {' '.join(str(error).split())}") from None


def _table(name: str, entry: Mapping[str, Any], folder: Path) -> TableSettings:
    _only(entry, TableSettings, f"tables.{name}")
    placed = {key: str(folder / entry[key]) for key in ("domain", "ledger", "anchor") if key in entry}
    source = entry.get("table", "")
    if "://" not in source:
        placed["table"] = str(folder / source)
    return TableSettings(**{"name": name, **entry, **placed})


def _only(entry: Mapping[str, Any], kind: type, where: str) -> None:
    known = {item.name for item in fields(kind)}
    for name in entry:
        if name not in known:
            raise QueryError(f"[{where}] has no setting {name!r}; known: {', '.join(sorted(known))}")


SQL_LENGTH = 20_000
"""Characters of a statement."""
MOST_LOSSES = 1000
"""In one batch."""
PUBLISHED_ROWS = 1_000_000
"""Synthetic rows of one published release."""
LONGEST_TITLE = 200
LONGEST_ERROR = 40
"""Characters of a wanted error that is a percentage."""
LONGEST_PAGE = 200
"""Entries of the history at once."""
LONGEST_TOKEN_DAYS = 3650
MOST_TOKEN_TABLES = 100
HEAD_LIMIT = 32_768
"""Bytes of a head that may arrive in pieces; the socket's buffer limits what arrives at once."""
LARGEST_NUMBER = 2**53
"""Of events and answers; beyond it JSON's numbers are not exact."""
LONGEST_TICK = 60.0
"""Seconds."""
TABLE_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
RELEASE_NAME = r"r[0-9]{4,8}"
PERSON_NAME = r"[a-z0-9][a-z0-9._-]{0,39}"
KEY = r"[A-Za-z0-9._~-]{1,64}"
LONGEST_DETAIL = 500
"""Characters of a problem's detail, so that long client input is not sent back."""
