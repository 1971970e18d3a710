"""The last values by key, within so many entries and so many bytes: what others may fill must have a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LARGEST_SHARE = 8
"""One value may take this part of the bytes; a larger one is not kept."""


class Kept(Generic[K, V]):
    """Least recently used first out; safe to use from several threads."""

    def __init__(self, entries: int, size: int) -> None:
        self.entries = entries
        self.size = size
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held(self) -> int:
        """Bytes kept now, as their owners state them."""
        return self._bytes

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        if size * LARGEST_SHARE > self.size:
            return
        with self._lock:
            old = self._held.pop(key, None)
            self._bytes += size - (0 if old is None else old[1])
            self._held[key] = (value, size)
            while len(self._held) > self.entries or self._bytes > self.size:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0
