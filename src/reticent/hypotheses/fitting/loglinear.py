"""The regularised log-linear (MAP) fit of spec release.md 4, over any engine that yields marginals.

`p ~ p0 exp(sum_c lambda_c)` minimises `sum |p_c - y_c|^2 / (2 sigma_c^2)` plus minus the logarithm of a prior of the
parameters, normal or Student's with scale s_c: measured marginals are matched as far as their noise warrants,
interactions are shrunk by order. Single
linear queries take part as one parameter times their form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import e, log, log1p, prod, sqrt
from typing import TYPE_CHECKING, Literal, Protocol, Self, runtime_checkable

import numpy as np

from reticent.errors import QueryError
from reticent.hypotheses.base import FitReport, Measurement
from reticent.hypotheses.fitting.consistent import (
    Departure,
    MeasuredForm,
    as_marginals,
    as_residuals,
    centred,
    consistent_of,
    freedom,
    has_residuals,
    is_laplace,
    kept_by_centring,
)
from reticent.hypotheses.fitting.descent import (
    PROGRESS,
    Compared,
    Reached,
    furthest_noise,
)
from reticent.hypotheses.fitting.forest import forest_parameters
from reticent.hypotheses.fitting.near_queries import CLOSE, FAR, near_queries
from reticent.hypotheses.fitting.pooling import SHRINKING, learn_scales
from reticent.hypotheses.fitting.preconditioning import MOST_COUPLED, PAIR, Nested, PreciselyCoupled, centred_curvature
from reticent.hypotheses.fitting.prior import (
    LEAST_SCALE,
    Base,
    Prior,
    collapse,
    expected_from,
    product_base,
)
from reticent.hypotheses.fitting.proportional import Rescaling, consistent_marginals
from reticent.hypotheses.fitting.quasi_newton import Diagonal, Preconditioner
from reticent.hypotheses.fitting.repeats import joined_distance
from reticent.hypotheses.fitting.smoothness import SmoothPart, cosine_table, smooth_part
from reticent.hypotheses.fitting.term_vector import TermVector
from reticent.hypotheses.one_thread import on_one_thread
from reticent.queries.linear import Marginal, Residual

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.fitting.flat_terms import FlatTerms, VectorTables

__all__ = ["FitProblem", "InferenceEngine", "LogLinear", "MakeEngine", "fit_loglinear"]

Set = tuple[str, ...]
Key = tuple[Set, str]
"""A term's name: its attribute set, and the text of its query ("" for a whole marginal)."""


COARSER = 4.0
"""Ratio of the noise of neighbouring levels: half as many levels took longer each, twice as many gained nothing."""
DEGREES = 2.0
"""Of freedom of Student's prior: from 2 to 4 generated tables and Adult differed by less than a twentieth."""
UNEVEN = 10.0
"""Ratio of the noise of two marginals from which a descent that knows a diagonal only may stall between them."""
LARGEST_ENGINE = 2**20
"""Cells or records that an engine on a larger universe is taken to hold."""
PER_CELL = 16
"""Numbers of a junction tree for each cell of a set: its cliques are wider."""
PERTURBED = 2.0
"""Variances of noise, and of interactions around their prior centre, between a replicate's values and its prior: those
of the release and its own. A fit that a release would keep is then kept by its replicates (population.md, claim 6)."""


class InferenceEngine(Protocol):
    """Exact inference for one list of attribute sets: p(x) ~ exp(sum of parameters[c](x on set c))."""

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """The log partition function and the marginal of every set."""
        ...

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """At the parameters last evaluated: E_p[(w - E_p w) 1_c] for every set c; w(x) = sum of weights[c](x)."""
        ...


@runtime_checkable
class Occupying(Protocol):
    """An engine on chosen records."""

    def occupied(self) -> list[np.ndarray]:
        """Of every set, whether a cell has a record."""
        ...


@runtime_checkable
class Flattened(Protocol):
    """An engine that may have all its tables in one vector too."""

    @property
    def flat(self) -> VectorTables | None: ...


