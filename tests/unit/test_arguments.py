"""Arguments of another kind, or without effect, are refused in one line where they enter; nothing is spent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import reticent as rt

DOMAIN = rt.Domain(x=rt.Numeric(edges=[0, 5, 50, 100]), s=rt.Categorical(["a", "b"], other=False))
FRAME = pd.DataFrame({"x": [7.25] * 60, "s": ["a", "b"] * 30})
TABLE = rt.Table.of(pa.Table.from_pandas(FRAME), DOMAIN)
BUDGET = rt.Budget(epsilon=1, delta=1e-9)
VALUES: list[Any] = [
    *(None, "x", "", 3, -1, 0, 10**400, -(10**400), 1.5, float("nan"), float("inf"), [], [1], ["x"], {}, {"x": 1}),
    *((1, 2), True, b"x", np.int64(3), np.float64("nan"), np.array([1, 2]), FRAME, TABLE, DOMAIN, object(), type),
    *(Fraction(1, 3), "0.01", "\0", "a\nb", rt.col("x"), rt.col("x") >= 5, rt.count(), 1j, "n" * 5000),
    *(np.array("x"), np.array(3), pa.Table.from_pandas(FRAME)),
]


@pytest.fixture(scope="module")
def session() -> rt.Session:
    return rt.Session.open(None, TABLE, BUDGET)


Call = Callable[[Any, rt.Session], Any]
SQL = "SELECT COUNT(*) FROM t WHERE s = 'a'"
ONE = rt.count(rt.col("s") == "a")
CALLS: dict[str, Call] = {
    "marginals(domain)": lambda v, s: rt.marginals(v, 2),
    "marginals(k)": lambda v, s: rt.marginals(DOMAIN, v),
    "marginals alone": lambda v, s: rt.marginals(v),
    "ranges": lambda v, s: rt.ranges(v),
    "ranges(domain)": lambda v, s: rt.ranges("x", domain=v),
    "Workload": lambda v, s: rt.Workload([v]),
    "Workload(domain)": lambda v, s: rt.Workload([ONE], domain=v),
    "Workload.parse": lambda v, s: rt.Workload.parse(v, DOMAIN),
    "Workload.on": lambda v, s: rt.marginals(DOMAIN, 1).on(v),
    "count": lambda v, s: rt.count(v),
    "mean": lambda v, s: rt.mean(v),
    "records": lambda v, s: rt.records(v),
    "TextbookPMW": lambda v, s: rt.TextbookPMW(error=v),
    "MWEM": lambda v, s: rt.MWEM(rounds=v),
    "Adaptive": lambda v, s: rt.Adaptive(model_cells=v),
    "Budget(epsilon)": lambda v, s: rt.Budget(epsilon=v),
    "Budget(delta)": lambda v, s: rt.Budget(epsilon=1, delta=v),
    "plan(records)": lambda v, s: rt.plan(records=v, domain=DOMAIN, budget=BUDGET),
    "plan(queries)": lambda v, s: rt.plan(records=9, domain=DOMAIN, budget=BUDGET, queries=v),
    "needed": lambda v, s: rt.plan(records=900, domain=DOMAIN, budget=BUDGET).needed(v),
    "ask": lambda v, s: s.ask(v),
    "ask(error)": lambda v, s: s.ask(ONE, error=v),
    "ask(confidence)": lambda v, s: s.ask(ONE, confidence=v),
    "ask(key)": lambda v, s: s.ask(ONE, error=0.49, key=v),
    "ask(analyst)": lambda v, s: s.ask(ONE, error=0.49, analyst=v),
    "ask SQL(error)": lambda v, s: s.cost(SQL, error=v),
    "cost": lambda v, s: s.cost(v, error=0.1),
    "ask_all": lambda v, s: s.ask_all(v, error=0.49),
    "certify(kind)": lambda v, s: s.certify(v, amount=1e-9),
    "certify(order)": lambda v, s: s.certify(order=v, amount=1e-9),
    "certify(amount)": lambda v, s: s.certify(amount=v) if isinstance(v, (str, bytes, list)) else None,
    "set_cap": lambda v, s: s.set_cap(v, 0.001),
    "set_cap(amount)": lambda v, s: s.set_cap("b", v),
    "spent_by": lambda v, s: s.spent_by(v),
    "report": lambda v, s: s.report(v),
    "save": lambda v, s: s.release().save(v),
    "load": lambda v, s: rt.Release.load(v),
    "from_bytes": lambda v, s: rt.Release.from_bytes(v),
    "synthesize": lambda v, s: s.release().synthesize(v),
    "synthesize(seed)": lambda v, s: s.release().synthesize(3, seed=v),
    "synthesize(independent)": lambda v, s: s.release().synthesize(3, independent=v),
    "Squared(features)": lambda v, s: rt.Squared(features=v, label="x"),
    "Squared(radius)": lambda v, s: rt.Squared(features=["s"], label="x", radius=v),
    "MeanVector": lambda v, s: rt.MeanVector(features=v),
    "open(path)": lambda v, s: None if v is None else rt.Session.open(v, TABLE, BUDGET, warm_start=0).close(),
    "open(engine)": lambda v, s: rt.Session.open(None, TABLE, BUDGET, engine=v),
    "open(warm_start)": lambda v, s: None if v is None else rt.Session.open(None, TABLE, BUDGET, warm_start=v),
    "open(queries)": lambda v, s: rt.Session.open(None, TABLE, BUDGET, engine="tuned", queries=v),
    "open(support)": lambda v, s: rt.Session.open(None, TABLE, BUDGET, engine="tuned", support=v),
    "open(strict)": lambda v, s: rt.Session.open(None, TABLE, BUDGET, warm_start=0, strict=v),
    "release(ledger)": lambda v, s: None if v is None else rt.release(TABLE, rt.marginals(DOMAIN, 1), BUDGET, ledger=v),
    "release(algorithm)": lambda v, s: (
        (v or None) and rt.release(TABLE, rt.marginals(DOMAIN, 1), BUDGET, algorithm=v)
        if isinstance(v, (str, int, list, dict, bytes))
        else None
    ),
    "Table.of(neighbours)": lambda v, s: rt.Table.of(pa.Table.from_pandas(FRAME), DOMAIN, neighbours=v),
    "Table.of(hold)": lambda v, s: rt.Table.of(pa.Table.from_pandas(FRAME), DOMAIN, hold=v),
    "Domain.read": lambda v, s: rt.Domain.read(v),
    "Domain.write": lambda v, s: DOMAIN.write(v),
    "Categorical": lambda v, s: rt.Categorical(v),
    "Numeric(edges)": lambda v, s: rt.Numeric(edges=v),
    "Numeric(outside)": lambda v, s: rt.Numeric(edges=[0, 1], outside=v),
    "Undeclared": lambda v, s: rt.Undeclared(v),
    "isin": lambda v, s: s.ask(rt.count(rt.col("x").isin(v))),
    "Workload(queries)": lambda v, s: rt.Workload(v),
    "Workload(weights)": lambda v, s: rt.Workload([ONE], weights=v),
    "Workload.from_dict": lambda v, s: rt.Workload.from_dict({"marginals": [["x"]], "marginal_weights": [v]}),
    "Hinge(width)": lambda v, s: rt.Hinge(features=["x"], label="s", width=v),
    "DualQuery(rounds)": lambda v, s: rt.DualQuery(rounds=v),
    "DualQuery(draws)": lambda v, s: rt.DualQuery(draws=v),
    "ConvexPMW": lambda v, s: rt.ConvexPMW(v),
    "Table.of": lambda v, s: rt.Table.of(v, DOMAIN),
    "Table.of a column": lambda v, s: rt.Table.of(FRAME["x"], DOMAIN),
    "open(purpose)": lambda v, s: None if v is None else rt.Session.open(None, TABLE, BUDGET, purpose=v),
    "ask(promise)": lambda v, s: s.ask(ONE, promise=v),
    "Ledger.open(identity)": lambda v, s: rt.Ledger.open("i.ledger", identity=v, budget=BUDGET).close(),
    "Ledger.open(budget)": lambda v, s: rt.Ledger.open("b.ledger", identity=TABLE.identity, budget=v).close(),
    "Ledger.memory": lambda v, s: rt.Ledger.memory(v),
    "Adaptive(audit_share)": lambda v, s: rt.Adaptive(audit_share=v),
    "Adaptive(confidence)": lambda v, s: rt.Adaptive(confidence=v),
    "MWEM(audit_share)": lambda v, s: rt.MWEM(audit_share=v),
    "DualQuery(audit_share)": lambda v, s: rt.DualQuery(audit_share=v),
    "DualQuery(refine)": lambda v, s: rt.DualQuery(refine=v),
    "Budget(noise)": lambda v, s: rt.Budget(epsilon=1, delta=1e-9, noise=v),
    "Budget(approximate)": lambda v, s: rt.Budget(epsilon=1, delta=1e-9, approximate=v),
    "Categorical(missing)": lambda v, s: rt.Categorical(["a"], missing=v),
    "Numeric(units)": lambda v, s: rt.Numeric(edges=[0, 1], units=v),
    "Numeric(negative)": lambda v, s: rt.Numeric(edges=[0, 1], negative=v),
    "Numeric(format)": lambda v, s: rt.Numeric(edges=[date(2020, 1, 1), date(2021, 1, 1)], format=v),
    "Domain.canonical": lambda v, s: DOMAIN.canonical(v),
    "Domain.shape_of": lambda v, s: DOMAIN.shape_of(v),
    "Domain.cells": lambda v, s: DOMAIN.cells(v),
    "Domain.with_discovered": lambda v, s: DOMAIN.with_discovered(v),
    "Logistic(bounds)": lambda v, s: rt.Logistic(features=["x"], label="s", positive="a", bounds=v),
    "Logistic(bounds of x)": lambda v, s: rt.Logistic(features=["x"], label="s", positive="a", bounds={"x": v}),
    "Logistic(categories)": lambda v, s: rt.Logistic(features=["x"], label="s", positive="a", categories=v),
    "Logistic(intercept)": lambda v, s: rt.Logistic(features=["x"], label="s", positive="a", intercept=v),
    "Answer.from_dict": lambda v, s: s.ask(ONE).from_dict(v),
    "plan(losses)": lambda v, s: rt.plan(records=v, domain=DOMAIN, budget=BUDGET, losses=v),
    "predict": lambda v, s: s.minimize(rt.Squared(features=["s"], label="x")).predict(v),
    "load a name that is no text": lambda v, s: rt.Release.load("\ud800"),
    "save under a name that is no text": lambda v, s: s.release().save("\ud800"),
    "report under a name that is no text": lambda v, s: s.report("\ud800"),
    "Ledger.open": lambda v, s: rt.Ledger.open(v, identity=TABLE.identity, budget=BUDGET).close(),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_any_kind_is_taken_or_refused_in_one_line(
    name: str, session: rt.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in VALUES:
        try:
            CALLS[name](value, session)
        except rt.ReticentError as refused:
            text = str(refused)
            shown = ("\n" in text, len(text) > 700, "7.25" in text)
            assert shown == (False, False, False), "one line that shows no row"


@pytest.mark.parametrize("identity", [None, [], "x", {"a": object()}, {"a": {1, 2}}])
def test_a_ledger_of_no_table_is_never_made(identity: Any, tmp_path: Path) -> None:
    """It was: the file took the wrong identity, and no later opening came past it."""
    path = tmp_path / "a.ledger"
    with pytest.raises(rt.ReticentError, match=r"identity .*table\.identity|plain finite JSON"):
        rt.Ledger.open(path, identity=identity, budget=BUDGET)
    assert not path.exists()
    rt.Ledger.open(path, identity=TABLE.identity, budget=BUDGET).close()


UNUSED: list[tuple[dict[str, Any], str]] = [
    ({"support": 64}, "support="),
    ({"engine": "tuned", "warm_start": 0.5}, "warm_start="),
    ({"engine": "tuned", "workload": rt.marginals(DOMAIN, 1)}, "workload="),
    ({"engine": "textbook", "error": 0.1}, "error="),
    ({"anchor": "somewhere"}, "anchor="),
]


@pytest.mark.parametrize(("arguments", "named"), UNUSED, ids=lambda part: str(part)[:40])
def test_an_argument_without_effect_is_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(rt.QueryError, match="has no effect") as refused:
        rt.Session.open(None, TABLE, BUDGET, **arguments)
    assert named in str(refused.value)


def test_a_start_replaces_what_would_be_bought(session: rt.Session) -> None:
    for unused in ({"warm_start": 0.5}, {"workload": rt.marginals(DOMAIN, 1)}, {"queries": 10}, {"error": 0.1}):
        with pytest.raises(rt.QueryError, match="has no effect with start="):
            rt.Session.open(None, TABLE, BUDGET, start=session.release(), **unused)
