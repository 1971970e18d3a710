"""A session answers from what it knows, pays for what it does not, and says which of the two it did."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.session_tables import DOMAIN, codes, forbidden, inside, of_codes, random_boxes, table

import reticent as rt
from reticent.errors import BudgetError, LedgerError, QueryError, ReticentError
from reticent.kernel.ledger.verify import verify
from reticent.kernel.mechanisms.base import Sensitivity, restore
from reticent.knowledge.answer import ORIGINS, Answer
from reticent.knowledge.tails import PLAIN_RULE, PLAIN_WIDE, noise_within, reach
from reticent.planning.plan import Setting, plain_answers
from reticent.queries.linear import Range
from reticent.sessions.session import Session

BUDGET = rt.Budget(epsilon=1, delta=1e-9)
QUESTION = rt.count((rt.col("a") >= 1) & (rt.col("e") == 1))
WIDE = rt.count((rt.col("a") == 0) & (rt.col("b") == 1) & (rt.col("c") >= 1) & (rt.col("e") == 0))
WIDE_BOX = {"a": (0, 0), "b": (1, 1), "c": (1, 4), "e": (0, 0)}
EITHER = rt.count((rt.col("a") == 0) | (rt.col("b") == 1) | (rt.col("c") >= 1) | (rt.col("e") == 0))
FALSE_ALARM = 1e-6
"""Chance that a right engine fails a check."""
SURE = 1 - FALSE_ALARM
"""Tests that look at every answer ask for bounds that fail this rarely; at 0.95 a right engine would fail some runs."""


@pytest.fixture(scope="module")
def warm() -> Session:
    return Session.open(None, table(), BUDGET, confidence=SURE)


@pytest.fixture
def plain() -> Session:
    return Session.open(None, table(), BUDGET, warm_start=0, confidence=SURE)


def test_boxes_on_three_attributes_are_free_and_within_their_certificate(warm: Session) -> None:
    columns, spent = codes(), warm.spent
    for box in random_boxes(DOMAIN, 300, np.random.default_rng(0)):
        answer = warm.ask(Range(box))
        assert answer.certified
        assert answer.price == 0
        assert abs(answer.value - inside(columns, box)) <= answer.error
    assert warm.spent == spent


def test_a_condition_wider_than_every_certificate_is_bounded_by_its_wholes(plain: Session) -> None:
    assert not plain.ask(WIDE).certified
    plain.certify("boxes", order=3)
    answer = plain.ask(WIDE)
    assert (answer.origin, answer.certified) == ("derived", True)
    wholes = [{name: ends for name, ends in WIDE_BOX.items() if name != left} for left in WIDE_BOX]
    assert answer.interval[1] == pytest.approx(min(plain.ask(Range(whole)).interval[1] for whole in wholes))
    assert answer.interval[0] <= inside(codes(), WIDE_BOX) <= answer.interval[1]


def test_a_question_wider_than_every_certificate_says_so(plain: Session) -> None:
    plain.certify("boxes", order=3)
    answer = plain.ask(EITHER)
    assert (answer.origin, answer.certified, answer.error, answer.confidence) == ("hypothesis", False, None, None)
    assert "no certificate" in ORIGINS[answer.origin]


def test_the_ladder_pays_only_once_and_only_when_it_must(plain: Session) -> None:
    announced = plain.cost(QUESTION, error=0.01)
    first = plain.ask(QUESTION, error=0.01)
    assert first.origin == "measured"
    assert first.price == pytest.approx(announced)
    assert first.error <= 0.01
    again = plain.ask(QUESTION, error=0.01)
    assert (again.origin, again.price, again.value) == ("cache", 0, first.value)
    assert plain.cost(QUESTION, error=0.01) == 0
    assert plain.ask(QUESTION, error=0.002).origin == "measured"
    assert plain.spent == pytest.approx(announced + plain.ask(QUESTION, error=0.002).price + plain.spent - announced)


def test_two_wordings_are_one_question(plain: Session) -> None:
    plain.ask(rt.count(rt.col("c") >= 2), error=0.01)
    assert plain.ask(rt.count(rt.col("c") > 1), error=0.01).origin == "cache"


def test_a_cell_and_a_group_by_buy_their_marginal_and_its_sums_are_free(plain: Session) -> None:
    # The rule of investments allows the whole marginal at this error.
    cell = rt.count((rt.col("a") == 1) & (rt.col("b") == 2))
    assert plain.ask(cell, error=0.02).origin == "measured"
    spent = plain.spent
    whole = plain.ask(rt.marginal("b", "a"), error=0.02)
    assert whole.origin == "cache"
    assert np.shape(whole.value) == (3, 4)
    assert whole.labels[0][0] == "b"
    derived = plain.ask(rt.count(rt.col("a") <= 1))
    assert derived.origin == "derived"
    assert plain.spent == spent
    # parts and totals agree: the cells sum to the derived answer, and all of them to one
    assert derived.value == pytest.approx(np.asarray(whole.value)[:, :2].sum())
    assert np.sum(whole.value) == pytest.approx(1)


def test_measured_answers_miss_no_more_often_than_they_say() -> None:
    """Fresh measurements only: a repeated question repeats its miss, so repeats are no independent trials."""
    columns, missed, measured = codes(), 0, 0
    for _ in range(3):
        session = Session.open(None, table(), rt.Budget(rho=50), warm_start=0)
        for box in random_boxes(DOMAIN, 400, np.random.default_rng(3)):
            answer = session.ask(Range(box), error=0.01)
            if answer.origin == "measured":
                measured += 1
                missed += abs(answer.value - inside(columns, box)) > answer.error + 1e-9
    assert measured > 400
    assert stats.binom.sf(missed - 1, measured, 0.05) > FALSE_ALARM


def test_an_adaptive_analyst_cannot_break_the_bound_of_derived_sums() -> None:
    columns = codes()
    for _ in range(5):
        session = Session.open(None, table(), BUDGET, warm_start=0, confidence=SURE)
        cells = np.asarray(session.ask(rt.marginal("a", "b", "c"), error=0.02).value)
        exact = np.zeros((4, 3, 5))
        np.add.at(exact, (columns["a"], columns["b"], columns["c"]), 1 / len(columns["a"]))
        high = rt.count(_any_of(cells > exact))  # the worst choice there is: all cells whose noise went up
        answer = session.ask(high)
        assert answer.origin == "derived"
        assert abs(answer.value - exact[cells > exact].sum()) <= answer.error


def _any_of(mask: np.ndarray) -> Any:
    parts = [(rt.col("a") == i) & (rt.col("b") == j) & (rt.col("c") == k) for i, j, k in np.argwhere(mask).tolist()]
    found = parts[0]
    for part in parts[1:]:
        found = found | part
    return found


def test_pure_budgets_use_laplace_and_keep_their_bounds() -> None:
    columns = codes()
    session = Session.open(None, table(), rt.Budget(epsilon=1), warm_start=0, confidence=SURE)
    assert session.ask(QUESTION, error=0.01).origin == "measured"
    session.ask(rt.marginal("a", "b"), error=0.01)
    derived = session.ask(rt.count(rt.col("b") >= 1))
    assert derived.origin == "derived"
    assert abs(derived.value - float(np.mean(columns["b"] >= 1))) <= derived.error


def test_add_remove_pays_for_the_number_of_records() -> None:
    # The noisy number of records is itself bounded only to 5.8e-7: a higher confidence cannot be certified here.
    session = Session.open(None, table(neighbours="add-remove"), BUDGET, confidence=1 - 1e-6)
    assert session.spent > 0
    answer = session.ask(rt.count(rt.col("a") >= 1))
    assert answer.certified
    assert abs(answer.value - float(np.mean(codes()["a"] >= 1))) <= answer.error
    assert abs(answer.count - 20_000 * answer.value) < 2_000


def test_a_batch_that_passes_its_audit_is_cheaper_than_its_questions() -> None:
    session = Session.open(None, table(weight=1000), BUDGET, warm_start=0, confidence=SURE)
    for known in (rt.marginal("a", "b", "e"), rt.marginal("c")):
        session.ask(known, error=0.002)
    session.refit()
    columns = codes()
    boxes = random_boxes(DOMAIN, 200, np.random.default_rng(5), widest=4)
    wide = [box for box in boxes if len(box) == 4]
    singly = sum(session.cost(Range(box), error=0.05) for box in wide)
    spent = session.spent
    answers = session.ask_all([Range(box) for box in wide], error=0.05)
    assert {answer.origin for answer in answers} <= {"batch", "derived"}
    assert "batch" in {answer.origin for answer in answers}
    assert session.spent - spent < singly / 2
    for box, answer in zip(wide, answers, strict=True):
        assert answer.error is not None
        assert abs(float(answer) - inside(columns, box)) <= answer.error <= 0.05
    before = session.spent
    assert session.ask(Range(wide[0]), error=0.05).origin in ("batch", "derived")
    assert session.spent == before


def test_a_batch_that_fails_its_audit_is_asked_singly() -> None:
    session = Session.open(None, table(weight=1000), BUDGET, warm_start=0)
    boxes = [Range({"a": (0, i), "b": (0, j), "c": (0, k)}) for i in range(3) for j in range(2) for k in range(4)]
    answers = session.ask_all(boxes, error=0.01)  # uniform errs by far more than that
    assert {answer.origin for answer in answers} == {"measured"}
    assert all(answer.certified for answer in answers)


def test_strict_refuses_what_it_cannot_certify() -> None:
    lax, strict = (Session.open(None, table(), rt.Budget(rho=1e-6), warm_start=0, strict=s) for s in (False, True))
    assert lax.ask(QUESTION, error=0.001).origin == "hypothesis"
    with pytest.raises(BudgetError) as refused:
        strict.ask(QUESTION, error=0.001)
    assert refused.value.requested > refused.value.remaining
    with pytest.raises(QueryError, match="no certificate"):
        strict.ask(QUESTION)


def test_wrong_words_are_refused_in_one_line(plain: Session) -> None:
    for call in (
        lambda: plain.ask(QUESTION, error=0),
        lambda: plain.ask(QUESTION, error=0.01, confidence=1.5),
        lambda: plain.ask(rt.count(rt.col("nowhere") == 1)),
        lambda: plain.certify("boxes", order=9),
        lambda: Session.open(None, table(), BUDGET, warm_start=0.99),
        lambda: Session.open(None, table(), BUDGET, engine="magic"),
        lambda: Session.open(None, table(), BUDGET, engine="tuned", queries=0),
        lambda: Session.open(None, table(), BUDGET, queries=2.5),  # type: ignore[arg-type]
        lambda: Session.open(None, table(), BUDGET, start=3),  # type: ignore[arg-type]
        lambda: Session.open(None, table(), BUDGET, workload="marginals:2"),  # type: ignore[arg-type]
        lambda: plain.certify("boxes", order=1.5),  # type: ignore[arg-type]
        lambda: plain.ask_all(QUESTION, error=0.1),  # type: ignore[arg-type]
    ):
        with pytest.raises(QueryError) as refused:
            call()
        assert "\n" not in str(refused.value)


def test_a_bare_condition_is_to_be_counted(plain: Session) -> None:
    condition: Any = rt.col("a") == 1
    for call in (
        lambda: plain.ask(condition),
        lambda: plain.cost(condition, error=0.1),
        lambda: plain.ask_all([condition], error=0.1),
    ):
        with pytest.raises(QueryError, match=r"wrap it: rt.count\(...\)"):
            call()


def test_whole_numbers_of_numpy_open_a_session() -> None:
    two: Any = np.int64(200)
    with Session.open(None, table(), BUDGET, engine="tuned", queries=two, support=two) as session:
        assert session.spent == 0


def test_audits_refit_first_and_their_certificates_hold() -> None:
    session = Session.open(None, table(), BUDGET, warm_start=0.3, confidence=SURE)
    before = session.certificates
    session.ask(rt.marginal("a", "b", "c", "e"), error=0.01)
    certificate = session.certify("boxes", order=4)
    assert certificate.index == 2
    assert session.certificates == (*before, certificate)
    columns = codes()
    assert session.ask(WIDE).certified
    for box in random_boxes(DOMAIN, 200, np.random.default_rng(4), widest=4):
        answer = session.ask(Range(box))
        assert answer.certified
        assert abs(answer.value - inside(columns, box)) <= answer.error
    assert not session.refit()


def test_ratios_and_conditional_groups_hold_together(plain: Session) -> None:
    columns = codes()
    answer = plain.ask(rt.mean("c", where=rt.col("a") == 0), error=0.2)
    assert abs(answer.value - columns["c"][columns["a"] == 0].mean()) <= answer.error <= 0.21
    assert answer.price > 0
    rows = plain.ask("SELECT b, COUNT(*) AS n FROM census WHERE a = 0 GROUP BY b", error="2%")
    assert len(list(rows)) >= 3


def test_a_statement_that_the_budget_cannot_pay_says_so(plain: Session) -> None:
    text = "SELECT b, COUNT(*) AS n FROM census GROUP BY b"
    assert plain.ask(text, error="5%").note == ""
    spent = plain.spent
    poor = plain.ask(text, error=4)
    assert "±4 was not reached" in poor.note
    assert plain.spent == spent


@pytest.mark.parametrize(
    ("question", "arguments"),
    [
        (None, {}),
        (QUESTION, {"error": "small"}),
        ("SELECT COUNT(*) FROM census", {"error": "small"}),
        (QUESTION, {"error": 0.01, "analyst": 5}),
    ],
    ids=["question", "error", "error of SQL", "analyst"],
)
def test_arguments_of_another_kind_are_refused_and_nothing_is_spent(
    plain: Session, question: Any, arguments: dict[str, Any]
) -> None:
    spent = plain.spent
    with pytest.raises(ReticentError):
        plain.ask(question, **arguments)
    with pytest.raises(QueryError):
        plain.set_cap("ana", "x")  # pyright: ignore[reportArgumentType]
    assert plain.spent == spent


# ---- durability


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        rt.mean("c", where=rt.col("a") == 0),
        "SELECT AVG(c), COUNT(*) FROM census WHERE a = 0",
        "SELECT b, COUNT(*) AS n FROM census WHERE a = 0 GROUP BY b",
    ],
    ids=["count", "mean", "statement", "groups"],
)
def test_what_an_interrupted_key_has_paid_is_not_in_its_cost_again(
    plain: Session, question: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, error = plain.state.ledger, "5%"

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("cut short")

    announced = plain.cost(question, error=error, key="kept")
    monkeypatch.setattr("reticent.kernel.curator.pack_array", fails)
    with pytest.raises(OSError, match="cut"):
        plain.ask(question, error=error, key="kept")
    monkeypatch.undo()
    paid = plain.budget.amount(ledger.charged("ask:kept"))
    left = plain.cost(question, error=error, key="kept")
    assert 0 < paid <= plain.spent
    assert paid + left == pytest.approx(announced, abs=1e-8)
    plain.ask(question, error=error, key="kept")
    assert plain.budget.amount(ledger.charged("ask:kept")) <= announced + 1e-8
    assert ledger.charged("ask:kep") == 0, "a key is not a part of its prefix"


def test_everything_known_comes_back_without_touching_a_row(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.ledger", table()
    with Session.open(path, rows, BUDGET, warm_start=0.3) as session:
        session.ask(QUESTION, error=0.004, key="mine")
        session.ask(rt.marginal("a", "c"), error=0.01)
        session.ask_all([Range({"a": (0, 1), "b": (0, 1), "c": (0, k), "e": (0, 0)}) for k in range(4)], error=0.05)
        questions = [Range(box) for box in random_boxes(DOMAIN, 50, np.random.default_rng(6), widest=4)]
        asked = [session.ask(question).to_dict() for question in [*questions, QUESTION, rt.marginal("a", "c")]]
        keyed = session.ask(QUESTION, error=0.004, key="mine").to_dict()
        release, spent = session.release(), session.spent
    with Session.open(path, forbidden(rows), BUDGET, warm_start=0.3) as session:
        assert session.spent == spent
        again = [session.ask(question).to_dict() for question in [*questions, QUESTION, rt.marginal("a", "c")]]
        assert json.dumps(again) == json.dumps(asked)
        assert session.ask(QUESTION, error=0.004, key="mine").to_dict() == keyed
        assert session.release().hypothesis.to_bytes() == release.hypothesis.to_bytes()
    verify(path)


def test_a_refit_is_stored_and_not_repeated(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.ledger", table()
    with Session.open(path, rows, BUDGET, warm_start=0) as session:
        session.ask(rt.marginal("a", "b", "c"), error=0.02)
        session.ask(WIDE, error=0.01)
        assert session.refit()
        session.ask(rt.count(rt.col("c") == 4), error=0.01)
        current = session.state.knowledge.current.digest
    with Session.open(path, forbidden(rows), BUDGET, warm_start=0) as session:
        assert session.state.knowledge.current.digest == current


def test_one_key_is_one_question(tmp_path: Path) -> None:
    with Session.open(tmp_path / "a.ledger", table(), BUDGET, warm_start=0) as session:
        first = session.ask(QUESTION, error=0.01, key="k")
        assert session.ask(QUESTION, error=0.01, key="k").to_dict() == first.to_dict()
        with pytest.raises(LedgerError, match="another request"):
            session.ask(QUESTION, error=0.02, key="k")


def test_caps_bound_each_analyst_and_the_budget_bounds_all(tmp_path: Path) -> None:
    with Session.open(tmp_path / "a.ledger", table(), BUDGET, warm_start=0, strict=True) as session:
        price = session.cost(QUESTION, error=0.01)
        session.set_cap("ann", 1.5 * price)
        session.ask(QUESTION, error=0.01, analyst="ann")
        with pytest.raises(BudgetError, match="cap"):
            session.ask(rt.count(rt.col("b") >= 1), error=0.01, analyst="ann")
        session.ask(rt.count(rt.col("b") >= 1), error=0.01, analyst="bob")
        assert session.spent_by("ann") == pytest.approx(price)
        assert session.spent == pytest.approx(session.spent_by("ann") + session.spent_by("bob"))


def test_threads_share_one_session(tmp_path: Path) -> None:
    answers: dict[int, list[Answer]] = {}
    with Session.open(tmp_path / "a.ledger", table(), BUDGET, warm_start=0) as session:

        def work(worker: int) -> None:
            answers[worker] = [session.ask(rt.count(rt.col("c") >= k), error=0.02) for k in range(1, 5)]

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 6
        # one purchase per question, whoever came first
        assert sum(answer.price > 0 for found in answers.values() for answer in found) == 4
        for k in range(4):
            assert len({float(answers[worker][k]) for worker in range(6)}) == 1
        session.state.ledger.verify()


def test_a_release_starts_a_session_and_a_session_ends_in_one(tmp_path: Path) -> None:
    rows = table()
    release = rt.release(rows, rt.marginals(DOMAIN, 2), rt.Budget(rho=0.01))
    path = tmp_path / "a.ledger"
    with Session.open(path, rows, BUDGET, start=release) as session:
        assert session.spent == 0
        cell = rt.count((rt.col("a") == 1) & (rt.col("e") == 0))
        # The same reading, with the smaller share of the failure that a statement about all questions has in a session:
        # it reaches 3.4 standard deviations of its noise there, and 1.9 or more in the release.
        sd = restore(release.certificates[0].noise).sd / release.records
        assert session.ask(cell).error - release.answer(cell).error <= 1.5 * sd
        assert session.certify("boxes", order=3).index == 1 + max(c.index for c in release.certificates)
        known = session.ask(cell).to_dict()
        ended = session.release()
        assert len(ended.measurements) == len(release.measurements)
        assert ended.answer(QUESTION).certified
        saved = ended.save(tmp_path / "ended")
        assert rt.Release.load(saved).answer(QUESTION).value == ended.answer(QUESTION).value
    with Session.open(path, forbidden(rows), BUDGET) as session:
        assert session.ask(cell).to_dict() == known
    other = of_codes(rt.Domain({"a": 4}), {"a": codes()["a"]})
    with pytest.raises(QueryError, match="another domain"):
        Session.open(None, other, BUDGET, start=release)


def test_a_ledger_keeps_its_engine(tmp_path: Path) -> None:
    Session.open(tmp_path / "a.ledger", table(), BUDGET, warm_start=0).close()
    with pytest.raises(LedgerError, match="engine 'default'"):
        Session.open(tmp_path / "a.ledger", table(), BUDGET, engine="tuned")


def test_the_standing_is_public_and_states_how_answers_generalise(warm: Session) -> None:
    facts = warm.describe()
    json.dumps(facts)
    assert facts["engine"] == "default"
    assert 0 < facts["generalisation"]["expected_bias"] < 0.1
    assert "<Session" in repr(warm)


def test_the_engine_chooses_plain_answers_for_few_questions() -> None:
    """Where Gaussian + cache should win, nothing is spent on a warm start; the caller's word comes first."""
    with Session.open(None, table(), BUDGET, queries=3) as few:
        assert few.spent == 0
    with Session.open(None, table(), BUDGET, queries=10**6) as many:
        assert many.spent > 0
    with Session.open(None, table(), BUDGET, queries=3, warm_start=0.2) as told:
        assert told.spent > 0


