"""Columns: compact tables of keys, as sorted texts in one buffer and numbers in arrays.

New entries are kept in a dictionary, which is merged when it has grown by a half, or when a checkpoint is written. Both
together behave as a dictionary by key; the order of insertion is that of the events' sequence numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

LEAST_MERGED = 2**15
"""Fewer additions are not worth a merge."""
PENDING = ("reserved", "redeemed")


class Reservation(NamedTuple):
    """A durable charge and its state: reserved, redeemed (reserved a last time), settled or forfeited.

    `digest` is that of the request; it is empty after the settlement, because the `reserve` event then holds it.
    """

    key: str
    kind: str
    cost: int
    digest: str
    analyst: str | None
    redeemable: bool
    sequence: int
    status: str = "reserved"
    settled: int = 0

    @property
    def pending(self) -> bool:
        return self.status in PENDING


class SortedTexts:
    """Distinct texts in ascending order, found by bisection."""

    def __init__(self, data: bytes = b"", ends: Sequence[int] | np.ndarray = ()) -> None:
        self.data = data
        self.ends = np.ascontiguousarray(ends, dtype=np.int64)
        self._ends = self.ends.data  # a single number is read faster from it

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> SortedTexts:
        return cls(b"".join(texts), np.fromiter(accumulate(map(len, texts)), np.int64, len(texts)))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, place: int) -> bytes:
        return self.data[self._ends[place - 1] if place else 0 : self._ends[place]]

    def first(self, text: bytes) -> int:
        """The position of the first text that is not below this one."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle] < text:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, text: bytes) -> int:
        """The position of a text, or -1."""
        place = self.first(text)
        return place if place < len(self) and self[place] == text else -1

    def starting(self, prefix: bytes) -> tuple[int, int]:
        """The range of positions of all texts with this prefix."""
        first, high = self.first(prefix), len(self)
        low = first
        while low < high:
            middle = (low + high) // 2
            if self[middle].startswith(prefix):
                low = middle + 1
            else:
                high = middle
        return first, low

    def merged(self, without: Iterable[int], added: Sequence[bytes]) -> tuple[SortedTexts, np.ndarray]:
        """The texts with added ones (sorted) and without some positions; and the origin of each, added ones last."""
        gone = set(without)
        places = [place for place in range(len(self)) if place not in gone]
        texts = [*map(self.__getitem__, places), *added]
        order = sorted(range(len(texts)), key=texts.__getitem__)  # two sorted runs: one comparison each
        origins = np.array([*places, *range(len(self), len(self) + len(added))], dtype=np.int64)
        return SortedTexts.of([texts[place] for place in order]), origins[order]

    def to_dict(self) -> dict[str, Any]:
        """Their bytes as the characters of the same numbers, in one text, and their lengths."""
        return {"texts": self.data.decode("latin-1"), "lengths": np.diff(self.ends, prepend=0).tolist()}

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> SortedTexts:
        """The inverse of `to_dict`; ValueError, KeyError or TypeError for anything else."""
        data, lengths = told["texts"].encode("latin-1"), np.array(told["lengths"], dtype=np.int64)
        if lengths.sum() != len(data) or lengths.min(initial=0) < 0:
            raise ValueError("not texts")
        return cls(data, np.cumsum(lengths))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortedTexts) and self.data == other.data and np.array_equal(self.ends, other.ends)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def encoded(text: str) -> bytes:
    """Bytes in the order of the texts; JSON may hold halves of surrogate pairs."""
    return text.encode("utf-8", "surrogatepass")


