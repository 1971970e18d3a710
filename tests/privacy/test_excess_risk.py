"""The excess risk of a model moves no further between neighbours than it states, float errors included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.small_tables import MIXED

import reticent as rt
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.minimizers.excess_risk import ExcessRisk
from reticent.losses.losses import Logistic

LOSS = rt.Squared(features=["x"], label="y")


def excess_risk(radius: float, size: int) -> ExcessRisk:
    domain = Domain({"a": 5, "y": 2})
    loss = Logistic(features=["a"], label="y", radius=radius, positive=1)
    problem = loss.on(domain)
    theta = np.zeros(problem.dimension)
    theta[0] = radius
    return ExcessRisk((loss,), (theta,), (problem.scale,), domain, float(size))


@pytest.mark.parametrize("radius", [1e-14, 1e-9, 1e-6])
def test_a_loss_that_hardly_varies_is_refused(radius: float) -> None:
    """Risks of order one were subtracted and divided by a range of 1e-14: neighbours lay 400 records apart."""
    with pytest.raises(QueryError, match="larger radius"):
        excess_risk(radius, 20_000)


@pytest.mark.parametrize("radius", [1e-4, 1e-2, 1.0])
def test_excess_risk_moves_no_further_than_stated_on_small_balls(radius: float) -> None:
    size, moved, generator = 20_000, [], np.random.default_rng(0)
    risk = excess_risk(radius, size)
    codes = {"a": generator.integers(0, 5, size), "y": generator.integers(0, 2, size)}
    for first, second in ((0, 0), (0, 1), (4, 0), (4, 1), (2, 1)):
        codes["a"][0], codes["y"][0] = first, second
        source = Records.of_codes(risk.domain, codes, np.ones(size, dtype=np.int64))
        moved.append(int(risk.evaluate(source, 1)) / risk.resolution(1))
    assert max(moved) - min(moved) <= risk.sensitivity("replace-one").l1


def test_excess_risk_counts_its_float_error_against_the_records() -> None:
    excess_risk(1e-4, 10**5)
    with pytest.raises(QueryError, match="varies too little"):
        excess_risk(1e-4, 10**9)


def test_excess_risk_is_declared_for_the_table_it_reads() -> None:
    """Its allowance for float errors is proven up to twice this number; a caller could have named any."""
    table = rt.Table.of(pa.table({"x": [0.5, 1.5], "y": [0.5, 1.5], "z": [0, 1]}), MIXED)
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=rt.Budget(rho=1)))
    problem = LOSS.on(MIXED)
    theta = (np.zeros(problem.dimension),)
    with pytest.raises(QueryError, match="another number of records; the table has 2"):
        curator.measure([ExcessRisk((LOSS,), theta, (problem.scale,), MIXED, 1)], Gaussian(10))
    curator.measure([ExcessRisk((LOSS,), theta, (problem.scale,), MIXED, 2)], Gaussian(10))
