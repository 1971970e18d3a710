"""Bounds of variances, covariances and slopes hold on the rows' own numbers, whatever was bought of their means.

Tables are generated with numbers placed within bins as unkindly as they can be: at an end, at both ends, skewed. The
budget is large, so that what bins hide is nearly all of every bound; the oracle is DuckDB on the raw rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import reticent as rt

RECORDS = 4000
CONFIDENCE = 1 - 1e-7
ROUNDING = 1e-6
SHAPES = ("lower ends", "upper ends", "both ends", "outward", "inward", "skewed", "one end each")
BINS = {
    "two": [0, 10, 20],
    "uneven": [-5, 0, 1, 50, 200],
    "offset": [1000, 1010, 1030, 1031],
    "many": list(range(0, 33, 2)),
}
MOMENTS = (
    *("VARIANCE(x)", "VAR_POP(x)", "STDDEV(x)", "STDDEV_POP(x)", "COVAR_POP(x, y)", "COVAR_SAMP(y, x)"),
    *("CORR(x, y)", "REGR_SLOPE(y, x)", "REGR_INTERCEPT(y, x)", "REGR_R2(y, x)", "REGR_SXX(y, x)", "REGR_SYY(y, x)"),
    *("REGR_SXY(y, x)", "REGR_AVGX(y, x)", "REGR_AVGY(y, x)", "SKEWNESS(x)", "KURTOSIS_POP(x)"),
    *("STDDEV(x) / AVG(x)", "VARIANCE(x) - VAR_POP(y)", "SQRT(VAR_POP(x)) + AVG(y)"),
)


def placed(shape: str, bins: np.ndarray, edges: list[int], generator: np.random.Generator) -> np.ndarray:
    """A number in each record's bin."""
    low, high = np.array(edges[:-1], dtype=float)[bins], np.array(edges[1:], dtype=float)[bins] * (1 - 1e-12)
    middle = (edges[0] + edges[-1]) / 2
    upper = {
        "lower ends": np.zeros(len(bins)),
        "upper ends": np.ones(len(bins)),
        "both ends": generator.random(len(bins)) < 0.5,
        "outward": low >= middle,
        "inward": low < middle,
        "skewed": generator.beta(0.2, 2.0, len(bins)),
        "one end each": bins % 2,
    }[shape].astype(float)
    return low + upper * (high - low)


def made(shape: str, edges: list[int], seed: int, *, nulls: bool) -> pa.Table:
    generator = np.random.default_rng(seed)
    share = generator.dirichlet(np.full(len(edges) - 1, 0.6))
    x_bins = generator.choice(len(edges) - 1, RECORDS, p=share)
    follows = generator.random(RECORDS) < 0.7
    y_bins = np.where(follows, x_bins, generator.choice(len(edges) - 1, RECORDS, p=share[::-1]))
    missing = generator.random(RECORDS) < (0.1 if nulls else 0.0)
    return pa.table(
        {
            "x": pa.array(placed(shape, x_bins, edges, generator), mask=missing),
            "y": placed(SHAPES[seed % len(SHAPES)], y_bins, edges, generator),
            "g": generator.choice(["a", "b"], RECORDS),
        }
    )


def opened(table: pa.Table, edges: list[int], **start: object) -> rt.Session:
    numbers = {name: rt.Numeric(edges=edges, other=False, nullable=name == "x") for name in ("x", "y")}
    domain = rt.Domain(**numbers, g=rt.Categorical(["a", "b"], other=False))
    read = rt.Table.of(table, domain, numbers=True)
    budget = rt.Budget(epsilon=400, delta=1e-9)
    return rt.Session.open(None, read, budget, confidence=CONFIDENCE, **start)


def outside(session: rt.Session | rt.Release, table: pa.Table, tail: str, first: str = "") -> Iterator[str]:
    """Moments whose bound excludes what the rows themselves give, or whose value is impossible."""
    with duckdb.connect() as raw:
        raw.register("t", table)
        for moment in MOMENTS:
            sql = f"SELECT {first}{moment} FROM t {tail}"
            found, truth = session.ask(sql), raw.execute(sql).fetchall()
            for row, errors, true in zip(found.rows, found.errors, truth, strict=True):
                value, error = row[-1], errors[-1]
                if value is not None and moment.startswith(("VAR_POP", "STDDEV_POP")) and value < 0:
                    yield f"{moment}: {value}"
                if value is None or error is None or true[-1] is None:
                    continue
                if abs(value - true[-1]) > error + ROUNDING * max(1.0, abs(true[-1])):
                    yield f"{sql}: {value} ± {error}, truth {true[-1]}"


