"""Queries of one outline share their bounds: what was looked up must be what would have been computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session_tables import DOMAIN, random_boxes, table

import reticent as rt
from reticent.queries import forms
from reticent.queries.base import Linear
from reticent.queries.forms import Dense, Product, essential, is_cell
from reticent.queries.linear import Range, Weighted
from reticent.sessions.session import Session

BITS = st.sampled_from([0.0, 1.0])


@pytest.fixture(scope="module")
def sessions() -> list[Session]:
    """A warm one that also bought a few answers, and a cold one that knows one marginal."""
    warm = Session.open(None, table(), rt.Budget(epsilon=1, delta=1e-9))
    warm.ask(Range({"a": (0, 1), "e": (1, 1)}), error=0.004)
    cold = Session.open(None, table(), rt.Budget(epsilon=1, delta=1e-9), warm_start=0)
    cold.ask(rt.marginal("a", "b", "c"), error=0.02)
    return [warm, cold]


def questions() -> Iterator[Linear]:
    generator = np.random.default_rng(4)
    for box in random_boxes(DOMAIN, 150, generator):
        yield Range(box)
        yield rt.count(~(rt.col("a") == 1) & rt.col("c").isin([0, 2, 4]))
        yield Weighted({name: generator.integers(0, 2, DOMAIN[name].size).astype(float) for name in box})
    yield rt.count((rt.col("a") == 1) | (rt.col("b") == 2))
    yield Weighted({"c": np.linspace(0, 1, 5)})


@pytest.mark.parametrize("wanted", [None, 0.002, 0.02, 0.2])
def test_a_remembered_choice_is_what_would_be_found_anew(sessions: list[Session], wanted: float | None) -> None:
    for known in (session.state.knowledge for session in sessions):
        for _ in range(2):
            for query in questions():
                found, expected = known.free(query, 0.95, wanted), replace(known).free(query, 0.95, wanted)
                assert (found is None) == (expected is None)
                if found is not None and expected is not None:
                    assert (found.error, found.origin) == (expected.error, expected.origin)
                    assert found.compute() == pytest.approx(expected.compute(), abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(bits=st.lists(BITS, min_size=1, max_size=8))
def test_a_vector_is_as_many_boxes_as_it_has_runs(bits: list[float]) -> None:
    found = Product(("x",), (np.array(bits),)).outline
    text = "".join(str(int(bit)) for bit in bits)
    runs, holes = len(text.replace("0", " ").split()), len(text.replace("1", " ").split())
    assert found.attributes == (() if holes == 0 else ("x",))
    if holes:
        assert (found.cells, found.boxes) == (sum(bits), min(runs, holes) if runs > 1 else runs)
        assert (found.kind == "box") == (runs == 1)
        assert is_cell(Product(("x",), (np.array(bits),))) == (sum(bits) == 1)


def test_attributes_left_free_do_not_count() -> None:
    form = Product(("x", "y"), (np.ones(3), np.array([0.0, 1.0])))
    assert form.outline.attributes == ("y",)
    assert essential(form).attributes == ("y",)
    assert Dense(("x",), np.array([0.0, 0.5])).outline.kind == "weighted"


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "KEPT_VECTORS", 5)
    monkeypatch.setattr(forms, "_known", {})
    for code in range(12):
        assert Product(("x",), (np.eye(12)[code],)).outline.cells == 1
    assert 0 < len(forms._known) <= 5
