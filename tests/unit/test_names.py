"""A public name means one thing: it is defined in one module, but for those that docs/architecture.md justifies.

The rule: top-level classes and functions without a leading underscore. A function that a decorator registers under a
name of its own (a command of the command line, a route of the service) is left out: nobody imports it.
"""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.unit.test_import_direction import ROOT, files, rows_below

MOST = 5
REGISTERS = {"command", "group", "get", "post", "put", "patch", "delete"}


def registered(node: ast.stmt) -> bool:
    calls = [decorator for decorator in getattr(node, "decorator_list", []) if isinstance(decorator, ast.Call)]
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in REGISTERS for call in calls)


def public_names(text: str) -> set[str]:
    """Of classes and functions that a module defines."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = [node for node in ast.parse(text).body if isinstance(node, kinds) and not registered(node)]
    return {node.name for node in defined if not node.name.startswith("_")}


def test_the_rule_counts_definitions_and_not_commands() -> None:
    text = (
        "def a(): ...\nclass B: ...\ndef _c(): ...\n"
        "@click.command()\ndef d(): ...\n@router.get('/e')\nasync def e(): ..."
    )
    assert public_names(text) == {"a", "B"}


def test_a_public_name_is_defined_once_or_justified() -> None:
    where = defaultdict(list)
    for path in files():
        for name in public_names(path.read_text()):
            where[name].append(str(path.relative_to(ROOT)))
    doubled = {name: sorted(paths) for name, paths in where.items() if len(paths) > 1}
    justified = {cells[0].strip("`") for cells in rows_below("Names defined twice")}
    assert set(doubled) == justified, f"rename the internal one, or justify it: {doubled}"
    assert len(doubled) <= MOST
