"""What is refused before payment is what the release itself would refuse after it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.releases.preconditions import check_rows_to_draw, rows_memory

DOMAIN = rt.Domain(a=rt.Numeric(lower=0, upper=8, bins=8), b=3, one=1, c=2)
WORKLOADS = ("marginals:2", "ranges:a", "marginals:1+prefixes:a", "ranges:a*b", "ranges:one", "ranges:a*one")


def _table(domain: rt.Domain = DOMAIN, records: int = 400) -> rt.Table:
    generator = np.random.default_rng(3)
    columns = {name: generator.integers(0, domain[name].known, records) for name in domain.names}
    return rt.Table.of(pa.table(columns), domain)


def _refusal(act: object) -> str | None:
    try:
        act()  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
    except rt.ReticentError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize(
    ("text", "algorithm"), [*((text, rt.Adaptive()) for text in WORKLOADS), ("marginals:2", rt.MWEM(rounds=2))]
)
def test_replicates_are_refused_before_as_after(text: str, algorithm: rt.Adaptive | rt.MWEM) -> None:
    table, workload = _table(), rt.Workload.parse(text, DOMAIN)
    before = _refusal(
        lambda: check_rows_to_draw(DOMAIN, workload, algorithm, table.records, replicates=10, drawn=False)
    )
    made = rt.release(table, workload, rt.Budget(rho=1), algorithm=algorithm, progress=False)
    after = _refusal(lambda: made.replicates(10, progress=False))
    assert before == after


@pytest.mark.parametrize(
    ("rows", "replicates"), [(1, None), (0, None), (2**31, None), (1599, 10), (1600, 10), (None, 10), (None, 3)]
)
def test_rows_are_refused_before_as_after(rows: int | None, replicates: int | None) -> None:
    table, workload = _table(), rt.marginals(DOMAIN, 1)
    before = _refusal(
        lambda: check_rows_to_draw(DOMAIN, workload, rt.Adaptive(), table.records, rows=rows, replicates=replicates)
    )
    made = rt.release(table, workload, rt.Budget(rho=10), progress=False)
    assert before == _refusal(lambda: made.synthesize(rows, replicates=replicates))


def test_private_numbers_of_records_decide_nothing_beforehand() -> None:
    check_rows_to_draw(DOMAIN, rt.marginals(DOMAIN, 1), rt.Adaptive(), None, rows=1, replicates=10)


def test_rows_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = rt.marginals(DOMAIN, 2)
    made = rt.release(_table(), workload, rt.Budget(rho=1), progress=False)
    sets = 10  # four sets of three of the four attributes, and the six pairs of the workload
    monkeypatch.setattr("reticent.hypotheses.memory.available", lambda: rows_memory(DOMAIN, 1000, sets=sets))
    assert made.synthesize(1000).num_rows == 1000
    with pytest.raises(rt.ReticentError, match=r"drawing 1,001 rows needs about .* fewer rows"):
        made.synthesize(1001)
    with pytest.raises(rt.ReticentError, match=r"drawing 1,001 rows"):
        check_rows_to_draw(DOMAIN, workload, rt.Adaptive(), 400, rows=1001)
