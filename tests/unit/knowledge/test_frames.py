"""Results in data frames: the same names, errors, missing values and truth values whichever library reads them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow.interchange import from_dataframe

import reticent as rt
from reticent.knowledge.answer import Answer

DOMAIN = rt.Domain(
    smokes=rt.Categorical([True, False], nullable=True),
    text=rt.Categorical(["true", "false"], nullable=True),
    grade=rt.Categorical([1, 2, 3], other=True),
    value=rt.Numeric(edges=[0, 10, 20], nullable=True),
)
ROWS = pa.table(
    {
        "smokes": [True, False, None, True] * 200,
        "text": ["true", None, "false", "true"] * 200,
        "grade": [1, 2, 3, 9] * 200,
        "value": [5.0, None, 15.0, 15.0] * 200,
    }
)


@pytest.fixture(scope="module")
def release() -> rt.Release:
    table = rt.Table.of(ROWS, DOMAIN)
    return rt.release(table, rt.marginals(DOMAIN, 1), rt.Budget(epsilon=5, delta=1e-6))


def frames(result: Any) -> list[pa.Table]:
    """What four readers make of a result."""
    return [
        pa.table(result),
        pl.DataFrame(result).to_arrow(),
        from_dataframe(result.__dataframe__()),
        pa.Table.from_pandas(pd.DataFrame(result), preserve_index=False),
    ]


@pytest.mark.parametrize("name", ["smokes", "text"])
def test_every_reader_sees_the_same(release: rt.Release, name: str) -> None:
    for result in (
        release.ask(rt.marginal(name)),
        release.ask(f"SELECT {name}, COUNT(*) AS n FROM t GROUP BY {name}"),
    ):
        wanted = result.to_arrow().to_pylist()
        assert None in [row[name] for row in wanted]
        assert any(column.endswith("error") for column in result.to_arrow().column_names)
        for frame in frames(result):
            assert frame.to_pylist() == wanted


def test_keys_have_the_types_of_synthetic_rows(release: rt.Release) -> None:
    rows = release.synthesize(50, seed=1)
    assert pa.table(pl.DataFrame(rows).to_arrow()).column_names == list(DOMAIN.names)
    for name in ("smokes", "text"):
        kind = rows.schema.field(name).type
        assert release.ask(rt.marginal(name)).to_arrow().schema.field(name).type == kind
        assert release.ask(f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}").to_arrow().schema.field(name).type == kind


def test_other_makes_a_column_text(release: rt.Release) -> None:
    for result in (release.ask(rt.marginal("grade")), release.ask("SELECT grade, COUNT(*) FROM t GROUP BY grade")):
        assert result.to_arrow()["grade"].to_pylist() == ["1", "2", "3", "(other)"]


def test_a_column_called_value_is_kept(release: rt.Release) -> None:
    answer = release.ask(rt.marginal("value"))
    assert answer.to_arrow().column_names[:4] == ["value", "value_", "count", "error"]
    assert answer.to_arrow()["value"].to_pylist() == ["[0, 10)", "[10, 20]", None]


def test_an_answer_keeps_its_keys_over_the_wire(release: rt.Release) -> None:
    for name in DOMAIN:
        answer = release.ask(rt.marginal(name, "grade") if name != "grade" else rt.marginal(name))
        again = Answer.from_dict(json.loads(json.dumps(answer.to_dict())))
        assert again == answer
        assert again.to_arrow() == answer.to_arrow()


def test_a_single_number_is_a_frame_of_one_row(release: rt.Release) -> None:
    answer = release.ask(rt.count(rt.col("smokes") == True))  # noqa: E712
    assert list(pd.DataFrame(answer).columns)[:3] == ["value", "count", "error"]
    assert len(pl.DataFrame(answer)) == 1


def test_errors_that_nobody_states_stay_numbers() -> None:
    table = rt.Table.of(ROWS, DOMAIN)
    with rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-6), warm_start=0) as session:
        answers = session.ask(rt.marginal("smokes")), session.ask("SELECT smokes, COUNT(*) n FROM t GROUP BY smokes")
    for answer, name in zip(answers, ("error", "n_error"), strict=True):
        assert answer.to_arrow()[name].null_count == len(answer.to_arrow())
        assert pd.DataFrame(answer)[name].dtype == answer.to_pandas()[name].dtype == "float64"


def test_html_says_how_many_rows_it_leaves_out() -> None:
    domain = rt.Domain(code=rt.Integer(50))
    table = rt.Table.of(pa.table({"code": list(range(50)) * 4}), domain)
    answer = rt.release(table, rt.marginals(domain, 1), rt.Budget(epsilon=1, delta=1e-6)).ask(rt.marginal("code"))
    assert "30 more rows not shown" in answer._repr_html_()
