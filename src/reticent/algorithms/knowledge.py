"""Knowledge is all that a session has learned, as one frozen value: free answers are functions of it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import NamedTuple

import numpy as np

from reticent.algorithms.certificates import Certificate, essential, tightest
from reticent.algorithms.derived import MeasuredMarginal, weight_of
from reticent.algorithms.tails import noise_failure, reach
from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Noise
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.queries.base import Linear
from reticent.queries.forms import Form, Product
from reticent.queries.linear import Marginal

VACUOUS = 0.5
"""A fraction is never farther than that from one half: a larger bound certifies nothing."""


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


class Reading(NamedTuple):
    """One way to answer a query for free: its error, where it comes from, and how to compute the fraction."""

    error: float
    origin: str
    compute: Callable[[], float | np.ndarray]
    snapshot: str | None = None
    ledger_id: int | None = None


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Certified snapshots, the working hypothesis, measured marginals, measured queries and audited batches."""

    current: Snapshot
    records: float
    records_error: float
    certified: tuple[Certified, ...] = ()
    marginals: tuple[MeasuredMarginal, ...] = ()
    queries: Mapping[str, tuple[MeasuredQuery, ...]] = field(default_factory=dict)
    """By digest of the compiled form: one question in two wordings is one question."""
    batches: Mapping[str, PassedBatch] = field(default_factory=dict)
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
        found = [Measurement(Marginal(m.attributes), m.values, m.sd) for m in self.marginals]
        for repeats in self.queries.values():
            found += [Measurement(m.query, np.asarray(m.value), m.noise.sd / self.records) for m in repeats]
        return found

    def readings(self, query: Linear, confidence: float) -> list[Reading]:
        """Every certified way to answer, in the ladder's order: cache, certificate, derived (spec online.md 2)."""
        form = self.form(query)
        found: list[Reading] = []
        if self.queries or self.batches:
            self._repeats(form, confidence, found)
        for certified in self.certified:
            error, certificate = tightest(certified.certificates, form, confidence)
            if certificate is not None:
                compute = partial(certified.snapshot.expect, form)
                found.append(Reading(error, "certificate", compute, certified.snapshot.digest, certificate.ledger_id))
        for measured in self._covering(form.attributes):
            error = measured.error_of(form, confidence)
            found.append(Reading(error, "derived", partial(measured.value_of, form), None, measured.ledger_id))
        return found

    def free(self, query: Linear, confidence: float, wanted: float | None) -> Reading | None:
        """The first reading of the ladder within `wanted`; without one, that of least error."""
        if not self.queries and not self.batches and len(self.certified) == 1:
            reading = self._certified(query, confidence, wanted)
            if reading is not None:
                return reading
        return best(self.readings(query, confidence), wanted)

    def _certified(self, query: Linear, confidence: float, wanted: float | None) -> Reading | None:
        """The common case at once: one certified snapshot, and nothing measured could do better."""
        form = self.form(query)
        certified = self.certified[0]
        error, certificate = tightest(certified.certificates, form, confidence)
        if certificate is None or error >= VACUOUS:
            return None
        if error > (wanted if wanted is not None else self._floor(form, confidence)):
            return None
        snapshot = certified.snapshot
        return Reading(error, "certificate", partial(snapshot.expect, form), snapshot.digest, certificate.ledger_id)

    def _floor(self, form: Form, confidence: float) -> float:
        """Below what measured marginals could give: the noise of the sum, as if it had been declared."""
        floor = self._floors.get(key := (form.attributes, confidence))
        if floor is None:
            floor = min((self._noise_of(m, form, confidence) for m in self._covering(form.attributes)), default=inf)
            self._floors[key] = floor
        return floor * weight_of(form) ** 0.5 if form.binary else 0.0

    def _noise_of(self, measured: MeasuredMarginal, form: Form, confidence: float) -> float:
        """Of one cell of the form's attributes, summed over the other attributes of the marginal."""
        merged = measured.values.size / self.domain.cells(form.attributes)
        return reach(measured.noise, (1 - confidence) / 2) / measured.records * merged**0.5

    def _repeats(self, form: Form, confidence: float, found: list[Reading]) -> None:
        """The exact question was answered before."""
        digest = form.digest
        for measured in self.queries.get(digest, ()):
            error = measured.error_at(confidence, self.records, self.records_error)
            found.append(Reading(error, "cache", partial(float, measured.value), None, measured.ledger_id))
        batch = self.batches.get(digest)
        if batch is not None:
            snapshot, certificate = batch.snapshot, batch.certificate
            error, compute = certificate.bound_at(confidence), partial(snapshot.expect, form)
            found.append(Reading(error, "batch", compute, snapshot.digest, certificate.ledger_id))

    def cells(self, attributes: tuple[str, ...], confidence: float) -> list[Reading]:
        """The same for all cells of a marginal at once: one bound serves every cell."""
        first = Product(attributes, tuple(_first(self.domain[name].size) for name in attributes))
        found = []
        for certified in self.certified:
            error, certificate = tightest(certified.certificates, first, confidence)
            if certificate is not None:
                compute = partial(certified.snapshot.marginal, attributes)
                found.append(Reading(error, "certificate", compute, certified.snapshot.digest, certificate.ledger_id))
        for measured in self._covering(attributes):
            error = measured.error_of(first, confidence)
            dropped = tuple(i for i, name in enumerate(measured.attributes) if name not in attributes)
            origin = "derived" if dropped or not measured.declared else "cache"
            found.append(Reading(error, origin, partial(measured.values.sum, axis=dropped), None, measured.ledger_id))
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
    def _floors(self) -> dict[tuple[tuple[str, ...], float], float]:
        return {}


def best(readings: list[Reading], wanted: float | None = None) -> Reading | None:
    """The first reading within the wanted error; without one, the reading of least error."""
    if wanted is not None:
        return next((r for r in readings if r.error <= wanted), None)
    return min((r for r in readings if r.error < VACUOUS), key=lambda r: r.error, default=None)


def _first(size: int) -> np.ndarray:
    vector = np.zeros(size)
    vector[0] = 1.0
    return vector
