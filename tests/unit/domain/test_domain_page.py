"""The page about domains shows what really happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from reticent.domain import Domain

PAGE = Path(__file__).resolve().parents[3] / "docs" / "domain.md"


def test_the_examples_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted >= 6
    assert result.failed == 0


def test_the_file_is_a_domain(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = tmp_path / "page.toml"
    path.write_text(text, encoding="utf-8")
    assert Domain.read(path).shape == (4, 7, 41, 4, 3, 4)
