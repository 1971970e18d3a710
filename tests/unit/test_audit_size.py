"""How much an auditor reads is told in docs/architecture.md; promised sizes and true ones must agree."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from tests.unit.test_import_direction import ROOT, files, imported, module, rows_below

OFF = 0.05
"""How far the page's number may lie from the true one."""
MOST = 9000
"""All of it, in lines: what one person can read in two weeks."""


def code_lines(path: Path) -> int:
    """Lines with code on them: no blank lines, comments or docstrings."""
    text = path.read_text()
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    written = {line for t in tokens if t.type not in quiet for line in range(t.start[0], t.end[0] + 1)}
    return len(written - documented)


def parts() -> dict[str, tuple[set[Path], int]]:
    """Each part's files and promised lines; a folder inside another one's is not counted there."""
    rows = {name: (where, int(lines.replace(",", ""))) for name, where, lines in rows_below("What an auditor reads")}
    folders = {name: ROOT / re.findall(r"`([^`]+)/`", where)[0] for name, (where, _) in rows.items()}
    found = {}
    for name, (_, lines) in rows.items():
        deeper = [other for other in folders.values() if folders[name] in other.parents]
        inside = {path for path in folders[name].rglob("*.py") if not any(other in path.parents for other in deeper)}
        found[name] = (inside, lines)
    return found


PARTS = parts()


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_as_long_as_the_page_says(name: str) -> None:
    paths, promised = PARTS[name]
    found = sum(map(code_lines, paths))
    assert abs(found - promised) <= OFF * promised, f"{name}: {found} lines of code; the page says {promised}"


def test_all_of_it_is_small_enough_to_read_and_nothing_is_counted_twice_or_left_out() -> None:
    listed = [path for paths, _ in PARTS.values() for path in paths]
    assert len(listed) == len(set(listed))
    assert {path for path in files() if path.relative_to(ROOT).parts[0] in ("kernel", "sources", "losses")} <= set(
        listed
    )
    assert sum(map(code_lines, listed)) <= MOST


def test_what_minimisers_call_on_private_marginals_is_among_what_is_read() -> None:
    minimisers, _ = PARTS["private minimisers, excess risk"]
    called = {name for path in minimisers for name in imported(path) if name.startswith("reticent.losses.")}
    modules = {module(path): path for path in files()}
    assert called
    assert {modules[name] for name in called & set(modules)} <= PARTS["losses"][0]
