"""Synthetic tables: decoded through the domain, typed for Arrow.

Synthetic numbers stay in their bins, keep the mean that was measured, and are whole where the column is.
"""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Categorical, Domain, Numeric
from reticent.hypotheses import DenseHypothesis
from reticent.releases.synthesize import decode, drawn_numbers, effective_share, synthesize

DOMAIN = Domain(
    age=Numeric(edges=[0, 10, 20, 40], other=False),
    sex=Categorical(["Female", "Male"], nullable=True, other=True),
    wage=Numeric(edges=[0.0, 1.0, 2.5], nullable=True, other=True),
    grade=Categorical([1, 2], other=False),
    code=3,
)


def test_every_code_decodes_to_its_value() -> None:
    rows = max(DOMAIN.shape)
    codes = np.stack([np.arange(rows) % size for size in DOMAIN.shape], axis=1)
    table = decode(codes, DOMAIN)
    assert table.column_names == list(DOMAIN.names)
    assert table["sex"].to_pylist() == ["Female", "Male", None, "(other)"]
    assert table["sex"].type == pa.string()
    wages = table["wage"].to_pylist()
    assert wages[2:] == [None, None]
    assert pa.types.is_floating(table["wage"].type)
    assert table["grade"].to_pylist() == [1, 2, 1, 2]
    assert table["code"].to_pylist() == [0, 1, 2, 0]
    for name in ("age", "grade", "code"):
        np.testing.assert_array_equal(DOMAIN[name].encode(table[name].to_pylist()), codes[:, DOMAIN.index(name)])


def test_synthetic_tables_follow_the_hypothesis() -> None:
    hypothesis = DenseHypothesis(DOMAIN)
    careful = synthesize(hypothesis, 4000, np.random.default_rng(0))
    chance = synthesize(hypothesis, 4000, np.random.default_rng(0), independent=True)
    for table, spread in ((careful, 5), (chance, 160)):
        assert table.num_rows == 4000
        males = sum(value == "Male" for value in table["sex"].to_pylist())
        assert abs(males - 1000) < spread
    assert synthesize(hypothesis, 0, np.random.default_rng(0)).num_rows == 0
    assert synthesize(hypothesis, 9, np.random.default_rng(0), sets=[["age"]]).num_rows == 9


ATTRIBUTES = {
    "number": Numeric(edges=[0, 1, 2.5, 1000], nullable=True),
    "tiny": Numeric(edges=[1.0, 1.0 + 1e-15, 2.0]),
    "whole": Numeric(edges=[0, 3, 4, 90], whole=True),
    "single": Numeric(edges=[0, 1, 2, 2], whole=True),
    "date": Numeric(edges=[date(1999, 1, 1), date(2000, 2, 29), date(2020, 1, 1)]),
    "datetime": Numeric(edges=[datetime(1999, 1, 1), datetime(2000, 2, 29, 1), datetime(2020, 1, 1)]),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-0.5, 1.5), min_size=3, max_size=3), st.integers(0, 2**32), st.integers(1, 60))
def test_bins_keep_their_values_and_means(name: str, shares: list[float], seed: int, rows: int) -> None:
    attribute = ATTRIBUTES[name]
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, attribute.size, rows)
    ends = np.array([attribute.bin(code) for code in range(attribute.known)])
    means = ends[:, 0] + np.array(shares[: attribute.known]) * (ends[:, 1] - ends[:, 0])
    numbers = drawn_numbers(attribute, codes, rng, means=means)
    table = decode(codes.reshape(-1, 1), Domain({name: attribute}), {name: numbers})
    np.testing.assert_array_equal(attribute.encode(table[name].to_pylist()), np.minimum(codes, attribute.misfit_code))
    for code in range(attribute.known):
        inside = numbers[codes == code]
        if not len(inside):
            continue
        low, high = attribute.bin(code)
        step = 1.0 if attribute.whole or attribute.kind == "datetime" else 1e-9 * (high - low)
        mean = min(max(means[code], low), high)
        assert abs(inside.mean() - mean) <= 0.5 * step / len(inside) + step * (mean >= high - step) + 1e-9 * abs(mean)


