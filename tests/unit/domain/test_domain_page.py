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
    first, second, third = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = tmp_path / "page.toml"
    path.write_text(first, encoding="utf-8")
    assert Domain.read(path).shape == (4, 7, 41, 4, 3, 4)
    path.write_text(second, encoding="utf-8")
    domain = Domain.read(path)
    assert domain["income"].encode(["1.234,50 €", "k.A.", -9, "200000+"]).tolist() == [0, 3, 3, 2]
    path.write_text(third, encoding="utf-8")
    assert [rule.attributes for rule in Domain.read(path).impossible] == [("age", "income"), ("housing", "tenure")]
