"""Clauses rewritten into equivalent ones: DISTINCT ON, and joins that only select groups.

Short forms, written out: (a, b) = (1, 2), (a, b) IN ((1, 2), (3, 4)), = ANY (...), IN (VALUES ...), COUNT(t.*),
public.t, TOP 3, ISNULL(a, b), DATEADD(month, 1, d), and GENERATE_SERIES as the list of its values.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Container, Sequence

from sqlglot import Token, TokenType, exp

from reticent.knowledge.answer import new_name
from reticent.sql.dialects import CLOCK, NODES, respelled
from reticent.sql.refusals import refused, wording
from reticent.sql.subqueries import compared_with_all


def first_of_each(tree: exp.Select) -> exp.Select:
    """DISTINCT ON (a) ... ORDER BY a, b as QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, b) = 1."""
    if tree.args.get("qualify") is not None:
        raise refused("DISTINCT ON beside QUALIFY is not supported", "choose the rows with QUALIFY alone")
    found = tree.copy()
    items = [item.this if isinstance(item, exp.Alias) else item for item in found.expressions]
    keys = found.args["distinct"].args["on"].expressions
    order = found.args.get("order")
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_meant(key, items).copy() for key in keys],
        order=None if order is None else order.copy(),
    )
    if order is not None:
        for ordered in window.args["order"].expressions:
            ordered.set("this", _meant(ordered.this, items).copy())
    found.set("distinct", None)
    found.set("qualify", exp.Qualify(this=exp.EQ(this=window, expression=exp.Literal.number(1))))
    return found


def _meant(tree: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """What a position of the select list stands for."""
    position = int(tree.name) if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit() else 0
    if 1 <= position <= len(items):
        return items[position - 1]
    return tree


def semijoined(tree: exp.Select, views: Container[str]) -> exp.Select:
    """FROM t JOIN (SELECT a AS k ... GROUP BY a) s ON a = k, as WHERE a IN (SELECT k FROM ...): tools limit series so.

    Each k comes once, so the join neither repeats nor adds a record; several keys likewise. Other joins stay.
    """
    clause, joins = tree.args.get("from_"), tree.args.get("joins") or ()
    if clause is None or not _lists_records(clause.this, views) or len(joins) != 1:
        return tree
    join = joins[0]
    inner = join.this.this if isinstance(join.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select):
        return tree
    keys, tests = _group_names(inner), _equalities(join)
    outputs, alias = {item.alias_or_name.lower() for item in inner.expressions}, join.this.alias.lower()
    own: dict[str, exp.Expr] = {}
    for test in tests or ():
        theirs = [one for one in (test.this, test.expression) if _is_of(one, alias, outputs)]
        if len(theirs) != 1:
            return tree
        own[theirs[0].name.lower()] = test.expression if theirs[0] is test.this else test.this
    if not keys or not tests or len(tests) != len(keys) or set(own) != set(keys):
        return tree
    found = tree.copy()
    found.set("joins", None)
    if any(_is_of(column, alias, outputs) for column in found.find_all(exp.Column)):
        return tree
    chosen = exp.select(*(exp.column(key, quoted=True) for key in own)).from_(join.this.copy())
    compared = [column.copy() for column in own.values()]
    left = compared[0] if len(compared) == 1 else exp.Tuple(expressions=compared)
    found.where(exp.In(this=left, query=exp.Subquery(this=chosen)), copy=False)
    return found


def _equalities(join: exp.Join) -> list[exp.EQ] | None:
    """What an inner join compares, where that is columns only."""
    on, side = join.args.get("on"), str(join.args.get("side") or join.args.get("kind") or "INNER").upper()
    if on is None or side != "INNER" or join.args.get("using") or join.args.get("method"):
        return None
    found: list[exp.EQ] = []
    waiting = [on]
    while waiting:
        test = _bare(waiting.pop())
        if isinstance(test, exp.And):
            waiting += [test.expression, test.this]
        elif isinstance(test, exp.EQ) and isinstance(test.this, exp.Column) and isinstance(test.expression, exp.Column):
            found.append(test)
        else:
            return None
    return found


_CHANGING = ("group", "having", "distinct", "limit", "offset", "with_", "joins")
"""Clauses after which rows are no longer the records."""


def _lists_records(node: exp.Expr, views: Container[str]) -> bool:
    """Whether FROM names a table, or a SELECT that only renames, computes and filters its records."""
    if isinstance(node, exp.Table):
        return node.name.lower() not in views
    inner = node.this if isinstance(node, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or inner.args.get("from_") is None:
        return False
    plain = not any(inner.args.get(name) for name in _CHANGING)
    return plain and inner.find(exp.AggFunc) is None and _lists_records(inner.args["from_"].this, views)


def _is_of(column: exp.Column, alias: str, outputs: Container[str]) -> bool:
    """Whether a column is one of the joined query's, as far as names tell."""
    qualifier = column.text("table").lower()
    return qualifier == alias if qualifier else column.name.lower() in outputs


