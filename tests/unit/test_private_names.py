"""No module touches another's underscore: what others need has a public name, or is not theirs to need."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TypeGuard

import pytest
from tests.unit.test_import_direction import ROOT, files

TUPLES = {"_replace", "_asdict", "_make", "_fields"}
"""Public names of named tuples; the underscore keeps them apart from fields."""
OWN = {"self", "cls"}
GENERAL = {"Any", "Self"}
"""Types that may be of this file."""
FOREIGN = {"_find_backends", "_session"}
"""Of Ibis, which has no public name for the backends of an expression that has none or several, or for its session."""
TRUSTED = ("kernel", "custodian", "auditing")
"""Who may read exact counts."""


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in TUPLES | FOREIGN | {"_"}


def _of_itself(value: ast.expr) -> bool:
    """`self`, `cls` or `super()`."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in OWN


def defined(kind: ast.ClassDef) -> set[str]:
    """Private names that a class gives itself or its instances; a base class has its own."""
    found: set[str] = set()
    for node in kind.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            found |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and _stored(name)}
    for node in ast.walk(kind):
        if isinstance(node, ast.Attribute) and _stored(node) and _of_itself(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)  # __slots__, and object.__setattr__ of frozen values
    return {name for name in found if private(name)}


def _stored(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


class Reader(ast.NodeVisitor):
    """Uses of private names of other files. A name is a class's own where a class of the same file defines it."""

    def __init__(self, tree: ast.Module) -> None:
        self.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        self.own = {name: defined(kind) for name, kind in self.classes.items()}
        imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
        self.imported = {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}
        self.found: list[tuple[int, str]] = []
        self._inside: str | None = None
        self._foreign: set[str] = set()
        self.visit(tree)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self._inside = self._inside, node.name
        self.generic_visit(node)
        self._inside = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before = self._foreign
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        named = {one.arg for one in given}
        self._foreign = (before - named) | {one.arg for one in given if self._is_foreign(one.annotation)}
        self.generic_visit(node)
        self._foreign = before

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        made = isinstance(node.value, ast.Call) and self._is_foreign(node.value.func)
        self._foreign = self._foreign | {to.id for to in node.targets if made and isinstance(to, ast.Name)}
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and self._is_foreign(node.annotation):
            self._foreign = self._foreign | {node.target.id}
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if private(node.attr) and not self._may(node):
            self.found.append((node.lineno, ast.unparse(node)))
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found += [(node.lineno, alias.name) for alias in node.names if private(alias.name)]

    def generic_visit(self, node: ast.AST) -> None:
        if (held := _kept_elsewhere(node)) is not None:
            self.found.append((held.lineno, ast.unparse(held)))
        super().generic_visit(node)

    def _may(self, node: ast.Attribute) -> bool:
        """Whether the class of an attribute's owner, as far as this file tells, is one of this file."""
        if _of_itself(node.value):
            return self._inside is None or any(node.attr in self.own[name] for name in self._family(self._inside))
        if isinstance(node.value, ast.Name) and node.value.id in self.imported | self._foreign:
            return False
        return any(node.attr in names for names in self.own.values())

    def _family(self, name: str) -> set[str]:
        """A class with its base classes in the same file."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            if (name := waiting.pop()) in self.classes and name not in found:
                found.add(name)
                waiting += [part.id for base in self.classes[name].bases for part in ast.walk(base) if _named(part)]
        return found

    def _is_foreign(self, kind: ast.expr | None) -> bool:
        """Whether a type names classes of other files only; a quoted type is read too."""
        if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
            kind = ast.parse(kind.value, mode="eval").body
        names = set() if kind is None else {part.id for part in ast.walk(kind) if _named(part)}
        return bool(names & self.imported - GENERAL) and not names & {*self.classes, *GENERAL}


def _named(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def reach_ins(text: str) -> list[tuple[int, str]]:
    """Lines that use a private name of another file."""
    return Reader(ast.parse(text)).found


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
    own = "class A:\n    def __init__(self, other):\n        self._x = other._x\n"
    assert reach_ins(own) == []
    assert reach_ins("def f(session):\n    return session._ledger.spent") == [(2, "session._ledger")]
    assert reach_ins("from a import _b, c") == [(1, "_b")]
    assert reach_ins("form.__dict__['_x'] = form.__dict__.get('_x')") == [(1, "form.__dict__")] * 2
    assert reach_ins("class A:\n    def f(self):\n        return self.__dict__.get('_x')") == []
    assert reach_ins("point = point._replace(x=1)") == []


def test_reach_ins_into_classes_of_other_files_are_noticed() -> None:
    base = "from a import B\n"
    assert reach_ins(base + "class C(B):\n    def f(self):\n        return self._x") == [(4, "self._x")]
    assert reach_ins(base + "class C(B):\n    def f(self):\n        return super()._x") == [(4, "super()._x")]
    own = "class C(B):\n    def f(self):\n        self._x = 1\n"
    assert reach_ins(base + own + "class D(C):\n    def g(self):\n        return self._x") == []
    assert reach_ins(base + own + "class D:\n    def g(self):\n        return self._x") == [(7, "self._x")]
    assert reach_ins(base + own + "def g(b: B):\n    return b._x") == [(6, "b._x")]
    assert reach_ins(base + own + "def g(b: 'B | None'):\n    return b._x") == [(6, "b._x")]
    assert reach_ins(base + own + "def g(c: C):\n    return c._x") == []
    assert reach_ins(base + own + "def g():\n    b = B()\n    return b._x") == [(7, "b._x")]
    assert reach_ins(base + own + "B._x") == [(5, "B._x")]
    assert reach_ins("_x = 1\ndef f(other):\n    return other._x") == [(3, "other._x")]
