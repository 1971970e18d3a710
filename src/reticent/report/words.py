"""Guarantees as sentences for readers without a background in differential privacy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, isfinite
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from reticent.domain.values import confidence_text
from reticent.kernel.accounting import Budget
from reticent.knowledge.certificates import Certificate, certifies
from reticent.knowledge.guarantees import Guarantee
from reticent.knowledge.paid_models import LossCertificate
from reticent.knowledge.typical import TypicalError

if TYPE_CHECKING:
    from reticent.domain import Domain

CLASSES = {
    "cells": "every cell (a combination of exact values)",
    "boxes": "every count over ranges of values",
    "predicates": "every count over any condition",
}


ANALYSES = {
    "bounded_range": "bounded range, zCDP e²/8 per draw (charged)",
    "loss_distribution": "privacy losses composed",
    "paper": "zCDP e²/2 per draw (002)",
    "original": "advanced composition (2014)",
    "pure": "pure, δ = 0",
}
"""Of a DualQuery run, from tight to loose."""

LARGEST_EXPONENT = 500.0
"""Above it, a float cannot hold the factor; such a budget gives no protection."""


TEST_LEVEL = 0.05
NORMAL = NormalDist()
USEFUL_SHARE = 0.5
"""A share of one half is within it of every possible share, so a larger bound says nothing."""


def promise(budget: Budget, unit: str, neighbours: str) -> str:
    """The promise to one person, as a sentence."""
    change = "was replaced by any other" if neighbours == "replace-one" else "was left out or added"
    unit = "person, with all rows," if unit == "row" else unit
    if budget.pure:
        factor = _factor(float(budget.epsilon or 0))
        return (
            f"If any one {unit} {change}, every possible outcome of this publication would be at most"
            f" {factor} times as likely as it is now."
        )
    guarantee = budget.guarantee()
    delta, epsilon = min(guarantee["epsilon"].items(), key=lambda pair: abs(pair[0] - float(budget.delta or 1e-9)))
    return (
        f"If any one {unit} {change}, every possible outcome of this publication would be at most {_factor(epsilon)}"
        f" times as likely as it is now, plus a probability of {delta:.0e}."
    )


def rules_sentence(domain: Domain) -> str:
    """What the rules of a domain mean for the results, and what they do not."""
    return (
        "Some records were declared impossible, without looking at the rows: they have probability 0 in the published"
        " distribution and do not occur in the synthetic rows. It is not certified that the table has no such records;"
        f" stated error bounds hold even if it has. The {'rules' if len(domain.impossible) > 1 else 'rule'}:"
    )


def for_one_person(budget: Budget, unit: str, neighbours: str) -> str:
    """What the guarantee means for one person, in two sentences.

    The first is the bound on any test's power, min(e^ε α + δ, 1 - e^-ε (1 - δ - α)) at level α (Kairouz, Oh and
    Viswanath 2015, Theorem 2.1), and Φ(Φ⁻¹(α) + μ) for μ-GDP (Dong, Roth and Su 2022, Definition 2.3).
    """
    guarantee = budget.guarantee()
    delta, epsilon = 0.0, float(budget.epsilon or 0)
    if not budget.pure:
        delta, epsilon = min(guarantee["epsilon"].items(), key=lambda pair: abs(pair[0] - float(budget.delta or 1e-9)))
    power = most_power(float(epsilon), float(delta))
    if budget.gaussian and not budget.approximate:
        power = min(power, NORMAL.cdf(NORMAL.inv_cdf(TEST_LEVEL) + guarantee["mu"]))
    rest = "or somebody else's" if neighbours == "replace-one" else "or nothing of yours"
    mine = "your record" if unit == "record" else "your rows"
    weight = {
        "record": "Each record is protected separately, so a person with several records is protected less.",
        "person": "All your rows together count as one record, however many there are.",
        "row": "All your rows are protected together, and at most a declared number of them is counted.",
    }[unit]
    return (
        f"Suppose somebody tests from this publication whether the table holds {mine} {rest}, with false alarms in"
        f" {percent(TEST_LEVEL)} of the cases where it does not. The test detects {mine} in at most {percent(power)} of"
        f" the cases where it does. {weight}"
    )


def most_power(epsilon: float, delta: float, level: float = TEST_LEVEL) -> float:
    """The largest power of a test between two neighbours at a level."""
    if epsilon > LARGEST_EXPONENT:
        return 1.0
    return min(1.0, exp(epsilon) * level + delta, 1 - exp(-epsilon) * (1 - delta - level))


def percent(share: float) -> str:
    """A share of the table with three digits."""
    return f"{100 * share:.3g}%"


def _factor(epsilon: float) -> str:
    return f"{exp(epsilon):.3g}" if epsilon <= LARGEST_EXPONENT else f"e^{epsilon:.3g}"


def stated(budget: Budget) -> str:
    """The budget as the custodian wrote it."""
    if budget.epsilon is None:
        return f"ρ = {float(budget.rho or 0):g} (zero-concentrated)"
    epsilon = f"ε = {float(budget.epsilon):g}"
    return f"{epsilon} (pure)" if budget.delta is None else f"{epsilon}, δ = {float(budget.delta):g}"


def certificate_sentence(certificate: Certificate, unit: str) -> str:
    count = len(certificate.sets)
    widest = max(len(s) for s in certificate.sets)
    sets = f"{count} attribute sets of up to {widest} attributes" if count > 1 else "1 attribute set"
    if not certifies(certificate.bound):
        bound = percent(certificate.bound) if isfinite(certificate.bound) else "infinite"
        return (
            f"For {CLASSES[certificate.kind]} on {sets}, nothing is certified: the bound is {bound} at probability"
            f" {confidence_text(certificate.confidence, 6)}, so it gives no guarantee for these answers."
        )
    records = certificate.bound * certificate.records
    return (
        f"For {CLASSES[certificate.kind]} on {sets}, the published share differs from the true one by at most"
        f" {percent(certificate.bound)} of the table (about {records:,.0f} {unit}s). All of these bounds hold together"
        f" with probability {confidence_text(certificate.confidence, 6)}, permanently and for every choice of"
        " questions."
    )


def worth_telling(typical: Iterable[TypicalError], certificates: Iterable[Certificate]) -> list[TypicalError]:
    """Typical errors that are smaller than the bound on the worst question; small tables may have none."""
    worst = [certificate.bound for certificate in certificates if certificate.kind != "cells"]
    return [error for error in typical if all(error.bound < bound for bound in worst)]


def typical_sentence(error: TypicalError, unit: str) -> str:
    """The typical error, and the questions to which it applies."""
    if not isfinite(error.bound):
        probability = confidence_text(error.confidence, 6)
        return f"For {error.words} nothing is stated: the bound is infinite at probability {probability}."
    records = error.bound * error.records
    return (
        f"Typically, {error.words} are within {percent(error.bound)} of the table (about"
        f" {records:,.0f} {unit}s). A question that was chosen because its answer looks wrong is not typical."
    )


def guarantee_sentence(guarantee: Guarantee) -> str:
    """The bound of a theorem, of an audit of the workload's own queries, or of what they were measured as."""
    scaled = ", divided by its weight" if guarantee.weighted else ""
    source = f"by its theorem, {guarantee.theorem}" if guarantee.origin == "theorem" else guarantee.theorem
    return (
        f"The error of {guarantee.covered} is at most {percent(guarantee.bound)} of the table{scaled}:"
        f" {source}. All of these bounds hold together with probability {confidence_text(guarantee.confidence, 6)}."
    )


