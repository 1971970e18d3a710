"""Water-filling: never above what equal or plain shares leave, nothing where there is nothing to learn."""

from itertools import combinations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.queries.linear import marginal
from reticent.releases.allocation import (
    MOST_ERROR,
    Allocation,
    NoiseBounds,
    allowed_noise,
    as_noisy,
    prior_variances,
)
from reticent.releases.candidates import measured_sets
from reticent.releases.residual_plan import ResidualPlan

DOMAIN = Domain({"a": 2, "b": 5, "c": 3, "d": 1, "e": 4})
TARGETS = dict.fromkeys(combinations(DOMAIN.names, 3), 1.0)


def left(allocation: Allocation, precisions: np.ndarray) -> float:
    """Sum over targets of the root of cells times squared error, from the definition; nothing known beforehand."""
    known = dict(zip(allocation.sets, allocation.precisions(precisions), strict=True))
    total = 0.0
    for names in TARGETS:
        squared = 0.0
        for order in (1, 2, 3):
            for inner in combinations(names, order):
                if not (kept := np.prod([1 - 1 / DOMAIN[name].size for name in inner])):
                    continue  # an attribute of one code has no residuals
                squared += kept * DOMAIN.cells(inner) ** 2 / DOMAIN.cells(names) / known[inner]
        total += np.sqrt(DOMAIN.cells(names) * squared)
    return total


def test_shares_are_at_least_as_good_as_equal_and_as_plain_ones():
    sets = measured_sets(DOMAIN, TARGETS, 2**20)
    allocation = Allocation(DOMAIN, sets, TARGETS)
    found = allocation.fill(7.0, np.zeros(len(sets)), np.zeros(len(sets)), [None] * len(sets))
    assert found.sum() == pytest.approx(7)
    assert found.min() >= 0
    plain = np.array([float(s in TARGETS) for s in sets])
    for other in (np.ones(len(sets)), plain):
        assert left(allocation, found) <= 1.001 * left(allocation, 7 * other / other.sum())


def test_what_is_known_to_be_faint_is_measured_only_for_its_largest_error():
    sets = measured_sets(DOMAIN, TARGETS, 2**20)
    allocation = Allocation(DOMAIN, sets, TARGETS)
    faint = [None if len(s) < 3 else np.full(DOMAIN.shape_of(s), 1e-9) for s in sets]
    found = allocation.fill(1.0, np.zeros(len(sets)), np.zeros(len(sets)), faint)
    strong = allocation.fill(1.0, np.zeros(len(sets)), np.zeros(len(sets)), [None] * len(sets))
    widest = np.array([np.inf if spread is None else 1e-9 for spread in faint])
    ignored = allocation.fill(1.0, np.zeros(len(sets)), np.zeros(len(sets)), faint, widest)
    triples = np.array([len(s) == 3 and "d" not in s for s in sets])  # a set with d is one without it
    assert ignored[triples].sum() < 0.1 * strong[triples].sum()
    assert ignored[triples].sum() < found[triples].sum() < 0.9 * strong[triples].sum()


def test_what_cannot_vary_is_not_measured():
    sets = measured_sets(DOMAIN, TARGETS, 2**20)
    allocation = Allocation(DOMAIN, sets, TARGETS)
    fixed = [None if len(s) < 3 else np.zeros(1) for s in sets]
    found = allocation.fill(1.0, np.zeros(len(sets)), np.zeros(len(sets)), fixed)
    # A marginal also tells the pairs inside it: it is not zero, but the pairs are cheaper.
    assert found[[len(s) == 3 and "d" not in s for s in sets]].sum() < 0.1