def _group_names(tree: exp.Select) -> list[str] | None:
    """The names under which a query shows the columns that it groups by; None where it hides one."""
    group = tree.args.get("group")
    if group is None or any(value for name, value in group.args.items() if name != "expressions"):
        return None
    items = tree.expressions
    plain = [item.this if isinstance(item, exp.Alias) else item for item in items]
    found: list[str] = []
    for listed in group.expressions:
        key = _meant(listed, plain)
        shown = [
            item.alias_or_name.lower()
            for item, inner in zip(items, plain, strict=True)
            if isinstance(inner, exp.Column) and (inner == key or item.alias_or_name.lower() == key.name.lower())
        ]
        if not shown:
            return None
        found.append(shown[0])
    return found


OWN_SCHEMAS = ("public", "main", "dbo")
"""Where PostgreSQL, DuckDB and SQL Server keep tables: their tools write it before every name."""
_ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE)
_QUANTILES = (exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)
_SHORT = (
    *(exp.EQ, exp.NEQ, exp.In, exp.Table, exp.Column, exp.Count),
    *(exp.Select, *_ORDERED, *NODES, *_QUANTILES),
)
MOST_LISTED = 1000
"""Values of a GENERATE_SERIES."""
_CALENDAR_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_CALENDAR_DAYS = {"WEEK": 7, "DAY": 1}
_LISTING = (TokenType.ANY, TokenType.ALL, TokenType.SOME)
_ARRAY_CAST = (TokenType.DCOLON, None, TokenType.L_BRACKET, TokenType.R_BRACKET)
_ARRAY_TYPES = frozenset({"TEXT", "VARCHAR", "INT", "INTEGER", "BIGINT", "SMALLINT", "FLOAT", "DOUBLE", "NUMERIC"})
_ARRAY_ITEM = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]+))')
_ARRAY_TEXT = re.compile(rf"\{{{_ARRAY_ITEM.pattern}(?:,{_ARRAY_ITEM.pattern})*\}}")
_ENDING = (TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT, TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET)
_NOT_SELECTED = (TokenType.COMMA, TokenType.FROM, TokenType.ALIAS, TokenType.SEMICOLON, TokenType.R_PAREN)


def spelled_out(tree: exp.Expr) -> exp.Expr:
    """The same statement with comparisons of single values only; forms that are not short stay as they are."""
    clock: tuple[str, ...] = ()
    lists = False
    for node in list(tree.find_all(*_SHORT)):
        if isinstance(node, (exp.Table, exp.Column)):
            if node.args.get("db") is not None and not node.args.get("catalog"):
                _in_own_schema(node)
            longer = _table_series(node)
        elif isinstance(node, exp.Select):
            _levels_listed(node)
            longer = _select_series(node)
        elif isinstance(node, exp.Count):
            longer = _whole_records(node)
        elif isinstance(node, NODES):
            longer = respelled(node)
            clock += () if longer is None else longer.meta.get(CLOCK, ())
        elif isinstance(node, _QUANTILES):
            lists, longer = lists or _levels(node) is not None, None
        elif isinstance(node, _ORDERED):
            compared = isinstance(node.expression, (exp.All, exp.Any))
            longer = compared_with_all(node) if compared else None
        else:
            longer = _in_rows(node) if isinstance(node, exp.In) else _compared(node)
        if longer is not None:
            node.replace(longer)
            tree = longer if node is tree else tree
    if lists:
        _refuse_lists(tree)
    if clock:
        tree.meta[CLOCK] = clock
    return tree


