"""A count that is put together from known parts is the count that the parser of whole bodies reads."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.service.serving import DOMAIN, survey_settings

from reticent.knowledge.request import Request
from reticent.queries.from_dict import query_from_dict
from reticent.queries.linear import Count
from reticent.queries.predicate import predicate_from_dict
from reticent.service.count_text import KEPT_ARRANGEMENTS, KEPT_COMPARISONS, CountReader
from reticent.service.http.head_limits import timed_head_protocol
from reticent.service.requests import QuestionParser

SETTINGS = survey_settings(Path())
LEAVES: list[Any] = [
    {"op": ">=", "column": "age", "value": 45},
    {"op": "<", "column": "age", "value": 65},
    {"op": "in", "column": "sex", "values": ["Male", "Female"]},
    {"op": "==", "column": "smoker", "value": "yes"},
    {"op": "is_null", "column": "smoker"},
    {"op": "!=", "column": "region", "value": "we}st{"},
    {"op": "==", "column": "region", "value": '{"op": "everything"}'},
    {"op": "==", "column": "region", "value": 'a\\"},{"b'},
    {"op": "everything"},
]


def grown(generator: random.Random, depth: int) -> Any:
    kind = generator.choice(["leaf", "and", "or", "not"]) if depth else "leaf"
    if kind == "leaf":
        return generator.choice(LEAVES)
    if kind == "not":
        return {"op": "not", "of": grown(generator, depth - 1)}
    return {"op": kind, "of": [grown(generator, depth - 1) for _ in range(generator.randint(2, 4))]}


def question(where: Any) -> bytes:
    return json.dumps({"query": {"query": "count", "where": where}}).encode()


def test_a_new_combination_of_known_parts_is_the_same_count() -> None:
    generator, reader, read = random.Random(1), CountReader(), 0
    for _ in range(1500):
        where = grown(generator, 3)
        body = question(where)
        expected, found = query_from_dict({"query": "count", "where": where}), reader.read(body)
        if found is not None:
            read += 1
            assert found.text == expected.text
            assert found.to_dict() == expected.to_dict()
            assert found.compile(DOMAIN).digest == Count(predicate_from_dict(where)).compile(DOMAIN).digest
        reader.learn(body)
    assert read > 300


def test_arrangements_are_learned_of_counts_without_terms_only() -> None:
    parser = QuestionParser(DOMAIN, SETTINGS, 0.95, "survey")
    where = {"op": "and", "of": LEAVES[:2]}
    for content in (
        {"query": {"query": "count", "where": where}, "confidence": 0.5},
        {"query": {"query": "total", "column": "age", "where": where}},
    ):
        body = json.dumps(content).encode()
        request = parser.light_request(body)
        assert request is not None
        again = parser.light_request(body)
        assert again is not None
        assert again.confidence == request.confidence
        assert again.question.text == request.question.text  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "text",
    [
        '{"query": {"query": "count", "where": {"op": "and", "of": [0, {"op": "is_null", "column": "smoker"}]}}}',
        '{"query": {"query": "count", "where": {"op": "and", "of": [{"op": "is_null", "column": "smoker"}]}}}',
        '{"query": {"query": "count", "where": {"op": "xor", "of": [{"op": "is_null", "column": "smoker"}]}}}',
        '{"query": {"query": "count", "where": 0}}',
        '{"query": {"query": "count"}}',
        '{"query": {}}',
        "{}",
        "",
        "[]",
    ],
)
def test_what_the_parser_refuses_is_refused_after_any_learning(text: str) -> None:
    parser = QuestionParser(DOMAIN, SETTINGS, 0.95, "survey")
    parser.light_request(question({"op": "and", "of": LEAVES[:2]}))

    first = told(parser.light_request, text)
    assert told(parser.light_request, text) == first
    assert told(QuestionParser(DOMAIN, SETTINGS, 0.95, "survey").light_request, text) == first


def told(read: Callable[[bytes], Request | None], text: str) -> str:
    """The question, or what is wrong with it."""
    try:
        request = read(text.encode())
    except Exception as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return "" if request is None else repr(request.question)


def test_what_is_remembered_is_limited() -> None:
    reader = CountReader()
    for place in range(KEPT_COMPARISONS + 10):
        body = question({"op": "==", "column": "age", "value": place})
        reader.learn(body)
        assert reader.read(body) is not None
    for depth in range(KEPT_ARRANGEMENTS + 10):
        reader.learn(question(LEAVES[0]).replace(b'"where": ', b'"where": ' + b" " * depth))
    assert len(vars(reader)["_comparisons"]) <= KEPT_COMPARISONS
    assert len(vars(reader)["_arrangements"]) <= KEPT_ARRANGEMENTS


@dataclass
class Clock:
    """A loop whose time stands still until it is moved."""

    now: float = 0.0
    timers: list[tuple[float, Any]] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Any) -> Any:
        self.timers.append((self.now + delay, call))
        return call


def test_a_quick_answer_keeps_its_connection_open_for_the_whole_idle_time() -> None:
    kind = timed_head_protocol(10.0, lambda data, headers: b"answer")
    protocol: Any = object.__new__(kind)
    closed: list[bool] = []

    class Transport:
        write = staticmethod(lambda data: None)
        is_closing = staticmethod(lambda: bool(closed))
        close = staticmethod(lambda: closed.append(True))

    class State:
        default_headers: list[Any] = []  # noqa: RUF012
        total_requests = 0

    class Flow:
        write_paused = False

    protocol.cycle, protocol.pipeline, protocol.flow, protocol.transport = None, [], Flow, Transport
    protocol.server_state, protocol.loop = State, Clock()
    protocol.timeout_keep_alive, protocol.timeout_keep_alive_task = 5.0, None
    protocol.data_received(b"first")
    protocol.loop.now = 4.0
    protocol.data_received(b"second")
    assert len(protocol.loop.timers) == 1
    assert State.total_requests == 2
    protocol.loop.now, call = protocol.loop.timers[-1]
    call()
    assert not closed, "only a second has passed since the last answer"
    protocol.loop.now, call = protocol.loop.timers[-1]
    assert protocol.loop.now == 9.0
    call()
    assert closed
