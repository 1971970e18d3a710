"""Private discovery: exact losses by enumeration for both relations, draws, simulated thresholds, planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from tests.privacy.discovery_checks import (
    LINE,
    RELATIONS,
    check_median_draws,
    check_medians,
    check_scores_by_definition,
    check_shown_rate,
    check_value_sensitivity,
    check_values,
    check_values_hockey_stick,
    halves,
)
from tests.privacy.test_mutations import Mutation

from reticent.kernel.discovery import medians
from reticent.kernel.discovery.medians import MedianScores, PositionRuns
from reticent.kernel.mechanisms import thresholded
from reticent.kernel.mechanisms.base import Gaussian, Sensitivity, Thresholded

WIDE = Thresholded.costing(rho=0.005, delta=1e-2, neighbours="add-remove")
"""At a delta of 1e-2, where failures can be counted."""
SEVERAL = Thresholded.costing(rho=0.02, delta=1e-2, neighbours="add-remove", most=3)
SMALL = {relation: Thresholded.costing(rho=0.5, delta=1e-6, neighbours=relation, most=2) for relation in RELATIONS}


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_level_of_medians_is_within_one_price(relation: str) -> None:
    check_medians(relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_single_piece_is_within_its_price(relation: str) -> None:
    check_medians(relation, pieces=((0, LINE.size * medians.POSITIONS),))


def test_scores_are_what_counting_says() -> None:
    check_scores_by_definition()


def test_medians_are_drawn_exactly() -> None:
    check_median_draws()


def test_spreading_moves_no_further_than_the_weight() -> None:
    """The lemma of docs/proofs/medians.md: one more in the weight is one more in one position."""
    before = np.zeros(medians.POSITIONS, dtype=np.int64)
    for weight in range(1, 200):
        slots, weights = medians.occupied_positions(LINE, np.array([3.0]), np.array([weight]))
        after = np.zeros(medians.POSITIONS, dtype=np.int64)
        after[slots % medians.POSITIONS] = weights
        assert np.abs(after - before).sum() == 1
        before = after


@pytest.mark.parametrize("relation", RELATIONS)
def test_shown_values_are_within_their_price(relation: str) -> None:
    check_values(SMALL[relation], relation)
    check_values_hockey_stick(SMALL[relation], relation)
    check_value_sensitivity(relation)
    assert SMALL[relation].price(relation).delta <= Fraction(1, 10**6)


@pytest.mark.parametrize("mechanism", [WIDE, SEVERAL], ids=["one value", "three values"])
def test_values_of_one_unit_are_shown_as_rarely_as_stated(mechanism: Thresholded) -> None:
    check_values(mechanism, "add-remove")
    check_shown_rate(mechanism)


def test_a_lower_threshold_would_cost_too_much() -> None:
    for relation, mechanism in SMALL.items():
        lower = Thresholded(mechanism.sigma, mechanism.threshold - 1, mechanism.most)
        assert lower.price(relation).delta > Fraction(1, 10**6) >= mechanism.price(relation).delta


def exact_tail(sigma: Fraction, least: int) -> Fraction:
    """P(Z >= least) of the discrete Gaussian, to forty digits."""
    with localcontext(prec=60):
        square = 2 * (Decimal(sigma.numerator) / sigma.denominator) ** 2
        terms = [(-(j * j) / square).exp() for j in map(Decimal, range(least + int(20 * sigma) + 20))]
        return Fraction(sum(terms[least:]) / (2 * sum(terms) - 1))


@pytest.mark.parametrize("most", [thresholded._TERMS, 3])
@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(15)])
def test_the_tail_is_never_understated(sigma: Fraction, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To every digit, also where terms are left to the geometric series."""
    monkeypatch.setattr(thresholded, "_TERMS", most)
    for least in (1, 2, 5, 9, 30):
        if least <= 12 * sigma:
            tail, exact = thresholded.tail_above(sigma, least), exact_tail(sigma, least)
            assert tail >= exact * (1 - Fraction(1, 10**40))
            assert most == 3 or sigma < 2 or tail <= exact * (1 + Fraction(1, 10**9))


def test_a_threshold_states_at_least_the_exact_delta() -> None:
    for relation, mechanism in SMALL.items():
        chance = thresholded.tail_above(mechanism.noise.grid_scale(1), mechanism.threshold - 1)
        exact = (1 - (1 - chance) ** mechanism.most) * (2 if relation == "replace-one" else 1)
        assert exact <= mechanism.price(relation).delta <= exact * (1 + Fraction(1, 2**60))


def test_shown_values_come_in_an_order_of_their_own() -> None:
    """An engine lists texts in an order that rows decide: by first occurrence, or by how often they occur."""
    texts, mechanism = np.array(["d", "a", "c", "b"], dtype=object), Thresholded(1, 2)
    shown, counts = mechanism.release(texts, np.array([400, 100, 300, 200]))
    assert shown.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_allclose(counts, [100, 200, 300, 400], atol=30)


