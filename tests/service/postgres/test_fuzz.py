"""Random messages to a session: every one is answered or refused, none crashes it, and nothing piles up."""

from __future__ import annotations

import asyncio
import gc
import random
import resource
from pathlib import Path

import pytest
from tests.service.postgres.doors import OpenDoor

from reticent.service.admission import Admission
from reticent.service.metrics import Log, Metrics
from reticent.service.postgres.answering import Answering, Asker
from reticent.service.postgres.failures import Refusal
from reticent.service.postgres.framing import (
    Bind,
    Close,
    Describe,
    Execute,
    Message,
    Parse,
    Plain,
    QueryMessage,
    read_message,
)
from reticent.service.postgres.session import WireSession
from reticent.service.postgres.variables import Variables

WORDS = [
    *("SELECT", "FROM", "WHERE", "GROUP BY", "count(*)", "survey", "sex", "age", "region", ",", "(", ")", "=", ">="),
    *("45", "'Male'", "$1", "$2", ";", "SET", "reticent.error", "TO", "'1%'", "reticent.errors", "off", "SHOW", "ALL"),
    *("BEGIN", "COMMIT", "ROLLBACK", "COPY", "STDOUT", "pg_class", "::", "regclass", "'", '"', "--", "/*", "LIMIT"),
    *("0", "*", "public", ".", "ANY", "DEALLOCATE", "DISCARD", "INSERT", "é", "\0", "1e999", "NULL", "OPERATOR", "AS"),
]
WHOLE = [
    "SELECT sex, count(*) FROM public.survey GROUP BY sex",
    "SELECT count(*) FROM survey WHERE age >= $1 AND sex = $2",
    "SELECT region, count(*) FROM survey WHERE region = ANY($1) GROUP BY region",
    "COPY (SELECT sex, count(*) FROM survey GROUP BY sex) TO STDOUT (FORMAT binary)",
    "SELECT oid, relname FROM pg_class WHERE oid = $1::regclass",
    "BEGIN; SET LOCAL reticent.errors = off; COMMIT",
    "SHOW ALL",
    "DISCARD ALL",
]
NAMES = ["", "a", "b", "c" * 70]
LONGEST = 64


def message(chance: random.Random) -> Message:
    """A message that a client might send, well-formed or not."""
    name, other = chance.choice(NAMES), chance.choice(NAMES)
    text = " ".join(chance.choices(WORDS, k=chance.randrange(12)))
    if chance.random() < 0.3:
        text = chance.choice(WHOLE)
    kind = chance.randrange(9)
    if kind == 0:
        return QueryMessage(text)
    if kind <= 2:
        return Parse(name, text, tuple(chance.choices([0, 16, 20, 25, 701, 1009, 99], k=chance.randrange(3))))
    if kind == 3:
        values = [None if chance.random() < 0.2 else chance.randbytes(chance.randrange(9)) for _ in range(3)]
        formats = tuple(chance.choices([0, 1, 7], [9, 9, 1], k=chance.randrange(3)))
        return Bind(other, name, formats, tuple(values[: chance.randrange(4)]), formats[:1])
    if kind == 4:
        return Describe(chance.random() < 0.5, name)
    if kind == 5:
        return Execute(name, chance.choice([0, 1, 2, -5]))
    if kind == 6:
        return Close(chance.random() < 0.5, name)
    if kind == 7:
        return Plain(chance.choice("SHdcfF"))
    try:
        return read_message(bytes([chance.choice(b"QPBDEC")]), chance.randbytes(chance.randrange(LONGEST)))
    except Refusal:
        return Plain("S")


async def converse(door: OpenDoor, messages: int, seed: int) -> int:
    """Bytes that the session has sent in reply."""
    admission = Admission(door.settings, door.tokens)
    with Path("/dev/null").open("w") as nowhere:
        answering = Answering(door.settings, door.tables, admission, Metrics(), Log("error", nowhere))
        sent = 0

        def send(data: bytes) -> None:
            nonlocal sent
            sent += len(data)
            assert b"\0CXX000\0" not in data, "a refusal that nobody foresaw"

        async def drained() -> None:
            pass

        def fresh() -> WireSession:
            return WireSession(answering, Asker(person, "fuzz"), Variables(user="alice"), send, drained)

        person = next(p for p in door.tokens.all() if p.name == "alice")
        session, chance = fresh(), random.Random(seed)
        for _ in range(messages):
            try:
                await session.handle(message(chance))
            except Refusal as refusal:
                if not refusal.fatal:
                    raise
                session = fresh()
        answering.close()
    return sent


def test_random_messages_are_answered_or_refused(door: OpenDoor) -> None:
    spent = door.spent
    assert asyncio.run(converse(door, 5000, seed=1)) > 0
    assert door.spent >= spent


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_random_messages_leave_nothing_behind(door: OpenDoor) -> None:
    asyncio.run(converse(door, 100_000, seed=2))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(converse(door, 1_000_000, seed=3))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB: caches may fill
