"""Conditions that cut a bin and contradict each other, and bounds that hold for every table."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt

N = 300
EMPTY = [
    "age BETWEEN 55 AND 52",
    "age >= 55 AND age <= 52",
    "age > 54 AND age < 55",  # whole numbers
    "age = 53 AND age = 54",
    "(age > 55 AND k = 'a') AND age < 53",
    "y BETWEEN 1.5 AND 1.25",
    "y > 1.5 AND y <= 1.5",
    "NOT (NOT (age BETWEEN 55 AND 52))",
    "d BETWEEN DATE '2020-03-09' AND DATE '2020-03-07'",
]


def opened(neighbours: Any = "replace-one") -> rt.Session:
    generator = np.random.default_rng(5)
    days = np.datetime64("2020-01-01") + generator.integers(0, 366, N)
    rows = {
        "age": generator.integers(0, 100, N),
        "y": generator.uniform(0, 10, N),
        "d": days.astype(object),
        "z": generator.integers(0, 20, N),
        "k": generator.choice(["a", "b"], N),
    }
    edges = [np.datetime64(f"2020-{month:02}-01").astype(object) for month in (1, 4, 7, 10)]
    domain = rt.Domain(
        age=rt.Numeric(edges=range(0, 101, 10), whole=True, nullable=True),
        y=rt.Numeric(edges=[0, 1, 5, 10], other=False),
        d=rt.Numeric(edges=[*edges, np.datetime64("2021-01-01").astype(object)], other=False),
        k=rt.Categorical(["a", "b"], other=False),
        z=rt.Numeric(edges=[0, 20], other=False),
    )
    table = rt.Table.of(pa.table(rows), domain, neighbours=neighbours)
    return rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), warm_start=0)


@pytest.mark.parametrize("where", EMPTY)
def test_an_empty_range_holds_no_record(where: str) -> None:
    session = opened()
    found = session.ask(f"SELECT COUNT(*), SUM(y), COUNT(*) FILTER (WHERE k = 'a') FROM t WHERE {where}")
    assert found.rows == ((0, 0, 0),)
    assert found.errors == ((0.0, 0.0, 0.0),)
    assert found.certified
    assert found.origin == "public"
    inside = session.ask(f"SELECT COUNT(*) FILTER (WHERE {where}) FROM t WHERE age > 41")
    assert (inside.rows, inside.errors) == (((0,),), ((0.0,),))


def test_the_negation_of_an_empty_range_holds_all_known_numbers() -> None:
    session = opened()
    found = session.ask("SELECT COUNT(*) FROM t WHERE age NOT BETWEEN 55 AND 52").rows
    assert found == session.ask("SELECT COUNT(*) FROM t WHERE age IS NOT NULL").rows


@pytest.mark.parametrize(
    "where", ["age BETWEEN 52 AND 55", "age >= 55 AND age <= 55", "age > 54 OR age < 53", "y > 1.5"]
)
def test_a_range_that_is_not_empty_stays_open(where: str) -> None:
    found: Any = opened().ask(f"SELECT COUNT(*) FROM t WHERE {where}").rows
    assert found[0][0] > 0


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_bound_that_holds_for_every_table_states_its_confidence(neighbours: str) -> None:
    session = opened(neighbours)
    found = session.ask("SELECT SUM(CASE WHEN k = 'a' THEN z ELSE 0 END) FROM t WHERE z >= 4")
    assert found.errors[0][0] is not None
    assert found.confidence == (1.0 if neighbours == "replace-one" else pytest.approx(1, abs=1e-5))
    assert found.certified


def test_a_private_number_of_records_is_measured() -> None:
    assert opened().ask("SELECT COUNT(*) FROM t").origin == "public"
    found = opened("add-remove").ask("SELECT COUNT(*) FROM t")
    assert found.errors[0][0]
    assert found.origin == "measured"
