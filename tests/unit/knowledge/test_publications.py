"""What rests on several ledgers states the sum of them, and of one ledger all that it spent."""

from __future__ import annotations

import itertools

import pytest

from reticent.domain import Domain, Integer
from reticent.errors import QueryError
from reticent.kernel.accounting import Budget
from reticent.knowledge.publications import PublishedBudget, discovered, each_ledger_once, statement


def test_of_two_states_of_one_ledger_the_later_one_counts() -> None:
    """A start may rest on an earlier state of the ledger that found the domain: the later one includes it."""
    budget = Budget(rho=1)
    own, early, late = (
        PublishedBudget(name, budget, spent) for name, spent in (("a", 10**6), ("d", 10**6), ("d", 9 * 10**6))
    )
    for others in itertools.permutations([early, late]):
        assert each_ledger_once(own, *others) == (own, late)
        assert statement(each_ledger_once(own, *others))["spent"] == 10**7


def test_what_may_fail_is_added_up_over_ledgers() -> None:
    first, second = (PublishedBudget(name, Budget(rho=1, approximate=2e-7), 10**6) for name in "ab")
    stated = statement(each_ledger_once(first, second))["privacy"]
    assert stated["approximate"] == 4e-7
    assert set(stated["epsilon"]) == {1e-6}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["person", "row", "record"])
def test_a_domain_found_for_persons_serves_their_rows_under_add_remove(neighbours: str, unit: str) -> None:
    """One person with all rows more or less is the same relation; replace-one may leave a person without rows."""
    paid = {"ledger": "d", "unit": "person", "neighbours": neighbours, "budget": Budget(rho=1).to_dict(), "spent": 5}
    domain = Domain(a=Integer(2)).with_discovered(paid)
    if unit == "person" or (unit == "row" and neighbours == "add-remove"):
        assert [found.spent for found in discovered(domain, neighbours, unit)] == [5]
    else:
        with pytest.raises(QueryError, match="prices would not add"):
            discovered(domain, neighbours, unit)
