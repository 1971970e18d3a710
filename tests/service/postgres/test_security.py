"""Who may not come in at the PostgreSQL door, what may not come in, and how long anybody may take."""

from __future__ import annotations

import os
import socket
import sqlite3
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.service.postgres.doors import OpenDoor, open_door, state_of
from tests.service.serving import bearer, survey_settings

from reticent.errors import QueryError
from reticent.service.auth import Tokens

WRONG = "the name or the token is unknown, expired or revoked"


def refused_at_the_door(door: OpenDoor, **options: Any) -> str:
    with pytest.raises(psycopg.OperationalError) as refused:
        door.connect(**options)
    return str(refused.value)


def test_all_that_is_wrong_with_a_token_sounds_alike(door: OpenDoor) -> None:
    """Unknown name, another's token, a token of nobody, an expired one, a revoked one."""
    ended, text = door.tokens.create("dora", "analyst", expires=int(time.time()) - 5)
    assert ended.name == "dora"
    gone, gone_text = door.tokens.create("erik", "analyst")
    door.tokens.revoke(gone.id)
    tried = [
        {"user": "alice", "password": "wrong"},
        {"user": "alice", "password": door.secrets["bob"]},
        {"user": "nobody", "password": door.secrets["alice"]},
        {"user": "é", "password": "x"},
        {"user": "dora", "password": text},
        {"user": "erik", "password": gone_text},
    ]
    for options in tried:
        assert WRONG in refused_at_the_door(door, **options)
    assert "rt_" not in door.log.getvalue()


def test_an_unknown_name_gets_the_same_salt_every_time(door: OpenDoor) -> None:
    """As a known one does: else the salt would tell which names exist."""
    for name in ("alice", "nobody"):
        salts = {door.tokens.verifier(name)[1].salt for _ in range(3)}
        assert len(salts) == 1
    again = Tokens(Path(door.settings.tokens))
    assert again.verifier("nobody")[1].salt == door.tokens.verifier("nobody")[1].salt
    again.close()


def test_a_revoked_token_ends_at_the_next_statement(door: OpenDoor) -> None:
    principal, text = door.tokens.create("frida", "analyst")
    with door.connect("frida", password=text) as connection:
        assert connection.execute("SELECT count(*) FROM survey").fetchone()
        _, fresh = door.tokens.rotate(principal.id)
        with pytest.raises(psycopg.errors.InvalidAuthorizationSpecification):
            connection.execute("SELECT count(*) FROM survey")
    door.connect("frida", password=fresh).close()
    door.tokens.revoke(principal.id)


def test_a_token_of_version_one_is_good_after_its_first_use(door: OpenDoor) -> None:
    """Its file has no verifier: the first use over HTTP makes one."""
    principal, text = door.tokens.create("greta", "analyst")
    with sqlite3.connect(door.settings.tokens) as file:
        file.execute("DELETE FROM verifiers WHERE id = ?", (principal.id,))
    assert WRONG in refused_at_the_door(door, user="greta", password=text)
    assert httpx.get(f"{door.url}/v1/me", headers=bearer(text)).status_code == 200
    door.connect("greta", password=text).close()


def test_a_token_for_other_tables_sees_none(door: OpenDoor) -> None:
    _, text = door.tokens.create("hugo", "analyst", tables=["another"])
    with door.connect("hugo", password=text) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT count(*) FROM survey")
        assert connection.execute("SELECT relname FROM pg_class").fetchall() == []
        assert connection.execute("SELECT table_name FROM information_schema.tables").fetchall() == []


def test_a_cap_holds_at_this_door_too(door: OpenDoor) -> None:
    door.tables["survey"].session.set_cap("bob", 1e-6)
    spent = door.spent
    with door.connect("bob") as connection:
        connection.execute("SET reticent.error = '20 records'")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute("SELECT count(*) FROM survey WHERE smoker = 'yes' AND age < 25")
    assert door.spent == spent


