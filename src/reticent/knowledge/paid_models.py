"""Models of convex losses that were paid for, each with the data that bound its excess risk at any confidence.

A certificate of losses: one noisy largest excess risk that covers the models of all losses declared with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import restore
from reticent.kernel.minimizers.excess_risk import FLOATS, GAP
from reticent.kernel.minimizers.families import Minimizer
from reticent.knowledge.tails import audit_share, noise_failure, reach
from reticent.losses.losses import ConvexLoss, loss_from_dict


@dataclass(frozen=True, eq=False)
class ExcessReading:
    """The noisy largest excess risk of audited models, in records."""

    value: float
    noise: Noise
    index: int
    """The index of the audit: the j-th of a ledger has the share 2^-j of the failure probability. A question's own
    audits have an `attempt` instead."""
    scale: float
    records: float
    records_error: float
    cost: int
    ledger_id: int
    vacuous: float
    """The excess risk of zero parameters on any table: a bound from here on is vacuous."""
    hidden: float = 0.0
    """Share of `scale` by which the excess may lie above what was read (`ExcessRisks.hidden`)."""
    attempt: int = 0
    """The number of the audit among those of these losses, from 1, if they requested it themselves (`audit_share`)."""

    def high(self, confidence: float) -> float:
        """An upper bound on every excess risk; infinite if the noise bound or the result is vacuous."""
        high = (self.value + self._stray(confidence) + float(GAP)) * self._unit / (1 - self.records_error)
        high += self.hidden * self.scale
        return high if 0 < high < self.vacuous else inf

    def low(self, confidence: float) -> float:
        """A lower bound on the largest excess risk."""
        return max(0.0, self.value - self._stray(confidence)) * self._unit / (1 + self.records_error)

    @property
    def estimate(self) -> float:
        """The largest excess risk as released, without regard to noise."""
        return self.value * self._unit

    @property
    def _unit(self) -> float:
        return self.scale / self.records

    def _stray(self, confidence: float) -> float:
        share = audit_share(self.attempt) if self.attempt else 2.0**-self.index
        failure = noise_failure(confidence, self.records_error) * share
        return reach(self.noise, failure) + float(FLOATS) if failure > 0 else inf


@dataclass(frozen=True, eq=False)
class PaidModel:
    """Parameters that a private minimiser released, or a hypothesis' own minimiser that passed an audit."""

    theta: np.ndarray
    proof: Minimizer | ExcessReading
    ledger_id: int
    snapshot: str | None = None
    gap: float = 0.0

    def error(self, confidence: float, records_error: float) -> float:
        """An upper bound on its excess risk."""
        if isinstance(self.proof, ExcessReading):
            return self.proof.high(confidence)
        failure = noise_failure(confidence, records_error)
        return self.proof.bound(failure, records_error) if failure > 0 and records_error < 1 else inf


def audited_state(models: Iterable[tuple[str | None, ConvexLoss]]) -> str:
    """The snapshot and the loss of each audited model, which determine its parameters."""
    return hashlib.sha256("".join(f"{snapshot}{loss.digest}" for snapshot, loss in models).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class LossCertificate:
    """Public models and the reading that bounds the excess risk of each of them."""

    losses: tuple[ConvexLoss, ...]
    thetas: tuple[np.ndarray, ...]
    gaps: tuple[float, ...]
    """Upper bounds on the distance of each model from the minimum of the hypothesis' own risk."""
    snapshot: str
    reading: ExcessReading

    def models(self) -> dict[ConvexLoss, PaidModel]:
        """The models in the form in which sessions keep purchases."""
        rows = zip(self.losses, self.thetas, self.gaps, strict=True)
        number = self.reading.ledger_id
        return {loss: PaidModel(theta, self.reading, number, self.snapshot, gap) for loss, theta, gap in rows}

    def to_dict(self) -> dict[str, Any]:
        reading = self.reading
        return {
            "losses": [loss.to_dict() for loss in self.losses],
            "thetas": [theta.tolist() for theta in self.thetas],
            "gaps": list(self.gaps),
            "snapshot": self.snapshot,
            "reading": reading.value,
            "noise": reading.noise.describe(),
            "index": reading.index,
            "scale": reading.scale,
            "hidden": reading.hidden,
            "records": reading.records,
            "records_error": reading.records_error,
            "ledger_id": reading.ledger_id,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], domain: Domain) -> LossCertificate:
        """The inverse of `to_dict`; ValueError for parameters of another shape or outside their ball."""
        losses = tuple(loss_from_dict(entry) for entry in fields["losses"])
        thetas = tuple(np.asarray(theta, dtype=np.float64) for theta in fields["thetas"])
        gaps = tuple(float(gap) for gap in fields["gaps"])
        problems = [loss.on(domain) for loss in losses]
        for problem, theta in zip(problems, thetas, strict=True):
            if theta.shape != (problem.dimension,) or not np.linalg.norm(theta) <= problem.radius * (1 + 1e-9):
                raise ValueError("parameters of another loss")
        if not losses or len(gaps) != len(losses) or not all(gap >= 0 for gap in gaps):
            raise ValueError("a certificate of no losses")
        noise = restore(fields["noise"])
        numbers = {name: float(fields[name]) for name in ("scale", "hidden", "records", "records_error")}
        if not (numbers["scale"] > 0 and numbers["records"] >= 1 and 0 <= numbers["records_error"] < 1):
            raise ValueError("numbers out of range")
        reading = ExcessReading(
            value=float(fields["reading"]),
            noise=noise,  # pyright: ignore[reportArgumentType]
            index=int(fields["index"]),
            cost=0,
            ledger_id=int(fields["ledger_id"]),
            vacuous=min(problem.zero_excess for problem in problems),
            attempt=0,  # a release audits all of its losses at once
            **numbers,
        )
        return cls(losses, thetas, gaps, str(fields["snapshot"]), reading)
