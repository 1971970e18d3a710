"""The long runs of `docs/evidence.md`, one command each, as many seeds as wanted:

    python -m tests.evidence.count ledger-histories 95000
    python -m tests.evidence.count server-histories 5000 --first 1000
    python -m tests.evidence.count replayed-pairs 10000
    python -m tests.evidence.count ledgers 2500

Every seed is a whole case: what is found is printed with its seed, and the command ends with 1. So it does where it was
interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
FIRST = 1000
"""Below it are the seeds of every commit's tests."""
EVERY = 30.0
"""Seconds of processor time between two lines."""
Case = Callable[[int], Counter[str]]
"""Runs one seed, says what was done, and raises AssertionError where a promise is broken."""


@contextmanager
def ledger_histories() -> Iterator[Case]:
    from tests.simulation import ledger_world

    def case(seed: int) -> Counter[str]:
        world = ledger_world.run(seed)
        return Counter({"answers that left": len(world.left), "scarred disks": int(world.scarred)})

    yield case


@contextmanager
def server_histories() -> Iterator[Case]:
    from tests.simulation import server_world

    yield lambda seed: Counter({"paid answers": len(server_world.run(seed).paid)})


@contextmanager
def replayed_pairs() -> Iterator[Case]:
    from tests.evidence.replayed import long_run_pair

    def case(seed: int) -> Counter[str]:
        name, replay = long_run_pair(seed)
        return Counter({"draws": replay.draws, name: 1})

    yield case


@contextmanager
def ledgers() -> Iterator[Case]:
    from tests.evidence.compared_ledgers import compared

    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield lambda seed: compared(seed, Path(folder))


KINDS = {
    "ledger-histories": ledger_histories,
    "server-histories": server_histories,
    "replayed-pairs": replayed_pairs,
    "ledgers": ledgers,
}


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Signals that came: none is raised within a case, where it would be one more fault of a disk."""
    came: list[int] = []
    codes = (signal.SIGINT, signal.SIGTERM)
    kept = {code: signal.signal(code, lambda number, _: came.append(number)) for code in codes}
    try:
        yield came
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def count(kind: str, number: int, first: int = FIRST) -> tuple[int, list[str]]:
    """How many seeds were run, and what they found; a line now and then says how far it is.

    An interrupt ends it early, with the same last line: `--first` goes on from there.
    """
    done: Counter[str] = Counter()
    found: list[str] = []
    start = told = time.process_time()
    seed = first
    with KINDS[kind]() as case, interrupts() as interrupted:
        while seed < first + number and not interrupted:
            try:
                done += case(seed)
            except Exception as problem:  # a run that cannot be carried out is a finding too
                found.append(f"seed {seed}: {type(problem).__name__}: {problem}")
                print(f"{kind}: {found[-1]}", flush=True)
            seed += 1
            now = time.process_time()
            if now - told > EVERY:
                told = now
                print(f"{kind}: {seed - first:,} seeds, {len(found)} findings, {now - start:.0f} s", flush=True)
    spent, run = time.process_time() - start, seed - first
    print(f"{kind}: {run:,} seeds from {first}, {len(found)} findings, {spent:.0f} s of processor time; {dict(done)}")
    return run, found


def main() -> int:
    parser = argparse.ArgumentParser(description="The long runs of docs/evidence.md.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("number", type=int)
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    chosen = parser.parse_args()
    run, found = count(chosen.kind, chosen.number, chosen.first)
    return int(bool(found) or run < chosen.number)


if __name__ == "__main__":
    sys.exit(main())
