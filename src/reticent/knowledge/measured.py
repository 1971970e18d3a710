"""Measurements with their noise: single queries, marginals and groups, each of which answers further questions.

Measured cells answer every sum of themselves for free, with a bound that holds for the whole class of sums. Measured
queries and groups are indexed by question, in layers of growing size that are merged like the digits of a counter, so
an addition costs the logarithm of their number. Purchases covered by an index stay in the ledger and are read on
demand: opening a long ledger parses none of them.

`combined_marginals` computes marginals from measured residuals, with noise that bounds their sums
(docs/proofs/residuals.md, claim 8).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import inf, lgamma, log, prod, sqrt
from typing import Generic, TypeVar

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement, average
from reticent.hypotheses.fitting.consistent import Consistent, consistent_of, subsets_of
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.knowledge.tails import SINGLE, Shares, box_reach, laplace_sum, noise_failure, reach, sum_reach
from reticent.queries.base import Linear
from reticent.queries.forms import Form, Product, essential
from reticent.queries.groups import Groups

KEPT_BOUNDS = 2**14
"""Analysts choose queries and confidences, so what is remembered about them is limited."""

CLASSES = 3
"""Kinds of sums with bounds of their own; the smallest is used, so all must hold together."""

FITTED_GROUPS = 256
"""A fit takes each group as a query of its own; more would make it slow."""

KEPT_QUERIES = 2**16
"""Measured queries that were looked up and stay in memory."""


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """Noisy cells of one attribute set, as fractions, kept for later sums.

    `rank` counts the measured marginals of a session: an analyst may choose among them after seeing all noise, so the
    sums of the i-th have the share 1/(i (i + 1)) of the failure probability. The cells of a `declared` marginal (bought
    for a question about them) need no such share.
    """

    attributes: tuple[str, ...]
    values: np.ndarray
    noise: Noise
    records: float
    records_error: float
    ledger_id: int | None
    rank: int = 1
    declared: bool = True
    shares: Shares = SINGLE
    combined: bool = False
    """Its cells come from residuals: `noise` bounds their sums (docs/proofs/residuals.md, claim 8), a fit reads the
    residuals themselves."""

    @cached_property
    def sd(self) -> float:
        return self.noise.sd / self.records

    @cached_property
    def for_all(self) -> MeasuredMarginal:
        """The same cells as a statement for all questions, independent of the question that bought them."""
        return replace(self, declared=False) if self.declared else self

    def ranked(self, rank: int) -> MeasuredMarginal:
        return replace(self, rank=rank)

    def balanced(self) -> MeasuredMarginal:
        """Cells shifted to sum to one, if the number of records is public and the noise Gaussian.

        Subtracting the mean of the noise lowers the variance of every sum of cells and keeps it sub-Gaussian, so all
        bounds hold, and parts add up to the known total.
        """
        if self.records_error or not isinstance(self.noise, Gaussian):
            return self
        return replace(self, values=self.values + (1 - self.values.sum()) / self.values.size)

    def value_of(self, form: Form) -> float:
        """The sum of the measured cells, weighted by the query."""
        return average(form, self.over(form.attributes))

    def over(self, attributes: tuple[str, ...]) -> np.ndarray:
        """The measured cells summed over all other attributes; cached for each attribute set."""
        found = self._sums.get(attributes)
        if found is None:
            dropped = tuple(i for i, name in enumerate(self.attributes) if name not in attributes)
            found = self._sums[attributes] = self.values.sum(axis=dropped)
        return found

    def summed_sd(self, attributes: tuple[str, ...]) -> float:
        """The noise of a cell of some of its attributes, in records."""
        return self.noise.sd * sqrt(self._merged(attributes))

    def error_of(self, form: Form, confidence: float) -> float:
        """A bound for this query that holds for all queries of its class at once (spec online.md 2.3)."""
        asked = form.outline
        if not set(asked.attributes) <= set(self.attributes) or not self._failure(confidence) > 0:
            return inf
        merged = self._merged(asked.attributes)
        if asked.kind == "weighted":
            return self._bound(self._layers(form, self._merged(form.attributes), self._chosen(confidence)))
        kind = "cell" if merged == asked.cells == 1 and asked.kind == "box" else asked.kind
        key = (kind, int(asked.cells) * merged, confidence)
        known = self._errors.get(key)
        if known is None:
            if len(self._errors) >= KEPT_BOUNDS:
                self._errors.clear()
            known = self._errors[key] = self._bound(self._plain(*key))
        return known

    def _plain(self, kind: str, chosen: int, confidence: float) -> float:
        """The smallest of the bounds for an unweighted sum of a number of cells."""
        failure = self._chosen(confidence)
        bounds = [self._any_sum(chosen, failure)]
        if kind == "cell" and not self.combined:
            own = self._failure(confidence) * self.shares.own if self.declared else failure
            bounds.append(reach(self.noise, own / (2 * self.values.size)) / self.records)
        elif kind in ("cell", "box"):
            bounds.append(self._box_sum(chosen, failure))
        return min(bounds)

    def _chosen(self, confidence: float) -> float:
        return chosen_failure(confidence, self.records_error, self.shares, self.rank)

    def _failure(self, confidence: float) -> float:
        return noise_failure(confidence, self.records_error)

    def _bound(self, noise: float) -> float:
        return noise + self.records_error + 1 / self.records

    def _merged(self, attributes: tuple[str, ...]) -> int:
        """The number of cells of this marginal in each cell of some of its attributes."""
        return self.values.size // self.over(attributes).size

    @cached_property
    def _sums(self) -> dict[tuple[str, ...], np.ndarray]:
        return {}

    @cached_property
    def _errors(self) -> dict[tuple[str, int, float], float]:
        return {}

    def _layers(self, form: Form, merged: int, failure: float) -> float:
        """A weighted sum is an average of unweighted sums over the superlevel sets of the weight (layer cake)."""
        weights = np.sort(form.tensor(), axis=None)
        levels, first = np.unique(weights, return_index=True)
        steps = np.diff(levels, prepend=0.0)
        sizes = (weights.size - first) * merged
        return float(sum(s * self._any_sum(int(j), failure) for s, j in zip(steps, sizes, strict=True) if s > 0))

    def _any_sum(self, chosen: int, failure: float) -> float:
        """A bound on all sums of `chosen` cells, for all sizes at once: a union bound over choices and sizes."""
        cells = self.values.size
        if isinstance(self.noise, Gaussian):
            return sum_reach(self.sd, chosen, cells, failure)
        return self._laplace_sum(chosen, _log_choices(cells, chosen) + log(2 * cells / failure))

    def _box_sum(self, chosen: int, failure: float) -> float:
        """A bound on all boxes at once."""
        shape = self.values.shape
        if isinstance(self.noise, Gaussian):
            return box_reach(self.sd, chosen, shape, failure)
        return self._laplace_sum(chosen, log(2 * prod(size * (size + 1) // 2 for size in shape) / failure))

    def _laplace_sum(self, chosen: int, exponent: float) -> float:
        """t with P(sum of `chosen` noises > t) <= exp(-exponent)."""
        return laplace_sum(self.sd / sqrt(2), chosen, exponent)


def chosen_failure(confidence: float, records_error: float, shares: Shares, rank: int) -> float:
    """The share of the failure probability for sums chosen after the noise was seen: cells, boxes and any sums."""
    return noise_failure(confidence, records_error) * shares.derived(rank) / CLASSES


def _log_choices(cells: int, chosen: int) -> float:
    return lgamma(cells + 1) - lgamma(chosen + 1) - lgamma(cells - chosen + 1) + 1e-9


@dataclass(frozen=True, eq=False)
class MeasuredGroups:
    """Noisy shares of the table, axes in the order of the query's names; impossible groups are exactly zero."""

    query: Groups
    domain: Domain
    values: np.ndarray
    noise: Noise
    records: float
    records_error: float
    ledger_id: int | None
    shares: Shares = SINGLE

    @classmethod
    def of(
        cls,
        query: Groups,
        domain: Domain,
        released: np.ndarray,
        noise: Noise,
        records: float,
        records_error: float,
        ledger_id: int | None,
        shares: Shares = SINGLE,
    ) -> MeasuredGroups:
        """Measured groups from released counts, axes in the domain's order."""
        canonical = domain.canonical(query.names)
        fractions = np.transpose(released, [canonical.index(name) for name in query.names]) / records
        values = np.where(possible(query, domain), fractions, 0.0)
        return cls(query, domain, values, noise, records, records_error, ledger_id, shares)

    def error_at(self, confidence: float) -> float:
        """An error that holds for all groups jointly, hence also for one chosen after seeing them."""
        failure = noise_failure(confidence, self.records_error) * self.shares.own
        if not failure > 0:
            return inf
        groups = max(1, int(possible(self.query, self.domain).sum()))
        stray = (reach(self.noise, failure / (2 * groups)) + 1) / self.records
        return stray + self.records_error + (0.0 if self._form.binary else VALUE_ROUNDING)

    def answers(self, query: Groups) -> bool:
        """Whether it is an equivalent question."""
        same = set(query.names) == set(self.query.names)
        return same and essential(query.form(self.domain)).digest == self._form.digest

    def over(self, query: Groups) -> np.ndarray:
        """The shares, axes in the order of that question."""
        return np.transpose(self.values, [self.query.names.index(name) for name in query.names])

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of a question about one of the groups."""
        return self.domain.canonical({*self.query.names, *self._form.attributes})

    def place(self, form: Form) -> tuple[int, ...] | None:
        """The group that a form over the same attributes asks for; None if there is none."""
        if not isinstance(form, Product) or not isinstance(self._form, Product):
            return None
        own = dict(zip(self._form.attributes, self._form.vectors, strict=True))
        codes: dict[str, int] = {}
        for name, vector in zip(form.attributes, form.vectors, strict=True):
            if name not in self.query.names:
                if not np.array_equal(vector, own[name]):
                    return None
                continue
            taken = np.flatnonzero(vector)
            if taken.size != 1 or vector[taken[0]] != (own[name][taken[0]] if name in own else 1.0):
                return None
            codes[name] = int(taken[0])
        return tuple(codes[name] for name in self.query.names)

    def value_of(self, form: Form) -> float:
        place = self.place(form)
        assert place is not None, "only its own groups are read from it"
        return float(self.values[place])

    def measurements(self) -> Iterator[Measurement]:
        """One query per group, in the form that a fit takes."""
        if self.values.size <= FITTED_GROUPS:
            sd = self.noise.sd / self.records
            for part, value in zip(self.query.parts(self.domain), self.values.ravel(), strict=True):
                yield Measurement(part, np.asarray(value), sd, self.noise.describe())

    @cached_property
    def question_digest(self) -> str:
        """The digest of the question, independent of its text."""
        return _question_digest(self.query, self.domain)

    @property
    def cell_digests(self) -> tuple[str, ...]:
        """Digests under which a question about one group finds it; none if groups are not read one by one."""
        form = self._form
        return (_cell_digest(form, self.attributes, self.query.names),) if isinstance(form, Product) else ()

    @cached_property
    def _form(self) -> Form:
        return essential(self.query.form(self.domain))


def possible(query: Groups, domain: Domain) -> np.ndarray:
    """Mask of the groups that may contain records, by the domain alone."""
    return query.read(domain, np.ones(domain.shape_of(query.span(domain)))) > 0


@dataclass(frozen=True, eq=False)
class MeasuredQuery:
    """One linear query with its noisy answer, as a fraction."""

    query: Linear
    value: float
    noise: Noise
    ledger_id: int
    binary: bool = False
    shares: Shares = SINGLE

    def error_at(self, confidence: float, records: float, records_error: float) -> float:
        """The error at a confidence; one record covers the noise grid and the rounding of fractional values."""
        failure = noise_failure(confidence, records_error) * self.shares.own
        if not failure > 0:
            return inf
        return (reach(self.noise, failure / 2) + 1) / records + records_error + self.rounding

    @property
    def rounding(self) -> float:
        return 0.0 if self.binary else VALUE_ROUNDING

    def value_of(self, form: Form) -> float:
        """Its own answer, for the form with which it was asked."""
        return self.value


Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Index:
    """Positions of purchases in a ledger: the first eight bytes of a digest, and the event that settled it."""

    prefixes: np.ndarray
    sequences: np.ndarray

    @classmethod
    def of(cls, entries: Sequence[tuple[int, str]]) -> Index:
        """An index of settlements and digests."""
        prefixes = np.array([prefix(digest) for _, digest in entries], dtype=np.uint64)
        sequences = np.array([sequence for sequence, _ in entries], dtype=np.int64)
        order = np.lexsort((sequences, prefixes))
        return cls(prefixes[order], sequences[order])

    def __len__(self) -> int:
        return len(self.prefixes)

    def joined(self, other: Index) -> Index:
        prefixes = np.concatenate([self.prefixes, other.prefixes])
        sequences = np.concatenate([self.sequences, other.sequences])
        order = np.lexsort((sequences, prefixes))
        return Index(prefixes[order], sequences[order])

    def find(self, digest: str) -> list[int]:
        """Settlements that may have this digest: only eight bytes are compared."""
        wanted = np.uint64(prefix(digest))
        first = int(np.searchsorted(self.prefixes, wanted))
        found = []
        while first < len(self.prefixes) and self.prefixes[first] == wanted:
            found.append(int(self.sequences[first]))
            first += 1
        return found

    def to_list(self) -> list[str]:
        """Both columns as text."""
        columns = [self.prefixes.astype("<u8"), self.sequences.astype("<i8")]
        return [base64.b64encode(column.tobytes()).decode() for column in columns]

    @classmethod
    def from_list(cls, told: list[str]) -> Index:
        """The inverse of `to_list`; ValueError or TypeError for invalid data."""
        prefixes, sequences = map(base64.b64decode, told)
        if len(prefixes) != len(sequences):
            raise ValueError("not an index")
        return cls(np.frombuffer(prefixes, "<u8").astype(np.uint64), np.frombuffer(sequences, "<i8").astype(np.int64))


def prefix(digest: str) -> int:
    return int(digest[:16], 16)


class StoredItems(Generic[Item]):
    """Purchases that are read from the ledger one by one, by segments of an index; `read` returns that of one event."""

    def __init__(self, segments: Sequence[Index], read: Callable[[int], Sequence[tuple[str, Item]]]) -> None:
        self._segments = tuple(segments)
        self._read = read
        self._kept: dict[int, Sequence[tuple[str, Item]]] = {}

    def find(self, digest: str) -> tuple[Item, ...]:
        sequences = sorted(sequence for segment in self._segments for sequence in segment.find(digest))
        found = [entry for sequence in dict.fromkeys(sequences) for entry in self._entries(sequence)]
        return tuple(item for named, item in found if named == digest)

    def _entries(self, sequence: int) -> Sequence[tuple[str, Item]]:
        found = self._kept.get(sequence)
        if found is None:
            if len(self._kept) >= KEPT_QUERIES:
                self._kept.clear()
            found = self._kept[sequence] = self._read(sequence)
        return found

    @cached_property
    def everything(self) -> dict[str, tuple[Item, ...]]:
        """All of them, in order of payment."""
        found: dict[str, tuple[Item, ...]] = {}
        for sequence in sorted({int(sequence) for segment in self._segments for sequence in segment.sequences}):
            for digest, item in self._read(sequence):
                found[digest] = (*found.get(digest, ()), item)
        return found

    @cached_property
    def distinct(self) -> int:
        prefixes = [segment.prefixes for segment in self._segments]
        return int(np.unique(np.concatenate(prefixes)).size) if prefixes else 0


class ByDigest(Mapping[str, tuple[Item, ...]]):
    """Purchases by digest of their question, in the order of their first purchase; an immutable value."""

    def __init__(
        self,
        stored: StoredItems[Item] | None = None,
        layers: tuple[dict[str, tuple[Item, ...]], ...] = (),
        size: int | None = None,
    ) -> None:
        self._stored = stored
        self._layers = layers
        self._size = size if size is not None else 0 if stored is None else stored.distinct

    def adding(self, digest: str, item: Item) -> ByDigest[Item]:
        size = self._size + (digest not in self)
        layers = [*self._layers, {digest: (item,)}]
        while len(layers) > 1 and len(layers[-2]) <= 2 * len(layers[-1]):
            newer, merged = layers.pop(), dict(layers.pop())
            for name, repeats in newer.items():
                merged[name] = (*merged.get(name, ()), *repeats)
            layers.append(merged)
        return ByDigest(self._stored, tuple(layers), size)

    def __getitem__(self, digest: str) -> tuple[Item, ...]:
        found = () if self._stored is None else self._stored.find(digest)
        for layer in self._layers:
            found = (*found, *layer.get(digest, ()))
        if not found:
            raise KeyError(digest)
        return found

    def __iter__(self) -> Iterator[str]:
        seen = dict.fromkeys(self._stored.everything) if self._stored is not None else {}
        for layer in self._layers:
            seen |= dict.fromkeys(layer)
        return iter(seen)

    def __len__(self) -> int:
        return self._size

    def recent(self) -> list[tuple[str, Item]]:
        """Purchases that no index covers yet, with their digests."""
        return [(digest, item) for layer in self._layers for digest, items in layer.items() for item in items]


MeasuredQueries = ByDigest[MeasuredQuery]
"""By digest of the compiled form."""


@dataclass(frozen=True, eq=False)
class MeasuredTables:
    """Measured groups, found by their question or by one of their groups; an immutable value."""

    questions: ByDigest[MeasuredGroups] = field(default_factory=ByDigest)
    cells: ByDigest[MeasuredGroups] = field(default_factory=ByDigest)
    """By the attributes, the names of the groups and what is required of all other attributes."""
    shapes: Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Names of all measured groups, by their attributes."""
    size: int = 0

    def adding(self, measured: MeasuredGroups) -> MeasuredTables:
        cells = self.cells
        for digest in measured.cell_digests:
            cells = cells.adding(digest, measured)
        questions = self.questions.adding(measured.question_digest, measured)
        names, known = measured.query.names, self.shapes.get(measured.attributes, ())
        shapes = self.shapes if names in known else {**self.shapes, measured.attributes: (*known, names)}
        return MeasuredTables(questions, cells, shapes, self.size + 1)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[MeasuredGroups]:
        found = [measured for repeats in self.questions.values() for measured in repeats]
        return iter(sorted(found, key=_place))

    def same(self, query: Groups, domain: Domain) -> list[MeasuredGroups]:
        """Measurements of an equivalent question."""
        if not self.size:
            return []
        return [one for one in self.questions.get(_question_digest(query, domain), ()) if one.answers(query)]

    def holding(self, form: Form) -> list[MeasuredGroups]:
        """Measurements with a group that a form asks for."""
        if not self.size or not isinstance(form, Product):
            return []
        found = []
        for names in self.shapes.get(form.attributes, ()):
            held = self.cells.get(_cell_digest(form, form.attributes, names), ())
            found += [measured for measured in held if measured.place(form) is not None]
        return sorted(found, key=_place)


