"""Classifies a statement by its first words and the names after FROM; nothing is parsed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from reticent.service.postgres.failures import FEATURE, NO_PARAMETER, READ_ONLY, SYNTAX, Refusal
from reticent.service.postgres.lexer import Token, spliced, statements_of
from reticent.service.postgres.types import array_items, wire_literal

CATALOGS = ("pg_catalog", "information_schema")
_READING = ("select", "with", "values", "table", "explain", "describe", "desc", "from", "pivot", "summarize")
_TRANSACTION = {
    "begin": "BEGIN",
    "start": "START TRANSACTION",
    "commit": "COMMIT",
    "end": "COMMIT",
    "rollback": "ROLLBACK",
    "abort": "ROLLBACK",
    "savepoint": "SAVEPOINT",
    "release": "RELEASE",
}
_WRITING = frozenset(
    {
        *("insert", "update", "delete", "merge", "create", "drop", "alter", "truncate", "grant", "revoke", "comment"),
        *("vacuum", "analyze", "reindex", "cluster", "refresh", "lock", "do", "call", "import", "security", "replace"),
        *("reassign", "checkpoint", "attach", "detach", "install", "load", "use", "pragma"),
    }
)
_JOINING = ("from", "join")


@dataclass(frozen=True)
class Command:
    """One statement; `tokens` have their places in `text`."""

    text: str
    tokens: tuple[Token, ...] = field(repr=False)

    @cached_property
    def parameters(self) -> int:
        """The highest $n in the text."""
        return max((int(token.text[1:]) for token in self.tokens if token.kind == "parameter"), default=0)


@dataclass(frozen=True)
class Transaction(Command):
    verb: str
    """As the command's tag has it; `ROLLBACK TO` is told from ROLLBACK."""


@dataclass(frozen=True)
class SetVariable(Command):
    name: str
    value: str | None
    """None is DEFAULT."""
    local: bool = False


@dataclass(frozen=True)
class Show(Command):
    name: str


@dataclass(frozen=True)
class Acknowledged(Command):
    """A command that tools send routinely and that has no effect here."""

    tag: str


@dataclass(frozen=True)
class Deallocate(Command):
    name: str | None
    """None is ALL."""


@dataclass(frozen=True)
class Read(Command):
    """A statement to be answered, about a table or about the catalog."""

    @cached_property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Names after FROM and JOIN with their qualifiers; a few are columns (EXTRACT ... FROM)."""
        return tuple(_names_after(self.tokens, _JOINING))

    @cached_property
    def of_catalog(self) -> bool:
        """Whether it reads system tables, or no table at all."""
        first = self.tokens[0]
        if not self.names:
            return first.is_word("select", "values", "with")
        return any(_is_catalog(name) for name in self.names)

    def bound(self, values: Sequence[Any], *, typed: bool) -> str:
        """The text with values for its parameters, in lower case where nothing quotes it, without the schema `public`.

        `typed` keeps casts of parameters.
        """
        if self.parameters > len(values):
            raise Refusal(NO_PARAMETER, f"there is no parameter ${self.parameters}")
        return spliced(self.text, list(self._pieces(values, typed=typed))) if self.parameters else self._plain

    @cached_property
    def _plain(self) -> str:
        """The text where it has no parameters."""
        return spliced(self.text, list(self._pieces((), typed=False)))

    @cached_property
    def probed(self) -> tuple[tuple[str, str], ...] | None:
        """Columns and headings of a statement that asks for no rows, as tools send to learn names and permissions.

        None for other statements. A constant has no column, and a star is "*".

        SELECT list FROM table [WHERE 1 = 0] [LIMIT 0], with at least one of the two.
        """
        places = [place for place, token in enumerate(self.tokens) if token.is_word("from")]
        if len(places) != 1 or not self.tokens[0].is_word("select"):
            return None
        rest = list(self.tokens[places[0] + 1 :])
        names = _dropped_names(rest)
        if not names or not _asks_for_nothing(rest):
            return None
        return _projected(self.tokens[1 : places[0]])

    def _pieces(self, values: Sequence[Any], *, typed: bool) -> Iterator[tuple[int, int, str]]:
        tokens, place = self.tokens, 0
        while place < len(tokens):
            token, end = tokens[place], place + 1
            if token.kind == "parameter":
                value = values[int(token.text[1:]) - 1] if token.text != "$0" else None
                end = place + 1 if typed else _past_cast(tokens, place + 1)
                yield token.start, tokens[end - 1].end, wire_literal(value)
            elif _begins_any(tokens, place):
                value = _listed(values[int(tokens[place + 3].text[1:]) - 1])
                if value is not None:
                    end = _past_cast(tokens, place + 4) + 1
                    yield token.start, tokens[end - 1].end, f"IN {wire_literal(value)}"
            elif token.is_word("collate") and (after := _past_collation(tokens, place)):
                end = after
                yield token.start, tokens[end - 1].end, ""
            elif token.is_name and token.text == "public" and _is_qualifier(tokens, place):
                end = place + 2
                yield token.start, tokens[place + 1].end, ""
            elif token.kind == "string" and self.text[token.start] in "eE":
                yield token.start, token.end, wire_literal(token.text)
            elif token.kind == "word" and self.text[token.start : token.end] != token.text:
                yield token.start, token.end, token.text  # headings, too: PostgreSQL folds what is not quoted
            place = end


@dataclass(frozen=True)
class Copy(Command):
    """COPY (SELECT ...) TO STDOUT: the result of a statement in bulk."""

    inner: Read
    form: str
    options: Mapping[str, str]


def _dropped_names(tokens: list[Token]) -> bool:
    """Take a table's name, with qualifiers and alias, from the front."""
    taken = 0
    while tokens and (tokens[0].is_sign(".") or (tokens[0].is_name and not tokens[0].is_word("where", "limit"))):
        tokens.pop(0)
        taken += 1
    return taken > 0


