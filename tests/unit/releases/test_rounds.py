"""What each round of a release measures: no look at what would drown, but heavy cells are found later."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import inf

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.fitting.consistent import consistent_of
from reticent.hypotheses.fitting.descent import Reached
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.statistics import of_one_marginal
from reticent.kernel.table import Neighbours, Table
from reticent.knowledge.guarantees import Outcome, Progress
from reticent.queries.linear import marginal
from reticent.queries.workload import Workload, marginals
from reticent.releases import rounds
from reticent.releases.adaptive import Adaptive
from reticent.releases.budgeting import Collection, noise_costing
from reticent.releases.release import release

Set = tuple[str, ...]

SIZES = (40, 40, 40, 3)
WIDE = Domain(dict(zip("abcd", SIZES, strict=True)))
ROWS = 4_000
TRIPLE = ("a", "b", "c")
BUDGET = Budget(rho=0.05)
ASKED = Workload([marginal(*TRIPLE), marginal("a", "d"), marginal("b", "d")], domain=WIDE)


def spread_evenly() -> np.ndarray:
    return np.random.default_rng(1).integers(0, SIZES, (ROWS, 4))


def three_heavy_cells() -> np.ndarray:
    """Parity of three codes: no pair tells of it."""
    generator = np.random.default_rng(2)
    bits = generator.integers(0, 2, (ROWS, 2))
    return np.column_stack([bits, bits.sum(axis=1) % 2, generator.integers(0, 3, ROWS)])


def rounds_of(codes: np.ndarray, neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[Set]]:
    found: dict[str, set[Set]] = {}

    def noted(verb: str) -> None:
        original = getattr(Collection, verb)

        def measure(self: Collection, name: str, what: Mapping[Set, float], *rest: int) -> None:
            found[name] = set(what)
            original(self, name, what, *rest)

        monkeypatch.setattr(Collection, verb, measure)

    noted("measure")
    noted("measure_residuals")
    source = Records.of_codes(WIDE, dict(zip(WIDE.names, codes.T, strict=True)), np.ones(ROWS, dtype=np.int64))
    table = Table(source, WIDE, records=ROWS if neighbours == "replace-one" else None, neighbours=neighbours)
    release(table, ASKED, BUDGET, algorithm=Adaptive(histogram_cells=0))
    return found


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_set_that_would_drown_is_not_looked_at(neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rounds_of(spread_evenly(), neighbours, monkeypatch)
    assert ("total" in found) == (neighbours == "add-remove")
    assert all(TRIPLE not in sets for sets in found.values())
    assert {("a", "b"), ("a", "d"), ("d",)} <= found["round 1"]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_heavy_cells_are_measured_once_seen(neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rounds_of(three_heavy_cells(), neighbours, monkeypatch)
    assert TRIPLE not in found["round 1"]
    assert TRIPLE in found["round 2"] | found["round 3"]


def column_of(codes: int, neighbours: Neighbours = "add-remove") -> Table:
    """Most of one column's records share a twentieth of its codes."""
    domain = Domain(x=codes)
    drawn = np.minimum(np.random.default_rng(3).exponential(codes / 20, 20_000).astype(int), codes - 1)
    records = Records.of_codes(domain, {"x": drawn}, np.ones(len(drawn), dtype=np.int64))
    return Table(records, domain, records=len(drawn) if neighbours == "replace-one" else None, neighbours=neighbours)


