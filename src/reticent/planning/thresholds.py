"""Constants of the threshold engines: noises, threshold and certified error (spec 6.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from reticent.errors import QueryError
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import AboveThreshold, Gaussian, Laplace, Sensitivity, restore
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.knowledge.tails import reach
from reticent.planning.plan import (
    LEDGER_ROUNDING,
    VACUOUS,
    Setting,
    hardt_rothblum_constants,
    hardt_rothblum_online,
    of_epoch,
    textbook_online,
    textbook_parameter,
    tuned_online,
    tuned_parameters,
)

ENGINES = ("textbook", "tuned", "hardt-rothblum")
ROUNDING = 4 * 2.0**-20
"""Records by which guess, threshold and discrete noise on the kernel's finest grid may stray together."""
_DIGITS = 10**15


@dataclass(frozen=True)
class EpochPlan:
    """All constants of one run, as fractions of the table; `failure` covers all noises of the run together."""

    engine: str
    queries: int
    epochs: int
    failure: float
    threshold: float
    error: float
    """Of an answer that passed its test."""
    measured: float
    """Bounds the noise of every measurement."""
    rest: float
    """Of every answer once `epochs` updates are done."""
    step: float
    """Of a plain update; 0 projects to the measurement, moved by `shift` toward the hypothesis."""
    watch: dict[str, str]
    noise: dict[str, str]
    gamma: float = 0.0
    """Approximation error of the support that threshold and error allow for (003, Lemma 3.5)."""
    noise_failure: float = 0.0
    """With which probability one measurement may leave `measured`; 0 in plans of older ledgers."""

    @property
    def mechanism(self) -> AboveThreshold:
        return restore(self.watch)  # pyright: ignore[reportReturnType]

    @property
    def measurement(self) -> Noise:
        return restore(self.noise)  # pyright: ignore[reportReturnType]

    @property
    def shift(self) -> float:
        """The largest distance of a measurement from the best distribution that the hypothesis can represent (spec
        6.4).
        """
        return self.measured + self.gamma

    @property
    def each_failure(self) -> float:
        """The failure probability of one measurement; the cells of a marginal share it."""
        return self.noise_failure or self.failure / (3 * self.epochs)

    def widened(self, records_error: float) -> EpochPlan:
        """The plan for a noisy number of records (spec 1.1)."""
        return replace(
            self,
            threshold=self.threshold + records_error,
            error=self.error + 2 * records_error,
            measured=self.measured + records_error,
            rest=self.rest + records_error,
        )

    def of_rows(self, most: int) -> EpochPlan:
        """The plan for n / most records, on n rows of which one person has up to `most`: in rows, noise is wider."""
        noise = self.measurement
        if most == 1:
            return self
        wider = Gaussian(noise.sigma * most) if isinstance(noise, Gaussian) else Laplace(noise.scale * most)
        return replace(self, noise=wider.describe())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> EpochPlan:
        return cls(**fields)


def epoch_plan(engine: str, setting: Setting) -> EpochPlan:
    """The plan of one engine; QueryError if its certified error is vacuous."""
    if engine not in ENGINES:
        raise QueryError(f"engine {engine!r} is unknown; use 'default', {', '.join(map(repr, ENGINES))}")
    if engine == "hardt-rothblum" and setting.delta is None:
        raise QueryError("the constants of engine='hardt-rothblum' need a budget of epsilon and delta; state both")
    setting = replace(setting, rounding=LEDGER_ROUNDING)
    certified, planned = _PLANS[engine]
    error = certified(setting)
    if not error < VACUOUS:
        raise QueryError(
            f"the {engine} engine certifies an error of {error:.3g} for {setting.queries} questions on"
            f" {setting.records} records, which says nothing: use engine='default', or more records or budget"
        )
    return planned(setting)


