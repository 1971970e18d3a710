"""The closing audit of a run: one noisy number bounds every query of its workload at once (spec online.md 1).

Also the typical error of a release: a bound for most questions like those of its workload (spec answers 2).
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.linear_scores import LargestError
from reticent.kernel.mechanisms.base import Sensitivity, restore
from reticent.kernel.statistics import VALUE_ROUNDING, fine
from reticent.knowledge.certificates import Certificate, held, pay_audit
from reticent.knowledge.guarantees import AuditReading, Guarantee, Outcome
from reticent.knowledge.tails import audit_reading
from reticent.knowledge.typical import TypicalError, few, listed, measure_typical
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.distribution import Distribution, Questions
from reticent.queries.scalars import MOST_TENSOR_CELLS, ScalarQueries
from reticent.queries.workload import Workload
from reticent.releases.budgeting import Steps, noise_costing
from reticent.releases.candidates import LOW_ORDERS, closure, target_sets
from reticent.releases.query_class import QueryClass
from reticent.releases.table_audits import audit_serves

AUDIT_SHARE = Fraction(1, 25)
"""The default share of the budget; the noise is five times that of one count that the whole budget buys."""


def audited(
    curator: Curator,
    workload: Workload | Conjunctions,
    hypothesis: Hypothesis,
    steps: Steps,
    *,
    records: float,
    records_error: float,
    confidence: float,
    key: str,
    tables: bool = True,
) -> tuple[Hypothesis, tuple[Certificate, ...], tuple[Guarantee, ...]]:
    """Spend what is left of `steps` on the largest error; returns the hypothesis exactly as it was audited.

    Without `tables`, marginals and ranges are left out, of which the caller buys certificates: ranges are many, and the
    queries' bound is tighter without them. An audit that an earlier version began with tables is continued with them.
    """
    if steps.left < 1:
        return hypothesis, (), ()
    named = steps.begin("audit")
    begun = curator.begun(named)
    alone = False
    if not tables and isinstance(workload, Workload) and (singles := workload.singles) is not workload:
        alone = begun is None or _asks(begun, ScalarQueries(singles, curator.domain))
        workload = singles if alone else workload
    queries = ScalarQueries(workload, curator.domain)
    # Others may have spent from the same ledger since the run began: a bound with more noise is still one.
    units = min(steps.left, curator.remaining)
    if begun is None and units < 1:
        return hypothesis, (), ()
    hypothesis = held(curator, hypothesis, key)
    snapshot = Snapshot(hypothesis).digest
    fresh = curator.moved(Sensitivity.scalar())
    noise = noise_costing(curator.budget, fresh, units) if begun is None else _noise_of(begun)
    if queries.cells_only:
        certificate = pay_audit(
            curator,
            hypothesis,
            "cells",
            queries.sets,
            noise,
            snapshot=snapshot,
            records=records,
            records_error=records_error,
            index=1,
            confidence=confidence,
            key=named,
        )
        return hypothesis, (certificate,), ()
    largest = LargestError(queries, records * _guesses(queries, workload, hypothesis), state=snapshot)
    settled = curator.measure([largest], noise, key=named)
    reading = AuditReading(
        value=audit_reading(float(settled.values[0]), records),
        noise=settled.noises[0].describe(),
        # Guesses are rounded to the grid, discrete noise may stray one step further; values were rounded, too.
        slack=1.5 / fine(1) / records + VALUE_ROUNDING,
        records=records,
        records_error=records_error,
    )
    guarantee = Guarantee(
        theorem="audit of the workload's largest error",
        error=min(1.0, reading.bound_at(confidence)),
        confidence=confidence,
        snapshot=snapshot,
        workload=workload,
        domain=curator.domain,
        reading=reading,
        singles=alone,
    )
    return hypothesis, (), (guarantee,)


def _asks(begun: Any, queries: ScalarQueries) -> bool:
    """Whether an interrupted audit asked for the largest error of these queries."""
    (described,) = begun["statistics"]
    return described.get("largest error of") == queries.digest


def _guesses(queries: ScalarQueries, workload: Workload | Conjunctions, hypothesis: Hypothesis) -> np.ndarray:
    """q(p) of every query; of single queries, if their tensors are large together, one after another."""
    if queries.size > len(queries.queries) or queries.tensor_cells <= MOST_TENSOR_CELLS:
        return QueryClass(workload, queries.domain).guesses(hypothesis)
    return np.array([hypothesis.expect(query) for query in queries.queries])


def _noise_of(begun: Any) -> Noise:
    """The noise for which an interrupted audit had reserved its charge."""
    return restore(begun["mechanisms"][0])  # pyright: ignore[reportReturnType]


TYPICAL_SHARE = Fraction(1, 25)
"""The share of a release's budget for a typical error: as much as for its certificates."""


def typical_units(curator: Curator, algorithm: Any, allowance: int) -> int:
    """Ledger units for a typical error; 0 if no certificate is bought either, or the public number of records is so
    small that nothing could be certified.
    """
    from reticent.releases.adaptive import Adaptive  # which uses this module's audit

    bought = isinstance(algorithm, Adaptive) and algorithm.audit_share > 0
    units = int(allowance * TYPICAL_SHARE) if bought else 0
    if curator.records is None or units == 0:
        return units
    return units if audit_serves(curator, units, float(curator.records), 0.0, algorithm.confidence) else 0


def typical_error(
    curator: Curator, outcome: Outcome, workload: Workload, units: int, *, confidence: float, key: str
) -> TypicalError | None:
    """Pay `units` for a typical error; after a crash, the same key returns what was paid for.

    None if there is nothing to ask, if nothing could be certified, or if two crashes in this step lost the units set
    aside for it.
    """
    named, lost = curator.successor(f"{key}:typical")
    error = float(outcome.notes.get("records_error", 0.0))
    if lost or not (curator.begun(named) or audit_serves(curator, units, outcome.records, error, confidence)):
        return None
    distribution = _distribution(curator.domain, workload)
    if distribution is None:
        return None
    snapshot, name = Snapshot(outcome.hypothesis), f"{key}:questions"
    stored = curator.kept(name)
    if stored is None:
        # The hypothesis is stored already: nobody could fit it to questions that are drawn now.
        questions = listed(curator.domain, distribution)
        curator.keep(name, json.dumps(questions.to_dict()).encode())
    else:
        questions = Questions.from_dict(curator.domain, json.loads(stored))
    return measure_typical(
        curator,
        snapshot,
        questions,
        noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units),
        snapshot=snapshot.digest,
        records=outcome.records,
        records_error=error,
        index=1,
        confidence=confidence,
        key=named,
    )


def _distribution(domain: Domain, workload: Workload) -> Distribution | None:
    """The uniform distribution over the workload's attribute sets and their subsets of up to three attributes, fewer if
    there are many.
    """
    targets = target_sets(workload, domain)
    asked: tuple[tuple[str, ...], ...] = ()
    for order in range(1, LOW_ORDERS + 1):
        wider = (s for s in closure(targets, order) if all(domain[name].size > 1 for name in s))
        found = tuple(dict.fromkeys((*asked, *wider)))
        if not few(domain, found):
            break
        asked = found
    return Distribution("mixed", asked) if asked else None
