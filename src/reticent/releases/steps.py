"""The steps of an offline run share its allowance; a step that two crashes lost is taken anew under another key."""

from __future__ import annotations

from reticent.kernel.curator import Curator


class Steps:
    """What a run may still spend, step by step, under keys of their own.

    What a step lost stays charged. Those that follow then take proportionally less than was planned, so that the run
    never spends more than its allowance; without a loss every step is as planned, to the unit.
    """

    def __init__(self, curator: Curator, allowance: int, key: str) -> None:
        self._curator = curator
        self._key = key
        self._planned = allowance
        self.left = allowance

    @property
    def whole(self) -> bool:
        """Whether nothing was lost so far."""
        return self.left == self._planned

    def begin(self, name: str) -> str:
        """The key of the next step: that of its first attempt which is not forfeited."""
        key, lost = self._curator.successor(f"{self._key}:{name}")
        self.left -= lost
        return key

    def share(self, units: int) -> int:
        """Of planned units, those that are left."""
        return units if self.whole else units * max(0, self.left) // max(1, self._planned)

    def pays(self, cost: int) -> bool:
        """Whether losses left enough of the allowance for a step that cannot be had for less."""
        return self.whole or 0 < cost <= self.left

    def paid(self, cost: int, planned: int | None = None) -> None:
        """A step was settled at this cost; `planned` is what it had without any loss."""
        whole = self.whole
        self.left -= cost
        self._planned = self.left if whole else self._planned - (cost if planned is None else planned)
