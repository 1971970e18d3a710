"""Whole sessions of the textbook engines, enumerated exactly: no transcript tells neighbours apart beyond its price."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.privacy.session_model import Scripted, neighbours, small_plan, tables, transcripts

import reticent as rt
from reticent.domain import Domain
from reticent.kernel.mechanisms.base import AboveThreshold, Laplace
from reticent.planning.thresholds import EpochPlan
from reticent.queries.base import Linear
from reticent.sessions.epochs import Epochs

DOMAIN = Domain({"x": 3})
RECORDS = 2
QUESTIONS = 3
FLOAT = 1e-9
TIGHT = 0.6
"""The worst transcript uses at least this share of its price; less would mean that the check sees too little."""
FIRST = [rt.count(rt.col("x") == 0), rt.count(rt.col("x") == 1), rt.count(rt.col("x") <= 1)]
SECOND = [rt.count(rt.col("x") == 2), rt.count(rt.col("x") >= 1), rt.count(rt.col("x") == 0)]


def analyst(answers: list[float]) -> Linear:
    """Adaptive: what comes next depends on what came out."""
    return (FIRST if sum(answers) < 0.5 else SECOND)[len(answers)]


X = rt.col("x")
WORDINGS = [rt.count(p) for p in (X == 0, X < 1, X <= 0, (X < 1) & (X <= 1))]
assert len({query.digest for query in WORDINGS}) == len(WORDINGS)
"""One question in many words, so that each gets a test of its own."""


def insistent(answers: list[float]) -> Linear:
    return WORDINGS[len(answers)]


def worst_loss(plan: EpochPlan, curator: type[Scripted] = Scripted) -> tuple[float, float]:
    """The largest of abs(log ratio) - price over all transcripts and neighbours, and the largest share of a price."""
    every = tables(3, RECORDS)
    pairs = neighbours(every)
    excess, share, total = -math.inf, 0.0, np.zeros(len(every))
    watched = plan.epochs > 2
    asks, questions = (insistent, len(WORDINGS)) if watched else (analyst, QUESTIONS)
    for played in transcripts(DOMAIN, RECORDS, plan, asks, questions, curator):
        chances = np.array([played.probability(counts) for counts in every])
        total += chances
        price = played.epsilon()
        for i, j in pairs:
            loss = math.log(chances[i] / chances[j])
            excess = max(excess, loss - price)
            share = max(share, loss / price)
    assert np.allclose(total, 1, atol=1e-9), "all transcripts were found"
    return excess, share


MEASURED = {"threshold_epsilon": 0.1, "query_epsilon": 0.1, "scale": 0.5}
"""Nearly all of the price is the measurements'."""
WATCHED = {"threshold_epsilon": 0.5, "query_epsilon": 1, "scale": 50, "threshold": 12, "epochs": 9}
"""Nearly all of the price is the epochs', in the regime where every "above" tells much."""


@pytest.mark.parametrize("tuned", [False, True], ids=["textbook", "tuned"])
@pytest.mark.parametrize("constants", [{}, MEASURED, WATCHED], ids=["mixed", "measured", "watched"])
def test_no_transcript_loses_more_than_it_paid(tuned: bool, constants: dict[str, Any]) -> None:
    excess, share = worst_loss(small_plan(tuned=tuned, **constants))
    assert excess <= FLOAT
    if constants is MEASURED:
        assert share >= TIGHT


class FreeMeasurement(Scripted):
    """Bug: the answer after "above" is not charged."""

    def epsilon(self) -> float:
        return super().epsilon() - sum(1 / float(noise.scale) for _, noise, _ in self.measured)


class FreeSecondEpoch(Scripted):
    """Bug: only the first epoch is charged."""

    def epsilon(self) -> float:
        later = [run.mechanism for run in self.runs[1:]]
        return super().epsilon() - sum(float(m.threshold_epsilon + m.query_epsilon) for m in later)


class NarrowMeasurement(Scripted):
    """Bug: the noise is half as wide as its price says."""

    def measure(self, queries: Any, noise: Laplace, **options: Any) -> Any:
        settled = super().measure(queries, noise, **options)
        self.measured[-1] = (queries[0], _Narrow(noise), self.measured[-1][2])
        return settled

    def epsilon(self) -> float:
        return super().epsilon() - sum(0.5 / float(noise.scale) for _, noise, _ in self.measured)


class _Narrow:
    def __init__(self, noise: Laplace) -> None:
        self.scale = noise.scale / 2


class QuietThreshold(Scripted):
    """Bug: the threshold gets no noise of its own, so every "below" tells something."""

    def watch(self, threshold: float, mechanism: AboveThreshold, *, key: str, analyst: Any = None) -> Any:
        query_epsilon = mechanism.query_epsilon
        quiet = AboveThreshold(threshold_epsilon=1000, query_epsilon=query_epsilon)
        return super().watch(threshold, quiet, key=key)

    def epsilon(self) -> float:
        return super().epsilon() - (1000 - 0.5) * len(self.runs)


BUGS = [
    (FreeMeasurement, MEASURED),
    (NarrowMeasurement, MEASURED),
    (FreeSecondEpoch, WATCHED),
    (QuietThreshold, WATCHED | {"threshold": -12}),
]


@pytest.mark.parametrize(("bug", "constants"), BUGS, ids=[bug.__name__ for bug, _ in BUGS])
def test_planted_bugs_lose_more_than_they_paid(bug: type[Scripted], constants: dict[str, Any]) -> None:
    excess, _ = worst_loss(small_plan(tuned=False, **constants), bug)
    assert excess > 0.01


def test_the_engine_tests_before_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: an engine that tells the measurement without a test would be caught by its transcripts."""

    def eager(self: Epochs, query: Linear, key: str, analyst: str | None) -> Any:
        if self.running is None:
            self._begin(key, analyst)
        return self.measure(query, key=key, analyst=analyst)

    monkeypatch.setattr(Epochs, "_tested", eager)
    played = next(transcripts(DOMAIN, RECORDS, small_plan(tuned=False), analyst, QUESTIONS))
    assert not any(run.tests for run in played.runs)
