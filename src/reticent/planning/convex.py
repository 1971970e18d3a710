"""The constants of online multiplicative weights for convex losses: noises, threshold, margin (spec 8; 001, Fig. 3).

Two plans exist. `convex-textbook` keeps the paper's constants and its gradient steps, `convex-tuned` has one-sided
noise and projects onto loss differences. Both are proven in docs/proofs/online-convex.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.accounting import NANO
from reticent.kernel.mechanisms.base import AboveThreshold, restore
from reticent.knowledge.minimizers import crossing
from reticent.knowledge.tails import noise_failure
from reticent.releases.convex_plan import HIDDEN, MARGINS, MINIMA, SMALLEST, SOLVED, Task

ENGINES = ("convex-textbook", "convex-tuned")
LEDGER_ROUNDING = 2 / NANO
"""An epoch has two prices, each charged in whole nano-units."""
_DIGITS = 10**15


@dataclass(frozen=True)
class ConvexPlan:
    """All constants of one run, in the unit of the losses; `failure` covers all noises of the run together."""

    engine: str
    losses: int
    epochs: int
    failure: float
    error: float
    """Of an answer that passed its test."""
    measured: float
    """Bounds the excess risk of every private minimiser."""
    margin: float
    """After "above", how far below zero the data's mean of u surely lies."""
    threshold: float
    hidden: float
    """Share of `scale` that a test's own minimum may hide."""
    step: float
    """Of a plain update; 0 projects to `-margin`."""
    scale: float
    log_size: float
    records: float
    records_error: float
    watch: dict[str, str]
    each: float
    """What an epoch costs, its private minimiser included."""
    attributes: tuple[str, ...]
    """What losses may look at: `log_size` is that of a universe of these."""

    @property
    def mechanism(self) -> AboveThreshold:
        return restore(self.watch)  # pyright: ignore[reportReturnType]

    @property
    def compared(self) -> float:
        """The threshold of the test, in records."""
        return self.threshold * self.records / self.scale

    @property
    def noise_failure(self) -> float:
        return noise_failure(1 - self.failure, self.records_error)

    @property
    def minimizer_failure(self) -> float:
        """The probability with which one private minimiser may have an error above `measured`."""
        return self.noise_failure / (3 * self.epochs)

    def rest(self, entropy: float) -> float:
        """The largest error of every further loss, given a bound on the data's relative entropy to the hypothesis.

        For exact minimisers the mean of u is minus the excess, and one more update would lower the entropy.
        """
        return self.scale * math.sqrt(2 * max(0.0, entropy)) + SOLVED * self.scale

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ConvexPlan:
        return cls(**{**fields, "attributes": tuple(fields["attributes"])})


def convex_plan(engine: str, task: Task, amount: float, error: float | None = None) -> ConvexPlan:
    """The plan of one engine within `amount` of rho: for `error`, or for the smallest error that it certifies.

    QueryError if it certifies nothing, or not that error.
    """
    if engine not in ENGINES:
        raise QueryError(f"engine {engine!r} is unknown; use one of {', '.join(ENGINES)}")
    task = replace(task, rounding=LEDGER_ROUNDING)
    least = least_error(engine, task, amount)
    worth = min(loss.on(task.domain).zero_excess for loss in task.losses)
    if not least < worth:
        raise QueryError(
            f"{engine} certifies an excess risk of {least:.3g} for {task.count} losses on {task.records:g} records;"
            f" parameters of zero are within {worth:.3g} on any table: use engine='default', or more records or budget"
        )
    if error is not None and error < least:
        raise QueryError(
            f"{engine} certifies an excess risk of {least:.3g} for {task.count} losses, not {error:g}: ask for more"
        )
    return _plan(engine, task, least if error is None else error, amount)


def least_error(engine: str, task: Task, amount: float) -> float:
    """The smallest error for which `amount` of rho pays all epochs; infinite if it pays for none below the losses'
    range.
    """
    scale = task.scale
    return crossing(lambda error: price(engine, task, error), amount, SMALLEST * scale, scale)


def price(engine: str, task: Task, error: float) -> float:
    """The price of all epochs together in rho, each with its private minimiser."""
    parts = _parts(engine, task, error)
    return math.inf if parts is None else parts.epochs * (parts.watched + parts.minimized + task.rounding)


def watching_price(engine: str, task: Task, error: float) -> float:
    """The part of `price` for tests."""
    parts = _parts(engine, task, error)
    return math.inf if parts is None else parts.epochs * parts.watched


def minimizers_price(engine: str, task: Task, error: float) -> float:
    """The part of `price` for private minimisers."""
    parts = _parts(engine, task, error)
    return math.inf if parts is None else parts.epochs * parts.minimized


@dataclass(frozen=True)
class _Parts:
    """The division of an error, and the resulting constants of one epoch."""

    margin: float
    measured: float
    room: float
    """Of the noises of threshold and tests together."""
    epochs: float
    watched: float
    minimized: float


def _parts(engine: str, task: Task, error: float) -> _Parts | None:
    return (_textbook_parts if engine == "convex-textbook" else _tuned_parts)(task, error)


def _tails(task: Task, epochs: Any) -> tuple[Any, float]:
    """Of one-sided threshold noises over all epochs and of test noises over all losses, a third of the failure each."""
    third = task.noise_failure / 3
    return np.log(epochs / third), math.log(task.count / third)


