"""Sessions on long ledgers: nothing learned is learned again, nothing bought is lost, and readers keep up."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.session_tables import forbidden, table

import reticent as rt
from reticent.kernel.ledger.events import sha256
from reticent.kernel.ledger.verify import verify
from reticent.kernel.mechanisms.base import Gaussian
from reticent.knowledge.free import free_answer
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.measured import ByDigest, Index, MeasuredQuery, StoredItems
from reticent.knowledge.request import Request
from reticent.service.readers import follower as follower_module
from reticent.service.readers.follower import Follower
from reticent.sessions import journal as journal_module
from reticent.sessions import resume as resume_module
from reticent.sessions import state as state_module

BUDGET = rt.Budget(rho=1)
FIRST = [rt.count((rt.col("a") >= a) & (rt.col("c") <= c)) for a in range(1, 3) for c in range(3)]
LATER = [rt.count((rt.col("b") >= 1) & (rt.col("c") >= c)) for c in range(1, 4)]


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "LEAST_INDEXED", 4)
    monkeypatch.setattr(state_module, "LEAST_INDEXED", 4)


def opened(path: Path, private: rt.Table | None = None) -> rt.Session:
    return rt.Session.open(path, table() if private is None else private, BUDGET, warm_start=0.02)


def buy(session: rt.Session, questions: list) -> list[bytes]:
    return [np.asarray(session.ask(question, error=0.0006).value).tobytes() for question in questions]


def free(known: rt.Session | Knowledge, questions: list) -> list[bytes]:
    knowledge = known if isinstance(known, Knowledge) else known.state.knowledge
    answers = [free_answer(knowledge, Request(question)) for question in questions]
    return [np.asarray(answer.value).tobytes() for answer in answers if answer is not None]


def damage(path: Path, digest: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("UPDATE blobs SET data = x'00' WHERE digest = ?", (digest,)).rowcount == 1
        connection.commit()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


def test_an_indexed_session_knows_everything_without_learning_it_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as session:
        bought = buy(session, [*FIRST, rt.marginal("a", "e"), *LATER])
        current, unfitted = session.state.knowledge.current.digest, session.state.knowledge.unfitted
        asked = free(session, [*FIRST, *LATER])
        measured = len(session.state.knowledge.queries)
    assert [event.kind for event in verify(path).events].count("knowledge") >= 1
    learned: list[int] = []
    understood = resume_module.understood

    def counted(*arguments: object, **options: object) -> object:
        learned.append(1)
        return understood(*arguments, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(resume_module, "understood", counted)
    with opened(path, forbidden(table())) as session:
        assert len(learned) < len(FIRST)
        assert session.state.knowledge.current.digest == current, "the working hypothesis is the same to the bit"
        assert session.state.knowledge.unfitted == unfitted
        assert len(session.state.knowledge.queries) == measured
        assert free(session, [*FIRST, *LATER]) == asked
        spent = session.spent
        assert buy(session, [*FIRST, rt.marginal("a", "e"), *LATER]) == bought
        assert session.spent == spent, "what was bought is free"


def test_an_index_changes_no_refit(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as session:
        buy(session, [*FIRST, *LATER])
    for end in ("", ".anchor"):
        (tmp_path / f"b.ledger{end}").write_bytes((tmp_path / f"a.ledger{end}").read_bytes())
    with opened(path) as session:
        session.refit()
        indexed = session.state.knowledge.current.digest
    monkeypatch.setattr(journal_module.Journal, "learned", lambda _: None)
    with opened(tmp_path / "b.ledger") as session:
        session.refit()
        assert session.state.knowledge.current.digest == indexed


def test_a_damaged_index_costs_time_only(path: Path) -> None:
    with opened(path) as session:
        bought = buy(session, FIRST)
        spent = session.spent
    index = [event for event in verify(path).events if event.kind == "knowledge"][-1].payload["segments"][0]
    damage(path, index)
    with opened(path) as session:
        assert buy(session, FIRST) == bought
        assert session.spent == spent


@pytest.mark.parametrize("which", ["first", "last", "all"])
def test_a_damaged_snapshot_leaves_the_ledger_usable_and_charges_nothing(path: Path, which: str) -> None:
    with opened(path) as session:
        bought = buy(session, FIRST)
        session.refit()
        spent = session.spent
    stored = [event.payload["digest"] for event in verify(path).events if event.kind == "snapshot"]
    for digest in {"first": stored[:1], "last": stored[-1:], "all": list(dict.fromkeys(stored))}[which]:
        damage(path, digest)
    assert verify(path).damaged
    with opened(path, forbidden(table())) as session:
        assert session.spent == spent
        assert buy(session, FIRST) == bought
        assert session.spent == spent
    with opened(path) as session:
        assert session.spent == spent


def test_a_follower_takes_in_only_what_is_new_and_knows_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as session:
        buy(session, FIRST)
        follower = Follower(path)
        monkeypatch.setattr(follower_module, "resumed", lambda _: pytest.fail("everything was learned anew"))
        assert not follower.refresh()
        for question in [*LATER, rt.marginal("b", "e")]:
            buy(session, [question])
            assert follower.refresh()
        session.refit()
        session.certify("cells", order=2, amount=0.01)
        assert follower.refresh()
        monkeypatch.undo()
        fresh = Follower(path)
        asked = [*FIRST, *LATER, rt.marginal("b", "e"), rt.count(rt.col("e") == 1)]
        assert free(follower.knowledge, asked) == free(fresh.knowledge, asked) == free(session, asked)
        for reader in (follower, fresh):
            assert reader.knowledge.current.digest == session.state.knowledge.current.digest
            assert reader.knowledge.certificates == session.certificates
            reader.close()


def test_queries_added_one_by_one_leave_earlier_values_alone() -> None:
    noise = Gaussian(1)

    def one(number: int) -> MeasuredQuery:
        return MeasuredQuery(rt.count(), float(number), noise, number)

    digests = [sha256(str(number % 40).encode()) for number in range(100)]
    entries = list(enumerate(digests[:50]))
    segments = [Index.of(entries[:20]), Index.of(entries[20:])]
    kept = [ByDigest(StoredItems(segments, lambda number: [(digests[number], one(number))]))]
    for number in range(50, 100):
        kept.append(kept[-1].adding(digests[number], one(number)))
    for length, queries in enumerate(kept, 50):
        expected: dict[str, list[int]] = {}
        for number in range(length):
            expected.setdefault(digests[number], []).append(number)
        found = {digest: [measured.ledger_id for measured in repeats] for digest, repeats in queries.items()}
        assert found == expected
        assert list(found) == list(expected), "in the order of their first purchase"
        assert len(queries) == len(expected)
        assert sha256(b"40") not in queries
    recent = Index.of([(measured.ledger_id, digest) for digest, measured in kept[-1].recent()])
    joined = segments[0].joined(segments[1]).joined(recent)
    assert sorted(joined.find(digests[7])) == [7, 47, 87]
