"""The work of a statement, weighed before it is done, from its text and the domain alone: never from the clock.

A step is about a microsecond of one processor. Compiling charges each piece of work before it begins, so a text that
would take too long is refused after at most the allowed steps, however it hides its work: in repeated aliases, in
lists, in tensors of an OR, in groups.
"""

from __future__ import annotations

from reticent.queries.box import CompileEffort
from reticent.sql.refusals import refused

MAX_STEPS = 2_000_000
"""For one statement, from its tree to its compiled form, and again for one evaluation of its result."""
CELLS_A_STEP = 500
"""Cells of an array that numpy reads or writes in one step."""


class Meter(CompileEffort):
    """Steps left to one statement; tensors of its predicates are charged to the same account."""

    __slots__ = ()

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    def charge(self, steps: int) -> None:
        """Refuse before the work begins."""
        self.left -= steps
        if self.left < 0:
            raise refused(f"the statement takes more than {MAX_STEPS} steps of work", "ask its parts one by one")

    def spend(self, cells: int) -> None:
        self.charge(cells // CELLS_A_STEP)
