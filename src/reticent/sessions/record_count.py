"""A private number of records: what a session spends on it, and what it knows of it (spec 1.1).

Counts need no number of all records, shares of the table do. The first payment is a fixed share of the budget. On a
small table it would leave hardly a share certified: then a second payment is made, whose size follows from the first
reading alone, and both are combined by their inverse variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np

from reticent.hypotheses.fitting.prior import collapse
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace, Sensitivity, restore
from reticent.knowledge import tails
from reticent.knowledge.knowledge import VACUOUS
from reticent.queries.linear import Count, Marginal
from reticent.releases.budgeting import TOTAL_SHARE, noise_costing, too_little
from reticent.sessions.journal import Journal

TOTAL = "session:total"
"""Key of the first payment."""
SECOND_TOTAL = "session:second total"
"""Key of the second payment; investments count the first one only."""

MOST_SHARE = 0.5
"""The largest share of the budget for the number of records: beyond it fewer shares could be answered than an
eighth of the counts that the whole budget would (a quarter with Laplace noise), and counts would lose half or more."""
CAUTION = 2
"""The second payment must be worth it even if the first reading is too large by this many standard deviations."""


def pay_record_count(curator: Curator, journal: Journal) -> tuple[float, float]:
    """The number of records and a bound on its relative error; paid for if it is private.

    A second payment that was begun is completed, and none is begun.
    """
    if curator.records is not None:
        return float(curator.records), 0.0
    if (total := collapse(_published(curator, journal), ())) is not None:
        return tails.counted(float(total[0]), total[1], pure=curator.budget.pure)
    second = _begun(curator, journal.usable(SECOND_TOTAL))
    paid = [_first(curator, journal), *([] if second is None else [second])]
    return combined(paid, pure=curator.budget.pure)


def refine_record_count(curator: Curator, journal: Journal, confidence: float, error: float | None) -> None:
    """Make the second payment, if shares of the table are worth it; a session that made it before makes no other.

    `error` is that of the shares that will be asked; None if nothing is known of the questions.
    """
    key = journal.usable(SECOND_TOTAL)
    if curator.records is not None or curator.begun(key) or collapse(_published(curator, journal), ()) is not None:
        return
    count, _ = combined([_first(curator, journal)], pure=curator.budget.pure)
    units = second_units(curator, count, confidence, error)
    if 1 <= units <= curator.remaining:
        _counted(curator, key, noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units))


def second_units(curator: Curator, count: float, confidence: float, error: float | None) -> int:
    """Ledger units of the second payment for this number of records; none if the first suffices, or nothing does."""
    budget, moved = curator.budget, curator.moved(Sensitivity.scalar())
    first = _first_units(curator)
    whole, power = curator.remaining + first, 1.0 if budget.pure else 0.5
    wanted = VACUOUS if error is None else error
    doubt = tails.counted(count, noise_costing(budget, moved, whole).sd, pure=budget.pure)[1]
    share = record_count_share(doubt / wanted, power, shares_only=error is not None)
    if share is None or not TOTAL_SHARE < share <= MOST_SHARE:
        return 0
    left = noise_costing(budget, moved, max(1, int(whole * (1 - share))))
    fewer = count - CAUTION * noise_costing(budget, moved, max(1, first)).sd
    if tails.reach(left, (1 - confidence) / 2) > wanted * fewer - doubt * share**-power * count:
        return 0  # not even one share may be certified within the error
    return int(whole * (share ** (2 * power) - float(TOTAL_SHARE) ** (2 * power)) ** (1 / (2 * power)))


def record_count_share(doubt: float, power: float, *, shares_only: bool) -> float | None:
    """The share of the budget for the number of records; None if the whole budget would not suffice.

    `doubt` is the relative error of the number, over the error wanted of shares, that the whole budget would leave.
    Noise falls with this `power` of a price: 1/2 for Gaussian noise, 1 for Laplace noise. With a share s of the budget,
    questions about shares have `1 - doubt / s^power` of their error left for noise: the rest answers a number of them
    in proportion to `(1 - s) (1 - doubt / s^power)^(1 / power)`, which is largest for `s = doubt^(1 / (1 + power))`.
    Questions about counts need no number: the rest answers a part 1 - s of those that the whole budget would. If
    nothing is known of the questions, s is such that both kinds keep the same part of what could be answered best.
    """
    if not doubt < 1:
        return None
    best = doubt ** (1 / (1 + power))
    return best if shares_only else (doubt / (1 - (1 - best) ** (1 + power))) ** (1 / power)


def combined(paid: list[tuple[float, float]], *, pure: bool) -> tuple[float, float]:
    """The mean of readings with their standard deviations by inverse variances, and a bound on its relative error.

    The bound of one Laplace noise also bounds the mean of two with the same standard deviation: its tails are lighter.
    """
    if len(paid) == 1:
        return tails.counted(*paid[0], pure=pure)
    precision = sum(sd**-2.0 for _, sd in paid)
    mean = sum(value * sd**-2.0 for value, sd in paid) / precision
    return tails.counted(mean, 1 / sqrt(precision), pure=pure)


def _first_units(curator: Curator) -> int:
    return int(curator.budget.limit * TOTAL_SHARE)


def _first(curator: Curator, journal: Journal) -> tuple[float, float]:
    key = journal.usable(TOTAL)
    if (begun := _begun(curator, key)) is not None:
        return begun
    units = min(_first_units(curator), curator.remaining)
    if units == 0:
        what = "the number of records, which is private here"
        raise too_little(curator.remaining, curator.budget, what, needed=1)
    noise = noise_costing(curator.budget, curator.moved(Sensitivity.scalar()), units)
    return _counted(curator, key, noise)


def _begun(curator: Curator, key: str) -> tuple[float, float] | None:
    """The reading of a payment that was begun, with the noise it was begun with; None if there is none."""
    request = curator.begun(key)
    if request is None:
        return None
    described: list[dict[str, str]] = request["mechanisms"]  # pyright: ignore[reportAssignmentType]
    noise = restore(described[0])
    assert isinstance(noise, (Laplace, Gaussian)), "counts are measured with additive noise"
    return _counted(curator, key, noise)


def _counted(curator: Curator, key: str, noise: Noise) -> tuple[float, float]:
    settled = curator.measure([Count()], noise, key=key)
    return float(settled.values[0]), noise.sd


def _published(curator: Curator, journal: Journal) -> Iterator[tuple[tuple[str, ...], np.ndarray, float]]:
    """The number of records that releases on this ledger measured, with its noise."""
    for bought in journal.published():
        settled = journal.released(bought, curator.domain)
        for query, noise, values in zip(bought.queries, bought.noises, settled.values, strict=True):
            if isinstance(query, Marginal) or not query.attributes:  # cells of other residuals add up to nothing
                yield curator.domain.canonical(query.attributes), np.asarray(values, dtype=np.float64), noise.sd
