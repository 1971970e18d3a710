"""Audits that could certify nothing are not bought, and the measurements get their share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.errors import LedgerError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.kernel.curator import Curator
from reticent.knowledge.certificates import certifies
from reticent.releases.budgeting import Collection
from reticent.releases.table_audits import TableAudits

DOMAIN = rt.Domain(a=4, b=3, c=2)
TINY = rt.Budget(rho=1e-5)
"""With a twenty-fifth of it, an audit's noise exceeds a table of 300 records."""


def table(neighbours: Any, records: int = 300) -> rt.Table:
    generator = np.random.default_rng(5)
    columns = {name: generator.integers(0, DOMAIN[name].size, records) for name in DOMAIN.names}
    return rt.Table.of(pa.table(columns), DOMAIN, neighbours=neighbours)


def released(neighbours: Any, budget: rt.Budget = TINY, records: int = 300, **more: Any) -> rt.Release:
    return rt.release(table(neighbours, records), rt.marginals(DOMAIN, 2), budget, progress=False, **more)


@pytest.mark.parametrize("budget", [TINY, rt.Budget(epsilon=0.005)], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_measurements_have_the_share_of_audits_that_would_certify_nothing(neighbours: Any, budget: rt.Budget) -> None:
    found = released(neighbours, budget)
    assert not found.certificates
    assert found.notes["uncertified"] == "too few records for this budget"
    ledger = rt.Ledger.memory(budget, table(neighbours).identity)
    plain = rt.Adaptive(audit_share=0).run(
        Curator(table(neighbours), ledger), rt.marginals(DOMAIN, 2), allowance=ledger.remaining, key="run"
    )
    precision, without = (sum(m.sd**-2.0 for m in one.measurements) for one in (found, plain))
    if neighbours == "replace-one":
        assert precision == pytest.approx(without, rel=0.02)
    # Where only the run itself tells the number of records, the share of the typical error is left.
    assert found.facts["spent"] >= (0.999 if neighbours == "replace-one" else 0.96) * ledger.budget.limit
    assert not found.typical


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_audits_that_can_certify_are_bought(neighbours: Any) -> None:
    found = released(neighbours, rt.Budget(rho=0.01), records=20_000)
    assert [one.kind for one in found.certificates] == ["cells", "boxes"]
    assert all(certifies(one.bound) for one in found.certificates)
    assert "uncertified" not in found.notes


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_every_bought_audit_might_have_certified(neighbours: Any) -> None:
    """Around the budget from which audits serve: what is bought has noise that leaves a bound below the whole table."""
    bought = set()
    for rho in np.geomspace(1e-5, 1, 24):
        found = released(neighbours, rt.Budget(rho=float(rho)))
        bought.add(bool(found.certificates))
        for one in found.certificates:
            assert certifies(one.bound - (one.reading + one.slack) / (1 - one.records_error))
    assert bought == {False, True}


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_run_that_died_before_its_last_round_ends_as_it_would_have(
    neighbours: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, measured = tmp_path / "t.ledger", []

    def dying(self: Curator, queries: Any, *given: Any, **named: Any) -> Any:
        if len(measured) == 2:
            raise LedgerError("the process died")
        measured.append(queries)
        return whole(self, queries, *given, **named)

    whole = Curator.measure
    with monkeypatch.context() as patched:
        patched.setattr(Curator, "measure", dying)
        with pytest.raises(LedgerError, match="the process died"):
            released(neighbours, ledger=path)
    found = released(neighbours, ledger=path)
    assert not found.certificates
    assert found.facts["spent"] >= 0.96 * TINY.limit
    assert released(neighbours, ledger=path).to_bytes() == found.to_bytes()


def test_too_few_records_are_no_reason_where_crashes_took_the_units() -> None:
    rows, budget = table("replace-one"), rt.Budget(rho=1)
    curator = Curator(rows, rt.Ledger.memory(budget, rows.identity))
    hypothesis = DenseHypothesis(DOMAIN)
    audits = TableAudits.of(curator, [("a", "b")], 100, confidence=0.95, key="run")
    lost = Collection(curator, 100, "run")
    lost.steps.left = 0
    assert audits.pay(lost, hypothesis, fitted_formerly=False) == ((), None)
    spent = Collection(curator, 100, "run")
    spent.steps.paid(100)
    assert audits.pay(spent, hypothesis, fitted_formerly=False) == ((), "too few records for this budget")
