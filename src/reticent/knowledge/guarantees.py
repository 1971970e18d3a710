"""Guarantees: bounds on the errors of a workload's queries, by an algorithm's theorem or by an audit.

An outcome is the result of an offline algorithm: a hypothesis, its measurements and its certificates.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import restore
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.own_noise import QueryReading
from reticent.knowledge.paid_models import LossCertificate
from reticent.knowledge.tails import noise_failure, reach
from reticent.knowledge.typical import TypicalError
from reticent.progress.bars import Progress, Report, silent
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.forms import Form, Product, essential, is_cell
from reticent.queries.workload import Workload


@dataclass(frozen=True)
class AuditReading:
    """A noisy largest error, as a fraction of `records`, and further contributions to its uncertainty."""

    value: float
    noise: dict[str, str]
    slack: float
    records: float
    records_error: float

    def bound_at(self, confidence: float) -> float:
        """(M + z s) / n; under add-remove (M + z s + e_N N) / (N (1 - e_N)) (spec 1.1)."""
        failure = noise_failure(confidence, self.records_error)
        if not failure > 0 or not self.records_error < 1:
            return inf
        noise: Noise = restore(self.noise)  # pyright: ignore[reportAssignmentType]
        error = max(0.0, self.value + reach(noise, failure) / self.records) + self.slack
        return (error + self.records_error) / (1 - self.records_error)


@dataclass(frozen=True)
class MeasuredShare:
    """A query of a workload by its place, the share that a snapshot gives it, and what its measurement says."""

    place: int
    share: float
    reading: QueryReading

    def error(self, failure: float) -> float:
        """The largest distance of the truth from the share, except with this probability."""
        return self.reading.error(self.share, failure)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> MeasuredShare:
        """The inverse of `asdict`."""
        return cls(facts["place"], facts["share"], QueryReading(**facts["reading"]))


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A bound `error / weight` on the error of every query of `workload` on the named snapshot, with probability
    `confidence`.

    Weights are relative, at most 1; they are ignored unless `weighted`. Sums of cells of a listed marginal, complements
    and equivalent questions are covered as well. An audit's noisy reading bounds errors at every confidence, a theorem
    at its own.
    """

    theorem: str
    """Its name and source, for reports."""
    error: float
    confidence: float
    snapshot: str
    workload: Workload | Conjunctions
    domain: Domain
    weighted: bool = False
    reading: AuditReading | None = None
    """Of an audit; None for a theorem."""
    measured: tuple[MeasuredShare, ...] = ()
    """Queries of the workload that bound their own errors, each with its own measurement; no other query is covered."""
    singles: bool = False
    """Whether these are the single queries of a workload that has tables, too: certificates bound the tables."""

    ledger_id = None

    @cached_property
    def of_counts(self) -> Guarantee | None:
        """The same audit as a statement about counts, as shares of its number of records; None for all others."""
        if self.reading is None or self.measured:
            return None
        return replace(self, reading=replace(self.reading, records_error=0.0))

    @property
    def origin(self) -> str:
        return "theorem" if self.reading is None and not self.measured else "certificate"

    @property
    def covered(self) -> str:
        """The queries that it bounds, in words."""
        if not self.measured or len(self.measured) == len(self._plain.queries):
            tables = self.measured and (self._plain.marginals or self._plain.ranges)
            return f"every {'single ' if self.singles or tables else ''}query of the workload"
        return f"{len(self.measured)} of the workload's queries"

    @property
    def records_error(self) -> float:
        return 0.0 if self.reading is None else self.reading.records_error

    @property
    def bound(self) -> float:
        return self.error

    def bound_at(self, confidence: float) -> float:
        if self.reading is not None:
            return self.reading.bound_at(confidence)
        if self.measured:
            return max(one.error(self._failure(confidence)) for one in self.measured)
        return self.error if confidence <= self.confidence else inf

    def error_of(self, form: Form, confidence: float | None = None) -> float:
        """The guaranteed error of one query; infinite if the workload does not contain it."""
        asked = essential(form)
        if not asked.attributes:
            return 0.0
        if self.measured:
            failure = self._failure(self.confidence if confidence is None else confidence)
            found = (*self._own.get(asked.digest, ()), *self._own.get(_complement(asked), ()))
            return min((one.error(failure) for one in found), default=inf)
        bound = self.error if confidence is None else self.bound_at(confidence)
        weight = self._weight_of(asked)
        if weight > 0:
            return bound / weight
        # The error of a sum of cells of one listed marginal is at most the sum of their bounds.
        weight = self._sets.get(asked.attributes, 0.0)
        return bound / weight * asked.outline.cells if weight > 0 else inf

    def _failure(self, confidence: float) -> float:
        """Of each query, so that all hold together."""
        return (1 - confidence) / len(self.measured)

    @cached_property
    def _own(self) -> dict[str, tuple[MeasuredShare, ...]]:
        """By digest of the query; equivalent ones are several measurements of the same share."""
        found: dict[str, tuple[MeasuredShare, ...]] = {}
        for one in self.measured:
            digest = essential(self._plain.queries[one.place].compile(self.domain)).digest
            found[digest] = (*found.get(digest, ()), one)
        return found

    def _weight_of(self, asked: Form) -> float:
        if is_cell(asked):
            found = max(self._sets.get(asked.attributes, 0.0), self._listed.get(_literals(asked), 0.0))
            if found > 0:
                return found
        if isinstance(asked, Product) and len(asked.attributes) == 1:
            found = self._interval(asked.attributes[0], asked.vectors[0])
            if found > 0:
                return found
        return max(self._digests.get(asked.digest, 0.0), self._digests.get(_complement(asked), 0.0))

    def _interval(self, column: str, vector: np.ndarray) -> float:
        """The weight of an interval among those of its column, or of its complement."""
        found = 0.0
        for entry, weight in zip(self._plain.ranges, self._plain.range_weights, strict=True):
            if entry.columns != (column,):
                continue
            known = self.domain[column].known
            for inside in (vector, 1.0 - vector):
                held = np.flatnonzero(inside)
                whole = held.size and (inside[held] == 1).all() and held[-1] - held[0] == held.size - 1
                if whole and held[-1] < known and (held[0] == 0 or not entry.prefixes):
                    found = max(found, self._relative(weight))
        return found

    @cached_property
    def _plain(self) -> Workload:
        workload = Workload() if isinstance(self.workload, Conjunctions) else self.workload
        return workload.on(self.domain)

    @cached_property
    def _largest(self) -> float:
        plain = self._plain
        return max((*plain.marginal_weights, *plain.range_weights, *plain.query_weights), default=1.0)

    def _relative(self, weight: float) -> float:
        return weight / self._largest if self.weighted else 1.0

    @cached_property
    def _sets(self) -> dict[tuple[str, ...], float]:
        plain = self._plain
        return {
            names: self._relative(weight) for names, weight in zip(plain.marginals, plain.marginal_weights, strict=True)
        }

    @cached_property
    def _digests(self) -> dict[str, float]:
        plain = self._plain
        found: dict[str, float] = {}
        for query, weight in zip(plain.queries, plain.query_weights, strict=True):
            digest = essential(query.compile(self.domain)).digest
            found[digest] = max(found.get(digest, 0.0), self._relative(weight))
        return found

    @cached_property
    def _listed(self) -> dict[tuple[tuple[str, int], ...], float]:
        if not isinstance(self.workload, Conjunctions):
            return {}
        listed = self.workload
        return {tuple(listed.literals_of(index).items()): 1.0 for index in range(len(listed))}

    def to_dict(self) -> dict[str, Any]:
        """Plain values without the workload, which the release states; a list of conjunctions is packed into them."""
        facts: dict[str, Any] = {
            "theorem": self.theorem,
            "error": self.error,
            "confidence": self.confidence,
            "snapshot": self.snapshot,
            "weighted": self.weighted,
        }
        if self.reading is not None:
            facts["reading"] = asdict(self.reading)
        if self.measured:
            facts["measured"] = [asdict(one) for one in self.measured]
        if self.singles:
            facts["singles"] = True
        if isinstance(self.workload, Conjunctions):
            arrays = (self.workload.attributes, self.workload.codes)
            data = b"".join(np.ascontiguousarray(array, dtype="<i4").tobytes() for array in arrays)
            facts["conjunctions"] = {
                "shape": list(self.workload.attributes.shape),
                "int32": base64.b64encode(zlib.compress(data, 6)).decode(),
            }
        return facts

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], workload: Mapping[str, Any], domain: Domain) -> Guarantee:
        """The inverse of `to_dict`, with `workload` as the release's facts state it."""
        rest = {name: facts[name] for name in ("theorem", "error", "confidence", "snapshot", "weighted")}
        if (reading := facts.get("reading")) is not None:
            rest["reading"] = AuditReading(**reading)
        rest["measured"] = tuple(MeasuredShare.from_dict(one) for one in facts.get("measured", ()))
        packed = facts.get("conjunctions")
        asked = Workload.from_dict(workload) if packed is None else _unpacked(packed, domain)
        rest["singles"] = singles = facts.get("singles", False)
        if singles and isinstance(asked, Workload):
            asked = asked.singles
        return cls(**rest, workload=asked, domain=domain)


