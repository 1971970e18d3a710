"""Coefficients of a model with standard errors, from models fitted to every replicate (spec population.md 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reticent.domain.values import confidence_text
from reticent.errors import QueryError
from reticent.hypotheses.replicates import Replicates
from reticent.knowledge.population import BEFOREHAND, SAMPLED, spread
from reticent.knowledge.risks import public_minimum
from reticent.knowledge.tails import check_confidence

if TYPE_CHECKING:
    from reticent.releases.models import Model

__all__ = ["Coefficient", "Coefficients", "coefficient_intervals"]


class Coefficient(NamedTuple):
    """One coefficient on the original scale, with an interval for its value in the population."""

    name: str
    value: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Coefficients:
    """Estimated intervals; `confidence` applies to each interval separately."""

    rows: tuple[Coefficient, ...]
    confidence: float
    note: str
    mode: str = "estimated"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(row.name for row in self.rows)

    def __getitem__(self, name: str) -> Coefficient:
        return next(row for row in self.rows if row.name == name)

    def __iter__(self) -> Iterator[Coefficient]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_arrow(self) -> Any:
        """One row per coefficient."""
        import pyarrow as pa

        return pa.table({name: [getattr(row, name) for row in self.rows] for name in Coefficient._fields})

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        width = max(len("coefficient"), *(len(name) for name in self.names))
        lines = [f"{'coefficient':<{width}}  {'value':>10}  {'std. error':>10}  {'low':>10}  {'high':>10}"]
        for name, *numbers in self.rows:
            lines.append(f"{name:<{width}}  " + "  ".join(f"{number:>10.4g}" for number in numbers))
        return "\n".join([*lines, f"({self.mode}, {confidence_text(self.confidence)}: {self.note})"])


def coefficient_intervals(model: Model, replicates: Replicates | None, confidence: float) -> Coefficients:
    """The spread of each coefficient over models fitted to the replicates."""
    confidence = check_confidence(confidence)
    if replicates is None:
        raise QueryError(
            "intervals of coefficients need replicates: release = release.replicates(80), then release.minimize(loss)"
        )
    problem, found = model.problem, []
    for one in replicates:
        theta, _ = public_minimum(one, problem)
        found.append(list(replace(model, theta=theta).coefficients.values()))
    names, values = list(model.coefficients), np.array(list(model.coefficients.values()))
    errors, reaches = spread(np.array(found), values, confidence)
    note = f"{SAMPLED}; estimated from {replicates.count} replicates, {BEFOREHAND}; nothing certifies coefficients"
    rows = zip(names, values, errors, values - reaches, values + reaches, strict=True)
    return Coefficients(tuple(Coefficient(row[0], *map(float, row[1:])) for row in rows), confidence, note)
