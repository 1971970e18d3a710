"""Warming up spends a share of the budget once: measure a workload, fit, audit, and answer from it for ever."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.algorithms import tails
from reticent.algorithms.adaptive import Adaptive
from reticent.algorithms.allocation import TOTAL_SHARE, noise_costing, too_little
from reticent.algorithms.audit import LONGEST_AUDIT, audit
from reticent.algorithms.certificates import Certificate
from reticent.algorithms.derived import MeasuredMarginal
from reticent.algorithms.knowledge import Knowledge, PassedBatch
from reticent.algorithms.online import Measured, learn, refitted, understand
from reticent.algorithms.outcome import Outcome, Report
from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import choose
from reticent.hypotheses.prior import collapse
from reticent.hypotheses.snapshot import Snapshot
from reticent.journal import AUDIT, Bought, Journal
from reticent.kernel.boxes import box_steps
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms import Gaussian, Laplace, Sensitivity, restore
from reticent.kernel.statistics import Kind
from reticent.queries.linear import Count, Marginal
from reticent.queries.workload import Workload, marginals
from reticent.releases import Release

WARM = "session:warm"
AUDIT_SHARE = Fraction(1, 20)
LARGEST_WORKLOAD = 2**22
"""Cells of the default workload: all triples while they fit, else all pairs, else single attributes."""


def warm_up(
    curator: Curator, journal: Journal, settings: Mapping[str, Any], workload: Workload | None, progress: Report
) -> Knowledge:
    """The knowledge a session starts from; a second call finds everything in the ledger and spends nothing."""
    stored, start = journal.latest(), journal.start()
    if stored is not None:
        knowledge = Knowledge(stored.snapshot, stored.records, stored.records_error)
    elif start is not None:
        knowledge = _of_release(start)
    else:
        knowledge = _fresh(curator, journal, settings, workload, progress)
        settings, start = journal.settings() or settings, journal.start()
    if start is not None:
        knowledge = learn(knowledge, _of_measurements(start), fitted=True)
        for certificate in start.certificates:
            journal.save_certificate(certificate)
    for bought in journal.bought(WARM):
        knowledge = learn(knowledge, _understood(curator, knowledge, bought), fitted=True)
    for bought in journal.published():
        knowledge = learn(knowledge, _understood(curator, knowledge, bought), fitted=stored is not None)
    if stored is None:
        knowledge = refitted(knowledge)
        journal.save_snapshot(knowledge)
    knowledge = certified_knowledge(journal, knowledge)
    if settings["audit"] and not knowledge.certified:
        order = default_order(curator.domain)
        knowledge, _ = certify(curator, journal, knowledge, "boxes", order, settings["confidence"], settings["audit"])
    return knowledge


def _understood(curator: Curator, knowledge: Knowledge, bought: Bought) -> list[Measured]:
    """Marginals that were not bought for a question, read again."""
    settled = curator.measure(bought.queries, bought.noises, key=bought.key)
    return understand(knowledge, bought.queries, bought.noises, settled, declared=False)


def certified_knowledge(journal: Journal, knowledge: Knowledge) -> Knowledge:
    """All certificates and passed batches of earlier runs, each with its stored snapshot."""
    snapshots = {knowledge.current.digest: knowledge.current}

    def snapshot(digest: str) -> Snapshot:
        if digest not in snapshots:
            snapshots[digest] = journal.snapshot(digest)
        return snapshots[digest]

    for certificate in journal.certificates():
        knowledge = knowledge.with_certificate(snapshot(certificate.snapshot), certificate)
    for certificate, digests in journal.batches():
        knowledge = knowledge.with_batch(digests, PassedBatch(snapshot(certificate.snapshot), certificate))
    return knowledge


def warm_units(remaining: int, share: float) -> tuple[int, int]:
    """Ledger units for the warm start and for its audit, fixed when a session is first opened."""
    return int(remaining * Fraction(share)), int(remaining * AUDIT_SHARE) if share else 0


def _fresh(
    curator: Curator, journal: Journal, settings: Mapping[str, Any], workload: Workload | None, progress: Report
) -> Knowledge:
    """What a warm start buys; where it buys nothing, what a release on this ledger published, if there is one."""
    outcome = _warmed(curator, journal, settings, workload, progress)
    if outcome is not None:
        return Knowledge(Snapshot(outcome.hypothesis), outcome.records, outcome.notes["records_error"])
    published = journal.newest_release()
    if published is not None:
        journal.save_start(published)
        return _of_release(published)
    return untouched(curator, journal, choose(curator.domain, marginals(curator.domain, 1)).build())


def _warmed(
    curator: Curator, journal: Journal, settings: Mapping[str, Any], workload: Workload | None, progress: Report
) -> Outcome | None:
    if settings["warm"] == 0:
        return None
    if journal.forfeited(warm_key(settings)):
        # Two crashes lost what was paid for: the same share of what is left starts anew, under another key.
        warm, audited = warm_units(curator.remaining, settings["share"])
        settings = {**settings, "warm": warm, "audit": audited, "attempt": settings["attempt"] + 1}
        journal.save_settings(settings)
    asked = (workload or default_workload(curator.domain)).on(curator.domain)
    # No histogram: a session sums and refits what it measured, and few attributes are asked about more than all.
    warm = Adaptive(audit_share=Fraction(0), histogram_cells=0)
    try:
        return warm.run(curator, asked, allowance=settings["warm"], key=warm_key(settings), report=progress)
    except BudgetError:
        return None  # hardly anything is left, as after a release on the same ledger


def warm_key(settings: Mapping[str, Any]) -> str:
    return f"{WARM}:{settings['attempt']}"


def untouched(curator: Curator, journal: Journal, hypothesis: Hypothesis) -> Knowledge:
    """A hypothesis that has learned nothing, and the number of records, paid for where it is private."""
    return Knowledge(Snapshot(hypothesis), *counted(curator, journal))


def _of_release(release: Release) -> Knowledge:
    return Knowledge(Snapshot(release.hypothesis), release.records, float(release.notes.get("records_error", 0.0)))


def _of_measurements(release: Release) -> list[Measured]:
    """What a release measured with known noise.

    Not what it measured on a sample of the records: how far that lies from the table is not bounded by the noise.
    """
    if "sample" in release.notes:
        return []
    count, found = release.records, []
    for measurement in release.measurements:
        error = float(release.notes.get("records_error", 0.0))
        if isinstance(measurement.query, Marginal) and measurement.noise is not None:
            noise = restore(measurement.noise)
            assert isinstance(noise, (Laplace, Gaussian)), "marginals are measured with additive noise"
            names, values = measurement.query.canonical(release.domain), measurement.values
            found.append(MeasuredMarginal(names, values, noise, count, error, None, declared=False).balanced())
    return found


def certify(
    curator: Curator,
    journal: Journal,
    knowledge: Knowledge,
    kind: Kind,
    order: int,
    confidence: float,
    units: int,
) -> tuple[Knowledge, Certificate]:
    """Audit the working hypothesis over all sets of up to `order` attributes, paying `units` of the ledger."""
    domain, snapshot = curator.domain, knowledge.current
    if not 1 <= order <= len(domain):
        raise QueryError(f"order={order}: an audit covers sets of 1 to {len(domain)} attributes")
    journal.save_snapshot(knowledge)
    key = journal.usable(f"{AUDIT}{kind}:{order}:{snapshot.digest[:24]}:{units}")
    certificate = audit(
        curator,
        snapshot,
        kind,
        covered_sets(domain, kind, order),
        noise_costing(curator.budget, Sensitivity.scalar(), units),
        snapshot=snapshot.digest,
        records=knowledge.records,
        records_error=knowledge.records_error,
        index=journal.audit_index(key),
        confidence=confidence,
        key=key,
    )
    journal.save_certificate(certificate)
    return knowledge.with_certificate(snapshot, certificate), certificate


def covered_sets(domain: Domain, kind: Kind, order: int) -> list[tuple[str, ...]]:
    """Boxes and predicates of a set include those of its subsets; cells do not."""
    sizes = range(1, order + 1) if kind == "cells" else (order,)
    return [names for size in sizes for names in itertools.combinations(domain.names, size)]


def counted(curator: Curator, journal: Journal) -> tuple[float, float]:
    """The number of records and a bound on its relative error; paid for where it is private (spec 1.1)."""
    if curator.records is not None:
        return float(curator.records), 0.0
    if (total := collapse(_measured(curator, journal), ())) is not None:
        return tails.counted(float(total[0]), total[1], pure=curator.budget.pure)
    units = min(int(curator.budget.limit * TOTAL_SHARE), curator.remaining)
    if units == 0:
        what = "the number of records, which is private here"
        raise too_little(curator.remaining, curator.budget, what, needed=1)
    noise = noise_costing(curator.budget, Sensitivity.scalar(), units)
    settled = curator.measure([Count()], noise, key=journal.usable("session:total"))
    return tails.counted(float(settled.values[0]), noise.sd, pure=curator.budget.pure)


def _measured(curator: Curator, journal: Journal) -> Iterator[tuple[tuple[str, ...], np.ndarray, float]]:
    """What releases on this ledger measured, in records, with its noise."""
    for bought in journal.published():
        settled = curator.measure(bought.queries, bought.noises, key=bought.key)
        for query, noise, values in zip(bought.queries, bought.noises, settled.values, strict=True):
            yield curator.domain.canonical(query.attributes), np.asarray(values, dtype=np.float64), noise.sd


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
            steps = sum(box_steps(domain.shape_of(s)) for s in itertools.combinations(domain.names, order))
            if steps <= LONGEST_AUDIT:
                return order
    return 1


def _cells(domain: Domain, order: int) -> int:
    return sum(domain.cells(names) for names in itertools.combinations(domain.names, order))
