"""Metrics count requests and answers, without data; times and memory are shown to the custodian only.

Every process adds to its own row of one small file, so that readers and writer report together.

Logs have one JSON object per line: user, kind of request and outcome; no token, question, answer or row.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import sys
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from reticent.knowledge.answer import ORIGINS

ROUTES = (
    "page", "health", "metrics", "openapi", "me", "tables", "table", "ask", "cost", "minimize", "certificates",
    "history", "answer", "budget", "releases", "publish", "download", "caps", "spending", "verify", "tokens",
    "token", "postgres", "forwarded", "refused",
)  # fmt: skip
CLASSES = ("2xx", "3xx", "4xx", "5xx")
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
KINDS = ("free", "paid")

_REQUESTS = [("requests", route, status) for route in ROUTES for status in CLASSES]
_ANSWERS = [("answers", origin) for origin in dict.fromkeys((*ORIGINS, "public", "mixed"))]
_TIMES = [("time", kind, str(place)) for kind in KINDS for place in range(len(BOUNDS) + 1)]
_SUMS = [("seconds", kind) for kind in KINDS]
_HELD = ("connections",)
_PLACES = {name: place for place, name in enumerate([*_REQUESTS, *_ANSWERS, *_TIMES, *_SUMS, _HELD])}
_ANSWERED = {name[1]: _PLACES[name] for name in _ANSWERS}
_TIMED = [[_PLACES["time", kind, str(place)] for place in range(len(BOUNDS) + 1)] for kind in KINDS]
_SPENT = [_PLACES["seconds", kind] for kind in KINDS]


@dataclass(frozen=True)
class Gauge:
    """The budget of one table, in its unit."""

    table: str
    unit: str
    spent: float
    limit: float


class Metrics:
    """Counters of one process; `rows` processes share a file."""

    def __init__(self, path: Path | None = None, row: int = 0, rows: int = 1) -> None:
        size = rows * len(_PLACES) * 8
        if path is None:
            buffer: bytearray | mmap.mmap = bytearray(size)
        else:
            with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                file.truncate(size)
                buffer = mmap.mmap(file.fileno(), size)
        self._all = np.frombuffer(buffer, dtype=np.float64).reshape(rows, len(_PLACES))
        # Of the same memory: an array would make an object of every number that is added to.
        self._own = memoryview(buffer).cast("d")[row * len(_PLACES) : (row + 1) * len(_PLACES)]

    def request(self, route: str, status: int) -> None:
        status_class = f"{status // 100}xx"
        place = _PLACES.get(("requests", route, status_class))
        self._own[_PLACES["requests", "refused", status_class] if place is None else place] += 1

    def answered(self, origin: str, paid: bool, seconds: float) -> None:
        own = self._own
        own[_ANSWERED.get(origin, _ANSWERED["mixed"])] += 1
        own[_TIMED[paid][bisect_left(BOUNDS, seconds)]] += 1
        own[_SPENT[paid]] += seconds

    def holds(self, connections: int) -> None:
        """Set the number of connections that this process serves now."""
        self._own[_PLACES[_HELD]] = connections

    def fewest_held(self) -> int:
        """The smallest number of connections of all readers; the last row is the writer's, to which only readers
        connect.
        """
        return int(self._all[:-1, _PLACES[_HELD]].min())

    def text(self, budgets: Sequence[Gauge], *, private: bool) -> str:
        """Prometheus' text format; `private` adds times and memory."""
        totals = self._all.sum(axis=0)
        lines = [
            "# HELP reticent_requests_total Requests by route and class of status.",
            "# TYPE reticent_requests_total counter",
        ]
        for name in _REQUESTS:
            if value := totals[_PLACES[name]]:
                lines.append(f'reticent_requests_total{{route="{name[1]}",status="{name[2]}"}} {value:.0f}')
        lines += ["# HELP reticent_answers_total Answers by origin.", "# TYPE reticent_answers_total counter"]
        for name in _ANSWERS:
            lines.append(f'reticent_answers_total{{origin="{name[1]}"}} {totals[_PLACES[name]]:.0f}')
        for metric, told in (("spent", "Budget spent"), ("limit", "The whole budget")):
            lines += [
                f"# HELP reticent_budget_{metric} {told}, by table and unit.",
                f"# TYPE reticent_budget_{metric} gauge",
            ]
            for gauge in budgets:
                labels = f'table="{gauge.table}",unit="{gauge.unit}"'
                lines.append(f"reticent_budget_{metric}{{{labels}}} {getattr(gauge, metric):.9g}")
        if private:
            lines += self._times(totals) + _memory()
        return "\n".join(lines) + "\n"

    def _times(self, totals: np.ndarray) -> list[str]:
        metric = "reticent_answer_seconds"
        lines = [f"# HELP {metric} Time to answer, for the custodian only.", f"# TYPE {metric} histogram"]
        for kind in KINDS:
            running = 0.0
            for place, bound in enumerate([*map(str, BOUNDS), "+Inf"]):
                running += totals[_PLACES["time", kind, str(place)]]
                lines.append(f'{metric}_bucket{{kind="{kind}",le="{bound}"}} {running:.0f}')
            lines.append(f'{metric}_sum{{kind="{kind}"}} {totals[_PLACES["seconds", kind]]:.6f}')
            lines.append(f'{metric}_count{{kind="{kind}"}} {running:.0f}')
        return lines


def _memory() -> list[str]:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return []
    size = pages * os.sysconf("SC_PAGE_SIZE")
    told = "# HELP process_resident_memory_bytes Memory of the writer's process."
    return [told, "# TYPE process_resident_memory_bytes gauge", f"process_resident_memory_bytes {size}"]


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
        """Log the type and place of a failure, without its message, which may contain foreign text."""
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
            pass  # the log cannot be written; answering continues


class Forward(logging.Handler):
    """Routes uvicorn's log records into this log: its messages with numbers filled in, and no other arguments."""

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
    """The message with its numbers; texts may come from a client and are left out."""
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
