"""A domain is the public description of a table; every possible value has exactly one code in it."""

from reticent.domain.attribute import MAX_SIZE, NULL_LABEL, OTHER_LABEL, Attribute, CodeTruth, Status
from reticent.domain.categorical import Categorical, Integer
from reticent.domain.domain import Domain, attribute_from_dict
from reticent.domain.numeric import Numeric
from reticent.domain.undeclared import Undeclared

__all__ = [
    "MAX_SIZE",
    "NULL_LABEL",
    "OTHER_LABEL",
    "Attribute",
    "Categorical",
    "CodeTruth",
    "Domain",
    "Integer",
    "Numeric",
    "Status",
    "Undeclared",
    "attribute_from_dict",
]
