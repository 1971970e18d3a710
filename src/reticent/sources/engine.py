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
    """What the rule for codes must know of an engine's type.

    `wide` numbers have more digits than a double, so they are rounded through text, which every engine does right.
    An `instant` is a timestamp with a time zone; `codes` were judged in Python because the cells have no common type,
    and `stored` names the three columns that hold codes, statuses and positions; `read` says that a column of cells
    without a common type holds their readings already.
    """

    kind: Kind
    wide: bool = False
    stored: tuple[str, str, str] | None = None
    read: bool = False


class Engine(Protocol):
    """A relation in an engine, which returns integers.

    But for `texts`, which only `reticent.custodian.check` calls, and `tally`, which only `sources.undeclared` does.
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
        """Blocks of int64 of shape (width, rows), in any order; closed early, it leaves the engine usable."""
        ...

    def texts(self, statement: str) -> list[str]:
        """The one text column of a short statement, for the custodian's eyes only: it holds values of rows."""
        ...

    def tally(self, statement: str) -> tuple[list, np.ndarray]:
        """The two columns of a statement, values and whole numbers: for private discovery, whose kernel keeps them."""
        ...

    def scanned(self) -> float | None:
        """How much of the running statement's input has been read, in [0, 1]; None where the engine does not say."""
        ...

    def interrupt(self) -> None:
        """Cancel the running statement, from any thread; `fetch` then raises. Nothing runs: nothing happens."""
        ...

    def close(self) -> None: ...
