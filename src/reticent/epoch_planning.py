"""From a setting to the constants of the textbook engines: noises, threshold and certified error (spec 6.2)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from reticent.algorithms.epochs import EpochPlan
from reticent.algorithms.tails import reach
from reticent.errors import QueryError
from reticent.kernel.mechanisms import AboveThreshold, Gaussian, Laplace, Sensitivity
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.planning import (
    LEDGER_ROUNDING,
    VACUOUS,
    Setting,
    of_epoch,
    textbook_online,
    tuned_online,
    tuned_parameters,
)

ENGINES = ("textbook", "tuned")
ROUNDING = 4 * 2.0**-20
"""Records by which guess, threshold and discrete noise on the kernel's finest grid may stray together."""
_DIGITS = 10**15


def epoch_plan(engine: str, setting: Setting) -> EpochPlan:
    """The plan of one engine; QueryError when its certified error says nothing."""
    if engine not in ENGINES:
        raise QueryError(f"engine {engine!r} is unknown; use 'default', 'textbook' or 'tuned'")
    setting = replace(setting, rounding=LEDGER_ROUNDING)
    error = textbook_online(setting) if engine == "textbook" else tuned_online(setting)
    if not error < VACUOUS:
        raise QueryError(
            f"the {engine} engine certifies an error of {error:.3g} for {setting.queries} questions on"
            f" {setting.records} records, which says nothing: use engine='default', or more records or budget"
        )
    return _textbook(setting, error) if engine == "textbook" else _tuned(setting)


def _textbook(setting: Setting, a: float) -> EpochPlan:
    """tau = a/2, steps a/8, every noise within a/8 but with the plan's failure (spec 6.2)."""
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
        threshold=a / 2,
        error=a + slack,
        measured=a / 8 + 1 / setting.records + VALUE_ROUNDING,
        rest=a / 4 + slack,
        step=a / 8,
        watch=watch.describe(),
        noise=Laplace(1 / e0).describe(),
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
    margin, slack = chosen["margin"], ROUNDING / n + VALUE_ROUNDING
    return EpochPlan(
        engine="tuned",
        queries=setting.queries,
        epochs=epochs,
        failure=setting.failure,
        threshold=c2 + 2 * c3 + margin + slack,
        error=c1 + c2 + 2 * c3 + margin + 2 * slack,
        measured=c3,
        rest=margin,
        step=0.0,
        watch=watch.describe(),
        noise=noise.describe(),
    )


def _down(value: float) -> Fraction:
    """Rounded down, so that all epochs together stay within the budget."""
    return Fraction(math.floor(value * _DIGITS), _DIGITS)