def _place(measured: MeasuredGroups) -> int:
    return measured.ledger_id or 0


def _question_digest(query: Groups, domain: Domain) -> str:
    told = json.dumps([sorted(query.names), essential(query.form(domain)).digest])
    return hashlib.sha256(told.encode()).hexdigest()


def _cell_digest(form: Product, attributes: tuple[str, ...], names: tuple[str, ...]) -> str:
    """The digest of a form's condition on attributes that are not names of groups."""
    digest = hashlib.sha256(json.dumps([attributes, names]).encode())
    for name, vector in zip(form.attributes, form.vectors, strict=True):
        if name not in names:
            digest.update(np.ascontiguousarray(vector, dtype="<f8").tobytes())
    return digest.hexdigest()


MARGIN = 1 + 1e-9
"""Covers the rounding of these few floating-point steps."""


def combined_marginals(
    residuals: Sequence[Measurement], domain: Domain, records: float, records_error: float, shares: Shares
) -> list[MeasuredMarginal]:
    """The marginals of all sets whose residuals were all measured, single attributes first.

    A sum of cells is a sum of orthogonal parts; none has more noise than the same number of independent cells with the
    noise of the least accurate part. The noise of the number of records is accounted for separately.
    """
    known = consistent_of(residuals, domain)
    found = []
    for names in sorted(known.precisions, key=lambda names: (len(names), [domain.index(name) for name in names])):
        if names and known.knows(names):
            noise = Gaussian(Fraction(_isotropic(known, names) * records * MARGIN))
            cells = known.marginal(names)[0]
            found.append(
                MeasuredMarginal(
                    names, cells, noise, records, records_error, None, declared=False, shares=shares, combined=True
                )
            )
    return found


def _isotropic(known: Consistent, names: tuple[str, ...]) -> float:
    """The noise of independent cells that no sum of the actual cells exceeds."""
    cells = np.prod([known.residuals[name,].size for name in names])
    parts = [(known.residuals[inner].size, known.precisions[inner]) for _, inner in subsets_of(names) if inner]
    return sqrt(max(size / cells / precision for size, precision in parts))
