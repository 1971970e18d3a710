"""Settings are all an operator decides: tables, budgets, limits; from a TOML file or the command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from reticent.errors import QueryError, ReticentError
from reticent.kernel.accounting import Budget

TABLE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


@dataclass(frozen=True)
class TableSettings:
    """One table: where its rows are, what is public about it, and its one ledger."""

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
    records: int | None = None
    neighbours: str = "replace-one"
    version: str | None = None
    warm_start: float = 0.5
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not re.fullmatch(TABLE_NAME, self.name):
            raise QueryError(f"table name {self.name!r} must be letters, digits, '_' and '-', at most 64")
        self.budget  # noqa: B018  refused now rather than after the rows were read

    @property
    def budget(self) -> Budget:
        if self.epsilon is None and self.rho is None:
            raise QueryError(f"table {self.name}: state a budget: epsilon and delta, epsilon (pure), or rho")
        return Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    @property
    def reading(self) -> dict[str, Any]:
        """How `Table.read` is to be called."""
        given = {name: getattr(self, name) for name in ("query", "person", "records", "neighbours", "version")}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Settings:
    """One server; times in seconds, sizes in bytes and cells.

    `rate` and `burst` are requests per token and second, `guesses` wrong tokens per address and second; 0: no limit.
    """

    tables: tuple[TableSettings, ...]
    tokens: str
    host: str = "127.0.0.1"
    port: int = 8000
    readers: int = 0
    tick: float = 0.25
    rate: float = 50.0
    burst: float = 100.0
    guesses: float = 5.0
    body_limit: int = 65_536
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    work_cells: int = 2**22
    answer_cells: int = 20_000
    purchases: int = 64
    waiting: int = 256
    log_level: str = "info"
    tls_certificate: str | None = None
    tls_key: str | None = None

    def __post_init__(self) -> None:
        if not self.tables or len({table.name for table in self.tables}) < len(self.tables):
            raise QueryError("a server needs at least one table, each with its own name")
        if len({Path(table.ledger).absolute() for table in self.tables}) < len(self.tables):
            raise QueryError("two tables name the same ledger: one table has one ledger")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise QueryError("TLS needs both a certificate and a key")
        if not 0 <= self.tick <= 60:
            raise QueryError(f"tick {self.tick!r} must lie between 0 and 60 seconds")
        if not 0 <= self.readers <= 64:
            raise QueryError(f"readers {self.readers} must lie between 0 and 64")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise QueryError(f"log level {self.log_level!r}: use debug, info, warning or error")

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
        content = _File(**tomllib.loads(path.read_text(encoding="utf-8")))
        tables = tuple(_table(name, entry, path.parent) for name, entry in content.tables.items())
        server = {**content.server, **overrides}
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
