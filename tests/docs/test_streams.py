"""Questions that engines are compared on: different ones, where there are enough."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import online
from benchmarks.online_rivals import STREAMS, cached, different, stream

import reticent as rt

DOMAIN = rt.Domain(dict.fromkeys("abcdefg", 6))


@pytest.mark.parametrize("name", ["cells", "boxes", "wide boxes"])
def test_questions_of_a_stream_differ(name: str) -> None:
    assert different(stream(name, DOMAIN, 400)) == 400


@pytest.mark.parametrize("name", ["repeats", "GROUP BYs"])
def test_a_kind_with_too_few_of_them_repeats_itself(name: str) -> None:
    questions = stream(name, DOMAIN, 400)
    assert len(questions) == 400
    assert different(questions) <= 200
    assert [q.digest for q in questions] == [q.digest for q in drawn(name, 400)]


def drawn(name: str, length: int) -> list:
    generator = np.random.default_rng(7)
    return [STREAMS[name](DOMAIN, generator) for _ in range(length)]


def test_repeats_are_free_and_count_as_answered() -> None:
    questions = stream("GROUP BYs", DOMAIN, 400)
    assert cached(questions, lambda _: 0) == 400


class Wrong:
    """A session whose answers to every third question leave their bounds."""

    spent, certificates = 0, [type("Certificate", (), {"bound": 0.1})]
    domain = DOMAIN

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, query: object) -> object:
        self.asked += 1
        return type("Answer", (), {"value": 0.2 if self.asked % 3 == 0 else 0.05, "error": 0.1})


def test_missed_bounds_are_counted_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "true_share", lambda *_: 0.0)
    marks = online.certificate_marks(Wrong(), np.zeros(DOMAIN.shape), 30)  # pyright: ignore[reportArgumentType]
    assert (marks["asked"], marks["missed"], marks["largest"]) == (30, 10, 0.2)