MakeEngine = Callable[[Sequence[Set]], InferenceEngine]


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
    smooth: SmoothPart | None = None
    """Of the smooth part of a marginal's parameters, which has a term of its own (`smoothness.py`)."""
    residual: bool = False
    """Its values are a marginal's with the mean along every axis taken off."""

    @property
    def order(self) -> int:
        return len(self.attributes)

    @property
    def whole(self) -> bool:
        """Whether it has a parameter for every cell of its marginal."""
        return self.form is None and self.smooth is None

    @property
    def scales(self) -> np.ndarray:
        """The prior scale of every parameter."""
        return np.full(self.values.size, self.scale) if self.smooth is None else self.smooth.scales

    @property
    def noise_kept(self) -> float:
        """Of the noise's standard deviation: centring takes a part of it off a residual."""
        return sqrt(kept_by_centring(self.values.shape)) if self.residual else 1.0

    def table(self, part: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """What its parameters add to the logarithm of every cell."""
        if self.smooth is not None:
            return self.smooth.table(part)
        return part.reshape(shape) if self.form is None else part[0] * self.form

    def statistic(self, marginal: np.ndarray) -> np.ndarray | float:
        """The adjoint: of its marginal, what its parameters see."""
        if self.smooth is not None:
            return self.smooth.coefficients(marginal)
        return marginal.ravel() if self.form is None else float(np.vdot(self.form, marginal))


@dataclass(frozen=True, eq=False)
class LogLinear:
    """A fitted model: p ~ exp(sum of potentials); the product base is inside the one-attribute potentials."""

    sets: tuple[Set, ...]
    potentials: tuple[np.ndarray, ...]
    parameters: dict[Key, np.ndarray] = field(default_factory=dict)
    """Warm start of a later fit: parameters relative to the base."""
    scales: dict[Key, float] = field(default_factory=dict)
    """The prior scale of each term, given or learnt."""


@dataclass(frozen=True, eq=False)
class Redraw:
    """How the fit of a replicate differs from that of a release (spec population.md 1)."""

    choices: Sequence[Measurement]
    """What data-dependent choices, such as prior scales, are made on: noisy marginals of a table drawn anew."""
    generator: np.random.Generator
    """Draws the prior centre of each interaction; public."""

    def centres(self, terms: dict[Key, Term]) -> dict[Key, np.ndarray]:
        """A draw for each interaction from its prior, Student's tails included; single attributes have none.

        A normal law that bends as it does at its centre keeps 95% within 1.6 scales, the prior itself within 4.3:
        replicates of cells that noise drowns would be too close together (docs/proofs/population.md, claim 7).
        """
        return {
            key: term.scales * self.generator.standard_t(DEGREES, term.values.size)
            for key, term in terms.items()
            if term.order > 1
        }


def terms_of(measurements: Sequence[Measurement], domain: Domain, prior: Prior) -> dict[Key, Term]:
    """Measurements as terms; repeated ones of the same question are merged by inverse variance.

    Where residuals were measured, marginals are taken for what they tell of residuals: nothing is lost.
    """
    terms = {}
    if has_residuals(measurements):
        terms = _residual_terms(measurements, domain, prior)
        measurements = [m for m in measurements if not isinstance(m.query, Marginal)]
    # Of fractions the number of records tells nothing.
    measurements = [m for m in measurements if not isinstance(m.query, Residual)]
    gathered: dict[Key, tuple[np.ndarray, float, np.ndarray | None]] = {}
    for measurement in measurements:
        if isinstance(measurement.query, Marginal):
            attributes, form, text = domain.canonical(measurement.query.attributes), None, ""
        else:
            assert not isinstance(measurement.query, Residual), "residuals were taken before"
            compiled = measurement.query.compile(domain)
            attributes, form, text = compiled.attributes, compiled.tensor(), measurement.query.text
        values = measurement.values if form is None else np.reshape(measurement.values, 1)
        weight = measurement.sd**-2.0
        total, weights, _ = gathered.get((attributes, text), (0.0, 0.0, None))
        gathered[attributes, text] = (total + weight * values, weights + weight, form)
    return terms | {
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


def _residual_terms(measurements: Sequence[Measurement], domain: Domain, prior: Prior) -> dict[Key, Term]:
    known = consistent_of(measurements, domain)
    found = {}
    for names in sorted(known.precisions, key=lambda names: (len(names), [domain.index(name) for name in names])):
        values, sd = known.residuals[names], known.precisions[names] ** -0.5
        if names and freedom(values):
            found[names, ""] = Term(names, values, sd, prior.scale(len(names)), residual=True)
    return found


def _single_marginals(terms: Mapping[Key, Term]) -> list[tuple[Set, np.ndarray, float]]:
    """What tells the distribution of single attributes: all marginals, or single residuals about their mean."""
    found = []
    for term in terms.values():
        if term.form is None and not term.residual:
            found.append((term.attributes, term.values, term.sd))
        elif term.residual and term.order == 1:
            size = term.values.size
            found.append((term.attributes, term.values + 1 / size, term.sd * sqrt(1 - 1 / size)))
    return found


def with_free_terms(terms: dict[Key, Term], domain: Domain, prior: Prior) -> dict[Key, Term]:
    """A measured set that is wide, or all there is, also moves the low-order parameters inside it."""
    measured = [(t.attributes, t.values, t.sd) for t in terms.values() if t.form is None and not t.residual]
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


class FitProblem:
    """The MAP objective of some terms on one engine, as a function of one flat parameter vector.

    The prior of a parameter is normal, or Student's with `degrees` of freedom: most interactions are faint and a few
    are strong, and a normal prior narrow enough for the many would keep the few away from what was measured.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        base: dict[str, np.ndarray],
        make_engine: MakeEngine,
        *,
        degrees: float | None = None,
    ) -> None:
        self.degrees = degrees
        self.terms = list(terms)
        singles = [(name,) for name in base]
        self.sets: tuple[Set, ...] = tuple(dict.fromkeys([*singles, *(t.attributes for t in terms)]))
        self._place = {attributes: i for i, attributes in enumerate(self.sets)}
        self._shapes = [tuple(base[name].size for name in attributes) for attributes in self.sets]
        self._base = [np.log(vector) for vector in base.values()]
        self._engine = make_engine(self.sets)
        # Fits with a given prior, as version 0.1 made them, are replayed to the bit: sums keep their order.
        tables = self._engine.flat if degrees is not None and isinstance(self._engine, Flattened) else None
        self.vector = TermVector(terms, [self._kept(term, tables) for term in terms])
        self.places, self.size = self.vector.places, self.vector.size
        self._numbers = {t.attributes: i for i, t in enumerate(terms) if t.whole}
        sizes = [place.stop - place.start for place in self.places]
        self.targets = self.vector.packed([term.values for term in terms])
        self.measured_precision = np.repeat([0.0 if term.free else term.sd**-2.0 for term in terms], sizes)
        self.precision, self._lost_share = self.measured_precision, 1.0
        self.ridge = self.vector.packed([term.scales**-2.0 for term in terms])
        self.moving: np.ndarray | slice = slice(None)
        """Places of the parameters that change anything. The others belong to cells that no record has: they stay where
        they are, and the prior leaves them out."""
        if degrees is not None and isinstance(self._engine, Occupying):
            self.moving = self._occupied(self._engine)
        self.centre = np.zeros(self.size)
        """Where the prior is centred: at the base, but for a replicate."""
        self._point = np.zeros(self.size)
        self._weighted = np.zeros(self.size)
        self._flat = None if tables is None else self._flattened(tables)

    def _flattened(self, tables: VectorTables) -> FlatTerms:
        from reticent.hypotheses.fitting.flat_terms import FlatTerms

        numbers = [self._place[term.attributes] for term in self.terms]
        return FlatTerms(self.terms, self.vector, numbers, self._shapes, self._base, tables)

    def _kept(self, term: Term, tables: VectorTables | None) -> np.ndarray | None:
        """Of marginals of many attributes the cells that the engine holds; all of others, which are nested, centred or
        smoothed as whole tables.
        """
        if tables is None or not term.whole or term.residual or term.order <= PAIR:
            return None
        return tables.kept[self._place[term.attributes]]

    @property
    def engine(self) -> InferenceEngine:
        return self._engine

    def _occupied(self, engine: Occupying) -> np.ndarray:
        occupied = [cells.ravel() for cells in engine.occupied()]
        parts = [occupied[self._place[t.attributes]] if t.whole else np.ones(t.values.size) for t in self.terms]
        return np.flatnonzero(self.vector.packed(parts))

    @property
    def measured_sets(self) -> dict[Set, Term]:
        """Terms of every marginal or residual that was measured itself."""
        return {t.attributes: t for t in self.terms if t.whole and not t.free}

    @cached_property
    def measured_queries(self) -> list[tuple[MeasuredForm, slice]]:
        """Linear queries that were measured by themselves, and where each one's parameter is."""
        return [
            (MeasuredForm(t.attributes, t.form, float(t.values[0]), t.sd), place)
            for t, place in zip(self.terms, self.places, strict=True)
            if t.form is not None
        ]

    @cached_property
    def uneven(self) -> bool:
        """Whether single queries were measured, or marginals of very different precision."""
        sds = [term.sd for term in self.measured_sets.values() if not term.residual]
        return bool(self.measured_queries) or max(sds, default=0.0) > UNEVEN * min(sds, default=0.0)

    def place(self, attributes: Set) -> int:
        """Of a set among those of the engine."""
        return self._place[attributes]

    def part(self, attributes: Set, flat: np.ndarray) -> np.ndarray:
        """A marginal's part of a flat vector; a view of it."""
        return flat[self.places[self._numbers[attributes]]]

    def of_cells(self, attributes: Set, table: np.ndarray) -> np.ndarray:
        """The same part of the numbers of all cells of a marginal."""
        return self.vector.of_term(self._numbers[attributes], table)

    def held_marginals(self, flat: np.ndarray) -> list[np.ndarray]:
        """Of every set what the engine holds: all cells, or of a large set those that have a record."""
        if self._flat is not None:
            return self._flat.marginals(flat)
        return self._engine.evaluate(self.potentials(flat))[1]

    def rescale(self, attributes: Set, flat: np.ndarray, ratio: Callable[[np.ndarray], np.ndarray]) -> None:
        """Multiply the engine's probabilities by `ratio(marginal)` of what it holds of a set; `flat` follows."""
        assert isinstance(self._engine, Rescaling)
        index, number = self._place[attributes], self._numbers[attributes]
        logs, part = np.log(self._engine.rescale(index, ratio)), flat[self.places[number]]
        if logs.size == part.size:
            part += logs.ravel()
        else:
            part[self._engine.held(index, np.arange(part.size))] += logs

    @property
    def cells(self) -> int:
        """Numbers of all terms, with those of cells that no record has."""
        return self.vector.numbers

    @property
    def unit(self) -> float:
        """What noise alone adds to the objective: half a nat for each cell."""
        return max(self.cells / 2, 1.0)

    def levels(self, flat: np.ndarray) -> int:
        """How often the noise must be made COARSER for the point to be within about one level of the measurements."""
        excess = 0.5 * self.distance(flat) / self.unit
        return int(log(excess, COARSER**2)) if excess > 1 else 0

    def at_level(self, level: int) -> Self:
        """The same problem with noise taken to be COARSER to the power of `level` times as large."""
        self._lost_share = COARSER ** (-2 * level)
        self.precision = self.measured_precision * self._lost_share
        return self

    def misfit(self, flat: np.ndarray) -> float:
        """The largest distance of a measured cell from the fit, in standard deviations of its noise."""
        distances = np.abs(self.statistics(flat) - self.targets) * np.sqrt(self.measured_precision)
        parts = zip(self.terms, self.places, strict=True)
        furthest = [float(distances[place].max(initial=0.0)) / term.noise_kept for term, place in parts]
        return max(self.vector.lost_misfit, *furthest, 0.0)

    @property
    def numbers(self) -> int:
        """How many numbers were measured."""
        return int(np.count_nonzero(self.measured_precision)) + self.vector.lost_numbers

    def distance(self, flat: np.ndarray) -> float:
        """The squared distance of the fit from all that was measured, in variances of the noise."""
        misfits = self.statistics(flat) - self.targets
        return float((self.measured_precision * misfits) @ misfits) + self.vector.lost_distance

    def newton_step(self, flat: np.ndarray, longest: float) -> np.ndarray:
        """To the least of the objective where statistics are linear and the prior is its majorizing parabola.

        Of a step that would move a parameter by more than `longest`, a damped one (Levenberg's): it keeps to what is
        known precisely, where a part of the step would not.
        """
        roots = np.sqrt(self.precision)
        misfits = self.statistics(flat) - self.targets
        moving = np.arange(self.size)[self.moving]
        slopes = np.empty((self.size, moving.size))
        for column, place in enumerate(moving):
            unit = np.zeros(self.size)
            unit[place] = 1.0
            slopes[:, column] = self._centred(self._covaried(unit))
        pull = np.sqrt(self.pull(flat))
        system = np.concatenate([roots[:, None] * slopes, np.diag(pull)])
        wanted = np.concatenate([roots * misfits, pull * (flat - self.centre)[moving]])
        step = np.zeros(self.size)
        left, spread, right = np.linalg.svd(system, full_matrices=False)
        along, damping = spread * (left.T @ wanted), 0.0
        while True:
            step[moving] = -(along / (spread**2 + damping)) @ right
            if np.abs(step).max() <= longest:
                return step
            damping = max(2 * damping, float(self.pull(flat).min()))

    @property
    def work(self) -> int:
        """Numbers that a Gauss-Newton step touches: the engine's for each parameter, and its system's."""
        if isinstance(self._engine, Rescaling):
            held = min(prod(vector.size for vector in self._base), LARGEST_ENGINE)
        else:
            held = PER_CELL * sum(map(prod, self._shapes))
        return max(self.cells * held + 4 * self.cells**3, 1)

    def spread(self, flat: np.ndarray) -> list[np.ndarray]:
        """Changes of flat parameters as one array per set; several terms on a set add up."""
        return self._spread([self.vector.changes(i, flat) for i in range(len(self.terms))])

    def _spread(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        arrays: list[np.ndarray | None] = [None] * len(self.sets)
        for term, part in zip(self.terms, parts, strict=True):
            index = self._place[term.attributes]
            array = term.table(part, self._shapes[index])
            known = arrays[index]
            arrays[index] = array if known is None else known + array
        return [np.zeros(s) if a is None else a for a, s in zip(arrays, self._shapes, strict=True)]

    def gather(self, marginals: Sequence[np.ndarray]) -> np.ndarray:
        """The adjoint of `spread`: every term's statistic."""
        flat = np.empty(self.size)
        for i, (term, place) in enumerate(zip(self.terms, self.places, strict=True)):
            flat[place] = self.vector.of_term(i, np.asarray(term.statistic(marginals[self._place[term.attributes]])))
        return flat

    def all_parameters(self, flat: np.ndarray) -> list[np.ndarray]:
        """Of every term, those of cells without records as they were at the start."""
        return [self.vector.parameters(i, flat) for i in range(len(self.terms))]

    def potentials(self, flat: np.ndarray) -> list[np.ndarray]:
        arrays = self._spread(self.all_parameters(flat))
        return [a + b for a, b in zip(arrays, self._base, strict=False)] + arrays[len(self._base) :]

    def statistics(self, flat: np.ndarray) -> np.ndarray:
        """What every term measures, at some parameters."""
        return self._centred(self._expected(flat))

    def _centred(self, found: np.ndarray) -> np.ndarray:
        if self._flat is not None:
            return self._flat.centred(found)
        for term, place in zip(self.terms, self.places, strict=True):
            if term.residual:
                found[place] = centred(found[place].reshape(term.values.shape)).ravel()
        return found

    def _covaried(self, weights: np.ndarray) -> np.ndarray:
        """At the point whose statistics were last asked for: their covariances with their weighted sum."""
        if self._flat is not None:
            return self._flat.covaried(weights)
        return self.gather(self._engine.covary(self.spread(weights)))

    def _expected(self, flat: np.ndarray) -> np.ndarray:
        if self._flat is not None:
            return self._flat.expected(flat)
        return self.gather(self._engine.evaluate(self.potentials(flat))[1])

    def value(self, flat: np.ndarray) -> float:
        residuals = self.statistics(flat) - self.targets
        self._point, self._weighted = flat, residuals * self.precision
        lost = self._lost_share * self.vector.lost_distance
        return 0.5 * (float(self._weighted @ residuals) + lost) + self.penalty(flat)

    def gradient(self) -> np.ndarray:
        """At the point last valued: d p_c / d lambda is a covariance, so one adjoint pass gives all of it.

        Distances of residuals are centred already, which is the adjoint of centring them.
        """
        gradient = self._covaried(self._weighted)
        gradient[self.moving] += self.pull(self._point) * (self._point - self.centre)[self.moving]
        return gradient

    def curvature(self, direction: np.ndarray) -> float:
        """Along a direction at the point last valued, were statistics linear and the prior its majorizing parabola."""
        slopes, moved = self._centred(self._covaried(direction)), direction[self.moving]
        return float((self.precision * slopes) @ slopes) + float((self.pull(self._point) * moved) @ moved)

    def revived(self, flat: np.ndarray, beyond: float) -> np.ndarray | None:
        """The parameters with every missed cell at what was measured of it; None if no cell was missed.

        A cell is missed that was measured more than `beyond` standard deviations above its fit, and by more than a
        linear step can mend: a gradient with the factor p does not see it. Sets follow each other from few
        attributes to many, because what is missed in a pair is missed in all sets that hold it.
        """
        moved = flat
        marginals = self._engine.evaluate(self.potentials(flat))[1]
        measured = sorted(self.measured_sets.items(), key=lambda entry: entry[1].order)
        for names, term in [(n, t) for n, t in measured if _missed(t, marginals[self._place[n]], beyond).any()]:
            if moved is not flat:
                marginals = self._engine.evaluate(self.potentials(moved))[1]
            cells = marginals[self._place[names]]
            missed = _missed(term, cells, beyond)
            steps = np.log(_wanted(term, cells)[missed] / cells[missed])
            moved = moved.copy()
            self.part(names, moved)[self.of_cells(names, missed)] += steps
        return None if moved is flat else moved

    def penalty(self, flat: np.ndarray) -> float:
        """Minus the logarithm of the prior, without its constant."""
        away, ridge = (flat - self.centre)[self.moving], self.ridge[self.moving]
        if self.degrees is None:
            return 0.5 * float(away @ (ridge * away))
        return 0.5 * (self.degrees + 1) * float(np.log1p(away * away * (ridge / self.degrees)).sum())

    def pull(self, flat: np.ndarray) -> np.ndarray:
        """The penalty's derivative over the distance from the centre: the curvature of its majorizing parabola."""
        ridge = self.ridge[self.moving]
        if self.degrees is None:
            return ridge
        return (self.degrees + 1) / (self.degrees / ridge + (flat - self.centre)[self.moving] ** 2)

    def gap_bound(self, gradient: np.ndarray) -> float:
        """Strong convexity of a normal prior: objective - optimum <= sum s^2 g^2 / 2 where the data term is convex.

        Of Student's prior the majorizing parabola stands in: an estimate. The gradient is that of moving parameters.
        """
        return 0.5 * float((gradient * gradient) @ (1.0 / self.pull(self._point)))

    def preconditioner(self, flat: np.ndarray, *, nested: bool = False) -> Preconditioner:
        """For the moving parameters, the inverse of an approximate Gauss-Newton Hessian.

        That of its diagonal, or of the diagonal in directions that leave single attributes alone
        (`preconditioning.py`). The half stands for the coupling of overlapping sets.
        """
        slopes = self._query_slopes(flat)
        marginals = self._engine.evaluate(self.potentials(flat))[1]
        if not nested:
            curvature = self.gather(marginals) ** 2 * self.precision
            return self._with_queries(Diagonal(self._scaling(flat, self._beside_queries(curvature, slopes))), slopes)
        curvature = np.zeros(self.size)
        for i, (term, place) in enumerate(zip(self.terms, self.places, strict=True)):
            cells = marginals[self._place[term.attributes]]
            if term.whole and term.order <= PAIR:
                curvature[place] = centred_curvature(cells).ravel()
            elif term.smooth is None:
                curvature[place] = self.vector.of_term(i, np.square(term.statistic(cells)))
        scaling = self._scaling(flat, self._beside_queries(curvature * self.precision, slopes))
        return self._with_queries(Nested(self, marginals, scaling), slopes)

    def _query_slopes(self, flat: np.ndarray) -> np.ndarray:
        """What each measured query changes by with every parameter, row by row; of the most precise ones."""
        places = self._coupling
        slopes = np.empty((len(places), self.size))
        if len(places):
            self._expected(flat)
        for row, place in zip(slopes, places, strict=True):
            unit = np.zeros(self.size)
            unit[place] = 1.0
            row[:] = self._covaried(unit)
        return slopes

    @cached_property
    def _coupling(self) -> np.ndarray:
        """The places of the measured queries whose couplings a descent knows exactly."""
        if self.degrees is None:
            return np.zeros(0, dtype=np.intp)
        most = sorted(self.measured_queries, key=lambda query: query[0].sd)[:MOST_COUPLED]
        return np.array([place.start for _, place in most], dtype=np.intp)

    def _beside_queries(self, curvature: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """The curvature along the parameters of these queries that all other measurements make."""
        precision = self.precision.copy()
        precision[self._coupling] = 0.0
        for place, row in zip(self._coupling, slopes, strict=True):
            moved = self._centred(row.copy())
            curvature[place] = float((precision * moved) @ moved)
        return curvature

    def _with_queries(self, preconditioner: Preconditioner, slopes: np.ndarray) -> Preconditioner:
        if not len(slopes):
            return preconditioner
        return PreciselyCoupled(preconditioner, slopes[:, self.moving], self.precision[self._coupling])

    def _scaling(self, flat: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        for term, place in zip(self.terms, self.places, strict=True):
            if term.smooth is not None:
                curvature[place] = term.smooth.curvatures(self.part(term.attributes, curvature))
        return 1.0 / (0.5 * curvature[self.moving] + self.pull(flat))


def _wanted(term: Term, cells: np.ndarray) -> np.ndarray:
    """What was measured of a marginal's cells; of a residual's, were lower orders as they are."""
    return cells + term.values - centred(cells) if term.residual else term.values


def _missed(term: Term, cells: np.ndarray, beyond: float) -> np.ndarray:
    """Cells of a fit that are too low by more than a linear step can mend, and by so many standard deviations."""
    wanted = _wanted(term, cells)
    return (wanted - cells > beyond * term.sd * term.noise_kept) & (wanted > e * cells) & (cells > 0)


@on_one_thread
def fit_loglinear(
    measurements: Sequence[Measurement],
    domain: Domain,
    make_engine: MakeEngine,
    *,
    method: Literal["map", "entropy", "staged"] = "map",
    prior: Prior | None = None,
    start: LogLinear | None = None,
    tolerance: float = 1e-4,
    progress: float | None = None,
    iterations: int = 2000,
    redraw: Redraw | None = None,
) -> tuple[LogLinear, FitReport]:
    """Fit all measured sets; without a `prior` its scales are empirical.

    `method="entropy"` is the plain maximum-entropy fit of `entropy.py` instead: no base, no shrinkage.
    `method="staged"` is the MAP fit as version 0.1 found it (`staged.py`). With `redraw` it is the fit of a replicate.

    The MAP objective is not convex: a cell driven to zero has no gradient left that could bring it back. So the noise
    is first taken to be so large that the start explains the measurements, then a quarter of it, down to what it is
    (continuation); each level starts from the last, and no step has to leap over another cell's noise. Where the
    measurements decide more than the prior, or a fit turns out worse than they are, it starts near them
    (`proportional.py`). Where it stalls between numbers of uneven precision, further off than noise explains, or
    ends with a larger estimated error than least squares, Gauss-Newton steps solve it.

    Stops when the gap bound falls below `tolerance` of the objective's unit, when ten steps gain less than `progress`
    times the root of the number of cells, in nats, or after `iterations` in all. The report says converged in the first
    case and, under an empirical prior, in the second; but not if a measured cell is further off than noise leaves one.
    """
    given = measurements
    if method != "map":
        measurements = as_marginals(measurements, domain)
    elif prior is None:
        measurements = as_residuals(measurements, domain)
    terms = terms_of(measurements, domain, prior or Prior())
    base = product_base(domain, _single_marginals(terms))
    if method != "entropy":
        terms = with_free_terms(terms, domain, prior or Prior())
    if prior is None:
        learn = _with_learnt_scales if method == "staged" else _with_wide_scales
        terms = learn(terms, base) if redraw is None else _with_scales_of(redraw, terms, domain)
        if method == "map" and redraw is None:
            terms = with_smooth_parts(terms, base, domain)
    if method == "staged":
        from reticent.hypotheses.fitting.staged import fit_staged

        return fit_staged(terms, base, make_engine, start, progress)
    problem = _problem(method, list(terms.values()), base, make_engine, DEGREES if prior is None else None)
    known = {} if start is None else with_lost_parts(start.parameters, terms, domain)
    point = problem.vector.hold(_listed(known if redraw is None else _rebased(known, start, base), terms))
    if redraw is not None:
        problem.centre = problem.vector.packed(_listed(redraw.centres(terms), terms))
    if method == "map" and prior is None and start is None:
        point = _livelier(problem, point, terms, base)
    queries = method == "map" and prior is None
    if queries:
        point = near_queries(problem, point, FAR)
    furthest = furthest_noise(measurements) if method == "map" and prior is None else None
    variances = 1.0 if redraw is None else PERTURBED
    gain, ruled = PROGRESS if progress is None else progress, bool(domain.impossible)
    laplace = any(map(is_laplace, measurements))
    reached = Reached(tolerance, gain, iterations, furthest, variances, laplace=laplace, ruled=ruled)
    reached.note_joined(joined_distance(given, measurements, domain))
    consistent = _comparable(problem, method, prior, terms, base, variances, laplace)
    if consistent is None:
        point = reached.descend(problem, point)
    else:
        # A replicate starts at the fit of other measurements, and must not stay there.
        point = consistent.descend(reached, point, warm=start is not None and redraw is None)
    if queries:
        point = reached.move(problem, point, near_queries(problem, point, CLOSE))
    parameters = dict(zip(terms, problem.all_parameters(point), strict=True))
    scales = {key: term.scale for key, term in terms.items()}
    return LogLinear(problem.sets, tuple(problem.potentials(point)), parameters, scales), reached.report(method)


def _livelier(problem: FitProblem, point: np.ndarray, terms: dict[Key, Term], base: Base) -> np.ndarray:
    """A forest of the strongest pairs to start from, where the objective is less there."""
    pairs = {}
    for names, term in problem.measured_sets.items():
        if term.order == PAIR:
            expected = base.table(names)
            pairs[names] = (expected + _departure(term, expected).away, expected, term.sd * term.noise_kept)
    if not pairs:
        return point
    singles = {name: base.table((name,)) for name in base}
    found = {(names, ""): table.ravel() for names, table in forest_parameters(pairs, singles).items()}
    forest = problem.vector.packed(_listed(found, terms))
    return forest if problem.value(forest) < problem.value(point) else point


def _listed(known: Mapping[Key, np.ndarray], terms: dict[Key, Term]) -> list[np.ndarray]:
    """What is known of each term's parameters; zero elsewhere."""
    return [known.get(key, np.zeros(term.values.size)) for key, term in terms.items()]


def _rebased(
    known: Mapping[Key, np.ndarray], start: LogLinear | None, base: dict[str, np.ndarray]
) -> dict[Key, np.ndarray]:
    """The start's parameters relative to another base, so that they describe the distribution they did."""
    moved = dict(known)
    for names, potential in () if start is None else zip(start.sets, start.potentials, strict=True):
        if len(names) == 1 and (names, "") in moved:
            moved[names, ""] = np.ravel(potential) - np.log(base[names[0]])
    return moved


def _problem(
    method: str, terms: Sequence[Term], base: dict[str, np.ndarray], make_engine: MakeEngine, degrees: float | None
) -> FitProblem:
    if method == "entropy":
        from reticent.hypotheses.fitting.entropy import EntropyProblem

        return EntropyProblem(terms, base, make_engine)
    if method != "map":
        raise QueryError(f"method={method!r} is unknown: use 'map' or 'entropy'")
    return FitProblem(terms, base, make_engine, degrees=degrees)


def _with_learnt_scales(terms: dict[Key, Term], base: Base) -> dict[Key, Term]:
    return {key: _with_learnt_scale(term, base) for key, term in terms.items()}


def _with_scales_of(redraw: Redraw, terms: dict[Key, Term], domain: Domain) -> dict[Key, Term]:
    """The terms with prior scales learnt from the table that was drawn anew."""
    drawn = terms_of(as_residuals(redraw.choices, domain), domain, Prior())
    base = product_base(domain, _single_marginals(drawn))
    learnt = _with_wide_scales({key: drawn[key] for key in terms if key in drawn}, base)
    learnt = with_smooth_parts(learnt, base, domain)
    parts = {key: _smooth_term(terms[key[0], ""], t.smooth) for key, t in learnt.items() if t.smooth is not None}
    scaled = {key: replace(term, scale=learnt[key].scale) if key in learnt else term for key, term in terms.items()}
    return scaled | parts


def _with_learnt_scale(term: Term, base: Base) -> Term:
    """A pair's prior scale half way (in logarithms) to the empirical one.

    Only for pairs: against a model that fitted the pairs to the same noise, triples look weaker than they are.
    """
    if term.order != 2 or term.form is not None:
        return term
    return replace(term, scale=sqrt(term.scale * _departure(term, base.table(term.attributes)).scale))


def _departure(term: Term, expected: np.ndarray) -> Departure:
    return Departure.from_expected(term.values, term.sd, expected, residual=term.residual)


def _with_wide_scales(terms: dict[Key, Term], base: Base) -> dict[Key, Term]:
    """Scales learnt from what was measured, of residuals by orders. Of marginals, a pair's by itself; that of three and
    more attributes a likely one where it is wider.

    Never narrower: what the pairs expect was fitted to noise that the triples share, so that triples look weaker
    than they are.
    """
    marginals = {term.attributes: term for term in terms.values() if term.form is None}
    if any(term.residual for term in marginals.values()):
        return terms | _with_pooled_scales(marginals, base)
    pairs = {n: _departure(term, base.table(n)).shrunk() for n, term in marginals.items() if term.order == 2}
    widened = _with_learnt_scales(terms, base)
    for names, term in marginals.items():
        if term.order > 2:
            scale = _departure(term, expected_from(base, pairs, names)).likely_scale(term.scale)
            widened[names, ""] = replace(term, scale=max(term.scale, scale))
    return widened


def _with_pooled_scales(marginals: Mapping[Set, Term], base: Base) -> dict[Key, Term]:
    """Scales learnt from all sets of an order together (spec planning.md 4), where residuals were measured.

    Noise of residuals is independent from set to set, so that it does not hide triples behind pairs. A parameter x
    multiplies a cell by `exp(x)`: a departure of s times what is expected is a parameter of `log(1 + s)`.
    """
    learnt = learn_scales(marginals, base, lambda names, table: _departure(marginals[names], table), SHRINKING)
    return {(names, ""): replace(marginals[names], scale=log1p(scale)) for names, scale in learnt.scales.items()}


SMOOTH = "smooth part"
"""The text of the keys of smooth parts; no query has it."""


def with_smooth_parts(terms: dict[Key, Term], base: Base, domain: Domain) -> dict[Key, Term]:
    """A smooth part for every measured pair whose departures from the base are smooth along an ordered attribute.

    The scale of the cells' own part is then that of what is not smooth, half way as for other pairs.
    """
    grown = dict(terms)
    for (names, text), term in terms.items():
        if text or term.free or term.order != 2:
            continue
        expected = base.table(names)
        smooth = smooth_part(domain, names, expected + _departure(term, expected).away, term.sd, expected)
        if smooth is not None:
            rough = max(smooth.smoothness.rough, LEAST_SCALE)
            grown[names, ""] = replace(term, scale=sqrt(Prior().scale(2) * rough))
            grown[names, SMOOTH] = _smooth_term(term, smooth)
    return grown


def _smooth_term(term: Term, smooth: SmoothPart) -> Term:
    return replace(term, scale=smooth.smoothness.amplitude, free=True, smooth=smooth, residual=False)


def with_lost_parts(known: Mapping[Key, np.ndarray], terms: dict[Key, Term], domain: Domain) -> dict[Key, np.ndarray]:
    """A start's parameters, those of smooth parts that are smooth no longer moved to the cells."""
    moved = dict(known)
    for names, text in known:
        if text == SMOOTH and (names, SMOOTH) not in terms and (names, "") in terms:
            table = cosine_table(domain, names, moved.pop((names, SMOOTH)))
            moved[names, ""] = moved.get((names, ""), 0.0) + table.ravel()
    return moved


def _comparable(
    problem: FitProblem,
    method: str,
    prior: Prior | None,
    terms: dict[Key, Term],
    base: Base,
    variances: float,
    laplace: bool,
) -> Compared | None:
    """The comparison with least squares, where the prior is empirical and the engine holds cells or records."""
    if method != "map" or prior is not None or not isinstance(problem.engine, Rescaling):
        return None
    consistent = consistent_marginals(problem)
    if consistent is None:
        return None
    scales = {names: term.scale for (names, text), term in terms.items() if not text}
    parts = {term.attributes: term.smooth for term in terms.values() if term.smooth is not None}
    smooth = {names: part.variances(base.table(names)) for names, part in parts.items()}
    return Compared(problem, consistent, consistent.decided(base, scales, smooth), variances, laplace)
