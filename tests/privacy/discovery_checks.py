"""Checks of private discovery by enumeration: they pass on main and must fail under each planted bug."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np
from tests.privacy.exact_checks import FALSE_ALARM, ORDERS, ROUNDING, TIGHT, check_frequencies, gaussian_log_pmf, renyi

from reticent.kernel.accounting import epsilon_of
from reticent.kernel.discovery import medians
from reticent.kernel.discovery.lines import Line, NumberLine
from reticent.kernel.discovery.medians import MedianScores, PositionRuns
from reticent.kernel.mechanisms.base import Exponential, Thresholded
from reticent.kernel.mechanisms.thresholded import sensitivity_of_values

LINE = NumberLine(digits=1, lowest=0, highest=1)
"""-9, ..., 9: nineteen places, so that all candidates can be listed."""
GRID = 6
Unit = dict[float, int]
"""What one person weighs at each value, GRID in all or less."""
UNITS: list[Unit] = [{-3.0: GRID}, {0.0: GRID}, {2.5: GRID}, {0.0: 2, 2.5: 4}, {-3.0: 3, 7.0: 3}, {}, {7.0: GRID}]
RELATIONS = ("add-remove", "replace-one")


class Weighed:
    """A source of a few persons."""

    def __init__(self, units: tuple[Unit, ...]) -> None:
        self._units = units

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        pairs = [pair for unit in self._units for pair in unit.items()]
        values, weights = zip(*pairs, strict=True) if pairs else ((), ())
        return np.array(values, dtype=float), np.array(weights, dtype=np.int64)


Chosen = tuple[int, ...]
"""A table: places of its persons in UNITS, in order."""


def tables(relation: str, most: int = 3) -> Iterator[tuple[Chosen, Chosen]]:
    """Every pair of neighbours with up to so many persons."""
    every = range(len(UNITS))
    for size in range(most):
        for kept in itertools.combinations_with_replacement(every, size):
            if relation == "add-remove":
                yield from ((tuple(sorted((*kept, unit))), kept) for unit in every)
                yield from ((tuple(sorted((0, 0, *kept, unit))), (0, 0, *kept)) for unit in every if size < 2)
            else:
                pairs = itertools.permutations(every, 2)
                yield from ((tuple(sorted((*kept, one))), tuple(sorted((*kept, other)))) for one, other in pairs)


def halves(line: Line) -> tuple[tuple[int, int], ...]:
    """Two pieces, cut within the positions of zero: a person may move from one to the other."""
    whole, middle = line.size * medians.POSITIONS, line.size // 2 * medians.POSITIONS + 11
    return (0, middle), (middle, whole)


def log_probabilities(scores: MedianScores, runs: PositionRuns, piece: tuple[int, int], slope: float) -> np.ndarray:
    """Of every candidate of a piece, one by one."""
    candidates = np.arange(*piece)
    run = np.searchsorted(runs.first, candidates, side="right") - 1
    assert (candidates <= runs.last[run]).all()
    places = candidates // medians.POSITIONS
    copies = scores.line.copies_upto(places) - scores.line.copies_upto(places - 1)
    summed = np.bincount(run, weights=copies, minlength=len(runs.first))
    # The mechanism weighs runs by the copies that they state.
    logits = slope * runs.scores[run] + np.log(copies) + np.log(runs.copies / summed)[run]
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def check_medians(relation: str, *, pieces: tuple[tuple[int, int], ...] | None = None) -> None:
    """The exact loss of all pieces of a level together is within one price.

    Of one piece it is near the price for two groups of equal size: one person more on one side, and the median leaves
    the wide gap between them for one of the few positions of a value.
    """
    for epsilon, most in ((0.7, 3), (12, 2)):
        worst = _worst_of_medians(relation, pieces, epsilon, tables(relation, most))
        assert worst <= epsilon * (1 + ROUNDING), (relation, worst)
    if pieces is not None:
        left, right = (0,) * 16, (6,) * 16
        moved = right[1:] if relation == "replace-one" else right
        worst = _worst_of_medians(relation, pieces, 0.7, [((*left, *right), (*left, 0, *moved))])
        assert worst >= TIGHT * 0.7, (relation, worst)


def _worst_of_medians(
    relation: str,
    pieces: tuple[tuple[int, int], ...] | None,
    epsilon: float,
    pairs: Iterable[tuple[Chosen, Chosen]],
) -> float:
    mechanism = Exponential(epsilon)
    scores = MedianScores("x", LINE, halves(LINE) if pieces is None else pieces)
    slope = epsilon / (2 * float(scores.sensitivity(relation).l1) * GRID)
    price, worst = mechanism.price(), 0.0
    assert price.pure is not None

    @functools.cache
    def of_table(chosen: Chosen) -> list[np.ndarray]:
        runs = scores.evaluate(Weighed(tuple(UNITS[place] for place in chosen)), GRID)
        return [log_probabilities(scores, *each, slope) for each in zip(runs, scores.pieces, strict=True)]

    for first, second in pairs:
        up = down = 0.0
        divergence = dict.fromkeys(ORDERS, 0.0)
        for p, q in zip(of_table(first), of_table(second), strict=True):
            up, down = up + float((p - q).max()), down + float((q - p).max())
            for order in ORDERS:
                divergence[order] += max(renyi(p, q, order), renyi(q, p, order))
        worst = max(worst, up, down)
        for order, found in divergence.items():
            assert found <= order * float(price.rho) * (1 + ROUNDING), (relation, order, first, second)
    return worst


def check_median_draws(draws: int = 1500) -> None:
    """What is drawn follows the exact probabilities of all candidates, copies and all."""
    mechanism, piece = Exponential(2), (0, LINE.size * medians.POSITIONS)
    scores = MedianScores("x", LINE, (piece,))
    units = ({0.0: GRID}, {0.0: GRID}, {2.5: GRID}, {-3.0: 3, 7.0: 3})
    (runs,) = scores.evaluate(Weighed(units), GRID)
    slope = float(mechanism.epsilon) / (2 * GRID)
    expected = np.exp(log_probabilities(scores, runs, piece, slope))
    sensitivity = scores.sensitivity("add-remove")
    drawn = np.array([scores.draw([runs], mechanism, sensitivity, GRID)[0] for _ in range(draws)])
    check_frequencies(np.bincount(drawn, minlength=len(expected)), expected)


def check_scores_by_definition() -> None:
    """Runs say of every candidate what counting says, position by position."""
    for units in itertools.combinations_with_replacement(UNITS[1:5], 2):
        slots, weights = medians.occupied_positions(LINE, *Weighed(units).numbers("x"))
        assert int(weights.sum()) == sum(sum(unit.values()) for unit in units)
        for piece in halves(LINE):
            scores = MedianScores("x", LINE, (piece,))
            (runs,) = scores.evaluate(Weighed(units), GRID)
            for candidate in range(*piece):
                run = int(np.searchsorted(runs.first, candidate, side="right")) - 1
                below = int(weights[(slots >= piece[0]) & (slots < candidate)].sum())
                rest = int(weights[(slots >= candidate) & (slots < piece[1])].sum())
                assert runs.scores[run] == -abs(below - rest)


# ---- values that nobody declared


def shown_log_pmf(mechanism: Thresholded, count: int) -> np.ndarray:
    """Of one value that some unit has: not shown, or shown with each noisy count from the threshold on."""
    sigma = float(mechanism.noise.grid_scale(1))
    reach = np.arange(-int(40 * sigma) - 40, int(40 * sigma) + mechanism.threshold + 41)
    log_p = gaussian_log_pmf(sigma, reach)
    noisy = reach + count
    passing = noisy >= mechanism.threshold
    hidden = np.log(np.exp(log_p[~passing]).sum())
    top = int(12 * sigma) + mechanism.threshold + 8
    counts = np.arange(mechanism.threshold, top)
    return np.concatenate([[hidden], gaussian_log_pmf(sigma, counts - count)])


def check_values(mechanism: Thresholded, relation: str) -> None:
    """Delta-approximate zCDP of every pair of neighbours, value by value: what a unit alone has, and what others share.

    A unit has up to `most` values; each is its own or shared with one or two others.
    """
    price, most = mechanism.price(relation), mechanism.most
    exclusive = float(np.exp(shown_log_pmf(mechanism, 1)[1:]).sum())
    worst = 0.0
    for shared in range(most + 1):
        for others in itertools.combinations_with_replacement((1, 2, 5), shared):
            alone = 1 - (1 - exclusive) ** (most - shared)
            lost = alone * (2 if relation == "replace-one" else 1)
            worst = max(worst, lost)
            assert lost <= float(price.delta) * (1 + ROUNDING), (lost, price)
            # Values that others have as well: the replaced unit leaves them, the new one may enter others.
            moves = 2 if relation == "replace-one" else 1
            for order in ORDERS:
                total = 0.0
                for count in others:
                    p, q = shown_log_pmf(mechanism, count + 1), shown_log_pmf(mechanism, count)
                    total += moves * max(renyi(p, q, order), renyi(q, p, order))
                assert total <= order * float(price.rho) * (1 + 1e-6), (relation, order, others, total)
    assert worst >= 0.9 * float(price.delta), (worst, price)


def check_values_hockey_stick(mechanism: Thresholded, relation: str) -> None:
    """The exact delta at several epsilons, all outputs enumerated, is at most what approximate zCDP promises."""
    price = mechanism.price(relation)
    # Two tables: a unit with `most` values of its own against none (or against another unit with as many of its own).
    own = shown_log_pmf(mechanism, 1)
    hidden = own[0] * mechanism.most
    outcomes = [hidden]
    for shown in range(1, mechanism.most + 1):
        ways = math.comb(mechanism.most, shown)
        outcomes.append(hidden - own[0] * shown + math.log(ways) + shown * math.log(np.exp(own[1:]).sum()))
    p = np.exp(outcomes)
    for epsilon in (0.01, 0.1, 0.5, 1.0, 3.0):
        # Against a table without these values: only "nothing shown" has a probability on the other side.
        other = p[0] if relation == "replace-one" else 1.0
        exact = max(0.0, p[0] - math.exp(epsilon) * other) + p[1:].sum()
        back = max(0.0, other - math.exp(epsilon) * p[0])
        low, high = 1e-15, 1.0 - 1e-12
        for _ in range(60):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if epsilon_of(price.rho, middle) > epsilon else (low, middle)
        promised = float(price.delta) + high
        assert max(exact, back) <= promised * (1 + 1e-9), (epsilon, exact, promised)


def check_shown_rate(mechanism: Thresholded, runs: int = 20_000) -> None:
    """Values of a single unit are shown as rarely as the price says, by simulation, and no more rarely."""
    texts = np.array([f"v{place}" for place in range(mechanism.most)], dtype=object)
    counts = np.ones(mechanism.most, dtype=np.int64)
    batches = [mechanism.release(np.tile(texts, 50), np.tile(counts, 50)) for _ in range(runs // 50)]
    shown = sum(len(kept) for kept, _ in batches)
    chance = 1 - (1 - float(mechanism.price("add-remove").delta)) ** (1 / mechanism.most)
    expected = runs * mechanism.most * chance
    spread = 6.2 * math.sqrt(expected)
    assert FALSE_ALARM < 1e-8
    assert abs(shown - expected) <= spread, (shown, expected, spread)


def check_value_sensitivity(relation: str) -> None:
    """No pair of neighbours moves the counts of values further than stated; some pair does."""
    values, most = "abcd", 2
    units = [frozenset(chosen) for size in range(most + 1) for chosen in itertools.combinations(values, size)]

    def counts(table: tuple[frozenset[str], ...]) -> np.ndarray:
        return np.array([sum(value in unit for unit in table) for value in values])

    kept = (frozenset("ab"),)
    if relation == "add-remove":
        pairs = [((*kept, unit), kept) for unit in units]
    else:
        pairs = [((*kept, one), (*kept, other)) for one in units for other in units]
    declared = sensitivity_of_values(most, relation)
    moves = [counts(first) - counts(second) for first, second in pairs]
    assert max(int((move**2).sum()) for move in moves) == declared.l2_squared
    assert max(int(np.abs(move).sum()) for move in moves) == declared.l1
