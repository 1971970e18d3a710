"""`Conjunctions`: a large list of conjunctions as two integer arrays, attributes and codes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError

ABSENT = -1
"""Pads the literals of a conjunction that is shorter than the widest one."""


class Conjunctions:
    """A list of queries `record[attribute] == code and ...`, one per row; attributes are positions in the domain.

    Literals are in domain order with padding last, so equal conjunctions are equal rows.

    Args:
        domain: The public description of the table.
        attributes: One row for each query: positions of attributes, padded with -1.
        codes: The code of each attribute.

    Raises:
        QueryError: The arrays have wrong shapes, or contain positions or codes that the domain does not have.

    Example:
        >>> import numpy as np, reticent as rt
        >>> domain = rt.Domain(a=2, b=3)
        >>> len(rt.Conjunctions(domain, np.array([[0, 1]]), np.array([[1, 2]])))
        1
    """

    def __init__(self, domain: Domain, attributes: np.ndarray, codes: np.ndarray) -> None:
        attributes, codes = np.asarray(attributes), np.asarray(codes)
        if attributes.ndim != 2 or attributes.shape != codes.shape or attributes.size == 0:
            raise QueryError(
                f"conjunctions need two equal tables of attributes and codes, got {attributes.shape} and {codes.shape}"
            )
        if attributes.dtype.kind not in "iu" or codes.dtype.kind not in "iu":
            raise QueryError("attributes and codes of conjunctions are whole numbers; give integer arrays")
        self.domain = domain
        self.attributes, self.codes = _ordered(attributes, codes, len(domain.names))
        _validate(domain, self.attributes, self.codes)
        self.attributes.setflags(write=False)
        self.codes.setflags(write=False)

    def __len__(self) -> int:
        return len(self.attributes)

    def __repr__(self) -> str:
        return f"<Conjunctions: {len(self)} of at most {self.width} literals over {len(self.domain.names)} attributes>"

    @property
    def width(self) -> int:
        """The largest number of literals."""
        return self.attributes.shape[1]

    @cached_property
    def digest(self) -> str:
        """Identifies domain and queries in a ledger."""
        hasher = hashlib.sha256(f"{self.domain.fingerprint} {self.attributes.shape}".encode())
        hasher.update(self.attributes.astype("<i4").tobytes())
        hasher.update(self.codes.astype("<i4").tobytes())
        return hasher.hexdigest()

    def on(self, domain: Domain) -> Conjunctions:
        """Check that these conjunctions were built for a domain.

        Args:
            domain: The domain of the table.

        Returns:
            The conjunctions themselves; algorithms accept them in place of a workload.

        Raises:
            QueryError: They belong to another domain.

        Example:
            >>> import numpy as np
            >>> import reticent as rt
            >>> domain = rt.Domain(a=3, b=2)
            >>> pairs = rt.Conjunctions.random(domain, 2, 4, np.random.default_rng(1))
            >>> pairs.on(domain) is pairs
            True
        """
        if domain != self.domain:
            raise QueryError("the conjunctions belong to another domain; build them for the domain of the table")
        return self

    def to_dict(self) -> dict[str, Any]:
        """A description that identifies the list without listing it.

        Returns:
            The number, width and digest of the conjunctions.

        Example:
            >>> import numpy as np
            >>> import reticent as rt
            >>> pairs = rt.Conjunctions.random(rt.Domain(a=3, b=2), 2, 4, np.random.default_rng(1))
            >>> pairs.to_dict()["conjunctions"]
            4
        """
        return {"conjunctions": len(self), "width": self.width, "digest": self.digest}

    @cached_property
    def literals(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct (attribute, code) pairs, and for each place of each conjunction the index of its pair."""
        first = np.concatenate([[0], np.cumsum(self.domain.shape)]).astype(np.int64)
        flat = np.where(self.attributes == ABSENT, ABSENT, first[self.attributes] + self.codes)
        used = np.zeros(int(first[-1]), dtype=bool)
        used[flat[flat != ABSENT]] = True
        position = np.cumsum(used) - 1
        places = np.where(flat == ABSENT, ABSENT, position[flat]).astype(np.int32)
        which = np.flatnonzero(used)
        owner = np.searchsorted(first, which, side="right") - 1
        return np.stack([owner, which - first[owner]], axis=1), places

    def tally(self, records: np.ndarray) -> np.ndarray:
        """Count, for each conjunction, the encoded records that satisfy it.

        Args:
            records: Codes, one record per row, columns in the domain's order.

        Returns:
            One count per conjunction.

        Example:
            >>> import numpy as np
            >>> import reticent as rt
            >>> ones = rt.Conjunctions(rt.Domain(a=3), [[0], [0]], [[0], [2]])
            >>> ones.tally(np.array([[0], [2], [2]])).tolist()
            [1, 2]
        """
        from reticent.queries.conjunction_kernels import tally_conjunctions

        totals = np.empty(len(self), dtype=np.int64)
        tally_conjunctions(self.attributes, self.codes, np.ascontiguousarray(records.T, dtype=np.int32), totals)
        return totals

    def literals_of(self, index: int) -> dict[str, int]:
        """One conjunction as a mapping from attribute to code.

        Args:
            index: Its position in the list.

        Returns:
            The mapping.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> rt.Conjunctions.of_cells(domain, [("sex",)]).literals_of(1)
            {'sex': 1}
        """
        pairs = zip(self.attributes[index].tolist(), self.codes[index].tolist(), strict=True)
        return {self.domain.names[attribute]: code for attribute, code in pairs if attribute != ABSENT}

    @classmethod
    def of_cells(cls, domain: Domain, sets: Sequence[tuple[str, ...]]) -> Conjunctions:
        """Every cell of the given marginals as a conjunction, set after set.

        Args:
            domain: The domain.
            sets: Attribute names of each marginal.

        Returns:
            The list, each marginal in C order.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> len(rt.Conjunctions.of_cells(domain, [("age", "sex")]))
            20
        """
        width = max((len(names) for names in sets), default=0)
        attributes: list[np.ndarray] = []
        codes: list[np.ndarray] = []
        for names in sets:
            shape = domain.shape_of(names)
            cells = math.prod(shape)
            padding = ((0, 0), (0, width - len(names)))
            rows = np.tile(np.array([domain.index(name) for name in names], dtype=np.int32), (cells, 1))
            values = np.stack(np.unravel_index(np.arange(cells), shape), axis=1).astype(np.int32)
            attributes.append(np.pad(rows, padding, constant_values=ABSENT))
            codes.append(np.pad(values, padding))
        if not attributes or width == 0:
            raise QueryError("a workload of marginals needs at least one set with at least one attribute")
        return cls(domain, np.concatenate(attributes), np.concatenate(codes))

    @classmethod
    def stack(cls, parts: Sequence[Conjunctions]) -> Conjunctions:
        """Join several lists over one domain into one, in order.

        Args:
            parts: The lists.

        Returns:
            The joined list.

        Raises:
            QueryError: There is no list, or they have different domains.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> sexes = rt.Conjunctions.of_cells(domain, [("sex",)])
            >>> len(rt.Conjunctions.stack([sexes, sexes]))
            4
        """
        width = max((part.width for part in parts), default=0)
        if width == 0 or any(part.domain != parts[0].domain for part in parts):
            raise QueryError("only conjunctions over one domain can be stacked; give at least one list")
        padding = [((0, 0), (0, width - part.width)) for part in parts]
        attributes = [np.pad(p.attributes, pad, constant_values=ABSENT) for p, pad in zip(parts, padding, strict=True)]
        codes = [np.pad(part.codes, pad) for part, pad in zip(parts, padding, strict=True)]
        return cls(parts[0].domain, np.concatenate(attributes), np.concatenate(codes))

    @classmethod
    def random(cls, domain: Domain, width: int, count: int, generator: np.random.Generator) -> Conjunctions:
        """Draw different conjunctions, uniform over attribute sets, then over codes.

        Args:
            domain: The domain of the table.
            width: Attributes of each conjunction.
            count: The number to draw.
            generator: Source of randomness; a workload is public, so the seed does not matter.

        Returns:
            The conjunctions.

        Raises:
            QueryError: The domain has fewer attributes, or too few such conjunctions.

        Example:
            >>> import numpy as np
            >>> import reticent as rt
            >>> len(rt.Conjunctions.random(rt.Domain(a=3, b=2), 2, 4, np.random.default_rng(1)))
            4
        """
        dimensions = len(domain.names)
        if not 1 <= width <= dimensions:
            raise QueryError(f"width={width} must lie between 1 and the {dimensions} attributes of the domain")
        sizes = np.array(domain.shape, dtype=np.int64)
        rows = np.empty((0, 2 * width), dtype=np.int32)
        for _ in range(64):
            missing = count - len(rows)
            if missing <= 0:
                break
            drawn = _different(dimensions, width, missing + missing // 8 + 16, generator)
            codes = generator.integers(0, sizes[drawn])
            rows = _unique_rows(np.concatenate([rows, np.hstack([drawn, codes]).astype(np.int32)]))
        if len(rows) < count:
            raise QueryError(f"{count} different conjunctions of {width} attributes could not be drawn; ask for fewer")
        return cls(domain, rows[:count, :width], rows[:count, width:])


def _ordered(attributes: np.ndarray, codes: np.ndarray, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Literals in domain order, padding last with code 0."""
    order = np.argsort(np.where(attributes == ABSENT, dimensions, attributes), axis=1, kind="stable")
    attributes = np.take_along_axis(attributes, order, axis=1).astype(np.int32)
    codes = np.take_along_axis(codes, order, axis=1).astype(np.int32)
    codes[attributes == ABSENT] = 0
    return attributes, codes


def _validate(domain: Domain, attributes: np.ndarray, codes: np.ndarray) -> None:
    dimensions = len(domain.names)
    if attributes.min() < ABSENT or attributes.max() >= dimensions:
        raise QueryError(
            f"attributes of conjunctions are positions 0..{dimensions - 1} in the domain, {ABSENT} for none"
        )
    if (attributes[:, 0] == ABSENT).any():
        raise QueryError("a conjunction without literals holds for everyone; drop it")
    repeated = (attributes[:, 1:] == attributes[:, :-1]) & (attributes[:, 1:] != ABSENT)
    if repeated.any():
        row = int(np.flatnonzero(repeated.any(axis=1))[0])
        raise QueryError(f"conjunction {row} names an attribute twice; give each attribute one code")
    sizes = np.array(domain.shape, dtype=np.int64)
    wrong = (attributes != ABSENT) & ((codes < 0) | (codes >= sizes[attributes]))
    if wrong.any():
        row, place = (int(axis[0]) for axis in np.nonzero(wrong))
        name = domain.names[int(attributes[row, place])]
        raise QueryError(
            f"conjunction {row}: code {codes[row, place]} of {name} must lie between 0 and {domain[name].size - 1}"
        )


def _different(dimensions: int, width: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """Sorted attribute sets, uniform, by Floyd's method, column by column."""
    chosen = np.empty((count, 0), dtype=np.int64)
    for top in range(dimensions - width, dimensions):
        candidate = generator.integers(0, top + 1, size=count)
        taken = (chosen == candidate[:, None]).any(axis=1)
        chosen = np.hstack([chosen, np.where(taken, top, candidate)[:, None]])
    return np.sort(chosen, axis=1)


def _unique_rows(rows: np.ndarray) -> np.ndarray:
    """Different rows in order of first appearance: a sorted prefix would favour small attributes."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]
