"""Functions and keywords of other databases, mapped to known ones: T-SQL, MySQL, Oracle, BigQuery, Snowflake.

CURRENT_DATE and similar functions become the day in UTC, written as a date, so that a statement has the same meaning
for a whole day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import Token, TokenType, exp

from reticent.sql import calendar
from reticent.sql.refusals import refused, wording

CLOCK = "clock"
"""Under this name a date, and the statement it is part of, say which functions of the clock are meant."""
_DAYS = ("CURRENT_DATE", "TODAY", "CURDATE")
_MOMENTS = (
    *("NOW", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "GETDATE", "GETUTCDATE", "SYSDATE", "SYSDATETIME", "SYSTIMESTAMP"),
    *("CURRENT_DATETIME", "UTC_TIMESTAMP", "TRANSACTION_TIMESTAMP"),
)
_CLOCK_NODES: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "CURRENT_DATE",
    exp.CurrentTimestamp: "CURRENT_TIMESTAMP",
    exp.CurrentDatetime: "CURRENT_DATETIME",
    exp.Localtimestamp: "LOCALTIMESTAMP",
}
_UNITS = {
    **dict.fromkeys(("yy", "yyyy", "yyy", "year"), "year"),
    **dict.fromkeys(("qq", "q", "quarter"), "quarter"),
    **dict.fromkeys(("mm", "m", "mon", "month"), "month"),
    **dict.fromkeys(("ww", "wk", "iw", "week"), "week"),
    **dict.fromkeys(("dd", "d", "ddd", "day"), "day"),
    **dict.fromkeys(("dw", "weekday"), "dow"),
    **dict.fromkeys(("dy", "dayofyear"), "doy"),
    **dict.fromkeys(("hh", "hour"), "hour"),
}
_DATE_CODES = (
    *(("yyyy", "%Y"), ("YYYY", "%Y"), ("yy", "%y"), ("YY", "%y"), ("MMMM", "%B"), ("Month", "%B"), ("MMM", "%b")),
    *(("Mon", "%b"), ("MON", "%b"), ("MM", "%m"), ("dd", "%d"), ("DD", "%d"), ("HH24", "%H"), ("HH", "%H")),
    *(("mm", "%M"), ("MI", "%M"), ("ss", "%S"), ("SS", "%S")),
)


def respelled(node: exp.Expr) -> exp.Expr | None:
    """What a function of another database is called here; None where it is no such function."""
    if type(node) in _CLOCK_NODES:
        return _of_clock(_CLOCK_NODES[type(node)])
    handler = _NODE_HANDLERS.get(type(node))
    if handler is not None:
        return handler(node)
    if not isinstance(node, exp.Anonymous):
        return None
    name, given = node.name.upper(), node.expressions
    if name in (*_DAYS, *_MOMENTS) and len(given) <= 1:
        return _of_clock(name)
    build = _CALLED.get((name, len(given))) or _CALLED.get((name, None))
    return None if build is None else build(given)


def _of_clock(name: str) -> exp.Expr:
    day = calendar.today().isoformat()
    found = exp.cast(exp.Literal.string(day if name in _DAYS else f"{day} 00:00:00"), _kind_of_clock(name))
    found.meta[CLOCK] = (name,)
    return found


def _kind_of_clock(name: str) -> str:
    return "date" if name in _DAYS else "timestamp"


def clock_notes(tree: exp.Expr) -> list[str]:
    """What functions of the clock were taken as."""
    day = calendar.today().isoformat()
    return [
        f"{name} is taken as {day}, the day in UTC" if name in _DAYS else f"{name} is taken as {day} 00:00:00 UTC"
        for name in dict.fromkeys(tree.meta.get(CLOCK, ()))
    ]


# Functions.


def _unit(node: exp.Expr) -> str | None:
    """The unit of time that a word names: month, MM or 'month'."""
    word = node.name.lower() if isinstance(node, (exp.Column, exp.Literal, exp.Var)) else ""
    return _UNITS.get(word.removesuffix("s"), _UNITS.get(word))


def _extracted(given: Sequence[exp.Expr]) -> exp.Expr | None:
    unit = _unit(given[0])
    return None if unit is None else exp.Extract(this=exp.Var(this=unit.upper()), expression=given[1])


def _named(given: Sequence[exp.Expr]) -> exp.Expr | None:
    """DATENAME(month, d)."""
    unit = _unit(given[0])
    if unit == "month":
        return exp.Monthname(this=given[1])
    return exp.Dayname(this=given[1]) if unit == "dow" else None


def _cut_date(node: exp.Expr) -> exp.Expr | None:
    """TRUNC(d, 'MM'); of a number the second argument counts decimals."""
    word = node.args.get("decimals")
    unit = _unit(word) if isinstance(word, exp.Literal) and word.is_string else None
    return None if unit is None else exp.TimestampTrunc(this=node.this, unit=exp.Var(this=unit.upper()))


def _unit_last(node: exp.Expr) -> exp.Expr | None:
    """DATE_TRUNC(d, MONTH), which the parser reads as DATE_TRUNC('d', MONTH)."""
    unit, word = _unit(node.this), node.args["unit"].name.lower()
    if unit is None or not isinstance(node.this, exp.Column) or word in _UNITS or word.removesuffix("s") in _UNITS:
        return None
    return exp.TimestampTrunc(this=exp.column(word, quoted=True), unit=exp.Var(this=unit.upper()))


def _share(node: exp.Expr) -> exp.Expr | None:
    """RATIO_TO_REPORT(x) OVER (...) as x over its sum."""
    called = node.this
    if not isinstance(called, exp.Anonymous) or called.name.upper() != "RATIO_TO_REPORT":
        return None
    if len(called.expressions) != 1:
        raise refused(f"{wording(node)} takes one number", "write RATIO_TO_REPORT(COUNT(*)) OVER ()")
    summed = node.copy()
    summed.set("this", exp.Sum(this=called.expressions[0].copy()))
    return _ratio(called.expressions[0].copy(), summed)


def _fractional(node: exp.Expr) -> exp.Expr:
    raise refused("MONTHS_BETWEEN counts parts of months", "use DATE_DIFF('month', earlier, later)")


def _difference(given: Sequence[exp.Expr]) -> exp.Expr | None:
    """TIMESTAMPDIFF(MONTH, a, b): whole months."""
    unit = _unit(given[0])
    if unit is None:
        return None
    return exp.Anonymous(this="DATE_SUB", expressions=[exp.Literal.string(unit), given[1], given[2]])


def _shifted(given: Sequence[exp.Expr]) -> exp.Expr | None:
    """DATEADD(month, 3, d)."""
    unit = _unit(given[0])
    return None if unit is None else _moved(given[2], given[1], unit)


def _moved(date: exp.Expr, count: exp.Expr, unit: str) -> exp.Expr | None:
    back = isinstance(count, exp.Neg)
    count = count.this if back else count
    if not isinstance(count, exp.Literal):
        return None
    step = exp.Interval(this=exp.Literal.string(count.name), unit=exp.Var(this=unit.upper()))
    return exp.Paren(this=(exp.Sub if back else exp.Add)(this=_as_date(date), expression=step))


def _as_date(node: exp.Expr) -> exp.Expr:
    """A text where a date is meant."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        return node
    return exp.cast(node.copy(), "timestamp" if len(node.name) > len("2024-12-31") else "date")


