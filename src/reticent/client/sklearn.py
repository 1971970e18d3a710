"""Private models as scikit-learn estimators, for pipelines, searches and scores.

`fit` asks a session, a connection or a release for the model; what it learns from is the private table behind it. Rows
given to `fit` are checked for their columns and otherwise left alone, so that nothing private need be at hand:
synthetic or held-out rows serve to score. scikit-learn is imported here and nowhere else in the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from reticent.errors import QueryError
from reticent.losses.losses import LOSSES, loss_from_dict
from reticent.releases.models import Model

try:
    from sklearn.base import (  # pyright: ignore[reportMissingImports]
        BaseEstimator,
        ClassifierMixin,
        RegressorMixin,
    )
    from sklearn.utils.multiclass import check_classification_targets  # pyright: ignore[reportMissingImports]
    from sklearn.utils.validation import (  # pyright: ignore[reportMissingImports]
        check_array,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError:
    raise ImportError("rt.sklearn needs scikit-learn 1.6 or later: pip install scikit-learn") from None

if TYPE_CHECKING:
    from reticent.losses.base import ConvexLoss
    from reticent.losses.features import Feature

__all__ = ["Classifier", "Regressor"]

CLASSIFIERS = ("logistic", "hinge", "multinomial")
REGRESSORS = ("squared", "huber", "quantile", "poisson")


class Fits(Protocol):
    """A session, a connection to a server, or a release."""

    def minimize(self, loss: Any) -> Any: ...


class _Estimator(BaseEstimator):
    """What both kinds share: the loss that the parameters describe, and the model it is answered by."""

    session: Fits
    features: Sequence[Feature]
    label: str
    loss: str
    error: float | None
    confidence: float | None
    key: str | None

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Ask for the model.

        Args:
            X: Rows, or None. They are not learned from; their columns must be the features.
            y: Labels, or None. They are not learned from.

        Returns:
            The estimator, with `model_`, `coef_`, `intercept_`, `coef_names_`, `feature_names_in_`, and `classes_` of a
            classifier.

        Raises:
            QueryError: The loss does not fit the table, or cannot be certified by a strict session.
            BudgetError: A strict session cannot pay.
            ValueError: The rows have other columns than the features.
        """
        loss = self._described()
        names = list(dict.fromkeys(name for f in self.features for name in (f if isinstance(f, tuple) else (f,))))
        if X is not None:
            self._check_rows(X, y, names)
        options = {"error": self.error, "confidence": self.confidence, "key": self.key}
        given = {name: value for name, value in options.items() if value is not None}
        self.model_: Model = self.session.minimize(loss, **given)
        self.n_features_in_ = len(names)
        self._set_names(X, names)
        self._set_coefficients()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The label on its original scale, or the likeliest class, of each row."""
        rows = self._rows(X)
        return self.model_.predict(rows)

    def __sklearn_clone__(self) -> Self:
        """The session is one account and is never copied."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # missing numbers are known to the domain
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.target_tags.required = False  # the labels are in the session's table
        return tags

    # -- inside ----------------------------------------------------------------------------------------------

    def _described(self) -> ConvexLoss:
        kinds: tuple[str, ...] = self._kinds
        if self.loss not in kinds:
            raise QueryError(f"loss={self.loss!r} is unknown to {type(self).__name__}; use {', '.join(kinds)}")
        if not isinstance(self.features, Sequence) or isinstance(self.features, str) or not self.features:
            raise QueryError("features= is a list of column names, for example ['age', 'sex']")
        chosen = {name: getattr(self, name) for name in self._options if getattr(self, name) is not None}
        described: Mapping[str, Any] = {"loss": self.loss, "features": list(self.features), "label": self.label}
        assert self.loss in LOSSES, "the lists above name losses"
        return loss_from_dict({**described, **chosen})

    _kinds: tuple[str, ...] = ()
    _options: tuple[str, ...] = ("radius", "ridge", "categories", "positive")

    def _check_rows(self, X: Any, y: Any, names: list[str]) -> None:
        checked = _table(self, X, least=1 if y is None else 2)
        if checked.shape[1] != len(names):
            raise ValueError(
                f"X has {checked.shape[1]} features, n_features = {len(names)} are expected: {', '.join(names)}"
            )
        if y is not None:
            labels = column_or_1d(y, warn=True)
            check_consistent_length(checked, labels)
            self._check_labels(labels)

    def _check_labels(self, labels: np.ndarray) -> None:
        """Any will do."""

    def _set_names(self, X: Any, names: list[str]) -> None:
        """Names only where the rows have them, as everywhere in scikit-learn; the model knows its own."""
        if X is None or _named(X):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _set_coefficients(self) -> None:
        """On the original scale; a category has one entry for each value but the first."""
        model = self.model_
        several = model.loss.task == "class"
        prefixes = [f"{label}: " for label in model.classes_] if several else [""]
        rows = []
        for prefix in prefixes:
            found = {k.removeprefix(prefix): v for k, v in model.coefficients.items() if k.startswith(prefix)}
            rows.append(found)
        self.coef_names_ = np.array([name for name in rows[0] if name != "(intercept)"], dtype=object)
        coefficients = np.array([[row.get(name, 0.0) for name in self.coef_names_] for row in rows])
        intercepts = np.array([row["(intercept)"] for row in rows])
        single = model.loss.task == "number"
        self.coef_ = coefficients[0] if single else coefficients
        self.intercept_ = float(intercepts[0]) if single else intercepts

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        checked = _table(self, X, least=1)
        if not _named(X) or hasattr(self, "feature_names_in_"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return checked


def _named(X: Any) -> bool:
    """A data frame whose columns have names: it is read by name."""
    return hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns)


