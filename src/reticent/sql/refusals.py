"""Refusals: one line with the reason why a piece of SQL cannot be answered and the closest form that can.

The module also limits the work of a statement, estimated beforehand from its text and the domain alone, never from the
clock. A step is about a microsecond of one processor. Compilation charges each piece of work before it begins, so an
expensive text is refused after at most the allowed steps, whether its work is in repeated aliases, in lists, in tensors
of an OR or in groups.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError
from reticent.queries.box import CompileEffort
from reticent.sql.names import quoted_name

ONLY_SELECT = "ask a SELECT with COUNT(*), SUM(x), AVG(x) or another aggregate"


def _each(*rows: tuple[str, str]) -> dict[str, str]:
    """Several words that share one reason."""
    return {word: reason for words, reason in rows for word in words.split()}


_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Like, exp.ILike, exp.Between)


def unknown_column(node: exp.Column, known: Iterable[str]) -> QueryError:
    """The error for a column that is not in `known`: a near name, a name that needs quotes, or text without its own."""
    names = list(known)
    text = f"unknown column {shown(node.name)}"
    word = node.name.lower()
    parts = [name for name in names if quoted_name(name) != name and word in _SIGNS.split(name.lower())]
    if word and parts:
        return QueryError(f"{text}; write {' or '.join(map(quoted_name, parts))} in double quotes")
    text += closest(node.name, map(quoted_name, names))
    if isinstance(node.parent, _COMPARED) and (node is not node.parent.this or node.this.args.get("quoted")):
        text += f"; text needs single quotes: {exp.Literal.string(node.name).sql()}"
    return QueryError(text)


_SIGNS = re.compile(r"[^\w]+")

STATEMENTS = _each(
    ("INSERT UPDATE DELETE MERGE REPLACE TRUNCATE COPY LOAD IMPORT EXPORT", "would change data"),
    ("CREATE DROP ALTER COMMENT GRANT REVOKE RENAME", "would change the schema"),
    ("BEGIN COMMIT ROLLBACK START SAVEPOINT", "concerns transactions, and there are none"),
    ("SET RESET PRAGMA USE ATTACH DETACH INSTALL CALL EXECUTE PREPARE", "would change settings"),
    ("SUMMARIZE ANALYZE", "looks at single records; use DESCRIBE, and COUNT(*) ... GROUP BY a column"),
    ("UNPIVOT", "turns columns into rows; use UNION ALL of one SELECT for each"),
)
"""First words of statements that are not questions."""

AGGREGATES = _each(
    (
        "ArgMax ArgMin First Last TopK",
        "depends on single records; COUNT(*) ... GROUP BY the column shows its whole distribution",
    ),
    (
        "AnyValue FirstValue LastValue NthValue ApproxTopK",
        "depends on single records; COUNT(*) ... GROUP BY the column shows its whole distribution",
    ),
    (
        "GroupConcat ArrayAgg ArrayUniqueAgg JSONArrayAgg JSONObjectAgg Histogram",
        "would list values of single records; COUNT(*) ... GROUP BY the column counts them",
    ),
    ("ApproxQuantiles", "gives a list; ask for one level at a time: APPROX_QUANTILE(x, 0.25)"),
    (
        "BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg",
        "depends on single records; COUNT(*) FILTER (WHERE ...) counts where the condition holds",
    ),
)
"""Aggregates by sqlglot's class name."""

_NAMES = """
    COUNT SUM AVG MIN MAX MEDIAN MODE QUANTILE_CONT QUANTILE_DISC PERCENTILE_CONT STDDEV VARIANCE VAR_POP
    STDDEV_POP COVAR_POP COVAR_SAMP CORR REGR_SLOPE REGR_INTERCEPT REGR_R2 COUNT_IF LOWER UPPER TRIM SUBSTRING
    LEFT RIGHT LENGTH CONCAT REPLACE SPLIT_PART STARTS_WITH CONTAINS ABS ROUND FLOOR CEIL TRUNC SQRT LN LOG EXP
    POWER SIGN MOD GREATEST LEAST COALESCE NULLIF IF YEAR MONTH QUARTER DAY EXTRACT DATE_PART DATE_TRUNC DATE_DIFF
    STRFTIME RANK DENSE_RANK ROW_NUMBER LAG LEAD FIRST_VALUE LAST_VALUE NTILE PERCENT_RANK CUME_DIST
"""
FUNCTIONS = tuple(_NAMES.split())
"""What a misspelt function may have meant."""

