"""Columns behave as the dictionary they stand for, whatever was merged when; and take little room."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.kernel.accounting import Budget
from reticent.kernel.ledger import columns as columns_module
from reticent.kernel.ledger.columns import NamedPlaces, Reservation, Reservations, SortedTexts, encoded
from reticent.kernel.ledger.events import History
from reticent.kernel.ledger.ledger import Ledger

KEYS = st.text(alphabet=st.sampled_from("ab:é\U0001f600\ud800\x00z"), min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(
        KEYS,
        st.sampled_from(["measure", "minimize"]),
        st.sampled_from(["reserved", "redeemed", "settled", "forfeited"]),
        st.integers(0, 2**80),
        st.sampled_from([None, "ann"]),
    ),
    max_size=40,
)


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "LEAST_MERGED", 3)


@settings(max_examples=100, deadline=None)
@given(STEPS, KEYS)
def test_reservations_are_those_of_a_dictionary(steps: list, prefix: str) -> None:
    plain: dict[str, Reservation] = {}
    held = Reservations()
    for sequence, (key, kind, status, cost, analyst) in enumerate(steps, 1):
        old = plain.get(key)
        if old is not None and not old.pending:
            continue
        first = sequence if old is None else old.sequence
        settled = sequence if status == "settled" else 0
        one = Reservation(key, kind if old is None else old.kind, cost, "d", analyst, True, first, status, settled)
        plain[key] = one
        held.put(one)
        if sequence % 7 == 0:
            held.merge()
    again = Reservations.from_dict(held.copy().to_dict())
    for found in (held, held.copy(), again):
        assert len(found) == len(plain)
        assert all(found.get(key) == one and key in found for key, one in plain.items())
        assert found.get("no such key") is None
        oldest = sorted(plain.values(), key=lambda one: one.sequence)
        assert found.starting(prefix) == [one for one in oldest if one.key.startswith(prefix)]
        assert found.of_kind("measure") == [one for one in oldest if one.kind == "measure"]
        assert found.pending() == [one for one in oldest if one.pending]
        wanted = [one for one in oldest if one.settled > 5 and one.kind == "measure" and one.key.startswith(prefix)]
        wanted.sort(key=lambda one: one.settled)
        assert found.settled("measure", prefix, 5) == wanted
        assert found.settlements("measure", prefix, 5).tolist() == [one.settled for one in wanted]
    assert held == again
    if plain:
        held.put(next(iter(plain.values()))._replace(cost=-1))
        assert held != again


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 2**62)), max_size=40))
def test_named_places_are_those_of_a_dictionary(steps: list) -> None:
    plain: dict[str, int] = {}
    held = NamedPlaces()
    for text, number in steps:
        plain[text] = held[text] = number
    again = NamedPlaces.from_dict(held.copy().to_dict())
    for found in (held, again):
        assert all(found.get(text) == number for text, number in plain.items())
        assert found.get("no such text") is None
    assert held == again


@given(st.lists(KEYS, unique=True), KEYS)
def test_sorted_texts_are_in_the_order_of_their_texts(texts: list[str], prefix: str) -> None:
    ordered = sorted(texts)
    held = SortedTexts.of(sorted(map(encoded, texts)))
    assert [held[place].decode("utf-8", "surrogatepass") for place in range(len(held))] == ordered
    found = [ordered[place] for place in range(*held.starting(encoded(prefix)))]
    assert found == [text for text in ordered if text.startswith(prefix)]


def filled() -> History:
    ledger = Ledger.memory(Budget(rho=1))
    for number in range(20):
        ledger.append("targets", {"key": f"k{number}"})
        reservation = ledger.reserve(f"k{number}", "measure", 10, {"q": number}, analyst="ann")
        if number % 5:
            ledger.settle(reservation, {"value": number})
    return ledger._history


def test_a_history_is_read_back_from_its_bytes() -> None:
    history = filled()
    again = History.from_bytes(history.to_bytes())
    assert again == history
    assert again.noted("targets", 10) == history.noted("targets", 10) != []
    assert again.newest("targets") == history.newest("targets")
    assert again.to_bytes() == history.to_bytes()


def test_a_checkpoint_of_earlier_versions_is_read() -> None:
    history = filled()
    plain = {name: getattr(history, name) for name in ("sequence", "head", "spent", "opening", "caps", "spent_by")}
    rows = history.reservations.starting("")
    former = plain | {
        "milestones": history.milestones,
        "free": {kind: history.noted(kind) for kind in history.free},
        "named": {f"targets:k{number}": history.named.get(f"targets:k{number}") for number in range(20)},
        "reservations": [list(column) for column in zip(*rows, strict=True)],
    }
    text = json.dumps(former, sort_keys=True, separators=(",", ":")).encode()
    assert History.from_bytes(zlib.compress(text, 1)) == history


@pytest.mark.parametrize("damage", ["codes", "lengths", "shorter"])
def test_columns_that_do_not_fit_are_refused(damage: str) -> None:
    columns = filled().reservations.to_dict()
    if damage == "codes":
        columns["codes"][0] = 100
    elif damage == "lengths":
        columns["lengths"][0] += 1
    else:
        columns["sequences"].pop()
    with pytest.raises(ValueError, match=r"not reservations|not texts|different lengths"):
        Reservations.from_dict(columns)


def test_a_copy_is_left_alone_by_what_comes_later() -> None:
    history = filled()
    copy, data = history.copy(), history.to_bytes()
    history.reservations.put(Reservation("new", "measure", 1, "", None, True, 99))
    history.free["targets"].append(99)
    assert copy.to_bytes() == data


def test_a_key_takes_little_more_room_than_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "LEAST_MERGED", 2**15)
    held = Reservations()
    for number in range(50_000):
        held.put(Reservation(f"ask:{number:048d}", "measure", 7, "", None, True, 2 * number, "settled", 2 * number + 1))
    held.merge()
    keys, _, *numbers = held._past
    room = len(keys.data) + sum(column.nbytes for column in (keys.ends, *numbers))
    assert room <= 50_000 * (52 + 4 * np.dtype(np.int64).itemsize)
