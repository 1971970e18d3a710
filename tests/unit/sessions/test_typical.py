"""A session buys what most questions err: stated beside the worst case, taken by whoever asks for it, and true."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.session_tables import DOMAIN, codes, forbidden, inside, random_boxes, table

import reticent as rt
from reticent.errors import QueryError
from reticent.knowledge.answer import Answer
from reticent.queries.linear import Range
from reticent.sessions.session import Session

BUDGET = rt.Budget(epsilon=1, delta=1e-9)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.open(None, table(), BUDGET)


@pytest.fixture
def cold() -> Session:
    """Nothing is measured or certified, so that noise decides nothing here; most questions err little all the same."""
    session = Session.open(None, table(), BUDGET, warm_start=0)
    session.certify_typical(order=2)
    return session


def test_the_default_opening_states_a_typical_error(session: Session) -> None:
    (typical,) = session.typical
    assert typical.bound < 2 * session.certificates[0].bound
    assert session.describe()["typical"][0]["bound"] == typical.bound
    answer = session.ask(Range({"a": (1, 2), "e": (0, 0)}))
    assert answer.typical is not None
    assert typical.bound <= answer.typical + 1e-12
    assert "typically" in answer.guarantee
    assert Answer.from_dict(answer.to_dict()) == answer


def test_nineteen_of_twenty_questions_err_no_more(session: Session) -> None:
    """All questions of the distribution, against the rows: the bound fails with a probability below a thousandth."""
    (typical,), columns, rows = session.typical, codes(), 2000
    wrong = asked = 0.0
    for names in typical.distribution["sets"]:
        choices = [list(_ranges(DOMAIN[name].size)) for name in names]
        boxes = [dict(zip(names, ranges, strict=True)) for ranges in itertools.product(*choices)]
        for box in boxes:
            answer = session.ask(Range(box))
            assert answer.typical is not None
            wrong += (abs(answer.value - inside(columns, box)) > answer.typical) / len(boxes)
        asked += 1
    assert wrong / asked <= 0.05
    assert rows == len(columns["a"])


def _ranges(size: int) -> list[tuple[int, int]]:
    return [(low, high) for low in range(size) for high in range(low, size) if high - low + 1 < size]


def test_a_typical_promise_is_free_within_the_typical_error_and_certifies_nothing(cold: Session) -> None:
    session, question = cold, Range({"a": (1, 2), "b": (0, 1)})
    usual, spent = session.ask(question).typical, session.spent
    assert usual is not None
    answer = session.ask(question, error=usual * 1.01, promise="typical")
    assert (answer.origin, answer.certified, answer.error, answer.note) == ("typical", False, None, "")
    assert answer.typical == usual
    assert session.spent == spent
    assert session.cost(question, error=usual * 1.01, promise="typical") == 0
    assert session.cost(question, error=usual / 4, promise="typical") == session.cost(question, error=usual / 4) > 0
    with pytest.raises(QueryError, match="promise='maybe'"):
        session.ask(question, error=0.1, promise="maybe")  # type: ignore[arg-type]


def test_a_typical_promise_stays_free_when_other_purchases_move_the_fit(cold: Session) -> None:
    (typical,), bound = cold.typical, cold.typical[0].bound * 1.001
    boxes = [Range({"a": (1, 2), "b": (0, 1)}), Range({"c": (0, 2), "e": (0, 0)}), Range({"b": (1, 1), "c": (1, 3)})]
    audited = [cold.ask(box, error=bound, promise="typical") for box in boxes]
    cold.ask(rt.marginal("a", "b"), error=bound / 2)
    cold.ask(rt.marginal("c", "e"), error=bound / 2)
    cold.refit()
    spent = cold.spent
    assert any(cold.ask(box).typical > bound for box in boxes)  # type: ignore[operator]
    for box, before in zip(boxes, audited, strict=True):
        answer = cold.ask(box, error=bound, promise="typical")
        assert cold.cost(box, error=bound, promise="typical") == 0
        assert answer.certified or (answer.value == before.value and answer.typical == typical.bound_at(0.95))
    assert cold.spent == spent


def test_questions_that_are_never_drawn_state_none(session: Session) -> None:
    for question in (
        rt.count(),
        rt.count((rt.col("a") == 0) | (rt.col("b") == 1)),
        Range(dict.fromkeys("abce", (0, 0))),
    ):
        assert session.ask(question).typical is None


def test_sql_shows_it_for_counts(cold: Session) -> None:
    session, single = cold, cold.ask("SELECT COUNT(*) FROM t WHERE a >= 1 AND e = 0")
    assert single.errors == ((None,),)
    assert "19 of 20" in repr(single)
    assert type(single).from_dict(single.to_dict()) == single
    records = int(single.typical[0][0]) + 2
    taken = session.ask("SELECT COUNT(*) FROM t WHERE a >= 1 AND e = 0", error=records, promise="typical")
    assert (taken.price, taken.note, taken.certified) == (0, "", False)
    assert session.ask("SELECT AVG(c) FROM t WHERE a >= 1").typical == ()


def test_it_is_read_again_from_the_ledger_and_travels_with_a_release(tmp_path: Path) -> None:
    path, question = tmp_path / "a.ledger", Range({"a": (1, 2)})
    with Session.open(path, table(), BUDGET) as session:
        answer, released, spent = session.ask(question), session.release(), session.spent
    with Session.open(path, forbidden(table()), BUDGET) as again:
        assert again.ask(question) == answer
        assert again.spent == spent
    assert released.typical == session.typical
    loaded = rt.Release.load(released.save(tmp_path / "a.release"))
    assert loaded.ask(question).typical == released.ask(question).typical is not None
    with Session.open(None, table(), BUDGET, start=loaded) as started:
        assert started.ask(question).typical is not None
        assert started.certify_typical(order=2).index == 2


def test_drawn_lists_keep_their_random_bytes_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent.knowledge.typical.MOST_QUESTIONS", 10)
    with Session.open(tmp_path / "a.ledger", table(), BUDGET) as session:
        (typical,) = session.typical
        assert typical.drawn
        noted = session.state.ledger.noted("questions")
        assert session.state.ledger.event(noted[0]).payload["questions"]["seed"] == typical.distribution["seed"]
        boxes = random_boxes(DOMAIN, 200, np.random.default_rng(1))
        answers = [(session.ask(Range(box)), inside(codes(), box)) for box in boxes]
        stated = [
            abs(answer.value - truth) <= answer.typical for answer, truth in answers if answer.typical is not None
        ]
        assert np.mean(stated) > 0.85


def test_what_no_certificate_covers_is_named_with_its_price(session: Session) -> None:
    found = {entry["kind"]: entry for entry in session.describe()["uncovered"]}
    cheap = [len(c.sets[0]) for c in session.certificates if c.kind == "predicates"]  # bought where they are useful
    assert (found["boxes"]["order"], found["predicates"]["order"]) == (4, 1 + max(cheap, default=0))
    with Session.open(None, table(), BUDGET, warm_start=0) as plain:
        before, (boxes, _) = plain.spent, plain.describe()["uncovered"]
        assert boxes["order"] == 1
        plain.certify("boxes", order=1)
        assert plain.spent - before == pytest.approx(boxes["price"], rel=1e-6)
        assert plain.describe()["uncovered"][0]["order"] == 2
