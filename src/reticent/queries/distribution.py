"""Distributions of questions, which define typical errors: which conjunctions are asked, and how often (spec answers
2).

`mixed` draws a set of attributes; then, for an ordered attribute, a proper range of consecutive bins, and for any other
one value (half of the time) or any subset of values. `cells` draws a set of attributes, then one of its cells. Short
lists of questions are enumerated; long ones are drawn from 32 public random bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from reticent.domain import Attribute, Domain, Integer
from reticent.domain.attribute import shown
from reticent.errors import QueryError, whole_number

Kind = Literal["mixed", "cells"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MOST_QUESTIONS = 10_000_000
"""Longest list of questions; distributions over at most so many are enumerated (spec answers 2)."""
SEED_BYTES = 32
INDEXED_CODES = 24
"""Up to so many codes a subset is drawn by its number; beyond, bit by bit."""
BLOCK_CODES = 2**22
"""Truth values of subsets that are held at a time."""
WHOLE = 2**60
"""The weight of all enumerated questions together, before each is rounded down."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """For each question the codes `low` to `high - 1` of one attribute."""

    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.low)


@dataclass(frozen=True, eq=False)
class Subsets:
    """For each question (row), a mask over the codes of one attribute."""

    members: np.ndarray

    def __len__(self) -> int:
        return len(self.members)


Selection = Ranges | Subsets


@dataclass(frozen=True)
class Distribution:
    """Sets of attributes, drawn by `weights` (uniformly without weights), and within a set questions of a `kind`."""

    kind: Kind
    sets: tuple[tuple[str, ...], ...]
    weights: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise QueryError(f"distribution {shown(self.kind)} is unknown; use one of {', '.join(KINDS)}")
        if not self.sets or not all(self.sets):
            raise QueryError("a distribution of questions needs sets of at least one attribute with two codes or more")
        for weight in self.weights:
            whole_number(weight, "weight of a set", 1, 2**32)
        if self.weights and len(self.weights) != len(self.sets):
            raise QueryError(f"{len(self.sets)} sets of attributes need as many weights, got {len(self.weights)}")

    @classmethod
    def over(cls, domain: Domain, order: int, kind: Kind = "mixed") -> Distribution:
        """Uniform over all sets of up to `order` attributes; attributes with a single code are left out."""
        asked = [name for name in domain.names if domain[name].size > 1]
        sizes = range(1, min(order, len(asked)) + 1)
        return cls(kind, tuple(names for size in sizes for names in itertools.combinations(asked, size)))

    def size(self, domain: Domain) -> int:
        """The number of different questions, counted once for each set."""
        return sum(math.prod(self.choices(domain[name]) for name in names) for names in self.sets)

    def choices(self, attribute: Attribute) -> int:
        """The number of different conditions on one attribute."""
        if self.kind == "cells":
            return attribute.size
        return _ranges(attribute) if has_ranges(attribute) else 2**attribute.size - 2

    def work(self, domain: Domain) -> float:
        """The average number of cells that one question sums: a public cost."""
        weights = np.array(self.weights or [1] * len(self.sets), dtype=float)
        cells = [math.prod(self._looked_up(domain[name]) for name in names) for names in self.sets]
        return float(weights @ np.array(cells) / weights.sum())

    def _looked_up(self, attribute: Attribute) -> float:
        return 2.0 if self.kind == "cells" or has_ranges(attribute) else 0.5 + attribute.size / 4

    def to_dict(self) -> dict[str, Any]:
        weights = {"weights": list(self.weights)} if self.weights else {}
        return {"distribution": self.kind, "sets": [list(names) for names in self.sets], **weights}

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> Distribution:
        sets = tuple(tuple(names) for names in written["sets"])
        return cls(written["distribution"], sets, tuple(written.get("weights", ())))


@dataclass(frozen=True)
class Questions:
    """A public list of questions: all questions of a distribution, or `drawn` many from a seed.

    The seed of a drawn list must be chosen at random after the hypothesis was fixed; otherwise the list says nothing
    about new questions.
    """

    domain: Domain
    distribution: Distribution
    seed: bytes | None = None
    drawn: int = 0

    def __post_init__(self) -> None:
        for names in self.distribution.sets:
            if self.domain.canonical(names) != names or any(self.domain[name].size < 2 for name in names):
                raise QueryError(f"set {', '.join(names)}: name attributes of two codes or more, in the domain's order")
        if self.seed is None:
            size = self.distribution.size(self.domain)
            if self.drawn or size > MOST_QUESTIONS:
                raise QueryError(f"{size} questions are too many to enumerate; draw at most {MOST_QUESTIONS}")
        elif not isinstance(self.seed, bytes) or len(self.seed) != SEED_BYTES:
            raise QueryError(f"a seed of questions has {SEED_BYTES} bytes")
        else:
            whole_number(self.drawn, "drawn", 1, MOST_QUESTIONS)

    @cached_property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The attribute sets that occur, in order."""
        return tuple(self.distribution.sets[place] for place in np.flatnonzero(self._numbers).tolist())

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The number of questions of each set of the distribution."""
        sets = len(self.distribution.sets)
        if self.seed is None:
            return np.ones(sets, dtype=np.int64)
        weights = np.array(self.distribution.weights or [1] * sets, dtype=np.uint64)
        starts = np.cumsum(weights)
        drawn = _words(self.seed, "sets", self.drawn) % starts[-1]
        return np.bincount(np.searchsorted(starts, drawn, side="right"), minlength=sets)

    def enumerated(self, names: tuple[str, ...]) -> tuple[list[Selection], np.ndarray]:
        """Every condition on each attribute of a set, and the weights of their combinations, which add up to about
        the set's share of `WHOLE`; each is rounded down."""
        found = [_every(self.distribution.kind, self.domain[name]) for name in names]
        weights = self.distribution.weights or (1,) * len(self.distribution.sets)
        share = np.array(weights[self.distribution.sets.index(names)] / sum(weights))
        for _, chances in found:
            share = share[..., None] * chances
        return [selection for selection, _ in found], np.floor(share * WHOLE).astype(np.int64)

    def blocks(self, names: tuple[str, ...]) -> Iterator[list[Selection]]:
        """The drawn conditions of a set, one on each attribute for each question, some questions at a time."""
        assert self.seed is not None, "all questions are enumerated instead"
        place = self.distribution.sets.index(names)
        left, block = int(self._numbers[place]), 0
        most = max(1, BLOCK_CODES // max(self.domain[name].size for name in names))
        while left:
            size = min(left, most)
            label = f"set {place} block {block}"
            yield [
                _drawn(self.distribution.kind, self.domain[name], self.seed, f"{label} attribute {axis}", size)
                for axis, name in enumerate(names)
            ]
            left, block = left - size, block + 1

    def to_dict(self) -> dict[str, Any]:
        drawn = {} if self.seed is None else {"seed": self.seed.hex(), "drawn": self.drawn}
        return {**self.distribution.to_dict(), **drawn}

    @classmethod
    def from_dict(cls, domain: Domain, written: dict[str, Any]) -> Questions:
        seed = bytes.fromhex(written["seed"]) if "seed" in written else None
        return cls(domain, Distribution.from_dict(written), seed, written.get("drawn", 0))


def has_ranges(attribute: Attribute) -> bool:
    """Whether consecutive codes of the attribute are consecutive values."""
    return attribute.ordered or isinstance(attribute, Integer)


def _ranges(attribute: Attribute) -> int:
    """The number of proper ranges of consecutive bins; the range of all codes is excluded."""
    return attribute.known * (attribute.known + 1) // 2 - (attribute.known == attribute.size)


def _range(numbers: np.ndarray, attribute: Attribute) -> Ranges:
    """The range with a given number, short ranges first, so that the whole is the last."""
    starts = np.concatenate([[0], np.cumsum(np.arange(attribute.known, 0, -1))])
    length = np.searchsorted(starts, numbers, side="right")
    low = numbers - starts[length - 1]
    return Ranges(low, low + length)


def _every(kind: Kind, attribute: Attribute) -> tuple[Selection, np.ndarray]:
    """All conditions on an attribute, and the chance of each."""
    size = attribute.size
    if kind == "cells":
        codes = np.arange(size)
        return Ranges(codes, codes + 1), np.full(size, 1 / size)
    if has_ranges(attribute):
        number = _ranges(attribute)
        return _range(np.arange(number), attribute), np.full(number, 1 / number)
    members = _bits(np.arange(1, 2**size - 1), size)
    chances = np.full(len(members), 0.5 / len(members))
    chances[members.sum(axis=1) == 1] += 0.5 / size
    return Subsets(members), chances


def _drawn(kind: Kind, attribute: Attribute, seed: bytes, label: str, questions: int) -> Selection:
    size = attribute.size
    if kind == "cells":
        codes = (_words(seed, label, questions) % np.uint64(size)).astype(np.int64)
        return Ranges(codes, codes + 1)
    if has_ranges(attribute):
        return _range((_words(seed, label, questions) % np.uint64(_ranges(attribute))).astype(np.int64), attribute)
    members = _subsets(seed, label, questions, size)
    single = _words(seed, f"{label} single", questions) % np.uint64(2) == 0
    members[single] = False
    codes = (_words(seed, f"{label} value", questions) % np.uint64(size)).astype(np.int64)
    members[single, codes[single]] = True
    return Subsets(members)


def _subsets(seed: bytes, label: str, questions: int, size: int) -> np.ndarray:
    """Subsets that are neither empty nor everything."""
    if size <= INDEXED_CODES:
        return _bits(1 + (_words(seed, label, questions) % np.uint64(2**size - 2)).astype(np.int64), size)
    words = _words(seed, label, questions * -(-size // 64)).reshape(questions, -1)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :size].astype(bool)
    trivial = bits.all(axis=1) | ~bits.any(axis=1)
    bits[trivial, 0] ^= True
    return bits


def _bits(numbers: np.ndarray, size: int) -> np.ndarray:
    return (numbers[:, None] >> np.arange(size)) & 1 == 1


def _words(seed: bytes, label: str, count: int) -> np.ndarray:
    """Public random words: SHAKE-256 of the seed and a label, the same on every machine."""
    stream = hashlib.shake_256(seed + label.encode()).digest(8 * count)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)
