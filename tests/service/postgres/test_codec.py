"""Bytes of a client: any split gives the same messages, any garbage a clean refusal."""

from __future__ import annotations

import datetime
import math
import struct
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.service.auth import verifier_of
from reticent.service.postgres.commands import Read, commands_of
from reticent.service.postgres.failures import ProtocolViolation, Refusal
from reticent.service.postgres.framing import Decoder, read_message, startup_parameters
from reticent.service.postgres.lexer import statements_of, tokens_of
from reticent.service.postgres.messages import framed
from reticent.service.postgres.scram import Exchange
from reticent.service.postgres.types import array_items, binary_of, parameter_value, wire_literal, wire_text
from reticent.service.postgres.variables import Variables

LIMIT = 4096
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


def text(value: str) -> bytes:
    return value.encode() + b"\0"


MESSAGES = st.one_of(
    NAMES.map(lambda sql: framed(b"Q", text(sql))),
    st.tuples(NAMES, NAMES).map(lambda n: framed(b"P", text(n[0]) + text(n[1]) + b"\0\1\0\0\0\x17")),
    NAMES.map(lambda n: framed(b"B", text(n) + text("") + b"\0\0\0\1\0\0\0\2ab\0\0")),
    NAMES.map(lambda n: framed(b"D", b"P" + text(n))),
    NAMES.map(lambda n: framed(b"E", text(n) + struct.pack("!i", 5))),
    st.sampled_from([framed(b"S", b""), framed(b"H", b""), framed(b"X", b"")]),
)


def read_all(decoder: Decoder) -> list[Any]:
    found = []
    while (message := decoder.message()) is not None:
        found.append(read_message(*message))
    return found


def signed_in() -> Decoder:
    decoder = Decoder(LIMIT)
    decoder.signed_in = True
    return decoder


@given(st.lists(MESSAGES, max_size=8), st.data())
def test_any_split_of_the_stream_gives_the_same_messages(messages: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(messages)
    whole = signed_in()
    whole.feed(stream)
    pieces, found, place = signed_in(), [], 0
    while place < len(stream):
        size = data.draw(st.integers(1, 30))
        pieces.feed(stream[place : place + size])
        found += read_all(pieces)
        place += size
    assert found == read_all(whole)
    assert len(found) == len(messages)
    assert pieces.held == 0


@given(st.binary(max_size=300))
def test_garbage_is_a_refusal_and_nothing_else(data: bytes) -> None:
    for decoder in (Decoder(LIMIT), signed_in()):
        decoder.feed(data)
        try:
            read_all(decoder)
        except Refusal:
            continue
        assert decoder.held <= len(data)
    decoder = Decoder(LIMIT)
    decoder.feed(data)
    with suppress(Refusal):
        decoder.startup()
        startup_parameters(data)


@given(st.sampled_from(list(b"QPBDECpHSX")), st.binary(max_size=200))
def test_a_broken_body_is_a_refusal_and_nothing_else(kind: int, body: bytes) -> None:
    with suppress(Refusal):
        read_message(bytes([kind]), body)


def test_a_message_that_states_too_much_is_refused_by_its_head() -> None:
    decoder = signed_in()
    decoder.feed(b"Q" + struct.pack("!i", LIMIT + 5))
    with pytest.raises(ProtocolViolation, match="at most 4096") as refused:
        decoder.message()
    assert refused.value.state == "54000"


@given(st.text(st.sampled_from(list("selectfrom '\"$1;(.)-/*E\\=é")) | st.characters(), max_size=80))
def test_any_text_has_statements_or_a_refusal(sql: str) -> None:
    with suppress(Refusal):
        for statement, tokens in statements_of(sql):
            assert statement[tokens[0].start :]
        for command in commands_of(sql):
            if isinstance(command, Read):
                command.bound([None] * command.parameters, typed=False)
                assert command.of_catalog in (True, False)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50))
def test_a_text_parameter_stays_one_literal(value: str) -> None:
    """Whatever a value holds, it ends no literal and begins no other token."""
    tokens = tokens_of(f"SELECT {wire_literal(value)} FROM t")
    assert [token.kind for token in tokens] == ["word", "string", "word", "word"]
    assert tokens[1].text == value


VALUES = st.one_of(
    st.booleans().map(lambda v: (v, 16)),
    st.integers(-(2**63), 2**63 - 1).map(lambda v: (v, 20)),
    st.integers(-(2**15), 2**15 - 1).map(lambda v: (v, 21)),
    st.floats(allow_nan=False).map(lambda v: (v, 701)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda v: (v, 25)),
    st.dates().map(lambda v: (v, 1082)),
    st.datetimes().map(lambda v: (v, 1114)),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12).map(
        lambda v: (v, 1700)
    ),
    st.lists(st.none() | st.integers(-9, 9), max_size=4).map(lambda v: (v, 1016)),
    st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=4).map(
        lambda v: (v, 1009)
    ),
)


@given(VALUES)
def test_values_survive_both_formats(pair: tuple[Any, int]) -> None:
    value, oid = pair
    assert parameter_value(binary_of(value, oid), oid, 1) == value
    assert parameter_value(wire_text(value).encode(), oid, 0) == value


@given(st.binary(max_size=60), st.sampled_from([16, 20, 21, 23, 25, 26, 700, 701, 1082, 1114, 1700, 1009, 1016, 9999]))
def test_broken_values_are_refused(data: bytes, oid: int) -> None:
    for form in (0, 1):
        with suppress(Refusal):
            wire_literal(parameter_value(data, oid, form))


