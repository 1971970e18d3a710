"""A start near the measurements: proportional fitting to their least-squares consistent marginals.

Descent on squared distances crosses many orders of magnitude of noise slowly, because a step must suit heavy and light
cells at once. Proportional fitting divides each cell by what it has too much, so that all cells move at the same rate:
twenty sweeps bring a product to the noise where descent needs thousands of steps. Each factor is a log-linear parameter
of its set, so that the fit goes on from there, with its prior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from reticent.hypotheses.fitting.consistent import WIDEST, Consistent, MeasuredForm, maximal_sets
from reticent.queries.forms import Dense

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reticent.hypotheses.base import Hypothesis
    from reticent.hypotheses.fitting.loglinear import FitProblem

__all__ = [
    "NEAR",
    "NEARER",
    "TRUE",
    "Rescaling",
    "consistent_marginals",
    "move_onto",
    "nearest_distribution",
    "proportional_start",
    "within_noise",
]

Set = tuple[str, ...]

SWEEPS = 300
"""At most: on strongly dependent tables a sweep leaves nine tenths of the squared distance, 300 leave 1e-14 of it."""
SLOW, STALLED = 0.9, 0.99
"""Of the squared distance before a sweep. What is left after a slow one at the noise is noise that no table has; after
a stalled one, records are missing."""
NEAR = 0.1
"""Of the noise in what was measured: a sweep that moves less is the last."""
NEARER = 0.5
"""Share of what was measured that the prior leaves to the measurements. The optimum is this far on the way from the
base to the measurements: above a half, the measurements are the nearer start."""


@runtime_checkable
class Rescaling(Protocol):
    """An engine that holds the probability of every cell or record it knows."""

    def held(self, index: int, table: np.ndarray) -> np.ndarray:
        """What the engine holds of a set's cells: all, or of a large set those that have a record."""
        ...

    def rescale(self, index: int, ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply p by `ratio(marginal)` of what is held of one set; returns the ratio. p need not add up to one
        afterwards."""
        ...


def nearest_distribution(values: np.ndarray) -> np.ndarray:
    """The nearest table without negative cells whose sum is one: every cell less a common amount, or zero."""
    falling = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, falling.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    return np.maximum(values - excess[last], 0.0)


def consistent_marginals(problem: FitProblem) -> Consistent | None:
    """Of all that a problem measured; None without marginals, or with one of too many attributes."""
    measured = problem.measured_sets
    if not measured or max(map(len, measured)) > WIDEST:
        return None
    marginals = [(t.attributes, t.values, t.sd) for t in measured.values() if not t.residual]
    residuals = [(t.attributes, t.values, t.sd) for t in measured.values() if t.residual]
    found = Consistent.of(marginals, residuals)
    if not all(found.knows(names) for names in maximal_sets(list(measured))):
        return None
    return found.given([query for query, _ in problem.measured_queries])


def proportional_start(problem: FitProblem, consistent: Consistent, point: np.ndarray) -> np.ndarray:
    """Parameters whose marginals are near the consistent ones, from `point` on; the engine must be `Rescaling`.

    A cell's noise is added above and below a quotient: noise rules nothing out, and drowned cells stay as they are.
    """
    flat = point.copy()
    problem.held_marginals(flat)
    aims = [_Aim(problem, names, *consistent.marginal(names)) for names in maximal_sets(list(problem.measured_sets))]
    before, noise = np.inf, NEAR * consistent.rank
    for _ in range(SWEEPS):
        distance = sum(aim.rescale(flat) for aim in aims)
        if distance < noise or distance > (SLOW if distance < consistent.rank else STALLED) * before:
            break
        before = distance
    return flat


def within_noise(
    problem: FitProblem,
    consistent: Consistent,
    point: np.ndarray,
    reach: float,
    perturbed: float = 1.0,
    *,
    tolerated: float = 1.0,
) -> np.ndarray:
    """The parameters with no measured cell further from what was measured than noise and prior may leave it.

    A parameter of scale s lets a cell q have the variance `v = (q s)^2` beforehand. Its best estimate then lies
    `sd (1 - v / (v + sd^2))^(1/2)` from a measurement of noise sd, as a root mean square. A cell that lies more than
    `tolerated` times `reach` times as far is brought to `reach` times as far; the others stay between. No cell is held
    closer than the truth itself may be expected. Each set with a cell beyond that takes a step of
    proportional fitting, which leaves its other cells in proportion; the sets inside others come last, because a fit
    may gain more from the noise of thousands of cells than it loses on the few sums that it moves with them. Cells
    without records stay empty. All these distances are `perturbed` times as large for a replicate, whose values are
    that much further from what it draws.
    """
    measured = problem.measured_sets
    sets = dict.fromkeys([*maximal_sets(list(measured)), *measured])
    bounds = reach, tolerated * reach, perturbed
    aims = [_Bounded(problem, n, *consistent.marginal(n), measured[n].scale, bounds) for n in sets]
    flat = point
    for _ in range(MOST_MOVES):
        marginals = problem.held_marginals(flat)
        beyond = [aim for aim in aims if aim.is_beyond(marginals[aim.place])]
        if not beyond:
            break
        flat = flat.copy()
        for aim in beyond:
            problem.rescale(aim.names, flat, aim.ratio)
    return flat


MOST_MOVES = 15
"""Rounds over the sets that have a cell too far off; noise may leave no table that has none."""
TRUE = 3.0
"""Standard deviations within which nearly all cells of the true table lie: bounds that it does not meet contradict each
other. Where a fit ends converged, other values change nothing (docs/validation.md, constants of the plan)."""
REACHED = 1.02
"""Of the reach: a cell that another set moved this little beyond it is not moved again."""


FACTORS, NEARLY = 20, 1e-9
"""Newton's steps towards the factor of the cells between their bounds, and the error of the sum at which they end."""
TINY = np.finfo(np.float64).tiny
MOST_MOVED = 2.0
"""Where contradictory bounds lie above one: no cell is moved higher, so that its quotient by `TINY` is finite."""


class _Bounded:
    """One marginal whose cells may not lie too far from what was measured, and where its parameters are."""

    def __init__(
        self,
        problem: FitProblem,
        names: Set,
        values: np.ndarray,
        sd: float,
        scale: float,
        bounds: tuple[float, float, float],
    ) -> None:
        assert isinstance(problem.engine, Rescaling)
        self.place, self.names = problem.place(names), names
        self._sd, self._scale = sd, scale
        self._reach, self._tolerated, self._perturbed = bounds
        self._values = problem.engine.held(self.place, values)
        others = values.copy()
        others.reshape(-1)[problem.engine.held(self.place, np.arange(values.size).reshape(values.shape))] = 0.0
        self._missing = bool((np.abs(others) > REACHED * self._most(np.zeros(()), self._tolerated)).any())
        """Whether a cell is too far off that no record has."""

    def is_beyond(self, cells: np.ndarray) -> bool:
        return self._missing or bool(self._far(cells).any())

    def ratio(self, cells: np.ndarray) -> np.ndarray:
        """What brings every cell to within its bounds, the others in proportion: the sum stays one.

        That is the nearest table within the bounds in relative entropy.
        """
        share = cells / cells.sum()
        most = self._most(share, np.where(self._far(cells), self._reach, self._tolerated))
        low, high = np.maximum(self._values - most, 0.0), np.maximum(self._values + most, TINY)
        factor = 1.0
        for _ in range(FACTORS):
            scaled = factor * share
            free = float(share[(scaled > low) & (scaled < high)].sum())
            excess = float(np.clip(scaled, low, high)[share > 0].sum()) - 1.0
            if free < TINY or abs(excess) < NEARLY:
                break
            factor = min(max(factor - excess / free, factor / 2), 1 / TINY)
        moved = np.clip(factor * share, low, high)
        # Of a cell that holds less than the smallest normal number, the quotient itself would not be finite.
        quotient = np.minimum(moved, MOST_MOVED) / np.maximum(share, TINY)
        return np.where((share > 0) & (moved > 0), quotient, 1.0)

    def _far(self, cells: np.ndarray) -> np.ndarray:
        return np.abs(cells - self._values) > REACHED * self._most(cells, self._tolerated)

    def _most(self, cells: np.ndarray, reach: np.ndarray | float) -> np.ndarray:
        prior = np.sqrt(1 + np.square(cells * (self._scale / self._sd)))
        return self._perturbed * self._sd * np.maximum(reach / prior, TRUE)


class _Aim:
    """One marginal to be approached, and where its parameters are."""

    def __init__(self, problem: FitProblem, names: Set, values: np.ndarray, sd: float) -> None:
        assert isinstance(problem.engine, Rescaling)
        self._problem, self._names, self._sd = problem, names, sd
        wanted = nearest_distribution(values)
        held = problem.engine.held(problem.place(names), wanted)
        self._target = held + sd
        self._missing = float(np.square(wanted / sd).sum() - np.square(held / sd).sum())
        """Squared distance of the cells that no record has."""
        self._distance = 0.0

    def rescale(self, flat: np.ndarray) -> float:
        """Bring the marginal to its target; returns the squared distance it had, in variances of the noise."""
        self._problem.rescale(self._names, flat, self._ratio)
        return self._distance

    def _ratio(self, marginal: np.ndarray) -> np.ndarray:
        blurred = marginal + self._sd
        self._distance = float(np.square((self._target - blurred) / self._sd).sum()) + self._missing
        # Cells that no record of a support has cannot be filled.
        return np.where(marginal > 0, self._target / blurred, 1.0)


FEW_SWEEPS = 20
"""Of moving a hypothesis onto several tables in turn."""
ARRIVED = 1e-9
"""Total variation at which it has come there."""
LARGEST_TILT = 500.0
"""Of a logarithm of a ratio: a code without weight has none to give."""
TILT_STEPS = 300
"""Evaluations, at most, of one set's queries at each sweep."""


def move_onto(
    hypothesis: Hypothesis,
    tables: Mapping[Set, np.ndarray],
    queries: Mapping[Set, Sequence[MeasuredForm]] | None = None,
) -> None:
    """Move a hypothesis to have these marginals, the nearest one in relative entropy (proportional fitting); with
    measured queries, by sets of attributes, each as near to its measurement as relative entropy and noise warrant.

    The nearest distribution p least in `KL(p) + sum (q(p) - y)^2 / (2 sd^2)` has one parameter for each query, which
    leaves it at `y - sd^2 theta`. Parameters of tables and of the queries of one set follow in turn (coordinate ascent
    of the dual problem, which is concave).
    """
    tilts = [_Tilt(names, measured, tables) for names, measured in (queries or {}).items()]
    for _ in range(FEW_SWEEPS):
        far = max((tilt.move(hypothesis) for tilt in tilts), default=0.0)
        for names, table in tables.items():
            far = max(far, _move_to(hypothesis, names, hypothesis.marginal(names), table))
        if far <= ARRIVED or len(tables) + len(tilts) == 1:
            break


def _move_to(hypothesis: Hypothesis, names: Set, held: np.ndarray, table: np.ndarray) -> float:
    """Give a set another marginal than it has, its cells in proportion; returns the total variation between the two."""
    both = (held > 0) & (table > 0)
    logs = np.zeros(held.shape)
    np.log(np.divide(table, held, out=np.ones(held.shape), where=both), out=logs)
    logs = np.clip(logs, -LARGEST_TILT, LARGEST_TILT)
    reach = float(np.ptp(logs))
    if reach > 0:
        hypothesis.reweight(Dense(names, np.clip((logs - logs.min()) / reach, 0.0, 1.0)), reach)
    return float(np.abs(held - table).sum()) / 2


class _Tilt:
    """The queries of one set of attributes, and the parameters that they have so far.

    The largest table inside the set is held at every step: its parameters are eliminated. Queries of the same codes
    would otherwise take many sweeps to agree with it.
    """

    def __init__(self, names: Set, measured: Sequence[MeasuredForm], tables: Mapping[Set, np.ndarray]) -> None:
        self._names = names
        self._forms = np.stack([query.form.ravel() for query in measured])
        self._values = np.array([query.value for query in measured])
        self._variances = np.array([query.sd for query in measured]) ** 2
        self._parameters = np.zeros(len(measured))
        inside = [held for held in tables if set(held) <= set(names)]
        within = max(inside, key=lambda held: tables[held].size, default=())
        self._summed = tuple(place for place, name in enumerate(names) if name not in within)
        self._table = np.expand_dims(tables.get(within, np.ones(())), self._summed)

    def move(self, hypothesis: Hypothesis) -> float:
        """Give the queries their best parameters, tables of other sets as they are; returns the total variation of the
        move.
        """
        from scipy.optimize import minimize

        held = hypothesis.marginal(self._names)
        logs = np.log(np.maximum(held, TINY))

        def tilted(change: np.ndarray) -> tuple[float, np.ndarray]:
            weights = logs + (change @ self._forms).reshape(logs.shape)
            highest = weights.max(axis=self._summed, keepdims=True)
            shares = np.exp(weights - highest)
            totals = shares.sum(axis=self._summed, keepdims=True)
            return float(np.vdot(self._table, highest + np.log(totals))), self._table * (shares / totals)

        def dual(change: np.ndarray) -> tuple[float, np.ndarray]:
            log_partition, shares = tilted(change)
            parameters = self._parameters + change
            softness = self._variances * parameters
            value = log_partition - float(change @ self._values) + 0.5 * float(parameters @ softness)
            return value, self._forms @ shares.ravel() - self._values + softness

        options = {
            "maxfun": TILT_STEPS,
            "maxiter": TILT_STEPS,
            "ftol": 0.0,
            "gtol": NEAR * self._variances.min() ** 0.5,
        }
        change = minimize(dual, np.zeros(self._values.size), jac=True, method="L-BFGS-B", options=options).x
        self._parameters = self._parameters + change
        return _move_to(hypothesis, self._names, held, tilted(change)[1])
