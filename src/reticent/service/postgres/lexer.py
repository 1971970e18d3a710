"""SQL text to tokens with their positions: enough to separate statements and insert values, without parsing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reticent.service.postgres.failures import SYNTAX, Refusal

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<string>'(?:[^']|'')*')
  | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
  | (?P<dollar>\$(?P<tag>[A-Za-z_]\w*)?\$.*?\$(?(tag)(?P=tag))\$)
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<parameter>\$[0-9]{1,5})
  | (?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<word>[^\W\d]\w*(?:\$\w*)*)
  | (?P<open>'|"|/\*|[eE]'|\$\w*\$)
  | (?P<sign>::|<=|>=|<>|!=|!~\*|!~|~\*|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; `text` is a word in lower case, or the content of a name or string."""

    kind: str
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text in words

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")


def tokens_of(sql: str) -> list[Token]:
    """All tokens; white space and comments are left out."""
    return list(_tokens(sql))


def _tokens(sql: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(sql):
        kind = found.lastgroup or "sign"
        if kind == "space":
            continue
        if kind == "open":
            raise Refusal(SYNTAX, "a quote or comment is not closed")
        start, end = found.span()
        yield Token(_KINDS.get(kind, kind), _content(kind, found.group()), start, end)


_KINDS = {"escaped": "string", "dollar": "string"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPED = re.compile(
    r"""''|\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<octal>[0-7]{1,3})"""
    r"""|(?P<other>.))""",
    re.DOTALL,
)


def _content(kind: str, text: str) -> str:
    if kind == "word":
        return text.lower()
    if kind == "string":
        return text[1:-1].replace("''", "'")
    if kind == "quoted":
        return text[1:-1].replace('""', '"')
    if kind == "escaped":
        return _ESCAPED.sub(_unescaped, text[2:-1])
    if kind == "dollar":
        size = text.index("$", 1) + 1
        return text[size:-size]
    return text


def _unescaped(found: re.Match[str]) -> str:
    r"""A character of E'...'; \x41 and \101 are bytes, of which those beyond ASCII are no character of their own."""
    byte, point = found["hex"] or found["octal"], found["short"] or found["long"]
    if byte is None and point is None:
        return _ESCAPES.get(found["other"], found["other"]) if found["other"] else "'"
    number = int(point, 16) if byte is None else int(byte, 16 if found["hex"] else 8)
    if byte is not None and number > 0x7F:
        raise Refusal(
            SYNTAX, f"{found[0]} is a byte and no character: write the character itself, or \\u and its number"
        )
    if not 0 < number < 0x110000 or 0xD800 <= number < 0xE000:
        raise Refusal(SYNTAX, f"{found[0]} is no character")
    return chr(number)


def statements_of(sql: str) -> list[tuple[str, list[Token]]]:
    """Text and tokens of each statement, separated by semicolons; an empty text has none."""
    found: list[tuple[str, list[Token]]] = []
    current: list[Token] = []
    for token in [*_tokens(sql), Token("sign", ";", len(sql), len(sql))]:
        if not token.is_sign(";"):
            current.append(token)
        elif current:
            first = current[0].start
            moved = [Token(t.kind, t.text, t.start - first, t.end - first) for t in current]
            found.append((sql[first : current[-1].end], moved))
            current = []
    return found


def spliced(sql: str, pieces: Sequence[tuple[int, int, str]]) -> str:
    """The text with some pieces put in place of others; they are in order and do not overlap."""
    parts, place = [], 0
    for start, end, text in pieces:
        parts += [sql[place:start], text]
        place = end
    return "".join([*parts, sql[place:]])
