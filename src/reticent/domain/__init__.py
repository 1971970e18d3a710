"""A domain is the public description of a table; every possible value has exactly one code in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Loads all names on first use: `import reticent` registers a reader in `domain.conditions`, without numpy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reticent.domain import attribute, categorical, domain, numeric, undeclared

    for module in (attribute, categorical, domain, numeric, undeclared):
        globals().update({key: value for key, value in vars(module).items() if key in __all__})
    return globals()[name]
