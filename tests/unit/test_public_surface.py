"""Every public name explains itself: what it takes, what it returns, what it refuses, and an example that runs."""

from __future__ import annotations

import inspect
import sys
import tomllib
from pathlib import Path

import pytest

import reticent as rt
from reticent.losses.base import ConvexLoss, ScalarLoss
from reticent.losses.ramps import RampLoss

CLASSES = {name: kind for name in rt.__all__ if isinstance(kind := getattr(rt, name), type)}
FOR_ENGINES = {*vars(ConvexLoss), *vars(ScalarLoss), *vars(RampLoss)}
"""Derivatives and bounds of losses: solvers and the kernel call them, users do not."""


def methods(kind: type) -> list[str]:
    """Public methods that this package defines; those of `Mapping` and of exceptions are Python's own."""
    found = []
    for name, value in inspect.getmembers(kind, callable):
        ours = (getattr(value, "__module__", None) or "").startswith("reticent.")
        if ours and not name.startswith("_") and not isinstance(value, type):
            found.append(name)
    return [name for name in found if not issubclass(kind, ConvexLoss) or name not in FOR_ENGINES - {"to_dict"}]


METHODS = [(kind, name) for kind in CLASSES.values() for name in methods(kind)]
METHODS += [(rt.col, name) for name in ("between", "isin", "is_null", "is_known")]


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


def test_methods_are_found_by_themselves() -> None:
    found = {(kind.__name__, name) for kind, name in METHODS}
    assert {("Ledger", "reserve"), ("MWEM", "run"), ("Session", "ask"), ("Numeric", "bin")} <= found
    assert ("Domain", "items") not in found
    assert len(found) > 120


@pytest.mark.parametrize(("owner", "method"), METHODS)
def test_a_method_that_users_call_explains_itself(owner: type, method: str) -> None:
    subject = getattr(owner, method)
    text = inspect.getdoc(subject) or ""
    assert ">>> " in text
    assert "Args:" in text or not own_arguments(subject)
    assert "Returns:" in text or inspect.signature(subject).return_annotation == "None"
    described = text.partition("Args:")[2]
    assert [name for name in own_arguments(subject) if name not in described] == []


@pytest.mark.parametrize(
    ("owner", "method"),
    [(rt.Session, name) for name in ("open", "ask", "ask_all", "minimize", "certify", "cost")]
    + [(rt.Release, "ask"), (rt.Table, "read"), (rt.Table, "of"), (rt.Ledger, "open")],
)
def test_a_method_that_users_start_with_says_what_it_refuses(owner: type, method: str) -> None:
    assert "Raises:" in (inspect.getdoc(getattr(owner, method)) or "")


def test_a_module_of_public_names_is_checked_strictly() -> None:
    root = Path(__file__).parents[2]
    strict = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pyright"]["strict"]
    package = Path(rt.__file__).parent
    homes = {Path(sys.modules[getattr(rt, name).__module__].__file__ or "") for name in rt.__all__}
    wanted = {home.relative_to(package).as_posix() for home in homes if home.is_relative_to(package)}
    assert len(wanted) > 20
    assert wanted <= {path.removeprefix("src/reticent/") for path in strict}
