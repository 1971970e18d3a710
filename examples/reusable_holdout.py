"""An analyst who looks before asking overfits raw answers, and fails to overfit a session's.

Labels here are coin flips: nothing predicts them. The analyst asks, for every profile, how many records have each
label, predicts the more frequent one, and asks how often that classifier is right. On raw answers the holdout says
that it is often right; on a fresh sample it is right half of the time. A session's answers hardly tell it anything
that is not also true of the population (spec 8.7).

    python examples/reusable_holdout.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import reticent as rt
from reticent.queries.predicate import Predicate

RECORDS = 2_000
PROFILES = 400
BUDGET = rt.Budget(epsilon=1, delta=1e-9)


def holdout(generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Profiles and labels that have nothing to do with each other."""
    return {"profile": generator.integers(0, PROFILES, RECORDS), "label": generator.integers(0, 2, RECORDS)}


def classifier(cells: np.ndarray) -> np.ndarray:
    """The label that the answers call more frequent, for every profile."""
    return (cells[:, 1] > cells[:, 0]).astype(int)


def accuracy(predicted: np.ndarray, rows: dict[str, np.ndarray]) -> float:
    return float(np.mean(predicted[rows["profile"]] == rows["label"]))


def correct(predicted: np.ndarray) -> Predicate:
    """The records on which the classifier is right."""
    label, profile = rt.col("label"), rt.col("profile")
    chosen = {value: np.flatnonzero(predicted == value).tolist() for value in (0, 1)}
    right = [(label == value) & profile.isin(profiles) for value, profiles in chosen.items() if profiles]
    return right[0] if len(right) == 1 else right[0] | right[1]


def raw_analyst(rows: dict[str, np.ndarray]) -> tuple[np.ndarray, float]:
    """Asks the table itself."""
    cells = np.zeros((PROFILES, 2))
    np.add.at(cells, (rows["profile"], rows["label"]), 1)
    predicted = classifier(cells)
    return predicted, accuracy(predicted, rows)


def private_analyst(rows: dict[str, np.ndarray]) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Asks a session, every question with the answers to all questions before in view."""
    domain = rt.Domain(profile=rt.Integer(PROFILES), label=rt.Integer(2))
    table = rt.Table.of(pa.table(rows), domain)
    with rt.Session.open(None, table, BUDGET) as session:
        predicted = classifier(np.asarray(session.ask(rt.marginal("profile", "label")).value))
        claimed = float(session.ask(rt.count(correct(predicted)), error=0.03).value)
        return predicted, claimed, session.describe()["generalisation"]


def run(seed: int = 1) -> dict[str, float]:
    generator = np.random.default_rng(seed)
    rows, fresh = holdout(generator), holdout(generator)
    overfitted, raw_claim = raw_analyst(rows)
    honest, private_claim, bounds = private_analyst(rows)
    return {
        "raw answers: claimed accuracy": raw_claim,
        "raw answers: accuracy on fresh records": accuracy(overfitted, fresh),
        "session: claimed accuracy": private_claim,
        "session: accuracy on fresh records": accuracy(honest, fresh),
        "session: largest expected bias of any one answer": float(bounds["expected_bias"]),
    }


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name:<52}{value:.3f}")
