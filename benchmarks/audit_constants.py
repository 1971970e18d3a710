"""Three constants of audits that losses order, and what other values would do.

`HIDDEN_SHARE` of the wanted error is added to every bound, for a ridge with which the private minimum takes fewer
steps: the expected price of a certified model and the steps of generated losses, over those without. `WIDEST_SHARE` is
how far noise may reach where a loss may cost less than an audit: certified models for each unit spent. `LEAST_SHARE` of
the budget is the smallest late start: how many models of generated tables then err so little that an audit passes.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy.stats import norm

import reticent as rt
from benchmarks.loss_rates import excess
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.minimizers.excess_risk import LARGEST_HIDDEN, ExcessRisk, least_scale
from reticent.kernel.table import Table
from reticent.knowledge.tails import audit_share
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum
from reticent.releases.adaptive import Adaptive
from reticent.sessions.loss_audits import ATTEMPTS, HIDDEN_SHARE, LEAST_SHARE, NOISE_SHARE, WIDEST_SHARE
from reticent.sessions.warm_start import default_workload

FAILURE, WANTED = 0.05, 0.05
MINIMIZER = 10
"""Price of a private minimiser, in audits."""
HIDDEN = (0.0, 1 / 160, 1 / 80, 1 / 40, 1 / 20, 1 / 10)
WIDEST = (2 / 3, 0.75, 0.8, 0.85, 0.9, WIDEST_SHARE, 0.95, 1.0)
GOOD = (0.0, 0.05, 0.1)
"""Excess of a model, as a share of the wanted error: what a start leaves of most."""
STARTS = (1 / 1600, 1 / 400, 1 / 100, 1 / 40, 1 / 10)
SHAPES = {"small": (2, 3, 2, 4), "mixed": (2, 12, 5, 2, 8), "wide": (2, 3, 4, 2, 5, 3, 2, 6)}
RECORDS, LOSSES, SEED = 20_000, 12, 20261117
BUDGET = rt.Budget(epsilon=1, delta=1e-9)
DEARER, PASSED, ROUNDING = 1.1, 0.5, 1e-9
INTRODUCTION = """An audit passes if reading, reach of its noise and hidden share stay within the wanted error. Prices
are in audits whose noise may reach the whole error. What other values of three constants would do, from formulas and
generated tables."""


def passes(share: float, hidden: float, true: float, attempt: int = 1) -> float:
    """How often an audit passes whose noise may reach `share` of the error; `true` is the excess, in errors."""
    reach = norm.isf(FAILURE * audit_share(attempt))
    return float(norm.cdf((1 - share - hidden - true) * reach / share))


def expected_price(hidden: float, true: float) -> float:
    """Of a certified model: up to three audits, a minimiser where all fail or a reading lies beyond the error."""
    reaches = [norm.isf(FAILURE * audit_share(attempt)) for attempt in range(1, ATTEMPTS + 1)]
    # At a given reach the price falls with the square of the noise: 1 where the first may reach the whole error.
    prices = [(reach / reaches[0] / NOISE_SHARE) ** 2 for reach in reaches]
    spent, asked = 0.0, 1.0
    for attempt, (price, reach) in enumerate(zip(prices, reaches, strict=True), start=1):
        passed = passes(NOISE_SHARE, hidden, true, attempt)
        within = float(norm.cdf((1 - true) * reach / NOISE_SHARE))
        spent += asked * price
        spent += asked * (1 - within) * MINIMIZER * prices[0]
        asked *= within - passed
    return float(spent + asked * MINIMIZER * prices[0])


def steps_of(hidden: float) -> float:
    """Geometric mean over generated losses of the steps of their private minimum, over those without a ridge."""
    ratios = []
    for shape, radius in product(SHAPES.values(), (1.0, 2.0, 8.0)):
        domain = rt.Domain({f"c{i}": size for i, size in enumerate(shape)})
        loss = rt.Logistic(features=list(domain.names[1:]), label="c0", radius=radius)
        theta = np.zeros(loss.on(domain).dimension)
        scale = least_scale(loss.on(domain), theta, "replace-one")
        share = min(hidden * WANTED / scale, LARGEST_HIDDEN)
        work = [ExcessRisk((loss,), (theta,), (scale,), domain, RECORDS, None, h).work for h in (share, 0.0)]
        ratios.append(work[0] / work[1])
    return float(np.exp(np.mean(np.log(ratios))))


def table_of(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Counts of a table whose columns depend on the first and on their neighbours."""
    logits = np.zeros(shape)
    for one in range(len(shape)):
        for other in {0, max(0, one - 1)}:
            axes = sorted({one, other})
            sizes = [size if axis in axes else 1 for axis, size in enumerate(shape)]
            logits = logits + generator.normal(0, 0.7, sizes)
    weights = np.exp(logits)
    return generator.multinomial(RECORDS, (weights / weights.sum()).ravel()).reshape(shape)


