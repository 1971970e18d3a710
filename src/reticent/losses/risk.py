"""Risks: losses averaged over a weighted marginal, with value, gradient and Hessian computed by groups of cells."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from reticent.losses.features import FeatureBlock, block_product, spread_over
from reticent.losses.public import Problem
from reticent.queries.base import domain_order

LARGEST_TENSOR = 2**22
"""Cells of a loss' own marginal up to which its risk is computed on a tensor."""


class Risk(Protocol):
    """The mean loss as a function of theta on a ball of the given `radius`."""

    problem: Problem

    def value(self, theta: np.ndarray) -> float: ...

    def gradient(self, theta: np.ndarray) -> np.ndarray: ...

    def hessian(self, theta: np.ndarray) -> np.ndarray: ...


def rounded_risk(risk: Risk, height: float) -> Risk:
    """The same weights under a loss with smoothed kinks (`Problem.rounded`)."""
    other = copy.copy(risk)
    other.problem = risk.problem.rounded(height)
    return other


class QuadraticRisk:
    """`theta' G theta - 2 c' theta + s + ridge/2 |theta|^2`: squared loss and means need pairs of attributes, or
    triples with a label that may be missing."""

    def __init__(self, problem: Problem, gram: np.ndarray, cross: np.ndarray, second: float) -> None:
        self.problem = problem
        self.gram, self.cross, self.second = gram, cross, second

    @classmethod
    def of_marginals(
        cls, problem: Problem, marginals: Callable[[Sequence[tuple[str, ...]]], Sequence[np.ndarray]], total: float
    ) -> QuadraticRisk:
        """The risk from marginals that sum to `total`: all pairs of blocks, and each block with the label."""
        gram, cross, second = moments(problem, marginals)
        return cls(problem, gram / total, cross / total, second / total)

    def value(self, theta: np.ndarray) -> float:
        ridge = self.problem.strong_convexity / 2 * float(theta @ theta)
        return float(theta @ self.gram @ theta - 2 * self.cross @ theta) + self.second + ridge

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return 2 * (self.gram @ theta - self.cross) + self.problem.strong_convexity * theta

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        return 2 * self.gram + self.problem.strong_convexity * np.eye(len(self.cross))


def moment_sets(problem: Problem) -> list[tuple[str, ...]]:
    """The attribute sets whose marginals determine all second moments."""
    design = problem.design
    label = () if design.label is None else (design.label,)
    sets = {domain_order(design.domain, {*a.attributes, *label}) for a in design.blocks} | {label}
    if problem.loss.kind != "mean":
        holes = _label_with_holes(problem)
        sets |= {
            domain_order(design.domain, {*a.attributes, *b.attributes, *holes})
            for a in design.blocks
            for b in design.blocks
        }
    return sorted(sets)


def _label_with_holes(problem: Problem) -> tuple[str, ...]:
    """The label if some of its codes are unusable; moments of features then need its marginal too."""
    design = problem.design
    return () if design.label is None or design.labelled.all() else (design.label,)


