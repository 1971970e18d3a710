"""Models: free from releases and sessions, certified where a certificate reaches, usable like any fitted estimator."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.published import Published
from tests.session_tables import table
from tests.small_tables import mixed

import reticent as rt
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.mechanisms.base import Gaussian
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.minimizers import cheapest_within
from reticent.knowledge.risks import public_minimum, public_risk
from reticent.losses.risk import ListedRisk, QuadraticRisk, TensorRisk
from reticent.losses.solver import minimum
from reticent.releases.models import Model, free_model, guessed_model, implied_variation
from reticent.sessions.session import Session

DOMAIN = rt.Domain(
    age=rt.Numeric(edges=[20, 30, 45, 60, 80], whole=True, other=False),
    sex=rt.Categorical(["F", "M"], other=False),
    bmi=rt.Numeric(lower=10, upper=50, bins=8, nullable=True),
    sick=rt.Categorical(["no", "yes"], other=False),
)
LOGISTIC = rt.Logistic(features=["age", "sex"], label="sick", radius=3)
SQUARED = rt.Squared(features=["age", "sex", ("age", "sex")], label="bmi", radius=1)
ROWS = 20_000


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    generator = np.random.default_rng(1)
    age = generator.integers(20, 80, ROWS)
    sex = generator.choice(["F", "M"], ROWS)
    sick = np.where(generator.random(ROWS) < 1 / (1 + np.exp(-(age - 50) / 15)), "yes", "no")
    bmi = np.clip(22 + 0.1 * (age - 40) + 2 * (sex == "M") + 3 * generator.normal(size=ROWS), 10, 50)
    return pd.DataFrame({"age": age, "sex": sex, "bmi": bmi, "sick": sick})


def view(certificates: tuple[Certificate, ...] = ()) -> Knowledge:
    weights = np.random.default_rng(2).dirichlet(np.ones(DOMAIN.size)).reshape(DOMAIN.shape)
    snapshot = Snapshot(DenseHypothesis(DOMAIN, weights))
    return Published.of(snapshot, 1000.0, certificates).knowledge


def certificate(kind: str, sets: tuple[tuple[str, ...], ...], reading: float) -> Certificate:
    noise = Gaussian(1).describe()
    return Certificate(kind, sets, "x", reading, noise, 0.0, 1e6, 0.0, 1, 0.95)  # pyright: ignore[reportArgumentType]


def test_coefficients_on_the_original_scale_predict_alike(people: pd.DataFrame) -> None:
    model = free_model(view(), SQUARED, 0.95)
    some = people[:50]
    named = model.coefficients
    male = (some["sex"] == "M").to_numpy().astype(float)
    age = some["age"].to_numpy()
    by_hand = named["(intercept)"] + named["age"] * age + named["sex=M"] * male + named["age:sex=M"] * age * male
    np.testing.assert_allclose(model.predict(some), by_hand, atol=1e-9)
    assert model.names == ("(intercept)", "age", "sex=M", "age:sex=M")


def test_rows_may_come_in_any_shape(people: pd.DataFrame) -> None:
    import pyarrow as pa

    model, some = free_model(view(), SQUARED, 0.95), people[:9]
    expected = model.predict(some)
    shapes = [
        pa.Table.from_pandas(some),
        some.to_dict("records"),
        some[["age", "sex"]].to_numpy(),
        {"age": some["age"], "sex": list(some["sex"])},
    ]
    for shape in shapes:
        np.testing.assert_allclose(model.predict(shape), expected, atol=1e-12)
    with pytest.raises(rt.QueryError, match="columns"):
        model.predict(some[["age"]])
    with pytest.raises(rt.QueryError, match="columns"):
        model.predict(np.zeros((3, 5)))


def test_missing_numbers_stand_in_the_middle() -> None:
    model = free_model(view(), rt.Squared(features=["bmi"], label="age", radius=5), 0.95)
    assert model.predict({"bmi": [np.nan]})[0] == pytest.approx(model.predict({"bmi": [30.0]})[0])
    assert model.predict({"bmi": [1e9]})[0] == pytest.approx(model.predict({"bmi": [50.0]})[0])


def test_a_label_that_may_be_missing_is_noted() -> None:
    whole = rt.Domain(x=2, y=rt.Numeric(edges=[0, 10, 20], other=False))
    holes = rt.Domain(x=2, y=rt.Numeric(edges=[0, 10, 20], nullable=True, other=False))
    for domain, told in ((whole, ""), (holes, "without a usable y are left out")):
        loss = rt.Squared(features=["x"], label="y")
        model = rt.Model(loss, domain, np.zeros(loss.on(domain).dimension), None, None, "hypothesis", False)
        assert told in model.note
        assert bool(model.note) == bool(told)


def test_a_classifier_works_at_the_end_of_a_pipeline(people: pd.DataFrame) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    model = free_model(view(), LOGISTIC, 0.95)
    some = people[["age", "sex"]][:20]
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert list(pipeline.predict(some)) == list(model.predict(some))
    chances = model.predict_proba(some)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert list(model.classes_[(chances[:, 1] >= 0.5).astype(int)]) == list(model.predict(some))
    assert set(model.get_params()) == {"loss", "domain", "theta"}
    with pytest.raises(rt.QueryError, match="Logistic"):
        free_model(view(), rt.Hinge(features=["age"], label="sick"), 0.95).predict_proba(some)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, rt.MeanVector(features=["age", "bmi"])], ids=repr)
def test_models_survive_json(loss: rt.Squared, people: pd.DataFrame) -> None:
    model = free_model(view(), loss, 0.95)
    again = Model.from_json(model.to_json())
    assert json.loads(again.to_json()) == json.loads(model.to_json())
    assert again.theta.tobytes() == model.theta.tobytes()
    np.testing.assert_array_equal(again.decision_function(people[:5]), model.decision_function(people[:5]))


def test_total_variation_certifies_losses_on_its_sets_only() -> None:
    covering = certificate("predicates", (("age", "sex", "sick"),), 1e-4)
    model = free_model(view((covering,)), LOGISTIC, 0.95)
    assert model.certified
    assert model.origin == "certificate"
    problem = LOGISTIC.on(DOMAIN)
    assert model.error == pytest.approx(sum(problem.swing(model.theta)) * covering.bound + model.gap)
    assert model.error < 2 * problem.scale * covering.bound
    assert not free_model(view((covering,)), SQUARED, 0.95).certified
    assert not free_model(view((certificate("predicates", (("age", "sex", "sick"),), 0.9),)), LOGISTIC, 0.95).certified


def test_cells_bound_total_variation_by_their_number() -> None:
    problem = LOGISTIC.on(DOMAIN)
    cells = certificate("cells", (("age", "sex", "sick"),), 1e-4)
    variation = implied_variation((cells,), problem, 0.95)
    assert variation == pytest.approx(cells.bound * DOMAIN.cells(("age", "sex", "sick")) / 2)


def test_each_hypothesis_is_read_in_its_own_form() -> None:
    domain = rt.Domain({"a": 40, "b": 40, "c": 40, "d": 40, "y": 2})
    codes = np.random.default_rng(0).integers(0, domain.shape, size=(3000, 5))
    support = SupportHypothesis(domain, codes)
    wide = rt.Logistic(features=["a", "b", "c", "d"], label="y")
    small = rt.Logistic(features=["a", "b"], label="y")
    assert isinstance(public_risk(support, wide.on(domain)), ListedRisk)
    assert isinstance(public_risk(support, small.on(domain)), TensorRisk)
    assert isinstance(public_risk(support, rt.Squared(features=["a", "b", "c"], label="y").on(domain)), QuadraticRisk)
    theta, gap = public_minimum(Snapshot(support), wide.on(domain))
    assert gap < 1e-9
    direct, _ = public_minimum(support, wide.on(domain))
    np.testing.assert_array_equal(theta, direct)


def test_a_session_answers_free_certifies_a_batch_once_and_resumes(tmp_path: Path, people: pd.DataFrame) -> None:
    table = rt.Table.of(people, DOMAIN)
    budget = rt.Budget(rho=0.5)
    path = tmp_path / "people.ledger"
    with Session.open(path, table, budget, warm_start=0.3) as session:
        opened = session.spent
        free = session.minimize(SQUARED)
        assert session.spent == opened
        batch = session.minimize([LOGISTIC, SQUARED], error=0.05)
        paid = session.spent - opened
        assert 0 < paid < 0.05
        assert [m.origin for m in batch] == ["batch", "batch"]
        assert all(m.certified and m.error is not None and m.error <= 0.06 for m in batch)
        again = session.minimize([LOGISTIC, SQUARED], error=0.05)
        assert session.spent == pytest.approx(opened + paid)
        assert [m.error for m in again] == [m.error for m in batch]
    with Session.open(path, table, budget, warm_start=0.3) as session:
        third = session.minimize([LOGISTIC, SQUARED], error=0.05)
        assert session.spent == pytest.approx(opened + paid)
        assert [m.theta.tobytes() for m in third] == [m.theta.tobytes() for m in batch]
        assert session.release().minimize(SQUARED).theta.shape == free.theta.shape
    truth = _excess(SQUARED, free, people)
    assert 0 <= truth < 0.001


def _excess(loss: rt.Squared, model: Model, people: pd.DataFrame) -> float:
    problem = loss.on(DOMAIN)
    codes = np.stack([DOMAIN[name].encode(people[name].to_numpy()) for name in problem.attributes], axis=1)
    risk = ListedRisk(problem, codes, np.full(len(codes), 1 / len(codes)))
    from reticent.losses.solver import minimum

    return risk.value(model.theta) - risk.value(minimum(risk)[0])


def test_a_failed_audit_buys_a_private_minimiser_and_repeats_it(
    people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rt.Table.of(people, DOMAIN)
    monkeypatch.setattr("reticent.sessions.models.late_units", lambda *_: 0)
    with Session.open(None, table, rt.Budget(rho=50), warm_start=0) as session:
        model = session.minimize(LOGISTIC, error=0.02)  # the uniform hypothesis is far off
        assert model.origin == "measured"
        assert model.certified
        assert model.error is not None
        assert model.error <= 0.02
        spent = session.spent
        assert session.minimize(LOGISTIC, error=0.02).theta.tobytes() == model.theta.tobytes()
        assert session.spent == spent
        assert session.minimize(LOGISTIC).origin == "cache", "what was paid for is the best free answer"
        taught = guessed_model(session.state.knowledge, LOGISTIC)
        assert _excess(LOGISTIC, taught, people) < 0.01  # pyright: ignore[reportArgumentType]


def test_refused_losses_spend_nothing_and_a_poor_session_says_so(people: pd.DataFrame) -> None:
    table = rt.Table.of(people, DOMAIN)
    with Session.open(None, table, rt.Budget(rho=0.01), warm_start=0) as session:
        spent = session.spent
        for bad in (rt.Squared(features=["bmi"], label="bmi"), rt.Logistic(features=["nobody"], label="sick"), "loss"):
            with pytest.raises(rt.QueryError):
                session.minimize(bad, error=0.1)
        with pytest.raises(rt.QueryError, match="cannot be met"):
            session.minimize(LOGISTIC, error=-1)
        assert session.spent == spent
        poor = session.minimize(LOGISTIC, error=1e-6)
        assert not poor.certified
        assert poor.origin == "hypothesis"


@pytest.mark.parametrize(
    ("error", "certified"), [(0.1, True), (0.0, False), (-0.1, False), (math.log(2) + 0.01, False), (7.75, False)]
)
def test_a_bound_that_zero_meets_on_any_table_is_no_certificate(error: float, certified: bool) -> None:
    domain = rt.Domain({"a": 3, "y": 2})
    loss = rt.Logistic(features=["a"], label="y")
    model = Model(loss, domain, np.zeros(2), error, 0.95, "measured", True)
    assert model.certified == certified
    assert ("uncertified" in repr(model)) != certified
    assert (model.error is None) == (model.confidence is None) != certified
    assert Model.from_json(model.to_json()).certified == certified


def test_zero_exceeds_no_minimum_by_more_than_is_said_of_it() -> None:
    domain, generator = rt.Domain({"a": 3, "b": 2, "y": 2}), np.random.default_rng(5)
    losses = [
        rt.Logistic(features=["a", "b"], label="y"),
        rt.Hinge(features=["a"], label="y"),
        rt.Huber(features=["a"], label="y"),
        rt.Squared(features=["a", "b"], label="y", radius=0.3),
        rt.Ridge(features=["a"], label="y"),
        rt.MeanVector(features=["a", "b"]),
    ]
    for loss in losses:
        problem, nearest = loss.on(domain), 0.0
        for seed in range(40):
            weights = generator.dirichlet(np.full(domain.cells(problem.attributes), 0.02 + seed % 2))
            risk = TensorRisk(problem, weights.reshape(problem.design.shape))
            zero = np.zeros(problem.dimension)
            nearest = max(nearest, risk.value(zero) - risk.value(minimum(risk)[0]))
        assert 0.5 * problem.zero_excess <= nearest <= problem.zero_excess <= problem.scale


@pytest.mark.parametrize(
    ("label", "positive", "named"),
    [
        (rt.Categorical([True, False], other=False), None, "y = False"),
        (rt.Categorical([True, False], other=False), True, "y = True"),
        (rt.Categorical(["no", "yes"], other=False), None, "y = yes"),
        (rt.Categorical(["a", "b", "c"], other=False), "b", "y = b"),
    ],
)
def test_a_classifier_names_its_positive_class(label: rt.Categorical, positive: object, named: str) -> None:
    domain = rt.Domain({"a": 3, "y": label})
    loss = rt.Logistic(features=["a"], label="y", positive=positive)
    model = Model(loss, domain, np.ones(2), None, None, "hypothesis", False)
    assert (model.positive or "").lower() == named.lower()
    for shown in (repr(model), model._repr_html_(), str(model.to_dict()["positive"])):
        assert str(model.positive) in shown
    assert Model.from_json(model.to_json()).positive == model.positive
    mean = rt.MeanVector(features=["a"])
    assert Model(mean, domain, np.zeros(1), None, None, "hypothesis", False).positive is None


def test_a_mean_at_its_default_radius_costs_what_it_costs_in_a_larger_ball() -> None:
    """Its minimiser is the mean itself, on the edge of the ball at most, where the risk has no slope."""
    domain = rt.Domain({"a": 5, "b": 4})
    prices = []
    for radius in (None, 1.5, 5.0):
        found = cheapest_within(
            rt.MeanVector(features=["a", "b"], radius=radius), domain, neighbours="replace-one", records=50_000.0,
            error=1e-3, failure=0.05, most=300.0,
        )  # fmt: skip
        assert found is not None
        prices.append(found.rho)
    assert max(prices) <= 1.05 * min(prices)


def test_a_batch_with_a_kinked_loss_is_bought_one_by_one() -> None:
    """Its minimum has no public gap, so no joint audit covers it; the batch is answered all the same."""
    asked = [
        rt.MeanVector(features=["a"], radius=1),
        rt.Quantile(features=["b"], label="c", level=0.9, radius=1),
    ]
    with rt.Session.open(None, table(weight=1000), rt.Budget(rho=2), warm_start=0) as session:
        models = session.minimize(asked, error=0.3)
    assert all(model.certified and model.error <= 0.3 for model in models)


def test_models_use_the_tightest_certificate_not_the_newest() -> None:
    loss = rt.Squared(features=["x"], label="y")
    with rt.Session.open(None, mixed(), rt.Budget(rho=1), warm_start=0.5) as session:
        session.certify("predicates", order=2, amount=0.1)
        good = session.minimize(loss).error
        session.ask(rt.marginal("z"), error=0.00005)
        session.certify("predicates", order=2, amount=1e-6)
        assert session.minimize(loss).error == good
        assert session.cost(loss, error=good * 1.01) == 0


def test_an_error_that_was_missed_is_told_with_the_bound_that_was_paid_for(
    people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit was paid, its bound known, and the model came back uncertified, without a word about the wish."""
    monkeypatch.setattr("reticent.sessions.models.late_units", lambda *_: 0)  # after a start the audit would pass
    table = rt.Table.of(people.assign(sick=np.where(people["age"] >= 50, "yes", "no")), DOMAIN)
    with Session.open(None, table, rt.Budget(rho=0.0005), warm_start=0) as session:
        for key in (None, "k"):
            poor = session.minimize(LOGISTIC, error=0.1, key=key, confidence=0.999999)
            assert poor.wanted == 0.1
            assert "at most 0.1 was wanted and not reached" in repr(poor)
            assert "at most 0.1 was wanted" in poor._repr_html_()
            assert Model.from_json(poor.to_json()).wanted == 0.1
        unpaid = session.minimize(LOGISTIC, error=1e-6)
        assert (unpaid.wanted, unpaid.price) == (1e-6, 0)
    with Session.open(None, table, rt.Budget(rho=0.0005), warm_start=0) as session:
        missed = session.minimize(LOGISTIC, error=0.1)
        assert missed.price > 0
        assert session.spent == pytest.approx(missed.price)
        assert missed.certified
        assert missed.error is not None
        assert missed.error > 0.1
        assert session.minimize(LOGISTIC, error=0.6).error == pytest.approx(missed.error)
        assert session.minimize(LOGISTIC, error=0.6).wanted is None
        assert session.minimize([LOGISTIC, SQUARED], error=1e-6)[0].error == pytest.approx(missed.error)