def _textbook(setting: Setting) -> EpochPlan:
    """tau = a/2, steps a/8, every noise within a/8 but with the plan's failure (spec 6.2)."""
    a, gamma = textbook_parameter(setting), setting.gamma
    epochs = math.floor(64 * setting.log_universe / a**2)
    each = of_epoch(setting, epochs)
    e0 = _down(each / 4 if setting.pure else math.sqrt(each / 5))
    watch = AboveThreshold(threshold_epsilon=e0, query_epsilon=2 * e0)
    slack = ROUNDING / setting.records + VALUE_ROUNDING
    return EpochPlan(
        engine="textbook",
        queries=setting.queries,
        epochs=epochs,
        failure=setting.failure,
        threshold=a / 2 + gamma,
        # 004: the threshold and two noises of a/8; plans of older ledgers state a.
        error=0.75 * a + gamma + slack,
        measured=a / 8 + 1 / setting.records + VALUE_ROUNDING,
        rest=a / 4 + gamma + slack,
        step=a / 8,
        watch=watch.describe(),
        noise=Laplace(1 / e0).describe(),
        gamma=gamma,
        noise_failure=setting.failure / (2 * epochs + setting.queries),
    )


def _hardt_rothblum(setting: Setting) -> EpochPlan:
    """Definition 3.1 (003): T, eta and sigma; noise on the threshold and fresh noise on the answer are sigma too."""
    constants = hardt_rothblum_constants(setting)
    assert constants is not None, "its error is not vacuous"
    n, height, gamma = setting.records, constants["threshold"], setting.gamma
    e0 = _down(1 / (n * constants["sigma"]))
    slack = ROUNDING / n + VALUE_ROUNDING
    return EpochPlan(
        engine="hardt-rothblum",
        queries=setting.queries,
        epochs=int(constants["epochs"]),
        failure=setting.failure,
        threshold=height + gamma,
        error=1.5 * height + gamma + slack,
        measured=height / 4 + 1 / n + VALUE_ROUNDING,
        rest=height / 2 + gamma + slack,
        step=constants["step"],
        watch=AboveThreshold(threshold_epsilon=e0, query_epsilon=2 * e0).describe(),
        noise=Laplace(1 / e0).describe(),
        gamma=gamma,
        noise_failure=setting.failure / (3 * setting.queries),
    )


def _tuned(setting: Setting) -> EpochPlan:
    """One-sided noise: tau = c2 + 2 c3 + m, "below" errs at most c1 + c2 + 2 c3 + m (spec 6.2)."""
    chosen = tuned_parameters(setting)
    epochs, n, b = int(chosen["epochs"]), setting.records, setting.failure / 3
    each = of_epoch(setting, epochs)
    share, split = chosen["threshold_share"], chosen["split"]
    spent = share * each if setting.pure else math.sqrt(2 * share * each)
    watch = AboveThreshold(
        threshold_epsilon=_down(split * spent), query_epsilon=_down((1 - split) * spent), one_sided=True
    )
    left = _down((1 - share) * each)
    one = Sensitivity.scalar()
    noise = (
        Laplace.costing(sensitivity=one, epsilon=left) if setting.pure else Gaussian.costing(sensitivity=one, rho=left)
    )
    # P(geometric > c) <= exp(-c / scale): threshold noises over the epochs, query noises over the questions.
    c1 = float(watch.threshold_scale(1)) * math.log(epochs / b) / n
    c2 = float(watch.query_scale(1)) * math.log(setting.queries / b) / n
    c3 = (reach(noise, b / (2 * epochs)) + 1) / n + VALUE_ROUNDING
    margin, slack, gamma = chosen["margin"], ROUNDING / n + VALUE_ROUNDING, setting.gamma
    return EpochPlan(
        engine="tuned",
        queries=setting.queries,
        epochs=epochs,
        failure=setting.failure,
        threshold=c2 + 2 * c3 + margin + gamma + slack,
        error=c1 + c2 + 2 * c3 + margin + gamma + 2 * slack,
        measured=c3,
        rest=margin + gamma,
        step=0.0,
        watch=watch.describe(),
        noise=noise.describe(),
        gamma=gamma,
        noise_failure=b / epochs,
    )


_PLANS: dict[str, tuple[Callable[[Setting], float], Callable[[Setting], EpochPlan]]] = {
    "textbook": (textbook_online, _textbook),
    "tuned": (tuned_online, _tuned),
    "hardt-rothblum": (hardt_rothblum_online, _hardt_rothblum),
}
"""The certified error of each engine, and its constants."""


def _down(value: float) -> Fraction:
    """Rounded down, so that all epochs together stay within the budget."""
    return Fraction(math.floor(value * _DIGITS), _DIGITS)
