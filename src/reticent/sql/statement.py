"""A statement is compiled once per text and domain, and run on any answers: a release's, a session's, a server's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite

import numpy as np
from sqlglot import exp

from reticent.answer import Answer
from reticent.domain import Domain
from reticent.errors import ReticentError
from reticent.queries import Query
from reticent.sql.aggregates import has_aggregate
from reticent.sql.asking import Block, blocks_of, joint_confidence, queries_of, share_interval
from reticent.sql.conditions import condition
from reticent.sql.constants import whole_number
from reticent.sql.expressions import Measures, Shares
from reticent.sql.intervals import Interval
from reticent.sql.keys import ClassKey, ColumnKey, Grouping, Key, checked_keys, key_of
from reticent.sql.outputs import Group, Namer, Output, Ranking, Test, outputs_of, positioned, rankings_of
from reticent.sql.parsing import parse_one
from reticent.sql.refusals import ONLY_SELECT, only, refused, refused_node
from reticent.sql.result import ResultTable
from reticent.sql.scope import Scope, scope_of

KEPT_STATEMENTS = 256
MAX_ROWS = 2**31
_CLAUSES = (
    *("expressions", "from_", "where", "group", "having", "order", "limit", "offset"),
    *("with_", "joins", "laterals"),
)


@dataclass(frozen=True, eq=False)
class Statement:
    """What a SELECT asks and how its answers become a table."""

    text: str
    grouping: Grouping
    outputs: tuple[Output, ...]
    measures: tuple[tuple[Block, ...], ...]
    having: Test | None
    order: tuple[Ranking, ...]
    limit: int | None
    offset: int

    @property
    def domain(self) -> Domain:
        return self.grouping.domain

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The linear queries, marginals and groups it needs, each once."""
        return queries_of(self.measures)

    def run(self, answer: Callable[[Query], Answer], *, records: float, records_error: float = 0.0) -> ResultTable:
        """Ask every query once and compute the table; `records_error` bounds abs(n - records) / records."""
        answers = {query: answer(query) for query in self.queries}
        group = self._group(answers, records, records_error)
        chosen = np.arange(len(group.rows))
        if self.having is not None:
            chosen = chosen[self.having(group)[0]]
        chosen = self._ordered(chosen, group)
        stop = None if self.limit is None else self.offset + self.limit
        return self._table(chosen[self.offset : stop], group, list(answers.values()), records_error)

    def judged(self, answers: Mapping[Query, Answer], records: float, records_error: float) -> Group:
        """The groups that HAVING would leave."""
        group = self._group(answers, records, records_error)
        if self.having is None:
            return group
        rows = group.rows[self.having(group)[0]]
        return self._group(answers, records, records_error, rows)

    def _group(
        self, answers: Mapping[Query, Answer], records: float, records_error: float, rows: np.ndarray | None = None
    ) -> Group:
        rows = self.grouping.rows if rows is None else rows
        measured = [share_interval(blocks, answers, rows) for blocks in self.measures]
        size = np.full(len(rows), float(records))
        spread = Interval(size, size * (1 - records_error), size * (1 + records_error))
        return Group(self.grouping, rows, Shares(len(rows), measured, spread))

    def _ordered(self, chosen: np.ndarray, group: Group) -> np.ndarray:
        """Stable, so that ties stay in the domain's order."""
        for ranking in reversed(self.order):
            ranks = self._ranks(ranking.source, group)[chosen]
            null = np.isnan(ranks)
            signed = np.where(null, 0.0, -ranks if ranking.descending else ranks)
            chosen = chosen[np.lexsort((signed, null != ranking.nulls_first))]
        return chosen

    def _ranks(self, source: object, group: Group) -> np.ndarray:
        if isinstance(source, (ColumnKey, ClassKey)):
            return self.grouping.ranks(source)[self.grouping.codes(source, group.rows)]
        return source.evaluate(group.shares).value  # type: ignore[attr-defined]

    def _table(self, chosen: np.ndarray, group: Group, answers: list[Answer], records_error: float) -> ResultTable:
        columns, errors = [], []
        for output in self.outputs:
            if isinstance(output.source, (ColumnKey, ClassKey)):
                values = self.grouping.values(output.source)
                columns.append([values[code] for code in self.grouping.codes(output.source, group.rows[chosen])])
                errors.append([None] * len(chosen))
            else:
                interval = output.source.evaluate(group.shares)
                columns.append(_plain(interval.value[chosen]))
                errors.append(_plain(interval.error[chosen]))
        numbers = tuple(not isinstance(output.source, (ColumnKey, ClassKey)) for output in self.outputs)
        bounded = all(
            error is not None
            for number, column, bounds in zip(numbers, columns, errors, strict=True)
            if number
            for value, error in zip(column, bounds, strict=True)
            if value is not None
        )
        origins = sorted({answer.origin for answer in answers})
        return ResultTable(
            sql=self.text,
            columns=tuple(output.name for output in self.outputs),
            aggregates=numbers,
            rows=tuple(zip(*columns, strict=True)),
            errors=tuple(zip(*errors, strict=True)),
            confidence=joint_confidence(answers, records_error),
            certified=bounded and all(answer.certified for answer in answers),
            origin=" + ".join(origins) or "public",
            price=sum(answer.price for answer in answers),
        )


