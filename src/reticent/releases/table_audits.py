"""The audits that certify the tables of a default release: a tight one of every cell, a wider one of every range.

Both are bought last, with a share of the budget that is kept for them. If they could certify nothing, even if they read
that all errors are 0, the last measurements get this share: a release of a small table is then as accurate as one
without audits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt

from reticent.errors import KeyReusedError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import LARGEST_MARGINAL
from reticent.kernel.counting.boxes import box_steps
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.statistics import Kind
from reticent.knowledge.certificates import LONGEST_AUDIT, Certificate, might_certify, pay_audit
from reticent.releases.budgeting import Collection, Steps, divide, noise_costing
from reticent.releases.candidates import LOW_ORDERS, closure

__all__ = ["AUDITS", "TableAudits", "audit_serves"]

Set = tuple[str, ...]

AUDITS = 2
"""Audits of every cell and of every range; each costs at least one unit."""
OTHER_PROCESSOR = (
    "the audit of {kinds} was paid for by version 0.1 on a processor with other floating-point instructions;"
    " its reading does not apply to the distribution fitted here"
)
TOO_FEW = "too few records for this budget"


@dataclass(frozen=True)
class TableAudits:
    """What is audited, and the units that are kept for it.

    The cells are those of the sets and of small sets inside them; the ranges of a set include those of its subsets.
    Sets that are too wide for one table are left out, and so are ranges if the search for the worst one would take
    minutes. Public sizes decide.
    """

    curator: Curator
    audited: Mapping[Kind, list[Set]]
    units: int
    confidence: float
    key: str

    @classmethod
    def of(cls, curator: Curator, sets: Iterable[Set], units: int, *, confidence: float, key: str) -> TableAudits:
        """The audits of the sets of a workload; `key` names the run."""
        domain, sets = curator.domain, list(sets)
        inside = [smaller for order in range(1, LOW_ORDERS + 1) for smaller in closure(sets, order)]
        cells = [s for s in dict.fromkeys([*sets, *inside]) if domain.cells(s) <= LARGEST_MARGINAL]
        boxes = [s for s in sets if domain.cells(s) <= LARGEST_MARGINAL]
        steps = sum(box_steps(domain.shape_of(s)) for s in boxes)
        audited: dict[Kind, list[Set]] = {"cells": cells}
        if 0 < steps <= LONGEST_AUDIT:
            audited["boxes"] = boxes
        return cls(curator, audited, units, confidence, f"{key}:audit")

    def spare(self, collection: Collection) -> int:
        """The units that measurements may have instead, by what was measured so far; 0 if an audit was begun.

        The error of a private number of records will have fallen, with what is spent, when the audits are due.
        """
        if not (self.units and collection.knows_records) or any(map(self._begun, self.audited)):
            return 0
        records, error = collection.records
        last = error * (collection.spent_share if collection.pure else sqrt(collection.spent_share))
        return 0 if self._serves(self.units // len(self.audited), records, last) else self.units

    def pay(
        self, collection: Collection, hypothesis: Hypothesis, *, fitted_formerly: bool
    ) -> tuple[tuple[Certificate, ...], str | None]:
        """Spend all that is left on the audits, unless they can certify nothing.

        Returns the certificates, and why one is missing. A reading of version 0.1 for a distribution that this
        processor cannot refit bit for bit says nothing about the new fit.
        """
        kinds = list(self.audited)[: max(0, collection.left)]
        records, error = collection.records
        snapshot = Snapshot(hypothesis).digest
        lost: list[Kind] = []
        certificates: list[Certificate] = []
        steps = Steps(self.curator, max(0, collection.left), self.key)
        for index, (kind, planned) in enumerate(zip(kinds, divide(steps.left, [1.0] * len(kinds)), strict=True)):
            named = steps.begin(kind)
            if not steps.pays(units := steps.share(planned)):
                break
            if not (self._begun(kind) or self._serves(units, records, error)):
                break
            steps.paid(units, planned)
            try:
                certificate = pay_audit(
                    self.curator,
                    hypothesis,
                    kind,
                    self.audited[kind],
                    _noise(self.curator, units),
                    snapshot=snapshot,
                    records=records,
                    records_error=error,
                    index=index + 1,
                    confidence=self.confidence,
                    key=named,
                )
            except KeyReusedError:
                if not fitted_formerly:
                    raise
                lost.append(kind)
                continue
            certificates.append(certificate)
        if lost:
            return tuple(certificates), OTHER_PROCESSOR.format(kinds=" and ".join(lost))
        return tuple(certificates), None if certificates or self._crashed(collection) else TOO_FEW

    def _crashed(self, collection: Collection) -> bool:
        """Whether crashes lost units of the run or of an audit, so that audits may be missing for this reason."""
        keys = (f"{self.key}:{kind}" for kind in self.audited)
        return not collection.steps.whole or any(self.curator.successor(key)[1] for key in keys)

    def _begun(self, kind: Kind) -> bool:
        return self.curator.begun(self.curator.successor(f"{self.key}:{kind}")[0]) is not None

    def _serves(self, units: int, records: float, records_error: float) -> bool:
        return audit_serves(self.curator, units, records, records_error, self.confidence)


def audit_serves(curator: Curator, units: int, records: float, records_error: float, confidence: float) -> bool:
    """Whether an audit for so many ledger units might certify anything."""
    noise = _noise(curator, units)
    return might_certify(noise, records=records, records_error=records_error, confidence=confidence)


def _noise(curator: Curator, units: int) -> Noise:
    return noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units)
