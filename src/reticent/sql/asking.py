"""Statements asked of knowledge: the errors of their parts, their result from the parts' answers, and free results.

Statistics asked from Python are answered as the SQL aggregate of the same name.

A list of SQL statements is a workload: the queries behind them, which a release should answer well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.domain.values import day_of
from reticent.errors import QueryError, ReticentError
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import (
    Recall,
    Told,
    answered,
    drawn_rows,
    free_single,
    reachable_part,
    together,
    unmeasured_note,
)
from reticent.knowledge.knowledge import Knowledge, Single
from reticent.knowledge.offsets import share_offset
from reticent.knowledge.raw_sums import RawSums, best_centred, best_sums, farthest_sums, summed_groups
from reticent.knowledge.request import (
    ROUNDING,
    Numbers,
    Request,
    WantedError,
    checked_error,
    part_name,
    shared_confidence,
)
from reticent.queries import Groups, Marginal, Query, Workload
from reticent.queries.base import RECORDS_FAILURE, Linear
from reticent.queries.predicate import Everything
from reticent.queries.statistics import StatisticQuery
from reticent.sql.error_targets import check_wish, reached, shortfall, targets, wanted_errors
from reticent.sql.parse import parse_all, parse_one
from reticent.sql.result import ResultTable, refuse_sums
from reticent.sql.statement import STATEMENTS, Statement, statement_of
from reticent.sql.vectors import SHOWN_UNIT, TEMPORAL

CENTRED = 0.0
"""No error: the mark of errors for centred totals."""
KEPT_TABLES = 512
KEPT_CELLS = 1024
"""Of one kept table; five numbers a cell make at most 20 MB for all of them."""

__all__ = [
    "Part",
    "chosen_errors",
    "fitting",
    "free_table",
    "narrowest",
    "needed_errors",
    "part_confidence",
    "refuse_sums",
    "result_table",
    "wanted_parts",
]


def free_table(
    knowledge: Knowledge, request: Request, recall: Recall | None = None, told: Told | None = None
) -> ResultTable | None:
    """The result from what is known; None where that is not good enough for the wanted error.

    What was bought for this very wish comes first, as it was answered then.
    """
    statement, error, confidence = request.question, request.error, request.confidence
    knowledge = knowledge.of_counts
    assert isinstance(statement, Statement), "SQL, compiled"
    refuse_sums(statement, knowledge.unit)
    if statement.explained is not None and error is not None:
        return None  # only a session knows its prices
    if error is None:
        return _best_table(statement, knowledge, request)
    stored = None if recall is None else fitting(statement, recall(part_name(statement.text, error, confidence)))
    if not knowledge.shares.joint:
        # Ledgers of version 0.1 answer a repeated question by the errors of its parts alone.
        each = part_confidence(statement, stored, confidence)
        errors = needed_errors(statement, knowledge, error, each) if stored is None else stored
        return _within(statement, knowledge, request, errors)
    if stored is None:
        check_wish(statement, error, knowledge.records, knowledge.records_error)
    else:
        kept = None if told is None else told(part_name(statement.text, error, confidence))
        bought = _within(statement, knowledge, request, stored) if kept is None else _repeated(kept)
        if bought is not None and reached(statement, bought, error, knowledge.records):
            return bought
    certain = request.but(strict=True, promise="certified")
    free = _best_table(statement, knowledge, certain.but(error=None))
    if free is not None and _meets(statement, knowledge, free, request):
        return replace(free, note=shortfall(statement, free, error, knowledge.records))
    # What was bought for another error, each part as sure as the result is to be and nothing beside it.
    each = part_confidence(statement, None, confidence)
    bought = _table_of(statement, knowledge, certain, _bought_parts(statement, knowledge, each), each)
    if bought is not None and _meets(statement, knowledge, bought, request):
        return bought
    if stored is not None:
        return None
    try:
        needed = needed_errors(statement, knowledge, error, part_confidence(statement, None, confidence))
    except QueryError:
        return None  # the rows' own numbers may reach it; else the session refuses
    found = _within(statement, knowledge, request, needed)
    if found is None or request.promise == "typical":
        return found
    return found if reached(statement, found, error, knowledge.records) else None


def _best_table(statement: Statement, knowledge: Knowledge, request: Request) -> ResultTable | None:
    """The free result: where totals of the rows' own numbers were bought, the narrower of their bounds and of bins'."""
    parts = _bought_parts(statement, knowledge, request.confidence)
    found = _table_of(statement, knowledge, request, parts, request.confidence)
    if found is None:
        return None
    if any(part.numbers for part in parts):
        plain = [Part(query, None) for query in statement.queries]
        binned = _table_of(statement, knowledge, request, plain, request.confidence)
        found = found if binned is None else narrowest(statement, knowledge, found, binned, None)
    return _no_wider_than_bought(statement, knowledge, request, found)


def _no_wider_than_bought(
    statement: Statement, knowledge: Knowledge, request: Request, found: ResultTable
) -> ResultTable:
    """A free result with the bounds of what was bought for its parts, as sure as the result is to be, where they are
    narrower.

    Beside purchases the fit may place a value far from the middle of its interval. Both read the same purchases, so
    the one that states more of each of them fails whenever the other does: choosing costs no confidence.
    """
    each = part_confidence(statement, None, request.confidence)
    if not knowledge.shares.joint or each == request.confidence or "cache" not in found.origin.split(" + "):
        return found
    certain = request.but(error=None, strict=True, promise="certified")
    bought = _table_of(statement, knowledge, certain, _bought_parts(statement, knowledge, each), each, alone=True)
    return found if bought is None else _joined_tables(found, bought)


def _repeated(kept: dict[str, Any]) -> ResultTable:
    """A recorded result, for nothing."""
    found = ResultTable.from_dict(kept)
    origins = {"cache" if origin == "measured" else origin for origin in found.origin.split(" + ")}
    return replace(found, price=0.0, origin=" + ".join(sorted(origins)))


def _within(
    statement: Statement, knowledge: Knowledge, request: Request, stored: Sequence[float]
) -> ResultTable | None:
    """The result of parts that are all known within these errors; None if one is not."""
    each = part_confidence(statement, stored, request.confidence)
    return _table_of(statement, knowledge, request, wanted_parts(statement, stored), each)


def _table_of(
    statement: Statement,
    knowledge: Knowledge,
    request: Request,
    parts: Sequence[Part],
    confidence: float,
    *,
    alone: bool = False,
) -> ResultTable | None:
    """The result of the free answers to these parts; None if one is missing."""
    answers: list[Answer] = []
    totals = {of_bins: total for total, of_bins in statement.of_bins.items()}
    for part in parts:
        found = _of_rows(knowledge, part, confidence) if part.numbers else None
        if found is None and (not part.numbers or part.error is None):
            # Of representatives more may be known under the total itself, which is the same question of bins.
            query = part.query if part.error is not None else totals.get(part.query, part.query)
            found = _free(knowledge, _single(query), part.error, confidence, request)
        if found is None:
            return None
        answers.append(found)
    error = request.error
    return result_table(statement, knowledge, parts, answers, error=error, confidence=confidence, alone=alone)


def _meets(statement: Statement, knowledge: Knowledge, table: ResultTable, request: Request) -> bool:
    """Whether a free result has the requested error and confidence."""
    assert request.error is not None, "a wish"
    least = request.confidence - 2 * RECORDS_FAILURE
    if table.confidence is None or table.confidence < least:
        return False
    return reached(statement, table, request.error, knowledge.records)


def narrowest(
    statement: Statement, knowledge: Knowledge, table: ResultTable, other: ResultTable, error: WantedError | None
) -> ResultTable:
    """A result with the narrower of two bounds for each number, and its value; unchanged if they cannot be joined.

    Statements that a session makes for all questions at once have their own share of the failure probability, so they
    hold jointly with purchases (answers 1.1). Of other bounds, choosing the narrower would miss more often than stated.
    """
    if not together(knowledge).issuperset(other.origin.split(" + ")):
        return table
    found = _joined_tables(table, other)
    if found is table or error is None:
        return found
    return replace(found, note=_renoted(statement, found, error, knowledge, table.note))


def _joined_tables(table: ResultTable, other: ResultTable) -> ResultTable:
    """The narrower of two bounds for each number, and its value; unchanged if none is narrower, or the rows differ."""
    keys = [place for place, number in enumerate(table.aggregates) if not number]
    if [[row[k] for k in keys] for row in table.rows] != [[row[k] for k in keys] for row in other.rows]:
        return table
    better = [
        [_narrower(mine, theirs) for mine, theirs in zip(*pair, strict=True)]
        for pair in zip(table.errors, other.errors, strict=True)
    ]
    if not any(map(any, better)):
        return table
    rows, errors = (
        tuple(
            tuple(theirs if taken else mine for mine, theirs, taken in zip(*cells, strict=True))
            for cells in zip(ours, others, better, strict=True)
        )
        for ours, others in ((table.rows, other.rows), (table.errors, other.errors))
    )
    origin = " + ".join(sorted({*table.origin.split(" + "), *other.origin.split(" + ")}))
    bounded = all(e is not None for row in errors for k, e in enumerate(row) if k not in keys)
    return replace(table, rows=rows, errors=errors, origin=origin, certified=table.certified or bounded)


def _renoted(statement: Statement, table: ResultTable, error: WantedError, knowledge: Knowledge, note: str) -> str:
    """The note of a result whose bounds became narrower: what it still misses, and all that it says otherwise."""
    kept = [part for part in note.split("; ") if part and "was not reached" not in part]
    return shortfall(statement, replace(table, note="; ".join(kept)), error, knowledge.records)


def _narrower(mine: float | None, theirs: float | None) -> bool:
    return theirs is not None and (mine is None or theirs < mine)


class Part(NamedTuple):
    """One question behind a statement, and what is wanted of it."""

    query: Query
    error: float | None
    numbers: Numbers = ""


def wanted_parts(statement: Statement, stored: Sequence[float]) -> list[Part]:
    """What is asked for a statement, from the errors that were chosen or written down for it.

    One below zero is of a total of the rows' own numbers. Centred totals have errors of their counts behind those of
    the statement's own queries, and `CENTRED` as the last. Totals of earlier ledgers have counts of their own, and no
    such mark.
    """
    queries, centred = statement.queries, stored[-1:] == [CENTRED]
    of_rows = [query for query, error in zip(queries, stored, strict=False) if error < 0]
    kind: Numbers = "centred" if centred else "counted"
    asked = statement.asked(of_rows) if centred else queries
    errors = stored[:-1] if centred else stored
    # Ledgers of version 0.1 have no errors of the last ones: totals of representatives beside those of the rows.
    asked = asked[: len(errors)] if len(asked) - len(errors) <= len(statement.of_bins) else asked
    return [Part(q, abs(error), kind if error < 0 else "") for q, error in zip(asked, errors, strict=True)]


def fitting(statement: Statement, stored: Sequence[float] | None) -> list[float] | None:
    """The errors recorded for a statement; None if they are of other queries, because another version compiled it."""
    if stored is None:
        return None
    queries, centred = statement.queries, stored[-1:] == [CENTRED]
    of_rows = [query for query, error in zip(queries, stored, strict=False) if error < 0]
    if not set(of_rows) <= set(statement.summed):
        return None
    parts, errors = len(statement.asked(of_rows) if centred else queries), len(stored) - centred
    return list(stored) if 0 <= parts - errors <= len(statement.of_bins) else None


def part_confidence(statement: Statement, stored: Sequence[float] | None, confidence: float) -> float:
    """That of each question behind a statement, so that all of them hold together."""
    parts = len(statement.queries) if stored is None else len(wanted_parts(statement, stored))
    return shared_confidence(confidence, parts)


def _bought_parts(statement: Statement, knowledge: Knowledge, confidence: float) -> list[Part]:
    """Free answers: totals of the rows' own numbers if they were purchased before."""
    kinds: dict[Query, Numbers] = {}
    for query in statement.queries if knowledge.sums else ():
        bought = _sums_of(knowledge, query)
        whole = best_sums(bought, query, None, confidence)
        centred = best_centred([sums for sums in bought if not sums.whole], query, None, confidence)
        if centred is not None and (whole is None or (centred.error or 0.0) < (whole.error or 0.0)):
            kinds[query] = "centred"
        elif whole is not None:
            kinds[query] = "counted"
    if not kinds:
        return [Part(query, None) for query in statement.queries]
    asked = statement.asked([query for query, kind in kinds.items() if kind == "centred"])
    of_bins = [statement.of_bins[query] for query in kinds if query in statement.of_bins]
    return [Part(query, None, kinds.get(query, "")) for query in dict.fromkeys((*asked, *of_bins))]