def run(
    text: str,
    domain: Domain,
    answer: Callable[[Query], Answer],
    *,
    records: float,
    records_error: float = 0.0,
    table: str | None = None,
) -> ResultTable:
    """Compile and run; `table` is the only name FROM may use, any single name if it is None."""
    return compile_sql(text, domain, table=table).run(answer, records=records, records_error=records_error)


def compile_sql(text: str, domain: Domain, *, table: str | None = None) -> Statement:
    """The statement of a text; the last few hundred are kept."""
    if not isinstance(text, str):
        raise refused(f"SQL must be text, not {type(text).__name__}", ONLY_SELECT)
    return _compiled(text, domain, table)


@lru_cache(maxsize=KEPT_STATEMENTS)
def _compiled(text: str, domain: Domain, table: str | None) -> Statement:
    return statement_of(parse_one(text), text, domain, table)


def statement_of(select: exp.Select, text: str, domain: Domain, table: str | None = None) -> Statement:
    """Compile a parsed SELECT; a tree too deep for Python is too deep for a question."""
    try:
        return _statement(select, text, domain, table)
    except RecursionError:
        raise refused("the statement is nested too deep", "ask its parts one by one") from None
    except ReticentError:
        raise
    except Exception:
        # Trees of a foreign parser may have shapes nobody foresaw; that is a refusal, never a traceback.
        raise refused("the statement has a form that is not understood", ONLY_SELECT) from None


def _statement(select: exp.Select, text: str, domain: Domain, table: str | None) -> Statement:
    only(select, *_CLAUSES)
    scope = scope_of(select, domain, table, condition)
    measures = Measures()
    aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    keys = _keys(select, scope, aliases)
    namer = Namer(scope, keys, measures, aliases)
    outputs = outputs_of(select, namer)
    having = select.args.get("having")
    test = None if having is None else namer.test(having.this)
    order = rankings_of(select.args.get("order"), outputs, namer)
    if not measures.found:
        raise refused("the statement has no aggregate", "add COUNT(*), or SUM or AVG of a column")
    grouping = Grouping(domain, keys, scope.where)
    blocks = tuple(tuple(blocks_of(measure, grouping)) for measure in measures.found)
    limit, offset = _limits(select)
    return Statement(text, grouping, outputs, blocks, test, order, limit, offset)


def _keys(select: exp.Select, scope: Scope, aliases: Mapping[str, exp.Expr]) -> tuple[Key, ...]:
    clause = select.args.get("group")
    if clause is None:
        return ()
    items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    if clause.args.get("all"):
        return checked_keys([key_of(item, scope) for item in items if not has_aggregate(item)])
    for name in ("rollup", "cube", "grouping_sets", "totals"):
        if clause.args.get(name):
            raise refused("ROLLUP, CUBE and GROUPING SETS group in several ways at once", "ask one GROUP BY at a time")
    only(clause, "expressions")
    return checked_keys([key_of(_grouped(item, items, scope, aliases), scope) for item in clause.expressions])


def _grouped(tree: exp.Expr, items: list[exp.Expr], scope: Scope, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    """GROUP BY names a column, else an alias, else a position of the select list."""
    if isinstance(tree, exp.Literal) and not tree.is_string:
        tree = positioned(tree, items, "GROUP BY")
    elif isinstance(tree, exp.Column) and tree.args.get("table") is None and scope.find(tree.name) is None:
        tree = aliases.get(tree.name.lower(), tree)
    if has_aggregate(tree):
        raise refused("GROUP BY names an aggregate", "group by a column, and use HAVING for aggregates")
    return tree


def _limits(select: exp.Select) -> tuple[int | None, int]:
    limit, offset = select.args.get("limit"), select.args.get("offset")
    found = None
    if isinstance(limit, exp.Limit):
        only(limit, "expression")
        found = whole_number(limit.expression, "LIMIT", MAX_ROWS)
    elif isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise refused("FETCH with PERCENT or TIES is not supported", "use LIMIT and a number")
        found = 1 if limit.args.get("count") is None else whole_number(limit.args["count"], "FETCH", MAX_ROWS)
    elif limit is not None:
        raise refused_node(limit, "use LIMIT and a number")
    start = 0
    if offset is not None:
        only(offset, "expression")
        start = whole_number(offset.expression, "OFFSET", MAX_ROWS)
    return found, start


def _plain(values: np.ndarray) -> list[float | None]:
    """JSON knows neither NaN (our NULL) nor infinity (no bound)."""
    return [value if isfinite(value) else None for value in values.tolist()]
