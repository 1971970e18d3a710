"""`Groups`: a GROUP BY with a condition as one question, the cells of a marginal among the records of a predicate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.domain import OTHER_LABEL, Domain
from reticent.errors import QueryError
from reticent.queries.base import KEPT_CELLS, Linear, Query, checked_predicate, domain_order
from reticent.queries.expectation import Expectation, Weights
from reticent.queries.forms import MAX_CELLS, Dense, Form, Product, first_code, weighted_by
from reticent.queries.linear import Count, Marginal, Total
from reticent.queries.literals import name_text
from reticent.queries.predicate import Everything, Predicate, all_of, col

ONE_BY_ONE = 4096
"""Groups that are answered one by one when their common marginal would not fit."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Groups(Query):
    """One linear query per cell of `names`: a Count of the predicate there, a Total of `column`, or an Expectation.

    Every record counts in at most one cell, so the sensitivity is that of one marginal (spec 6.3).
    """

    names: tuple[str, ...]
    where: Predicate
    column: str | None
    weights: Weights | None

    def __init__(
        self,
        names: Iterable[str],
        where: Predicate | None = None,
        column: str | None = None,
        *,
        weights: Weights | None = None,
    ) -> None:
        if column is not None and weights is not None:
            raise QueryError("groups sum a column or weights, not both")
        object.__setattr__(self, "names", Marginal(names).names)
        object.__setattr__(self, "where", Everything() if where is None else checked_predicate(where))
        object.__setattr__(self, "column", None if column is None else col(column).name)
        object.__setattr__(self, "weights", weights)

    @property
    def counts(self) -> bool:
        """Whether each group is a number of records."""
        return self.column is None and self.weights is None

    def ordered(self, names: Iterable[str]) -> Groups:
        """The same question with the groups in another order."""
        return Groups(names, self.where, self.column, weights=self.weights)

    @property
    def attributes(self) -> frozenset[str]:
        weighted = () if self.column is None else (self.column,)
        return self.where.attributes.union(
            self.names, weighted, () if self.weights is None else self.weights.attributes
        )

    def form(self, domain: Domain) -> Form:
        """The form that is averaged within each cell."""
        kept = self.__dict__.get("_compiled")
        if kept is not None and kept[0] is domain:
            return kept[1]
        form = self.where.compile(domain)
        form = form if self.column is None else weighted_by(form, self.column, domain)
        form = form if self.weights is None else self.weights.applied(form, domain)
        if isinstance(form, Product) or form.values.size <= KEPT_CELLS:
            object.__setattr__(self, "_compiled", (domain, form))
        return form

    def span(self, domain: Domain) -> tuple[str, ...]:
        """All attributes on which the answer depends, in the domain's order."""
        kept = self.__dict__.get("_span")
        if kept is None or kept[0] is not domain:
            kept = domain, domain_order(domain, {*self.names, *self.form(domain).attributes})
            object.__setattr__(self, "_span", kept)
        return kept[1]

    def fits(self, domain: Domain) -> bool:
        """Whether the marginal over the span is small enough to be summed."""
        return domain.cells(self.span(domain)) <= MAX_CELLS

    def read(self, domain: Domain, marginal: np.ndarray) -> np.ndarray:
        """All answers from the marginal over the span, axes in the order of `names`."""
        form, span = self.form(domain), self.span(domain)
        left = marginal
        if isinstance(form, Dense):
            left = left * form.values[tuple(slice(None) if name in form.attributes else None for name in span)]
        vectors = dict(zip(form.attributes, form.vectors, strict=True)) if isinstance(form, Product) else {}
        for axis in reversed(range(len(span))):
            name = span[axis]
            if name in self.names:
                if name in vectors:
                    left = left * vectors[name].reshape([-1] + [1] * (left.ndim - axis - 1))
            elif name in vectors:
                left = np.tensordot(left, vectors[name], axes=(axis, 0))
            else:
                left = left.sum(axis=axis)
        kept = [name for name in span if name in self.names]
        return np.transpose(left, [kept.index(name) for name in self.names])

    def representatives(self, domain: Domain) -> list[Form]:
        """Forms whose errors bound those of all cells: a bound does not depend on the code of a grouped column.

        A cell of a weighted column is at most its unweighted cell times the largest weight, hence the ones below.
        """
        kept = self.__dict__.get("_representatives")
        if kept is not None and kept[0] is domain:
            return kept[1]
        found = self._representatives_on(domain)
        if len(found) * domain.cells(self.span(domain)) <= KEPT_CELLS:
            self.__dict__["_representatives"] = (domain, found)
        return found

    def _representatives_on(self, domain: Domain) -> list[Form]:
        form, span = self.form(domain), self.span(domain)
        if isinstance(form, Product):
            vectors = dict(zip(form.attributes, form.vectors, strict=True))
            firsts = {name: first_code(domain[name].size) for name in self.names}
            return [Product(span, tuple({**vectors, **firsts}[name] for name in span))]
        shared = [axis for axis, name in enumerate(form.attributes) if name in self.names]
        slices = math.prod(form.values.shape[axis] for axis in shared)
        if slices * domain.cells(span) > MAX_CELLS:
            raise QueryError(
                f"{self.wording}: a condition that joins grouped columns by 'or' over {domain.cells(span)} cells; "
                "ask its parts one by one"
            )
        # Most codes share their condition; only different ones have different bounds.
        parts = np.moveaxis(form.values, shared, range(len(shared))).reshape(slices, -1)
        different = {part.tobytes(): part for part in parts}.values()
        return [self._placed(domain, form, part) for part in sorted(different, key=np.ndarray.tolist)]

    def _placed(self, domain: Domain, form: Dense, part: np.ndarray) -> Dense:
        """A condition on the other columns, combined with the first code of every grouped column."""
        span = self.span(domain)
        tensor = np.zeros(domain.shape_of(span))
        place = tuple(0 if name in self.names else slice(None) for name in span)
        rest = [domain[name].size if name in form.attributes else 1 for name in span if name not in self.names]
        tensor[place] = part.reshape(rest)
        return Dense(span, tensor)

    def parts(self, domain: Domain) -> Iterator[Linear]:
        """The linear queries one by one, in C order of `names`."""
        choices = [[cell_of(domain, name, code) for code in range(domain[name].size)] for name in self.names]
        for cell in itertools.product(*choices):
            where = all_of((self.where, *cell))
            if self.weights is not None:
                yield Expectation(self.weights, where)
            else:
                yield Count(where) if self.column is None else Total(self.column, where)

    def to_dict(self) -> dict[str, Any]:
        weighed = {} if self.column is None else {"column": self.column}
        weighed |= {} if self.weights is None else {"weights": self.weights.to_list()}
        return {"query": "groups", "attributes": list(self.names), "where": self.where.to_dict(), **weighed}

    def _write(self) -> str:
        names = ", ".join(sorted(map(name_text, self.names)))
        weighted = "" if self.column is None else f", total {name_text(self.column)}"
        weighted += "" if self.weights is None else f", {self.weights.text}"
        return f"groups({names}{weighted}, {self.where.text})"


def cell_of(domain: Domain, name: str, code: int) -> Predicate:
    """The predicate that holds for one code of a column."""
    attribute, column = domain[name], col(name)
    if code == attribute.null_code:
        return column.is_null()
    if code == attribute.other_code:
        return column == OTHER_LABEL
    bin_of = getattr(attribute, "bin", None)
    if bin_of is None:
        return column == attribute.value(code)
    return _bin(domain, name, code)


def _bin(domain: Domain, name: str, code: int) -> Predicate:
    """Values beyond the edges are clamped, so the end bins are open outwards."""
    attribute: Any = domain[name]
    column, edges = col(name), attribute.edges
    lower = column >= edges[code]
    if code == attribute.known - 1:
        return lower if code else column.is_known()
    upper = column < edges[code + 1]
    return upper if code == 0 else lower & upper
