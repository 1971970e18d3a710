"""Forks one short-lived session per line of standard input and kills it at the step the line names.

As `crash_server.py`, for whole sessions: warm start, audit, purchases, batches and threshold epochs on a tiny universe.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.faults.crash_server import WRITE, Steps, arm, serve
from tests.session_tables import DOMAIN, table

import reticent as rt
from reticent.errors import ReticentError
from reticent.kernel.mechanisms import noise
from reticent.queries.linear import Range
from reticent.sessions.session import Session

BUDGET = rt.Budget(rho=1)
ROWS = table(300, weight=100_000)
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {"warm_start": 0.1, "workload": rt.marginals(DOMAIN, 1)},
    "tuned": {"engine": "tuned", "queries": 2000},
}


def question(number: int) -> Range:
    """Distinct questions that no warm start certifies to the wanted error."""
    low, high = number % 4, number // 4 % 3
    return Range({"a": (0, low), "b": (0, high), "c": (0, number // 12 % 5), "e": (0, number // 60 % 2)})


def life(order: dict[str, Any], say: int) -> None:
    """Open, ask what it was told to under its keys, and something free; everything it learns it says at once."""

    def tell(**fact: Any) -> None:
        WRITE(say, (json.dumps(fact) + "\n").encode())

    steps = Steps(order["fatal"])
    arm(steps)
    release = noise.Noise.release
    noise.Noise.release = steps.around(release)
    try:
        options = OPTIONS[order["engine"]]
        session = Session.open(order["path"], ROWS, BUDGET, anchor=order["anchor"], **options)
        tell(spent=session.spent, digest=session.state.knowledge.current.digest)
        for number in order["numbers"]:
            wanted = {"error": 2e-6} if order["engine"] == "default" else {}
            try:
                answer = session.ask(question(number), key=f"key-{number}", **wanted)
                tell(number=number, answer=answer.to_dict(), spent=session.spent)
            except ReticentError as error:
                tell(number=number, refused=str(error))
        if order["engine"] == "default":
            batch = [question(number) for number in range(100, 108)]
            tell(batch=[answer.value for answer in session.ask_all(batch, error=0.2)])
        free = rt.count((rt.col("a") >= 1) & (rt.col("b") == 1))
        tell(free=session.ask(free).to_dict() if order["engine"] == "default" else None)
        session.state.ledger.verify()
        session.close()
        tell(steps=steps.count)
    except ReticentError as error:
        tell(error=str(error))


def main() -> None:
    warnings.simplefilter("ignore")
    for options in OPTIONS.values():  # compiled and loaded once, before any fork
        Session.open(None, ROWS, BUDGET, **options).ask(question(3))
    serve(life)


if __name__ == "__main__":
    main()
