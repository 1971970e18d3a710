"""Linear queries compile to functions in [0, 1] whose means over a table are the statistics they promise."""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.errors import QueryError
from reticent.queries import (
    AllRanges,
    Conjunction,
    Count,
    Dense,
    Everything,
    Linear,
    Marginal,
    Mean,
    Product,
    Query,
    Range,
    Ratio,
    Total,
    Weighted,
    col,
    count,
    linear_from_dict,
    marginal,
    mean,
    query_from_dict,
)

DOMAIN = Domain(
    age=Numeric(edges=[17, 25, 35, 45], whole=True),
    sex=Categorical(["f", "m"], other=False),
    score=Categorical([-1, 2, 5], other=False),
    pets=Integer(4),
    born=Numeric(edges=[datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]),
)
ADULT = col("age") >= 25
EITHER = (col("sex") == "f") | (col("pets") == 0)


def answer(query: Linear, records: np.ndarray) -> float:
    """The mean of the compiled function over encoded records."""
    form = query.compile(DOMAIN)
    assert 0 <= form.range[0] <= form.range[1] <= 1
    places = tuple(records[:, DOMAIN.index(name)] for name in form.attributes)
    return float(np.broadcast_to(form.tensor()[places], len(records)).mean())


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    row = st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.shape))
    return np.array(draw(st.lists(row, min_size=1, max_size=20)))


def column(name: str, records: np.ndarray) -> np.ndarray:
    numbers = DOMAIN[name].representatives
    assert numbers is not None
    return numbers[records[:, DOMAIN.index(name)]]


@given(tables())
def test_a_mean_without_missing_values_is_linear(records: np.ndarray) -> None:
    for name in ("score", "pets"):
        query = mean(name)
        assert query.resolve(DOMAIN) is query
        offset, scale = query.units(DOMAIN)
        assert offset + scale * answer(query, records) == pytest.approx(column(name, records).mean())


@given(tables(), st.sampled_from(["age", "score", "pets"]), st.sampled_from([Everything(), ADULT, EITHER]))
def test_other_means_are_ratios(records: np.ndarray, name: str, where: Any) -> None:
    query = mean(name, where=where).resolve(DOMAIN)
    if not isinstance(query, Ratio):
        return
    numbers = column(name, records)
    form = where.compile(DOMAIN)
    chosen = np.broadcast_to(form.tensor()[tuple(records[:, DOMAIN.index(a)] for a in form.attributes)], len(records))
    kept = numbers[(chosen == 1) & ~np.isnan(numbers)]
    part = answer(query.denominator, records)
    assert part == pytest.approx(len(kept) / len(records))
    if len(kept):
        offset, scale = query.units(DOMAIN)
        assert offset + scale * answer(query.numerator, records) / part == pytest.approx(kept.mean())


@given(tables(), st.sampled_from(["age", "score", "pets"]), st.sampled_from([Everything(), ADULT, EITHER]))
def test_sums_are_two_linear_queries(records: np.ndarray, name: str, where: Any) -> None:
    total = Total(name, where)
    lower, upper = total.bounds(DOMAIN)
    form = where.compile(DOMAIN)
    chosen = np.broadcast_to(form.tensor()[tuple(records[:, DOMAIN.index(a)] for a in form.attributes)], len(records))
    expected = np.nansum(column(name, records) * chosen)
    answered = lower * answer(total.present, records) + (upper - lower) * answer(total, records)
    assert len(records) * answered == pytest.approx(expected)


def test_a_mean_that_is_a_ratio_does_not_compile() -> None:
    with pytest.raises(QueryError, match="is a ratio on this domain"):
        mean("age").compile(DOMAIN)
    assert isinstance(mean("age").resolve(DOMAIN), Ratio)
    assert isinstance(mean("pets", where=ADULT).resolve(DOMAIN), Ratio)


def test_one_valued_columns_have_a_mean() -> None:
    domain = Domain(only=Categorical([7], other=False))
    assert mean("only").units(domain) == (7, 0)
    assert mean("only").compile(domain).range == (0, 0)


