"""The regularised log-linear (MAP) fit of spec release.md 4, over any engine that yields marginals.

`p ~ p0 exp(sum_c lambda_c)` minimises `sum |p_c - y_c|^2 / (2 sigma_c^2) + sum |lambda_c|^2 / (2 s_k^2)`:
measured marginals are matched as far as their noise warrants, interactions are shrunk by order. Single
linear queries take part as one parameter times their form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from math import sqrt
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from reticent.errors import QueryError
from reticent.hypotheses.base import FitReport, Measurement
from reticent.hypotheses.prior import Prior, collapse, empirical_scale, product_base
from reticent.hypotheses.quasi_newton import Descent, Objective, descend
from reticent.queries.linear import Marginal

if TYPE_CHECKING:
    from reticent.domain import Domain

__all__ = ["Engine", "LogLinear", "MakeEngine", "Problem", "fit_loglinear"]

Set = tuple[str, ...]
Key = tuple[Set, str]
"""A term's name: its attribute set, and the text of its query ("" for a whole marginal)."""


class Engine(Protocol):
    """Exact inference for one list of attribute sets: p(x) ~ exp(sum of parameters[c](x on set c))."""

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """The log partition function and the marginal of every set."""
        ...

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """At the parameters last evaluated: E_p[(w - E_p w) 1_c] for every set c; w(x) = sum of weights[c](x)."""
        ...


MakeEngine = Callable[[Sequence[Set]], Engine]


@dataclass(frozen=True, eq=False)
class Term:
    """One measured statistic: a marginal (form None) or a form's expectation; its noise and prior scale.

    `free` terms have a parameter only: a wider measurement already counts what is known of their values.
    """

    attributes: Set
    values: np.ndarray
    sd: float
    scale: float
    form: np.ndarray | None = None
    free: bool = False

    @property
    def order(self) -> int:
        return len(self.attributes)


@dataclass(frozen=True, eq=False)
class LogLinear:
    """A fitted model: p ~ exp(sum of potentials); the product base is inside the one-attribute potentials."""

    sets: tuple[Set, ...]
    potentials: tuple[np.ndarray, ...]
    parameters: dict[Key, np.ndarray] = field(default_factory=dict)
    """Warm start of a later fit: parameters relative to the base."""
    scales: dict[Key, float] = field(default_factory=dict)
    """The prior scale of each term, given or learnt."""


def terms_of(measurements: Sequence[Measurement], domain: Domain, prior: Prior) -> dict[Key, Term]:
    """Measurements as terms; repeated ones of the same question are merged by inverse variance."""
    gathered: dict[Key, tuple[np.ndarray, float, np.ndarray | None]] = {}
    for measurement in measurements:
        if isinstance(measurement.query, Marginal):
            attributes, form, text = domain.canonical(measurement.query.attributes), None, ""
        else:
            compiled = measurement.query.compile(domain)
            attributes, form, text = compiled.attributes, compiled.tensor(), measurement.query.text
        values = measurement.values if form is None else np.reshape(measurement.values, 1)
        weight = measurement.sd**-2.0
        total, weights, _ = gathered.get((attributes, text), (0.0, 0.0, None))
        gathered[attributes, text] = (total + weight * values, weights + weight, form)
    return {
        key: Term(
            key[0],
            total / weight,
            weight**-0.5,
            prior.scale(len(key[0])) if form is None else prior.query_scale,
            form,
        )
        for key, (total, weight, form) in gathered.items()
        if key[0]
    }


def with_free_terms(terms: dict[Key, Term], domain: Domain, prior: Prior) -> dict[Key, Term]:
    """A measured set that is wide, or all there is, also moves the low-order parameters inside it."""
    measured = [(t.attributes, t.values, t.sd) for t in terms.values() if t.form is None]
    grown = dict(terms)
    for names, _, _ in measured:
        if len(names) <= len(prior.scales) and len(names) < len(domain):
            continue
        for order in range(1, min(len(prior.scales), len(names) - 1) + 1):
            for subset in combinations(names, order):
                if (subset, "") not in grown:
                    known = collapse(measured, subset)
                    assert known is not None  # the wider set covers it
                    grown[subset, ""] = Term(subset, *known, prior.scale(order), free=True)
    return grown


