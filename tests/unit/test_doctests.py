"""Examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest
from tests.unit.test_import_direction import files, module

SHOWN = [module(path) for path in files() if ">>> " in path.read_text()]


@pytest.mark.parametrize("name", SHOWN)
def test_examples_run(name: str) -> None:
    result = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
