"""Fixtures of the service's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.service.serving import Server, Service, running_app, write_survey


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_app(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers and ends what is left of them."""
    started: list[Server] = []

    def start(*arguments: str) -> Server:
        folder = tmp_path_factory.mktemp("server")
        write_survey(folder)
        server = Server(folder, ["--epsilon", "1", "--delta", "1e-9", "--title", "Survey", *arguments])
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()
