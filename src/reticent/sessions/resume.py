"""Resuming: the knowledge of earlier runs of a session, restored from the public events of its ledger.

No row is read and nothing is written. Sessions and the readers of the service, which have no rows, use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import KeyForfeitedError, LedgerError, QueryError
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Noise, Settled, counted_statistic, released, unpack_array
from reticent.kernel.ledger.events import Event
from reticent.kernel.mechanisms.base import Gaussian, Laplace, restore
from reticent.kernel.minimizers.excess_risk import ExcessRisk
from reticent.kernel.minimizers.families import MINIMIZERS
from reticent.kernel.numeric_sums import BinOffsets, ClippedSums
from reticent.knowledge.knowledge import CertifiedBatch, Knowledge
from reticent.knowledge.learning import Measured, learn, refitted, understand
from reticent.knowledge.measured import (
    ByDigest,
    MeasuredGroups,
    MeasuredMarginal,
    MeasuredQuery,
    MeasuredTables,
    StoredItems,
    combined_marginals,
)
from reticent.knowledge.offsets import BinMeans
from reticent.knowledge.paid_models import ExcessReading, PaidModel, audited_state
from reticent.knowledge.raw_sums import counted_groups, with_sums
from reticent.knowledge.tails import Shares
from reticent.losses.losses import ConvexLoss, loss_from_dict
from reticent.queries.from_dict import query_from_dict
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Residual
from reticent.releases.release import Release
from reticent.sessions.journal import ASK, Bought, Journal
from reticent.sessions.purchase_index import Learned

WARM = "session:warm"
"""Keys of a warm start's purchases."""
OFFSETS = "session:offsets"
"""The key of the offsets of numbers within their bins, measured by a warm start (spec answers 5.2)."""


def resumed(journal: Journal) -> Knowledge:
    """The complete knowledge of the ledger's session, as of its last event."""
    stored = journal.latest()
    if stored is None:
        raise LedgerError("the ledger holds no snapshot yet: open its session first")
    unit, shares = journal.ledger.identity["unit"], journal.shares
    knowledge = Knowledge(stored.snapshot, stored.records, stored.records_error, unit=unit, shares=shares)
    knowledge = with_certificates(journal, with_start(journal, knowledge, fitted=True))
    knowledge = with_means(journal, with_models(journal, with_purchases(journal, knowledge)[0]))
    return with_offsets(journal, knowledge)


def with_start(journal: Journal, knowledge: Knowledge, *, fitted: bool) -> Knowledge:
    """Knowledge with the measurements before the first question: of a release as start, of the warm start, and of other
    releases.

    `fitted` states that the working hypothesis includes the measurements of other releases on the ledger.
    """
    if (start := journal.start()) is not None:
        knowledge = learn(knowledge, _of_release(start, knowledge.shares), fitted=True)
        residuals = [m for m in start.measurements if isinstance(m.query, Residual) and "sample" not in start.notes]
        knowledge = _with_residuals(knowledge, residuals, fitted=True)
    for bought in journal.bought(WARM):
        knowledge = learn(knowledge, understood(journal, knowledge, bought, declared=False), fitted=True)
    residuals: list[Measurement] = []
    for bought in journal.published():
        if any(isinstance(query, Residual) for query in bought.queries):
            residuals += _residuals_of(journal, knowledge, bought)
        else:
            knowledge = learn(knowledge, understood(journal, knowledge, bought, declared=False), fitted=fitted)
    return _with_residuals(knowledge, residuals, fitted=fitted)


def _residuals_of(journal: Journal, knowledge: Knowledge, bought: Bought) -> list[Measurement]:
    """The residuals that a round of a release measured, as fractions."""
    settled, count = journal.released(bought, knowledge.domain), knowledge.records
    told = zip(bought.queries, bought.noises, settled.values, strict=True)
    return [
        Measurement(query, np.asarray(values) / count, noise.sd / count, noise.describe())
        for query, noise, values in told
        if isinstance(query, Residual)
    ]


def _with_residuals(knowledge: Knowledge, residuals: Sequence[Measurement], *, fitted: bool) -> Knowledge:
    """Residuals of all releases: precisions of measurements of the same residual add up."""
    if not residuals:
        return knowledge
    facts = (knowledge.records, knowledge.records_error, knowledge.shares)
    made = combined_marginals(residuals, knowledge.domain, *facts)
    return knowledge.with_residuals(residuals, made, fitted=fitted)


