"""Exact checks without sampling: sensitivities over all pairs of tiny tables, and the order of ledger operations.

Private minimisers are checked without sampling too: on every neighbour, the released vector moves no further than its
price assumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np

from reticent.auditing.cases import DOMAIN, RECORDS, Counts, VerdictLine, every_pair, four_cell_table
from reticent.errors import LedgerError
from reticent.kernel.accounting import NANO, Budget, Price
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.above_threshold import Watch
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace
from reticent.kernel.mechanisms.noise import Sensitivity
from reticent.kernel.minimizers import excess_risk
from reticent.kernel.minimizers import families as kernel
from reticent.kernel.minimizers.excess_risk import ExcessRisk
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts, joint_price
from reticent.kernel.statistics import (
    AnswerErrors,
    BlockCounts,
    CellScores,
    ConjunctionScores,
    GroupCounts,
    LinearCount,
    MarginalCounts,
    MaxError,
    PartitionCounts,
    Statistic,
)
from reticent.kernel.table import Neighbours, exact_counts
from reticent.losses.losses import ConvexLoss, Logistic, Margin, MeanVector, Squared
from reticent.losses.risk import TensorRisk
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.distribution import WHOLE, Distribution, Questions
from reticent.queries.groups import Groups
from reticent.queries.linear import Conjunction, Count, Marginal, Residual, Weighted
from reticent.queries.predicate import col
from reticent.queries.workload import Workload, marginals
from reticent.releases.dualquery.dualquery import DualQuery
from reticent.releases.dualquery.query_player import query_player

BOTH: tuple[Neighbours, ...] = ("replace-one", "add-remove")
THETAS = (np.zeros(2), np.array([3.0, 0.0]), np.array([-1.0, 2.0]))
UNDERSTATED = (1.0, 1 / 3)
"""Shares of a loss' true Lipschitz bound: gradients of a loss that understates its bound must be clipped."""
PRECISE = 1e-6
"""The accuracy of the exact minimum here, as a share of one record's effect."""


def gradient_sums() -> str:
    """One record changes a sum of clipped gradients by at most what a descent pays for, at any parameters."""
    for neighbours in BOTH:
        loss = Logistic(features=["a"], label="b", radius=3)
        minimizer = kernel.NoisyGradientDescent(loss, DOMAIN, **_public(neighbours))
        for share in UNDERSTATED:
            sums = partial(_gradients, minimizer, share * minimizer.problem.lipschitz)
            if far := _further(neighbours, sums, [minimizer.sensitivity] * len(THETAS)):
                return f"a sum of gradients {far}"
    return ""


def _gradients(minimizer: kernel.NoisyGradientDescent, limit: float, counts: Counts) -> list[np.ndarray]:
    risk = TensorRisk(minimizer.problem, minimizer.fetch(exact_counts(four_cell_table(counts)), 1))
    return [kernel.clipped_sum(risk, theta, limit) for theta in THETAS]


def located_minima() -> str:
    """One record changes the minimiser, and twice the gap of a solver that stops early, by at most what is paid for."""
    early = 2 * (float(kernel.LOCATED) - PRECISE)
    for neighbours in BOTH:
        minimizer = kernel.OutputPerturbation(MeanVector(features=["b"]), DOMAIN, **_public(neighbours))
        if far := _further(neighbours, partial(_minimum, minimizer), [minimizer.sensitivity], early):
            return f"a minimum {far}"
    return ""


def _minimum(minimizer: kernel.OutputPerturbation, counts: Counts) -> list[np.ndarray]:
    risk, ratio = minimizer.fetch(exact_counts(four_cell_table(counts)), 1)
    found = kernel.located_minimum(risk, minimizer.shape.heavier(ratio), PRECISE * minimizer.unit)
    return [found / minimizer.unit]


def phased_minima() -> str:
    """One record changes the minima of all phases, from any public starting points, by at most what is paid for."""
    loss = MeanVector(features=["b"], radius=50)
    for neighbours in BOTH:
        minimizer = kernel.PhasedERM(loss, DOMAIN, **_public(neighbours))
        at = cache(partial(_phases, minimizer))
        paid = float(minimizer.price().rho)
        for first, second in every_pair(neighbours):
            moves = [float(np.linalg.norm(a - b)) for a, b in zip(at(first), at(second), strict=True)]
            spent = math.fsum(m**2 / (2 * float(n.sigma) ** 2) for m, n in zip(moves, minimizer.noises, strict=True))
            if spent > paid:
                return f"phases spend {spent:.4f} of rho, priced for {paid:.4f}"
    return ""


