"""Several analysts on one threshold engine: who ends an epoch pays for what follows, and an answer states its price."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.session_tables import forbidden, of_codes
from tests.small_tables import DOMAIN, uniform

import reticent as rt
from reticent.domain import Domain
from reticent.errors import BudgetError, EntryError, KeyReusedError
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms.noise import Noise
from reticent.queries.groups import Groups
from reticent.sessions.session import Session

BUDGET = rt.Budget(rho=1)
OPTIONS = {"queries": 1000, "confidence": 1 - 1e-6}
SURE = rt.count(rt.col("even") == 0)
"""Uniform is right about it: the test says "below"."""
WRONG = rt.count(rt.col("skew") == 0)
"""Uniform says a quarter, and it is everybody: the test says "above"."""
ALSO = rt.count(rt.col("also") == 1)
"""As wrong, whatever was learned about the other column."""


def rows() -> rt.Table:
    columns = {"even": np.arange(200) % 2, "skew": np.zeros(200, dtype=np.int64), "also": np.ones(200, dtype=np.int64)}
    return of_codes(Domain({"even": 2, "skew": 4, "also": 4}), columns, 10_000)


@pytest.fixture(params=["tuned", "textbook"])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


def opened(engine: str, path: Path | None = None, *, table: rt.Table | None = None, strict: bool = False) -> Session:
    return Session.open(path, table or rows(), BUDGET, engine=engine, strict=strict, **OPTIONS)


def prices(session: Session) -> tuple[float, float]:
    """Of an epoch and of its measurement."""
    epochs, budget = session.answering.epochs, session.budget
    assert epochs is not None
    both = budget.amount(epochs.cost(WRONG))
    epoch = budget.amount(budget.cost(epochs.plan.mechanism.price()))
    return epoch, both - epoch


def state(session: Session) -> tuple[object, ...]:
    epochs = session.answering.epochs
    assert epochs is not None
    return epochs.running is not None, epochs.opened, epochs.tests, session.spent


# ---- whoever asks can pay for what may follow


@pytest.mark.parametrize("short", [0.0, 0.9])
def test_who_cannot_pay_the_measurement_does_not_end_an_epoch_of_others(engine: str, short: float) -> None:
    session = opened(engine)
    session.set_cap("poor", short * prices(session)[1])
    assert session.ask(SURE, analyst="rich").origin == "tested"
    before = state(session)
    assert before[0]
    answer = session.ask(WRONG, analyst="poor")
    assert (answer.origin, answer.certified, answer.price) == ("hypothesis", False, 0)
    assert state(session) == before
    assert session.spent_by("poor") == 0
    assert session.ask(WRONG, analyst="rich").origin == "measured", "the guess was not taken for a verdict"
    assert session.answering.epochs is not None
    assert session.answering.epochs.opened == 1
    assert session.ask(WRONG, analyst="poor").certified, "what others learned is free"


def test_a_strict_session_refuses_who_cannot_pay(engine: str) -> None:
    session = opened(engine, strict=True)
    session.set_cap("poor", 0)
    session.ask(SURE, analyst="rich")
    before = state(session)
    with pytest.raises(BudgetError, match="analyst's cap has 0 left"):
        session.ask(WRONG, analyst="poor")
    assert state(session) == before


def test_a_cap_that_pays_the_epoch_alone_buys_nothing(engine: str) -> None:
    session = opened(engine)
    epoch, measurement = prices(session)
    session.set_cap("thrifty", epoch + 0.9 * measurement)
    assert session.ask(WRONG, analyst="thrifty").origin == "hypothesis"
    assert state(session) == (False, 0, 0, 0.0)
    session.set_cap("thrifty", epoch + measurement + 1e-8)
    assert session.ask(WRONG, analyst="thrifty").origin == "measured"
    assert session.spent_by("thrifty") == pytest.approx(epoch + measurement)


def test_who_cannot_pay_is_answered_without_a_look_at_the_rows(engine: str) -> None:
    session = opened(engine, table=forbidden(rows()))
    session.set_cap("poor", 0)
    assert session.ask(WRONG, analyst="poor").origin == "hypothesis"
    assert session.ask(SURE, analyst="poor").origin == "hypothesis"


@pytest.mark.parametrize("names", [{"key": "k" * 300}, {"analyst": "a" * 300}, {"analyst": ""}])
def test_names_that_cannot_be_charged_are_refused_before_the_test(engine: str, names: dict[str, str]) -> None:
    session = opened(engine)
    session.ask(SURE)
    before = state(session)
    with pytest.raises(EntryError):
        session.ask(WRONG, **names)
    assert state(session) == before


# ---- an answer states all it cost


def test_prices_add_up_to_what_was_spent(engine: str) -> None:
    session = opened(engine)
    asked = [SURE, WRONG, rt.marginal("skew"), SURE, ALSO, rt.marginal("also", "skew")]
    answers = [session.ask(query, analyst=name) for query in asked for name in ("ann", "bob")]
    answers += [session.ask(Groups(["skew"], rt.col("even") == 1), analyst="bob")]
    assert session.answering.epochs is not None
    assert session.answering.epochs.opened > 1
    assert sum(answer.price for answer in answers) == pytest.approx(session.spent, rel=1e-12)
    assert sum(answer.price for answer in answers[:-1:2]) == pytest.approx(session.spent_by("ann"), rel=1e-12)


def test_the_answer_that_opened_an_epoch_pays_for_it(engine: str) -> None:
    session = opened(engine)
    epoch, measurement = prices(session)
    first = session.ask(SURE)
    assert (first.origin, first.price) == ("tested", epoch)
    assert session.ask(SURE).price == 0, "asked again it is free"
    assert session.ask(rt.count(rt.col("even") == 1)).price == 0, "the epoch was open"
    assert session.ask(WRONG).price == pytest.approx(measurement)
    assert session.ask(ALSO).price == pytest.approx(epoch + measurement)


def test_a_key_repeats_its_bytes_and_its_price(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "keyed.ledger"
    asked = {"sure": SURE, "wrong": WRONG, "both": rt.marginal("skew", "also")}
    with opened(engine, path) as session:
        told = {key: session.ask(query, key=key).to_dict() for key, query in asked.items()}
        assert [answer["origin"] for answer in told.values()] == ["tested", "measured", "measured"]
        assert sum(answer["price"] for answer in told.values()) == pytest.approx(session.spent)
        session.ask(rt.marginal("even"))
        spent = session.spent
        assert {key: session.ask(query, key=key).to_dict() for key, query in asked.items()} == told
        with pytest.raises(KeyReusedError):
            session.ask(rt.count(rt.col("even") == 1), key="sure")
    with opened(engine, path, table=forbidden(rows())) as session:
        assert [session.cost(query, error=0.49, key=key) for key, query in asked.items()] == [0, 0, 0]
        assert {key: session.ask(query, key=key).to_dict() for key, query in asked.items()} == told
        assert session.spent == spent


class Died(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("step", [(Curator, "exceeds"), (Noise, "release")], ids=["testing", "measuring"])
def test_what_a_crash_cost_is_in_the_price_of_the_key_that_comes_back(
    engine: str, step: tuple[type, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Died

    path = tmp_path / "died.ledger"
    with opened(engine, path) as session, monkeypatch.context() as dying:
        epoch, measurement = prices(session)
        dying.setattr(*step, die)
        with pytest.raises(Died):
            session.ask(WRONG, key="k")
        charged = epoch if step[0] is Curator else epoch + measurement
        assert session.spent == pytest.approx(charged)
    with opened(engine, path) as session:
        answer = session.ask(WRONG, key="k")
        assert answer.origin == "measured"
        # A measurement that was paid is redeemed; an epoch that was open is spent, and another one is paid.
        assert session.spent == pytest.approx(2 * epoch + measurement if step[0] is Curator else epoch + measurement)
        assert answer.price == pytest.approx(session.spent)
    with opened(engine, path, table=forbidden(rows())) as session:
        assert session.ask(WRONG, key="k").to_dict() == answer.to_dict()


def test_rows_of_persons_are_planned_for_what_one_person_moves(engine: str) -> None:
    """Up to three rows of a person count: bounds hold for that, and all planned epochs are paid by the budget."""
    generator, people, most = np.random.default_rng(3), 20_000, 3
    who = np.repeat(np.arange(people), most)
    values = np.minimum(generator.geometric(0.6, people * most) - 1, 3)
    domain, budget = Domain({"x": 4}), rt.Budget(rho=20)
    table = rt.Table.of(pa.table({"who": who, "x": values}), domain, person="who", rows="bounded", most=most)
    session = Session.open(None, table, budget, engine=engine, queries=100, confidence=1 - 1e-6)
    left, plan = session.state.ledger.remaining, session.answering.epochs.plan
    price = plan.mechanism.price() + session.state.curator.price([rt.count(rt.col("x") == 0)], plan.measurement)
    assert 0.9 * left <= plan.epochs * budget.cost(price) <= left + plan.epochs
    one = Session.open(None, of_codes(domain, {"x": values[: people * most]}), budget, engine=engine, queries=100)
    assert plan.error > one.answering.epochs.plan.error
    for codes in ([0], [1], [0, 2], [1, 3], [3]):
        answer = session.ask(rt.count(rt.col("x").isin(codes)))
        assert answer.certified
        assert abs(answer.value - np.isin(values, codes).mean()) <= answer.error


def test_a_resumed_threshold_engine_keeps_the_confidence_it_was_planned_for(tmp_path: Path) -> None:
    """The stated confidence was that of the last opening, the constants those of the first."""
    held, budget = uniform(200_000), rt.Budget(epsilon=2.0, delta=1e-9)
    for confidence in (0.5, 0.99999):
        path = tmp_path / "ledger"
        with Session.open(path, held, budget, engine="tuned", queries=50, confidence=confidence) as session:
            assert session.ask(rt.count(rt.col("a") <= 1)).confidence == 0.5


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.9999])
def test_tested_groups_hold_no_surer_than_the_engine(confidence: float) -> None:
    """Each group was tested with the engine's own failure probability; the whole was said to hold as asked."""
    codes = {name: np.arange(300_000) % DOMAIN[name].size for name in DOMAIN.names}
    table = of_codes(DOMAIN, codes)
    with Session.open(None, table, rt.Budget(rho=2), engine="tuned", queries=50, confidence=0.9) as session:
        answer = session.ask(Groups(["b"], rt.col("a") >= 1), confidence=confidence)
    assert answer.certified
    assert answer.confidence == pytest.approx(min(confidence, 0.9))
