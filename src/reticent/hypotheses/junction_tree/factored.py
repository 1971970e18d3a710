"""A distribution over any number of attributes, p(x) ~ exp(sum of factors on small sets), exact on a junction tree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from reticent.errors import CapacityError, DomainError
from reticent.hypotheses.base import (
    FitReport,
    Measurement,
    average,
    binary_eta,
    finite_target,
    form_of,
    pack,
    solve_tilt,
    unpack,
)
from reticent.hypotheses.junction_tree.crossing import Memo, across
from reticent.hypotheses.junction_tree.elimination import DEFAULT_LIMIT
from reticent.hypotheses.junction_tree.engine import FactoredEngine
from reticent.hypotheses.junction_tree.propagation import Propagation, ancestral_rows
from reticent.hypotheses.junction_tree.tree import JunctionTree, rule_masks
from reticent.queries.forms import MAX_CELLS, Product

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.fitting.loglinear import LogLinear
    from reticent.queries.forms import Dense
    from reticent.queries.linear import Linear

    Query = Linear | Product | Dense

__all__ = ["FactoredHypothesis"]

# Less than this share of the weight counts as none: raising it again would overflow.
_NOTHING = 2.0**-900
# A one-way probability of zero becomes this: nothing any sum could notice, yet a finite logarithm.
_FLOOR = 1e-40
# A 0/1 product whose box is a smaller share of its clique is summed there, without the marginal.
_SMALL_BOX = 1 / 16
_KEPT_MARGINALS = 256
_KEPT_CELLS = 1 << 16


class FactoredHypothesis:
    """Factors on attribute sets, and the junction tree on which their distribution is exact.

    Answers are functions of the factors alone, not of earlier questions: equal states give equal bits. A new attribute
    set rebuilds the tree unless a clique contains it. More than `limit` clique cells are refused first, with a
    CapacityError that leaves the hypothesis unchanged.
    """

    kind = "factored"

    def __init__(
        self,
        domain: Domain,
        factors: Mapping[tuple[str, ...], np.ndarray] | None = None,
        *,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._domain = domain
        self._limit = limit
        self._factors: dict[tuple[int, ...], np.ndarray] = {}
        for names, factor in (factors or {}).items():
            positions = self._positions(names)
            if positions in self._factors:
                raise DomainError(f"two factors on ({', '.join(names)}): add them up first")
            self._factors[positions] = np.array(factor, dtype=np.float64)
        self._rule_out()
        self._model: LogLinear | None = None
        self._kept: dict[tuple[int, ...], np.ndarray] = {}
        self._build(tuple(self._factors))

    @classmethod
    def product(cls, domain: Domain, one_ways: Mapping[str, np.ndarray], *, limit: int = DEFAULT_LIMIT) -> Self:
        """Independent attributes with the given distributions; uniform where none is given."""
        logs = {}
        for name, weights in one_ways.items():
            weights = np.asarray(weights, dtype=np.float64)
            logs[(name,)] = np.log(np.maximum(weights / weights.sum(), _FLOOR))
        return cls(domain, logs, limit=limit)

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def log_size(self) -> float:
        return math.log(self._domain.size)

    @property
    def tree(self) -> JunctionTree:
        return self._tree

    @property
    def factors(self) -> dict[tuple[str, ...], np.ndarray]:
        """Logarithms by attribute set; copies."""
        return {self._names(positions): factor.copy() for positions, factor in self._factors.items()}

    def hypothetical_size(self, attributes: Sequence[str]) -> float:
        """log2 of the clique cells this hypothesis would hold after an update on these attributes."""
        positions = self._positions(attributes)
        if self._tree.host(positions) is not None:
            return self._tree.log2_cells
        return self._tree.with_set(positions, held=self._factors, limit=None).log2_cells

    def expect(self, query: Query) -> float:
        """q(p): inside a clique from its belief; for products across cliques by messages, without a joint table."""
        form = form_of(query, self._domain)
        positions = self._positions(form.attributes)
        clique = self._tree.host(positions)
        if clique is None and isinstance(form, Product):
            vectors = dict(zip(positions, form.vectors, strict=True))
            return float(across(self._beliefs, vectors, (), limit=self._reading_limit))
        if clique is not None and isinstance(form, Product):
            box = self._small_box(form, positions, clique)
            if box is not None:
                return box
        return average(form, self._marginal(positions))

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        return self._marginal(self._positions(attributes)).copy()

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Many marginals at once; those that no clique contains share messages."""
        memo: Memo = {}
        return [self._marginal(self._positions(attributes), memo).copy() for attributes in sets]

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        return ancestral_rows(self._beliefs, rows, generator, systematic=False)

    def systematic(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Rows whose clique marginals are closer to the hypothesis than those of independent draws."""
        return ancestral_rows(self._beliefs, rows, generator, systematic=True)

    # -- moving --------------------------------------------------------------------------------------------

    def project(self, query: Query, target: float) -> float:
        """q(p') = target exactly; 0.0 and no change when q is constant on the support (spec 4.2, 4.3)."""
        target = finite_target(target)
        form = form_of(query, self._domain)
        positions = self._positions(form.attributes)
        tree, beliefs = self._hosting(positions)
        values, weights = _tensor(form), beliefs.inside(positions, _host(tree, positions))
        if form.binary:
            inside, outside = float(np.vdot(values, weights)), float(np.vdot(1.0 - values, weights))
            if min(inside, outside) <= _NOTHING:
                return 0.0
            eta = binary_eta(inside, outside, target)
        else:
            eta = solve_tilt(values, weights, target)
        if eta != 0.0:
            self._tree, self._beliefs = tree, beliefs
            self._add(positions, eta * values)
        return eta

    def reweight(self, query: Query, eta: float) -> None:
        form = form_of(query, self._domain)
        positions = self._positions(form.attributes)
        values = _tensor(form)
        self._tree, self._beliefs = self._hosting(positions)
        self._add(positions, eta * values)

    def fit(self, measurements: Sequence[Measurement], **options: Any) -> FitReport:
        """Replace the factors by the regularised log-linear fit of release.md; options are `fit_loglinear`'s."""
        from reticent.hypotheses.fitting.loglinear import fit_loglinear

        rules = rule_masks(self._domain)

        def engine(sets: Sequence[tuple[str, ...]]) -> FactoredEngine:
            return FactoredEngine(JunctionTree(self._domain, [*sets, *rules], limit=self._limit), sets, rules)

        self._model, report = fit_loglinear(measurements, self._domain, engine, start=self._model, **options)
        self._factors = {
            self._positions(names): np.array(potential)
            for names, potential in zip(self._model.sets, self._model.potentials, strict=True)
        }
        self._rule_out()
        self._kept.clear()
        self._build(tuple(self._factors))
        return report

    # -- keeping -------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._factors = dict(self._factors)
        twin._kept = dict(self._kept)
        twin._beliefs = self._beliefs.copy()
        return twin

    def to_bytes(self) -> bytes:
        """The exact state: factors, the sets that shaped the tree, the warm start of the next fit."""
        header: dict[str, Any] = {
            "domain": self._domain.to_dict(),
            "limit": self._limit,
            "factors": list(self._factors),
            "tree": self._tree.sets,
        }
        arrays = list(self._factors.values())
        if self._model is not None:
            header["sets"], header["parameters"] = self._model.sets, list(self._model.parameters)
            arrays += [*self._model.potentials, *self._model.parameters.values()]
        return pack(self.kind, header, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        from reticent.domain import Domain
        from reticent.hypotheses.fitting.loglinear import LogLinear

        header, arrays = unpack(cls.kind, data)
        loaded = cls(Domain.from_dict(header["domain"]), limit=header["limit"])
        keys = [tuple(positions) for positions in header["factors"]]
        loaded._factors = dict(zip(keys, arrays, strict=False))
        loaded._build(tuple(tuple(positions) for positions in header["tree"]))
        if "sets" in header:
            sets = tuple(tuple(names) for names in header["sets"])
            named = [(tuple(names), text) for names, text in header["parameters"]]
            rest = arrays[len(keys) :]
            loaded._model = LogLinear(sets, tuple(rest[: len(sets)]), dict(zip(named, rest[len(sets) :], strict=True)))
        return loaded

    # -- inside --------------------------------------------------------------------------------------------

    @property
    def _reading_limit(self) -> int:
        """The largest table that exists only while a question is read, in cells."""
        return max(self._limit, DEFAULT_LIMIT)

    def _positions(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._domain.index(name) for name in self._domain.canonical(names))

    def _names(self, positions: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._domain.names[p] for p in positions)

    def _rule_out(self) -> None:
        """Minus infinity where a rule of the domain excludes a cell, in the factor on the rule's own attributes."""
        for names, mask in rule_masks(self._domain).items():
            positions = self._positions(names)
            factor = self._factors.get(positions, np.zeros(mask.shape))
            self._factors[positions] = np.where(mask, -np.inf, factor)

    def _build(self, sets: Sequence[tuple[int, ...]]) -> None:
        self._tree = JunctionTree(self._domain, [self._names(s) for s in sets], limit=self._limit)
        self._beliefs = Propagation(self._tree, self._factors)

    def _hosting(self, positions: tuple[int, ...]) -> tuple[JunctionTree, Propagation]:
        """The current tree if a clique contains the set, otherwise a new one."""
        if self._tree.host(positions) is not None:
            return self._tree, self._beliefs
        tree = self._tree.with_set(positions, held=self._factors, limit=self._limit)
        return tree, Propagation(tree, self._factors)

    def _add(self, positions: tuple[int, ...], logs: np.ndarray) -> None:
        """Add to the factor of this set, or of the smallest set that contains it."""
        holders = [s for s in self._factors if set(positions) <= set(s)]
        if holders:
            target = min(holders, key=lambda s: self._factors[s].size)
            shape = [self._domain.shape[p] if p in positions else 1 for p in target]
            self._factors[target] = self._factors[target] + logs.reshape(shape)
        else:
            target = positions
            self._factors[target] = np.array(logs)
        self._beliefs.update(target, self._factors[target])
        self._kept.clear()

    def _marginal(self, positions: tuple[int, ...], memo: Memo | None = None) -> np.ndarray:
        kept = self._kept.get(positions)
        if kept is not None:
            return kept
        clique = self._tree.host(positions)
        if clique is None:
            table = across(self._beliefs, {}, positions, limit=self._reading_limit, memo=memo)
        else:
            table = self._beliefs.inside(positions, clique)
        if table.size <= _KEPT_CELLS:
            if len(self._kept) >= _KEPT_MARGINALS:
                self._kept.clear()
            self._kept[positions] = table
        return table

    def _small_box(self, form: Product, positions: tuple[int, ...], clique: int) -> float | None:
        """The expectation from the part of the clique where the query is not zero, if that part is small."""
        supports = [np.flatnonzero(vector) for vector in form.vectors]
        if any(support.size == 0 for support in supports):
            return 0.0
        share = math.prod(s.size / v.size for s, v in zip(supports, form.vectors, strict=True))
        if share > _SMALL_BOX:
            return None
        members = self._tree.cliques[clique]
        part = self._beliefs.belief(clique).reshape(self._tree.shape_of(members))
        for position, support, vector in zip(positions, supports, form.vectors, strict=True):
            axis = members.index(position)
            run = slice(int(support[0]), int(support[-1]) + 1)
            part = part[(slice(None),) * axis + (run,)]
            if vector[run].min() != 1.0:
                part = part * vector[run].reshape([-1 if a == axis else 1 for a in range(len(members))])
        return float(part.sum())


def _tensor(form: Product | Dense) -> np.ndarray:
    """q over its attributes, where a factor can hold it."""
    cells = math.prod(len(vector) for vector in form.vectors) if isinstance(form, Product) else form.values.size
    if cells > MAX_CELLS:
        raise CapacityError(f"a factor of {cells} cells exceeds {MAX_CELLS}: use a sampled support")
    return form.tensor()


def _host(tree: JunctionTree, positions: tuple[int, ...]) -> int:
    (clique,) = tree.assign([positions])
    return clique
