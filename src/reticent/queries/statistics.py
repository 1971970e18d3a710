"""Statistics that are not the mean of one function: quantiles, variances, covariances, correlations.

A statistic is a plain value; SQL computes it (`reticent.sql.asking`), so both give the same answer and bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reticent.domain.attribute import shown
from reticent.errors import QueryError, is_list, is_mapping, real_number, require
from reticent.queries.base import checked_predicate
from reticent.queries.literals import name_text
from reticent.queries.predicate import Everything, Predicate, col, predicate_from_dict

COLUMNS = {"quantile": 1, "variance": 1, "covariance": 2, "correlation": 2}
"""How many columns each function is of."""
KEYS = {"query", "function", "columns", "level", "sample", "where"}


@dataclass(frozen=True, eq=False, repr=False)
class StatisticQuery:
    """A question for `ask`, made by `rt.quantile`, `rt.median`, `rt.variance`, `rt.covariance` or `rt.correlation`.

    Attributes:
        function: quantile, variance, covariance or correlation.
        columns: The columns of the statistic.
        level: For a quantile, the share of records below it.
        sample: Whether a variance or covariance is divided by the number of records less one.
        where: The condition on the records.
    """

    function: str
    columns: tuple[str, ...]
    level: float | None = None
    sample: bool = True
    where: Predicate = field(default_factory=Everything)

    def __post_init__(self) -> None:
        if COLUMNS.get(self.function) != len(self.columns):
            raise QueryError(f"unknown statistic {shown(self.function)} of {len(self.columns)} columns")
        for name in self.columns:
            col(name)
        require(self.sample, bool, "sample", "True or False")
        checked_predicate(self.where)
        if self.function == "quantile":
            level = real_number(self.level, "level", "a number between 0 and 1, for example 0.9")
            if not 0 <= level <= 1 or math.isnan(level):
                raise QueryError(f"level={level!r} is not a share of the records; give a number between 0 and 1")
            object.__setattr__(self, "level", level)

    @property
    def text(self) -> str:
        """Canonical text: the same for the same question."""
        words = [name_text(name) for name in self.columns]
        words += [] if self.level is None else [repr(self.level)]
        words += ["population"] if not self.sample and self.function != "correlation" else []
        return f"{self.function}({', '.join([*words, self.where.text])})"

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StatisticQuery) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {"query": "statistic", "function": self.function, "columns": list(self.columns)}
        level = {} if self.level is None else {"level": self.level}
        return {**plain, **level, "sample": self.sample, "where": self.where.to_dict()}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> StatisticQuery:
        """The inverse of `to_dict`."""
        if not {"query", "function", "columns"} <= set(description) <= KEYS:
            raise QueryError("a statistic has the keys function and columns, and may have level, sample and where")
        function, columns = description["function"], description["columns"]
        if not isinstance(function, str) or function not in COLUMNS:
            raise QueryError(f"unknown statistic {shown(function)}; use {', '.join(COLUMNS)}")
        if not is_list(columns) or not all(isinstance(name, str) for name in columns):
            raise QueryError('"columns" must be a list of names')
        where = predicate_from_dict(description["where"]) if "where" in description else Everything()
        return cls(function, tuple(columns), description.get("level"), description.get("sample", True), where)


def is_statistic(description: Any) -> bool:
    """Whether plain values describe a statistic."""
    return is_mapping(description) and description.get("query") == "statistic"


def quantile(column: str, level: float, where: Predicate | None = None) -> StatisticQuery:
    """The value below which a share of the records lies, as SQL's `PERCENTILE_CONT`.

    Args:
        column: A column of numbers or dates.
        level: The share, between 0 and 1.
        where: A condition on the records; by default all records count.

    Returns:
        A question for `ask`. Its error includes the binning error of the column. The quantile of a column of dates is a
        number of days since 1970-01-01, with a fraction for a time of day, and so is its error; `answer.basis` has the
        date.

    Raises:
        QueryError: The level is not between 0 and 1.

    Example:
        >>> import pyarrow, reticent as rt
        >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
        >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
        >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), purpose="unlimited")
        >>> answer = session.ask(rt.quantile("age", 0.9))
        >>> abs(answer.value - 67) <= answer.error
        True
    """
    return StatisticQuery("quantile", (column,), level, where=_where(where))


def median(column: str, where: Predicate | None = None) -> StatisticQuery:
    """The quantile at one half, as SQL's `MEDIAN`.

    Args:
        column: A column of numbers or dates.
        where: A condition on the records; by default all records count.

    Returns:
        A question for `ask`; of a column of dates as `rt.quantile`.

    Raises:
        QueryError: A name is not text, or `where` is not a condition.

    Example:
        >>> import reticent as rt
        >>> rt.median("age", rt.col("smoker") == "yes")
        quantile(age, 0.5, smoker == "yes")
    """
    return quantile(column, 0.5, where)


def variance(column: str, where: Predicate | None = None, *, sample: bool = True) -> StatisticQuery:
    """The variance of a column, as SQL's `VAR_SAMP` or `VAR_POP`.

    Args:
        column: A column of numbers.
        where: A condition on the records; by default all records count.
        sample: Whether to divide by the number of records less one; False divides by their number.

    Returns:
        A question for `ask`. Its error includes the binning error of the column.

    Raises:
        QueryError: A name is not text, or `where` is not a condition.

    Example:
        >>> import pyarrow, reticent as rt
        >>> people = pyarrow.table({"age": [23, 41, 67] * 1000})
        >>> table = rt.Table.of(people, rt.Domain(age=rt.Numeric(edges=range(0, 101, 2))))
        >>> session = rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), purpose="unlimited")
        >>> answer = session.ask(rt.variance("age", sample=False))
        >>> abs(answer.value - 326.2) <= answer.error
        True
    """
    return StatisticQuery("variance", (column,), sample=sample, where=_where(where))


def covariance(first: str, second: str, where: Predicate | None = None, *, sample: bool = True) -> StatisticQuery:
    """The covariance of two columns, as SQL's `COVAR_SAMP` or `COVAR_POP`.

    Args:
        first: A column of numbers.
        second: Another one.
        where: A condition on the records; by default all records count.
        sample: Whether to divide by the number of records less one; False divides by their number.

    Returns:
        A question for `ask`.

    Raises:
        QueryError: A name is not text, or `where` is not a condition.

    Example:
        >>> import reticent as rt
        >>> rt.covariance("age", "income")
        covariance(age, income, everything)
    """
    return StatisticQuery("covariance", (first, second), sample=sample, where=_where(where))


def correlation(first: str, second: str, where: Predicate | None = None) -> StatisticQuery:
    """The correlation of two columns, as SQL's `CORR`.

    Args:
        first: A column of numbers.
        second: Another one.
        where: A condition on the records; by default all records count.

    Returns:
        A question for `ask`. If the bounds allow a variance of zero, the answer is uncertified.

    Raises:
        QueryError: A name is not text, or `where` is not a condition.

    Example:
        >>> import reticent as rt
        >>> rt.correlation("age", "income", rt.col("smoker") == "yes")
        correlation(age, income, smoker == "yes")
    """
    return StatisticQuery("correlation", (first, second), where=_where(where))


def _where(predicate: Predicate | None) -> Predicate:
    return Everything() if predicate is None else predicate