def _of_release(release: Release, shares: Shares) -> list[Measured]:
    """Measurements of a release with known noise.

    Measurements on a sample of the records are excluded, because their distance from the table is not bounded by the
    noise.
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
            measured = MeasuredMarginal(names, values, noise, count, error, None, declared=False, shares=shares)
            found.append(measured.balanced())
    return found


def with_certificates(journal: Journal, knowledge: Knowledge) -> Knowledge:
    """Knowledge with all certificates and passed batches of earlier runs, each with its stored snapshot.

    A certificate refers to exact bytes: if they are damaged, it is no longer valid.
    """
    snapshots: dict[str, Snapshot | None] = {knowledge.current.digest: knowledge.current}

    def snapshot(digest: str) -> Snapshot | None:
        if digest not in snapshots:
            snapshots[digest] = journal.snapshot_if_whole(digest)
        return snapshots[digest]

    for certificate in journal.certificates():
        if (found := snapshot(certificate.snapshot)) is not None:
            knowledge = knowledge.with_certificate(found, certificate)
    for error in journal.typical():
        if (found := snapshot(error.snapshot)) is not None:
            knowledge = knowledge.with_typical(found, error)
    for certificate, digests in journal.batches():
        if (found := snapshot(certificate.snapshot)) is not None:
            knowledge = knowledge.with_batch(digests, CertifiedBatch(found, certificate))
    return knowledge


def with_purchases(journal: Journal, knowledge: Knowledge) -> tuple[Knowledge, bool]:
    """Knowledge with the analysts' purchases; and whether a later release requires a refit of the working hypothesis.

    Purchases covered by an index are not read again: counts are read on demand, marginals and groups now.
    """
    stored, learned = journal.latest(), journal.learned()
    seen, waiting = (0, 0) if stored is None else (stored.sequence, stored.unfitted)
    if stored is not None and learned is not None:
        if learned.sequence > seen:
            knowledge = replace(knowledge, current=learned.snapshot)
            seen, waiting = learned.sequence, learned.unfitted
        knowledge = with_index(journal, knowledge, learned)
        for sequence in learned.others:
            found = _understood_at(journal, knowledge, sequence)
            found = [measured for measured in found if not isinstance(measured, learned.covered)]
            knowledge = learn(knowledge, found, fitted=True)
    else:
        learned = None
    late = sum(bought.sequence > seen for bought in journal.published())
    for bought in journal.bought(ASK, 0 if learned is None else learned.sequence):
        knowledge = learn(knowledge, understood(journal, knowledge, bought), fitted=bought.sequence < seen)
    ours = journal.ledger.settlement_places("measure", ASK)
    ours = ours[ours < seen]
    waits = int(ours[-waiting]) if 0 < waiting <= len(ours) else seen
    fitted = sum(m.ledger_id is None or m.ledger_id < waits for m in knowledge.marginals)
    knowledge = replace(knowledge, unfitted=knowledge.unfitted + waiting + late, fitted=fitted)
    return (refitted(knowledge), True) if late else (knowledge, False)


def indexed(journal: Journal, knowledge: Knowledge, *, closing: bool = False) -> Knowledge:
    """The same knowledge; if there are enough new purchases, it is recorded, and its counts and groups stay in the
    ledger.
    """
    learned = journal.save_learned(knowledge, closing=closing)
    return knowledge if learned is None else with_index(journal, knowledge, learned)


def with_index(journal: Journal, knowledge: Knowledge, learned: Learned) -> Knowledge:
    """Knowledge with counts and groups that are read from the ledger on demand."""
    bare = Knowledge(knowledge.current, knowledge.records, knowledge.records_error, shares=knowledge.shares)
    read, segments = partial(_understood_at, journal, bare), learned.segments.values()

    def counts(place: int) -> list[tuple[str, MeasuredQuery]]:
        return [(bare.form(one.query).digest, one) for one in read(place) if isinstance(one, MeasuredQuery)]

    def questions(place: int) -> list[tuple[str, MeasuredGroups]]:
        return [(one.question_digest, one) for one in read(place) if isinstance(one, MeasuredGroups)]

    def cells(place: int) -> list[tuple[str, MeasuredGroups]]:
        return [(key, one) for one in read(place) if isinstance(one, MeasuredGroups) for key in one.cell_digests]

    queries = ByDigest(StoredItems([segment.counts for segment in segments], counts))
    tables = MeasuredTables(
        ByDigest(StoredItems([segment.questions for segment in segments], questions)),
        ByDigest(StoredItems([segment.cells for segment in segments], cells)),
        learned.shapes,
        learned.groups,
    )
    return replace(knowledge, queries=queries, groups=tables)


def understood(journal: Journal, knowledge: Knowledge, bought: Bought, *, declared: bool = True) -> list[Measured]:
    """The content of an earlier purchase; marginals that were not bought for a question are not `declared`."""
    settled = journal.released(bought, knowledge.domain)
    return understand(knowledge, bought.queries, bought.noises, settled, declared=declared)


def _understood_at(journal: Journal, knowledge: Knowledge, sequence: int) -> list[Measured]:
    bought = journal.purchase_at(sequence)
    if bought is None:
        raise LedgerError(f"event {sequence} settles no question: restore the ledger's file")
    return understood(journal, knowledge, bought)


def with_means(journal: Journal, knowledge: Knowledge) -> Knowledge:
    """Knowledge with purchased sums and means of the rows' own numbers, under any key."""
    for described, noises, event in journal.sums():
        groups = query_from_dict(described)
        assert isinstance(groups, Groups), "sums are of groups"
        asked = [ClippedSums(groups, knowledge.domain), counted_statistic(counted_groups(groups), knowledge.domain)]
        settled = released(event, asked[: len(noises)], noises, journal.grid)
        knowledge = with_sums(knowledge, groups, noises, settled)
    return knowledge


