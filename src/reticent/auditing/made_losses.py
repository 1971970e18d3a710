"""Made-up losses of every kind for record and replay."""

from __future__ import annotations

import random
from typing import Any

from reticent.domain import Domain, Numeric
from reticent.losses.losses import (
    LOSSES,
    ConvexLoss,
    Hinge,
    Huber,
    Logistic,
    Margin,
    MeanVector,
    Multinomial,
    Poisson,
    Quantile,
    Ridge,
)

__all__ = ["EVERY", "GENERALISED", "some_loss"]

EVERY = tuple(LOSSES.values())
GENERALISED = (Logistic, Hinge, Huber, Quantile, Poisson, Margin, Multinomial)
"""Those whose slope a generalised linear minimiser may find bounded; it refuses the others, which counts as well."""


def some_loss(rng: random.Random, domain: Domain, *kinds: type) -> ConvexLoss:
    """One of the kinds, on some columns of the domain; a kind may refuse its label when it meets the domain."""
    names, kind = list(domain.names), rng.choice(kinds)
    label = rng.choice([name for name in names if not isinstance(domain[name], Numeric)])
    features = rng.sample([name for name in names if name != label], rng.randint(1, len(names) - 1))
    if kind is MeanVector:
        return MeanVector(features=features)
    options: dict[str, Any] = {"ridge": rng.choice([0.05, 0.5])} if kind is Ridge or rng.random() < 0.5 else {}
    if kind in (Logistic, Hinge):
        options["positive"] = rng.randrange(domain[label].size)
    elif kind is Quantile:
        options |= {"level": rng.choice([0.05, 0.5, 0.9]), "width": rng.choice([0.0, 0.25])}
    elif kind is Poisson:
        options["cap"] = rng.choice([0.5, 1.0, 4.0, None])
    elif kind is Margin:
        options["slopes"] = _slopes(rng, domain[label].size)
    return kind(features=features, label=label, radius=rng.choice([0.5, 2.0]), **options)


def _slopes(rng: random.Random, labels: int) -> Any:
    """Knots of a slope that never falls: of the residual, or for every label; two at one margin make a kink."""

    def knots() -> list[tuple[float, float]]:
        margins = sorted(rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0]) for _ in range(2))
        return list(zip(margins, sorted(rng.uniform(-2, 2) for _ in range(2)), strict=True))

    return knots() if rng.random() < 0.5 else {label: knots() for label in range(labels)}
