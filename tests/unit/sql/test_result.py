"""The result table: honest in print, lossless in JSON, one error column per aggregate in Arrow."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.sql.sql_table import ask

from reticent.errors import QueryError
from reticent.sql import ResultTable

TABLE = ResultTable(
    sql="SELECT ...",
    columns=("place", "n", "n_error", "mean"),
    aggregates=(False, True, False, True),
    rows=(("north", 1234.5, 3, 0.25), (None, 12.0, 4, None), ("<b>", 0.0, 5, 1.5)),
    errors=((None, 20.0, None, 0.001), (None, 3.25, None, None), (None, 0.0, None, None)),
    confidence=0.95,
    certified=False,
    origin="certificate + measured",
    price=0.125,
)


def test_the_text_shows_errors_and_the_guarantee() -> None:
    head, line, *rows, footer = repr(TABLE).splitlines()
    assert head.split() == ["place", "n", "n_error", "mean"]
    assert set(line) == {"-", " "}
    assert [" ".join(row.split()) for row in rows] == [
        "north 1,234 ± 20 3 0.2500 ± 0.0010",
        "NULL 12.0 ± 3.2 4 NULL",
        "<b> 0 ± 0 5 1.50000",
    ]
    assert footer.startswith("(3 rows; all bounds hold together with probability 0.95; values without ±")
    assert footer.endswith("certificate + measured; price 0.125)")


def test_long_tables_are_cut_in_print_only() -> None:
    table = ask("SELECT age, region, sex, COUNT(*) FROM t GROUP BY age, region, sex")
    assert len(table) == 72
    assert "... 32 more rows" in repr(table)
    assert "(32 more rows not shown)" in table._repr_html_()
    assert table.to_arrow().num_rows == 72


def test_json_is_lossless() -> None:
    again = ResultTable.from_dict(json.loads(json.dumps(TABLE.to_dict(), allow_nan=False)))
    assert again.to_dict() == TABLE.to_dict()
    assert repr(again) == repr(TABLE)
    assert list(again) == list(TABLE)


def test_each_aggregate_has_its_error_column() -> None:
    table = TABLE.to_arrow()
    assert table.column_names == ["place", "n", "n_error_", "n_error", "mean", "mean_error"]
    assert table["n_error_"].to_pylist() == [20.0, 3.25, 0.0]
    assert table["mean"].to_pylist() == [0.25, None, 1.5]
    assert TABLE.to_pandas().shape == (3, 6)


def test_numbers_beside_other_become_text_in_arrow() -> None:
    mixed = ResultTable(
        "", ("k", "n"), (False, True), ((1, 1.0), ("(other)", 2.0)), ((None, None),) * 2, None, False, "", 0.0
    )
    assert mixed.to_arrow()["k"].to_pylist() == ["1", "(other)"]


def test_html_escapes_what_the_domain_says() -> None:
    page = TABLE._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "measured for this question with fresh noise" in page


@pytest.mark.parametrize(
    ("rows", "confidence", "expected"),
    [((), 0.9, "no group is left"), (((1.0,),), None, "uncertified")],
)
def test_the_guarantee_claims_nothing_without_bounds(rows, confidence, expected) -> None:
    empty = ResultTable("", ("n",), (True,), rows, tuple((None,) for _ in rows), confidence, False, "", 0.0)
    assert empty.guarantee == expected


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(QueryError, match="one value and one error per row and column"):
        ResultTable("", ("a", "b"), (True, True), ((1.0,),), ((None,),), None, False, "", 0.0)


def test_plots_have_a_panel_per_aggregate() -> None:
    pytest.importorskip("matplotlib")
    assert [axes.get_ylabel() for axes in TABLE.plot().axes[1::2]] == ["n", "mean"], "each with its scale"


def test_texts_and_dates_have_no_panel() -> None:
    """The median date of each group was drawn as 0 plus or minus its bound in days."""
    pytest.importorskip("matplotlib")
    rows = (("a", "2024-01-01", 5.0, "many"), ("b", "2025-01-01", 3.0, "few"))
    columns, aggregates = ("k", "when", "n", "size"), (False, True, True, True)
    table = ResultTable("", columns, aggregates, rows, ((None, 90.0, 1.0, 0.0),) * 2, 0.95, True, "cache", 0.0)
    assert [axes.get_ylabel() for axes in table.plot().axes] == ["n"]
    dates = ResultTable(
        "", columns[:2], aggregates[:2], tuple(row[:2] for row in rows), ((None, 90.0),) * 2, 0.95, True, "", 0
    )
    with pytest.raises(QueryError, match="needs a number"):
        dates.plot()


def test_an_unnamed_list_is_called_as_it_was_written() -> None:
    found = ask("SELECT STRING_AGG(DISTINCT region, 'LISTAGG(') FROM t")
    assert found.columns == ("string_agg(distinct region, 'LISTAGG(')",)


def test_wide_letters_take_two_places() -> None:
    rows = (("精神科", 1.0), ("Cafe\u0301", 22.0), ("abcdef", 333.0))
    lines = repr(ResultTable("", ("k", "n"), (False, True), rows, ((None, None),) * 3, None, False, "", 0.0)).split(
        "\n"
    )
    assert lines[:5] == ["k         n", "------  ---", "精神科    1", "Cafe\u0301     22", "abcdef  333"]


def test_two_group_columns_are_a_heat_map() -> None:
    pytest.importorskip("matplotlib")
    keys = [("f", True), ("f", None), ("m", True)]
    rows = tuple((*key, float(place)) for place, key in enumerate(keys))
    table = ResultTable(
        "", ("sex", "smokes", "n"), (False, False, True), rows, ((None, None, 1.0),) * 3, 0.9, True, "", 0
    )
    heat, _scale = table.plot().axes
    assert heat.images[0].get_array().tolist() == [[0.0, 1.0], [2.0, None]]
    assert [text.get_text() for text in heat.get_xticklabels()] == ["true", "NULL"]
    assert table.plot()._repr_png_().startswith(b"\x89PNG")


def test_the_footer_says_each_thing_once_and_nothing_beside_exact_counts() -> None:
    public = replace(TABLE, columns=("a",), aggregates=(False,), rows=((1,),), errors=((None,),), origin="public")
    assert repr(public).endswith("(1 row; public; price 0.125)")
    exact = replace(public, aggregates=(True,), errors=((0.0,),), typical=((0.0,),))
    assert "19 of 20" not in repr(exact)
    assert "19 of 20" in repr(replace(exact, errors=((2.0,),), typical=((1.0,),)))
