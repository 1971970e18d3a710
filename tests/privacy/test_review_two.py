"""What a second hostile reading found: every case here broke privacy, a bound or a paid answer before it was fixed."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
import uvicorn

from reticent.domain import Domain
from reticent.errors import KeyReusedError, QueryError, SourceError
from reticent.kernel import table as kernel
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.losses.losses import Logistic
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Marginal
from reticent.queries.predicate import col
from reticent.service.http.head_limits import timed_head_protocol
from reticent.service.metrics import Metrics
from reticent.service.readers.shared_listener import REST_SECONDS, SharedListenerServer
from reticent.sessions.session import Session
from reticent.sources import Table as SourceTable

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})


@pytest.fixture
def session() -> Session:
    random = np.random.default_rng(1)
    columns = {name: random.integers(0, DOMAIN[name].size, 3000) for name in DOMAIN.names}
    table = Table(Records.of_codes(DOMAIN, columns, np.ones(3000, dtype=np.int64)), DOMAIN, records=3000)
    return Session.open(None, table, Budget(rho=5), warm_start=0.0)


# -- persons counted on demand, far more than declared -----------------------------------------------------------------


def test_persons_counted_on_demand_cannot_outgrow_the_grid(monkeypatch) -> None:
    """A declared number that is far too small made differences of counts and guesses wrap around."""
    rows = pa.table({"a": [0, 1, 2, 0], "b": [0, 1, 2, 3], "c": [0, 1, 0, 1], "who": [1, 2, 3, 3]})
    monkeypatch.setattr(kernel, "WEIGHT_LIMIT", 3 * kernel.PERSON_GRIDS[-1])
    assert SourceTable.of(rows.slice(0, 2), DOMAIN, person="who", records=2, hold=1).grid == kernel.PERSON_GRIDS[-1]
    with pytest.raises(SourceError, match="outgrows its integer grid"):
        SourceTable.of(rows, DOMAIN, person="who", records=2, hold=1)


# -- errors wider than a half ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        Count((col("a") >= 1) & (col("b") == 2)),
        Count(col("a") == 1),
        Marginal(("a", "b")),
        Groups(["b"], col("a") >= 1),
    ],
    ids=["count", "cell", "marginal", "groups"],
)
def test_an_error_of_more_than_a_half_is_refused_unspent(session: Session, query) -> None:
    """It was charged and then failed: no bound beyond a half counts as an answer."""
    spent = session.spent
    with pytest.raises(QueryError, match=r"ask for one below 0\.5"):
        session.ask(query, error=0.6, key="wide")
    assert session.spent == spent


# -- one key, two statements -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["COUNT(*) FROM t WHERE b = 2", "COUNT(*), AVG(b) FROM t WHERE b = 3"])
def test_a_key_belongs_to_one_statement(session: Session, second: str) -> None:
    """The second one was answered within the errors of the first, or failed without a word about the key."""
    session.ask("SELECT COUNT(*) FROM t WHERE a >= 1 AND b = 2", error="5%", key="k")
    spent = session.spent
    with pytest.raises(KeyReusedError):
        session.ask(f"SELECT {second}", error="0.5%", key="k")
    with pytest.raises(KeyReusedError):
        session.ask("SELECT COUNT(*) FROM t WHERE a >= 1 AND b = 2", error="0.5%", key="k")
    assert session.spent == spent


def test_a_key_buys_models_of_one_error(session: Session) -> None:
    """The same key audited, and paid, once more for every other error."""
    loss = Logistic(features=["a", "b"], label="c", radius=1.0)
    model = session.minimize(loss, error=0.3, key="m")
    spent = session.spent
    with pytest.raises(KeyReusedError):
        session.minimize(loss, error=0.1, key="m")
    assert np.array_equal(session.minimize(loss, error=0.3, key="m").theta, model.theta)
    assert session.spent == spent > 0


# -- confidence of groups that a threshold engine tests one by one -----------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.9999])
def test_tested_groups_hold_no_surer_than_the_engine(confidence: float) -> None:
    """Each group was tested with the engine's own failure probability; the whole was said to hold as asked."""
    codes = {name: np.arange(300_000) % DOMAIN[name].size for name in DOMAIN.names}
    table = Table(Records.of_codes(DOMAIN, codes, np.ones(300_000, dtype=np.int64)), DOMAIN, records=300_000)
    with Session.open(None, table, Budget(rho=2), engine="tuned", queries=50, confidence=0.9) as session:
        answer = session.ask(Groups(["b"], col("a") >= 1), confidence=confidence)
    assert answer.certified
    assert answer.confidence == pytest.approx(min(confidence, 0.9))


# -- two responses to one request --------------------------------------------------------------------------------------


async def refusing(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers by the head alone, as the front does when a token is wrong."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        http = timed_head_protocol(0.5)
        server = uvicorn.Server(uvicorn.Config(refusing, http=http, log_config=None, lifespan="off"))
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        serving.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        serving.join(10)


@pytest.mark.parametrize("sent", [100, 60_000], ids=["slow", "large"])
def test_a_body_nobody_reads_is_no_head(port: int, sent: int) -> None:
    """A second response followed the refusal; a proxy would have handed it to the next person who asks."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        wire.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        said = wire.recv(4096)
        wire.sendall(b"a" * sent)
        try:
            while part := wire.recv(4096):
                said += part
        except ConnectionResetError:
            pass  # it hung up before it had read everything
    assert said.count(b"HTTP/1.1") == 1
    assert b"401" in said


# -- no more connections to be had -------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [0, 3], ids=["its turn", "ahead of the others"])
def test_a_reader_without_descriptors_rests(held: int) -> None:
    """The connection that nobody could accept woke it again at once: a full core for as long as it waited."""
    listener, loop, metrics = Mock(), Mock(), Metrics(rows=2)
    listener.accept.side_effect = OSError(errno.EMFILE, "too many open files")
    server = SharedListenerServer(uvicorn.Config(refusing, log_config=None), listener, metrics)
    server._loop = loop
    server.server_state.connections.update(Mock() for _ in range(held))
    server._watch()
    server._ready()
    if held:
        loop.call_later.call_args.args[1]()
    assert loop.method_calls[-2][0] == "remove_reader"
    assert loop.call_later.call_args.args == (REST_SECONDS, server._watch)
