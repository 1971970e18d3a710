"""Stated errors are true bounds: whatever is computed from certified answers stays within them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.published import Published

from reticent.domain import Categorical, Domain, Numeric
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.mechanisms.base import Gaussian
from reticent.knowledge.answer import Answer
from reticent.knowledge.certificates import Certificate
from reticent.queries import Count, Query
from reticent.sql import ResultTable, run
from reticent.sql.intervals import Interval
from reticent.sql.scan import joint_confidence

RUNS = 120
CONFIDENCE = 0.9
MOST_MISSES = 24
"""Of 120 runs that may each fail with probability 0.1: more than 24 happen by chance once in 1,000 times."""
RECORDS = 2000.0
SMALL = Domain(
    age=Numeric(edges=[20, 30, 50, 60], whole=True, nullable=True),
    sex=Categorical(["F", "M"], other=False),
    region=Categorical(["n", "s", "e"], other=False),
)
RATIOS = [
    "SELECT AVG(age) FROM t",
    "SELECT sex, AVG(age), SUM(age), COUNT(*) FROM t GROUP BY sex",
    "SELECT region, AVG(age) FROM t WHERE sex = 'F' OR age >= 50 GROUP BY region",
    "SELECT 100.0 * COUNT(*) FILTER (WHERE age >= 50) / COUNT(age) FROM t WHERE region <> 'e'",
    "SELECT sex, COUNT(*) FILTER (WHERE region = 'n') * 1.0 / COUNT(*) AS r FROM t GROUP BY sex",
    "SELECT AVG(CASE WHEN sex = 'F' THEN age ELSE 2 END) - AVG(age) FROM t",
    "SELECT ROUND(AVG(age) * COUNT(*), 1), ABS(COUNT(*) - 1500), SUM(2 * age - 30) FROM t WHERE region = 's'",
]


def table_of(weights: np.ndarray, certificates: tuple[Certificate, ...], text: str) -> ResultTable:
    view = Published.of(Snapshot(DenseHypothesis(SMALL, weights)), RECORDS, certificates)
    return run(text, SMALL, view.answer, records=RECORDS)


def seeded_run(seed: int, shrink: float) -> list[tuple[float, float]]:
    """Every aggregate's true error and stated bound, for a wrong hypothesis that was audited with noise."""
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.full(SMALL.size, 2.0)).reshape(SMALL.shape)
    guess = truth * np.exp(generator.normal(0.0, 0.15, SMALL.shape))
    guess /= guess.sum()
    worst = np.abs(truth - guess).sum() / 2
    noise = Gaussian(0.1 * worst * RECORDS)
    reading = shrink * (worst + generator.normal(0.0, float(noise.sigma)) / RECORDS)
    stated_noise = noise if shrink == 1 else Gaussian(1e-9)
    audited = Certificate(
        "predicates", (SMALL.names,), "s", reading, stated_noise.describe(), 0.0, RECORDS, 0.0, 1, CONFIDENCE
    )
    found = []
    for text in RATIOS:
        exact, stated = table_of(truth, (), text), table_of(guess, (audited,), text)
        assert stated.confidence == CONFIDENCE
        for true_row, row, errors in zip(exact.rows, stated.rows, stated.errors, strict=True):
            for true, value, error in zip(true_row, row, errors, strict=True):
                if isinstance(value, float) and isinstance(true, float) and error is not None:
                    found.append((abs(value - true), error))
    return found


def misses(shrink: float, runs: int) -> int:
    return sum(any(off > bound + 1e-9 for off, bound in seeded_run(seed, shrink)) for seed in range(runs))


def test_bounds_of_ratios_hold_at_their_confidence() -> None:
    assert misses(1.0, RUNS) <= MOST_MISSES


def test_the_check_can_fail() -> None:
    assert misses(0.1, 10) >= 5


def test_bounds_are_not_idle() -> None:
    found = seeded_run(3, 1.0)
    assert len(found) >= 15
    assert any(off > bound / 10 for off, bound in found)


ends = st.tuples(st.floats(-50, 50), st.floats(0, 20), st.floats(0, 1), st.floats(0, 1))


def interval_of(middle: float, width: float, place: float, true: float) -> tuple[Interval, float]:
    low, high = middle - width, middle + width
    one = np.array([low + 2 * width * place])
    return Interval(one, np.array([low]), np.array([high])), low + 2 * width * true


