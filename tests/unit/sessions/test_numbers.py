"""Means of the rows' own numbers: their bounds hold against raw rows, and they are paid for once (answers 5.3)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.faults.payments import Disk, Killed, opened

import reticent as rt
from reticent.errors import KeyReusedError, QueryError
from reticent.sessions.session import Session

BUDGET, AMPLE = rt.Budget(rho=0.5), rt.Budget(rho=5)
EVERYBODY = rt.mean("income")
SOME = rt.mean("income", where=rt.col("sex") == "f")
COARSE = [0, 100, 300]
ERROR = 5.0
"""Of means whose bins hide up to 100."""


def frame(records: int = 4000, seed: int = 1) -> pd.DataFrame:
    """A skewed column: most numbers lie near the lower end of their bin, some beyond the last one."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.lognormal(3, 1.2, records),
            "age": rng.integers(18, 90, records),
            "sex": rng.choice(["f", "m"], records),
            "who": rng.integers(0, records // 3, records),
        }
    )


def domain(*, nullable: bool = True) -> rt.Domain:
    return rt.Domain(
        income=rt.Numeric(edges=COARSE, nullable=nullable),
        age=rt.Numeric(edges=[18, 50, 90], whole=True),
        sex=rt.Categorical(["f", "m"], other=False),
    )


FRAME = frame()
TABLE = rt.Table.of(FRAME, domain(), numbers=True, progress=False)


def clipped(rows: pd.DataFrame) -> pd.Series:
    return rows["income"].clip(COARSE[0], COARSE[-1])


def test_bounds_hold_against_the_rows_own_numbers() -> None:
    """A twentieth may miss: of 120 independent means more than 18 do with probability below 1e-6."""
    wanted = {EVERYBODY: clipped(FRAME).mean(), SOME: clipped(FRAME[FRAME["sex"] == "f"]).mean()}
    missed, asked = 0, 0
    for _ in range(60):
        with Session.open(None, TABLE, BUDGET, warm_start=0, progress=False) as session:
            for query, truth in wanted.items():
                answer = session.ask(query, error=ERROR)
                assert answer.certified
                assert answer.origin == "measured"
                assert "own values" in answer.basis
                missed += abs(answer.value - truth) > answer.error
                asked += 1
    assert stats.binom.sf(missed - 1, asked, 0.05) > 1e-6, missed


def test_they_are_nearer_than_middles_of_bins() -> None:
    truth = clipped(FRAME).mean()
    plain = rt.Table.of(FRAME, domain(), progress=False)
    with Session.open(None, plain, AMPLE, warm_start=0.5, progress=False) as session:
        middles = session.ask(EVERYBODY)
    with Session.open(None, TABLE, AMPLE, warm_start=0.5, progress=False) as session:
        bought = session.ask(EVERYBODY, error=2.0)
    assert abs(middles.value - truth) > 10
    assert middles.error is None or middles.error > 20
    assert bought.error <= 2.0 * (1 + 1e-9)
    assert abs(bought.value - truth) <= 4, "a mean of sd below 0.5"


def test_a_mean_is_paid_for_once_and_known_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Session.open(path, TABLE, AMPLE, warm_start=0, progress=False) as session:
        price = session.cost(SOME, error=ERROR)
        first = session.ask(SOME, error=ERROR, key="mine")
        assert first.price == price == session.spent > 0
        for error, key in ((ERROR, None), (2 * ERROR, None), (None, None), (ERROR, "another")):
            again = session.ask(SOME, error=error, key=key)
            assert (again.value, again.error, again.price) == (first.value, first.error, 0)
        with pytest.raises(KeyReusedError):
            session.ask(EVERYBODY, error=ERROR, key="mine")
        assert session.spent == price
        tighter = session.ask(SOME, error=1.0)
        assert tighter.error < first.error
        spent = session.spent
    plain = rt.Table.of(FRAME, domain(), progress=False)
    with Session.open(path, plain, AMPLE, progress=False) as session:
        assert session.ask(SOME, error=ERROR, key="mine").value == first.value
        assert session.ask(SOME, error=1.0).value == tighter.value
        assert session.spent == spent


def test_bins_that_hide_little_are_used_as_before() -> None:
    fine = rt.Domain(income=rt.Numeric(edges=range(0, 301, 2)), sex=rt.Categorical(["f", "m"], other=False))
    table = rt.Table.of(FRAME[["income", "sex"]], fine, numbers=True, progress=False)
    with Session.open(None, table, BUDGET, warm_start=0, progress=False) as session:
        assert "own values" not in session.ask(EVERYBODY, error=ERROR).basis


def test_without_numbers_the_remedy_is_told() -> None:
    plain = rt.Table.of(FRAME, domain(), progress=False)
    with Session.open(None, plain, BUDGET, warm_start=0, progress=False) as session:
        with pytest.raises(QueryError, match="numbers=True"):
            session.ask(EVERYBODY, error=ERROR)
        assert session.spent == 0


@pytest.mark.parametrize("facts", [{"neighbours": "add-remove"}, {"person": "who", "records": 4000 // 3}])
def test_private_totals_and_persons(facts: dict[str, Any]) -> None:
    table = rt.Table.of(FRAME, domain(nullable=False), numbers=True, progress=False, **facts)
    rows = FRAME.assign(income=clipped(FRAME))
    truth = rows.groupby("who")["income"].mean().mean() if "person" in facts else rows["income"].mean()
    with Session.open(None, table, rt.Budget(rho=5), warm_start=0, progress=False, confidence=0.999999) as session:
        answer = session.ask(EVERYBODY, error=20.0)
        assert answer.certified
        assert "own values" in answer.basis
        assert abs(answer.value - truth) <= answer.error + 1e-6 * abs(truth)


@pytest.mark.parametrize("key", [None, "mean"])
def test_a_crash_at_any_step_charges_nothing_twice(key: str | None) -> None:
    with opened(Disk(), TABLE, warm_start=0) as session:
        price = session.cost(SOME, error=ERROR)
    for fatal in range(1, 9):
        disk = Disk()
        with opened(disk, TABLE, warm_start=0) as session:
            disk.arm(fatal)
            with suppress(Killed):
                session.ask(SOME, error=ERROR, key=key)
        with opened(disk, TABLE) as session:
            answer = session.ask(SOME, error=ERROR, key=key)
            assert session.spent == pytest.approx(price, rel=1e-9)
            assert session.ask(SOME, error=ERROR, key=key).value == answer.value
            session.state.ledger.verify()
