"""Runs the command line in a pseudo-terminal of a given width, in a fresh process."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

PATIENCE = 60.0
CONTROL = re.compile(r"\x1b\][^\x07]*\x07|\x1b[\[(][0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """`type` sends keys, `until` waits for a text, `finish` waits for the end."""

    def __init__(self, words: Sequence[str], folder: Path, *, width: int = 80, **environment: str) -> None:
        self.raw = ""
        self._place = 0
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        keep = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from reticent.cli import main; main()", *words],
            cwd=folder,
            env=keep | {"TERM": "xterm-256color", "XDG_STATE_HOME": str(folder)} | environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._terminal = ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves no process behind when an assertion fails."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._terminal)

    @property
    def text(self) -> str:
        """What was shown, without colours and cursor moves."""
        return CONTROL.sub("", self.raw)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def until(self, text: str) -> None:
        """Waits for a text that has not been waited for yet."""
        end = time.monotonic() + PATIENCE
        while (found := self.text.find(text, self._place)) < 0:
            assert time.monotonic() < end, f"no {text!r} in {self.text[self._place :]!r}"
            if not self._read():
                break
        found = self.text.find(text, self._place)
        assert found >= 0, f"no {text!r} in {self.text[self._place :]!r}"
        self._place = found + len(text)

    def finish(self) -> int:
        end = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < end, self.text
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        """False when the other side is gone."""
        ready, _, _ = select.select([self._terminal], [], [], 0.1)
        if not ready:
            return True
        try:
            piece = os.read(self._terminal, 65536)
        except OSError:
            return False
        self.raw += piece.decode(errors="replace")
        if "\x1b[6n" in piece.decode(errors="replace"):
            os.write(self._terminal, b"\x1b[1;1R")  # a line editor asks where the cursor is
        return bool(piece)
