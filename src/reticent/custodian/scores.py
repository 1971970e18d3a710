"""Exact scores that other tools print, computed from the true rows, for the custodian only.

Every score compares marginals of what was published with those of the table, on the declared codes. The definitions are
the published ones: column shapes and column pair trends as in SDMetrics' quality report, the k-marginal score of NIST's
challenges, and a classifier that is trained on what was published and tested on the true rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from reticent.custodian.evaluate import exact_rows, published_marginals
from reticent.domain import Domain, Numeric
from reticent.kernel.table import Table, exact_counts

MARGINAL_ORDER = 3
"""The k of the k-marginal score, as in NIST's challenges."""
MOST_SETS = 100
"""Sets that it is averaged over, as there; of more, so many are drawn with a fixed public seed."""
MOST_CELLS = 2**22
"""Of one table: larger ones are left out of every score."""
PREDICTORS = 3
"""Columns that a decision table looks at: with its label it has few cells even where columns have many codes."""
LONGEST_LABEL = 12
"""Codes of a label that is worth predicting."""
MOST_LABELS = 8


@dataclass(frozen=True)
class Prediction:
    """Accuracy of a decision table for one label on the true rows, by its training data."""

    label: str
    predictors: tuple[str, ...]
    published: float
    """Trained on what was published."""
    rows: float
    """Trained on the true rows themselves, those it is tested on: the most that any training can reach."""
    majority: float
    """Always saying the most frequent value of the true rows."""


@dataclass(frozen=True)
class EvaluationScores:
    """Exact and not private. Shares are from 0 to 1, the k-marginal score from 0 to 1000; larger is better."""

    column_shapes: float
    pair_trends: float | None
    """None in a table of one column."""
    k_marginal: float
    order: int
    """The k of the k-marginal score."""
    sets: int
    """Marginals that it is averaged over."""
    predictions: tuple[Prediction, ...]

    @property
    def quality(self) -> float:
        """The mean of shapes and trends, as SDMetrics reports it."""
        return self.column_shapes if self.pair_trends is None else (self.column_shapes + self.pair_trends) / 2

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for a page."""
        found = [("Column shapes (as SDMetrics)", f"{self.column_shapes:.1%}")]
        if self.pair_trends is not None:
            found.append(("Column pair trends (as SDMetrics)", f"{self.pair_trends:.1%}"))
        found.append(("Quality: the mean of these", f"{self.quality:.1%}"))
        found.append((f"NIST {self.order}-marginal score, {self.sets} sets", f"{self.k_marginal:.0f} of 1000"))
        for one in self.predictions:
            name = f"{one.label} predicted from {', '.join(one.predictors)}"
            trained = f"{one.published:.1%} right when trained on what is published, {one.rows:.1%} on the rows"
            found.append((name, f"{trained} themselves, {one.majority:.1%} by the most frequent value"))
        return found


def score(published: Any, table: Table) -> EvaluationScores:
    """Scores of a release, a session's snapshot or synthetic rows against the true rows; not private.

    Raises:
        QueryError: The table or what was published has no rows.
    """
    both = _Both(published, table)
    names = table.domain.names
    shapes = [_shape(table.domain, name, *both.marginals((name,))) for name in names]
    trends = [
        _trend(table.domain, sides, *both.marginals(sides))
        for sides in combinations(names, 2)
        if table.domain.cells(sides) <= MOST_CELLS
    ]
    order = min(MARGINAL_ORDER, len(names))
    sets = _drawn([s for s in combinations(names, order) if table.domain.cells(s) <= MOST_CELLS])
    distances = [_variation(*both.marginals(attributes)) for attributes in sets] or [1.0]
    labels = [name for name in names if 2 <= table.domain[name].size <= LONGEST_LABEL][:MOST_LABELS]
    predictions = [found for label in labels if (found := _predict(both, label)) is not None]
    return EvaluationScores(
        float(np.mean(shapes)),
        float(np.mean(trends)) if trends else None,
        1000 * (1 - float(np.mean(distances))),
        order,
        len(sets),
        tuple(predictions),
    )


class _Both:
    """Marginals of what was published and of the table, as shares."""

    def __init__(self, published: Any, table: Table) -> None:
        self.domain = table.domain
        self._published = published_marginals(published, table.domain)
        self._truth = exact_counts(table)
        self._total = exact_rows(table, "the table")

    def marginals(self, attributes: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        guess = np.asarray(self._published.marginals([attributes])[0], dtype=float)
        (truth,) = self._truth.marginals([attributes])
        return guess, np.asarray(truth, dtype=float) / self._total

    def by_label(self, label: str, others: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The same as a matrix: one row for each label code, one column for each combination of the other columns."""
        names = self.domain.canonical((label, *others))
        place, size = names.index(label), self.domain[label].size
        guess, truth = (np.moveaxis(cells, place, 0).reshape(size, -1) for cells in self.marginals(names))
        return guess, truth


