"""Learning that does not fit a junction tree goes on on a support; nothing that goes wrong in learning gets out."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.errors import CapacityError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import drawn_support, learned, read_snapshot, with_room
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import SupportHypothesis
from reticent.queries.forms import Dense, Product

WIDE = Domain({f"c{i}": 3 for i in range(40)})


def cell(*places: int) -> Product:
    vector = np.array([1.0, 0.0, 0.0])
    return Product(tuple(f"c{place}" for place in places), (vector,) * len(places))


def project(form: Product | Dense, target: float = 0.5):
    def move(held: Hypothesis) -> bool:
        return held.project(form, target) != 0.0

    return move


def test_a_full_tree_becomes_records_drawn_from_it_and_replays_to_the_same_bytes() -> None:
    saved = []
    for _ in range(2):
        hypothesis: Hypothesis = FactoredHypothesis(WIDE, limit=2**8)
        notes = []
        for first in range(0, 24, 3):
            for second in range(first + 3, 24, 3):
                hypothesis, moved, note = learned(hypothesis, project(cell(first, second), 0.3), records=2**12)
                assert moved
                assert hypothesis.expect(cell(first, second)) == pytest.approx(0.3)
                notes += [note] if note else []
        assert isinstance(hypothesis, SupportHypothesis)
        assert len(notes) == 1
        assert "records drawn from it" in notes[0]
        saved.append(hypothesis.to_bytes())
    assert saved[0] == saved[1]


def test_drawn_records_stand_for_the_tree() -> None:
    hypothesis = FactoredHypothesis(WIDE)
    for place in range(10):
        hypothesis.project(cell(place, place + 1), 0.1 + 0.05 * place)
    support = drawn_support(hypothesis, 2**14)
    for place in range(10):
        asked = cell(place, place + 1)
        assert support.expect(asked) == pytest.approx(hypothesis.expect(asked), abs=0.005)


def test_a_conjunction_over_more_cells_than_a_factor_holds_is_learned_on_the_support() -> None:
    everything = cell(*range(16))  # 3^16 cells
    hypothesis = FactoredHypothesis(WIDE)
    with pytest.raises(CapacityError):
        hypothesis.project(everything, 0.5)
    with pytest.raises(CapacityError):
        hypothesis.reweight(everything, 0.5)
    assert hypothesis.to_bytes() == FactoredHypothesis(WIDE).to_bytes()
    found = learned(hypothesis, project(everything))
    assert isinstance(found.hypothesis, SupportHypothesis)


@pytest.mark.parametrize("failure", [ValueError("x"), MemoryError(), FloatingPointError(), ZeroDivisionError()])
def test_whatever_goes_wrong_leaves_the_hypothesis_as_it_was(failure: Exception) -> None:
    hypothesis = FactoredHypothesis(WIDE)
    hypothesis.project(cell(1, 2), 0.4)
    before = hypothesis.to_bytes()

    def move(held: Hypothesis) -> bool:
        held.project(cell(5, 6), 0.9)
        raise failure

    found = learned(hypothesis, move)
    assert found.hypothesis.to_bytes() == before
    assert not found.moved
    assert type(failure).__name__ in found.note


def test_only_a_tree_can_be_too_small() -> None:
    def refuse(held: Hypothesis) -> bool:
        raise CapacityError("no room: use something else")

    with pytest.raises(CapacityError):
        with_room(DenseHypothesis(Domain({"a": 2})), refuse)


def test_a_question_that_no_table_holds_is_read_off_drawn_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent.hypotheses.junction_tree.factored.DEFAULT_LIMIT", 2**10)
    domain = Domain({"a": 8, "b": 8, "c": 8, "m": 5, "n": 5})
    hypothesis = FactoredHypothesis(domain, limit=2**10)
    low = np.arange(8.0) < 3
    for name in ("a", "b", "c"):
        hypothesis.project(Product((name, "m", "n"), (low, np.arange(5.0) < 2, np.arange(5.0) < 2)), 0.3)
    corner = np.zeros((8, 8, 8))
    corner[:3] = corner[:, :3] = corner[:, :, :3] = 1.0
    asked = Dense(("a", "b", "c"), corner)
    snapshot = Snapshot(hypothesis)
    with pytest.raises(CapacityError):
        snapshot.expect(asked)
    same = DenseHypothesis(domain)
    for name in ("a", "b", "c"):
        same.project(Product((name, "m", "n"), (low, np.arange(5.0) < 2, np.arange(5.0) < 2)), 0.3)
    assert read_snapshot(snapshot, lambda held: held.expect(asked)) == pytest.approx(same.expect(asked), abs=0.005)
