"""One PostgreSQL server and one Spark session for all tests of a process that ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contracts.servers import postgres_server, spark_session


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with spark_session() as session:
        yield session
