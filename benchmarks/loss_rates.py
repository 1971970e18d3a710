"""Table 1 of the convex paper at default settings: records needed in 1/a, true excess in n, and a whole session.

Formulas are the planner's, which tests hold against the proofs; runs are of the real kernel on tables whose counts are
known here, so that the true excess risk can be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.rates import Law, law_plot
from benchmarks.shown import Claim, Grid, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.minimizers.families import Minimizer, OutputPerturbation, UnconstrainedGLM
from reticent.kernel.table import Table
from reticent.knowledge.minimizers import crossing, least_rho
from reticent.losses.base import ConvexLoss
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum
from reticent.planning.convex import minimizers_price
from reticent.planning.losses import GENERALISED, LIPSCHITZ, STRONGLY
from reticent.releases.convex_plan import Task

RHO, FAILURE, MANY = 0.5, 0.05, 10_000
AMPLE = 1e4
"""Of rho, for k losses: float sums of more than 10^13 records would bend the exponent."""
WITHIN = 0.15
DOMAIN = rt.Domain({"a": 2, "b": 2, "c": 2, "y": 2})
USUAL: dict[str, Any] = {"features": ["a", "b", "c"], "label": "y"}
FAMILIES: dict[str, tuple[tuple[type[Minimizer], ...], ConvexLoss, float, float]] = {
    "Lipschitz": (LIPSCHITZ, rt.Logistic(**USUAL), 1.0, 2.0),
    "generalised linear": (GENERALISED, rt.Logistic(**USUAL), 2.0, 3.0),
    "strongly convex": (STRONGLY, rt.Logistic(**USUAL, ridge=0.01), 0.5, 1.5),
}
"""Minimisers, a loss at its default radius, and the exponents of 1/a for one loss and for k adaptive ones (001)."""
INTRODUCTION = """Records needed for an excess risk of `a` by the planner's formulas, for one loss and for 10,000
adaptive losses (their private minimisers; noisy tests need 1/a²). Every loss has its default radius. Runs are mean true
excess risks of the kernel's minimisers on tables near their worst case."""
COLUMNS = [5, 9, 17, 33, 65]


def records_needed(price: Callable[[float], float], amount: float) -> float:
    return crossing(price, amount, 2.0, 1e13, within=0.01)


def one_loss(kinds: tuple[type[Minimizer], ...], loss: ConvexLoss, domain: rt.Domain, error: float) -> float:
    def price(records: float) -> float:
        return least_rho(kinds, loss, domain, neighbours="replace-one", records=records, error=error, failure=FAILURE)

    return records_needed(price, RHO)


def many_losses(kinds: tuple[type[Minimizer], ...], loss: ConvexLoss, error: float) -> float:
    def price(records: float) -> float:
        task = Task((loss,), DOMAIN, "replace-one", records, MANY, FAILURE, 2.8, kinds=kinds)
        return minimizers_price("convex-tuned", task, error)

    return records_needed(price, AMPLE)


def formulas(points: int) -> list[Law]:
    """n ~ 1/a, 1/a^2, 1/a^(1/2) for one loss; 1/a^2, 1/a^3, 1/a^(3/2) for k adaptive losses."""
    found = []
    for family, (kinds, loss, alone, adaptive) in FAMILIES.items():
        plain, errors = family.replace(" ", "-"), np.geomspace(0.2, 0.002, points)
        sizes = [one_loss(kinds, loss, DOMAIN, float(a)) for a in errors]
        text = f"{family}, one loss: records in 1/a"
        found.append(Law(f"one-{plain}", text, alone, "1 / a", "records needed", 1 / errors, sizes))
        errors = np.geomspace(0.2, 0.01, points)
        sizes = [many_losses(kinds, loss, float(a)) for a in errors]
        text = f"{family}, 10,000 adaptive losses: records in 1/a"
        found.append(Law(f"many-{plain}", text, adaptive, "1 / a", "records needed", 1 / errors, sizes))
    sizes = [
        one_loss(
            GENERALISED, rt.Logistic(features=["x"], label="y", categories=["x"]), rt.Domain({"x": d, "y": 2}), 0.05
        )
        for d in COLUMNS
    ]
    text = "generalised linear, one loss: records in the dimension (5 to 65)"
    found.append(Law("one-generalised-linear-dimension", text, 0.0, "dimension", "records needed", COLUMNS, sizes))
    return found


def private(counts: np.ndarray, budget: rt.Budget) -> tuple[Table, Curator]:
    domain = DOMAIN if counts.shape == DOMAIN.shape else LARGE
    codes = np.indices(domain.shape).reshape(len(domain), -1)
    source = Records.of_codes(domain, dict(zip(domain.names, codes, strict=True)), counts.astype(np.int64).ravel())
    table = Table(source, domain, records=int(counts.sum()))
    return table, Curator(table, Ledger.memory(budget, table.identity))


