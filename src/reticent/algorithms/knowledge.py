"""Knowledge is all that a session has learned, as one frozen value: free answers are functions of it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf

import numpy as np

from reticent.algorithms.certificates import Certificate, essential, tightest
from reticent.algorithms.derived import MeasuredMarginal
from reticent.algorithms.tails import reach
from reticent.domain import Domain
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.mechanisms import Noise
from reticent.queries.base import Linear
from reticent.queries.forms import Product


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
    """One way to answer a query for free: its error, where it comes from, and how to compute the fraction."""

    error: float
    origin: str
    compute: Callable[[], float | np.ndarray]
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
        form = essential(query.compile(self.domain))
        found = []
        for measured in self.queries.get(query.digest, ()) if self.queries else ():
            error = measured.error_at(confidence, self.records, self.records_error)
            found.append(Reading(error, "cache", partial(float, measured.value), None, measured.ledger_id))
        for certified in self.certified:
            error, certificate = tightest(certified.certificates, form, confidence)
            if certificate is not None:
                compute = partial(certified.snapshot.expect, form)
                found.append(Reading(error, "certificate", compute, certified.snapshot.digest, certificate.ledger_id))
        for measured in self._covering(form.attributes):
            error = measured.error_of(form, confidence)
            found.append(Reading(error, "derived", partial(measured.value_of, form), None, measured.ledger_id))
        return found

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
            origin = "derived" if dropped else "cache"
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


def best(readings: list[Reading], wanted: float | None = None) -> Reading | None:
    """The first reading within the wanted error; without one, the reading of least error."""
    if wanted is not None:
        return next((r for r in readings if r.error <= wanted), None)
    return min((r for r in readings if r.error < inf), key=lambda r: r.error, default=None)


def _first(size: int) -> np.ndarray:
    vector = np.zeros(size)
    vector[0] = 1.0
    return vector
