"""Logs are one JSON object a line: who asked what kind of thing and how it ended; no token, question, answer or row."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """Writes lines at or above a level."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self._least = LEVELS[level]
        self._stream = stream or sys.stderr
        self.requests = self._least <= LEVELS["info"]
        """Whether every request has its line."""

    def info(self, event: str, **facts: Any) -> None:
        if self.requests:
            self._write("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        if self._least <= LEVELS["warning"]:
            self._write("warning", event, facts)

    def failure(self, event: str, error: BaseException, **facts: Any) -> None:
        """What broke and where; the message stays out, since nobody can vouch for foreign ones."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
        self._write("error", event, {"error": type(error).__name__, "place": place, **facts})

    def _write(self, level: str, event: str, facts: dict[str, Any]) -> None:
        line = {"at": round(time.time(), 3), "level": level, "event": event, **facts}
        try:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads the log; answering goes on


class Forward(logging.Handler):
    """Takes what uvicorn says into the same log: its messages with numbers filled in, and no other argument."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._log.failure("server", record.exc_info[1])
        elif record.levelno >= logging.WARNING:
            self._log.warning("server", message=_message(record))
        else:
            self._log.info("server", message=_message(record))


def _message(record: logging.LogRecord) -> str:
    """Numbers are process ids and signals; texts may be what a client sent."""
    given = record.args if isinstance(record.args, tuple) else ()
    if given and all(isinstance(value, int) for value in given):
        return record.getMessage()
    return " ".join(str(record.msg).split())


def take_over(log: Log) -> None:
    """Route the web server's own loggers through ours."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [Forward(log)] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
