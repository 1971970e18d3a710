"""Texts of numbers."""

from __future__ import annotations

import pytest

from reticent.domain.values import confidence_text


@pytest.mark.parametrize(
    ("confidence", "text"),
    [
        (0.95, "0.95"),
        (0.99995, "0.99995"),
        (1 - 1e-6, "0.999999"),
        (1 - 1e-15, "1 - 1e-15"),
        (1 - 2e-11, "1 - 2e-11"),
        (1.0, "1"),
    ],
)
def test_no_rounding_makes_a_confidence_certainty(confidence: float, text: str) -> None:
    assert confidence_text(confidence) == text
    assert confidence_text(confidence, 6) == text
