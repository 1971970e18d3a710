"""The practical online engine: answer from what is known, measure only what is not known well enough (online.md 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reticent.algorithms.derived import MeasuredMarginal, is_cell
from reticent.algorithms.knowledge import Knowledge, MeasuredQuery
from reticent.algorithms.tails import noise_within
from reticent.hypotheses.projection import conservative_target
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Settled
from reticent.kernel.mechanisms import Noise
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


def learn(
    knowledge: Knowledge, queries: Sequence[Linear | Marginal], noises: Sequence[Noise], settled: Settled
) -> Knowledge:
    """Add settled measurements; the working hypothesis moves only as far as the noise allows (spec 4.3)."""
    count = knowledge.records
    for query, noise, values in zip(queries, noises, settled.values, strict=True):
        if isinstance(query, Marginal):
            names = query.canonical(knowledge.domain)
            marginal = MeasuredMarginal(names, values / count, noise, count, knowledge.records_error, settled.ledger_id)
            knowledge = knowledge.with_marginal(marginal, knowledge.current)
        else:
            measured = MeasuredQuery(query, float(values) / count, noise, settled.ledger_id)
            knowledge = knowledge.with_query(measured, projected(knowledge, measured))
    return knowledge


def projected(knowledge: Knowledge, measured: MeasuredQuery) -> Snapshot:
    """The working hypothesis with one measured answer taken in: conservative by two standard deviations."""
    hypothesis = knowledge.current.thaw()
    guess = hypothesis.expect(measured.query)
    margin = 2 * measured.noise.sd / knowledge.records
    target = conservative_target(measured.value, margin, guess)
    if target is not None:
        hypothesis.project(measured.query, target)
    return Snapshot(hypothesis)