CLAUSES: dict[str, str] = {
    "joins": "the statement joins another table; only one table is protected: join before it is read",
    "laterals": "the statement joins another table; only one table is protected: join before it is read",
    "qualify": "QUALIFY ranks records; group first, and rank the groups",
    "sample": "a sample of rows cannot be drawn; the answer covers all records, or use synthesize(rows)",
    "into": "SELECT INTO would write a table; leave INTO out",
    "locks": "locks are not needed; leave FOR UPDATE out",
    "hint": "hints have no meaning here; leave them out",
    "cluster": "CLUSTER BY has no meaning here; use ORDER BY",
    "distribute": "DISTRIBUTE BY has no meaning here; use GROUP BY",
    "sort": "SORT BY has no meaning here; use ORDER BY",
    "connect": "CONNECT BY walks through records; use COUNT(*) with a condition",
    "match": "MATCH_RECOGNIZE walks through records; use COUNT(*) with a condition",
    "prewhere": "PREWHERE is not known here; use WHERE",
    "kind": "SELECT AS STRUCT or VALUE is not known here; list the aggregates",
    "for_": "FOR XML and the like are not known here; use to_dict() of the result",
    "when": "time travel is not possible; the table is read once",
    "version": "time travel is not possible; the table is read once",
    "ordinality": "WITH ORDINALITY numbers records; ask for counts",
    "rows_from": "functions cannot stand for a table; name the protected table",
    "by_name": "UNION BY NAME is not supported; list the columns in the same order",
    "db": "a table of another schema is out of reach; use the table's own name",
    "limit_options": "LIMIT with PERCENT or TIES is not supported; use a number",
    "except_": "EXCLUDE is not supported; name the columns to use",
    "operation_modifiers": "modifiers of SELECT have no meaning here; leave them out",
}
"""Clauses by sqlglot's argument name."""

CONDITIONS = _each(
    (
        "Exists Any All",
        "a subquery would join; ask it on its own, or list values: IN (1, 2)",
    ),
    ("Glob", "patterns of file names are not supported; use LIKE or IN"),
    ("Placeholder Parameter SessionParameter", "parameters have no value here; write the value itself"),
    ("Tuple Array Struct", "lists of columns cannot be compared; compare them one by one with AND"),
    ("Window RowNumber Rank DenseRank Ntile", "window functions rank records; use ORDER BY and LIMIT on aggregates"),
    ("CurrentTime Rand Uuid", "it changes with each run; write a value"),
    ("Xor", "XOR is not supported; write (a AND NOT b) OR (b AND NOT a)"),
    ("ArrayOverlaps", "&& compares lists here; write AND"),
    (
        "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift",
        "bits are not supported; use %, // and comparisons",
    ),
)
"""Pieces of conditions by sqlglot's class name."""


def refused(what: str, instead: str) -> QueryError:
    """`what` is wrong or impossible; `instead` is the nearest thing that can be answered."""
    return QueryError(f"{' '.join(what.split())}; {instead}")


STANDS_FOR = "stands for"
"""In the meta facts of a column that replaces a piece of the user's SQL: that piece."""


def wording(node: exp.Expr) -> str:
    """The user's own piece of SQL, shortened for a message."""
    if any(STANDS_FOR in column.meta for column in node.find_all(exp.Column)):
        node = node.transform(lambda one: one.meta[STANDS_FOR].copy() if STANDS_FOR in one.meta else one)
    try:
        written = node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)
    except SqlglotError:  # a call without its argument, for one: it parses, but nothing can be written for it
        written = node.key.upper()
    text = " ".join(written.split()).replace("LISTAGG(", "STRING_AGG(")
    return text if len(text) <= 60 else text[:57] + "..."


def refused_node(node: exp.Expr, instead: str) -> QueryError:
    """A node that has no place where it stands."""
    name = type(node).__name__
    if name in AGGREGATES:
        return QueryError(f"{wording(node)} {AGGREGATES[name]}")
    if name in CONDITIONS:
        return QueryError(f"{wording(node)}: {CONDITIONS[name]}")
    if isinstance(node, exp.Window):
        return refused(
            f"{wording(node)} is a window function, which ranks records", "use ORDER BY and LIMIT on aggregates"
        )
    if isinstance(node, exp.Query):
        return refused("a subquery is used where a value is needed", "ask it on its own")
    if isinstance(node, exp.AggFunc):
        return refused(f"{wording(node)} is not a sum over records", ONLY_SELECT)
    if isinstance(node, exp.Anonymous):
        return QueryError(f"unknown function {shown(node.name)}{_similar(node.name) or f'; {instead}'}")
    return refused(f"{wording(node)} cannot be answered here", instead)


def _similar(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), FUNCTIONS, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}" if near else ""


def only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node with an unused argument, because an ignored word could change the meaning."""
    for name, value in node.args.items():
        if value and name not in allowed:
            if name in CLAUSES:
                raise QueryError(CLAUSES[name])
            raise refused(f"{shown(name.strip('_').upper())} is not supported in {wording(node)}", "leave it out")


MAX_STEPS = 2_000_000
"""For one statement, from its tree to its compiled form, and again for one evaluation of its result."""
IN_PARTS = "ask its parts one by one"
CELLS_A_STEP = 500
"""Cells of an array that numpy reads or writes in one step."""


class Meter(CompileEffort):
    """Steps left to one statement; tensors of its predicates are charged to the same account."""

    __slots__ = ("remedy",)

    def __init__(self, steps: int = MAX_STEPS, remedy: Callable[[], str] = lambda: IN_PARTS) -> None:
        self.left = steps
        self.remedy = remedy

    def charge(self, steps: int) -> None:
        """Refuse before the work begins."""
        self.left -= steps
        if self.left < 0:
            raise refused(f"the statement takes more than {MAX_STEPS} steps of work", self.remedy())

    def spend(self, cells: int) -> None:
        self.charge(cells // CELLS_A_STEP)
