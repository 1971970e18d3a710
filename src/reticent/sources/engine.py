"""An engine is where rows live: it knows its columns and runs grouping statements; rows never leave it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from reticent.sources.dialects import Dialect

Kind = Literal["integer", "decimal", "float", "boolean", "text", "date", "timestamp", "instant", "codes", "other"]


@dataclass(frozen=True)
class ColumnType:
    """What the rule for codes must know of an engine's type.

    `wide` numbers have more digits than a double, so they are rounded through text, which every engine does right.
    An `instant` is a timestamp with a time zone; `codes` were encoded in Python because the engine has no such type.
    """

    kind: Kind
    wide: bool = False


class Engine(Protocol):
    """A relation in an engine; statements return integer columns only."""

    dialect: Dialect
    relation: str
    label: str
    filtered: bool
    """Whether the relation may leave rows out, so that its size is no public fact (spec 1.2)."""
    near: bool
    """Whether it runs in this process, where encoded rows may be streamed without leaving the machine."""

    def columns(self) -> Mapping[str, ColumnType]: ...

    def fetch(self, statement: str, width: int) -> Generator[np.ndarray]:
        """Blocks of int64 of shape (width, rows), in any order; closed early, it leaves the engine usable."""
        ...

    def scanned(self) -> float | None:
        """How much of the running statement's input has been read, in [0, 1]; None where the engine does not say."""
        ...

    def interrupt(self) -> None:
        """Cancel the running statement, from any thread; `fetch` then raises. Nothing runs: nothing happens."""
        ...

    def close(self) -> None: ...
