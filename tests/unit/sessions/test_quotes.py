"""A price is a promise: what `cost` says is what `ask` then charges, or the most where an audit or a test decides."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.faults.payments import LOSSES, Disk, Killed, opened
from tests.session_tables import table
from tests.small_tables import skewed, uniform

import reticent as rt
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import NANO
from reticent.queries.groups import Groups
from reticent.queries.linear import Range, Weighted
from reticent.sessions.engine import Certify, Free, Measure, Split
from reticent.sessions.session import Session


@dataclass(frozen=True)
class Call:
    """One question with everything said about it; `exact` where a price is no mere bound."""

    question: Any
    error: Any
    key: str | None
    analyst: str | None
    exact: bool

    def cost(self, session: Session) -> int:
        price = session.cost(self.question, error=self.error, key=self.key, analyst=self.analyst)
        return round(price * NANO)

    def ask(self, session: Session) -> Any:
        if isinstance(self.question, list) and isinstance(self.question[0], Range):
            return session.ask_all(self.question, error=self.error, analyst=self.analyst)
        fits = isinstance(self.question, list) or self.question in LOSSES
        act: Callable[..., Any] = session.minimize if fits else session.ask
        return act(self.question, error=self.error, key=self.key, analyst=self.analyst)


def box(generator: np.random.Generator) -> Range:
    return Range({name: (0, int(generator.integers(0, size))) for name, size in (("a", 3), ("b", 2), ("c", 4))})


def any_call(generator: np.random.Generator, number: int) -> Call:
    """Counts, cells, groups, means, SQL, batches and losses, with and without keys and analysts."""
    error = float(10.0 ** -generator.uniform(2.3, 3.8))
    key = f"key-{number}" if generator.random() < 0.4 else None
    analyst = str(generator.choice(["ann", "bob"])) if generator.random() < 0.5 else None
    where = rt.col("a") <= int(generator.integers(0, 3))
    kinds: dict[str, tuple[Any, Any, bool]] = {
        "count": (box(generator), error, True),
        "cell": (rt.count((rt.col("a") == 1) & (rt.col("c") == 2)), error, True),
        "records": (rt.count(where), rt.records(max(1, round(3e5 * error))), True),
        "marginal": (rt.marginal("a", "c"), error, True),
        "groups": (Groups(["b", "e"], where), error, True),
        "mean": (rt.mean("c"), 10 * error, True),
        "mean of some": (rt.mean("c", where=where & (rt.col("e") == 0)), 30 * error, False),
        "sql": (f"SELECT COUNT(*) FROM t WHERE b <= 1 AND c <= {generator.integers(4)}", f"{100 * error}%", True),
        "sql groups": (f"SELECT a, COUNT(*), AVG(c) FROM t WHERE b <= {generator.integers(2)} GROUP BY a", "4%", False),
        "batch": ([box(generator) for _ in range(int(generator.integers(1, 9)))], error, False),
        "loss": (LOSSES[int(generator.integers(3))], float(generator.choice([0.1, 0.2])), False),
        "losses": (LOSSES, 0.1, False),
    }
    kind = str(generator.choice(list(kinds)))
    question, wanted, exact = kinds[kind]
    return Call(question, wanted, None if kind == "batch" else key, analyst, exact)


def quoted(session: Session, call: Call) -> int | None:
    """The stated price; None where the question is refused before anything is spent."""
    spent = session.state.ledger.spent
    try:
        price = call.cost(session)
    except QueryError:
        price = None
    assert session.state.ledger.spent == spent, "asking for a price costs nothing"
    return price


def live(seed: int, calls: int) -> tuple[int, int]:
    """Prices that were right, and crashes, of one random session."""
    generator = np.random.default_rng(seed)
    disk, options = Disk(), {"warm_start": float(generator.choice([0.0, 0.02]))}
    right, crashes = 0, 0
    for number in range(calls):
        call = any_call(generator, number)
        if generator.random() < 0.3:
            with opened(disk, **options) as session, suppress(Killed, QueryError, BudgetError):
                disk.arm(int(generator.integers(1, 7)))
                call.ask(session)
            disk.arm(0)
            crashes += 1
        with opened(disk, **options) as session:
            price = quoted(session, call)
            if price is None:
                continue
            before, left = session.state.ledger.spent, session.state.ledger.remaining_for(call.analyst)
            with suppress(QueryError):  # nothing certifies such a model
                call.ask(session)
            charged = session.state.ledger.spent - before
            if price <= left and call.exact:
                assert charged == price, (seed, number, call)
            else:
                assert charged <= price, (seed, number, call)
            again = quoted(session, call)
            assert again is None or call.key is None or again == 0, "what a key has paid is not charged again"
            right += 1
    return right, crashes


def test_a_price_is_what_is_charged() -> None:
    found = [live(seed, 6) for seed in range(4)]
    assert sum(right for right, _ in found) > 15
    assert sum(crashes for _, crashes in found) > 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_price_is_what_is_charged_in_hundreds_of_sessions() -> None:
    assert sum(live(seed, 8)[0] for seed in range(1000, 1400)) > 2000


@pytest.mark.parametrize("engine", ["textbook", "tuned"])
def test_a_threshold_engine_states_the_most(engine: str) -> None:
    with Session.open(None, table(2000, weight=5000), rt.Budget(epsilon=1, delta=1e-9), engine=engine, queries=50) as s:
        for code in range(4):
            question = rt.count((rt.col("a") == code) & (rt.col("b") <= 1))
            price, before = s.cost(question, error=0.3), s.spent
            s.ask(question)
            assert s.spent - before <= price * (1 + 1e-9)
        assert s.cost(question, error=0.3) == 0, "the same question finds its answer"


def test_a_quote_says_how_it_will_be_answered() -> None:
    with Session.open(None, table(2000, weight=50), rt.Budget(rho=1), warm_start=0) as session:
        unknown = rt.count((rt.col("a") <= 1) & (rt.col("c") <= 2))
        batch = tuple(
            Range({"a": (0, m), "b": (0, n), "c": (0, k)}) for m in range(3) for n in range(2) for k in range(4)
        )
        kinds = {
            Free: session.request(unknown),
            Measure: session.request(unknown, 0.004),
            Split: session.request("SELECT AVG(c) FROM t WHERE a <= 1", 0.1),
            Certify: session.request(batch, 0.02),
        }
        for kind, request in kinds.items():
            quote = session.quote(request)
            assert isinstance(quote, kind)
            assert (quote.price > 0) is (kind is not Free)
        with pytest.raises(QueryError, match="without it every answer is free"):
            session.cost(unknown, error=None)  # type: ignore[arg-type]


def test_nobody_pays_for_what_was_bought_since_the_quote() -> None:
    """Another thread may be faster: the quote of the slower one is made again before it pays."""
    with Session.open(None, table(2000, weight=50), rt.Budget(rho=1), warm_start=0) as session:
        asked = session.request(rt.count((rt.col("a") <= 1) & (rt.col("c") <= 2)), 0.004)
        slow = session.quote(asked)
        session.carry_out(session.quote(asked))
        spent = session.spent
        assert session.carry_out(slow).price == 0
        statement = session.request("SELECT AVG(c) FROM t WHERE a <= 1 AND b <= 1", 0.02)
        slow = session.quote(statement)
        assert slow.price > 0
        session.carry_out(session.quote(statement))
        assert session.spent > spent
        spent = session.spent
        assert session.carry_out(slow).price == 0
        assert session.spent == spent


@pytest.mark.parametrize(
    "query",
    [
        rt.count((rt.col("a") >= 1) & (rt.col("b") == 2)),
        rt.count(rt.col("a") == 1),
        rt.marginal("a", "b"),
        Groups(["b"], rt.col("a") >= 1),
    ],
    ids=["count", "cell", "marginal", "groups"],
)
def test_an_error_of_more_than_a_half_is_refused_unspent(query: Any) -> None:
    """It was charged and then failed: no bound beyond a half counts as an answer."""
    session = Session.open(None, uniform(3000, seed=1), rt.Budget(rho=5), warm_start=0.0)
    spent = session.spent
    with pytest.raises(QueryError, match=r"ask for one below 0\.5"):
        session.ask(query, error=0.6, key="wide")
    assert session.spent == spent


def test_the_cost_of_a_batch_bounds_its_charge() -> None:
    batch = [Weighted({"a": [i / 60, 0.5, 0.9 - i / 80]}) for i in range(60)]
    with rt.Session.open(None, skewed(), rt.Budget(rho=1), warm_start=0) as session:
        most = session.cost(batch, error=0.01)
        session.ask_all(batch, error=0.01)
        assert 0 < session.spent <= most


@pytest.mark.parametrize(
    "question", ["SELECT COUNT(*) FROM t WHERE a <= {} AND b <= 1", "SELECT AVG(c) FROM t WHERE a <= {}"]
)
def test_a_paid_question_makes_no_pass_over_the_hypothesis(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name, a hash of all of it, was computed anew for every purchase and told nobody."""
    passes: list[None] = []
    whole = Snapshot.to_bytes
    error = 0.05 if "AVG" in question else 100
    with Session.open(None, table(), rt.Budget(rho=100), warm_start=0.0) as session:
        session.ask(question.format(0), error=error)
        monkeypatch.setattr(Snapshot, "to_bytes", lambda snapshot: passes.append(None) or whole(snapshot))
        assert session.ask(question.format(1), error=error).price > 0
    assert not passes
