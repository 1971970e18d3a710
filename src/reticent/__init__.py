"""Answer unlimited questions about a sensitive table, or publish a synthetic copy, under one privacy budget."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent._numba_cache import prepare
from reticent.domain.conditions import register

__version__ = "0.1.0"

prepare(Path(__file__).parent)
register(lambda: import_module("reticent.sql.rules").read_rule)

_HOME = {
    "Domain": "domain",
    "Categorical": "domain",
    "Integer": "domain",
    "Numeric": "domain",
    "Undeclared": "domain",
    "Table": "sources",
    "Budget": "kernel.accounting",
    "Ledger": "kernel.ledger.ledger",
    "col": "queries",
    "count": "queries",
    "mean": "queries",
    "linear": "queries.tabulated",
    "orthant": "queries",
    "Conjunctions": "queries.conjunctions",
    "marginal": "queries",
    "quantile": "queries.statistics",
    "median": "queries.statistics",
    "variance": "queries.statistics",
    "covariance": "queries.statistics",
    "correlation": "queries.statistics",
    "marginals": "queries",
    "prefixes": "queries",
    "ranges": "queries",
    "records": "knowledge.request",
    "Workload": "queries",
    "Squared": "losses.losses",
    "Ridge": "losses.losses",
    "Logistic": "losses.losses",
    "Hinge": "losses.losses",
    "Huber": "losses.losses",
    "MeanVector": "losses.losses",
    "Quantile": "losses.losses",
    "Poisson": "losses.losses",
    "Multinomial": "losses.losses",
    "Margin": "losses.losses",
    "Model": "releases.models",
    "Adaptive": "releases.adaptive",
    "MWEM": "releases.mwem",
    "TextbookPMW": "releases.textbook",
    "DualQuery": "releases.dualquery.dualquery",
    "discover": "discovery.discover",
    "ConvexPMW": "releases.convex",
    "plan": "planning.plan",
    "Smooth": "planning.smooth",
    "release": "releases.release",
    "fit": "releases.measured",
    "Measurement": "hypotheses.base",
    "Release": "releases.release",
    "Session": "sessions.session",
    "connect": "client",
    "evaluate": "custodian.evaluate",
    "DomainError": "errors",
    "QueryError": "errors",
    "SourceError": "errors",
    "BudgetError": "errors",
    "LedgerError": "errors",
    "ReticentError": "errors",
}
_MODULES = ("dbapi", "sklearn")
"""Interfaces that other libraries expect as modules."""

if TYPE_CHECKING:
    from reticent.client import connect
    from reticent.custodian.evaluate import evaluate
    from reticent.discovery.discover import discover
    from reticent.domain import Categorical, Domain, Integer, Numeric, Undeclared
    from reticent.errors import BudgetError, DomainError, LedgerError, QueryError, ReticentError, SourceError
    from reticent.hypotheses.base import Measurement
    from reticent.kernel.accounting import Budget
    from reticent.kernel.ledger.ledger import Ledger
    from reticent.knowledge.request import records
    from reticent.losses.losses import (
        Hinge,
        Huber,
        Logistic,
        Margin,
        MeanVector,
        Multinomial,
        Poisson,
        Quantile,
        Ridge,
        Squared,
    )
    from reticent.planning.plan import plan
    from reticent.planning.smooth import Smooth
    from reticent.queries import Workload, col, count, marginal, marginals, mean, orthant, prefixes, ranges
    from reticent.queries.conjunctions import Conjunctions
    from reticent.queries.statistics import correlation, covariance, median, quantile, variance
    from reticent.queries.tabulated import linear
    from reticent.releases.adaptive import Adaptive
    from reticent.releases.convex import ConvexPMW
    from reticent.releases.dualquery.dualquery import DualQuery
    from reticent.releases.measured import fit
    from reticent.releases.models import Model
    from reticent.releases.mwem import MWEM
    from reticent.releases.release import Release, release
    from reticent.releases.textbook import TextbookPMW
    from reticent.sessions.session import Session
    from reticent.sources import Table


def __getattr__(name: str) -> Any:
    """Loads each name on first use, so that `import reticent` and `reticent --help` are instant."""
    if name in _MODULES:
        return import_module(f"reticent.client.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'reticent' has no attribute {name!r}")
    value = getattr(import_module(f"reticent.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOME, *_MODULES, "__version__"])


__all__ = [  # noqa: RUF022
    "Domain", "Categorical", "Integer", "Numeric", "Undeclared", "discover", "Table", "Budget", "Ledger",
    "col", "count", "mean", "quantile", "median", "variance", "covariance", "correlation", "linear", "orthant",
    "marginal", "marginals", "ranges", "prefixes", "records", "Workload", "Conjunctions",
    "Squared", "Ridge", "Logistic", "Hinge", "Huber", "MeanVector", "Quantile", "Poisson", "Multinomial",
    "Margin", "Model", "Adaptive", "MWEM", "TextbookPMW", "DualQuery", "ConvexPMW", "plan", "Smooth", "release",
    "fit", "Measurement",
    "Release", "Session", "connect", "evaluate",
    "DomainError", "QueryError", "SourceError", "BudgetError", "LedgerError", "ReticentError",
]  # fmt: skip
