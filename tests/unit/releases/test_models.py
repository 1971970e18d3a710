"""What models of each kind of loss predict, on the original scale of the label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import reticent as rt
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.risks import public_minimum
from reticent.losses.base import ConvexLoss
from reticent.releases.models import Model, free_model

DOMAIN = rt.Domain(
    age=rt.Integer(6),
    job=rt.Categorical(["cook", "clerk", "smith"]),
    visits=rt.Integer(9),
    happy=rt.Categorical(["no", "yes"], other=False),
)
ROWS = pd.DataFrame({"age": [0, 2, 5], "job": ["cook", "smith", "clerk"]})


def model_of(loss: ConvexLoss) -> Model:
    """More visits with age, another job for each age."""
    ages, jobs, visits, moods = np.indices(DOMAIN.shape)
    shares = np.exp(-np.square(visits - ages - 1)) * np.where(jobs == ages // 2, 3.0, 1.0) * (1 + moods * (ages > 3))
    held = Snapshot(DenseHypothesis(DOMAIN, shares / shares.sum()))
    theta, gap = public_minimum(held, loss.on(DOMAIN))
    return Model(loss, DOMAIN, theta, None, None, "hypothesis", False, gap=gap)


def test_a_poisson_model_predicts_a_mean_and_its_coefficients_a_logarithm() -> None:
    model = model_of(rt.Poisson(features=["age"], label="visits", radius=8))
    named = model.coefficients
    by_hand = np.exp(named["(intercept)"] + named["age"] * ROWS["age"].to_numpy())
    np.testing.assert_allclose(model.predict(ROWS), by_hand)
    assert np.all(np.diff(model.predict(ROWS)) > 0.5)


def test_a_quantile_lies_below_a_higher_one() -> None:
    low, high = (model_of(rt.Quantile(features=["age"], label="visits", level=level)) for level in (0.2, 0.8))
    assert np.all(low.predict(ROWS) < high.predict(ROWS))


def test_a_multinomial_model_predicts_classes_and_their_chances() -> None:
    model = model_of(rt.Multinomial(features=["age"], label="job", categories=["age"]))
    chances = model.predict_proba(ROWS)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert list(model.classes_) == ["cook", "clerk", "smith"]
    assert list(model.predict(ROWS)) == ["cook", "clerk", "smith"]
    assert len(model.coefficients) == len(model.names) == len(model.theta) == 18
    assert {name.split(": ")[0] for name in model.coefficients} == {"cook", "clerk", "smith"}
    again = Model.from_json(model.to_json())
    np.testing.assert_array_equal(again.decision_function(ROWS), model.decision_function(ROWS))


def test_a_loss_of_ones_own_predicts_what_its_label_allows() -> None:
    own = rt.Margin(features=["age"], label="happy", slopes={"no": [(-1, 0), (1, 2)], "yes": [(-1, -2), (1, 0)]})
    model = model_of(own)
    assert model.decision_function(ROWS).shape == (3,)
    with pytest.raises(rt.QueryError, match="decision_function"):
        model.predict(ROWS)
    absolute = model_of(rt.Margin(features=["age"], label="visits", values=[(-1, 1), (0, 0), (1, 1)]))
    np.testing.assert_allclose(
        absolute.predict(ROWS), model_of(rt.Quantile(features=["age"], label="visits")).predict(ROWS), atol=0.05
    )


@pytest.mark.parametrize("values", [[True, False], ["Yes", "no"], [1, 0]], ids=repr)
@pytest.mark.parametrize("kind", [rt.Logistic, rt.Squared, rt.Hinge], ids=lambda kind: kind.__name__)
def test_which_of_two_classes_is_predicted_is_never_guessed_against_their_names(kind: Any, values: list[Any]) -> None:
    """Named, a model of either class is the mirror image of the other; in the usual order nothing need be named."""
    label = rt.Categorical(values, other=False)
    domain = rt.Domain(age=rt.Integer(4), sick=label)
    weights = np.array([[0.02, 0.2], [0.05, 0.2], [0.1, 0.15], [0.2, 0.08]])
    knowledge = Knowledge(Snapshot(DenseHypothesis(domain, weights)), 1000.0, 0.0)
    with pytest.raises(rt.QueryError, match="name the one to predict"):
        free_model(knowledge, kind(features=["age"], label="sick", radius=3), 0.95)
    first, second = (
        free_model(knowledge, kind(features=["age"], label="sick", radius=3, positive=value), 0.95) for value in values
    )
    np.testing.assert_allclose(first.theta, -second.theta, atol=1e-6)
    assert first.coefficients["age"] > 0
    assert first.positive == f"sick = {label.labels[0]}"
    assert str(first.positive) in repr(first)
    usual = rt.Domain(age=rt.Integer(4), sick=rt.Categorical(values[::-1], other=False))
    turned = Knowledge(Snapshot(DenseHypothesis(usual, weights[:, ::-1])), 1000.0, 0.0)
    unnamed = free_model(turned, kind(features=["age"], label="sick", radius=3), 0.95)
    np.testing.assert_allclose(unnamed.theta, first.theta, atol=1e-6)
    assert unnamed.positive == first.positive


FIELDS = model_of(rt.Poisson(features=["age"], label="visits", radius=8)).to_dict()


@pytest.mark.parametrize("fields", [None, 3, "x", [], {}, {"loss": {}}, FIELDS | {"more": 1}], ids=repr)
def test_what_is_no_model_is_refused_in_one_line(fields: Any) -> None:
    with pytest.raises(rt.QueryError, match="not a saved model"):
        Model.from_dict(fields)


@pytest.mark.parametrize("name", ["loss", "domain", "theta", "error", "confidence", "origin", "certified"])
@pytest.mark.parametrize("value", [[1.0], {"a": 1}, "x", -1, float("nan"), True], ids=repr)
def test_a_field_of_the_wrong_kind_is_refused_in_one_line(name: str, value: Any) -> None:
    if (name, value) == ("origin", "x"):
        assert Model.from_dict(FIELDS | {name: value}).theta.size == len(FIELDS["theta"])
        return
    with pytest.raises(rt.ReticentError) as refused:
        Model.from_dict(FIELDS | {name: value})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", None, 3, {}], ids=repr)
def test_text_that_is_no_model_is_refused_in_one_line(text: Any) -> None:
    with pytest.raises(rt.QueryError, match="not a saved model"):
        Model.from_json(text)


def test_coefficients_of_a_mean_vector_are_means_on_the_original_scale() -> None:
    domain = rt.Domain(
        a=rt.Integer(4),
        v=rt.Numeric(edges=[0, 10, 20, 60], other=False),
        b=rt.Categorical(["x", "y", "z"], other=False),
    )
    weights = np.random.default_rng(3).dirichlet(np.ones(domain.cells(domain.names))).reshape(domain.shape)
    a, v = np.arange(4.0), np.array([5.0, 15.0, 40.0])
    knowledge = Knowledge(Snapshot(DenseHypothesis(domain, weights)), 1000.0, 0.0)
    loss = rt.MeanVector(features=["a", "v", "b", ("a", "v"), ("v", "b")], bounds={"v": (0, 60)}, radius=3)
    found = free_model(knowledge, loss, 0.95).coefficients
    expected = {
        "a": np.einsum("avb,a->", weights, a),
        "v": np.einsum("avb,v->", weights, v),
        **{f"b={label}": weights[:, :, code].sum() for code, label in enumerate("xyz")},
        "a:v": np.einsum("avb,a,v->", weights, a, v),
        **{f"v:b={label}": np.einsum("av,v->", weights[:, :, code], v) for code, label in ((1, "y"), (2, "z"))},
    }
    assert list(found) == [name for name in free_model(knowledge, loss, 0.95).names if name in expected]
    assert found == pytest.approx(expected, abs=1e-4)
    alone = free_model(knowledge, rt.MeanVector(features=["a", ("a", "v")]), 0.95).coefficients
    assert list(alone) == ["a"]  # the mean of v, without which that of the product is unknown, is no feature