def _phases(minimizer: kernel.PhasedERM, counts: Counts) -> list[np.ndarray]:
    exact = minimizer.fetch(exact_counts(four_cell_table(counts)), 1)
    centres = [np.full(minimizer.problem.dimension, 0.1 * phase) for phase in range(minimizer.phases)]
    return [minimizer.located(exact, phase, centre) for phase, centre in enumerate(centres)]


def second_moments() -> str:
    """One record changes each released moment by at most what its share pays for."""
    loss: ConvexLoss = Squared(features=["a"], label="b", intercept=False)
    for neighbours in BOTH:
        minimizer = kernel.SufficientStatistics(loss, DOMAIN, **_public(neighbours))
        if far := _further(neighbours, partial(_moments, minimizer), minimizer.sensitivities):
            return f"a moment {far}"
    return ""


def _moments(minimizer: kernel.SufficientStatistics, counts: Counts) -> list[np.ndarray]:
    gram, cross = minimizer.fetch(exact_counts(four_cell_table(counts)), 1)
    return [gram, cross, np.linalg.eigvalsh(gram)[:1]]


def _public(neighbours: Neighbours) -> dict[str, Any]:
    return {"neighbours": neighbours, "records": RECORDS, "rho": 1}


def _further(
    neighbours: Neighbours, sums: Callable[[Counts], list[np.ndarray]], paid: Sequence[Sensitivity], more: float = 0.0
) -> str:
    """A description of how a released vector moves further between two neighbours than was paid for; None if it does
    not.
    """
    at = cache(sums)
    for first, second in every_pair(neighbours):
        for left, right, sensitivity in zip(at(first), at(second), paid, strict=True):
            moved, limit = float(np.linalg.norm(left - right)) + more, math.sqrt(float(sensitivity.l2_squared))
            if moved > limit:
                return f"moves by {moved:.4f}, priced for {limit:.4f}"
    return ""


GROUP = "exact checks"
SETS = (("a",), ("a", "b"))
SCORES = (CellScores, ConjunctionScores)


def exact_lines() -> list[VerdictLine]:
    """All checks; each returns the fault it found, or nothing."""
    return [VerdictLine(name, GROUP, not (found := check()), note=found) for name, check in CHECKS.items()]


