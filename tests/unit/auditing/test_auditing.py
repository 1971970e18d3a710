"""The audit: its bounds are bounds, it is green on main, and each planted bug turns a line red."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.privacy import test_curator, test_minimizers, test_mutations
from tests.privacy import test_dualquery_exact as test_dualquery
from tests.privacy import test_session_exact as test_session

from reticent.auditing import DEEP, QUICK, Audit, Case, Effort, VerdictLine, all_cases, audit
from reticent.auditing.bounds import at_least, at_most, best_event, concentrated_loss, pure_loss
from reticent.auditing.cases import Runs, judge
from reticent.auditing.exact_checks import exact_lines
from reticent.auditing.programs import PROGRAMS
from reticent.kernel import statistics
from reticent.kernel.accounting import Price
from reticent.kernel.mechanisms.base import AboveThreshold, Gaussian, Laplace
from reticent.releases.dualquery import query_player
from reticent.releases.dualquery.plan import DualQueryPlan

FAILURE = 1e-3 / 27
FEW = Effort(seconds=30, runs=4000)
CASES = {case.name: case for case in all_cases()}


def line(name: str, effort: Effort = FEW) -> VerdictLine:
    return judge(CASES[name], effort, FAILURE)


# ---- bounds


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (1, 50), (20, 50), (50, 50), (300, 40_000)])
def test_clopper_pearson(hits: int, trials: int) -> None:
    low, high = float(at_least(hits, trials, 0.01)), float(at_most(hits, trials, 0.01))
    # at the bound itself, what was seen has exactly the stated chance
    if hits:
        assert stats.binom.sf(hits - 1, trials, low) == pytest.approx(0.01)
    else:
        assert low == 0
    if hits < trials:
        assert stats.binom.cdf(hits, trials, high) == pytest.approx(0.01)
    else:
        assert high == 1


@pytest.mark.parametrize("shift", [0.5, 2.0])
def test_concentrated_loss_of_a_gaussian_event_stays_below_its_rho_and_near_it(shift: float) -> None:
    thresholds = np.linspace(-2, 5, 40)
    losses = concentrated_loss(stats.norm.sf(thresholds - shift), stats.norm.sf(thresholds))
    assert losses.max() <= shift**2 / 2
    assert losses.max() >= 0.55 * shift**2 / 2


def test_losses_of_randomized_response() -> None:
    p, q = np.array(0.75), np.array(0.25)
    assert pure_loss(p, q) == pytest.approx(math.log(3))
    kl = 0.5 * math.log(3) * (1 - 1e-5)
    assert kl <= concentrated_loss(p, q) <= math.log(3) ** 2 / 2
    assert pure_loss(q, p) == concentrated_loss(q, p) == 0


def test_the_worst_event_is_found() -> None:
    random = np.random.default_rng(1)
    first, second = random.normal(0, 1, 5000), random.normal(1, 1, 5000)
    event = best_event((first, second), "epsilon", FAILURE)
    assert event.bound((first, second), "epsilon", FAILURE) > 0.8
    assert best_event((second, first), "epsilon", FAILURE).table != event.table


# ---- verdicts


def fair_and_lying(claimed: float) -> Case:
    random = np.random.default_rng(5)
    return Case("toss", "toy", "epsilon", lambda t: Runs((random.random(200) < (0.7, 0.3)[t]).astype(float), claimed))


def test_a_claim_below_what_runs_prove_is_red_and_a_true_one_green() -> None:
    true = math.log(7 / 3)
    assert judge(fair_and_lying(true), FEW, FAILURE).green
    red = judge(fair_and_lying(0.5), FEW, FAILURE)
    assert not red.green
    assert red.seen is not None
    assert 0.5 < red.seen <= true


def test_runs_charged_more_than_the_claim_do_not_count() -> None:
    """Else a rare expensive run, which the larger charge pays for, would look like a lie."""
    random = np.random.default_rng(6)
    calls = iter(range(10**6))

    def draw(table: int) -> Runs:
        late = next(calls) > 60
        return Runs(np.full(50, float(table)), 9.0) if late else Runs(random.random(50), 0.1)

    # 20 turns learn, with 50 runs on either table each; the expensive runs come while the event is counted
    found = judge(Case("rare", "toy", "epsilon", draw), Effort(seconds=30, runs=3000), FAILURE)
    assert (found.claimed, found.seen) == (0.1, 0)


def test_overall_verdict_names_what_is_red() -> None:
    mixed = Audit((VerdictLine("first", "g", True), VerdictLine("second", "g", False, note="why")))
    assert not mixed.green
    assert "second" in mixed.verdict
    assert "first" not in mixed.verdict
    assert Audit((VerdictLine("first", "g", True),)).green


def test_false_alarms_are_rarer_than_promised() -> None:
    """The true epsilon of a coin, audited often at a generous rate: red lines stay below it."""
    random = np.random.default_rng(7)
    case = Case(
        "coin",
        "toy",
        "epsilon",
        lambda t: Runs((random.random(400) < (0.6, 0.4)[t]).astype(float), math.log(1.5)),
    )
    red = sum(not judge(case, Effort(seconds=5, runs=600), 0.1).green for _ in range(300))
    assert red <= stats.binom.isf(1e-6, 300, 0.1)


FAST = ("Laplace, many", "Gaussian, many", "exponential mechanism", "release: MWEM", "session: default")


def test_main_is_green_and_every_case_runs() -> None:
    chosen = [case for case in CASES.values() if case.name.startswith(FAST)]
    heard: list[str] = []
    programs = {name: PROGRAMS[name] for name in ("release: MWEM",)}
    effort = Effort(seconds=0.2, runs=500)
    found = audit(effort, cases=chosen, programs=programs, listener=lambda name, *_: heard.append(name))
    assert found.green, found.verdict
    assert heard == [*programs, *(case.name for case in chosen)]
    figures = [entry for entry in found.to_dict()["lines"] if entry["claimed"] is not None]
    assert len(figures) == len(chosen)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(FAST)])
def test_each_other_case_runs(name: str) -> None:
    assert line(name, Effort(seconds=0.05, runs=20)).green


def test_efforts_take_two_minutes_and_an_hour() -> None:
    """Processor time by the cases' weights; the exact checks add seconds."""
    total = sum(case.weight for case in CASES.values())
    assert 60 <= total * QUICK.seconds <= 150
    assert 2400 <= total * DEEP.seconds <= 4500


