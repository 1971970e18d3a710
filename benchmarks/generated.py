"""Generated tables of any length: numbers, integers, texts and dates in turn, and DuckDB's own way to group them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import duckdb

from reticent.domain import Attribute, Categorical, Domain, Integer, Numeric

KEPT = "RETICENT_SCALE"
"""Names a folder in which generated tables stay and are found again: a hundred million rows take a minute."""

PROFILES = 1 << 20
"""Rows repeat this many kinds of records, the first ones more often, as the rows of real tables do."""

_KINDS: tuple[tuple[Attribute, str], ...] = (
    (Numeric(lower=0, upper=100, bins=8), "{u} * 100"),
    (Integer(6), "CAST(floor({u} * {u} * 6) AS INTEGER)"),
    (Categorical([f"kind {i}" for i in range(5)]), "'kind ' || CAST(floor({u} * 5) AS INTEGER)"),
    (
        Numeric(edges=[date(year, 1, 1) for year in range(1990, 1996)]),
        "DATE '1990-01-01' + CAST({u} * 1800 AS INTEGER)",
    ),
)


def domain_of(columns: int) -> Domain:
    """Numbers, integers, texts and dates in turn."""
    return Domain({f"c{i}": _KINDS[i % len(_KINDS)][0] for i in range(columns)})


def rows_sql(rows: int, columns: int) -> str:
    """A SELECT whose columns follow from the row's profile, and that from the row's number, which is the seed."""
    profile = f"floor(pow(hash(range) / 18446744073709551616.0, 2) * {PROFILES})"
    listed = [
        _KINDS[i % len(_KINDS)][1].format(u=f"(hash(profile * 1009 + {i}) / 18446744073709551616.0)") + f" AS c{i}"
        for i in range(columns)
    ]
    return f"SELECT {', '.join(listed)} FROM (SELECT CAST({profile} AS UBIGINT) AS profile FROM range({rows}))"


def generate(path: Path, rows: int, columns: int) -> None:
    """Write Parquet, the same rows whenever it is called."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false; SET preserve_insertion_order = false")
    connection.execute(f"COPY ({rows_sql(rows, columns)}) TO '{path}' (FORMAT parquet)")
    connection.close()


@contextmanager
def generated(folder: Path, rows: int, columns: int) -> Iterator[Path]:
    """A table for a while, removed by whoever made it; where RETICENT_SCALE names a folder it is kept there."""
    keep = os.environ.get(KEPT)
    path = Path(keep or folder) / f"rows-{rows}-{columns}.parquet"
    made = not path.exists()
    if made:
        unfinished = path.with_suffix(".part")
        generate(unfinished, rows, columns)
        unfinished.rename(path)
    try:
        yield path
    finally:
        if made and not keep:
            path.unlink()


def _binned(domain: Domain, name: str) -> str:
    """What an analyst would write for DuckDB: a searched CASE per column."""
    attribute = domain[name]
    if isinstance(attribute, Integer):
        return name
    if isinstance(attribute, Categorical):
        cases = [f"WHEN '{value}' THEN {code}" for code, value in enumerate(attribute.values)]
        return f"CASE {name} {' '.join(cases)} ELSE {attribute.misfit_code} END"
    assert isinstance(attribute, Numeric)
    edges = [f"DATE '{e}'" if attribute.kind == "date" else f"CAST({e} AS DOUBLE)" for e in attribute.edges[1:-1]]
    cases = [f"WHEN {name} < {edge} THEN {code}" for code, edge in enumerate(edges)]
    return f"CASE WHEN {name} IS NULL THEN {attribute.missing_code} {' '.join(cases)} ELSE {attribute.known - 1} END"


def plain_group_by(path: Path, names: Sequence[str], domain: Domain) -> None:
    """DuckDB's own way to the distinct records of some columns, with as many threads as a Table's read has."""
    binned = ", ".join(f"{_binned(domain, name)} AS {name}" for name in names)
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    statement = f"SELECT {', '.join(names)}, COUNT(*) FROM (SELECT {binned} FROM '{path}') GROUP BY ALL"
    connection.sql(statement).to_arrow_table()
    connection.close()
