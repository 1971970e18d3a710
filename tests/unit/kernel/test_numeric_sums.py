"""Offsets and clipped sums are those of the rows' own values, to the rounding that is stated."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pytest

from reticent.domain import Domain, Numeric
from reticent.domain.numeric import STEPS
from reticent.errors import QueryError
from reticent.kernel import numeric_sums
from reticent.kernel.counting.records import Records
from reticent.kernel.numeric_sums import BinOffsets, ClippedSums
from reticent.kernel.statistics import FINE
from reticent.kernel.table import person_grid
from reticent.queries.groups import Groups
from reticent.queries.predicate import col
from reticent.sources import Table
from reticent.sources.grouping import placed_attributes
from reticent.sources.objects import open_object
from reticent.sources.on_demand import OnDemand
from reticent.sources.weighing import RECORDS, Weighing, load_records

DOMAIN = Domain(
    {
        "income": Numeric(edges=[0, 10, 100, 10_000], nullable=True),
        "age": Numeric(edges=[18, 30, 31, 65, 99], whole=True),
        "born": Numeric(edges=[date(1920, 1, 1), date(1970, 1, 1), date(2008, 1, 1)]),
        "sex": 2,
        "score": 7,
    }
)
ROWS = 3000


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    income = rng.lognormal(3, 2, ROWS)
    income[::7] = np.nan
    return pd.DataFrame(
        {
            "income": income,
            "age": rng.integers(10, 110, ROWS),
            "born": pd.to_datetime("1900-01-01") + pd.to_timedelta(rng.integers(0, 45_000, ROWS), unit="D"),
            "sex": rng.integers(0, 2, ROWS),
            "score": rng.integers(0, 7, ROWS),
        }
    )


@pytest.fixture(scope="module", params=["held", "on demand"])
def table(rows: pd.DataFrame, request: pytest.FixtureRequest) -> Table:
    return placed_table(rows, DOMAIN, hold=10 if request.param == "on demand" else 10**6)


def placed_table(rows: pd.DataFrame, domain: Domain, weighing: Weighing = RECORDS, hold: int = 10**6) -> Table:
    """A table whose numbers are read with their positions in bins."""
    engine = open_object(rows, domain, "rows", weighing.person)
    held = load_records(engine, domain, weighing, placed=placed_attributes(domain), hold=hold)
    source = OnDemand(engine, domain, weighing) if held is None else held
    unit = "record" if weighing.person is None else "person"
    return Table(source, domain, records=len(rows), unit=unit)


def summed(table: Table, names: tuple[str, ...], where, column: str) -> np.ndarray:
    """In the column's unit, less the middle of the range for each record counted."""
    lower, upper = DOMAIN[column].bounds or (0, 0)
    statistic = ClippedSums(Groups(names, where, column), DOMAIN)
    return statistic.evaluate(table._source, 1) / FINE * (upper - lower)


def clipped(rows: pd.DataFrame, column: str) -> pd.Series:
    lower, upper = DOMAIN[column].bounds or (0, 0)
    return rows[column].clip(lower, upper) - (lower + upper) / 2


CHOSEN = {
    "all": (None, lambda rows: rows["sex"] >= 0),
    "some": ((col("sex") == 1) & (col("age") >= 31), lambda rows: (rows["sex"] == 1) & (rows["age"] >= 31)),
    "either": ((col("sex") == 1) | (col("age") < 30), lambda rows: (rows["sex"] == 1) | (rows["age"] < 30)),
    "own bins": (col("income") >= 100, lambda rows: rows["income"] >= 100),
    "nobody": (col("age") > 200, lambda rows: rows["age"] > 200),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("column", ["income", "age", "score"])
@pytest.mark.parametrize("chosen", CHOSEN)
def test_sums_are_of_the_rows_own_values(
    table: Table, rows: pd.DataFrame, column: str, chosen: str, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, which = CHOSEN[chosen]
    if wide and chosen == "either":
        pytest.skip("a condition with OR over many cells is refused")
    if wide:
        monkeypatch.setattr(numeric_sums, "MARGINAL_CELLS", 1)
    lower, upper = DOMAIN[column].bounds or (0, 0)
    hidden = 2 * DOMAIN[column].radii.max()
    rounding = ROWS * (hidden / STEPS + (upper - lower) / 2**39) + (upper - lower) / FINE
    found = summed(table, (), where, column)
    assert found == pytest.approx(clipped(rows[which(rows)], column).sum(), abs=rounding)
    if column == "income" and chosen == "all":
        coarse = table._source.marginal(("income",))[:3] @ (np.array([5, 55, 5050]) - 5000)
        assert abs(coarse - found) > 100 * rounding, "bins hide much more than rounding does"


def test_groups_are_summed_each(table: Table, rows: pd.DataFrame) -> None:
    found = summed(table, ("sex", "score"), col("age") >= 31, "income")
    kept = rows[rows["age"] >= 31]
    expected = clipped(kept, "income").groupby([kept["sex"], kept["score"]]).sum().unstack().to_numpy()
    np.testing.assert_allclose(found, expected, atol=10)
    own = summed(table, ("age", "sex"), None, "age")
    assert own.shape == (2, *DOMAIN.shape_of(("age",)))[::-1], "axes in the domain's order"
    assert own.sum() == pytest.approx(clipped(rows, "age").sum(), abs=5)


@pytest.mark.parametrize("name", ["income", "age", "born"])
def test_offsets_are_from_the_middles_of_bins(table: Table, rows: pd.DataFrame, name: str) -> None:
    attribute = DOMAIN[name]
    assert isinstance(attribute, Numeric)
    values = (rows[name] - pd.Timestamp(0)).dt.days if name == "born" else rows[name]
    numbers = values.clip(*attribute.bounds).to_numpy(dtype=float)
    codes = table._source.marginal((name,))
    found = BinOffsets(name, DOMAIN).evaluate(table._source, 1) / STEPS
    for code in range(attribute.known):
        low, high = attribute.bin(code)
        inside = numbers[(attribute.encode(rows[name].tolist()) == code)]
        expected = ((inside - (low + high) / 2) / (high - low)).sum() if high > low else 0.0
        assert found[code] == pytest.approx(expected, abs=codes[code] / STEPS)


def test_persons_have_the_mean_of_their_rows() -> None:
    rows = pd.DataFrame({"who": [1, 1, 1, 2], "x": [1.0, 2.0, 4.5, 9.0]})
    domain = Domain(x=Numeric(edges=[0, 5, 10]))
    grid = person_grid(2)
    table = placed_table(rows, domain, Weighing("who", grid))
    found = BinOffsets("x", domain).evaluate(table._source, grid) / (STEPS * grid)
    assert found == pytest.approx([(2.5 - 2.5) / 5, (9 - 7.5) / 5], abs=1.5 / STEPS)


def test_a_column_without_bins_or_values_is_refused() -> None:
    with pytest.raises(QueryError, match="no offsets"):
        BinOffsets("sex", DOMAIN)
    with pytest.raises(QueryError, match="needs numbers"):
        ClippedSums(Groups((), None, "born"), DOMAIN)
    codes = {name: np.zeros(3, dtype=np.int64) for name in DOMAIN}
    bare = Records.of_codes(DOMAIN, codes, np.ones(3, dtype=np.int64))
    with pytest.raises(QueryError, match="holds codes only"):
        BinOffsets("income", DOMAIN).evaluate(bare, 1)