def _literals(cell: Form) -> tuple[tuple[str, int], ...]:
    if not isinstance(cell, Product):
        return ()
    return tuple((name, int(np.argmax(v))) for name, v in zip(cell.attributes, cell.vectors, strict=True))


def _complement(form: Form) -> str:
    """The digest of 1 - q; a product over several attributes has none."""
    if isinstance(form, Product):
        return Product(form.attributes, (1.0 - form.vectors[0],)).digest if len(form.vectors) == 1 else ""
    return type(form)(form.attributes, 1.0 - form.values).digest


def _unpacked(packed: Mapping[str, Any], domain: Domain) -> Conjunctions:
    rows, width = packed["shape"]
    size = 4 * rows * width
    data = zlib.decompressobj().decompress(base64.b64decode(packed["int32"]), 2 * size + 1)
    if len(data) != 2 * size:
        raise QueryError("a guarantee's list of conjunctions is damaged; restore the release's file")
    attributes, codes = (np.frombuffer(part, "<i4").reshape(rows, width) for part in (data[:size], data[size:]))
    return Conjunctions(domain, attributes, codes)


__all__ = ["Outcome", "Progress", "Report", "silent"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an offline algorithm. It is public: every field is a function of released numbers."""

    hypothesis: Hypothesis
    measurements: tuple[Measurement, ...]
    certificates: tuple[Certificate, ...]
    records: float
    """The public number of records, or its released noisy total under add-remove."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the algorithm chose and why: shown in reports."""
    guarantees: tuple[Guarantee, ...] = ()
    """What its theorem says of the hypothesis."""
    losses: tuple[LossCertificate, ...] = ()
    """What is certified of models of declared losses."""
    typical: tuple[TypicalError, ...] = ()
