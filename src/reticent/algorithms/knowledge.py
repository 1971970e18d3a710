"""Knowledge is all that a session has learned, as one frozen value: free answers are functions of it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from reticent.algorithms.certificates import Certificate, tightest
from reticent.algorithms.derived import MeasuredMarginal
from reticent.algorithms.tails import reach
from reticent.domain import Domain
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.mechanisms import Noise
from reticent.queries.base import Linear
from reticent.queries.forms import Form, Product


@dataclass(frozen=True, eq=False)
class MeasuredQuery:
    """One linear query with its noisy answer, as a fraction."""

    query: Linear
    value: float
    noise: Noise
    ledger_id: int

    def error_at(self, confidence: float, records: float, records_error: float) -> float:
        """Half a grid step of the query's own values is far below one record."""
        return (reach(self.noise, (1 - confidence) / 2) + 1) / records + records_error


@dataclass(frozen=True, eq=False)
class Certified:
    """A stored snapshot with what is certified about it."""

    snapshot: Snapshot
    certificates: tuple[Certificate, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """One way to answer a query for free: the value as a fraction, its error, and where it comes from."""

    value: float | np.ndarray
    error: float
    origin: str
    snapshot: str | None = None
    ledger_id: int | None = None


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Certified snapshots, the working hypothesis, measured marginals and measured queries."""

    current: Snapshot
    records: float
    records_error: float
    certified: tuple[Certified, ...] = ()
    marginals: tuple[MeasuredMarginal, ...] = ()
    queries: Mapping[str, tuple[MeasuredQuery, ...]] = field(default_factory=dict)

    @property
    def domain(self) -> Domain:
        return self.current.domain

    def with_query(self, measured: MeasuredQuery, current: Snapshot) -> Knowledge:
        digest = measured.query.digest
        queries = {**self.queries, digest: (*self.queries.get(digest, ()), measured)}
        return replace(self, queries=queries, current=current)

    def with_marginal(self, measured: MeasuredMarginal, current: Snapshot) -> Knowledge:
        return replace(self, marginals=(*self.marginals, measured), current=current)

    def with_certificate(self, snapshot: Snapshot, certificate: Certificate) -> Knowledge:
        """Adds to the snapshot's certificates; the newest certified snapshot comes last."""
        kept = [c for c in self.certified if c.snapshot.digest != snapshot.digest]
        earlier = [c for c in self.certified if c.snapshot.digest == snapshot.digest]
        certificates = (*(earlier[0].certificates if earlier else ()), certificate)
        return replace(self, certified=(*kept, Certified(snapshot, certificates)))

    def readings(self, query: Linear, confidence: float) -> list[Reading]:
        """Every certified way to answer, in the ladder's order: cache, certificate, derived (spec online.md 2)."""
        form = query.compile(self.domain)
        found = []
        for measured in self.queries.get(query.digest, ()):
            error = measured.error_at(confidence, self.records, self.records_error)
            found.append(Reading(measured.value, error, "cache", None, measured.ledger_id))
        for certified in self.certified:
            error, certificate = tightest(certified.certificates, form, confidence)
            if certificate is not None:
                value = certified.snapshot.expect(form)
                found.append(Reading(value, error, "certificate", certified.snapshot.digest, certificate.ledger_id))
        limit = min((reading.error for reading in found), default=inf)
        found.extend(self._derived(form, confidence, limit))
        return found

    def cells(self, attributes: tuple[str, ...], confidence: float) -> list[Reading]:
        """The same for all cells of a marginal at once: one bound serves every cell."""
        first = Product(attributes, tuple(_first(self.domain[name].size) for name in attributes))
        found = []
        for certified in self.certified:
            error, certificate = tightest(certified.certificates, first, confidence)
            if certificate is not None:
                value = certified.snapshot.marginal(attributes)
                found.append(Reading(value, error, "certificate", certified.snapshot.digest, certificate.ledger_id))
        for measured in self.marginals:
            if set(attributes) <= set(measured.attributes):
                error = measured.error_of(first, self.domain, confidence)
                dropped = tuple(i for i, name in enumerate(measured.attributes) if name not in attributes)
                origin = "derived" if dropped else "cache"
                found.append(Reading(measured.values.sum(axis=dropped), error, origin, None, measured.ledger_id))
        return found

    def _derived(self, form: Form, confidence: float, limit: float) -> list[Reading]:
        """Sums of measured cells; marginals whose single cells already err more than `limit` are passed over."""
        if isinstance(form, Product) and not form.attributes:
            return []
        found = []
        for measured in self.marginals:
            if measured.sd < limit and measured.covers(form):
                error = measured.error_of(form, self.domain, confidence)
                value = measured.value_of(form, self.domain)
                found.append(Reading(value, error, "derived", None, measured.ledger_id))
        return found


def best(readings: list[Reading], wanted: float | None = None) -> Reading | None:
    """The first reading within the wanted error; without one, the reading of least error."""
    if wanted is not None:
        return next((r for r in readings if r.error <= wanted), None)
    return min((r for r in readings if r.error < inf), key=lambda r: r.error, default=None)


def _first(size: int) -> np.ndarray:
    vector = np.zeros(size)
    vector[0] = 1.0
    return vector
