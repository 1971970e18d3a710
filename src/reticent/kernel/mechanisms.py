"""A mechanism is a frozen object that yields both its noisy release and its price (spec 2)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from reticent.errors import QueryError
from reticent.kernel.noise import Gaussian, Laplace, Noise, Sensitivity
from reticent.kernel.selection import Exponential
from reticent.kernel.threshold import AboveThreshold, Watch

__all__ = [
    "MECHANISMS",
    "AboveThreshold",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Noise",
    "Sensitivity",
    "Watch",
    "restore",
]

Mechanism = Laplace | Gaussian | Exponential | AboveThreshold

MECHANISMS: Mapping[str, type[Mechanism]] = {
    kind.__name__: kind for kind in (Laplace, Gaussian, Exponential, AboveThreshold)
}


def restore(description: Mapping[str, str]) -> Mechanism:
    """The mechanism that wrote this description; the ledger's own text only, never a request."""
    parameters = dict(description)
    kind = MECHANISMS.get(parameters.pop("mechanism", ""))
    if kind is None:
        raise QueryError(f"unknown mechanism {description.get('mechanism')!r}; use one of {', '.join(MECHANISMS)}")
    return kind(**{name: _parameter(text) for name, text in parameters.items()})


def _parameter(text: str) -> Any:
    return text == "True" if text in ("True", "False") else Fraction(text)