def test_a_laplace_line_comes_close_to_its_claim() -> None:
    found = line("Laplace, many values at once", Effort(seconds=30, runs=100_000))
    assert found.seen is not None
    assert found.seen > 0.9


# ---- planted bugs

BUGS: dict[str, str] = {
    "Laplace sampler draws half the scale": "Laplace, many values at once",
    "Gaussian sampler draws half the scale": "Gaussian, many values at once",
    "single values are drawn at half the scale": "Laplace, single values",
    "the grid is forgotten: noise in units of the grid instead of records": "Laplace, many values at once",
    "scale halved before both noise and price are compared": "Gaussian, many values at once",
    "query noise without the factor 2": "threshold test, one-sided noise",
    "one-sided query noise without the factor 2": "threshold test, one-sided noise",
    "threshold noise halved": "threshold test, equal shares",
    "threshold noise left unpaid": "threshold test, equal shares",
    "permute-and-flip at the price e^2/8": "exponential mechanism, one against one",
    "price rounded down": "charges are rounded up",
    "pure price rounded down": "charges are rounded up",
    "sensitivity 1 where a marginal has 2": "sensitivities, one record replaced",
    "Laplace priced with L2 in place of L1": "marginal table, Laplace",
    "charge after sampling": "the ledger is charged before noise is drawn",
    "threshold redrawn free after a restart": "every threshold pays",
    "a shared epoch has noise for what it tests first": "an epoch's noise is for what it states",
    "compared value released": "only yes or no leaves a comparison",
    "cached noise reused for a different query": "two questions, two noises",
    "a bound taken from the data": "sensitivities, one record added",
    "a record counted in every group": "sensitivities, one record added",
    "blocks of codes that overlap": "sensitivities, one record added",
    "queries of a partition that overlap": "sensitivities, one record added",
    "the number of records in place of a query's rest": "sensitivities, one record added",
    "a residual counted twice": "sensitivities, one record added",
    "a residual's own price halved": "sensitivities, one record replaced",
    "the mean pair of records in place of the worst": "residuals together, one record replaced",
    "each residual priced by itself": "residuals together, one record replaced",
    "weights of residuals rounded down": "residuals together, one record added",
    "total variation without its larger half": "sensitivities, one record replaced",
    "a score's sensitivity halved": "sensitivities, one record replaced",
    "a key answers any question": "a key answers one question",
    "five draws at the price of one": "every selection pays",
    "factor 2 in output perturbation": "output perturbation",
    "gradient sensitivity L/n": "sums of gradients",
    "gradient sensitivity, transcript": "sums of gradients",
    "solver gap ignored": "minima, solver included",
    "unclipped gradient": "sums of gradients",
    "minimum over data released": "output perturbation",
    "excess risk moved by one": "sensitivities, one record replaced",
    "cross moments moved by one": "second moments",
    "a cell counted twice by a question": "sensitivities, one record replaced",
    "the sum of errors in place of an order statistic": "sensitivities, one record replaced",
    "a unit smaller than what one record moves": "sensitivities, one record replaced",
    "a phase left unpaid": "minima in phases",
    "phases in the unit of the next one": "minima in phases",
    "factor 2 in phases": "minima in phases",
    "step_not_divided_by_records": "DualQuery's rounds cost what was planned",
    "round_off_by_one": "DualQuery's rounds cost what was planned",
    "one_sided_sensitivity": "DualQuery's rounds cost what was planned",
    "weights not divided": "sensitivities, one record replaced",
    "FreeMeasurement": "Laplace, many values at once",
    "NarrowMeasurement": "Laplace, single values",
    "FreeSecondEpoch": "every threshold pays",
    "QuietThreshold": "threshold test, many below",
}
RUNS = {
    "Laplace, single values": 40_000,
    "threshold test, many below": 6000,
    "threshold test, equal shares": 16_000,
    "threshold test, one-sided noise": 24_000,
}
"""So many that the least divergence seen in dozens of runs lies well above what is claimed."""
Plant = Callable[[pytest.MonkeyPatch], None]


