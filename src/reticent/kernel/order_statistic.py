"""The error that a given share of questions do not exceed: an order statistic, with the sensitivity of one error.

Errors are exact integers on the kernel's grid, as for the largest error (docs/proofs/order-statistic.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.statistics import ONE, bound_to, fine, on_grid
from reticent.kernel.table import CountSource
from reticent.queries.distribution import Questions, Ranges, Selection


@dataclass(frozen=True, eq=False)
class ErrorQuantile:
    """The smallest number that is at least the errors of questions with a total weight of `rank`.

    `guesses[i]` is the guessed marginal of `questions.sets[i]` in records. An enumerated question has its own weight, a
    drawn one the weight 1. The list and the rank are public; one record changes each error by at most one.
    """

    questions: Questions
    guesses: tuple[np.ndarray, ...]
    rank: int
    state: str | None = None

    def __post_init__(self) -> None:
        if type(self.questions) is not Questions or len(self.questions.sets) != len(self.guesses):
            raise QueryError(f"{len(self.questions.sets)} attribute sets need as many guesses, got {len(self.guesses)}")
        if not (isinstance(self.rank, int) and self.rank >= 1):
            raise QueryError(f"rank {self.rank} must be a whole number, at least 1")

    @property
    def domain(self) -> Domain:
        return self.questions.domain

    def resolution(self, person_grid: int) -> int:
        return fine(person_grid)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return ONE

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        steps, errors, weights = fine(person_grid), [], []
        sets = self.questions.sets
        for names, counts, guess in zip(sets, source.marginals(sets), self.guesses, strict=True):
            difference = counts * steps - on_grid(guess, steps * person_grid, summed=1).reshape(counts.shape)
            if self.questions.seed is None:
                selections, weight = self.questions.enumerated(names)
                errors.append(np.abs(_every_sum(difference, selections)).ravel())
                weights.append(weight.ravel())
            else:
                errors += [np.abs(_sums(difference, block)) for block in self.questions.blocks(names)]
        weighed = np.concatenate(weights) if weights else None
        return np.asarray(weighted_quantile(np.concatenate(errors), weighed, self.rank), dtype=np.int64)

    def describe(self) -> dict[str, object]:
        listed = {"error quantile": self.questions.to_dict(), "rank": self.rank}
        return {**listed, **bound_to(self.state, "guesses", *self.guesses)}


def weighted_quantile(errors: np.ndarray, weights: np.ndarray | None, rank: int) -> int:
    """The smallest t with weight at least `rank` on errors of at most t; the largest int64 if the total weight is
    smaller.

    Bisection over all of int64: the same 63 passes for all errors.
    """
    low, high = -1, 2**63 - 1
    while high - low > 1:
        middle = (low + high) // 2
        within = errors <= middle
        weight = int(np.count_nonzero(within)) if weights is None else int(weights @ within)
        # Looked up without a branch: the same instructions for all errors.
        low, high = ((middle, high), (low, middle))[int(weight >= rank)]
    return high


def _every_sum(difference: np.ndarray, selections: Sequence[Selection]) -> np.ndarray:
    """The difference summed over every combination of one selection per axis."""
    for axis, selection in enumerate(selections):
        ahead = np.moveaxis(difference, axis, 0)
        if isinstance(selection, Ranges):
            prefix = _prefixed(ahead, 0)
            summed = prefix[selection.high] - prefix[selection.low]
        else:
            summed = np.tensordot(selection.members.astype(np.int64), ahead, axes=(1, 0))
        difference = np.moveaxis(summed, 0, axis)
    return difference


def _sums(difference: np.ndarray, selections: Sequence[Selection]) -> np.ndarray:
    """For each question the difference summed over its own selection on every axis."""
    for axis, selection in enumerate(selections):
        if isinstance(selection, Ranges):
            difference = _prefixed(difference, axis)
    strides = np.array([step // difference.itemsize for step in difference.strides], dtype=np.int64)
    terms = list(_terms(selections))
    starts = np.stack([start for start, _, _ in terms])
    firsts = np.cumsum([0, *(len(places) for _, places, _ in terms[:-1])])
    places = np.concatenate([places for _, places, _ in terms])
    signs = np.concatenate([signs for _, _, signs in terms])
    return _added(difference.ravel(), strides, starts + firsts[:, None], places, signs)


def _prefixed(difference: np.ndarray, axis: int) -> np.ndarray:
    """Sums of the first 0, 1, 2, ... entries along an axis."""
    padding = [(int(place == axis), 0) for place in range(difference.ndim)]
    return np.ascontiguousarray(np.pad(difference, padding).cumsum(axis=axis))


def _terms(selections: Sequence[Selection]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each axis: where each question's terms start, the places they look up, and their signs."""
    for selection in selections:
        if isinstance(selection, Ranges):
            questions = len(selection)
            signs = np.tile(np.array([1, -1], dtype=np.int64), questions)
            yield np.arange(0, 2 * questions + 1, 2), np.stack([selection.high, selection.low], axis=1).ravel(), signs
        else:
            rows, places = np.nonzero(selection.members)
            starts = np.searchsorted(rows, np.arange(len(selection) + 1))
            yield starts, places, np.ones(len(places), dtype=np.int64)


@njit(cache=True, nogil=True)
def _added(
    cells: np.ndarray, strides: np.ndarray, starts: np.ndarray, places: np.ndarray, signs: np.ndarray
) -> np.ndarray:
    """Sums over the product of each question's terms on all axes, the last axis in the innermost loop."""
    axes, questions = starts.shape[0], starts.shape[1] - 1
    found = np.zeros(questions, np.int64)
    term = np.zeros(axes, np.int64)
    offset = np.zeros(axes + 1, np.int64)
    sign = np.ones(axes + 1, np.int64)
    last = axes - 1
    for question in range(questions):
        total = 0
        axis = 0
        term[0] = starts[0, question]
        while axis >= 0:
            if axis == last:
                for place in range(starts[last, question], starts[last, question + 1]):
                    total += sign[last] * signs[place] * cells[offset[last] + places[place] * strides[last]]
                axis -= 1
                if axis >= 0:
                    term[axis] += 1
            elif term[axis] == starts[axis, question + 1]:
                axis -= 1
                if axis >= 0:
                    term[axis] += 1
            else:
                place = term[axis]
                offset[axis + 1] = offset[axis] + places[place] * strides[axis]
                sign[axis + 1] = sign[axis] * signs[place]
                axis += 1
                term[axis] = starts[axis, question]
        found[question] = total
    return found
