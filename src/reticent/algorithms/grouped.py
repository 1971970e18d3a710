"""All groups of one filtered GROUP BY, measured at once: asked again it is free, and so is each single group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from reticent.algorithms.outlines import essential
from reticent.algorithms.tails import noise_failure, reach
from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.kernel.curator import Noise
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.queries.forms import Form, Product
from reticent.queries.groups import Groups

FITTED_GROUPS = 256
"""A fit takes each group as a query of its own; more would make it slow."""


@dataclass(frozen=True, eq=False)
class MeasuredGroups:
    """Noisy shares of the table, axes in the order of the query's names; groups that cannot occur are exactly zero."""

    query: Groups
    domain: Domain
    values: np.ndarray
    noise: Noise
    records: float
    records_error: float
    ledger_id: int | None

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
    ) -> MeasuredGroups:
        """From released counts, axes in the domain's order."""
        canonical = domain.canonical(query.names)
        shares = np.transpose(released, [canonical.index(name) for name in query.names]) / records
        values = np.where(possible(query, domain), shares, 0.0)
        return cls(query, domain, values, noise, records, records_error, ledger_id)

    def error_at(self, confidence: float) -> float:
        """Holds for all groups together, so also for one that is picked after seeing them."""
        failure = noise_failure(confidence, self.records_error)
        if not failure > 0:
            return inf
        groups = max(1, int(possible(self.query, self.domain).sum()))
        stray = (reach(self.noise, failure / (2 * groups)) + 1) / self.records
        return stray + self.records_error + (0.0 if self._form.binary else VALUE_ROUNDING)

    def answers(self, query: Groups) -> bool:
        """Whether it is the same question, perhaps in other words."""
        same = set(query.names) == set(self.query.names)
        return same and essential(query.form(self.domain)).digest == self._form.digest

    def over(self, query: Groups) -> np.ndarray:
        """The shares, axes in the order of that question."""
        return np.transpose(self.values, [self.query.names.index(name) for name in query.names])

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """What a question about one of the groups looks at."""
        return self.domain.canonical({*self.query.names, *self._form.attributes})

    def place(self, form: Form) -> tuple[int, ...] | None:
        """The group that a form over the same attributes asks for; None if it asks something else."""
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
        """One query per group, as a fit takes them."""
        if self.values.size <= FITTED_GROUPS:
            sd = self.noise.sd / self.records
            for part, value in zip(self.query.parts(self.domain), self.values.ravel(), strict=True):
                yield Measurement(part, np.asarray(value), sd, self.noise.describe())

    @cached_property
    def _form(self) -> Form:
        return essential(self.query.form(self.domain))


def possible(query: Groups, domain: Domain) -> np.ndarray:
    """Groups in which some record could count, by the domain alone."""
    return query.read(domain, np.ones(domain.shape_of(query.span(domain)))) > 0
