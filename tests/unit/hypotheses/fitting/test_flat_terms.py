"""A fit on one vector of tables sees what a fit on a tree of marginals does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.dense import flat
from reticent.hypotheses.dense.dense import DenseEngine
from reticent.hypotheses.fitting.consistent import centred
from reticent.hypotheses.fitting.loglinear import FitProblem, InferenceEngine, Term
from reticent.hypotheses.fitting.prior import product_base
from reticent.hypotheses.fitting.proportional import Rescaling, consistent_marginals, proportional_start
from reticent.hypotheses.fitting.smoothness import Smoothness, SmoothPart

DOMAIN = Domain({"a": 5, "b": 3, "c": 4})


def terms(seed: int = 3) -> list[Term]:
    """A marginal with a smooth part, residuals of two orders, a single query."""
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.full(60, 2.0)).reshape(DOMAIN.shape)
    pair = Term(("a", "b"), truth.sum(axis=2), 0.01, 0.4)
    smooth = SmoothPart((5, 3), (5, 0), Smoothness(0.5, 1.0, 0.1))
    return [
        Term(("a",), truth.sum(axis=(1, 2)), 0.01, 3.0),
        pair,
        Term(("a", "b"), pair.values, 0.01, 0.5, free=True, smooth=smooth),
        Term(("b", "c"), centred(truth.sum(axis=0)), 0.01, 0.4, residual=True),
        Term(("a", "b", "c"), centred(truth), 0.01, 0.2, residual=True),
        Term(("b", "c"), np.array([0.3]), 0.02, 1.0, form=generator.random((3, 4))),
    ]


class Listed:
    """An engine without a vector: `FitProblem` goes through it term by term."""

    def __init__(self, engine: InferenceEngine) -> None:
        self.evaluate, self.covary = engine.evaluate, engine.covary
        if isinstance(engine, Rescaling):
            self.held, self.rescale = engine.held, engine.rescale


def problem(
    made: Sequence[Term], *, repeated: bool, listed: bool = False, impossible: np.ndarray | None = None
) -> FitProblem:
    base = product_base(DOMAIN, [(t.attributes, t.values, t.sd) for t in made if t.order == 1])

    def engine(sets: Sequence[tuple[str, ...]]) -> InferenceEngine:
        axes = [tuple(map(DOMAIN.index, names)) for names in sets]
        found = DenseEngine(DOMAIN.shape, axes, impossible, repeated=repeated)
        return Listed(found) if listed else found

    return FitProblem(made, base, engine, degrees=2.0)


@pytest.mark.parametrize(
    ("most", "repeated"), [(0, True), (flat.MOST_PLACES, True), (0, False)], ids=["tree", "index", "release"]
)
@pytest.mark.parametrize("ruled", [False, True])
def test_values_and_slopes_agree(monkeypatch: pytest.MonkeyPatch, most: int, repeated: bool, ruled: bool) -> None:
    monkeypatch.setattr(flat, "MOST_PLACES", most)
    impossible = np.random.default_rng(1).random(DOMAIN.shape) < 0.2 if ruled else None
    plain = problem(terms(), repeated=False, listed=True, impossible=impossible)
    flattened = problem(terms(), repeated=repeated, impossible=impossible)
    for seed in range(3):
        point = np.random.default_rng(seed).normal(0, 0.5, plain.size)
        assert flattened.statistics(point) == pytest.approx(plain.statistics(point), abs=1e-12)
        assert flattened.value(point) == pytest.approx(plain.value(point), rel=1e-10)
        slopes = plain.gradient()
        assert flattened.gradient() == pytest.approx(slopes, abs=1e-9 * np.abs(slopes).max())


def test_proportional_fitting_starts_where_the_fit_is() -> None:
    """The vector's own distribution is not the engine's: the engine must be told where to start."""
    made = [t for t in terms() if t.whole and not t.residual]
    point = np.random.default_rng(5).normal(0, 0.5, sum(t.values.size for t in made))
    starts = []
    for listed in (True, False):
        at = problem(made, repeated=True, listed=listed)
        at.engine.evaluate(at.potentials(np.zeros(at.size)))
        consistent = consistent_marginals(at)
        assert consistent is not None
        starts.append(proportional_start(at, consistent, point))
    assert starts[1] == pytest.approx(starts[0], abs=1e-9)