@pytest.mark.parametrize(("error", "queries", "warm"), [(0.001, 10**6, False), (0.2, 10**6, True), (0.2, 3, False)])
def test_a_wanted_error_decides_between_a_fit_and_plain_answers(error: float, queries: int, warm: bool) -> None:
    """No fit would be so good; only a fit serves so many; plain answers cost less."""
    with Session.open(None, table(), BUDGET, queries=queries, error=error) as session:
        assert (session.spent > 0) == warm


def test_what_the_budget_pays_for_is_not_left_to_a_fit() -> None:
    """A fit certifies boxes; the announced questions may be of another kind, and half of the budget would be gone."""
    rows, error, rho = table(), 0.2, BUDGET.amount(BUDGET.limit)
    setting = Setting(records=20_000, log_universe=1, queries=1, failure=0.05, pure=False, amount=rho)
    most = plain_answers(setting, error)
    for queries, warm in ((int(0.9 * most), False), (2 * most, True)):
        with Session.open(None, rows, BUDGET, queries=queries, error=error) as session:
            assert (session.spent > 0) == warm


@pytest.mark.parametrize(
    "budget", [rt.Budget(epsilon=1, delta=1e-9), rt.Budget(epsilon=1)], ids=["approximate", "pure"]
)
@pytest.mark.parametrize("told", [{"queries": 3, "error": 0.1}, {"queries": 3}, {"error": 0.001}], ids=str)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_an_announced_stream_decides_under_every_budget_and_neighbours(
    budget: rt.Budget, told: dict[str, Any], neighbours: Any
) -> None:
    """Under add-remove and with pure budgets half of the budget was spent on a start, whatever was announced."""
    with Session.open(None, table(5_000, neighbours=neighbours), budget, **told) as session:
        assert (session.state.journal.settings() or {})["share"] == 0
        assert not session.certificates


