"""Whole sessions run many times on neighbouring tables: what an attacker can prove stays below epsilon.

The lower bound is one-sided and statistical: passing proves nothing, failing would disprove the guarantee. Planted bugs
show that the attack has teeth.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from tests.privacy.session_model import small_plan
from tests.session_tables import of_codes

import reticent as rt
from reticent.domain import Domain
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Laplace
from reticent.kernel.table import Table
from reticent.knowledge.knowledge import Knowledge
from reticent.sessions.epochs import Epochs
from reticent.sessions.session import Session

DOMAIN = Domain({"x": 3})
RECORDS = 40
RUNS = 400
FALSE_ALARM = 1e-6
QUESTION = rt.count(rt.col("x") >= 1)
"""A range, not a cell: a cell would buy its whole marginal."""


def neighbour(ones: int) -> Table:
    return of_codes(DOMAIN, {"x": np.repeat([0, 1], [RECORDS - ones, ones]).astype(np.int64)})


def default_session(table: Table) -> float:
    """Spends nearly all of epsilon 1 on one question, then asks free ones that must add nothing."""
    session = Session.open(None, table, rt.Budget(epsilon=1), warm_start=0)
    answer = session.ask(QUESTION, error=0.104)
    assert answer.origin == "measured"
    assert session.spent > 0.9
    session.ask(rt.count(rt.col("x") == 0))
    return float(answer.value)


def epoch_session(table: Table) -> float:
    """One epoch whose test is passed for sure; its measurement carries almost all of the price."""
    plan = small_plan(tuned=False, threshold_epsilon=0.05, query_epsilon=0.05, scale=1 / 0.9, threshold=-20, epochs=1)
    curator = Curator(table, Ledger.memory(rt.Budget(epsilon=1), table.identity))
    engine = Epochs(curator, plan, Knowledge(Snapshot(DenseHypothesis(DOMAIN)), float(RECORDS), 0.0))
    verdict = engine.ask(QUESTION, key="q")
    return float(verdict.values) if verdict.origin == "measured" else 0.0


def proven_epsilon(session: Callable[[Table], float]) -> float:
    """The largest epsilon that the counts of one event refute, with confidence 1 - FALSE_ALARM."""
    high, low = neighbour(11), neighbour(10)
    cut = 11 / RECORDS - 1e-9
    hits = sum(session(high) >= cut for _ in range(RUNS))
    misses = sum(session(low) >= cut for _ in range(RUNS))
    least = stats.beta.ppf(FALSE_ALARM / 2, hits, RUNS - hits + 1) if hits else 0.0
    most = stats.beta.ppf(1 - FALSE_ALARM / 2, misses + 1, RUNS - misses)
    return math.log(least / most) if least > 0 else -math.inf


@pytest.mark.parametrize("session", [default_session, epoch_session])
def test_no_attack_proves_more_than_epsilon(session: Callable[[Table], float]) -> None:
    assert proven_epsilon(session) <= 1


@pytest.mark.parametrize("session", [default_session, epoch_session])
def test_the_attack_catches_noise_that_is_too_narrow(
    session: Callable[[Table], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Laplace.release

    def narrow(self: Laplace, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        return release(Laplace(self.scale / 4), counts, grid)

    monkeypatch.setattr(Laplace, "release", narrow)
    assert proven_epsilon(session) > 1
