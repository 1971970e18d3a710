"""A residual: what a marginal says beyond those of fewer attributes. Measured by releases, not asked by analysts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.base import domain_order

__all__ = ["Residual"]


@dataclass(frozen=True, init=False)
class Residual:
    """The table of some attributes with the mean along every axis taken off; of no attribute, the number of records.

    A marginal is the sum of the residuals of all its subsets, each spread evenly over the other attributes.
    """

    names: tuple[str, ...]

    def __init__(self, attributes: Iterable[str]) -> None:
        names = tuple(attributes)
        if len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
            raise QueryError(f"a residual of {names!r} needs names of different attributes")
        object.__setattr__(self, "names", names)

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.names)

    def canonical(self, domain: Domain) -> tuple[str, ...]:
        """The attributes in the domain's order: the axes of its values."""
        return domain_order(domain, self.names)

    def to_dict(self) -> dict[str, Any]:
        return {"query": "residual", "attributes": list(self.names)}
