"""Synthetic rows as a table of SQL: a function of the certified snapshot, so they are public and stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import Domain
from reticent.domain.attribute import Attribute
from reticent.knowledge.synthetic import ROWS
from reticent.sql.expressions import Known
from reticent.sql.relations import Field, Relation
from reticent.sql.vectors import TEXT, Labels, kind_of


def limited_rows(tree: exp.Expr) -> int:
    """How many rows a query looks at: all, unless it lists the first few of them as they come."""
    limit = tree.args.get("limit") if isinstance(tree, exp.Select) else None
    plain = isinstance(tree, exp.Select) and not any(
        tree.args.get(name) for name in ("where", "group", "order", "having", "distinct", "qualify", "with_", "joins")
    )
    listed = isinstance(tree, exp.Select) and tree.find(exp.AggFunc, exp.Window, exp.Subquery) is None
    if plain and listed and isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal):
        offset = tree.args.get("offset")
        more = int(offset.expression.this) if offset is not None and offset.expression.is_int else 0
        if limit.expression.is_int:
            return max(1, min(ROWS, int(limit.expression.this) + more))
    return ROWS


def synthetic_relation(codes: np.ndarray, domain: Domain) -> Relation:
    """As `Release.synthesize` decodes them: a bin is its representative, and `(other)` is NULL beside numbers."""
    fields = []
    for place, name in enumerate(domain.names):
        values, kind = _values(domain[name])
        fields.append(Field(name, Known(Labels(codes[:, place].astype(np.int64), values), kind)))
    return Relation(len(codes), tuple(fields))


def placeholder(domain: Domain) -> Relation:
    """One row for each code of the longest column: what any row may hold."""
    sizes = np.array([attribute.size for attribute in domain.attributes.values()])
    return synthetic_relation(np.arange(min(ROWS, int(sizes.max())))[:, None] % sizes, domain)


def _values(attribute: Attribute) -> tuple[tuple[Any, ...], str]:
    values = [attribute.value(code) for code in range(attribute.size)]
    kind = kind_of(attribute)
    if kind != TEXT and attribute.other_code is not None:
        values[attribute.other_code] = None
    return tuple(values), kind
