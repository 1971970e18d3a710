"""The command that serves: several tables, TLS, and refusals in one line before anything slow happens."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from tests.service.serving import COUNT, Server, bearer, in_thread, survey_settings, write_survey

from reticent.cli import cli
from reticent.errors import QueryError, ReticentError
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.server import first_token, open_tables
from reticent.service.settings import read_settings

TWO = """
[server]
tick = 0.0
tokens = "people"
[tables.first]
table = "survey.parquet"
domain = "survey.toml"
ledger = "first.ledger"
epsilon = 0.5
[tables.second]
table = "survey.parquet"
domain = "survey.toml"
ledger = "second.ledger"
epsilon = 2.0
"""


def test_several_tables_keep_their_budgets_apart(tmp_path: Path) -> None:
    write_survey(tmp_path)
    (tmp_path / "server.toml").write_text(TWO)
    settings = read_settings(tmp_path / "server.toml")
    tokens = Tokens(Path(settings.tokens))
    token = tokens.create("ada", "analyst")[1]
    app = create_app(settings, open_tables(settings), tokens)
    with in_thread(app, settings) as url, httpx.Client(base_url=url, headers=bearer(token), timeout=60) as client:
        assert client.get("/v1/me").json()["tables"] == ["first", "second"]
        limits = [client.get(f"/v1/tables/{name}/budget").json()["limit"] for name in ("first", "second")]
        assert limits == [0.5, 2.0]
        paid = client.post("/v1/tables/second/ask", json={"query": COUNT, "error": 0.004}).json()["result"]["price"]
        assert paid > 0
        assert client.get("/v1/tables/first/budget").json()["own_spent"] == 0
        assert client.get("/v1/tables/second/budget").json()["own_spent"] == pytest.approx(paid)


@pytest.mark.parametrize("readers", ["0", "1"])
def test_tls_is_spoken_with_the_given_certificate(serve: Callable[..., Server], tmp_path: Path, readers: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*make.split(), *names], cwd=tmp_path, check=True, capture_output=True)
    files = ["--tls-certificate", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    server = serve("--tick", "0", "--readers", readers, *files)
    trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    assert server.url.startswith("https://")
    assert httpx.get(f"{server.url}/health", verify=trust, timeout=30).json()["status"] == "ok"
    plain = server.url.replace("https:", "http:")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{plain}/health", timeout=30)
    assert httpx.get(f"{server.url}/health", verify=trust, timeout=30).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "state TABLE"),
        (["survey.parquet", "--domain", "survey.toml"], "state TABLE"),
        (["survey.parquet", "--config", "server.toml"], "not both"),
        (["survey.parquet", "--domain", "survey.toml", "--ledger", "l"], "state a budget"),
        (["survey.parquet", "--domain", "d", "--ledger", "l", "--epsilon", "1", "--tick", "-1"], "tick"),
    ],
)
def test_bad_options_are_one_line(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert isinstance(result.exception, QueryError)
    assert complaint in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_taken_port_shows_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ledger = str(tmp_path / "l")
        result = CliRunner().invoke(
            cli, ["serve", "t.csv", "--domain", "d", "--ledger", ledger, "--epsilon", "1", "--port", port]
        )
    assert isinstance(result.exception, QueryError)
    assert port in str(result.exception)


def test_the_first_token_is_written_once_for_the_operator_alone(tmp_path: Path) -> None:
    settings = survey_settings(tmp_path)
    tokens = Tokens(Path(settings.tokens))
    path = first_token(tokens, settings)
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    first = path.read_text().strip()
    assert tokens.find(first).role == "custodian"
    assert first_token(tokens, settings) == path, "it is named until it is deleted"
    assert path.read_text().strip() == first
    path.unlink()
    assert first_token(tokens, settings) is None
    renewed = first_token(tokens, settings, renew=True)
    assert renewed is not None
    assert tokens.find(renewed.read_text().strip()).role == "custodian"
    assert renewed.read_text().strip() != first
    tokens.rotate(tokens.custodians()[0].id)
    assert first_token(tokens, settings) is None, "the file holds an old token"
    tokens.close()


def test_a_start_that_fails_leaves_no_token_behind(tmp_path: Path) -> None:
    """Otherwise the next start finds a custodian and names no file."""
    write_survey(tmp_path)
    (tmp_path / "a.ledger").write_text("no ledger")
    fixed = ["serve", str(tmp_path / "survey.parquet"), "--domain", str(tmp_path / "survey.toml")]
    fixed += ["--ledger", str(tmp_path / "a.ledger"), "--epsilon", "1", "--delta", "1e-9", "--port", "0"]
    result = CliRunner().invoke(cli, fixed)
    assert isinstance(result.exception, ReticentError)
    assert not (tmp_path / "a.ledger.tokens.custodian").exists()
    tokens = Tokens(tmp_path / "a.ledger.tokens")
    assert tokens.all() == []
    tokens.close()


def test_every_start_names_the_token_until_its_file_is_deleted(serve: Callable[..., Server]) -> None:
    server = serve()
    line = "The custodian's token is in survey.ledger.tokens.custodian"
    assert server.log().count(line) == 1
    server.stop()
    server.start()
    assert server.log().count(line) == 2
    (server.folder / "survey.ledger.tokens.custodian").unlink()
    server.stop()
    server.start()
    assert server.log().count(line) == 2


def test_ctrl_c_ends_in_one_line(serve: Callable[..., Server]) -> None:
    """DuckDB listed what it found alive at the end as leaked, a screenful of it."""
    server = serve("--readers", "1")
    assert server.process is not None
    server.kill(signal.SIGINT)
    said = [line for line in server.log().splitlines() if line]
    assert "interrupted" in said[-1]
    assert not any("leaked" in line for line in said)
