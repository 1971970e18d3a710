"""Small tables for session tests: a universe of a few dozen cells, dependent attributes, any number of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table

DOMAIN = Domain({"a": 4, "b": 3, "c": 5, "e": 2})


class Forbidden:
    """A source that nobody may read: what still works needs no rows."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the rows were touched: {name}")


def codes(records: int = 2000, seed: int = 1) -> dict[str, np.ndarray]:
    """Codes whose last attribute follows from the first two."""
    generator = np.random.default_rng(seed)
    columns = {
        "a": generator.choice(4, records, p=[0.5, 0.25, 0.15, 0.1]),
        "b": generator.integers(0, 3, records),
        "c": generator.choice(5, records, p=[0.4, 0.3, 0.1, 0.1, 0.1]),
    }
    columns["e"] = (columns["a"] + columns["b"] > 2).astype(np.int64)
    return {name: column.astype(np.int64) for name, column in columns.items()}


def table(records: int = 2000, *, weight: int = 10, seed: int = 1, **facts: Any) -> Table:
    """`records` drawn rows, each counted `weight` times."""
    return of_codes(DOMAIN, codes(records, seed), weight, **facts)


def of_codes(domain: Domain, columns: dict[str, np.ndarray], weight: int = 1, **facts: Any) -> Table:
    rows = len(next(iter(columns.values())))
    source = Records.of_codes(domain, columns, np.full(rows, weight, dtype=np.int64))
    if facts.get("neighbours") != "add-remove" and facts.get("unit") != "row":
        facts.setdefault("records", rows * weight)
    return Table(source, domain, **facts)


def forbidden(like: Table) -> Table:
    """The same public facts, and rows that raise when touched."""
    return Table(
        Forbidden(),  # pyright: ignore[reportArgumentType]
        like.domain,
        records=like.records,
        neighbours=like.neighbours,
        unit=like.unit,
        name=like.name,
        version=like.version,
    )


def truth(columns: dict[str, np.ndarray], keep: np.ndarray | None = None) -> float:
    """The fraction of rows kept."""
    rows = len(next(iter(columns.values())))
    return 1.0 if keep is None else float(np.count_nonzero(keep)) / rows


def random_boxes(domain: Domain, count: int, generator: np.random.Generator, widest: int = 3) -> Sequence[dict]:
    """Ranges of codes on one to `widest` attributes."""
    boxes = []
    for _ in range(count):
        names = generator.choice(domain.names, generator.integers(1, widest + 1), replace=False)
        ranges = {}
        for name in names:
            low, high = sorted(generator.integers(0, domain[str(name)].size, 2).tolist())
            ranges[str(name)] = (low, high)
        boxes.append(ranges)
    return boxes


def inside(columns: dict[str, np.ndarray], box: dict[str, tuple[int, int]]) -> float:
    keep = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for name, (low, high) in box.items():
        keep &= (columns[name] >= low) & (columns[name] <= high)
    return truth(columns, keep)
