"""Typical errors bound most questions of a declared distribution; a certificate bounds the worst (answers 2).

`expected_variation` estimates how far a released marginal is from the true one; it is an estimate, not a bound.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

from reticent.domain import Attribute, Domain
from reticent.errors import QueryError
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.fitting.consistent import as_marginals
from reticent.hypotheses.fitting.prior import Prior
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import restore
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.statistics import fine
from reticent.knowledge.tails import Shares, audit_reading, largest_error, noise_failure, session_share
from reticent.queries.distribution import MOST_QUESTIONS, SEED_BYTES, WHOLE, Distribution, Questions, has_ranges
from reticent.queries.forms import KEPT_CODES, KEPT_VECTORS, Form, Product
from reticent.queries.linear import Marginal

SHARE = 0.95
"""Of the questions of a distribution: 19 of 20 err at most as much as is stated."""
SAMPLING_FAILURE = 1e-6
"""How often a drawn list may speak for its distribution too kindly; a ten-thousandth of what an answer may fail."""
SIZES = (1_000_000, 300_000, 100_000, 30_000, 10_000)
"""Of a drawn list: the longest whose sums take no more than `LONGEST`."""
LONGEST = 2e9
"""Cells added up in one audit of a drawn list: some seconds."""


MOST_SETS = 4096
MOST_CELLS = 2**22
"""Limits on the attribute sets of a default distribution, and on their cells: a few seconds of work."""


@dataclass(frozen=True)
class TypicalError:
    """A bound that a question drawn from `distribution` exceeds on the snapshot with probability at most 1 - share.

    The released reading bounds the order statistic at any confidence, as for a certificate.
    """

    distribution: dict[str, Any] = field(hash=False)
    share: float
    snapshot: str
    reading: float
    noise: dict[str, str] = field(hash=False)
    slack: float
    records: float
    records_error: float
    index: int
    confidence: float
    ledger_id: int | None = None
    plain: int = 0
    """As of a certificate."""

    @cached_property
    def bound(self) -> float:
        return self.bound_at(self.confidence)

    @cached_property
    def of_counts(self) -> TypicalError:
        """The same statement about counts, as shares of `records`."""
        return replace(self, records_error=0.0)

    def bound_at(self, confidence: float) -> float:
        """The bound of `largest_error`, as for certificates."""
        found = self._bounds.get(confidence)
        if found is None:
            found = self._bounds[confidence] = self._bound_at(confidence)
        return found

    @cached_property
    def _bounds(self) -> dict[float, float]:
        """Cache by confidence."""
        return {}

    def _bound_at(self, confidence: float) -> float:
        share = float(session_share("typical", self.index, Shares(joint=True, plain=self.plain).wide))
        failure = noise_failure(confidence, self.records_error) * share - (SAMPLING_FAILURE if self.drawn else 0.0)
        return largest_error(
            self.reading, self._noise, failure, slack=self.slack, records=self.records, records_error=self.records_error
        )

    @property
    def drawn(self) -> bool:
        """Whether the list was a sample of the distribution; otherwise it was the whole distribution."""
        return "seed" in self.distribution

    def asks(self, form: Form, domain: Domain) -> bool:
        """Whether the distribution may draw this question: one of its sets, and on each attribute a condition of its
        kind. The form has no attribute that it does not constrain.
        """
        if not isinstance(form, Product) or form.attributes not in self._sets:
            return False
        for name, vector in zip(form.attributes, form.vectors, strict=True):
            if vector.size > KEPT_CODES:
                drawn = self._draws(vector, domain[name])
            else:
                key = (name, vector.tobytes())
                drawn = self._drawn.get(key)
                if drawn is None:
                    if len(self._drawn) >= KEPT_VECTORS:
                        self._drawn.clear()
                    drawn = self._drawn[key] = self._draws(vector, domain[name])
            if not drawn:
                return False
        return True

    def _draws(self, vector: np.ndarray, attribute: Attribute) -> bool:
        """Whether the distribution has this condition on an attribute."""
        cells, chosen = self.distribution["distribution"] == "cells", np.flatnonzero(vector)
        if not chosen.size or not np.all(vector[chosen] == 1.0) or (cells and chosen.size > 1):
            return False
        return cells or not has_ranges(attribute) or _is_range(chosen, attribute.known)

    @cached_property
    def _drawn(self) -> dict[tuple[str, bytes], bool]:
        """Cache by attribute and vector; a snapshot has one domain."""
        return {}

    @property
    def words(self) -> str:
        """The statement without its number."""
        whole = round(1 / (1 - self.share))
        kind = "cells" if self.distribution["distribution"] == "cells" else "ranges and values"
        most = max(len(names) for names in self.distribution["sets"])
        columns = "column" if most == 1 else "columns"
        return f"{whole - 1} of {whole} questions about {kind} of up to {most} {columns}"

    @cached_property
    def _sets(self) -> frozenset[tuple[str, ...]]:
        return frozenset(tuple(names) for names in self.distribution["sets"])

    @cached_property
    def _noise(self) -> Noise:
        return restore(self.noise)  # pyright: ignore[reportReturnType]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without fields that have their default, as earlier versions wrote them."""
        return {name: value for name, value in asdict(self).items() if name != "plain" or value}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TypicalError:
        return cls(**fields)


