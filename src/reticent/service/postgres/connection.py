"""One client's connection: bytes in and out, TLS, sign-in, and time limits."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import secrets
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reticent.service.auth import Principal
from reticent.service.http.problems import HttpProblem
from reticent.service.postgres import messages
from reticent.service.postgres.answering import Asker
from reticent.service.postgres.failures import (
    IDLE,
    NO_ACCESS,
    SHUTDOWN,
    TOO_MANY_CONNECTIONS,
    WRONG_PASSWORD,
    ProtocolViolation,
    Refusal,
    refusal_of,
)
from reticent.service.postgres.framing import (
    CANCEL_CODE,
    GSS_CODE,
    SSL_CODE,
    Decoder,
    Message,
    Password,
    Plain,
    read_message,
    startup_parameters,
)
from reticent.service.postgres.scram import MECHANISM, Exchange
from reticent.service.postgres.session import WireSession
from reticent.service.postgres.variables import REPORTED, Variables

if TYPE_CHECKING:
    from reticent.service.postgres.door import Door

IDLE_SECONDS = 3600.0
"""A connection without a statement for so long ends; pools open a new one."""
BUFFERED = 2**18
"""Bytes to a slow client that may wait before the session waits for it."""
HANDSHAKE_SECONDS = 10.0
QUERY = ord("Q")
_SASL, _SASL_CONTINUE, _SASL_FINAL, _OK = 10, 11, 12, 0


class WireConnection(asyncio.Protocol):
    """Reads messages for one session and writes its replies; every wait has a time limit."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._settings = door.settings
        self._loop = asyncio.get_running_loop()
        self._decoder = Decoder(door.settings.body_limit)
        self._transport: Any = None
        self._waiter: asyncio.Future[bool] | None = None
        self._taken: asyncio.Future[None] | None = None
        self._reading = True
        self._ended = False
        self._encrypted = False
        self._session: WireSession | None = None
        self._answered_at = -math.inf
        self.task: asyncio.Task | None = None
        self.identity = secrets.token_hex(8)
        self.process = 0
        self.secret = 0

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=BUFFERED)
        self.task = self._loop.create_task(self._live())
        self._door.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._session is not None and data[0] == QUERY and self._answered(self._session, data):
            return
        self._decoder.feed(data)
        if self._reading and self._decoder.held > 2 * self._settings.body_limit:
            self._reading = False
            self._transport.pause_reading()
        self._wake(True)

    def _answered(self, session: WireSession, data: bytes) -> bool:
        """Whether this was one whole simple query on an idle connection that has been answered."""
        waiting = self._waiter is not None and not self._waiter.done()
        if not waiting or self._decoder.held or self._taken is not None or self._ended:
            return False
        end = len(data) - 1
        if end < 5 or int.from_bytes(data[1:5], "big") != end or data.find(0, 5) != end:
            return False
        reply = session.quick(data[5:end])
        if reply is None:
            return False
        self._answered_at = self._loop.time()
        self._write(reply)
        return True

    def eof_received(self) -> bool:
        self._ended = True
        self._wake(True)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._decoder.drop()
        self._wake(True)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._taken = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        self._taken = None

    def cancel(self) -> None:
        """End the running statement: another connection has presented this one's secret."""
        if self._session is not None:
            self._session.cancel()

    def end(self) -> None:
        """Tell the client that the server is shutting down."""
        if not self._ended:
            self._write(messages.error(Refusal(SHUTDOWN, "the server is shutting down", fatal=True)))
        if self.task is not None:
            self.task.cancel()

    # The life of a connection.

    async def _live(self) -> None:
        try:
            await self._converse()
        except Refusal as refusal:
            self._write(messages.error(Refusal(refusal.state, refusal.message, hint=refusal.hint, fatal=True)))
        except ConnectionError:
            pass
        except asyncio.CancelledError:
            pass  # the server ends, and has said so
        except Exception as error:
            self._door.log.failure("postgres", error, request=self.identity)
            self._write(messages.error(refusal_of(error)))
        finally:
            self._door.closed(self)
            if self._transport is not None:
                self._transport.close()

    async def _converse(self) -> None:
        try:
            async with asyncio.timeout(self._settings.head_seconds):
                signed = await self._sign_in()
        except TimeoutError:
            raise ProtocolViolation(f"signing in took more than {self._settings.head_seconds:g} s") from None
        if signed is None:
            return
        self._decoder.signed_in = True
        person, variables = signed
        asker = Asker(person, self.identity)
        self._session = session = WireSession(self._door.answering, asker, variables, self._write, self._drained)
        self._write(messages.READY["I"])
        while True:
            message = await self._message(IDLE_SECONDS)
            if message is None or (isinstance(message, Plain) and message.kind == "X"):
                return
            await session.handle(message)

    async def _sign_in(self) -> tuple[Principal, Variables] | None:
        """The authenticated user and the initial settings; None if the client disconnected."""
        given = await self._startup()
        if given is None:
            return None
        user = given.get("user", "")
        person = await self._authenticated(user)
        if person is None:
            return None
        variables = _started(given, person.name)
        self.process, self.secret = self._door.register(self)
        for name, reported in REPORTED.items():
            self._write(messages.parameter_status(reported, variables.show(name)))
        self._write(messages.backend_key(self.process, self.secret))
        return person, variables

    async def _startup(self) -> dict[str, str] | None:
        """The startup message's parameters, after TLS if the client requested it."""
        while True:
            packet = await self._when(self._decoder.startup)
            if packet is None:
                return None
            code, body = packet
            if code == CANCEL_CODE:
                if len(body) == 8:
                    self._door.cancel(*struct.unpack("!ii", body))
                return None
            if code == SSL_CODE and not self._encrypted:
                await self._encrypt()
            elif code == GSS_CODE:
                self._write(messages.SSL_NO)
            elif code >> 16 == 3:
                return self._checked(code & 0xFFFF, startup_parameters(body))
            else:
                raise ProtocolViolation("only version 3 of the protocol is spoken here", "0A000")

    def _checked(self, minor: int, given: dict[str, str]) -> dict[str, str]:
        options = [name for name in given if name.startswith("_pq_.")]
        if minor or options:
            self._write(messages.negotiate_version(options))
        if not self._encrypted and not self._settings.postgres_plaintext and not self._local:
            raise Refusal(NO_ACCESS, "connections from other machines must use TLS: sslmode=require")
        if self._door.full:
            raise Refusal(TOO_MANY_CONNECTIONS, f"the server has {self._door.most} connections already")
        if given.get("replication", "false") not in ("false", "off", "no", "0"):
            raise Refusal(NO_ACCESS, "replication is not offered here")
        return given

    @property
    def _peer(self) -> str:
        address = self._transport.get_extra_info("peername")
        return address[0] if isinstance(address, tuple) else "local"

    @property
    def _local(self) -> bool:
        try:
            return ipaddress.ip_address(self._peer).is_loopback
        except ValueError:
            return self._peer == "local"

    async def _encrypt(self) -> None:
        if self._door.tls is None:
            self._write(messages.SSL_NO)
            return
        if self._decoder.held:
            # Bytes from before the handshake could have been injected by an attacker (CVE-2021-23214).
            raise ProtocolViolation("unexpected data after the request for TLS")
        self._write(messages.SSL_YES)
        try:
            self._transport = await self._loop.start_tls(
                self._transport, self, self._door.tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError:
            raise ConnectionResetError from None
        self._encrypted = True
        self._transport.set_write_buffer_limits(high=BUFFERED)

    async def _authenticated(self, user: str) -> Principal | None:
        """The holder of the token of this name; every failure gives the same message."""
        person, verifier = self._door.answering.admission.verifier(user)
        exchange = Exchange(verifier)
        self._write(messages.authentication(_SASL, MECHANISM.encode() + b"\0\0"))
        first = await self._message(IDLE_SECONDS)
        if first is None:
            return None
        self._write(messages.authentication(_SASL_CONTINUE, exchange.first(_initial(first))))
        second = await self._message(IDLE_SECONDS)
        if second is None:
            return None
        if not isinstance(second, Password):
            raise ProtocolViolation("the password exchange was abandoned")
        proof = exchange.last(second.content)
        if proof is None or person is None:
            self._count_failure()
            raise Refusal(WRONG_PASSWORD, "the name or the token is unknown, expired or revoked", fatal=True)
        self._write(messages.authentication(_SASL_FINAL, proof) + messages.authentication(_OK))
        return person

    def _count_failure(self) -> None:
        try:
            self._door.answering.admission.failed(self._peer)
        except HttpProblem as problem:
            raise refusal_of(problem) from None

    # Reading and writing.

    async def _message(self, idle: float) -> Message | None:
        """The next message; None if the client disconnected."""
        found = await self._when(self._decoder.message, idle)
        return None if found is None else read_message(*found)

    async def _when(self, read: Callable[[], Any], idle: float | None = None) -> Any:
        """The result of `read` once enough bytes have arrived; a message that has begun must end in time."""
        begun: float | None = None
        while True:
            found = read()
            if found is not None:
                self._resume()
                return found
            if self._ended:
                return None
            self._resume()
            patience = idle if idle is not None else self._settings.head_seconds
            if self._decoder.held:
                begun = begun or self._loop.time()
                patience = max(0.0, begun + self._settings.body_seconds - self._loop.time())
            left = patience
            while not await self._arrival(left):
                # Queries that were answered as they arrived have not ended the wait.
                left = self._answered_at + patience - self._loop.time()
                if left <= 0:
                    raise Refusal(IDLE, "the connection was idle, or a message did not arrive in time", fatal=True)

    def _resume(self) -> None:
        if not self._reading and self._decoder.held <= self._settings.body_limit:
            self._reading = True
            with suppress(RuntimeError):
                self._transport.resume_reading()

    async def _arrival(self, seconds: float) -> bool:
        """Whether anything arrived within this time."""
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake, False)
        try:
            return await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self, arrived: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(arrived)

    def _write(self, data: bytes) -> None:
        if data and not self._ended and not self._transport.is_closing():
            self._transport.write(data)

    async def _drained(self) -> None:
        """Wait until the client has read most of the output; a client that reads nothing is disconnected."""
        taken = self._taken
        if taken is None:
            return
        try:
            await asyncio.wait_for(asyncio.shield(taken), self._settings.body_seconds)
        except TimeoutError:
            self._transport.abort()
            raise ConnectionResetError from None


