"""Settings of one session, changed by SET and shown by SHOW; those that begin with `reticent.` affect answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from reticent import __version__
from reticent.errors import ReticentError
from reticent.knowledge.request import checked_error
from reticent.knowledge.tails import check_confidence
from reticent.service.postgres.failures import BAD_VALUE, NO_VARIABLE, Refusal

SERVER_VERSION = f"14.0 (Reticent {__version__})"
LONGEST = 1000
"""Characters of a value."""

_FIXED = {
    "server_version": SERVER_VERSION,
    "server_version_num": "140000",
    "server_encoding": "UTF8",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
    "max_identifier_length": "63",
    "lc_collate": "C",
    "lc_ctype": "C",
    "block_size": "8192",
    "wal_level": "replica",
    "ssl": "on",
}
"""Can be shown and not set."""
_FREE = {
    "application_name": "",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "lock_timeout": "0",
    "search_path": '"$user", public',
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "statement_timeout": "0",
    "timezone": "UTC",
    "role": "none",
    "row_security": "on",
    "jit": "off",
    "enable_seqscan": "on",
    "geqo": "on",
    "synchronize_seqscans": "on",
    "cursor_tuple_fraction": "0.1",
    "work_mem": "4MB",
    "xmloption": "content",
    "default_tablespace": "",
    "check_function_bodies": "on",
}
"""May be set by tools; most change nothing here."""
REPORTED = {
    "server_version": "server_version",
    "server_encoding": "server_encoding",
    "client_encoding": "client_encoding",
    "application_name": "application_name",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "is_superuser": "is_superuser",
    "session_authorization": "session_authorization",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes",
    "standard_conforming_strings": "standard_conforming_strings",
}
"""Told to the client at the start and whenever they change, by the names that clients look for."""


@dataclass(frozen=True)
class Terms:
    """What the `reticent.` settings say about the next question."""

    errors: bool = True
    error: float | str | None = None
    confidence: float | None = None
    max_price: float | None = None

    def body(self, sql: str) -> dict[str, object]:
        """The question as the HTTP service takes it."""
        stated = {"error": self.error, "confidence": self.confidence, "max_price": self.max_price}
        return {"sql": sql, **{name: value for name, value in stated.items() if value is not None}}


@dataclass
class Variables:
    """All settings of a session; `begin` and `undo` make SET part of a transaction."""

    user: str = ""
    _values: dict[str, str] = field(default_factory=dict)
    _before: dict[str, str] | None = None
    _local: set[str] = field(default_factory=set)
    _at_start: dict[str, str] = field(default_factory=dict)
    """What the client stated when it connected: to this RESET goes back."""
    _understood: tuple[Terms, float | None, tuple[bool, bool]] | None = None
    """`terms`, `statement_seconds` and `told`, until a setting changes."""

    def show(self, name: str) -> str:
        if name == "session_authorization":
            return self.user
        value = self._values.get(name) or _FIXED.get(name) or _FREE.get(name) or _OWN.get(name)
        if value is None and name not in _FREE and name not in _OWN:
            raise Refusal(NO_VARIABLE, f'unrecognized configuration parameter "{name[:60]}"')
        return value or ""

    def all(self) -> list[tuple[str, str]]:
        return [(name, self.show(name)) for name in sorted({*_FIXED, *_FREE, *_OWN})]

    def set(self, name: str, value: str | None, *, local: bool = False) -> None:
        """None sets the default; `all` resets everything."""
        self._understood = None
        if name == "all":
            self._values = dict(self._at_start)
            return
        if name in _FIXED:
            raise Refusal("55P02", f'parameter "{name}" cannot be changed')
        if name not in _FREE and name not in _OWN:
            near = f"; known: {', '.join(_OWN)}" if name.startswith("reticent.") else ""
            raise Refusal(NO_VARIABLE, f'unrecognized configuration parameter "{name[:60]}"{near}')
        if value is not None:
            self._values[name] = _checked(name, value)
        elif name in self._at_start:
            self._values[name] = self._at_start[name]
        else:
            self._values.pop(name, None)
        if local and self._before is not None:
            self._local.add(name)

    def started(self) -> None:
        """All that the client states with its connection is set by now."""
        self._at_start = dict(self._values)

    def begin(self) -> None:
        """A transaction starts here."""
        self._before = dict(self._values)

    def end(self, *, undo: bool) -> None:
        """It ends: what it has set stays, or goes; what it has set locally goes."""
        self._understood = None
        if self._before is not None:
            if undo:
                self._values = self._before
            for name in self._local:
                self._values.pop(name, None)
                if name in self._before:
                    self._values[name] = self._before[name]
        self._before, self._local = None, set()

    @property
    def terms(self) -> Terms:
        """What the settings say about a question."""
        return self._read()[0]

    @property
    def statement_seconds(self) -> float | None:
        """What `statement_timeout` allows; None is no limit."""
        return self._read()[1]

    @property
    def told(self) -> tuple[bool, bool]:
        """Whether the client wants notices, and warnings."""
        return self._read()[2]

    def _read(self) -> tuple[Terms, float | None, tuple[bool, bool]]:
        if self._understood is None:
            terms = Terms(
                self.show("reticent.errors") == "on",
                _error(self.show("reticent.error")),
                _confidence(self.show("reticent.confidence")),
                _price(self.show("reticent.max_price")),
            )
            told = self.tells("NOTICE"), self.tells("WARNING")
            self._understood = terms, _seconds(self.show("statement_timeout")) or None, told
        return self._understood

    def tells(self, severity: str) -> bool:
        """Whether the client wants notices of this severity."""
        order = ("debug", "log", "notice", "warning", "error")
        least = self.show("client_min_messages").rstrip("12345")
        return order.index(severity.lower()) >= (order.index(least) if least in order else 2)


def _checked(name: str, value: str) -> str:
    if len(value) > LONGEST or not value.isprintable():
        raise Refusal(BAD_VALUE, f'invalid value for parameter "{name}": at most {LONGEST} printable characters')
    check = _CHECKS.get(name)
    return value if check is None else check(value)


def _refused(name: str, value: str, wanted: str) -> Refusal:
    shown = value if len(value) <= 60 else value[:57] + "..."
    return Refusal(BAD_VALUE, f'invalid value for parameter "{name}": "{shown}"; give {wanted}')


def _encoding(value: str) -> str:
    if value.lower().replace("-", "").replace("_", "") not in ("utf8", "unicode", "sqlascii"):
        raise _refused("client_encoding", value, "UTF8")
    return "UTF8"


def _switch(value: str) -> str:
    word = value.strip().lower()
    if word in ("on", "true", "yes", "1"):
        return "on"
    if word in ("off", "false", "no", "0"):
        return "off"
    raise _refused("reticent.errors", value, "on or off")


_NONE = ("", "off", "none")


def _error(value: str) -> float | str | None:
    """`80 records`, `1%`, or a bare number in the unit of the answer; `off` buys nothing."""
    word = value.strip().lower()
    if word in _NONE:
        return None
    if word.endswith("%"):
        checked_error(word)
        return word
    number = word.removesuffix("records").removesuffix("record").strip()
    return _positive(number)


def _positive(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(text)
    return number


def _confidence(value: str) -> float | None:
    return None if value.strip().lower() in (*_NONE, "default") else check_confidence(float(value))


def _price(value: str) -> float | None:
    if value.strip().lower() in _NONE:
        return None
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(value)
    return number


_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(value: str) -> float:
    """A time of PostgreSQL: a number of milliseconds, or one with its unit."""
    text = value.strip().lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    scale = _UNITS[text[len(number) :].strip() or "ms"]
    seconds = float(number) * scale
    if not 0 <= seconds <= 2**31:
        raise ValueError(value)
    return seconds


def _tried(name: str, parse: Callable[[str], object], wanted: str) -> Callable[[str], str]:
    """The value itself, once it was understood."""

    def check(value: str) -> str:
        try:
            parse(value)
        except (ValueError, KeyError, ReticentError):
            raise _refused(name, value, wanted) from None
        return value.strip()

    return check


_OWN = {"reticent.errors": "on", "reticent.error": "off", "reticent.confidence": "default", "reticent.max_price": "off"}
_CHECKS: dict[str, Callable[[str], str]] = {
    "client_encoding": _encoding,
    "reticent.errors": _switch,
    "reticent.error": _tried("reticent.error", _error, "'80 records', '1%', a number above 0, or off"),
    "reticent.confidence": _tried("reticent.confidence", _confidence, "a number between 0 and 1, or default"),
    "reticent.max_price": _tried("reticent.max_price", _price, "a number in the budget's unit, or off"),
    "statement_timeout": _tried("statement_timeout", _seconds, "milliseconds, or a time such as '5s'"),
}
