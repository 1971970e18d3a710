"""Residuals of marginals: whole numbers, refusals, and prices that agree with those of marginals."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel import residual_counts
from reticent.kernel.counting.records import Records
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.residual_counts import RESIDUAL_CELLS, ResidualCounts, joint_price
from reticent.kernel.table import Table, exact_counts
from reticent.queries.linear import Residual

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
EVERY = [names for order in range(4) for names in combinations(DOMAIN.names, order)]


def counts() -> Table:
    codes = np.random.default_rng(1).integers(0, (2, 3, 4), (50, 3))
    columns = dict(zip(DOMAIN.names, codes.T, strict=True))
    return Table(Records.of_codes(DOMAIN, columns, np.ones(50, dtype=np.int64)), DOMAIN, neighbours="add-remove")


def of(names: tuple[str, ...], domain: Domain = DOMAIN) -> ResidualCounts:
    return ResidualCounts(Residual(names), domain)


def test_residuals_add_up_to_the_marginal() -> None:
    source, total = exact_counts(counts()), np.zeros(DOMAIN.shape)
    for names in EVERY:
        statistic = of(names)
        values = statistic.evaluate(source, 1)
        assert values.dtype == np.int64
        for axis in range(values.ndim):
            assert not values.sum(axis=axis).any()
        shape = [DOMAIN[name].size if name in names else 1 for name in DOMAIN.names]
        total += values.reshape(shape) / statistic.cells * (statistic.cells / DOMAIN.size)
    assert total == pytest.approx(source.marginal(DOMAIN.names))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_residuals_of_a_marginal_cost_what_it_costs(neighbours: str) -> None:
    """With precisions as the marginal tells them: nothing is lost by either way of measuring."""
    noise = Gaussian(Fraction(4))
    parts = []
    for names in EVERY if neighbours == "add-remove" else EVERY[1:]:
        precision = Fraction(of(names).cells, DOMAIN.size) / noise.sigma**2
        # The root of these precisions is seldom a fraction: rounded up, by less than the price is compared to.
        parts.append((of(names), Gaussian(Fraction((1 / float(precision)) ** 0.5))))
    marginal = (1 if neighbours == "add-remove" else 2) / (2 * noise.sigma**2)
    assert float(joint_price(parts, neighbours).rho) == pytest.approx(float(marginal), rel=1e-12)


def test_one_residual_costs_its_own_sensitivity() -> None:
    for names, neighbours in product(EVERY[1:], ("add-remove", "replace-one")):
        statistic, noise = of(names), Gaussian(Fraction(7, 2))
        own = noise.price(statistic.sensitivity(neighbours))
        together = joint_price([(statistic, noise)], neighbours)
        assert own.rho <= together.rho <= own.rho * (1 + Fraction(1, 10**9))
        assert own.gaussian is not None
        assert together.gaussian is not None
        assert own.gaussian <= together.gaussian <= own.gaussian * (1 + Fraction(1, 10**9))


def test_groups_of_few_attributes_cost_more_and_never_less(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain({f"c{i}": 2 + i % 3 for i in range(7)})
    generator = np.random.default_rng(2)
    parts = [
        (of(names, domain), Gaussian(Fraction(int(generator.integers(3, 40)))))
        for order in (1, 2)
        for names in combinations(domain.names, order)
    ]
    exact = joint_price(parts, "replace-one").rho
    alone = sum((joint_price([part], "replace-one").rho for part in parts), Fraction(0))
    monkeypatch.setattr(residual_counts, "TOGETHER", 3)
    bound = joint_price(parts, "replace-one").rho
    assert exact < bound < alone


@pytest.mark.parametrize("together", [2, 5, 16])
def test_a_set_joins_the_first_group_with_room(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(residual_counts, "TOGETHER", together)
    generator = np.random.default_rng(together)
    names = [f"c{i}" for i in range(20)]
    sets = [tuple(generator.choice(names, 1 + i % 3, replace=False).tolist()) for i in range(60)]
    expected: list[tuple[set[str], list[int]]] = []
    for i, s in enumerate(sets):
        room = [group for group in expected if len(group[0].union(s)) <= max(together, len(s))]
        if not room:
            expected.append((set(), []))
        attributes, members = room[0] if room else expected[-1]
        attributes |= set(s)
        members.append(i)
    assert residual_counts.groups(sets) == [members for _, members in expected]


def test_the_worst_pair_of_records_is_found_by_the_transform() -> None:
    parts = [(of(names), Gaussian(Fraction(3 + i))) for i, names in enumerate(EVERY[1:])]
    worst = Fraction(0)
    for order in range(4):
        for differ in combinations(DOMAIN.names, order):
            told = Fraction(0)
            for statistic, noise in parts:
                kept = alike = Fraction(1)
                for name, size in zip(statistic.attributes, statistic.shape, strict=True):
                    kept *= Fraction(size - 1, size)
                    alike *= Fraction(-1, size) if name in differ else Fraction(size - 1, size)
                told += (kept - alike) / noise.sigma**2
            worst = max(worst, told)
    assert worst <= joint_price(parts, "replace-one").rho <= worst * (1 + Fraction(1, 10**9))


def test_refusals() -> None:
    wide = Domain({"a": 1, "b": RESIDUAL_CELLS, "c": 2})
    with pytest.raises(QueryError, match="one code only"):
        of(("a", "b"), wide)
    with pytest.raises(QueryError, match="at most 262144"):
        of(("b", "c"), wide)
    with pytest.raises(QueryError, match="different attributes"):
        Residual(("a", "a"))
    assert of(("b",), wide).cells == RESIDUAL_CELLS


def test_the_largest_residual_of_the_largest_table_stays_in_int64() -> None:
    """Where most records lie in one cell, whole numbers are largest."""
    domain = Domain({"a": 2**9, "b": 2**9})
    most = 2**43 - 1
    codes = {"a": np.zeros(1, dtype=np.int64), "b": np.zeros(1, dtype=np.int64)}
    table = Table(Records.of_codes(domain, codes, np.array([most])), domain, neighbours="add-remove")
    values = of(("a", "b"), domain).evaluate(exact_counts(table), 1)
    assert int(values[0, 0]) == most * (2**9 - 1) ** 2
    assert int(values[0, 1]) == -most * (2**9 - 1)
    assert int(values[1, 1]) == most


def test_one_noise_without_a_gaussian_price_leaves_the_whole_without() -> None:
    """Below 1.1 steps of its grid it is not known how private discrete noise is (docs/proofs/gaussian-dp.md)."""
    wide, narrow = (of(("a",)), Gaussian(5)), (of(("a", "b")), Gaussian(1))
    for neighbours in ("add-remove", "replace-one"):
        assert joint_price([wide], neighbours).gaussian is not None
        assert joint_price([wide, narrow], neighbours).gaussian is None
        assert joint_price([narrow, wide], neighbours).gaussian is None
