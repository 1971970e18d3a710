"""Predicates compile to what three-valued logic says on every record, and have one text for one meaning."""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import operator
import pickle
import random
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.errors import QueryError
from reticent.queries import Dense, Everything, Predicate, Product, all_of, any_of, col, predicate_from_dict
from reticent.queries.predicate import MAX_DEPTH, MAX_SIZE, Comparison, Junction, Not

DOMAIN = Domain(
    age=Numeric(edges=[0, 1, 2, 3, 3], whole=True, nullable=True, other=True),
    smoker=Categorical(["no", "yes"], nullable=True, other=True),
    sex=Categorical(["f", "m"]),
    pets=Integer(3),
)
COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(predicate: Predicate, record: dict[str, Any]) -> bool | None:
    """Kleene's logic on decoded values, written independently of the compiler."""
    if isinstance(predicate, Everything):
        return True
    if isinstance(predicate, Not):
        inner = truth(predicate.operand, record)
        return None if inner is None else not inner
    if isinstance(predicate, Junction):
        parts = [truth(operand, record) for operand in predicate.operands]
        if predicate.op == "and":
            return False if False in parts else None if None in parts else True
        return True if True in parts else None if None in parts else False
    assert isinstance(predicate, Comparison)
    return _compared(predicate, record[predicate.name])


def _compared(predicate: Comparison, value: Any) -> bool | None:
    op = predicate.op
    if op == "is_null":
        return value is None
    if op == "is_known":
        return value is not None and value != "(other)"
    wanted = predicate.value if op == "in" else (predicate.value,)
    if value is None:
        return None
    if value == "(other)" and predicate.name == "age" and "(other)" not in wanted:
        return None
    if op == "in":
        return value in wanted
    if value == "(other)" and op not in ("==", "!="):
        return None
    return bool(COMPARE[op](value, predicate.value))


def brute_force(predicate: Predicate, domain: Domain) -> np.ndarray:
    outcome = np.zeros(domain.shape)
    for codes in itertools.product(*(range(size) for size in domain.shape)):
        record = {name: domain[name].value(code) for name, code in zip(domain.names, codes, strict=True)}
        outcome[codes] = truth(predicate, record) is True
    return outcome


def spread(form: Product | Dense, domain: Domain) -> np.ndarray:
    """The compiled form on the whole universe."""
    tensor = form.tensor()
    sizes = dict(zip(form.attributes, tensor.shape, strict=True))
    return np.broadcast_to(tensor.reshape([sizes.get(name, 1) for name in domain.names]), domain.shape)


def _values(name: str) -> st.SearchStrategy[Any]:
    return {
        "age": st.sampled_from([0, 1, 2, 3, "(other)"]),
        "smoker": st.sampled_from(["no", "yes", "(other)"]),
        "sex": st.sampled_from(["f", "m"]),
        "pets": st.integers(0, 2),
    }[name]


@st.composite
def comparisons(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(DOMAIN.names))
    column = col(name)
    kind = draw(st.sampled_from(["equal", "order", "list", "null"]))
    if kind == "null":
        return column.is_null() if draw(st.booleans()) else column.is_known()
    if kind == "list":
        return column.isin(draw(st.lists(_values(name), min_size=1, max_size=3)))
    if kind == "order" and name in ("age", "pets"):
        op = draw(st.sampled_from(["<", "<=", ">", ">="]))
        return COMPARE[op](column, draw(st.sampled_from([-1, 0, 0.5, 1, 2, 2.5, 3, 4])))
    return (column == draw(_values(name))) if draw(st.booleans()) else (column != draw(_values(name)))


def predicates() -> st.SearchStrategy[Predicate]:
    leaves = st.one_of(comparisons(), comparisons(), st.builds(Everything))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(operator.and_, inner, inner),
            st.builds(operator.or_, inner, inner),
            st.builds(operator.invert, inner),
        ),
        max_leaves=8,
    )


@given(predicates())
@settings(max_examples=300)
def test_compiles_to_brute_force(predicate: Predicate) -> None:
    form = predicate.compile(DOMAIN)
    assert form.binary
    assert form.attributes == DOMAIN.canonical(form.attributes)
    assert set(form.attributes) <= predicate.attributes
    expected = brute_force(predicate, DOMAIN)
    np.testing.assert_array_equal(spread(form, DOMAIN), expected)
    assert form.range == (expected.min(), expected.max())


