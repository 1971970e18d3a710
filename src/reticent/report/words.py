"""What a guarantee means, in words that need no course in privacy."""

from __future__ import annotations

from math import exp, isfinite
from typing import Any

from reticent.algorithms.certificates import Certificate
from reticent.kernel.accounting import Budget

CLASSES = {
    "cells": "every cell (a combination of exact values)",
    "boxes": "every count over ranges of values",
    "predicates": "every count over any condition",
}


LARGEST_EXPONENT = 500.0
"""Beyond, a float cannot hold the factor; such a budget promises nothing anyway."""


def promise(budget: Budget, unit: str, neighbours: str) -> str:
    """The promise to one person, as a sentence."""
    change = "was replaced by any other" if neighbours == "replace-one" else "was left out or added"
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
        f" times as likely as it is now, up to a slip of probability {delta:.0e}."
    )


def _factor(epsilon: float) -> str:
    return f"{exp(epsilon):.3g}" if epsilon <= LARGEST_EXPONENT else f"e^{epsilon:.3g}"


def stated(budget: Budget) -> str:
    """The budget as the custodian wrote it."""
    if budget.epsilon is None:
        return f"ρ = {float(budget.rho or 0):g} (zero-concentrated)"
    epsilon = f"ε = {float(budget.epsilon):g}"
    return f"{epsilon} (pure)" if budget.delta is None else f"{epsilon}, δ = {float(budget.delta):g}"


def certificate_sentence(certificate: Certificate, unit: str = "record") -> str:
    count = len(certificate.sets)
    widest = max(len(s) for s in certificate.sets)
    sets = f"{count} attribute sets of up to {widest} attributes" if count > 1 else "1 attribute set"
    if not isfinite(certificate.bound):
        return (
            f"For {CLASSES[certificate.kind]} on {sets}, nothing is certified: the bound is infinite at probability"
            f" {certificate.confidence:g}, so these answers carry no guarantee from it."
        )
    records = certificate.bound * certificate.records
    return (
        f"For {CLASSES[certificate.kind]} on {sets}, the published share differs from the true one by at most"
        f" {certificate.bound:.4f} of the table (about {records:,.0f} {unit}s). All of these hold together with"
        f" probability {certificate.confidence:g}, for ever, whatever is asked."
    )


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
        rows.append(
            ("Rests on", f"{count} publications, each paid from a ledger of its own: their prices are added here")
        )
    return rows if budget.pure else [*rows, *epsilon_rows(facts["privacy"])]


def epsilon_rows(guarantee: dict[str, Any]) -> list[tuple[str, str]]:
    """Epsilon at several deltas."""
    return [(f"ε at δ = {float(d):.0e}", f"{float(e):.4g}") for d, e in guarantee["epsilon"].items()]


def generalisation_sentence(facts: dict[str, Any]) -> str:
    """What answers on this table say about the population its records were drawn from."""
    text = (
        "Privacy limits overfitting: an answer that is accurate on this table is also accurate on the population its"
        " records were drawn from, even for questions chosen after seeing earlier answers (Bassily et al. 2016; Jung et"
        f" al. 2020). A question chosen that way is off by at most {facts['expected_bias']:.3g} on average."
    )
    if facts.get("population_error") is not None:
        text += (
            f" Together, all certified answers are within {facts['population_error']:.3g} of the population with"
            f" probability {facts['confidence']:g}."
        )
    return text
