"""Audits that losses order for themselves, the start bought for them, and an announced number of losses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from tests.faults.payments import LOSSES, ROWS, content, price
from tests.session_tables import of_codes

import reticent as rt
from reticent.errors import KeyReusedError
from reticent.kernel.accounting import NANO
from reticent.kernel.table import Table
from reticent.knowledge.paid_models import ExcessReading
from reticent.knowledge.tails import SESSION_WIDE, audit_share
from reticent.releases.adaptive import Adaptive
from reticent.sessions.loss_audits import LEAST_SHARE
from reticent.sessions.session import Session

DOMAIN = rt.Domain({"a": 4, "b": 3, "c": 3, "y": 2})
BUDGET, POOR = rt.Budget(rho=0.5), rt.Budget(rho=0.03)
LOSS = rt.Logistic(features=["a", "b"], label="y", radius=2)
OTHER = rt.Logistic(features=["a", "c"], label="y", radius=2)


@pytest.fixture(scope="module")
def rows() -> Table:
    generator = np.random.default_rng(4)
    codes = {name: generator.integers(0, size, 20_000) for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)}
    codes["y"] = (generator.random(20_000) < 0.1 + 0.25 * codes["a"]).astype(int)
    return of_codes(DOMAIN, codes)


def test_shares_of_all_audits_of_a_loss_add_up_to_what_a_purchase_has() -> None:
    assert sum(audit_share(attempt) for attempt in range(1, 60)) == pytest.approx(float(1 - SESSION_WIDE))
    assert audit_share(1) > audit_share(2) == 2 * audit_share(3)


def test_the_hundredth_loss_pays_no_more_than_the_first(rows: Table) -> None:
    """Audits of different losses share no failure probability."""
    with Session.open(None, rows, BUDGET, warm_start=0.5) as session:
        first = session.cost(LOSS, error=0.05)
        for _ in range(6):
            session.certify("cells", order=1, amount=1e-5)
        assert session.cost(LOSS, error=0.05) == pytest.approx(first, rel=0.01)


def test_a_session_without_a_start_buys_one_for_its_first_loss_and_knows_it_again(rows: Table, tmp_path: Path) -> None:
    with Session.open(tmp_path / "a.ledger", rows, POOR, warm_start=0) as session:
        price = session.cost(LOSS, error=0.05, key="k")
        model = session.minimize(LOSS, error=0.05, key="k")
        assert model.price == pytest.approx(session.spent)
        assert session.spent <= price + 1e-12
        spent, marginals = session.spent, len(session.state.knowledge.marginals)
        assert marginals >= 3
        assert session.describe()["investments"]["invested"] > 0
        assert session.minimize(LOSS, error=0.05, key="k").price == pytest.approx(model.price)
        assert session.spent == spent
    with Session.open(tmp_path / "a.ledger", rows, POOR, warm_start=0) as session:
        again = session.minimize(LOSS, error=0.05)
        assert (again.theta.tobytes(), session.spent) == (model.theta.tobytes(), spent)
        assert len(session.state.knowledge.marginals) == marginals
        session.minimize(OTHER, error=0.05)
        keys = [event.key for event in session.state.ledger.events() if event.kind == "reserve"]
        assert len({key for key in keys if str(key).startswith("session:warm:late")}) == sum(
            str(key).startswith("session:warm:late") for key in keys
        ), "there is one late start"


def test_a_request_with_a_late_start_never_costs_more_than_it_was_quoted(
    rows: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audits are of other models after the start than before it, at another price; here all of them fail."""
    monkeypatch.setattr(ExcessReading, "high", lambda *_: 9.0)
    monkeypatch.setattr(ExcessReading, "estimate", 0.0)
    for error in (0.03, 0.05, 0.1):
        with Session.open(None, rows, POOR, warm_start=0) as session:
            quoted = session.cost(LOSS, error=error)
            session.minimize(LOSS, error=error)
            assert session.describe()["investments"]["invested"] > 0
            assert 0 < session.spent <= quoted + 1e-12


