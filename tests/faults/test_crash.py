"""A ledger process is killed at every step: what was said was charged before, and nothing is ever refunded."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reticent.errors import LedgerError
from reticent.kernel.ledger.events import Event
from reticent.kernel.ledger.verify import LedgerStatement, verify

COST = 10
SERVER = Path(__file__).with_name("crash_server.py")


class Harness:
    """One ledger, many lives; `said` is all that ever left a process."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self.server, self.folder = server, folder
        self.path, self.anchor = folder / "a.ledger", folder / "other-volume.anchor"
        self.values: dict[str, str] = {}
        self.refused: set[str] = set()
        self.epochs: set[str] = set()
        self.asked: list[str] = []
        self.spent = 0

    def live(self, keys: list[str], *, fatal: int = 0, epoch: str = "", **order: Any) -> list[dict[str, Any]]:
        """One process's life and what it said; the invariants are checked on the file it left behind."""
        say = self.folder / "said"
        say.unlink(missing_ok=True)
        order |= {"path": str(self.path), "anchor": str(self.anchor), "say": str(say)}
        order |= {"keys": keys, "fatal": fatal, "epoch": epoch}
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        killed = json.loads(self.server.stdout.readline())["killed"]
        facts = [json.loads(line) for line in say.read_text().splitlines()] if say.exists() else []
        assert not [fact for fact in facts if "error" in fact], facts
        assert killed or "steps" in facts[-1], "a life ends by its own hand or by ours"
        self.asked += [key for key in keys if key not in self.asked]
        self._check(facts)
        return facts

    def _check(self, facts: list[dict[str, Any]]) -> None:
        for fact in facts:
            if "value" in fact:  # same key, same bytes, in this life and all before
                assert self.values.setdefault(fact["key"], fact["value"]) == fact["value"]
            if "refused" in fact:
                assert "stays charged" in fact["refused"]
                self.refused.add(fact["key"])
            if "below" in fact:
                self.epochs.add(fact["key"])
        assert not self.refused & self.values.keys(), "a forfeited key was answered"
        statement = self.statement()
        if statement is not None:
            self._check_file(statement, max((fact.get("spent", 0) for fact in facts), default=0))

    def statement(self) -> LedgerStatement | None:
        """The verified file; None before its first event."""
        try:
            return verify(self.path, anchor=self.anchor)
        except LedgerError:
            assert not self.values
            assert self.spent == 0
            return None

    def _check_file(self, statement: LedgerStatement, said: int) -> None:
        charged = {event.key: event for event in statement.events if event.kind == "reserve"}
        settled = {event.key: event for event in statement.events if event.kind == "settle"}
        for key, value in self.values.items():
            assert settled[key].payload == {"value": value}
            assert charged[key].sequence < settled[key].sequence
        assert self.epochs <= charged.keys()
        assert statement.history.spent == COST * len(charged) + rollbacks(statement.events)
        assert statement.history.spent >= max(self.spent, said), "something was refunded"
        self.spent = statement.history.spent
        redeemed = Counter(event.key for event in statement.events if event.kind == "redeem")
        assert all(times == 1 for times in redeemed.values())


def rollbacks(events: tuple[Event, ...]) -> int:
    return sum(event.cost for event in events if event.kind == "rollback")


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def harness(server: subprocess.Popen[str]) -> Iterator[Harness]:
    # A killed process loses nothing the system already took, flushed or not: memory serves as well as a disk.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Harness(server, Path(folder))


def sweep(harness: Harness, rounds: int) -> None:
    """Die at step 1, 2, 3, ...; every life first retries the keys of the last two."""
    killed = fatal = 0
    while killed < rounds:
        fatal += 1
        keys = [*harness.asked[-2:], f"key-{killed}"]
        facts = harness.live(keys, fatal=fatal, epoch=f"epoch-{killed}")
        if facts and "steps" in facts[-1]:
            fatal = 0  # outlived its step: every step of a life has been fatal once
        killed += 1
    # Whoever comes back with an old key gets its bytes, its one redemption, or a clear refusal.
    harness.live(harness.asked)
    assert set(harness.asked) == harness.values.keys() | harness.refused


def test_a_process_killed_at_every_step_of_its_first_life(harness: Harness) -> None:
    steps = harness.live(["a", "b"], epoch="e")[-1]["steps"]
    assert steps > 60
    for fatal in range(1, steps + 1):
        folder = harness.folder / str(fatal)
        folder.mkdir()
        young = Harness(harness.server, folder)
        young.live(["a", "b"], fatal=fatal, epoch="e")
        young.live(["a", "b"])
        assert young.values.keys() == {"a", "b"}, "one crash costs no answer"
        shutil.rmtree(folder)


def test_hundreds_of_lives_on_one_ledger(harness: Harness) -> None:
    sweep(harness, 240)
    assert len(harness.values) > 80


def test_killed_at_any_moment_from_outside(server: subprocess.Popen[str], tmp_path: Path) -> None:
    harness = Harness(server, tmp_path)  # on the disk: kills fall inside commits and flushes too
    generator = random.Random(5)
    for life in range(60):
        keys = [*harness.asked[-3:], *(f"key-{life}-{i}" for i in range(8))]
        harness.live(keys, epoch=f"epoch-{life}", patience=generator.uniform(0.001, 0.025))
    harness.live(harness.asked)
    assert set(harness.asked) == harness.values.keys() | harness.refused


def test_recovery_from_a_rollback_survives_a_kill_at_every_step(harness: Harness) -> None:
    harness.live(["a"])
    shutil.copy(harness.path, harness.folder / "copy")
    harness.live(["b", "c"])
    saw, marks = harness.spent, harness.anchor.read_bytes()
    for fatal in range(1, 200):
        shutil.copy(harness.folder / "copy", harness.path)
        for leftover in ("-wal", "-shm"):
            Path(f"{harness.path}{leftover}").unlink(missing_ok=True)
        harness.anchor.write_bytes(marks)
        facts = attempt(harness, fatal)
        statement = verify(harness.path, anchor=harness.anchor) if attempt(harness, 0) else None
        assert statement is not None
        assert statement.history.spent >= saw
        if facts and "steps" in facts[-1]:
            return
    pytest.fail("recovery never ended")


def attempt(harness: Harness, fatal: int) -> list[dict[str, Any]]:
    """A recovery without the harness's memory: the file was rolled back on purpose."""
    fresh = Harness(harness.server, harness.folder)
    fresh.statement = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    return fresh.live([], fatal=fatal, accept=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousands_of_lives(server: subprocess.Popen[str], tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        sweep(Harness(server, folder), 300)