@pytest.mark.parametrize("seed", range(8))
def test_no_target_has_much_more_noise_than_plain_whatever_the_prior_says(seed: int):
    """From the definition, for drawn domains and for priors that expect nothing in most sets."""
    generator = np.random.default_rng(seed)
    domain = Domain({f"c{i}": int(size) for i, size in enumerate(generator.integers(2, 30, generator.integers(4, 7)))})
    targets = dict.fromkeys(combinations(domain.names, int(generator.integers(2, 4))), 1.0)
    sets = measured_sets(domain, targets, 2**20)
    spread = [None if len(s) == 1 else np.full(1, 10.0 ** generator.uniform(-6, 2)) for s in sets]
    allocation, nothing = Allocation(domain, sets, targets), np.zeros(len(sets))
    marginals = allocation.precisions(allocation.fill(1.0, nothing, nothing, spread))
    plan = ResidualPlan(domain, sets, targets, total=False)
    places = {s: i for i, s in enumerate(plan.sets)}
    residuals = plan.fill(1.0, np.zeros(len(places)), [spread[sets.index(s)] for s in plan.sets])
    every = sum(map(domain.cells, targets))
    for known in (dict(zip(sets, marginals, strict=True)), {s: residuals[i] for s, i in places.items()}):
        for names in targets:
            inside = [inner for k in range(1, len(names) + 1) for inner in combinations(names, k)]
            kept = {a: np.prod([1 - 1 / domain[name].size for name in a]) for a in inside}
            ratio = {a: domain.cells(a) / domain.cells(names) for a in inside}
            plain = {a: sum(ratio_of(domain, a, t) for t in targets if set(a) <= set(t)) / len(targets) for a in inside}
            ours, equal = (sum(kept[a] * ratio[a] ** 2 / each[a] for a in inside) for each in (known, plain))
            allowed = max(1.0, np.log(every) / np.log(len(targets) * domain.cells(names)))
            assert ours / equal < (1.05 * MOST_ERROR) ** 2 * allowed


def ratio_of(domain: Domain, inner: tuple[str, ...], outer: tuple[str, ...]) -> float:
    return domain.cells(inner) / domain.cells(outer)


def test_earlier_measurements_count_toward_the_plain_noise_that_bounds():
    """All pairs after a first purchase of half of them: the bound is that of both budgets together."""
    domain = Domain(dict.fromkeys("abcd", 6))
    sets = [*((name,) for name in domain.names), *combinations(domain.names, 2)]
    targets = dict.fromkeys(sets[4:], 1.0)
    measured, nothing = np.array([0.0] * 4 + [0.2] * 3 + [0.0] * 3), np.zeros(10)
    faint = [None if len(s) == 1 else np.full(1, 1e-9) for s in sets]
    allocation = Allocation(domain, sets, targets)
    known = allocation.precisions(measured + allocation.fill(1.0, measured, nothing, faint))
    single, pair = (5 / 6) * (1 / 6) ** 2, (5 / 6) ** 2
    # Each attribute is in three pairs of the six; N and K c are both 6 * 36.
    equal = 1.6 / 6
    plain = 2 * single / (3 * equal / 6) + pair / equal
    for place, (a, b) in enumerate(sets[4:], start=4):
        ours = sum(single / known[sets.index((name,))] for name in (a, b)) + pair / known[place]
        assert ours < (1.03 * MOST_ERROR) ** 2 * plain


def bounds_of(domain: Domain, targets: list[tuple[str, ...]], widest: float = np.inf) -> tuple[NoiseBounds, np.ndarray]:
    """Bounds for unit plain precisions of all residuals, and the prices of these."""
    sets = list(dict.fromkeys(a for t in targets for k in range(1, len(t) + 1) for a in combinations(t, k)))
    price = np.array([np.prod([1 - 1 / domain[name].size for name in s]) for s in sets])
    inside = [(i, j, ratio_of(domain, a, t)) for i, t in enumerate(targets) for j, a in enumerate(sets) if {*a} <= {*t}]
    outer, inner, ratio = (np.array(column) for column in zip(*inside, strict=True))
    cells = np.array([domain.cells(t) for t in targets], dtype=float)
    allowed = allowed_noise(cells, cells.size, as_noisy(cells, np.ones(cells.size)), MOST_ERROR)
    return NoiseBounds(
        (outer, inner, ratio), price, cells, np.ones(len(sets)), np.full(len(sets), widest), allowed
    ), price