def excess(loss: ConvexLoss, domain: rt.Domain, counts: np.ndarray, theta: np.ndarray) -> float:
    problem = loss.on(domain)
    axes = tuple(place for place, name in enumerate(domain.names) if name not in problem.attributes)
    risk = TensorRisk(problem, counts.sum(axis=axes) / counts.sum())
    return risk.value(theta) - risk.value(minimum(risk)[0])


def tilted(records: int, tilt: float) -> np.ndarray:
    """Mean of label times feature `a` is `tilt`."""
    share = np.array([-1.0, 1.0])[:, None, None] * tilt * records / 16
    counts = np.full(DOMAIN.shape, records // 16, dtype=float)
    counts[..., 1] += share
    counts[..., 0] -= share
    return np.rint(counts)


def mean_excess(kind: type[Minimizer], loss: ConvexLoss, counts: np.ndarray, runs: int) -> float:
    _, curator = private(counts, rt.Budget(rho=10**6))
    minimizer = kind(loss, DOMAIN, neighbours="replace-one", records=int(counts.sum()), rho=RHO)
    return float(np.mean([excess(loss, DOMAIN, counts, curator.minimize(minimizer).values[0]) for _ in range(runs)]))


def hard_for_ridge(loss: ConvexLoss, records: int) -> np.ndarray:
    """A mean gradient for which the ridge added at this size stops half way to the ball: half its bias is lost.

    That takes a loss which is straight on its ball: one that bends as much as the ridge needs none, and errs far less.
    """
    ridge = UnconstrainedGLM(loss, DOMAIN, neighbours="replace-one", records=records, rho=RHO).convexity
    return tilted(records, ridge * loss.radius / (2 * loss.on(DOMAIN).slope_bound))


def runs(repeats: int) -> list[Law]:
    """True excess ~ 1/n^2 (strongly convex), 1/sqrt(n) (generalised linear)."""
    mean, linear = rt.MeanVector(features=["a", "b", "c"]), rt.Huber(**USUAL, radius=0.25, width=0.25)
    strongly = [1600, 6400, 25600]
    errors = [mean_excess(OutputPerturbation, mean, tilted(n, 0.0), repeats) for n in strongly]
    found = [
        Law("run-strongly-convex", "strongly convex: true excess in n", -2.0, "n", "excess risk", strongly, errors)
    ]
    sizes = [10_000, 100_000, 1_000_000]
    errors = [mean_excess(UnconstrainedGLM, linear, hard_for_ridge(linear, n), repeats) for n in sizes]
    text = "generalised linear: true excess in n"
    return [*found, Law("run-generalised-linear", text, -0.5, "n", "excess risk", sizes, errors)]


LARGE = rt.Domain({"a": 4, "b": 3, "c": 3, "y": 2, "z": 2})


def session_run(records: int, losses: int) -> dict[str, Any]:
    """`convex-tuned` on a skewed table: classifiers of random features, labels and radii."""
    generator = np.random.default_rng(5)
    counts = np.floor(generator.dirichlet(np.full(LARGE.size, 0.3)) * records).reshape(LARGE.shape)
    table, _ = private(counts, rt.Budget(rho=1))
    asked: list[ConvexLoss] = []
    while len(asked) < losses:
        label = str(generator.choice(["y", "z"]))
        pool = [name for name in LARGE.names if name != label]
        features = [str(name) for name in generator.choice(pool, size=generator.integers(1, 5), replace=False)]
        asked.append(rt.Logistic(features=features, label=label, radius=float(generator.uniform(0.5, 1))))
    wide = [rt.Logistic(features=["a", "b", "c", other], label=label, radius=1) for label, other in ("yz", "zy")]
    with rt.Session.open(
        None, table, rt.Budget(epsilon=1, delta=1e-9), engine="convex-tuned", losses=wide, queries=losses
    ) as session:
        models = [session.minimize(loss) for loss in asked]
        facts = session.describe()["epochs"]
        worst = max(excess(model.loss, LARGE, counts, model.theta) for model in models)
        return {
            "records": int(counts.sum()),
            "losses": losses,
            "certified": facts["error"],
            "largest true excess": worst,
            "answers certified": sum(model.certified for model in models),
            "updates": facts["updates"],
            "allowed": facts["planned"],
            "spent": session.spent,
        }


def run(quick: bool) -> dict[str, Any]:
    """Exponents expected and found; one session beside what it promised."""
    laws = [*formulas(3 if quick else 6), *runs(5 if quick else 40)]
    session = session_run(2 * 10**8, 20 if quick else 300)
    return {"slopes": {law.name: law.record() for law in laws}, "session": session}


def present(found: dict[str, Any]) -> list[Shown]:
    """Every law with its line, and the session."""
    laws, session = found["slopes"], found["session"]
    shown: list[Shown] = [INTRODUCTION]
    shown += [
        Claim(f"exponent: {law['claim']}", law["measured slope"], expected=law["expected slope"], within=WITHIN)
        for law in laws.values()
    ]
    shown += [law_plot(name, law) for name, law in laws.items()]
    return [
        *shown,
        Grid("Adaptive losses in one session, epsilon 1, delta 1e-9", dict.fromkeys(session, ""), [session]),
    ]
