"""What a second hostile reading found: every case here broke privacy, a bound or a paid answer before it was fixed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.kernel import table as kernel
from reticent.kernel.accounting import Budget
from reticent.kernel.records import Records
from reticent.kernel.table import Table
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Marginal
from reticent.queries.predicate import col
from reticent.session import Session
from reticent.sources import Table as SourceTable

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})


@pytest.fixture
def session() -> Session:
    random = np.random.default_rng(1)
    columns = {name: random.integers(0, DOMAIN[name].size, 3000) for name in DOMAIN.names}
    table = Table(Records.of_codes(DOMAIN, columns, np.ones(3000, dtype=np.int64)), DOMAIN, records=3000)
    return Session.open(None, table, Budget(rho=5), warm_start=0.0)


# -- persons counted on demand, far more than declared -----------------------------------------------------------------


def test_persons_counted_on_demand_cannot_outgrow_the_grid(monkeypatch) -> None:
    """A declared number that is far too small made differences of counts and guesses wrap around."""
    rows = pa.table({"a": [0, 1, 2, 0], "b": [0, 1, 2, 3], "c": [0, 1, 0, 1], "who": [1, 2, 3, 3]})
    monkeypatch.setattr(kernel, "WEIGHT_LIMIT", 3 * kernel.PERSON_GRIDS[-1])
    assert SourceTable.of(rows.slice(0, 2), DOMAIN, person="who", records=2, hold=1).grid == kernel.PERSON_GRIDS[-1]
    with pytest.raises(SourceError, match="outgrows its integer grid"):
        SourceTable.of(rows, DOMAIN, person="who", records=2, hold=1)


# -- errors wider than a half ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        Count((col("a") >= 1) & (col("b") == 2)),
        Count(col("a") == 1),
        Marginal(("a", "b")),
        Groups(["b"], col("a") >= 1),
    ],
    ids=["count", "cell", "marginal", "groups"],
)
def test_an_error_of_more_than_a_half_is_answered_once_paid(session: Session, query) -> None:
    """It was charged and then failed: no bound beyond a half counted as an answer."""
    answer = session.ask(query, error=0.6, key="wide")
    assert answer.certified
    assert 0.5 < answer.error <= 0.6
    assert answer.price == session.spent > 0
    assert np.array_equal(session.ask(query, error=0.6, key="wide").value, answer.value)
