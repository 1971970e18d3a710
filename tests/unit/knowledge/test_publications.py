"""What rests on several ledgers states the sum of them, and of one ledger all that it spent."""

from __future__ import annotations

import itertools

from reticent.kernel.accounting import Budget
from reticent.knowledge.publications import PublishedBudget, each_ledger_once, statement


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
