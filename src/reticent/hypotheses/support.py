"""Weights on chosen records: a distribution for universes too large to hold (spec 6.4).

The mixture that DualQuery publishes: its records, equally weighted until somebody moves them (spec 7.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from reticent.domain.impossible import impossible_rows
from reticent.errors import DomainError, QueryError
from reticent.hypotheses.base import FitReport, Measurement, finite_target, form_of, pack, solve_tilt, unpack
from reticent.hypotheses.sampling import sample_cells, systematic_cells
from reticent.queries.forms import Product

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.fitting.loglinear import LogLinear
    from reticent.queries.forms import Dense
    from reticent.queries.linear import Linear

    Query = Linear | Product | Dense


__all__ = ["RecordsHypothesis", "SupportHypothesis"]

LARGEST_MARGINAL = 1 << 26
"""Cells; half a gibibyte of numbers."""


KEPT_SETS, KEPT_BYTES = 8, 1 << 28
"""The places of records are kept for so many sets and more, up to so many bytes."""


class _Places(NamedTuple):
    """The cell of each record in each of some sets: `cells[rows[names]]`."""

    sets: tuple[tuple[str, ...], ...]
    rows: dict[tuple[str, ...], int]
    cells: np.ndarray


class SupportHypothesis:
    """M records and a weight for each; answers any query, over any number of attributes.

    `log_density` is the logarithm of the density the records were drawn from (up to a constant); a fit
    divides by it, so that the chosen records stand for the universe and not for the way they were chosen.
    """

    kind = "support"

    def __init__(
        self,
        domain: Domain,
        codes: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        log_density: np.ndarray | None = None,
    ) -> None:
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != len(domain) or codes.shape[0] == 0:
            raise DomainError(f"records of shape {codes.shape} must be (one or more) x {len(domain)}")
        if codes.min() < 0 or (codes.max(axis=0) >= np.array(domain.shape)).any():
            raise DomainError("a record has a code outside its attribute; encode it through the domain")
        if impossible_rows(domain, codes).any():
            raise DomainError("a record is declared impossible; leave it out of the support")
        self._domain = domain
        narrow = np.min_scalar_type(max(domain.shape) - 1)
        # one contiguous column per attribute: a query reads only the columns it names
        self._columns = np.ascontiguousarray(codes.T, dtype=narrow)
        count = codes.shape[0]
        self._log_density = np.zeros(count) if log_density is None else np.array(log_density, dtype=np.float64)
        self._weights = np.ones(count) if weights is None else np.array(weights, dtype=np.float64)
        if self._weights.shape != (count,) or self._log_density.shape != (count,):
            raise DomainError(f"{count} records need as many weights and densities")
        self._places: _Places | None = None
        self._model: LogLinear | None = None
        self._total = float(self._weights.sum())
        if not (0.0 < self._total < math.inf and self._weights.min() >= 0.0):
            raise DomainError("weights must be non-negative, finite and not all zero")

    @classmethod
    def uniform(cls, domain: Domain, records: int, generator: np.random.Generator) -> Self:
        """Records drawn uniformly from the universe, or from what its rules leave of it."""
        if domain.impossible:
            return cls(domain, _possible({}, domain, records, generator))
        return cls(domain, generator.integers(0, domain.shape, size=(records, len(domain))))

    @classmethod
    def product(
        cls,
        domain: Domain,
        one_ways: Mapping[str, np.ndarray],
        records: int,
        generator: np.random.Generator,
    ) -> Self:
        """Records drawn from released one-way distributions; uniform where none is given."""
        columns, log_density = [], np.zeros(records)
        if domain.impossible:
            codes = _possible(one_ways, domain, records, generator)
            for name, vector in one_ways.items():
                log_density += np.log(np.asarray(vector, float)[codes[:, domain.index(name)]] / np.sum(vector))
            return cls(domain, codes, log_density=log_density)
        for name in domain.names:
            vector = np.asarray(one_ways.get(name, np.ones(domain[name].size)), dtype=np.float64)
            column = sample_cells(vector, records, generator)
            log_density += np.log(vector[column] / vector.sum())
            columns.append(column)
        return cls(domain, np.stack(columns, axis=1), log_density=log_density)

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def log_size(self) -> float:
        return math.log(self._weights.size)

    @property
    def model(self) -> LogLinear | None:
        """The log-linear model of the last fit; not kept on disk."""
        return self._model

    @property
    def codes(self) -> np.ndarray:
        """The records, one row each."""
        return self._columns.T

    @property
    def weights(self) -> np.ndarray:
        """The probability of each record."""
        return self._weights / self._total

    def expect(self, query: Query) -> float:
        return float(self._weights @ self._values(query)) / self._total

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        names = self._domain.canonical(attributes)
        shape = self._domain.shape_of(names)
        return self._sums(names).reshape(shape) / self._total

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Rounds of learning ask for the same sets again and again: where each record falls is kept for them."""
        listed = tuple(self._domain.canonical(names) for names in sets)
        places = self._kept_places(listed)
        if places is None:
            return [self.marginal(names) for names in listed]
        from reticent.hypotheses.support_kernels import add_up

        shapes = [self._domain.shape_of(names) for names in listed]
        ends = np.cumsum([0, *map(math.prod, shapes)])
        sums = np.zeros(ends[-1])
        add_up(places, self._weights, ends[:-1], sums, 0, len(places))
        parts = zip(ends[:-1], ends[1:], shapes, strict=True)
        return [sums[start:end].reshape(shape) / self._total for start, end, shape in parts]

    def _kept_places(self, listed: tuple[tuple[str, ...], ...]) -> np.ndarray | None:
        """The cell of each record in each set, for the sets asked for last; None where that would not pay or fit."""
        if self._places is not None and self._places.sets == listed:
            return self._places.cells
        cells = max((self._domain.cells(names) for names in listed), default=0)
        narrow = np.dtype(np.uint16 if cells <= 1 << 16 else np.uint32)
        held = len(listed) * self._weights.size * narrow.itemsize
        if not len(listed) >= KEPT_SETS or held > KEPT_BYTES or cells > LARGEST_MARGINAL:
            return None
        places = np.empty((len(listed), self._weights.size), dtype=narrow)
        for row, names in zip(places, listed, strict=True):
            row[:] = self.cells(names)
        self._places = _Places(listed, {names: row for row, names in enumerate(listed)}, places)
        return places

    def _kept_row(self, names: tuple[str, ...]) -> np.ndarray | None:
        """The cell of each record in one of the sets asked for last."""
        row = None if self._places is None else self._places.rows.get(names)
        return None if row is None or self._places is None else self._places.cells[row]

    def _sums(self, names: tuple[str, ...]) -> np.ndarray:
        """The weight of the records in each cell of one set; the same bits whether places are kept or not."""
        places, cells = self._kept_row(names), self._domain.cells(names)
        if places is None:
            return np.bincount(self.cells(names), weights=self._weights, minlength=cells)
        from reticent.hypotheses.support_kernels import add_up

        sums = np.zeros(cells)
        add_up(places[None], self._weights, np.zeros(1, dtype=np.int64), sums, 0, 1)
        return sums

    def cells(self, names: Sequence[str]) -> np.ndarray:
        """Each record's place in the flattened marginal over the named attributes."""
        if self._domain.cells(names) > LARGEST_MARGINAL:
            raise QueryError(
                f"a marginal of {self._domain.cells(names)} cells exceeds {LARGEST_MARGINAL}; name fewer attributes"
            )
        places = np.zeros(self._weights.size, dtype=np.int64)
        for name in names:
            places *= self._domain[name].size
            places += self._columns[self._domain.index(name)]
        return places

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        return self.codes[sample_cells(self._weights, rows, generator)].astype(np.int32)

    def systematic(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Each record appears as often as expected, give or take less than one."""
        return self.codes[systematic_cells(self._weights, rows, generator)].astype(np.int32)

    # -- moving --------------------------------------------------------------------------------------------

    def project(self, query: Query, target: float) -> float:
        return self.project_values(self._values(query), target)

    def reweight(self, query: Query, eta: float) -> None:
        self._tilt(self._values(query), eta)

    def project_values(self, values: np.ndarray, target: float) -> float:
        """`project` for any finite function of the record, given by its value on each record of the support."""
        eta = solve_tilt(values, self._weights, finite_target(target))
        if eta != 0.0:
            self._tilt(values, eta)
        return eta

    def reweight_values(self, values: np.ndarray, eta: float) -> None:
        """`reweight` for any finite function of the record."""
        self._tilt(values, eta)

    def reweight_cells(self, form: Product | Dense, eta: float) -> None:
        """As `reweight` but for the last bits: exponentials are taken of the form's cells, not of records."""
        names = form.attributes
        exponents = eta * form.tensor().ravel()
        exponents -= np.max(exponents, where=self._sums(names) > 0.0, initial=-math.inf)
        factors = np.exp(np.minimum(exponents, 0.0, out=exponents))
        places = self._kept_row(names)
        self._rescale(self._weights * factors[self.cells(names) if places is None else places])

    def fit(self, measurements: Sequence[Measurement], **options: Any) -> FitReport:
        """The log-linear fit of release.md among distributions on these records."""
        from reticent.hypotheses.fitting.loglinear import fit_loglinear
        from reticent.hypotheses.fitting.support_engine import SupportEngine

        domain, shared = self._domain, options.get("method") != "staged"
        made: list[SupportEngine] = []

        def engine(sets: Sequence[tuple[str, ...]]) -> SupportEngine:
            axis_sets = [tuple(map(domain.index, names)) for names in sets]
            made[:] = [SupportEngine(domain.shape, axis_sets, self._cells_of, -self._log_density, shared=shared)]
            return made[0]

        model, report = fit_loglinear(measurements, self._domain, engine, **options)
        (last,) = made
        last.evaluate(model.potentials)
        self._weights, self._total = last.probabilities, float(last.probabilities.sum())
        self._model = model
        return report

    # -- keeping -------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._weights = self._weights.copy()
        return twin

    def to_bytes(self) -> bytes:
        header = {"domain": self._domain.to_dict(), "total": self._total}
        return pack(self.kind, header, [self.codes, self._weights, self._log_density])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        from reticent.domain import Domain

        header, (codes, weights, log_density) = unpack(cls.kind, data)
        loaded = cls(Domain.from_dict(header["domain"]), codes, weights, log_density=log_density)
        loaded._total = header["total"]
        return loaded

    # -- inside --------------------------------------------------------------------------------------------

    def _cells_of(self, axes: Sequence[int]) -> np.ndarray:
        return self.cells([self._domain.names[axis] for axis in axes])

    def _values(self, query: Query) -> np.ndarray:
        """q on every record."""
        form = form_of(query, self._domain)
        if not isinstance(form, Product):
            return form.values.reshape(-1)[self.cells(form.attributes)]
        values = np.ones(self._weights.size)
        for name, vector in zip(form.attributes, form.vectors, strict=True):
            values *= vector[self._columns[self._domain.index(name)]]
        return values

    def _tilt(self, values: np.ndarray, eta: float) -> None:
        exponents = eta * values
        exponents -= np.max(exponents, where=self._weights > 0.0, initial=-math.inf)
        self._rescale(self._weights * np.exp(np.minimum(exponents, 0.0, out=exponents)))

    def _rescale(self, weights: np.ndarray) -> None:
        total = float(weights.sum())
        # a power of two rounds nothing, and keeps long runs of updates away from underflow
        scale = 2.0 ** -math.frexp(total)[1]
        weights *= scale
        self._weights, self._total = weights, total * scale


def _possible(
    one_ways: Mapping[str, np.ndarray], domain: Domain, records: int, generator: np.random.Generator
) -> np.ndarray:
    """Records of independent attributes, given that no rule excludes them: drawn from a junction tree of the rules."""
    from reticent.hypotheses.junction_tree.factored import FactoredHypothesis

    return FactoredHypothesis.product(domain, one_ways).sample(records, generator)


class RecordsHypothesis(SupportHypothesis):
    """One record per round, in order, repetitions included; `codes` is the published table itself."""

    kind = "records"
