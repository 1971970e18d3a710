"""Tables and queries of the DualQuery suite, and the answers anybody could give without an algorithm.

True answers are computed here, by the custodian, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyarrow import csv

from reticent.domain import Domain
from reticent.hypotheses.support import RecordsHypothesis
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.conjunctions import Conjunctions

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
WEIGHT_STEPS = 2**40
"""Weights of released records as whole numbers, for the kernel's exact counting."""
FACTORS, PULL = 4, 1.5
"""Of the generated table: tastes that columns share, and how strongly they move a column's odds."""


def read(folder: str, name: str, domain_name: str, dropped: Sequence[str] = ()) -> Table:
    """A public table of codes, its distinct records weighted."""
    sizes = json.loads((SHARED / folder / f"{domain_name}-domain.json").read_text())
    columns = csv.read_csv(SHARED / folder / f"{name}.csv.gz")
    names = [column for column in columns.column_names if column not in dropped]
    codes = np.stack([columns[column].to_numpy() for column in names], axis=1)
    rows, weights = np.unique(codes, axis=0, return_counts=True)
    domain = Domain({column: sizes[column] for column in names})
    source = Records.of_codes(domain, dict(zip(names, rows.T, strict=True)), weights)
    return Table(source, domain, records=len(codes), name=name)


def one_hot(table: Table) -> Table:
    """One binary attribute for each value of each attribute, as the 2014 paper counts them."""
    source, domain = table._source, table.domain
    assert isinstance(source, Records)
    planes = [
        (source._codes(name, slice(None)) == code).astype(np.uint8)
        for name in domain.names
        for code in range(domain[name].size)
    ]
    binary = Domain({f"{name}={code}": 2 for name in domain.names for code in range(domain[name].size)})
    return Table(Records(binary, np.stack(planes), source._weights), binary, records=table.records, name=table.name)


def published_queries(table: Table, binary: Table, count: int, generator: np.random.Generator) -> Conjunctions:
    """Three literals `attribute == value` or `attribute != value`, even odds, over three attributes of the table.

    The law of the paper's own code, except that its three attributes may coincide.
    """
    sizes = np.array(table.domain.shape)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rows = np.empty((0, 6), dtype=np.int32)
    while len(rows) < count:
        attributes = generator.integers(0, len(sizes), size=(2 * (count - len(rows)) + 64, 3))
        attributes = np.sort(attributes, axis=1)
        attributes = attributes[(np.diff(attributes, axis=1) > 0).all(axis=1)]
        columns = first[attributes] + generator.integers(0, sizes[attributes])
        drawn = np.hstack([columns, generator.integers(0, 2, size=columns.shape)]).astype(np.int32)
        _, kept = np.unique(np.concatenate([rows, drawn]), axis=0, return_index=True)
        rows = np.concatenate([rows, drawn])[np.sort(kept)]
    return Conjunctions(binary.domain, rows[:count, :3], rows[:count, 3:])


def tastes(rows: int, columns: int, generator: np.random.Generator) -> Table:
    """A generated binary table, Netflix-sized: columns of very different density that share a few tastes."""
    density = np.clip(generator.beta(0.4, 4.0, size=columns), 1e-4, 0.99)
    base = np.log(density / (1 - density))
    people = generator.normal(size=(rows, FACTORS))
    loadings = generator.normal(size=(columns, FACTORS)) / np.sqrt(FACTORS)
    planes = np.empty((columns, rows), dtype=np.uint8)
    for column in range(columns):
        odds = base[column] + PULL * (people @ loadings[column])
        planes[column] = generator.random(rows) < 1 / (1 + np.exp(-odds))
    domain = Domain({f"c{column}": 2 for column in range(columns)})
    return Table(Records(domain, planes, np.ones(rows, dtype=np.int64)), domain, records=rows, name="tastes")


def truth(table: Table, queries: Conjunctions) -> np.ndarray:
    return table._source.conjunctions(queries) / (table.records or 1)


def released(hypothesis: RecordsHypothesis, queries: Conjunctions) -> np.ndarray:
    """What the released records answer."""
    weights = np.rint(hypothesis.weights / hypothesis.weights.sum() * WEIGHT_STEPS).astype(np.int64)
    columns = dict(zip(hypothesis.domain.names, hypothesis.codes.T, strict=True))
    return Records.of_codes(hypothesis.domain, columns, weights).conjunctions(queries) / WEIGHT_STEPS


def errors(exact: np.ndarray, answers: np.ndarray | float) -> dict[str, float]:
    """Largest and mean error."""
    error = np.abs(exact - answers)
    return {"max": float(error.max()), "mean": float(error.mean())}


def trivial(table: Table, queries: Conjunctions, exact: np.ndarray) -> dict[str, dict[str, float]]:
    """Answers without any algorithm; the product of the exact one-way marginals is not private."""
    records = table.records or 1
    share = np.array([table._source.marginal((name,))[1] / records for name in table.domain.names])
    present = queries.attributes >= 0
    literal = np.where(queries.codes == 1, share[queries.attributes], 1 - share[queries.attributes])
    return {
        "zeros": errors(exact, 0.0),
        "uniform": errors(exact, 0.5 ** present.sum(axis=1)),
        "product of exact one-ways (not private)": errors(exact, np.where(present, literal, 1.0).prod(axis=1)),
    }
