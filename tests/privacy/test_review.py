"""What a hostile reading found once: every case here broke privacy, or a certified bound, before it was fixed."""

from __future__ import annotations

import math
import shutil
import sqlite3
import threading
import time
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reticent.domain import Domain, Numeric
from reticent.errors import LedgerError, QueryError
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.events import canonical, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import AboveThreshold, Gaussian, Laplace
from reticent.kernel.minimizers.excess_risk import ExcessRisk
from reticent.kernel.statistics import AnswerErrors, CellScores, LinearCount, MaxError
from reticent.kernel.table import Table, exact_counts
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.measured import MeasuredQuery
from reticent.knowledge.tails import RECORDS_FAILURE, counted
from reticent.losses.losses import Logistic
from reticent.queries.forms import Dense
from reticent.queries.linear import Count, Marginal, Mean, Range
from reticent.queries.workload import marginals
from reticent.releases.adaptive import Adaptive
from reticent.releases.dualquery.dualquery import DualQuery
from reticent.releases.mwem import MWEM
from reticent.releases.release import release
from reticent.sessions.session import Session
from reticent.sources import Table as SourceTable

DOMAIN = Domain({"a": 3, "b": 1})
SMALL = {"a": 3, "b": 4, "c": 2}
WATCH = AboveThreshold(threshold_epsilon=Fraction(1, 100), query_epsilon=Fraction(1, 100))


def table(codes: list[int]) -> Table:
    columns = {"a": np.array(codes), "b": np.zeros(len(codes), dtype=np.int64)}
    return Table(Records.of_codes(DOMAIN, columns, np.ones(len(codes), dtype=np.int64)), DOMAIN, records=len(codes))


def curator(of: Table) -> Curator:
    return Curator(of, Ledger.memory(Budget(rho=1), of.identity))


# -- guesses whose sums leave int64 --------------------------------------------------------------------------------


@pytest.mark.parametrize("guess", [2.0**43, -(2.0**44) + 7, 2.0**60, float("nan")])
def test_a_huge_guess_is_refused_by_its_public_value(guess: float) -> None:
    """An overflow raised or not by the exact count, before anything was charged: a free oracle."""
    guesses = (np.array([guess, 0.0, 0.0]),)
    verdicts = set()
    for codes in ([0, 0, 1], [0, 1, 1], [1, 1, 1]):
        for statistic in (
            CellScores((("a",),), guesses),
            MaxError("boxes", (("a",),), guesses),
        ):
            try:
                statistic.evaluate(exact_counts(table(codes)), 1)
            except Exception as problem:
                verdicts.add((type(statistic), type(problem), str(problem)))
    assert {kind for kind, _, _ in verdicts} == {CellScores, MaxError}
    assert len(verdicts) == 2
    assert all(kind is QueryError for _, kind, _ in verdicts)


# -- statistics of another domain ----------------------------------------------------------------------------------


def test_a_query_of_another_shape_is_refused() -> None:
    """Broadcasting a column of size one against four values counted every record four times."""
    other = Domain({"a": 3, "b": 4})
    errors = AnswerErrors((Range({"b": (0, 3)}),), np.zeros(1), other)
    with pytest.raises(QueryError, match="another domain"):
        curator(table([0, 1])).measure([errors], Laplace(1))
    with pytest.raises(QueryError, match="shape"):
        LinearCount(Range({"b": (0, 3)}), other).evaluate(exact_counts(table([0, 1])), 1)