def test_plain_sessions_sell_at_the_price_of_plain_noise(tmp_path: Path) -> None:
    """Told the error, and without a start: statements about classes have a small share, which certificates keep to."""
    rows, query, error = table(), rt.count((rt.col("a") >= 1) & (rt.col("b") == 1)), 0.02
    noise = noise_within(error * rows.records - 1, 0.05, pure=False)
    plain = BUDGET.amount(BUDGET.cost(noise.price(Sensitivity.scalar())))
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, queries=3, error=error) as session:
        assert session.spent == 0
        assert plain <= session.cost(query, error=error) <= 1.0001 * plain
        certificate = session.certify("cells", order=1, amount=0.01)
        failure = 0.05 * PLAIN_WIDE[PLAIN_RULE] / 3 / 2
        assert certificate.bound == pytest.approx(
            certificate.reading + reach(restore(certificate.noise), failure) / rows.records, abs=certificate.slack
        )
    with Session.open(tmp_path / "a.ledger", rows, BUDGET) as session:
        assert session.certificates[0].bound == certificate.bound
        assert plain <= session.cost(query, error=error) <= 1.0001 * plain
    with Session.open(None, rows, BUDGET, warm_start=0) as session:
        assert session.cost(query, error=error) > 1.01 * plain


def test_a_plain_session_keeps_the_shares_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions stored `true` and gave statements about classes a 500th."""
    rows, query, costs = table(), rt.count((rt.col("a") >= 1) & (rt.col("b") == 1)), {}
    for rule in (True, PLAIN_RULE):
        with monkeypatch.context() as patched:
            patched.setattr("reticent.sessions.open.PLAIN_RULE", rule)
            Session.open(tmp_path / f"{rule}.ledger", rows, BUDGET, queries=3, error=0.02).close()
        with Session.open(tmp_path / f"{rule}.ledger", rows, BUDGET) as session:
            costs[rule] = session.cost(query, error=0.02)
            certificate = session.certify("cells", order=1, amount=0.01)
            failure = 0.05 * PLAIN_WIDE[rule] / 3 / 2
            assert certificate.bound == pytest.approx(
                certificate.reading + reach(restore(certificate.noise), failure) / rows.records, abs=certificate.slack
            )
    assert costs[PLAIN_RULE] < costs[True]


def test_a_wanted_error_at_opening_is_a_share_of_the_table() -> None:
    with pytest.raises(QueryError, match="wanted share"):
        Session.open(None, table(), BUDGET, error=2.0)


@pytest.mark.parametrize("amount", [-1.0, 1e300, float("inf"), float("nan"), 2.0])
def test_a_cap_beyond_the_budget_is_one_line(amount: float) -> None:
    with Session.open(None, table(), BUDGET, warm_start=0) as session, pytest.raises(QueryError, match="between 0 and"):
        session.set_cap("ann", amount)