def _asks_for_nothing(tokens: Sequence[Token]) -> bool:
    """Whether the clauses after the table leave no row: a condition that is never true, or LIMIT 0 alone."""
    words = [token.text for token in tokens]
    limit: list[str] = []
    if "limit" in words:
        place = words.index("limit")
        words, limit = words[:place], words[place + 1 :]
    if len(limit) > 1 or not all(text.isdigit() for text in limit):
        return False
    if not words:
        return limit == ["0"]
    left, sign, right = [*words[1:], "", "", ""][:3]
    numbers = len(words) == 4 and left.isdigit() and right.isdigit()
    never = (sign == "=" and left != right) or (sign in ("<>", "!=") and left == right)
    return words[0] == "where" and (words[1:] == ["false"] or (numbers and never))


def _projected(tokens: Sequence[Token]) -> tuple[tuple[str, str], ...] | None:
    """Columns of a list of plain ones, each with its heading; a constant is of the column ""."""
    found: list[tuple[str, str]] = []
    for listed in _parts(tokens):
        part, heading = _headed(listed)
        if part[-1].is_sign("*") and len(part) in (1, 3) and not heading:
            found.append(("*", ""))
        elif len(part) == 1 and (part[0].kind in ("number", "string") or part[0].is_word("true", "false", "null")):
            found.append(("", heading))
        elif part[-1].is_name and all(token.is_name or token.is_sign(".") for token in part):
            found.append((part[-1].text, heading))
        else:
            return None
    return tuple(found) or None


def _headed(part: list[Token]) -> tuple[list[Token], str]:
    """A select item without its heading, and that; "" where it has none."""
    if len(part) > 2 and part[-2].is_word("as") and part[-1].is_name:
        return part[:-2], part[-1].text
    if len(part) > 1 and part[-1].is_name and not part[-2].is_sign("."):
        return part[:-1], part[-1].text
    return part, ""


