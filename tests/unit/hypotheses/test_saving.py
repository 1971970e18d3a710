"""Saved bytes: exact, and refused when they are not what they claim to be."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import ReticentError
from reticent.hypotheses import load
from reticent.hypotheses.base import pack, saved_kind, unpack

ARRAYS = [np.array([0.1, 1e-320, 7.0]), np.arange(6, dtype=np.int32).reshape(2, 3), np.array(3.5)]
HEADER = {"z": 0.1 + 0.2, "a": [1, "b"], "domain": {"second": 2, "first": 1}}


def test_everything_returns_exactly() -> None:
    data = pack("some", HEADER, ARRAYS)
    header, arrays = unpack("some", data)
    assert header == HEADER
    assert list(header["domain"]) == ["second", "first"]
    assert saved_kind(data) == "some"
    for array, original in zip(arrays, ARRAYS, strict=True):
        assert array.dtype == original.dtype
        assert array.shape == original.shape
        assert array.tobytes() == original.tobytes()
        assert array.flags.writeable


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "cut short"),
        (lambda data: data + b"x", "after its end"),
        (lambda data: b"other" + data, "not a saved hypothesis"),
        (lambda data: data[:30] + b"\xff" + data[31:], "damaged"),
        (lambda data: data[:5], "not a saved hypothesis"),
    ],
)
def test_damage_is_named(damage, message: str) -> None:
    with pytest.raises(ReticentError, match=message):
        unpack("some", damage(pack("some", HEADER, ARRAYS)))


def test_a_kind_is_not_taken_for_another() -> None:
    with pytest.raises(ReticentError, match="hold a some hypothesis, not a other"):
        unpack("other", pack("some", {}, []))
    with pytest.raises(ReticentError, match="not known"):
        load(pack("some", {}, []))