def test_a_key_that_missed_its_error_after_a_late_start_buys_nothing_more(
    rows: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, the same key had all of its limit once more."""
    monkeypatch.setattr(ExcessReading, "high", lambda *_: 9.0)
    monkeypatch.setattr(ExcessReading, "estimate", 0.0)
    with Session.open(None, rows, POOR, warm_start=0) as session:
        first = session.minimize(LOSS, error=0.05, key="k")
        spent = session.spent
        again = session.minimize(LOSS, error=0.05, key="k")
        assert session.spent == spent
        assert again.price == pytest.approx(first.price) == pytest.approx(spent)


def test_a_late_start_is_charged_to_whoever_asked_and_stays_within_the_cap(rows: Table) -> None:
    with Session.open(None, rows, POOR, warm_start=0) as session:
        session.minimize(LOSS, error=0.05, analyst="ann")
        assert session.describe()["investments"]["invested"] > 0
        assert session.spent_by("ann") == pytest.approx(session.spent)
    with Session.open(None, rows, POOR, warm_start=0) as session:
        session.set_cap("bob", float(LEAST_SHARE) * 0.03 / 2)
        session.minimize(LOSS, error=0.05, analyst="bob")
        assert session.spent == pytest.approx(session.spent_by("bob"))
        assert session.spent <= float(LEAST_SHARE) * 0.03 / 2
        assert session.describe()["investments"]["invested"] == 0


def test_what_an_unfinished_late_start_has_measured_is_known(
    rows: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Adaptive.run

    def spent_by_others(self: Adaptive, *arguments: Any, **options: Any) -> NoReturn:
        honest(self, *arguments, **options)
        raise rt.BudgetError("others have spent the rest", requested=1, remaining=0)

    monkeypatch.setattr(Adaptive, "run", spent_by_others)
    with Session.open(tmp_path / "a.ledger", rows, POOR, warm_start=0) as session:
        session.minimize(LOSS, error=0.05)
        measured = {marginal.attributes for marginal in session.state.knowledge.marginals}
        assert len(measured) >= 3
        assert not session.state.knowledge.current.uniform("a"), "what was paid for is learned"
    monkeypatch.undo()
    with Session.open(tmp_path / "a.ledger", rows, POOR, warm_start=0) as session:
        assert {marginal.attributes for marginal in session.state.knowledge.marginals} == measured


def test_a_failed_audit_is_tried_again_where_its_reading_is_good(
    rows: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = ExcessReading.high
    monkeypatch.setattr(
        ExcessReading, "high", lambda reading, level: 9.0 if reading.attempt == 1 else honest(reading, level)
    )
    monkeypatch.setattr(ExcessReading, "estimate", 0.0)
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0.5) as session:
        before = session.spent
        price = session.cost(LOSS, error=0.02, key="k")
        model = session.minimize(LOSS, error=0.02, key="k")
        audits = [e for e in session.state.ledger.events() if e.kind == "reserve" and "own audit" in str(e.key)]
        assert len(audits) >= 2
        assert model.certified
        assert model.price == pytest.approx(session.spent - before)
        assert session.spent - before <= price + 1e-12
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0.5) as session:
        spent = session.spent
        again = session.minimize(LOSS, error=0.02, key="other")
        assert again.certified
        assert (again.theta.tobytes(), session.spent) == (model.theta.tobytes(), spent)


def test_of_an_announced_number_none_costs_more_than_its_part(rows: Table) -> None:
    budget = rt.Budget(rho=0.002)
    losses = [rt.Logistic(features=[name], label="y", radius=2) for name in ("a", "b", "c")]
    losses += [LOSS, OTHER, rt.Logistic(features=["b", "c"], label="y", radius=2)]
    with Session.open(None, rows, budget, losses=losses, queries=50, error=0.05) as session:
        told = session.state.journal.settings() or {}
        assert told["losses"] == 50
        assert 0.025 <= told["share"] <= 0.5
        for asked, loss in enumerate(losses):
            left, before = budget.amount(session.state.ledger.remaining), session.spent
            session.minimize(loss, error=0.05)
            assert session.spent - before <= left / (50 - asked) + 1e-9


def test_losses_are_announced_to_engines_that_answer_them(rows: Table) -> None:
    with pytest.raises(rt.QueryError, match="losses= has no effect"):
        Session.open(None, rows, BUDGET, engine="tuned", losses=[LOSS])


@dataclass(frozen=True)
class Outcome:
    """What audits say, attempt by attempt: `p`asses, `n`ear (the reading is good, but noisy) or `f`ar off."""

    letters: str

    def letter(self, reading: ExcessReading) -> str:
        return self.letters[min(reading.attempt, len(self.letters)) - 1]

    def force(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ExcessReading, "high", lambda reading, _: 0.0 if self.letter(reading) == "p" else 9.0)
        monkeypatch.setattr(
            ExcessReading, "estimate", property(lambda reading: 9.0 if self.letter(reading) == "f" else 0.0)
        )


def assert_a_key_pays_once(session: Session, asked: Any, error: float, analyst: str | None = None) -> int:
    """Nano-units charged: at most what was quoted, stated whole, and nothing more when the key comes back."""
    ledger, terms = session.state.ledger, {"error": error, "key": "k", "analyst": analyst}
    quoted, before = round(session.cost(asked, **terms) * NANO), ledger.spent
    first = session.minimize(asked, **terms)
    paid = ledger.spent - before
    assert paid <= quoted
    assert round(price(first) * NANO) == paid
    if paid:
        assert session.cost(asked, **terms) == 0, "what a key has paid is not charged again"
        again = session.minimize(asked, **terms)
        assert (content(again), price(again)) == (content(first), price(first))
        assert ledger.spent - before == paid
    return paid


@pytest.mark.parametrize("letters", ["np", "nf"])
@pytest.mark.parametrize("asked", [LOSSES[1], LOSSES], ids=["loss", "list"])
def test_a_key_whose_audits_are_settled_is_quoted_nothing(
    asked: Any, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first audit was looked at: one that passed at the second attempt was quoted a third and minimisers."""
    Outcome(letters).force(monkeypatch)
    with Session.open(None, ROWS, rt.Budget(rho=2), warm_start=0) as session:
        assert assert_a_key_pays_once(session, asked, 0.1) > 0


@pytest.mark.parametrize("letters", ["nnn", "f"])
@pytest.mark.parametrize("cap", [1e-6, 5e-6])
def test_a_key_that_missed_its_error_for_want_of_budget_is_quoted_nothing(
    letters: str, cap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where audits end early, more is left for minimisers than after all of them: that was not in the price."""
    Outcome(letters).force(monkeypatch)
    with Session.open(None, ROWS, rt.Budget(rho=2), warm_start=0) as session:
        session.set_cap("ann", cap)
        paid = assert_a_key_pays_once(session, LOSSES[:2], 0.1, "ann")
        assert 0 < paid <= cap * NANO


@pytest.mark.parametrize(("asked", "rho"), [(LOSSES[0], 2e-5), (LOSSES[:2], 5e-6)], ids=["loss", "list"])
def test_a_key_among_an_announced_number_has_one_part(asked: Any, rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again, the same key had another part of what was left, and paid for another audit."""
    Outcome("np").force(monkeypatch)
    with Session.open(None, ROWS, rt.Budget(rho=rho), losses=LOSSES, queries=10, error=0.1) as session:
        assert assert_a_key_pays_once(session, asked, 0.1) > 0


def test_a_key_that_fell_short_stays_so_after_a_restart_and_whatever_others_buy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Outcome("f").force(monkeypatch)
    terms: dict[str, Any] = {"error": 0.1, "key": "k", "analyst": "ann"}
    with Session.open(tmp_path / "a.ledger", ROWS, rt.Budget(rho=2), warm_start=0) as session:
        session.set_cap("ann", 5e-7)
        first, spent = session.minimize(LOSSES[1], **terms), session.spent
        assert 0 < first.price == pytest.approx(spent)
        assert first.wanted == 0.1
    with Session.open(tmp_path / "a.ledger", ROWS, rt.Budget(rho=2), warm_start=0) as session:
        assert session.minimize(LOSSES[1], error=0.1, analyst="bob").certified
        session.set_cap("ann", 1.0)
        spent = session.spent
        assert session.cost(LOSSES[1], **terms) == 0
        again = session.minimize(LOSSES[1], **terms)
        assert again.to_dict() == first.to_dict()
        strict = session.request(LOSSES[1], 0.1, key="k", analyst="ann").but(strict=True)
        with pytest.raises(rt.QueryError, match="use a new key"):
            session.carry_out(session.quote(strict))
        with pytest.raises(KeyReusedError):
            session.cost(LOSSES[0], **terms)
        assert session.spent == spent
