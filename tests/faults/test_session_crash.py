"""A session is killed at every step: what was said was paid before, is said again in the same bytes, and stays paid."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reticent.kernel.ledger.verify import verify

SERVER = Path(__file__).with_name("session_server.py")


class Lives:
    """One ledger, many processes; `answers` is all that ever left one under a key."""

    def __init__(self, server: subprocess.Popen[str], folder: Path, engine: str) -> None:
        self.server, self.folder, self.engine = server, folder, engine
        self.path, self.anchor = folder / "a.ledger", folder / "other-volume.anchor"
        self.answers: dict[int, dict[str, Any]] = {}
        self.refused: set[int] = set()
        self.free: dict[str, Any] | None = None
        self.spent = 0.0
        self.killed = 0

    def live(self, numbers: list[int], fatal: int = 0) -> list[dict[str, Any]]:
        say = self.folder / "said"
        say.unlink(missing_ok=True)
        order = {"path": str(self.path), "anchor": str(self.anchor), "say": str(say)}
        order |= {"numbers": numbers, "fatal": fatal, "engine": self.engine}
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        killed = json.loads(self.server.stdout.readline())["killed"]
        self.killed += killed
        facts = [json.loads(line) for line in say.read_text().splitlines()] if say.exists() else []
        assert not [fact for fact in facts if "error" in fact], facts
        assert killed or "steps" in facts[-1], facts
        for fact in facts:
            self._check(fact)
        if self.path.exists() and (self.spent or self.answers):
            statement = verify(self.path, anchor=self.anchor)
            assert statement.history.spent >= round(self.spent * 1e9), "something was refunded"
        return facts

    def _check(self, fact: dict[str, Any]) -> None:
        if "spent" in fact:
            assert fact["spent"] >= self.spent, "something was refunded"
            self.spent = fact["spent"]
        if "answer" in fact and fact["answer"]["price"] > 0:
            known = self.answers.setdefault(fact["number"], fact["answer"])
            assert known == fact["answer"], "same key, other bytes"
        if "refused" in fact:
            assert "stays charged" in fact["refused"]
            self.refused.add(fact["number"])
        if fact.get("free"):
            # Free answers follow from what is known: another one only if something better was bought meanwhile.
            earlier, now = self.free or fact["free"], fact["free"]
            better = now["error"] < earlier["error"]
            assert better or (now["value"], now["snapshot"]) == (earlier["value"], earlier["snapshot"])
            self.free = now


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    # A killed process loses nothing the system already took, flushed or not: memory serves as well as a disk.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def sweep(lives: Lives, rounds: int, stride: int = 1) -> None:
    """Die at step 1, 1 + stride, ...; every life first retries the questions of the last two."""
    fatal, asked = 1, 0
    for _ in range(rounds):
        numbers = [*range(max(0, asked - 2), asked), asked]
        facts = lives.live(numbers, fatal)
        if any("number" in fact for fact in facts):
            asked += 1
        # outlived its step: every step of a life has been fatal once
        fatal = 1 if facts and "steps" in facts[-1] else fatal + stride
    facts = lives.live(list(range(asked)))
    assert "steps" in facts[-1]
    assert lives.killed > rounds / 2


@pytest.mark.parametrize("engine", ["default", "tuned"])
def test_the_first_life_killed_at_every_step_loses_nothing(
    server: subprocess.Popen[str], folder: Path, engine: str
) -> None:
    probe = Lives(server, folder, engine)
    steps = probe.live([1, 2])[-1]["steps"]
    assert steps > 100
    for fatal in range(1, steps, max(1, steps // 20)):
        inner = folder / str(fatal)
        inner.mkdir()
        lives = Lives(server, inner, engine)
        lives.live([1, 2], fatal)
        facts = lives.live([1, 2])
        assert "steps" in facts[-1]
        assert not lives.refused, "one crash costs no answer"


@pytest.mark.parametrize("engine", ["default", "tuned"])
def test_many_lives_on_one_ledger(server: subprocess.Popen[str], folder: Path, engine: str) -> None:
    sweep(Lives(server, folder, engine), 80, stride=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ["default", "tuned"])
def test_thousands_of_lives(server: subprocess.Popen[str], folder: Path, engine: str) -> None:
    for number in range(5):
        inner = folder / str(number)
        inner.mkdir()
        sweep(Lives(server, inner, engine), 300)
