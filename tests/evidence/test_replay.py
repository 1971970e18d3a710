"""Record and replay over random and adversarial neighbours finds nothing on this code, and every planted bug."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.evidence.count import count
from tests.evidence.replayed import ALL
from tests.evidence.sensitivity_bugs import BUGS, Planted

from reticent.auditing import programs
from reticent.auditing.neighbours import EVERY, neighbourhood, random_domain, some_loss
from reticent.auditing.observation import kernel_minimizers, kernel_statistics
from reticent.auditing.programs import MAKERS, PROGRAMS, Program, attempt, verbs
from reticent.auditing.replay import Divergence, Replay, record_and_replay, replay_line, replay_pair
from reticent.domain import Domain, Numeric
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records, Subsample
from reticent.kernel.curator import Curator
from reticent.kernel.discovery.medians import MedianScores
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import MECHANISMS, Gaussian, Thresholded
from reticent.kernel.minimizers.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.minimizers.families import NoisyGradientDescent
from reticent.kernel.numeric_sums import ClippedSums
from reticent.kernel.table import Table
from reticent.losses.losses import LOSSES
from reticent.queries.groups import Groups
from reticent.queries.linear import Count
from reticent.queries.predicate import col
from reticent.sessions.session import Session
from reticent.sources import Table as SourceTable
from reticent.sources.on_demand import OnDemand

PAIRS = 10_000
LITTLE = {ExcessRisk: 0.05, ExcessRisks: 0.05}
"""Of risks one record seldom moves both the minimum and the loss of a guess as far as it could."""
ELSEWHERE = (MedianScores,)
"""Of undeclared columns: the program of discovery."""
TRIES = 120
"""Pairs within which a planted bug must show."""


def part_of(kind: type) -> Program:
    """The verbs on one part of the kernel."""
    return replace(PROGRAMS["kernel verbs"], run=partial(verbs, kinds=(kind,)))


@pytest.mark.parametrize("name", ALL)
def test_runs_depend_on_rows_through_released_values_alone(name: str) -> None:
    assert sum(replay_pair(ALL[name], seed).draws for seed in range(2)) > 0


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_ten_thousand_pairs() -> None:
    assert count("replayed-pairs", PAIRS) == (PAIRS, [])


# ---- pairs that once differed: one of two neighbours is counted by a database, the other one is held in memory

HIDING = Domain(size=Numeric(edges=[0, 1, 10], other=False), kind=3)
ROWS = {"who": [1, 2], "size": [0.2, 0.2], "kind": [0, 0]}
OTHER = {**ROWS, "size": [0.2, 7.5]}
"""Two distinct records instead of one."""


def one_held(**facts: Any) -> tuple[SourceTable, SourceTable]:
    first, second = (SourceTable.of(pa.table(rows), HIDING, hold=1, **facts) for rows in (ROWS, OTHER))
    assert isinstance(first._source, Records)
    assert isinstance(second._source, OnDemand)
    return first, second


@pytest.mark.parametrize("column", ["size", "kind"])
@pytest.mark.parametrize("facts", [{}, {"numbers": True}, {"person": "who", "rows": "bounded", "most": 1}])
def test_sums_of_numbers(column: str, facts: dict[str, Any]) -> None:
    """A sum of numbers without bins did not run where a database counts; one of hidden numbers ran only there."""

    def run(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
        curator = Curator(table, Ledger.memory(identity=table.identity, budget=budget))
        sums = ClippedSums(Groups(("kind",), col("kind") >= 1, column), HIDING)
        yield attempt(lambda: list(curator.measure([sums], Gaussian(1000)).values))
        yield curator.has_numbers(column)

    first, second = one_held(**facts)
    record_and_replay(run, first, [second], Budget(rho=1))
    record_and_replay(run, second, [first], Budget(rho=1))


def test_averages_in_sql() -> None:
    """Of the rows' own numbers where a database counts, within their bins where not: refused in other words."""

    def run(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
        session = Session.open(None, table, budget, warm_start=0.0)
        yield attempt(lambda: session.ask("SELECT AVG(size) FROM t WHERE kind >= 0", error="30%"))

    first, second = one_held()
    record_and_replay(run, first, [second], Budget(rho=0.5))


def test_samples() -> None:
    """Which only tables in memory have, was refused by the number of distinct records."""

    def run(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
        yield attempt(lambda: Subsample(table, 1).records)

    first, second = one_held()
    record_and_replay(run, first, [second], Budget(rho=1))


# ---- everything that the kernel computes from rows takes part


def test_everything_the_kernel_computes_is_listed() -> None:
    """A new statistic or minimiser fails here until `MAKERS` says how to make one."""
    assert set(MAKERS) | set(ELSEWHERE) == {*kernel_statistics(), *kernel_minimizers()}


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_every_part_is_replayed_on_neighbours_that_it_tells_apart(kind: type) -> None:
    """Some pair tells a good part of what was paid for: else a sensitivity could be wrong unseen."""
    program, share, enough = part_of(kind), 0.0, LITTLE.get(kind, 0.5)
    for seed in range(TRIES):
        replay = replay_pair(program, seed)
        share = max(share, replay.share)
        if kind in replay.parts and share > enough:
            return
    pytest.fail(f"{share:.2f} of a price told in {TRIES} pairs")


@pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: loss.kind)
def test_every_loss_is_minimised_on_neighbours_that_it_tells_apart(loss: type, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loss in EVERY
    monkeypatch.setattr(programs, "some_loss", lambda rng, domain, *kinds: some_loss(rng, domain, loss))
    for part in (NoisyGradientDescent, ExcessRisk):
        shares = (replay_pair(part_of(part), seed).share for seed in range(TRIES))
        # From zero a class' gradient is at most half of what its slope allows: a quarter of the price.
        assert any(share > LITTLE.get(part, 0.2) for share in shares), part.__name__


def test_every_mechanism_takes_part() -> None:
    used: set[type] = set()
    for seed in range(TRIES):
        used |= replay_pair(PROGRAMS["kernel verbs"], seed).parts | replay_pair(PROGRAMS["discovery"], seed).parts
        if used >= {*MECHANISMS.values(), Thresholded, MedianScores}:
            return
    pytest.fail(f"never used: {set(MECHANISMS.values()) - used}")


# ---- planted bugs


def caught(planted: Planted) -> str | None:
    for seed in range(TRIES):
        try:
            replay_pair(planted.program, seed)
        except Divergence as difference:
            return str(difference)
    return None


@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.name)
def test_planted_bugs_are_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch)
    assert caught(planted) is not None


def peeking(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
    """A program that looks at its rows past the curator."""
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=budget))
    if table._source.marginal(table.domain.names[:1]).ravel()[0] > 3:
        yield curator.measure([Count().resolve(table.domain)], Gaussian(1000)).values


def replayed(run: object, seed: int) -> Replay:
    rng = random.Random(seed)
    made = neighbourhood(rng, random_domain(rng), "add-remove", "record")
    return record_and_replay(run, made.table, made.others, Budget(rho=1), seed)  # type: ignore[arg-type]


def test_a_program_that_reads_rows_itself_is_seen() -> None:
    with pytest.raises(Divergence, match="outside the curator's verbs"):
        replayed(peeking, 1)


def test_a_line_of_the_audit_says_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from reticent.auditing.cases import Effort

    program = PROGRAMS["release: MWEM"]
    green = replay_line("MWEM", program, Effort(seconds=0.01))
    assert green.green
    assert green.note.startswith("3 pairs")
    next(planted for planted in BUGS if planted.name == "draws counted by the rows").plant(monkeypatch)
    red = replay_line("MWEM", program, Effort(seconds=5))
    assert not red.green
    assert "recorded" in red.note
