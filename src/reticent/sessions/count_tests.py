"""Common parts of all online mechanisms for counts: guess, test, measure, and store the measurement.

`sessions/epochs.py` runs counts alone, `sessions/convex_counts.py` in the epochs of a run for losses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Hypothesis, average
from reticent.hypotheses.choose import read_snapshot
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.kernel.statistics import AnswerErrors, MaxError
from reticent.knowledge.tails import reach
from reticent.queries.base import Linear
from reticent.queries.forms import Form, Product, essential, is_cell
from reticent.queries.linear import Marginal

KEPT = 1 << 17
"""The number of questions whose verdicts are cached, so that a repetition needs no test."""


class Verdict(NamedTuple):
    """The result of one question: fractions, their error (infinite if uncertified), their origin, and the charge.

    A mechanism states the charge of the measurement alone; an epoch opened for a key is charged under `epoch_key`.
    """

    values: np.ndarray
    error: float
    origin: str
    snapshot: str | None = None
    ledger_id: int | None = None
    cost: int = 0


class MeasuredCounts:
    """The measurements of a run, indexed by compiled form instead of text."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._found: dict[str, tuple[np.ndarray, int]] = {}

    def add(self, query: Linear | Marginal, values: np.ndarray, ledger_id: int) -> None:
        self._found.setdefault(self._name(query), (values, ledger_id))

    def find(self, query: Linear | Marginal) -> tuple[np.ndarray, int] | None:
        """Measured values for this question, or for a marginal that contains it, and their place in the ledger."""
        found = self._found.get(self._name(query))
        if found is None and isinstance(query, Linear):
            form = essential(query.compile(self._domain))
            if is_cell(form):
                found = self._found.get(self._name(Marginal(form.attributes)))
                found = found and (np.asarray(average(form, found[0])), found[1])
        return found

    def _name(self, query: Linear | Marginal) -> str:
        if isinstance(query, Linear):
            return essential(query.compile(self._domain)).digest
        return Marginal(query.canonical(self._domain)).digest


def guessed(snapshot: Snapshot, query: Linear | Marginal) -> np.ndarray:
    """The hypothesis' own answer."""
    if isinstance(query, Linear):
        return np.asarray(read_snapshot(snapshot, lambda held: held.expect(query)))
    names = query.canonical(snapshot.domain)
    return read_snapshot(snapshot, lambda held: held.marginal(names))


def error_of(query: Linear | Marginal, guess: np.ndarray, records: float, domain: Domain) -> AnswerErrors | MaxError:
    """The error statistic of a question. A GROUP BY is one question: its largest cell error has the sensitivity of one
    (spec 6.3).
    """
    if isinstance(query, Linear):
        return AnswerErrors((query,), guess * records, domain)
    return MaxError("cells", (query.canonical(domain),), (guess * records,))


def noise_for(query: Linear | Marginal, noise: Noise, failure: float, domain: Domain) -> Noise:
    """The plan's noise for one query; for a marginal, smaller noise at a higher price, so that all cells meet the same
    bound.
    """
    if isinstance(query, Linear):
        return noise
    return narrowed(noise, domain.cells(query.canonical(domain)), failure)


def farthest_value(hypothesis: Hypothesis, query: Linear | Marginal, values: np.ndarray) -> tuple[Form, float]:
    """The query itself, or the cell whose noisy value is farthest from the hypothesis."""
    domain = hypothesis.domain
    if isinstance(query, Linear):
        return query.compile(domain), float(values)
    names = query.canonical(domain)
    place = np.unravel_index(int(np.argmax(np.abs(values - hypothesis.marginal(names)))), values.shape)
    vectors = [np.zeros(size) for size in values.shape]
    for vector, code in zip(vectors, place, strict=True):
        vector[code] = 1.0
    return Product(names, tuple(vectors)), float(values[place])


def epoch_key(key: str) -> str:
    """The ledger key of epochs that were opened for a question's key."""
    return f"{key}:epoch"


def narrowed(noise: Noise, cells: int, failure: float) -> Noise:
    """Noise whose largest of `cells` draws meets the bound that one draw of `noise` meets, each with `failure`."""
    ratio = reach(noise, failure / 2) / reach(noise, failure / (2 * cells))
    if isinstance(noise, Gaussian):
        return Gaussian(float(noise.sigma) * ratio)
    assert isinstance(noise, Laplace)
    return Laplace(float(noise.scale) * ratio)
