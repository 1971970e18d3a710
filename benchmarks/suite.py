"""One suite in a process of its own, so that memory peaks and compiled state do not leak into the next."""

from __future__ import annotations

import os
import time
import traceback
from importlib import import_module
from queue import Empty
from typing import Any

from benchmarks.peers.environment import AS_FOUND

PATIENCE = 1.0


def measured(name: str, quick: bool, results: Any) -> None:
    """One suite in a fresh process; a failure is a result too."""
    start = time.perf_counter()
    if quick:
        os.environ[AS_FOUND] = "yes"
    try:
        found = import_module(f"benchmarks.{name}").run(quick)
        results.put({"found": found, "seconds": time.perf_counter() - start})
    except Exception as problem:
        traceback.print_exc()
        results.put({"failed": f"{type(problem).__name__}: {problem}", "seconds": time.perf_counter() - start})


def outcome_of(process: Any, queue: Any) -> dict[str, Any]:
    """What the suite reported, or that it died."""
    while True:
        try:
            outcome = queue.get(timeout=PATIENCE)
        except Empty:
            if process.is_alive():
                continue
            return {"failed": f"the process ended with code {process.exitcode}", "seconds": 0.0}
        process.join()
        return outcome
