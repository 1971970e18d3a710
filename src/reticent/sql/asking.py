"""A statement put to knowledge: the errors its parts need, its table from their answers, its table for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from reticent.errors import QueryError
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import Recall, answered, free_single, reachable_part, together
from reticent.knowledge.knowledge import Knowledge, Single
from reticent.knowledge.offsets import share_offset
from reticent.knowledge.raw_sums import best_sums, rows_answer, summed_groups
from reticent.knowledge.request import Request, WantedError, part_name, shared_confidence
from reticent.knowledge.synthetic import drawn_rows
from reticent.knowledge.unmeasured import unmeasured_note
from reticent.queries import Query
from reticent.queries.base import Linear
from reticent.sql.basis import refuse_sums
from reticent.sql.error_targets import shortfall, targets
from reticent.sql.result import ResultTable
from reticent.sql.statement import Statement

ROWS_PARTS = (1 + 2 ** (-2 / 3)) ** 3
"""What a total of the rows' own numbers costs beside a count within the same error: its sum, and its own count."""
KEPT_TABLES = 512
KEPT_CELLS = 1024
"""Of one kept table; five numbers a cell make at most 20 MB for all of them."""

__all__ = ["chosen_errors", "free_table", "needed_errors", "refuse_sums", "result_table"]


def free_table(knowledge: Knowledge, request: Request, recall: Recall | None = None) -> ResultTable | None:
    """The result from what is known; None where that is not good enough for the wanted error."""
    statement, error, confidence = request.question, request.error, request.confidence
    assert isinstance(statement, Statement), "SQL, compiled"
    refuse_sums(statement, knowledge.unit)
    if statement.explained is not None and error is not None:
        return None  # only a session knows its prices
    errors: Sequence[float | None] | None = [None] * len(statement.queries)
    if error is not None:
        name = part_name(statement.text, error, confidence)
        confidence = shared_confidence(confidence, len(statement.queries))
        errors = None if recall is None else recall(name)
        errors = needed_errors(statement, knowledge, error, confidence) if errors is None else errors
    answers: list[Answer] = []
    for query, wanted in zip(statement.queries, errors, strict=True):
        found = _of_rows(knowledge, query, wanted, confidence)
        if found is None and (wanted is None or wanted > 0):
            found = _free(knowledge, _single(query), wanted, confidence, request)
        if found is None:
            return None
        answers.append(found)
    return result_table(statement, knowledge, answers, error=error, confidence=confidence)


def _free(
    knowledge: Knowledge, query: Single, wanted: float | None, confidence: float, request: Request
) -> Answer | None:
    """The free answer to one of a statement's questions; tables that are small are kept as long as nothing is learned.

    Statements of a dashboard differ in their order, their limit and their arithmetic; what they group by repeats.
    """
    if wanted is not None or isinstance(query, Linear) or knowledge.domain.cells(query.names) > KEPT_CELLS:
        return free_single(knowledge, query, wanted, confidence, strict=request.strict, promise=request.promise)
    kept, key = knowledge.tables, (query, confidence, request.strict)
    found = kept.get(key)
    if found is None:
        found = free_single(knowledge, query, None, confidence, strict=request.strict)
        if found is not None:
            if len(kept) >= KEPT_TABLES:
                kept.clear()
            kept[key] = _frozen(found)
    return found


def _of_rows(knowledge: Knowledge, query: Query, wanted: float | None, confidence: float) -> Answer | None:
    """A total of the rows' own numbers that somebody paid for, where one is wanted or nothing is said."""
    groups = summed_groups(query, knowledge.domain) if knowledge.sums and (wanted is None or wanted < 0) else None
    if groups is None or groups.digest not in knowledge.sums:
        return None
    return best_sums(knowledge.sums[groups.digest], query, None if wanted is None else -wanted, confidence)


def _frozen(answer: Answer) -> Answer:
    """Nobody may change what another statement will read."""
    for part in (answer.value, answer.count, answer.fitted, *(answer.interval or ())):
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
    return answer


