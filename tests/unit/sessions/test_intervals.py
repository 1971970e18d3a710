"""An answer is the fit moved into the intersection of all that is certified; no logic bound is ever broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.knowledge.answer import Answer
from reticent.queries.linear import Count

SURE = 1 - 1e-6
"""A right engine fails a check that looks at hundreds of answers hardly ever."""


class Generated:
    """Rows of random shape beside a session and a release of them."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.records = int(generator.choice([300, 3000]))
        self.edges = sorted({0, 100, *generator.integers(1, 100, int(generator.integers(1, 7))).tolist()})
        groups = int(generator.integers(2, 9))
        chances = generator.dirichlet(np.full(groups, 0.3))
        self.group = generator.choice(groups, self.records, p=chances)
        self.number = np.clip(generator.gamma(1.0, 15.0, self.records) + 5.0 * self.group, 0, 100)
        self.flag = generator.random(self.records) < 0.1 + 0.4 * (self.number > 30)
        names = [f"g{place}" for place in range(groups)]
        self.domain = rt.Domain(
            x=rt.Numeric(edges=self.edges, other=False),
            g=rt.Categorical(names, other=False),
            f=rt.Categorical(["no", "yes"], other=False),
        )
        columns: dict[str, Any] = {
            "x": self.number,
            "g": [names[code] for code in self.group],
            "f": np.where(self.flag, "yes", "no"),
        }
        self.table = rt.Table.of(pa.table(columns), self.domain, name="t")
        budget = rt.Budget(epsilon=float(generator.choice([0.2, 1.0])), delta=1e-9)
        self.session = rt.Session.open(None, self.table, budget, warm_start=0.5, confidence=SURE)
        self.release = rt.release(self.table, rt.marginals(self.domain, 2), budget)

    def questions(self, generator: np.random.Generator, count: int) -> list[tuple[Any, float]]:
        """Counts and means with their truth; without one where nothing is selected."""
        found = []
        for _ in range(count):
            group, low = int(generator.integers(len(self.domain["g"].labels))), int(generator.choice(self.edges[:-1]))
            where, kept = rt.col("g") == f"g{group}", self.group == group
            if generator.random() < 0.5:
                where, kept = where & (rt.col("x") >= low), kept & (self.number >= low)
            if generator.random() < 0.5:
                found.append((rt.count(where), kept.mean()))
            else:
                found.append((rt.mean("x", where), self.number[kept].mean() if kept.any() else np.nan))
        return found


@pytest.mark.parametrize("seed", range(3))
def test_values_lie_in_their_intervals_and_nothing_is_below_zero_or_outside_its_bins(seed: int) -> None:
    rows = Generated(seed)
    session, generator = rows.session, np.random.default_rng(seed)
    for place, (question, truth) in enumerate(rows.questions(generator, 40)):
        wanted = None if place % 4 else 0.2 if isinstance(question, Count) else 20.0
        answer = _asked(session, question, wanted)
        _check(answer, truth)
        _check(rows.release.ask(question), np.nan)  # certified at 0.95 only: its bounds are not compared here
    for names in (("g",), ("g", "f"), ("x", "f")):
        answer = session.ask(rt.marginal(*names))
        low, high = (0.0, 1.0) if answer.interval is None else answer.interval
        assert (answer.interval is None) == (not answer.certified)
        assert np.all((low >= 0) & (low <= answer.value) & (answer.value <= high) & (high <= 1))
    numbers = "COUNT(*), AVG(x), SUM(x)"
    for where in ("", f" WHERE x >= {rows.edges[1]}", " WHERE f = 'yes'"):
        for row in session.ask(f"SELECT g, {numbers} FROM t{where} GROUP BY g"):
            assert all(0 <= number <= 100 * rows.records for number in row[1:] if not np.isnan(number))


def _asked(session: rt.Session, question: Any, wanted: float | None) -> Answer:
    try:
        return session.ask(question, error=wanted)
    except rt.errors.QueryError:  # a group too small for the error: nothing was paid
        return session.ask(question)


def _check(answer: Answer, truth: float) -> None:
    if not answer.certified:
        assert answer.interval is None or answer.origin == "conflict"
        return
    assert answer.interval is not None
    assert answer.error is not None
    low, high = answer.interval
    assert low - 1e-12 <= answer.value <= high + 1e-12
    assert low >= 0
    assert high <= (1 if answer.count is not None else 100)
    assert max(answer.value - low, high - answer.value) <= answer.error * (1 + 1e-9) + 1e-12
    if not np.isnan(truth):
        assert low - 1e-9 <= truth <= high + 1e-9


def test_fitted_values_add_up_to_their_total() -> None:
    session = Generated(1).session
    groups = session.ask(rt.marginal("g", "f"))
    assert groups.fitted is not None
    assert np.sum(groups.fitted) == pytest.approx(1.0, abs=1e-9)
    whole = session.ask(rt.count(rt.col("f") == "yes"))
    assert np.sum(groups.fitted[:, 1]) == pytest.approx(whole.fitted, abs=1e-9)


def test_free_group_counts_are_about_as_close_as_those_of_the_session_s_own_release() -> None:
    rows = Generated(2)
    published, truth = rows.session.release(), np.zeros((len(rows.edges) - 1, len(rows.domain["g"].labels)))
    bins = np.clip(np.searchsorted(rows.edges, rows.number, side="right") - 1, 0, len(rows.edges) - 2)
    np.add.at(truth, (bins, rows.group), 1 / rows.records)
    own = np.abs(rows.session.ask(rt.marginal("x", "g")).value - truth).mean()
    assert own <= 1.1 * np.abs(published.ask(rt.marginal("x", "g")).value - truth).mean() + 1e-9


def test_an_answer_with_its_interval_survives_json() -> None:
    session = Generated(0).session
    for question in (rt.count(rt.col("f") == "yes"), rt.marginal("g")):
        answer = session.ask(question)
        assert Answer.from_dict(answer.to_dict()) == answer
