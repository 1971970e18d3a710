"""The automatic choice: right, explained, and open to contradiction."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.errors import DomainError
from reticent.hypotheses import DenseHypothesis, SupportHypothesis, choose
from reticent.queries import Conjunction, Workload, marginals

SMALL = Domain({"a": 4, "b": 5})
MEDIUM = Domain({f"a{place}": 2 for place in range(26)})
WIDE = Domain({f"a{place}": 2 for place in range(100)})


def everything(domain: Domain) -> Workload:
    return Workload([Conjunction(dict.fromkeys(domain.names, 0))])


@pytest.mark.parametrize(
    ("domain", "workload", "representation"),
    [
        (SMALL, marginals(SMALL, 2), "dense"),
        (SMALL, None, "dense"),
        (MEDIUM, marginals(MEDIUM, 3), "factored"),
        (MEDIUM, everything(MEDIUM), "dense"),
        (WIDE, None, "factored"),
        (WIDE, marginals(WIDE, 2), "factored"),
        (WIDE, everything(WIDE), "support"),
    ],
)
def test_each_case_gets_its_representation(domain: Domain, workload: Workload, representation: str) -> None:
    choice = choose(domain, workload)
    assert choice.representation == representation
    assert "2^" in choice.reason


def test_the_caller_may_overrule() -> None:
    choice = choose(SMALL, representation="support")
    assert choice.reason == "chosen by the caller"
    assert isinstance(choice.build(np.random.default_rng(0)), SupportHypothesis)
    with pytest.raises(DomainError, match="generator"):
        choice.build()
    assert isinstance(choose(SMALL).build(), DenseHypothesis)
    assert choose(WIDE).build().log_size == pytest.approx(100 * np.log(2))
    with pytest.raises(DomainError, match="use one of dense, factored, support"):
        choose(SMALL, representation="sparse")
    with pytest.raises(DomainError, match="use factored"):
        choose(WIDE, representation="dense")
