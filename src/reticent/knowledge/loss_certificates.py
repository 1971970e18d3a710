"""A certificate of losses: one noisy largest excess risk that covers the models of all losses declared with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.kernel.mechanisms.base import restore
from reticent.knowledge.paid_models import ExcessReading, PaidModel
from reticent.losses.base import ConvexLoss
from reticent.losses.losses import loss_from_dict


@dataclass(frozen=True, eq=False)
class LossCertificate:
    """Public models and the reading that bounds the excess risk of each of them."""

    losses: tuple[ConvexLoss, ...]
    thetas: tuple[np.ndarray, ...]
    gaps: tuple[float, ...]
    """How far each lies above the minimum of the hypothesis' own risk, at most."""
    snapshot: str
    reading: ExcessReading

    def models(self) -> dict[ConvexLoss, PaidModel]:
        """As sessions keep what was paid for."""
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
        """The inverse of `to_dict`; parameters of another shape, or outside their ball, are refused with ValueError."""
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
