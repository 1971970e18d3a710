"""Replicates: distributions that might have been published instead, stored as density ratios to the published one.

A ratio is exp of a sum of small tables, one for each attribute set of the fitted model. A replicate of a universe of
millions of cells thus takes as many numbers as its model has parameters, at two bytes each. All of it is public.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.impossible import impossible_cells
from reticent.errors import QueryError
from reticent.hypotheses.base import average, form_of
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.dense.marginal_tree import marginal_tree
from reticent.hypotheses.support import SupportHypothesis

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Hypothesis
    from reticent.queries.forms import Dense, Product
    from reticent.queries.linear import Linear

__all__ = ["LARGEST_LOG_RATIO", "RECORDS", "OneReplicate", "Replicates", "difference", "drawn_table", "tilted_further"]

Set = tuple[str, ...]

RECORDS: Set = ()
"""Stands for the records of a support, for which one ratio per record is stored."""
LARGEST_LOG_RATIO = 60000.0
"""The largest logarithm: finite in two bytes, and beyond any ratio that matters."""
NEGLIGIBLE = 1e-9
"""A model describes the weights if their logarithms agree up to this."""
KEPT_CELLS = 1 << 24
"""Bytes of cached marginals of replicates: 128 MiB."""
SHARED_CELLS = 1 << 16
"""Marginals of up to this size are computed for all replicates at once, larger ones for each separately."""


def drawn_table(hypothesis: Hypothesis, records: int, generator: np.random.Generator) -> Hypothesis:
    """A table of independent records drawn from the hypothesis, as a distribution."""
    if isinstance(hypothesis, DenseHypothesis):
        cells = hypothesis.probabilities()
        counts = generator.multinomial(records, _shares(cells.ravel())).astype(np.float64)
        return DenseHypothesis(hypothesis.domain, counts.reshape(cells.shape))
    if isinstance(hypothesis, SupportHypothesis):
        counts = generator.multinomial(records, _shares(hypothesis.weights)).astype(np.float64)
        return SupportHypothesis(hypothesis.domain, hypothesis.codes, counts)
    return SupportHypothesis(hypothesis.domain, hypothesis.sample(records, generator))


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


def difference(published: Hypothesis, refitted: Hypothesis) -> dict[Set, np.ndarray]:
    """The logarithm of refitted over published, up to a constant, as a sum of tables by attribute set."""
    if isinstance(published, SupportHypothesis) and isinstance(refitted, SupportHypothesis):
        return {RECORDS: _log_ratio(refitted.weights, published.weights)}
    if not isinstance(published, DenseHypothesis) or not isinstance(refitted, DenseHypothesis):
        raise QueryError(
            f"replicates of a {published.kind} hypothesis are not supported; only of dense and support ones"
        )
    before, after = published.model, refitted.model
    if before is not None and after is not None and before.sets == after.sets and _describes(published, refitted):
        pairs = zip(before.sets, before.potentials, after.potentials, strict=True)
        return {names: new - old for names, old, new in pairs}
    return {published.domain.names: _log_ratio(refitted.probabilities(), published.probabilities())}


def tilted_further(
    base: Hypothesis, found: Mapping[Set, np.ndarray], factors: Mapping[Set, np.ndarray]
) -> dict[Set, np.ndarray]:
    """A difference with additional logarithms of factors by attribute set; on records they are summed."""
    if isinstance(base, SupportHypothesis):
        added = sum(np.ravel(table)[base.cells(names)] for names, table in factors.items())
        return {RECORDS: found[RECORDS] + added}
    return {**found, **{names: found.get(names, 0.0) + table for names, table in factors.items()}}


def _log_ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Zero where both vanish."""
    tiny = np.finfo(np.float64).tiny
    return np.log(np.maximum(above, tiny)) - np.log(np.maximum(below, tiny))