def losses_sentence(certificate: LossCertificate, confidence: float) -> str:
    """The guarantee of a release for the models of its declared losses."""
    count, high = len(certificate.losses), certificate.reading.high(confidence)
    models = f"the models of {count} declared losses" if count > 1 else "the model of the declared loss"
    if not isfinite(high):
        return f"For {models} nothing is certified: the bound is no better than that of zero parameters."
    together = " All of these bounds hold together" if count > 1 else " This bound holds"
    return (
        f"For {models}, the mean loss over all records exceeds that of the best parameters by at most {high:.4g}"
        f" (excess risk).{together} with probability {confidence_text(confidence, 6)}."
    )


def fit_sentence(notes: Mapping[str, Any]) -> str:
    """A warning about a fit that has not converged; empty if it has."""
    if notes.get("converged", True):
        return ""
    return (
        f"The fit of the published distribution did not converge ({notes['fit']}): some figures may be further from the"
        " table than the noise explains. Privacy and certified errors are not affected."
    )


def analysis_rows(notes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Epsilon of a DualQuery run by each of its analyses; on a secret sample, that of the run alone (002)."""
    rows = []
    if (analyses := notes.get("analyses")) is not None:
        at = f" at δ = {analyses['delta']:g}"
        rows = [
            (f"ε{'' if name == 'pure' else at}, {words}", f"{analyses[name]:.4g}")
            for name, words in ANALYSES.items()
            if analyses.get(name) is not None
        ]
    if (alone := notes.get("amplified")) is not None:
        words = f"ε at δ = {alone['delta']:g} if nothing else is ever released, sample of {alone['sample']:,} secret"
        rows.append((words, f"{alone['epsilon']:.4g} (on the sample itself {alone['inner_epsilon']:.4g})"))
    return rows


def privacy_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The guarantee as facts for a statistician."""
    budget = Budget.from_dict(facts["budget"])
    rows = [
        ("Privacy unit", facts["unit"]),
        ("Neighbouring tables", facts["neighbours"]),
        ("Budget", stated(budget)),
        ("Spent", f"{budget.unit} {facts['spent'] / 1e9:.6g} of {budget.limit / 1e9:.6g}"),
    ]
    if (count := len(facts.get("publications", ()))) > 1:
        rows.append(("Based on", f"{count} publications, each paid from its own ledger; their prices are added here"))
    return rows if budget.pure else [*rows, *epsilon_rows(facts["privacy"])]


def epsilon_rows(guarantee: dict[str, Any]) -> list[tuple[str, str]]:
    """Epsilon at several deltas."""
    return [(f"ε at δ = {float(d):.0e}", f"{float(e):.4g}") for d, e in guarantee["epsilon"].items()]


def generalisation_sentence(facts: dict[str, Any]) -> str:
    """What answers about this table imply for the population from which its records were drawn.

    The bias is that of Bassily et al. 2016, the joint bound that of Jung et al. 2020. A bound on a share above
    `USEFUL_SHARE` is stated as none.
    """
    text = "This section assumes that the records were drawn independently from a population. "
    if facts["expected_bias"] > USEFUL_SHARE:
        text += (
            "At this size and budget, differential privacy gives no useful bound on overfitting for questions and"
            " losses chosen after seeing earlier answers."
        )
    else:
        bias = f"{facts['expected_bias']:.3g}"
        text += (
            "Differential privacy limits overfitting, even for questions chosen after seeing earlier answers: on"
            " average, the share of such a question in the table differs from that in the population by at most"
            f" {bias}. The same holds for losses: on average, the excess risk of a model on the population exceeds that"
            f" on this table by at most {2 * facts['expected_bias']:.3g} times the range of its loss (how far the loss"
            f" of one record can vary), or {bias} times if the loss was chosen beforehand."
        )
    text += (
        " For a single certified model, model.population_excess() bounds the excess risk on the population with a"
        " stated probability."
    )
    if "population_error" not in facts:
        return text
    joint = facts["population_error"]
    if joint is not None and joint <= USEFUL_SHARE:
        return text + (
            " The answers to all questions of the audited classes and batches are jointly within"
            f" {joint:.3g} of the population with probability {facts['confidence']:g}; other"
            " certified answers have separate bounds."
        )
    return text + (
        " At this size and budget there is no useful joint bound for all questions of the audited classes: their"
        " certificates apply to this table only. For a question that was chosen beforehand, answer.population()"
        " gives an interval."
    )
