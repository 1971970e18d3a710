"""Minimum risks on the public hypothesis, and the gap that a certificate must add to them."""

from __future__ import annotations

import pytest
from tests.small_tables import MIXED

import reticent as rt
from reticent.hypotheses import DenseHypothesis
from reticent.knowledge import risks


def test_a_minimum_of_sampled_records_has_no_gap_to_certify(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap was that of the sample, not of the hypothesis that the certificate speaks of."""
    loss = rt.Logistic(features=["x", "z"], label="y")
    hypothesis, problem = DenseHypothesis(MIXED), loss.on(MIXED)
    assert risks.public_minimum(hypothesis, problem)[1] < 1e-6
    monkeypatch.setattr(risks, "LARGEST_TENSOR", 1)
    assert risks.public_minimum(hypothesis, problem)[1] >= problem.scale


def test_a_mean_divided_by_too_few_records_may_leave_the_ball() -> None:
    """Its minimiser is weight times the mean, so what it gains over 0 grows with the weight's square."""
    problem = rt.MeanVector(features=["x"]).on(MIXED)
    assert problem.zero_loss(1.1) == pytest.approx(1.21 * problem.zero_loss(1.0))
