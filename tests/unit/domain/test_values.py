"""Texts of numbers."""

from __future__ import annotations

import pytest

from reticent.domain.values import confidence_text, with_error


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


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (5.005e14, 9.9e20, "5.005e+14 ± 9.9e+20"),
        (3e-15, 2e-16, "3e-15 ± 2e-16"),
        (0.0, 0.0, "0 ± 0"),
        (1798.4, 120.0, "1,798 ± 120"),
        (0.000012, 0.0000013, "0.0000120 ± 0.0000013"),
        (12.0, None, "12"),
    ],
)
def test_a_number_and_its_error_have_a_readable_length(value: float, error: float | None, shown: str) -> None:
    assert with_error(value, error) == shown
