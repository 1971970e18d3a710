"""A position says where in its bin a value lies, in whole steps from the bin's lower end: what bins hide, as integers.

Every engine computes the same integers (`reticent.sources.encoding`); this is the reference. Values are clipped to the
declared edges, and floored where the attribute is whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.domain.attribute import Attribute
from reticent.domain.numeric import Numeric
from reticent.domain.values import Unread

STEPS = 2**15
"""Of a bin's width. A position is 0 to STEPS; the bin's exact middle is HALF."""
HALF = STEPS // 2
SMALLEST_WIDTH = 1e-290
"""Narrower bins would meet numbers that no engine divides alike."""


def spans(attribute: Numeric) -> tuple[np.ndarray, np.ndarray]:
    """Of each bin the smallest value, and how far the largest lies above it.

    A bin of one value counts as one of width 1 around it, so that the value is its middle.
    """
    low, high = np.array([attribute.bin(code) for code in range(attribute.known)]).T
    with np.errstate(over="ignore"):
        width = high - low
    return np.where(width > 0, low, low - 0.5), np.where(width > 0, width, 1.0)


def has_positions(attribute: Attribute) -> bool:
    """Whether some bin holds more than one value, and none is too wide or too narrow for floating point."""
    if not isinstance(attribute, Numeric) or not attribute.radii.any():
        return False
    low, width = spans(attribute)
    return bool((low + width > low).all() and np.isfinite(2 * width * STEPS).all() and (width > SMALLEST_WIDTH).all())


def positions(attribute: Numeric, values: Any) -> np.ndarray:
    """The position of each raw value; HALF for what has no number or no bin."""
    listed = list(values)
    readings = [attribute.read(value) for value in listed]
    numbers = np.array([np.nan if isinstance(number, Unread) else number for number in readings], dtype=np.float64)
    codes = attribute.encode(listed)
    unknown = np.isnan(numbers) | (codes >= attribute.known)
    low, width = (ends[np.where(unknown, 0, codes)] for ends in spans(attribute))
    clipped = np.clip(np.floor(numbers) if attribute.whole else numbers, *attribute.bounds)
    # (x - low) / width * STEPS, rounded. The width is added and taken away: PostgreSQL refuses what underflows.
    found = np.floor(((clipped - low) + width) / width * STEPS - (STEPS - 0.5))
    return np.where(unknown, HALF, np.clip(found, 0, STEPS)).astype(np.int64)
