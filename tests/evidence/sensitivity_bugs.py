"""Sensitivity and control-flow bugs as somebody might write them, each with a program that meets the code it is in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from reticent.auditing.programs import GAUSSIAN, PROGRAMS, THRESHOLDS, Program, verbs
from reticent.errors import QueryError
from reticent.kernel import curator as curator_module
from reticent.kernel import numeric_sums, statistics
from reticent.kernel.accounting import Price
from reticent.kernel.curator import Curator
from reticent.kernel.discovery.medians import MedianScores
from reticent.kernel.mechanisms import thresholded
from reticent.kernel.mechanisms.base import Exponential, Gaussian, Sensitivity, Thresholded, Watch
from reticent.kernel.minimizers import excess_risk, families, solvers
from reticent.kernel.minimizers.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.minimizers.families import (
    NoisyGradientDescent,
    OutputPerturbation,
    RidgeGLM,
    SufficientStatistics,
)
from reticent.kernel.minimizers.phased import PhasedERM
from reticent.kernel.numeric_sums import BinOffsets, ClippedSums
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts
from reticent.kernel.statistics import (
    AnswerErrors,
    BlockCounts,
    CellScores,
    ConjunctionScores,
    GroupCounts,
    LinearCount,
    MarginalCounts,
    MaxError,
    PartitionCounts,
)
from reticent.queries.linear import Count
from reticent.sources import weighing as weighing_module
from reticent.sources.undeclared import UndeclaredValues

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Planted:
    """A bug, and a program that shows it."""

    name: str
    plant: Callable[[Patch], None]
    program: Program


def using(*kinds: type, **changes: Any) -> Program:
    """The verbs on these statistics or minimisers only."""
    return replace(PROGRAMS["kernel verbs"], run=partial(verbs, kinds=kinds), **changes)


def wrapped(owner: Any, name: str, wrapper: Callable[..., Any]) -> Callable[[Patch], None]:
    """`wrapper` gets what it replaces before the arguments."""

    def plant(patch: Patch) -> None:
        original = getattr(owner, name)
        patch.setattr(owner, name, lambda *given, **named: wrapper(original, *given, **named))

    return plant


def rows_of(curator: Curator) -> Any:
    return curator._table._source


def first_count(curator: Curator) -> int:
    return int(rows_of(curator).marginal(curator.domain.names[:1]).ravel()[0])


# ---- weights


def weighing(pattern: str, replacement: str) -> Callable[[Patch], None]:
    """The statement that weighs a person's rows, written otherwise."""

    def plant(patch: Patch) -> None:
        original = weighing_module._shared

        def written(engine: Any, coded: str, packing: Any, grid: int, placed: int) -> str:
            statement = original(engine, coded, packing, grid, placed)
            return re.sub(pattern, replacement.replace("GRID", str(grid)), statement)

        patch.setattr(weighing_module, "_shared", written)

    return plant


SHARE = r"c \* .*? \+ GREATEST\(LEAST\(\d+ % m - b, c\), 0\)"
REMAINDER = r"GREATEST\(LEAST\(\d+ % m - b, c\), 0\)"


def offset_weight_forgotten(patch: Patch) -> None:
    """A query's weight scales its offset, as it should, and no longer its count."""
    scored = statistics.Scores._scores

    def scores(self: Any, counts: np.ndarray, offsets: np.ndarray, person_grid: int) -> np.ndarray:
        heavy = counts if self.weights is None else (counts / self.weights).astype(np.int64)
        return scored(self, heavy, offsets, person_grid)

    patch.setattr(statistics.Scores, "_scores", scores)


def weights_rounded_up(patch: Patch) -> None:
    """Weights relative to their mean instead of their largest."""
    made = statistics.Scores._scores

    def scores(self: Any, counts: np.ndarray, offsets: np.ndarray, person_grid: int) -> np.ndarray:
        if self.weights is not None:
            object.__setattr__(self, "weights", self.weights / self.weights.mean())
        return made(self, counts, offsets, person_grid)

    patch.setattr(statistics.Scores, "_scores", scores)


# ---- maxima that became sums


def summed_sets(original: Any, self: MaxError, source: Any, person_grid: int) -> np.ndarray:
    parts = [replace(self, sets=(s,), guesses=(g,)) for s, g in zip(self.sets, self.guesses, strict=True)]
    return np.asarray(sum(int(original(part, source, person_grid)) for part in parts), dtype=np.int64)


