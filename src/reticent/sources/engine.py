"""`Engine`: the place that holds the rows; it runs grouping statements and returns only counts."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from reticent.sources.dialects import Dialect

Kind = Literal["integer", "decimal", "float", "boolean", "text", "date", "timestamp", "instant", "codes", "other"]


@dataclass(frozen=True)
class ColumnType:
    """The properties of an engine's type on which the encoding depends.

    `wide` numbers have more digits than a double, so they are rounded through text, which every engine does correctly.
    An `instant` is a timestamp with a time zone. `codes` were computed in Python because the cells have no common type,
    and `stored` names the three columns that hold codes, statuses and positions. `read` states that a column of cells
    without a common type already holds their readings; `named` is the column with the text of each such identifier of
    a person.
    """

    kind: Kind
    wide: bool = False
    stored: tuple[str, str, str] | None = None
    read: bool = False
    named: str | None = None


class Engine(Protocol):
    """A relation in an engine, which returns integers.

    Exceptions are `texts`, which only `reticent.custodian.check` calls, and `tally`, which only `sources.undeclared`
    calls.
    """

    dialect: Dialect
    relation: str
    label: str
    filtered: bool
    """Whether the relation may leave rows out, so that its size is no public fact (spec 1.2)."""
    near: bool
    """Whether it runs in this process, where encoded rows may be streamed without leaving the machine."""

    def columns(self) -> Mapping[str, ColumnType]: ...

    def fetch(self, statement: str, width: int) -> Generator[np.ndarray]:
        """Blocks of int64 of shape (width, rows), in any order; if closed early, the engine remains usable."""
        ...

    def texts(self, statement: str) -> list[str]:
        """The single text column of a short statement, for the custodian only: it holds values of rows."""
        ...

    def tally(self, statement: str) -> tuple[list, np.ndarray]:
        """The two columns of a statement, values and whole numbers, for private discovery in the kernel."""
        ...

    def scanned(self) -> float | None:
        """The share of the running statement's input that has been read, in [0, 1]; None if the engine does not report
        it.
        """
        ...

    def interrupt(self) -> None:
        """Cancel the running statement from any thread; `fetch` then raises an error. No effect if nothing runs."""
        ...

    def close(self) -> None: ...
