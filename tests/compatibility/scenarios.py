"""Sessions and releases as an earlier version ran them: what they must still open to, answer and go on from.

`python -m tests.compatibility.record` wrote the files with version 0.1 (ledger format 3, release format 1). They are
never written again: a file that only today's code can make proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.session_tables import DOMAIN, table

import reticent as rt
from reticent.kernel.table import Table

FILES = Path(__file__).with_name("files")
APPROXIMATE = rt.Budget(epsilon=1.0, delta=1e-9)
PURE = rt.Budget(epsilon=2.0)

FREE: dict[str, Any] = {
    "count": rt.count(rt.col("a") >= 1),
    "either": rt.count((rt.col("a") == 1) | (rt.col("c") == 2)),
    "marginal": rt.marginal("a", "c"),
}
"""Asked without an error: read from the stored snapshot."""
PAID: dict[str, tuple[Any, float]] = {
    "box": (rt.count((rt.col("a") >= 1) & (rt.col("c") <= 2) & (rt.col("b") == 1)), 0.002),
    "or": (rt.count((rt.col("a") == 3) | (rt.col("e") == 1)), 0.002),
    "cells": (rt.marginal("b", "e"), 0.002),
    "mean": (rt.mean("c"), 0.01),
}
"""Asked under a key: the same key returns the same bytes for ever."""
SQL = "SELECT e, COUNT(*) FROM t WHERE a < 2 AND b = 1 GROUP BY e"
LOSSES: dict[str, Any] = {
    "squared": rt.Squared(features=["a", "b"], label="c"),
    "logistic": rt.Logistic(features=["a", "c"], label="e"),
}


@dataclass(frozen=True)
class Session:
    """One session: how it is opened, and what it does."""

    name: str
    budget: rt.Budget = APPROXIMATE
    facts: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    losses: bool = False
    lost: str | None = None
    """Key of a question whose process died between charge and result."""

    def table(self) -> Table:
        # Threshold engines say nothing about small tables.
        return table(2000, weight=5000 if self.threshold else 50, **self.facts)

    @property
    def threshold(self) -> bool:
        return "engine" in self.options

    def ask(self, session: rt.Session, key: str) -> Any:
        """A threshold engine answers within its plan's error."""
        query, error = PAID[key]
        return session.ask(query, error=None if self.threshold else error, key=key, analyst="ann")

    def open(self, path: Path) -> rt.Session:
        return rt.Session.open(path, self.table(), self.budget, anchor=path.with_suffix(".anchor"), **self.options)


SESSIONS = [
    Session("default", losses=True),
    Session("default-add-remove", facts={"neighbours": "add-remove"}),
    Session("default-pure", budget=PURE, options={"warm_start": 0.3}),
    Session("cold", options={"warm_start": 0.0}, losses=True),
    Session("crashed", options={"warm_start": 0.2}, lost="box"),
    Session("textbook", options={"engine": "textbook", "queries": 50}),
    Session("tuned", options={"engine": "tuned", "queries": 50}),
    Session("tuned-support", options={"engine": "tuned", "queries": 50, "support": 40}),
    Session("tuned-crashed", options={"engine": "tuned", "queries": 50}, lost="or"),
]

RELEASES: dict[str, Callable[[], Any]] = {
    "adaptive": rt.Adaptive,
    "mwem": lambda: rt.MWEM(rounds=4),
    "textbook-pmw": lambda: rt.TextbookPMW(error=0.2),
    "dualquery": rt.DualQuery,
}


def workload() -> rt.Workload:
    return rt.marginals(DOMAIN, 2)


def answered(answer: Any) -> dict[str, Any]:
    """What an answer stated, without what may grow."""
    return {
        "value": np.asarray(answer.value, dtype=float).tolist(),
        "error": answer.error,
        "confidence": answer.confidence,
        "certified": answer.certified,
        "snapshot": answer.snapshot,
        "price": answer.price,
    }


@dataclass(frozen=True)
class Coarse:
    """A run on a ledger of a large budget that composes exactly, which died before a settlement."""

    dies: str
    """Part of the key."""
    facts: dict[str, Any] = field(default_factory=dict)
    start: float = 0.5
    releases: bool = False

    def run(self, path: Path) -> int:
        """What was spent in the end."""
        rows, budget = table(2000, weight=1, **self.facts), rt.Budget(epsilon=5, delta=1e-9)
        if self.releases:
            return rt.release(rows, workload(), budget, ledger=path, progress=False).facts["spent"]
        with rt.Session.open(path, rows, budget, warm_start=self.start, progress=False) as session:
            if rows.records is not None:
                session.ask(rt.count(rt.col("a") == 1), error=rt.records(12), key="count")
            return session.state.ledger.spent


COARSE = {
    "coarse-audit": Coarse("session:audit"),
    "coarse-typical": Coarse("session:typical"),
    "coarse-total": Coarse("session:total", {"neighbours": "add-remove"}, start=0),
    "coarse-count": Coarse("count", start=0),
    "coarse-release": Coarse(":audit:cells", releases=True),
}
"""Written by the version that drew all noise on the table's own grid."""
