"""Plans of the threshold engines certify the noise they draw, and refuse a budget too small for any."""

from __future__ import annotations

import math

import pytest

from reticent.errors import QueryError
from reticent.kernel.mechanisms.base import AboveThreshold, restore
from reticent.planning.plan import Setting
from reticent.planning.thresholds import ENGINES, epoch_plan


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
