"""Constants and other values of them: `MOST_ERROR` of the plan, `WORTH` of smooth priors, `TRUE` and `MOVES` of fits.

Without a bound on each target's error a plan that minimises the workload's total variation leaves small tables with
more noise in each cell than plain noise would; with a tight one the total variation suffers. For each value the
expected total variation over that without a bound, and the largest noise of a target's cells over plain noise's; public
sizes alone decide these. A smooth prior is taken if it is expected to save the share `WORTH` of the squared error: of
generated pairs, smooth and rough, the total variation of the fit over that without any smooth prior, for each share.
A fit holds no cell closer to its measurement than `TRUE` standard deviations: of generated tables of five columns with
all triples measured, total variation and largest error over those of the measurements themselves, for each value.
Records of a support are moved `MOVES` times, after `STEPS_BETWEEN_MOVES` steps of a fit each: `moves_study.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf
from typing import Any

import numpy as np

from benchmarks.moves_study import entry_name, moves_study
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.domain import Domain, Integer
from reticent.hypotheses import moving
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting import proportional, smoothness
from reticent.queries.linear import Marginal
from reticent.releases.allocation import MOST_ERROR
from reticent.releases.candidates import measured_sets
from reticent.releases.residual_plan import ResidualPlan

VALUES = (1.0, 1.1, 1.2, 1.3, 1.5, 2.0, inf)
SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "16 binary, order 3": ((2,) * 16, 3),
    "12 binary, order 4": ((2,) * 12, 4),
    "mixed, order 2": ((2, 3, 5, 8, 12, 20, 40), 2),
    "mixed, order 3": ((2, 3, 5, 8, 12, 20, 40), 3),
    "two large, order 2": ((2, 2, 2, 4, 100, 100), 2),
    "one large, order 3": ((2, 2, 3, 3, 4, 100), 3),
}
MARK = 1.25
"""What the largest error may be of plain noise's."""
WORTHS = (0.0, 0.1, 0.2, 0.4, 1.0)
NOISES = (1e-4, 1e-3, 4e-3)
CODES, SEED, RUNS = 60, 20261117, 5
WORTH_MARK = 1.05
MOVED_MARK = 1.1
TRUES = (1.0, 2.0, 3.0, 4.0, inf)
HELD_SHAPE, HELD_NOISES, HELD_RUNS = (8, 8, 5, 4, 3), (1e-4, 1e-3), 3


def studied(shape: tuple[int, ...], order: int) -> list[dict[str, float]]:
    domain = Domain({f"c{i}": size for i, size in enumerate(shape)})
    targets = dict.fromkeys(combinations(domain.names, order), 1.0)
    plan = ResidualPlan(domain, measured_sets(domain, targets, 1 << 26), targets, total=True)
    unknown, nothing = [None] * len(plan.sets), np.zeros(len(plan.sets))
    rows = []
    for value in VALUES:
        precisions = plan.fill(1.0, nothing, unknown, most_error=value)
        rows.append(
            {
                "most error": f"{value:g}",
                "total variation": plan.objective(precisions, unknown),
                "largest noise": float(plan.noise_over_plain(1.0, precisions).max()),
            }
        )
    free = rows[-1]["total variation"]
    return [row | {"total variation": row["total variation"] / free} for row in rows]


def pair_of(kind: str, generator: np.random.Generator) -> np.ndarray:
    """A table of many ordered codes and a few others: logits of a slow wave, of a random walk, or of single cells."""
    logits = generator.normal(0, 0.5, (1, 4)) + np.zeros((CODES, 4))
    if kind == "wave":
        phases = generator.uniform(0, 2 * np.pi, 4)
        logits = logits + np.cos(np.linspace(0, 2 * np.pi, CODES)[:, None] + phases)
    elif kind == "walk":
        logits = logits + np.cumsum(generator.normal(0, 0.15, (CODES, 4)), axis=0)
    else:
        logits = logits + generator.normal(0, 0.6, (CODES, 4))
    weights = np.exp(logits)
    return weights / weights.sum()


def smoothed(kind: str, sd: float) -> dict[str, Any]:
    """Mean total variation of fits for each share that must be saved, over that of the last, which none saves."""
    domain, kept = Domain({"a": Integer(CODES), "b": 4}), smoothness.WORTH
    found = dict.fromkeys(WORTHS, 0.0)
    try:
        for run in range(RUNS):
            generator = np.random.default_rng(SEED + run)
            truth = pair_of(kind, generator)
            measured = [Measurement(Marginal(("a", "b")), truth + generator.normal(0, sd, truth.shape), sd)]
            measured += [
                Measurement(
                    Marginal((name,)), truth.sum(axis=axis) + generator.normal(0, sd, truth.shape[1 - axis]), sd
                )
                for axis, name in ((1, "a"), (0, "b"))
            ]
            for worth in WORTHS:
                smoothness.WORTH = worth
                hypothesis = DenseHypothesis(domain)
                hypothesis.fit(measured)
                found[worth] += float(np.abs(hypothesis.marginal(("a", "b")) - truth).sum()) / 2
    finally:
        smoothness.WORTH = kept
    return {"table": kind, "noise": sd} | {f"{worth:g}": found[worth] / found[WORTHS[-1]] for worth in WORTHS}


