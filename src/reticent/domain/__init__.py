"""A domain is the public description of a table; every possible value has exactly one code in it."""

from reticent.domain.attribute import MAX_SIZE, NULL_LABEL, OTHER_LABEL, Attribute, Truth
from reticent.domain.categorical import Categorical, Integer
from reticent.domain.domain import Domain, attribute_from_dict
from reticent.domain.numeric import Numeric

__all__ = [
    "MAX_SIZE",
    "NULL_LABEL",
    "OTHER_LABEL",
    "Attribute",
    "Categorical",
    "Domain",
    "Integer",
    "Numeric",
    "Truth",
    "attribute_from_dict",
]
