"""No module touches another's underscore: what others need has a public name, or is not theirs to need."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.unit.test_import_direction import ROOT, files

TUPLES = {"_replace", "_asdict", "_make", "_fields"}
"""Public names of named tuples; the underscore keeps them apart from fields."""
OWN = {"self", "cls"}
FOREIGN = {"_find_backends", "_session"}
"""Of Ibis, which has no public name for the backends of an expression that has none or several, or for its session."""
TRUSTED = ("kernel", "custodian", "auditing")
"""Who may read exact counts."""


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in TUPLES | FOREIGN | {"_"}


def own_names(tree: ast.Module) -> set[str]:
    """Private names that this file defines: of modules, classes and their instances."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _of_itself(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)  # __slots__, and object.__setattr__ of frozen values
    return {name for name in found if private(name)}


def _of_itself(value: ast.expr) -> bool:
    """`self`, `cls` or `super()`."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in OWN


def reach_ins(text: str) -> list[tuple[int, str]]:
    """Lines that use a private name of another file."""
    tree = ast.parse(text)
    own = own_names(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and not _of_itself(node.value):
            if node.attr not in own:
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, alias.name) for alias in node.names if private(alias.name)]
        elif (held := _kept_elsewhere(node)) is not None:
            found.append((node.lineno, ast.unparse(held)))
    return found


def _kept_elsewhere(node: ast.AST) -> ast.expr | None:
    """The attributes of another object where a private one is looked up among them by its name."""
    if isinstance(node, ast.Subscript):
        held, key = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        held, key = node.func.value, node.args[0]
    else:
        return None
    named = isinstance(key, ast.Constant) and isinstance(key.value, str) and private(key.value)
    others = isinstance(held, ast.Attribute) and held.attr == "__dict__" and not _of_itself(held.value)
    return held if named and others else None


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_touches_anothers_underscore(path: Path) -> None:
    assert reach_ins(path.read_text()) == []


def test_exact_counts_are_read_by_those_who_may() -> None:
    readers = [path.relative_to(ROOT) for path in files() if "exact_counts" in path.read_text()]
    assert {path.parts[0] for path in readers} == set(TRUSTED)


def test_reach_ins_are_noticed() -> None:
    own = "class A:\n    def __init__(self, other):\n        self._x = other._x\n        super()._y()\n"
    assert reach_ins(own) == []
    assert reach_ins("def f(session):\n    return session._ledger.spent") == [(2, "session._ledger")]
    assert reach_ins("from a import _b, c") == [(1, "_b")]
    assert reach_ins("form.__dict__['_x'] = form.__dict__.get('_x')") == [(1, "form.__dict__")] * 2
    assert reach_ins("class A:\n    def f(self):\n        return self.__dict__.get('_x')") == []
    assert reach_ins("point = point._replace(x=1)") == []