def with_models(journal: Journal, knowledge: Knowledge) -> Knowledge:
    """Knowledge with purchased or audited models: they are free for everybody afterwards."""
    for loss, model in (*_bought_models(journal, knowledge.domain), *_audited_models(journal, knowledge)):
        knowledge = knowledge.with_model(loss, model)
    return knowledge


def excess_reading(
    journal: Journal, knowledge: Knowledge, statistic: ExcessRisk, noise: Noise, settled: Settled, key: str
) -> ExcessReading:
    """The value released by an audit of losses."""
    return ExcessReading(
        value=float(settled.values[0]),
        noise=noise,
        index=0 if (attempt := journal.attempt(key)) else journal.audit_index(key),
        attempt=attempt,
        scale=max(statistic.scales),
        records=knowledge.records,
        records_error=knowledge.records_error,
        cost=settled.cost,
        ledger_id=settled.ledger_id,
        vacuous=min(loss.on(knowledge.domain).zero_excess for loss in statistic.losses),
        hidden=statistic.hidden,
    )


def _settled(journal: Journal, key: str, kind: str) -> tuple[dict[str, Any], Event] | None:
    """A request and its settlement; None if it has none yet, or was forfeited."""
    request = journal.ledger.requested(key)
    if request is None:
        return None
    try:
        settled = journal.ledger.settled(key, kind, request)
    except KeyForfeitedError:
        return None
    return None if settled is None else (request, settled)


def _bought_models(journal: Journal, domain: Domain) -> Iterator[tuple[ConvexLoss, PaidModel]]:
    """Every settled minimiser."""
    kinds = {kind.__name__: kind for kind in MINIMIZERS}
    for key in journal.ledger.keys(ASK, "minimize"):
        if (found := _settled(journal, key, "minimize")) is None:
            continue
        request, settled = found
        told = request["minimizer"]
        try:
            minimizer = kinds[told["minimizer"]](
                loss_from_dict(told["loss"]),
                domain,
                neighbours=journal.ledger.identity["neighbours"],
                records=Fraction(told["records"]),
                rho=Fraction(told["rho"]),
            )
        except (KeyError, QueryError):
            continue  # of another version: it states no bound here
        yield minimizer.loss, PaidModel(unpack_array(settled.payload["values"][0]), minimizer, settled.sequence)


def _audited_models(journal: Journal, knowledge: Knowledge) -> Iterator[tuple[ConvexLoss, PaidModel]]:
    """Every settled audit of losses whose models were recorded."""
    for key, models in journal.audited_models():
        if (found := _settled(journal, journal.usable(key), "measure")) is None:
            continue
        request, event = found
        (described,), (noise,) = request["statistics"], request["mechanisms"]
        losses = tuple(loss_from_dict(loss) for loss in described["excess risks of"])
        if any(loss.digest not in models for loss in losses):
            continue
        thetas = tuple(np.asarray(models[loss.digest]["theta"]) for loss in losses)
        state = audited_state((models[loss.digest]["snapshot"], loss) for loss in losses)
        try:
            statistic = ExcessRisk(
                losses,
                thetas,
                tuple(described["scales"]),
                knowledge.domain,
                knowledge.records,
                state,
                described.get("hidden", 0.0),
            )
        except QueryError:
            continue  # of another version, which took what this one refuses
        restored = restore(noise)
        assert isinstance(restored, (Laplace, Gaussian)), "audits are measured with additive noise"
        settled = released(event, [statistic], [restored], journal.grid)
        reading = excess_reading(journal, knowledge, statistic, restored, settled, str(event.key))
        for loss, theta in zip(losses, thetas, strict=True):
            told = models[loss.digest]
            yield loss, PaidModel(theta, reading, event.sequence, told["snapshot"], told["gap"])


def with_offsets(journal: Journal, knowledge: Knowledge) -> Knowledge:
    """Knowledge with the offsets that a warm start measured, read from the ledger alone."""
    found: dict[str, BinMeans] = {}
    for reservation in journal.ledger.settlements("measure", OFFSETS):
        request = journal.ledger.event(reservation.sequence).payload["request"]
        names = [described["bin offsets"] for described in request["statistics"]]
        statistics = [BinOffsets(name, knowledge.domain) for name in names]
        assert reservation.settled is not None, "listed because it is"
        noises: list[Noise] = [restore(described) for described in request["mechanisms"]]  # pyright: ignore[reportAssignmentType]
        settled: Settled = released(journal.ledger.event(reservation.settled), statistics, noises, journal.grid)
        for name, values, noise in zip(names, settled.values, noises, strict=True):
            found[name] = BinMeans(np.asarray(values, dtype=np.float64), noise.sd)
    return knowledge.with_bin_means(found) if found else knowledge
