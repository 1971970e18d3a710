"""How much work a question is, from the question and the public domain alone: never from the clock, never from rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

from reticent.domain import Domain
from reticent.errors import DomainError, QueryError
from reticent.kernel.statistics import MARGINAL_CELLS
from reticent.queries.base import Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Ratio
from reticent.service.http.problems import HttpProblem
from reticent.service.settings import Settings
from reticent.sql import Statement

QUICK = 2**15
"""Cells a free answer may touch on the event loop itself; more go to a thread."""
QUICK_NUMBERS = 500
"""Numbers that are written on the event loop."""
QUICK_STEPS = 2_000
"""Of a statement's result (`reticent.sql.meter`): about two milliseconds."""


@dataclass(frozen=True)
class Work:
    """Cells read, numbers returned, the most purchases a paid answer may need; steps of about a microsecond beside."""

    cells: int
    numbers: int
    purchases: int
    steps: int = 0
    """Of computing from what was read: a statement's result, a model."""
    paid_steps: int = 0
    """Of what a wanted error needs beside."""

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, name.name) + getattr(other, name.name) for name in fields(self)))

    @property
    def quick(self) -> bool:
        return self.cells <= QUICK and self.numbers <= QUICK_NUMBERS and self.steps <= QUICK_STEPS


def work_of(query: Query, domain: Domain) -> Work:
    """The cost model of one question."""
    query = query.resolve(domain)
    if isinstance(query, Linear):
        return _of_number(min(domain.cells(query.compile(domain).attributes), 2**62))
    if isinstance(query, Ratio):
        return work_of(query.numerator, domain) + work_of(query.denominator, domain)
    if isinstance(query, Marginal):
        cells = domain.cells(query.canonical(domain))
        return Work(cells, cells, 1)
    if isinstance(query, Groups):
        groups, cells = domain.cells(query.names), domain.cells(query.span(domain))
        # All at once up to so many cells; beyond, and by threshold engines, one by one.
        return Work(max(groups, cells), groups, 1 if cells <= MARGINAL_CELLS else groups)
    raise HttpProblem("question", f"{query.text} is a workload entry, not one question; ask count, mean or marginal")


@lru_cache
def _of_number(cells: int) -> Work:
    return Work(cells, 1, 1)


def weigh(statement: Statement) -> Work:
    """Of a whole statement: its questions, and its result."""
    total = Work(0, 0, 0)
    for query in (statement.explained or statement).queries:
        total = total + work_of(query, statement.domain)
    numbers = max(total.numbers, statement.numbers)
    return replace(total, numbers=numbers, steps=statement.steps, paid_steps=statement.search_steps)


def light(query: Query, domain: Domain) -> bool:
    """Whether a question may be weighed and compiled on the event loop: by the columns that it names."""
    try:
        return domain.cells(query.attributes) <= QUICK
    except DomainError as error:
        raise QueryError(str(error)) from None


def check_work(work: Work, settings: Settings, *, paid: bool) -> None:
    """Problem `too-complex`, with the figure, the bound and the remedy."""
    if work.numbers > settings.answer_cells:
        raise HttpProblem(
            "too-complex",
            f"the answer has {work.numbers} numbers, at most {settings.answer_cells}: group by fewer columns",
        )
    if work.numbers > 1 and work.cells > settings.work_cells:
        raise HttpProblem(
            "too-complex", f"{work.cells} cells must be read, at most {settings.work_cells}: use fewer columns"
        )
    steps = work.steps + (work.paid_steps if paid else 0)
    if steps > settings.work_steps:
        raise HttpProblem("too-complex", f"about {steps} steps of work, at most {settings.work_steps}: ask its parts")
    if paid and work.purchases > settings.purchases:
        raise HttpProblem(
            "too-complex",
            f"up to {work.purchases} purchases in one question, at most {settings.purchases}: ask without an error"
            " bound for free, or ask its parts",
        )
