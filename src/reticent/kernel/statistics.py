"""Statistics: public descriptions of integers that the kernel computes from rows, with their sensitivities.

Algorithms can learn only these. Values lie on an integer grid (spec 1.3): a statistic's exact integers divided by
`grid` are records. Guesses are public numbers computed outside the kernel; they are rounded to the same grid, so a
difference of a count and a guess has the sensitivity of the count.

`GroupCounts` measures all groups of a GROUP BY with a condition as one statistic: a record counts in at most one of
them. `BlockCounts` counts blocks of consecutive codes: a marginal of coarser attributes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol, get_args

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.counting.boxes import largest_box
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.table import CountSource
from reticent.queries.base import Linear
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.forms import Dense, Product
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal
from reticent.queries.partitions import partition_of

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


STATE = "state"
FLOATS = ("guesses", "thetas", "offsets")
"""Parts of descriptions that are digests of computed floats: the same state gives other bits on another processor."""


class Statistic(Protocol):
    """What `measure`, `select` and `exceeds` compute before noise is added.

    A statistic that compares with computed numbers may name the public `state` from which they were computed: the
    digest of a stored snapshot or of earlier releases. Its request then refers to the state, not to the bits of the
    numbers.
    """

    def resolution(self, person_grid: int) -> int:
        """Steps per unit of person weight; a value in records is integer / (resolution * person grid)."""
        ...

    def sensitivity(self, neighbours: str) -> Sensitivity: ...

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray: ...

    def describe(self) -> dict[str, object]: ...


def fine(person_grid: int) -> int:
    """The finest resolution for this person grid, a power of two."""
    return FINE if person_grid == 1 else FINE_PERSONS


class _Fine:
    """Statistics that compare with guesses use the finest resolution."""

    def resolution(self, person_grid: int) -> int:
        return fine(person_grid)


def on_grid(guess: np.ndarray | float, grid: int, *, summed: int = 0) -> np.ndarray:
    """Public guesses, in records, as integers on the grid.

    If sums of them are taken and then multiplied by `summed`, their total is limited: an int64 sum that wraps around
    would be a function of the rows without any bound on its sensitivity.
    """
    scaled = np.asarray(guess, dtype=np.float64) * grid
    size = np.abs(scaled).sum() * summed if summed else np.abs(scaled).max(initial=0.0)
    if not size < LARGEST_GUESS:
        most = LARGEST_GUESS / (grid * max(summed, 1))
        raise QueryError(f"guesses must be finite and below {most:.3g} records; compute them from a hypothesis")
    return np.rint(scaled).astype(np.int64)


def in_range(value: int) -> int:
    """Values clipped to int64, so that no row can raise an error; clipping moves no two values further apart."""
    return max(-(2**63), min(value, 2**63 - 1))


def digest(*arrays: np.ndarray) -> str:
    """Identifies public arrays in the ledger, so that one idempotency key cannot serve two questions."""
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(repr((array.shape, array.dtype.str)).encode())
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


def bound_to(state: str | None, name: str, *arrays: np.ndarray) -> dict[str, object]:
    """The part of a description that identifies computed numbers: their state, or otherwise their bits."""
    return {name: digest(*arrays)} if state is None else {STATE: state}


def checked_form(text: str, form: Product | Dense, domain: Domain) -> Product | Dense:
    """A function from records to [0, 1], verified on the universe independent of its compiler."""
    if type(form) not in (Product, Dense):
        raise QueryError(f"{type(form).__name__} is not a form of the library; compile queries to Product or Dense")
    if tuple(domain.shape_of(form.attributes)) != _shape(form):
        raise QueryError(f"{text}: its values do not have the shape of its attributes")
    # Every factor by itself: a product's own range presumes that none is negative.
    for part in form.vectors if isinstance(form, Product) else (form.values,):
        if not 0 <= part.min() <= part.max() <= 1:
            raise QueryError(f"{text}: values run from {part.min():g} to {part.max():g}; they must lie in [0, 1]")
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

    @property
    def by_marginal(self) -> bool:
        """Whether it is counted from the marginal of its attributes; otherwise record by record."""
        form = self.form
        return isinstance(form, Dense) or (bool(form.attributes) and math.prod(_shape(form)) <= MARGINAL_CELLS)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        return np.asarray(self.total(source, self.resolution(person_grid)), dtype=np.int64)

    def total(self, source: CountSource, steps: int, weight: float = 1.0) -> int:
        """The sum over records of `floor(weight rint(q steps))`, for a public weight of at most 1."""
        form = self.form
        if isinstance(form, Product) and not self.by_marginal:
            # At most one vector is fractional; the others are 0 or 1, and so is their product with it.
            fractional = [not _zero_one(vector) for vector in form.vectors]
            scaled = fractional.index(True) if any(fractional) else 0
            vectors = {
                name: _on_steps(vector, steps if place == scaled else 1, weight if place == scaled else 1.0)
                for place, (name, vector) in enumerate(zip(form.attributes, form.vectors, strict=True))
            }
            return source.weigh(vectors) if vectors else source.total() * math.floor(weight * steps)
        values = _on_steps(form.tensor(), steps, weight)
        counts = source.marginal(form.attributes)
        if counts.shape != values.shape:
            # Broadcasting would count a record several times.
            raise QueryError(f"{self.query.text}: its values do not have the shape of its attributes")
        return int(np.sum(counts * values))

    def describe(self) -> dict[str, object]:
        return {"query": self.query.to_dict()}


def _shape(form: Product | Dense) -> tuple[int, ...]:
    return form.values.shape if isinstance(form, Dense) else tuple(len(vector) for vector in form.vectors)


def _on_steps(values: np.ndarray, steps: int, weight: float) -> np.ndarray:
    """Query values as whole numbers from 0 to `steps`; a weight rounds down, so that it never increases one."""
    rounded = np.rint(values * steps)
    return (rounded if weight == 1.0 else np.floor(rounded * weight)).astype(np.int64)


def _zero_one(vector: np.ndarray) -> bool:
    return bool(((vector == 0) | (vector == 1)).all())


class _Divided:
    """Numbers of which a record adds one in all, as to the cells of a marginal."""

    def resolution(self, person_grid: int) -> int:
        return 1

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return of_one_marginal(neighbours)


class MarginalCounts(_Divided):
    """All cells of one marginal."""

    def __init__(self, marginal: Marginal, domain: Domain) -> None:
        self.marginal = marginal
        self.attributes = marginal.canonical(domain)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        return source.marginal(self.attributes)

    def describe(self) -> dict[str, object]:
        return {"marginal": list(self.attributes)}


Kind = Literal["cells", "boxes", "predicates"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, eq=False)
class MaxError(_Fine):
    """The largest error of public guesses over a class of queries on attribute sets (spec online.md 1).

    `guesses[i]` is the guessed marginal of `sets[i]` in records. Classes: every cell; every box of consecutive codes;
    every predicate (total variation). Each is a maximum of functions that one record moves by at most one.
    """

    kind: Kind
    sets: tuple[tuple[str, ...], ...]
    guesses: tuple[np.ndarray, ...]
    state: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("cells", "boxes", "predicates"):
            raise QueryError(f"an audit covers cells, boxes or predicates, not {self.kind!r}")
        if not self.sets or len(self.sets) != len(self.guesses):
            raise QueryError(f"{len(self.sets)} sets need as many guesses, got {len(self.guesses)}; at least one")

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
        return max(int(np.maximum(difference, 0).sum()), -int(np.minimum(difference, 0).sum()))

    def describe(self) -> dict[str, object]:
        return {
            "max error": self.kind,
            "sets": [list(s) for s in self.sets],
            **bound_to(self.state, "guesses", *self.guesses),
        }


@dataclass(frozen=True, eq=False)
class AnswerErrors(_Fine):
    """The largest of `abs(count - guess)` over explicit linear queries: one question or a batch of them."""

    queries: tuple[Linear, ...]
    guesses: np.ndarray
    domain: Domain
    state: str | None = None

    def __post_init__(self) -> None:
        if not self.queries or len(self.queries) != len(np.atleast_1d(self.guesses)):
            raise QueryError(f"{len(self.queries)} queries need as many guesses, got {np.size(self.guesses)}")

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
            **bound_to(self.state, "guesses", np.atleast_1d(self.guesses)),
        }


@dataclass(frozen=True, eq=False)
class Scores(_Fine):
    """Scores of queries, then of their complements: `w c + o + b`, then `-w c - o + b`.

    `c` is the query's count; the complement's is n minus it, and n cancels in a softmax. Offsets `o`, bonuses `b` and
    weights `w` are public, one per query. A weight is at most 1, so one record moves a score by at most one.
    """

    weights: np.ndarray | None = field(default=None, kw_only=True)
    bonuses: np.ndarray | None = field(default=None, kw_only=True)
    state: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.weights is not None and not ((self.weights > 0) & (self.weights <= 1)).all():
            raise QueryError("query weights must be above 0 and at most 1; divide them by the largest")

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return ONE

    def _scores(self, counts: np.ndarray, offsets: np.ndarray, person_grid: int) -> np.ndarray:
        """From counts of 0/1 queries."""
        self._check_lengths(len(counts), offsets)
        steps = fine(person_grid)
        # Weights round down: the sensitivity stays below the stated one.
        moved = counts * (steps if self.weights is None else np.floor(self.weights * steps).astype(np.int64))
        return self.both_signs(moved, offsets, person_grid)

    def _check_lengths(self, queries: int, offsets: np.ndarray) -> None:
        if any(given is not None and len(given) != queries for given in (offsets, self.weights, self.bonuses)):
            raise QueryError(f"{queries} queries need as many offsets, weights and bonuses, got {len(offsets)}")

    def both_signs(self, moved: np.ndarray, offsets: np.ndarray, person_grid: int) -> np.ndarray:
        """`moved` are weighted counts on the finest grid: what one record moves by at most one."""
        self._check_lengths(len(moved), offsets)
        steps = fine(person_grid)
        bonus = 0.0 if self.bonuses is None else self.bonuses
        raised, lowered = (on_grid(bonus + sign * offsets, steps * person_grid) for sign in (1, -1))
        return np.concatenate([raised + moved, lowered - moved])

    def bound_offsets(self, *offsets: np.ndarray) -> dict[str, object]:
        given = (np.zeros(0) if given is None else given for given in (self.weights, self.bonuses))
        return bound_to(self.state, "offsets", *offsets, *given)


@dataclass(frozen=True, eq=False)
class CellScores(Scores):
    """One score per cell of each set, in order.

    Serves signed errors (offset = minus guess) and DualQuery's weights (offset = minus what the data player played).
    """

    sets: tuple[tuple[str, ...], ...]
    offsets: tuple[np.ndarray, ...]

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts = np.concatenate([c.ravel() for c in source.marginals(self.sets)])
        return self._scores(counts, np.concatenate([np.ravel(o) for o in self.offsets]), person_grid)

    def describe(self) -> dict[str, object]:
        # A digest, because a run of DualQuery uses the same thousands of sets in every round.
        sets = hashlib.sha256(repr(self.sets).encode()).hexdigest()
        return {"cells of": len(self.sets), "sets": sets, **self.bound_offsets(*self.offsets)}


@dataclass(frozen=True, eq=False)
class ConjunctionScores(Scores):
    """As `CellScores`, over an explicit list of conjunctions."""

    conjunctions: Conjunctions
    offsets: np.ndarray

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        return self._scores(source.conjunctions(self.conjunctions), self.offsets, person_grid)

    def describe(self) -> dict[str, object]:
        return {"conjunctions": self.conjunctions.digest, **self.bound_offsets(self.offsets)}


STATISTICS = (LinearCount, MarginalCounts, MaxError, AnswerErrors, CellScores, ConjunctionScores)
"""All that may be computed from rows."""


class GroupCounts(_Divided):
    """For every cell of the grouped attributes, the sum over its records of a public value in [0, 1].

    A record adds at most one to one cell and nothing elsewhere, as in a marginal (proofs/groups.md).
    """

    def __init__(self, groups: Groups, domain: Domain) -> None:
        self.groups = groups
        self._names = domain.canonical(groups.names)
        self.form = checked_form(groups.text, groups.form(domain), domain)
        self.span = domain.canonical({*groups.names, *self.form.attributes})
        if (cells := domain.cells(self.span)) > MARGINAL_CELLS:
            raise QueryError(f"{groups.text} needs {cells} cells; at most {MARGINAL_CELLS}: ask its groups one by one")

    def resolution(self, person_grid: int) -> int:
        return 1 if self.form.binary else fine(person_grid)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts, looked_at = source.marginal(self.span), self.form.attributes
        extents = [size if name in looked_at else 1 for name, size in zip(self.span, counts.shape, strict=True)]
        values = np.rint(self.form.tensor() * self.resolution(person_grid)).astype(np.int64).reshape(extents)
        dropped = tuple(axis for axis, name in enumerate(self.span) if name not in self._names)
        return (counts * values).sum(axis=dropped)

    def describe(self) -> dict[str, object]:
        """The description with names in the domain's order, as for the released counts: the ledger does not depend on
        the order of asking.
        """
        return {"groups": self.groups.ordered(self._names).to_dict()}


class BlockCounts(_Divided):
    """The records in every block of codes; block i of an attribute of width w holds the codes from i w below (i+1) w.

    The last block of an attribute may be shorter. A record lies in one block only, as in a marginal (proofs/blocks.md).
    """

    def __init__(self, names: Iterable[str], widths: Iterable[int], domain: Domain) -> None:
        self.names = tuple(names)
        self.widths = tuple(widths)
        self.domain = domain
        if not self.names or self.names != domain.canonical(self.names) or len(self.names) != len(self.widths):
            raise QueryError(f"blocks of {self.names} need one width each, and names in the domain's order")
        for name, width in zip(self.names, self.widths, strict=True):
            if type(width) is not int or not 1 <= width <= domain[name].size:
                raise QueryError(f"a block of {width!r} codes of {name}: give 1 to {domain[name].size} codes")
        if (cells := domain.cells(self.names)) > MARGINAL_CELLS:
            raise QueryError(f"blocks of {', '.join(self.names)} need {cells} cells; at most {MARGINAL_CELLS}")

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts = source.marginal(self.names)
        for axis, width in enumerate(self.widths):
            counts = np.add.reduceat(counts, np.arange(0, counts.shape[axis], width), axis=axis)
        return counts

    def describe(self) -> dict[str, object]:
        return {"blocks": {"marginal": list(self.names), "widths": list(self.widths)}}


class PartitionCounts(_Divided):
    """How many records lie in each part of a partition (docs/proofs/partitions.md).

    One query with values in [0, 1] divides every record between two parts: what it leaves, and what it counts. Several
    queries with values 0 and 1 divide the cells of their attributes by their answers, in the order of `answers`.
    Whatever `parts` are, every cell has one.
    """

    def __init__(self, queries: Sequence[Linear], domain: Domain) -> None:
        self.queries, self.domain = tuple(queries), domain
        self._single = LinearCount(self.queries[0], domain) if len(self.queries) == 1 else None
        self.attributes, self.parts, self.answers = partition_of(self.queries, domain)
        if self._single is None and self.parts.shape != tuple(domain.shape_of(self.attributes)):
            raise QueryError("every cell of a partition has one part")  # broadcasting would count it in several

    def resolution(self, person_grid: int) -> int:
        return self._single.resolution(person_grid) if self._single else 1

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        if self._single:
            counted = int(self._single.evaluate(source, person_grid))
            return np.array([source.total() * self.resolution(person_grid) - counted, counted], dtype=np.int64)
        found = np.zeros(len(self.answers), dtype=np.int64)
        np.add.at(found, self.parts, source.marginal(self.attributes))
        return found

    def describe(self) -> dict[str, object]:
        return {"partition": [query.to_dict() for query in self.queries]}
