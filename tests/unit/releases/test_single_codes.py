"""Releases of tables with attributes of a single code, which hold every record and cannot be learned."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.releases.candidates import measured_sets, without_single_codes

SHAPES = [
    ((1, 1), ["ab"]),
    ((1, 1, 1), ["abc"]),
    ((1, 1, 5), ["ab"]),
    ((1, 3, 5), ["bc"]),
    ((1, 3, 5), ["ab", "bc"]),
    ((3, 1, 5, 2), ["abc", "bcd"]),
    ((1, 40, 60, 40), ["abc", "bd"]),
    ((4, 1, *(6,) * 8), ["ab", "cd", "efg"]),
]
BUDGETS = [rt.Budget(epsilon=1), rt.Budget(rho=0.1)]


def _table(shape: tuple[int, ...], neighbours: str) -> rt.Table:
    domain = rt.Domain(dict(zip("abcdefghijkl", shape, strict=False)))
    generator = np.random.default_rng(1)
    rows = {name: generator.integers(0, domain[name].size, 200) for name in domain.names}
    return rt.Table.of(pa.table(rows), domain, neighbours=neighbours)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "rho"])
@pytest.mark.parametrize(("shape", "sets"), SHAPES)
def test_a_table_with_single_codes_is_released(shape, sets, budget, neighbours):
    table = _table(shape, neighbours)
    workload = rt.Workload([rt.marginal(*names) for names in sets], domain=table.domain)
    release = rt.release(table, workload, budget, progress=False)
    for names in sets:
        values = np.asarray(release.answer(rt.marginal(*names)).value)
        assert values.shape == table.domain.shape_of(tuple(names))
        assert values.min() >= 0
        assert values.sum() == pytest.approx(1)
    assert release.synthesize(5).num_rows == 5


def test_targets_lose_attributes_of_a_single_code_and_keep_their_weights():
    domain = rt.Domain(a=1, b=3, c=1, d=2)
    targets = {("a", "b"): 1.0, ("b", "c"): 2.0, ("a", "c"): 4.0, ("b", "d"): 8.0}
    assert without_single_codes(domain, targets) == {("b",): 3.0, ("b", "d"): 8.0}
    assert without_single_codes(domain, targets, kept=[("a", "b")])["a", "b"] == 1.0
    assert without_single_codes(domain, {("a", "c"): 4.0}) == {("b",): 1.0, ("d",): 1.0}
    assert without_single_codes(rt.Domain(a=1, b=1), {("a", "b"): 4.0}) == {("a",): 1.0}
    assert measured_sets(domain, [("b", "d")], 100) == [("b",), ("d",), ("b", "d")]
    assert measured_sets(rt.Domain(a=1, b=1), [("a",)], 100) == [("a",)]