def few(domain: Domain, sets: Sequence[tuple[str, ...]]) -> bool:
    """Whether typical questions about these attribute sets can be answered in seconds."""
    return len(sets) <= MOST_SETS and sum(domain.cells(names) for names in sets) <= MOST_CELLS


def listed(domain: Domain, distribution: Distribution) -> Questions:
    """All questions of the distribution, or a list drawn with fresh random bytes; call it after the snapshot is fixed.

    The length of the list depends on the domain alone.
    """
    if distribution.size(domain) <= MOST_QUESTIONS:
        return Questions(domain, distribution)
    work = distribution.work(domain)
    size = next((size for size in SIZES if size * work <= LONGEST), SIZES[-1])
    return Questions(domain, distribution, secrets.token_bytes(SEED_BYTES), size)


def rank(questions: Questions, share: float) -> int:
    """The weight of questions above an error, such that the error holds for `share` of the distribution."""
    if not 0 < share < 1:
        raise QueryError(f"share {share} of the questions must lie above 0 and below 1, for example 0.95")
    if questions.seed is None:
        # Weights were rounded down, each by less than one.
        return math.ceil(share * WHOLE * (1 + 1e-12))
    wanted = -math.log(SAMPLING_FAILURE) / questions.drawn
    low, high = share, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if _divergence(middle, share) >= wanted else (middle, high)
    return math.ceil(high * questions.drawn)


def _is_range(codes: np.ndarray, known: int) -> bool:
    return bool(codes[-1] < known and codes[-1] - codes[0] + 1 == codes.size)


def _divergence(x: float, p: float) -> float:
    """KL of two coins (docs/proofs/order-statistic.md, Claim 5)."""
    return x * math.log(x / p) + (1 - x) * (math.log((1 - x) / (1 - p)) if x < 1 else 0.0)


def measure_typical(
    curator: Curator,
    hypothesis: Hypothesis | Snapshot,
    questions: Questions,
    noise: Noise,
    *,
    snapshot: str,
    records: float,
    records_error: float,
    index: int,
    confidence: float,
    key: str,
    share: float = SHARE,
) -> TypicalError:
    """Pay for one measurement; `index` counts the typical errors of this ledger's owner."""
    guesses = tuple(p * records for p in hypothesis.marginals(questions.sets))
    statistic = ErrorQuantile(questions, guesses, rank(questions, share), state=snapshot)
    settled = curator.measure([statistic], noise, key=key)
    return TypicalError(
        distribution=questions.to_dict(),
        share=share,
        snapshot=snapshot,
        reading=audit_reading(float(settled.values[0]), records),
        noise=settled.noises[0].describe(),
        # Guesses are rounded to the grid cell by cell, and discrete noise may exceed its bound by one step.
        slack=(0.5 * max(guess.size for guess in guesses) + 1) / fine(1) / records,
        records=records,
        records_error=records_error,
        index=index,
        confidence=confidence,
        ledger_id=settled.ledger_id,
    )


HALF_MEAN_ABSOLUTE = 0.5 * np.sqrt(2 / np.pi)
"""Half the mean absolute value of a standard normal: total variation per standard deviation of a cell."""

NARROW = 3
"""Subsets of wider measured sets are estimated up to this many attributes."""


def expected_variation(
    hypothesis: Hypothesis, measurements: Sequence[Measurement], prior: Prior | None = None
) -> dict[tuple[str, ...], float]:
    """Estimated total variation of measured marginals and of small sets inside them, from released numbers alone.

    A cell p measured with noise sd under a prior of scale s keeps the noise share a / (a + 1/s^2), a = (p/sd)^2, of a
    fit to this measurement; the error of a marginal is at least that of the marginals inside it.
    """
    prior = prior or Prior()
    noise: dict[tuple[str, ...], float] = {}
    for measurement in told(hypothesis.domain, measurements):
        names = hypothesis.domain.canonical(measurement.query.attributes)
        weight = (hypothesis.marginal(names) / measurement.sd) ** 2
        kept = weight / (weight + prior.scale(len(names)) ** -2)
        estimate = float(HALF_MEAN_ABSOLUTE * measurement.sd * np.sqrt(kept).sum())
        noise[names] = min(noise.get(names, 1.0), estimate)
    return {names: min(1.0, max(v for s, v in noise.items() if set(s) <= set(names))) for names in noise}


def told(domain: Domain, measurements: Sequence[Measurement]) -> list[Measurement]:
    """Measured marginals, then small sets that are determined only by sums of their noisy cells."""
    found = [m for m in as_marginals(measurements, domain) if isinstance(m.query, Marginal)]
    direct = {domain.canonical(m.query.attributes) for m in found}
    for measurement in list(found):
        names = domain.canonical(measurement.query.attributes)
        for order in range(1, min(NARROW, len(names) - 1) + 1):
            for subset in combinations(names, order):
                if subset not in direct:
                    dropped = tuple(i for i, name in enumerate(names) if name not in subset)
                    sd = measurement.sd * sqrt(domain.cells(names) / domain.cells(subset))
                    found.append(Measurement(Marginal(subset), measurement.values.sum(axis=dropped), sd))
    return found
