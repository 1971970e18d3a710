"""What a fit believes beforehand: a product base, and shrinkage by order (spec release.md 3-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.impossible import impossible_cells
from reticent.errors import QueryError

if TYPE_CHECKING:
    from reticent.domain import Domain

__all__ = [
    "LARGEST_SCALE",
    "Base",
    "Prior",
    "collapse",
    "expected_from",
    "likeliest_scale",
    "product_base",
    "scale_losses",
    "soft_floor",
    "without_impossible",
]

MarginalValues = tuple[tuple[str, ...], np.ndarray, float]
"""An attribute set in domain order, its noisy marginal in fractions, the sd of each cell."""


@dataclass(frozen=True)
class Prior:
    """Standard deviations of log-linear parameters: of 1-, 2-, 3-way sets (then by halves); of queries."""

    scales: tuple[float, ...] = (3.0, 0.5, 0.15)
    query_scale: float = 1.0

    def __post_init__(self) -> None:
        for scale in (*self.scales, self.query_scale):
            if not 0 < scale < float("inf"):
                raise QueryError(f"a prior scale of {scale!r} must be positive and finite")
        if not self.scales:
            raise QueryError("a prior needs the scale of at least one order, for example (3.0, 0.5, 0.15)")

    def scale(self, order: int) -> float:
        order = max(order, 1)
        beyond = max(order - len(self.scales), 0)
        return self.scales[min(order, len(self.scales)) - 1] * 0.5**beyond

    def times(self, factor: float) -> Prior:
        """The same prior with every interaction (order two and more) wider or narrower."""
        return Prior((self.scales[0], *(s * factor for s in self.scales[1:])), self.query_scale)


LEAST_KEPT = 0.01
"""Of the expected weight of a cell that was measured empty or below."""
SWEEPS = 4
"""Of proportional fitting: the scales read off it are on a grid of factors of a quarter."""
LEAST_SCALE = 0.03
LARGEST_SCALE = 3.0
"""Of a parameter: one of that size changes a cell by a factor of twenty."""
SCALE_GRID = np.geomspace(LEAST_SCALE, LARGEST_SCALE, 21)
POOLED_GRID = np.geomspace(LEAST_SCALE / 10, 1000 * LARGEST_SCALE, 61)
"""Many sets together show weaker interactions than one by itself. The least moves a cell by less than a third of a
percent, which is as good as nothing; in the middle of those up to the largest scale of a parameter, where a drowned set
by itself leaves its scale, is a tenth. Beyond are departures of cells that hold many times what is expected of them:
two codes of a thousandth each that always come together make a cell a thousand times as large."""


def expected_from(base: Base, known: Mapping[tuple[str, ...], np.ndarray], names: tuple[str, ...]) -> np.ndarray:
    """The marginal with the known tables of sets inside it and no interaction beyond: proportional fitting on it."""
    table = base.table(names)
    inside: list[tuple[int, ...]] = []
    for order in range(len(names) - 1, 1, -1):
        for kept in combinations(range(len(names)), order):
            held = any(set(kept) <= set(wider) for wider in inside)
            if not held and tuple(names[i] for i in kept) in known:
                inside.append(kept)
    for _ in range(SWEEPS if len(inside) > 1 else len(inside)):
        for kept in inside:
            axes = tuple(axis for axis in range(len(names)) if axis not in kept)
            summed = np.maximum(table.sum(axis=axes), np.finfo(float).tiny)
            table = table * np.expand_dims(known[tuple(names[i] for i in kept)] / summed, axes)
    return table / table.sum()


def likeliest_scale(squares: np.ndarray, spread: np.ndarray, sd: float, grid: np.ndarray) -> float:
    """The s of the grid under which squared distances of variance `spread s^2 + sd^2` are likeliest."""
    return float(grid[int(np.argmin(scale_losses(squares, spread, sd, grid)))])


def scale_losses(squares: np.ndarray, spread: np.ndarray, sd: float, grid: np.ndarray) -> np.ndarray:
    """Minus twice the log-likelihood of every scale of the grid, without its constant."""
    from reticent.hypotheses.fitting.prior_kernels import add_scale_losses

    losses = np.zeros(grid.size)
    add_scale_losses(np.ravel(squares), np.ravel(spread), float(sd * sd), grid, losses)
    return losses


def soft_floor(values: np.ndarray, sd: float) -> np.ndarray:
    """Positive values near max(value, 0) that never fall below half an sd: noise cannot rule a code out."""
    positive = np.maximum(values, 0.0)
    return (positive + np.hypot(positive, sd)) / 2


def collapse(marginals: Iterable[MarginalValues], attributes: tuple[str, ...]) -> tuple[np.ndarray, float] | None:
    """The inverse-variance mean of all marginals that cover the attributes, summed down to them, and its sd."""
    total: np.ndarray | None = None
    weight = 0.0
    for members, values, sd in marginals:
        if not set(attributes) <= set(members):
            continue
        dropped = tuple(i for i, name in enumerate(members) if name not in attributes)
        share = 1.0 / (sd * sd * prod(values.shape[i] for i in dropped))
        summed = share * values.sum(axis=dropped)
        total = summed if total is None else total + summed
        weight += share
    return None if total is None else (total / weight, weight**-0.5)


class Base(dict[str, np.ndarray]):
    """One distribution per attribute, and the model without interactions that they make."""

    def table(self, names: Sequence[str]) -> np.ndarray:
        """What the model expects of some attributes, in the domain's order."""
        table = np.ones(())
        for name in names:
            table = np.multiply.outer(table, self[name])
        return table