@given(predicates())
def test_forms_are_products_whenever_possible(predicate: Predicate) -> None:
    expected = brute_force(predicate, DOMAIN)
    axes = range(expected.ndim)
    sides = [expected.any(axis=tuple(axis for axis in axes if axis != kept)).sum() for kept in axes]
    factorises = np.prod(sides) == expected.sum() and expected.any()
    if factorises:
        assert isinstance(predicate.compile(DOMAIN), Product)


SEX, PETS, SMOKER = col("sex"), col("pets"), col("smoker")


@pytest.mark.parametrize(
    "predicate",
    [
        ((SEX == "f") | (PETS == 0)) & ((SEX == "m") | (PETS == 1)),
        ((SEX == "f") | (PETS == 0)) & ((PETS == 1) | (SMOKER == "no")) & (PETS != 2),
        (((SEX == "f") | (PETS == 0)) & (SMOKER == "no")) | ((SMOKER == "yes") & ((SEX == "m") | (PETS == 1))),
        ~(((SEX == "f") | (PETS == 0)) & ((SEX == "m") | (PETS == 1))),
        (SEX == "f") | ((PETS == 0) & (PETS == 1)) | (SMOKER == "no"),
        ((SEX == "f") & (SEX == "m")) | ((PETS == 0) & (PETS == 1)),
        ((SEX == "f") | (PETS == 0))
        & (((PETS == 0) & (PETS == 1)) | (((SEX == "m") | (PETS == 1)) & (SMOKER == "no"))),
    ],
    ids=str,
)
def test_several_ors_compile_to_brute_force(predicate: Predicate) -> None:
    np.testing.assert_array_equal(spread(predicate.compile(DOMAIN), DOMAIN), brute_force(predicate, DOMAIN))


