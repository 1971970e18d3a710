"""Warming up spends a share of the budget once: measure a workload, fit, audit, and answer from it for ever."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from reticent.algorithms.adaptive import Adaptive
from reticent.algorithms.audit import audit
from reticent.algorithms.certificates import Certificate
from reticent.algorithms.knowledge import Knowledge
from reticent.algorithms.online import learn
from reticent.algorithms.outcome import Report
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.hypotheses.choose import choose
from reticent.hypotheses.snapshot import Snapshot
from reticent.journal import Journal
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms import Gaussian, Laplace, Noise, Sensitivity
from reticent.kernel.statistics import Kind
from reticent.queries.linear import Count
from reticent.queries.workload import Workload, marginals

WARM = "session:warm"
AUDIT_SHARE = Fraction(1, 20)
TOTAL_SHARE = Fraction(1, 50)
LARGEST_WORKLOAD = 2**22
"""Cells of the default workload: all triples while they fit, else all pairs, else single attributes."""
LONGEST_AUDIT = 4e9
"""Kadane steps of a default audit; beyond, it covers pairs of attributes instead of triples."""


def warm_up(
    curator: Curator,
    journal: Journal,
    share: float,
    workload: Workload | None,
    confidence: float,
    progress: Report,
) -> Knowledge:
    """The knowledge a session starts from; a second call finds everything in the ledger and spends nothing."""
    knowledge = journal.first()
    if knowledge is None:
        knowledge = _fresh(curator, share, workload, progress)
        journal.save_snapshot(knowledge)
    for bought in journal.bought(WARM):
        settled = curator.measure(bought.queries, bought.noises, key=bought.key)
        knowledge = learn(knowledge, bought.queries, bought.noises, settled)
    stored = journal.snapshots()
    for certificate in journal.certificates():
        knowledge = knowledge.with_certificate(stored[certificate.snapshot], certificate)
    if share and not knowledge.certified:
        order = default_order(curator.domain)
        knowledge, _ = certify(curator, journal, knowledge, "boxes", order, confidence, None)
    return knowledge


def _fresh(curator: Curator, share: float, workload: Workload | None, progress: Report) -> Knowledge:
    limit = curator.budget.limit
    if share == 0:
        uniform = Snapshot(choose(curator.domain, marginals(curator.domain, 1)).build())
        return Knowledge(uniform, *counted(curator, int(limit * TOTAL_SHARE)))
    asked = (workload or default_workload(curator.domain)).on(curator.domain)
    outcome = Adaptive(audit_share=Fraction(0)).run(
        curator, asked, allowance=int(limit * Fraction(share)), key=WARM, report=progress
    )
    return Knowledge(Snapshot(outcome.hypothesis), outcome.records, outcome.notes["records_error"])


def certify(
    curator: Curator,
    journal: Journal,
    knowledge: Knowledge,
    kind: Kind,
    order: int,
    confidence: float,
    amount: float | None,
) -> tuple[Knowledge, Certificate]:
    """Audit the working hypothesis over all sets of up to `order` attributes; `amount` in the budget's unit."""
    domain, snapshot = curator.domain, knowledge.current
    if not 1 <= order <= len(domain):
        raise QueryError(f"order={order}: an audit covers sets of 1 to {len(domain)} attributes")
    units = int(curator.budget.limit * AUDIT_SHARE) if amount is None else int(amount * NANO)
    journal.save_snapshot(knowledge)
    certificate = audit(
        curator,
        snapshot,
        kind,
        covered_sets(domain, kind, order),
        audit_noise(curator.budget, units),
        snapshot=snapshot.digest,
        records=knowledge.records,
        records_error=knowledge.records_error,
        index=1 + len(journal.certificates()),
        confidence=confidence,
        key=f"session:audit:{kind}:{order}:{snapshot.digest[:24]}:{units}",
    )
    journal.save_certificate(certificate)
    return knowledge.with_certificate(snapshot, certificate), certificate


def covered_sets(domain: Domain, kind: Kind, order: int) -> list[tuple[str, ...]]:
    """Boxes and predicates of a set include those of its subsets; cells do not."""
    sizes = range(1, order + 1) if kind == "cells" else (order,)
    return [names for size in sizes for names in itertools.combinations(domain.names, size)]


def audit_noise(budget: Budget, units: int) -> Noise:
    """The least noise that `units` can pay for; an audit has sensitivity one."""
    amount = Fraction(units, NANO)
    if budget.pure:
        return Laplace.costing(sensitivity=Sensitivity.scalar(), epsilon=amount)
    return Gaussian.costing(sensitivity=Sensitivity.scalar(), rho=amount)


def counted(curator: Curator, units: int) -> tuple[float, float]:
    """The number of records and a bound on its relative error; paid for where it is private (spec 1.1)."""
    if curator.records is not None:
        return float(curator.records), 0.0
    noise = audit_noise(curator.budget, units)
    settled = curator.measure([Count()], noise, key="session:total")
    total = max(1.0, float(settled.values[0]))
    return total, min(0.5, 5 * noise.sd / total)


def default_workload(domain: Domain) -> Workload:
    """All triples of attributes while their cells are few, else pairs, else single attributes."""
    for order in (3, 2, 1):
        if order <= len(domain) and _cells(domain, order) <= LARGEST_WORKLOAD:
            return marginals(domain, order)
    return marginals(domain, 1)


def default_order(domain: Domain) -> int:
    """How many attributes the first audit covers: three, unless that would take minutes."""
    for order in (3, 2):
        if order <= len(domain):
            steps = sum(_kadane_steps(domain.shape_of(s)) for s in itertools.combinations(domain.names, order))
            if steps <= LONGEST_AUDIT:
                return order
    return 1


def _kadane_steps(shape: Sequence[int]) -> float:
    longest = max(shape)
    return longest * math.prod(size * (size + 1) / 2 for size in shape) / (longest * (longest + 1) / 2)


def _cells(domain: Domain, order: int) -> int:
    return sum(domain.cells(names) for names in itertools.combinations(domain.names, order))
