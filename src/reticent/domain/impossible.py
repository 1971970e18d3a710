"""Rules about impossible records: public knowledge, for example that no child has an income.

A rule is a condition on a few attributes; each combination of their codes for which it is true is impossible.
Hypotheses and synthetic rows exclude these combinations. Rules change neither how rows are read nor how they are
counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.domain.attribute import shown
from reticent.domain.conditions import reader
from reticent.errors import DomainError, ReticentError, given

if TYPE_CHECKING:
    from reticent.domain.domain import Domain

__all__ = ["MAX_RULES", "MAX_RULE_CELLS", "Impossible", "impossible_cells", "impossible_rows", "read_rules"]

MAX_RULE_CELLS = 2**16
"""Combinations of codes of one rule's attributes. A junction tree holds them in one clique, and the default release
allows its tree twice as many cells (`Adaptive.model_cells`): the other half is left for what is measured."""
MAX_RULES = 1_000


@dataclass(frozen=True, eq=False)
class Impossible:
    """One rule, compiled on a domain."""

    text: str
    attributes: tuple[str, ...]
    """Those that decide, in the domain's order."""
    cells: np.ndarray = field(repr=False)
    """Over these attributes: True where no record can be. Read-only."""


def read_rules(rules: Any, domain: Domain) -> tuple[Impossible, ...]:
    """Each rule once, in the given order; DomainError names a refused rule."""
    if isinstance(rules, (str, bytes)) or not isinstance(rules, Iterable):
        raise DomainError(f'impossible={given(rules)} must be a list of conditions, such as ["age < 15 and pay > 0"]')
    listed = list(rules)
    if len(listed) > MAX_RULES:
        raise DomainError(f"{len(listed)} impossible rules; at most {MAX_RULES}: join some with OR")
    found = {rule.text: rule for rule in (_read(rule, domain) for rule in listed)}
    return tuple(found.values())


def _read(rule: Any, domain: Domain) -> Impossible:
    named = shown(rule if isinstance(rule, str) else getattr(rule, "text", rule))
    try:
        text, form = reader()(rule, domain)
        cells = domain.cells(form.attributes)
        if cells > MAX_RULE_CELLS:
            listed = ", ".join(form.attributes)
            raise DomainError(
                f"{listed} have {cells} combinations of codes; at most {MAX_RULE_CELLS}: use fewer or coarser columns"
            )
        values = np.asarray(form.tensor()) > 0
    except ReticentError as refusal:
        raise DomainError(f"impossible rule {named}: {refusal}") from None
    if values.all():
        raise DomainError(f"impossible rule {named}: every record satisfies it; declare combinations that cannot occur")
    if not values.any():
        raise DomainError(f"impossible rule {named}: no record of this domain can satisfy it; leave it out")
    values.setflags(write=False)
    return Impossible(text, tuple(form.attributes), values)


def impossible_cells(domain: Domain, names: Sequence[str]) -> np.ndarray | None:
    """Mask of impossible cells over some attributes, in the domain's order; None if no rule applies to them."""
    inside = [rule for rule in domain.impossible if set(rule.attributes) <= set(names)]
    if not inside:
        return None
    cells = np.zeros(domain.shape_of(names), dtype=bool)
    for rule in inside:
        sizes = dict(zip(rule.attributes, rule.cells.shape, strict=True))
        cells |= rule.cells.reshape([sizes.get(name, 1) for name in names])
    return cells


def impossible_rows(domain: Domain, codes: np.ndarray) -> np.ndarray:
    """Mask of the rows of codes (columns in the domain's order) that satisfy a rule."""
    codes = np.asarray(codes)
    found = np.zeros(len(codes), dtype=bool)
    for rule in domain.impossible:
        found |= rule.cells[tuple(codes[:, domain.index(name)] for name in rule.attributes)]
    return found
