"""What is published of a hypothesis, as free answers see it: one snapshot and its certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent.knowledge.answer import Answer
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.free import free_answer
from reticent.knowledge.knowledge import Certified, Knowledge
from reticent.knowledge.request import USUAL_CONFIDENCE, Request
from reticent.queries.base import Query


@dataclass(frozen=True)
class Published:
    """Answers from one snapshot at the confidence of its certificates."""

    knowledge: Knowledge

    @classmethod
    def of(cls, snapshot: Any, records: float, certificates: tuple[Certificate, ...] = ()) -> Published:
        certified = (Certified(snapshot, certificates),) if certificates else ()
        return cls(Knowledge(snapshot, records, max((c.records_error for c in certificates), default=0.0), certified))

    @property
    def records(self) -> float:
        return self.knowledge.records

    @property
    def records_error(self) -> float:
        return self.knowledge.records_error

    def answer(self, query: Query) -> Answer:
        confidence = max((c.confidence for c in self.knowledge.certificates), default=USUAL_CONFIDENCE)
        found = free_answer(self.knowledge, Request(query, confidence=confidence))
        assert found is not None
        return found
