"""What is read of a long ledger: opening, following and paying look at what is new, however long the past is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.growth import alone
from benchmarks.long_ledgers import BUDGET, DOMAIN, GROUPED, key_of, made, question, table
from tests.session_tables import forbidden

import reticent as rt
from reticent.kernel.ledger import chain as chain_module
from reticent.kernel.ledger import ledger as ledger_module
from reticent.kernel.ledger.events import Event, sha256
from reticent.kernel.ledger.verify import verify
from reticent.knowledge.measured import Index
from reticent.queries.forms import essential
from reticent.queries.linear import Range
from reticent.service.readers.follower import Follower
from reticent.sessions import journal as journal_module
from reticent.sessions import state as state_module
from reticent.sessions.session import Session

SHORT, LONG = 400, 1600
EARLY = 128
"""Events between two checkpoints here."""
MOST_READ = 64
"""Events that an opening may read beside those that no checkpoint and no index covers."""
NEW = rt.count((rt.col("a") == 3) | (rt.col("b") == 5))
AVERAGE = "SELECT AVG(a) FROM t WHERE b <= 3 AND c >= 2"
MILLION_SECONDS, MILLION_GIB = 20.0, 1.0
"""Processor seconds and memory of opening a session on a million events; 3.1 s and .48 GiB were seen."""


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "LEAST", EARLY)
    monkeypatch.setattr(journal_module, "LEAST_INDEXED", 32)
    monkeypatch.setattr(state_module, "LEAST_INDEXED", 32)
    monkeypatch.setattr(journal_module, "LEAST_CLOSED", 1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("ledgers")
    found = {answers: folder / f"{answers}.ledger" for answers in (SHORT, LONG)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_module, "LEAST_INDEXED", 32)
        patch.setattr(chain_module, "LEAST", EARLY)
        for answers, path in found.items():
            made(path, answers)
    return found


@contextmanager
def reading() -> Iterator[list[int]]:
    """Sequences of all events that are parsed, in this order."""
    found: list[int] = []
    parse = Event.parse.__func__  # pyright: ignore[reportFunctionMemberAccess]

    def counted(cls: type[Event], body: str, digest: str) -> Event:
        event = parse(cls, body, digest)
        found.append(event.sequence)
        return event

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Event, "parse", classmethod(counted))
        yield found


def opened(path: Path) -> Session:
    return Session.open(path, table(), BUDGET, warm_start=0, progress=False)


@pytest.mark.parametrize("answers", [SHORT, LONG])
def test_an_opening_reads_nothing_that_is_covered(paths: dict[int, Path], answers: int) -> None:
    with reading() as read, Session.open(paths[answers], forbidden(table()), BUDGET, warm_start=0, progress=False):
        assert len(read) <= MOST_READ
    with reading() as read:
        Follower(paths[answers]).close()
        assert len(read) <= MOST_READ


@pytest.mark.parametrize("answers", [SHORT, LONG])
def test_what_was_bought_long_ago_is_read_when_it_is_asked_for(paths: dict[int, Path], answers: int) -> None:
    with Session.open(paths[answers], forbidden(table()), BUDGET, warm_start=0, progress=False) as session:
        spent = session.spent
        for number in (1, GROUPED, 3 * GROUPED, answers // 2 + 1, answers - 1):
            with reading() as read:
                asked = question(number)
                answer = session.ask(asked, error=0.01)
                assert answer.origin == "cache"
                assert len(read) <= 8, "its reservation and its settlement, perhaps once more"
        assert session.spent == spent
        part = rt.count((rt.col("a") == 0) & (rt.col("b") == 0) & (rt.col("c") == 3))
        assert session.ask(part).origin == "cache", "a group of groups that were bought"


@pytest.mark.parametrize("answers", [SHORT, LONG])
def test_a_payment_and_a_refresh_read_only_what_is_new(paths: dict[int, Path], answers: int) -> None:
    with opened(paths[answers]) as session:
        follower = Follower(paths[answers])
        for place in range(3):
            code = rt.col("a") == 5 * place + answers % 7
            with reading() as read:
                session.ask(rt.count(code | (rt.col("b") == place)), error=0.001)
                assert len(read) <= 16
            with reading() as read:
                assert follower.refresh()
                assert len(read) <= 6, "reservation, settlement, and each once more to learn it"
        with reading() as read:
            session.ask(f"{AVERAGE} AND a <= {20 + answers % 7}", error=0.5)
            assert len(read) <= 48, "errors wanted of old questions are found by an index"
        follower.close()


def test_a_session_that_was_killed_reads_again_only_what_no_segment_covers(
    paths: dict[int, Path], tmp_path: Path
) -> None:
    path = tmp_path / "a.ledger"
    for end in ("", ".anchor"):
        path.with_name(f"a.ledger{end}").write_bytes(Path(f"{paths[SHORT]}{end}").read_bytes())
    session = opened(path)
    for place in range(70):
        session.ask(rt.count((rt.col("a") == place % 32) | (rt.col("b") == place // 3)), error=0.001)
    current, unfitted = session.state.knowledge.current.digest, session.state.knowledge.unfitted
    session.state.ledger.close()  # as a killed process: nothing is indexed at the end
    with reading() as read, Session.open(path, forbidden(table()), BUDGET, warm_start=0, progress=False) as again:
        assert len(read) <= MOST_READ + EARLY + 4 * 32
        assert again.state.knowledge.current.digest == current
        assert again.state.knowledge.unfitted == unfitted
    assert not verify(path).damaged


def test_a_checkpoint_is_written_while_the_ledger_is_used(tmp_path: Path) -> None:
    ledger = ledger_module.Ledger.open(tmp_path / "a.ledger", identity={}, budget=BUDGET)
    for number in range(200):
        ledger.settle(ledger.reserve(f"k{number}", "measure", 1, {"q": number}), {"value": 1})
    assert ledger.noted("checkpoint")
    assert len(ledger.noted("checkpoint")) <= 3
    ledger.verify()
    ledger.close()


def test_an_index_of_earlier_versions_is_read_and_replaced(paths: dict[int, Path], tmp_path: Path) -> None:
    """It covered counts alone, in one piece, and named a stored snapshot."""
    path = tmp_path / "a.ledger"
    private = made(path, SHORT, indexed=False)
    counts = [number for number in range(SHORT) if number % GROUPED]
    with ledger_module.Ledger.open(path, identity=private.identity, budget=BUDGET) as ledger:
        journal = journal_module.Journal(ledger)
        stored = journal.latest()
        assert stored is not None
        reserved = [ledger.reservation(key_of(question(number))) for number in range(SHORT)]
        places = [one.settled for one in reserved if one is not None]
        forms = {
            number: essential(asked.compile(DOMAIN))
            for number in counts
            if isinstance(asked := question(number), Range)
        }
        entries = [(places[number], form.digest) for number, form in forms.items()]
        index = Index.of(entries)
        data = zlib.compress(json.dumps(index.to_list()).encode(), 1)
        payload = {
            "index": sha256(data),
            "others": [places[number] for number in range(SHORT) if not number % GROUPED],
            "purchases": SHORT,
            "snapshot": stored.snapshot.digest,
            "unfitted": SHORT,
        }
        ledger.append("knowledge", payload, blobs=[data])
    with opened(path) as session:
        assert len(session.state.knowledge.queries) == len(counts)
        assert len(session.state.knowledge.groups) == SHORT - len(counts)
        for place in range(40):
            session.ask(rt.count((rt.col("a") == place % 32) | (rt.col("b") == 31 - place // 2)), error=0.001)
    last = [event for event in verify(path).events if event.kind == "knowledge"][-1]
    assert "segments" in last.payload
    assert not verify(path).damaged
    with reading() as read, opened(path) as session:
        assert len(read) <= MOST_READ + EARLY
        assert session.ask(question(GROUPED), error=0.01).origin == "cache"
        assert session.ask(question(1), error=0.01).origin == "cache"


def open_million(path: Path) -> None:
    Session.open(path, table(), BUDGET, warm_start=0, progress=False).close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_events_open_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    made(tmp_path / "a.ledger", 500_000)
    found = alone(open_million, tmp_path / "a.ledger")
    assert found["cpu_seconds"] <= MILLION_SECONDS
    assert found["peak_gib"] <= MILLION_GIB