class Problem:
    """The MAP objective of some terms on one engine, as a function of one flat parameter vector."""

    def __init__(self, terms: Sequence[Term], base: dict[str, np.ndarray], make_engine: MakeEngine) -> None:
        self.terms = list(terms)
        singles = [(name,) for name in base]
        self.sets: tuple[Set, ...] = tuple(dict.fromkeys([*singles, *(t.attributes for t in terms)]))
        self._place = {attributes: i for i, attributes in enumerate(self.sets)}
        self._shapes = [tuple(base[name].size for name in attributes) for attributes in self.sets]
        self._base = [np.log(vector) for vector in base.values()]
        self._engine = make_engine(self.sets)
        sizes = [term.values.size for term in terms]
        ends = np.cumsum([0, *sizes])
        self.places = [slice(a, b) for a, b in pairwise(ends)]
        self.size = int(ends[-1])
        self.targets = np.concatenate([term.values.ravel() for term in terms]) if terms else np.empty(0)
        self.precision = np.repeat([0.0 if term.free else term.sd**-2.0 for term in terms], sizes)
        self.ridge = np.repeat([term.scale**-2.0 for term in terms], sizes)
        self._point = np.zeros(self.size)
        self._weighted = np.zeros(self.size)

    @property
    def unit(self) -> float:
        """What noise alone adds to the objective: half a nat for each cell."""
        return max(self.size / 2, 1.0)

    def spread(self, flat: np.ndarray) -> list[np.ndarray]:
        """Flat parameters as one array per set; several terms on a set add up."""
        arrays: list[np.ndarray | None] = [None] * len(self.sets)
        for term, place in zip(self.terms, self.places, strict=True):
            index = self._place[term.attributes]
            part = flat[place]
            array = part.reshape(self._shapes[index]) if term.form is None else part[0] * term.form
            known = arrays[index]
            arrays[index] = array if known is None else known + array
        return [np.zeros(s) if a is None else a for a, s in zip(arrays, self._shapes, strict=True)]

    def gather(self, marginals: Sequence[np.ndarray]) -> np.ndarray:
        """The adjoint of `spread`: every term's statistic."""
        flat = np.empty(self.size)
        for term, place in zip(self.terms, self.places, strict=True):
            marginal = marginals[self._place[term.attributes]]
            flat[place] = marginal.ravel() if term.form is None else np.vdot(term.form, marginal)
        return flat

    def potentials(self, flat: np.ndarray) -> list[np.ndarray]:
        arrays = self.spread(flat)
        return [a + b for a, b in zip(arrays, self._base, strict=False)] + arrays[len(self._base) :]

    def statistics(self, flat: np.ndarray) -> np.ndarray:
        return self.gather(self._engine.evaluate(self.potentials(flat))[1])

    def value(self, flat: np.ndarray) -> float:
        residuals = self.statistics(flat) - self.targets
        self._point, self._weighted = flat, residuals * self.precision
        return 0.5 * float(self._weighted @ residuals) + 0.5 * float(flat @ (self.ridge * flat))

    def gradient(self) -> np.ndarray:
        """At the point last valued: d p_c / d lambda is a covariance, so one adjoint pass gives all of it."""
        return self.gather(self._engine.covary(self.spread(self._weighted))) + self.ridge * self._point

    def gap_bound(self, gradient: np.ndarray) -> float:
        """Strong convexity of the ridge: objective - optimum <= sum s^2 g^2 / 2 where the data term is convex."""
        return 0.5 * float((gradient * gradient) @ (1.0 / self.ridge))

    def preconditioner(self, flat: np.ndarray) -> np.ndarray:
        """Inverse diagonal of the Gauss-Newton Hessian; the half stands for the coupling of overlapping sets."""
        return 1.0 / (0.5 * self.statistics(flat) ** 2 * self.precision + self.ridge)


