"""The practical online engine: answer from what is known, measure only what is not known well enough (online.md 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reticent.algorithms.derived import MeasuredMarginal
from reticent.algorithms.grouped import MeasuredGroups, possible
from reticent.algorithms.knowledge import Knowledge, MeasuredQuery
from reticent.algorithms.outlines import is_cell
from reticent.algorithms.tails import noise_failure, noise_within
from reticent.errors import QueryError
from reticent.hypotheses.projection import conservative_target
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Noise, Settled
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal

Question = Linear | Marginal | Groups
Measured = MeasuredQuery | MeasuredMarginal | MeasuredGroups

ROUNDED = 1 - 1e-9
"""So that the same question asked again finds its own answer good enough."""
FITTED_CELLS = 2**20
"""A fit holds the values of a query on all cells of its attributes."""


@dataclass(frozen=True, eq=False)
class Purchase:
    """What would be measured to meet a wanted error: a whole marginal or one query, and its noise."""

    query: Question
    noise: Noise
    cost: int


def purchase(curator: Curator, knowledge: Knowledge, query: Question, error: float, confidence: float) -> Purchase:
    """The cheapest measurement that meets `error`: one cell and a GROUP BY both buy their whole marginal."""
    domain, failure = knowledge.domain, noise_failure(confidence, knowledge.records_error)
    if not failure > 0:
        raise QueryError(f"confidence {confidence:.9g} is beyond what the noisy number of records allows; ask for less")
    form = query.form(domain) if isinstance(query, Groups) else None
    if isinstance(query, Linear):
        form = knowledge.form(query)
        query = Marginal(form.attributes) if is_cell(form) else query
    room = _room(knowledge, error, binary=form is None or form.binary)
    if isinstance(query, Linear):
        parts = 1
    elif isinstance(query, Groups):
        parts = max(1, int(possible(query, domain).sum()))
    else:
        parts = domain.cells(query.canonical(domain))
    noise = noise_within(room, failure / parts, pure=curator.budget.pure)
    return Purchase(query, noise, curator.budget.cost(curator.price([query], noise)))


def least_error(knowledge: Knowledge, *, binary: bool) -> float:
    """What remains of an answer's error however little noise is bought, as a share of the table."""
    return knowledge.records_error + 1 / knowledge.records + (0.0 if binary else VALUE_ROUNDING)


def _room(knowledge: Knowledge, error: float, *, binary: bool) -> float:
    """What the noise may stray, in records: the number of records and rounding take their part of the error first."""
    least = least_error(knowledge, binary=binary)
    if not error > least:
        raise QueryError(
            f"an error of {error:.3g} of the table is not above {least:.3g}, what counting {knowledge.records:.0f} "
            "records leaves whatever is paid; ask for a larger one"
        )
    return (error - least) * knowledge.records * ROUNDED


def understand(
    knowledge: Knowledge,
    queries: Sequence[Question],
    noises: Sequence[Noise],
    settled: Settled,
    *,
    declared: bool = True,
) -> list[Measured]:
    """Settled noisy counts as fractions, each with its noise: a function of the purchase alone."""
    count, found = knowledge.records, []
    for query, noise, values in zip(queries, noises, settled.values, strict=True):
        if isinstance(query, Marginal):
            names, cells = query.canonical(knowledge.domain), np.asarray(values) / count
            marginal = MeasuredMarginal(
                names, cells, noise, count, knowledge.records_error, settled.ledger_id, declared=declared
            )
            found.append(marginal.balanced())
        elif isinstance(query, Groups):
            released, domain = np.asarray(values), knowledge.domain
            found.append(
                MeasuredGroups.of(query, domain, released, noise, count, knowledge.records_error, settled.ledger_id)
            )
        else:
            found.append(
                MeasuredQuery(query, float(values) / count, noise, settled.ledger_id, knowledge.form(query).binary)
            )
    return found


def learn(knowledge: Knowledge, measured: Sequence[Measured], *, fitted: bool = False) -> Knowledge:
    """Add measurements; the working hypothesis moves only as far as the noise allows (spec 4.3).

    `fitted` says that it has seen them already. Marginals and groups wait for the next refit.
    """
    for item in measured:
        if isinstance(item, MeasuredMarginal):
            knowledge = knowledge.with_marginal(item, fitted=fitted)
        elif isinstance(item, MeasuredGroups):
            knowledge = knowledge.with_groups(item, fitted=fitted)
        else:
            current = knowledge.current if fitted else projected(knowledge, item)
            knowledge = knowledge.with_query(item, current)
    return knowledge.with_current(knowledge.current) if fitted else knowledge


def projected(knowledge: Knowledge, measured: MeasuredQuery) -> Snapshot:
    """The working hypothesis with one measured answer taken in: conservative by two standard deviations."""
    margin = 2 * measured.noise.sd / knowledge.records
    guess = knowledge.current.expect(measured.query)
    target = conservative_target(measured=measured.value, bound=margin, guess=guess)
    if target is None:
        return knowledge.current
    hypothesis = knowledge.current.thaw()
    hypothesis.project(measured.query, target)
    return Snapshot(hypothesis)


def refitted(knowledge: Knowledge) -> Knowledge:
    """The working hypothesis fitted anew to everything measured: free post-processing (spec 4.4).

    Queries over more cells than a fit can hold are projected once more at the end.
    """
    if not knowledge.unfitted:
        return knowledge
    hypothesis, wide = knowledge.current.thaw(), []
    measurements = []
    for measurement in knowledge.measurements():
        cells = knowledge.domain.cells(knowledge.domain.canonical(measurement.query.attributes))
        (measurements if cells <= FITTED_CELLS else wide).append(measurement)
    hypothesis.fit(measurements)
    for measurement in wide:
        if isinstance(measurement.query, Linear):
            guess = hypothesis.expect(measurement.query)
            target = conservative_target(measured=float(measurement.values), bound=2 * measurement.sd, guess=guess)
            if target is not None:
                hypothesis.project(measurement.query, target)
    return knowledge.with_current(Snapshot(hypothesis))
