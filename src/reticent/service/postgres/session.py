"""The protocol state of a signed-in client: simple and extended queries, portals, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reticent.service.postgres import messages, results
from reticent.service.postgres.answering import Answering, Asker
from reticent.service.postgres.commands import (
    Acknowledged,
    Command,
    Copy,
    Deallocate,
    Read,
    SetVariable,
    Show,
    Transaction,
)
from reticent.service.postgres.failures import (
    CANCELED,
    DUPLICATE_CURSOR,
    DUPLICATE_STATEMENT,
    FAILED_TRANSACTION,
    FEATURE,
    NO_CURSOR,
    NO_STATEMENT,
    PROTOCOL,
    SYNTAX,
    TOO_LARGE,
    ProtocolViolation,
    Refusal,
    refusal_of,
)
from reticent.service.postgres.framing import Bind, Close, Describe, Execute, Message, Parse, Plain, QueryMessage
from reticent.service.postgres.parameters import example_values, parameter_types
from reticent.service.postgres.results import FreeSource, WireRows, reshaped
from reticent.service.postgres.types import TEXT, formats_of, parameter_value
from reticent.service.postgres.variables import REPORTED, Terms, Variables

MOST_KEPT = 500
"""Prepared statements, and portals, of one session."""
MOST_PARAMETERS = 1000
T = TypeVar("T")


@dataclass(frozen=True)
class CommandOutcome:
    """What a command gives: the tag that completes it, and rows if it has any."""

    tag: str
    relation: WireRows | None = None


@dataclass(frozen=True)
class Prepared:
    """A statement that waits for its values; None is an empty text."""

    command: Command | None
    types: tuple[int, ...]


@dataclass
class Portal:
    """A statement with its values; its rows are computed once and handed out as they are fetched."""

    command: Command | None
    values: Sequence[Any]
    formats: Sequence[int]
    described: WireRows | None = None
    outcome: CommandOutcome | None = None
    place: int = 0
    terms: Terms = field(default_factory=Terms)


class WireSession:
    """One signed-in connection; `send` takes bytes, `drained` waits until a slow client has taken them."""

    def __init__(
        self,
        answering: Answering,
        asker: Asker,
        variables: Variables,
        send: Callable[[bytes], None],
        drained: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._answering = answering
        self._asker = asker
        self._variables = variables
        self._send = send
        self._drained = drained
        self._status = "I"
        self._skipping = False
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._running: asyncio.Task | None = None
        self._canceled = False

    def cancel(self) -> None:
        """End the statement under way, if there is one; what is being paid is paid and stays known."""
        if self._running is not None:
            self._canceled = True
            self._running.cancel()

    def quick(self, text: bytes) -> bytes | None:
        """The reply to a simple query whose answer is remembered; None leaves it to `handle`."""
        if self._status == "E":
            return None
        variables = self._variables
        found = self._answering.quick(self._asker, text, variables.terms, variables.told)
        if found is None:
            return None
        self._skipping = False
        return found + messages.READY[self._status]

    async def handle(self, message: Message) -> None:
        """Handle one message; a refusal is sent to the client and, in the extended protocol, skips to the next Sync."""
        if isinstance(message, QueryMessage):
            self._skipping = False
            await self._query(message.text)
            self._ready()
        elif isinstance(message, Plain):
            await self._plain(message.kind)
        elif not self._skipping:
            try:
                await self._extended(message)
            except Exception as error:
                self._skipping = True
                self._refuse(error)
        await self._drained()

    async def _plain(self, kind: str) -> None:
        if kind == "S":
            self._skipping = False
            if self._status == "I":
                self._portals.clear()
            self._ready()
        elif kind == "F":
            self._refuse(Refusal(FEATURE, "function calls are not supported; use SELECT"))
            self._ready()

    def _ready(self) -> None:
        self._send(messages.READY[self._status])

    def _refuse(self, error: Exception) -> None:
        refusal = refusal_of(error)
        if self._status == "T":
            self._status = "E"
        if refusal.fatal:
            raise refusal
        self._send(messages.error(refusal))

    async def _query(self, text: str) -> None:
        """Every statement of a text in turn; the first that is refused ends it."""
        try:
            commands = self._answering.commands(text)
            if not commands:
                self._send(messages.EMPTY_QUERY)
            for command in commands:
                outcome = await self._run(command, ())
                relation = outcome.relation
                if isinstance(command, Copy) and relation is not None:
                    self._copy(command, relation)
                elif relation is not None:
                    formats = (0,) * len(relation.names)
                    reply = self._notices(relation) + relation.described(formats) + b"".join(relation.written(formats))
                    self._send(reply)
                    if relation.source is not None and len(commands) == 1:
                        self._remember(text, reply + messages.command_complete(outcome.tag), relation.source)
                self._send(messages.command_complete(outcome.tag))
        except Exception as error:
            self._refuse(error)

    def _remember(self, text: str, reply: bytes, source: FreeSource) -> None:
        variables = self._variables
        self._answering.sent(self._asker, text.encode(), variables.terms, variables.told, reply, source)

    def _copy(self, command: Copy, relation: WireRows) -> None:
        self._send(self._notices(relation) + b"".join(results.copy_messages(command, relation)))

    def _notices(self, relation: WireRows) -> bytes:
        notices, warnings = self._variables.told
        return b"".join(
            messages.notice(text, severity, "01000" if severity == "WARNING" else "00000")
            for severity, text in relation.notices
            if (warnings if severity == "WARNING" else notices)
        )

    async def _extended(self, message: Message) -> None:
        if isinstance(message, Parse):
            self._parse(message)
        elif isinstance(message, Bind):
            self._bind(message)
        elif isinstance(message, Describe):
            await self._describe(message)
        elif isinstance(message, Execute):
            await self._execute(message)
        elif isinstance(message, Close):
            (self._portals if message.portal else self._prepared).pop(message.name, None)
            self._send(messages.CLOSE_COMPLETE)
        else:
            raise ProtocolViolation("unexpected password message")

    def _parse(self, message: Parse) -> None:
        if message.name and message.name in self._prepared:
            raise Refusal(DUPLICATE_STATEMENT, f'prepared statement "{message.name[:60]}" already exists')
        commands = self._answering.commands(message.text)
        if len(commands) > 1:
            raise Refusal(SYNTAX, "cannot insert multiple commands into a prepared statement")
        command = commands[0] if commands else None
        count = 0 if command is None else command.parameters
        if max(count, len(message.types)) > MOST_PARAMETERS:
            raise Refusal(TOO_LARGE, f"a statement has at most {MOST_PARAMETERS} parameters")
        _check_room(self._prepared, message.name, "prepared statements")
        stated = (*message.types, *(0,) * (count - len(message.types)))
        self._prepared[message.name] = Prepared(command, stated)
        self._send(messages.PARSE_COMPLETE)

    def _bind(self, message: Bind) -> None:
        prepared = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise Refusal(DUPLICATE_CURSOR, f'portal "{message.portal[:60]}" already exists')
        if len(message.values) != len(prepared.types):
            raise Refusal(
                PROTOCOL, f"{len(message.values)} values are bound, the statement has {len(prepared.types)} parameters"
            )
        _check_room(self._portals, message.portal, "portals")
        formats = formats_of(message.formats, len(message.values))
        types = self._types(prepared)
        values = [parameter_value(*one) for one in zip(message.values, types, formats, strict=True)]
        formats_of(message.result_formats, max(1, len(message.result_formats)))
        self._portals[message.portal] = Portal(prepared.command, values, message.result_formats)
        self._send(messages.BIND_COMPLETE)

    def _types(self, prepared: Prepared) -> tuple[int, ...]:
        """Types of the parameters: those stated, else what the statement compares them with."""
        if all(prepared.types) or not isinstance(prepared.command, Read):
            return prepared.types
        domain = self._answering.domain_of(self._asker.person, prepared.command)
        return parameter_types(prepared.command, prepared.types, domain)

    async def _describe(self, message: Describe) -> None:
        if message.portal:
            portal = self._portal(message.name)
            relation = await self._shape(portal)
            formats = portal.formats
        else:
            prepared = self._statement(message.name)
            types = self._types(prepared)
            self._send(messages.parameter_description([oid or TEXT.oid for oid in types]))
            relation = await self._shape(Portal(prepared.command, self._examples(prepared, types), ()))
            formats = ()
        if relation is None:
            self._send(messages.NO_DATA)
        else:
            self._send(relation.described(formats_of(formats, len(relation.names))))

    def _examples(self, prepared: Prepared, types: Sequence[int]) -> list[Any]:
        """Values that a statement might get: its columns are the same for all."""
        if not types or not isinstance(prepared.command, Read):
            return [None] * len(types)
        domain = self._answering.domain_of(self._asker.person, prepared.command)
        return example_values(prepared.command, types, domain)

    async def _shape(self, portal: Portal) -> WireRows | None:
        """The columns of a portal's rows. To know them what is free is answered; nothing is paid for a description."""
        if isinstance(portal.command, Show):
            return self._shown(portal.command.name).relation
        if not isinstance(portal.command, Read):
            return None
        terms = self._variables.terms
        if portal.described is None:
            free = Terms(errors=terms.errors, confidence=terms.confidence)
            relation = await self._interruptible(self._read(portal.command, portal.values, free))
            portal.described = relation
            if terms.error is None:
                portal.outcome = _selected(relation)
        return portal.described

    async def _execute(self, message: Execute) -> None:
        portal = self._portal(message.portal)
        if portal.command is None:
            self._send(messages.EMPTY_QUERY)
            return
        if portal.outcome is None:
            outcome = await self._run(portal.command, portal.values)
            if portal.described is not None and outcome.relation is not None:
                outcome = CommandOutcome(outcome.tag, reshaped(outcome.relation, portal.described))
            portal.outcome = outcome
        elif portal.place == 0:
            self._allowed(portal.command)
        relation = portal.outcome.relation
        if relation is None:
            self._send(messages.command_complete(portal.outcome.tag))
        elif isinstance(portal.command, Copy):
            self._copy(portal.command, relation)
            self._send(messages.command_complete(portal.outcome.tag))
        else:
            self._fetch(portal, relation, message.limit)

    def _fetch(self, portal: Portal, relation: WireRows, limit: int) -> None:
        """The next rows; a portal that has more is suspended."""
        if portal.place == 0:
            self._send(self._notices(relation))
        rows = relation.written(formats_of(portal.formats, len(relation.names)))
        end = len(rows) if limit <= 0 else min(len(rows), portal.place + limit)
        self._send(b"".join(rows[portal.place : end]))
        sent, portal.place = end - portal.place, end
        if limit > 0 and sent == limit and end < len(rows):
            self._send(messages.PORTAL_SUSPENDED)
            return
        tag = portal.outcome.tag if portal.outcome is not None else "SELECT"
        self._send(messages.command_complete(f"SELECT {sent}" if tag.startswith("SELECT") else tag))

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise Refusal(NO_STATEMENT, f'prepared statement "{name[:60]}" does not exist')
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Refusal(NO_CURSOR, f'portal "{name[:60]}" does not exist')
        return self._portals[name]

    def _allowed(self, command: Command) -> None:
        if self._status == "E" and not (
            isinstance(command, Transaction) and command.verb in ("ROLLBACK", "COMMIT", "ROLLBACK TO")
        ):
            raise Refusal(
                FAILED_TRANSACTION, "current transaction is aborted, commands ignored until end of transaction block"
            )

    async def _run(self, command: Command, values: Sequence[Any]) -> CommandOutcome:
        """Carry out one command."""
        self._allowed(command)
        if isinstance(command, Read):
            return _selected(await self._interruptible(self._read(command, values, self._variables.terms)))
        if isinstance(command, Copy):
            read = self._read(command.inner, values, self._variables.terms)
            relation = await self._interruptible(read)
            return CommandOutcome(f"COPY {len(relation.rows)}", relation)
        if isinstance(command, Transaction):
            return CommandOutcome(self._transact(command.verb))
        if isinstance(command, SetVariable):
            self._variables.set(command.name, command.value, local=command.local)
            if command.name in REPORTED or command.name == "all":
                self._report([command.name] if command.name in REPORTED else list(REPORTED))
            return CommandOutcome("RESET" if command.tokens[0].is_word("reset") else "SET")
        if isinstance(command, Show):
            return self._shown(command.name)
        if isinstance(command, Deallocate):
            for name in [command.name] if command.name is not None else list(self._prepared):
                self._prepared.pop(name, None)
            return CommandOutcome("DEALLOCATE" if command.name is not None else "DEALLOCATE ALL")
        if isinstance(command, Acknowledged):
            if command.tag == "DISCARD ALL":
                self._variables.set("all", None)
                self._prepared.clear()
            return CommandOutcome(command.tag)
        raise Refusal(SYNTAX, "this statement cannot be answered")

    async def _read(self, command: Read, values: Sequence[Any], terms: Terms) -> WireRows:
        return await self._answering.answer(self._asker, command, values, terms)

    async def _interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """The result, unless the client cancels it or its `statement_timeout` passes first."""
        self._running = asyncio.current_task()
        try:
            seconds = self._variables.statement_seconds
            if seconds is None:
                return await work
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise Refusal(CANCELED, "canceling statement due to statement timeout") from None
        except asyncio.CancelledError:
            if self._canceled and self._running is not None:
                self._running.uncancel()
                raise Refusal(CANCELED, "canceling statement due to user request") from None
            raise
        finally:
            self._running, self._canceled = None, False

    def _transact(self, verb: str) -> str:
        if verb in ("BEGIN", "START TRANSACTION"):
            if self._status == "I":
                self._variables.begin()
                self._status = "T"
            return verb
        if verb in ("COMMIT", "ROLLBACK"):
            failed = self._status == "E"
            self._variables.end(undo=verb == "ROLLBACK" or failed)
            self._status = "I"
            self._portals = {name: portal for name, portal in self._portals.items() if portal.place == 0}
            return "ROLLBACK" if failed else verb
        if verb == "ROLLBACK TO" and self._status == "E":
            self._status = "T"
        return "ROLLBACK" if verb == "ROLLBACK TO" else verb

    def _report(self, names: Sequence[str]) -> None:
        for name in names:
            self._send(messages.parameter_status(REPORTED[name], self._variables.show(name)))

    def _shown(self, name: str) -> CommandOutcome:
        if name == "all":
            listed = [(key, value, "") for key, value in self._variables.all()]
            return CommandOutcome("SHOW", WireRows(("name", "setting", "description"), (TEXT, TEXT, TEXT), listed))
        return CommandOutcome("SHOW", WireRows((name,), (TEXT,), [(self._variables.show(name),)]))


def _selected(relation: WireRows) -> CommandOutcome:
    return CommandOutcome(f"SELECT {len(relation.rows)}", relation)


def _check_room(kept: dict[str, Any], name: str, what: str) -> None:
    if name not in kept and len(kept) >= MOST_KEPT:
        raise Refusal(TOO_LARGE, f"a session has at most {MOST_KEPT} {what}; close some")