def fit_loglinear(
    measurements: Sequence[Measurement],
    domain: Domain,
    make_engine: MakeEngine,
    *,
    method: Literal["map", "entropy"] = "map",
    prior: Prior | None = None,
    start: LogLinear | None = None,
    tolerance: float = 1e-4,
    progress: float = 1e-3,
    iterations: int = 400,
) -> tuple[LogLinear, FitReport]:
    """Fit first the sets of at most two attributes, then all; without a `prior` its scales are empirical.

    `method="entropy"` is the plain maximum-entropy fit of `entropy.py` instead: no base, no shrinkage.

    Stops when the gap bound falls below `tolerance` of the objective's unit (then the report says converged), when ten
    steps gain less than `progress` of it, or after `iterations`.
    """
    terms = terms_of(measurements, domain, prior or Prior())
    base = product_base(domain, [(t.attributes, t.values, t.sd) for t in terms.values() if t.form is None])
    if method == "map":
        terms = with_free_terms(terms, domain, prior or Prior())
    if prior is None:
        terms = {key: _with_learnt_scale(term, base) for key, term in terms.items()}
    known = dict(start.parameters) if start is not None else {}
    reached = _Reached()
    for keys in _stages(terms, known):
        problem = _problem(method, [terms[key] for key in keys], base, make_engine)
        point = np.concatenate([np.zeros(0), *(known.get(key, np.zeros(terms[key].values.size)) for key in keys)])
        point = reached.extend(problem, point, tolerance, progress, iterations)
        known |= {key: point[place] for key, place in zip(keys, problem.places, strict=True)}
        reached.model = LogLinear(
            problem.sets,
            tuple(problem.potentials(point)),
            {key: known[key] for key in keys},
            {key: terms[key].scale for key in keys},
        )
    return reached.model, reached.report(method)


def _problem(method: str, terms: Sequence[Term], base: dict[str, np.ndarray], make_engine: MakeEngine) -> Problem:
    if method == "entropy":
        from reticent.hypotheses.entropy import EntropyProblem

        return EntropyProblem(terms, base, make_engine)
    if method != "map":
        raise QueryError(f"method={method!r} is unknown: use 'map' or 'entropy'")
    return Problem(terms, base, make_engine)


def _with_learnt_scale(term: Term, base: dict[str, np.ndarray]) -> Term:
    """A pair's prior scale half way (in logarithms) to the empirical one.

    Only for pairs: against a model that fitted the pairs to the same noise, triples look weaker than they are.
    """
    if term.order != 2 or term.form is not None:
        return term
    expected = np.multiply.outer(*(base[name] for name in term.attributes))
    return replace(term, scale=sqrt(term.scale * empirical_scale(term.values, term.sd, expected)))


def _stages(terms: dict[Key, Term], known: dict[Key, np.ndarray]) -> list[list[Key]]:
    low = [key for key, term in terms.items() if term.order <= 2]
    return [list(terms)] if known or len(low) in (0, len(terms)) else [low, list(terms)]


class _Reached:
    """The progress of a fit over its stages."""

    def __init__(self) -> None:
        self.model = LogLinear((), ())
        self._last: Descent | None = None
        self._iterations = self._evaluations = 0

    def extend(
        self, problem: Problem, point: np.ndarray, tolerance: float, progress: float, iterations: int
    ) -> np.ndarray:
        """The curvature drifts as p moves: a short first leg, then again with the diagonal of where it led."""
        unit = problem.unit
        for share in (0.2, 0.8):
            self._last = descend(
                Objective(problem.value, problem.gradient),
                point,
                preconditioner=problem.preconditioner(point),
                gap_bound=problem.gap_bound,
                tolerance=tolerance * unit,
                progress=progress * unit,
                iterations=max(1, round(share * iterations)),
            )
            point = self._last.point
            self._iterations += self._last.iterations
            self._evaluations += self._last.evaluations + 1
        return point

    def report(self, method: str) -> FitReport:
        last = self._last
        if last is None:
            return FitReport(0.0, 0.0, 0, 0, True, method, "nothing was measured")
        message = "" if last.certified else "stopped on small progress: the gap bound was not reached"
        return FitReport(last.objective, last.gap, self._iterations, self._evaluations, last.certified, method, message)
