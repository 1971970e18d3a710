"""Thousands of simulated histories break no promise of the ledger; with a durability bug planted, some soon do.

A failing seed is a whole history: `python -c "from tests.simulation.ledger_world import run; run(SEED)"` repeats it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("apsw", reason="apsw brings the SQLite that runs on a simulated disk: pip install apsw")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated files are those of a POSIX system")

from tests.evidence.count import count  # noqa: E402
from tests.simulation import ledger_world, server_world  # noqa: E402
from tests.simulation.durability_bugs import BUGS  # noqa: E402
from tests.simulation.ledger_world import Violation, World  # noqa: E402
from tests.simulation.server_world import ServerWorld  # noqa: E402

from reticent.kernel.ledger.chain import ChainWriter  # noqa: E402

FEW = 120
MANY = {"ledger-histories": 95_000, "server-histories": 5_000}
"""10^5 in all; one of a server takes three times as long."""
WITHIN = 1000
KEPT = (
    98,  # the name of an anchor that a killed process had made was never flushed
    156,
    490,  # a log that a killed process had not flushed was answered from, and lost with the power
    81118,  # a mark that a killed process had not flushed was trusted, while the next one tore the other
    235761,  # an anchor cut within the beginning of a slot was taken for another file: no loss could be accepted
    1369,  # an anchor whose second slot a lying disk had lost was taken for another program's file
    1482,  # the same of an anchor that was all zeros
)
"""Histories of the ledger that failed before what they found was mended."""
RARE = ("leftovers of a killed process not flushed",)
"""Bugs that take some hundreds of histories to show."""
NAMED = ("sync skipped", "settle before charge", "anchor late", "rollback accepted", "double settle", "torn header")


def test_no_promise_of_the_ledger_is_broken() -> None:
    """Crashes, redemptions, refusals and accepted losses all happen among these histories, and none of them hurts."""
    seen: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            seen[name] += 1
            return function(*arguments, **options)

        return called

    append = ChainWriter.append

    def noted(self: Any, kind: str, *arguments: Any, **options: Any) -> Any:
        seen[kind] += 1
        return append(self, kind, *arguments, **options)

    with (
        patch.object(ChainWriter, "append", noted),
        patch.object(World, "accepted", counted("accepted", World.accepted)),
        patch.object(World, "leave", counted("answer", World.leave)),
        patch.object(ledger_world.Machine, "lose_power", counted("power", ledger_world.Machine.lose_power)),
    ):
        worlds = [ledger_world.run(seed) for seed in [*range(FEW), *KEPT]]
    wanted = {"answer": 200, "settle": 150, "power": 100, "accepted": 15, "redeem": 5, "forfeit": 5, "rollback": 10}
    wanted |= {"checkpoint": 30, "cap": 20, "note": 20}
    assert not {name: seen[name] for name, least in wanted.items() if seen[name] < least}, seen
    assert sum(world.scarred for world in worlds) < FEW / 5, "most disks keep what they have flushed"


def test_no_promise_of_the_server_is_broken() -> None:
    answers = [len(server_world.run(seed).paid) for seed in range(8)]
    assert sum(answers) > 10


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("kind", MANY)
def test_no_promise_is_broken_in_a_hundred_thousand_histories(kind: str) -> None:
    assert count(kind, MANY[kind]) == (MANY[kind], [])


def found_at(world: Any, bug: str) -> int | None:
    """The first seed that shows a planted bug."""
    for seed in range(WITHIN):
        try:
            world.run(seed, BUGS[bug])
        except Violation:
            return seed
    return None


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug not in RARE])
def test_planted_bugs_break_one(bug: str) -> None:
    assert found_at(ledger_world, bug) is not None


@pytest.mark.slow
@pytest.mark.parametrize("bug", RARE)
def test_rare_planted_bugs_break_one_within_a_thousand_histories(bug: str) -> None:
    assert found_at(ledger_world, bug) is not None


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bug", NAMED)
def test_planted_bugs_show_in_what_a_server_answers(bug: str) -> None:
    assert found_at(server_world, bug) is not None


def test_a_seed_is_a_whole_history() -> None:
    """The same seed gives the same noise, the same crashes and the same end."""

    def told(world: World | ServerWorld) -> tuple[Any, ...]:
        answers = world.left if isinstance(world, World) else world.paid
        return world.spent, world.machine.clock, dict(answers), world.rng.random()

    for world, seed in ((ledger_world, 5), (ledger_world, 7), (server_world, 1)):
        assert told(world.run(seed)) == told(world.run(seed))
