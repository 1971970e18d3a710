"""The reader of conditions, with which a domain compiles its rules about impossible records.

Conditions follow SQL's grammar, and the SQL layer imports the domain's. The package therefore registers the reader
here when it is loaded, and the domain calls it without importing SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Reader", "reader", "register"]

Reader = Callable[[Any, Any], tuple[str, Any]]
"""(condition, domain) -> the condition as text, and its compiled form."""

_registered: list[Callable[[], Reader]] = []


def register(load: Callable[[], Reader]) -> None:
    """Use the reader that `load` returns; it is called when the first condition is read."""
    _registered[:] = [load]


def reader() -> Reader:
    """The registered reader."""
    return _registered[0]()
