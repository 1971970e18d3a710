"""Which records a condition selects: those where it is true, and those where bins leave it open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from reticent.domain import OTHER_LABEL, Domain
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of, any_of, col
from reticent.queries.predicate import Comparison, Junction, Not


class CutError(QueryError):
    """A condition that is open for some bins, where it must be decided for each."""


@dataclass(frozen=True, eq=False)
class Selection:
    """A condition on one record, with three truth values.

    Where a comparison cuts a bin, its records may be meant or not: they are in `possible` and not in `true`.
    """

    true: Predicate
    stated_false: Predicate | None = None
    possible: Predicate | None = None
    """Where it may be true; None where that is the same as `true`."""
    refutable: Predicate | None = None
    """Where it may be false; None where that is the same as `false`."""
    share: float = 1.0
    """The part of the open records that is meant, if all lie evenly within their bins."""
    cut: str = ""
    """What is cut, in the words of a refusal."""

    @property
    def exact(self) -> bool:
        return self.possible is None

    @property
    def widest(self) -> Predicate:
        """Where it may be true."""
        return self.true if self.possible is None else self.possible

    @property
    def widest_false(self) -> Predicate:
        """Where it may be false."""
        return self.false if self.refutable is None else self.refutable

    @cached_property
    def false(self) -> Predicate:
        return ~self.true if self.stated_false is None else self.stated_false

    def decided(self) -> Predicate:
        """The predicate itself, where no bin is cut."""
        if not self.exact:
            raise CutError(self.cut)
        return self.true

    def open(self, domain: Domain) -> Predicate:
        """Records that may be meant or not."""
        assert self.possible is not None, "only a cut leaves records open"
        return all_of((self.possible, otherwise(self.true, domain)))

    def __invert__(self) -> Selection:
        if self.exact and self.stated_false is None:
            return Selection(~self.true)
        possible = None if self.exact else self.widest_false
        refutable = None if self.exact else self.possible
        return Selection(self.false, self.true, possible, refutable, 1.0 - self.share, self.cut)

    def two_valued(self, domain: Domain) -> Selection:
        """IS TRUE: where it is not true it is false."""
        if self.exact and self.stated_false is None:
            # Written as before, for what was bought under this text.
            return Selection(~otherwise(self.true, domain))
        refutable = None if self.exact else otherwise(self.true, domain)
        false = otherwise(self.widest, domain)
        return replace(self, stated_false=false, refutable=refutable)


EVERYTHING = Selection(Everything())


def both(parts: Sequence[Selection]) -> Selection:
    """AND."""
    true = all_of(part.true for part in parts)
    if all(part.exact and part.stated_false is None for part in parts):
        return Selection(true)
    false = any_of(part.false for part in parts)
    if all(part.exact for part in parts):
        return Selection(true, false)
    possible = all_of(part.widest for part in parts)
    refutable = any_of(part.widest_false for part in parts)
    return Selection(true, false, possible, refutable, _share(parts), _cut(parts))


def either(parts: Sequence[Selection]) -> Selection:
    """OR."""
    true = any_of(part.true for part in parts)
    if all(part.exact and part.stated_false is None for part in parts):
        return Selection(true)
    false = all_of(part.false for part in parts)
    if all(part.exact for part in parts):
        return Selection(true, false)
    possible = any_of(part.widest for part in parts)
    refutable = all_of(part.widest_false for part in parts)
    return Selection(true, false, possible, refutable, _share(parts), _cut(parts))


def _share(parts: Sequence[Selection]) -> float:
    shares = [part.share for part in parts if not part.exact]
    return sum(shares) / len(shares)


def _cut(parts: Sequence[Selection]) -> str:
    return next(part.cut for part in parts if not part.exact)


def otherwise(predicate: Predicate, domain: Domain) -> Predicate:
    """Where a predicate is not true: false or unknown. `~` keeps only where it is false."""
    return _without(predicate, domain, True)


def _without(predicate: Predicate, domain: Domain, outcome: bool) -> Predicate:
    """Where a predicate does not have the outcome, by De Morgan down to comparisons."""
    if isinstance(predicate, Not):
        return _without(predicate.operand, domain, not outcome)
    if isinstance(predicate, Junction):
        parts = [_without(operand, domain, outcome) for operand in predicate.operands]
        return any_of(parts) if (predicate.op == "and") is outcome else all_of(parts)
    opposite = ~predicate if outcome else predicate
    if not isinstance(predicate, Comparison):
        return opposite
    return any_of((opposite, *_unknown(predicate, domain)))


def _unknown(comparison: Comparison, domain: Domain) -> list[Predicate]:
    """The codes on which a comparison is neither true nor false."""
    attribute = domain[comparison.name]
    truth = attribute.truth(comparison.op, comparison.value, comparison.name)
    column, undecided = col(comparison.name), ~(truth.true | truth.false)
    found: list[Predicate] = []
    if attribute.null_code is not None and undecided[attribute.null_code]:
        found.append(column.is_null())
    if attribute.other_code is not None and undecided[attribute.other_code]:
        found.append(column == OTHER_LABEL)
    return found