STARTS = ({"warm_start": 0.5}, {"warm_start": 0.0}, {"purpose": "few"})
CASES = [(bins, shape, STARTS[place % 3]) for place, bins in enumerate(BINS) for shape in SHAPES]


@pytest.mark.parametrize(("bins", "shape", "start"), CASES, ids=[f"{bins}-{shape}" for bins, shape, _ in CASES])
def test_bounds_hold_whatever_was_bought_of_the_means(bins: str, shape: str, start: dict[str, object]) -> None:
    edges, place = BINS[bins], SHAPES.index(shape)
    table = made(shape, edges, place, nulls=place % 2 == 1)
    session, near = opened(table, edges, **start), 0.02 * (edges[-1] - edges[0])
    session.ask("SELECT x, y, g, COUNT(*) FROM t GROUP BY x, y, g", error=RECORDS * 0.005)
    found = [*outside(session, table, "")]
    session.ask("SELECT AVG(x) FROM t", error=near)
    found += outside(session, table, "")
    session.ask("SELECT AVG(y) FROM t", error=near)
    found += [*outside(session, table, ""), *outside(session, table, "", "AVG(x), AVG(y), ")]
    session.ask("SELECT g, AVG(x), AVG(y) FROM t GROUP BY g", error=2 * near)
    found += outside(session, table, "GROUP BY g ORDER BY g")
    session.ask("SELECT AVG(x) FROM t WHERE g = 'a'", error=2 * near)
    found += outside(session, table, "WHERE g = 'a'")
    found += outside(session.release(), table, "")
    assert not found


def test_a_bought_mean_makes_the_bound_smaller_and_leaves_the_value() -> None:
    """Nine of ten numbers at 0, the others at 20, in bins of ten: the deviation is 6, all that bins allow."""
    numbers = np.where(np.arange(RECORDS) % 10 == 0, 20.0, 0.0)
    table = pa.table({"x": numbers, "y": numbers, "g": ["a"] * RECORDS})
    session = opened(table, [0, 10, 20], warm_start=0.5)
    before = session.ask(rt.variance("x", sample=False))
    session.ask("SELECT AVG(x) FROM t", error=0.1)
    after = session.ask(rt.variance("x", sample=False))
    assert after.value == pytest.approx(before.value, rel=1e-9)
    assert after.value == pytest.approx(9.0, rel=0.05)
    assert abs(after.value - 36) <= after.error < 0.6 * before.error
    beside = session.ask("SELECT VAR_POP(x), AVG(x) FROM t")
    assert (beside.rows[0][0], beside.errors[0][0]) == pytest.approx((after.value, after.error), rel=1e-9)
    assert beside.rows[0][1] == pytest.approx(2.0, abs=0.11)


def test_a_statement_buys_the_mean_of_the_rows_and_that_of_the_bins() -> None:
    """The mean is wanted more closely than bins allow; the correlation needs both moments of the bins."""
    generator = np.random.default_rng(3)
    x = generator.normal(40, 12, RECORDS).clip(0, 99.9)
    y = (x + generator.normal(0, 5, RECORDS)).clip(0, 99.9)
    table = pa.table({"x": np.floor(x), "y": np.floor(y), "g": ["a"] * RECORDS})
    session = opened(table, list(range(101)), warm_start=0)
    sql = "SELECT AVG(x), AVG(y), CORR(x, y) FROM t"
    with duckdb.connect() as raw:
        raw.register("t", table)
        truth = raw.execute(sql).fetchone() or ()
    for place in range(5):  # asked again, it buys what is missing, if more than it bought is needed
        price, found = session.cost(sql, error=0.3), session.ask(sql, error=0.3)
        assert found.price <= price * (1 + 1e-9)
        assert found.price > 0 or place > 0
        for value, error, true in zip(found.rows[0], found.errors[0], truth, strict=True):
            assert abs(value - true) <= error
        assert max(found.errors[0][:2]) <= 0.3 * (1 + 1e-9)
        if not found.note:
            break
    assert max(found.errors[0]) <= 0.3 * (1 + 1e-9)
    again = session.ask(sql, error=0.3)
    assert (again.rows, again.errors, again.price) == (found.rows, found.errors, 0)
