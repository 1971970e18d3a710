"""Warm starts: a share of the budget is spent once to measure, fit and audit a workload."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import comb, inf
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.domain.numeric import has_positions
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import DENSE_CELLS, choose
from reticent.hypotheses.memory import refuse_beyond
from reticent.hypotheses.sampling import TARGET_SETS
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.counting.boxes import box_steps
from reticent.kernel.curator import NAMED, Curator, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace, Sensitivity
from reticent.kernel.numeric_sums import BinOffsets, of_offsets
from reticent.kernel.statistics import Kind
from reticent.knowledge.certificates import LONGEST_AUDIT, Certificate, pay_audit
from reticent.knowledge.guarantees import Outcome, Progress, Report
from reticent.knowledge.knowledge import VACUOUS, Knowledge
from reticent.knowledge.learning import refitted
from reticent.knowledge.tails import JOINT, noise_failure, reach
from reticent.knowledge.typical import TypicalError, few, listed, measure_typical
from reticent.planning.prediction import Largest, expected_largest, refitted_largest
from reticent.queries.distribution import Distribution
from reticent.queries.workload import Workload, marginals
from reticent.releases.adaptive import Adaptive
from reticent.releases.budgeting import noise_costing
from reticent.releases.release import Release
from reticent.releases.rounds import STEPS
from reticent.sessions.journal import AUDIT, TYPICAL, Journal
from reticent.sessions.record_count import pay_record_count, refine_record_count
from reticent.sessions.resume import OFFSETS, WARM, with_certificates, with_offsets, with_start

AUDIT_SHARE = Fraction(1, 20)
TYPICAL_SHARE = Fraction(1, 20)
"""The share of the budget for a first typical error: its noise is then far below the error itself (docs/budget.md)."""
OFFSET_SHARE = Fraction(1, 100)
"""The share of the budget for offsets within bins: their noise is then a few records in a bin (docs/budget.md)."""
NOISE_PART = 0.25
"""The share of a predicted largest error that the noise of a cheap audit adds to it."""
CHEAP_SHARE = Fraction(1, 40)
"""The share of the remaining budget below which an audit is cheap; the same as in the rule of investments."""
USEFUL = 0.02
"""A warm start is bought if its class bound is at most this share of the table, unless `useful=` is given."""
TOO_LOW = 1.3
"""The largest ratio of the obtained bound to the predicted one (spec answers 3); decisions leave this margin."""
PUBLIC_SEED = 20240301
"""The seed of a support: public post-processing, the same at every opening."""
HELD_COPIES = 3
"""Copies of a session's hypothesis in memory: the working one, its snapshot, and the one that an update creates."""
LARGEST_WORKLOAD = 2**22
"""The largest number of cells of the default workload: all triples if they fit, else all pairs, else single
attributes."""
MOST_PAIRS = 2**15
"""The largest number of pairs of the default workload: those of 256 attributes."""
SET_STEPS = 2**17
"""What an audit spends on a set whatever its size, in steps of the search for the worst range: a fraction of a
millisecond to count it, guess it and describe it."""


def warm_up(
    curator: Curator, journal: Journal, settings: Mapping[str, Any], workload: Workload | None, progress: Report
) -> Knowledge:
    """The knowledge from which a session starts; a second call finds everything in the ledger and spends nothing."""
    stored, start = journal.latest(), journal.start()
    if stored is not None:
        knowledge = Knowledge(stored.snapshot, stored.records, stored.records_error, shares=journal.shares)
    elif start is not None:
        knowledge = _of_release(start, journal)
    else:
        knowledge = _fresh(curator, journal, settings, workload, progress)
        settings, start = journal.settings() or settings, journal.start()
    for certificate in () if start is None else start.certificates:
        journal.save_certificate(certificate)
    for error in () if start is None else start.typical:
        journal.save_typical(error)
    knowledge = with_start(journal, knowledge, fitted=stored is not None)
    if stored is None:
        knowledge = refitted(knowledge)
        journal.save_snapshot(knowledge)
    knowledge = with_certificates(journal, knowledge)
    for kind, order, units in _first_audits(curator, journal, settings, knowledge, progress):
        progress(_after_start(f"auditing {kind} on up to {order} columns"))
        knowledge, _ = certify(curator, journal, knowledge, kind, order, settings["confidence"], units)
    if settings.get("offsets"):
        knowledge = buy_offsets(curator, journal, knowledge, settings["offsets"])
    if settings.get("typical") and not journal.typical():
        order, units = journal.typical_begun() or typical_order(curator.domain), settings["typical"]
        if order:
            progress(_after_start(f"measuring the typical error on up to {order} columns"))
            knowledge, _ = certify_typical(curator, journal, knowledge, order, settings["confidence"], units)
    return knowledge


