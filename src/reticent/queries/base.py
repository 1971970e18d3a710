"""`Query`, the base of all queries: attributes, a canonical text, a digest, a plain form."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from reticent.domain import Domain
from reticent.errors import DomainError, QueryError, require
from reticent.queries.forms import Form, Product
from reticent.queries.literals import readable_text
from reticent.queries.predicate import Predicate

RECORDS_FAILURE = 5.8e-7
"""How often a released number of records may stray beyond its stated error, five standard deviations (add-remove).

So rare that even one of ten thousand parts of a question can spare it.
"""
KEPT_CELLS = 2**16
"""Compiled tensors up to this size stay with their query; larger ones would fill memory in a long workload."""


class Query:
    """A question about the table; two queries are equal if their texts are.

    Not an `ABC`, because a free answer tests the type of its query a dozen times, and that test would be slow.
    """

    @cached_property
    def text(self) -> str:
        """Canonical text: cache key and ledger entry."""
        return self._write()

    @property
    def wording(self) -> str:
        """The query in messages: its text with letters of all scripts."""
        return readable_text(self.text)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    @abstractmethod
    def attributes(self) -> frozenset[str]:
        """The columns that the query uses."""

    def resolve(self, domain: Domain) -> Query:
        """The query to ask on this domain: a mean may become a ratio."""
        return self

    def binning(self, domain: Domain) -> tuple[float, float]:
        """The binning error: the largest distance between this answer and that for the rows' own numbers.

        In the unit of the answer; and as a multiple of its distance from the smallest number (see `numbers.bin_reach`).
        """
        return 0.0, 0.0

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `query_from_dict` is the inverse."""

    @abstractmethod
    def _write(self) -> str: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return readable_text(self.text)

    def __reduce__(self) -> tuple[Callable[[Any], Query], tuple[dict[str, Any]]]:
        from reticent.queries.from_dict import query_from_dict

        return query_from_dict, (self.to_dict(),)


class Linear(Query):
    """One number: the mean over the table of a function of the record with values in [0, 1]."""

    def compile(self, domain: Domain) -> Form:
        """The function on the universe, verified to lie in [0, 1]; the form for the last domain is cached."""
        kept = self.__dict__.get("_compiled")
        if kept is not None and kept[0] is domain:
            return kept[1]
        form = self._compile(domain)
        if isinstance(form, Product) or form.values.size <= KEPT_CELLS:
            self.__dict__["_compiled"] = (domain, form)
        return form

    def units(self, domain: Domain) -> tuple[float, float]:
        """(offset, scale): the user's value is offset + scale * q."""
        return 0.0, 1.0

    @abstractmethod
    def _compile(self, domain: Domain) -> Form: ...


def checked_predicate(predicate: Any) -> Predicate:
    """Check a predicate; a common mistake is a comparison that Python has already evaluated."""
    if not isinstance(predicate, Predicate):
        kind = type(predicate).__name__
        raise QueryError(f'expected a predicate such as col("age") >= 45, not {kind}; join them with & | ~')
    return predicate


def checked_query(question: Any) -> Query:
    """Check a query; common mistakes are a condition without `rt.count`, and SQL text instead of a query."""
    if isinstance(question, Query):
        return question
    if isinstance(question, Predicate):
        raise QueryError("a condition is not a query; wrap it: rt.count(...) counts the records that meet it")
    if isinstance(question, str):
        raise QueryError("SQL text is accepted by ask(...) only; here give rt.count, rt.mean or rt.marginal")
    kind = type(question).__name__
    raise QueryError(f"the question is of type {kind}; give rt.count(...), rt.mean(...), rt.marginal(...) or SQL text")


def domain_order(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """Names in the domain's order; an unknown name is a QueryError, not a DomainError."""
    require(domain, Domain, "domain", "rt.Domain(...) or table.domain")
    try:
        return domain.canonical(names)
    except DomainError as error:
        raise QueryError(str(error)) from None
