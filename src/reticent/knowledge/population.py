"""Statements about the population from answers about the table (spec population.md 3).

`estimated` intervals come from the spread of replicates; `certified` intervals from the table's certified interval and
an exact inequality for independent records. Proofs: docs/proofs/population.md. Simple random samples only.

`generalisation` bounds the distance of adaptively chosen answers from the population: differential privacy limits
overfitting (spec 8.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, log
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.domain.values import confidence_text, shown_bound, shown_number
from reticent.errors import QueryError
from reticent.hypotheses.base import form_of
from reticent.hypotheses.replicates import Replicates
from reticent.kernel.accounting import Budget, epsilon_of
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import free_answer
from reticent.knowledge.knowledge import Knowledge, group_values
from reticent.knowledge.request import Request
from reticent.knowledge.tails import check_confidence
from reticent.queries.base import Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Ratio

__all__ = [
    "Mode",
    "Population",
    "Sample",
    "certified_bounds",
    "chosen_mode",
    "effective_wilson",
    "on_replicates",
    "share_bounds",
    "spread",
]

Mode = Literal["estimated", "certified"]
BEFOREHAND = "if this question was chosen beforehand"
"""What adaptive questions would need is the transfer theorem's business; elsewhere these words are the condition."""
SAMPLED = "for a simple random sample"
BISECTIONS = 60
TELLING = 0.5
"""A transfer bound of half the range or more is vacuous."""


class Sample(NamedTuple):
    """What an answer came from: enough to say what it means for the population."""

    knowledge: Knowledge
    query: Query
    replicates: Replicates | None = None
    budget: Callable[[], Budget] | None = None
    """The budget of all publications about the table, computed on demand."""
    neighbours: str = "replace-one"


@dataclass(frozen=True, eq=False)
class Population:
    """An interval for the value in the population; arrays for tables, each cell by itself.

    An `estimated` interval is the value plus and minus Student's quantile times `standard_error`; that of a count is
    Wilson's, with as many records as that error implies, and reaches farther up than down when rare. A `certified` one
    holds with probability `confidence`, over the drawing of the records and the noise together. `adaptive_error` bounds
    the distance for questions chosen after seeing answers, where the transfer theorem says something; else it is None.
    """

    query: str
    value: float | np.ndarray
    low: float | np.ndarray
    high: float | np.ndarray
    confidence: float
    mode: Mode
    standard_error: float | np.ndarray | None = None
    adaptive_error: float | None = None
    note: str = ""

    @property
    def error(self) -> float:
        """The farthest that an end of the interval is from the value."""
        return float(np.max(np.maximum(np.subtract(self.high, self.value), np.subtract(self.value, self.low))))

    def __repr__(self) -> str:
        if np.ndim(self.value):
            shown = f"array{np.shape(self.value)} within ±{shown_bound(self.error)}"
        else:
            value, low, high = (shown_number(float(number), self.error) for number in (self.value, self.low, self.high))
            shown = f"{value} in [{low}, {high}]"
        return f"Population({shown} at {confidence_text(self.confidence)}, {self.mode}; {self.note})"


def population_of(answer: Answer, sample: Sample, confidence: float, mode: Mode | None) -> Population:
    """The statement about the population that an answer allows; without a mode, the estimate where there is one."""
    confidence = check_confidence(confidence)
    if chosen_mode(mode, sample.replicates) == "estimated":
        return _estimated(answer, sample, confidence)
    return _certified(answer, sample, confidence)


def chosen_mode(mode: str | None, replicates: Replicates | None) -> Mode:
    if mode not in (None, "estimated", "certified"):
        raise QueryError(f"mode={mode!r} is unknown: use 'estimated' or 'certified'")
    if mode is None:
        return "certified" if replicates is None else "estimated"
    if mode == "estimated" and replicates is None:
        raise QueryError(
            "an estimate for the population needs replicates: release = release.replicates(80), then ask it again;"
            " or use mode='certified'"
        )
    return mode  # pyright: ignore[reportReturnType]


# -- estimated ---------------------------------------------------------------------------------------------


def _estimated(answer: Answer, sample: Sample, confidence: float) -> Population:
    replicates, domain = sample.replicates, sample.knowledge.domain
    assert replicates is not None, "the mode was chosen"
    values = on_replicates(sample.query, replicates)
    value = np.asarray(answer.value, dtype=float)
    error, reach = spread(values, value, confidence)
    if sample.knowledge.unit == "record" and _is_count(sample.query, domain):
        low, high = effective_wilson(value, error, len(values), sample.knowledge.records, confidence)
    else:
        lowest, highest = _range(sample.query, domain)
        low, high = np.maximum(value - reach, lowest), np.minimum(value + reach, highest)
    note = f"{SAMPLED}; estimated from {replicates.count} replicates, {BEFOREHAND}"
    note = f"{note}; {answer.basis}" if answer.basis else note
    return Population(
        answer.query,
        answer.value,
        _plain(low),
        _plain(high),
        confidence,
        "estimated",
        standard_error=_plain(error),
        note=note,
    )


