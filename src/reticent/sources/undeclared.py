"""Undeclared columns: their distinct values with weights, for the kernel's private discovery only."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from reticent.domain import Domain, Undeclared
from reticent.sources.encoding import readings_of, value_of
from reticent.sources.engine import Engine
from reticent.sources.grouping import required_columns
from reticent.sources.persons import identifier_text
from reticent.sources.readings import present


class UndeclaredValues:
    """The source of `kernel.discovery`: numbers with their weights, texts with their numbers of units.

    Every unit has the weight that it has in a table: a record one, a person's rows with a value the person grid
    together (docs/proofs/person-weights.md).
    """

    __slots__ = ("_domain", "_engine", "_grid", "_person")

    def __init__(self, engine: Engine, domain: Domain, *, person: str | None, grid: int) -> None:
        required_columns(engine, [*domain.names, *([] if person is None else [person])])
        self._engine, self._domain, self._person, self._grid = engine, domain, person, grid

    def __repr__(self) -> str:
        return "<UndeclaredValues: private>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a source holds private rows and is neither pickled nor copied")

    def close(self) -> None:
        self._engine.close()

    def total(self) -> int:
        """The weight of all units, including those without a value."""
        counted, where = "COUNT(*)", ""
        if self._person is not None:
            column, kind = self._quoted(self._person), self._engine.columns()[self._person]
            counted, where = f"COUNT(DISTINCT {column})", f" WHERE {present(column, kind, self._engine.dialect)}"
        bigint = self._engine.dialect.bigint
        statement = f"SELECT 0 AS v, CAST({counted} AS {bigint}) AS w FROM {self._engine.relation}{where}"
        return int(self._engine.tally(statement)[1][0]) * self._grid

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        rows, bigint = self._rows(name), self._engine.dialect.bigint
        if self._person is None:
            statement = f"SELECT v, CAST(COUNT(*) AS {bigint}) AS w FROM ({rows}) AS valued GROUP BY v"
        else:
            # As `grouping`: a person's m rows weigh floor(G/m), one more on the first G mod m in order (spec 1.2).
            counted = f"SELECT person, v, COUNT(*) AS c FROM ({rows}) AS valued GROUP BY person, v"
            placed = (
                f"SELECT v, CAST(c AS {bigint}) AS c, "
                f"CAST(SUM(c) OVER (PARTITION BY person) AS {bigint}) AS m, "
                f"CAST(SUM(c) OVER (PARTITION BY person ORDER BY v ROWS UNBOUNDED PRECEDING) AS {bigint}) - c AS b "
                f"FROM ({counted}) AS counted"
            )
            share = self._engine.dialect.divided(str(self._grid), "m")
            weight = f"c * {share} + GREATEST(LEAST({self._grid} % m - b, c), 0)"
            statement = f"SELECT v, CAST(SUM({weight}) AS {bigint}) AS w FROM ({placed}) AS placed GROUP BY v"
        values, weights = self._engine.tally(statement)
        # Zero has two signs in some engines, and one value here; infinities are the last numbers.
        numbers = np.clip(np.array(values, dtype=np.float64), -1e300, 1e300) + 0.0
        return numbers, weights

    def texts(self, name: str, most: int, key: str) -> tuple[list[str], np.ndarray]:
        rows, dialect = self._rows(name, naming=self._person is not None), self._engine.dialect
        if self._person is not None:
            # The smallest hash over the spellings of one identifier, so that it depends on this person's rows alone.
            hashed = dialect.hashed(f"CONCAT({dialect.literal(key)}, ':', named, ':', v)")
            different = f"SELECT person, v, MIN({hashed}) AS h FROM ({rows}) AS valued GROUP BY person, v"
            ranked = (
                f"SELECT v, ROW_NUMBER() OVER (PARTITION BY person ORDER BY h, v) AS r FROM ({different}) AS hashed"
            )
            rows = f"SELECT v FROM ({ranked}) AS ranked WHERE r <= {most}"
        counted = f"CAST(COUNT(*) AS {dialect.bigint})"
        return self._engine.tally(f"SELECT v, {counted} AS w FROM ({rows}) AS valued GROUP BY v")

    def _rows(self, name: str, *, naming: bool = False) -> str:
        """A subquery of every row's value, and its person if persons are the unit; rows without either are excluded.

        With `naming` also a hash of the identifier's text.
        """
        dialect, columns = self._engine.dialect, self._engine.columns()
        attribute = self._domain[name]
        assert isinstance(attribute, Undeclared)
        made, value = value_of(attribute, name, columns[name], dialect)
        others, listed, where = [], [f"{value} AS v"], ""
        if self._person is not None:
            column = self._quoted(self._person)
            others, listed = [f"{column} AS person"], [*listed, "person"]
            where = f" WHERE {present(column, columns[self._person], dialect)}"
            if naming:
                text = dialect.hashed(identifier_text(column, columns[self._person], dialect))
                others, listed = [*others, f"{text} AS named"], [*listed, "named"]
        inner = readings_of([made], self._engine.relation, dialect, others, where)
        valued = f"SELECT {', '.join(listed)} FROM ({inner}) AS reading"
        return f"SELECT * FROM ({valued}) AS every WHERE v IS NOT NULL"

    def _quoted(self, name: str) -> str:
        return self._engine.dialect.quoted(name)