def _after_start(message: str) -> Progress:
    """The progress of what follows the measurements of a warm start: its predictions and audits."""
    return Progress(STEPS, STEPS, message, 1.0)


def _first_audits(
    curator: Curator, journal: Journal, settings: Mapping[str, Any], knowledge: Knowledge, progress: Report
) -> Iterator[tuple[Kind, int, int]]:
    """Classes that the warm start still has to certify, their numbers of attributes, and the units of each.

    If a decision depends on them, their bounds are first predicted from the measurements: boxes are not audited if
    questions will need much smaller errors, and predicates are audited if that is cheap.
    """
    uncertified = not knowledge.certified and not journal.certificates()
    if not settings["audit"] or (not uncertified and journal.prediction() is None):
        return
    told = journal.prediction() if settings.get("purpose") == "unlimited" or "error" in settings else {}
    if told is None:
        progress(_after_start("predicting the bounds of audits"))
        told = _predicted(curator, settings, knowledge)
        journal.save_prediction(told)  # before anything is paid: a retry decides the same
    if uncertified and (units := told.get("boxes", settings["audit"])):
        # An audit that an earlier version began goes on as it began.
        begun = (order for order in (3, 2, 1) if journal.unfinished("boxes", order, units) is not None)
        yield "boxes", next(begun, default_order(curator.domain)), units
    predicates = told.get("predicates")
    if predicates and not any(certificate.kind == "predicates" for certificate in journal.certificates()):
        yield "predicates", predicates["order"], predicates["units"]


def _predicted(curator: Curator, settings: Mapping[str, Any], knowledge: Knowledge) -> dict[str, Any]:
    """The predicted bounds of audits of the fit, and the audits to buy: `boxes` and `predicates` in units."""
    domain, order, error = curator.domain, default_order(curator.domain), settings.get("error")
    orders = range(min(order, len(domain)), 0, -1)
    wide = [covered_sets(domain, "predicates", size) for size in orders]
    found = refitted_largest(
        knowledge.current.thaw(), knowledge.measurements(), covered_sets(domain, "boxes", order), wide
    )
    if found is None:
        noise: dict[tuple[str, ...], float] = {}
        for measured in knowledge.marginals:
            noise[measured.attributes] = min(measured.sd, noise.get(measured.attributes, inf))
        found = Largest(expected_largest(domain, noise, order), ())
    facts = (knowledge.records, knowledge.records_error, settings["confidence"])
    bound = audited_bound(curator, found.boxes, *facts, settings["audit"], index=1)
    told: dict[str, Any] = {"order": order, "bound": bound if bound < inf else None, "boxes": settings["audit"]}
    if bound >= VACUOUS or (error is not None and bound > TOO_LOW * error):
        told["boxes"] = 0
    told["variations"] = {str(size): largest for size, largest in zip(orders, found.predicates, strict=False)}
    if settings.get("purpose") == "unlimited":
        for size, largest in zip(orders, found.predicates, strict=False):
            units = _cheap(curator, largest, *facts)
            bound = audited_bound(curator, largest, *facts, units, index=2)
            if bound <= settings["useful"]:
                return told | {"predicates": {"order": size, "units": units, "bound": bound}}
    return told


def _cheap(curator: Curator, largest: float, records: float, records_error: float, confidence: float) -> int:
    """The units of an audit whose noise adds a quarter to its bound, or fewer if that is not cheap."""
    failure = noise_failure(confidence, records_error) * JOINT.certificate(2)
    if not failure > 0 or not largest > 0:
        return 0
    one: Noise = Laplace(1) if curator.budget.pure else Gaussian(1)
    width = NOISE_PART * largest * records / reach(one, failure)
    noise: Noise = Laplace(width) if curator.budget.pure else Gaussian(width)
    units = curator.budget.cost(curator.as_drawn(noise).price(curator.moved(Sensitivity.scalar())))
    return min(units, int(curator.remaining * CHEAP_SHARE))