def five_columns(kind: str, generator: np.random.Generator) -> np.ndarray:
    """Shares of a table: one column a function of another, a dozen heavy cells, or interactions of three everywhere."""
    if kind == "copied":
        found = np.zeros(HELD_SHAPE)
        shares, rest = generator.dirichlet(np.full(8, 0.4)), generator.dirichlet(np.full(60, 0.5), size=8)
        for code in range(8):
            found[code, 3 * code % 8] = shares[code] * rest[code].reshape(HELD_SHAPE[2:])
        return found
    if kind == "sparse":
        cells = 0.3 * generator.dirichlet(np.full(int(np.prod(HELD_SHAPE)), 0.05))
        cells[generator.choice(cells.size, 12, replace=False)] += 0.7 * generator.dirichlet(np.ones(12))
        return cells.reshape(HELD_SHAPE)
    axes = combinations(range(len(HELD_SHAPE)), 3)
    shapes = [[size if axis in three else 1 for axis, size in enumerate(HELD_SHAPE)] for three in axes]
    weights = np.exp(sum(generator.normal(0, 0.6, shape) for shape in shapes))
    return weights / weights.sum()


def held(kind: str, sd: float) -> dict[str, Any]:
    """Total variation and largest error of fits over those of what was measured, for each floor of their bounds."""
    domain, kept = Domain({f"c{i}": size for i, size in enumerate(HELD_SHAPE)}), proportional.TRUE
    triples = list(combinations(domain.names, 3))
    found: dict[float, list[tuple[float, float]]] = {value: [] for value in TRUES}
    try:
        for run in range(HELD_RUNS):
            generator = np.random.default_rng(SEED + run)
            whole = DenseHypothesis(domain, five_columns(kind, generator))
            truths = whole.marginals(triples)
            values = [truth + generator.normal(0, sd, truth.shape) for truth in truths]
            measured = [Measurement(Marginal(names), cells, sd) for names, cells in zip(triples, values, strict=True)]
            plain = _errors(values, truths)
            for value in TRUES:
                proportional.TRUE = value
                hypothesis = DenseHypothesis(domain)
                hypothesis.fit(measured)
                own = _errors(hypothesis.marginals(triples), truths)
                found[value].append((own[0] / plain[0], own[1] / plain[1]))
    finally:
        proportional.TRUE = kept
    means = {value: np.mean(ratios, axis=0) for value, ratios in found.items()}
    return {"table": kind, "noise": sd} | {f"{value:g}": [float(one) for one in means[value]] for value in TRUES}


def _errors(found: Sequence[np.ndarray], truths: Sequence[np.ndarray]) -> tuple[float, float]:
    errors = [np.abs(cells - truth) for cells, truth in zip(found, truths, strict=True)]
    return float(sum(error.sum() for error in errors)), float(max(error.max() for error in errors))


def run(quick: bool) -> dict[str, Any]:
    """Every shape, every generated pair, and every generated table of five columns."""
    return {
        "shapes": {name: studied(*case) for name, case in SHAPES.items()},
        "smooth": [smoothed(kind, sd) for kind in ("wave", "walk", "cells") for sd in NOISES],
        "held": [held(kind, sd) for kind in ("copied", "sparse", "dense") for sd in HELD_NOISES],
        "moves": moves_study(),
    }


def present(found: dict[str, Any]) -> list[Shown]:
    chosen = [
        row | {"shape": name}
        for name, rows in found["shapes"].items()
        for row in rows
        if row["most error"] == f"{MOST_ERROR:g}"
    ]
    cells = [
        {"shape": name} | {row["most error"]: _both(row) for row in rows} for name, rows in found["shapes"].items()
    ]
    return [
        (
            "The plan lets no target have more than `MOST_ERROR` times the error of plain noise. Each entry is the"
            " expected total variation over that without a bound, then the largest noise of a target's cells over plain"
            " noise's."
        ),
        *(Claim(f"largest noise over plain, {row['shape']}", row["largest noise"], at_most=MARK) for row in chosen),
        Plot(
            "most-error",
            "What a bound on each target's noise costs",
            "largest noise over plain noise's",
            "total variation over that without a bound",
            series={
                name: [(row["largest noise"], row["total variation"]) for row in rows]
                for name, rows in found["shapes"].items()
            },
            marks={},
            expected="Falls steeply up to about 1.2, slowly beyond; one point where all targets are alike.",
        ),
        Grid("Total variation / largest noise, by the bound", dict.fromkeys(cells[0], ""), cells),
        Claim(
            "total variation of fits with smooth priors over fits without, the worst generated pair",
            max(row[f"{smoothness.WORTH:g}"] for row in found["smooth"]),
            at_most=WORTH_MARK,
        ),
        Grid(
            "Total variation over that without smooth priors, by the share of the error that one must save",
            dict.fromkeys(found["smooth"][0], ""),
            found["smooth"],
        ),
        Claim(
            "largest error of fits over that of what was measured, the worst generated table",
            max(row[f"{proportional.TRUE:g}"][1] for row in found["held"]),
            at_most=1.0,
        ),
        Grid(
            "Total variation / largest error over those of what was measured, by the floor of a cell's bound",
            dict.fromkeys(found["held"][0], ""),
            [{name: _pair(value) for name, value in row.items()} for row in found["held"]],
        ),
        Claim(
            "total variation of fits on moved records over that of what was measured, the worst generated table",
            max(row[entry_name((moving.MOVES, moving.STEPS_BETWEEN_MOVES))][0] for row in found["moves"]),
            at_most=MOVED_MARK,
        ),
        Grid(
            "Total variation over that of what was measured / processor seconds, by moves and the steps between them",
            dict.fromkeys(found["moves"][0], ""),
            [{name: _pair(value) for name, value in row.items()} for row in found["moves"]],
        ),
    ]


def _pair(value: Any) -> Any:
    return f"{value[0]:.3f} / {value[1]:.2f}" if isinstance(value, list) else value


def _both(row: dict[str, float]) -> str:
    return f"{row['total variation']:.3f} / {row['largest noise']:.2f}"
