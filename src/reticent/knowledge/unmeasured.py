"""Before a column is measured, free answers about it are the same for every table: whoever reads them is told so."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reticent.knowledge.knowledge import Knowledge
from reticent.queries.base import Linear, Query
from reticent.queries.linear import Ratio
from reticent.queries.residual import Residual

UNMEASURED = "nothing was measured here yet, so all values count as equally likely: ask for an error to measure it"


def nothing_measured(knowledge: Knowledge) -> bool:
    """Whether all that is known is the hypothesis with which a session begins."""
    return _unknown(knowledge, frozenset(knowledge.domain.names))


def unmeasured_note(knowledge: Knowledge, origin: str, queries: Iterable[Query]) -> str:
    """What an answer says that the hypothesis gave without knowing any of the questions' columns; else nothing."""
    if "hypothesis" not in origin.split(" + ") or knowledge.certified:
        return ""
    columns = {name for query in queries for name in _columns(query, knowledge)}
    return UNMEASURED if columns and _unknown(knowledge, columns) else ""


def _unknown(knowledge: Knowledge, columns: Collection[str]) -> bool:
    if knowledge.certified or not all(map(knowledge.current.uniform, columns)):
        return False
    return not any(name in columns for one in knowledge.measurements() for name in _columns(one.query, knowledge))


def _columns(query: Query | Residual, knowledge: Knowledge) -> Iterable[str]:
    if isinstance(query, Ratio):
        return (*_columns(query.numerator, knowledge), *_columns(query.denominator, knowledge))
    return knowledge.form(query).attributes if isinstance(query, Linear) else getattr(query, "names", ())