def needed_errors(
    statement: Statement,
    knowledge: Knowledge,
    error: WantedError,
    confidence: float,
    *,
    own: float | None = None,
    of_rows: frozenset[Query] = frozenset(),
) -> list[float]:
    """The error each query needs, judged by what is known for free before anything is bought.

    An engine that answers everything within its `own` error is asked for no less, except by statements that only
    count: what needs a smaller one is told that it fell short. Totals in `of_rows` will be of the rows' own numbers.
    """
    estimates: dict[Query, Answer] = {}
    for query in statement.queries:
        found = _best(knowledge, query, confidence)
        estimates[query] = rows_answer(found) if query in of_rows else found
    found = targets(statement, estimates, error, records=knowledge.records, records_error=knowledge.records_error)
    needed = [found[query] for query in statement.queries]
    if own is not None:
        return needed if statement.counts else [max(part, own) for part in needed]
    return [reachable_part(part, error, "this statement", knowledge) for part in needed]


def chosen_errors(
    statement: Statement,
    knowledge: Knowledge,
    error: WantedError,
    confidence: float,
    *,
    own: float | None,
    sold: Callable[[Query], bool],
    free: Callable[[Query, float], bool],
) -> list[float]:
    """The error that each query needs; below zero where its total is bought of the rows' own numbers.

    Bins serve where they are known well enough, or cost less; `sold` says what can be bought instead of them.
    """
    of_rows = frozenset(query for query in statement.queries if sold(query))
    if not statement.binned or not of_rows:
        return needed_errors(statement, knowledge, error, confidence, own=own)
    binned: list[float] | None = None
    with suppress(QueryError):
        binned = needed_errors(statement, knowledge, error, confidence, own=own)
    if binned is not None and all(free(*part) for part in zip(statement.queries, binned, strict=True)):
        return binned
    rows = needed_errors(statement, knowledge, error, confidence, own=own, of_rows=of_rows)
    parts = [ROWS_PARTS if query in of_rows else 1.0 for query in statement.queries]
    price = sum(part / wanted**2 for part, wanted in zip(parts, rows, strict=True))
    if binned is not None and sum(1 / wanted**2 for wanted in binned) <= price:
        return binned
    return [-wanted if query in of_rows else wanted for query, wanted in zip(statement.queries, rows, strict=True)]


def result_table(
    statement: Statement,
    knowledge: Knowledge,
    answers: Sequence[Answer],
    *,
    error: WantedError | None,
    confidence: float,
) -> ResultTable:
    """The result that the answers to its queries give."""
    found = dict(zip(statement.queries, answers, strict=True))
    # What is paid for shares the confidence between its own questions; beside free ones others may tighten bounds.
    tighten = None if error is not None else lambda query: _best(knowledge, query, confidence)
    table = statement.run(
        found.__getitem__,
        records=knowledge.records,
        records_error=knowledge.records_error,
        unit=knowledge.unit,
        tighten=tighten,
        joint=together(knowledge),
        sample=partial(drawn_rows, knowledge),
        # What is paid for stays as it was bought, whatever the hypothesis learns.
        offset=partial(share_offset, knowledge) if error is None and knowledge.bin_means else None,
    )
    if note := unmeasured_note(knowledge, table.origin, statement.queries):
        table = replace(table, note="; ".join(filter(None, [table.note, note])))
    if error is None:
        return table
    typical = any(answer.origin == "typical" for answer in answers)
    judged = replace(table, errors=_reached(table)) if typical else table
    return replace(table, note=shortfall(statement, judged, error, knowledge.records))


def _reached(table: ResultTable) -> tuple[tuple[float | None, ...], ...]:
    """For whoever takes a typical error: certified ones, and typical ones where there are none."""
    if not table.typical:
        return table.errors
    rows = zip(table.errors, table.typical, strict=True)
    return tuple(tuple(e if e is not None else t for e, t in zip(*row, strict=True)) for row in rows)


def _best(knowledge: Knowledge, query: Query, confidence: float) -> Answer:
    single = _single(query)
    reading = knowledge.free(single, confidence, None) or knowledge.guess(single)
    return answered(knowledge, single, reading, confidence)


def _single(query: Query) -> Single:
    assert isinstance(query, Single), "statements are made of single questions"
    return query
