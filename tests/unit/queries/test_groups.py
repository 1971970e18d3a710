"""Groups: the cells of a marginal under a condition equal the linear queries they stand for."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pytest
from tests.published import Published

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.errors import QueryError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.mechanisms.base import Gaussian
from reticent.knowledge.certificates import Certificate, tightest
from reticent.queries import Conjunction, Everything, Groups, Marginal, Predicate, col, query_from_dict
from reticent.queries.forms import Dense
from reticent.queries.groups import cell_of

DOMAIN = Domain(
    age=Numeric(edges=[20, 30, 50, 60], whole=True, nullable=True, other=True),
    sex=Categorical(["F", "M"]),
    income=Numeric(edges=[0.0, 1.5, 4.0], other=False),
    day=Numeric(edges=[datetime.date(2024, month, 1) for month in (1, 2, 3)], outside="other"),
    size=Integer(3),
    one=Numeric(edges=[0, 1], nullable=True),
)
WHERES = [
    Everything(),
    col("income") >= 1.5,
    (col("income") >= 1.5) & (col("sex") == "F"),
    (col("income") >= 1.5) | (col("size") == 2),
    (col("sex") == "F") | (col("size") == 2),
    (col("sex") == "F") | (col("income") < 1.5) | col("age").is_null(),
    ~Everything(),
]


@pytest.fixture(scope="module")
def hypothesis() -> DenseHypothesis:
    return DenseHypothesis(DOMAIN, np.random.default_rng(2).random(DOMAIN.shape))


@pytest.mark.parametrize("name", DOMAIN.names)
def test_a_cells_predicate_holds_for_one_code(name: str) -> None:
    for code in range(DOMAIN[name].size):
        form = cell_of(DOMAIN, name, code).compile(DOMAIN)
        np.testing.assert_array_equal(form.tensor(), Conjunction({name: code}).compile(DOMAIN).tensor())


@pytest.mark.parametrize("where", WHERES, ids=lambda where: where.text)
@pytest.mark.parametrize("column", [None, "age", "size"])
@pytest.mark.parametrize("names", [("sex",), ("size", "sex"), ("age", "income")])
def test_one_marginal_answers_all_parts(hypothesis, names, column, where) -> None:
    query = Groups(names, where, column)
    answers = query.read(DOMAIN, hypothesis.marginal(query.span(DOMAIN)))
    expected = np.array([hypothesis.expect(part) for part in query.parts(DOMAIN)])
    assert answers.shape == DOMAIN.shape_of(names)
    np.testing.assert_allclose(answers.ravel(), expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["boxes", "predicates"])
@pytest.mark.parametrize("where", WHERES, ids=lambda where: where.text)
@pytest.mark.parametrize("column", [None, "age"])
def test_one_bound_is_no_smaller_than_that_of_any_part(kind, column, where) -> None:
    audited = Certificate(kind, (DOMAIN.names,), "s", 0.01, Gaussian(5).describe(), 0.0, 1e3, 0.0, 1, 0.95)
    query = Groups(("size", "sex"), where, column)
    joint = max(tightest((audited,), form)[0] for form in query.representatives(DOMAIN))
    for part in query.parts(DOMAIN):
        assert tightest((audited,), part.compile(DOMAIN))[0] <= joint + 1e-12


def test_a_view_answers_groups_like_its_parts(hypothesis) -> None:
    view = Published.of(Snapshot(hypothesis), 50.0)
    query = Groups(("size", "sex"), col("income") >= 1.5)
    answer = view.answer(query)
    assert [name for name, _ in answer.labels] == ["size", "sex"]
    parts = [view.answer(part).count for part in query.parts(DOMAIN)]
    np.testing.assert_allclose(np.ravel(answer.count), parts, atol=1e-9)
    assert (answer.certified, answer.origin) == (False, "hypothesis")


def test_groups_too_wide_for_one_marginal_are_answered_one_by_one() -> None:
    wide = Domain({f"a{k}": 60 for k in range(5)})

    class Uniform:
        domain, digest = wide, "uniform"

        def uniform(self, name: str) -> bool:
            return True

        def expect(self, query) -> float:
            form = query.compile(wide)
            return float(np.prod([vector.mean() for vector in form.vectors]))

        def marginal(self, attributes):
            raise AssertionError("60^4 cells do not fit")

    where = (col("a1") >= 30) & (col("a2") >= 30) & (col("a3") >= 30)
    answer = Published.of(Uniform(), 1.0).answer(Groups(("a0",), where))
    np.testing.assert_allclose(answer.value, np.full(60, 0.125 / 60))
    with pytest.raises(QueryError, match="216000 groups whose condition spans"):
        Published.of(Uniform(), 1.0).answer(Groups(("a0", "a1", "a4"), col("a2") >= 30))


def test_texts_and_dictionaries_survive() -> None:
    query = Groups(("size", "sex"), col("income") >= 1.5, "age")
    assert query.text == "groups(sex, size, total age, income >= 1.5)"
    assert query_from_dict(query.to_dict()) == query == pickle.loads(pickle.dumps(query))
    assert Groups(("sex",)).attributes == Marginal(("sex",)).attributes
    with pytest.raises(QueryError, match="must be a list"):
        query_from_dict({"query": "groups", "attributes": "sex"})
    with pytest.raises(QueryError, match="names an attribute twice"):
        Groups(("sex", "sex"))


@pytest.mark.parametrize("names", [("sex",), ("sex", "size"), ("age", "income")], ids=" ".join)
@pytest.mark.parametrize("where", WHERES[3:6], ids=str)
def test_conditions_of_the_cells_are_told_once_each_in_one_order(names: tuple[str, ...], where: Predicate) -> None:
    """As many as NumPy finds among the conditions of all cells, ascending, and the same list when asked again."""
    query = Groups(names, where)
    found, form = query.representatives(DOMAIN), query.form(DOMAIN)
    assert isinstance(form, Dense)
    shared = [axis for axis, name in enumerate(form.attributes) if name in names]
    rows = np.moveaxis(form.values, shared, range(len(shared)))
    expected = np.unique(rows.reshape(int(np.prod(rows.shape[: len(shared)])), -1), axis=0)
    assert len(found) == len(expected)
    for one, row in zip(found, expected, strict=True):
        place = tuple(0 if name in names else slice(None) for name in one.attributes)
        assert isinstance(one, Dense)
        assert np.array_equal(one.values[place].ravel(), row)
    assert query.representatives(DOMAIN) is found
