"""Imports go one way (docs/architecture.md); a trusted kernel must not reach for what it cannot trust."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "src" / "reticent"

BASE = {"errors", "domain"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "domain": {"errors"},
    "queries": BASE,
    "kernel": BASE | {"queries"},
    "hypotheses": BASE | {"queries"},
    "synthetic": BASE | {"hypotheses"},
    "sources": BASE | {"kernel"},
    "algorithms": BASE | {"queries", "kernel", "hypotheses"},
    "sql": BASE | {"queries", "answer"},
    "planning": BASE | {"queries", "kernel", "hypotheses", "algorithms"},
}
KERNEL_LIBRARIES = {"numpy", "numba", "opendp", "scipy"}
FORBIDDEN_IN_SESSION_AND_SERVICE = {"reticent.custodian", "reticent.evaluation"}


def imported(path: Path) -> set[str]:
    """Absolute dotted names that a file imports, also inside functions."""
    package = ("reticent", *path.relative_to(ROOT).parts[:-1])
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (start, node.module) if part)
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = layer(path)
    if own not in ALLOWED:
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "reticent" and len(parts) > 1:
            assert parts[1] in ALLOWED[own] | {own}, f"{own} must not import {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "kernel").rglob("*.py")), ids=lambda path: path.name)
def test_the_kernel_uses_no_dataframe_network_or_plotting_library(path: Path) -> None:
    import sys

    for name in imported(path):
        top = name.split(".")[0]
        assert top in sys.stdlib_module_names | KERNEL_LIBRARIES | {"reticent"}, f"kernel imports {name}"
        assert top not in {"socket", "http", "urllib", "random"}, f"kernel imports {name}"


@pytest.mark.parametrize("path", [p for p in files() if layer(p) in {"session", "service"}], ids=lambda path: path.name)
def test_the_custodian_view_is_unreachable_from_session_and_service(path: Path) -> None:
    reached = {".".join(name.split(".")[:2]) for name in imported(path)}
    assert not reached & FORBIDDEN_IN_SESSION_AND_SERVICE


MINIMISERS = {"minimizer.py", "minimizers.py", "minimizer_steps.py", "excess_risk.py"}
COUNTING = {"records.py", "counts.py", "counting.py", "conjunction_counts.py", "subsample.py", "boxes.py"}
LARGEST = {"core": 1850, "counting": 400, "minimisers": 500}
"""Lines of code an auditor reads: mechanisms, accounting, ledger and verbs; exact counting; private minimisers."""


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


def test_the_kernel_is_small_enough_to_read() -> None:
    lines = dict.fromkeys(LARGEST, 0)
    for path in (ROOT / "kernel").rglob("*.py"):
        part = "minimisers" if path.name in MINIMISERS else "counting" if path.name in COUNTING else "core"
        lines[part] += code_lines(path)
    for part, most in LARGEST.items():
        assert lines[part] <= most, (
            f"the kernel's {part} has {lines[part]} lines of code; an auditor was promised {most}"
        )