def _minus(given: Sequence[exp.Expr]) -> exp.Expr | None:
    """DATE_SUB(d, INTERVAL 3 MONTH)."""
    return exp.Paren(this=exp.Sub(this=_as_date(given[0]), expression=given[1])) if _is_step(given) else None


def _plus(given: Sequence[exp.Expr]) -> exp.Expr | None:
    return exp.Paren(this=exp.Add(this=_as_date(given[0]), expression=given[1])) if _is_step(given) else None


def _is_step(given: Sequence[exp.Expr]) -> bool:
    return isinstance(given[1], exp.Interval)


def _written(date: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    return exp.TimeToStr(this=date, format=pattern)


def _formatted(node: exp.Expr) -> exp.Expr | None:
    """FORMAT(d, 'yyyy-MM')."""
    listed = node.expressions
    pattern = listed[0] if len(listed) == 1 else None
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or not _coded(pattern.name):
        raise refused(f"{wording(node)} writes a number as text", "show the number itself, or use ROUND")
    return _written(node.this, exp.Literal.string(_coded(pattern.name)))


def _coded(pattern: str) -> str:
    """A format such as yyyy-MM in the codes of STRFTIME; empty where it has other letters."""
    found, rest = "", pattern
    while rest:
        code = next(((name, put) for name, put in _DATE_CODES if rest.startswith(name)), None)
        if code is None and rest[0].isalpha():
            return ""
        found, rest = found + (rest[0] if code is None else code[1]), rest[1 if code is None else len(code[0]) :]
    return found if "%" in found else ""


def _age_today(given: Sequence[exp.Expr]) -> exp.Expr:
    """AGE(d): from that day to this one."""
    found = exp.Anonymous(this="AGE", expressions=[_of_clock("CURRENT_DATE"), given[0]])
    found.meta[CLOCK] = ("CURRENT_DATE",)
    return found


def _decoded(given: Sequence[exp.Expr]) -> exp.Expr | None:
    """DECODE(x, 1, 'a', 2, 'b', 'other'): to it NULL equals NULL."""
    if len(given) < 3:
        return None
    tests = [exp.NullSafeEQ(this=given[0].copy(), expression=value) for value in given[1:-1:2]]
    ifs = [exp.If(this=test, true=value) for test, value in zip(tests, given[2::2], strict=True)]
    return exp.Case(ifs=ifs, default=given[-1] if len(given) % 2 == 0 else None)


def _picked(number: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    """CHOOSE(i, 'a', 'b') and ELT."""
    places = enumerate(values, start=1)
    return exp.Case(this=number, ifs=[exp.If(this=exp.Literal.number(place), true=value) for place, value in places])


_ZERO = exp.Literal.number(0)


def _ratio(above: exp.Expr, below: exp.Expr) -> exp.Expr:
    """NULL where the divisor is zero."""
    divisor = exp.Nullif(this=below, expression=_ZERO.copy())
    return exp.Paren(this=exp.Div(this=exp.Paren(this=above), expression=divisor))


def _present(node: exp.Expr) -> exp.Expr:
    """NVL2(x, a, b)."""
    known = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=node.args["true"])], default=node.args.get("false"))


