"""A start that measures where in their bins the numbers of a table lie (spec answers 5.2)."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from reticent.domain.numeric import has_positions
from reticent.errors import BudgetError
from reticent.kernel.curator import Curator, Settled, released
from reticent.kernel.mechanisms.base import restore
from reticent.kernel.numeric_sums import BinOffsets, of_offsets
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.offsets import BinMeans
from reticent.releases.budgeting import noise_costing
from reticent.sessions.journal import Journal

OFFSETS = "session:offsets"
"""Key of what a start measures of them."""


def placed_columns(curator: Curator) -> list[str]:
    """Columns whose bins hide numbers that the table was read with."""
    return [name for name, one in curator.domain.items() if has_positions(one) and curator.has_numbers(name)]


def buy_offsets(curator: Curator, journal: Journal, knowledge: Knowledge, units: int) -> Knowledge:
    """Measure the offsets of all such columns, alike, for so many units of the ledger; once."""
    names, knowledge = placed_columns(curator), with_offsets(journal, knowledge)
    if knowledge.bin_means or not names or units < len(names):
        return knowledge
    moved = curator.moved(of_offsets(curator.neighbours))
    noise = noise_costing(curator.budget, moved, units // len(names))
    asked = [BinOffsets(name, curator.domain) for name in names]
    with suppress(BudgetError):  # hardly anything is left, as after a release on the same ledger
        curator.measure(asked, [noise] * len(names), key=journal.usable(f"{OFFSETS}:{units}"))
    return with_offsets(journal, knowledge)


def with_offsets(journal: Journal, knowledge: Knowledge) -> Knowledge:
    """With the offsets that a start has measured, read from the ledger alone."""
    found: dict[str, BinMeans] = {}
    for reservation in journal.ledger.settlements("measure", OFFSETS):
        request = journal.ledger.event(reservation.sequence).payload["request"]
        names = [described["bin offsets"] for described in request["statistics"]]
        statistics = [BinOffsets(name, knowledge.domain) for name in names]
        assert reservation.settled is not None, "listed because it is"
        settled: Settled = released(journal.ledger.event(reservation.settled), statistics, journal.grid)
        for name, values, described in zip(names, settled.values, request["mechanisms"], strict=True):
            found[name] = BinMeans(np.asarray(values, dtype=np.float64), restore(described).sd)  # pyright: ignore[reportAttributeAccessIssue]
    return knowledge.with_bin_means(found) if found else knowledge