def both_sides(original: Any, self: MaxError, difference: np.ndarray) -> int:
    """Total variation without the half."""
    return int(np.abs(difference).sum()) if self.kind == "predicates" else original(self, difference)


def ends_of_different_boxes(original: Any, difference: np.ndarray) -> int:
    """The largest and the smallest sum, each over any box: no single box."""
    sums = np.asarray(difference)
    for _ in range(sums.ndim):
        length = len(sums)
        ranges = [sums[low:high].sum(axis=0) for low in range(length) for high in range(low + 1, length + 1)]
        sums = np.stack(ranges, axis=-1)  # the next axis is the first
    return max(int(sums.max()), 0) - min(int(sums.min()), 0)


def summed_answers(original: Any, self: AnswerErrors, source: Any, person_grid: int) -> np.ndarray:
    guesses = np.atleast_1d(self.guesses)
    parts = [replace(self, queries=(q,), guesses=guesses[i : i + 1]) for i, q in enumerate(self.queries)]
    return np.asarray(sum(int(original(part, source, person_grid)) for part in parts), dtype=np.int64)


def doubled(original: Any, self: Any, source: Any, person_grid: int) -> np.ndarray:
    return original(self, source, person_grid) * np.int64(2)


def every_group(original: Any, self: GroupCounts, source: Any, person_grid: int) -> np.ndarray:
    """Broadcast the wrong way: a record counts in all groups of the last attribute."""
    counts = original(self, source, person_grid)
    return np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape).copy()


# ---- minimisers


def priced_before_clipping(original: Any, risk: Any, theta: np.ndarray, limit: float) -> np.ndarray:
    """The noise is for gradients clipped to half their bound; they are clipped to the whole one."""
    return 2 * original(risk, theta, limit)


def divided_by_the_rows(original: Any, problem: Any, source: Any, person_grid: int, divisor: float) -> Any:
    """The mean over the true number of records, which the price knows nothing of."""
    return original(problem, source, person_grid, max(source.total(), 1) / person_grid / 3)


def halved_move(patch: Patch) -> None:
    for module in (families, solvers):
        patch.setattr(module, "records_moved", lambda neighbours: 1)


def gram_counted_twice(original: Any, self: SufficientStatistics, source: Any, person_grid: int) -> Any:
    gram, cross = original(self, source, person_grid)
    return 2 * gram, cross


def scale_forgotten(original: Any, self: ExcessRisks, source: Any, person_grid: int) -> np.ndarray:
    return original(replace(self, scales=tuple(s / 4 for s in self.scales)), source, person_grid)


def scale_forgotten_plant(patch: Patch) -> None:
    patch.setattr(excess_risk, "_refuse_small", lambda scale, least: None)
    wrapped(ExcessRisks, "evaluate", scale_forgotten)(patch)


# ---- prices


def price_of_one(original: Any, self: Curator, queries: Any, mechanism: Any, *key: Any) -> Any:
    """Of several queries the dearest is paid."""
    listed, noises, _ = original(self, queries, mechanism, *key)
    prices = [n.price(s.sensitivity(self.neighbours)) for s, n in zip(listed, noises, strict=True)]
    return listed, noises, max(prices, key=lambda price: price.rho)


def unpaid_preview(original: Any, self: Curator, queries: Any, mechanism: Any, **named: Any) -> Any:
    """A rough number at once, before anybody has paid."""
    Gaussian(10**6).release(np.asarray([first_count(self)], dtype=np.int64))
    return original(self, queries, mechanism, **named)


class FlatPrice(Price):
    """The same for any number of draws."""

    def __mul__(self, count: int) -> Price:
        return self


def one_draw_paid(original: Any, self: Exponential, draws: int = 1) -> Price:
    price = original(self)
    return FlatPrice(price.pure, price.rho)


class OneStep:
    """Stands for `math` in the curator: a sensitivity of one step of the grid, whatever the statistic."""

    @staticmethod
    def ceil(value: Any) -> int:
        return 1


def epoch_for_nothing(original: Any, self: Curator, error: Any, epoch: Any) -> bool:
    """After the first "above" a new threshold is drawn under the old charge."""
    if not epoch.open:
        epoch._watch, epoch._ended = None, False
    above = original(self, error, epoch)
    if above:
        epoch._watch = None
    return above


