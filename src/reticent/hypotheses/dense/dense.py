"""The whole universe as one tensor of weights: exact, and at the speed of memory (engines.md).

Also the in-place softmax, the log-linear engine on an explicit tensor (every pass is one reduction tree, forwards or
backwards), and the layout of queries in a tensor: the runs of cells of a 0/1 product, and factors in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from reticent.domain.impossible import impossible_cells
from reticent.errors import DomainError
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
from reticent.hypotheses.dense.flat import FlatTables
from reticent.hypotheses.dense.marginal_tree import COMPILED_CELLS, marginal_tree, softmax_in_place
from reticent.hypotheses.sampling import sample_cells, systematic_cells
from reticent.queries.forms import Product

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.fitting.loglinear import LogLinear
    from reticent.queries.forms import Dense
    from reticent.queries.linear import Linear

    Query = Linear | Product | Dense


__all__ = ["MAX_CELLS", "CellBox", "DenseEngine", "DenseHypothesis", "TensorFactor", "alike_rows", "softmax_in_place"]

MAX_CELLS = 1 << 28
# Bounds on the relative error of the running total: after an exact summation, and per update.
_FRESH = 2.0**-50
_PER_UPDATE = 2.0**-52
# The total is summed anew before its error can move a projection by more than about 1e-12 (half of it kept
# for the projection's own rounding).
_TOLERATED = 2.0**-41
# Less than this share of the weight counts as none: raising it again would overflow.
_NOTHING = 2.0**-900
_LARGEST_ETA = 600.0
_KEPT_QUERIES = 256
# A fused pass pays while the tables of its queries are this many times smaller than the tensor.
_FEW = 4


class DenseHypothesis:
    """Unnormalised weights over the product domain and their running total.

    Only updates change the state; reading does not. A replay of the same updates gives the same bits.
    """

    kind = "dense"

    def __init__(self, domain: Domain, weights: np.ndarray | None = None) -> None:
        if domain.size > MAX_CELLS:
            raise DomainError(
                f"a dense hypothesis over {domain.size} records exceeds {MAX_CELLS}; use a factored or support one"
            )
        self._domain = domain
        if weights is None:
            self._flat = np.ones(domain.size)
        else:
            weights = np.array(weights, dtype=np.float64, order="C")
            if weights.shape != domain.shape:
                raise DomainError(f"weights of shape {weights.shape} do not fit the domain's {domain.shape}")
            self._flat = weights.reshape(-1)
        impossible = impossible_cells(domain, domain.names)
        if impossible is not None:
            self._flat[impossible.reshape(-1)] = 0.0
        self._total = float(self._flat.sum())
        if not (0.0 < self._total < math.inf and self._flat.min() >= 0.0):
            raise DomainError("weights must be non-negative, finite and not all zero")
        self._drift = _FRESH
        self._compiled = domain.size >= COMPILED_CELLS
        self._kernels: Any = _compiled_kernels() if self._compiled else None
        self._shape = np.array(domain.shape, dtype=np.int64)
        self._prepared: dict[int, tuple[Query, Product | Dense, CellBox | None]] = {}
        self._summed: tuple[CellBox, float] | None = None
        self._model: LogLinear | None = None
        self._collapsed: tuple[tuple[str, ...], np.ndarray] | None = None

    @classmethod
    def product(cls, domain: Domain, one_ways: Mapping[str, np.ndarray]) -> Self:
        """Independent attributes with the given distributions; uniform where none is given."""
        vectors = [np.asarray(one_ways.get(name, np.ones(domain[name].size)), float) for name in domain.names]
        weights = reduce(np.multiply.outer, vectors, np.ones(()))
        return cls(domain, weights)

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def log_size(self) -> float:
        return math.log(self._domain.size)

    def expect(self, query: Query) -> float:
        """q(p); a 0/1 product reads only its box."""
        form, box = self._prepare(query)
        if box is not None:
            return self._inside(box) / self._total
        return average(form, self._collapse(form.attributes)) / self._total

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        return self.marginals([attributes])[0]

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """All marginals through one reduction tree, which is kept for the next call with the same sets."""
        axis_sets = tuple(self._axes(self._domain.canonical(names)) for names in sets)
        arrays = marginal_tree(self._domain.shape, axis_sets).reduce(self._flat)
        for array in arrays:
            array /= self._total
        return arrays

    @property
    def model(self) -> LogLinear | None:
        """The log-linear model of the last fit; updates since then have moved the weights away from it."""
        return self._model

    def probabilities(self) -> np.ndarray:
        """The distribution itself, a fresh tensor over the domain."""
        return (self._flat / self._total).reshape(self._domain.shape)

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        return self._codes(sample_cells(self._flat, rows, generator))

    def systematic(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Rows in equal steps along the cumulative weights: each cell is off by less than one row."""
        return self._codes(systematic_cells(self._flat, rows, generator))

    # -- moving --------------------------------------------------------------------------------------------

    def project(self, query: Query, target: float) -> float:
        """q(p') = target exactly; 0.0 and no change when q is constant on the support (spec 4.2, 4.3)."""
        target = finite_target(target)
        form, box = self._prepare(query)
        if box is not None:
            inside, outside = self._inside_and_outside(box)
            if min(inside, outside) <= _NOTHING * (inside + outside):
                return 0.0
            eta = binary_eta(inside, outside, target)
            self._scale_box(box, eta, inside, outside)
            return eta
        eta = solve_tilt(_tensor(form), self._collapse(form.attributes), target)
        if eta != 0.0:
            self._scale(form, eta)
        return eta

    def reweight(self, query: Query, eta: float) -> None:
        form, box = self._prepare(query)
        if box is not None and abs(eta) <= _LARGEST_ETA:
            self._scale_box(box, eta, *self._inside_and_outside(box))
        else:
            self._scale(form, eta)

    def reweight_and_expect(self, query: Query, eta: float, upcoming: Query) -> float:
        """`reweight(query, eta)`, then `expect(upcoming)`: one pass for queries that touch the whole tensor."""
        (form, box), (following, following_box) = self._prepare(query), self._prepare(upcoming)
        reach = abs(eta) * (form.range[1] - form.range[0])
        if not self._compiled or box is not None or following_box is not None or reach > _LARGEST_ETA:
            self.reweight(query, eta)
            return self.expect(upcoming)
        factor = np.exp(eta * (_tensor(form) - form.range[eta > 0]))
        factors = TensorFactor.of(self._domain.shape, self._axes(form.attributes), factor)
        values = TensorFactor.of(self._domain.shape, self._axes(following.attributes), _tensor(following))
        if _FEW * max(factors.rows, values.rows) > self._domain.size // factors.view_shape[-1]:
            self.reweight(query, eta)
            return self.expect(upcoming)
        total, answer = self._kernels.scale_and_answer(
            self._flat.reshape(-1, factors.view_shape[-1]),
            *factors.wide_table(),
            *values.wide_table(),
            *alike_rows(factors, values),
        )
        self._moved(total, _FRESH)
        return answer / total

    def fit(self, measurements: Sequence[Measurement], **options: Any) -> FitReport:
        """Replace the weights by the regularised log-linear fit of release.md; options are `fit_loglinear`'s."""
        from reticent.hypotheses.fitting.loglinear import fit_loglinear

        impossible = impossible_cells(self._domain, self._domain.names)

        # A replicate is one of many fits.
        repeated = options.get("redraw") is not None

        def engine(sets: Sequence[tuple[str, ...]]) -> DenseEngine:
            axis_sets = [self._axes(names) for names in sets]
            return DenseEngine(self._domain.shape, axis_sets, impossible, repeated=repeated)

        options = {"start": self._model} | options
        self._model, report = fit_loglinear(measurements, self._domain, engine, **options)
        axis_sets = tuple(self._axes(names) for names in self._model.sets)
        logits = marginal_tree(self._domain.shape, axis_sets).expand(self._model.potentials)
        if impossible is not None:
            np.copyto(logits, -np.inf, where=impossible)
        softmax_in_place(logits)
        self.assign(logits)
        return report

    def assign(self, weights: np.ndarray) -> None:
        """Take new unnormalised weights over the domain, the result of a fit."""
        fresh = type(self)(self._domain, weights)
        self._flat = fresh._flat
        self._moved(fresh._total, _FRESH)

    # -- keeping -------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._flat = self._flat.copy()
        twin._prepared = {}
        return twin

    def to_bytes(self) -> bytes:
        """The exact state, the warm start of the next fit included."""
        header = {"domain": self._domain.to_dict(), "total": self._total, "drift": self._drift}
        arrays = [self._flat]
        if self._model is not None:
            header["sets"], header["parameters"] = self._model.sets, list(self._model.parameters)
            arrays += [*self._model.potentials, *self._model.parameters.values()]
        return pack(self.kind, header, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        from reticent.domain import Domain

        header, (flat, *arrays) = unpack(cls.kind, data)
        domain = Domain.from_dict(header["domain"])
        loaded = cls(domain, flat.reshape(domain.shape))
        loaded._total, loaded._drift = header["total"], header["drift"]
        if "sets" in header:
            from reticent.hypotheses.fitting.loglinear import LogLinear

            sets = tuple(tuple(names) for names in header["sets"])
            keys = [(tuple(names), text) for names, text in header["parameters"]]
            parameters = dict(zip(keys, arrays[len(sets) :], strict=True))
            loaded._model = LogLinear(sets, tuple(arrays[: len(sets)]), parameters)
        return loaded

    # -- inside --------------------------------------------------------------------------------------------

    def _axes(self, names: Sequence[str]) -> tuple[int, ...]:
        positions = self._domain.positions
        return tuple([positions[name] for name in names])

    def _codes(self, cells: np.ndarray) -> np.ndarray:
        return np.stack(np.unravel_index(cells, self._domain.shape), axis=1).astype(np.int32)

    def _prepare(self, query: Query) -> tuple[Product | Dense, CellBox | None]:
        """The compiled form of a query, and its box if it has one; cached, because each round asks twice.

        The query is kept with them, so that its id is not reused.
        """
        kept = self._prepared.get(id(query))
        if kept is not None:
            return kept[1], kept[2]
        form, box = form_of(query, self._domain), None
        if self._compiled and isinstance(form, Product):
            box = CellBox.of(self._shape, self._axes(form.attributes), form.vectors)
        if len(self._prepared) >= _KEPT_QUERIES:
            self._prepared.pop(next(iter(self._prepared)))
        self._prepared[id(query)] = (query, form, box)
        return form, box

    def _inside(self, box: CellBox) -> float:
        if self._summed is None or self._summed[0] is not box:
            self._summed = box, self._kernels.box_sum(self._flat, box.rows, box.starts, box.lengths)
        return self._summed[1]

    def _inside_and_outside(self, box: CellBox) -> tuple[float, float]:
        """The weight outside is total minus inside if that is accurate enough; otherwise it is summed cell by cell."""
        inside = self._inside(box)
        outside = self._total - inside
        if self._drift * self._total > _TOLERATED * outside:
            outside = self._kernels.box_complement_sum(self._flat, box.rows, box.starts, box.lengths)
            self._total, self._drift = inside + outside, _FRESH
        return inside, outside

    def _scale_box(self, box: CellBox, eta: float, inside: float, outside: float) -> None:
        scale = math.exp(eta)
        self._kernels.box_scale(self._flat, box.rows, box.starts, box.lengths, scale)
        total = outside + inside * scale
        self._moved(total, self._drift * self._total / total + _PER_UPDATE)

    def _collapse(self, attributes: tuple[str, ...]) -> np.ndarray:
        """Unnormalised weight on a form's own attributes; remembered until the next update."""
        if self._collapsed is None or self._collapsed[0] != attributes:
            tree = marginal_tree(self._domain.shape, (self._axes(attributes),))
            self._collapsed = attributes, tree.reduce(self._flat)[0]
        return self._collapsed[1]

    def _scale(self, form: Product | Dense, eta: float) -> None:
        weights = self._collapse(form.attributes)
        factor = _tilt(_tensor(form), eta, weights)
        total = float(np.vdot(weights, factor))
        laid_out = TensorFactor.of(self._domain.shape, self._axes(form.attributes), factor)
        if self._compiled:
            self._kernels.scale_rows(self._flat, *laid_out.table())
        else:
            view = self._flat.reshape(laid_out.view_shape)
            view *= laid_out.values
        self._moved(total, _FRESH)

    def _moved(self, total: float, drift: float) -> None:
        """Finish an update; a total far from one is rescaled by a power of two, which rounds nothing."""
        self._total, self._drift = total, drift
        self._collapsed = self._summed = None
        exponent = math.frexp(total)[1]
        if abs(exponent) > 256:
            self._flat *= 2.0**-exponent
            self._total *= 2.0**-exponent


def _compiled_kernels() -> ModuleType:
    """The compiled kernels, imported on demand: compilation takes half a second, which tiny universes do not need."""
    from reticent.hypotheses.dense import kernels as dense_kernels

    return dense_kernels


def _tilt(values: np.ndarray, eta: float, weights: np.ndarray) -> np.ndarray:
    """exp(eta q), divided by its largest value on the support to avoid overflow and complete underflow."""
    exponents = eta * values
    exponents -= np.max(exponents, where=weights > 0.0, initial=-math.inf)
    return np.exp(np.minimum(exponents, 0.0))


def _tensor(form: Product | Dense) -> np.ndarray:
    """q over its own attributes; no larger than the universe, which is here already."""
    if isinstance(form, Product):
        return reduce(np.multiply.outer, form.vectors, np.ones(()))
    return form.values


class DenseEngine:
    """Evaluates p(x) ~ exp(sum of parameters) on all possible cells of a shape; `probabilities` holds the last p."""

    def __init__(
        self,
        shape: tuple[int, ...],
        axis_sets: Sequence[tuple[int, ...]],
        impossible: np.ndarray | None = None,
        *,
        repeated: bool = False,
    ) -> None:
        self._impossible = impossible
        self._axis_sets = tuple(axis_sets)
        self._tree = marginal_tree(shape, self._axis_sets, repeated=repeated)
        self.flat = FlatTables(shape, self._axis_sets, impossible, repeated=repeated)
        """The same tables as one vector, with the same probabilities."""
        self.probabilities = self.flat.probabilities.reshape(shape)
        self._scratch = self.flat.scratch.reshape(shape)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        table = self._tree.expand(parameters, self.probabilities)
        if self._impossible is not None:
            np.copyto(table, -np.inf, where=self._impossible)
        return softmax_in_place(table), self._tree.reduce(table)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        product = self._tree.expand(weights, self._scratch)
        mean = float(np.vdot(product, self.probabilities))
        product -= mean
        product *= self.probabilities
        return self._tree.reduce(product)

    def held(self, index: int, table: np.ndarray) -> np.ndarray:
        """All cells of a set's table: the engine has them."""
        return table

    def rescale(self, index: int, ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply p by `ratio(marginal)` of one set without normalising it again."""
        tree = marginal_tree(self.probabilities.shape, (self._axis_sets[index],))
        factor = ratio(tree.reduce(self.probabilities)[0])
        self.probabilities *= tree.expand([factor], self._scratch).reshape(self.probabilities.shape)
        return factor


# A trailing block of at least this many cells makes inner loops long; its factors still fit the nearest cache.
_BLOCK = 512


class CellBox(NamedTuple):
    """The cells where a 0/1 product holds: at each row offset the same runs, all in ascending order."""

    rows: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @property
    def cells(self) -> int:
        return int(self.rows.size * self.lengths.sum())

    @classmethod
    def of(cls, shape: np.ndarray, axes: Sequence[int], vectors: Sequence[np.ndarray]) -> CellBox | None:
        """The box of a product; the work is proportional to the rows touched. None if some value is neither 0 nor 1."""
        from reticent.hypotheses.dense.kernels import box_layout

        masks = np.concatenate(vectors, dtype=np.float64) if vectors else np.empty(0)
        binary, *layout = box_layout(shape, np.array(axes, dtype=np.int64), masks, _BLOCK)
        return cls(*layout) if binary else None


@dataclass(frozen=True, eq=False)
class TensorFactor:
    """A function of a few attributes in the layout of the tensor: (outer axes ..., trailing block).

    `values` has size one along every outer axis that it ignores, and along the block if it ignores the whole block.
    """

    view_shape: tuple[int, ...]
    values: np.ndarray

    @classmethod
    def of(cls, shape: Sequence[int], axes: Sequence[int], values: np.ndarray) -> TensorFactor:
        wanted = set(axes)
        aligned = tuple(size if axis in wanted else 1 for axis, size in enumerate(shape))
        block, width = len(shape), 1
        while block > 0 and width < _BLOCK:
            block -= 1
            width *= shape[block]
        outer = aligned[:block]
        if max(axes, default=-1) < block:
            spread = values.reshape((*outer, 1))
        else:
            inner = tuple(shape[block:])
            spread = np.broadcast_to(values.reshape(aligned), outer + inner).reshape((*outer, width))
        return cls((*shape[:block], width), np.ascontiguousarray(spread))

    @property
    def rows(self) -> int:
        """Distinct rows of the table."""
        return math.prod(self.values.shape[:-1])

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct rows of the factor, and for each row of the tensor the one that applies."""
        table = self.values.reshape(self.rows, -1)
        rows = np.arange(self.rows).reshape(self.values.shape[:-1])
        return table, np.broadcast_to(rows, self.view_shape[:-1]).reshape(-1)

    def wide_table(self) -> tuple[np.ndarray, np.ndarray]:
        """The same with every row spread over the whole block."""
        table, rows = self.table()
        return np.ascontiguousarray(np.broadcast_to(table, (table.shape[0], self.view_shape[-1]))), rows


def alike_rows(first: TensorFactor, second: TensorFactor) -> tuple[np.ndarray, int]:
    """An order of the tensor's rows in which as many as the second number share their rows of both factors."""
    sizes = first.view_shape[:-1]
    used = [a > 1 or b > 1 for a, b in zip(first.values.shape[:-1], second.values.shape[:-1], strict=True)]
    axes = sorted(range(len(sizes)), key=lambda axis: not used[axis])
    alike = math.prod(size for size, is_used in zip(sizes, used, strict=True) if not is_used)
    return np.arange(math.prod(sizes)).reshape(sizes).transpose(axes).reshape(-1), alike
