"""Small tables for all SQL tests: exact histograms as published, decoded rows in DuckDB, and raw rows."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from tests.published import Published

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.domain.values import date_at, datetime_at
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.mechanisms.base import Gaussian
from reticent.knowledge.certificates import Certificate
from reticent.sql import ResultTable, run
from reticent.sql.statement import compile_sql
from reticent.sql.vectors import Bins, hides_null, shown_values

ROWS = 4000
DOMAIN = Domain(
    age=Numeric(edges=[17, 25, 35, 45, 55, 65, 90], whole=True, other=False),
    sex=Categorical(["Female", "Male"], other=False),
    region=Categorical(["north", "south", "east", "north-east"], nullable=True, other=True),
    income=Numeric(edges=[0, 10, 20, 50, 100], nullable=True),
    smoker=Categorical([True, False], nullable=True),
    children=Integer(4),
    visit=Numeric(edges=[datetime.date(2024, month, 1) for month in (1, 4, 7, 10)], other=False),
)
DATES = Domain(
    day=Numeric(edges=[datetime.date(2024, 2, day) for day in (*range(20, 30), 29)], nullable=True),
    month=Numeric(
        edges=[
            *(datetime.date(2023 + number // 12, number % 12 + 1, 1) for number in range(10, 16)),
            datetime.date(2024, 4, 30),
        ],
        other=False,
    ),
    stamp=Numeric(edges=[datetime.datetime(2024, 1, 1, hour) for hour in (0, 6, 12, 18)], other=False),
    kind=Categorical(["a", "b"], other=False),
)  # fmt: skip
TRIPS = Domain(
    payment_type=Categorical(
        ["Cash", "Credit Card", "Mobile", "Prcard", "No Charge", "Unknown", "Dispute"], nullable=True, other=False
    ),
    airport=Categorical([True, False], other=False),
    shift=Integer(21),
    pickup_area=Integer(3),
    fare=Numeric(edges=[0, 10, 20, 30, 40, 50, 60], other=False),
    tips=Numeric(edges=[0, 2, 5, 20], nullable=True, other=False),
    trip_total=Numeric(edges=[0, 50, 150], other=False),
    trip_miles=Numeric(edges=[0, 2, 40], other=False),
    trip_seconds=Numeric(edges=[0, 300, 7200], whole=True, other=False),
    pickup_date=Numeric(
        edges=[*(datetime.date(2021, month, 1) for month in range(1, 13)), datetime.date(2021, 12, 31)], other=False
    ),
)
"""Like the table of ../shared/data/sql/analysts.sql, with coarser bins."""
ORDERS = Domain(
    {
        "Order Date": Numeric(
            edges=[
                *(datetime.date(2022 + number // 4, 3 * (number % 4) + 1, 1) for number in range(6)),
                datetime.date(2023, 7, 1),
            ],
            nullable=True,
            other=False,
        ),
        "Customer Segment": Categorical(["Consumer", "Corporate", "Home Office"], other=False),
        "Unit Price": Numeric(edges=[0, 2.5, 5, 10, 25, 100], other=False),
        "qty": Integer(6),
        "profit": Numeric(edges=[-200, -50, 0, 50, 200], nullable=True, other=False),
        "is_gift": Categorical([True, False], nullable=True, other=False),
        "group": Categorical(["a", "B", "ß ok", "it's"], nullable=True, other=False),
        "shipped_at": Numeric(
            edges=[*(datetime.datetime(2023, 1, 1, hour) for hour in (0, 6, 12, 18)), datetime.datetime(2023, 1, 2)],
            other=False,
        ),
    }
)
"""Names with spaces and capitals, a keyword as a name, negative numbers, quotes in texts, times of day."""

STAYS = Domain(
    ward=Categorical(["Cardiology", "Surgery", "Pediatrics", "Emergency", "ICU"], nullable=True, other=False),
    sex=Categorical(["F", "M", "X"], other=False),
    age=Numeric(edges=[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 110], whole=True, other=False),
    los=Integer(8),
    cost=Numeric(edges=[0, 500, 1000, 2500, 5000, 10000, 50000], nullable=True, other=False),
    emergency=Categorical([True, False], other=False),
    readmitted=Categorical([True, False], nullable=True, other=False),
    admitted=Numeric(
        edges=[*(datetime.date(2023, month, 1) for month in range(1, 13)), datetime.date(2023, 12, 31)], other=False
    ),
)
"""Stays in a hospital."""
STAFF = Domain(
    {
        "dept": Categorical(["Sales", "Engineering", "HR", "Finance"], nullable=True, other=True),
        "Grade": Categorical(["A1", "A2", "B1", "B2", "C1"], other=False),
        "gender": Categorical(["female", "male"], nullable=True, other=False),
        "salary": Numeric(edges=[0, 20000, 30000, 40000, 50000, 75000, 100000], other=False),
        "bonus": Numeric(edges=[0, 1000, 5000, 20000], nullable=True, other=False),
        "hired": Numeric(
            edges=[
                *(datetime.date(2020 + number // 4, 3 * (number % 4) + 1, 1) for number in range(12)),
                datetime.date(2022, 12, 31),
            ],
            other=False,
        ),
        "remote": Categorical([True, False], other=False),
        "Full Time": Categorical([True, False], nullable=True, other=False),
        "score": Integer(5),
    }
)
"""Those who work for a company."""


@dataclass(frozen=True, eq=False)
class Exact:
    """Seeded records of a domain, uneven and dependent, known exactly."""

    domain: Domain
    seed: int
    name: str = "t"
    """Of the table in statements."""
    records: int = ROWS
    evenness: float = 4.0
    """Of the codes of a column: below 1 most of them have hardly a record."""
    related: float = 0.0
    """The share of records in which a column follows the one before it."""

    @cached_property
    def codes(self) -> np.ndarray:
        generator = np.random.default_rng(self.seed)
        shape = self.domain.shape
        weights = [np.full(size, self.evenness) for size in shape]
        columns = [generator.choice(len(one), self.records, p=generator.dirichlet(one)) for one in weights]
        if "income" in self.domain.names:
            columns[3] = np.where(generator.random(self.records) < 0.5, columns[3], np.minimum(columns[0], 4))
        for place in range(1, len(shape) if self.related else 0):
            follows = generator.random(self.records) < self.related
            columns[place] = np.where(follows, columns[place - 1] * shape[place] // shape[place - 1], columns[place])
        return np.stack(columns, axis=1)

    @cached_property
    def weights(self) -> np.ndarray:
        found = np.zeros(self.domain.shape)
        np.add.at(found, tuple(self.codes.T), 1.0)
        return found

    @cached_property
    def view(self) -> Published:
        """A release's view whose hypothesis is the exact histogram; there is no switch that turns noise off."""
        return Published.of(Snapshot(DenseHypothesis(self.domain, self.weights)), float(self.records))

    def blurred(self, amount: float, seed: int, *, records_error: float = 0.0, column: str = "") -> Published:
        """A wrong hypothesis, with a true bound on its error for every predicate, and a number of records that is
        wrong by as much as it may be.

        If a column is named, all of the hypothesis' error is along it: then the bounds of its own counts are tight.
        """
        generator = np.random.default_rng(seed)
        truth = self.weights / self.weights.sum()
        stray = (generator.random(self.domain.shape) < 0.02) * (0.0 if column else 1e-6)
        shape = [
            size if column in ("", name) else 1 for name, size in zip(self.domain.names, self.domain.shape, strict=True)
        ]
        guess = (truth + stray) * np.exp(generator.normal(0.0, amount, shape))
        guess /= guess.sum()
        records = self.records / (1 + records_error)
        missed = truth * (1 + records_error) - guess
        worst = float(max(missed[missed > 0].sum(), -missed[missed < 0].sum()))
        noise = Gaussian(1e-9).describe()
        audited = Certificate(
            "predicates", (self.domain.names,), "s", worst, noise, 0.0, records, records_error, 1, 0.95
        )
        return Published.of(Snapshot(DenseHypothesis(self.domain, guess)), records, (audited,))

    @cached_property
    def decoded(self) -> duckdb.DuckDBPyConnection:
        """The decoded table under its name."""
        columns: dict[str, Any] = {}
        for place, name in enumerate(self.domain.names):
            values = [self.domain[name].value(code) for code in range(self.domain[name].size)]
            if hides_null(self.domain[name]):
                values[-1] = None
            columns[name] = pa.array([values[code] for code in self.codes[:, place]])
        return connected(columns, self.name)

    def raw(self, within: str, seed: int, *, closed: bool = False) -> duckdb.DuckDBPyConnection:
        """Rows whose numbers lie anywhere in their bins: evenly, at the lower, the upper or both ends.

        The upper edge of the last bin, where others are clamped to, occurs only if that is `closed`.

        Beside each column of numbers stands the text of its bin, in the order of bins, under its name and `_bin`.
        """
        generator = np.random.default_rng(seed)
        columns: dict[str, Any] = {}
        for place, name in enumerate(self.domain.names):
            attribute = self.domain[name]
            values, codes = [], self.codes[:, place].tolist()
            for code in codes:
                ends = float(generator.random() < 0.5)
                draw = {"even": generator.random(), "low": 0.0, "high": 1.0, "ends": ends}[within]
                if isinstance(attribute, Numeric) and code < attribute.known:
                    values.append(_drawn(attribute, code, draw, closed=closed))
                else:
                    values.append(attribute.value(code))
            if hides_null(attribute):
                values = [
                    None if code == attribute.size - 1 else value for code, value in zip(codes, values, strict=True)
                ]
            columns[name] = pa.array(values)
            if isinstance(attribute, Numeric):
                texts = [None if text is None else str(text) for text in shown_values(attribute)]
                columns[f"{name}_bin"] = pa.array([texts[code] for code in codes], pa.string())
        connection = connected(columns, self.name)
        for name, attribute in self.domain.attributes.items():
            if isinstance(attribute, Numeric):
                bins = ", ".join(f"'{text}'" for text in shown_values(attribute) if text is not None)
                connection.execute(f'ALTER TABLE {self.name} ALTER "{name}_bin" TYPE ENUM ({bins})')
        return connection

    def ask(self, text: str) -> ResultTable:
        """The statement on the exact view."""
        return run(text, self.domain, self.view.answer, records=ROWS)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Our rows with the texts of bins turned into the values that DuckDB holds."""
        statement, table = compile_sql(text, self.domain), self.ask(text)
        lookups: list[dict[Any, Any] | None] = []
        for field in statement.fields:
            vector = field.expr.known
            if isinstance(vector, Bins):
                shown = shown_values(vector.attribute)
                lookups.append({label: vector.attribute.value(code) for code, label in enumerate(shown)})
            else:
                lookups.append(None)
        return [
            tuple(cell if lookup is None else lookup[cell] for cell, lookup in zip(row, lookups, strict=True))
            for row in table.rows
        ]


INSIDE = 2.0**-30
"""How far below its upper edge, in widths, the largest number of a bin lies: the mean of two does not round to it."""


def _drawn(attribute: Numeric, code: int, draw: float, *, closed: bool) -> Any:
    """A number of a bin, whose upper edge only the last bin may have."""
    low, high = float(attribute.cuts[code]), float(attribute.cuts[code + 1])
    if closed and draw == 1.0 and code == attribute.known - 1:
        number = high
    elif attribute.whole:
        number = max(low, min(low + np.floor(draw * (high - low)), high - 1))
    else:
        number = max(low, min(low + draw * (high - low), high - INSIDE * (high - low)))
    if attribute.kind == "date":
        return date_at(np.floor(number))
    if attribute.kind == "datetime":
        return datetime_at(number)
    return int(number) if attribute.whole else float(number)


def connected(columns: dict[str, Any], name: str = "t") -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")  # two values of MODE may be as frequent; threads would choose by turns
    connection.register("decoded", pa.table(columns))
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM decoded")
    return connection


@cache
def people() -> Exact:
    return Exact(DOMAIN, 6)


@cache
def calendar() -> Exact:
    return Exact(DATES, 7)


@cache
def trips() -> Exact:
    return Exact(TRIPS, 3, "trips")


@cache
def orders() -> Exact:
    return Exact(ORDERS, 5, "orders")


@cache
def stays() -> Exact:
    return Exact(STAYS, 11, "stays")


@cache
def staff() -> Exact:
    return Exact(STAFF, 12, "staff")


def view() -> Published:
    return people().view


def ask(text: str) -> ResultTable:
    return people().ask(text)
