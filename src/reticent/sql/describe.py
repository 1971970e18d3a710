"""DESCRIBE, SHOW and EXPLAIN: a description of the table, and the queries behind a statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from reticent.domain import Domain, Numeric
from reticent.domain.attribute import Attribute, shown
from reticent.domain.values import number_text
from reticent.errors import QueryError
from reticent.knowledge.answer import Answer
from reticent.queries import Query
from reticent.sql.expressions import Known
from reticent.sql.refusals import refused
from reticent.sql.relations import Field, Relation
from reticent.sql.result import EXPLAINED, ResultTable
from reticent.sql.vectors import DATE, INTEGER, NUMBER, TEXT, TIMESTAMP, TRUTH, Labels, kind_of

TYPES = {NUMBER: "DOUBLE", INTEGER: "BIGINT", TEXT: "VARCHAR", TRUTH: "BOOLEAN", DATE: "DATE", TIMESTAMP: "TIMESTAMP"}
"""SQL types of columns by kind."""
LISTED = 8
"""Values of a column that its description names."""


@dataclass(frozen=True)
class Explained:
    """EXPLAIN, as parsed: a query whose questions are shown, and not asked."""

    this: exp.Expr
    text: str


@dataclass(frozen=True)
class Shown:
    """SHOW TABLES, or SHOW COLUMNS and DESCRIBE of a table."""

    what: str
    table: str | None = None


def described(tree: Shown, domain: Domain, table: str | None) -> Relation:
    """The table that a DESCRIBE or SHOW lists."""
    if tree.what == "tables":
        return _relation({"name": [table or "t"]})
    if (
        tree.table is not None
        and table is not None
        and tree.table.lower() not in (table.lower(), f"{table}_synthetic".lower())
    ):
        raise QueryError(f"unknown table {shown(tree.table)}; the table is called {table}")
    names = list(domain.names)
    return _relation(
        {
            "column_name": names,
            "column_type": [TYPES[kind_of(domain[name])] for name in names],
            "null": ["YES" if domain[name].nullable else "NO" for name in names],
            "values": [values_text(domain[name]) for name in names],
        }
    )


def _relation(columns: dict[str, list[str]]) -> Relation:
    fields = tuple(Field(name, Known(Labels.of(values), TEXT)) for name, values in columns.items())
    return Relation(len(next(iter(columns.values()))), fields)


def values_text(attribute: Attribute) -> str:
    """The declared values or bins of a column in a few words."""
    if isinstance(attribute, Numeric):
        bins = "bin" if attribute.known == 1 else "bins"
        edges = [edge.isoformat() if hasattr(edge, "isoformat") else number_text(edge) for edge in attribute.edges]  # type: ignore[union-attr]
        return f"{attribute.known} {bins} from {edges[0]} to {edges[-1]}"
    listed = [str(label) for label in attribute.labels[: min(attribute.known, LISTED)]]
    more = f", ... ({attribute.known} values)" if attribute.known > LISTED else ""
    other = ", (other)" if attribute.other else ""
    return ", ".join(listed) + more + other


@dataclass(frozen=True)
class Prospect:
    """How one question of a statement would be answered; the bound is a share of the table."""

    query: Query
    origin: str
    bound: float | None
    confidence: float | None
    price: float = 0.0

    @classmethod
    def free(cls, query: Query, answer: Answer) -> Prospect:
        """From what is known."""
        bound = None if not answer.certified or answer.error is None else float(answer.error)
        return cls(query, answer.origin, bound, answer.confidence)


def explained_table(text: str, prospects: Sequence[Prospect], *, wanted: bool) -> ResultTable:
    """One row for each question: where its answer would come from, its bound, and its price."""
    listed = [(one.query.text, one.origin, one.bound, one.confidence, one.price) for one in prospects]
    note = "bounds are shares of the table" if listed else "nothing is asked: the result is public"
    if listed and not wanted:
        note += "; give error= to see what a smaller one costs"
    return ResultTable(
        sql=text,
        columns=EXPLAINED,
        aggregates=(False,) * 5,
        rows=tuple(listed),
        errors=((None,) * 5,) * len(listed),
        confidence=1.0,
        certified=True,
        origin="public",
        price=0.0,
        note=note,
        types=(TEXT, TEXT, NUMBER, NUMBER, NUMBER),
    )


def show_of(words: list[str]) -> Shown:
    """SHOW TABLES, SHOW COLUMNS FROM t, DESCRIBE t."""
    first = words[0].upper()
    rest = [word.strip('"').strip(";") for word in words[1:]]
    upper = [word.upper() for word in rest]
    if first in ("DESCRIBE", "DESC"):
        if upper[:1] == ["TABLE"]:
            rest = rest[1:]
        if len(rest) > 1:
            raise refused("DESCRIBE needs the name of a table", "write DESCRIBE and its name")
        return Shown("columns", rest[0]) if rest else Shown("tables")
    if upper in (["TABLES"], ["ALL", "TABLES"]):
        return Shown("tables")
    if len(upper) == 3 and upper[0] in ("COLUMNS", "FIELDS") and upper[1] in ("FROM", "IN"):
        return Shown("columns", rest[2])
    if len(upper) == 2 and upper[0] == "TABLE":
        return Shown("columns", rest[1])
    if len(upper) == 1 and upper[0] not in ("DATABASES", "SCHEMAS"):
        return Shown("columns", rest[0])
    raise refused(f"SHOW {' '.join(rest)[:40]} is not known here", "use SHOW TABLES or SHOW COLUMNS FROM the table")