MOST_LEVELS = 100


def _levels(node: exp.Expr) -> tuple[exp.Expr, str, exp.Tuple] | None:
    """The node that holds a list of levels, under which name, and the list."""
    called = node.this if isinstance(node, exp.WithinGroup) else node
    if not isinstance(called, _QUANTILES):
        return None
    listed = (("this", called.this), *((name, called.args.get(name)) for name in ("expression", "quantile")))
    return next(((called, name, value) for name, value in listed if isinstance(value, exp.Tuple)), None)


def _levels_listed(node: exp.Select) -> None:
    """QUANTILE_CONT(x, (0.25, 0.75)) AS q as one column for each level: q_0.25 and q_0.75.

    Without a name, PERCENTILE_CONT(...) WITHIN GROUP (...) is named after the function: percentile_cont_0.25.
    """
    items: list[exp.Expr] = []
    listed = 0
    for item in node.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        found = _levels(inner)
        if found is None:
            items.append(item)
            continue
        levels = found[2].expressions
        listed += len(levels)
        if listed > MOST_LEVELS:
            raise refused(f"lists of {listed} levels; at most {MOST_LEVELS}", "list fewer")
        for level in levels:
            single = inner.copy()
            called, name, _ = _levels(single) or found
            called.set(name, level.copy())
            alias = f"{item.alias}_{level.name}" if isinstance(item, exp.Alias) else None
            if alias is None and isinstance(inner, exp.WithinGroup) and isinstance(called, exp.Func):
                alias = new_name(f"{called.sql_name().lower()}_{level.name}", [one.alias_or_name for one in items])
            items.append(single if alias is None else exp.alias_(single, alias, quoted=True))
    if len(items) != len(node.expressions):
        node.set("expressions", items)


def _refuse_lists(tree: exp.Expr) -> None:
    for node in tree.find_all(exp.WithinGroup, *_QUANTILES):
        if _levels(node) is not None:
            raise refused(f"{wording(node)} inside an expression is a list", "ask for one level at a time")


def _whole_records(node: exp.Count) -> None:
    """COUNT(t.*) as COUNT(*): a whole record is never null."""
    if isinstance(node.this, exp.Column) and isinstance(node.this.this, exp.Star):
        node.set("this", exp.Star())


def _in_own_schema(node: exp.Expr) -> None:
    if node.text("db").lower() in OWN_SCHEMAS:
        node.set("db", None)


