"""A query is a public function from a record to [0, 1]; its answer is the mean over the table."""

from reticent.queries.base import Linear, Query
from reticent.queries.expectation import Expectation, Weights
from reticent.queries.forms import Dense, Form, Product
from reticent.queries.from_dict import linear_from_dict, query_from_dict
from reticent.queries.groups import Groups
from reticent.queries.linear import (
    Conjunction,
    Count,
    Marginal,
    Mean,
    Range,
    Ratio,
    Total,
    Weighted,
    count,
    marginal,
    mean,
    orthant,
)
from reticent.queries.predicate import (
    Column,
    Everything,
    Predicate,
    all_of,
    any_of,
    col,
    predicate_from_dict,
)
from reticent.queries.ranges import AllRanges
from reticent.queries.tabulated import Tabulated
from reticent.queries.workload import Workload, marginals, prefixes, ranges

__all__ = [
    "AllRanges",
    "Column",
    "Conjunction",
    "Count",
    "Dense",
    "Everything",
    "Expectation",
    "Form",
    "Groups",
    "Linear",
    "Marginal",
    "Mean",
    "Predicate",
    "Product",
    "Query",
    "Range",
    "Ratio",
    "Tabulated",
    "Total",
    "Weighted",
    "Weights",
    "Workload",
    "all_of",
    "any_of",
    "col",
    "count",
    "linear_from_dict",
    "marginal",
    "marginals",
    "mean",
    "orthant",
    "predicate_from_dict",
    "prefixes",
    "query_from_dict",
    "ranges",
]
