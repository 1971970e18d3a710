"""Tables of three small attributes, or of two numeric ones and a flag, for tests in which the values hardly matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import reticent as rt
from reticent.kernel.ledger.ledger import Ledger

DOMAIN = rt.Domain(a=3, b=4, c=2)
MIXED = rt.Domain(x=rt.Numeric(edges=[0, 1, 2, 3]), y=rt.Numeric(edges=[0, 1, 2]), z=2)


def uniform(records: int, seed: int = 3, **facts: Any) -> rt.Table:
    """Independent attributes, every code equally likely."""
    generator = np.random.default_rng(seed)
    columns = {name: generator.integers(0, DOMAIN[name].size, records) for name in DOMAIN.names}
    return rt.Table.of(pa.table(columns), DOMAIN, **facts)


def skewed(records: int = 20_000, seed: int = 0) -> rt.Table:
    """Independent attributes, the last two far from uniform."""
    generator = np.random.default_rng(seed)
    rows = {
        "a": generator.integers(0, 3, records),
        "b": generator.integers(0, 4, records) ** 2 // 3,
        "c": (generator.random(records) < 0.2).astype(int),
    }
    return rt.Table.of(pa.table(rows), DOMAIN)


def mixed(records: int = 200_000) -> rt.Table:
    """A label `y` that grows with `x`, and a flag `z` independent of both."""
    generator = np.random.default_rng(1)
    x = generator.random(records) * 3
    y = np.clip(x / 2 + generator.normal(0, 0.3, records), 0, 1.99)
    return rt.Table.of(pa.table({"x": x, "y": y, "z": generator.integers(0, 2, records)}), MIXED)


def begun_ledger(path: Path, rows: rt.Table, budget: rt.Budget) -> Path:
    """A ledger for `rows` that holds `budget` and no charge."""
    Ledger.open(path, identity=rows.identity, budget=budget).close()
    return path