def test_a_wish_that_zero_meets_is_refused_before_it_is_paid(people: pd.DataFrame) -> None:
    """An excess of 5 was sold as one of 1.59, where parameters of zero have ln 5 at most."""
    with Session.open(None, rt.Table.of(people, DOMAIN), rt.Budget(rho=1), warm_start=0) as session:
        for loss in (LOGISTIC, SQUARED):
            most = loss.on(DOMAIN).zero_excess
            for call in (session.minimize, session.cost):
                with pytest.raises(rt.QueryError, match=r"parameters of zero have an excess risk of at most"):
                    call(loss, error=most)
        assert session.spent == 0
        bought = session.minimize(LOGISTIC, error=0.9 * LOGISTIC.on(DOMAIN).zero_excess)
        assert bought.certified
        assert session.minimize(LOGISTIC, error=5).error == bought.error, "what is known already is free"


@pytest.mark.parametrize(
    "change",
    [
        {"theta": "x"},
        {"theta": [1.0]},
        {"theta": [None] * 3},
        {"theta": [math.inf] * 3},
        {"theta": [10**400] * 3},
        {"error": "x"},
        {"price": []},
        {"gap": math.nan},
        {"certified": 3},
        {"origin": []},
        {"unheard": 1},
        {"loss": 3},
        {"domain": None},
        {"confidence": None, "error": 0.1, "certified": True},
        {"ledger_id": "x"},
    ],
)
def test_fields_that_are_no_models_are_refused_in_one_line(change: dict[str, object]) -> None:
    model = free_model(view(), LOGISTIC, 0.95)
    with pytest.raises(rt.ReticentError) as refused:
        Model.from_dict(model.to_dict() | change)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "null", "3", "[]", "{}", "[" * 100_000, 3, None])
def test_text_that_is_no_model_is_refused(text: object) -> None:
    with pytest.raises(rt.QueryError):
        Model.from_json(text)  # pyright: ignore[reportArgumentType]
