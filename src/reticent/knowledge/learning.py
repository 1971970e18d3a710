"""Learning: how a settled measurement changes knowledge and its working hypothesis (spec 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from reticent.errors import CapacityError
from reticent.hypotheses.base import Hypothesis, conservative_target
from reticent.hypotheses.choose import learned
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Noise, Settled
from reticent.knowledge.knowledge import Knowledge, Single
from reticent.knowledge.measured import MeasuredGroups, MeasuredMarginal, MeasuredQuery
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal

Measured = MeasuredQuery | MeasuredMarginal | MeasuredGroups

FITTED_CELLS = 2**20
"""A fit holds the values of a query on all cells of its attributes."""


def understand(
    knowledge: Knowledge,
    queries: Sequence[Single],
    noises: Sequence[Noise],
    settled: Settled,
    *,
    declared: bool = True,
) -> list[Measured]:
    """Settled noisy counts as fractions, each with its noise: a function of the purchase alone.

    A marginal that was bought in addition to a question is not `declared`.
    """
    count, shares, found = knowledge.records, knowledge.shares, []
    declared = declared and len(queries) == 1
    for query, noise, values in zip(queries, noises, settled.values, strict=True):
        if isinstance(query, Marginal):
            names, cells = query.canonical(knowledge.domain), np.asarray(values) / count
            error, ledger_id = knowledge.records_error, settled.ledger_id
            marginal = MeasuredMarginal(names, cells, noise, count, error, ledger_id, declared=declared, shares=shares)
            found.append(marginal.balanced())
        elif isinstance(query, Groups):
            released, domain, error = np.asarray(values), knowledge.domain, knowledge.records_error
            found.append(MeasuredGroups.of(query, domain, released, noise, count, error, settled.ledger_id, shares))
        else:
            binary = knowledge.form(query).binary
            found.append(MeasuredQuery(query, float(values) / count, noise, settled.ledger_id, binary, shares))
    return found


def learn(knowledge: Knowledge, measured: Sequence[Measured], *, fitted: bool = False) -> Knowledge:
    """Add measurements; the working hypothesis moves only as far as the noise allows (spec 4.3).

    `fitted` states that it already includes them. Marginals and groups wait for the next refit.
    """
    for item in measured:
        if isinstance(item, MeasuredMarginal):
            knowledge = knowledge.with_marginal(item, fitted=fitted)
        elif isinstance(item, MeasuredGroups):
            knowledge = knowledge.with_groups(item, fitted=fitted)
        else:
            current, note = (knowledge.current, "") if fitted else projected(knowledge, item)
            knowledge = knowledge.with_query(item, current).with_note(note)
    return knowledge.with_current(knowledge.current) if fitted else knowledge


def projected(knowledge: Knowledge, measured: MeasuredQuery) -> tuple[Snapshot, str]:
    """The working hypothesis with one measured answer, conservative by two standard deviations, and a note.

    If learning does not fit in memory, the hypothesis stays unchanged or moves to a support; the answer is kept in
    either case.
    """
    margin, current = 2 * measured.noise.sd / knowledge.records, knowledge.current
    try:
        guess = current.expect(measured.query)
    except (CapacityError, MemoryError):
        guess = None
    else:
        if conservative_target(measured=measured.value, bound=margin, guess=guess) is None:
            return current, ""
    move = partial(_approach, query=measured.query, value=measured.value, margin=margin, guess=guess)
    found = learned(current.thaw(), move)
    return (Snapshot(found.hypothesis) if found.moved else current), found.note


def _approach(hypothesis: Hypothesis, *, query: Linear, value: float, margin: float, guess: float | None) -> bool:
    """Whether the value, moved by the margin toward the hypothesis' own answer, still differs from it."""
    guess = hypothesis.expect(query) if guess is None else guess
    target = conservative_target(measured=value, bound=margin, guess=guess)
    if target is None:
        return False
    hypothesis.project(query, target)
    return True


def refitted(knowledge: Knowledge) -> Knowledge:
    """The working hypothesis fitted again to all measurements: free post-processing (spec 4.4).

    Queries over more cells than a fit can hold are projected once more at the end.
    """
    if not knowledge.unfitted:
        return knowledge
    fitting, wide = [], []
    for measurement in knowledge.measurements():
        cells = knowledge.domain.cells(knowledge.domain.canonical(measurement.query.attributes))
        (fitting if cells <= FITTED_CELLS else wide).append(measurement)

    def fit(held: Hypothesis) -> bool:
        held.fit(fitting)
        return True

    hypothesis, _, note = learned(knowledge.current.thaw(), fit)
    knowledge = knowledge.with_note(note)
    for measurement in wide:
        query, value, margin = measurement.query, measurement.values, 2 * measurement.sd
        if isinstance(query, Linear):
            move = partial(_approach, query=query, value=float(value), margin=margin, guess=None)
            hypothesis, _, note = learned(hypothesis, move)
            knowledge = knowledge.with_note(note)
    return knowledge.with_current(Snapshot(hypothesis))
