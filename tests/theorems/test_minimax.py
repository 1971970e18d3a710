"""The minimax theorem at work: multiplicative weights against best responses reaches the value of the game (002, 2.1).

With step `sqrt(8 ln k / T)` and payoffs of range 1, T rounds leave a regret of at most `sqrt(ln k / (2 T))`: the
average plays are an equilibrium up to that, and DualQuery's records answer every query up to that and sampling error.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.minimax import averages, regret_bound
from scipy.optimize import linprog

from reticent.domain import Domain
from reticent.kernel.counting.records import Records
from reticent.releases.dualquery.data_player import Search
from reticent.releases.dualquery.game import Game
from reticent.releases.dualquery.plan import DualQueryPlan
from reticent.releases.dualquery.query_player import CellPlayer

ROUNDS = (16, 64, 256, 1024)


def value_of(payoffs: np.ndarray) -> float:
    """The value for the maximising row player, by linear programming."""
    rows, columns = payoffs.shape
    result = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-payoffs.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
    )
    return float(result.x[-1])


@pytest.mark.parametrize("seed", range(5))
def test_average_play_reaches_the_value_at_the_rate_of_the_regret_bound(seed):
    payoffs = np.random.default_rng(seed).random((12, 9))
    value = value_of(payoffs)
    for rounds in ROUNDS:
        row, column = averages(payoffs, rounds)
        bound = regret_bound(len(payoffs), rounds)
        # The row player's average guarantees almost the value, the column player's concedes almost no more.
        assert value - bound - 1e-9 <= (row @ payoffs).min() <= value + 1e-9
        assert value - 1e-9 <= (payoffs @ column).max() <= value + bound + 1e-9


def test_convergence_needs_the_best_response():
    """A column player who answers anything but the best response does not reach the value: the test can fail."""
    payoffs = np.random.default_rng(1).random((12, 9))
    _, column = averages(payoffs, 1024, respond=lambda gains: int(np.argmax(gains)))
    assert (payoffs @ column).max() > value_of(payoffs) + regret_bound(12, 1024)


@pytest.mark.parametrize("rounds", [64, 256])
def test_dualquery_records_meet_the_regret_bound(rounds):
    """With so many draws that sampling hardly errs, T records answer all cells and complements within the bound."""
    generator = np.random.default_rng(3)
    domain = Domain(a=3, b=4, c=2)
    codes = generator.integers(0, domain.shape, size=(500, 3)) * generator.integers(0, 2, size=(500, 3))
    source = Records.of_codes(domain, dict(zip("abc", codes.T, strict=True)), np.ones(500, dtype=np.int64))
    sets = (("a", "b"), ("b", "c"))
    queries = CellPlayer(domain, sets)
    step = Fraction(math.sqrt(8 * math.log(2 * len(queries)) / rounds))
    plan = DualQueryPlan(500, rounds, 4000, step, replies=1, memory=1)
    game = Game(plan, queries, np.array(domain.shape), Search(4000))

    def draw(turn: int) -> np.ndarray:
        scores = queries.scores(game.scale(turn), float(plan.epsilon(turn)))
        logits = scores.evaluate(source, 1) / scores.resolution(1) * float(plan.epsilon(turn)) / 2
        weights = np.exp(logits - logits.max())
        return generator.choice(len(weights), size=plan.draws, p=weights / weights.sum())

    for turn in range(1, rounds + 1):
        game.play(turn, draw)
    played = Records.of_codes(domain, dict(zip("abc", game.played.T, strict=True)), np.ones(rounds, dtype=np.int64))
    errors = [t / 500 - p / rounds for t, p in zip(source.marginals(sets), played.marginals(sets), strict=True)]
    sampling = 2 * math.sqrt(math.log(2 * domain.size * rounds / 0.01) / (2 * plan.draws))
    worst = max(np.abs(e).max() for e in errors)
    assert worst <= regret_bound(2 * len(queries), rounds) + sampling
    assert worst > 0
