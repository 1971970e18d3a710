"""How conditions in a domain are read: in SQL's grammar, which is a layer far below the domain's.

The package registers the reader when it is loaded, so that neither layer imports the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Reader", "reader", "register"]

Reader = Callable[[Any, Any], tuple[str, Any]]
"""(condition, domain) -> the condition as text, and its compiled form."""

_registered: list[Callable[[], Reader]] = []


def register(load: Callable[[], Reader]) -> None:
    """`load` fetches the reader on first use."""
    _registered[:] = [load]


def reader() -> Reader:
    return _registered[0]()
