"""The same call after any crash charges nothing twice and returns what was paid for, whatever the processor."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any

import pytest
from tests.faults.payments import (
    BUDGET,
    KEYED,
    OPERATIONS,
    RELEASES,
    ROWS,
    WORKLOAD,
    Disk,
    Killed,
    content,
    opened,
    other_processor,
    price,
)

import reticent as rt
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import NANO
from reticent.releases.release import Release

COLD: dict[str, Any] = {"warm_start": 0}


def charged(disk: Disk) -> int:
    return sum(disk.reserved().values())


def steps_of(name: str) -> int:
    """Writes of the operation, each with a step before and after."""
    disk = Disk()
    with opened(disk, **COLD) as session:
        disk.arm(0)
        OPERATIONS[name](session)
        steps = disk.steps  # closing counts anew
    assert steps > 0, "nothing was written: no place to die at"
    return steps


def killed_once(name: str, fatal: int, *, elsewhere: bool) -> None:
    """Die at one step, open again (perhaps on another processor), ask the same, and ask it once more."""
    disk, operation = Disk(), OPERATIONS[name]
    with opened(disk, **COLD) as session:
        before = charged(disk)
        disk.arm(fatal)
        with suppress(Killed):
            operation(session)
        disk.arm(0)
    lost = charged(disk) - before
    pending = {key for key in disk.reserved() if key not in settled(disk)}
    with other_processor() if elsewhere else nullcontext(), opened(disk, **COLD) as session:
        first = operation(session)
        paid = charged(disk) - before
        assert pending <= settled(disk), "what was charged before the crash is what is answered after it"
        again = operation(session)
        assert charged(disk) - before == paid, "the third call found everything"
    audits = [key for key in disk.reserved() if key.startswith("session:audit:")]
    assert len(audits) <= 1, "one audit a call"
    stated = round(price(first) * NANO)
    if name in KEYED:
        assert stated == paid, "a key states all that it ever paid"
        assert content(first) == content(again)
        assert price(first) == price(again)
    elif name != "audit":
        assert paid - lost <= stated <= paid, "what this call charged, and what it redeemed"
        assert price(again) == 0


def settled(disk: Disk) -> set[str]:
    return {str(event.key) for event in disk.events() if event.kind == "settle"}


def killed_release(name: str, deaths: tuple[int, ...], *, elsewhere: bool) -> None:
    """Die at these steps, one life after the other; then the same call comes to its end and stays there."""
    disk = Disk()

    def call() -> Release:
        with disk.ledger() as ledger:
            return rt.release(ROWS, WORKLOAD, BUDGET, algorithm=RELEASES[name], ledger=ledger)

    for fatal in deaths:
        disk.arm(fatal)
        with suppress(Killed):
            call()
    disk.arm(0)
    with other_processor() if elsewhere else nullcontext():
        first = call()
        paid = charged(disk)
        assert paid <= BUDGET.limit
        assert first.facts["charged_now"] <= paid
        second = call()
    assert charged(disk) == paid
    assert second.facts["charged_now"] == 0
    assert second.hypothesis.to_bytes() == first.hypothesis.to_bytes()
    for certificate in first.certificates:
        assert certificate.snapshot == Snapshot(first.hypothesis).digest


def release_steps(name: str) -> int:
    disk = Disk()
    with disk.ledger() as ledger:
        disk.arm(0)
        rt.release(ROWS, WORKLOAD, BUDGET, algorithm=RELEASES[name], ledger=ledger)
    return disk.steps


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_killed_in_the_middle_is_paid_once(name: str) -> None:
    steps = steps_of(name)
    for place in (1, 2):
        killed_once(name, max(1, place * steps // 3), elsewhere=place == 2)


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_killed_twice_in_one_step_still_ends(name: str) -> None:
    steps = release_steps(name)
    killed_release(name, (steps // 2,), elsewhere=True)
    # The second life opens a shorter way to the same step: whichever one it is, it may be lost for good.
    killed_release(name, (4, 4, 2), elsewhere=False)


def test_a_release_killed_twice_while_it_measures_its_typical_error_goes_without_it() -> None:
    """Its key was forfeited and no other was tried: the release could never be finished."""
    killed_release("Adaptive", (release_steps("Adaptive") - 1, 3), elsewhere=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same processor", "another"])
def test_a_thousand_kills(elsewhere: bool) -> None:
    kills = 0
    for name in OPERATIONS:
        for fatal in range(1, steps_of(name) + 1):
            killed_once(name, fatal, elsewhere=elsewhere)
            kills += 1
    for name in RELEASES:
        for fatal in range(1, release_steps(name) + 1):
            for again in (0, 1, 2, 3, 4):
                killed_release(name, (fatal, *([again] if again else [])), elsewhere=elsewhere)
                kills += 1 + bool(again)
    assert kills >= 500