def endless_watch(original: Any, watch: Watch, value: int) -> bool:
    threshold = watch._noisy_threshold
    above = original(watch, value)
    watch._noisy_threshold = threshold
    return above


# ---- control flow


def one_more_where_odd(original: Any, self: Curator, queries: Any, mechanism: Any, **named: Any) -> Any:
    if first_count(self) % 2:
        original(self, [Count().resolve(self.domain)], mechanism if self.budget.pure else Gaussian(10**6))
    return original(self, queries, mechanism, **named)


def noise_by_rows(original: Any, self: Curator, queries: Any, mechanism: Any, **named: Any) -> Any:
    noise = mechanism if self.budget.pure else Gaussian(10 + first_count(self))
    return original(self, queries, noise, **named)


def draws_by_rows(original: Any, self: Curator, scores: Any, mechanism: Any, **named: Any) -> Any:
    return original(self, scores, mechanism, **(named | {"draws": 1 + first_count(self) % 2}))


def refused_by_rows(original: Any, self: Curator, queries: Any, mechanism: Any, **named: Any) -> Any:
    if not first_count(self):
        raise QueryError("an empty cell")
    return original(self, queries, mechanism, **named)


def counted_in_the_message(original: Any, self: Curator, queries: Any, mechanism: Any, **named: Any) -> Any:
    if len(queries) > 1:
        raise QueryError(f"too much for {first_count(self)} records")
    return original(self, queries, mechanism, **named)


def second_pass(patch: Patch) -> None:
    """Rows are read again between two verbs, for a count that is never used."""
    affordable = Curator.price

    def price(self: Curator, queries: Any, mechanism: Any) -> Any:
        rows_of(self).total()
        return affordable(self, queries, mechanism)

    patch.setattr(Curator, "price", price)


def early_exit(original: Any, self: MaxError, source: Any, person_grid: int) -> np.ndarray:
    """Stops at the first set whose guess is exact: how much is read depends on the rows."""
    for names, guess in zip(self.sets, self.guesses, strict=True):
        if not source.marginal(names).ravel()[0]:
            return np.asarray(0, dtype=np.int64)
        largest = int(original(replace(self, sets=(names,), guesses=(guess,)), source, person_grid))
    return np.asarray(largest, dtype=np.int64)


def counted_in_a_note(original: Any, self: Curator, queries: Any, mechanism: Any, **named: Any) -> Any:
    """A free public event with a private number."""
    self._ledger.append("progress", {"done": first_count(self)})
    return original(self, queries, mechanism, **named)


def described_by_rows(patch: Patch) -> None:
    describe, evaluate, seen = MarginalCounts.describe, MarginalCounts.evaluate, {"count": 0}

    def remember(self: MarginalCounts, source: Any, person_grid: int) -> np.ndarray:
        found = evaluate(self, source, person_grid)
        seen["count"] = int(found.ravel()[0])
        return found

    patch.setattr(MarginalCounts, "evaluate", remember)
    patch.setattr(MarginalCounts, "describe", lambda self: describe(self) | {"seen": seen["count"]})


def exact_answer(original: Any, self: Curator, queries: Any, mechanism: Any, **named: Any) -> Any:
    """What is returned is not what was settled: small counts are suppressed by their true size."""
    settled = original(self, queries, mechanism, **named)
    return settled if first_count(self) > 2 else replace(settled, values=tuple(v * 0 for v in settled.values))


def halved_marginal(patch: Patch) -> None:
    half = Sensitivity(1, 1)
    patch.setattr(statistics, "of_one_marginal", lambda neighbours: half)


PERSONS: dict[str, Any] = {"units": ("person",)}
# ---- discovery, bounded rows, budgets of Gaussian noise, phases


def failing_for_less(original: Any, test: Thresholded, neighbours: str) -> Price:
    """A threshold that is charged for a tenth of what it fails with."""
    price = original(test, neighbours)
    return Price(None, price.rho, price.delta / 10)


def values_of_one(original: Any, most: int, neighbours: str) -> Sensitivity:
    """A unit is priced for one text, whatever it may have."""
    return original(1, neighbours)


def every_text_counts(original: Any, source: UndeclaredValues, name: str, most: int, key: str) -> Any:
    return original(source, name, 2**20, key)