def test_totals_follow_the_form_of_their_predicate() -> None:
    assert isinstance(Total("pets", ADULT).compile(DOMAIN), Product)
    assert isinstance(Total("pets", EITHER).compile(DOMAIN), Dense)
    assert Total("score", EITHER).compile(DOMAIN).attributes == ("sex", "score", "pets")


def test_cells_and_ranges() -> None:
    form = Conjunction({"pets": 3, "sex": 1}).compile(DOMAIN)
    assert form.attributes == ("sex", "pets")
    assert np.argwhere(form.tensor()).tolist() == [[1, 3]]
    form = Range({"pets": (1, 2), "age": (0, 0)}).compile(DOMAIN)
    assert np.argwhere(form.tensor()).tolist() == [[0, 1], [0, 2]]
    assert Conjunction({"a": np.int64(1)}) == Conjunction({"a": 1})


def test_weighted_vectors() -> None:
    form = Weighted({"sex": [0.25, 1], "pets": [0, 1, 0.5, 0]}).compile(DOMAIN)
    assert form.range == (0, 1)
    assert not form.binary
    np.testing.assert_allclose(form.tensor(), np.outer([0.25, 1], [0, 1, 0.5, 0]))


def test_marginals() -> None:
    assert marginal("pets", "age").canonical(DOMAIN) == ("age", "pets")
    assert marginal("pets", "age") == marginal("age", "pets")
    assert marginal("pets", "age").attributes == {"age", "pets"}
    assert Marginal(()).text == "marginal()"


def test_the_last_compilation_is_kept_per_domain() -> None:
    query = count(ADULT)
    assert query.compile(DOMAIN) is query.compile(DOMAIN)
    other = Domain(age=Numeric(edges=[0, 25, 50], whole=True, other=False))
    assert query.compile(other).tensor().shape == (2,)
    assert query.compile(DOMAIN).tensor().shape == (4,)


def test_questions_worded_differently_share_a_form() -> None:
    same = [count(col("age") > 24), count(ADULT), count(ADULT & (col("pets") >= 0)), Range({"age": (1, 2)})]
    assert len({query.digest for query in same}) == 4
    assert len({query.compile(DOMAIN).digest for query in same}) == 1
    different = [*same[:1], count(EITHER), count(), count(~EITHER), Total("age", ADULT), count(col("sex") == "f")]
    assert len({query.compile(DOMAIN).digest for query in different}) == len(different)


ALL: list[Query] = [
    count(),
    count(ADULT & EITHER),
    count(col("born") >= datetime.date(2020, 1, 1)),
    mean("pets"),
    mean("age", where=EITHER),
    Total("age", ADULT),
    Conjunction({"pets": 3, "sex": 1}),
    Range({"pets": (1, 2)}),
    Weighted({"sex": [0.1, 1 / 3]}),
    Ratio(count(ADULT), count()),
    marginal("age", "sex"),
    AllRanges("age"),
    AllRanges("age", prefixes=True),
]


@pytest.mark.parametrize("query", ALL, ids=str)
def test_queries_survive_json_pickle_and_copy(query: Query) -> None:
    for same in (
        query_from_dict(json.loads(json.dumps(query.to_dict()))),
        pickle.loads(pickle.dumps(query)),
        copy.deepcopy(query),
    ):
        assert type(same) is type(query)
        assert same == query
        assert same.digest == query.digest
        assert hash(same) == hash(query)


