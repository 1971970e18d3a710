"""A person weighs what the sensitivities presume, whoever else is in the table and however persons are named.

Through the engine that reads files and frames; the contract suite compares the others with it.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reticent.domain import Categorical, Domain, Numeric, Undeclared
from reticent.domain.numeric import STEPS
from reticent.sources import Table, open_rows
from reticent.sources.undeclared import UndeclaredValues

DOMAIN = Domain(a=Categorical(["u", "v", "w"], nullable=True), x=Numeric(edges=[0, 1, 5, 9]), b=2)
INFINITE = float("inf")
NAMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), [0.0, -0.0, 1.5, INFINITE, -INFINITE, 5e-324, math.nan, None, 2.0**53, 2.0**53 + 2]),
    "text": (pa.string(), ["a", "A", "a ", "é", "e\u0301", "", "1", "01", "a\0", "\U0001f600", None]),
    "nanosecond": (pa.timestamp("ns"), [0, 1, 999, 1000, -1, None]),
    "decimal": (pa.decimal128(20, 3), [Decimal("1.000"), Decimal("1.001"), Decimal("-0.000"), Decimal(0), None]),
    "day": (pa.date32(), [datetime.date(1970, 1, 1), datetime.date(9999, 12, 31), None]),
    "whole": (pa.int64(), [0, -1, 2**63 - 1, -(2**63), 2**53 + 1, None]),
    "bytes": (pa.binary(), [b"a", b"", b"\xff", None]),
}
NUMBERS = [None, math.nan, -1.0, 0.0, -0.0, 0.5, 4.999, 9.0, 1e9, INFINITE]
Row = tuple[Any, str | None, float | None, int]
ROUNDS = 2


def person_of(name: Any) -> Any:
    """Cells of one name, and None for those that name nobody."""
    if isinstance(name, float):
        return None if math.isnan(name) else name + 0.0
    return name


def drawn(rng: np.random.Generator, names: list[Any]) -> list[Row]:
    def one(listed: list[Any]) -> Any:
        return listed[int(rng.integers(len(listed)))]

    size = int(rng.integers(1, 25))
    return [(one(names), one(["u", "v", "w", "z", None]), one(NUMBERS), int(rng.integers(2))) for _ in range(size)]


def counted(kind: pa.DataType, listed: list[Row], hold: int, **facts: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights, weights times positions, and the weight of one person."""
    columns = list(zip(*listed, strict=True))
    data = pa.table(
        {
            "who": pa.array(columns[0], kind),
            "a": pa.array(columns[1], pa.string()),
            "x": pa.array(columns[2], pa.float64()),
            "b": pa.array(columns[3], pa.int64()),
        }
    )
    facts = {"person": "who", "neighbours": "add-remove", "progress": False} | facts
    table = Table.of(data, DOMAIN, numbers=True, hold=hold, **facts)
    held = table._source
    return held.marginal(DOMAIN.names).copy(), held.positions("x", DOMAIN.names).copy(), table.grid


WEIGHED: dict[str, dict[str, Any]] = {
    "shared": {},
    "shared, less than rows": {"records": 2**40, "neighbours": "replace-one"},
    "one row": {"rows": "bounded", "most": 1},
    "two rows": {"rows": "bounded", "most": 2},
}


@pytest.mark.parametrize("weighed", WEIGHED)
@pytest.mark.parametrize("kind", NAMES)
def test_a_table_is_the_sum_of_its_persons(kind: str, weighed: str) -> None:
    """In whatever order rows lie, held in memory or counted on demand; nobody weighs nothing."""
    of, names = NAMES[kind]
    facts = WEIGHED[weighed]
    most, rng = facts.get("most"), np.random.default_rng(20 + len(weighed))
    for hold in (1, 10**6) * (ROUNDS // 2):
        rows = drawn(rng, names)
        whole, placed, grid = counted(of, rows, hold, **facts)
        for person in {person_of(row[0]) for row in rows}:
            own = [row for row in rows if person_of(row[0]) == person]
            rng.shuffle(own)  # pyright: ignore[reportArgumentType]
            alone, inside, _ = counted(of, own, 10**6 + 1 - hold, **facts)
            weight = 0 if person is None else grid if most is None else min(most, len(own))
            assert alone.sum() == weight
            assert ((inside >= 0) & (inside <= STEPS * alone)).all()
            whole, placed = whole - alone, placed - inside
        assert not whole.any()
        assert not placed.any()


@pytest.mark.parametrize("most", [1, 2])
def test_undeclared_values_are_the_sum_of_their_persons(most: int) -> None:
    rng, grid = np.random.default_rng(most), 60
    domain = Domain(t=Undeclared("text", strip=True, casefold=True, missing=["n/a"]), x=Undeclared("number"))
    texts = ["a", "A ", " a", "b", "n/a", "", "\u212a", "k", "é", "e\u0301", None]

    def found(rows: list[Row]) -> tuple[dict[str, int], dict[float, int]]:
        who, text, x, _ = zip(*rows, strict=True)
        data = {"who": pa.array(who, pa.string()), "t": pa.array(text, pa.string()), "x": pa.array(x, pa.float64())}
        source = UndeclaredValues(open_rows(pa.table(data), domain, person="who"), domain, person="who", grid=grid)
        (shown, units), (values, weights) = source.texts("t", most, "key"), source.numbers("x")
        assert len(set(shown)) == len(shown)
        return dict(zip(shown, units.tolist(), strict=True)), dict(zip(values, weights.tolist(), strict=True))

    for _ in range(ROUNDS):
        rows = [(who, texts[int(rng.integers(len(texts)))], x, b) for who, _, x, b in drawn(rng, NAMES["text"][1])]
        shown, weighed = found(rows)
        for person in {row[0] for row in rows}:
            own = [row for row in rows if row[0] == person]
            rng.shuffle(own)  # pyright: ignore[reportArgumentType]
            theirs, weights = found(own)
            assert person is not None or not (theirs or weights)
            assert sum(theirs.values()) <= most
            assert set(theirs.values()) <= {1}
            assert sum(weights.values()) in (0, grid)
            shown = {text: units - theirs.get(text, 0) for text, units in shown.items()}
            weighed = {value: weight - weights.get(value, 0) for value, weight in weighed.items()}
        assert not any(shown.values())
        assert not any(weighed.values())
