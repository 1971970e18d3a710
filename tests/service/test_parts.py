"""The parts of the service alone: tokens, buckets, ticks, metrics, settings, refusals."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.errors import BudgetError, LedgerError, QueryError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.minimizers.solvers import MOST_WORK
from reticent.service import paid_answers
from reticent.service.admission import Buckets
from reticent.service.auth import Tokens
from reticent.service.http.problems import TITLES, HttpProblem, problem_of
from reticent.service.metrics import Forward, Log, Metrics
from reticent.service.paid_answers import Ticks
from reticent.service.settings import LONGEST_DETAIL, Settings, TableSettings, read_settings


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    now = [0.0]
    buckets = Buckets(rate=2.0, burst=3.0, clock=lambda: now[0])
    for _ in range(3):
        buckets.take("a")
    with pytest.raises(HttpProblem) as caught:
        buckets.take("a")
    assert caught.value.status == 429
    assert caught.value.retry_after == 1
    buckets.take("b")
    now[0] = 0.5
    buckets.take("a")
    with pytest.raises(HttpProblem):
        buckets.take("a")


class Clock:
    """A clock that only sleeping moves: what waits for how long is exact on the busiest machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(paid_answers, "time", self)
        monkeypatch.setattr(paid_answers, "asyncio", SimpleNamespace(sleep=self.pause))

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds

    async def pause(self, seconds: float) -> None:
        self.sleep(seconds)


