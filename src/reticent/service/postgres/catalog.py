"""`pg_catalog` and `information_schema`, answered by a small DuckDB in memory that holds public descriptions only.

No row of a table is ever in it, it can open no file, and each statement runs in a transaction that can only read.
"""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import duckdb

from reticent.domain import Domain
from reticent.errors import one_line
from reticent.service.postgres.catalog_tables import (
    DATABASE,
    FIRST_TABLE,
    INFORMATION_SCHEMA,
    MACROS,
    PG_CATALOG,
    SYNTHETIC,
    contents,
    definitions,
)
from reticent.service.postgres.catalog_types import ROUTINE_COLUMNS, ROUTINE_OIDS, ROUTINES, TYPE_OIDS
from reticent.service.postgres.commands import Read
from reticent.service.postgres.failures import CANCELED, FEATURE, NO_TABLE, TOO_LARGE, Refusal
from reticent.service.postgres.lexer import Token, spliced, tokens_of
from reticent.service.postgres.messages import WireType
from reticent.service.postgres.results import UNNAMED, WireRows
from reticent.service.postgres.types import (
    ARRAYS,
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    REGPROC,
    TEXT,
    TIMESTAMP,
    array_items,
    wire_literal,
)

_SCHEMAS = {"pg_catalog": "pgc", "information_schema": "info"}
_RENAMED = {"json_build_object": "json_object", "jsonb_build_object": "json_object"}
_ALIASED_TYPES = ("regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "name", "aclitem")
_NAMING = {"regtype": "regtype_name", "regclass": "regclass_name", "regproc": "regproc_name"}
_WITHOUT_ZONE = {"current_timestamp": "now()", "timestamptz": "timestamp"}
"""The server's time zone is UTC, so times need not name theirs."""
_TEXTS = ("text", "varchar", "name")
_SYSTEM = {"pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_class": 1259, "pg_constraint": 2606}
"""OIDs of system tables, which distinguish descriptions."""
_OURS = re.compile(r"\b(pgc|info)\.")
_CALL = re.compile(r'"?([A-Za-z_][A-Za-z0-9_]*)"?\(.*\)', re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$ ]*")
_COLUMN_TYPES = {
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "SMALLINT": INT2,
    "INTEGER": INT4,
    "BIGINT": INT8,
    "HUGEINT": INT8,
    "UBIGINT": INT8,
    "UINTEGER": OID,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
}


class Job:
    """A running statement; it ends at its time limit, or when the client gives up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._given_up = False
        self._interrupt: Callable[[], None] | None = None
        self._lock = threading.Lock()

    @contextmanager
    def running(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Inside this context `stop` interrupts the statement; one that was stopped before does not begin."""
        with self._lock:
            if self._given_up:
                raise Refusal(CANCELED, "the statement was cancelled before it began")
            self._interrupt = interrupt
        timer = threading.Timer(self.seconds, self.stop)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._interrupt = None

    def stop(self) -> None:
        """Interrupt this statement only: by now the engine may run another client's."""
        with self._lock:
            self._given_up = True
            if self._interrupt is not None:
                self._interrupt()


class Catalog:
    """The system tables for a user with access to these tables."""

    def __init__(self, domains: Mapping[str, Domain], titles: Mapping[str, str], most_cells: int) -> None:
        self._most = most_cells
        self._oids = {name: FIRST_TABLE + 4 * place for place, name in enumerate(domains)}
        self._oids |= {f"{name}{SYNTHETIC}": oid + 2 for name, oid in self._oids.items()}
        settings = {
            "threads": 1,
            "memory_limit": "256MB",
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        self._engine = duckdb.connect(":memory:", config=settings)
        self._lock = threading.Lock()
        self._fill(domains, titles)

    def _fill(self, domains: Mapping[str, Domain], titles: Mapping[str, str]) -> None:
        run = self._engine.execute
        for name in _ALIASED_TYPES:
            run(f"CREATE TYPE {name} AS VARCHAR")
        for schema, tables in (("pgc", PG_CATALOG), ("info", INFORMATION_SCHEMA)):
            run(f"CREATE SCHEMA {schema}")
            for definition in definitions(schema, tables):
                run(definition)
        for table, row in contents(domains, titles):
            named = ", ".join(f'"{column}"' for column in row)
            run(f"INSERT INTO {table} ({named}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
        for macro in MACROS.strip().split(";\n"):
            run(macro)
        run("SET search_path = 'pgc,main'")
        run("SET lock_configuration = true")

    def answer(self, command: Read, values: Sequence[Any], user: str, job: Job) -> WireRows:
        """The rows of a statement about system tables; refused where it is not understood or takes too long."""
        sql = self._translated(command.bound(values, typed=True), user)
        with self._lock, job.running(self._engine.interrupt):
            try:
                self._engine.execute("BEGIN TRANSACTION READ ONLY")
                found = self._engine.execute(sql)
                described = [(column[0], str(column[1])) for column in found.description or []]
                rows = found.fetchmany(self._most // max(1, len(described)) + 1)
            except duckdb.InterruptException:
                raise Refusal(CANCELED, f"a catalog query may take at most {job.seconds:g} s") from None
            except duckdb.Error as error:
                raise _refused(error) from None
            finally:
                self._engine.execute("ROLLBACK")
        if len(rows) * len(described) > self._most:
            raise Refusal(TOO_LARGE, f"the result has more than {self._most} values; add LIMIT")
        return _relation(described, rows)

    def close(self) -> None:
        with self._lock:
            self._engine.close()

    def _translated(self, sql: str, user: str) -> str:
        """PostgreSQL's text as DuckDB takes it: other names of schemas, and no operators or collations by schema."""
        return spliced(sql, list(self._pieces(tokens_of(sql), user)))

    def _pieces(self, tokens: Sequence[Token], user: str) -> Iterator[tuple[int, int, str]]:
        place = 0
        while place < len(tokens):
            end, text = self._piece(tokens, place, user)
            if text is not None:
                yield tokens[place].start, tokens[end - 1].end, text
            place = end

    def _piece(self, tokens: Sequence[Token], place: int, user: str) -> tuple[int, str | None]:
        """The start of the next piece, and the replacement of this one; None keeps it."""
        token = tokens[place]
        after = tokens[place + 1 : place + 6]
        if token.kind == "string":
            return self._string(tokens, place)
        if not token.is_name:
            return place + 1, None
        if token.is_word("operator") and len(after) >= 5 and after[0].is_sign("("):
            return place + 6, after[3].text
        if token.is_word("collate") and after:
            return place + (4 if len(after) > 2 and after[1].is_sign(".") else 2), ""
        named = self._named_object(tokens, place)
        if named is not None:
            return named
        if token.text in _SCHEMAS and len(after) >= 2 and after[0].is_sign("."):
            called = len(after) > 2 and after[2].is_sign("(")
            cast = place > 0 and (tokens[place - 1].is_sign("::") or tokens[place - 1].is_word("as"))
            if called and after[1].text in _RENAMED:
                return place + 3, _RENAMED[after[1].text]
            return place + 2, "" if called or cast else f"{_SCHEMAS[token.text]}."
        return place + 1, self._word(token, user, called=bool(after) and after[0].is_sign("("))

    def _word(self, token: Token, user: str, *, called: bool) -> str | None:
        """What stands here for a single word; None keeps it."""
        if token.is_word("current_user", "session_user", "current_role"):
            return wire_literal(user)
        if token.is_word("current_catalog"):
            return wire_literal(DATABASE)
        if token.is_word("current_schema") and not called:
            return wire_literal("public")
        if token.text in _RENAMED and called:
            return _RENAMED[token.text]
        return _WITHOUT_ZONE.get(token.text) if token.kind == "word" and not called else None

    def _named_object(self, tokens: Sequence[Token], place: int) -> tuple[int, str] | None:
        """`a.oid::regtype`: the name of the object whose number a column holds."""
        if place and tokens[place - 1].is_sign("."):
            return None
        end, parts = place + 1, [tokens[place]]
        while end + 1 < len(tokens) and tokens[end].is_sign(".") and tokens[end + 1].is_name:
            parts.append(tokens[end + 1])
            end += 2
        if end + 1 >= len(tokens) or not tokens[end].is_sign("::"):
            return None
        kind = end + 3 if tokens[end + 1].text == "pg_catalog" and end + 3 < len(tokens) else end + 1
        function = _NAMING.get(tokens[kind].text)
        if parts[-1].text in ROUTINE_COLUMNS and tokens[kind].text in _TEXTS:
            function = _NAMING["regproc"]
        if function is None:
            return None
        chain = ".".join('"' + part.text.replace('"', '""') + '"' for part in parts)
        return kind + 1, f"{function}({chain})"

    def _string(self, tokens: Sequence[Token], place: int) -> tuple[int, str | None]:
        """A name as text that is cast to an object's identifier is that number."""
        text, rest = tokens[place].text, place + 1
        if rest + 1 < len(tokens) and tokens[rest].is_sign("::"):
            kind = rest + 1
            if tokens[kind].text == "pg_catalog" and kind + 2 < len(tokens):
                kind += 2
            if tokens[kind].text in ("regclass", "regtype", "regnamespace", "regproc"):
                return kind + 1, self._identifier(text, tokens[kind].text)
        if rest + 1 < len(tokens) and tokens[rest].is_word("as") and tokens[rest + 1].text in ("regclass", "regtype"):
            return rest + 2, f"{self._identifier(text, tokens[rest + 1].text)} AS BIGINT"
        if text.startswith("{") and [token.text for token in tokens[rest + 2 : rest + 4]] == ["[", "]"]:
            return rest, _list_literal(text)
        return rest, wire_literal(text)

    def _identifier(self, text: str, kind: str) -> str:
        if text.isdigit():
            return text
        parts = [token.text for token in tokens_of(text) if token.is_name]
        name = parts[-1] if parts else ""
        if kind == "regtype":
            found = TYPE_OIDS.get(text.lower()) or TYPE_OIDS.get(name)
        elif kind == "regproc":
            found = ROUTINE_OIDS.get(name)
        elif kind == "regnamespace":
            found = {"pg_catalog": 11, "public": 2200, "information_schema": 13000}.get(name)
        else:
            found = next((oid for table, oid in self._oids.items() if table.lower() == name.lower()), None)
            found = found or _SYSTEM.get(name) or (1 if name in PG_CATALOG or name in INFORMATION_SCHEMA else None)
        if found is None:
            called = "function" if kind == "regproc" else "relation"
            raise Refusal(NO_TABLE, f'{called} "{name[:60]}" does not exist')
        return str(found)


def _list_literal(text: str) -> str:
    """An array in PostgreSQL's text form, before its cast, as DuckDB writes lists."""
    try:
        return "[" + ", ".join(map(wire_literal, array_items(text))) + "]"
    except ValueError:
        return wire_literal(text)


def _refused(error: duckdb.Error) -> Refusal:
    said = _OURS.sub("", one_line(str(error).split("\n")[0]))
    missing = isinstance(error, duckdb.CatalogException) and "Table" in said
    return Refusal(NO_TABLE if missing else FEATURE, f"this catalog query is not supported: {said}")


def _relation(described: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> WireRows:
    names = tuple(_named(name) for name, _ in described)
    types = tuple(_column_type(name, kind) for name, kind in described)
    return WireRows(names, types, [tuple(map(_plain, row, types)) for row in rows])


def _named(name: str) -> str:
    """As PostgreSQL calls a column without an alias."""
    call = _CALL.fullmatch(name)
    if call is not None:
        function = call.group(1).lower()
        return UNNAMED if function in ("cast", "list_value") else function.removesuffix("_star")
    plain = _PLAIN_NAME.fullmatch(name) or not (name.isdigit() or any(sign in name for sign in "()'[]="))
    return name if plain else UNNAMED


class Routine(int):
    """The OID of a function; as text, its name."""

    def __str__(self) -> str:
        return ROUTINES.get(int(self), repr(int(self)) if self else "-")


def _column_type(name: str, kind: str) -> WireType:
    """Columns of functions are known by their names: DuckDB has no such type."""
    return REGPROC if kind == "UINTEGER" and name in ROUTINE_COLUMNS else _type(kind)


def _type(kind: str) -> WireType:
    if kind.endswith("[]"):
        element = _type(kind[:-2])
        return WireType(ARRAYS.get(element.oid, ARRAYS[TEXT.oid]), -1)
    if kind.startswith("DECIMAL"):
        return NUMERIC
    return _COLUMN_TYPES.get(kind, TEXT)


def _plain(value: Any, kind: WireType) -> Any:
    """A value of DuckDB as its type here has it."""
    if kind is REGPROC and value is not None:
        return Routine(value)
    if value is None or isinstance(value, (bool, int, float, str, Decimal, datetime.date, list)):
        return str(value) if kind is TEXT and not isinstance(value, str) and value is not None else value
    return str(value)
