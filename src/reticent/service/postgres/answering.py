"""Answers one SQL statement of one user, with the parsing, limits, payment and history of the HTTP service."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from reticent.domain import Domain
from reticent.service.admission import Admission, Workers
from reticent.service.auth import Principal
from reticent.service.http.problems import HttpProblem
from reticent.service.metrics import Log, Metrics
from reticent.service.postgres.catalog import Catalog, Job
from reticent.service.postgres.catalog_tables import SYNTHETIC
from reticent.service.postgres.commands import Command, Read, commands_of
from reticent.service.postgres.failures import FEATURE, NO_TABLE, Refusal
from reticent.service.postgres.messages import WireType
from reticent.service.postgres.parameters import column_type
from reticent.service.postgres.results import UNNAMED, FreeSource, WireRows, relation_of
from reticent.service.postgres.types import TEXT
from reticent.service.postgres.variables import Terms
from reticent.service.replies import LONGEST_ANSWER
from reticent.service.settings import Settings
from reticent.service.table_service import TableService
from reticent.sql.statement import Kept

KEPT = 2048
KEPT_BYTES = 2**24
"""Of statements and relations each."""
TOKEN_BYTES = 200
CELL_BYTES = 150
MOST_STATEMENTS = 100
"""In one simple query."""
CATALOGS_KEPT = 32
CATALOG_SECONDS = 3.0
CATALOG_THREADS = 2


@dataclass(frozen=True)
class Asker:
    """The user who asks, and the name of the connection in the log."""

    person: Principal
    connection: str


class SentReply(NamedTuple):
    """The messages that answered a statement, and the origin of its rows."""

    sent: bytes
    source: FreeSource


class Answering:
    """State shared by all sessions of the port: tables, limits, catalogs, and cached replies."""

    def __init__(
        self,
        settings: Settings,
        tables: dict[str, TableService],
        admission: Admission,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self.settings = settings
        self.admission = admission
        self._tables = tables
        self._metrics = metrics
        self._log = log
        self._commands: Kept[str, list[Command]] = Kept(KEPT, KEPT_BYTES)
        self._relations: Kept[tuple[bytes, bool], WireRows] = Kept(KEPT, KEPT_BYTES)
        self._sent: Kept[tuple[bytes, Terms, tuple[bool, bool], tuple[str, ...] | None], SentReply]
        self._sent = Kept(KEPT, KEPT_BYTES)
        self._catalogs: dict[frozenset[str], Catalog] = {}
        self._reading = Workers(CATALOG_THREADS, "catalog", settings.waiting_each)

    def commands(self, sql: str) -> list[Command]:
        """The statements of a text; a repeated text is read once."""
        found = self._commands.get(sql)
        if found is None:
            found = commands_of(sql)
            if len(found) > MOST_STATEMENTS:
                raise Refusal(FEATURE, f"the text holds {len(found)} statements; send at most {MOST_STATEMENTS}")
            size = len(sql) + TOKEN_BYTES * sum(len(command.tokens) for command in found)
            self._commands.put(sql, found, size)
        return found

    async def answer(self, asker: Asker, command: Read, values: Sequence[Any], terms: Terms) -> WireRows:
        """The result of a statement; counted, logged and measured as an HTTP request."""
        person = await self._admitted(asker)
        started = time.perf_counter()
        note: dict[str, Any] = {"route": "postgres"}
        status = 500
        try:
            relation = await self._answered(person, command, values, terms, note)
            status = 200
            return relation
        except Refusal:
            status = 400
            raise
        except Exception as error:
            status = getattr(error, "status", 422 if hasattr(error, "exit_code") else 500)
            if status == 500:
                self._log.failure("request", error, request=asker.connection)
            raise
        finally:
            seconds = time.perf_counter() - started
            self._metrics.request("postgres", status)
            if "origin" in note:
                self._metrics.answered(note["origin"], note["paid"], seconds)
            self._log.info(
                "request", method="postgres", status=status, who=person.name, request=asker.connection, **note
            )

    async def _admitted(self, asker: Asker) -> Principal:
        """The user according to the current token file; too frequent statements wait, because drivers do not retry."""
        person = self.admission.still(asker.person)
        while (seconds := self.admission.wait(person)) > 0:
            await asyncio.sleep(seconds)
        return person

    async def _answered(
        self, person: Principal, command: Read, values: Sequence[Any], terms: Terms, note: dict[str, Any]
    ) -> WireRows:
        if command.of_catalog:
            return await self._from_catalog(person, command, values)
        served = self._table(person, command)
        if command.probed is not None:
            return _no_rows(command.probed, served.domain)
        known = served.session.state.knowledge
        sql = command.bound(values, typed=False)
        body = json.dumps(terms.body(sql)).encode()
        parsed = await served.parse(served.questions, body, person)
        answer, origin, paid = await served.answer(parsed, person, None)
        note.update(origin=origin, paid=paid)
        key = (answer, terms.errors)
        relation = self._relations.get(key)
        if relation is None:
            relation = relation_of(answer, sql, errors=terms.errors)
            self._relations.put(key, relation, len(answer) + CELL_BYTES * len(relation.rows) * len(relation.names))
        source = FreeSource(served, known, origin)
        # What other engines answer for nothing is a function of their tests, too.
        free = not paid and terms.error is None and served.session.engine == "default" and source.current
        return replace(relation, source=source) if free else relation

    def quick(self, asker: Asker, text: bytes, terms: Terms, told: tuple[bool, bool]) -> bytes | None:
        """The cached reply to this statement, if it was free and nothing was learned since; None otherwise.

        It is admitted, counted and logged as every statement.
        """
        answered = self._sent.get((text, terms, told, asker.person.tables))
        if answered is None or not answered.source.current:
            return None
        started = time.perf_counter()
        try:
            person = self.admission.still(asker.person)
        except HttpProblem:
            return None
        source = answered.source
        if not person.may_see(source.table.table.name) or self.admission.wait(person) > 0:
            return None
        self._metrics.request("postgres", 200)
        self._metrics.answered(source.origin, False, time.perf_counter() - started)
        if self._log.requests:
            self._log.info(
                "request",
                method="postgres",
                status=200,
                who=person.name,
                request=asker.connection,
                route="postgres",
                origin=source.origin,
                paid=False,
            )
        return answered.sent

    def sent(
        self, asker: Asker, text: bytes, terms: Terms, told: tuple[bool, bool], reply: bytes, source: FreeSource
    ) -> None:
        """Cache the reply to a statement for users with access to the same tables."""
        if len(reply) <= LONGEST_ANSWER:
            self._sent.put((text, terms, told, asker.person.tables), SentReply(reply, source), len(text) + len(reply))

    def domain_of(self, person: Principal, command: Read) -> Domain | None:
        """The public description of the table that a statement names; None for the catalog."""
        return None if command.of_catalog else self._table(person, command).domain

    def _table(self, person: Principal, command: Read) -> TableService:
        """The served table that a statement names; tables without access do not exist for this user."""
        seen = {name.lower(): name for name in self._tables if person.may_see(name)}
        named = [name[-1].lower() for name in command.names]
        for name in named:
            found = seen.get(name) or seen.get(name.removesuffix(SYNTHETIC))
            if found is not None:
                return self._tables[found]
        words = {token.text.lower() for token in command.tokens if token.is_name}
        others = [name for lower, name in seen.items() if lower in words]
        if not named and (others or len(seen) == 1):
            return self._tables[others[0] if others else next(iter(seen.values()))]
        missing = named[-1] if named else ""
        raise Refusal(NO_TABLE, f'relation "{missing[:60]}" does not exist or is not open to this token')

    async def _from_catalog(self, person: Principal, command: Read, values: Sequence[Any]) -> WireRows:
        seen = frozenset(name for name in self._tables if person.may_see(name))
        catalog = self._catalogs.get(seen)
        if catalog is None:
            if len(self._catalogs) >= CATALOGS_KEPT:
                self._catalogs.pop(next(iter(self._catalogs))).close()
            described = {name: self._tables[name].domain for name in self._tables if name in seen}
            titles = {name: self._tables[name].table.title for name in described}
            catalog = self._catalogs[seen] = Catalog(described, titles, self.settings.answer_cells)
        job = Job(CATALOG_SECONDS)
        try:
            return await self._reading.run(person.name, catalog.answer, command, values, person.name, job)
        except asyncio.CancelledError:
            job.stop()
            raise

    def close(self) -> None:
        self._reading.close()
        for catalog in self._catalogs.values():
            catalog.close()


def _no_rows(listed: Sequence[tuple[str, str]], domain: Domain) -> WireRows:
    """Declared columns of a table under their headings, without rows."""
    known = {name.lower(): name for name in domain}
    found: list[tuple[str, WireType]] = []
    for name, heading in listed:
        if name == "*":
            found += [(column, column_type(attribute)) for column, attribute in domain.items()]
        elif name == "":
            found.append((heading or UNNAMED, TEXT))
        elif name.lower() in known:
            column = known[name.lower()]
            found.append((heading or column, column_type(domain[column])))
        else:
            raise Refusal("42703", f'column "{name[:60]}" does not exist')
    return WireRows(tuple(name for name, _ in found), tuple(kind for _, kind in found), [])
