"""SQL text to syntax trees: sqlglot reads it, and whatever happens inside becomes one line."""

from __future__ import annotations

import logging

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql.refusals import ONLY_SELECT, STATEMENTS, refused

MAX_TEXT = 100_000
"""Characters of one statement."""

_OPENING = ("SELECT", "WITH", "FROM", "(")

# The parser's warnings quote the analyst's text: no place for it is a server's log. Refusals say what is wrong.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def parse_one(text: str) -> exp.Select:
    """The single SELECT of a text."""
    statements = parse_all(text)
    if len(statements) > 1:
        raise refused(f"the text holds {len(statements)} statements", "ask one at a time")
    return statements[0]


def parse_all(text: str) -> list[exp.Select]:
    """Every SELECT of a text, separated by semicolons."""
    if not isinstance(text, str):
        raise refused(f"SQL must be text, not {type(text).__name__}", ONLY_SELECT)
    if len(text) > MAX_TEXT:
        raise refused(f"the statement has {len(text)} characters; at most {MAX_TEXT}", "ask its parts one by one")
    trees = [tree for tree in _parsed(text) if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise refused("the statement is empty", ONLY_SELECT)
    return [_select(tree) for tree in trees]


def _parsed(text: str) -> list[exp.Expr | None]:
    dialect = Dialect.get_or_raise("duckdb")
    try:
        tokens = dialect.tokenize(text)
        first = tokens[0].text.upper() if tokens else ""
        if first in STATEMENTS:
            raise refused(f"{first} {STATEMENTS[first]}", ONLY_SELECT)
        if first and first not in _OPENING:
            raise refused(f"a statement cannot begin with {shown(tokens[0].text)}", ONLY_SELECT)
        return dialect.parser().parse(tokens, text)
    except QueryError:
        raise
    except ParseError as error:
        raise QueryError(_located(error)) from None
    except RecursionError:
        raise refused("the statement is nested too deep", "ask its parts one by one") from None
    except SqlglotError:
        raise refused("the SQL cannot be read: a quote or comment may be open", "close it") from None
    except Exception:
        # A foreign parser may fail in any way on any text; the user gets one line all the same.
        raise refused("the SQL cannot be read", ONLY_SELECT) from None


def _located(error: ParseError) -> str:
    """Where it went wrong; only the parser's plain words, for it also quotes its own classes."""
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    place = f" at line {line}, column {column}" if line and column else ""
    said = str(first.get("description") or "not SQL")
    words = "something is missing there" if "<" in said else " ".join(said.lower().rstrip(".").split())
    near = " ".join(str(first.get("highlight") or "").split())
    return f"the SQL cannot be read{place}{f' near {shown(near)}' if near else ''}: {words}"


def _select(tree: exp.Expr) -> exp.Select:
    """Peel parentheses; refuse everything that is not one SELECT."""
    while isinstance(tree, (exp.Subquery, exp.Paren)) and not any(
        value for name, value in tree.args.items() if name != "this"
    ):
        tree = tree.this
    if isinstance(tree, exp.Select):
        return tree
    if isinstance(tree, exp.SetOperation):
        kind = type(tree).__name__.upper()
        raise refused(f"{kind} of several SELECTs is not possible", "ask each SELECT on its own")
    word = type(tree).__name__.upper()
    raise refused(f"{word} {STATEMENTS.get(word, 'is not a question')}", ONLY_SELECT)