def _statistics() -> list[Statistic]:
    """All statistics that may be computed from rows, with fixed public guesses."""
    random = np.random.default_rng(3)
    guesses = tuple(random.uniform(0, 2, DOMAIN.shape_of(names)) for names in SETS)
    half, both = Weighted({"a": [0.25, 1.0], "b": [0.0, 0.5]}), Count((col("a") == 1) & (col("b") >= 1))
    cells = Conjunctions.of_cells(DOMAIN, [("a", "b")])
    weighted = query_player(Workload([Marginal(("a",)), Conjunction({"b": 0})], weights=[1, 4]), DOMAIN)
    mean = MeanVector(features=["b"])
    problem = mean.on(DOMAIN)
    asked = Questions(DOMAIN, Distribution("mixed", SETS))
    # linear, so that one record moves its minimiser across the ball
    line = Margin(features=["a"], label="b", intercept=False, slopes={0: [(0, 1)], 1: [(0, -1)]})
    end = np.array([line.radius])
    least = excess_risk.least_scale(line.on(DOMAIN), end, "add-remove")
    return [
        LinearCount(half, DOMAIN),
        LinearCount(both, DOMAIN),
        MarginalCounts(Marginal(("a", "b")), DOMAIN),
        GroupCounts(Groups(["b"], col("a") == 1), DOMAIN),
        BlockCounts(("a", "b"), (1, 2), DOMAIN),
        PartitionCounts((half,), DOMAIN),
        PartitionCounts((both, Count(col("b") >= 1)), DOMAIN),
        *(ResidualCounts(Residual(names), DOMAIN) for names in SETS),
        *(MaxError(kind, SETS, guesses) for kind in ("cells", "boxes", "predicates")),
        AnswerErrors((half, both), np.array([0.3, 1.7]), DOMAIN),
        ErrorQuantile(asked, guesses, 3 * WHOLE // 4),
        CellScores(SETS, tuple(-guess for guess in guesses)),
        ConjunctionScores(cells, random.uniform(-1, 1, len(cells))),
        weighted.scores(1.0, 1.0),
        ExcessRisk((mean,), (np.full(problem.dimension, problem.radius),), (problem.scale,), DOMAIN, RECORDS),
        ExcessRisk((line,), (end,), (least,), DOMAIN, 4 * RECORDS),  # more than there are: nothing is cut off
    ]


def sensitivities(neighbours: Neighbours) -> str:
    """No statistic moves further between neighbours than the price assumes."""
    pairs = list(every_pair(neighbours))
    tables = {counts: four_cell_table(counts, neighbours) for pair in pairs for counts in pair}
    for statistic in _statistics():
        declared, grid = statistic.sensitivity(neighbours), statistic.resolution(1)
        values = {c: np.ravel(statistic.evaluate(exact_counts(t), 1)).astype(object) for c, t in tables.items()}
        # A selection needs every single score to move little, a measurement the whole vector.
        total: Callable[[Any], Any] = max if isinstance(statistic, SCORES) else sum
        for first, second in pairs:
            move = np.abs(values[first] - values[second])
            far = Fraction(int(total(move)), grid), Fraction(int(total(move**2)), grid**2)
            if far[0] > declared.l1 or far[1] > declared.l2_squared:
                return f"{type(statistic).__name__} moves by {float(far[0]):g}, priced for {float(declared.l1):g}"
    return ""


def residuals_together(neighbours: Neighbours) -> str:
    """Residuals measured together cost what the worst pair of neighbours reveals: not less, and hardly more."""
    names = [("a",), ("b",), ("a", "b")]
    asked = [ResidualCounts(Residual(listed), DOMAIN) for listed in names]
    pairs = list(every_pair(neighbours))
    tables = {counts: four_cell_table(counts, neighbours) for pair in pairs for counts in pair}
    values = {c: [s.evaluate(exact_counts(t), 1).astype(object) for s in asked] for c, t in tables.items()}
    for sigmas in ((3, 5, 2), (9, 2, 4), (5, 4, 30)):
        price = joint_price([(s, Gaussian(sigma)) for s, sigma in zip(asked, sigmas, strict=True)], neighbours).rho
        told = max(
            sum(
                Fraction(int(((here - there) ** 2).sum()), 2 * sigma**2 * statistic.cells**2)
                for here, there, sigma, statistic in zip(values[one], values[other], sigmas, asked, strict=True)
            )
            for one, other in pairs
        )
        if not told <= price <= told * (1 + Fraction(1, 10**9)):
            return f"residuals tell {float(told):g} together and are charged {float(price):g}"
    return ""


TABLE = four_cell_table((2, 1, 0, 1))


def _curator(budget: Budget) -> tuple[Curator, Ledger]:
    ledger = Ledger.memory(identity=TABLE.identity, budget=budget)
    return Curator(TABLE, ledger), ledger


def _rounding() -> str:
    """The charge is never less than the exact price."""
    for price in (Price(Fraction(1, 3), Fraction(1, 7)), Price(Fraction(10, 9), Fraction(2, 7))):
        for budget, wanted in ((Budget(epsilon=2), price.pure), (Budget(rho=2), price.rho)):
            if wanted is None or budget.cost(price) < wanted * NANO:
                return "a charge is below its price"
    return ""


def _charged_first() -> str:
    """Noise is drawn only after the ledger holds the charge."""
    curator, ledger = _curator(Budget(rho=1))
    held, release = list[int](), Gaussian.release

    def watched(noise: Gaussian, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        held.append(ledger.spent)
        return release(noise, counts, grid)

    with patch.object(Gaussian, "release", watched):
        curator.measure([Count()], Gaussian(10))
    price = Budget(rho=1).cost(curator.price([Count()], Gaussian(10)))
    return "" if held == [price] else "noise was drawn before the charge was in the ledger"


def _every_draw_pays() -> str:
    curator, ledger = _curator(Budget(rho=10))
    curator.select(CellScores((("a",),), (np.zeros(2),)), Exponential(Fraction(1, 3)), draws=5)
    return "" if ledger.spent >= NANO * 5 / 72 else "five selections cost less than five"


def _every_epoch_pays() -> str:
    """A threshold is kept in memory only: after a restart the next one is paid again."""
    curator, ledger = _curator(Budget(rho=1))
    test = AboveThreshold(threshold_epsilon=Fraction(1, 10), query_epsilon=Fraction(1, 10))
    curator.watch(1.0, test)
    once = ledger.spent
    Curator(TABLE, ledger).watch(1.0, test)
    return "" if once > 0 and ledger.spent == 2 * once else "a redrawn threshold was free"


def _stated_movement() -> str:
    """An epoch's noise is drawn for the sensitivity with which it was opened, whatever is tested first."""
    curator, _ = _curator(Budget(rho=1))
    moved, drawn, opened = Fraction(5, 2), list[int](), AboveThreshold.open

    def seen(mechanism: AboveThreshold, threshold: int, sensitivity: int) -> Watch:
        drawn.append(sensitivity)
        return opened(mechanism, threshold, sensitivity)

    count = AnswerErrors((Count(),), np.array([0.0]), DOMAIN)
    mechanism = AboveThreshold(threshold_epsilon=Fraction(1, 2), query_epsilon=Fraction(1, 2))
    with patch.object(AboveThreshold, "open", seen):
        curator.exceeds(count, curator.watch(1e6, mechanism, moved=moved))
    grid = count.resolution(TABLE.grid) * TABLE.grid
    return "" if drawn[0] >= moved * grid else "an epoch's noise is for less than it was opened for"


def _one_bit() -> str:
    """A comparison yields yes or no, and leaves no trace in the ledger."""
    curator, ledger = _curator(Budget(rho=1))
    epoch = curator.watch(1.0, AboveThreshold(threshold_epsilon=Fraction(1, 2), query_epsilon=Fraction(1, 2)))
    before = len(list(ledger.events()))
    outcome = curator.exceeds(AnswerErrors((Count(),), np.array([0.0]), DOMAIN), epoch)
    clean = (outcome is True or outcome is False) and len(list(ledger.events())) == before
    return "" if clean else "more than yes or no left a comparison"


def _one_key() -> str:
    """A key returns its own answer, and no answer to another question."""
    curator, _ = _curator(Budget(rho=1))
    curator.measure([Count(col("a") == 0)], Laplace(50), key="audit")
    try:
        curator.measure([Count(col("a") == 1)], Laplace(50), key="audit")
    except LedgerError:
        return ""
    return "one key answered two questions"


def _rounds_as_planned() -> str:
    """DualQuery's draws cost what its plan stated, up to the rounding of each round."""
    budget, algorithm = Budget(epsilon=10**6), DualQuery(rounds=4, draws=2, step=1, replies=1)
    curator, ledger = _curator(budget)
    workload = marginals(DOMAIN, 1)
    plan = algorithm.plan(curator.records or 0, len(query_player(workload, DOMAIN)), DOMAIN, budget, budget.limit)
    algorithm.run(curator, workload, allowance=budget.limit, key="audit")
    planned = budget.cost(plan.price)
    return "" if planned <= ledger.spent <= planned + plan.rounds else "rounds cost other than planned"


CHECKS: dict[str, Callable[[], str]] = {
    "sensitivities, one record replaced": lambda: sensitivities("replace-one"),
    "sensitivities, one record added": lambda: sensitivities("add-remove"),
    "residuals together, one record replaced": lambda: residuals_together("replace-one"),
    "residuals together, one record added": lambda: residuals_together("add-remove"),
    "charges are rounded up": _rounding,
    "the ledger is charged before noise is drawn": _charged_first,
    "every selection pays": _every_draw_pays,
    "every threshold pays": _every_epoch_pays,
    "an epoch's noise is for what it states": _stated_movement,
    "only yes or no leaves a comparison": _one_bit,
    "a key answers one question": _one_key,
    "DualQuery's rounds cost what was planned": _rounds_as_planned,
    "sums of gradients": gradient_sums,
    "minima, solver included": located_minima,
    "minima in phases": phased_minima,
    "second moments": second_moments,
}
