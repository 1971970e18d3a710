"""What a new session buys first: decided once from public facts, and recorded with its terms (spec answers 4).

A default opening buys a warm start if it is predicted to certify a useful bound, and otherwise keeps its budget for the
questions. An opening that states the number or error of its questions follows the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite, log
from typing import Any, Literal

from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.support import LARGEST_MARGINAL
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace, Sensitivity
from reticent.kernel.minimizers.solvers import records_moved
from reticent.kernel.statistics import of_one_marginal
from reticent.knowledge import tails
from reticent.knowledge.request import VACUOUS, Records
from reticent.knowledge.tails import audit_share, noise_failure, reach
from reticent.losses.losses import ConvexLoss
from reticent.planning.plan import Setting, gaussian, laplace, plain_answers
from reticent.planning.prediction import expected_largest
from reticent.releases.budgeting import noise_costing
from reticent.releases.candidates import measured_sets, target_sets
from reticent.releases.rounds import first_shares
from reticent.sessions.investments import INVESTED_SHARE
from reticent.sessions.journal import Journal
from reticent.sessions.loss_audits import NOISE_SHARE
from reticent.sessions.record_count import TOTAL, pay_record_count
from reticent.sessions.warm_start import audited_bound, default_order, default_workload, warm_units

WARM_SHARE = 0.5
"""The share of the budget for a warm start (online.md 3)."""
PURPOSES = ("unlimited", "few")
"""Any number of questions within one bound, or a number of questions each within its own."""


@dataclass(frozen=True)
class Start:
    """The decision of a default opening."""

    purpose: Literal["unlimited", "few"]
    predicted: float | None
    """The predicted class bound, as a share of the table; None if the number of records is unknown."""
    useful: float

    @property
    def share(self) -> float:
        return WARM_SHARE if self.purpose == "unlimited" else 0.0

    def to_dict(self) -> dict[str, Any]:
        finite = self.predicted is not None and isfinite(self.predicted)
        return {"purpose": self.purpose, "predicted": self.predicted if finite else None, "useful": self.useful}


def untold_start(curator: Curator, journal: Journal, purpose: str | None, useful: float, confidence: float) -> Start:
    """The decision of a default opening: the warm start is bought if its predicted bound is useful; a private number of
    records is measured first.
    """
    # An unlimited start buys its number of records with its cells.
    known = None if purpose == "unlimited" and curator.records is None else _known_records(curator, journal)
    predicted = None if known is None else predicted_bound(curator, known, confidence, WARM_SHARE)
    if purpose is None:
        purpose = "unlimited" if predicted is not None and predicted <= useful else "few"
    return Start("unlimited" if purpose == "unlimited" else "few", predicted, useful)


def _known_records(curator: Curator, journal: Journal) -> float | None:
    """The number of records, which is paid for if it is private; None on a spent ledger, where nothing is to be decided
    and the session answers from published releases.
    """
    if curator.records is not None:
        return float(curator.records)
    with suppress(BudgetError):
        return pay_record_count(curator, journal)[0]
    return None


def announced_error(curator: Curator, journal: Journal, error: float | Records | None) -> float | None:
    """The announced error as a share of the table; None if a spent ledger cannot tell how many records there are."""
    if not isinstance(error, Records):
        return error
    if curator.records is not None and error.number >= VACUOUS * curator.records:
        raise QueryError(f"error={error} is half of the {curator.records} records or more; announce a smaller one")
    records = _known_records(curator, journal)
    return None if records is None else min(error.number / records, VACUOUS)


def told_share(
    curator: Curator,
    journal: Journal,
    warm_start: float | None,
    queries: int | None,
    error: float | None,
    confidence: float,
) -> float:
    """The share that the caller stated; by default half the budget, or none if plain answers are expected to be more
    accurate.

    Plain answers are more accurate if so few questions are announced that all of them have smaller errors than a fit.
    With a requested error they are chosen if the budget pays for all announced questions, so that none of them can be
    left out, or if no fit is certain enough to reach that error (online.md 4). A private number of records is measured
    first.
    """
    if warm_start is not None:
        return warm_start
    records = None if queries is None and error is None else _known_records(curator, journal)
    if records is None:
        return WARM_SHARE
    setting = _setting(curator, int(records), queries or 1, confidence)
    fit = predicted_bound(curator, records, confidence, WARM_SHARE)
    if error is None:
        plain = laplace(setting) if setting.pure else gaussian(setting)
        return 0.0 if plain < fit else WARM_SHARE
    affordable = queries is not None and queries <= _plain_answers(setting, error)
    return 0.0 if affordable or fit > error else WARM_SHARE


def losses_share(
    curator: Curator, losses: Sequence[ConvexLoss], count: int, error: float | None, confidence: float
) -> float:
    """The share left for a warm start if the budget must pay one audit for each announced loss, within limits.

    Audits are priced by the losses' range, which exceeds their true price by about the price of repeated audits. The
    share is at least what any session may invest, and at most half.
    """
    failure = noise_failure(confidence, 0.0) * audit_share(1)
    if curator.records is None or error is None or not failure > 0:
        return WARM_SHARE
    one: Noise = Laplace(1) if curator.budget.pure else Gaussian(1)
    total, moved = 0, curator.moved(Sensitivity.scalar(records_moved(curator.neighbours)))
    for loss in losses:
        width = NOISE_SHARE * error * curator.records / loss.on(curator.domain).scale / reach(one, failure)
        noise: Noise = Laplace(width) if curator.budget.pure else Gaussian(width)
        total += curator.budget.cost(curator.as_drawn(noise).price(moved))
    audits = total / len(losses) * count
    return min(WARM_SHARE, max(float(INVESTED_SHARE), 1 - audits / max(1, curator.remaining)))


def _setting(curator: Curator, records: int, queries: int, confidence: float) -> Setting:
    return Setting(
        records=max(1, records // (curator.most or 1)),
        log_universe=log(2),
        queries=queries,
        failure=1 - confidence,
        pure=curator.budget.pure,
        amount=curator.budget.amount(curator.remaining),
    )


def predicted_bound(curator: Curator, records: float, confidence: float, share: float) -> float:
    """The expected bound of the first certificate of a warm start with this share, as a share of the table.

    It is known before anything is bought, and rather too high: warm starts of Adult and of nine generated tables
    obtained .5 to .95 of it, one whose columns interact by threes 1.8. Callers use it unchanged.
    """
    domain, budget, units = curator.domain, curator.budget, warm_units(curator.remaining, share)
    sets = measured_sets(domain, target_sets(default_workload(domain).on(domain), domain), LARGEST_MARGINAL)
    shares = first_shares(domain, sets, units["warm"])
    if min(shares.values()) < 1 or units["audit"] < 1:
        return inf
    moved = curator.moved(of_one_marginal(curator.neighbours))
    noise = {names: noise_costing(budget, moved, paid).sd for names, paid in shares.items()}
    records_error = 0.0
    if curator.records is None:
        # Every marginal measures the number of records, as the sum of its cells.
        precision = sum(1 / (domain.cells(names) * sd**2) for names, sd in noise.items())
        _, records_error = tails.counted(records, precision**-0.5, pure=budget.pure)
    largest = expected_largest(domain, {names: sd / records for names, sd in noise.items()}, default_order(domain))
    return audited_bound(curator, largest, records, records_error, confidence, units["audit"], index=1)


def investable(curator: Curator, journal: Journal, terms: Mapping[str, Any]) -> int:
    """The initial limit of the rule of investments, in ledger units; a noisy total is the first investment."""
    ledger = journal.ledger
    reserved = [ledger.reservation(key) for key in ledger.keys(TOTAL)]
    total = sum(reservation.cost for reservation in reserved if reservation is not None)
    left = curator.remaining + total - terms["warm"] - terms["audit"] - terms["typical"] - terms.get("offsets", 0)
    return max(0, int(left * INVESTED_SHARE) - total)


def opening_line(settings: Mapping[str, Any], budget: Budget, records: float, bound: float | None) -> str | None:
    """What the first opening bought, and what plain noise would have bought instead; None for terms without a decision.

    `bound` is the class bound that the warm start obtained.
    """
    purpose, predicted = settings.get("purpose"), settings.get("predicted")
    if purpose == "few":
        why = "half of the budget is predicted to certify nothing"
        if predicted is not None:
            ordered = predicted <= settings["useful"]
            limit = "purpose='few' was given" if ordered else f"useful={settings['useful']:g}"
            why = f"half of the budget is predicted to bound all boxes by {predicted:.2g} of the table ({limit})"
        return (
            f"No warm start was bought: {why}; every question pays for its own error, and investments are limited to a"
            " fortieth of the budget plus the savings from free answers."
        )
    if purpose != "unlimited" or (bound is None and predicted is None):
        return None
    stated = float(bound if bound is not None else predicted)  # pyright: ignore[reportArgumentType]
    how = "certified" if bound is not None else "predicted"
    setting = Setting(
        records=max(1, int(records)),
        log_universe=log(2),
        queries=1,
        failure=1 - settings["confidence"],
        pure=budget.pure,
        amount=budget.amount(settings["warm"] + settings["audit"] + settings["typical"]),
    )
    plain = "Laplace" if budget.pure else "Gaussian"
    return (
        f"The warm start answers any number of boxes within {stated:.2g} of the table ({how}); the same budget would"
        f" have bought {_plain_answers(setting, stated):,} different answers within that error with plain {plain}"
        " noise."
    )


def _plain_answers(setting: Setting, error: float) -> int:
    if not setting.pure:
        return plain_answers(setting, error)
    return int(setting.amount * setting.records * error / log(1 / setting.failure))
