"""A view answers any query for free from one public snapshot, with the tightest certificate that covers it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Protocol

import numpy as np

from reticent.algorithms.certificates import Certificate, tightest
from reticent.answer import Answer
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.base import Linear, Query, checked_query
from reticent.queries.forms import Dense, Product, first_code
from reticent.queries.groups import ONE_BY_ONE, Groups
from reticent.queries.linear import Marginal, Ratio


class Distribution(Protocol):
    """What a view needs of a hypothesis."""

    @property
    def domain(self) -> Domain: ...

    def expect(self, query: Linear | Product | Dense) -> float: ...

    def marginal(self, attributes: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class View:
    """Free answers: functions of the query and this value alone."""

    distribution: Distribution
    certificates: tuple[Certificate, ...]
    records: float
    """The public number of records, or its released noisy total."""
    snapshot: str
    counted: float = 0.0
    """Bounds abs(n - records) / records; 0 when the number is public."""

    @property
    def domain(self) -> Domain:
        return self.distribution.domain

    @property
    def records_error(self) -> float:
        """Bounds abs(n - records) / records, whether or not anything is certified."""
        return max([self.counted, *(certificate.records_error for certificate in self.certificates)])

    def answer(self, query: Query) -> Answer:
        query = checked_query(query).resolve(self.domain)
        if isinstance(query, Ratio):
            return self._ratio(query)
        if isinstance(query, Marginal):
            return self._marginal(query)
        if isinstance(query, Groups):
            return self._groups(query)
        if isinstance(query, Linear):
            return self._linear(query)
        raise QueryError(f"{query.text} is a workload entry, not one question; ask rt.count, rt.mean or rt.marginal")

    def _linear(self, query: Linear) -> Answer:
        form = query.compile(self.domain)
        share = self.distribution.expect(form)
        error, certificate = tightest(self.certificates, form)
        offset, scale = query.units(self.domain)
        count = share * self.records if (offset, scale) == (0, 1) else None
        return self._answer(query, offset + scale * share, count, abs(scale) * error, certificate)

    def _marginal(self, query: Marginal) -> Answer:
        """The largest cell error of the whole table, so that one bound serves every row shown."""
        canonical = query.canonical(self.domain)
        cells = self.distribution.marginal(canonical)
        one_cell = Product(canonical, tuple(first_code(self.domain[name].size) for name in canonical))
        error, certificate = tightest(self.certificates, one_cell)
        order = [canonical.index(name) for name in query.names]
        values = np.transpose(cells, order)
        return self._answer(query, values, values * self.records, error, certificate, query.names)

    def _groups(self, query: Groups) -> Answer:
        """As a marginal: one bound serves every group."""
        certified = [tightest(self.certificates, form) for form in query.representatives(self.domain)]
        error, certificate = max(certified, key=lambda pair: pair[0])
        values = group_values(query, self.distribution)
        count = values * self.records if query.column is None else None
        return self._answer(query, values, count, error, certificate, query.names)

    def _answer(
        self,
        query: Query,
        value: Any,
        count: Any,
        error: float,
        certificate: Certificate | None,
        names: Sequence[str] = (),
    ) -> Answer:
        """Certified within `error` where a certificate covers the question."""
        return Answer(
            query=query.text,
            value=value,
            count=count,
            error=error if certificate else None,
            confidence=certificate.confidence if certificate else None,
            origin="certificate" if certificate else "hypothesis",
            certified=certificate is not None,
            snapshot=self.snapshot,
            labels=tuple((name, self.domain[name].labels) for name in names),
        )

    def _ratio(self, query: Ratio) -> Answer:
        return ratio_of(query, self._linear(query.numerator), self._linear(query.denominator), self.domain)


def group_values(query: Groups, distribution: Distribution) -> np.ndarray:
    """All groups from one marginal, or one by one where that would be too large."""
    domain = distribution.domain
    if query.fits(domain):
        return query.read(domain, distribution.marginal(query.span(domain)))
    shape = domain.shape_of(query.names)
    if (groups := math.prod(shape)) > ONE_BY_ONE:
        raise QueryError(
            f"{groups} groups whose condition spans {', '.join(query.span(domain))}; at most {ONE_BY_ONE}: "
            "group by fewer columns or drop a condition"
        )
    return np.array([distribution.expect(part) for part in query.parts(domain)]).reshape(shape)


def ratio_of(query: Ratio, top: Answer, bottom: Answer, domain: Domain) -> Answer:
    """A quotient of two answers; its error is the farthest end of the interval that the two errors allow."""
    offset, scale = query.units(domain)
    low_value = float(bottom.value)
    share = float(top.value) / low_value if low_value > 0 else 0.0
    error = quotient_error(float(top.value), top.error, low_value, bottom.error)
    certified = top.certified and bottom.certified and isfinite(error)
    confidences = [c for c in (top.confidence, bottom.confidence) if c is not None]
    same = top.snapshot == bottom.snapshot and top.origin == bottom.origin == "certificate"
    confidence = min(confidences) if same else 1 - sum(1 - c for c in confidences)
    return Answer(
        query=query.text,
        value=offset + scale * share,
        count=None,
        error=abs(scale) * error if certified else None,
        confidence=confidence if certified else None,
        origin=top.origin if top.origin == bottom.origin else "derived",
        certified=certified,
        price=top.price + bottom.price,
        snapshot=top.snapshot,
        ledger_id=top.ledger_id,
    )


def quotient_error(top: float, top_error: float | None, bottom: float, bottom_error: float | None) -> float:
    """sup |t'/b' - t/b| over |t'-t| <= top_error, |b'-b| <= bottom_error, 0 <= t' <= b'; infinite if b' may vanish."""
    if top_error is None or bottom_error is None or bottom - bottom_error <= 0:
        return inf
    centre = top / bottom
    highest = min(1.0, (top + top_error) / (bottom - bottom_error))
    lowest = max(0.0, (top - top_error) / (bottom + bottom_error))
    return max(highest - centre, centre - lowest)