def test_numbers_fill_their_bin() -> None:
    attribute = ATTRIBUTES["number"]
    codes = np.full(10_000, 2)
    numbers = drawn_numbers(attribute, codes, np.random.default_rng(1))
    assert np.quantile(numbers, [0.1, 0.9]) == pytest.approx([2.5 + 0.1 * 997.5, 2.5 + 0.9 * 997.5], rel=0.01)
    skewed = drawn_numbers(attribute, codes, np.random.default_rng(1), means=np.array([0.5, 2, 50.0]))
    assert skewed.mean() == pytest.approx(50)
    assert np.quantile(skewed, 0.5) == pytest.approx(2.5 + 47.5 * np.log(2), rel=0.02), "nearly exponential"
    alone = drawn_numbers(attribute, codes, np.random.default_rng(1), means=np.array([0.5, 2, 50.0]), independent=True)
    assert 0.01 < abs(alone.mean() - 50) < 3, "independent numbers have the mean on average"


def test_synthetic_tables_have_spread_numbers_of_the_columns_type() -> None:
    domain = Domain(ATTRIBUTES)
    hypothesis = DenseHypothesis(domain)
    means = {"number": np.array([0.25, 2.0, 10.0])}
    table = synthesize(hypothesis, 3000, np.random.default_rng(0), means=means)
    types = [pa.float64(), pa.float64(), pa.int64(), pa.int64(), pa.date32(), pa.timestamp("us")]
    assert [table.schema.field(name).type for name in domain] == types
    numbers = np.array([x for x in table["number"].to_pylist() if x is not None])
    for code, mean in enumerate(means["number"]):
        low, high = ATTRIBUTES["number"].bin(code)
        inside = numbers[(numbers >= low) & (numbers < high)]
        assert inside.mean() == pytest.approx(mean)
        assert len(np.unique(inside)) > 100
    again = synthesize(hypothesis, 3000, np.random.default_rng(0), means=means)
    assert again.equals(table)


BOTH = {
    "clamped": Numeric(edges=[0, 1, 2.5], nullable=True, other=True),
    "beyond": Numeric(edges=[0, 1, 2.5], nullable=True, other=True, outside="other"),
    "comma": Numeric(edges=[0, 1, 2.5], nullable=True, other=True, decimal=","),
    "whole": Numeric(edges=[0, 3, 9], whole=True, nullable=True, other=True),
    "date": Numeric(edges=[date(1999, 1, 1), date(2000, 2, 29), date(2020, 1, 1)], nullable=True, other=True),
    "formatted": Numeric(
        edges=[date(1999, 1, 1), date(2000, 2, 29), date(2020, 1, 1)], nullable=True, other=True, format="%d.%m.%Y"
    ),
    "moment": Numeric(edges=[datetime(1999, 1, 1), datetime(2000, 2, 29, 1)], nullable=True, other=True),
    "truth": Categorical([True, False], nullable=True, other=True),
    "grade": Categorical([1, 2], nullable=True, other=True),
    "text": Categorical(["u", "v"], nullable=True, other=True),
}


@pytest.mark.parametrize("name", BOTH)
def test_no_row_breaks_a_rule_about_nulls(name: str) -> None:
    """Rows with `(other)` are possible here; written as null they would not be."""
    attribute = BOTH[name]
    domain = Domain({"b": attribute, "c": Categorical(["x", "y"], other=False)}, impossible=["b IS NULL AND c = 'x'"])
    drawn = synthesize(DenseHypothesis(domain), 900, np.random.default_rng(1))
    rows = list(zip(drawn["b"].to_pylist(), drawn["c"].to_pylist(), strict=True))
    assert (None, "x") not in rows
    assert ("(other)", "x") in rows
    codes = np.stack([attribute.encode(drawn["b"].to_pylist()), domain["c"].encode(drawn["c"].to_pylist())], axis=1)
    cells = np.bincount(codes[:, 0] * 2 + codes[:, 1], minlength=domain.size).reshape(domain.shape)
    expected = 900 * DenseHypothesis(domain).probabilities()
    assert np.abs(cells - expected).max() < 2, "read back, every row has the code that it was drawn with"


@pytest.mark.parametrize("rule", ["b IS NOT NULL AND c = 'x'", "b < 1 AND c = 'x'"])
def test_numbers_stay_numbers_where_nulls_break_no_rule(rule: str) -> None:
    domain = Domain({"b": BOTH["clamped"], "c": Categorical(["x", "y"], other=False)}, impossible=[rule])
    assert synthesize(DenseHypothesis(domain), 90, np.random.default_rng(1)).schema.field("b").type == pa.float64()


def test_uneven_weights_are_measured_without_overflow() -> None:
    even, one = np.ones((50, 3)), np.ones((50, 3))
    one[:, 1] = np.concatenate([[1e300], np.zeros(49)])
    assert effective_share(even * 1e300) == pytest.approx(1.0)
    assert effective_share(one) == pytest.approx(1 / 50)
    assert effective_share(np.zeros((50, 3))) == 0.0