def _coalesced(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=one, expressions=[other])


def _one(kind: type[exp.Expr]) -> Callable[[Sequence[exp.Expr]], exp.Expr]:
    return lambda given: kind(this=given[0])


def _quantile(given: Sequence[exp.Expr]) -> exp.Expr:
    return exp.ApproxQuantile(this=given[0], quantile=given[1])


_CALLED: dict[tuple[str, int | None], Callable[[Sequence[exp.Expr]], exp.Expr | None]] = {
    ("DECODE", None): _decoded,
    ("CHOOSE", None): lambda given: _picked(given[0], given[1:]) if len(given) > 1 else None,
    ("ISNULL", 2): lambda given: _coalesced(*given),
    ("ZEROIFNULL", 1): lambda given: _coalesced(given[0], _ZERO.copy()),
    ("NULLIFZERO", 1): lambda given: exp.Nullif(this=given[0], expression=_ZERO.copy()),
    ("DIV0", 2): lambda given: _coalesced(_ratio(*given), _ZERO.copy()),
    ("DIV0NULL", 2): lambda given: _coalesced(_ratio(*given), _ZERO.copy()),
    ("SQUARE", 1): lambda given: exp.Pow(this=given[0], expression=exp.Literal.number(2)),
    ("COUNT_BIG", 1): _one(exp.Count),
    ("VAR", 1): _one(exp.Variance),
    ("VARP", 1): _one(exp.VariancePop),
    ("STDEV", 1): _one(exp.Stddev),
    ("STDEVP", 1): _one(exp.StddevPop),
    ("STD", 1): _one(exp.StddevPop),
    ("APPROX_PERCENTILE", 2): _quantile,
    ("PERCENTILE_APPROX", 2): _quantile,
    ("EOMONTH", 1): _one(exp.LastDay),
    ("DATEPART", 2): _extracted,
    ("DATENAME", 2): _named,
    ("DATEADD", 3): _shifted,
    ("TIMESTAMPDIFF", 3): _difference,
    ("DATEDIFF", 2): lambda given: exp.DateDiff(
        this=_as_date(given[0]), expression=_as_date(given[1]), unit=exp.Var(this="DAY")
    ),
    ("DATE_SUB", 2): _minus,
    ("DATE_ADD", 2): _plus,
    ("ADDDATE", 2): _plus,
    ("SUBDATE", 2): _minus,
    ("DATE_FORMAT", 2): lambda given: _written(given[0], given[1]),
    ("FORMAT_DATE", 2): lambda given: _written(given[1], given[0]),
    ("AGE", 1): _age_today,
}
_NODE_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr | None]] = {
    exp.Nvl2: _present,
    exp.National: lambda node: exp.Literal.string(node.name),
    exp.Elt: lambda node: _picked(node.this, node.expressions),
    exp.SafeDivide: lambda node: _ratio(node.this, node.expression),
    exp.Format: _formatted,
    exp.GroupingId: lambda node: exp.Grouping(expressions=node.expressions),
    exp.AddMonths: lambda node: _moved(node.this, node.expression, "month"),
    exp.Trunc: _cut_date,
    exp.TimestampTrunc: _unit_last,
    exp.Window: _share,
    exp.MonthsBetween: _fractional,
}
NODES = (exp.Anonymous, *_CLOCK_NODES, *_NODE_HANDLERS)
"""What may have another spelling."""

# Words.

_NAME = re.compile(r"[A-Za-z_][\w $#@.%()/-]*")
_AFTER_VALUE = (
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.STRING, TokenType.ARRAY),
    TokenType.NUMBER,
)


def names_in_brackets(tokens: list[Token], text: str) -> list[Token]:
    """[Customer Segment], as T-SQL quotes names; a bracket after a value is a position and stays."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        end = _bracket_end(tokens, place)
        if end is None:
            found.append(token)
            place += 1
            continue
        name = text[token.end + 1 : tokens[end].start]
        found.append(Token(TokenType.IDENTIFIER, name, token.line, token.col, token.start, tokens[end].end))
        place = end + 1
    return found


def _bracket_end(tokens: Sequence[Token], place: int) -> int | None:
    if tokens[place].token_type is not TokenType.L_BRACKET:
        return None
    if place and tokens[place - 1].token_type in _AFTER_VALUE:
        return None
    for end in range(place + 1, min(len(tokens), place + 12)):
        kind = tokens[end].token_type
        if kind is TokenType.R_BRACKET:
            first = tokens[place + 1]
            plain = end > place + 1 and _NAME.match(first.text) and first.token_type is not TokenType.STRING
            return end if plain else None
        if kind in (TokenType.COMMA, TokenType.STRING, TokenType.L_BRACKET):
            return None
    return None
