"""Rules of a domain on a junction tree: which cells of which attribute sets hold nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.impossible import impossible_cells
from reticent.errors import CapacityError, DomainError
from reticent.hypotheses.junction_tree.tree import JunctionTree

if TYPE_CHECKING:
    from reticent.domain import Domain

__all__ = ["check_rules", "rule_masks", "rule_tree_cells"]

MAX_TREE_CELLS = 2**17
"""Of a junction tree of the rules alone: as many as the default release allows its tree (`Adaptive.model_cells`)."""


def rule_masks(domain: Domain) -> dict[tuple[str, ...], np.ndarray]:
    """Impossible cells by attribute set; sets inside another rule's are part of that one."""
    sets = dict.fromkeys(rule.attributes for rule in domain.impossible)
    widest = [names for names in sets if not any(set(names) < set(other) for other in sets)]
    masks = {}
    for names in widest:
        mask = impossible_cells(domain, names)
        assert mask is not None  # a rule is on these names
        masks[names] = mask
    return masks


def rule_tree_cells(domain: Domain) -> int:
    """Of a junction tree that holds all rules and single attributes; 0 without rules."""
    if not domain.impossible:
        return 0
    return JunctionTree(domain, [*((name,) for name in domain.names), *rule_masks(domain)], limit=None).cells


def check_rules(domain: Domain) -> None:
    """DomainError where the rules leave no record, or need a tree that nothing could hold; before anything is spent."""
    if not domain.impossible:
        return
    from reticent.hypotheses.junction_tree.propagation import Propagation

    masks = rule_masks(domain)
    try:
        tree = JunctionTree(domain, masks, limit=MAX_TREE_CELLS)
    except CapacityError:
        raise DomainError(
            f"the impossible rules together need a junction tree of more than {MAX_TREE_CELLS} cells: "
            "use coarser columns, or rules that share fewer columns"
        ) from None
    logs = {tree.positions(names): np.where(mask, -np.inf, 0.0) for names, mask in masks.items()}
    if any(mask.all() for mask in masks.values()) or Propagation(tree, logs).log_partition == -np.inf:
        raise DomainError("the impossible rules together exclude every record; leave one out")