def lists_rewritten(tokens: list[Token]) -> list[Token]:
    """ANY(ARRAY['a', 'b']) and ANY('{a,b}'::text[]) without brackets, as ANY(('a', 'b')) and ANY('{a,b}')."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        if _kinds(tokens, place, 4) == _ARRAY_CAST and tokens[place + 1].text.upper() in _ARRAY_TYPES:
            place += 4
            continue
        end, start = _list_end(tokens, place), place + 2
        if end is None:
            start = place + 1 + (tokens[place].token_type is TokenType.ARRAY)
            end = _numbers_end(tokens, start)
        if end is None:
            found.append(tokens[place])
            place += 1
            continue
        found += [_like(tokens[place], TokenType.L_PAREN, "("), *tokens[start:end]]
        found.append(_like(tokens[end], TokenType.R_PAREN, ")"))
        place = end + 1
    return found


def _kinds(tokens: Sequence[Token], place: int, count: int) -> tuple[TokenType | None, ...]:
    kinds = tuple(token.token_type for token in tokens[place : place + count])
    return kinds if len(kinds) < 2 else (kinds[0], None, *kinds[2:])


def _list_end(tokens: Sequence[Token], place: int) -> int | None:
    """Where the list that ANY or ALL takes ends, if one begins here: plain values between one pair of brackets."""
    if place < 2 or tokens[place].token_type is not TokenType.ARRAY:
        return None
    if tokens[place - 2].token_type not in _LISTING or tokens[place - 1].token_type is not TokenType.L_PAREN:
        return None
    for end in range(place + 1, len(tokens)):
        kind = tokens[end].token_type
        if (kind is TokenType.L_BRACKET) is not (end == place + 1):
            return None
        if kind is TokenType.R_BRACKET:
            return end if end > place + 2 else None
    return None


def _numbers_end(tokens: Sequence[Token], place: int) -> int | None:
    """Where a list of plain numbers ends that begins here, after its bracket: levels of quantiles."""
    if tokens[place - 1].token_type is not TokenType.L_BRACKET or place < 2:
        return None
    before = tokens[place - 2] if tokens[place - 2].token_type is not TokenType.ARRAY else tokens[place - 3]
    if before.token_type not in (TokenType.COMMA, TokenType.L_PAREN):
        return None
    for end in range(place, len(tokens)):
        kind = tokens[end].token_type
        if kind is TokenType.R_BRACKET:
            return end if end > place else None
        if kind is not (TokenType.COMMA if (end - place) % 2 else TokenType.NUMBER):
            return None
    return None


def top_rewritten(tokens: list[Token]) -> list[Token]:
    """SELECT TOP 3 ... as SELECT ... LIMIT 3, at the end of that SELECT; what is no plain TOP stays as it is."""
    for place in range(len(tokens) - 3):
        after = place + (2 if tokens[place + 1].token_type in (TokenType.DISTINCT, TokenType.ALL) else 1)
        number = _top_number(tokens, after) if tokens[place].token_type is TokenType.SELECT else None
        if number is None:
            continue
        end = _select_end(tokens, place)
        if end is None:
            continue
        count = tokens[number]
        rest = number + 1 + (tokens[after + 1].token_type is TokenType.L_PAREN)
        limit = [_like(count, TokenType.LIMIT, "LIMIT"), count]
        return top_rewritten([*tokens[:after], *tokens[rest:end], *limit, *tokens[end:]])
    return tokens


def _top_number(tokens: Sequence[Token], place: int) -> int | None:
    """The place of the number after TOP: TOP 3 or TOP (3), then something that can be selected."""
    if place + 4 >= len(tokens) or tokens[place].text.upper() != "TOP" or tokens[place].token_type is TokenType.STRING:
        return None
    inside = tokens[place + 1].token_type is TokenType.L_PAREN
    number = place + 1 + inside
    if tokens[number].token_type is not TokenType.NUMBER:
        return None
    if inside and tokens[number + 1].token_type is not TokenType.R_PAREN:
        return None
    following = tokens[number + 1 + inside]
    refused_after = following.token_type in _NOT_SELECTED or following.text.upper() in ("PERCENT", "WITH")
    return None if refused_after else number


def _select_end(tokens: Sequence[Token], place: int) -> int | None:
    """Where the SELECT that begins here ends; None where it is one of a UNION, or has a LIMIT already."""
    depth = 0
    for end in range(place + 1, len(tokens)):
        kind = tokens[end].token_type
        if kind is TokenType.L_PAREN:
            depth += 1
        elif kind is TokenType.R_PAREN:
            depth -= 1
        if depth < 0 or (depth == 0 and kind is TokenType.SEMICOLON):
            return end
        if depth == 0 and kind in _ENDING:
            return None
    return len(tokens)


def _like(token: Token, kind: TokenType, text: str) -> Token:
    """At the place of another, for messages."""
    return Token(kind, text, line=token.line, col=token.col, start=token.start, end=token.end)


def _compared(node: exp.Expr) -> exp.Expr | None:
    left, right = _bare(node.this), _bare(node.expression)
    if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        equal = _all_equal(left, right, node)
        return exp.Not(this=equal) if isinstance(node, exp.NEQ) else equal
    listed = exp.Any if isinstance(node, exp.EQ) else exp.All
    if isinstance(right, listed) and isinstance(right.this, (exp.Subquery, exp.Select)):
        inner = right.this if isinstance(right.this, exp.Subquery) else exp.Subquery(this=right.this)
        found = exp.In(this=node.this, query=inner)
        return exp.Not(this=found) if listed is exp.All else found
    inner = (
        right.this if isinstance(right, listed) else _taken(right, ("ALL",) if listed is exp.All else ("SOME", "ANY"))
    )
    values = None if inner is None else _listed(inner)
    if values:
        found = exp.In(this=node.this, expressions=values)
        return exp.Not(this=found) if listed is exp.All else found
    return None


def _taken(node: exp.Expr, names: Container[str]) -> exp.Expr | None:
    """What ALL or SOME takes: to the parser they are functions."""
    called = isinstance(node, exp.Anonymous) and node.name.upper() in names and len(node.expressions) == 1
    return node.expressions[0] if called else None


def _listed(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of a list: (('a', 'b')), or the text '{a,b}' that drivers send."""
    inner = _bare(node)
    if isinstance(inner, exp.Tuple):
        return inner.expressions
    if isinstance(inner, exp.Literal) and inner.is_string and _ARRAY_TEXT.fullmatch(inner.name):
        parts = _ARRAY_ITEM.findall(inner.name[1:-1])
        if any(bare.upper() == "NULL" for _, bare in parts):
            return None
        return [exp.Literal.string(re.sub(r"\\(.)", r"\1", quoted) if quoted else bare) for quoted, bare in parts]
    return [inner] if isinstance(inner, exp.Literal) and isinstance(node, exp.Paren) else None


