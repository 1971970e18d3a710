"""What the third adversarial review found, each as the test that would have shown it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.errors import QueryError
from reticent.hypotheses import DenseHypothesis
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import AboveThreshold, Gaussian, restore
from reticent.kernel.minimizers.excess_risk import ExcessRisk
from reticent.knowledge import risks
from reticent.planning.plan import Setting
from reticent.planning.thresholds import ENGINES, epoch_plan

DOMAIN = rt.Domain(x=rt.Numeric(edges=[0, 1, 2, 3]), y=rt.Numeric(edges=[0, 1, 2]), z=2)
LOSS = rt.Squared(features=["x"], label="y")


@pytest.mark.parametrize(
    ("records", "amount", "log_universe"), [(1e7, 0.015, 10), (1e8, 0.015, 20), (1e7, 1e-4, 10), (1e8, 1e-3, 20)]
)
def test_the_textbook_engine_certifies_the_noise_it_draws(records: float, amount: float, log_universe: float) -> None:
    """The ledger rounds prices up, so an epoch gets a little less than its share; with many epochs that is not little:
    some noise passed what the certificate allows in seven of ten runs instead of one in twenty."""
    setting = Setting(
        records=int(records), log_universe=log_universe, queries=1000, failure=0.05, pure=False, amount=amount
    )
    plan = epoch_plan("textbook", setting)
    watch, noise = restore(plan.watch), restore(plan.noise)
    assert isinstance(watch, AboveThreshold)
    scales = [float(watch.threshold_scale(1)), float(watch.query_scale(1)), noise.sd / math.sqrt(2)]
    counts = [plan.epochs, plan.queries, plan.epochs]
    beyond = [count * math.exp(-plan.step * records / scale) for count, scale in zip(counts, scales, strict=True)]
    assert sum(beyond) <= setting.failure


@pytest.mark.parametrize("engine", ENGINES)
def test_no_budget_is_too_small_for_a_clear_line(engine: str) -> None:
    setting = Setting(records=10**12, log_universe=40, queries=1000, failure=0.05, pure=False, amount=1e-8)
    with pytest.raises(QueryError, match=r"says nothing|state both"):
        epoch_plan(engine, setting)


def test_excess_risk_is_declared_for_the_table_it_reads() -> None:
    """Its allowance for float errors is proven up to twice this number; a caller could have named any."""
    table = rt.Table.of(pa.table({"x": [0.5, 1.5], "y": [0.5, 1.5], "z": [0, 1]}), DOMAIN)
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=rt.Budget(rho=1)))
    problem = LOSS.on(DOMAIN)
    theta = (np.zeros(problem.dimension),)
    with pytest.raises(QueryError, match="2 records"):
        curator.measure([ExcessRisk((LOSS,), theta, (problem.scale,), DOMAIN, 1)], Gaussian(10))
    curator.measure([ExcessRisk((LOSS,), theta, (problem.scale,), DOMAIN, 2)], Gaussian(10))


def test_a_minimum_of_sampled_records_has_no_gap_to_certify(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap was that of the sample, not of the hypothesis that the certificate speaks of."""
    loss = rt.Logistic(features=["x", "z"], label="y")
    hypothesis, problem = DenseHypothesis(DOMAIN), loss.on(DOMAIN)
    assert risks.public_minimum(hypothesis, problem)[1] < 1e-6
    monkeypatch.setattr(risks, "LARGEST_TENSOR", 1)
    assert risks.public_minimum(hypothesis, problem)[1] >= problem.scale


def test_a_mean_divided_by_too_few_records_may_leave_the_ball() -> None:
    """Its minimiser is weight times the mean, so what it gains over 0 grows with the weight's square."""
    problem = rt.MeanVector(features=["x"]).on(DOMAIN)
    assert problem.zero_loss(1.1) == pytest.approx(1.21 * problem.zero_loss(1.0))
