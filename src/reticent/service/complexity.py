"""How much work a question is, from the question and the public domain alone: never from the clock, never from rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reticent.domain import Domain
from reticent.kernel.statistics import MARGINAL_CELLS
from reticent.queries.base import Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Ratio
from reticent.service.problems import Problem
from reticent.service.settings import Settings

QUICK = 2**15
"""Cells a free answer may touch on the event loop itself; more go to a thread."""


@dataclass(frozen=True)
class Work:
    """Cells read, numbers returned, and the most purchases a paid answer may need."""

    cells: int
    numbers: int
    purchases: int

    def __add__(self, other: Work) -> Work:
        return Work(self.cells + other.cells, self.numbers + other.numbers, self.purchases + other.purchases)

    @property
    def quick(self) -> bool:
        return self.cells <= QUICK


def work_of(query: Query, domain: Domain) -> Work:
    """The cost model of one question."""
    query = query.resolve(domain)
    if isinstance(query, Ratio):
        return work_of(query.numerator, domain) + work_of(query.denominator, domain)
    if isinstance(query, Marginal):
        cells = domain.cells(query.canonical(domain))
        return Work(cells, cells, 1)
    if isinstance(query, Groups):
        groups, cells = domain.cells(query.names), domain.cells(query.span(domain))
        # All at once up to so many cells; beyond, and by threshold engines, one by one.
        return Work(max(groups, cells), groups, 1 if cells <= MARGINAL_CELLS else groups)
    if isinstance(query, Linear):
        form = query.compile(domain)
        return Work(min(domain.cells(form.attributes), 2**62), 1, 1)
    raise Problem("question", f"{query.text} is a workload entry, not one question; ask count, mean or marginal")


def weigh(queries: Iterable[Query], domain: Domain) -> Work:
    total = Work(0, 0, 0)
    for query in queries:
        total = total + work_of(query, domain)
    return total


def check(work: Work, settings: Settings, *, paid: bool) -> None:
    """Problem `too-complex`, with the figure, the bound and the remedy."""
    if work.numbers > settings.answer_cells:
        raise Problem(
            "too-complex",
            f"the answer has {work.numbers} numbers, at most {settings.answer_cells}: group by fewer columns",
        )
    if work.numbers > 1 and work.cells > settings.work_cells:
        raise Problem(
            "too-complex", f"{work.cells} cells must be read, at most {settings.work_cells}: use fewer columns"
        )
    if paid and work.purchases > settings.purchases:
        raise Problem(
            "too-complex",
            f"up to {work.purchases} purchases in one question, at most {settings.purchases}: ask without an error"
            " bound for free, or ask its parts",
        )
