"""Every public name explains itself: what it takes, what it returns, what it refuses, and an example that runs."""

from __future__ import annotations

import inspect

import pytest

import reticent as rt

METHODS = [
    (rt.Session, ("open", "ask", "ask_all", "minimize", "certify", "cost")),
    (rt.Release, ("ask",)),
    (rt.Table, ("read", "of")),
    (rt.Ledger, ("open",)),
]


def own_arguments(subject: object) -> list[str]:
    try:
        found = inspect.signature(subject).parameters  # pyright: ignore[reportArgumentType]
    except ValueError:  # errors take what Exception takes
        return []
    return [name for name in found if name not in ("self", "cls")]


@pytest.mark.parametrize("name", rt.__all__)
def test_a_public_name_has_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(rt, name)) or ""
    assert ">>> " in text


MADE_BY_OTHERS = {"Session", "Release", "Model", "Ledger", "Table"}
"""Users get these from `open`, `read`, `of` and `release`, which say what they take."""


@pytest.mark.parametrize("name", [name for name in rt.__all__ if name not in MADE_BY_OTHERS])
def test_a_public_name_explains_its_arguments(name: str) -> None:
    subject = getattr(rt, name)
    text = inspect.getdoc(subject) or ""
    if isinstance(subject, type) and issubclass(subject, Exception):
        return
    arguments = own_arguments(subject)
    assert "Args:" in text
    assert "Raises:" in text
    assert isinstance(subject, type) or "Returns:" in text
    described = text.split("Args:")[1]
    assert [name for name in arguments if name not in described] == []


@pytest.mark.parametrize(("owner", "method"), [(owner, method) for owner, names in METHODS for method in names])
def test_a_method_that_users_start_with_explains_itself(owner: type, method: str) -> None:
    text = inspect.getdoc(getattr(owner, method)) or ""
    assert "Args:" in text
    assert "Returns:" in text
    assert "Raises:" in text
