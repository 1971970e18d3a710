"""The engine of a fit on a junction tree: log partition, marginals and covariances of the measured sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from reticent.errors import DomainError
from reticent.hypotheses.junction_tree.contraction import Tape
from reticent.hypotheses.junction_tree.log_space import LogEngine
from reticent.hypotheses.junction_tree.tree import JunctionTree


class FactoredEngine:
    """Exact inference for a fixed list of attribute sets: p(x) ~ exp(sum of parameters[c](x on set c)).

    Works in probability space; parameters that span more nats than float64 can multiply fall back to logarithms.
    `impossible` are cells of some sets where p is 0, whatever the parameters.
    """

    def __init__(
        self,
        tree: JunctionTree,
        measured_sets: Sequence[Sequence[str]],
        impossible: Mapping[tuple[str, ...], np.ndarray] | None = None,
    ) -> None:
        self.tree = tree
        self.sets = tuple(tree.positions(s) for s in measured_sets)
        self._ruled = {tree.positions(names): mask for names, mask in (impossible or {}).items()}
        self._shapes = [tree.shape_of(s) for s in self.sets]
        self._ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]
        self._tape = Tape(tree, self.sets, self._ruled)
        self._extreme = False
        self._logs: LogEngine | None = None

    @property
    def products(self) -> int:
        """Multiplications of one forward pass: the measure of an evaluation's work."""
        return self._tape.products

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """The log partition function and the marginal of every set."""
        flat = self._flat(parameters)
        try:
            log_partition, marginals = self._tape.evaluate(flat)
        except FloatingPointError:
            self._extreme = True
            return self._log_engine.evaluate(parameters)
        self._extreme = False
        return log_partition, self._shaped(marginals)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """At the parameters last evaluated: E_p[(w - E_p w) 1_c] for every set c, w(x) = sum of weights[c](x)."""
        flat = self._flat(weights)
        return self._log_engine.covary(weights) if self._extreme else self._shaped(self._tape.covary(flat))

    @property
    def _log_engine(self) -> LogEngine:
        if self._logs is None:
            self._logs = LogEngine(self.tree, self.sets, self._ruled)
        return self._logs

    def _flat(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        if [np.shape(a) for a in arrays] != self._shapes:
            raise DomainError(f"{len(arrays)} arrays do not match the {len(self._shapes)} measured sets' shapes")
        return np.concatenate([np.ravel(a) for a in arrays]) if arrays else np.empty(0)

    def _shaped(self, flat: np.ndarray) -> list[np.ndarray]:
        parts = np.split(flat, self._ends) if self.sets else []
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]
