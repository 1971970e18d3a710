"""A pure budget: one family of sets, never expected to be worse than plain noise but for the price of a look."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.hypotheses.fitting.consistent import Consistent
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Neighbours, Table
from reticent.knowledge.guarantees import Progress
from reticent.queries.linear import marginal
from reticent.queries.workload import Workload
from reticent.releases import rounds
from reticent.releases.adaptive import Adaptive
from reticent.releases.allocation import MOST_ERROR, Allocation
from reticent.releases.candidates import measured_sets
from reticent.releases.pure_plan import families, histogram_serves, pure_shares
from reticent.releases.release import release

Set = tuple[str, ...]


def errors(domain: Domain, targets: list[Set], precisions: dict[Set, float]) -> np.ndarray:
    """Noise of a cell of each target, from the definition, by least squares on marginals of these precisions."""
    found = []
    for names in targets:
        squared = 0.0
        for order in range(1, len(names) + 1):
            for inner in combinations(names, order):
                known = sum(
                    t / prod(domain[name].size for name in s if name not in inner)
                    for s, t in precisions.items()
                    if set(inner) <= set(s)
                )
                kept = prod(1 - 1 / domain[name].size for name in inner)
                share = domain.cells(inner) / domain.cells(names)
                squared += kept * share * share / known if kept else 0.0
        found.append(np.sqrt(squared))
    return np.array(found)


@st.composite
def asked(draw: st.DrawFn) -> tuple[Domain, list[Set]]:
    sizes = draw(st.lists(st.integers(2, 12), min_size=2, max_size=5))
    domain = Domain({f"c{i}": size for i, size in enumerate(sizes)})
    sets = [s for k in range(1, len(sizes) + 1) for s in combinations(domain.names, k)]
    return domain, draw(st.lists(st.sampled_from(sets), min_size=1, max_size=6, unique=True))


@settings(max_examples=60, deadline=None)
@given(asked())
def test_expected_errors_are_no_larger_than_those_of_plain_noise(case: tuple[Domain, list[Set]]) -> None:
    domain, targets = case
    allocation = Allocation(domain, measured_sets(domain, targets, 2**20), dict.fromkeys(targets, 1.0))
    nothing = np.zeros(len(allocation.sets))
    shares = pure_shares(allocation, dict.fromkeys(targets, 1.0), 7.0, (nothing, nothing), [None] * nothing.size)
    assert shares.sum() == pytest.approx(1)
    ours = errors(domain, targets, dict(zip(allocation.sets, 7 * shares**2, strict=True)))
    plain = errors(domain, targets, dict.fromkeys(targets, 7 / len(targets) ** 2))
    cells = np.array([domain.cells(s) for s in targets])
    assert (cells * ours).sum() <= 1.01 * (cells * plain).sum()
    assert (ours <= 1.06 * MOST_ERROR * plain).all()


def test_what_drowns_gives_way_to_what_lies_inside_it() -> None:
    domain = Domain({"a": 8, "b": 9, "c": 7, "d": 6})
    targets = dict.fromkeys(combinations(domain.names, 3), 1.0)
    allocation = Allocation(domain, measured_sets(domain, targets, 2**20), targets)
    nothing = np.zeros(len(allocation.sets))
    faint = [None if len(s) < 3 else np.full(domain.shape_of(s), 1e-6) for s in allocation.sets]
    for variances, order in ((faint, 2), ([None] * nothing.size, 3)):
        shares = pure_shares(allocation, targets, 1.0, (nothing, nothing), variances)
        by_order = {len(s) for s, share in zip(allocation.sets, shares, strict=True) if share > 1e-3}
        assert by_order == {order}


def test_families_hold_no_set_inside_another_but_for_those_asked_and_the_last() -> None:
    sets = [s for k in (1, 2, 3) for s in combinations("abcd", k)]
    asked, *apart, everything = families(sets, [("a", "b", "c"), ("c", "d"), ("c",)])
    assert asked == [("a", "b", "c"), ("c", "d"), ("c",)]
    assert apart == [[("a", "b", "c"), ("c", "d")], [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")], [*zip("abcd")]]
    assert everything == sets


def test_cells_of_a_small_universe_are_measured_where_they_tell_more() -> None:
    binary, mixed = Domain(dict.fromkeys("abcdef", 2)), Domain({"a": 5, "b": 6, "c": 4, "d": 7, "e": 3, "f": 8})
    for domain, order, serves in ((binary, 3, True), (mixed, 3, True), (mixed, 2, False)):
        targets = dict.fromkeys(combinations(domain.names, order), 1.0)
        assert histogram_serves(domain, measured_sets(domain, targets, 2**20), targets, 1.0, None) is serves
    # Ten thousand times the noise: of triples nothing is left to see, and pairs by themselves tell more.
    targets = dict.fromkeys(combinations(mixed.names, 3), 1.0)
    assert not histogram_serves(mixed, measured_sets(mixed, targets, 2**20), targets, 1e-4, 1000.0)


def plain_answers(truth: dict[Set, np.ndarray], epsilon: float, generator: np.random.Generator) -> Consistent:
    scale = len(truth) / epsilon
    noisy = [(s, cells + generator.laplace(0, scale, cells.shape), scale) for s, cells in truth.items()]
    return Consistent.of(noisy)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("order", "epsilon"), [(2, 1.0), (2, 0.1), (3, 1.0), (3, 0.1)])
def test_a_release_is_nearer_than_plain_laplace_noise(order: int, epsilon: float, neighbours: Neighbours) -> None:
    """Rounds at two fifths of the budget, and sets inside others, had 1.3 to 1.5 times the error of plain noise.

    Certificates, columns and the look leave nine tenths of the budget. Each mean is over thousands of cells.
    """
    domain = Domain({"a": 5, "b": 6, "c": 4, "d": 7, "e": 3, "f": 8})
    generator, rows = np.random.default_rng(5), 50_000
    logits = np.zeros(domain.shape)
    for axes in combinations(range(6), 3):
        logits = logits + generator.normal(0, 0.3, [n if i in axes else 1 for i, n in enumerate(domain.shape)])
    cells = generator.multinomial(rows, (np.exp(logits) / np.exp(logits).sum()).ravel())
    codes = np.stack(np.unravel_index(np.flatnonzero(cells), domain.shape), axis=1)
    source = Records.of_codes(domain, dict(zip(domain.names, codes.T, strict=True)), cells[cells > 0])
    table = Table(source, domain, records=rows if neighbours == "replace-one" else None, neighbours=neighbours)
    sets = list(combinations(domain.names, order))
    truth = {s: np.asarray(source.marginal(s), dtype=np.float64) for s in sets}
    workload = Workload([marginal(*s) for s in sets], domain=domain)
    made = release(table, workload, Budget(epsilon=epsilon), algorithm=Adaptive())
    ours = np.mean([np.abs(made.hypothesis.marginal(s) * rows - truth[s]).sum() for s in sets])
    moved = 1 if neighbours == "add-remove" else 2
    noisy = [plain_answers(truth, epsilon / moved, np.random.default_rng(seed)) for seed in range(4)]
    plain = np.mean([np.abs(n.marginal(s)[0] - truth[s]).sum() for n in noisy for s in sets])
    assert ours < 1.25 * plain


def functions_of_the_one_before(shape: tuple[int, ...], rows: int) -> Table:
    """Each attribute a random function of the one before it: pairs hold all there is to know, singles hardly any."""
    generator = np.random.default_rng(11)
    columns = [generator.integers(0, shape[0], rows)]
    for before, size in pairwise(shape):
        columns.append(generator.integers(0, size, before)[columns[-1]])
    domain = Domain({f"c{i}": size for i, size in enumerate(shape)})
    codes = dict(zip(domain.names, columns, strict=True))
    return Table(Records.of_codes(domain, codes, np.ones(rows, dtype=np.int64)), domain, neighbours="add-remove")


def test_the_number_of_records_is_bought_before_a_look_is_judged() -> None:
    """Sums of the look's large tables told 1,000 records with an error of 22,000: all dependence seemed to drown.

    One release in about twenty still leaves a dependence unmeasured, so the largest error is a median.
    """
    table = functions_of_the_one_before((60, 6, 30, 12), 1000)
    sets = list(combinations(table.domain.names, 3))
    workload = Workload([marginal(*s) for s in sets], domain=table.domain)
    truth = dict(zip(sets, table._source.marginals(sets), strict=True))
    largest = []
    for _ in range(5):
        made = release(table, workload, Budget(epsilon=3.0), algorithm=Adaptive())
        assert made.measurements[0].query == marginal()
        assert abs(made.records - 1000) < 500
        largest.append(max(float(np.abs(made.hypothesis.marginal(s) - truth[s] / 1000).max()) for s in sets))
    cells = sum(map(table.domain.cells, sets))
    assert np.median(largest) < 1.25 * (len(sets) / 3.0) * np.log(cells) / 1000, "plain noise has this largest error"


def test_a_pure_run_that_began_without_the_number_of_records_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that an earlier version began, and that was interrupted after its first round."""
    table = functions_of_the_one_before((60, 6, 30, 12), 1000)
    budget, algorithm = Budget(epsilon=3.0), Adaptive(audit_share=0)
    workload = Workload([marginal(*s) for s in combinations(table.domain.names, 3)], domain=table.domain)
    ledger = Ledger.memory(identity=table.identity, budget=budget)
    curator = Curator(table, ledger)

    class Stop(Exception):
        pass

    def interrupt(progress: Progress) -> None:
        if progress.step == 1:
            raise Stop

    with monkeypatch.context() as former:
        former.setattr(rounds, "_count_before", lambda *given: 0)
        with pytest.raises(Stop):
            algorithm.run(curator, workload, allowance=budget.limit, key="r", report=interrupt)
    outcome = algorithm.run(curator, workload, allowance=budget.limit, key="r")
    assert marginal() not in [m.query for m in outcome.measurements]
    spent = ledger.remaining
    again = algorithm.run(curator, workload, allowance=budget.limit, key="r")
    assert ledger.remaining == spent
    assert again.hypothesis.to_bytes() == outcome.hypothesis.to_bytes()
