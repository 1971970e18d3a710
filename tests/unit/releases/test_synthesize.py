"""Synthetic tables: decoded through the domain, typed for Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from reticent.domain import Categorical, Domain, Numeric
from reticent.hypotheses import DenseHypothesis
from reticent.releases.synthesize import decode, synthesize

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
