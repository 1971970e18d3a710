"""Rules of a domain, `age < 15 and income <> 'N'`: conditions in the grammar of WHERE, and predicates as such text."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from reticent.domain import Domain
from reticent.errors import QueryError, given
from reticent.queries.forms import Form
from reticent.queries.predicate import Comparison, Junction, Not, Predicate
from reticent.sql.conditions import exactly
from reticent.sql.dialects import clock_notes
from reticent.sql.parse import parse_condition
from reticent.sql.refusals import Meter, refused
from reticent.sql.scope import Scope

__all__ = ["condition_text", "read_rule"]

_OPERATORS = {"==": "=", "!=": "<>"}


def read_rule(rule: Any, domain: Domain) -> tuple[str, Form]:
    """The text of a rule, and where it is true; bins that it cuts are refused."""
    if isinstance(rule, Predicate):
        rule.compile(domain)  # refuses unknown columns and values in the words of predicates
        rule = condition_text(rule)
    if not isinstance(rule, str) or not rule.strip():
        raise QueryError(f"{given(rule)} is not a condition; write one as in SQL's WHERE, or with rt.col")
    text, meter = rule.strip(), Meter()
    columns = {name.lower(): name for name in domain.names}
    scope = Scope(domain, columns, frozenset(), meter, literal=True)
    return text, exactly(_condition(text, domain.names), scope).compile(domain, meter)


def _condition(text: str, columns: Iterable[str]) -> exp.Expr:
    tree = parse_condition(text, columns)
    if clock_notes(tree):
        raise refused("a rule that uses the current date would change from day to day", "write the date itself")
    clauses = {name for name, value in tree.args.items() if value} if isinstance(tree, exp.Select) else set()
    if clauses - {"expressions", "where", "kind"} or "where" not in clauses:
        raise refused("a rule is one condition", "write only what stands after WHERE")
    return tree.args["where"].this


def condition_text(predicate: Predicate) -> str:
    """A predicate as SQL that reads back as the same one."""
    if isinstance(predicate, Comparison):
        return _comparison(predicate)
    if isinstance(predicate, Junction):
        parts = dict.fromkeys(condition_text(operand) for operand in predicate.operands)
        return f" {predicate.op.upper()} ".join(_inner(part) for part in parts)
    if isinstance(predicate, Not):
        return f"NOT ({condition_text(predicate.operand)})"
    raise QueryError("a rule must name at least one column")


def _inner(part: str) -> str:
    return f"({part})" if " AND " in part or " OR " in part else part


def _comparison(comparison: Comparison) -> str:
    name = '"' + comparison.name.replace('"', '""') + '"'
    if comparison.op == "is_null":
        return f"{name} IS NULL"
    if comparison.op == "is_known":
        raise QueryError(f"{name}: is_known() has no equivalent in SQL; use ~is_null(), or list the values with isin")
    if comparison.op == "in":
        return f"{name} IN ({', '.join(_literal(value) for value in comparison.value)})"
    return f"{name} {_OPERATORS.get(comparison.op, comparison.op)} {_literal(comparison.value)}"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