def _free(
    knowledge: Knowledge, query: Single, wanted: float | None, confidence: float, request: Request
) -> Answer | None:
    """The free answer to one of a statement's questions; tables that are small are kept as long as nothing is learned.

    Statements of a dashboard differ in their order, their limit and their arithmetic; what they group by repeats.
    """
    if wanted is not None or isinstance(query, Linear) or knowledge.domain.cells(query.names) > KEPT_CELLS:
        return free_single(knowledge, query, wanted, confidence, strict=request.strict, promise=request.promise)
    # The same groups in another order are an equal query, but another table.
    kept, key = knowledge.tables, (query, query.names, confidence, request.strict)
    found = kept.get(key)
    if found is None:
        found = free_single(knowledge, query, None, confidence, strict=request.strict)
        if found is not None:
            if len(kept) >= KEPT_TABLES:
                kept.clear()
            kept[key] = _frozen(found)
    return found


def _of_rows(knowledge: Knowledge, part: Part, confidence: float) -> Answer | None:
    """A purchased total of the rows' own numbers."""
    best = best_centred if part.numbers == "centred" else best_sums
    return best(_sums_of(knowledge, part.query), part.query, part.error, confidence)


def _sums_of(knowledge: Knowledge, query: Query) -> tuple[RawSums, ...]:
    """Everything that was bought of a total's numbers."""
    groups = summed_groups(query, knowledge.domain) if knowledge.sums else None
    return () if groups is None else knowledge.sums_of(groups.digest)


