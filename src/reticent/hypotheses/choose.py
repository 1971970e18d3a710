"""Chooses the representation for a domain and a workload, and states the reason.

If a junction tree becomes too large, learning continues on records drawn from it (spec answers.md 9). This is public
post-processing with public seeds: the same measurements give the same hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from reticent.errors import CapacityError, DomainError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.dense.dense import MAX_CELLS, DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import SupportHypothesis

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
    from reticent.queries.workload import Workload


__all__ = ["HypothesisChoice", "LearnedHypothesis", "choose", "drawn_support", "learned", "read_snapshot", "with_room"]

# Up to here a fit over every cell takes seconds (engines.md); above it the tensor still serves single updates.
DENSE_CELLS = 1 << 24
# One query or marginal over more cells than this fits no clique.
CLIQUE_CELLS = 1 << 24
SUPPORT_RECORDS = 1 << 17
TREE_CELLS = 1 << 20
"""Cells of a junction tree beyond which learning continues on a support, because an update of the tree then takes
longer than one of all records of a support. Runs that began before this limit existed use CLIQUE_CELLS.
"""


@dataclass(frozen=True)
class HypothesisChoice:
    """A representation by name, the reason in one line, and a way to build the uniform start."""

    representation: str
    reason: str
    domain: Domain
    tree_cells: int = CLIQUE_CELLS

    @property
    def bytes(self) -> int:
        """The largest size of the hypothesis; a copy needs as much again."""
        if self.representation == "dense":
            return 8 * self.domain.size
        support = SUPPORT_RECORDS * (len(self.domain) * np.min_scalar_type(max(self.domain.shape) - 1).itemsize + 16)
        return support if self.representation == "support" else support + 8 * self.tree_cells

    def build(self, generator: np.random.Generator | None = None) -> Hypothesis:
        """The uniform distribution; a support needs a (public) generator to draw its records."""
        return _BUILDERS[self.representation](self, generator)


def choose(
    domain: Domain,
    workload: Workload | None = None,
    *,
    representation: str | None = None,
    tree_cells: int = CLIQUE_CELLS,
) -> HypothesisChoice:
    """Dense if every cell can be held, factored if each question fits a clique, otherwise a sampled support."""
    if representation is not None:
        if representation not in _BUILDERS:
            known = ", ".join(sorted(_BUILDERS))
            raise DomainError(f"unknown representation {representation!r}; use one of {known}")
        if representation == "dense" and domain.size > MAX_CELLS:
            raise DomainError(f"{domain.size} cells do not fit a dense tensor of {MAX_CELLS}; use factored")
        return HypothesisChoice(representation, "chosen by the caller", domain, tree_cells)
    universe = f"the universe has 2^{log2(domain.size):.1f} cells"
    if domain.size <= DENSE_CELLS:
        return HypothesisChoice("dense", f"{universe}, at most 2^{log2(DENSE_CELLS):.0f}: every cell is held", domain)
    largest = _largest_set(domain, workload)
    if largest <= CLIQUE_CELLS and sum(domain.shape) <= tree_cells:
        reason = f"{universe}, too many to hold; the largest question spans 2^{log2(max(largest, 1)):.1f} of them"
        return HypothesisChoice("factored", reason, domain, tree_cells)
    reason = f"{universe} and one question spans 2^{log2(largest):.1f} of them, too many for a clique"
    if largest <= CLIQUE_CELLS:
        reason = f"{universe} and single attributes have {sum(domain.shape)} codes, too many for a junction tree"
    if domain.size <= MAX_CELLS:
        return HypothesisChoice("dense", f"{reason}; the tensor still fits memory, fits will be slow", domain)
    return HypothesisChoice(
        "support", f"{reason}: {SUPPORT_RECORDS} sampled records, uncertified unless audited", domain
    )


def _largest_set(domain: Domain, workload: Workload | None) -> int:
    if workload is None:
        return 1
    queries = (domain.canonical(query.attributes) for query in workload.queries)
    return max((domain.cells(names) for names in (*workload.marginals, *queries)), default=1)


def _factored(choice: HypothesisChoice, _: np.random.Generator | None) -> Hypothesis:
    from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
    from reticent.hypotheses.junction_tree.tree import rule_tree_cells

    # Whatever the ceiling, the rules' own tree fits, with as much again for what is learnt.
    return FactoredHypothesis(choice.domain, limit=max(choice.tree_cells, 2 * rule_tree_cells(choice.domain)))


def _support(choice: HypothesisChoice, generator: np.random.Generator | None) -> Hypothesis:
    if generator is None:
        raise DomainError("a support is drawn at random; give build() a generator")
    return SupportHypothesis.uniform(choice.domain, SUPPORT_RECORDS, generator)


_BUILDERS: dict[str, Callable[[HypothesisChoice, np.random.Generator | None], Hypothesis]] = {
    "dense": lambda choice, _: DenseHypothesis(choice.domain),
    "factored": _factored,
    "support": _support,
}


PUBLIC_SEED = 20261116
"""The seed of the records; the same at every replay."""

T = TypeVar("T")


class LearnedHypothesis(NamedTuple):
    """A hypothesis after an update: whether it moved, and a note if it changed its kind or could not move."""

    hypothesis: Hypothesis
    moved: bool
    note: str = ""


def drawn_support(hypothesis: FactoredHypothesis, records: int = SUPPORT_RECORDS) -> SupportHypothesis:
    """Equally weighted records that represent the hypothesis; a later fit starts from them, not from the uniform
    distribution.
    """
    return SupportHypothesis(hypothesis.domain, hypothesis.systematic(records, np.random.default_rng(PUBLIC_SEED)))


def with_room(
    hypothesis: Hypothesis, act: Callable[[Hypothesis], T], *, records: int = SUPPORT_RECORDS
) -> tuple[Hypothesis, T, str]:
    """The result of `act` on the hypothesis, or on a support drawn from it if its junction tree would become
    too large.
    """
    try:
        return hypothesis, act(hypothesis), ""
    except CapacityError as full:
        from reticent.hypotheses.junction_tree.factored import FactoredHypothesis

        if not isinstance(hypothesis, FactoredHypothesis):
            raise
        reason = str(full).partition(":")[0]
    support = drawn_support(hypothesis, records)
    return support, act(support), f"{reason}: learning goes on on {records:,} records drawn from it"


def read_snapshot(snapshot: Snapshot, act: Callable[[Hypothesis | Snapshot], T]) -> T:
    """An uncertified guess, read from records drawn from the snapshot if exact inference would be too large."""
    try:
        return act(snapshot)
    except CapacityError:
        return with_room(snapshot.thaw(), act)[1]


def learned(
    hypothesis: Hypothesis, move: Callable[[Hypothesis], bool], *, records: int = SUPPORT_RECORDS
) -> LearnedHypothesis:
    """The hypothesis after `move`, which returns whether it moved; never an exception, because the answer is paid for.

    Any error leaves the hypothesis as it was.
    """
    # A dense tensor allocates all it needs before it changes, and is too large to copy for every update.
    kept = hypothesis if isinstance(hypothesis, DenseHypothesis) else hypothesis.copy()
    try:
        return LearnedHypothesis(*with_room(hypothesis, move, records=records))
    except Exception as failure:
        return LearnedHypothesis(
            kept, False, f"an update was left out ({type(failure).__name__}): the hypothesis is as before"
        )