def test_texts_are_distinct_and_stable() -> None:
    assert len({query.text for query in ALL}) == len({query.digest for query in ALL}) == len(ALL)
    assert [query.text for query in ALL[1:]] == [
        'count(((pets == 0 or sex == "f") and age >= 25))',
        'count(born >= date "2020-01-01")',
        "mean(pets, everything)",
        'mean(age, (pets == 0 or sex == "f"))',
        "total(age, age >= 25)",
        "conjunction(pets=3, sex=1)",
        "range(pets=1..2)",
        "weighted(sex=[0.1, 0.3333333333333333])",
        "ratio(count(age >= 25), count(everything))",
        "marginal(age, sex)",
        "ranges(age)",
        "prefixes(age)",
    ]
    assert count(ADULT).digest == hashlib.sha256(b"count(age >= 25)").hexdigest()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Count(True), "expected a predicate"),  # type: ignore[arg-type]
        (lambda: count("age >= 3"), "expected a predicate"),  # type: ignore[arg-type]
        (lambda: mean("age", where=True), "expected a predicate"),  # type: ignore[arg-type]
        (lambda: mean(3), "must be text"),  # type: ignore[arg-type]
        (lambda: Conjunction({}), "at least one attribute"),
        (lambda: Conjunction({"a": -1}), "code -1 .* at least 0"),
        (lambda: Conjunction({"a": 1.0}), "must be a whole number"),  # type: ignore[dict-item]
        (lambda: Conjunction({"a": True}), "must be a whole number"),
        (lambda: Range({"a": (2, 1)}), "first code 2 exceeds last code 1"),
        (lambda: Range({"a": 3}), "needs a pair"),  # type: ignore[dict-item]
        (lambda: Weighted({"a": [0, 1.5]}), "leave \\[0, 1\\]"),
        (lambda: Weighted({"a": [-0.1, 1]}), "leave \\[0, 1\\]"),
        (lambda: Weighted({"a": [float("nan")]}), "leave \\[0, 1\\]"),
        (lambda: Weighted({"a": []}), "do not match"),
        (lambda: Weighted({"a": [[0, 1]]}), "do not match"),
        (lambda: Weighted({"a": ["x"]}), "must be numbers"),
        (lambda: Ratio(count(), marginal("a")), "two linear queries"),  # type: ignore[arg-type]
        (lambda: marginal("a", "a"), "twice"),
        (lambda: Marginal("age"), "list of names"),
        (lambda: AllRanges("a", prefixes=1), "true or false"),  # type: ignore[arg-type]
        (lambda: Product(("a",), ()), "as many vectors"),
        (lambda: Dense(("a",), np.array([2.0])), "leave"),
        (lambda: Dense(("a",), np.zeros((2, 2))), "do not match"),
    ],
)
def test_bad_queries_are_refused_when_built(build: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (mean("sex"), "needs numbers"),
        (mean("born"), "needs numbers"),
        (mean("agee"), 'unknown column "agee"; did you mean age'),
        (Total("sex"), "needs numbers"),
        (Conjunction({"pets": 4}), r"code 4 of \"pets\" is outside 0\.\.3"),
        (Conjunction({"x": 0}), "unknown attribute"),
        (Range({"sex": (0, 2)}), r"outside 0\.\.1"),
        (Weighted({"sex": [1]}), '"sex" has 2 codes, not 1 values'),
    ],
)
def test_queries_that_do_not_fit_the_domain_are_refused(query: Linear, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        query.compile(DOMAIN)


@pytest.mark.parametrize(
    "description",
    [
        None,
        [],
        {},
        {"query": 3},
        {"query": "sum", "column": "a"},
        {"query": "count", "where": None},
        {"query": "count", "mechanism": "none"},
        {"query": "mean"},
        {"query": "mean", "column": 3},
        {"query": "conjunction", "codes": [1]},
        {"query": "conjunction", "codes": {"a": "1"}},
        {"query": "conjunction", "codes": {f"x{place}": 0 for place in range(1001)}},
        {"query": "range", "spans": {"a": [1]}},
        {"query": "weighted", "vectors": {"a": [2]}},
        {"query": "weighted", "vectors": {"a": {"b": 1}}},
        {"query": "ratio", "numerator": {"query": "marginal", "attributes": []}, "denominator": {"query": "count"}},
        {"query": "marginal", "attributes": "ab"},
        {"query": "marginal", "attributes": [1]},
        {"query": "marginal", "attributes": ["a", "a"]},
        {"query": "ranges", "column": None},
    ],
)
def test_bad_plain_forms_are_refused(description: Any) -> None:
    with pytest.raises(QueryError) as caught:
        query_from_dict(description)
    assert "\n" not in str(caught.value)


def test_plain_forms_that_must_be_linear() -> None:
    assert linear_from_dict({"query": "count"}) == count()
    assert query_from_dict({"query": "mean", "column": "a"}) == Mean("a")
    with pytest.raises(QueryError, match="not a linear query"):
        linear_from_dict({"query": "marginal", "attributes": ["a"]})
