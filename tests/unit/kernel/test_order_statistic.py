"""The quantile of errors against lists that are spelled out, question by question."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Categorical, Domain, Numeric
from reticent.errors import QueryError
from reticent.kernel.counting.records import Records
from reticent.kernel.order_statistic import ErrorQuantile, weighted_quantile
from reticent.kernel.statistics import FINE
from reticent.queries.distribution import WHOLE, Distribution, Questions, Ranges, Selection, Subsets

DOMAIN = Domain(
    {
        "age": Numeric(edges=[0, 1, 2, 3, 4], nullable=True),
        "kind": Categorical(["x", "y", "z"], other=False),
        "one": 1,
        "code": 5,
        "wide": Categorical([f"v{i}" for i in range(30)]),
    }
)
RECORDS = 400


def records(seed: int) -> Records:
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, DOMAIN[name].size, RECORDS) for name in DOMAIN}
    return Records.of_codes(DOMAIN, columns, rng.integers(0, 5, RECORDS))


def mask(selection: Selection, question: int, size: int) -> np.ndarray:
    if not isinstance(selection, Ranges):
        return selection.members[question]
    codes = np.arange(size)
    return (selection.low[question] <= codes) & (codes < selection.high[question])


def spelled_out(questions: Questions, guesses: tuple[np.ndarray, ...], source: Records) -> list[tuple[int, int]]:
    """Every question's error and weight, one after the other."""
    found = []
    for names, guess in zip(questions.sets, guesses, strict=True):
        difference = source.marginal(names) * FINE - np.rint(guess * FINE).astype(np.int64)
        sizes = [DOMAIN[name].size for name in names]
        if questions.seed is None:
            selections, weights = questions.enumerated(names)
            listed = itertools.product(*(range(len(selection)) for selection in selections))
            asked = [(selections, choice, int(weights[choice])) for choice in listed]
        else:
            asked = [(b, (row,) * len(b), 1) for b in questions.blocks(names) for row in range(len(b[0]))]
        for selections, choice, weight in asked:
            cells = np.ix_(*(mask(s, c, size) for s, c, size in zip(selections, choice, sizes, strict=True)))
            found.append((abs(int(difference[cells].sum())), weight))
    return found


@pytest.mark.parametrize("kind", ["mixed", "cells"])
@pytest.mark.parametrize("drawn", [0, 3000])
def test_the_quantile_is_that_of_the_list_spelled_out(kind, drawn: int) -> None:
    names = ("age", "kind", "code") if not drawn else ("age", "kind", "code", "wide")
    sets = tuple(s for size in (1, 2, 3) for s in itertools.combinations(names, size))
    weights = tuple(range(1, len(sets) + 1))
    questions = Questions(DOMAIN, Distribution(kind, sets, weights), b"s" * 32 if drawn else None, drawn)
    rng = np.random.default_rng(2)
    guesses = tuple(rng.uniform(0, 30, DOMAIN.shape_of(names)) for names in questions.sets)
    source = records(1)
    listed = sorted(spelled_out(questions, guesses, source))
    whole = drawn or WHOLE
    assert sum(weight for _, weight in listed) == pytest.approx(whole, rel=1e-9)
    for share in (0.01, 0.5, 0.95):
        rank = int(share * whole)
        heavier = itertools.accumulate(weight for _, weight in listed)
        wanted = next(error for (error, _), below in zip(listed, heavier, strict=True) if below >= rank)
        assert ErrorQuantile(questions, guesses, rank).evaluate(source, 1) == wanted


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 9)), min_size=1, max_size=30), st.data())
def test_bisection_finds_the_order_statistic(listed: list[tuple[int, int]], data: st.DataObject) -> None:
    errors, weights = (np.array(column, dtype=np.int64) for column in zip(*listed, strict=True))
    rank = data.draw(st.integers(1, int(weights.sum())))
    repeated = np.sort(np.repeat(errors, weights))
    assert weighted_quantile(errors, weights, rank) == repeated[rank - 1]
    assert weighted_quantile(repeated, None, rank) == repeated[rank - 1]


def test_drawn_questions_have_the_frequencies_that_are_published() -> None:
    """Of a set, of its conditions, and of single values among the subsets."""
    distribution = Distribution.over(DOMAIN, 2)
    assert all("one" not in names for names in distribution.sets)
    questions = Questions(DOMAIN, distribution, b"f" * 32, 200_000)
    drawn = {names: list(questions.blocks(names)) for names in questions.sets}
    sizes = [sum(len(block[0]) for block in drawn[names]) for names in distribution.sets]
    expected = 200_000 / len(distribution.sets)
    assert np.abs(np.array(sizes) - expected).max() < 5 * expected**0.5
    (block,) = drawn["age",]
    assert isinstance(block[0], Ranges)
    ranges = list(zip(block[0].low.tolist(), block[0].high.tolist(), strict=True))
    # Four bins of which any range may be asked, all of them too: the nulls are left out by it.
    assert len(set(ranges)) == distribution.choices(DOMAIN["age"]) == 10
    (block,) = drawn["kind",]
    assert isinstance(block[0], Subsets)
    singles = (block[0].members.sum(axis=1) == 1).mean()
    assert singles == pytest.approx(0.5 + 0.5 * 3 / 6, abs=0.02)
    assert distribution.choices(DOMAIN["code"]) == 14, "the whole range of a column without nulls asks nothing"
    for (subsets,) in drawn["wide",]:
        assert isinstance(subsets, Subsets)
        assert not subsets.members.all(axis=1).any()
        assert subsets.members.any(axis=1).all()


def test_a_list_is_the_same_wherever_it_is_drawn_again() -> None:
    questions = Questions(DOMAIN, Distribution.over(DOMAIN, 2), bytes(range(32)), 50)
    again = Questions.from_dict(DOMAIN, questions.to_dict())
    assert again == questions
    (block,) = questions.blocks(("age", "kind"))
    assert isinstance(block[0], Ranges)
    assert block[0].low.tolist() == [1, 0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: Distribution("mixed", ()), "at least one attribute"),
        (lambda: Distribution("boxes", (("age",),)), "unknown"),  # pyright: ignore[reportArgumentType]
        (lambda: Distribution("mixed", (("age",),), (1, 2)), "as many weights"),
        (lambda: Questions(DOMAIN, Distribution("mixed", (("one",),))), "two codes or more"),
        (lambda: Questions(DOMAIN, Distribution("mixed", (("kind", "age"),))), "domain's order"),
        (lambda: Questions(DOMAIN, Distribution("mixed", (("wide",),))), "too many to enumerate"),
        (lambda: Questions(DOMAIN, Distribution("mixed", (("age",),)), b"short", 10), "32 bytes"),
        (lambda: Questions(DOMAIN, Distribution("mixed", (("age",),)), b"s" * 32, 0), "at least 1"),
        (lambda: ErrorQuantile(Questions(DOMAIN, Distribution("mixed", (("age",),))), (), 1), "as many guesses"),
        (lambda: ErrorQuantile(Questions(DOMAIN, Distribution("mixed", (("age",),))), (np.zeros(5),), 0), "rank"),
    ],
)
def test_what_is_no_list_of_questions_is_refused(build, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        build()
