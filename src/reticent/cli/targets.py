"""What a prompt talks to: a session on a local table, a saved release, or a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.cli.options import budget_from, progress_bar, read_table, telling_anchor, warn_of_delta
from reticent.domain import Domain
from reticent.errors import QueryError

if TYPE_CHECKING:
    from reticent.knowledge.request import Records

TOKEN = "RETICENT_TOKEN"


@dataclass(frozen=True)
class Target:
    """One source of answers; `backend` is a Session, a Release or a Connection."""

    backend: Any
    name: str
    unit: str
    """Of prices; empty where everything is free."""

    @property
    def domain(self) -> Domain:
        return self.backend.domain

    @property
    def free(self) -> bool:
        return not self.unit

    @property
    def tests(self) -> bool:
        """Whether a session tests every question within its own error, so that no error need be stated to pay."""
        return getattr(self.backend, "engine", "default") != "default"

    def ask(self, sql: str, error: float | str | Records | None) -> Any:
        return self.backend.ask(sql) if self.free or error is None else self.backend.ask(sql, error=error)

    def cost(self, sql: str, error: float | str | Records | None) -> float:
        if error is None and self.tests:
            return self.backend.budget.amount(self.backend.quote(self.backend.request(sql)).price)
        return 0.0 if self.free or error is None else float(self.backend.cost(sql, error=error))

    def budget(self) -> str:
        """What is spent, or why nothing is."""
        if self.free:
            if not self.backend.stated:
                return f"Everything is free: {self.backend.privacy}."
            return f"Everything is free: {self.backend.privacy} was spent when this was published."
        spent, remaining = float(self.backend.spent), float(self.backend.remaining)
        share = spent / (spent + remaining) if spent + remaining else 1.0
        return f"{self.unit} {spent:.6g} spent ({share:.0%}), {remaining:.6g} left"

    def priced(self, price: float) -> str:
        """A price with its unit, its share of the budget, and what is left."""
        left, spent = float(self.backend.remaining), float(self.backend.spent)
        share = f" ({price / (spent + left):.2%} of the budget)" if spent + left else ""
        return f"{self.unit} {price:.6g}{share}, {left:.6g} is left"

    def close(self) -> None:
        if not self.free:
            self.backend.close()


def is_release(target: str) -> bool:
    return Path(target).suffix == ".release"


def is_server(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def release_target(path: str) -> Target:
    from reticent.releases.release import Release

    release = Release.load(path)
    return Target(release, release.facts["name"], "")


def server_target(url: str, table: str | None) -> Target:
    try:
        from reticent.client import connect
    except ModuleNotFoundError:
        raise QueryError("talking to a server needs more packages: pip install 'reticent[serve]'") from None
    if not is_server(url):
        raise QueryError(f"{url} is neither a server nor a file ending in .release; a server's address begins http://")
    token = os.environ.get(TOKEN)
    if not token:
        raise QueryError(f"no token: set the environment variable {TOKEN}")
    connection = connect(url, token, table=table)
    if connection.name is None:
        return Target(connection, "", "price")  # several tables, perhaps of several units: the name after FROM chooses
    return Target(connection, connection.name, connection.describe()["budget"].split()[0])


def opened_target(
    target: str,
    opening: Callable[[], Mapping[str, Any]],
    quiet: bool,
    *,
    served: str | None,
    ledger: Path | None,
    anchor: Path | None,
    **options: Any,
) -> Target:
    """A server, a release, or a session on a table; `opening` makes the session's own terms, for a table only."""
    if is_server(target):
        return server_target(target, served)
    if is_release(target):
        return release_target(target)
    if options["domain_file"] is None or ledger is None:
        if "://" not in target and not Path(target).exists():
            raise QueryError(f"{target} does not exist; give a table, the file of a release, or a server's URL")
        raise QueryError(f"{target}: a table needs --domain and --ledger, the account that remembers what was spent")
    from reticent.sessions.session import Session

    stated = budget_from(**{name: options.pop(name) for name in ("epsilon", "delta", "rho")})
    terms = opening()
    table = read_table(target, **options)
    warn_of_delta(stated, table.records)
    with telling_anchor(ledger, anchor), progress_bar(quiet) as listener:
        session = Session.open(ledger, table, stated, anchor=anchor, progress=listener, **terms)
    return Target(session, session.name, session.budget.unit)