def every_row_a_person(original: Any, source: UndeclaredValues, name: str) -> Any:
    """A person's rows weigh as much as a person each."""
    person, source._person = source._person, None
    try:
        values, weights = original(source, name)
    finally:
        source._person = person
    return values, weights * source._grid


def piece_for_nothing(original: Any, scores: MedianScores, runs: Any, *given: Any) -> Any:
    """One more draw of every median under the same charge."""
    original(scores, runs, *given)
    return original(scores, runs, *given)


def one_row_of_each(original: Any, curator: Curator, sensitivity: Sensitivity) -> Sensitivity:
    return sensitivity


def one_phase_paid(original: Any, minimizer: PhasedERM) -> Price:
    return minimizer.noises[0].price(minimizer.sensitivity(0))


def as_continuous_noise(original: Any, noise: Gaussian, sensitivity: Sensitivity) -> Price:
    price = original(noise, sensitivity)
    return Price(None, price.rho, gaussian=price.rho)


REPLACE: dict[str, Any] = {"neighbours": ("replace-one",)}
SCORES = (CellScores, ConjunctionScores)
MEASURED = (LinearCount, MarginalCounts, GroupCounts)

DISCOVERY = PROGRAMS["discovery"]
TEXTS = replace(DISCOVERY, budgets=(THRESHOLDS,))
OF_PERSONS = replace(TEXTS, **PERSONS)