def spread(values: np.ndarray, centre: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """The standard error of replicates around a value, and Student's quantile times it (scale 1/R, as surveys do)."""
    from scipy.special import stdtrit

    error = np.sqrt(np.mean((values - centre) ** 2, axis=0))
    return error, float(stdtrit(len(values) - 1, (1 + confidence) / 2)) * error


def effective_wilson(
    share: np.ndarray, error: np.ndarray, replicates: int, records: float, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval (1927) with the effective number of records, share (1 - share) / error^2 (claim 7b).

    The error of a share grows with the share. Where the estimate is low by chance, so is its standard error, and an
    interval of the same length on both sides misses; Wilson's asks which shares explain the estimate. Replicates that
    all agree, as on cells that a release holds to be empty, count as the records themselves.
    """
    from scipy.special import stdtrit

    share = np.clip(share, 0.0, 1.0)
    quantile = float(stdtrit(replicates - 1, (1 + confidence) / 2))
    own = share * (1 - share)
    known = (error > 0) & (own > 0)
    effective = np.where(known, own / np.where(known, error, 1.0) ** 2, max(records, 1.0))
    pull = quantile**2 / effective
    middle = (share + pull / 2) / (1 + pull)
    half = np.sqrt(pull) * np.sqrt(own + pull / 4) / (1 + pull)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def on_replicates(query: Query, replicates: Replicates) -> np.ndarray:
    """A question's value on every replicate, in its own unit: `[replicate, ...]`."""
    domain = replicates.domain
    query = query.resolve(domain)
    if isinstance(query, Ratio):
        offset, scale = query.units(domain)
        above, below = _shares(query.numerator, replicates), _shares(query.denominator, replicates)
        return offset + scale * np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    if isinstance(query, Linear):
        offset, scale = query.units(domain)
        return offset + scale * _shares(query, replicates)
    if isinstance(query, Marginal):
        names = query.canonical(domain)
        found = replicates.marginal(names)
        return np.transpose(found, [0, *(1 + names.index(name) for name in query.names)])
    if isinstance(query, Groups):
        return np.stack([group_values(query, one) for one in replicates])
    raise QueryError(f"{query.wording} is a workload entry, not one question; ask rt.count, rt.mean or rt.marginal")


def _shares(query: Linear, replicates: Replicates) -> np.ndarray:
    form = form_of(query, replicates.domain)
    return np.array([one.expect(form) for one in replicates])


def _range(query: Query, domain: Domain) -> tuple[float, float]:
    """Beyond these no value can be: shares lie in [0, 1], means in the declared range."""
    if isinstance(query, (Linear, Ratio)):
        offset, scale = query.units(domain)
        highest = inf if isinstance(query, Ratio) and not query.bounded(domain) else offset + scale
        return offset, highest
    return 0.0, 1.0


# -- certified ---------------------------------------------------------------------------------------------


def _certified(answer: Answer, sample: Sample, confidence: float) -> Population:
    knowledge, query = sample.knowledge, sample.query
    domain = knowledge.domain
    failure = 1 - confidence
    if isinstance(query, Ratio):
        low, high = _of_selection(knowledge, query, failure)
    else:
        low, high = share_bounds(knowledge, query, failure)
        offset, scale = query.units(domain) if isinstance(query, Linear) else (0.0, 1.0)
        low, high = offset + scale * low, offset + scale * high
    note, adaptive = f"{SAMPLED}; certified, {BEFOREHAND}", _adaptive_error(sample, confidence)
    if adaptive is not None:
        note = f"{note}; within {adaptive:.3g} whatever was asked before"
    return Population(
        answer.query, answer.value, _plain(low), _plain(high), confidence, "certified",
        adaptive_error=adaptive, note=note,
    )  # fmt: skip


def share_bounds(
    knowledge: Knowledge, query: Query, failure: float, *, together: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a certified interval for the population's share, or each of a table's; cells `together` if asked."""
    restated, domain = _restated(knowledge, query, 1 - failure / 2), knowledge.domain
    offset, scale = query.units(domain) if isinstance(query, Linear) else (0.0, 1.0)
    if scale == 0:
        raise _unsaid(query, "only counts, shares and means have a certified statement")
    low, high = ((end - offset) / scale for end in _ends(restated))
    counted = knowledge.unit == "record" and _is_count(query, domain)
    part = failure / 2 / (np.size(low) if together else 1)
    return certified_bounds(low, high, knowledge, part, counted=counted)


def certified_bounds(
    low: np.ndarray | float, high: np.ndarray | float, knowledge: Knowledge, failure: float, *, counted: bool
) -> tuple[np.ndarray, np.ndarray]:
    """For shares that the table has in [low, high]: an interval for the population's, wrong with `failure` at most.

    The number of records is known up to its own relative error; its ends are taken to the safe side.
    """
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    fewest = max(1.0, np.ceil(knowledge.records * (1 - knowledge.records_error) - 1e-6))
    most = max(fewest, np.floor(knowledge.records * (1 + knowledge.records_error) + 1e-6))
    if counted:
        return _clopper_pearson(low, high, fewest, most, failure)
    return _bounded_mean(low, fewest, failure, below=True), _bounded_mean(high, fewest, failure, below=False)


def _clopper_pearson(
    low: np.ndarray, high: np.ndarray, fewest: float, most: float, failure: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of k records in n, with k >= low * fewest, k <= high * most, fewest <= n <= most (claim 10)."""
    from scipy.special import betaincinv

    least = np.ceil(low * fewest - 1e-6)
    largest = np.minimum(np.floor(high * most + 1e-6), fewest)
    with np.errstate(invalid="ignore"):
        below = np.where(
            least > 0, betaincinv(np.maximum(least, 1), most - np.minimum(least, most) + 1, failure / 2), 0.0
        )
        above = np.where(
            largest < fewest, betaincinv(largest + 1, np.maximum(fewest - largest, 1e-300), 1 - failure / 2), 1.0
        )
    return below, above


def _bounded_mean(mean: np.ndarray, records: float, failure: float, *, below: bool) -> np.ndarray:
    """Where n KL(mean, m) = ln(2 / failure): Hoeffding 1963, Theorem 1 (2.1), for any values in [0, 1] (claim 11)."""
    allowed = log(2 / failure) / records
    mean = np.asarray(mean, dtype=float)
    near, far = mean.copy(), np.zeros_like(mean) if below else np.ones_like(mean)
    for _ in range(BISECTIONS):
        middle = (near + far) / 2
        inside = _divergence(mean, middle) <= allowed
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return far


def _divergence(mean: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL between coins of these chances; infinite where the other rules out what was seen."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(mean > 0, mean * np.log(mean / other), 0.0)
        second = np.where(mean < 1, (1 - mean) * np.log((1 - mean) / (1 - other)), 0.0)
    return np.nan_to_num(first + second, nan=inf, posinf=inf)


def _of_selection(knowledge: Knowledge, query: Ratio, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """Of a mean among selected records: given which they are, these are independent draws (claim 12).

    Three shares of the failure: the mean on the table, the number of selected records, and their drawing.
    """
    domain = knowledge.domain
    if not query.bounded(domain) or knowledge.unit != "record":
        raise _unsaid(query, "a quotient of unrelated counts, or of persons' weights, has no certified statement")
    part = failure / 3
    ends = _ends(_restated(knowledge, query, 1 - part))
    fewest = float(_ends(_restated(knowledge, query.denominator, 1 - part))[0]) * knowledge.records
    selected = np.floor(fewest * (1 - knowledge.records_error) + 1e-6)
    offset, scale = query.units(domain)
    if selected < 1 or scale == 0:
        raise _unsaid(query, "perhaps no record of the table is selected")
    low, high = (np.clip((end - offset) / scale, 0.0, 1.0) for end in ends)
    bound = partial(_bounded_mean, records=selected, failure=part)
    return offset + scale * bound(low, below=True), offset + scale * bound(high, below=False)


def _is_count(query: Query, domain: Domain) -> bool:
    """Whether every record counts as 0 or 1."""
    if isinstance(query, Linear):
        return form_of(query, domain).binary
    return isinstance(query, Marginal) or (isinstance(query, Groups) and query.form(domain).binary)


def _restated(knowledge: Knowledge, query: Query, confidence: float) -> Answer:
    found = free_answer(knowledge, Request(query, confidence=confidence))
    if found is None or not found.certified or found.error is None:
        raise _unsaid(query, f"nothing certifies it on the table at {confidence_text(confidence)}")
    return found


def _ends(answer: Answer) -> tuple[np.ndarray, np.ndarray]:
    """Of what is certified about the table: not always as far below the value as above it."""
    if answer.interval is not None:
        low, high = answer.interval
        return np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    value, error = np.asarray(answer.value, dtype=float), float(answer.error or 0.0)
    return value - error, value + error


def _unsaid(query: Query, why: str) -> QueryError:
    return QueryError(f"{query.wording}: no certified statement about the population: {why}; use mode='estimated'")


def _adaptive_error(sample: Sample, confidence: float) -> float | None:
    """The transfer theorem's bound where it says something, in the question's own unit; for linear questions only."""
    knowledge, query = sample.knowledge, sample.query
    if sample.budget is None or not isinstance(query, Linear):
        return None
    bound = transfer_error(sample.budget(), partial(_table_error, knowledge, query), confidence, sample.neighbours)
    scale = abs(query.units(knowledge.domain)[1])
    return None if bound is None else scale * bound


def transfer_error(
    budget: Budget, table_error: Callable[[float], float], confidence: float, neighbours: str
) -> float | None:
    """For questions chosen after seeing answers: distance from the population; None where that says nothing."""
    bound = generalisation(budget, table_error, failure=1 - confidence, neighbours=neighbours)
    return bound if bound < TELLING else None


def _table_error(knowledge: Knowledge, query: Linear, failure: float) -> float:
    reading = knowledge.free(query, 1 - failure, None)
    return 1.0 if reading is None else reading.error


def _plain(value: np.ndarray) -> float | np.ndarray:
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


_DELTAS = tuple(10.0**power for power in range(-14, -3))
_SPENT = tuple(np.geomspace(1e-5, 0.3, 40).tolist())


class Bound(Protocol):
    """A certificate or a guarantee: how far the answers it covers are from the table's, at any confidence."""

    def bound_at(self, confidence: float) -> float: ...


def generalisation(
    budget: Budget, sample_error: Callable[[float], float], *, failure: float, neighbours: str = "replace-one"
) -> float:
    """A bound on abs(answer - population value) that all answers meet together but with probability `failure`.

    Records drawn independently from the population, queries with values in [0, 1], chosen adaptively. If answers are
    within `sample_error(b)` of the table but with probability b, and the session is (e, d)-DP, then for all c, g > 0
    they are within sample_error + (exp(e) - 1) + c + 2 g of the population but with probability b/c + d/g (Jung,
    Ligett, Neel, Roth, Sharifi-Malvajerdi, Shenfeld 2020, transfer theorem; sharper than Bassily et al. 2016).
    The theorem replaces a record by another: under add-remove that is two steps, rho four times as large.
    One where nothing is known: fractions differ by at most 1.
    """
    best = 1.0
    for epsilon, delta in _guarantees(budget, 1 if neighbours == "replace-one" else 2):
        half = failure / 2 if delta else failure
        strayed = math.expm1(min(epsilon, 1.0)) + (4 * delta / failure)  # beyond one, nothing is known anyway
        for c in _SPENT:
            if strayed + c >= best:
                break  # no error is negative, and the next are larger
            best = min(best, sample_error(half * c) + strayed + c)
    return best


def expected_bias(budget: Budget) -> float:
    """A bound on abs(E[table value - population value]) of any one query chosen from the session's answers.

    rho-zCDP bounds the mutual information of n independent records with the transcript by n rho (Bun and Steinke
    2016; by comparison with the table without the record under add-remove too), and so the bias of a query with values
    in [0, 1] by sqrt(rho / 2) (Russo and Zou 2016; Xu and Raginsky 2017).
    """
    rho = (
        float(budget.epsilon) ** 2 / 2 if budget.rho is None and budget.epsilon is not None else float(budget.rho or 0)
    )
    return min(1.0, math.sqrt(rho / 2))


def population_facts(
    budget: Budget,
    certificates: Sequence[Bound],
    *,
    guarantees: Sequence[Bound] = (),
    confidence: float,
    neighbours: str,
) -> dict[str, Any]:
    """What reports say about the population: true for every bound in force.

    All certificates hold together at any one confidence; guarantees fail apart from them, so each takes its own part.
    """
    facts: dict[str, Any] = {"expected_bias": expected_bias(budget), "confidence": confidence}
    bounds = [*certificates, *guarantees]
    if bounds:
        parts = bool(certificates) + len(guarantees)

        def widest(b: float) -> float:
            return max(bound.bound_at(1 - b / parts) for bound in bounds)

        bound = generalisation(budget, widest, failure=1 - confidence, neighbours=neighbours)
        facts["population_error"] = bound if bound < 1 else None
    return facts


def _guarantees(budget: Budget, steps: int) -> list[tuple[float, float]]:
    """(epsilon, delta) for tables so many neighbours apart: epsilon grows with the steps, rho with their square."""
    if budget.rho is None:
        return [(steps * float(budget.epsilon or 0), 0.0)]
    return [(epsilon_of(budget.rho * steps**2, delta), delta) for delta in _DELTAS]
