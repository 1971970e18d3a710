"""Parsing SQL text to syntax trees with sqlglot; every failure becomes one line."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql.describe import Explained, Shown, show_of
from reticent.sql.dialects import names_in_brackets
from reticent.sql.names import quoted_name, reserved_names, unquoted_names
from reticent.sql.refusals import ONLY_SELECT, STATEMENTS, refused, wording
from reticent.sql.rewriting import lists_rewritten, spelled_out, top_rewritten

MAX_TEXT = 100_000
"""Characters of one statement."""

_BEFORE = "SELECT 1 WHERE (\n"
_OPENING = ("SELECT", "WITH", "FROM", "(", "PIVOT", "VALUES")
_SHOWN = ("SHOW", "DESCRIBE", "DESC")
_MOST_WORDS = 8

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_AFTER_PERCENT = (TokenType.R_PAREN, TokenType.SEMICOLON, TokenType.OFFSET, TokenType.UNION)
_TESTS = (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)


def _date_difference(given: list[exp.Expr]) -> exp.Expr:
    """DATEDIFF of two dates counts days, the first less the second, as in MySQL."""
    if len(given) == 2:
        return exp.Anonymous(this="DATEDIFF", expressions=given)
    return DuckDB.Parser.FUNCTIONS["DATEDIFF"](given)


class _Parser(DuckDB.Parser):
    """DuckDB's grammar, with `%` as strong as `*` and `/`: sqlglot reads it as strong as `+`.

    `text ~ pattern` looks for the pattern anywhere, as in PostgreSQL and DuckDB; sqlglot would have it match the whole.
    DECODE takes any number of arguments, TIMESTAMPDIFF a unit without quotes, DATEDIFF two or three (`dialects`).
    """

    TERM: ClassVar = {token: node for token, node in DuckDB.Parser.TERM.items() if token is not TokenType.MOD}
    FACTOR: ClassVar = {**DuckDB.Parser.FACTOR, TokenType.MOD: exp.Mod}
    FUNCTIONS: ClassVar = {
        **{name: build for name, build in DuckDB.Parser.FUNCTIONS.items() if name not in ("DECODE", "TIMESTAMPDIFF")},
        "DATEDIFF": _date_difference,
    }
    RANGE_PARSERS: ClassVar = {
        **DuckDB.Parser.RANGE_PARSERS,
        TokenType.TILDE: DuckDB.Parser.RANGE_PARSERS[TokenType.RLIKE],
    }


class _Tokenizer(DuckDB.Tokenizer):
    """Names may stand in backticks, as other databases write them: nothing else has one."""

    IDENTIFIERS: ClassVar = ['"', "`"]


# The parser's warnings quote the analyst's text: no place for it is a server's log. Refusals say what is wrong.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def parse_one(text: str, columns: Iterable[str] = ()) -> exp.Expr:
    """The single query of a text; a refusal reminds of `columns` that need quotes."""
    statements = parse_all(text, columns)
    if len(statements) > 1:
        raise refused(f"the text holds {len(statements)} statements", "ask one at a time")
    return statements[0]


def parse_condition(text: str, columns: Iterable[str] = ()) -> exp.Expr:
    """The query `SELECT 1 WHERE (text)`; a refusal states the place in the condition."""
    try:
        return parse_one(f"{_BEFORE}{text}\n)", columns)
    except _Unread as refusal:
        raise QueryError(refusal.told(text)) from None


def parse_statement(text: str, columns: Iterable[str] = ()) -> exp.Expr | Explained | Shown:
    """The single statement of a text: a query, an EXPLAIN of one, or a DESCRIBE."""
    _check_length(text)
    words = text.split(None, 1)
    first = words[0].upper().rstrip(";") if words else ""
    if first in _SHOWN:
        return show_of(_words(text))
    if first == "EXPLAIN":
        rest = words[1] if len(words) > 1 else ""
        again = rest.split(None, 1)
        if again and again[0].upper() in ("ANALYZE", "VERBOSE"):
            raise refused(f"EXPLAIN {again[0].upper()} would run a plan", "use EXPLAIN, which asks nothing")
        return Explained(parse_one(rest, columns), rest)
    return parse_one(text, columns)


def _words(text: str) -> list[str]:
    words = text.split("--", 1)[0].rstrip().rstrip(";").split()
    if len(words) > _MOST_WORDS:
        raise refused(f"{words[0].upper()} needs the name of a table", "write DESCRIBE and its name")
    return words


def _check_length(text: str) -> None:
    if not isinstance(text, str):
        raise refused(f"SQL must be text, not {type(text).__name__}", ONLY_SELECT)
    if len(text) > MAX_TEXT:
        raise refused(f"the statement has {len(text)} characters; at most {MAX_TEXT}", "ask its parts one by one")


def parse_all(text: str, columns: Iterable[str] = ()) -> list[exp.Expr]:
    """Every query of a text, separated by semicolons."""
    _check_length(text)
    trees = [tree for tree in _parsed(text, columns) if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise refused("the statement is empty", ONLY_SELECT)
    return [_query(tree) for tree in trees]


def table_of(text: str) -> str | None:
    """The table that a statement asks about; None where it cannot be read, or names no table or several."""
    try:
        tree = parse_statement(text)
    except QueryError:
        return None
    if isinstance(tree, Shown):
        return tree.table
    query = tree.this if isinstance(tree, Explained) else tree
    views = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables = [table.name for table in query.find_all(exp.Table) if table.name.lower() not in views]
    names = {name.lower().removesuffix("_synthetic"): name for name in tables}
    found = next(iter(names.values())) if len(names) == 1 else None
    return found[: -len("_synthetic")] if found is not None and found.lower().endswith("_synthetic") else found


def _parsed(text: str, columns: Iterable[str]) -> list[exp.Expr | None]:
    dialect = Dialect.get_or_raise("duckdb")
    tokens: list[Token] = []
    try:
        tokens = _Tokenizer(dialect=dialect).tokenize(text)
        first = tokens[0].text.upper() if tokens else ""
        if first in STATEMENTS:
            raise QueryError(_not_a_question(first))
        if first and first not in _OPENING:
            raise refused(f"a statement cannot begin with {shown(tokens[0].text)}", ONLY_SELECT)
        if "[" in text:
            tokens = names_in_brackets(lists_rewritten(tokens), text)
        if "TOP" in text.upper():
            tokens = top_rewritten(tokens)
        if "[" in text and any(token.token_type is TokenType.L_BRACKET for token in tokens):
            # The parser tries a[1][1]... in more and more ways; nothing that can be asked has a bracket.
            raise refused("lists and positions in brackets are not supported", "compare columns with single values")
        _mark_percentages(tokens)
        return _Parser(dialect=dialect).parse(tokens, text)
    except QueryError:
        raise
    except ParseError as error:
        known = list(columns)
        hint = _unquoted(text, tokens, known) or _foreign(tokens) or _misspelt(tokens, known)
        raise _Unread(error, hint) from None
    except RecursionError:
        raise refused("the statement is nested too deep", "ask its parts one by one") from None
    except SqlglotError:
        raise refused("the SQL cannot be read: a quote or comment may be open", "close it") from None
    except Exception:
        # The parser library may fail in any way on any text; the user always gets one line.
        raise refused("the SQL cannot be read", ONLY_SELECT) from None


def _mark_percentages(tokens: list[Token]) -> None:
    """In LIMIT 10% the sign has no second operand: it is no remainder."""
    for place in range(1, len(tokens)):
        sign = tokens[place]
        if sign.token_type is TokenType.MOD and tokens[place - 1].token_type is TokenType.NUMBER:
            last = place + 1 == len(tokens)
            if last or tokens[place + 1].token_type in _AFTER_PERCENT:
                sign.token_type = TokenType.PERCENT


class _Unread(QueryError):
    """Says where it went wrong; only the parser's plain words, for it also quotes its own classes."""

    def __init__(self, error: ParseError, hint: str) -> None:
        first = error.errors[0] if error.errors else {}
        said = str(first.get("description") or "not SQL")
        words = "something is missing there" if "<" in said else " ".join(said.lower().rstrip(".").split())
        self._line, self._column = first.get("line"), first.get("col")
        self._near = " ".join(str(first.get("highlight") or "").split())
        self._words = f"{words}{hint}"
        place = f" at line {self._line}, column {self._column}" if self._line and self._column else ""
        super().__init__(self._text(place, self._near))

    def told(self, condition: str) -> str:
        """The same of a condition that stands in `parse_condition`, from the line below its first."""
        line = (self._line or 1) - 1
        if line > len(condition.splitlines()):
            return self._text(" at its end", "")
        return self._text(f" at line {line}, column {self._column}" if line and self._column else "", self._near)

    def _text(self, place: str, near: str) -> str:
        return f"the SQL cannot be read{place}{f' near {shown(near)}' if near else ''}: {self._words}"