def _parts(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The pieces between commas."""
    part: list[Token] = []
    for token in tokens:
        if token.is_sign(","):
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _begins_any(tokens: Sequence[Token], place: int) -> bool:
    """`= ANY ($1)`"""
    here = tokens[place : place + 4]
    return len(here) == 4 and (
        here[0].is_sign("=") and here[1].is_word("any") and here[2].is_sign("(") and here[3].kind == "parameter"
    )


def _listed(value: Any) -> list[Any] | None:
    """The items of an array; drivers send one of texts as a text whose type they leave open."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return list(array_items(value))
        except ValueError:
            return None
    return value if isinstance(value, list) else None


def _is_qualifier(tokens: Sequence[Token], place: int) -> bool:
    return place + 2 < len(tokens) and tokens[place + 1].is_sign(".") and tokens[place + 2].kind in ("word", "quoted")


def _past_collation(tokens: Sequence[Token], place: int) -> int:
    """The place after `COLLATE "C"`, which is how texts are compared here; 0 where another collation is named."""
    named = place + 3 if [token.text for token in tokens[place + 1 : place + 3]] == ["pg_catalog", "."] else place + 1
    known = named < len(tokens) and tokens[named].is_name and tokens[named].text.lower() in ("c", "posix", "default")
    return named + 1 if known else 0


def _past_cast(tokens: Sequence[Token], place: int) -> int:
    """The place after `::type(n)[]`, where one stands here."""
    while place + 1 < len(tokens) and tokens[place].is_sign("::") and tokens[place + 1].is_name:
        place += 2
        while place + 1 < len(tokens) and tokens[place].is_sign(".") and tokens[place + 1].is_name:
            place += 2
        while place < len(tokens) and tokens[place].is_word("precision", "varying"):
            place += 1
        for opening, closing in ("()", "[]"):
            if place < len(tokens) and tokens[place].is_sign(opening):
                while place < len(tokens) and not tokens[place].is_sign(closing):
                    place += 1
                place += 1
    return min(place, len(tokens))


def _names_after(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for place, token in enumerate(tokens):
        following = place + 1
        if not token.is_word(*words):
            continue
        while following < len(tokens) and (tokens[following].is_sign("(") or tokens[following].is_word("only")):
            following += 1
        if (
            following < len(tokens)
            and tokens[following].is_name
            and not tokens[following].is_word("select", "with", "values")
        ):
            name = [tokens[following].text]
            while _is_qualifier(tokens, following):
                following += 2
                name.append(tokens[following].text)
            yield tuple(name)


def _is_catalog(name: tuple[str, ...]) -> bool:
    *qualifiers, last = name
    if qualifiers:
        return qualifiers[-1] in CATALOGS
    return last.startswith("pg_") or last in ("unnest", "generate_series", "current_schemas")


def commands_of(sql: str) -> list[Command]:
    """The statements of a text."""
    return [command_of(text, tokens) for text, tokens in statements_of(sql)]


def command_of(text: str, tokens: Sequence[Token]) -> Command:
    first, listed = tokens[0], tuple(tokens)
    word = first.text if first.kind == "word" else ""
    if word in _READING or first.is_sign("("):
        return _reading(text, listed)
    if word in _TRANSACTION:
        verb = _TRANSACTION[word]
        if verb == "ROLLBACK" and any(token.is_word("to") for token in tokens):
            verb = "ROLLBACK TO"
        return Transaction(text, listed, verb)
    if word in ("set", "reset"):
        return _setting(text, listed)
    if word == "show":
        return _show(text, listed)
    if word == "copy":
        return _copy(text, listed)
    if word == "deallocate":
        name = tokens[-1].text if len(tokens) > 1 else None
        return Deallocate(text, listed, None if name == "all" else name)
    if word in ("discard", "unlisten", "close"):
        return Acknowledged(text, listed, " ".join(token.text for token in tokens[:2]).upper())
    if word in _WRITING:
        raise Refusal(READ_ONLY, f"{word.upper()} cannot be carried out: this database is read-only")
    if word in ("listen", "notify"):
        raise Refusal(FEATURE, f"{word.upper()} is not supported: this database sends no notifications")
    if word in ("declare", "fetch", "move", "prepare", "execute"):
        raise Refusal(FEATURE, f"{word.upper()} is not supported; use the driver's own prepared statements and portals")
    raise Refusal(SYNTAX, "this statement cannot be answered; begin with SELECT, WITH, SHOW or SET")


def _reading(text: str, tokens: tuple[Token, ...]) -> Read:
    """A statement to be answered; a set of rows among the columns of a SELECT without a table is refused."""
    read = Read(text, tokens)
    for place, token in enumerate(tokens[:-1]):
        listed = token.is_word("generate_series") and tokens[place + 1].is_sign("(")
        unnested = place > 1 and tokens[place - 1].is_sign("(") and tokens[place - 2].is_word("unnest")
        if listed and not unnested and not read.names:
            raise Refusal(FEATURE, "generate_series makes rows: write SELECT * FROM generate_series(1, 3)")
    return read


def _setting(text: str, tokens: tuple[Token, ...]) -> Command:
    """SET [SESSION | LOCAL] name {= | TO} value, SET TIME ZONE, RESET name; SET TRANSACTION changes nothing here."""
    rest = list(tokens[1:])
    if tokens[0].is_word("reset"):
        name = ".".join(token.text for token in rest if not token.is_sign("."))
        return SetVariable(text, tokens, name.lower() or "all", None)
    local = bool(rest) and rest[0].is_word("local")
    if rest and rest[0].is_word("local", "session") and len(rest) > 1 and not rest[1].is_sign("="):
        rest = rest[1:]
    if not rest:
        raise Refusal(SYNTAX, "SET needs a name and a value")
    if rest[0].is_word("transaction", "characteristics", "constraints", "role", "authorization"):
        return Acknowledged(text, tokens, "SET")
    if rest[0].is_word("time") and len(rest) > 2 and rest[1].is_word("zone"):
        return SetVariable(text, tokens, "timezone", _value(rest[2:]), local)
    if rest[0].is_word("names"):
        return SetVariable(text, tokens, "client_encoding", _value(rest[1:]), local)
    equals = next((place for place, t in enumerate(rest) if t.is_sign("=") or t.is_word("to")), None)
    if not equals:
        raise Refusal(SYNTAX, "write SET name = value")
    name = ".".join(token.text for token in rest[:equals] if not token.is_sign("."))
    return SetVariable(text, tokens, name.lower(), _value(rest[equals + 1 :]), local)


def _value(tokens: Sequence[Token]) -> str | None:
    if not tokens:
        raise Refusal(SYNTAX, "SET needs a value")
    if tokens[0].is_word("default"):
        return None
    signs = {",": ", "}
    return "".join(signs.get(token.text, token.text) if token.kind == "sign" else token.text for token in tokens)


def _show(text: str, tokens: tuple[Token, ...]) -> Command:
    """A variable of the session; SHOW TABLES and SHOW COLUMNS are questions."""
    if len(tokens) > 1 and tokens[1].is_word("tables", "columns"):
        return Read(text, tokens)
    words = [token.text for token in tokens[1:] if not token.is_sign(".")]
    if words[:2] == ["transaction", "isolation"]:
        return Show(text, tokens, "transaction_isolation")
    if words[:2] == ["time", "zone"]:
        return Show(text, tokens, "timezone")
    if not words:
        raise Refusal(SYNTAX, "SHOW needs the name of a setting")
    return Show(text, tokens, ".".join(words).lower())


def _copy(text: str, tokens: tuple[Token, ...]) -> Command:
    """COPY (statement) TO STDOUT [[WITH] (option value, ...)]"""
    closing = _matching(tokens, 1)
    rest = tokens[closing + 1 :]
    if not closing or len(rest) < 2 or not rest[0].is_word("to") or not rest[1].is_word("stdout"):
        raise Refusal(FEATURE, "only COPY (SELECT ...) TO STDOUT is possible: this database is read-only")
    first, last = tokens[2], tokens[closing - 1]
    moved = [Token(t.kind, t.text, t.start - first.start, t.end - first.start) for t in tokens[2:closing]]
    inner = command_of(text[first.start : last.end], moved) if closing > 2 else None
    if not isinstance(inner, Read):
        raise Refusal(FEATURE, "only COPY (SELECT ...) TO STDOUT is possible")
    words = [t.text.lower() for t in rest[2:] if t.kind != "sign" and not t.is_word("with")]
    options = dict(zip(words[::2], words[1::2], strict=False))
    form = options.get("format", "binary" if "binary" in words else "csv" if "csv" in words else "text")
    if form not in ("text", "csv", "binary"):
        raise Refusal(FEATURE, "the format of COPY is text, csv or binary")
    if "header" in words and options.get("header") not in ("false", "off"):
        options["header"] = "true"
    return Copy(text, tokens, inner, form, options)


def _matching(tokens: Sequence[Token], place: int) -> int:
    """Where the parenthesis that opens here closes; 0 where none does."""
    depth = 0
    for at in range(place, len(tokens)):
        depth += tokens[at].is_sign("(") - tokens[at].is_sign(")")
        if depth == 0:
            return at if at > place else 0
    return 0