def _watched(task: Task, epochs: Any, room: Any, error: float) -> Any:
    """The least (e1 + e2)^2 / 2 for which both noises together stay within `room`."""
    moves = task.moves(error)
    first, second = _tails(task, epochs)
    unit = moves * task.scale / task.records
    spent = unit * (np.sqrt(first) + math.sqrt(2 * second)) ** 2 / room
    return spent**2 / 2


def _tuned_parts(task: Task, error: float) -> _Parts | None:
    """error (1 - e_N) = threshold + c1 + hidden, margin = (threshold - c2) / (1 + e_N) - a0; least price over both."""
    doubt, scale = task.records_error, task.scale
    usable = error * (1 - doubt) - HIDDEN * error - task.rounded
    if usable <= doubt * scale:
        return None
    found = None
    # The error due to an uncertain number of records, at any price; above it prices fall as a power.
    floor = doubt * scale
    at = floor + (usable - floor) / 4
    for _ in range(2):
        margins, minima = MARGINS * usable, floor + MINIMA * (usable - floor)
        surely = margins - SOLVED * scale
        with np.errstate(divide="ignore", invalid="ignore"):
            epochs = np.maximum(1.0, np.floor(task.log_size * (2 * scale) ** 2 / (2 * surely**2)))
            room = usable - (margins + minima) * (1 + doubt)
            watched = np.where(room > 0, _watched(task, epochs, room, error), np.inf)
        usual = task.noise_failure / (3 * float(np.median(epochs)))
        here, there = (task.minimized(floor + (at - floor) * share, usual) for share in (1.0, 0.5))
        if not math.isfinite(here):
            return None
        power = math.log2(there / here) if math.isfinite(there) and here > 0 else 2.0
        total = epochs * (watched + here * ((minima - floor) / (at - floor)) ** -power + task.rounding)
        total = np.where((surely > 0) & (room > 0), total, np.inf)
        i, j = np.unravel_index(int(np.argmin(total)), total.shape)
        if not np.isfinite(total[i, j]):
            return None
        at = float(minima[0, j])
        failure = task.noise_failure / (3 * float(epochs[i, 0]))
        found = _Parts(
            margin=float(margins[i, 0]),
            measured=float(minima[0, j]),
            room=float(room[i, j]),
            epochs=float(epochs[i, 0]),
            watched=float(watched[i, j]),
            minimized=task.minimized(float(minima[0, j]), failure),
        )
    return found


def _textbook_parts(task: Task, error: float) -> _Parts | None:
    """T = 64 S^2 ln|U| / a^2 epochs, noises of threshold and test within a/8 each, minimisers within a/4."""
    epochs = max(1.0, math.floor(64 * task.steep**2 * task.log_size / error**2))
    slack = HIDDEN * error + task.rounded + SOLVED * task.scale
    if slack > error / 32 or task.records_error > 0.01:
        return None
    moves = task.moves(error)
    first, second = _tails(task, epochs)
    unit = moves * task.scale / task.records
    each = error / 8 - task.records_error * error
    spent = unit * (float(first) + 2 * second) / each
    minimized = task.minimized(error / 4, task.noise_failure / (3 * epochs))
    return _Parts(error / 4, error / 4, 2 * each, epochs, spent**2 / 2, minimized)


def _plan(engine: str, task: Task, error: float, amount: float) -> ConvexPlan:
    parts = _parts(engine, task, error)
    assert parts is not None, "an error at which the price is finite"
    tuned = engine == "convex-tuned"
    first, second = (float(tail) for tail in _tails(task, parts.epochs))
    moves = task.moves(error)
    unit = moves * task.scale / task.records
    if tuned:
        # The split that minimises e1 + e2: noises in proportion to the roots of their tails.
        whole = math.sqrt(first) + math.sqrt(2 * second)
        c1, c2 = (parts.room * math.sqrt(tail) / whole for tail in (first, 2 * second))
        threshold = (parts.margin + parts.measured) * (1 + task.records_error) + c2
        step = 0.0
    else:
        c1 = c2 = parts.room / 2
        threshold = 3 * error / 4 - HIDDEN * error - task.rounded
        # sqrt(ln|U| / T) / S: the paper's, divided by S (spec 9).
        step = math.sqrt(task.log_size / parts.epochs) / task.steep
    watch = AboveThreshold(
        threshold_epsilon=_up(unit * first / c1), query_epsilon=_up(2 * unit * second / c2), one_sided=tuned
    )
    each = float(watch.price().rho) + parts.minimized + task.rounding
    return ConvexPlan(
        engine=engine,
        losses=task.count,
        epochs=int(parts.epochs),
        failure=task.failure,
        error=error,
        measured=parts.measured,
        margin=parts.margin if tuned else parts.margin - HIDDEN * error - task.rounded,
        threshold=threshold,
        hidden=HIDDEN * error / task.scale,
        step=step,
        scale=task.scale,
        log_size=task.log_size,
        records=task.records,
        records_error=task.records_error,
        watch=watch.describe(),
        attributes=task.attributes,
        each=each,
    )


def _up(value: float) -> Fraction:
    """A short fraction that is no less: noise no wider than planned."""
    return Fraction(math.ceil(value * _DIGITS), _DIGITS)
