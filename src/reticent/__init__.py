"""Answer unlimited questions about a sensitive table, or publish a synthetic copy, under one privacy budget."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.compiling import prepare

__version__ = "0.1.0"

prepare(Path(__file__).parent)

_HOME = {
    "Domain": "domain",
    "Categorical": "domain",
    "Integer": "domain",
    "Numeric": "domain",
    "Table": "sources",
    "Budget": "kernel.accounting",
    "Ledger": "kernel.ledger",
    "col": "queries",
    "count": "queries",
    "mean": "queries",
    "marginal": "queries",
    "marginals": "queries",
    "ranges": "queries",
    "Workload": "queries",
    "Squared": "queries.convex",
    "Ridge": "queries.convex",
    "Logistic": "queries.convex",
    "Hinge": "queries.convex",
    "Huber": "queries.convex",
    "MeanVector": "queries.convex",
    "Model": "models",
    "Adaptive": "algorithms.adaptive",
    "MWEM": "algorithms.mwem",
    "TextbookPMW": "algorithms.textbook",
    "DualQuery": "algorithms.dualquery",
    "plan": "planning",
    "release": "releases",
    "Release": "releases",
    "Session": "session",
    "connect": "client",
    "evaluate": "evaluation",
    "DomainError": "errors",
    "QueryError": "errors",
    "SourceError": "errors",
    "BudgetError": "errors",
    "LedgerError": "errors",
    "ReticentError": "errors",
}

if TYPE_CHECKING:
    from reticent.algorithms.adaptive import Adaptive
    from reticent.algorithms.dualquery import DualQuery
    from reticent.algorithms.mwem import MWEM
    from reticent.algorithms.textbook import TextbookPMW
    from reticent.client import connect
    from reticent.domain import Categorical, Domain, Integer, Numeric
    from reticent.errors import BudgetError, DomainError, LedgerError, QueryError, ReticentError, SourceError
    from reticent.evaluation import evaluate
    from reticent.kernel.accounting import Budget
    from reticent.kernel.ledger import Ledger
    from reticent.models import Model
    from reticent.planning import plan
    from reticent.queries import Workload, col, count, marginal, marginals, mean, ranges
    from reticent.queries.convex import Hinge, Huber, Logistic, MeanVector, Ridge, Squared
    from reticent.releases import Release, release
    from reticent.session import Session
    from reticent.sources import Table


def __getattr__(name: str) -> Any:
    """Loads each name on first use, so that `import reticent` and `reticent --help` are instant."""
    if name not in _HOME:
        raise AttributeError(f"module 'reticent' has no attribute {name!r}")
    value = getattr(import_module(f"reticent.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])


__all__ = [  # noqa: RUF022
    "Domain", "Categorical", "Integer", "Numeric", "Table", "Budget", "Ledger",
    "col", "count", "mean", "marginal", "marginals", "ranges", "Workload",
    "Squared", "Ridge", "Logistic", "Hinge", "Huber", "MeanVector", "Model",
    "Adaptive", "MWEM", "TextbookPMW", "DualQuery", "plan", "release", "Release", "Session", "connect", "evaluate",
    "DomainError", "QueryError", "SourceError", "BudgetError", "LedgerError", "ReticentError",
]  # fmt: skip
