"""Private minimisers of convex losses on the neighbours whose one changed label turns the fit most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reticent.auditing.cases import Case, Runs
from reticent.auditing.tables import DOMAIN, four_cell_table
from reticent.kernel.minimizers.families import (
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    RidgeGLM,
    SufficientStatistics,
)
from reticent.kernel.table import exact_counts
from reticent.losses.losses import ConvexLoss, Logistic, MeanVector, Squared

GROUP = "minimisers"
RHO = 2
BATCH = 10
LABEL_CHANGED = ((2, 2, 2, 2), (2, 2, 3, 1))
"""The label `b` of one record with `a` = 1 changes: intercept and slope move the same way."""
OPPOSITE = ((2, 0, 0, 0), (1, 0, 0, 1))
"""One of two records moves across: no mean changes more."""


def minimizer_cases() -> list[Case]:
    mean, line = MeanVector(features=["a", "b"]), {"features": ["a"], "label": "b"}
    return [
        _case("noisy gradient descent", NoisyGradientDescent, mean, OPPOSITE),
        _case("output perturbation", OutputPerturbation, mean, OPPOSITE),
        _case("sufficient statistics", SufficientStatistics, Squared(**line), LABEL_CHANGED),
        _case("ridge for a generalised linear model", RidgeGLM, Logistic(**line), LABEL_CHANGED),
    ]


def _case(name: str, kind: type[Minimizer], loss: ConvexLoss, counts: tuple[Sequence[int], Sequence[int]]) -> Case:
    minimizer = kind(loss, DOMAIN, neighbours="replace-one", records=sum(counts[0]), rho=RHO)
    tables, charged = [four_cell_table(each) for each in counts], float(minimizer.price().rho)

    def draw(table: int) -> Runs:
        exact = minimizer.fetch(exact_counts(tables[table]), 1)
        return Runs(np.array([float(minimizer.release(exact).sum()) for _ in range(BATCH)]), charged)

    return Case(name, GROUP, "rho", draw)
