"""Imports go one way (docs/architecture.md); a trusted kernel must not reach for what it cannot trust."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import reticent

ROOT = Path(__file__).resolve().parents[2] / "src" / "reticent"
PAGE = ROOT.parents[1] / "docs" / "architecture.md"

BASE = {"errors", "domain"}
NARROWER: dict[str, set[str]] = {
    "losses": BASE | {"queries"},
    "kernel": BASE | {"queries", "losses"},
    "sources": BASE | {"kernel"},
    "discovery": BASE | {"kernel", "sources"},
    "custodian": BASE | {"queries", "kernel", "sources"},
    "hypotheses": BASE | {"queries"},
    "knowledge": BASE | {"queries", "losses", "kernel", "hypotheses"},
    "SQL": BASE | {"queries", "knowledge"},
    "releases": BASE | {"queries", "losses", "kernel", "hypotheses", "knowledge", "report", "SQL"},
    "planning": BASE | {"queries", "losses", "kernel", "hypotheses", "knowledge", "releases"},
}
"""Layers that may not import all that stands above them."""
KERNEL_LIBRARIES = {"numpy", "numba", "scipy"}
CUSTODIANS = {f"reticent.custodian{name}" for name in ("", ".check", ".declared", ".evaluate", ".hints", ".scores")}
DYNAMIC = {"reticent", "reticent.cli"}
"""May load modules by name: the first its public names, the other its commands."""


def rows_below(heading: str) -> list[list[str]]:
    """The cells of the table in one section of the page."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def layers() -> dict[str, list[str]]:
    """Modules and packages of each layer, as the page lists them."""
    found = {}
    for name, where, _ in rows_below("Layers"):
        plain = name.replace("*", "").removesuffix("(trusted)").strip()
        found[plain] = [part.removesuffix("/").removesuffix(".py") for part in re.findall(r"`([^`]+)`", where)]
    return found


LAYERS = layers()
ORDER = list(LAYERS)


def executed(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that may run, also inside functions; what only a type checker reads is left out."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node
    typed = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if typed else ast.iter_child_nodes(node):
        yield from executed(child)


def names_in(node: ast.Import | ast.ImportFrom, package: tuple[str, ...]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
    module = ".".join(part for part in (start, node.module) if part)
    return {module} | {f"{module}.{alias.name}" for alias in node.names}


def imported(path: Path) -> set[str]:
    """Absolute dotted names that a file imports."""
    package = ("reticent", *path.relative_to(ROOT).parts[:-1])
    return {name for node in executed(ast.parse(path.read_text())) for name in names_in(node, package)}


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(top: str) -> str:
    """The layer of a module or package directly below `reticent`."""
    found = [name for name, modules in LAYERS.items() if top in modules]
    assert len(found) == 1, f"{top} stands in {len(found)} layers of {PAGE.name}; it belongs in one"
    return found[0]


def top(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


MODULES = {top(path) for path in files()}


def test_every_module_has_one_layer_and_every_layer_its_modules() -> None:
    listed = [name for modules in LAYERS.values() for name in modules]
    assert sorted(listed) == sorted(MODULES)
    assert set(NARROWER) < set(ORDER)
    for narrow, allowed in NARROWER.items():
        assert allowed <= set(ORDER[: ORDER.index(narrow)])


def test_the_root_has_four_modules_and_loads_no_library() -> None:
    assert {path.stem for path in ROOT.glob("*.py")} == {"__init__", "__main__", "errors", "_numba_cache"}
    code = "import reticent, sys; sys.exit('numpy' in sys.modules or 'sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = layer(top(path))
    allowed = NARROWER.get(own, set(ORDER[: ORDER.index(own)])) | {own}
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "reticent" and parts[1:] and parts[1] in MODULES:
            assert layer(parts[1]) in allowed, f"{own} must not import {name}"


def test_what_only_a_type_checker_imports_is_left_out() -> None:
    source = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c import d\n"
    found = {name for node in executed(ast.parse(source)) for name in names_in(node, ())}
    assert found == {"b", "c", "c.d"}


@pytest.mark.parametrize("path", sorted((ROOT / "kernel").rglob("*.py")), ids=lambda path: path.name)
def test_the_kernel_uses_no_dataframe_network_or_plotting_library(path: Path) -> None:
    for name in imported(path):
        library = name.split(".")[0]
        assert library in sys.stdlib_module_names | KERNEL_LIBRARIES | {"reticent"}, f"kernel imports {name}"
        assert library not in {"socket", "http", "urllib", "random"}, f"kernel imports {name}"


@cache
def edges() -> dict[str, set[str]]:
    """Which of our modules each imports; a public name of the package leads to its home, the bare package to all."""
    known = {module(path): path for path in files()}
    homes = {f"reticent.{name}": f"reticent.{home}" for name, home in reticent._HOME.items()}
    found = {}
    for name, path in known.items():
        wanted = imported(path)
        nodes = list(executed(ast.parse(path.read_text())))
        if any(alias.name == "reticent" for node in nodes if isinstance(node, ast.Import) for alias in node.names):
            wanted |= set(homes.values())
        found[name] = ({homes.get(name, name) for name in wanted} & set(known)) - {"reticent"}
    return found


def reached(start: str) -> dict[str, str]:
    """Every module that an import of `start` may load sooner or later, with the one that imports it."""
    found, waiting = {start: start}, [start]
    while waiting:
        here = waiting.pop()
        for there in edges()[here] - set(found):
            found[there] = here
            waiting.append(there)
    return found


def for_custodians(path: Path) -> bool:
    """The command line, the package's own names, and the views themselves."""
    return module(path) in CUSTODIANS | DYNAMIC or top(path) == "cli"


@pytest.mark.parametrize("name", [module(path) for path in files() if not for_custodians(path)])
def test_the_custodian_view_is_unreachable_also_through_others(name: str) -> None:
    """True values and errors are for the command line and `rt.evaluate`: no session, service or release gets there."""
    found = reached(name)
    assert {there: found[there] for there in CUSTODIANS & set(found)} == {}


def test_detours_are_noticed() -> None:
    assert CUSTODIANS & set(reached("reticent.cli.data"))
    assert reached("reticent.service.app")["reticent.kernel.mechanisms.sampling"] != "reticent.service.app"


def test_nothing_else_is_loaded_by_name() -> None:
    """An import that no import statement shows would get around all of this."""
    dynamic = [
        path
        for path in files()
        if re.search(r"import_module|__import__|importlib(?! import metadata)", path.read_text())
    ]
    assert {module(path) for path in dynamic} <= DYNAMIC