@given(ends, ends)
@example((5e-324, 0.0, 0.0, 0.0), (5e-324, 0.0, 0.0, 0.0))
@example((1.0, 0.0, 0.0, 0.0), (5e-324, 0.0, 0.0, 0.0))
def test_interval_arithmetic_contains_what_the_truth_gives(first: tuple, second: tuple) -> None:
    (one, x), (two, y) = interval_of(*first), interval_of(*second)
    slack = 1e-9 * (1 + abs(x) + abs(y)) ** 2
    cases = [
        (one + two, x + y),
        (one - two, x - y),
        (one * two, x * y),
        (-one, -x),
        (one.absolute(), abs(x)),
        (one.largest(two), max(x, y)),
        (one.smallest(two), min(x, y)),
        (one.mapped(np.floor), np.floor(x)),
    ]
    if y != 0 and np.isfinite(x / y):
        cases.append((one / two, x / y))
    for result, truth in cases:
        scale = slack * (1 + abs(truth))
        assert result.low[0] - scale <= truth <= result.high[0] + scale
        if np.isfinite(result.error[0]) and np.isfinite(result.value[0]):
            assert abs(result.value[0] - truth) <= result.error[0] + 2 * scale


def test_rounding_goes_away_from_zero_like_sql() -> None:
    numbers = np.array([0.5, 1.5, -0.5, -1.5, 2.25])
    rounded = Interval(numbers, numbers, numbers)
    np.testing.assert_array_equal(rounded.rounded(0).value, [1, 2, -1, -2, 2])
    np.testing.assert_array_equal(rounded.rounded(1).value, [0.5, 1.5, -0.5, -1.5, 2.3])


def fixed(value: float, error: float | None, origin: str = "measured", confidence: float = 0.95):
    def answer(query: Query) -> Answer:
        certified = error is not None
        return Answer(query.text, value, None, error, confidence if certified else None, origin, certified)

    return answer


def test_a_private_number_of_records_widens_every_count() -> None:
    text = "SELECT COUNT(*), COUNT(*) FILTER (WHERE sex = 'F') FROM t"
    table = run(text, SMALL, fixed(0.5, 0.01), records=1000, records_error=0.02)
    assert table.rows == ((1000.0, 500.0),)
    # 0.51 * 1020 - 500 is the farthest end.
    assert table.errors[0] == pytest.approx((20.0, 20.2))
    assert table.confidence == pytest.approx(0.95 - 5.8e-7, abs=1e-9)


def test_answers_that_may_fail_on_their_own_lose_confidence_together() -> None:
    text = "SELECT COUNT(*) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE region = 'n') FROM t"
    assert run(text, SMALL, fixed(0.5, 0.1), records=10).confidence == pytest.approx(0.9)
    assert run(text, SMALL, fixed(0.5, 0.1, "certificate"), records=10).confidence == pytest.approx(0.95)
    uncertified = run(text, SMALL, fixed(0.5, None, "hypothesis"), records=10)
    assert (uncertified.confidence, uncertified.certified) == (None, False)
    assert uncertified.errors == ((None, None),)


@given(st.lists(st.tuples(st.sampled_from(["certificate", "measured", "cache"]), st.floats(0.5, 0.999)), max_size=9))
def test_joint_confidence_is_a_union_bound(parts: list[tuple[str, float]]) -> None:
    answers = [fixed(0.0, 0.1, origin, confidence)(Count()) for origin, confidence in parts]
    joint = joint_confidence(answers, 0.0)
    assert joint is not None
    assert 0 <= joint <= min((confidence for _, confidence in parts), default=1.0)
    assert joint >= 1 - sum(1 - confidence for _, confidence in parts) - 1e-12


def test_an_empty_denominator_is_null_and_unbounded() -> None:
    table = run("SELECT AVG(age), COUNT(*) FROM t WHERE sex = 'F'", SMALL, fixed(0.0, 0.1), records=10)
    assert table.rows[0][0] is None
    assert table.errors[0][0] is None
    vague = run("SELECT AVG(age) FROM t WHERE sex = 'F'", SMALL, fixed(0.05, 0.1), records=10)
    assert vague.rows[0][0] is not None
    assert vague.errors == ((None,),)
    assert not vague.certified


