"""One open door for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.service.postgres.doors import OpenDoor, open_door


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    with open_door(tmp_path_factory.mktemp("door")) as opened:
        yield opened
