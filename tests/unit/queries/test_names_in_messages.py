"""Column names in messages: letters of every script stay readable; canonical texts stay as they were paid for."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import reticent as rt
from reticent.errors import QueryError
from reticent.queries.literals import name_text, readable_name, readable_text

NAME = "Umsatz (€)"


@pytest.mark.parametrize("name", ["age", "visit time", 'a "b"'])
def test_ascii_names_are_written_as_in_canonical_text(name: str) -> None:
    assert readable_name(name) == name_text(name)


def test_other_letters_are_not_escaped_in_messages() -> None:
    assert readable_name(NAME) == f'"{NAME}"'
    with pytest.raises(QueryError, match="€"):
        rt.col(NAME).isin([])
    assert name_text(NAME) == '"Umsatz (\\u20ac)"', "paid questions are found again by this text"


def test_the_basis_of_an_average_names_its_column() -> None:
    domain = rt.Domain({NAME: rt.Numeric(edges=[0, 10, 100])})
    table = rt.Table.of(pa.table({NAME: [5.0, 50.0] * 200}), domain, name="kunden")
    release = rt.release(table, rt.marginals(domain, 1), rt.Budget(epsilon=1, delta=1e-9))
    assert f'"{NAME}" clipped to [0, 100]' in release.ask(f'SELECT AVG("{NAME}") FROM kunden').basis


def test_queries_are_shown_with_their_letters_and_paid_under_their_text() -> None:
    query = rt.count((rt.col("Ünï4") == "日本 😀") & (rt.col("a") == "b"))
    assert repr(query) == query.wording == 'count(("Ünï4" == "日本 😀" and a == "b"))'
    assert query.text == 'count(("\\u00dcn\\u00ef4" == "\\u65e5\\u672c \\ud83d\\ude00" and a == "b"))'


@pytest.mark.parametrize("name", ["a\\u00dc", "back\\\\slash", 'quote"', "line\nü", "\x7f", "\u200b", "\u202e"])
def test_only_printable_letters_are_unescaped(name: str) -> None:
    shown = readable_text(name_text(name))
    assert shown.isprintable()
    assert json.loads(shown) == name
