"""Completion at the SQL prompt: keywords, columns, and the declared values of the column just named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from reticent.domain import Domain
from reticent.sql.reserved import quoted_name

KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "IN", "BETWEEN",
    "IS NULL", "IS NOT NULL", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "DESC", "ASC", "FILTER",
    "COUNT(*)", "SUM(", "AVG(", "MEDIAN(", "STDDEV(", "CORR(", "WITH",
)  # fmt: skip
COMMANDS = {
    "\\cost": "price of a statement at the wanted error, without asking it",
    "\\error": "wanted error from now on: records for counts, or 1%; `\\error off` for free answers only",
    "\\budget": "what is spent and what is left",
    "\\domain": "columns and their values; `\\domain COLUMN` for one",
    "\\help": "this list",
    "\\quit": "leave",
}
ALIASES = {
    "\\q": "\\quit",
    "\\d": "\\domain",
    "\\h": "\\help",
    "\\?": "\\help",
    "exit": "\\quit",
    "quit": "\\quit",
    "help": "\\help",
}
"""What hands type that know other shells."""
WORDS = frozenset(name for name in ALIASES if not name.startswith("\\"))
_VALUE_WANTED = re.compile(
    r"(?P<name>\"[^\"]+\"|\w+)\s*(?:=|<>|!=|\bIN\s*\((?:[^()]*,)?|\bLIKE)\s*(?P<typed>'?[^',)]*)$", re.I
)
_WORD = re.compile(r"[\\\w*()\"]+$")


class SqlCompleter(Completer):
    """Works from the domain alone."""

    def __init__(self, domain: Domain, table: str) -> None:
        self._domain = domain
        self._words = [*map(quoted_name, domain.names), quoted_name(table), *KEYWORDS]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if text.startswith("\\") and " " not in text:
            yield from _matching(COMMANDS, text)
            return
        wanted = _VALUE_WANTED.search(text)
        if wanted and (values := self._values(wanted["name"])):
            yield from _matching(values, wanted["typed"])
            return
        word = _WORD.search(text)
        yield from _matching(self._words, word.group() if word else "")

    def _values(self, name: str) -> list[str]:
        """As SQL literals, for columns that hold text."""
        known = {text.lower(): text for text in self._domain.names}
        named = known.get(name.strip('"').lower())
        if named is None or (attribute := self._domain[named]).representatives is not None:
            return []
        extra = {attribute.null_code, attribute.other_code}
        return [_literal(text) for code, text in enumerate(attribute.labels) if code not in extra]


def _matching(words: Iterable[str], typed: str) -> Iterator[Completion]:
    bare = typed.lower()
    for word in words:
        if word.lower().startswith(bare) or word.lower().startswith("'" + bare):
            yield Completion(word, start_position=-len(typed))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
