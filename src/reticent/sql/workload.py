"""A list of SQL statements is a workload: the questions behind them are what a release should answer well."""

from __future__ import annotations

from pathlib import Path

from reticent.domain import Domain
from reticent.errors import QueryError, ReticentError
from reticent.queries import Groups, Marginal, Query, Workload
from reticent.sql.parse import parse_all
from reticent.sql.statement import statement_of

LISTED_GROUPS = 1024
"""Groups with a condition that stand in a workload one by one; more are covered by their common marginal."""


def workload_of_sql(text: str, domain: Domain) -> Workload:
    """The workload of statements separated by semicolons; repeated questions weigh more."""
    entries: list[Query] = []
    for number, select in enumerate(parse_all(text, domain.names), start=1):
        try:
            statement = statement_of(select, "", domain)
        except QueryError as error:
            raise QueryError(f"statement {number}: {error}") from None
        for query in statement.queries:
            entries += _entries(query, domain)
    if not entries:
        raise QueryError("the statements ask only for the number of records, which is known; add a condition")
    return Workload(entries, domain=domain)


def read_sql_workload(path: str | Path, domain: Domain) -> Workload:
    """The workload of a .sql file."""
    path = Path(path)
    try:
        return workload_of_sql(path.read_text(encoding="utf-8"), domain)
    except OSError as error:
        raise QueryError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise QueryError(f"{path}: is not UTF-8 text; save it as such") from None
    except ReticentError as error:
        raise QueryError(f"{path}: {error}") from None


def _entries(query: Query, domain: Domain) -> list[Query]:
    if not isinstance(query, Groups):
        return [query]
    if domain.cells(query.names) <= LISTED_GROUPS:
        return list(query.parts(domain))
    return [Marginal(query.span(domain))]