def audited_bound(
    curator: Curator,
    largest: float,
    records: float,
    records_error: float,
    confidence: float,
    units: int,
    *,
    index: int,
) -> float:
    """The expected bound that an audit states for a given largest error."""
    failure = noise_failure(confidence, records_error) * JOINT.certificate(index)
    if not failure > 0 or units < 1 or not records_error < 1:
        return inf
    noise = noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units)
    return (largest + reach(noise, failure) / records + records_error) / (1 - records_error)


def warm_units(remaining: int, share: float) -> dict[str, int]:
    """Ledger units for the warm start, its audit and its typical error, fixed at the first opening."""
    warm = int(remaining * Fraction(share))
    audit = int(remaining * AUDIT_SHARE) if share else 0
    typical = min(int(remaining * TYPICAL_SHARE), remaining - warm - audit) if share else 0
    return {"warm": warm, "audit": audit, "typical": typical}


def _fresh(
    curator: Curator, journal: Journal, settings: Mapping[str, Any], workload: Workload | None, progress: Report
) -> Knowledge:
    """The result of a warm start; if it buys nothing, a release published on this ledger, if there is one."""
    outcome = _warmed(curator, journal, settings, workload, progress)
    if outcome is not None:
        records_error = outcome.notes["records_error"]
        return Knowledge(Snapshot(outcome.hypothesis), outcome.records, records_error, shares=journal.shares)
    published = journal.newest_release()
    if published is not None:
        journal.save_start(published)
        return _of_release(published, journal)
    if "losses" not in settings and not settings.get("counts"):
        refine_record_count(curator, journal, settings["confidence"], settings.get("error"))
    return untouched(curator, journal, _cold(curator.domain))


def _cold(domain: Domain) -> Hypothesis:
    """A hypothesis with every cell if they fit in memory; otherwise a support, which can represent any question."""
    choice = choose(domain, representation="dense" if domain.size <= DENSE_CELLS else "support")
    refuse_beyond(HELD_COPIES * choice.bytes, "the session", "use fewer or coarser attributes")
    return choice.build(np.random.default_rng(PUBLIC_SEED))


def _warmed(
    curator: Curator, journal: Journal, settings: Mapping[str, Any], workload: Workload | None, progress: Report
) -> Outcome | None:
    if settings["warm"] == 0:
        return None
    if journal.forfeited(warm_key(settings)):
        # Two crashes forfeited the payment: the same share of the remaining budget starts again, under another key.
        units = warm_units(curator.remaining, settings["share"])
        typical = units["typical"] if settings.get("typical") else 0  # terms of version 0.1 bought none
        settings = {**settings, **units, "typical": typical, "attempt": settings["attempt"] + 1}
        journal.save_settings(settings)
    asked = (workload or default_workload(curator.domain)).on(curator.domain)
    # No histogram: a session sums and refits its measurements, and questions about few attributes are more common.
    warm = Adaptive(audit_share=Fraction(0), histogram_cells=0, at_once=True)
    try:
        return warm.run(curator, asked, allowance=settings["warm"], key=warm_key(settings), report=progress)
    except BudgetError:
        return None  # hardly anything is left, as after a release on the same ledger


def warm_key(settings: Mapping[str, Any]) -> str:
    return f"{WARM}:{settings['attempt']}"


def untouched(curator: Curator, journal: Journal, hypothesis: Hypothesis) -> Knowledge:
    """A hypothesis without measurements, and the number of records, which is paid for if it is private."""
    return Knowledge(Snapshot(hypothesis), *pay_record_count(curator, journal), shares=journal.shares)


def _of_release(release: Release, journal: Journal) -> Knowledge:
    records_error = float(release.notes.get("records_error", 0.0))
    return Knowledge(Snapshot(release.hypothesis), release.records, records_error, shares=journal.shares)


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
    begun = journal.unfinished(kind, order, units)
    if begun is not None:
        # On another processor the same measurements may give a snapshot other than the audited one.
        key, snapshot = begun
    else:
        journal.save_snapshot(knowledge)
        key = journal.usable(f"{AUDIT}{kind}:{order}:{snapshot.digest[:NAMED]}:{units}")
    certificate = pay_audit(
        curator,
        snapshot,
        kind,
        covered_sets(domain, kind, order),
        noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units),
        snapshot=snapshot.digest,
        records=knowledge.records,
        records_error=knowledge.records_error,
        index=journal.audit_index(key),
        confidence=confidence,
        key=key,
    )
    certificate = replace(certificate, joint=knowledge.shares.joint, plain=knowledge.shares.plain)
    journal.save_certificate(certificate)
    return knowledge.with_certificate(snapshot, certificate), certificate