class RuledBase(Base):
    """The same where rules exclude records: vectors whose product, cut to what is possible, has the distributions.

    Proportional fitting on a junction tree of the rules. What the rules alone make two attributes have in common is
    then expected of them, and no interaction.
    """

    def __init__(self, domain: Domain, targets: Mapping[str, np.ndarray]) -> None:
        from reticent.hypotheses.junction_tree.engine import FactoredEngine
        from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
        from reticent.hypotheses.junction_tree.tree import JunctionTree, rule_masks

        singles = [(name,) for name in targets]
        rules = rule_masks(domain)
        engine = FactoredEngine(JunctionTree(domain, [*singles, *rules]), singles, rules)
        logs = [np.log(vector) for vector in targets.values()]
        wanted = list(targets.values())
        touched = [i for i, name in enumerate(targets) if any(name in names for names in rules)]
        for _ in range(RULED_SWEEPS):
            farthest = 0.0
            for i in touched:
                found = engine.evaluate(logs)[1][i]
                farthest = max(farthest, float(np.abs(found - wanted[i]).max()))
                ratio = np.where(found > 0, wanted[i] / np.maximum(found, np.finfo(float).tiny), 1.0)
                # What measurements say may contradict the rules: no step is taken beyond reason.
                step = np.clip(np.log(ratio), -LARGEST_STEP, LARGEST_STEP)
                logs[i] = np.clip(logs[i] + step, -LARGEST_LOG, LARGEST_LOG)
            if farthest < NEARLY:
                break
        super().__init__({name: np.exp(log) for name, log in zip(targets, logs, strict=True)})
        self._model = FactoredHypothesis(domain, dict(zip(singles, logs, strict=True)))

    def table(self, names: Sequence[str]) -> np.ndarray:
        return self._model.marginal(names)


RULED_SWEEPS = 50
"""Of proportional fitting to single attributes; rules that measurements contradict never let it end by itself."""
NEARLY = 1e-6
"""Distance from the distributions at which it ends: below the noise of any table that fits a budget of 1e6."""
LARGEST_STEP, LARGEST_LOG = 3.0, 50.0


def without_impossible(domain: Domain, marginals: Iterable[MarginalValues]) -> list[MarginalValues]:
    """Zero in the cells that rules exclude: what was measured there is noise alone if the rules are true."""
    known = list(marginals)
    if not domain.impossible:
        return known
    masks = [impossible_cells(domain, names) for names, _, _ in known]
    return [
        (names, values if mask is None else np.where(mask, 0.0, values), sd)
        for (names, values, sd), mask in zip(known, masks, strict=True)
    ]


def product_base(domain: Domain, marginals: Iterable[MarginalValues]) -> Base:
    """One distribution per attribute; uniform where nothing was measured."""
    known = without_impossible(domain, marginals)
    base = Base()
    for name, size in zip(domain.names, domain.shape, strict=True):
        measured = collapse(known, (name,))
        vector = np.full(size, 1.0 / size) if measured is None else soft_floor(*measured)
        base[name] = vector / vector.sum()
    return RuledBase(domain, base) if domain.impossible else base