def _drawn(sets: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    if len(sets) <= MOST_SETS:
        return sets
    chosen = np.random.default_rng(0).choice(len(sets), MOST_SETS, replace=False)
    return [sets[i] for i in sorted(chosen)]


def _variation(guess: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(guess - truth).sum()) / 2


def _shape(domain: Domain, name: str, guess: np.ndarray, truth: np.ndarray) -> float:
    """One minus the Kolmogorov-Smirnov distance for numbers and dates, one minus total variation for categories."""
    attribute = domain[name]
    if not isinstance(attribute, Numeric):
        return 1 - _variation(guess, truth)
    here, there = (np.cumsum(_normal(side[: attribute.known])) for side in (guess, truth))
    return 1 - float(np.abs(here - there).max())


def _trend(domain: Domain, sides: tuple[str, str], guess: np.ndarray, truth: np.ndarray) -> float:
    """One minus half the difference of correlations for two numbers, one minus total variation for other pairs."""
    first, second = (domain[name] for name in sides)
    if isinstance(first, Numeric) and isinstance(second, Numeric):
        here, there = (_correlation(first, second, cells) for cells in (guess, truth))
        if here is not None and there is not None:
            return 1 - abs(here - there) / 2
    return 1 - _variation(guess, truth)


def _correlation(down: Numeric, across: Numeric, cells: np.ndarray) -> float | None:
    """Pearson's correlation of the middles of bins; None if a column is constant."""
    known = _normal(cells[: down.known, : across.known])
    sums = (known.sum(axis=1), known.sum(axis=0))
    middles = ((side.cuts[:-1] + side.cuts[1:]) / 2 for side in (down, across))
    first, second = (middle - weights @ middle for middle, weights in zip(middles, sums, strict=True))
    spread = float(sums[0] @ first**2) * float(sums[1] @ second**2)
    return float(first @ known @ second) / float(np.sqrt(spread)) if spread > 0 else None


def _normal(shares: np.ndarray) -> np.ndarray:
    total = float(shares.sum())
    return shares / total if total > 0 else np.full(shares.shape, 1 / shares.size)


def _predict(both: _Both, label: str) -> Prediction | None:
    """A decision table trained on the publication: the likeliest label for each combination of the most informative
    columns.
    """
    others = [name for name in both.domain.names if name != label]
    told = {name: _information(both.by_label(label, (name,))[0]) for name in others}
    chosen: tuple[str, ...] = ()
    for name in sorted(others, key=lambda name: -told[name]):
        if len(chosen) < PREDICTORS and both.domain.cells((label, *chosen, name)) <= MOST_CELLS:
            chosen = (*chosen, name)
    if not chosen:
        return None
    guess, truth = both.by_label(label, chosen)
    right = truth[np.argmax(guess, axis=0), np.arange(truth.shape[1])].sum()
    return Prediction(label, chosen, float(right), float(truth.max(axis=0).sum()), float(truth.sum(axis=1).max()))


def _information(cells: np.ndarray) -> float:
    """Mutual information of the two sides of a table."""
    expected = cells.sum(axis=1, keepdims=True) * cells.sum(axis=0, keepdims=True)
    inside = (cells > 0) & (expected > 0)
    return float(np.sum(cells[inside] * np.log(cells[inside] / expected[inside])))