@pytest.mark.parametrize("budget", [Budget(rho=0.01), Budget(epsilon=0.2)], ids=["rho", "pure"])
@pytest.mark.parametrize("cells", [{"histogram_cells": 0}, {"histogram_cells": 0, "dense_cells": 1}], ids=str)
def test_one_wide_column_does_not_sum_its_noise_to_a_number_of_records(budget: Budget, cells: dict[str, int]) -> None:
    table = column_of(8_000)
    made = release(table, marginals(table.domain, 1), budget, algorithm=Adaptive(**cells))
    # The number has 50 times the price of a cell at most; 8,000 cells add up to noise of 89 cells.
    sd = noise_costing(budget, of_one_marginal("add-remove"), budget.limit // 60).sd
    assert abs(made.records - 20_000) < 5 * sd
    assert [tuple(m.query.attributes) for m in made.measurements].count(()) == 1


def test_a_column_of_two_codes_is_its_own_sum() -> None:
    table = column_of(2)
    made = release(table, marginals(table.domain, 1), BUDGET, algorithm=Adaptive(histogram_cells=0))
    assert all(tuple(m.query.attributes) for m in made.measurements)


def test_a_run_that_began_without_its_number_of_records_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = column_of(5_000)
    ledger = Ledger.memory(BUDGET, table.identity)

    def run() -> Outcome:
        workload, allowance = marginals(table.domain, 1), ledger.budget.limit // 2
        return Adaptive().run(Curator(table, ledger), workload, allowance=allowance, key="run")

    with monkeypatch.context() as former:
        former.setattr(rounds, "TOTAL_SHARE", Fraction(0))
        former.setattr(rounds, "records_share", lambda columns, power: 0.0)
        first = run()
    spent, again = ledger.spent, run()
    assert again.records == first.records
    assert len(again.measurements) == len(first.measurements) == 1
    assert ledger.spent == spent


FEW = Domain({"a": 2, "b": 3, **{f"other{i}": 2 + i % 9 for i in range(40)}})


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("asked", [("a",), ("a", "b")])
def test_columns_that_nobody_asked_about_cost_little(asked: Set, neighbours: Neighbours) -> None:
    """Plain noise would have the whole budget for the asked table; forty other columns may not divide it."""
    codes = np.random.default_rng(3).integers(0, FEW.shape, (ROWS, len(FEW)))
    source = Records.of_codes(FEW, dict(zip(FEW.names, codes.T, strict=True)), np.ones(ROWS, dtype=np.int64))
    table = Table(source, FEW, records=ROWS if neighbours == "replace-one" else None, neighbours=neighbours)
    made = release(table, Workload([marginal(*asked)], domain=FEW), BUDGET, algorithm=Adaptive(audit_share=0))
    known = consistent_of(made.measurements, FEW)
    assert all(known.knows((name,)) for name in FEW.names)
    plain = noise_costing(BUDGET, of_one_marginal(neighbours), BUDGET.limit).sd / made.records
    assert known.marginal(asked)[1] < 1.1 * plain


@pytest.mark.parametrize("codes", [100, 500, 1_024, 1_025])
@pytest.mark.parametrize("budget", [Budget(epsilon=1, delta=1e-9), Budget(epsilon=0.5)], ids=["gaussian", "pure"])
@pytest.mark.parametrize("histogram_cells", [0, 2**15])
def test_one_column_knows_its_number_of_records_nearly_as_well_as_its_heaviest_cell(
    codes: int, budget: Budget, histogram_cells: int
) -> None:
    """A code with all records has the error of the number of records, and that of a cell. Evenly spread records have
    the latter only, and had up to 1.25 times plain noise for the sake of tables that they are not.
    """
    table = column_of(codes)
    made = release(
        table, marginals(table.domain, 1), budget, algorithm=Adaptive(histogram_cells=histogram_cells, audit_share=0)
    )
    found = {tuple(m.query.attributes): m.sd * made.records for m in made.measurements}
    cell, total = found["x",], found.get((), inf)
    number = (total**-2 + (cell * codes**0.5) ** -2) ** -0.5
    # All cells add up to noise of `codes ** 0.5`. The best share for one code leaves about its root, or its cube root
    # if pure; a share that suits evenly spread records, too, up to twice as much.
    assert number < (2 * cell * codes ** (1 / 3) if budget.pure else 1.5 * cell * codes ** (1 / 4))
    alone = noise_costing(budget, of_one_marginal("add-remove"), budget.limit).sd
    assert cell < (1.09 if budget.pure else 1.05) * alone


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("columns", [[(2_000, 0.9, 2.0), (9, 0.1, 1.0)], [(100, 1.0, 1.0)]])
def test_the_share_of_the_number_of_records_is_near_the_best_of_every_table(
    columns: list[tuple[int, float, float]], power: int
) -> None:
    """For records of one code alone it was the best, and left evenly spread ones 1.4 times their least squares."""

    def squares(share: float, spread: float) -> float:
        """Of the fractions' errors if this part of each column's records is spread evenly and the rest of one code."""
        known = sum(((1 - share) * part) ** power / codes for codes, part, _ in columns) + share**power
        found = 0.0
        for codes, part, weight in columns:
            away = np.full(codes, (1 - spread) / codes)
            away[0] -= 1 - spread
            found += weight * ((codes - 1) / ((1 - share) * part) ** power + float(away @ away) / known)
        return found

    shares = np.linspace(0, 0.5, 201)
    least = {spread: min(squares(share, spread) for share in shares) for spread in (0.0, 0.5, 1.0)}

    def regret(share: float) -> float:
        return max(squares(share, spread) / found for spread, found in least.items())

    best = rounds.records_share(columns, power)
    assert best > 0
    assert regret(best) < 1.2
    assert all(regret(best) <= 1.001 * regret(other) for other in shares)


def test_columns_of_few_codes_tell_the_number_of_records() -> None:
    assert rounds.records_share([(2, 1.0, 1.0)], 1) == 0
    assert rounds.records_share([(5, 0.05, 1.0)] * 20, 1) == 0
    assert rounds.records_share([(26, 1.0, 1.0)], 2) == 0


def test_a_fit_that_has_not_converged_is_said_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table, said = column_of(8), list[Progress]()
    message = "not converged: a measured cell is 9.0 standard deviations of its noise off"
    with monkeypatch.context() as failing:
        failing.setattr(Reached, "_shortfall", lambda self, certified: message)
        made = release(table, marginals(table.domain, 1), BUDGET, progress=said.append)
    assert repr(made).endswith(f", fit {message}>")
    assert said[-1].message == f"done; fit {message}"
    plain = release(table, marginals(table.domain, 1), BUDGET, progress=said.append)
    assert "fit" not in repr(plain)
    assert said[-1].message == "done"
