"""Forks one short-lived ledger process per line of standard input and kills it at the step the line names.

Run as a script by `test_crash.py`. No failpoint exists in the library: this process counts the calls that cross to
the disk (every SQL statement, every write and flush of the anchor), before and after each, and the sampling itself.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Any

from reticent.errors import ReticentError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger import anchor as anchor_module
from reticent.kernel.ledger import store as store_module
from reticent.kernel.ledger.events import sha256
from reticent.kernel.ledger.ledger import Ledger

IDENTITY = {"domain": "crash", "records": 100}
COST = 10
WRITE = os.write


class Steps:
    """Counts steps and dies at the chosen one."""

    def __init__(self, fatal: int) -> None:
        self.count, self.fatal = 0, fatal

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Any) -> Any:
        def stepped(*arguments: Any, **options: Any) -> Any:
            self()
            result = function(*arguments, **options)
            self()
            return result

        return stepped


def arm(steps: Steps) -> None:
    """Route every call to the disk through the counter; in this process only."""

    class Connection(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            return steps.around(super().execute)(*arguments)

    connect = sqlite3.connect
    store_module.sqlite3.connect = lambda *a, **o: connect(*a, factory=Connection, **o)  # pyright: ignore
    store_module.open_locked = steps.around(store_module.open_locked)
    anchor_module.open_locked = steps.around(anchor_module.open_locked)
    anchor_module._flush = steps.around(anchor_module._flush)
    for name in ("write", "ftruncate", "fsync"):
        setattr(os, name, steps.around(getattr(os, name)))


def ask(ledger: Ledger, key: str, steps: Steps) -> str:
    """What the Curator does for a paid answer; the fresh noise is an unmistakable random text."""
    request = {"question": key}
    event = ledger.settled(key, "measure", request)
    if event is None:
        reservation = ledger.reserve(key, "measure", COST, request, analyst="ann")
        steps()
        noise = os.urandom(8).hex()
        steps()
        event = ledger.settle(reservation, {"value": noise}, blobs=[noise.encode()])
    value = event.payload["value"]
    assert ledger.get_blob(sha256(value.encode())) == value.encode()
    return value


def life(order: dict[str, Any], say: int) -> None:
    """One process: open, retry what it was told to, ask anew, run an epoch; everything it learns it says at once."""

    def tell(**fact: Any) -> None:
        WRITE(say, (json.dumps(fact) + "\n").encode())

    steps = Steps(order["fatal"])
    arm(steps)
    try:
        ledger = Ledger.open(
            order["path"],
            identity=IDENTITY,
            budget=Budget(rho=1),
            anchor=order["anchor"],
            accept_rollback=order.get("accept", False),
        )
        tell(spent=ledger.spent)
        for key in order["keys"]:
            try:
                tell(key=key, value=ask(ledger, key, steps), spent=ledger.spent)
            except ReticentError as error:
                tell(key=key, refused=str(error))
        if order["epoch"]:
            ledger.reserve(order["epoch"], "watch", COST, {"threshold": 1}, redeemable=False)
            tell(key=order["epoch"], below=True, spent=ledger.spent)
            ledger.append("note", {"epoch": order["epoch"]})
        ledger.verify()
        ledger.close()
        tell(steps=steps.count)
    except ReticentError as error:
        tell(error=str(error))


def serve(life: Callable[[dict[str, Any], int], None]) -> None:
    """One forked life for each line of orders; `patience` kills it after so many seconds."""
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            say = os.open(order["say"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                life(order, say)
            finally:
                os._exit(0)
        if order.get("patience"):
            time.sleep(order["patience"])
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"killed": os.WIFSIGNALED(status)}), flush=True)


if __name__ == "__main__":
    serve(life)
