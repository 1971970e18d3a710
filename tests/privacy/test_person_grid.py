"""Persons are counted on an integer grid: fine enough for fractional values, and never outgrown."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from reticent.domain import Domain, Numeric
from reticent.errors import SourceError
from reticent.kernel import table as kernel
from reticent.kernel.accounting import Budget
from reticent.kernel.statistics import LinearCount
from reticent.kernel.table import exact_counts
from reticent.queries.linear import Mean
from reticent.sessions.session import Session
from reticent.sources import Table as SourceTable

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})


def test_persons_counted_on_demand_cannot_outgrow_the_grid(monkeypatch) -> None:
    """A declared number that is far too small made differences of counts and guesses wrap around."""
    rows = pa.table({"a": [0, 1, 2, 0], "b": [0, 1, 2, 3], "c": [0, 1, 0, 1], "who": [1, 2, 3, 3]})
    monkeypatch.setattr(kernel, "WEIGHT_LIMIT", 3 * kernel.PERSON_GRIDS[-1])
    assert SourceTable.of(rows.slice(0, 2), DOMAIN, person="who", records=2, hold=1).grid == kernel.PERSON_GRIDS[-1]
    with pytest.raises(SourceError, match="too large for its integer grid"):
        SourceTable.of(rows, DOMAIN, person="who", records=2, hold=1)


def test_fractional_values_beside_a_person_grid_are_fine_enough() -> None:
    """Query values were rounded to 1/32 beside the largest person grid: a certified mean was off by six errors."""
    domain = Domain(age=Numeric(edges=list(range(21)), other=False))
    rows = pa.table({"age": np.full(1000, 3.5), "id": np.arange(1000)})
    held = SourceTable.of(rows, domain, person="id", records=1000)
    statistic = LinearCount(Mean("age"), domain)
    grid = statistic.resolution(held.grid) * held.grid
    assert int(statistic.evaluate(exact_counts(held), held.grid)) / grid == pytest.approx(
        1000 * 0.175, abs=1000 * 2.0**-19
    )


def test_a_certified_mean_of_persons_holds() -> None:
    domain = Domain(age=Numeric(edges=list(range(21)), other=False))
    rows = pa.table({"age": np.full(20_000, 3.5), "id": np.arange(20_000)})
    held = SourceTable.of(rows, domain, person="id", records=20_000)
    with Session.open(None, held, Budget(rho=0.5), warm_start=0.0) as session:
        answer = session.ask(Mean("age"), error=0.52, confidence=0.999999)
    assert answer.certified
    assert abs(answer.value - 3.5) <= answer.error
