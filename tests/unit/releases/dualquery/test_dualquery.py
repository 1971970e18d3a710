"""DualQuery over the real kernel: what it learns, spends, reports, resumes and refuses."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError, SourceError
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records, Subsample
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Table, exact_counts
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.linear import Conjunction, Marginal, Range
from reticent.queries.workload import Workload, marginals, ranges
from reticent.releases.dualquery.data_player import Search
from reticent.releases.dualquery.dualquery import DualQuery
from reticent.releases.dualquery.exact_player import ExactPlayer
from reticent.releases.dualquery.query_player import CellPlayer, ConjunctionPlayer, LinearPlayer, query_player
from reticent.releases.release import Release, release

DOMAIN = Domain(a=3, b=4, c=2, d=2)
ROWS = 4000
FAST = Search(300)
KEY = "test"


def rows() -> np.ndarray:
    """Skewed and dependent: uniform records answer badly."""
    generator = np.random.default_rng(5)
    a = (generator.random(ROWS) < 0.8).astype(int) * generator.integers(1, 3, ROWS)
    b = np.minimum(a + (generator.random(ROWS) < 0.2), 3)
    c = (generator.random(ROWS) < 0.1).astype(int)
    return np.stack([a, b, c, np.where(generator.random(ROWS) < 0.9, c, 1 - c)], axis=1)


CODES = rows()


def source() -> Records:
    return Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, CODES.T, strict=True)), np.ones(ROWS, dtype=np.int64))


def table(**facts) -> Table:
    return Table(source(), DOMAIN, **(facts or {"records": ROWS}))


def open_ledger(of: Table, budget: Budget) -> Ledger:
    return Ledger.memory(identity=of.identity, budget=budget)


def worst(hypothesis, sets) -> float:
    true = source().marginals(sets)
    return max(float(np.abs(t / ROWS - h).max()) for t, h in zip(true, hypothesis.marginals(sets), strict=True))


BUDGETS = [Budget(epsilon=4), Budget(epsilon=1, delta=1e-9), Budget(rho=0.02)]


@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "approximate", "rho"])
def test_it_learns_within_its_allowance(budget):
    of, workload = table(), marginals(DOMAIN, 2)
    ledger = open_ledger(of, budget)
    outcome = DualQuery(player=FAST).run(Curator(of, ledger), workload, allowance=budget.limit, key=KEY)
    assert 0 <= ledger.remaining < 0.02 * budget.limit + 1000
    uniform = np.max([np.abs(t / ROWS - 1 / t.size).max() for t in source().marginals(workload.marginals)])
    assert worst(outcome.hypothesis, workload.marginals) < 0.5 * uniform
    assert outcome.records == ROWS
    assert len(outcome.hypothesis.codes) == outcome.notes["rounds"] * outcome.notes["replies"]


def test_only_the_allowance_is_spent():
    of, budget = table(), Budget(rho=0.02)
    ledger = open_ledger(of, budget)
    DualQuery(player=FAST).run(Curator(of, ledger), marginals(DOMAIN, 2), allowance=budget.limit // 4, key=KEY)
    assert ledger.remaining >= budget.limit - budget.limit // 4


def test_cells_and_the_same_cells_as_conjunctions_play_the_same_game():
    """Two implementations of one thing: equal draws give equal clauses, scores and records."""
    sets = [("a", "b"), ("c",)]
    cells, listed = CellPlayer(DOMAIN, sets), ConjunctionPlayer(Conjunctions.of_cells(DOMAIN, sets))
    assert len(cells) == len(listed) == 14
    indices = np.random.default_rng(0).integers(0, 28, size=30)
    first, second = cells.clauses(indices), listed.clauses(indices)
    np.testing.assert_array_equal(first.attributes, second.attributes)
    np.testing.assert_array_equal(first.codes, second.codes)
    np.testing.assert_array_equal(first.gains, second.gains)
    for player in (cells, listed):
        player.observe(CODES[:7])
        player.observe(CODES[7:9])
    scores = [player.scores(1.5, 0.1).evaluate(source(), 1) for player in (cells, listed)]
    np.testing.assert_array_equal(scores[0], scores[1])


def test_scores_are_counts_minus_what_was_played_and_its_negation():
    player = CellPlayer(DOMAIN, [("c",)])
    player.observe(CODES[:10])
    scores = player.scores(ROWS / 10, 0.1)
    counts = np.bincount(CODES[:, 2], minlength=2) - ROWS / 10 * np.bincount(CODES[:10, 2], minlength=2)
    values = scores.evaluate(source(), 1) / scores.resolution(1)
    np.testing.assert_allclose(values, np.concatenate([counts, -counts]))


def test_weighted_queries_are_drawn_and_scored_by_their_weight():
    """Two sets, the second four times as important: payoff and first draws follow, and equal weights change nothing."""
    sets, weights = [("c",), ("d",)], (1.0, 4.0)
    workload = Workload([Marginal(names) for names in sets], weights=weights)
    cells = query_player(workload.on(DOMAIN), DOMAIN)
    listed = ConjunctionPlayer(Conjunctions.of_cells(DOMAIN, sets), np.repeat(weights, 2))
    first = cells.uniform(40_000, np.random.default_rng(2))
    assert np.abs(np.bincount(first, minlength=8) / 40_000 - np.array([1, 1, 4, 4] * 2) / 20).max() < 0.01
    for player in (cells, listed):
        player.observe(CODES[:10])
    found = [player.scores(ROWS / 10, 0.1).evaluate(source(), 1) for player in (cells, listed)]
    np.testing.assert_array_equal(*found)
    scores = cells.scores(ROWS / 10, 0.1)
    error = np.concatenate(
        [np.bincount(CODES[:, a], minlength=2) - ROWS / 10 * np.bincount(CODES[:10, a], minlength=2) for a in (2, 3)]
    )
    relative = np.array([0.25, 0.25, 1, 1])
    expected = np.concatenate([relative * error, -relative * error]) + 20 * np.log(np.tile(relative, 2))
    np.testing.assert_allclose(found[0] / scores.resolution(1), expected, atol=1e-4)
    alike = query_player(Workload([Marginal(names) for names in sets], weights=[3, 3]).on(DOMAIN), DOMAIN)
    np.testing.assert_array_equal(
        alike.uniform(9, np.random.default_rng(2)), CellPlayer(DOMAIN, sets).uniform(9, np.random.default_rng(2))
    )


def test_what_matters_more_is_learned_better():
    of, budget, sets = table(), Budget(rho=0.002), [("a", "b"), ("c", "d")]
    errors = []
    for weights in ([20, 1], [1, 20]):
        workload = Workload([Marginal(names) for names in sets], weights=weights).on(DOMAIN)
        runs = []
        for seed in range(3):
            curator = Curator(of, open_ledger(of, budget))
            outcome = DualQuery(player=FAST, seed=seed).run(curator, workload, allowance=budget.limit, key=KEY)
            runs.append([worst(outcome.hypothesis, [names]) for names in sets])
        errors.append(np.mean(runs, axis=0))
    assert errors[0][0] < 0.5 * errors[1][0]
    assert errors[1][1] < 0.5 * errors[0][1]


def test_the_ledger_holds_a_digest_of_the_workload_not_its_text():
    described = CellPlayer(DOMAIN, marginals(DOMAIN, 2).marginals).scores(1.0, 0.1).describe()
    other = CellPlayer(DOMAIN, marginals(DOMAIN, 1).marginals).scores(1.0, 0.1).describe()
    assert described["cells of"] == 6
    assert described["sets"] != other["sets"]
    assert all(isinstance(value, (int, str)) for value in described.values())


def test_a_crashed_run_continues_where_it_was():
    of, budget, workload = table(), Budget(rho=0.01), marginals(DOMAIN, 2)
    ledger = open_ledger(of, budget)
    algorithm = DualQuery(rounds=12, player=FAST, seed=3)

    class Crash(Exception):
        pass

    def crash(progress) -> None:
        if progress.step == 7:
            raise Crash

    with pytest.raises(Crash):
        algorithm.run(Curator(of, ledger), workload, allowance=budget.limit, key=KEY, report=crash)
    spent = budget.limit - ledger.remaining
    resumed = algorithm.run(Curator(of, ledger), workload, allowance=budget.limit, key=KEY)
    assert spent < budget.limit - ledger.remaining <= budget.limit
    left = ledger.remaining
    again = algorithm.run(Curator(of, ledger), workload, allowance=budget.limit, key=KEY)
    assert ledger.remaining == left
    np.testing.assert_array_equal(resumed.hypothesis.codes, again.hypothesis.codes)
    assert len(resumed.hypothesis.codes) == 12 * resumed.notes["replies"]


def test_progress_is_public_and_complete():
    of, budget = table(), Budget(rho=0.01)
    seen = []
    algorithm = DualQuery(rounds=8, player=FAST)
    algorithm.run(
        Curator(of, open_ledger(of, budget)), marginals(DOMAIN, 1), allowance=budget.limit, key=KEY, report=seen.append
    )
    assert [(p.step, p.steps) for p in seen] == [(turn, 8) for turn in range(1, 9)]
    assert seen[0].spent == 0
    assert 0.95 < seen[-1].spent <= 1
    assert all(before.spent <= after.spent for before, after in itertools.pairwise(seen))


def test_refining_fits_the_weights_to_released_marginals():
    of, budget, workload = table(), Budget(epsilon=1, delta=1e-9), marginals(DOMAIN, 2)
    ledger = open_ledger(of, budget)
    algorithm = DualQuery(refine=0.3, player=FAST)
    outcome = algorithm.run(Curator(of, ledger), workload, allowance=budget.limit, key=KEY)
    assert ledger.remaining >= 0
    assert [m.query for m in outcome.measurements] == [Marginal((name,)) for name in DOMAIN.names]
    assert np.ptp(outcome.hypothesis.weights) > 0
    for measurement, name in zip(outcome.measurements, DOMAIN.names, strict=True):
        assert np.abs(outcome.hypothesis.marginal((name,)) - measurement.values).max() < 0.05


def test_add_remove_pays_for_the_number_of_records():
    of, budget, workload = table(neighbours="add-remove"), Budget(epsilon=1, delta=1e-9), marginals(DOMAIN, 2)
    ledger = open_ledger(of, budget)
    outcome = DualQuery(player=FAST).run(Curator(of, ledger), workload, allowance=budget.limit, key=KEY)
    assert outcome.records != ROWS or budget.limit - ledger.remaining > 0
    assert abs(outcome.records - ROWS) < 400
    assert ledger.remaining >= 0
    assert worst(outcome.hypothesis, workload.marginals) < 0.2


def test_the_textbook_runs_where_it_can_be_paid_and_says_what_it_costs_elsewhere():
    of = table()
    with pytest.raises(BudgetError) as caught:
        DualQuery(error=0.1).run(
            Curator(of, open_ledger(of, Budget(epsilon=1))), marginals(DOMAIN, 2), allowance=10**9, key=KEY
        )
    assert caught.value.requested > 1
    plan = DualQuery(error=0.5).plan(10**9, 10, DOMAIN, Budget(epsilon=10), 10 * 10**9)
    assert plan.step == Fraction(1, 8)
    assert (plan.replies, plan.memory) == (1, 1)


def test_a_sample_is_priced_for_its_size_and_charged_to_the_whole_table():
    whole, budget = table(), Budget(rho=0.02)
    ledger = open_ledger(whole, budget)
    sample = Subsample(whole, 1000)
    assert sample.records == 1000
    assert sample.identity == whole.identity
    assert exact_counts(sample).total() == 1000
    assert (exact_counts(sample).marginal(("a", "b")) <= source().marginal(("a", "b"))).all()
    outcome = DualQuery(player=FAST).run(Curator(sample, ledger), marginals(DOMAIN, 2), allowance=budget.limit, key=KEY)
    full = DualQuery().plan(ROWS, 1, DOMAIN, budget, budget.limit)
    assert outcome.notes["rounds"] < full.rounds
    assert ledger.remaining >= 0


def test_every_record_is_sampled_equally_often():
    domain = Domain(x=4)
    whole = Table(Records.of_codes(domain, {"x": np.arange(4)}, np.array([3, 1, 0, 4])), domain, records=8)
    totals = np.sum([exact_counts(Subsample(whole, 3)).marginal(("x",)) for _ in range(2000)], axis=0)
    expected = np.array([3, 1, 0, 4]) * 3 / 8 * 2000
    assert totals[2] == 0
    assert np.abs(totals - expected).max() < 5 * np.sqrt(expected.max())


@pytest.mark.parametrize(
    ("of", "size", "message"),
    [
        (lambda: table(neighbours="add-remove"), 10, "replace-one"),
        (lambda: table(records=ROWS, unit="person"), 10, "unit is the record"),
        (table, ROWS + 1, "between 1 and"),
        (table, 0, "between 1 and"),
    ],
)
def test_samples_that_mean_nothing_are_refused(of, size, message):
    with pytest.raises(SourceError, match=message):
        Subsample(of(), size)


def test_workloads_find_their_player():
    listed = query_player(Workload([Marginal(("c",)), Conjunction({"a": 1, "b": 2})], domain=DOMAIN), DOMAIN)
    assert len(listed) == 3
    clauses = listed.clauses(np.array([2]))
    np.testing.assert_array_equal(clauses.attributes, [[0, 1]])
    np.testing.assert_array_equal(clauses.codes, [[1, 2]])
    wide = Domain({f"a{place}": 2 for place in range(13)})
    many = query_player(marginals(wide, 3), wide)
    assert isinstance(many, ConjunctionPlayer)
    assert len(many) == 286 * 8
    explicit = Conjunctions.random(DOMAIN, 2, 5, np.random.default_rng(0))
    assert len(query_player(explicit, DOMAIN)) == 5
    for general in (Workload([Range({"b": (1, 2)})]), ranges("b")):
        assert isinstance(query_player(general.on(DOMAIN), DOMAIN), LinearPlayer)
    with pytest.raises(QueryError, match="at least one"):
        query_player(Workload([]), DOMAIN)


def test_a_release_of_listed_conjunctions_answers_synthesizes_and_survives_the_disk(tmp_path):
    listed = Conjunctions.random(DOMAIN, 2, 20, np.random.default_rng(0))
    published = release(table(), listed, Budget(rho=0.05), algorithm=DualQuery(player=FAST))  # type: ignore[arg-type]
    again = Release.load(published.save(tmp_path / "listed.release"))
    question = Conjunction({"a": 1, "c": 0})
    assert again.answer(question).to_dict() == published.answer(question).to_dict()
    assert again.synthesize(30, seed=1).num_rows == 30


def test_the_exact_player_reports_its_bound():
    of, budget = table(), Budget(rho=0.01)
    algorithm = DualQuery(rounds=4, draws=6, replies=1, memory=1, player=ExactPlayer(20.0))
    outcome = algorithm.run(Curator(of, open_ledger(of, budget)), marginals(DOMAIN, 2), allowance=budget.limit, key=KEY)
    assert outcome.notes["satisfied"] == outcome.notes["satisfiable at most"]


def test_parameters_are_validated_and_described():
    with pytest.raises(QueryError, match="below 1"):
        DualQuery(refine=1)
    with pytest.raises(QueryError, match="give it alone"):
        DualQuery(error=0.1, rounds=4)
    for name, value in [("rounds", 0), ("rounds", 2.5), ("draws", 0), ("sample", 0), ("memory", True), ("seed", "a")]:
        with pytest.raises(QueryError, match=rf"{name}.* a whole number, at least"):
            DualQuery(**{name: value})
    assert DualQuery(rounds=np.int64(4)).describe() == DualQuery(rounds=4).describe()
    first, second = DualQuery(step=0.5).describe(), DualQuery(step=Fraction(1, 2)).describe()
    assert first == second
    assert first["step"] == "1/2"
