"""A server of lives under one processor setting: each is a forked child that may die at a chosen write.

`NUMBA_CPU_NAME` and `NPY_DISABLE_CPU_FEATURES` of its environment say what the compiler and NumPy may use. It reads one
JSON object a line, `{"folder", "operation", "fatal"}`, and answers each with what the life came to, null if it died.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.faults.payments import BUDGET, OPERATIONS, RELEASES, ROWS, WORKLOAD, content, price

import reticent as rt
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.ledger.events import Event
from reticent.kernel.ledger.store import SqliteStore
from reticent.kernel.ledger.verify import verify
from reticent.sessions.session import Session

APPEND = SqliteStore.append
START = "start"
"""Opening a session that buys its start."""


def arm(fatal: int) -> list[int]:
    """From now on the process dies at this write, counted before and after each; the steps so far."""
    steps = [0]

    def counted(self: SqliteStore, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        for after in (False, True):
            if after:
                APPEND(self, event, blobs)
            steps[0] += 1
            if steps[0] == fatal:
                os._exit(9)

    SqliteStore.append = counted
    return steps


def released(folder: Path, name: str, fatal: int) -> dict[str, Any]:
    steps = arm(fatal)
    release = rt.release(ROWS, WORKLOAD, BUDGET, algorithm=RELEASES[name], ledger=folder / "a.ledger")
    digest = Snapshot(release.hypothesis).digest
    assert all(certificate.snapshot == digest for certificate in release.certificates)
    told = {"content": digest, "price": 0, "charged": release.facts["charged_now"]}
    return told | {"steps": steps[0]} | statement(folder)


def answered(folder: Path, name: str, fatal: int) -> dict[str, Any]:
    if name == START:
        steps = arm(fatal)
        with Session.open(folder / "a.ledger", ROWS, BUDGET, warm_start=0.3) as session:
            told = {"content": session.state.knowledge.current.digest, "price": 0, "charged": 0, "steps": steps[0]}
        return told | statement(folder)
    with Session.open(folder / "a.ledger", ROWS, BUDGET, warm_start=0) as session:
        before, steps = session.state.ledger.spent, arm(fatal)
        result = OPERATIONS[name](session)
        told = {"content": repr(content(result)), "price": price(result), "steps": steps[0]}
        told["charged"] = session.state.ledger.spent - before
    return told | statement(folder)


def statement(folder: Path) -> dict[str, Any]:
    """What the file says was charged and settled, by key; checked from first event to last."""
    found = verify(folder / "a.ledger")
    assert not found.damaged
    costs = {str(event.key): event.cost for event in found.events if event.kind == "reserve"}
    return {"reserved": costs, "settled": sorted({str(event.key) for event in found.events if event.kind == "settle"})}


def life(order: dict[str, Any]) -> dict[str, Any]:
    act = released if order["operation"] in RELEASES else answered
    return act(Path(order["folder"]), order["operation"], order["fatal"])


def live(order: dict[str, Any]) -> dict[str, Any] | None:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reading)
        try:
            told = life(order)
        except BaseException:
            told = {"error": traceback.format_exc()}
        with open(writing, "w") as pipe:
            json.dump(told, pipe)
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return json.loads(text) if code == 0 else None if code == 9 else {"error": f"exit code {code}"}


def warm(operation: str) -> None:
    """Have compiled what the operation needs, so that its lives need not."""
    with tempfile.TemporaryDirectory() as folder:
        life({"folder": folder, "operation": operation, "fatal": 0})
    SqliteStore.append = APPEND


if __name__ == "__main__":
    warmed: set[str] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if order["operation"] not in warmed:
            warm(order["operation"])
            warmed.add(order["operation"])
        print(json.dumps(live(order)), flush=True)
