"""Long suites in pieces: each is written down when it ends, so that a suite that was stopped goes on where it was.

Pieces belong to one commit. They are removed when the suite has come to its end.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results" / "pieces"


class Pieces:
    """What a suite has measured so far, by name."""

    def __init__(self, suite: str, quick: bool) -> None:
        self._file = FOLDER / f"{suite}-{_commit()[:12]}.jsonl"
        self._quick = quick
        self._found: dict[str, Any] = {}
        if not quick and self._file.exists():
            self._found = dict(json.loads(line) for line in self._file.read_text().splitlines())

    def of(self, name: str, measure: Callable[[], Any]) -> Any:
        """The piece of this name: as it was measured before, or measured now."""
        if name not in self._found:
            # As a record has it, whether the suite was stopped or not.
            self._found[name] = json.loads(json.dumps(measure(), default=str))
            if not self._quick:
                FOLDER.mkdir(parents=True, exist_ok=True)
                with self._file.open("a") as file:
                    file.write(json.dumps([name, self._found[name]]) + "\n")
        return self._found[name]

    def end(self) -> None:
        """The suite is done: the next one measures everything again."""
        self._file.unlink(missing_ok=True)


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"