def test_what_is_public_needs_no_answer() -> None:
    def never(query: Query) -> Answer:
        raise AssertionError("the number of records is known")

    table = run("SELECT COUNT(*), COUNT(sex), COUNT(*) FILTER (WHERE 1 = 2) FROM t", SMALL, never, records=77)
    assert table.rows == ((77.0, 77.0, 0.0),)
    assert table.errors == ((0.0, 0.0, 0.0),)
    assert (table.certified, table.confidence, table.origin) == (True, 1.0, "public")


def test_equal_measures_cancel_without_error() -> None:
    text = "SELECT COUNT(*) FILTER (WHERE sex = 'F') - COUNT(*) FILTER (WHERE sex = 'F') FROM t"
    assert run(text, SMALL, fixed(0.4, 0.1), records=10).errors == ((0.0,),)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT NULLIF(COUNT(*) FILTER (WHERE sex = 'F'), 4) FROM t",
        "SELECT SIGN(AVG(age)) FROM t WHERE sex = 'F'",
        "SELECT AVG(CASE WHEN sex = 'F' THEN 2 END) FROM t WHERE region = 'n'",
        "SELECT SIN(STDDEV(age)) FROM t WHERE sex = 'F'",
    ],
)
def test_where_the_truth_may_be_null_there_is_no_bound(text: str) -> None:
    """A number within any distance of NULL does not exist."""
    vague = run(text, SMALL, fixed(0.5, 0.5), records=10)
    assert vague.rows[0][0] is not None
    assert vague.errors == ((None,),)
    assert not vague.certified


def test_a_number_that_cannot_be_null_keeps_its_bound() -> None:
    table = run("SELECT NULLIF(COUNT(*) FILTER (WHERE sex = 'F'), 3) FROM t", SMALL, fixed(0.5, 0.1), records=10)
    assert table.errors[0][0] == pytest.approx(1.0)
    assert table.certified


def test_a_slope_that_may_be_null_has_no_bound_in_any_function() -> None:
    """All records may have one age: then there is no slope."""
    weights = np.full(SMALL.shape, 1.0 / SMALL.size)
    noise = Gaussian(1).describe()
    vague = Certificate("predicates", (SMALL.names,), "s", 0.3, noise, 0.0, RECORDS, 0.0, 1, CONFIDENCE)
    table = table_of(weights, (vague,), "SELECT ATAN(REGR_SLOPE(age, age)) FROM t")
    assert table.rows[0][0] is not None
    assert table.errors == ((None,),)


def test_bounds_of_which_nothing_holds_together_are_no_certificate() -> None:
    text = "SELECT COUNT(*) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE region = 'n') FROM t"
    table = run(text, SMALL, fixed(0.5, 0.1, confidence=0.5), records=10)
    assert (table.certified, table.confidence, table.errors) == (False, None, ((None, None),))
    assert "too many bounds" in table.note
    assert run(text, SMALL, fixed(0.5, 0.1, confidence=0.6), records=10).certified


def test_rows_without_an_order_key_are_peers() -> None:
    """NULLs rank alike: a running sum up to one of them holds them all."""
    inner = "SELECT region, COUNT(*) AS n, CASE WHEN region = 'n' THEN 1 END AS a FROM t GROUP BY region"
    text = f"SELECT region, SUM(n) OVER (ORDER BY a), COUNT(*) OVER (ORDER BY a) FROM ({inner})"
    weights = np.full(SMALL.shape, 1.0 / SMALL.size)
    found = {row[0]: row[1:] for row in table_of(weights, (), text).rows}
    assert found["n"] == pytest.approx((RECORDS / 3, 1))
    assert found["s"] == pytest.approx((RECORDS, 3))
    assert found["e"] == pytest.approx((RECORDS, 3))


@pytest.mark.parametrize("picked", ["ARG_MAX(n, n)", "ARG_MIN(region, n)", "ANY_VALUE(n)", "FIRST(region)"])
def test_what_is_picked_of_no_group_is_null(picked: str) -> None:
    inner = "SELECT region, COUNT(*) AS n FROM t WHERE age >= 1000 GROUP BY region"
    table = run(f"SELECT {picked} FROM ({inner})", SMALL, fixed(0.5, 0.1), records=10)
    assert table.rows == ((None,),)