class NamedPlaces:
    """Whole numbers by text. `get` needs no lock: entries are merged before they leave the dictionary."""

    def __init__(self, texts: SortedTexts | None = None, numbers: np.ndarray | None = None) -> None:
        empty = np.empty(0, np.int64)
        self._past = (SortedTexts() if texts is None else texts, empty if numbers is None else numbers)
        self._new: dict[str, int] = {}

    def get(self, text: str) -> int | None:
        found = self._new.get(text)
        if found is None:
            texts, numbers = self._past
            if (place := texts.find(encoded(text))) >= 0:
                found = int(numbers[place])
        return found

    def __setitem__(self, text: str, number: int) -> None:
        self._new[text] = number
        if len(self._new) > max(LEAST_MERGED, len(self._past[0]) // 2):
            self.merge()

    def merge(self) -> None:
        if not self._new:
            return
        texts, numbers = self._past
        added = sorted((encoded(text), number) for text, number in self._new.items())
        known = [place for text, _ in added if (place := texts.find(text)) >= 0]
        merged, origins = texts.merged(known, [text for text, _ in added])
        self._past = merged, np.concatenate([numbers, np.array([n for _, n in added], dtype=np.int64)])[origins]
        self._new = {}

    def copy(self) -> NamedPlaces:
        """An independent copy."""
        found = NamedPlaces(*self._past)
        found._new = self._new.copy()
        return found

    def to_dict(self) -> dict[str, Any]:
        self.merge()
        texts, numbers = self._past
        return {**texts.to_dict(), "numbers": numbers.tolist()}

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> NamedPlaces:
        """The inverse of `to_dict`; ValueError, KeyError or TypeError for anything else."""
        texts = SortedTexts.from_dict(told)
        return cls(texts, _column(told["numbers"], len(texts)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedPlaces):
            return False
        self.merge()
        other.merge()
        (ours, numbers), (theirs, others) = self._past, other._past
        return ours == theirs and np.array_equal(numbers, others)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


Terms = tuple[str, int, str, str | None, bool, str]
"""Kind, cost, digest, analyst, redeemable and status of a reservation: many share them."""


class _Columns(NamedTuple):
    """Reservations in the order of their keys; `codes` are positions in `terms`."""

    keys: SortedTexts = SortedTexts()
    terms: tuple[Terms, ...] = ()
    codes: np.ndarray = np.empty(0, np.int64)
    sequences: np.ndarray = np.empty(0, np.int64)
    settled: np.ndarray = np.empty(0, np.int64)

    def at(self, place: int) -> Reservation:
        kind, cost, digest, analyst, redeemable, status = self.terms[self.codes[place]]
        key = self.keys[place].decode("utf-8", "surrogatepass")
        sequence, settled = int(self.sequences[place]), int(self.settled[place])
        return Reservation(key, kind, cost, digest, analyst, redeemable, sequence, status, settled)

    def find(self, key: str) -> int:
        return self.keys.find(encoded(key))

    def having(self, wanted: Callable[[Terms], bool]) -> np.ndarray:
        """Mask of the codes with given terms."""
        return np.fromiter(map(wanted, self.terms), bool, len(self.terms))


class Reservations:
    """The reservation of every key. `get` and `in` need no lock, as above; the others do."""

    def __init__(self, past: _Columns | None = None) -> None:
        self._past = _Columns() if past is None else past
        self._new: dict[str, Reservation] = {}
        self._replaced: set[int] = set()
        """Places whose keys are among the new ones."""

    def __len__(self) -> int:
        return len(self._past.keys) - len(self._replaced) + len(self._new)

    def __contains__(self, key: str) -> bool:
        return key in self._new or self._past.find(key) >= 0

    def get(self, key: str) -> Reservation | None:
        found = self._new.get(key)
        if found is None:
            past = self._past
            if (place := past.find(key)) >= 0:
                found = past.at(place)
        return found

    def __getitem__(self, key: str) -> Reservation:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def successor(self, key: str) -> tuple[str, int]:
        """This key, or the first of `key:1`, `key:2`, ... that is not forfeited; and the cost of the forfeited ones."""
        named, attempt, lost = key, 0, 0
        while (old := self.get(named)) is not None and old.status == "forfeited":
            attempt, lost = attempt + 1, lost + old.cost
            named = f"{key}:{attempt}"
        return named, lost

    def put(self, reservation: Reservation) -> None:
        """Set the state of a reservation."""
        key = reservation.key
        if key not in self._new and (place := self._past.find(key)) >= 0:
            self._replaced.add(place)
        self._new[key] = reservation
        if len(self._new) > max(LEAST_MERGED, len(self._past.keys) // 2):
            self.merge()

    def starting(self, prefix: str) -> list[Reservation]:
        """Reservations whose keys have this prefix, oldest first."""
        past = self._past
        places = range(*past.keys.starting(encoded(prefix)))
        return self._oldest_first(places, lambda one: one.key.startswith(prefix))

    def settled(self, kind: str, prefix: str, after: int = 0) -> list[Reservation]:
        """Reservations of a kind with this key prefix whose settlement comes after an event, in order of settlement."""
        old = [self._past.at(int(place)) for place in self._settled_places(kind, prefix, after)]
        return sorted([*old, *self._newly_settled(kind, prefix, after)], key=lambda one: one.settled)

    def settlements(self, kind: str, prefix: str, after: int = 0) -> np.ndarray:
        """Sequences of the same settlements."""
        old = self._past.settled[self._settled_places(kind, prefix, after)]
        new = [one.settled for one in self._newly_settled(kind, prefix, after)]
        return np.sort(np.concatenate([old, np.array(new, dtype=np.int64)]))

    def _settled_places(self, kind: str, prefix: str, after: int) -> np.ndarray:
        past = self._past
        first, last = past.keys.starting(encoded(prefix))
        chosen = past.settled[first:last] > after  # what is settled is never replaced
        return first + np.flatnonzero(chosen & past.having(lambda terms: terms[0] == kind)[past.codes[first:last]])

    def _newly_settled(self, kind: str, prefix: str, after: int) -> list[Reservation]:
        found = [one for one in self._new.values() if one.settled > after and one.kind == kind]
        return [one for one in found if one.key.startswith(prefix)]

    def of_kind(self, kind: str) -> list[Reservation]:
        """Those of a kind, oldest first."""
        return self._selected(lambda terms: terms[0] == kind)

    def pending(self) -> list[Reservation]:
        """Charged and not settled, oldest first."""
        return self._selected(lambda terms: terms[5] in PENDING)

    def _selected(self, wanted: Callable[[Terms], bool]) -> list[Reservation]:
        places = np.flatnonzero(self._past.having(wanted)[self._past.codes]).tolist()
        return self._oldest_first(places, lambda one: wanted(_terms(one)))

    def _oldest_first(self, places: Iterable[int], wanted: Callable[[Reservation], bool]) -> list[Reservation]:
        old = [self._past.at(place) for place in places if place not in self._replaced]
        new = [one for one in self._new.values() if wanted(one)]
        return sorted([*old, *new], key=lambda one: one.sequence)

    def merge(self) -> None:
        """Move the new ones into the columns."""
        if not self._new:
            return
        past = self._past
        added = sorted((encoded(key), one) for key, one in self._new.items())
        coded = {terms: code for code, terms in enumerate(past.terms)}
        codes = [coded.setdefault(_terms(one), len(coded)) for _, one in added]
        keys, origins = past.keys.merged(self._replaced, [key for key, _ in added])

        def joined(old: np.ndarray, new: list[int]) -> np.ndarray:
            return np.concatenate([old, np.array(new, dtype=np.int64)])[origins]

        sequences = joined(past.sequences, [one.sequence for _, one in added])
        settled = joined(past.settled, [one.settled for _, one in added])
        self._past = _Columns(keys, tuple(coded), joined(past.codes, codes), sequences, settled)
        self._new, self._replaced = {}, set()

    def copy(self) -> Reservations:
        """An independent copy."""
        found = Reservations(self._past)
        found._new, found._replaced = self._new.copy(), self._replaced.copy()
        return found

    def to_dict(self) -> dict[str, Any]:
        self.merge()
        keys, terms, *numbers = self._past
        told = dict(zip(_Columns._fields[2:], (column.tolist() for column in numbers), strict=True))
        return {**keys.to_dict(), "terms": terms, **told}

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Reservations:
        """The inverse of `to_dict`; ValueError, KeyError or TypeError for anything else."""
        keys, terms = SortedTexts.from_dict(told), tuple(map(tuple, told["terms"]))
        codes, sequences, settled = (_column(told[name], len(keys)) for name in _Columns._fields[2:])
        if any(len(one) != 6 for one in terms) or not np.all((codes >= 0) & (codes < len(terms))):
            raise ValueError("not reservations")
        return cls(_Columns(keys, terms, codes, sequences, settled))  # pyright: ignore[reportArgumentType]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reservations):
            return False
        self.merge()
        other.merge()
        ours, theirs = self._past, other._past
        same = ours.keys == theirs.keys and np.array_equal(ours.sequences, theirs.sequences)
        if not same or not np.array_equal(ours.settled, theirs.settled):
            return False
        return [ours.terms[code] for code in ours.codes] == [theirs.terms[code] for code in theirs.codes]

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _terms(one: Reservation) -> Terms:
    return one.kind, one.cost, one.digest, one.analyst, one.redeemable, one.status


def _column(numbers: list[int], count: int) -> np.ndarray:
    if len(numbers) != count:
        raise ValueError("columns of different lengths")
    return np.array(numbers, dtype=np.int64)
