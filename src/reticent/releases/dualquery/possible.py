"""Records that a domain declares impossible, mended: the data player's rule is public, and so is this one.

The player looks for the best record of all. Where that one is impossible, codes of the attributes in violated rules are
changed one at a time, each to what leaves the fewest violations and then wins the most; if that does not end, the reply
is the record that the player started from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.impossible import impossible_rows
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis

if TYPE_CHECKING:
    from reticent.domain import Domain

__all__ = ["RecordMender"]

SPARE = 64
"""Possible records drawn at once, to start from where a start is impossible."""


class RecordMender:
    """The rules of one domain, on records of codes."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._uniform = FactoredHypothesis(domain)
        self._places = [tuple(map(domain.index, rule.attributes)) for rule in domain.impossible]

    @classmethod
    def of(cls, domain: Domain) -> RecordMender | None:
        return cls(domain) if domain.impossible else None

    def nearest(self, start: np.ndarray, public: np.random.Generator) -> np.ndarray:
        """The start itself if it is possible, else the one of some possible records that shares most codes with it."""
        if not impossible_rows(self._domain, start[None, :])[0]:
            return start
        drawn = self._uniform.sample(SPARE, public)
        return drawn[int(np.argmax((drawn == start).sum(axis=1)))].astype(np.int64)

    def mended(self, record: np.ndarray, start: np.ndarray, won: Callable[[np.ndarray], float]) -> np.ndarray:
        """A possible record near `record`; `start` must be one."""
        mended = record
        # Every step leaves fewer violations, so there are no more steps than rules.
        while violated := self._violations(mended):
            best = (len(violated), 0.0)
            found: np.ndarray | None = None
            for place in dict.fromkeys(place for rule in violated for place in self._places[rule]):
                for code in range(self._domain.shape[place]):
                    changed = mended.copy()
                    changed[place] = code
                    offered = (len(self._violations(changed)), -float(won(changed)))
                    if offered[0] < len(violated) and offered < best:
                        best, found = offered, changed
            if found is None:
                return start
            mended = found
        return mended

    def _violations(self, record: np.ndarray) -> list[int]:
        rules = self._domain.impossible
        return [i for i, places in enumerate(self._places) if rules[i].cells[tuple(record[list(places)])]]
