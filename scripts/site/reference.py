"""The reference pages, written from signatures, docstrings and command help when the site is built."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click

import reticent
from reticent.cli import COMMANDS, cli

GROUPS = {
    "Describe and read": ("Domain", "Categorical", "Numeric", "Integer", "Table"),
    "Budget and account": ("Budget", "Ledger", "plan"),
    "Questions": ("col", "count", "mean", "marginal", "marginals", "ranges", "Workload"),
    "Publish": ("release", "Release", "Adaptive", "MWEM", "TextbookPMW", "DualQuery", "evaluate"),
    "Answer": ("Session", "connect"),
    "Models": ("Squared", "Ridge", "Logistic", "Hinge", "Huber", "MeanVector", "Model"),
    "Errors": ("ReticentError", "DomainError", "QueryError", "SourceError", "LedgerError", "BudgetError"),
}
"""Public names by purpose; those not named here are listed under Others, so that none is forgotten."""

RETURNED = (
    ("answer", "Answer"),
    ("sql.result", "ResultTable"),
    ("algorithms.certificates", "Certificate"),
    ("planning", "Plan"),
    ("evaluation", "Evaluation"),
    ("queries.predicate", "Column"),
)
"""Not constructed by users, but met by them."""
HELP_WIDTH = 100


def api_page() -> tuple[str, list[str]]:
    """Markdown of the API reference, and what is missing."""
    grouped = {name for names in GROUPS.values() for name in names}
    others = tuple(name for name in reticent.__all__ if name not in grouped)
    sections = {**GROUPS, **({"Others": others} if others else {})}
    parts = [
        "# Python API\n",
        "`import reticent as rt`. Privacy parameters are keyword-only; budgets are always totals.\n",
    ]
    missing = []
    for section, names in sections.items():
        parts.append(f"## {section}\n")
        for name in names:
            if name not in reticent.__all__:
                missing.append(f"reference: reticent.{name} does not exist")
                continue
            value = getattr(reticent, name)
            parts.append(_entry(f"rt.{name}", value))
            missing += [] if inspect.getdoc(value) else [f"reference: reticent.{name} has no docstring"]
    parts.append("## What comes back\n")
    for module, name in RETURNED:
        parts.append(_entry(name, getattr(import_module(f"reticent.{module}"), name)))
    return "\n".join(parts), missing


def commands_page() -> str:
    """Markdown of every command's help."""
    parts = ["# Command line\n", "Exit codes: 0 done, 2 bad input (one line says what and how to mend it), 3 budget.\n"]
    context = click.Context(cli, info_name="reticent")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts += list(_command(command, _context(command, context, name), "##"))
    return "\n".join(parts)


def _context(command: click.Command, parent: click.Context, name: str) -> click.Context:
    return click.Context(command, parent=parent, info_name=name, terminal_width=HELP_WIDTH)


def _command(command: click.Command, context: click.Context, level: str) -> Iterator[str]:
    yield f"{level} {context.command_path}\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, _context(inner, context, name), f"{level}#")


def _entry(shown: str, value: Any) -> str:
    parts = [f"### {shown}\n", '<div class="entry">\n', f"```python\n{_signature(shown, value)}\n```\n", _doc(value)]
    if inspect.isclass(value) and not issubclass(value, Exception):
        parts += [_member(name, member) for name, member in _members(value)]
    return "\n".join([*parts, "</div>\n"])


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that our own classes define, in the order they were written."""
    seen = set()
    for owner in cls.__mro__:
        if not owner.__module__.startswith("reticent"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if inspect.isroutine(member) or isinstance(member, property) or hasattr(member, "func"):
                yield name, member


def _member(name: str, member: Any) -> str:
    inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    if inspect.isroutine(inner):
        shown = _signature(f".{name}", inner, skip_first=not isinstance(member, staticmethod))
    else:
        shown = f".{name}"
    text = _doc(inner)
    return f'<div class="member">\n\n`{" ".join(shown.split())}`\n\n{text}\n</div>\n'


def _doc(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    return text + "\n" if text else ""


def _signature(name: str, value: Any, *, skip_first: bool = False) -> str:
    """The call as one would write it; broken into lines when long."""
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return name
    parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
    parts, star = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        parts.append(_parameter(parameter))
    returned = _annotation(signature.return_annotation)
    arrow = f" -> {returned}" if returned and not inspect.isclass(value) else ""
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= 100 or not parts:
        return line
    return f"{name}(\n    " + ",\n    ".join(parts) + f",\n){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = _annotation(parameter.annotation)
    text = stars + parameter.name + (f": {annotation}" if annotation else "")
    if parameter.default is parameter.empty:
        return text
    default = parameter.default
    shown = getattr(default, "__name__", None) or (str(default) if hasattr(default, "numerator") else repr(default))
    shown = "..." if "object at" in shown or shown == "<factory>" else shown
    return f"{text} = {shown}" if annotation else f"{text}={shown}"


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
