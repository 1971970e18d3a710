"""True errors of a publication: the mean is weighted as the workload is."""

from __future__ import annotations

import pyarrow as pa
import pytest

import reticent as rt

DOMAIN = rt.Domain(a=2, b=3)
TABLE = rt.Table.of(pa.table({"a": [0] * 90 + [1] * 10, "b": [0] * 40 + [1] * 30 + [2] * 30}), DOMAIN)
"""A fit of `b` alone answers `b` exactly and misses the half of `a` by 0.4."""


@pytest.fixture(scope="module")
def fitted() -> rt.Release:
    return rt.fit(DOMAIN, [rt.Measurement(rt.marginal("b"), [0.4, 0.3, 0.3], sd=1e-9)], records=100)


ENTRIES = {
    "queries": ([rt.count(rt.col(name) == 0) for name in "ab"], 1, 1, 0.4),
    "marginals": ([rt.marginal(name) for name in "ab"], 1, 1, 0.4),
    # Of three ranges of a the whole is exact; b has six.
    "ranges": ([rt.ranges(name).ranges[0] for name in "ab"], 3, 6, 0.8 / 3),
    "kinds": ([rt.count(rt.col("a") == 0), rt.ranges("b").ranges[0]], 1, 6, 0.4),
}


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize("weights", [(1, 1), (1000, 1), (1, 1000)])
def test_the_mean_error_is_weighted_as_the_workload(
    kind: str, weights: tuple[float, float], fitted: rt.Release
) -> None:
    entries, first, second, missed = ENTRIES[kind]
    found = rt.evaluate(fitted, TABLE, rt.Workload(entries, weights=weights, domain=DOMAIN))
    share = weights[0] * first / (weights[0] * first + weights[1] * second)
    assert found.mean_error == pytest.approx(share * missed, abs=1e-6)
    assert found.max_error == pytest.approx(0.4, abs=1e-6)
