"""Mechanisms: frozen objects that produce both a noisy release and its price (spec 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from reticent.errors import QueryError
from reticent.kernel.accounting import written_fraction
from reticent.kernel.mechanisms.above_threshold import AboveThreshold, Watch
from reticent.kernel.mechanisms.exponential import Exponential
from reticent.kernel.mechanisms.noise import Gaussian, Laplace, Noise, Sensitivity
from reticent.kernel.mechanisms.thresholded import Thresholded

__all__ = [
    "MECHANISMS",
    "AboveThreshold",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Noise",
    "Sensitivity",
    "Thresholded",
    "Watch",
    "restore",
]

Mechanism = Laplace | Gaussian | Exponential | AboveThreshold | Thresholded

MECHANISMS: Mapping[str, type[Mechanism]] = {
    kind.__name__: kind for kind in (Laplace, Gaussian, Exponential, AboveThreshold, Thresholded)
}


def restore(description: Mapping[str, str]) -> Mechanism:
    """The mechanism that wrote this description; from the ledger or a saved release, never a request."""
    parameters = dict(description)
    kind = MECHANISMS.get(str(parameters.pop("mechanism", "")))
    if kind is None:
        raise QueryError(f"unknown mechanism; use one of {', '.join(MECHANISMS)}")
    known = {field.name: field.default is MISSING for field in fields(kind)}
    if not {name for name, needed in known.items() if needed} <= parameters.keys() <= known.keys():
        raise QueryError(f"the parameters of {kind.__name__} are {', '.join(known)}")
    return kind(**{name: _parameter(text) for name, text in parameters.items()})


def _parameter(text: Any) -> Any:
    if text in ("True", "False"):
        return text == "True"
    number = written_fraction(text)
    return int(number) if number.denominator == 1 else number
