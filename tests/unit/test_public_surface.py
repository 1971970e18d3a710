"""Every public name explains itself: what it takes, what it returns, what it refuses, and an example that runs."""

from __future__ import annotations

import inspect

import pytest

import reticent as rt

METHODS = [
    (rt.Session, "open ask ask_all minimize certify cost release describe report refit set_cap spent_by close"),
    (rt.Release, "ask answer minimize synthesize save load to_bytes from_bytes report expected_variation"),
    (rt.Model, "predict predict_proba decision_function features to_dict from_dict to_json from_json"),
    (rt.Table, "read of close"),
    (rt.Domain, "read write from_dict to_dict cells canonical index shape_of"),
    (rt.Budget, "guarantee describe amount from_dict to_dict"),
    (rt.Workload, "parse on from_dict to_dict scalars attribute_sets"),
    (rt.Conjunctions, "literals_of of_cells stack"),
    (rt.Ledger, "open memory close verify spent_by remaining_for"),
    (rt.col, "between isin is_null is_known"),
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


@pytest.mark.parametrize(("owner", "method"), [(owner, name) for owner, names in METHODS for name in names.split()])
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
