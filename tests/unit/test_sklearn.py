"""Estimators around a session behave as scikit-learn expects, but for what privacy forbids."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import reticent as rt

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

NEVER_COPIED = "a session is an account of private rows: it is neither copied nor pickled"
LEARNS_ELSEWHERE = "the model is of the session's table, whatever rows are given to fit"
EXPECTED = {
    "check_estimators_overwrite_params": NEVER_COPIED,
    "check_estimators_pickle": NEVER_COPIED,
    "check_set_params": NEVER_COPIED,
    "check_classifiers_train": LEARNS_ELSEWHERE,
    "check_classifiers_classes": LEARNS_ELSEWHERE,
    "check_regressors_train": LEARNS_ELSEWHERE,
}
"""All other checks of scikit-learn pass on a table that has the check's number of columns."""
WIDTHS = (1, 2, 3, 4, 5, 10)
DOMAIN = rt.Domain(
    age=rt.Numeric(lower=20, upper=80, bins=12, whole=True, other=False),
    job=rt.Categorical(["cook", "clerk", "smith"], other=False),
    sick=rt.Categorical(["no", "yes"], other=False),
)


def people(count: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    age = generator.integers(20, 80, count)
    job = generator.choice(["cook", "clerk", "smith"], count)
    chance = 1 / (1 + np.exp(-(age - 50) / 8 - (job == "smith")))
    return pd.DataFrame({"age": age, "job": job, "sick": np.where(generator.random(count) < chance, "yes", "no")})


@pytest.fixture(scope="module")
def session() -> rt.Session:
    return rt.Session.open(None, rt.Table.of(people(20_000, 1), DOMAIN), rt.Budget(rho=1))


def numbers(width: int) -> tuple[rt.Session, list[str]]:
    generator = np.random.default_rng(width)
    columns = {f"x{place}": generator.normal(size=2000).clip(-4, 4) for place in range(width)}
    labels = {"y": (columns["x0"] + generator.normal(size=2000) > 0).astype(int)}
    kinds = {name: rt.Numeric(lower=-4, upper=4, bins=4) for name in columns}
    table = rt.Table.of(pd.DataFrame(columns | labels), rt.Domain({**kinds, "y": rt.Integer(2)}))
    return rt.Session.open(None, table, rt.Budget(rho=1), warm_start=0), list(columns)


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_scikit_learns_own_checks_pass_but_for_those_listed(kind: str) -> None:
    passed, failed = set(), set()
    for width in WIDTHS:
        private, names = numbers(width)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = getattr(rt.sklearn, kind)(private, names, "y")
            for found in check_estimator(estimator, on_fail=None, on_skip=None):
                if found["status"] != "skipped":
                    (passed if found["status"] == "passed" else failed).add(found["check_name"])
    assert failed - passed <= set(EXPECTED)
    assert len(passed) > 35


def test_a_classifier_learns_from_the_session_and_scores_on_other_rows(session: rt.Session) -> None:
    held = people(2000, 2)
    rows, labels = held[["age", "job"]], held["sick"]
    classifier = rt.sklearn.Classifier(session, ["age", "job"], "sick", radius=4)
    assert clone(classifier).get_params() == classifier.get_params()
    assert clone(classifier).session is session
    spent = session.spent
    scores = cross_val_score(classifier, rows, labels, cv=3)
    assert scores.min() > 0.75
    assert session.spent == spent
    fitted = classifier.fit()
    assert list(fitted.classes_) == ["no", "yes"]
    named = dict(zip(fitted.coef_names_, fitted.coef_[0], strict=True))
    assert named["age"] > 0
    assert set(named) == {"age", "job=clerk", "job=smith"}
    by_hand = fitted.intercept_[0] + named["age"] * 60
    np.testing.assert_allclose(fitted.decision_function(pd.DataFrame({"age": [60], "job": ["cook"]})), by_hand)
    np.testing.assert_allclose(fitted.predict_proba(rows).sum(axis=1), 1)
    assert make_pipeline(FunctionTransformer(), classifier).fit(rows, labels).score(rows, labels) > 0.75


def test_a_search_over_radii_uses_synthetic_rows(session: rt.Session) -> None:
    synthetic = session.release().synthesize(2000, seed=1).to_pandas()
    # By accuracy they may tie: a short vector of parameters may part the ages at the same place.
    classifier = rt.sklearn.Classifier(session, ["age"], "sick")
    search = GridSearchCV(classifier, {"radius": [0.1, 4.0]}, cv=2, scoring="neg_log_loss")
    search.fit(synthetic[["age"]], synthetic["sick"])
    assert search.best_params_ == {"radius": 4.0}


def test_a_wanted_error_is_paid_once_and_the_model_says_what_is_certified(session: rt.Session) -> None:
    regressor = rt.sklearn.Regressor(session, ["job"], "age", loss="quantile", level=0.5, radius=1, error=0.1)
    model = regressor.fit().model_
    assert model.certified
    spent = session.spent
    assert regressor.fit().model_.theta.tobytes() == model.theta.tobytes()
    assert session.spent == spent
    assert regressor.coef_.shape == (2,)
    assert 20 < regressor.predict(pd.DataFrame({"job": ["cook"]}))[0] < 80


BAD: dict[str, Any] = {
    "loss='cubic'": {"loss": "cubic"},
    "features=": {"features": "age"},
    "unknown": {"features": ["height"]},
}


@pytest.mark.parametrize(("words", "change"), list(BAD.items()), ids=list(BAD))
def test_what_does_not_fit_is_refused_in_one_line(words: str, change: dict[str, Any], session: rt.Session) -> None:
    estimator = rt.sklearn.Classifier(session, ["age"], "sick").set_params(**change)
    with pytest.raises(rt.ReticentError, match=words if words != "unknown" else "height") as caught:
        estimator.fit()
    assert "\n" not in str(caught.value)


def test_rows_without_a_label_are_left_out_of_a_score(session: rt.Session) -> None:
    import polars as pl

    regressor = rt.sklearn.Regressor(session, ["job", "sick"], "age").fit()
    rows = people(400, 3)
    full, blank = rows["age"].astype(float), rows["age"].astype(float)
    blank[::4] = np.nan
    kept = blank.notna()
    wanted = regressor.score(rows.loc[kept, ["job", "sick"]], full[kept])
    assert regressor.score(rows[["job", "sick"]], blank) == pytest.approx(wanted)
    assert regressor.score(pl.from_pandas(rows[["job", "sick"]]), blank) == pytest.approx(wanted)
    assert regressor.score(rows[["job", "sick"]], blank, np.ones(400)) == pytest.approx(wanted)
    assert np.isfinite(cross_val_score(regressor, rows[["job", "sick"]], blank, cv=3)).all()
    with pytest.raises(ValueError, match="NaN"):
        regressor.score(rows[["job", "sick"]], blank * np.nan)
