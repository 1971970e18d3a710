"""A statistic is a public description of integers that the kernel computes from rows, with their sensitivity.

Everything an algorithm may learn is one of these. Values live on an integer grid (spec 1.3): a statistic's exact
integers divided by `grid` are records. Guesses are public numbers computed outside; they are rounded to the same grid,
so a difference of a count and a guess moves by exactly what the count moves.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.boxes import largest_box
from reticent.kernel.mechanisms import Sensitivity
from reticent.kernel.table import CountSource
from reticent.queries.base import Linear
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.forms import Dense, Product
from reticent.queries.linear import Marginal

FINE = 2**19
"""Steps per record for query values and guesses of record tables: `n FINE` stays below 2^62, and so do guesses, hence
their differences below 2^63 (spec 1.3; `n` below 2^43 is checked with the table)."""

FINE_PERSONS = 2**18
"""The same beside a person grid: query values are rounded by at most 2^-19, and `n G FINE_PERSONS` stays below 2^61."""

VALUE_ROUNDING = 0.5 / FINE_PERSONS
"""How far the answer of a query with fractional values may lie from the truth before any noise, as a fraction."""

LARGEST_GUESS = 2.0**62
"""In grid units, also of sums of guesses: no difference of counts and guesses leaves int64."""

MARGINAL_CELLS = 2**20
"""Up to here a query is answered from its marginal; beyond, record by record."""

ONE = Sensitivity.scalar()


def of_one_marginal(neighbours: str) -> Sensitivity:
    """All cells of one marginal (spec 1.1): replacing a record moves one unit out of a cell and one into another."""
    moved = 2 if neighbours == "replace-one" else 1
    return Sensitivity(l1=Fraction(moved), l2_squared=Fraction(moved))


class Statistic(Protocol):
    """What `measure`, `select` and `exceeds` compute before noise is added."""

    def resolution(self, person_grid: int) -> int:
        """Steps per unit of person weight; a value in records is integer / (resolution * person grid)."""
        ...

    def sensitivity(self, neighbours: str) -> Sensitivity: ...

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray: ...

    def describe(self) -> dict[str, object]: ...


def fine(person_grid: int) -> int:
    """The finest resolution beside this person grid, a power of two."""
    return FINE if person_grid == 1 else FINE_PERSONS


class _Fine:
    """Statistics that compare with guesses use the finest resolution."""

    def resolution(self, person_grid: int) -> int:
        return fine(person_grid)


def on_grid(guess: np.ndarray | float, grid: int, *, summed: int = 0) -> np.ndarray:
    """Public guesses, in records, as integers on the grid.

    Where sums of them are taken, and then multiplied by `summed`, all together are limited: an int64 sum that wraps
    around would be a function of the rows without any bound on its sensitivity.
    """
    scaled = np.asarray(guess, dtype=np.float64) * grid
    size = np.abs(scaled).sum() * summed if summed else np.abs(scaled).max(initial=0.0)
    if not size < LARGEST_GUESS:
        most = LARGEST_GUESS / (grid * max(summed, 1))
        raise QueryError(f"guesses must be finite and below {most:.3g} records; compute them from a hypothesis")
    return np.rint(scaled).astype(np.int64)


def in_range(value: int) -> int:
    """Clipped to int64, so that no row can raise; clipping moves no two values further apart."""
    return max(-(2**63), min(value, 2**63 - 1))


def digest(*arrays: np.ndarray) -> str:
    """Identifies public arrays in the ledger, so that one idempotency key cannot serve two questions."""
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(repr((array.shape, array.dtype.str)).encode())
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


def checked_form(text: str, form: Product | Dense, domain: Domain) -> Product | Dense:
    """A function from records to [0, 1], verified on the universe whoever compiled it."""
    if type(form) not in (Product, Dense):
        raise QueryError(f"{type(form).__name__} is not a form of the library; compile queries to Product or Dense")
    low, high = form.range
    if not (low >= 0 and high <= 1):
        raise QueryError(f"{text}: values run from {low:g} to {high:g}; a query takes values in [0, 1]")
    if tuple(domain.shape_of(form.attributes)) != _shape(form):
        raise QueryError(f"{text}: its values do not have the shape of its attributes")
    return form


class LinearCount:
    """The answer of one linear query, times the number of records."""

    def __init__(self, query: Linear, domain: Domain) -> None:
        self.query = query
        form = checked_form(query.text, query.compile(domain), domain)
        if isinstance(form, Product) and sum(not _zero_one(vector) for vector in form.vectors) > 1:
            # A product of two fractional vectors would leave the grid.
            form = Dense(form.attributes, form.tensor())
        self.form = form

    def resolution(self, person_grid: int) -> int:
        return 1 if self.form.binary else fine(person_grid)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return ONE

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        form, steps = self.form, self.resolution(person_grid)
        wide = math.prod(_shape(form)) > MARGINAL_CELLS
        if isinstance(form, Product) and (wide or not form.attributes):
            vectors = {
                name: np.rint(vector * (1 if _zero_one(vector) else steps)).astype(np.int64)
                for name, vector in zip(form.attributes, form.vectors, strict=True)
            }
            return np.asarray(source.weigh(vectors), dtype=np.int64)
        values = np.rint(form.tensor() * steps).astype(np.int64)
        counts = source.marginal(form.attributes)
        if counts.shape != values.shape:
            # Broadcasting would count a record several times.
            raise QueryError(f"{self.query.text}: its values do not have the shape of its attributes")
        return np.asarray(np.sum(counts * values), dtype=np.int64)

    def describe(self) -> dict[str, object]:
        return {"query": self.query.to_dict()}


def _shape(form: Product | Dense) -> tuple[int, ...]:
    return form.values.shape if isinstance(form, Dense) else tuple(len(vector) for vector in form.vectors)


def _zero_one(vector: np.ndarray) -> bool:
    return bool(((vector == 0) | (vector == 1)).all())


class MarginalCounts:
    """All cells of one marginal."""

    def __init__(self, marginal: Marginal, domain: Domain) -> None:
        self.marginal = marginal
        self.attributes = marginal.canonical(domain)

    def resolution(self, person_grid: int) -> int:
        return 1

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return of_one_marginal(neighbours)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        return source.marginal(self.attributes)

    def describe(self) -> dict[str, object]:
        return {"marginal": list(self.attributes)}


Kind = Literal["cells", "boxes", "predicates"]


@dataclass(frozen=True, eq=False)
class MaxError(_Fine):
    """The largest error of public guesses over a class of queries on attribute sets (spec online.md 1).

    `guesses[i]` is the guessed marginal of `sets[i]` in records. Classes: every cell; every box of consecutive codes;
    every predicate (total variation). Each is a maximum of functions that one record moves by at most one.
    """

    kind: Kind
    sets: tuple[tuple[str, ...], ...]
    guesses: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        if self.kind not in ("cells", "boxes", "predicates"):
            raise QueryError(f"an audit covers cells, boxes or predicates, not {self.kind!r}")
        if not self.sets or len(self.sets) != len(self.guesses):
            raise QueryError(
                f"{len(self.sets)} attribute sets need as many guesses, got {len(self.guesses)}; at least one"
            )

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return ONE

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        largest = 0
        for counts, guess in zip(source.marginals(self.sets), self.guesses, strict=True):
            largest = max(largest, self._largest(self._difference(counts, guess, person_grid)))
        return np.asarray(largest, dtype=np.int64)

    def _difference(self, counts: np.ndarray, guess: np.ndarray, person_grid: int) -> np.ndarray:
        steps = fine(person_grid)
        return counts * steps - on_grid(guess, steps * person_grid, summed=1).reshape(counts.shape)

    def _largest(self, difference: np.ndarray) -> int:
        if self.kind == "cells":
            return int(np.abs(difference).max())
        if self.kind == "boxes":
            return largest_box(difference)
        return max(int(difference[difference > 0].sum()), -int(difference[difference < 0].sum()))

    def describe(self) -> dict[str, object]:
        return {
            "max error": self.kind,
            "sets": [list(s) for s in self.sets],
            "guesses": digest(*self.guesses),
        }


@dataclass(frozen=True, eq=False)
class AnswerErrors(_Fine):
    """The largest of `abs(count - guess)` over explicit linear queries: one question or a batch of them."""

    queries: tuple[Linear, ...]
    guesses: np.ndarray
    domain: Domain

    def __post_init__(self) -> None:
        if not self.queries or len(self.queries) != len(np.atleast_1d(self.guesses)):
            raise QueryError(
                f"{len(self.queries)} queries need as many guesses, got {len(np.atleast_1d(self.guesses))}"
            )

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return ONE

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        steps = fine(person_grid)
        guesses = on_grid(np.atleast_1d(self.guesses), steps * person_grid)
        largest = 0
        for query, guess in zip(self.queries, guesses, strict=True):
            statistic = LinearCount(query, self.domain)
            count = int(statistic.evaluate(source, person_grid)) * (steps // statistic.resolution(person_grid))
            largest = max(largest, abs(count - int(guess)))
        return np.asarray(in_range(largest), dtype=np.int64)

    def describe(self) -> dict[str, object]:
        return {
            "errors of": [query.to_dict() for query in self.queries],
            "guesses": digest(np.atleast_1d(self.guesses)),
        }


@dataclass(frozen=True, eq=False)
class _Scores(_Fine):
    """Scores of queries, then of their complements: `w c + o + b`, then `-w c - o + b`.

    `c` is the query's count; the complement's is n minus it, and n cancels in a softmax. Offsets `o`, bonuses `b` and
    weights `w` are public, one per query. A weight is at most 1, so one record moves a score by at most one.
    """

    weights: np.ndarray | None = field(default=None, kw_only=True)
    bonuses: np.ndarray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.weights is not None and not ((self.weights > 0) & (self.weights <= 1)).all():
            raise QueryError("weights of queries lie above 0 and at most at 1; divide by the largest")

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return ONE

    def _scores(self, counts: np.ndarray, offsets: np.ndarray, person_grid: int) -> np.ndarray:
        steps = fine(person_grid)
        if any(given is not None and len(given) != len(counts) for given in (offsets, self.weights, self.bonuses)):
            raise QueryError(f"{len(counts)} queries need as many offsets, weights and bonuses, got {len(offsets)}")
        # Weights round down: the sensitivity stays below the stated one.
        moved = counts * (steps if self.weights is None else np.floor(self.weights * steps).astype(np.int64))
        bonus = 0.0 if self.bonuses is None else self.bonuses
        raised, lowered = (on_grid(bonus + sign * offsets, steps * person_grid) for sign in (1, -1))
        return np.concatenate([raised + moved, lowered - moved])

    def _digest(self, *offsets: np.ndarray) -> str:
        return digest(*offsets, *(np.zeros(0) if given is None else given for given in (self.weights, self.bonuses)))


@dataclass(frozen=True, eq=False)
class CellScores(_Scores):
    """One score per cell of each set, in order.

    Serves signed errors (offset = minus guess) and DualQuery's weights (offset = minus what the data player played).
    """

    sets: tuple[tuple[str, ...], ...]
    offsets: tuple[np.ndarray, ...]

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts = np.concatenate([c.ravel() for c in source.marginals(self.sets)])
        return self._scores(counts, np.concatenate([np.ravel(o) for o in self.offsets]), person_grid)

    def describe(self) -> dict[str, object]:
        # A digest: a run of DualQuery asks for the same thousands of sets in every round.
        sets = hashlib.sha256(repr(self.sets).encode()).hexdigest()
        return {"cells of": len(self.sets), "sets": sets, "offsets": self._digest(*self.offsets)}


@dataclass(frozen=True, eq=False)
class ConjunctionScores(_Scores):
    """As `CellScores`, over an explicit list of conjunctions."""

    conjunctions: Conjunctions
    offsets: np.ndarray

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        return self._scores(source.conjunctions(self.conjunctions), self.offsets, person_grid)

    def describe(self) -> dict[str, object]:
        return {"conjunctions": self.conjunctions.digest, "offsets": self._digest(self.offsets)}


STATISTICS = (LinearCount, MarginalCounts, MaxError, AnswerErrors, CellScores, ConjunctionScores)
"""All that may be computed from rows."""
