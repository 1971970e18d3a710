"""Average play converges to the value of a game: the numbers behind the plot in docs/dualquery.md."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benchmarks.shown import Claim, Grid, Plot, Shown


def regret_bound(actions: int, rounds: int) -> float:
    """Hedge with the best fixed step over gains in [0, 1]: `sqrt(ln k / (2 T))` per round."""
    return math.sqrt(math.log(actions) / (2 * rounds))


def averages(
    payoffs: np.ndarray, rounds: int, respond: Callable[[np.ndarray], int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Average plays of multiplicative weights over rows (maximising) against best responses over columns."""
    rows, columns = payoffs.shape
    step = math.sqrt(8 * math.log(rows) / rounds)
    gains, row_total, column_total = np.zeros(rows), np.zeros(rows), np.zeros(columns)
    choose = respond or (lambda expected: int(np.argmin(expected)))
    for _ in range(rounds):
        weights = np.exp(step * (gains - gains.max()))
        weights /= weights.sum()
        reply = choose(weights @ payoffs)
        gains += payoffs[:, reply]
        row_total += weights
        column_total[reply] += 1
    return row_total / rounds, column_total / rounds


def run(quick: bool) -> dict:
    """Gap to equilibrium and regret bound by number of rounds, on a random 12 x 9 game."""
    payoffs = np.random.default_rng(0).random((12, 9))
    points = []
    for rounds in (16, 64, 256) if quick else (16, 64, 256, 1024, 4096, 16384):
        row, column = averages(payoffs, rounds)
        gap = float((payoffs @ column).max() - (row @ payoffs).min())
        points.append({"rounds": rounds, "gap": gap, "bound": regret_bound(len(payoffs), rounds)})
    return {"minimax": points}


def present(found: dict) -> list[Shown]:
    points = found["minimax"]
    series = {"gap of the average plays": [(p["rounds"], p["gap"]) for p in points]}
    bound = {"twice the regret bound, √(2 ln k / T)": [(p["rounds"], 2 * p["bound"]) for p in points]}
    expected = "Expected: below the dashed line everywhere, and falling at least as fast."
    worst = max(p["gap"] / (2 * p["bound"]) for p in points)
    return [
        Claim("largest gap over twice the regret bound of one player", worst, at_most=1.0),
        Plot(
            "gap",
            "Average play approaches the value of a game",
            "rounds",
            "gap to equilibrium",
            series,
            lines=bound,
            log="xy",
            expected=expected,
        ),
        Grid("", {"rounds": "", "gap": "", "bound": ""}, points),
    ]
