"""Scores that other tools print, against their definitions computed from the rows themselves."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.custodian.scores import score

DOMAIN = rt.Domain(
    age=rt.Numeric(edges=[0, 20, 40, 60, 80, 100], other=False),
    income=rt.Numeric(edges=[0, 10, 20, 50, 100], nullable=True),
    sex=rt.Categorical(["f", "m"], other=False),
    ill=rt.Categorical(["no", "yes"], other=False),
)


def people(seed: int, rows: int, tied: float) -> pa.Table:
    random = np.random.default_rng(seed)
    age = random.integers(0, 100, rows)
    income = np.where(random.random(rows) < 0.1, None, random.integers(0, 100, rows).astype(object))
    ill = np.where(random.random(rows) < tied, age >= 60, random.random(rows) < 0.3)
    columns = {"age": age, "income": income.tolist(), "sex": random.choice(["f", "m"], rows)}
    return pa.table(columns | {"ill": np.where(ill, "yes", "no")})


@pytest.fixture(scope="module")
def truth() -> pa.Table:
    return people(1, 700, 0.8)


@pytest.fixture(scope="module")
def made() -> pa.Table:
    return people(2, 500, 0.4)


def shares(rows: pa.Table, names: tuple[str, ...]) -> np.ndarray:
    codes = [DOMAIN[name].encode(rows[name].to_pylist()) for name in names]
    cells = np.zeros([DOMAIN[name].size for name in names])
    np.add.at(cells, tuple(codes), 1.0)
    return cells / rows.num_rows


def numbers(rows: pa.Table, name: str) -> np.ndarray:
    """The middles of the bins of what is known."""
    codes = DOMAIN[name].encode(rows[name].to_pylist())
    middles = (DOMAIN[name].cuts[:-1] + DOMAIN[name].cuts[1:]) / 2
    return np.array([middles[code] if code < len(middles) else np.nan for code in codes])


def test_the_same_rows_have_full_scores(truth: pa.Table) -> None:
    found = score(truth, rt.Table.of(truth, DOMAIN))
    assert found.quality == found.column_shapes == pytest.approx(1)
    assert found.k_marginal == pytest.approx(1000)
    for one in found.predictions:
        assert one.published == pytest.approx(one.rows)
        assert one.majority <= one.rows <= 1


def test_scores_are_those_of_the_definitions(truth: pa.Table, made: pa.Table) -> None:
    found = score(made, rt.Table.of(truth, DOMAIN))
    shapes, trends = [], []
    for name in DOMAIN.names:
        if name in ("sex", "ill"):
            shapes.append(1 - np.abs(shares(made, (name,)) - shares(truth, (name,))).sum() / 2)
            continue
        here, there = (numbers(rows, name) for rows in (made, truth))
        here, there = here[~np.isnan(here)], there[~np.isnan(there)]
        gaps = [abs((here <= x).mean() - (there <= x).mean()) for x in np.unique(np.concatenate([here, there]))]
        shapes.append(1 - max(gaps))
    for pair in combinations(DOMAIN.names, 2):
        if pair == ("age", "income"):
            sides = [[numbers(rows, name) for name in pair] for rows in (made, truth)]
            known = [np.array(side)[:, ~np.isnan(side[0]) & ~np.isnan(side[1])] for side in sides]
            here, there = (np.corrcoef(side)[0, 1] for side in known)
            trends.append(1 - abs(here - there) / 2)
        else:
            trends.append(1 - np.abs(shares(made, pair) - shares(truth, pair)).sum() / 2)
    triples = list(combinations(DOMAIN.names, 3))
    distances = [np.abs(shares(made, names) - shares(truth, names)).sum() for names in triples]
    assert found.column_shapes == pytest.approx(np.mean(shapes))
    assert found.pair_trends == pytest.approx(np.mean(trends))
    assert found.quality == pytest.approx((np.mean(shapes) + np.mean(trends)) / 2)
    assert found.k_marginal == pytest.approx(1000 * (2 - np.mean(distances)) / 2)
    assert (found.order, found.sets) == (3, 4)


def test_a_decision_table_is_trained_on_what_is_published_and_tested_on_the_rows(
    truth: pa.Table, made: pa.Table
) -> None:
    found = {one.label: one for one in score(made, rt.Table.of(truth, DOMAIN)).predictions}
    one = found["ill"]
    assert one.predictors[0] == "age"
    order = (*one.predictors, "ill")
    learned = shares(made, order).argmax(axis=-1)
    keys = [DOMAIN[name].encode(truth[name].to_pylist()) for name in order]
    right = (learned[tuple(keys[:-1])] == keys[-1]).mean()
    assert one.published == pytest.approx(right)
    assert one.majority == pytest.approx(shares(truth, ("ill",)).max())
    assert one.published <= one.rows


def test_many_columns_and_one_column() -> None:
    wide = rt.Domain({f"c{i}": 2 for i in range(12)})
    random = np.random.default_rng(3)
    rows = pa.table({name: random.integers(0, 2, 200) for name in wide.names})
    found = score(rows, rt.Table.of(rows, wide))
    assert found.sets == 100
    assert len(found.predictions) == 8
    single = rt.Domain(a=3)
    narrow = pa.table({"a": [0, 1, 2, 2]})
    alone = score(narrow, rt.Table.of(narrow, single))
    assert alone.pair_trends is None
    assert alone.quality == 1
    assert alone.predictions == ()
    with pytest.raises(rt.QueryError, match="no rows"):
        score(narrow, rt.Table.of(narrow.slice(0, 0), single, neighbours="add-remove"))
