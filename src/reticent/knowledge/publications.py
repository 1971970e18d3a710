"""Publications: what one ledger paid for; a hypothesis may depend on several, and their prices add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import (
    GAUSSIAN,
    Budget,
    Price,
)


@dataclass(frozen=True)
class PublishedBudget:
    """The budget of one ledger and the amount spent, in its units."""

    ledger: str
    budget: Budget
    spent: int

    def to_dict(self) -> dict[str, Any]:
        return {"ledger": self.ledger, "budget": self.budget.to_dict(), "spent": self.spent}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> PublishedBudget:
        return cls(written["ledger"], Budget.from_dict(written["budget"]), int(written["spent"]))


def behind(facts: Mapping[str, Any]) -> tuple[PublishedBudget, ...]:
    """All publications on which a release depends; a file of an earlier version names one ledger without identifying
    it.
    """
    written = facts.get("publications") or [{"ledger": "", "budget": facts["budget"], "spent": facts["spent"]}]
    return tuple(map(PublishedBudget.from_dict, written))


def elsewhere(publications: Iterable[PublishedBudget], ledger: str) -> tuple[PublishedBudget, ...]:
    """The publications that this ledger has not paid for itself."""
    return tuple(p for p in publications if p.ledger != ledger)


def discovered(domain: Domain, neighbours: str, unit: str) -> tuple[PublishedBudget, ...]:
    """The price of discovering a domain's edges and values, which is added to everything that uses the domain.

    Prices add up only for one neighbour relation and one unit of privacy; both are public facts. Under add-remove a
    person with all rows is one unit, whether the rows share a weight ("person") or some of them count ("row").
    """
    found = []
    for paid in domain.discovered:
        whole_persons = neighbours == "add-remove" and (paid["unit"], unit) == ("person", "row")
        for name, ours in (("neighbours", neighbours), ("unit", paid["unit"] if whole_persons else unit)):
            if paid[name] != ours:
                raise QueryError(
                    f"the domain was discovered for {name} {paid[name]}, the table has {ours}: prices would not add;"
                    " use the same, or discover it again"
                )
        found.append(PublishedBudget(paid["ledger"], Budget.from_dict(paid["budget"]), int(paid["spent"])))
    return tuple(found)


def each_ledger_once(own: PublishedBudget, *others: PublishedBudget) -> tuple[PublishedBudget, ...]:
    """Each ledger once, this one first, so that nothing is added twice. Of two states of one ledger the later one
    counts.
    """
    found = {own.ledger: own}
    for publication in others:
        known = found.setdefault(publication.ledger, publication)
        if known.spent < publication.spent:
            found[publication.ledger] = publication
    return tuple(found.values())


def budget_of(publications: Sequence[PublishedBudget]) -> Budget:
    """The joint budget of all of them."""
    return reduce(add, (p.budget for p in publications))


def opened_budget(opening: Mapping[str, Any]) -> Budget:
    """The whole budget of a ledger, from its first event."""
    terms = opening["budget"].items()
    return Budget.from_dict({name: term for name, term in terms if name not in ("limit", "unit")})


def composing(budget: Budget, others: Sequence[PublishedBudget] = ()) -> Budget:
    """The budget of a new ledger that needs Gaussian noise only: composed exactly, if it leaves that open.

    What it is added to has prices that compose like its
    own; otherwise the sum would be stated as zCDP, and an exact composition would make it larger.
    """
    exactly = budget.composed_like(GAUSSIAN)
    alike = all(other.budget.gaussian for other in others)
    return exactly if alike else budget


def statement(publications: Sequence[PublishedBudget]) -> dict[str, Any]:
    """The privacy of everything that depends on these publications, as a release states it."""
    total = budget_of(publications)
    spent = total.cost(sum((p.budget.price(p.spent) for p in publications), Price.free()))
    return {
        "budget": total.to_dict(),
        "spent": spent,
        "privacy": total.guarantee(spent),
        "publications": [p.to_dict() for p in publications],
    }
