"""Counts of units by text of an undeclared column; every unit counts for a bounded number of texts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reticent.domain.attribute import NULL_LABEL, OTHER_LABEL
from reticent.errors import QueryError, whole_number

LONGEST = 200
"""The longest text that can be released; longer ones are left out."""


class TextSource(Protocol):
    """The distinct texts of an undeclared column, with the number of units that have them."""

    def texts(self, name: str, most: int, key: str) -> tuple[list[str], np.ndarray]:
        """The texts with their units; of a unit with more than `most` texts, those with the smallest hash under `key`
        count.
        """
        ...


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Units by text; one unit counts for at most `most` texts (docs/proofs/values.md)."""

    name: str
    most: int = 1

    def __post_init__(self) -> None:
        whole_number(self.most, "most", 1, 2**20)

    def evaluate(self, source: TextSource) -> tuple[np.ndarray, np.ndarray]:
        # The choice of a unit's texts is random at each call; the key is never released.
        texts, counts = source.texts(self.name, self.most, secrets.token_hex(16))
        kept = [place for place, text in enumerate(texts) if can_be_shown(text)]
        if len({texts[place] for place in kept}) < len(kept):
            raise QueryError(f"{self.name}: its source counted one text twice; this is a fault of the source")
        return np.array([texts[place] for place in kept], dtype=object), counts[kept].astype(np.int64)

    def describe(self) -> dict[str, object]:
        return {"values of": self.name, "most": self.most}


def can_be_shown(text: str) -> bool:
    """Whether a domain can declare this text: a rule about each text alone."""
    lone = any("\ud800" <= character <= "\udfff" for character in text)
    return len(text) <= LONGEST and "\0" not in text and not lone and text not in (NULL_LABEL, OTHER_LABEL)