def _table(estimator: _Estimator, X: Any, *, least: int) -> Any:
    """What is no table of numbers or text is refused as scikit-learn refuses it; data frames speak for themselves."""
    if _named(X):
        return X
    as_given: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}
    return check_array(X, ensure_min_samples=least, estimator=estimator, **as_given)


def _chosen(X: Any, known: np.ndarray) -> Any:
    """Some rows of a data frame or an array."""
    if hasattr(X, "iloc"):
        return X.iloc[np.flatnonzero(known)]
    return X.filter(known.tolist()) if _named(X) else np.asarray(X)[known]


class Classifier(ClassifierMixin, _Estimator):
    """A classifier whose parameters are fitted under the privacy of a session.

    Args:
        session: A session, a connection from `rt.connect`, or a release.
        features: Column names; a tuple of names is an interaction.
        label: The column to predict.
        loss: "logistic", "hinge" or "multinomial".
        radius: Parameters lie in a ball of this radius.
        ridge: Adds `ridge/2 |theta|^2`.
        categories: Numeric features that get one column for each value.
        positive: The value to predict, where the label has more than two or their order would mislead.
        error: The largest excess risk wanted; may cost. By default the free model.
        confidence: The probability with which the error holds.
        key: Names what is paid for: the same key is charged once.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = {"age": [23, 41, 67, 70] * 500, "smoker": ["yes", "yes", "no", "no"] * 500}
        >>> smoker = rt.Categorical(["no", "yes"], other=False)
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=smoker)
        >>> session = rt.Session.open(None, rt.Table.of(pyarrow.table(rows), domain), rt.Budget(rho=1))
        >>> classifier = rt.sklearn.Classifier(session, features=["age"], label="smoker").fit()
        >>> import pandas
        >>> [str(value) for value in classifier.predict(pandas.DataFrame({"age": [20, 80]}))]
        ['yes', 'no']
    """

    _kinds = CLASSIFIERS

    def __init__(
        self,
        session: Fits,
        features: Sequence[Feature] = (),
        label: str = "",
        *,
        loss: str = "logistic",
        radius: float = 2.0,
        ridge: float = 0.0,
        categories: Sequence[str] = (),
        positive: Any = None,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
    ) -> None:
        self.session = session
        self.features = features
        self.label = label
        self.loss = loss
        self.radius = radius
        self.ridge = ridge
        self.categories = categories
        self.positive = positive
        self.error = error
        self.confidence = confidence
        self.key = key

    def _check_labels(self, labels: np.ndarray) -> None:
        check_classification_targets(labels)

    @property
    def classes_(self) -> np.ndarray:
        """(negative, positive), or all classes of a multinomial loss."""
        check_is_fitted(self)
        return self.model_.classes_

    def decision_function(self, X: Any) -> np.ndarray:
        """The margin of each row; one column for each class of a multinomial loss."""
        rows = self._rows(X)
        return self.model_.decision_function(rows)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Chances of the classes in the order of `classes_`; logistic and multinomial losses only."""
        rows = self._rows(X)
        return self.model_.predict_proba(rows)


class Regressor(RegressorMixin, _Estimator):
    """A regression whose parameters are fitted under the privacy of a session.

    Args:
        session: A session, a connection from `rt.connect`, or a release.
        features: Column names; a tuple of names is an interaction.
        label: The column to predict.
        loss: "squared", "huber", "quantile" or "poisson".
        radius: Parameters lie in a ball of this radius.
        ridge: Adds `ridge/2 |theta|^2`.
        categories: Numeric features that get one column for each value.
        level: Of quantile loss: which quantile.
        error: The largest excess risk wanted; may cost. By default the free model.
        confidence: The probability with which the error holds.
        key: Names what is paid for: the same key is charged once.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = {"age": [23, 41, 67, 85] * 500, "visits": [1, 3, 6, 8] * 500}
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), visits=rt.Integer(10))
        >>> session = rt.Session.open(None, rt.Table.of(pyarrow.table(rows), domain), rt.Budget(rho=1))
        >>> regressor = rt.sklearn.Regressor(session, features=["age"], label="visits").fit()
        >>> bool(regressor.coef_[0] > 0.05)
        True
    """

    _kinds = REGRESSORS
    _options = ("radius", "ridge", "categories", "level")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination on rows that have a label: those without are left out, as of the model.

        Synthetic rows have none where the table's `(null)` or `(other)` stands for it.
        """
        labels = column_or_1d(y)
        known = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(len(labels), dtype=bool)
        if known.all() or not known.any():
            return super().score(X, y, sample_weight)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return super().score(_chosen(X, known), labels[known], weights)

    def __init__(
        self,
        session: Fits,
        features: Sequence[Feature] = (),
        label: str = "",
        *,
        loss: str = "squared",
        radius: float = 2.0,
        ridge: float = 0.0,
        categories: Sequence[str] = (),
        level: float | None = None,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
    ) -> None:
        self.session = session
        self.features = features
        self.label = label
        self.loss = loss
        self.radius = radius
        self.ridge = ridge
        self.categories = categories
        self.level = level
        self.error = error
        self.confidence = confidence
        self.key = key