def certify_typical(
    curator: Curator, journal: Journal, knowledge: Knowledge, order: int, confidence: float, units: int
) -> tuple[Knowledge, TypicalError]:
    """Buy a typical error of the working hypothesis for questions on up to `order` attributes (answers 2)."""
    domain, snapshot = curator.domain, knowledge.current
    if not 1 <= order <= len(domain):
        raise QueryError(f"order={order}: questions are about 1 to {len(domain)} attributes")
    # The questions are drawn after the snapshot is stored, so it cannot have been fitted to them.
    journal.save_snapshot(knowledge)
    key = journal.usable(f"{TYPICAL}{order}:{snapshot.digest[:NAMED]}:{units}")
    questions = journal.questions(key, domain)
    if questions is None:
        questions = listed(domain, Distribution.over(domain, order))
        journal.save_questions(key, questions)
    error = measure_typical(
        curator,
        snapshot,
        questions,
        noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units),
        snapshot=snapshot.digest,
        records=knowledge.records,
        records_error=knowledge.records_error,
        index=journal.typical_index(key),
        confidence=confidence,
        key=key,
    )
    error = replace(error, plain=knowledge.shares.plain)
    journal.save_typical(error)
    return knowledge.with_typical(snapshot, error), error


def typical_order(domain: Domain) -> int:
    """The number of attributes of the first typical error: three, fewer in a narrow table or if sums are long.

    Zero if no attribute has two codes, or if they have too many.
    """
    asked = sum(domain[name].size > 1 for name in domain.names)
    orders = range(min(asked, default_order(domain)), 0, -1)
    return next((order for order in orders if few(domain, Distribution.over(domain, order).sets)), 0)


def covered_sets(domain: Domain, kind: Kind, order: int) -> list[tuple[str, ...]]:
    """The sets to audit: boxes and predicates of a set include those of its subsets; cells do not."""
    sizes = range(1, order + 1) if kind == "cells" else (order,)
    return [names for size in sizes for names in itertools.combinations(domain.names, size)]


def default_workload(domain: Domain) -> Workload:
    """All triples of attributes if they and their cells are few, else pairs, else single attributes.

    Triples are no more than the sets toward which a fit can move its records: the time of a fit grows with the number
    of measured sets.
    """
    for order, most in ((3, TARGET_SETS), (2, MOST_PAIRS)):
        if order <= len(domain) and comb(len(domain), order) <= most and _cells(domain, order) <= LARGEST_WORKLOAD:
            return marginals(domain, order)
    return marginals(domain, 1)


def default_order(domain: Domain) -> int:
    """The number of attributes of the first audit: three, unless that would take minutes."""
    for order in (3, 2):
        steps = SET_STEPS * comb(len(domain), order)
        if order <= len(domain) and steps <= LONGEST_AUDIT:
            steps += sum(box_steps(domain.shape_of(s)) for s in itertools.combinations(domain.names, order))
            if steps <= LONGEST_AUDIT:
                return order
    return 1


def _cells(domain: Domain, order: int) -> int:
    return sum(domain.cells(names) for names in itertools.combinations(domain.names, order))


def placed_columns(curator: Curator) -> list[str]:
    """Columns with stored positions of numbers within their bins."""
    return [name for name, one in curator.domain.items() if has_positions(one) and curator.has_numbers(name)]


def buy_offsets(curator: Curator, journal: Journal, knowledge: Knowledge, units: int) -> Knowledge:
    """Measure the offsets of all such columns with equal noise, for a number of ledger units; once."""
    names, knowledge = placed_columns(curator), with_offsets(journal, knowledge)
    if knowledge.bin_means or not names or units < len(names):
        return knowledge
    moved = curator.moved(of_offsets(curator.neighbours))
    noise = noise_costing(curator.budget, moved, units // len(names))
    asked = [BinOffsets(name, curator.domain) for name in names]
    with suppress(BudgetError):  # hardly anything is left, as after a release on the same ledger
        curator.measure(asked, [noise] * len(names), key=journal.usable(f"{OFFSETS}:{units}"))
    return with_offsets(journal, knowledge)
