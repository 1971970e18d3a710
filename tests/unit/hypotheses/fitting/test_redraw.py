"""What a replicate's fit draws anew: prior centres, from the prior itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import reticent as rt
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.loglinear import DEGREES, Redraw, Term

DOMAIN = rt.Domain({"a": 3, "b": 4})


@pytest.mark.parametrize("scale", [0.15, 0.5])
def test_centres_follow_the_prior_with_its_tails(scale: float) -> None:
    """A normal law of the same curvature has its 95% point at 1.6 scales; Student's is at 4.3."""
    terms = {
        (("a", "b"), ""): Term(("a", "b"), np.zeros(200_000), 0.1, scale),
        (("a",), ""): Term(("a",), np.zeros(3), 0.1, 3.0),
    }
    drawn = Redraw((), np.random.default_rng(1)).centres(terms)
    assert list(drawn) == [(("a", "b"), "")], "single attributes have no centre to draw"
    shares = [0.5, 0.8, 0.95]
    found = np.quantile(np.abs(drawn[("a", "b"), ""]), shares)
    expected = scale * stats.t.ppf((1 + np.array(shares)) / 2, DEGREES)
    assert found == pytest.approx(expected, rel=0.03)


def test_a_fit_begun_at_another_base_begins_at_the_same_distribution() -> None:
    """Parameters are relative to a base that the measurements decide; moving them changes nothing else."""
    generator = np.random.default_rng(2)
    truth = generator.dirichlet(np.full(12, 2.0)).reshape(3, 4)
    values = {("a",): truth.sum(axis=1), ("b",): truth.sum(axis=0), ("a", "b"): truth}

    def measured(noise: float) -> list[Measurement]:
        return [
            # So much noise that the prior decides: no start near the measurements is taken.
            Measurement(rt.marginal(*names), table + noise * generator.normal(size=table.shape), 0.3)
            for names, table in values.items()
        ]

    first = DenseHypothesis(DOMAIN)
    first.fit(measured(0.0))
    again = DenseHypothesis(DOMAIN)
    perturbed = measured(0.01)
    again.fit(perturbed, redraw=Redraw(perturbed, generator), start=first.model, iterations=1, tolerance=1e9)
    assert again.probabilities() == pytest.approx(first.probabilities(), abs=1e-12)