def test_bounds_allow_small_targets_more_noise_for_the_same_union_bound():
    domain = Domain({"a": 2, "b": 3, "c": 40, "d": 50})
    bounds, price = bounds_of(domain, [("a", "b"), ("c", "d")])
    cells = 6 + 2000
    allowed = np.array([np.log(cells) / np.log(2 * 6), 1.0])
    assert bounds.over_most(np.ones(len(price))) == pytest.approx(1 / (MOST_ERROR * np.sqrt(allowed)))


def test_a_table_of_small_weight_may_not_be_noisier_than_plain_noise_leaves_it():
    """It is the noisiest: the cells of heavier tables do not have the largest error in its place."""
    cells = np.array([100.0, 6.0, 40.0, 6.0])
    assert as_noisy(cells, np.ones(4)).tolist() == [152, 152, 152, 152]
    assert as_noisy(cells, np.array([10.0, 1e-3, 1.0, 1e-3])).tolist() == [152, 12, 52, 12]


def test_gains_are_the_slopes_of_the_errors_that_are_bounded():
    """Of one target, by finite differences: how much a little more precision lowers the squared error of its cells."""
    domain, step = Domain({"a": 2, "b": 5, "c": 4}), 1e-6
    for widest in (np.inf, 3.0):
        bounds, price = bounds_of(domain, [("a", "b", "c")], widest)
        known = np.random.default_rng(3).uniform(0.2, 2, len(price))
        slopes = np.array(
            [
                (bounds.over_most(known) ** 2 - bounds.over_most(known + step * (np.arange(len(price)) == i)) ** 2)[0]
                for i in range(len(price))
            ]
        )
        gains = price * bounds.gains(known, 1.0)
        assert gains / gains.sum() == pytest.approx(slopes / slopes.sum(), rel=1e-3)


def test_a_target_of_one_cell_leaves_a_plan():
    domain = Domain({"a": 3, "b": 4, "c": 1})
    sets = [("a",), ("b",), ("c",), ("a", "b")]
    allocation = Allocation(domain, sets, {("c",): 1.0, ("a", "b"): 1.0})
    found = allocation.fill(1.0, np.zeros(4), np.zeros(4), [None] * 4)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)


def test_no_residual_departs_further_than_its_table_has_records():
    """The sums that contain a cell of a pair: its row and its column."""
    domain = Domain({"a": 2, "b": 4})
    rows, columns = np.array([0.9, 0.1]), np.array([0.7, 0.1, 0.1, 0.1])
    measured = [Measurement(marginal(n), values, 1e-6) for n, values in (("a", rows), ("b", columns))]
    variances, widest = prior_variances(measured, domain, [("a",), ("a", "b")], 1000.0)
    assert variances[0] is None
    assert widest[0] == np.inf
    assert widest[1] == pytest.approx(700.0**2 / (1 / 2 * 3 / 4), rel=1e-4)


@pytest.mark.parametrize("heavy", [0, 300, 9000])
def test_no_cell_is_expected_to_depart_further_than_its_row_and_column_allow(heavy: int):
    """Two rare codes that always come together made every cell of the pair seem that uncertain: on ten columns of
    people the largest error was a sixth above, and total variation seven percent.
    """
    domain, records = Domain({"a": 20, "b": 20}), 10_000
    codes = np.random.default_rng(7).integers(2, 20, (records, 2))
    codes[:heavy], codes[-20:] = 1, 0
    table = np.zeros((20, 20))
    np.add.at(table, (codes[:, 0], codes[:, 1]), 1 / records)
    variances, widest = prior_variances([Measurement(marginal("a", "b"), table, 1e-6)], domain, [("a", "b")], records)
    assert variances[0] is not None
    assert variances[0].max() <= widest[0]


def test_sets_of_any_order_are_measured():
    sets = measured_sets(DOMAIN, [DOMAIN.names], 2**20)
    assert DOMAIN.names in sets
    # All but the attribute of one code by itself.
    assert len(sets) == 2**5 - 2
    assert DOMAIN.names not in measured_sets(DOMAIN, [DOMAIN.names], 100)
