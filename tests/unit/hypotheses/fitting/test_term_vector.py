"""A fit on chosen records that leaves out cells without records sees what one with all cells does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.fitting.consistent import centred
from reticent.hypotheses.fitting.descent import Reached
from reticent.hypotheses.fitting.loglinear import FitProblem, InferenceEngine, Term
from reticent.hypotheses.fitting.prior import product_base
from reticent.hypotheses.fitting.proportional import (
    Rescaling,
    consistent_marginals,
    proportional_start,
    within_noise,
)
from reticent.hypotheses.fitting.support_engine import SupportEngine

DOMAIN = Domain({"a": 9, "b": 8, "c": 7, "d": 2})
RECORDS = 300
SINGLES = [(name,) for name in DOMAIN.names]
PAIRS = [("a", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("c", "d")]
SETS = [*SINGLES, *PAIRS, ("a", "b", "c"), ("b", "c", "d")]


class AllCells:
    """The engine's tables in full, set by set."""

    def __init__(self, engine: SupportEngine) -> None:
        self._engine = engine
        self.evaluate, self.covary, self.occupied = engine.evaluate, engine.covary, engine.occupied

    def held(self, index: int, table: np.ndarray) -> np.ndarray:
        return table

    def rescale(self, index: int, ratio):
        cells = self._engine.held(index, np.arange(DOMAIN.cells(self.sets[index])))
        shape, found = DOMAIN.shape_of(self.sets[index]), []

        def of_held(marginal: np.ndarray) -> np.ndarray:
            table = np.zeros(shape)
            table.reshape(-1)[np.ravel(cells)] = marginal.ravel()
            found.append(ratio(table))
            return found[0].ravel()[np.ravel(cells)]

        self._engine.rescale(index, of_held)
        return found[0]

    sets: Sequence[tuple[str, ...]] = ()


def terms(residual: bool) -> list[Term]:
    generator = np.random.default_rng(4)
    truth = generator.dirichlet(np.full(DOMAIN.size, 0.02)).reshape(DOMAIN.shape)
    found = []
    for names in SETS:
        kept = [DOMAIN.index(name) for name in names]
        values = truth.sum(axis=tuple(i for i in range(4) if i not in kept))
        values = values + generator.normal(0, 0.01, values.shape)
        whole = not residual or len(names) == 1
        found.append(Term(names, values if whole else centred(values), 0.01, 0.5, residual=not whole))
    form = np.random.default_rng(5).random(DOMAIN.shape_of(("a", "b", "c")))
    return [*found, Term(("a", "b", "c"), np.array([0.4]), 0.02, 1.0, form=form)]


def problem(made: Sequence[Term], *, full: bool) -> FitProblem:
    codes = np.random.default_rng(6).integers(0, DOMAIN.shape, (RECORDS, len(DOMAIN)))
    base = product_base(DOMAIN, [(t.attributes, t.values, t.sd) for t in made if t.order == 1])

    def cells(axes: Sequence[int]) -> np.ndarray:
        return np.ravel_multi_index(tuple(codes[:, i] for i in axes), [DOMAIN.shape[i] for i in axes])

    def engine(sets: Sequence[tuple[str, ...]]) -> InferenceEngine:
        found = SupportEngine(DOMAIN.shape, [tuple(map(DOMAIN.index, s)) for s in sets], cells, np.zeros(RECORDS))
        if not full:
            return found
        listed = AllCells(found)
        listed.sets = list(sets)
        return listed

    return FitProblem(made, base, engine, degrees=2.0)


def both(residual: bool) -> tuple[FitProblem, FitProblem]:
    made = terms(residual)
    return problem(made, full=True), problem(made, full=False)


def point(at: FitProblem, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return at.vector.hold([generator.normal(0, 0.3, term.values.size) for term in at.terms])


@pytest.mark.parametrize("residual", [False, True])
def test_objective_slopes_and_distances_are_the_same(residual: bool) -> None:
    full, packed = both(residual)
    assert residual or packed.size < full.size
    assert packed.cells == full.cells == full.size
    assert packed.numbers == full.numbers
    for seed, level in itertools.product(range(3), (0, 2)):
        one, other = point(full, seed), point(packed, seed)
        assert packed.at_level(level).value(other) == pytest.approx(full.at_level(level).value(one), rel=1e-9)
        assert packed.gradient()[packed.moving] == pytest.approx(full.gradient()[full.moving], rel=1e-7, abs=1e-6)
        assert packed.misfit(other) == pytest.approx(full.misfit(one), rel=1e-9)
        assert packed.distance(other) == pytest.approx(full.distance(one), rel=1e-9)
        assert packed.levels(other) == full.levels(one)
        assert packed.curvature(other) == pytest.approx(full.curvature(one), rel=1e-7)
        for names, cells in zip(packed.sets, packed.potentials(other), strict=True):
            assert cells == pytest.approx(full.potentials(one)[full.place(names)]), "rests are kept"


@pytest.mark.parametrize("residual", [False, True])
def test_proportional_fitting_moves_the_same_cells(residual: bool) -> None:
    moved = []
    for at in both(residual):
        assert isinstance(at.engine, Rescaling)
        consistent = consistent_marginals(at)
        assert consistent is not None
        start = proportional_start(at, consistent, point(at, 1))
        bounded = within_noise(at, consistent, point(at, 1), 1.5)
        moved.append([at.all_parameters(start), at.all_parameters(bounded)])
    for one, other in zip(*moved, strict=True):
        for first, second in zip(one, other, strict=True):
            assert second == pytest.approx(first, abs=1e-8)


@pytest.mark.parametrize("residual", [False, True])
def test_a_fit_descends_to_the_same_objective(residual: bool) -> None:
    ends = []
    for at in both(residual):
        reached = Reached(1e-4, 0.1, 300, None)
        ends.append(at.value(reached.descend(at, point(at, 2))))
    assert ends[1] == pytest.approx(ends[0], rel=1e-4)