def _frozen(answer: Answer) -> Answer:
    """Make arrays read-only, because other statements read them too."""
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
    count: what needs a smaller one is told that it fell short. Totals in `of_rows` will be centred sums of the rows'
    own numbers: then counts of their records are asked, too.
    """
    knowledge, asked = knowledge.of_counts, statement.asked(of_rows)
    estimates = {query: _best(knowledge, query, confidence) for query in asked}
    for query, counted in statement.present_blocks(of_rows).items():
        estimates[query] = farthest_sums(query, knowledge.domain, counted.shares(estimates)[0])
    found = targets(
        statement,
        estimates,
        error,
        records=knowledge.records,
        records_error=knowledge.records_error,
        counting=knowledge.counting,
    )
    needed = [found[query] for query in asked]
    if own is not None:
        return needed if statement.counts else [max(part, own) for part in needed]
    kinds = {one.expr.kind for one in statement.fields if one.expr.known is None}
    unit = " days" if kinds and kinds.issubset(TEMPORAL) else ""
    return [reachable_part(part, error, "this statement", knowledge, unit) for part in needed]


def chosen_errors(
    statement: Statement,
    knowledge: Knowledge,
    error: WantedError,
    confidence: float,
    *,
    own: float | None,
    sold: Callable[[Query], bool],
    free: Callable[[Query, float, float], bool],
) -> list[float]:
    """The error that each query needs, as `wanted_parts` reads them.

    Bins serve where they are known well enough, or cost less; `sold` says which totals can be bought instead of them.
    """
    each = shared_confidence(confidence, len(statement.queries))
    sums = [query for query in statement.summed if sold(query)]
    of_rows = frozenset(statement.present_blocks(sums))
    if not of_rows:
        return needed_errors(statement, knowledge, error, each, own=own)
    binned: list[float] | None = None
    with suppress(QueryError):
        binned = needed_errors(statement, knowledge, error, each, own=own)
    if binned is not None and all(free(*part, each) for part in zip(statement.queries, binned, strict=True)):
        return binned
    asked = statement.asked(of_rows)
    each = shared_confidence(confidence, len(asked))
    rows = needed_errors(statement, knowledge, error, each, own=own, of_rows=of_rows)
    if binned is not None and sum(1 / wanted**2 for wanted in binned) <= sum(1 / wanted**2 for wanted in rows):
        return binned
    return [*(-wanted if query in of_rows else wanted for query, wanted in zip(asked, rows, strict=True)), CENTRED]


def result_table(
    statement: Statement,
    knowledge: Knowledge,
    parts: Sequence[Part],
    answers: Sequence[Answer],
    *,
    error: WantedError | None,
    confidence: float,
    alone: bool = False,
) -> ResultTable:
    """The result that the answers to its parts give; `alone` from these, as it was paid for, also where it is free."""
    knowledge = knowledge.of_counts
    found = {part.query: answer for part, answer in zip(parts, answers, strict=True)}
    alone = alone or error is not None
    # What is paid for shares the confidence between its own questions; beside free ones others may tighten bounds.
    tighten = None if alone else lambda query: _best(knowledge, query, confidence)
    table = statement.run(
        found.__getitem__,
        records=knowledge.records,
        records_error=knowledge.records_error,
        counting=knowledge.counting,
        unit=knowledge.unit,
        tighten=tighten,
        joint=together(knowledge),
        sample=partial(drawn_rows, knowledge),
        # What is paid for stays as it was bought, whatever the hypothesis learns.
        offset=partial(share_offset, knowledge) if not alone and knowledge.bin_means else None,
        asked=tuple(found),
        fit=partial(_fit, knowledge) if not alone and knowledge.shares.joint else None,
    )
    if note := unmeasured_note(knowledge, table.origin, statement.queries):
        table = replace(table, note="; ".join(filter(None, [table.note, note])))
    if error is None:
        return table
    typical = any(answer.origin == "typical" for answer in answers)
    judged = replace(table, errors=_reached(table)) if typical else table
    return replace(table, note=shortfall(statement, judged, error, knowledge.records))


def _reached(table: ResultTable) -> tuple[tuple[float | None, ...], ...]:
    """Errors for a request that accepts typical errors: certified ones, otherwise typical ones."""
    if not table.typical:
        return table.errors
    rows = zip(table.errors, table.typical, strict=True)
    return tuple(tuple(e if e is not None else t for e, t in zip(*row, strict=True)) for row in rows)


def _best(knowledge: Knowledge, query: Query, confidence: float) -> Answer:
    single = _single(query)
    reading = knowledge.free(single, confidence, None) or knowledge.guess(single, named=False)
    return answered(knowledge, single, reading, confidence)


def _fit(knowledge: Knowledge, query: Query) -> Answer:
    """The answer of the working hypothesis alone; small tables are kept as long as nothing is learned."""
    single = _single(query)
    if isinstance(single, Linear) or knowledge.domain.cells(single.names) > KEPT_CELLS:
        return answered(knowledge, single, knowledge.guess(single, named=False), None)
    kept, key = knowledge.tables, (single, single.names, 0.0, False)
    found = kept.get(key)
    if found is None:
        found = _frozen(answered(knowledge, single, knowledge.guess(single, named=False), None))
        if len(kept) >= KEPT_TABLES:
            kept.clear()
        kept[key] = found
    return found


def _single(query: Query) -> Single:
    assert isinstance(query, Single), "statements are made of single questions"
    return query


def compile_statistic(statistic: StatisticQuery, domain: Domain) -> Statement:
    """The statement of one number; the last few hundred are kept."""
    key = (statistic.text, domain, None, False)
    found = STATEMENTS.get(key)
    if found is None:
        where = None if isinstance(statistic.where, Everything) else statistic.where
        tree = parse_one(f"SELECT {_aggregate(statistic)} FROM t")
        found = statement_of(tree, statistic.text, domain, where=where)
        STATEMENTS.put(key, found, found.footprint)
    return found


def answer_of(statistic: StatisticQuery, table: ResultTable, wanted: float | None = None) -> Answer:
    """The one number of the table, as an answer; a date as the number of days since 1970, as its basis says.

    `wanted` is the requested error in the unit of the answer.
    """
    value, error, basis = table.rows[0][0], table.errors[0][0], table.basis
    if isinstance(value, str):
        days, basis = day_of(value), "; ".join(filter(None, (f"{value} in days since 1970-01-01", basis)))
        assert isinstance(days, float), "results hold dates as ISO text"
        value = days
    certified = table.certified and error is not None and value is not None
    return Answer(
        query=statistic.text,
        value=math.nan if value is None else float(value),
        count=None,
        error=error if certified else None,
        confidence=table.confidence if certified else None,
        origin=table.origin,
        certified=certified,
        price=table.price,
        wanted=None if wanted is None or (error is not None and error <= wanted * ROUNDING) else wanted,
        note=table.note or ("hardly any record satisfies the condition" if value is None else ""),
        basis=basis,
    )


def wanted_of(statistic: StatisticQuery, domain: Domain, error: WantedError | str | None) -> float | None:
    """The requested error in the unit of the answer."""
    if error is None:
        return None
    statement = compile_statistic(statistic, domain)
    # A statistic counts no records: their number has no part in its range.
    wanted = wanted_errors(statement, checked_error(error), 1.0).get(0)
    return None if wanted is None else wanted / SHOWN_UNIT.get(statement.fields[0].expr.kind, 1.0)


def _aggregate(statistic: StatisticQuery) -> str:
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in statistic.columns)
    if statistic.function == "quantile":
        return f"QUANTILE_CONT({columns}, {statistic.level!r})"
    if statistic.function == "correlation":
        return f"CORR({columns})"
    name = "VAR" if statistic.function == "variance" else "COVAR"
    return f"{name}_{'SAMP' if statistic.sample else 'POP'}({columns})"


LISTED_GROUPS = 1024
"""Groups with a condition that stand in a workload one by one; more are covered by their common marginal."""


def workload_of_sql(text: str, domain: Domain) -> Workload:
    """The workload of statements separated by semicolons; repeated questions weigh more."""
    entries: list[Query] = []
    for number, select in enumerate(parse_all(text, domain.names), start=1):
        try:
            statement = statement_of(select, "", domain)
        except QueryError as error:
            raise QueryError(f"statement {number}: {error}") from None
        for query in statement.queries:
            entries += _entries(query, domain)
    if not entries:
        raise QueryError("the statements ask only for the number of records, which is known; add a condition")
    return Workload(entries, domain=domain)


def read_sql_workload(path: str | Path, domain: Domain) -> Workload:
    """The workload of a .sql file."""
    path = Path(path)
    try:
        return workload_of_sql(path.read_text(encoding="utf-8"), domain)
    except OSError as error:
        raise QueryError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise QueryError(f"{path}: is not UTF-8 text; save it as such") from None
    except ReticentError as error:
        raise QueryError(f"{path}: {error}") from None


def _entries(query: Query, domain: Domain) -> list[Query]:
    if not isinstance(query, Groups):
        return [query]
    if domain.cells(query.names) <= LISTED_GROUPS:
        return list(query.parts(domain))
    return [Marginal(query.span(domain))]
