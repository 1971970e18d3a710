"""Progress of a read: its stage, elapsed seconds and the share of the input scanned; nothing about values.

The engine works in a helper thread, so that the caller's own thread stays free to report and to be interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reticent.progress.bars import bar
from reticent.sources.engine import Engine

_TICK_SECONDS = 0.2

Stage = Literal["opening", "grouping", "receiving", "ready"]


@dataclass(frozen=True)
class ReadProgress:
    """The stages of a read: `opening` a connection, `grouping` in the engine, `receiving` distinct records, `ready`."""

    stage: Stage
    seconds: float
    fraction: float | None = None
    """How much of its input the engine has scanned; None where it does not say."""


ReadListener = Callable[[ReadProgress], None]


@contextmanager
def read_listener(progress: ReadListener | bool | None) -> Iterator[ReadListener | None]:
    """The caller's own listener, a bar on terminals and in notebooks (True), or none."""
    if progress is not None and not isinstance(progress, bool):
        yield progress
        return
    with bar(bool(progress)) as update:
        if update is None:
            yield None
        else:
            yield lambda told: update(
                f"reading: {told.stage}", round(1000 * (told.fraction or 0)), 1000 if told.fraction else 0, ""
            )


class Stopwatch:
    """Reports the stage and the seconds since the read began to a listener, if there is one."""

    def __init__(self, listener: ReadListener | None) -> None:
        self._listener = listener
        self._start = time.monotonic()

    def tell(self, stage: Stage, fraction: float | None = None) -> None:
        if self._listener is not None:
            self._listener(ReadProgress(stage, time.monotonic() - self._start, fraction))


def watched(engine: Engine, statement: str, width: int, stopwatch: Stopwatch | None = None) -> Generator[np.ndarray]:
    """The blocks of a statement; Ctrl-C, or a listener that raises an error, cancels it in the engine."""
    stopwatch = stopwatch or Stopwatch(None)
    blocks = engine.fetch(statement, width)
    with ThreadPoolExecutor(1, thread_name_prefix="reticent-read") as helper:
        try:
            stopwatch.tell("grouping")
            stage: Stage = "grouping"
            while (block := _next(helper, blocks, engine, stopwatch, stage)) is not None:
                if stage == "grouping":
                    stage = "receiving"
                    stopwatch.tell(stage)
                yield block
        finally:
            # Closed where it ran: some engines bind a statement to its thread.
            helper.submit(blocks.close).result()


def _next(
    helper: ThreadPoolExecutor, blocks: Iterator[np.ndarray], engine: Engine, stopwatch: Stopwatch, stage: Stage
) -> np.ndarray | None:
    pending: Future[np.ndarray | None] = helper.submit(next, blocks, None)
    try:
        while wait([pending], _TICK_SECONDS).not_done:
            stopwatch.tell(stage, engine.scanned() if stage == "grouping" else None)
    except BaseException:
        # Again and again: a statement that was only about to start would miss a single call.
        while not pending.done():
            engine.interrupt()
            wait([pending], _TICK_SECONDS)
        raise
    return pending.result()