def _table_series(node: exp.Table | exp.Column) -> exp.Expr | None:
    """FROM GENERATE_SERIES(0, 3) AS g(i) as the list of its values."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.GenerateSeries):
        return None
    found = _series(node.this, node.args.get("alias"))
    if node.args.get("joins"):
        found.set("joins", node.args["joins"])
    return found


def _select_series(node: exp.Select) -> None:
    """SELECT UNNEST(GENERATE_SERIES(0, 3)) AS i, without FROM, as SELECT i FROM the list."""
    if len(node.expressions) != 1 or node.args.get("from_") is not None:
        return
    item = node.expressions[0]
    inner = item.this if isinstance(item, exp.Alias) else item
    inner = inner.this if isinstance(inner, (exp.Explode, exp.Unnest)) else inner
    if not isinstance(inner, exp.GenerateSeries):
        return
    name = item.alias if isinstance(item, exp.Alias) else "generate_series"
    alias = exp.TableAlias(this=exp.to_identifier("series"), columns=[exp.to_identifier(name, quoted=True)])
    node.set("expressions", [exp.column(name, quoted=True)])
    node.set("from_", exp.From(this=_series(inner, alias)))


def _series(node: exp.GenerateSeries, alias: exp.Expr | None) -> exp.Values:
    """The values of a series of whole numbers or dates, as VALUES; its one column is called as the table is."""
    name = alias.name if alias is not None and alias.name else "generate_series"
    columns = alias.args.get("columns") if alias is not None else None
    named = exp.TableAlias(this=exp.to_identifier(name), columns=columns or [exp.to_identifier(name)])
    rows = [exp.Tuple(expressions=[value]) for value in _series_values(node)]
    return exp.Values(expressions=rows, alias=named)


def _series_values(node: exp.GenerateSeries) -> list[exp.Expr]:
    whole = wording(node)
    needs = f"{whole} needs whole numbers, or dates and an INTERVAL of days, weeks, months or years"
    first, last = (_bound(node.args.get(name)) for name in ("start", "end"))
    step = node.args.get("step")
    if isinstance(first, int) and isinstance(last, int):
        by = 1 if step is None else _bound(step)
        if not isinstance(by, int) or by == 0:
            raise refused(needs, "write GENERATE_SERIES(0, 23)")
        ends = last if node.args.get("is_end_exclusive") else last + (1 if by > 0 else -1)
        listed = range(first, ends, by)
        _check_listed(len(listed), whole)
        return [exp.Literal.number(value) for value in listed]
    if not isinstance(first, datetime.date) or not isinstance(last, datetime.date):
        raise refused(needs, "write GENERATE_SERIES(0, 23)")
    unit = step.text("unit").upper().removesuffix("S") if isinstance(step, exp.Interval) else ""
    count = _bound(step.this) if isinstance(step, exp.Interval) else None
    if not isinstance(count, int) or count < 1 or unit not in {**_CALENDAR_MONTHS, **_CALENDAR_DAYS}:
        raise refused(needs, "write GENERATE_SERIES(DATE '2024-01-01', DATE '2024-12-01', INTERVAL '1 month')")
    found, day = list[datetime.date](), first
    while day is not None and (day < last or (day == last and not node.args.get("is_end_exclusive"))):
        found.append(day)
        _check_listed(len(found), whole)
        day = _later(first, len(found) * count, unit)
    return [exp.cast(exp.Literal.string(value.isoformat()), "date") for value in found]


def _bound(node: exp.Expr | None) -> int | datetime.date | None:
    """A whole number or a date, where one is written."""
    if isinstance(node, exp.Neg):
        inner = _bound(node.this)
        return -inner if isinstance(inner, int) else None
    if isinstance(node, exp.Cast) and node.is_type("date", "timestamp"):
        node = node.this
    text = node.name if isinstance(node, exp.Literal) else ""
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return int(text)
    try:
        return datetime.date.fromisoformat(text[:10])
    except ValueError:
        return None


def _later(day: datetime.date, count: int, unit: str) -> datetime.date | None:
    """So many units later, in a shorter month its last day; None beyond the calendar."""
    try:
        if unit in _CALENDAR_DAYS:
            return day + datetime.timedelta(days=count * _CALENDAR_DAYS[unit])
        year, month = divmod(12 * day.year + day.month - 1 + count * _CALENDAR_MONTHS[unit], 12)
        return datetime.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))
    except (OverflowError, ValueError):
        return None


def _check_listed(count: int, whole: str) -> None:
    if count > MOST_LISTED:
        raise refused(f"{whole} has more than {MOST_LISTED} values", "list fewer")


def _in_rows(node: exp.In) -> exp.Expr | None:
    left = _bare(node.this)
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
        listed = [_bare(row) for row in node.expressions[0].expressions]
        alone = [
            row.expressions[0] if isinstance(row, exp.Tuple) and len(row.expressions) == 1 else row for row in listed
        ]
        node.set("expressions", alone)
    rows = [_bare(item) for item in node.expressions]
    if not isinstance(left, exp.Tuple) or not rows or not all(isinstance(row, exp.Tuple) for row in rows):
        return None
    return exp.Paren(this=_joined(exp.Or, [_all_equal(left, row, node) for row in rows]))


def _all_equal(left: exp.Expr, right: exp.Expr, whole: exp.Expr) -> exp.Expr:
    if len(left.expressions) != len(right.expressions):
        raise refused(f"{wording(whole)} compares lists of different lengths", "list as many values in each")
    pairs = zip(left.expressions, right.expressions, strict=True)
    # In a list of columns NULL is a value like others, as DuckDB compares them: the whole is true or false.
    equal = [exp.NullSafeEQ(this=one.copy(), expression=other.copy()) for one, other in pairs]
    return exp.Paren(this=_joined(exp.And, equal))


def _joined(kind: type[exp.And | exp.Or], parts: Sequence[exp.Expr]) -> exp.Expr:
    found = parts[0]
    for part in parts[1:]:
        found = kind(this=found, expression=part)
    return found


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
