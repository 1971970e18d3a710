"""Knowledge is all that a session has learned, as one frozen value: free answers are functions of it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from reticent.algorithms.certificates import Certificate, tightest
from reticent.algorithms.derived import MeasuredMarginal
from reticent.algorithms.grouped import MeasuredGroups
from reticent.algorithms.outlines import Outline, essential, outline
from reticent.algorithms.tails import noise_failure, reach
from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Noise
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.queries.base import Linear
from reticent.queries.forms import Form, Product, first_code
from reticent.queries.linear import Marginal

VACUOUS = 0.5
"""A fraction is never farther than that from one half: a larger bound certifies nothing."""
KEPT_CHOICES = 2**16
"""Analysts choose what is asked, so what is remembered about it is limited."""


@dataclass(frozen=True, eq=False)
class MeasuredQuery:
    """One linear query with its noisy answer, as a fraction."""

    query: Linear
    value: float
    noise: Noise
    ledger_id: int
    binary: bool = False

    def error_at(self, confidence: float, records: float, records_error: float) -> float:
        """One record covers the grid of the noise; fractional values were rounded before they were summed."""
        failure = noise_failure(confidence, records_error)
        if not failure > 0:
            return inf
        return (reach(self.noise, failure / 2) + 1) / records + records_error + self.rounding

    @property
    def rounding(self) -> float:
        return 0.0 if self.binary else VALUE_ROUNDING

    def value_of(self, form: Form) -> float:
        """Its own answer, for the form it was asked with."""
        return self.value


@dataclass(frozen=True, eq=False)
class Certified:
    """A stored snapshot with what is certified about it."""

    snapshot: Snapshot
    certificates: tuple[Certificate, ...]


@dataclass(frozen=True, eq=False)
class PassedBatch:
    """A declared batch whose largest error was audited: the certificate speaks of these questions only."""

    snapshot: Snapshot
    certificate: Certificate


class Source(NamedTuple):
    """One way to answer some queries for free: its error, where it comes from, and how it reads a form."""

    error: float
    origin: str
    read: Callable[[Form], float]
    snapshot: str | None = None
    ledger_id: int | None = None

    def reading(self, form: Form) -> Reading:
        return Reading(self.error, self.origin, partial(self.read, form), self.snapshot, self.ledger_id)


UNASKED = Source(inf, "", lambda form: inf)


class Reading(NamedTuple):
    """One way to answer a query for free: its error, where it comes from, and how to compute the fraction."""

    error: float
    origin: str
    compute: Callable[[], float | np.ndarray]
    snapshot: str | None = None
    ledger_id: int | None = None


Way = TypeVar("Way", Source, Reading)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Certified snapshots, the working hypothesis, measured marginals, queries and groups, and audited batches."""

    current: Snapshot
    records: float
    records_error: float
    certified: tuple[Certified, ...] = ()
    marginals: tuple[MeasuredMarginal, ...] = ()
    queries: Mapping[str, tuple[MeasuredQuery, ...]] = field(default_factory=dict)
    """By digest of the compiled form: one question in two wordings is one question."""
    batches: Mapping[str, PassedBatch] = field(default_factory=dict)
    groups: tuple[MeasuredGroups, ...] = ()
    unfitted: int = 0
    """Purchases since the working hypothesis was last fitted to everything."""

    @property
    def domain(self) -> Domain:
        return self.current.domain

    def form(self, query: Linear) -> Form:
        """The compiled query without attributes that it does not constrain."""
        return essential(query.compile(self.domain))

    def with_query(self, measured: MeasuredQuery, current: Snapshot) -> Knowledge:
        digest = self.form(measured.query).digest
        queries = {**self.queries, digest: (*self.queries.get(digest, ()), measured)}
        return replace(self, queries=queries, current=current, unfitted=self.unfitted + 1)

    def with_marginal(self, measured: MeasuredMarginal, *, fitted: bool = False) -> Knowledge:
        marginals = (*self.marginals, measured.ranked(1 + len(self.marginals)))
        return replace(self, marginals=marginals, unfitted=self.unfitted + (not fitted))

    def with_groups(self, measured: MeasuredGroups, *, fitted: bool = False) -> Knowledge:
        return replace(self, groups=(*self.groups, measured), unfitted=self.unfitted + (not fitted))

    def with_certificate(self, snapshot: Snapshot, certificate: Certificate) -> Knowledge:
        """Adds to the snapshot's certificates; the newest certified snapshot comes last."""
        kept = [c for c in self.certified if c.snapshot.digest != snapshot.digest]
        earlier = [c for c in self.certified if c.snapshot.digest == snapshot.digest]
        certificates = (*(earlier[0].certificates if earlier else ()), certificate)
        return replace(self, certified=(*kept, Certified(snapshot, certificates)))

    def with_batch(self, digests: tuple[str, ...], batch: PassedBatch) -> Knowledge:
        return replace(self, batches={**self.batches, **dict.fromkeys(digests, batch)})

    def with_current(self, current: Snapshot) -> Knowledge:
        """A working hypothesis that was fitted to all that is known."""
        return replace(self, current=current, unfitted=0)

    def measurements(self) -> list[Measurement]:
        """Everything measured, as a fit takes it."""
        found = [Measurement(Marginal(m.attributes), m.values, m.sd, m.noise.describe()) for m in self.marginals]
        for repeats in self.queries.values():
            found += [
                Measurement(m.query, np.asarray(m.value), m.noise.sd / self.records, m.noise.describe())
                for m in repeats
            ]
        return found + [measurement for measured in self.groups for measurement in measured.measurements()]

    def readings(self, query: Linear, confidence: float) -> list[Reading]:
        """Every certified way to answer, in the ladder's order: cache, certificate, derived (spec online.md 2)."""
        form = self.form(query)
        return [source.reading(form) for source in self._sources(form, confidence)]

    def free(self, query: Linear, confidence: float, wanted: float | None) -> Reading | None:
        """The first reading of the ladder within `wanted`; without one, that of least error."""
        form = query.compile(self.domain)
        asked = outline(form)
        if len(asked.attributes) < len(form.attributes):
            form = essential(form)
        if asked.kind == "weighted" or self._repeated(form):
            source = best(self._sources(form, confidence), wanted)
        else:
            source = self._choice(form, (asked, confidence, wanted))
        return None if source is None else source.reading(form)

    def _choice(self, form: Form, key: tuple[Outline, float, float | None]) -> Source | None:
        """Which source serves is the same for all sums of cells of one outline, so it is found once."""
        choices = self._choices
        found = choices.get(key, UNASKED)
        if found is UNASKED:
            if len(choices) >= KEPT_CHOICES:
                choices.clear()
            found = choices[key] = best(self._sources(form, key[1]), key[2])
        return found

    def _sources(self, form: Form, confidence: float) -> list[Source]:
        found = self._repeats(form, confidence)
        for certified in self.certified:
            error, certificate = tightest(certified.certificates, form, confidence)
            if certificate is not None:
                snapshot = certified.snapshot
                found.append(Source(error, "certificate", snapshot.expect, snapshot.digest, certificate.ledger_id))
        for measured in self._covering(form.attributes):
            error = measured.error_of(form, confidence)
            found.append(Source(error, "derived", measured.value_of, None, measured.ledger_id))
        return found

    def _repeated(self, form: Form) -> bool:
        """Whether the exact question was answered before, perhaps as one of several groups."""
        if (self.queries or self.batches) and (form.digest in self.queries or form.digest in self.batches):
            return True
        return any(measured.place(form) is not None for measured in self._grouped.get(form.attributes, ()))

    def _repeats(self, form: Form, confidence: float) -> list[Source]:
        found = []
        for grouped in self._grouped.get(form.attributes, ()):
            if grouped.place(form) is not None:
                found.append(Source(grouped.error_at(confidence), "cache", grouped.value_of, None, grouped.ledger_id))
        if not (self.queries or self.batches):
            return found
        for measured in self.queries.get(form.digest, ()):
            error = measured.error_at(confidence, self.records, self.records_error)
            found.append(Source(error, "cache", measured.value_of, None, measured.ledger_id))
        batch = self.batches.get(form.digest)
        if batch is not None:
            snapshot, certificate = batch.snapshot, batch.certificate
            error = certificate.bound_at(confidence)
            found.append(Source(error, "batch", snapshot.expect, snapshot.digest, certificate.ledger_id))
        return found

    def cells(self, attributes: tuple[str, ...], confidence: float) -> list[Reading]:
        """The same for all cells of a marginal at once: one bound serves every cell."""
        first = Product(attributes, tuple(first_code(self.domain[name].size) for name in attributes))
        found = []
        for certified in self.certified:
            error, certificate = tightest(certified.certificates, first, confidence)
            if certificate is not None:
                compute = partial(certified.snapshot.marginal, attributes)
                found.append(Reading(error, "certificate", compute, certified.snapshot.digest, certificate.ledger_id))
        for measured in self._covering(attributes):
            error = measured.error_of(first, confidence)
            origin = "cache" if measured.declared and measured.attributes == attributes else "derived"
            found.append(Reading(error, origin, partial(measured.over, attributes), None, measured.ledger_id))
        return found

    def _covering(self, attributes: tuple[str, ...]) -> tuple[MeasuredMarginal, ...]:
        """Measured marginals that hold these attributes; looked up once per attribute set."""
        if not attributes:
            return ()
        found = self._index.get(attributes)
        if found is None:
            found = tuple(m for m in self.marginals if set(attributes) <= set(m.attributes))
            self._index[attributes] = found
        return found

    @cached_property
    def _index(self) -> dict[tuple[str, ...], tuple[MeasuredMarginal, ...]]:
        return {}

    @cached_property
    def _grouped(self) -> dict[tuple[str, ...], list[MeasuredGroups]]:
        found: dict[tuple[str, ...], list[MeasuredGroups]] = {}
        for measured in self.groups:
            found.setdefault(measured.attributes, []).append(measured)
        return found

    @cached_property
    def _choices(self) -> dict[tuple[Outline, float, float | None], Source | None]:
        return {}


def best(ways: list[Way], wanted: float | None = None) -> Way | None:
    """The first way within the wanted error; without one, that of least error."""
    if wanted is not None:
        return next((way for way in ways if way.error <= wanted), None)
    return min((way for way in ways if way.error < VACUOUS), key=lambda way: way.error, default=None)
