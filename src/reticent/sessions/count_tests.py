"""What every online mechanism does with a count: guess it, test the guess, measure it, remember what was measured.

`sessions/epochs.py` runs them by themselves, `sessions/convex_counts.py` in the epochs of a run for losses.
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
"""Questions whose verdicts are kept, so that a repeat costs no test."""


class Verdict(NamedTuple):
    """What one question got: fractions, their error (infinite if uncertified), where from, and the charge for them.

    A mechanism states that of the measurement alone; an epoch that was opened for a key is charged under `epoch_key`.
    """

    values: np.ndarray
    error: float
    origin: str
    snapshot: str | None = None
    ledger_id: int | None = None
    cost: int = 0


class MeasuredCounts:
    """What a run has measured, by what it says and not by its words."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._found: dict[str, tuple[np.ndarray, int]] = {}

    def add(self, query: Linear | Marginal, values: np.ndarray, ledger_id: int) -> None:
        self._found.setdefault(self._name(query), (values, ledger_id))

    def find(self, query: Linear | Marginal) -> tuple[np.ndarray, int] | None:
        """Values measured about this question, or about all cells it is one of, and where the ledger has them."""
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
    """A GROUP BY is one question: its largest cell error has the sensitivity of one (spec 6.3)."""
    if isinstance(query, Linear):
        return AnswerErrors((query,), guess * records, domain)
    return MaxError("cells", (query.canonical(domain),), (guess * records,))


def noise_for(query: Linear | Marginal, noise: Noise, failure: float, domain: Domain) -> Noise:
    """One query gets the plan's noise; all cells of a marginal stay within the same bound, at a higher price."""
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
    """Where the ledger keeps what was charged for epochs that were opened for a question's key."""
    return f"{key}:epoch"


def narrowed(noise: Noise, cells: int, failure: float) -> Noise:
    """Noise whose largest of `cells` draws stays where one draw of `noise` stays, each but with `failure`."""
    ratio = reach(noise, failure / 2) / reach(noise, failure / (2 * cells))
    if isinstance(noise, Gaussian):
        return Gaussian(float(noise.sigma) * ratio)
    assert isinstance(noise, Laplace)
    return Laplace(float(noise.scale) * ratio)