_UNREADABLE = {
    "SEPARATOR": "write STRING_AGG(x, ';' ORDER BY y)",
    "CONVERT": "write CAST(value AS type)",
    "XOR": "write (a AND NOT b) OR (b AND NOT a)",
    "TIES": "leave WITH TIES out",
}
"""Words of other databases that the parser stumbles over, and what to write instead."""


def _foreign(tokens: Iterable[Token]) -> str:
    said = {token.text.upper() for token in tokens if token.token_type is not TokenType.STRING}
    return next((f"; {instead}" for word, instead in _UNREADABLE.items() if word in said), "")


_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "BETWEEN", "DISTINCT")
_NEAR = 0.75
"""Similarity of a misspelt keyword: two letters of four in each other's place, or one of five wrong."""


def _misspelt(tokens: Iterable[Token], columns: Sequence[str]) -> str:
    """The keyword that a word which is neither a keyword nor a column probably stands for."""
    known = {name.lower() for name in columns}
    for token in tokens:
        if token.token_type is TokenType.VAR and token.text.lower() not in known:
            near = get_close_matches(token.text.upper(), _KEYWORDS, n=1, cutoff=_NEAR)
            if near:
                return f"; did you mean {near[0]}, not {shown(token.text)}"
    return ""


def _unquoted(text: str, tokens: Iterable[Token], columns: Sequence[str]) -> str:
    """A reminder, where a statement that cannot be read names a column by a word of SQL or in several words."""
    if wordy := unquoted_names(text, columns):
        return f"; write {', '.join(map(quoted_name, wordy))} in double quotes"
    bare = [token.text for token in tokens if token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)]
    meant = [quoted_name(name) for name in reserved_names(bare, columns)]
    return f"; a column that is called like a word of SQL stands in double quotes: {', '.join(meant)}" if meant else ""


def _query(tree: exp.Expr) -> exp.Expr:
    """Peel parentheses; refuse everything that is not a query."""
    while isinstance(tree, (exp.Subquery, exp.Paren)) and not any(
        value for name, value in tree.args.items() if name != "this"
    ):
        tree = tree.this
    if isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery, exp.Values, exp.Pivot)):
        _refuse_ambiguous(tree)
        return spelled_out(tree)
    word = type(tree).__name__.upper()
    raise QueryError(_not_a_question(word))


def _refuse_ambiguous(tree: exp.Expr) -> None:
    """a = b IS NULL: databases read (a = b) IS NULL, the parser a = (b IS NULL)."""
    for node in tree.find_all(*_COMPARISONS):
        for side in (node.this, node.expression):
            inner = side.this if isinstance(side, exp.Not) else side
            if isinstance(inner, _TESTS):
                raise refused(f"{wording(node)} can be read in two ways", "put the comparison in parentheses")


def _not_a_question(word: str) -> str:
    reason = STATEMENTS.get(word, "is not a question")
    return f"{word} {reason}" if ";" in reason else f"{word} {reason}; {ONLY_SELECT}"
