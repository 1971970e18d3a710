"""A publication is what one ledger paid for; a hypothesis may rest on several, and their prices add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from reticent.kernel.accounting import Budget, Price


@dataclass(frozen=True)
class Publication:
    """What may be spent on one ledger, and what is, in its units."""

    ledger: str
    budget: Budget
    spent: int

    def to_dict(self) -> dict[str, Any]:
        return {"ledger": self.ledger, "budget": self.budget.to_dict(), "spent": self.spent}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Publication:
        return cls(written["ledger"], Budget.from_dict(written["budget"]), int(written["spent"]))


def behind(facts: Mapping[str, Any]) -> tuple[Publication, ...]:
    """All that a release rests on; a file of an earlier version names one ledger only, and not which."""
    written = facts.get("publications") or [{"ledger": "", "budget": facts["budget"], "spent": facts["spent"]}]
    return tuple(map(Publication.from_dict, written))


def elsewhere(publications: Iterable[Publication], ledger: str) -> tuple[Publication, ...]:
    """Those that this ledger has not paid for itself."""
    return tuple(p for p in publications if p.ledger != ledger)


def budget_of(publications: Sequence[Publication]) -> Budget:
    """What all of them together guarantee at most."""
    return reduce(add, (p.budget for p in publications))


def statement(publications: Sequence[Publication]) -> dict[str, Any]:
    """The privacy of everything that rests on these, as a release states it."""
    total = budget_of(publications)
    spent = total.cost(sum((p.budget.price(p.spent) for p in publications), Price.free()))
    return {
        "budget": total.to_dict(),
        "spent": spent,
        "privacy": total.guarantee(spent),
        "publications": [p.to_dict() for p in publications],
    }
