"""Index of purchases: the events of a ledger that hold what was bought and asked, in segments that are merged.

A segment covers the events between two notes in the ledger. A new segment absorbs preceding ones that are less than
twice as large, like the digits of a counter: a purchase is written a logarithmic number of times, and no opening reads
again what a segment covers. The index is public and can be rebuilt from the events.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, fields

from reticent.hypotheses.snapshot import Snapshot
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.measured import Index, MeasuredGroups, MeasuredQuery

GROWTH = 2
"""A segment is merged with a new one if it is at most this many times as large."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Counts by their compiled forms, groups by their questions and cells, requested errors by question."""

    counts: Index
    questions: Index
    cells: Index
    targets: Index

    @classmethod
    def fresh(cls, knowledge: Knowledge, targets: list[tuple[int, str]]) -> Segment:
        """A segment of purchases that no other segment covers; `targets` are notes of requested errors, by the
        question's digest.
        """
        counts = [(measured.ledger_id, digest) for digest, measured in knowledge.queries.recent()]
        tables = (knowledge.groups.questions, knowledge.groups.cells)
        questions, cells = ([(m.ledger_id or 0, digest) for digest, m in table.recent()] for table in tables)
        return cls(Index.of(counts), Index.of(questions), Index.of(cells), Index.of(targets))

    @classmethod
    def of_former(cls, data: bytes) -> Segment:
        """The segment of an index of earlier versions, with counts only; ValueError or TypeError for invalid data."""
        try:
            counts = Index.from_list(json.loads(zlib.decompress(data)))
        except zlib.error as error:
            raise ValueError("not an index") from error
        return cls(counts, Index.of([]), Index.of([]), Index.of([]))

    def __len__(self) -> int:
        return sum(len(getattr(self, field.name)) for field in fields(self))

    def joined(self, other: Segment) -> Segment:
        parts = {field.name: getattr(self, field.name).joined(getattr(other, field.name)) for field in fields(self)}
        return Segment(**parts)

    def to_bytes(self) -> bytes:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return zlib.compress(json.dumps({name: part.to_list() for name, part in parts.items()}).encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Segment:
        """The inverse of `to_bytes`; ValueError, KeyError or TypeError for invalid data."""
        try:
            told = json.loads(zlib.decompress(data))
        except zlib.error as error:
            raise ValueError("not a segment") from error
        return cls(**{field.name: Index.from_list(told[field.name]) for field in fields(cls)})


@dataclass(frozen=True, eq=False)
class Learned:
    """The purchases up to an event, by position, which a session need not read again.

    `snapshot` is the working hypothesis at that event, which had not been fitted to the last `unfitted` purchases.
    """

    segments: dict[str, Segment]
    """By the hashes of their bytes, oldest first."""
    shapes: dict[tuple[str, ...], tuple[tuple[str, ...], ...]]
    """Names of measured groups, by their attributes."""
    others: tuple[int, ...]
    """Settlements of marginals, which are learned at every opening."""
    groups: int
    snapshot: Snapshot
    unfitted: int
    sequence: int
    targets: int
    """The event up to which requested errors are covered; 0 for an index of earlier versions, which lists only
    counts."""

    @property
    def covered(self) -> tuple[type, ...]:
        """Purchases that are read from the ledger on demand, also if a marginal was bought with them."""
        return (MeasuredQuery, MeasuredGroups) if self.targets else (MeasuredQuery,)


def joined_segments(segments: dict[str, Segment], fresh: Segment, *, whole: bool) -> tuple[dict[str, Segment], Segment]:
    """The remaining segments, and the new one merged with those it absorbs: smaller ones, or all (`whole`)."""
    kept = list(segments.items())
    while kept and (whole or len(kept[-1][1]) <= GROWTH * len(fresh)):
        fresh = kept.pop()[1].joined(fresh)
    return dict(kept), fresh