def moments(
    problem: Problem, marginals: Callable[[Sequence[tuple[str, ...]]], Sequence[np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Sums over labelled records of `v v'`, `v y` and `y^2`; for a mean, zero, half the sum of v and zero."""
    design = problem.design
    sets = moment_sets(problem)
    found = dict(zip(sets, marginals(sets), strict=True))
    blocks, label = design.blocks, () if design.label is None else (design.label,)
    outcome = FeatureBlock(
        label, (design.label_values * design.labelled).reshape(*design.domain.shape_of(label), 1), ((),)
    )
    holes = _label_with_holes(problem)

    def product(one: FeatureBlock, other: FeatureBlock) -> np.ndarray:
        union = domain_order(design.domain, {*one.attributes, *other.attributes})
        held = domain_order(design.domain, {*union, *holes})
        weights = found[held]
        if held != union:
            place = held.index(holes[0])
            weights = np.compress(design.labelled, weights, axis=place).sum(axis=place)
        return block_product(one, other, union, weights)

    cross = np.concatenate([product(block, outcome)[:, 0] for block in blocks])
    if problem.loss.kind == "mean":
        return np.zeros((design.dimension, design.dimension)), cross / 2, 0.0
    rows: list[list[np.ndarray]] = [[np.empty(0)] * len(blocks) for _ in blocks]
    for i, one in enumerate(blocks):
        for j in range(i, len(blocks)):
            rows[i][j] = product(one, blocks[j])
            rows[j][i] = rows[i][j].T
    return np.block(rows), cross, float(product(outcome, outcome)[0, 0])


class TensorRisk:
    """Any loss on the dense marginal of its own attributes (spec 8.5); margins are sums of small tables."""

    def __init__(self, problem: Problem, weights: np.ndarray) -> None:
        self.problem = problem
        design = problem.design
        weights = np.asarray(weights, dtype=np.float64)
        self._names = tuple(name for name in design.attributes if name != design.label)
        # The label first, its equal values merged: sums over it are then whole-array additions.
        distinct = design.label_choices
        by_code = (
            weights[None] if design.label is None else np.moveaxis(weights, design.attributes.index(design.label), 0)
        )
        merged = np.zeros((len(distinct), *by_code.shape[1:]))
        for code in np.flatnonzero(design.labelled):
            merged[np.searchsorted(distinct, design.label_values[code])] += by_code[code]
        self._weights = merged
        self._labels = distinct.reshape(-1, *(1,) * len(self._names))
        self._shape = merged.shape[1:]

    def margins(self, theta: np.ndarray) -> np.ndarray:
        """`[margin, codes...]`: <theta, features> for every combination of feature codes."""
        parts = [spread_margins(self.problem, part, self._names) for part in by_output(self.problem, theta)]
        return np.stack([np.broadcast_to(part, self._shape) for part in parts])

    def value(self, theta: np.ndarray) -> float:
        losses = self.problem.loss.values(self.margins(theta)[:, None], self._labels)
        return float(np.sum(self._weights * losses)) + self.problem.strong_convexity / 2 * float(theta @ theta)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        pull = self.problem.loss.pull(self.margins(theta)[:, None], self._labels, self._weights)
        return self._gathered(pull) + self.problem.strong_convexity * theta

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """`[margin, label, codes...]`: the gradient of f for every label value and combination of feature codes."""
        return self.problem.loss.slopes(self.margins(theta)[:, None], self._labels)

    def gather(self, slopes: np.ndarray) -> np.ndarray:
        """The sum over cells of weight * slopes * features, for slopes such as `slopes` returns."""
        return self._gathered((self._weights * slopes).sum(axis=1))

    def _gathered(self, pulls: np.ndarray) -> np.ndarray:
        # One attribute after the other: what this errs by is then counted in codes, not in cells.
        parts = []
        for pull in pulls:
            sums: dict[tuple[str, ...], np.ndarray] = {self._names: pull}
            for block in self._blocks:
                own = tuple(name for name in self._names if name in block.attributes)
                parts.append(np.ravel(_summed(sums, own)) @ block.table.reshape(-1, block.width))
        return np.concatenate(parts)

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        bends = self.problem.loss.bend(self.margins(theta)[:, None], self._labels, self._weights)
        rows = [[self._moments(bend) for bend in row] for row in bends]
        return np.block(rows) + self.problem.strong_convexity * np.eye(self.problem.dimension)

    def _moments(self, weights: np.ndarray) -> np.ndarray:
        """Second moments of the features under these weights of feature codes."""
        blocks = self._blocks
        rows: list[list[np.ndarray]] = [[np.empty(0)] * len(blocks) for _ in blocks]
        sums: dict[tuple[str, ...], np.ndarray] = {self._names: weights}
        for i, one in enumerate(blocks):
            for j in range(i, len(blocks)):
                union = tuple(n for n in self._names if n in {*one.attributes, *blocks[j].attributes})
                rows[i][j] = block_product(one, blocks[j], union, _summed(sums, union))
                rows[j][i] = rows[i][j].T
        return np.block(rows)

    def listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every cell's features, the weights of its labels, and these labels: `[cell, column]`, `[label, cell]`."""
        names, shape = self._names, self._shape
        tables = [spread_over(b.table.reshape(*b.table.shape[:-1], b.width), b.attributes, names) for b in self._blocks]
        parts = [np.broadcast_to(table, (*shape, table.shape[-1])).reshape(-1, table.shape[-1]) for table in tables]
        weights = self._weights.reshape(len(self._weights), -1)
        return np.concatenate(parts, axis=1), np.ascontiguousarray(weights), self._labels.ravel()

    @property
    def _blocks(self) -> tuple[FeatureBlock, ...]:
        return self.problem.design.blocks

    def feature_squares(self) -> np.ndarray:
        """The squared norm of the features for every combination of feature codes."""
        total = np.zeros((1,) * len(self._names))
        for block in self._blocks:
            total = total + _spread(np.square(block.table).sum(axis=-1), block.attributes, self._names)
        return np.broadcast_to(total, self._shape)


def spread_margins(problem: Problem, theta: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """<theta, features> with one axis per name, of length one for attributes without influence."""
    total = np.zeros((1,) * len(names))
    parts = zip(problem.design.blocks, problem.design.split(theta), strict=True)
    for block, part in sorted(parts, key=lambda pair: pair[0].table.size):
        total = total + _spread(block.table @ part, block.attributes, names)
    return total


def _spread(table: np.ndarray, attributes: Sequence[str], names: Sequence[str]) -> np.ndarray:
    sizes = dict(zip(attributes, table.shape, strict=True))
    return table.reshape([sizes.get(name, 1) for name in names])


def loss_tensor(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """The loss of every record of the universe, over the loss' own attributes."""
    ridge = problem.strong_convexity / 2 * float(theta @ theta)
    labels, labelled = _label_axes(problem)
    losses = problem.loss.values(_universe_margins(problem, theta), labels)
    return np.broadcast_to(losses * labelled + ridge, problem.design.shape)


def certificate_tensor(problem: Problem, there: np.ndarray, here: np.ndarray) -> np.ndarray:
    """<there - here, gradient of the loss at here> for every record: the paper's dual certificate (001, Fig. 3)."""
    ahead = _universe_margins(problem, there - here)
    ridge = problem.strong_convexity * float((there - here) @ here)
    labels, labelled = _label_axes(problem)
    slopes = problem.loss.slopes(_universe_margins(problem, here), labels)
    return np.broadcast_to((slopes * ahead).sum(axis=0) * labelled + ridge, problem.design.shape)


def _universe_margins(problem: Problem, theta: np.ndarray) -> np.ndarray:
    parts = [spread_margins(problem, part, problem.attributes) for part in by_output(problem, theta)]
    return np.stack(np.broadcast_arrays(*parts))


def by_output(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """The parameters of each margin, one row each."""
    return np.asarray(theta, dtype=np.float64).reshape(problem.outputs, -1)


def _label_axes(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Label values and a mask of usable labels, shaped to broadcast along the label axis."""
    design = problem.design
    sizes = [len(design.label_values) if name == design.label else 1 for name in design.attributes]
    return design.label_values.reshape(sizes), design.labelled.reshape(sizes)


def _summed(sums: dict[tuple[str, ...], np.ndarray], wanted: tuple[str, ...]) -> np.ndarray:
    """The sum over all other attributes, computed from the smallest cached sum that contains the requested ones."""
    if wanted not in sums:
        held = min((names for names in sums if set(wanted) <= set(names)), key=lambda names: sums[names].size)
        tensor = sums[held]
        # one axis at a time, first ones first: each pass shrinks the next and stays contiguous
        names = list(held)
        for name in held:
            if name not in wanted:
                tensor = tensor.sum(axis=names.index(name))
                names.remove(name)
                sums[tuple(names)] = tensor
    return sums[wanted]


class ListedRisk:
    """The same on a list of weighted records, for attribute sets whose tensor would be too large."""

    def __init__(self, problem: Problem, codes: np.ndarray, weights: np.ndarray) -> None:
        """`codes` has one row per record, columns in the order of `problem.attributes`."""
        design = problem.design
        columns = dict(zip(design.attributes, np.asarray(codes).T, strict=True))
        self.problem = problem
        codes_of_label = 0 if design.label is None else columns[design.label]
        self._labels = np.atleast_1d(design.label_values[codes_of_label])
        self._labelled = design.labelled[codes_of_label]
        self._weights = np.asarray(weights, dtype=np.float64) * self._labelled
        self._cells = [
            _flat([columns[name] for name in b.attributes], b.table.shape[:-1], len(self._weights))
            for b in design.blocks
        ]
        self._tables = [b.table.reshape(-1, b.width) for b in design.blocks]

    def margins(self, theta: np.ndarray) -> np.ndarray:
        """`[margin, record]`."""
        return np.stack([self._margin(part) for part in by_output(self.problem, theta)])

    def _margin(self, theta: np.ndarray) -> np.ndarray:
        parts = self.problem.design.split(theta)
        return sum(
            ((table @ part)[cells] for cells, table, part in zip(self._cells, self._tables, parts, strict=True)),
            start=np.zeros(1),
        )

    def losses(self, theta: np.ndarray) -> np.ndarray:
        """The loss of each record, independent of its weight: `loss_tensor` on the records."""
        ridge = self.problem.strong_convexity / 2 * float(theta @ theta)
        values = self.problem.loss.values(self.margins(theta), self._labels) * self._labelled + ridge
        return np.broadcast_to(values, self._weights.shape)

    def certificates(self, there: np.ndarray, here: np.ndarray) -> np.ndarray:
        """<there - here, gradient at here> of each record: `certificate_tensor` on the records."""
        ridge = self.problem.strong_convexity * float((there - here) @ here)
        slopes = self.problem.loss.slopes(self.margins(here), self._labels) * self._labelled
        return np.broadcast_to((slopes * self.margins(there - here)).sum(axis=0) + ridge, self._weights.shape)

    def value(self, theta: np.ndarray) -> float:
        losses = self.problem.loss.values(self.margins(theta), self._labels)
        return float(np.sum(self._weights * losses)) + self.problem.strong_convexity / 2 * float(theta @ theta)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        pulls = self._weights * self.problem.loss.slopes(self.margins(theta), self._labels)
        parts = [
            np.bincount(cells, pull, minlength=len(table)) @ table
            for pull in np.broadcast_to(pulls, (self.problem.outputs, *self._weights.shape))
            for cells, table in zip(self._cells, self._tables, strict=True)
        ]
        return np.concatenate(parts) + self.problem.strong_convexity * theta

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        bends = self._weights * self.problem.loss.curvatures(self.margins(theta), self._labels)
        count = self.problem.outputs
        rows = [[self._moments(bend) for bend in row] for row in bends.reshape(count, count, -1)]
        return np.block(rows) + self.problem.strong_convexity * np.eye(self.problem.dimension)

    def _moments(self, weights: np.ndarray) -> np.ndarray:
        count = len(self._tables)
        rows: list[list[np.ndarray]] = [[np.empty(0)] * count for _ in range(count)]
        for i in range(count):
            for j in range(i, count):
                a, b = len(self._tables[i]), len(self._tables[j])
                joint = np.bincount(self._cells[i] * b + self._cells[j], weights, minlength=a * b).reshape(a, b)
                rows[i][j] = self._tables[i].T @ joint @ self._tables[j]
                rows[j][i] = rows[i][j].T
        return np.block(rows)


def _flat(columns: Sequence[np.ndarray], shape: tuple[int, ...], length: int) -> np.ndarray:
    """Codes of several attributes as one index."""
    index = np.zeros(length, dtype=np.int64)
    for column, size in zip(columns, shape, strict=True):
        index = index * size + column
    return index