# ---- planted bugs


def all_at_one(line, values, weights):
    """Where the records of a value are follows from how many they are: one more moves all of them."""
    slots, held = SPREAD(line, values, weights)
    places, index = np.unique(slots // medians.POSITIONS, return_inverse=True)
    summed = np.bincount(index, weights=held).astype(np.int64)
    return places * medians.POSITIONS + summed % medians.POSITIONS, summed


def only_where_data_is(
    self: MedianScores, slots: np.ndarray, weights: np.ndarray, piece: tuple[int, int]
) -> PositionRuns:
    """Every run weighs alike, whatever it spans: which candidates there are follows from the rows."""
    runs = RUNS(self, slots, weights, piece)
    return PositionRuns(runs.first, runs.last, runs.scores, np.ones_like(runs.copies))


def shifted(self: MedianScores, slots: np.ndarray, weights: np.ndarray, piece: tuple[int, int]) -> PositionRuns:
    """Every piece counts the whole column."""
    runs = RUNS(self, slots, weights, (0, LINE.size * medians.POSITIONS))
    first = np.clip(runs.first, *piece)
    last = np.clip(runs.last, piece[0], piece[1] - 1)
    kept = (runs.last >= piece[0]) & (runs.first < piece[1])
    first, last = first[kept], last[kept]
    return PositionRuns(first, last, runs.scores[kept], self._copies_upto(last) - self._copies_upto(first - 1))


SPREAD, RUNS = medians.occupied_positions, MedianScores._runs
ONE = Sensitivity.scalar(1)


def tail_without_the_unit(sigma: Fraction, least: int) -> Fraction:
    return TAIL(sigma, least + 1)


TAIL, SENSITIVITY, RELEASE = thresholded.tail_above, thresholded.sensitivity_of_values, Gaussian.release

MUTATIONS = [
    Mutation(
        "sensitivity 1 for replaced records",
        lambda patch: patch.setattr(MedianScores, "sensitivity", lambda self, neighbours: ONE),
        lambda: check_medians("replace-one"),
    ),
    Mutation(
        "records of one value move together",
        lambda patch: patch.setattr(medians, "occupied_positions", all_at_one),
        lambda: check_medians("add-remove"),
    ),
    Mutation(
        "candidates follow from the rows",
        lambda patch: patch.setattr(MedianScores, "_runs", only_where_data_is),
        lambda: check_medians("add-remove"),
    ),
    Mutation(
        "every piece counts the whole column for one price",
        lambda patch: patch.setattr(MedianScores, "_runs", shifted),
        lambda: check_medians("add-remove"),
    ),
    Mutation(
        "a run's first candidate is always taken",
        lambda patch: patch.setattr(MedianScores, "_position", lambda self, first, last: first),
        check_median_draws,
    ),
    Mutation(
        "the threshold forgets that a unit counts one itself",
        lambda patch: patch.setattr(thresholded, "tail_above", tail_without_the_unit),
        lambda: check_values(SMALL["add-remove"], "add-remove"),
    ),
    Mutation(
        "the threshold's delta is that of one value",
        lambda patch: patch.setattr(
            Thresholded, "price", lambda self, neighbours: PRICE(Thresholded(self.sigma, self.threshold), neighbours)
        ),
        lambda: check_values(SMALL["add-remove"], "add-remove"),
    ),
    Mutation(
        "a replaced unit is priced as an added one",
        lambda patch: patch.setattr(
            thresholded, "sensitivity_of_values", lambda most, _: SENSITIVITY(most, "add-remove")
        ),
        lambda: check_values(SMALL["replace-one"], "replace-one"),
    ),
    Mutation(
        "noise of half the scale below a threshold",
        lambda patch: patch.setattr(
            Gaussian, "release", lambda self, counts, grid=1: RELEASE(Gaussian(self.sigma / 2), counts, grid)
        ),
        lambda: check_shown_rate(WIDE),
    ),
    Mutation(
        "the threshold is one too low",
        lambda patch: patch.setattr(
            Thresholded,
            "release",
            lambda self, texts, counts: SHOW(Thresholded(self.sigma, self.threshold - 1), texts, counts),
        ),
        lambda: check_shown_rate(Thresholded(2, 6)),
    ),
]
PRICE, SHOW = Thresholded.price, Thresholded.release


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_planted_bug_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    check: Callable[[], None] = mutation.check
    check()
    with monkeypatch.context() as patch:
        mutation.plant(patch)
        with pytest.raises(AssertionError):
            check()


def test_pieces_in_disorder_are_refused() -> None:
    whole = LINE.size * medians.POSITIONS
    for pieces in ((), ((0, whole), (0, whole)), ((-1, 5),), ((0, whole + 1),), ((5, 3),)):
        with pytest.raises(Exception, match="without overlap"):
            MedianScores("x", LINE, pieces)
    assert len(halves(LINE)) == 2
