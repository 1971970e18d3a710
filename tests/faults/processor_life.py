"""One process of its own processor setting: runs a release and paid operations on a file, dies at a chosen write.

Called as `processor_life.py FOLDER FATAL`; prints what it came to. `NUMBA_CPU_NAME` says what the compiler may use.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.faults.payments import BUDGET, OPERATIONS, ROWS, WORKLOAD, content, price

import reticent as rt
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.ledger.events import Event
from reticent.kernel.ledger.store import SqliteStore
from reticent.sessions.session import Session

ASKED = ("keyed mean", "batch", "keyed failed audit", "losses", "audit")


def main(folder: Path, fatal: int) -> None:
    append, steps = SqliteStore.append, 0

    def counted(self: SqliteStore, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        nonlocal steps
        for after in (False, True):
            if after:
                append(self, event, blobs)
            steps += 1
            if steps == fatal:
                os._exit(9)

    SqliteStore.append = counted
    release = rt.release(ROWS, WORKLOAD, BUDGET, ledger=folder / "release.ledger")
    told: dict[str, object] = {"release": Snapshot(release.hypothesis).digest, "charged": release.facts["charged_now"]}
    told["certified"] = [certificate.snapshot for certificate in release.certificates]
    with Session.open(folder / "session.ledger", ROWS, BUDGET, warm_start=0) as session:
        for name in ASKED:
            before = session.spent
            result = OPERATIONS[name](session)
            told[name] = [price(result), session.spent - before, repr(content(result))]
    print(json.dumps(told | {"steps": steps}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