BUGS: Sequence[Planted] = [
    Planted("a threshold for a tenth of its delta", wrapped(Thresholded, "price", failing_for_less), TEXTS),
    Planted(
        "several texts for the price of one", wrapped(thresholded, "sensitivity_of_values", values_of_one), OF_PERSONS
    ),
    Planted("texts of a person not clipped", wrapped(UndeclaredValues, "texts", every_text_counts), OF_PERSONS),
    Planted("person weight forgotten in medians", wrapped(UndeclaredValues, "numbers", every_row_a_person), DISCOVERY),
    Planted("medians drawn twice", wrapped(MedianScores, "draw", piece_for_nothing), DISCOVERY),
    Planted(
        "medians of a record replaced, priced as one added",
        lambda patch: patch.setattr(MedianScores, "sensitivity", lambda self, neighbours: Sensitivity.scalar(1)),
        replace(DISCOVERY, **REPLACE),
    ),
    Planted(
        "rows of a person priced as one", wrapped(Curator, "moved", one_row_of_each), using(*MEASURED, units=("row",))
    ),
    Planted(
        "offsets of a record replaced, priced as one added",
        wrapped(numeric_sums, "of_offsets", lambda original, neighbours: original("add-remove")),
        using(BinOffsets, ClippedSums, **REPLACE),
    ),
    Planted("offsets counted twice", wrapped(BinOffsets, "evaluate", doubled), using(BinOffsets)),
    Planted("clipped sums counted twice", wrapped(ClippedSums, "evaluate", doubled), using(ClippedSums)),
    Planted("an order statistic counted twice", wrapped(ErrorQuantile, "evaluate", doubled), using(ErrorQuantile)),
    Planted("phases for the price of the first", wrapped(PhasedERM, "price", one_phase_paid), using(PhasedERM)),
    Planted(
        "discrete noise at the price of continuous noise",
        wrapped(Gaussian, "price", as_continuous_noise),
        using(LinearCount, MarginalCounts, budgets=(GAUSSIAN,)),
    ),
    Planted("person weight forgotten", weighing(SHARE, "c * GRID"), using(*MEASURED, **PERSONS)),
    Planted("remainder of a person's weight on every row", weighing(REMAINDER, "c * 40"), using(*MEASURED, **PERSONS)),
    Planted("weight of a query off its count", offset_weight_forgotten, using(*SCORES)),
    Planted("weights relative to their mean", weights_rounded_up, using(*SCORES)),
    Planted("errors of several sets added", wrapped(MaxError, "evaluate", summed_sets), using(MaxError)),
    Planted("total variation of both sides", wrapped(MaxError, "_largest", both_sides), using(MaxError)),
    Planted(
        "a range between two different boxes",
        wrapped(statistics, "largest_box", ends_of_different_boxes),
        using(MaxError, **REPLACE),
    ),
    Planted("errors of several answers added", wrapped(AnswerErrors, "evaluate", summed_answers), using(AnswerErrors)),
    Planted("a count weighed twice", wrapped(LinearCount, "evaluate", doubled), using(LinearCount)),
    Planted("a marginal counted twice", wrapped(MarginalCounts, "evaluate", doubled), using(MarginalCounts)),
    Planted("a record in every group", wrapped(GroupCounts, "evaluate", every_group), using(GroupCounts)),
    Planted("a block counted twice", wrapped(BlockCounts, "evaluate", doubled), using(BlockCounts)),
    Planted("a part counted twice", wrapped(PartitionCounts, "evaluate", doubled), using(PartitionCounts)),
    Planted("a residual counted twice", wrapped(ResidualCounts, "evaluate", doubled), using(ResidualCounts)),
    Planted(
        "residuals of a record replaced, priced as one added",
        wrapped(curator_module, "joint_price", lambda original, measured, _: original(measured, "add-remove")),
        using(ResidualCounts, **REPLACE),
    ),
    Planted(
        "residuals for the price of the dearest",
        wrapped(
            curator_module,
            "joint_price",
            lambda original, measured, kind: max((original([one], kind) for one in measured), key=lambda p: p.rho),
        ),
        using(ResidualCounts),
    ),
    Planted("scores counted twice", wrapped(CellScores, "evaluate", doubled), using(CellScores)),
    Planted("conjunctions counted twice", wrapped(ConjunctionScores, "evaluate", doubled), using(ConjunctionScores)),
    Planted("half the sensitivity of a marginal", halved_marginal, using(MarginalCounts, GroupCounts, **REPLACE)),
    Planted(
        "price before clipping",
        wrapped(families, "clipped_sum", priced_before_clipping),
        using(NoisyGradientDescent),
    ),
    Planted(
        "divided by the true number of records",
        wrapped(families, "counted_risk", divided_by_the_rows),
        using(OutputPerturbation, RidgeGLM),
    ),
    Planted("minimisers priced for one record, not two", halved_move, using(OutputPerturbation, **REPLACE)),
    Planted(
        "second moments counted twice",
        wrapped(SufficientStatistics, "fetch", gram_counted_twice),
        using(SufficientStatistics),
    ),
    Planted("the scale of an excess risk forgotten", scale_forgotten_plant, using(ExcessRisk, ExcessRisks)),
    Planted("several queries for the price of one", wrapped(Curator, "priced", price_of_one), using(*MEASURED)),
    Planted("a noisy preview that nobody paid for", wrapped(Curator, "measure", unpaid_preview), using(*MEASURED)),
    Planted("many selections for the price of one", wrapped(Exponential, "price", one_draw_paid), using(*SCORES)),
    Planted("a second threshold under one charge", wrapped(Curator, "exceeds", epoch_for_nothing), using(MaxError)),
    Planted('tests go on after "above"', wrapped(Watch, "exceeds", endless_watch), using(MaxError, AnswerErrors)),
    Planted(
        "an epoch for a sensitivity of one step",
        lambda patch: patch.setattr(curator_module, "math", OneStep),
        using(MaxError, AnswerErrors, ExcessRisk),
    ),
    Planted(
        "a measurement more where rows say so",
        wrapped(Curator, "measure", one_more_where_odd),
        PROGRAMS["release: Adaptive"],
    ),
    Planted("noise scaled by the rows", wrapped(Curator, "measure", noise_by_rows), PROGRAMS["release: Adaptive"]),
    Planted("draws counted by the rows", wrapped(Curator, "select", draws_by_rows), PROGRAMS["release: MWEM"]),
    Planted("a refusal by the rows", wrapped(Curator, "measure", refused_by_rows), PROGRAMS["session: default"]),
    Planted("a count in a message", wrapped(Curator, "measure", counted_in_the_message), using(*MEASURED)),
    Planted("a second pass over the rows", second_pass, PROGRAMS["session: default"]),
    Planted("an early exit in a statistic", wrapped(MaxError, "evaluate", early_exit), using(MaxError)),
    Planted("a count in a public event", wrapped(Curator, "measure", counted_in_a_note), PROGRAMS["session: SQL"]),
    Planted("a description that counts rows", described_by_rows, PROGRAMS["release: Adaptive"]),
    Planted("suppression by true counts", wrapped(Curator, "measure", exact_answer), PROGRAMS["session: default"]),
]
