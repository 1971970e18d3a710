"""Whole algorithms, run as users run them on tiny neighbouring tables; their privacy losses are summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.auditing.bounds import ScoreEvent
from reticent.auditing.cases import DOMAIN, Case, Runs, neighbours_alone, neighbours_far_apart
from reticent.auditing.witness import Witness
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Table
from reticent.knowledge.guarantees import silent
from reticent.queries.linear import Count
from reticent.queries.predicate import col
from reticent.queries.workload import marginals
from reticent.releases.adaptive import Adaptive
from reticent.releases.dualquery.dualquery import DualQuery
from reticent.releases.mwem import MWEM
from reticent.releases.textbook import TextbookPMW
from reticent.sessions.journal import Journal
from reticent.sessions.open import Opening, open_engine
from reticent.sessions.session import Session

GROUP = "algorithms"
BUDGET = Budget(rho=2)
TEXTBOOK_RELEASE, TEXTBOOK_SESSION, TUNED_SESSION = Budget(rho=32), Budget(rho=200), Budget(rho=24)
"""The plans of the papers keep most of a budget for rounds that do not take place; these lead to charges of about 2."""
SECOND_LIKELIER = ScoreEvent(0.0, above=True, table=1)
"""The event that the evidence favours the second table."""
WEIGHT = 4.0
PLANNED = 40
QUESTIONS = (Count(col("a") == 0), Count(col("b") == 0), Count((col("a") == 0) & (col("b") == 0)))
WANTED = 0.17
"""An error that costs the default session, on 40 records, most of what its warm start left."""


def algorithm_cases() -> list[Case]:
    far, lonely = neighbours_far_apart(), neighbours_alone(400)
    proposing = Adaptive(dense_cells=1, support=64)
    sparing = DualQuery(rounds=3, draws=2, replies=1)
    draws = {
        "release: Adaptive": _released(Adaptive(), far, BUDGET, 2),
        "release: Adaptive, large universe": _released(proposing, far, BUDGET, 2),
        "release: MWEM": _released(MWEM(rounds=2), far, BUDGET, 1),
        "release: DualQuery": _released(sparing, far, BUDGET, 1),
        "release: textbook": _released(TextbookPMW(error=0.2), lonely, TEXTBOOK_RELEASE, 1),
        "session: default": _asked("default", neighbours_far_apart(40), BUDGET, WANTED),
        "session: textbook": _asked("textbook", lonely, TEXTBOOK_SESSION),
        "session: tuned": _asked("tuned", lonely, TUNED_SESSION),
    }
    return [Case(name, GROUP, "rho", draw, SECOND_LIKELIER, WEIGHT) for name, draw in draws.items()]


def _released(algorithm: Any, pair: tuple[Table, Table], budget: Budget, order: int) -> Callable[[int], Runs]:
    workload = marginals(DOMAIN, order).on(DOMAIN)

    def draw(table: int) -> Runs:
        ledger = Ledger.memory(identity=pair[table].identity, budget=budget)
        witness = Witness(pair[table], ledger, *pair)
        algorithm.run(witness, workload, allowance=budget.limit, key="audit")
        return Runs(np.array([witness.evidence]), ledger.spent / NANO)

    return draw


def _asked(engine: str, pair: tuple[Table, Table], budget: Budget, error: float | None = None) -> Callable[[int], Runs]:
    """Ask three questions: the textbook engines fail their tests and measure; the default engine is asked for
    `error`.
    """

    def draw(table: int) -> Runs:
        ledger = Ledger.memory(identity=pair[table].identity, budget=budget)
        witness = Witness(pair[table], ledger, *pair)
        session = session_on(engine, pair[table], witness, ledger)
        for question in QUESTIONS:
            session.ask(question, error=error, confidence=0.95)
        return Runs(np.array([witness.evidence]), ledger.spent / NANO)

    return draw


def session_on(engine: str, table: Table, curator: Curator, ledger: Ledger) -> Session:
    """A session as `Session.open` creates it, on the given curator."""
    planned: dict[str, Any] = {"warm_start": 0.5} if engine == "default" else {"queries": PLANNED}
    opening = Opening(engine=engine, confidence=0.5, **planned)
    return Session(open_engine(curator, Journal(ledger), opening, silent), name=table.name)
