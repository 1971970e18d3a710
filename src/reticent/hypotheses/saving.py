"""One container for saved hypotheses: a JSON header and raw arrays, the same bytes for the same state."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from reticent.errors import ReticentError

__all__ = ["pack", "saved_kind", "unpack"]

_MAGIC = b"reticent-hypothesis-1\n"
_LENGTH = 8


def pack(kind: str, header: dict[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """Floats in the header survive exactly: JSON prints the shortest text that reads back the same.

    Keys keep their order, because the order of a domain's attributes means something.
    """
    arrays = [np.asarray(array, order="C") for array in arrays]
    described = [[array.dtype.str, list(array.shape)] for array in arrays]
    text = json.dumps({"kind": kind, "header": header, "arrays": described}).encode()
    return b"".join([_MAGIC, len(text).to_bytes(_LENGTH, "little"), text, *(array.tobytes() for array in arrays)])


def saved_kind(data: bytes) -> str:
    """Which hypothesis the bytes hold."""
    return _read_header(data)[0]["kind"]


def unpack(kind: str, data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header and fresh, writable arrays; refuses bytes of another kind or length."""
    header, start = _read_header(data)
    if header["kind"] != kind:
        raise ReticentError(f"these bytes hold a {header['kind']} hypothesis, not a {kind} one")
    arrays = []
    for dtype_text, shape in header["arrays"]:
        dtype = np.dtype(dtype_text)
        if dtype.kind not in "fiu" or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ReticentError("a saved hypothesis holds a part that is not an array of numbers; save it again")
        count = math.prod(shape)
        if start + count * dtype.itemsize > len(data):
            raise ReticentError("a saved hypothesis is cut short; save it again")
        arrays.append(np.frombuffer(data, dtype, count, start).reshape(shape).copy())
        start += count * dtype.itemsize
    if start != len(data):
        raise ReticentError("a saved hypothesis has bytes after its end; save it again")
    return header["header"], arrays


def _read_header(data: bytes) -> tuple[dict[str, Any], int]:
    start = len(_MAGIC) + _LENGTH
    if not data.startswith(_MAGIC) or len(data) < start:
        raise ReticentError("these bytes are not a saved hypothesis of this version")
    length = int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        header = json.loads(data[start : start + length])
    except (ValueError, RecursionError):
        header = None
    if not (isinstance(header, dict) and {"kind", "header", "arrays"} <= set(header)):
        raise ReticentError("the header of a saved hypothesis is damaged; save it again")
    return header, start + length
