"""Settings of a server: tables, budgets and limits, from a TOML file or the command line.

All limits on what clients may send and get are defined here; `Settings` holds those that an operator may change.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from reticent.errors import QueryError, ReticentError, is_mapping
from reticent.kernel.accounting import LARGEST_BUDGET, Budget
from reticent.kernel.table import MOST_ROWS, WEIGHT_LIMIT
from reticent.planning.loss_files import read_losses
from reticent.planning.smooth import stated_support
from reticent.service.setting_rules import Flag, Number, OneOf, Text, check_present, check_values

WARM_SHARE = 0.5
"""Of the budget, for the warm start of a served table."""
IDLE_SECONDS = 75
"""Idle connections stay open longer here than at clients and proxies, so that those close first."""
WRITER_IDLE_SECONDS = 120
"""The same between readers and writer."""
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
MOST_COUNTED = 10**9
"""The largest limit that an operator may set."""

FILE = Text("the name of a file")
COUNTED = Number(1, MOST_COUNTED, whole=True)
SECONDS = Number(over=0, most=86_400)
PORT = Number(0, 65_535, whole=True)
SHARE = Number(over=0, under=1)
AMOUNT = Number(over=0, most=LARGEST_BUDGET)
REQUIRED = {"table": '"a.parquet"', "domain": '"a.toml"', "ledger": '"a.ledger"'}
"""Examples of the settings that every table states."""


@dataclass(frozen=True)
class TableSettings:
    """One table: its rows, its public facts, and its ledger."""

    name: Annotated[str, Text("a name")]
    table: Annotated[str, Text("a file or the URL of a database")]
    domain: Annotated[str, FILE]
    ledger: Annotated[str, FILE]
    epsilon: Annotated[float | None, AMOUNT] = None
    delta: Annotated[float | None, SHARE] = None
    rho: Annotated[float | None, AMOUNT] = None
    title: Annotated[str, Text(empty=True, longest=LONGEST_TITLE)] = ""
    anchor: Annotated[str | None, FILE] = None
    query: Annotated[str | None, Text("the text of one SELECT")] = None
    person: Annotated[str | None, Text("the name of a column")] = None
    most: Annotated[int | None, Number(1, MOST_ROWS, whole=True)] = None
    """With `person`: every row has weight one, with at most this many rows of each person."""
    records: Annotated[int | None, Number(1, WEIGHT_LIMIT - 1, whole=True)] = None
    neighbours: Annotated[str, OneOf(("replace-one", "add-remove"))] = "replace-one"
    version: Annotated[str | None, Text(empty=True)] = None
    warm_start: Annotated[float | None, Number(0, 1)] = None
    """Half of the budget, unless another share, a purpose or a useful bound is stated."""
    purpose: Annotated[str | None, Text("unlimited or few")] = None
    """"unlimited" or "few": how the first opening uses the budget, instead of a stated share."""
    useful: Annotated[float | None, SHARE] = None
    """The largest predicted bound at which the warm start is bought, instead of a stated share."""
    engine: Annotated[str, Text("the name of an engine")] = "default"
    queries: Annotated[int | None, COUNTED] = None
    losses: Annotated[str | None, FILE] = None
    """For the convex engines: a file with examples of the losses to come."""
    error: Annotated[float | None, Number(over=0)] = None
    """For the convex engines: the excess risk of their models; by default the smallest that they can certify."""
    support: Annotated[int | None, COUNTED] = None
    smoothness: Annotated[float | None, SHARE] = None
    gamma: Annotated[float | None, SHARE] = None
    distance: Annotated[float | None, Number(least=0, under=1)] = None
    confidence: Annotated[float, SHARE] = 0.95
    numbers: Annotated[bool, Flag()] = False
    """Whether to store the position of each number within its bin, so that AVG and SUM of the rows' own numbers can be
    sold."""
    accept_misfits: Annotated[bool, Flag()] = False
    synthetic_rows: Annotated[bool, Flag()] = False
    """Whether `SELECT *` in SQL shows synthetic rows instead of being refused."""

    def __post_init__(self) -> None:
        check_values(vars(self), TableSettings)
        if not re.fullmatch(TABLE_NAME, self.name):
            raise QueryError(f"table name {self.name!r} must be letters, digits, '_' and '-', at most 64")
        self.budget  # noqa: B018  refused now rather than after the rows were read
        self.opening  # noqa: B018

    @property
    def budget(self) -> Budget:
        if self.epsilon is None and self.rho is None:
            raise QueryError("state a budget: epsilon and delta, epsilon (pure), or rho")
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
    tokens: Annotated[str, FILE]
    host: Annotated[str, Text("an address")] = "127.0.0.1"
    port: Annotated[int, PORT] = 8000
    readers: Annotated[int, Number(0, 64, whole=True)] = 0
    tick: Annotated[float, Number(0, LONGEST_TICK)] = 0.25
    rate: Annotated[float, Number(0)] = 50.0
    burst: Annotated[float, Number(1)] = 100.0
    wrong_tokens: Annotated[float, Number(0)] = 5.0
    body_limit: Annotated[int, COUNTED] = 65_536
    head_seconds: Annotated[float, SECONDS] = 10.0
    body_seconds: Annotated[float, SECONDS] = 10.0
    work_cells: Annotated[int, COUNTED] = 2**22
    answer_cells: Annotated[int, COUNTED] = 20_000
    purchases: Annotated[int, Number(0, MOST_COUNTED, whole=True)] = 64
    work_steps: Annotated[int, COUNTED] = 10_000_000
    waiting: Annotated[int, COUNTED] = 256
    waiting_each: Annotated[int, COUNTED] = 16
    log_level: Annotated[str, OneOf(("debug", "info", "warning", "error"))] = "info"
    postgres: Annotated[int | None, PORT] = None
    """The PostgreSQL port; None for none."""
    postgres_connections: Annotated[int, Number(1, 10_000, whole=True)] = 100
    postgres_plaintext: Annotated[bool, Flag()] = False
    """Allows other machines to connect without TLS, for a tunnel or proxy that encrypts."""
    tls_certificate: Annotated[str | None, FILE] = None
    tls_key: Annotated[str | None, FILE] = None

    def __post_init__(self) -> None:
        check_values(vars(self), Settings)
        if not self.tables or len({table.name for table in self.tables}) < len(self.tables):
            raise QueryError("a server needs at least one table, each with its own name")
        if len({table.name.lower() for table in self.tables}) < len(self.tables):
            raise QueryError("two tables have names that differ only in case, which SQL ignores: rename one")
        if len({Path(table.ledger).absolute() for table in self.tables}) < len(self.tables):
            raise QueryError("two tables name the same ledger: one table has one ledger")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise QueryError("TLS needs both a certificate and a key")
        if self.postgres is not None:
            self._check_postgres()
        if self.readers and any(table.engine != "default" for table in self.tables):
            raise QueryError("readers answer from certificates, threshold engines test each question: set readers to 0")

    def _check_postgres(self) -> None:
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


def read_settings(path: str | Path, **overrides: Any) -> Settings:
    """A server from its TOML file; paths in it are relative to the file."""
    path = Path(path)
    check_values(overrides, Settings)
    try:
        if path.is_char_device():
            raise QueryError("a device, not a file; give the name of a file")
        server, sections = _sections(tomllib.loads(path.read_text(encoding="utf-8")))
        if "guesses" in server:  # its name in version 0.1
            server["wrong_tokens"] = server.pop("guesses")
        _only(server, Settings, "[server]")
        tables = tuple(_table(name, entry, path.parent) for name, entry in sections.items())
        stated = {**_placed(server, ("tokens", "tls_certificate", "tls_key"), path.parent), **overrides}
        return Settings(tables=tables, **{"tokens": str(path.with_suffix(".tokens")), **stated})
    except OSError as error:
        raise QueryError(f"{path}: cannot be read ({error.strerror})") from None
    except (ReticentError, ValueError) as error:
        raise QueryError(f"{path}: {' '.join(str(error).split())}") from None


def _sections(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """[server] and one [tables.NAME] for each table."""
    for name, value in content.items():
        if name not in ("server", "tables"):
            raise QueryError(f"has no place for {name!r}: write it under [server] or [tables.NAME]")
        if not is_mapping(value):
            raise QueryError(f"{name} must be a section: write [{'server' if name == 'server' else 'tables.NAME'}]")
    for name, entry in content.get("tables", {}).items():
        if not is_mapping(entry):
            raise QueryError(f"[tables] has a value {name!r} of its own: write it under [tables.NAME]")
    return dict(content.get("server", {})), dict(content.get("tables", {}))


def _table(name: str, entry: Mapping[str, Any], folder: Path) -> TableSettings:
    where = f"[tables.{name}]"
    _only(entry, TableSettings, where)
    check_present({"name": name, **entry}, TableSettings, REQUIRED, where)
    placed = _placed(entry, ("domain", "ledger", "anchor", "losses"), folder)
    if "://" not in entry["table"]:
        placed["table"] = str(folder / entry["table"])
    try:
        return TableSettings(**{"name": name, **placed})
    except ReticentError as error:
        raise QueryError(f"{where} {error}") from None


def _placed(entry: Mapping[str, Any], names: Sequence[str], folder: Path) -> dict[str, Any]:
    """The entry with these paths relative to the folder."""
    return {**entry, **{name: str(folder / entry[name]) for name in names if name in entry}}


def _only(entry: Mapping[str, Any], kind: type, where: str) -> None:
    known = {item.name for item in fields(kind)} - {"tables"}
    for name in entry:
        if name not in known:
            raise QueryError(f"{where} has no setting {name!r}; known: {', '.join(sorted(known))}")
    check_values(entry, kind, f"{where} ")
