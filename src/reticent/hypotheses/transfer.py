"""Learning that a junction tree has no room for goes on on records drawn from it (spec answers.md 9).

All of it is public post-processing with public seeds: replaying the same measurements gives the same hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from reticent.errors import CapacityError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import SUPPORT_RECORDS
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import SupportHypothesis

if TYPE_CHECKING:
    from reticent.hypotheses.junction_tree.factored import FactoredHypothesis

__all__ = ["LearnedHypothesis", "drawn_support", "learned", "read_snapshot", "with_room"]

PUBLIC_SEED = 20261116
"""Draws the records; the same at every replay."""

T = TypeVar("T")


class LearnedHypothesis(NamedTuple):
    """A hypothesis after an update: whether it moved, and a note where it changed its kind or could not move."""

    hypothesis: Hypothesis
    moved: bool
    note: str = ""


def drawn_support(hypothesis: FactoredHypothesis, records: int = SUPPORT_RECORDS) -> SupportHypothesis:
    """Equally weighted records that stand for the hypothesis; a later fit tilts these, not the uniform distribution."""
    return SupportHypothesis(hypothesis.domain, hypothesis.systematic(records, np.random.default_rng(PUBLIC_SEED)))


def with_room(
    hypothesis: Hypothesis, act: Callable[[Hypothesis], T], *, records: int = SUPPORT_RECORDS
) -> tuple[Hypothesis, T, str]:
    """What `act` returns on the hypothesis, or on a support drawn from it where its junction tree has no room."""
    try:
        return hypothesis, act(hypothesis), ""
    except CapacityError as full:
        from reticent.hypotheses.junction_tree.factored import FactoredHypothesis

        if not isinstance(hypothesis, FactoredHypothesis):
            raise
        reason = str(full).partition(":")[0]
    support = drawn_support(hypothesis, records)
    return support, act(support), f"{reason}: learning goes on on {records:,} records drawn from it"


def read_snapshot(snapshot: Snapshot, act: Callable[[Hypothesis | Snapshot], T]) -> T:
    """A guess that nothing certifies: read off records drawn from the snapshot where exact inference has no room."""
    try:
        return act(snapshot)
    except CapacityError:
        return with_room(snapshot.thaw(), act)[1]


def learned(
    hypothesis: Hypothesis, move: Callable[[Hypothesis], bool], *, records: int = SUPPORT_RECORDS
) -> LearnedHypothesis:
    """The hypothesis after `move`, which says whether it moved it; never an exception, for the answer is paid for.

    Whatever else goes wrong leaves the hypothesis as it was.
    """
    # A dense tensor allocates all it needs before it changes, and is too large to copy for every update.
    kept = hypothesis if isinstance(hypothesis, DenseHypothesis) else hypothesis.copy()
    try:
        return LearnedHypothesis(*with_room(hypothesis, move, records=records))
    except Exception as failure:
        return LearnedHypothesis(
            kept, False, f"an update was left out ({type(failure).__name__}): the hypothesis is as before"
        )