def _describes(*hypotheses: DenseHypothesis) -> bool:
    """Whether the weights are still those of the models, and no update followed the fits."""
    for hypothesis in hypotheses:
        model = hypothesis.model
        assert model is not None, "asked only of fitted ones"
        logits = _expanded(hypothesis.domain, model.sets, model.potentials)
        weights = hypothesis.probabilities()
        impossible = impossible_cells(hypothesis.domain, hypothesis.domain.names)
        if impossible is not None:
            np.copyto(logits, -np.inf, where=impossible)
        logits -= logits.max()
        cells = np.exp(logits)
        if np.abs(cells / cells.sum() - weights).max() > NEGLIGIBLE * weights.max():
            return False
    return True


def _expanded(domain: Domain, sets: Sequence[Set], tables: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of the tables on every cell of the universe."""
    axis_sets = tuple(tuple(domain.index(name) for name in names) for names in sets)
    return marginal_tree(domain.shape, axis_sets).expand(tables)


@dataclass(frozen=True, eq=False)
class Replicates:
    """`count` distributions, each `base(x) exp(sum of its tables at x)`, normalised.

    The spread of a statistic over them estimates how far the published value may be from the population's, including
    noise, shrinkage and the sampling of records (spec population.md 1).
    """

    base: Hypothesis
    seed: int
    sets: tuple[Set, ...]
    tables: tuple[np.ndarray, ...]
    """Half-precision, `[replicate, ...]`, one array for each set."""
    _kept: OrderedDict[Set, np.ndarray] = field(default_factory=OrderedDict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def of(cls, base: Hypothesis, seed: int, differences: Sequence[dict[Set, np.ndarray]]) -> Replicates:
        """Create replicates from their differences; a set that a replicate lacks gets zeros."""
        known = {names: table for found in differences for names, table in found.items()}
        sets = tuple(known)
        tables = tuple(
            np.stack([_half(found.get(names, np.zeros(known[names].shape))) for found in differences]) for names in sets
        )
        return cls(base, seed, sets, tables)

    def __repr__(self) -> str:
        return f"<Replicates: {self.count} of a {self.base.kind} hypothesis, {self.bytes / 2**20:.3g} MiB>"

    @property
    def count(self) -> int:
        return len(self.tables[0])

    @property
    def bytes(self) -> int:
        return sum(table.nbytes for table in self.tables)

    @property
    def domain(self) -> Domain:
        return self.base.domain

    def hypothesis(self, index: int) -> Hypothesis:
        """One replicate as a distribution."""
        tables = [table[index].astype(np.float64) for table in self.tables]
        if isinstance(self.base, SupportHypothesis):
            return SupportHypothesis(self.domain, self.base.codes, _tilted(self.base.weights, tables[0]))
        assert isinstance(self.base, DenseHypothesis), "no others are kept"
        ratio = _expanded(self.domain, self.sets, tables)
        return DenseHypothesis(self.domain, _tilted(self.base.probabilities(), ratio))

    def __iter__(self) -> Iterator[OneReplicate]:
        return (OneReplicate(self, index) for index in range(self.count))

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        """The marginal of every replicate, `[replicate, ...]`, other axes in domain order; cached."""
        return self.marginals([attributes])[0]

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Many marginals in one pass over the replicates."""
        wanted = [self.domain.canonical(names) for names in sets]
        with self._lock:
            found = {names: self._kept[names] for names in wanted if names in self._kept}
            missing = [names for names in dict.fromkeys(wanted) if names not in found]
            if missing:
                each = [self.hypothesis(index).marginals(missing) for index in range(self.count)]
                for place, names in enumerate(missing):
                    found[names] = np.stack([marginals[place] for marginals in each])
                    self._keep(names, found[names])
        return [found[names] for names in wanted]

    def ratios(self, codes: np.ndarray) -> np.ndarray:
        """The density of each replicate relative to the published one at given records, `[record, replicate]`."""
        codes = np.asarray(codes)
        if isinstance(self.base, SupportHypothesis):
            logs = self.tables[0][:, _places(self.base.codes, codes)].astype(np.float64).T
        else:
            logs = np.zeros((len(codes), self.count))
            for names, table in zip(self.sets, self.tables, strict=True):
                index = tuple(codes[:, self.domain.index(name)] for name in names)
                logs += table[:, *index].T
        # The mean of a ratio under the published distribution is one.
        scales = np.array([self._log_mean(index) for index in range(self.count)])
        return np.exp(np.minimum(logs - scales, 700.0))

    def systematic(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Records of the published distribution, each within one of its expected number."""
        assert isinstance(self.base, (DenseHypothesis, SupportHypothesis)), "no others are kept"
        return self.base.systematic(rows, generator)

    def shares(self, codes: np.ndarray) -> np.ndarray:
        """The published probability of given records."""
        codes = np.asarray(codes)
        if isinstance(self.base, SupportHypothesis):
            return _shares(self.base.weights)[_places(self.base.codes, codes)]
        assert isinstance(self.base, DenseHypothesis), "no others are kept"
        return self.base.probabilities()[tuple(codes.T)]

    def _log_mean(self, index: int) -> float:
        """log E[exp(sum of tables)] under the published distribution."""
        tables = [table[index].astype(np.float64) for table in self.tables]
        if isinstance(self.base, SupportHypothesis):
            weights, logs = self.base.weights, tables[0]
        else:
            assert isinstance(self.base, DenseHypothesis), "no others are kept"
            weights = self.base.probabilities().ravel()
            logs = _expanded(self.domain, self.sets, tables).ravel()
        peak = float(logs[weights > 0].max())
        return peak + float(np.log(np.sum(weights * np.exp(np.minimum(logs - peak, 0.0)))))

    def _keep(self, names: Set, marginals: np.ndarray) -> None:
        marginals.setflags(write=False)
        self._kept[names] = marginals
        while sum(kept.size for kept in self._kept.values()) > KEPT_CELLS and len(self._kept) > 1:
            self._kept.popitem(last=False)


class OneReplicate:
    """One replicate with the interface of a snapshot; small marginals are shared by all replicates."""

    def __init__(self, replicates: Replicates, index: int) -> None:
        self._replicates, self._index = replicates, index

    @property
    def domain(self) -> Domain:
        return self._replicates.domain

    def expect(self, query: Linear | Product | Dense) -> float:
        form = form_of(query, self.domain)
        if self.domain.cells(form.attributes) > SHARED_CELLS:
            return self.thaw().expect(form)
        return average(form, self.marginal(form.attributes))

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        """Axes in domain order."""
        return self.marginals([attributes])[0]

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        if any(self.domain.cells(names) > SHARED_CELLS for names in sets):
            return self.thaw().marginals(sets)
        return [found[self._index] for found in self._replicates.marginals(sets)]

    def thaw(self) -> Hypothesis:
        """An independent hypothesis."""
        return self._replicates.hypothesis(self._index)


def _half(table: np.ndarray) -> np.ndarray:
    """Values in two bytes each. A constant does not affect a ratio; without it small differences keep all their
    digits.
    """
    table = table - np.median(table)
    return np.clip(table, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).astype(np.float16)


def _tilted(weights: np.ndarray, logs: np.ndarray) -> np.ndarray:
    peak = float(logs[weights > 0].max())
    return weights * np.exp(np.minimum(logs - peak, 0.0))


def _places(records: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The position of each row of codes among the records; equal records have equal ratios."""
    both = np.concatenate([records, codes.astype(records.dtype)])
    _, inverse = np.unique(both, axis=0, return_inverse=True)
    first = np.full(int(inverse.max()) + 1, -1)
    first[inverse[: len(records)]] = np.arange(len(records))
    places = first[inverse[len(records) :]]
    if (places < 0).any():
        raise QueryError("a row is not among the records of this release; draw rows with independent=True")
    return places
