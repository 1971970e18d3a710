"""Statistics asked from Python, answered as the SQL aggregate of the same name."""

from __future__ import annotations

import math

from reticent.domain import Domain
from reticent.knowledge.answer import Answer
from reticent.queries.predicate import Everything
from reticent.queries.statistics import StatisticQuery
from reticent.sql.parse import parse_one
from reticent.sql.result import ResultTable
from reticent.sql.statement import STATEMENTS, Statement, statement_of


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


def answer_of(statistic: StatisticQuery, table: ResultTable) -> Answer:
    """The one number of the table, as an answer."""
    value, error = table.rows[0][0], table.errors[0][0]
    certified = table.certified and error is not None and isinstance(value, (int, float))
    return Answer(
        query=statistic.text,
        value=float(value) if isinstance(value, (int, float)) else math.nan,
        count=None,
        error=error if certified else None,
        confidence=table.confidence if certified else None,
        origin=table.origin,
        certified=certified,
        price=table.price,
        note=table.note or ("hardly any record satisfies the condition" if value is None else ""),
        basis=table.basis,
    )


def _aggregate(statistic: StatisticQuery) -> str:
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in statistic.columns)
    if statistic.function == "quantile":
        return f"QUANTILE_CONT({columns}, {statistic.level!r})"
    if statistic.function == "correlation":
        return f"CORR({columns})"
    name = "VAR" if statistic.function == "variance" else "COVAR"
    return f"{name}_{'SAMP' if statistic.sample else 'POP'}({columns})"