def test_numbers_are_written_as_postgresql_writes_them() -> None:
    shown = [
        wire_text(value) for value in (5000.0, 0.1, math.nan, math.inf, -math.inf, True, [1, None, 2], ["a b", ""])
    ]
    assert shown == ["5000", "0.1", "NaN", "Infinity", "-Infinity", "t", "{1,NULL,2}", '{"a b",""}']
    # 12345.678 of NUMERIC, as numeric_send writes it.
    assert binary_of(Decimal("12345.678"), 1700) == struct.pack("!hhHhhhh", 3, 1, 0, 3, 1, 2345, 6780)
    assert binary_of(datetime.date(2000, 1, 2), 1082) == b"\0\0\0\1"


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_broken_password_exchange_is_refused(first: bytes, last: bytes) -> None:
    exchange = Exchange(VERIFIER)
    with suppress(ProtocolViolation):
        exchange.first(first)
        assert exchange.last(last) is None


VERIFIER = verifier_of("rt_token")


@given(st.sampled_from(["reticent.error", "reticent.confidence", "statement_timeout", "reticent.errors"]), st.text())
@settings(max_examples=200)
def test_a_setting_is_understood_or_refused(name: str, value: str) -> None:
    variables = Variables()
    with suppress(Refusal):
        variables.set(name, value)
    assert variables.terms is not None
    assert (variables.statement_seconds or 0) >= 0


@pytest.mark.parametrize(
    ("sql", "parameters", "wanted"),
    [
        ("SELECT count(*) FROM public.t", [], "select count(*) from t"),
        ('SELECT COUNT(*) AS Total, "A b" FROM T', [], 'select count(*) as total, "A b" from t'),
        ('SELECT "public"."t"."a" FROM "public"."t"', [], 'select "t"."a" from "t"'),
        ("SELECT 1 FROM t WHERE a = $1::VARCHAR(20)", ["it's"], "select 1 from t where a = 'it''s'"),
        ("SELECT 1 FROM t WHERE a = ANY($1)", [["x", "y"]], "select 1 from t where a IN ('x', 'y')"),
        ("SELECT 1 FROM t WHERE a = ANY($1::text[])", ['{x,"y z"}'], "select 1 from t where a IN ('x', 'y z')"),
        ("SELECT '$1' FROM t WHERE a < $1 -- $2", [-5], "select '$1' from t where a < (-5)"),
    ],
)
def test_what_reaches_the_question_parser(sql: str, parameters: list[Any], wanted: str) -> None:
    (command,) = commands_of(sql)
    assert isinstance(command, Read)
    assert command.bound(parameters, typed=False) == wanted


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"E'a'", "'a'"),
        (r"e'it\'s'", "'it''s'"),
        (r"E'it''s\\'", "'it''s\\'"),
        (r"E'\n\t\x41\x9\101\u00e9\U0001F600\q'", "'\n\tA\tA\u00e9\U0001f600q'"),
    ],
)
def test_escapes_are_those_of_postgresql(written: str, read: str) -> None:
    (command,) = commands_of(f"SELECT 1 FROM t WHERE a = {written} AND b = $1")
    assert isinstance(command, Read)
    assert command.bound([2], typed=False) == f"select 1 from t where a = {read} and b = 2"


@pytest.mark.parametrize(
    ("sql", "state", "said"),
    [
        (r"SELECT 1 FROM t WHERE a = E'\xC3\xA9'", "42601", "is a byte and no character"),
        (r"SELECT 1 FROM t WHERE a = E'\u0000'", "42601", "is no character"),
        (r"SELECT 1 FROM t WHERE a = E'\377'", "42601", "is a byte"),
        (r"SELECT 1 FROM t WHERE a = E'\ud800'", "42601", "is no character"),
        ("SELECT generate_series(1, 3)", "0A000", "makes rows"),
        ("SELECT a FROM (SELECT generate_series(1, 3) AS a) AS s", "0A000", "makes rows"),
        ("LISTEN news", "0A000", "sends no notifications"),
        ("NOTIFY news", "0A000", "sends no notifications"),
    ],
)
def test_what_is_not_supported_is_said_in_a_line(sql: str, state: str, said: str) -> None:
    with pytest.raises(Refusal, match=said) as refused:
        commands_of(sql)
    assert refused.value.state == state
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM generate_series(1, 3)", "SELECT unnest(generate_series(1, 3))", "UNLISTEN *", "DISCARD ALL"]
)
def test_what_pools_and_tools_send_stays(sql: str) -> None:
    assert len(commands_of(sql)) == 1


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{ }", []),
        ('{r, "v"}', ["r", "v"]),
        (' { "a b" , NULL,"NULL" } ', ["a b", None, "NULL"]),
        ('{"a\\"b"}', ['a"b']),
    ],
)
def test_space_around_the_items_of_an_array_means_nothing(text: str, items: list[str | None]) -> None:
    assert array_items(text) == items


@pytest.mark.parametrize("text", ["{a,}", "{,}", "{a, }", "{ ,a}", '{"a" b}', '{"a', "a,b", "{{a}}", "{"])
def test_a_broken_array_is_no_array(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        array_items(text)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT count(*) FROM t WHERE a = 'x' COLLATE \"C\"", "SELECT count(*) FROM t WHERE a = 'x' "),
        ('SELECT a FROM t ORDER BY a COLLATE pg_catalog."default" DESC', "SELECT a FROM t ORDER BY a  DESC"),
        ('SELECT a COLLATE "de_DE" FROM t', 'SELECT a COLLATE "de_DE" FROM t'),
    ],
)
def test_the_collation_that_holds_here_need_not_be_named(sql: str, wanted: str) -> None:
    (command,) = commands_of(sql)
    assert isinstance(command, Read)
    assert command.bound((), typed=False).lower() == wanted.lower()