class Quiet:
    """Claims a price that its noise does not earn."""

    def price(self, sensitivity: object) -> Price:
        return Price.free()

    def describe(self) -> dict[str, str]:
        return {}

    def release(self, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        return counts


class Loud(Dense):
    """Says that its values lie in [0, 1]."""

    @property
    def range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 0.0, 1.0

    def tensor(self) -> np.ndarray:
        return 1000 * self.values


class Claim(Range):
    def _compile(self, domain: Domain) -> Dense:
        return Loud(("a",), np.ones(3))


def test_only_the_kernels_own_mechanisms_and_forms_are_believed() -> None:
    held = curator(table([0, 1]))
    with pytest.raises(QueryError, match="not of the kernel"):
        held.measure([Range({"a": (0, 1)})], Quiet())  # pyright: ignore[reportArgumentType]
    with pytest.raises(QueryError, match="not a form"):
        held.measure([Claim({"a": (0, 1)})], Laplace(1))
    assert held.remaining == held.budget.limit


# -- epochs --------------------------------------------------------------------------------------------------------


def test_an_epoch_serves_only_the_table_whose_ledger_paid() -> None:
    errors = AnswerErrors((Range({"a": (0, 1)}),), np.zeros(1), DOMAIN)
    paid, other = curator(table([0, 1])), curator(table([0, 2]))
    epoch = paid.watch(10.0, WATCH)
    paid.exceeds(errors, epoch)
    with pytest.raises(QueryError, match="paid for elsewhere"):
        other.exceeds(errors, epoch)


def test_threads_that_meet_a_fresh_epoch_share_one_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    original = AboveThreshold.open

    def slow(self: AboveThreshold, threshold: int, sensitivity: int) -> object:
        drawn.append(threshold)
        time.sleep(0.05)
        return original(self, threshold, sensitivity)

    monkeypatch.setattr(AboveThreshold, "open", slow)
    held = curator(table([0, 1]))
    epoch = held.watch(1e6, WATCH)
    errors = AnswerErrors((Range({"a": (0, 1)}),), np.zeros(1), DOMAIN)
    threads = [threading.Thread(target=held.exceeds, args=(errors, epoch)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 1


# -- floats that cancel --------------------------------------------------------------------------------------------


def excess_risk(radius: float, size: int) -> ExcessRisk:
    domain = Domain({"a": 5, "y": 2})
    loss = Logistic(features=["a"], label="y", radius=radius, positive=1)
    problem = loss.on(domain)
    theta = np.zeros(problem.dimension)
    theta[0] = radius
    return ExcessRisk((loss,), (theta,), (problem.scale,), domain, float(size))


@pytest.mark.parametrize("radius", [1e-14, 1e-9, 1e-6])
def test_a_loss_that_hardly_varies_is_refused(radius: float) -> None:
    """Risks of order one were subtracted and divided by a range of 1e-14: neighbours lay 400 records apart."""
    with pytest.raises(QueryError, match="larger radius"):
        excess_risk(radius, 20_000)


@pytest.mark.parametrize("radius", [1e-4, 1e-2, 1.0])
def test_excess_risk_moves_no_further_than_stated_on_small_balls(radius: float) -> None:
    size, moved, generator = 20_000, [], np.random.default_rng(0)
    risk = excess_risk(radius, size)
    codes = {"a": generator.integers(0, 5, size), "y": generator.integers(0, 2, size)}
    for first, second in ((0, 0), (0, 1), (4, 0), (4, 1), (2, 1)):
        codes["a"][0], codes["y"][0] = first, second
        source = Records.of_codes(risk.domain, codes, np.ones(size, dtype=np.int64))
        moved.append(int(risk.evaluate(source, 1)) / risk.resolution(1))
    assert max(moved) - min(moved) <= risk.sensitivity("replace-one").l1


def test_excess_risk_counts_its_float_error_against_the_records() -> None:
    excess_risk(1e-4, 10**5)
    with pytest.raises(QueryError, match="varies too little"):
        excess_risk(1e-4, 10**9)


# -- the anchor ----------------------------------------------------------------------------------------------------


def test_a_forged_recovery_does_not_get_around_the_anchor(tmp_path: Path) -> None:
    """Whoever can write the file alone could end an old copy with a `rollback` that names the anchored head."""
    path, anchor, old = tmp_path / "l", tmp_path / "elsewhere", tmp_path / "old"
    terms = {"identity": {"name": "t"}, "budget": Budget(rho=1), "anchor": anchor}
    Ledger.open(path, **terms).close()
    shutil.copy(path, old)
    with Ledger.open(path, **terms) as ledger:
        for place in range(3):
            ledger.settle(ledger.reserve(f"k{place}", "measure", 300_000_000, {}), {"values": []})
    with sqlite3.connect(path) as newest:
        sequence, head = newest.execute("SELECT sequence, digest FROM events ORDER BY sequence DESC").fetchone()
    newest.close()
    shutil.copy(old, path)
    for left in (path.with_name("l-wal"), path.with_name("l-shm")):
        left.unlink(missing_ok=True)
    with sqlite3.connect(path) as forged:
        place, previous = forged.execute("SELECT sequence, digest FROM events ORDER BY sequence DESC").fetchone()
        while place <= sequence:
            place += 1
            kind, payload = ("note", {}) if place <= sequence else ("rollback", {"head": head})
            link = {"sequence": place, "previous": previous, "at": 0, "kind": kind, "payload": payload}
            body = canonical(link | {"key": None, "analyst": None, "cost": 0})
            previous = sha256(body.encode())
            forged.execute("INSERT INTO events VALUES (?, ?, ?)", (place, body, previous))
    forged.close()
    with pytest.raises(LedgerError, match="forgets charges"):
        Ledger.open(path, **terms)
    with Ledger.open(path, **terms, accept_rollback=True) as ledger:
        assert ledger.remaining == 0


# -- values on the grid --------------------------------------------------------------------------------------------


def test_fractional_values_beside_a_person_grid_are_fine_enough() -> None:
    """Query values were rounded to 1/32 beside the largest person grid: a certified mean was off by six errors."""
    domain = Domain(age=Numeric(edges=list(range(21)), other=False))
    rows = pa.table({"age": np.full(1000, 3.5), "id": np.arange(1000)})
    held = SourceTable.of(rows, domain, person="id", records=1000)
    statistic = LinearCount(Mean("age"), domain)
    grid = statistic.resolution(held.grid) * held.grid
    assert int(statistic.evaluate(exact_counts(held), held.grid)) / grid == pytest.approx(
        1000 * 0.175, abs=1000 * 2.0**-19
    )


def people(rows: int, **facts: Any) -> SourceTable:
    generator = np.random.default_rng(3)
    columns = {name: generator.integers(0, size, rows) for name, size in SMALL.items()}
    return SourceTable.of(pa.table(columns), Domain(SMALL), **facts)


def test_a_certified_mean_of_persons_holds() -> None:
    domain = Domain(age=Numeric(edges=list(range(21)), other=False))
    rows = pa.table({"age": np.full(20_000, 3.5), "id": np.arange(20_000)})
    held = SourceTable.of(rows, domain, person="id", records=20_000)
    with Session.open(None, held, Budget(rho=0.5), warm_start=0.0) as session:
        answer = session.ask(Mean("age"), error=0.52, confidence=0.999999)
    assert answer.certified
    assert abs(answer.value - 3.5) <= answer.error


# -- a private number of records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [DualQuery(rounds=8), MWEM(rounds=4), Adaptive(audit_share=0)])
def test_a_private_size_is_never_stated_as_exact(algorithm: Any) -> None:
    """COUNT(*) of a release without certificates was the noisy total with an error of zero, at probability one."""
    released = release(
        people(400, neighbours="add-remove"), marginals(Domain(SMALL), 2), Budget(rho=0.05), algorithm=algorithm
    )
    table = released.ask("SELECT COUNT(*) FROM people")
    assert abs(table.rows[0][0] - 400) <= table.errors[0][0]
    assert table.errors[0][0] > 0
    assert table.confidence < 1
    assert released.knowledge.records_error > 0


@pytest.mark.parametrize(("pure", "noise"), [(True, Laplace(10)), (False, Gaussian(10))])
def test_a_released_size_strays_as_rarely_as_its_bound_says(pure: bool, noise: Laplace | Gaussian) -> None:
    """Five standard deviations are one in two million for Gaussian noise, and one in 1,200 for Laplace noise."""
    count, error = counted(1000.0, noise.sd, pure=pure)
    reached = error * count
    tail = math.exp(-reached / 10) if pure else 2 * (1 - NormalDist().cdf(reached / 10))
    assert tail <= RECORDS_FAILURE


def test_a_size_that_is_hardly_known_certifies_nothing() -> None:
    count, error = counted(20.0, 50.0, pure=False)
    assert error > 1
    measured = MeasuredQuery(Count(), 1.0, Gaussian(1), 1, True)
    assert measured.error_at(0.95, count, error) > 1
    certificate = Certificate("cells", (("a",),), "x", 0.0, Gaussian(1).describe(), 0.0, count, error, 1, 0.95)
    assert certificate.bound == math.inf


def test_confidence_beyond_that_of_the_size_is_not_promised() -> None:
    measured = MeasuredQuery(Count(), 1.0, Gaussian(1), 1, True)
    assert measured.error_at(1 - 1e-9, 1000.0, 0.0) < math.inf
    assert measured.error_at(1 - 1e-9, 1000.0, 0.01) == math.inf


# -- sessions --------------------------------------------------------------------------------------------------------


def test_a_resumed_threshold_engine_keeps_the_confidence_it_was_planned_for(tmp_path: Path) -> None:
    """The stated confidence was that of the last opening, the constants those of the first."""
    held, budget = people(200_000), Budget(epsilon=2.0, delta=1e-9)
    for confidence in (0.5, 0.99999):
        path = tmp_path / "ledger"
        with Session.open(path, held, budget, engine="tuned", queries=50, confidence=confidence) as session:
            assert session.ask(Range({"a": (0, 1)})).confidence == 0.5


def test_what_was_measured_on_a_sample_certifies_nothing_about_the_table() -> None:
    held = people(5_000)
    algorithm = DualQuery(rounds=4, sample=20, refine=0.9)
    released = release(held, marginals(Domain(SMALL), 1), Budget(rho=50), algorithm=algorithm)
    with Session.open(None, held, Budget(rho=1), start=released) as session:
        assert not session.ask(Marginal(("b",))).certified
