"""Values of undeclared columns: every engine reads what `Undeclared.read` reads, and bounds what one unit adds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.contracts.nasty import COLUMNS
from tests.contracts.test_sources import Opener, open_table

from reticent.domain import Domain, Undeclared
from reticent.sources import open_rows
from reticent.sources.undeclared import UndeclaredValues

__all__ = ["open_table"]

ATTRIBUTES: dict[str, Undeclared] = {
    "number": Undeclared("number"),
    "money": Undeclared("number", decimal=",", thousands=".", units=["€", "$"], missing=[-9, 45, "n/a"], strip=True),
    "date": Undeclared("date", format=["%d/%m/%Y", "%Y%m%d"], missing=["1970-01-01"], strip=True),
    "datetime": Undeclared("datetime"),
    "text": Undeclared("text"),
    "folded": Undeclared("text", strip=True, casefold=True, aliases={"m": "male", "2": "two"}, missing=["n/a", 3, ""]),
}


def expected(attribute: Undeclared, cells: list[Any]) -> Counter:
    read = [attribute.read(cell) for cell in cells]
    clipped = [max(min(r, 1e300), -1e300) if isinstance(r, float) else r for r in read]
    return Counter(rounded(attribute, r) for r in clipped if r is not None)


def rounded(attribute: Undeclared, value: Any) -> Any:
    """Centuries from now a double of seconds has no room for microseconds."""
    return round(value, 4) if attribute.kind == "datetime" or attribute.kind == "date" else value


@pytest.mark.parametrize("column", COLUMNS)
def test_values_equal_the_reference(open_table: Opener, column: str) -> None:
    cells, engine = COLUMNS[column].to_pylist(), open_table(pa.table({"v": COLUMNS[column]}))
    for name, attribute in ATTRIBUTES.items():
        source = UndeclaredValues(engine, Domain(v=attribute), person=None, grid=1)
        assert source.total() == len(cells)
        values, counts = source.texts("v", 1, "key") if attribute.kind == "text" else source.numbers("v")
        found: Counter = Counter()
        for value, count in zip(values if isinstance(values, list) else values.tolist(), counts.tolist(), strict=True):
            found[rounded(attribute, value)] += count
        assert found == expected(attribute, cells), f"{name} over {column}"


def test_cells_without_a_common_type() -> None:
    cells = ["1", 1, 2.5, None, "x", b"x", "1.5", pd.Timestamp("2020-01-01"), True, "\ud800", float("inf"), "20200101"]
    for attribute in ATTRIBUTES.values():
        frame = pd.DataFrame({"v": pd.Series(cells, dtype=object)})
        source = UndeclaredValues(open_rows(frame, Domain(v=attribute)), Domain(v=attribute), person=None, grid=1)
        values, counts = source.texts("v", 1, "key") if attribute.kind == "text" else source.numbers("v")
        pairs = zip(list(values), counts.tolist(), strict=True)
        found = Counter({rounded(attribute, value): count for value, count in pairs})
        want = expected(attribute, cells)
        want.pop("\ud800", None)  # no engine can hold it
        assert found == want, attribute.to_dict()


ROWS = pa.table(
    {
        "who": pa.array([1, 1, 1, 1, 2, 2, 3, None, 4, 4]),
        "x": pa.array([5.0, 5.0, 7.0, None, 7.0, 9.0, 5.0, 9.0, None, None]),
        "t": pa.array(["a", "b", "c", "a", "a", None, "a", "z", None, None]),
    }
)


def test_a_person_adds_at_most_the_grid_and_at_most_so_many_texts(open_table: Opener) -> None:
    domain = Domain(x=Undeclared("number"), t=Undeclared("text"))
    source = UndeclaredValues(open_table(ROWS), domain, person="who", grid=60)
    assert source.total() == 4 * 60
    values, weights = source.numbers("x")
    assert dict(zip(values.tolist(), weights.tolist(), strict=True)) == {5.0: 40 + 60, 7.0: 20 + 30, 9.0: 30}
    whole = dict(zip(*map(list, source.texts("t", 3, "k")), strict=True))
    assert whole == {"a": 3, "b": 1, "c": 1}
    met: set[str] = set()
    for key in map(str, range(40)):
        texts, counts = source.texts("t", 1, key)
        assert int(np.sum(counts)) == 3
        met |= set(texts)
    assert met == {"a", "b", "c"}, "which text of a person counts is drawn with the key"


def test_which_texts_of_a_person_count_is_decided_without_the_rows_of_others() -> None:
    """A new person in the first row renumbers all identifiers of an object column; nobody's texts may change."""
    domain = Domain(t=Undeclared("text"))
    cells = [(who, f"{who!r} {place}") for who in (7, "x", 2.5, b"y", 10**30) for place in range(8)]

    def counted(rows: list[tuple[Any, str]], key: str) -> set[str]:
        frame = pd.DataFrame(
            {"who": pd.Series([who for who, _ in rows], dtype=object), "t": [text for _, text in rows]}
        )
        source = UndeclaredValues(open_rows(frame, domain, person="who"), domain, person="who", grid=60)
        return set(source.texts("t", 2, key)[0])

    for key in map(str, range(5)):
        alone, beside = counted(cells, key), counted([("new", "new"), *cells], key)
        assert beside == alone | {"new"}
        assert len(alone) == 10