def started(name: str, share: float, generator: np.random.Generator) -> list[float]:
    """The excess of models of random losses after a late start for this share of the budget, in wanted errors."""
    shape = SHAPES[name]
    domain = rt.Domain({f"c{i}": rt.Categorical([f"v{code}" for code in range(size)], other=False) for i, size in
                        enumerate(shape)})  # fmt: skip
    counts = table_of(shape, generator)
    codes = np.indices(shape).reshape(len(shape), -1)
    source = Records.of_codes(domain, dict(zip(domain.names, codes, strict=True)), counts.ravel())
    table = Table(source, domain, records=RECORDS)
    curator = Curator(table, Ledger.memory(BUDGET, table.identity))
    start = Adaptive(audit_share=0, histogram_cells=0, at_once=True)
    outcome = start.run(curator, default_workload(domain).on(domain), allowance=int(share * BUDGET.limit), key="start")
    found = []
    for _ in range(LOSSES):
        label, *features = (
            str(one) for one in generator.choice(domain.names, int(generator.integers(2, 5)), replace=False)
        )
        positive = None if domain[label].size == 2 else "v0"
        loss = rt.Logistic(features=features, label=label, radius=2.0, positive=positive)
        problem = loss.on(domain)
        theta, _ = minimum(TensorRisk(problem, outcome.hypothesis.marginal(problem.attributes)))
        found.append(excess(loss, domain, counts.astype(float), theta) / WANTED)
    return found


def run(quick: bool) -> dict[str, Any]:
    """Formulas for the first two constants, generated tables for the third."""
    hidden = [
        {"hidden": h, "steps": steps_of(h)}
        | {f"price, excess {x:g}": expected_price(h, x) / expected_price(0.0, x) for x in GOOD}
        for h in HIDDEN
    ]
    widest = [
        {"widest": w}
        | {f"passes, excess {x:g}": passes(w, HIDDEN_SHARE, x) for x in GOOD}
        | {f"models a price, excess {x:g}": w**2 * passes(w, HIDDEN_SHARE, x) for x in GOOD}
        for w in WIDEST
    ]
    generator = np.random.default_rng(SEED)
    starts = []
    for name, share in product(list(SHAPES)[:1] if quick else SHAPES, STARTS):
        errors = started(name, share, generator)
        passed = [passes(NOISE_SHARE, HIDDEN_SHARE, error) for error in errors]
        starts.append(
            {
                "table": name, "start": share, "median excess": float(np.median(errors)),
                "largest excess": max(errors), "audits that pass": float(np.mean(passed)),
            }
        )  # fmt: skip
    return {"hidden": hidden, "widest": widest, "starts": starts}


def present(found: dict[str, Any]) -> list[Shown]:
    hidden = next(row for row in found["hidden"] if row["hidden"] == HIDDEN_SHARE)
    widest = next(row for row in found["widest"] if row["widest"] == WIDEST_SHARE)
    least = [row for row in found["starts"] if row["start"] == float(LEAST_SHARE)]
    worst = GOOD[-1]
    curves: dict[str, Any] = {
        table: [(row["start"], row["audits that pass"]) for row in found["starts"] if row["table"] == table]
        for table in dict.fromkeys(row["table"] for row in found["starts"])
    }
    return [
        INTRODUCTION,
        Claim(
            "price of a model with the hidden share over that without",
            hidden[f"price, excess {worst:g}"],
            at_most=DEARER,
        ),
        Claim("steps with the hidden share over those without", hidden["steps"], at_most=0.5),
        Claim(
            "audits with the widest noise that pass, excess a twentieth of the error",
            widest[f"passes, excess {GOOD[1]:g}"],
            at_least=PASSED - ROUNDING,
        ),
        Claim(
            "audits that pass after the least late start, worst table",
            min(row["audits that pass"] for row in least),
            at_least=PASSED,
        ),
        Plot(
            "starts",
            "What a late start of a share of the budget is worth",
            "share of the budget",
            "audits that pass",
            curves,
            expected="Rises, then levels off.",
        ),
        Grid("Price and steps by the hidden share, over those without", dict.fromkeys(hidden, ""), found["hidden"]),
        Grid("By how far noise may reach, in wanted errors", dict.fromkeys(widest, ""), found["widest"]),
        Grid("Late starts, excess in wanted errors", dict.fromkeys(least[0], ""), found["starts"]),
    ]