def test_sizes(door: OpenDoor) -> None:
    with door.connect() as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute("SELECT '" + "x" * door.settings.body_limit + "'")
    assert refused.value.sqlstate == "54000"
    with door.connect() as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute("SELECT count(*) FROM survey WHERE sex IN (" + "'Male', " * 3000 + "'Male')")
    assert refused.value.sqlstate == "0A000"
    with door.raw() as raw:
        raw.send(struct.pack("!i", 2**31 - 1))
        assert state_of(raw.rest()) == "08P01"
    with door.raw() as raw:
        raw.start()
        raw.message()
        raw.send(b"p" + struct.pack("!i", 60_000))
        assert state_of(raw.rest()) == "54000"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack("!ii", 8, 131072),
        struct.pack("!ii", 9, 196608) + b"u",
        struct.pack("!iiii", 16, (1234 << 16) + 5678, 5, 6),
        b"\0" * 64,
    ],
)
def test_other_protocols_are_sent_away(door: OpenDoor, data: bytes) -> None:
    with door.raw() as raw:
        raw.send(data)
        raw.socket.shutdown(socket.SHUT_WR)
        raw.rest()
    with door.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert "Traceback" not in door.log.getvalue()


def test_garbage_after_signing_in_ends_only_its_own_connection(door: OpenDoor) -> None:
    with door.connect() as connection:
        with door.connect() as other:
            os.write(other.fileno(), b"\xff" * 100)
            with pytest.raises(psycopg.OperationalError):
                other.execute("SELECT 1")
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    key, chain = str(folder / "key.pem"), str(folder / "chain.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*command, "-keyout", key, "-out", chain], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("the program openssl is not on this machine")
    return chain, key


@pytest.fixture(scope="module")
def strict_door(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[str, str]) -> Iterator[OpenDoor]:
    """Little patience, two connections, few guesses, TLS."""
    limits = {"head_seconds": 0.6, "body_seconds": 0.6, "postgres_connections": 2, "wrong_tokens": 0.5}
    tls = {"tls_certificate": certificate[0], "tls_key": certificate[1]}
    with open_door(tmp_path_factory.mktemp("strict"), **limits, **tls) as opened:
        yield opened


def test_tls(strict_door: OpenDoor) -> None:
    with strict_door.connect(sslmode="require") as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT count(*) FROM survey").fetchone()
    with strict_door.raw() as raw:
        # A plain byte behind the request for TLS might have been slipped in.
        raw.send(struct.pack("!ii", 8, (1234 << 16) + 5679) + b"x")
        assert state_of(raw.rest()) == "08P01"


def test_a_slow_client_is_let_go(strict_door: OpenDoor) -> None:
    began = time.monotonic()
    with strict_door.raw() as silent, strict_door.raw() as dribbling:
        dribbling.send(b"\0\0")
        assert state_of(silent.rest()) == "08P01"
        assert state_of(dribbling.rest()) == "08P01"
    with strict_door.connect(sslmode="disable") as connection:
        os.write(connection.fileno(), b"Q\0\0")
        time.sleep(1.5)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert time.monotonic() - began < 60


def test_connections_are_limited(strict_door: OpenDoor) -> None:
    with strict_door.connect(), strict_door.connect():
        assert "2 connections already" in refused_at_the_door(strict_door)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            strict_door.connect().close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("connections that ended still count")


def test_guessing_is_slowed_down(strict_door: OpenDoor) -> None:
    told = [refused_at_the_door(strict_door, password="wrong") for _ in range(6)]
    assert any("requests a second" in message for message in told)
    strict_door.connect().close()


def test_other_machines_need_tls(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="needs TLS"):
        survey_settings(tmp_path, postgres=5433, host="0.0.0.0")
    survey_settings(tmp_path, postgres=5433, host="0.0.0.0", postgres_plaintext=True)


def test_cancel_ends_a_statement_and_nothing_else(door: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent.service.postgres.answering.CATALOG_SECONDS", 20.0)
    slow = "SELECT count(*) FROM pg_class, generate_series(1, 100000000000)"
    with door.connect() as connection:
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute("SET statement_timeout = 200; " + slow)
        connection.execute("SET statement_timeout = 0")
        timer = threading.Timer(0.5, connection.cancel_safe)
        timer.start()
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            connection.execute("SELECT 1; " + slow)
        assert time.monotonic() - began < 15
        timer.join()
        assert connection.execute("SELECT 7").fetchone() == (7,)


def test_a_wrong_cancel_secret_changes_nothing(door: OpenDoor) -> None:
    with door.connect() as connection:
        with door.raw() as raw:
            raw.send(struct.pack("!iiii", 16, (1234 << 16) + 5678, connection.pgconn.backend_pid, 1))
            assert raw.rest() == b""
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_an_unencrypted_door_declines_tls(door: OpenDoor) -> None:
    with door.raw() as raw:
        raw.send(struct.pack("!ii", 8, (1234 << 16) + 5679))
        assert raw.socket.recv(1) == b"N"
    with pytest.raises((ssl.SSLError, psycopg.OperationalError)):
        door.connect(sslmode="require")