def _initial(message: Message) -> bytes:
    """The first message of SASL: the mechanism's name, and what the mechanism itself says."""
    if not isinstance(message, Password):
        raise ProtocolViolation("a password exchange must come first")
    mechanism, _, rest = message.content.partition(b"\0")
    if mechanism != MECHANISM.encode():
        raise ProtocolViolation(f"only {MECHANISM} is offered")
    if len(rest) < 4 or struct.unpack("!i", rest[:4])[0] != len(rest) - 4:
        raise ProtocolViolation("the first message of the password exchange is malformed")
    return rest[4:]


def _started(given: dict[str, str], user: str) -> Variables:
    """Settings from the startup message; `options` holds `-c name=value` as on a command line."""
    variables = Variables(user=user)
    for name, value in given.items():
        if name in ("user", "database", "options", "replication") or name.startswith("_pq_."):
            continue
        if name.lower() != "client_encoding":
            variables.set(name.lower(), value)
    words = given.get("options", "").replace("\\ ", "\0").split()
    for place, word in enumerate(words):
        setting = words[place + 1] if word == "-c" and place + 1 < len(words) else word.removeprefix("-c")
        setting = setting.removeprefix("--")
        name, equals, value = setting.partition("=")
        if equals and (word == "-c" or word.startswith(("-c", "--"))):
            variables.set(name.lower().replace("-", "_"), value.replace("\0", " "))
    variables.started()
    return variables
