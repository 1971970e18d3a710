"""Plans of residuals: ResidualPlanner's where nothing is known, never far from plain noise, paid to the unit."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from benchmarks.linear import planned_precisions

from reticent.domain import Domain
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Neighbours, Table
from reticent.queries.linear import Residual
from reticent.releases import residual_plan
from reticent.releases.candidates import measured_sets
from reticent.releases.residual_plan import ResidualPlan, measurable, noises_costing

MIXED = Domain({"a": 2, "b": 3, "c": 12, "d": 5})
BINARY = Domain({f"c{i}": 2 for i in range(8)})


def plan(domain: Domain, order: int) -> ResidualPlan:
    targets = dict.fromkeys(combinations(domain.names, order), 1.0)
    return ResidualPlan(domain, measured_sets(domain, targets, 2**20), targets, total=True)


def unknown(planned: ResidualPlan) -> list[np.ndarray | None]:
    return [None] * len(planned.sets)


def curator(domain: Domain, neighbours: Neighbours, budget: Budget) -> Curator:
    codes = np.random.default_rng(3).integers(0, domain.shape, (40, len(domain)))
    columns = dict(zip(domain.names, codes.T, strict=True))
    records = 40 if neighbours == "replace-one" else None
    source = Records.of_codes(domain, columns, np.ones(40, dtype=np.int64))
    table = Table(source, domain, records=records, neighbours=neighbours)
    return Curator(table, Ledger.memory(budget, table.identity))


@pytest.mark.parametrize("order", [2, 3])
def test_with_nothing_known_it_is_residual_planner(order: int) -> None:
    planned = plan(MIXED, order)
    filled = planned.fill(2.0, np.zeros(len(planned.sets)), unknown(planned), most_error=1e9)
    found = dict(zip(planned.sets, filled, strict=True))
    sizes = dict(zip(MIXED.names, MIXED.shape, strict=True))
    wanted = planned_precisions(list(combinations(MIXED.names, order)), sizes, 1.0)
    assert found == pytest.approx({names: wanted[names] for names in found}, rel=1e-3)


@pytest.mark.parametrize("domain", [MIXED, BINARY], ids=["mixed", "binary"])
def test_no_target_has_much_more_error_than_plain_noise(domain: Domain) -> None:
    planned, targets = plan(domain, 3), list(combinations(domain.names, 3))
    found = planned.fill(1.0, np.zeros(len(planned.sets)), unknown(planned))
    plain = planned.told_by(dict.fromkeys(targets, 1 / len(targets)))
    assert float(planned.price @ found) == pytest.approx(1.0)
    assert float(planned.price @ plain) == pytest.approx(1.0)
    assert planned.objective(found, unknown(planned)) < planned.objective(plain, unknown(planned))
    for target in targets:
        one = ResidualPlan(domain, measured_sets(domain, targets, 2**20), {target: 1.0}, total=True)
        place = {names: i for i, names in enumerate(planned.sets)}
        ours, theirs = (np.array([p[place[names]] for names in one.sets]) for p in (found, plain))
        assert one.objective(ours, unknown(one)) < 1.21 * one.objective(theirs, unknown(one))


def test_what_is_known_and_what_is_faint_gets_less() -> None:
    planned = plan(MIXED, 2)
    place = planned.sets.index(("a", "b"))
    known = np.zeros(len(planned.sets))
    before = planned.fill(1.0, known, unknown(planned))
    known[place] = 10 * before[place]
    assert planned.fill(1.0, known, unknown(planned))[place] < 0.1 * before[place]
    faint, widest = unknown(planned), np.full(len(planned.sets), np.inf)
    faint[place] = np.full(6, 1e-9)
    noticed = planned.fill(1.0, np.zeros(len(planned.sets)), faint, widest)[place]
    widest[place] = 1e-9
    ignored = planned.fill(1.0, np.zeros(len(planned.sets)), faint, widest)[place]
    assert ignored < 0.01 * before[place] < noticed < before[place]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("noise", [None, "gaussian"])
def test_noises_cost_what_they_should(neighbours: Neighbours, noise: str | None) -> None:
    budget = Budget(rho=0.1) if noise is None else Budget(rho=0.1, noise=noise)
    held, planned = curator(BINARY, neighbours, budget), plan(BINARY, 2)
    sets = planned.sets if neighbours == "add-remove" else planned.sets[1:]
    precisions = np.random.default_rng(4).uniform(0.1, 3, len(sets)).tolist()
    units = NANO // 100
    noises = noises_costing(held, sets, precisions, units)
    assert units * 0.999 <= held.budget.cost(held.price([Residual(s) for s in sets], noises)) <= units
    ratios = [n.sd**-2.0 / precision for n, precision in zip(noises, precisions, strict=True)]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-5)


def test_closed_and_small_sets_are_measurable() -> None:
    assert measurable(MIXED, [("a",), ("b",), ("a", "b")])
    assert not measurable(MIXED, [("a",), ("a", "b")])
    assert not measurable(Domain({"a": 1000, "b": 1000}), [("a",), ("b",), ("a", "b")])


def test_groups_of_a_wide_table_follow_each_other() -> None:
    domain = Domain({f"c{i}": 2 for i in range(40)})
    targets = dict.fromkeys([("c0", "c1"), ("c30", "c31"), ("c1", "c2"), ("c31", "c32")], 1.0)
    sets = ResidualPlan(domain, measured_sets(domain, targets, 2**20), targets, total=False).sets
    pairs = [s for s in sets if len(s) == 2]
    assert pairs == [("c0", "c1"), ("c1", "c2"), ("c30", "c31"), ("c31", "c32")]


UNEVEN = Domain({"a": 2_000, "b": 5})


@pytest.mark.parametrize("replacing", [False, True])
def test_a_small_column_is_not_lost_beside_a_wide_one(replacing: bool) -> None:
    """The sum of 2,000 noisy cells has 45 times their noise; users read the column of 5 codes by itself."""
    targets = {UNEVEN.names: 1.0}
    planned = ResidualPlan(
        UNEVEN, measured_sets(UNEVEN, targets, 2**20), targets, total=not replacing, replacing=replacing
    )
    found = planned.fill(1.0, np.zeros(len(planned.sets)), unknown(planned))
    noise = {
        names: (price / t) ** 0.5 for names, price, t in zip(planned.sets, planned.price, found, strict=True) if names
    }
    # Of 15 noises of a small column, the largest is nearer to their deviation than of the 12,005 of all tables.
    plain = 3**0.5 * (np.log(12_005) / np.log(15)) ** 0.5
    assert noise["b",] < 2 * 1.2 * plain * 1.05 * (2**0.5 if replacing else 1)
    assert noise["a", "b"] < 1.05 * (2**0.5 if replacing else 1)


def test_the_sets_inside_hardly_cost_the_targets_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    for domain, order in ((MIXED, 3), (BINARY, 3), (UNEVEN, 2)):
        planned = plan(domain, order)
        bounded = planned.fill(1.0, np.zeros(len(planned.sets)), unknown(planned))
        with monkeypatch.context() as free:
            free.setattr(residual_plan, "LOWER_NOISE", 1e9)
            least = planned.fill(1.0, np.zeros(len(planned.sets)), unknown(planned))
        assert planned.objective(bounded, unknown(planned)) < 1.01 * planned.objective(least, unknown(planned))