@given(st.lists(comparisons(), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_text_does_not_depend_on_order_nesting_or_repetition(parts: list[Predicate], order: random.Random) -> None:
    shuffled = [*parts, parts[0]]
    order.shuffle(shuffled)
    for join, operate in ((all_of, operator.and_), (any_of, operator.or_)):
        left = reduce(operate, parts)
        right = reduce(lambda first, second, operate=operate: operate(second, first), shuffled)
        assert left.text == right.text == join(shuffled).text
        assert left == right
        assert hash(left) == hash(right)
        assert left.digest == right.digest
        assert left.to_dict() == right.to_dict() == join(shuffled).to_dict()


@given(predicates())
def test_text_and_plain_form_are_faithful(predicate: Predicate) -> None:
    for same in (
        predicate_from_dict(predicate.to_dict()),
        predicate_from_dict(json.loads(json.dumps(predicate.to_dict()))),
        pickle.loads(pickle.dumps(predicate)),
        copy.deepcopy(predicate),
    ):
        assert same.text == predicate.text
    assert (~~predicate).text == predicate.text


def test_listed_values_are_described_in_one_order() -> None:
    first, second = col("a").isin([3, 1, 2, 1]), col("a").isin([1, 2, 3])
    assert first == second
    assert first.to_dict() == second.to_dict()
    assert col("a").isin([1, 1]).to_dict() == (col("a") == 1).to_dict()


@given(predicates(), predicates())
def test_equal_texts_mean_equal_predicates(first: Predicate, second: Predicate) -> None:
    if first.text == second.text:
        assert first.to_dict() == second.to_dict()
        np.testing.assert_array_equal(brute_force(first, DOMAIN), brute_force(second, DOMAIN))


def test_canonical_texts() -> None:
    assert (col("b") == "x").text == 'b == "x"'
    assert ((col("b") == "x") & (col("a") >= 45.0)).text == '(a >= 45 and b == "x")'
    assert (~(col("a") < 3)).text == "a >= 3"
    assert (~col("a").is_null()).text == "not a is null"
    assert col("a").isin([3, 1, 1.0]).text == "a in [1, 3]"
    assert col("a").isin([3]).text == "a == 3"
    assert col("a").between(1, 2).text == "(a <= 2 and a >= 1)"
    assert (col("income>50K") == True).text == '"income>50K" == true'  # noqa: E712
    assert (col("and") == 1).text == '"and" == 1'
    assert (col("d") >= datetime.date(2020, 1, 1)).text == 'd >= date "2020-01-01"'
    assert (Everything() & (col("a") == 1)).text == "a == 1"
    assert all_of([]).text == "everything"
    assert any_of([]).text == "not everything"
    assert repr(col("a")) == "col('a')"


def test_values_of_different_types_have_different_texts() -> None:
    values: list[Any] = [1, "1", True, "true", 1.5, "1.5", datetime.date(2020, 1, 1), "2020-01-01"]
    values += [datetime.datetime(2020, 1, 1), 'a"b', "a\\b", "é"]
    assert len({(col("a") == value).text for value in values}) == len(values)


def test_products_of_many_attributes_never_become_tensors() -> None:
    wide = Domain({f"x{place}": 50 for place in range(14)})
    box = all_of(col(f"x{place}") < 10 for place in range(14))
    form = box.compile(wide)
    assert isinstance(form, Product)
    assert len(form.vectors) == 14
    same_attribute = any_of(col("x0") == code for code in range(7)) & (col("x0") > 2) & ~(col("x0") == 4)
    form = same_attribute.compile(wide)
    assert isinstance(form, Product)
    assert np.flatnonzero(form.vectors[0]).tolist() == [3, 5, 6]


def test_attributes_that_do_not_matter_are_dropped() -> None:
    form = ((col("pets") >= 0) & (col("sex") == "f")).compile(DOMAIN)
    assert form.attributes == ("sex",)
    assert ((col("pets") >= 0) | (col("sex") == "f")).compile(DOMAIN).attributes == ()
    either = ((col("pets") == 1) & (col("sex") == "f")) | ((col("pets") == 1) & (col("sex") != "f"))
    assert either.compile(DOMAIN).attributes == ("pets",)
    nothing = (~Everything()).compile(DOMAIN)
    assert isinstance(nothing, Dense)
    assert nothing.range == (0, 0)


def test_tensors_are_limited() -> None:
    wide = Domain({f"x{place}": 50 for place in range(14)})
    with pytest.raises(QueryError, match=r"tensor of 6250000 cells over x0, x1, x2, x3; at most 4194304"):
        any_of(col(f"x{place}") == 0 for place in range(4)).compile(wide)
    square = Domain(a=2000, b=2000)
    pairs = [(col("a") == code) & (col("b") == code) for code in range(300)]
    with pytest.raises(QueryError, match="cell operations"):
        any_of(pairs).compile(square)


def test_depth_and_size_are_limited() -> None:
    deep: Predicate = col("b") == MAX_DEPTH
    for place in range(MAX_DEPTH // 2 - 1):
        deep = (deep & (col("a") == place)) | (col("b") == place)
    deep = deep & (col("a") == 0)
    assert deep.depth == MAX_DEPTH
    with pytest.raises(QueryError, match=f"at most {MAX_DEPTH}"):
        deep | (col("b") == 0)
    with pytest.raises(QueryError, match=f"at most {MAX_SIZE}"):
        col("a").isin(range(MAX_SIZE + 1))
    with pytest.raises(QueryError, match=f"at most {MAX_SIZE}"):
        any_of(col("a").isin(range(100)) for _ in range(MAX_SIZE // 100 + 1))
    nested: Any = {"op": "everything"}
    for _ in range(5000):
        nested = {"op": "not", "of": nested}
    with pytest.raises(QueryError, match="nested more than"):
        predicate_from_dict(nested)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: col("a") == None, "use is_null"),  # noqa: E711
        (lambda: col("a") == float("nan"), "use is_null"),
        (lambda: col("a") >= float("inf"), "not a finite number"),
        (lambda: col("a") >= 10**400, "not a finite number"),
        (lambda: col("a") == [1], "cannot compare with list"),
        (lambda: col("a") == (col("b") == 1), "cannot compare with Comparison"),
        (lambda: col("a") == "x" * 10_001, "10001 characters; at most 10000"),
        (lambda: col("a").isin([]), "empty list"),
        (lambda: col("a").isin("abc"), "isin needs a list"),
        (lambda: col("a").isin(3), "isin needs a list"),
        (lambda: col(""), "must be text"),
        (lambda: col(3), "must be text"),  # type: ignore[arg-type]
        (lambda: (col("a") == 1) & True, "bool is not a predicate"),
        (lambda: (col("a") == 1) and (col("b") == 1), "no truth value"),
        (lambda: (col("a") <= 2) >= 1, "not supported|no truth value"),
    ],
)
def test_slips_are_caught_when_the_predicate_is_built(build: Any, message: str) -> None:
    with pytest.raises((QueryError, TypeError), match=message):
        build()


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (col("aeg") == 1, 'unknown column "aeg"; did you mean age'),
        (col("sex") == "female", 'sex == "female": not one of the 2 declared values'),
        (col("sex").isin(["f", "x"]), 'sex in "x": not one of the 2 declared values'),
        (col("pets") == 3, r"integers 0\.\.2"),
        (col("age") == "1", "expected a finite number"),
    ],
)
def test_what_the_domain_does_not_know_is_refused(predicate: Predicate, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        predicate.compile(DOMAIN)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "description",
    [
        None,
        [],
        "age >= 3",
        {},
        {"op": 3},
        {"op": "like", "column": "a", "value": "x"},
        {"op": "==", "column": "a"},
        {"op": "==", "column": 3, "value": 1},
        {"op": "==", "column": "a", "value": None},
        {"op": "==", "column": "a", "value": [1]},
        {"op": "==", "column": "a", "value": {"date": "x"}},
        {"op": "==", "column": "a", "value": {"date": 3}},
        {"op": "==", "column": "a", "value": {"code": "os.exit"}},
        {"op": "==", "column": "a", "value": {"date": "2020-01-01", "datetime": "x"}},
        {"op": "==", "column": "a", "value": 1, "extra": 1},
        {"op": "in", "column": "a", "values": "abc"},
        {"op": "in", "column": "a", "values": []},
        {"op": "is_null", "column": "a", "value": 1},
        {"op": "and", "of": []},
        {"op": "and", "of": [{"op": "everything"}]},
        {"op": "and", "of": {"op": "everything"}},
        {"op": "not", "of": None},
        {"op": "everything", "of": 1},
    ],
)
def test_bad_plain_forms_are_refused(description: Any) -> None:
    with pytest.raises(QueryError) as caught:
        predicate_from_dict(description)
    assert "\n" not in str(caught.value)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["op", "of", "column", "value", "values", "date"]), inner, max_size=4),
    ),
    max_leaves=10,
)