def test_paid_answers_leave_at_multiples_of_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    for arrival in (0.0, 0.125, 0.3, 1.249, 7.99):
        clock.now = arrival
        asyncio.run(Ticks(0.25).wait())
        assert clock.now == pytest.approx(0.25 * (arrival // 0.25 + 1), abs=1e-12)
    asyncio.run(Ticks(0.0).wait())
    assert clock.now == 8


def test_the_paying_thread_is_held_for_what_the_public_work_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(paid_answers, "seconds_per_cell", lambda: 1e-6)
    for spent in (0.0, 0.05, 0.1, 3.0):
        begun = clock.now
        clock.now += spent
        Ticks(0.01).hold(begun, 100_000)
        assert clock.now - begun == pytest.approx(max(0.1, spent))
    begun = clock.now
    Ticks(0.0).hold(begun, 100_000)
    Ticks(0.01).hold(begun, 0)
    assert clock.now == begun
    assert paid_answers.longest() == pytest.approx(1e-6 * MOST_WORK)


def test_tokens_of_another_process_are_seen_at_once(tmp_path: Path) -> None:
    writer, reader = Tokens(tmp_path / "t"), Tokens(tmp_path / "t")
    principal, text = writer.create("ada", "analyst")
    assert reader.find(text).name == "ada"
    writer.revoke(principal.id)
    with pytest.raises(HttpProblem):
        reader.find(text)


def test_a_name_has_one_valid_token_at_a_time(tmp_path: Path) -> None:
    now = [1000.0]
    tokens = Tokens(tmp_path / "t", clock=lambda: now[0])
    _, text = tokens.create("ada", "analyst", expires=1500)
    with pytest.raises(HttpProblem, match="rotate"):
        tokens.create("ada", "analyst")
    assert tokens.find(text)
    now[0] = 1500.0
    with pytest.raises(HttpProblem):
        tokens.find(text)
    assert tokens.create("ada", "analyst")[0].name == "ada"
    for bad in ("", "Ada", "a b", "a" * 41, "-a", "a\n"):
        with pytest.raises(HttpProblem):
            tokens.create(bad, "analyst")


def test_metrics_of_several_processes_add_up(tmp_path: Path) -> None:
    rows = [Metrics(tmp_path / "m", row, 2) for row in range(2)]
    for metrics in rows:
        metrics.request("ask", 200)
        metrics.answered("certificate", False, 0.002)
    text = rows[0].text([], private=True)
    assert 'reticent_requests_total{route="ask",status="2xx"} 2' in text
    assert 'reticent_answers_total{origin="certificate"} 2' in text
    assert 'reticent_answer_seconds_bucket{kind="free",le="0.0025"} 2' in text
    assert 'reticent_answer_seconds_bucket{kind="free",le="0.001"} 0' in text


def test_problems_have_known_types_and_keep_the_amounts() -> None:
    problem = problem_of(BudgetError("too dear", requested=2.0, remaining=1.0))
    assert (problem.status, problem.facts) == (402, {"requested": 2.0, "remaining": 1.0})
    assert problem_of(LedgerError("the ledger failed to write")).status == 503
    assert all(400 <= status < 600 for status, _ in TITLES.values())


def test_details_are_short_and_one_line() -> None:
    """A question of 5,000 characters came back whole."""
    long = HttpProblem("question", "unknown\n" + "x" * 5000)
    assert len(long.detail) == LONGEST_DETAIL
    assert long.detail.startswith("unknown xxx")
    assert long.detail.endswith("...")
    assert len(long.body()) < 2 * LONGEST_DETAIL
    assert len(problem_of(QueryError("y" * 5000)).detail) <= LONGEST_DETAIL
    assert len(problem_of(BudgetError("z" * 5000, requested=1.0, remaining=0.0)).detail) == LONGEST_DETAIL


def test_a_writers_connection_outlives_what_readers_keep() -> None:
    """Both were five seconds: a connection was closed at the moment it was used again."""
    from reticent.service.readers.reader import to_writer
    from reticent.service.server import configuration

    settings = Settings(tables=(TableSettings("t", "t", "d", "l", epsilon=1.0),), tokens="x")
    writer, public = (configuration(None, settings, public=open_) for open_ in (False, True))
    pool = to_writer(Path("writer.sock"))._pool
    assert pool._keepalive_expiry is not None
    assert pool._keepalive_expiry * 2 < writer.timeout_keep_alive
    assert pool._max_connections > 10_000, "paid questions that wait must not hold up other requests"
    assert public.timeout_keep_alive > 60, "longer than proxies and clients keep theirs"


def test_the_web_servers_own_messages_are_whole_and_quote_nobody() -> None:
    stream = io.StringIO()
    log = Log("info", stream)
    handler = Forward(log)
    for message, arguments in (
        ("Started server process [%d]", (17,)),
        ("Invalid HTTP request: %s", ("GET /secret",)),
        ("two\nlines", ()),
    ):
        handler.emit(logging.LogRecord("uvicorn", logging.INFO, "", 0, message, arguments, None))
    said = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert said == ["Started server process [17]", "Invalid HTTP request: %s", "two lines"]


def _refusal(act: Callable[[], Any]) -> HttpProblem:
    with pytest.raises(LedgerError) as caught:
        act()
    return problem_of(caught.value)


def test_refusals_of_the_ledger_are_told_apart_by_their_type() -> None:
    ledger = Ledger.memory(budget=Budget(epsilon=1), identity={})
    held = ledger.reserve("k", "measure", 10, {"q": 1}, analyst="alice")
    assert _refusal(lambda: ledger.reserve("k", "measure", 10, {"q": 2}, analyst="alice")).kind == "key-reused"
    assert _refusal(lambda: ledger.reserve("k", "measure", 10, {"q": 1}, analyst="bob")).kind == "key-reused"
    busy = _refusal(lambda: ledger.reserve("k", "measure", 10, {"q": 1}, analyst="alice"))
    assert (busy.kind, busy.retry_after) == ("busy", 1)
    ledger.abandon(held)
    ledger.abandon(ledger.reserve("k", "measure", 10, {"q": 1}, analyst="alice"))  # redeemed once, then lost for good
    assert _refusal(lambda: ledger.reserve("k", "measure", 10, {"q": 1}, analyst="alice")).kind == "forfeited"
    assert _refusal(lambda: ledger.set_cap("alice", 10**30)).kind == "request"
    assert _refusal(lambda: ledger.reserve("k" * 201, "measure", 10, {})).kind == "request"


FILE = """
[server]
port = 9000
tokens = "people"
[tables.census]
table = "census.parquet"
domain = "census.toml"
ledger = "census.ledger"
epsilon = 1.0
delta = 1e-9
[tables.visits]
table = "postgresql://db/visits"
query = "SELECT * FROM visits"
domain = "visits.toml"
ledger = "visits.ledger"
rho = 0.05
"""


def test_a_file_describes_several_tables_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(FILE)
    settings = read_settings(tmp_path / "server.toml", port=9001)
    assert settings.port == 9001
    assert [table.name for table in settings.tables] == ["census", "visits"]
    assert settings.tables[0].table == str(tmp_path / "census.parquet")
    assert settings.tables[1].table == "postgresql://db/visits"
    assert settings.tokens == str(tmp_path / "people")
    assert Settings.from_dict(settings.to_dict()) == settings


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("port = 9000", "prot = 9000"),
        ("epsilon = 1.0\n", ""),
        ('ledger = "visits.ledger"', 'ledger = "census.ledger"'),
        ("[tables.census]", '[tables."a b"]'),
        ("[server]", "[server"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, change: str, complaint: str) -> None:
    text = FILE.replace(change, complaint).replace("delta = 1e-9\n", "" if "epsilon" in change else "delta = 1e-9\n")
    (tmp_path / "server.toml").write_text(text)
    with pytest.raises(QueryError) as caught:
        read_settings(tmp_path / "server.toml")
    assert "\n" not in str(caught.value)
    assert "server.toml" in str(caught.value)


def test_tls_needs_both_files() -> None:
    table = TableSettings("t", "t", "d", "l", epsilon=1.0)
    with pytest.raises(QueryError, match="TLS"):
        Settings(tables=(table,), tokens="x", tls_certificate="c")
