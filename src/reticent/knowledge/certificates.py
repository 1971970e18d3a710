"""Certificates: bounds on the error of one public snapshot for a whole class of queries (spec online.md 1).

An audit releases the noisy largest error of a snapshot over a class of queries and turns it into a certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Protocol, TypeVar

from reticent.hypotheses import load
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import restore
from reticent.kernel.statistics import Kind, MaxError, fine
from reticent.knowledge.tails import Shares, audit_reading, largest_error, noise_failure
from reticent.queries.forms import Dense, Form

Bound = TypeVar("Bound", bound="ErrorBound")


class ErrorBound(Protocol):
    """A bound on the errors of queries on a snapshot: an audit's certificate or a theorem's guarantee."""

    def error_of(self, form: Form, confidence: float | None = None) -> float: ...


def certifies(bound: float) -> bool:
    """Whether a bound on the error of shares says anything: every share is within 1 of any other."""
    return bound < 1


def might_certify(noise: Noise, *, records: float, records_error: float, confidence: float) -> bool:
    """Whether the first audit with this noise would certify anything if it read that all errors are 0."""
    failure = noise_failure(confidence, records_error) * Shares(joint=False).certificate(1)
    return certifies(largest_error(0.0, noise, failure, slack=0.0, records=records, records_error=records_error))


KEPT_BOUNDS = 2**12
"""The size of the cache of bounds by confidence, which analysts choose."""


@dataclass(frozen=True)
class Certificate:
    """A bound on the error of every query of `kind` on `sets`, as a fraction of the table, for the named snapshot.

    The released reading bounds the largest error at any confidence, so the bound is a function of the confidence. The
    j-th audit of a session has a share of the failure probability that depends on j (`knowledge.tails`), so that all of
    them hold jointly; a `joint` certificate also holds jointly with all other statements of its session.
    """

    kind: Kind
    sets: tuple[tuple[str, ...], ...]
    snapshot: str
    reading: float
    noise: dict[str, str]
    slack: float
    records: float
    records_error: float
    index: int
    confidence: float
    ledger_id: int | None = None
    joint: bool = False
    plain: int = 0
    """Under which rule a plain session gives statements about classes a small share (`Shares.plain`)."""

    origin = "certificate"

    @cached_property
    def bound(self) -> float:
        return self.bound_at(self.confidence)

    @cached_property
    def of_counts(self) -> Certificate:
        """The same audit as a statement about counts, as shares of `records`: `(M + z s) / N` bounds them."""
        return replace(self, records_error=0.0)

    def bound_at(self, confidence: float) -> float:
        """The bound of `largest_error`; audits of one session share its failure probability."""
        known = self._bounds.get(confidence)
        if known is None:
            failure = noise_failure(confidence, self.records_error) * Shares(self.joint, self.plain).certificate(
                self.index
            )
            known = largest_error(
                self.reading,
                self._noise,
                failure,
                slack=self.slack,
                records=self.records,
                records_error=self.records_error,
            )
            if len(self._bounds) >= KEPT_BOUNDS:
                self._bounds.clear()
            self._bounds[confidence] = known
        return known

    def error_of(self, form: Form, confidence: float | None = None) -> float:
        """The certified error of one query; infinite if this certificate does not cover it.

        The error of a weighted sum of class members (a list of values, a mean of ordered bins) is at most the sum of
        the weights times the bound.
        """
        if isinstance(form, Dense) and not self._reached(form.attributes):
            return inf  # before its outline, which takes a while for a large tensor
        known = form.outline
        if not known.attributes:
            return 0.0
        if not self._reached(known.attributes):
            return inf
        pieces = {"predicates": known.spread, "cells": known.cells, "boxes": known.boxes}[self.kind]
        return pieces * (self.bound if confidence is None else self.bound_at(confidence))

    def _reached(self, attributes: tuple[str, ...]) -> bool:
        """Whether some audited set covers these attributes; cached for each attribute set."""
        known = self._reach.get(attributes)
        if known is None:
            wanted = set(attributes)
            known = any(wanted == set(s) if self.kind == "cells" else wanted <= set(s) for s in self.sets)
            self._reach[attributes] = known
        return known

    @cached_property
    def _reach(self) -> dict[tuple[str, ...], bool]:
        return {}

    @cached_property
    def _noise(self) -> Noise:
        return restore(self.noise)  # pyright: ignore[reportReturnType]

    @cached_property
    def _bounds(self) -> dict[float, float]:
        return {}

    def to_dict(self) -> dict[str, object]:
        """Plain values, without fields that version 0.1 did not have if they have their default."""
        return {name: value for name, value in asdict(self).items() if name not in ("joint", "plain") or value}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Certificate:
        sets: Any = tuple(tuple(s) for s in fields["sets"])
        return cls(**{**fields, "sets": sets})


def tightest(certificates: Iterable[Bound], form: Form, confidence: float | None = None) -> tuple[float, Bound | None]:
    """The smallest certified error of a query, and its certificate."""
    best: tuple[float, Bound | None] = (inf, None)
    for certificate in certificates:
        error = certificate.error_of(form, confidence)
        if error < best[0]:
            best = (error, certificate)
    return best


LONGEST_AUDIT = 4e9
"""The largest number of steps of the search for the worst range in an unrequested audit: some seconds."""
NOISE_SHARE = 0.5
"""The share of a requested error for the noise of an audit: it passes more often than not if the true errors are at
most the other half."""
WORTH = 0.5
"""Such an audit is tried if it costs at most this share of single purchases: it then saves more often than it loses."""
LAST_INDEX = 200
"""Later audits of a session would need a failure probability below 1e-60."""


def held(curator: Curator, hypothesis: Hypothesis, key: str) -> Hypothesis:
    """The hypothesis that a run audits: stored before the audit is paid, and read again after a crash.

    A fit on another processor would differ, and the paid reading would not apply to it.
    """
    name = f"{key}:hypothesis"
    stored = curator.kept(name)
    if stored is not None:
        return load(stored)
    curator.keep(name, hypothesis.to_bytes())
    return hypothesis


def pay_audit(
    curator: Curator,
    hypothesis: Hypothesis | Snapshot,
    kind: Kind,
    sets: Sequence[tuple[str, ...]],
    noise: Noise,
    *,
    snapshot: str,
    records: float,
    records_error: float,
    index: int,
    confidence: float,
    key: str,
) -> Certificate:
    """Pay for one measurement; `index` counts the audits of this ledger's owner, so that all hold jointly.

    `records` is the public number of records or its released total, `records_error` bounds abs(n - records)/records.
    """
    sets = tuple(sets)
    guesses = tuple(p * records for p in hypothesis.marginals(sets))
    settled = curator.measure([MaxError(kind, sets, guesses, state=snapshot)], noise, key=key)
    step = 1 / fine(1)
    largest = 1 if kind == "cells" else max(guess.size for guess in guesses)
    return Certificate(
        kind=kind,
        sets=sets,
        snapshot=snapshot,
        reading=audit_reading(float(settled.values[0]), records),
        noise=settled.noises[0].describe(),
        # Guesses are rounded to the grid cell by cell, and discrete noise may exceed its bound by one step.
        slack=(0.5 * largest + 1) * step / records,
        records=records,
        records_error=records_error,
        index=index,
        confidence=confidence,
        ledger_id=settled.ledger_id,
    )