@given(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["and", "or", "not", "==", ">=", "in", "is_null", "everything"])},
        optional={"of": json_values, "column": json_values, "value": json_values, "values": json_values},
    )
)
def test_arbitrary_json_is_a_predicate_or_a_query_error(description: Any) -> None:
    try:
        predicate = predicate_from_dict(description)
    except QueryError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert predicate_from_dict(predicate.to_dict()) == predicate


PARENTHESES = r"""put each comparison in parentheses: \(col\("age"\) >= 18\) & \(col\("sex"\) == "f"\)"""


@pytest.mark.parametrize(
    "written",
    [
        lambda: col("age") >= 18 & col("sex") == "f",
        lambda: col("age") >= 18 | col("sex") == "f",
        lambda: (col("age") >= 18) & col("sex") == "f",
        lambda: col("sex") == "f" | (col("age") >= 18),
        lambda: col("age") >= 18 & (col("sex") == "f"),
        lambda: col("smoker") & col("sex"),
        lambda: ~col("sex") == "f",
        lambda: ~col("smoker"),
    ],
)
def test_a_comparison_without_parentheses_is_told_to_have_some(written: Any) -> None:
    with pytest.raises(QueryError, match=PARENTHESES):
        written()


def test_a_column_is_not_dropped_by_and() -> None:
    with pytest.raises(QueryError, match="column sex has no truth value"):
        (col("sex") and col("age") >= 18)
    with pytest.raises(QueryError, match="column sex has no truth value"):
        (not col("sex"))


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (40, 18, r"between\(40, 18\) holds no value; give the lower end first: between\(18, 40\)"),
        (2.5, 1, r"between\(2.5, 1\) holds no value"),
        (np.int64(3), 2, r"holds no value"),
        (datetime.date(2024, 2, 1), datetime.date(2024, 1, 1), "holds no value"),
    ],
)
def test_the_lower_end_stands_first(low: Any, high: Any, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        col("age").between(low, high)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 2.5), ("yes", "no"), (datetime.date(2024, 1, 1), "2023-01-01")])
def test_ends_in_order_or_without_one_are_kept(low: Any, high: Any) -> None:
    assert col("age").between(low, high) == (col("age") >= low) & (col("age") <= high)
