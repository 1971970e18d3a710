"""Progress bars with the remaining time, on a terminal's standard error and in notebooks, without ipywidgets.

`RETICENT_PROGRESS=off` turns them off, as `progress=False` does for one call. Where output is a file or a pipe there is
never a bar.

A listener receives public quantities only, while a release, a session's opening or a discovery runs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from threading import Lock, Timer
from typing import Any, Protocol

from reticent.errors import QueryError

DELAY_SECONDS = 0.5
"""Shorter calls show nothing."""
UPDATE_SECONDS = 0.2
OFF = frozenset({"0", "off", "no", "false"})

Update = Callable[[str, int, int, str], None]
"""The current step, the amount done, the total (0 if unknown), and a remark."""


class _Bar(Protocol):
    def update(self, message: str, done: int, total: int, note: str) -> None: ...

    def close(self) -> None: ...


class _Shown:
    """At most one bar at a time: a call within a call is silent."""

    lock = Lock()
    active = False


@contextmanager
def listening(progress: Report | bool) -> Iterator[Report]:
    """The listener of one call: the caller's own, or a bar (True), or none (False)."""
    if not isinstance(progress, bool):
        if not callable(progress):
            raise QueryError("progress must be True, False, or a function that is called with each step")
        yield progress
        return
    with bar(progress) as update:
        if update is None:
            yield silent
        else:
            yield lambda step: update(step.message, step.step, step.steps, f"{step.spent:.0%} spent")


@contextmanager
def bar(wanted: bool = True) -> Iterator[Update | None]:
    """A progress bar on a terminal or in a notebook; it disappears when the work is done."""
    with _Shown.lock:
        made = None if not wanted or _Shown.active else _made()
        _Shown.active = _Shown.active or made is not None
    if made is None:
        yield None
        return
    try:
        yield made.update
    finally:
        made.close()
        with _Shown.lock:
            _Shown.active = False


def _made() -> _Bar | None:
    if os.environ.get("RETICENT_PROGRESS", "").strip().lower() in OFF:
        return None
    if _in_notebook():
        return _NotebookBar()
    return _TerminalBar() if sys.stderr is not None and sys.stderr.isatty() else None


def _in_notebook() -> bool:
    """Within a Jupyter kernel; IPython is never imported for it."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class _TerminalBar:
    """A line of standard error, drawn by rich once the call has lasted a while."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Lines
        from rich.table import Column

        columns = (
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
            ),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        )
        self._lines = Lines(*columns, console=Console(stderr=True), transient=True, expand=True)
        self._task = self._lines.add_task("starting", total=None, note="")
        self._lock = Lock()
        self._closed = False
        self._timer = Timer(DELAY_SECONDS, self._start)
        self._timer.daemon = True
        self._timer.start()

    def _start(self) -> None:
        with self._lock:
            if not self._closed:
                self._lines.start()

    def update(self, message: str, done: int, total: int, note: str) -> None:
        self._lines.update(self._task, description=message, completed=done, total=total or None, note=note)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
        self._lines.stop()


class _NotebookBar:
    """One output of a cell, replaced as the work goes on and emptied at its end."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()
        self._handle: Any = None

    def update(self, message: str, done: int, total: int, note: str) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        now = time.monotonic()
        if now - self._began < DELAY_SECONDS or (self._handle is not None and now - self._told < UPDATE_SECONDS):
            return
        self._told = now
        drawn = HTML(notebook_line(message, done, total, note, now - self._began))
        if self._handle is None:
            self._handle = display(drawn, display_id=True)
        else:
            self._handle.update(drawn)

    def close(self) -> None:
        if self._handle is not None:
            from IPython.display import HTML  # pyright: ignore[reportMissingImports]

            self._handle.update(HTML(""))


def notebook_line(message: str, done: int, total: int, note: str, seconds: float) -> str:
    """A bar in HTML, with the time left where some of the work is done."""
    known = f' value="{done}" max="{total}"' if total else ""
    left = f", about {clock(seconds * (total - done) / done)} left" if done and total else ""
    remark = f"{escape(note)}, " if note else ""
    times = f"<small>{remark}{clock(seconds)} so far{left}</small>"
    return f"<div><progress{known}></progress> {escape(message)} {times}</div>"


def clock(seconds: float) -> str:
    """Minutes and seconds, as on a watch."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


@dataclass(frozen=True)
class Progress:
    """One line of a progress bar; public quantities only."""

    step: int
    steps: int
    message: str
    spent: float
    """Share of this run's allowance that is spent."""


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """The listener that shows nothing."""
