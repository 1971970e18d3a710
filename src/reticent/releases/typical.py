"""What most questions like the workload's err on a release, bought after it was learned (spec answers 2)."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from reticent.domain import Domain
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.knowledge.outcome import Outcome
from reticent.knowledge.typical import TypicalError, few, listed, measure_typical
from reticent.queries.distribution import Distribution, Questions
from reticent.queries.workload import Workload
from reticent.releases.adaptive import Adaptive
from reticent.releases.budgeting import noise_costing
from reticent.releases.candidates import LOW_ORDERS, closure, target_sets

TYPICAL_SHARE = Fraction(1, 25)
"""Of a release's budget: as much as for its certificates."""


def typical_units(algorithm: Any, allowance: int) -> int:
    """Ledger units for a typical error; none where no certificate is bought either."""
    bought = isinstance(algorithm, Adaptive) and algorithm.audit_share > 0
    return int(allowance * TYPICAL_SHARE) if bought else 0


def typical_error(
    curator: Curator, outcome: Outcome, workload: Workload, units: int, *, confidence: float, key: str
) -> TypicalError | None:
    """Pays `units`; the same key after a crash reads back what was paid for.

    None where there is nothing to ask, and where two crashes in this very step lost what was set aside for it.
    """
    named, lost = curator.successor(f"{key}:typical")
    if lost:
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
        records_error=float(outcome.notes.get("records_error", 0.0)),
        index=1,
        confidence=confidence,
        key=named,
    )


def _distribution(domain: Domain, workload: Workload) -> Distribution | None:
    """Uniform over the workload's attribute sets and all inside them, of up to three attributes, fewer if many."""
    targets = target_sets(workload, domain)
    asked: tuple[tuple[str, ...], ...] = ()
    for order in range(1, LOW_ORDERS + 1):
        wider = (s for s in closure(targets, order) if all(domain[name].size > 1 for name in s))
        found = tuple(dict.fromkeys((*asked, *wider)))
        if not few(domain, found):
            break
        asked = found
    return Distribution("mixed", asked) if asked else None
