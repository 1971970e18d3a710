"""The practical online engine: answer from what is known, measure only what is not known well enough (online.md 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reticent.algorithms.derived import MeasuredMarginal, is_cell
from reticent.algorithms.knowledge import Knowledge, MeasuredQuery, Reading, best
from reticent.algorithms.tails import noise_within
from reticent.errors import BudgetError
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.projection import conservative_target
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Settled
from reticent.kernel.mechanisms import Noise
from reticent.kernel.statistics import of_one_marginal
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal


@dataclass(frozen=True, eq=False)
class Purchase:
    """What would be measured to meet a wanted error: a whole marginal or one query, and its noise."""

    query: Linear | Marginal
    noise: Noise
    cost: int


def purchase(
    curator: Curator, knowledge: Knowledge, query: Linear | Marginal, error: float, confidence: float
) -> Purchase:
    """The cheapest measurement that meets `error`: one cell and a GROUP BY both buy their whole marginal."""
    domain, failure = knowledge.domain, 1 - confidence
    room = (error - knowledge.records_error) * knowledge.records - 1
    if isinstance(query, Linear):
        form = query.compile(domain)
        if not is_cell(form, form.attributes) or not form.attributes:
            return _priced(curator, query, noise_within(room, failure, pure=curator.budget.pure))
        query = Marginal(form.attributes)
    cells = domain.cells(query.canonical(domain))
    return _priced(curator, query, noise_within(room, failure / cells, pure=curator.budget.pure))


def _priced(curator: Curator, query: Linear | Marginal, noise: Noise) -> Purchase:
    return Purchase(query, noise, curator.budget.cost(curator.price([query], noise)))


def learn(knowledge: Knowledge, bought: Purchase, settled: Settled) -> Knowledge:
    """Add a settled measurement; the working hypothesis moves only as far as the noise allows (spec 4.3)."""
    if isinstance(bought.query, Marginal):
        attributes = bought.query.canonical(knowledge.domain)
        measured = MeasuredMarginal(
            attributes,
            settled.values[0] / knowledge.records,
            bought.noise,
            knowledge.records,
            knowledge.records_error,
            settled.ledger_id,
        )
        return knowledge.with_marginal(measured, knowledge.current)
    measured = MeasuredQuery(
        bought.query, float(settled.values[0]) / knowledge.records, bought.noise, settled.ledger_id
    )
    return knowledge.with_query(measured, projected(knowledge, measured))


def projected(knowledge: Knowledge, measured: MeasuredQuery) -> Snapshot:
    """The working hypothesis with one measured answer taken in: conservative by two standard deviations."""
    hypothesis = knowledge.current.thaw()
    guess = hypothesis.expect(measured.query)
    margin = 2 * measured.noise.sd / knowledge.records
    target = conservative_target(measured.value, margin, guess)
    if target is not None:
        hypothesis.project(measured.query, target)
    return Snapshot(hypothesis)
