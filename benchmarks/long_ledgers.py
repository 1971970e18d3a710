"""Long ledgers, made fast: events of paid counts and groups as a session writes them, without rows, noise or flushes.

A session begins the ledger. Then requests are described by the kernel, events are encoded and linked by the ledger's
own functions, and one transaction stores many of them; values are drawn at random, since no opening looks at rows.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.growth import alone
from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import counted_statistic, pack_array
from reticent.kernel.ledger.anchor import Anchor, Mark, places
from reticent.kernel.ledger.events import canonical, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.verify import verify
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.table import Table
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.measured import ByDigest, MeasuredGroups, MeasuredQuery, MeasuredTables
from reticent.queries.groups import Groups
from reticent.queries.linear import Range, count
from reticent.queries.predicate import col
from reticent.service.readers.follower import Follower
from reticent.sessions.journal import ASK, Journal
from reticent.sessions.session import Session

CODES = 32
DOMAIN = Domain({"a": CODES, "b": CODES, "c": 16})
RECORDS = 100_000
BUDGET = Budget(rho=10**6)
NOISE = Gaussian(40)
COST = 312_500
"""What such noise costs, in nano-units."""
GROUPED = 8
"""One purchase in so many is of groups."""
BATCH = 20_000
"""Events stored at once."""


def table() -> Table:
    """Few distinct records: what is measured here is the ledger, not the counting."""
    generator = np.random.default_rng(1)
    codes = {name: generator.integers(0, size, 200) for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)}
    weights = np.full(200, RECORDS // 200, dtype=np.int64)
    return Table(Records.of_codes(DOMAIN, codes, weights), DOMAIN, records=RECORDS)


def question(number: int) -> Range | Groups:
    """Different for every number up to two million: boxes, and now and then groups among some records."""
    grouped, bounds = number % GROUPED == 0, []
    rest = number // GROUPED if grouped else number
    for size in DOMAIN.shape:
        rest, place = divmod(rest, size * (size + 1) // 2)
        low = 0
        while place >= size - low:
            place, low = place - (size - low), low + 1
        bounds.append((low, low + place))
    if not grouped:
        return Range(dict(zip(DOMAIN.names, bounds, strict=True)))
    (low, high), (least, most), _ = bounds
    return Groups(("c",), (col("a") >= low) & (col("a") <= high) & (col("b") >= least) & (col("b") <= most))


def lengthen(path: Path, answers: int) -> None:
    """Append paid answers to a closed ledger, in order and linked, and move its anchor."""
    file, marks = places(path, None)
    with closing(Anchor(marks, create=False)) as anchor, closing(sqlite3.connect(file, isolation_level=None)) as disk:
        assert anchor.mark is not None, "a ledger that was closed has its mark"
        mark, rows = anchor.mark, []
        sequence, head, generator = mark.sequence, mark.head, np.random.default_rng(1)
        disk.execute("PRAGMA synchronous=OFF")
        for number in range(answers):
            asked = question(number)
            request = {
                "statistics": [counted_statistic(asked, DOMAIN).describe()],
                "mechanisms": [NOISE.describe()],
            }
            values = generator.integers(0, RECORDS, DOMAIN.shape_of(("c",)) if isinstance(asked, Groups) else ())
            digest = sha256(canonical({"kind": "measure", "request": request}).encode())
            reserved = {"kind": "measure", "digest": digest, "redeemable": True, "request": request}
            payloads = {"reserve": reserved, "settle": {"values": [pack_array(values)]}}
            for kind, payload in payloads.items():
                sequence += 1
                facts = {"key": key_of(asked), "analyst": None, "cost": COST, "kind": kind, "payload": payload}
                body = canonical(facts | {"at": 0, "sequence": sequence, "previous": head})
                head = sha256(body.encode())
                rows.append((sequence, body, head))
            if len(rows) >= BATCH or number + 1 == answers:
                disk.execute("BEGIN")
                disk.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
                disk.execute("COMMIT")
                rows.clear()
        anchor.write(Mark(mark.ledger, sequence, head, mark.spent + COST * answers))


def key_of(asked: Range | Groups) -> str:
    return f"{ASK}{asked.digest[:24]}:{float(NOISE.sd):.17g}:"


def index(path: Path, private: Table, answers: int) -> None:
    """Write the ledger's checkpoint and the session's index, as a session that bought all of it would have done.

    Only the working hypothesis stays where it was: moving it half a million times would take an hour.
    """
    with Ledger.open(path, identity=private.identity, budget=BUDGET) as ledger:
        journal = Journal(ledger)
        stored = journal.latest()
        assert stored is not None, "a session began the ledger"
        knowledge = Knowledge(stored.snapshot, stored.records, stored.records_error)
        counts: dict[str, tuple[MeasuredQuery, ...]] = {}
        tables = MeasuredTables()
        nothing = np.zeros(DOMAIN.shape_of(("c",)))
        for number in range(answers):
            asked = question(number)
            reservation = ledger.reservation(key_of(asked))
            assert reservation is not None, "it was bought"
            if isinstance(asked, Groups):
                facts = (RECORDS, 0.0, reservation.settled)
                tables = tables.adding(MeasuredGroups.of(asked, DOMAIN, nothing, NOISE, *facts))
            else:
                counts[knowledge.form(asked).digest] = (MeasuredQuery(asked, 0.0, NOISE, reservation.settled),)
        known = replace(knowledge, queries=ByDigest(None, (counts,), len(counts)), groups=tables)
        if journal.save_learned(known) is None:
            raise ValueError(f"{answers} purchases are too few for an index")


def made(path: Path, answers: int, *, indexed: bool = True) -> Table:
    """A ledger with so many paid answers, twice as many events and a few more; and its table."""
    private = table()
    with Session.open(path, private, BUDGET, warm_start=0, progress=False):
        pass
    lengthen(path, answers)
    if indexed:
        index(path, private, answers)
    return private


PAID = 100
"""Paid answers that are measured on each ledger."""


def costs(path: Path) -> dict[str, float]:
    """Processor seconds of opening, following, paying and verifying, and memory; for a process of its own."""
    private = table()
    start = time.process_time()
    session = Session.open(path, private, BUDGET, warm_start=0, progress=False)
    found = {"open": time.process_time() - start, "open_gib": held_gib()}
    start = time.process_time()
    follower = Follower(path)
    found["follow"] = time.process_time() - start
    paying, refreshing = [], []
    for number in range(PAID):
        # Outside of the boxes and groups that were bought.
        asked = count((col("a") == number % CODES) | (col("b") == number // 4))
        paying.append(_cpu(lambda asked=asked: session.ask(asked, error=0.0005)))
        refreshing.append(_cpu(follower.refresh))
    follower.close()
    found["pay"], found["refresh"] = statistics.median(paying), statistics.median(refreshing)
    session.close()
    found["verify"] = _cpu(lambda: verify(path, keep=False))
    return found | {"verify_gib": held_gib()}


def _cpu(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def held_gib() -> float:
    """The most memory that this process has held so far."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 2**20


def measured(answers: int) -> dict[str, float]:
    """The costs of a ledger with so many paid answers, on the disk of the working directory."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        made(Path(folder) / "a.ledger", answers)
        return {"events": float(2 * answers)} | alone(costs, Path(folder) / "a.ledger")