def _undivided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statistics.Scores, "__post_init__", lambda self: None)
    patch.setattr(query_player, "_relative", lambda weights: None if np.ptp(weights) == 0 else weights)


def _mechanism(bug: Callable[..., Any]) -> Plant:
    return lambda patch: patch.setattr(DualQueryPlan, "mechanism", bug)


def _narrow(patch: pytest.MonkeyPatch) -> None:
    release = Laplace.release
    patch.setattr(Laplace, "release", lambda self, counts, grid=1: release(Laplace(self.scale / 2), counts, grid))


def _second_epoch_free(patch: pytest.MonkeyPatch) -> None:
    paid: set[int] = set()
    original = AboveThreshold.price

    def price(self: AboveThreshold) -> Price:
        first = not paid
        paid.add(1)
        return original(self) if first else Price.free()

    patch.setattr(AboveThreshold, "price", price)


SESSION_BUGS: dict[str, Plant] = {
    "FreeMeasurement": lambda patch: patch.setattr(Laplace, "price", lambda self, sensitivity: Price.free()),
    "NarrowMeasurement": _narrow,
    "FreeSecondEpoch": _second_epoch_free,
    "QuietThreshold": lambda patch: patch.setattr(AboveThreshold, "threshold_scale", lambda self, s: Fraction(1, 1000)),
}
"""What tests/privacy/test_session_exact.py plants in its model of a session, planted in the kernel."""
DUALQUERY_BUGS = next(m.args[1] for m in test_dualquery.test_planted_bugs_are_caught.pytestmark if m.args[0] == "bug")
ELSEWHERE = {"a list of questions drawn from the table"}
"""Lines of the audit fix their list beforehand; tests/privacy/test_curator.py sees it."""
PLANTED: dict[str, Plant] = (
    {m.name: m.plant for m in test_mutations.MUTATIONS}
    | {name: plant for name, plant, _ in (*test_curator.MUTATIONS, *test_minimizers.BUGS) if name not in ELSEWHERE}
    | {bug.__name__: _mechanism(bug) for bug in DUALQUERY_BUGS}
    | {"weights not divided": _undivided}
    | {bug.__name__: SESSION_BUGS[bug.__name__] for bug, _ in test_session.BUGS}
)


def test_every_planted_bug_has_its_line() -> None:
    assert set(PLANTED) == set(BUGS)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_turns_a_line_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    wanted = BUGS[name]
    if wanted in CASES:
        fresh = next(case for case in all_cases() if case.name == wanted)
        assert not judge(fresh, Effort(seconds=60, runs=RUNS.get(wanted, 2500)), FAILURE).green
    else:
        found = next(entry for entry in exact_lines() if entry.name == wanted)
        assert not found.green
        assert found.note


def test_halved_noise_shows_in_a_whole_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "grid_scale", lambda self, grid: self.sigma * grid / 6)
    assert not judge(CASES["release: Adaptive"], Effort(seconds=60, runs=240), FAILURE).green
