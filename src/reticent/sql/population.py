"""Result tables about the population: the same rows, with the sampling error added (population.md 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reticent.domain.values import confidence_text
from reticent.errors import QueryError
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import answered
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.population import BEFOREHAND, SAMPLED, Mode, chosen_mode, on_replicates, share_bounds, spread
from reticent.knowledge.tails import check_confidence
from reticent.queries import Query
from reticent.sql.result import ResultTable
from reticent.sql.statement import Statement

if TYPE_CHECKING:
    from reticent.hypotheses.replicates import Replicates

__all__ = ["PopulationTable", "TableSample", "population_table"]


class TableSample(NamedTuple):
    """The origin of a result table."""

    knowledge: Knowledge
    statement: Statement
    replicates: Replicates | None = None


@dataclass(frozen=True, repr=False)
class PopulationTable(ResultTable):
    """`errors` are half-widths of intervals for the population; counts are those of a table of the same size.

    Estimated intervals hold separately, certified ones jointly. An estimated interval is symmetric: Student's quantile
    times the standard error, for counts too (`Answer.population` gives Wilson's interval for those).
    """

    mode: Mode = "estimated"

    @property
    def guarantee(self) -> str:
        if not self.rows:
            return "no group is left"
        if self.mode == "certified":
            return f"population, certified: {super().guarantee}; {SAMPLED}, {BEFOREHAND}"
        assert self.confidence is not None, "an interval has one"
        return f"population, estimated: each interval at {confidence_text(self.confidence)}; {SAMPLED}, {BEFOREHAND}"


def population_table(table: ResultTable, sample: TableSample, confidence: float, mode: str | None) -> PopulationTable:
    """The table's rows with intervals for the population in place of those for the table."""
    confidence = check_confidence(confidence)
    if sample.statement.explained is not None or sample.statement.synthetic is not None:
        raise QueryError("an EXPLAIN and synthetic rows say nothing about the population; ask the SELECT itself")
    chosen = chosen_mode(mode, sample.replicates)
    found = _certified(sample, confidence) if chosen == "certified" else _estimated(table, sample, confidence)
    kept = {field.name: getattr(table, field.name) for field in fields(ResultTable)}
    bounded = [
        error is not None for row in found for error, number in zip(row, table.aggregates, strict=True) if number
    ]
    told = {"errors": found, "confidence": confidence, "certified": chosen == "certified" and all(bounded)}
    return PopulationTable(**(kept | told), mode=chosen)


Errors = tuple[tuple[float | None, ...], ...]


def _estimated(table: ResultTable, sample: TableSample, confidence: float) -> Errors:
    statement, replicates = sample.statement, sample.replicates
    assert replicates is not None, "the mode was chosen"
    own = {query: _guess(sample.knowledge, query) for query in statement.queries}
    many = list(statement.recomputed(own, _on_each(statement, replicates), sample.knowledge.records))
    columns = [
        _reaches(table, place, [found[place] for found in many], confidence) for place in range(len(table.columns))
    ]
    return tuple(zip(*columns, strict=True))


def _reaches(
    table: ResultTable, place: int, many: Sequence[np.ndarray | None], confidence: float
) -> list[float | None]:
    """Half the width of each interval in one column; None where it has no numbers."""
    cells = [row[place] for row in table.rows]
    if not table.aggregates[place] or any(found is None or len(found) != len(cells) for found in many):
        return [None] * len(cells)
    centre = np.array([float(c) if isinstance(c, (int, float)) and not isinstance(c, bool) else np.nan for c in cells])
    _, reach = spread(np.array(many, dtype=float), centre, confidence)
    return [float(width) if isfinite(width) else None for width in reach]


def _guess(knowledge: Knowledge, query: Query) -> Answer:
    """The value as a free table reads it, from the certified snapshot of the release."""
    reading = knowledge.free(query, 0.95, None) or knowledge.guess(query)  # pyright: ignore[reportArgumentType]
    return answered(knowledge, query, reading, None)  # pyright: ignore[reportArgumentType]


def _on_each(statement: Statement, replicates: Replicates) -> Iterator[Mapping[Query, Answer]]:
    values = {query: on_replicates(query, replicates) for query in statement.queries}
    for index in range(replicates.count):
        yield {query: _valued(query, found[index]) for query, found in values.items()}


def _valued(query: Query, value: np.ndarray, error: float | None = None) -> Answer:
    stated = float(value) if np.ndim(value) == 0 else value
    known = error is not None
    return Answer(
        query.text, stated, None, error, 1.0 if known else None, "certificate" if known else "hypothesis", known
    )


def _certified(sample: TableSample, confidence: float) -> Errors:
    """Every query's own interval with its share of the failure, then the statement's own interval arithmetic."""
    statement, knowledge = sample.statement, sample.knowledge
    part = (1 - confidence) / max(1, len(statement.queries))

    def answer(query: Query) -> Answer:
        value = _guess(knowledge, query).value
        low, high = share_bounds(knowledge, query, part, together=True)
        error = float(np.max(np.maximum(high - np.asarray(value), np.asarray(value) - low)))
        return _valued(query, np.asarray(value), error)

    return statement.run(answer, records=knowledge.records, unit=knowledge.unit).errors
