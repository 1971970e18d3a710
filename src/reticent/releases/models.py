"""A model is an immutable public value: the parameters that minimise one convex loss, and a bound on their
excess risk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from sys import float_info
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.domain import Categorical, Domain
from reticent.domain.attribute import Attribute, shown
from reticent.domain.values import confidence_text, shown_bound
from reticent.errors import QueryError, has_type, is_list, is_mapping, is_sequence, whole_number
from reticent.knowledge.risks import public_minimum
from reticent.losses.features import INTERCEPT, Column, Factor
from reticent.losses.losses import ConvexLoss, checked_loss, loss_from_dict
from reticent.losses.multinomial import softmax
from reticent.losses.public import Problem
from reticent.losses.risk import by_output
from reticent.queries.forms import Product

if TYPE_CHECKING:
    from reticent.hypotheses.replicates import Replicates
    from reticent.knowledge.certificates import Certificate
    from reticent.knowledge.knowledge import Knowledge
    from reticent.knowledge.population_losses import LossSample, PopulationExcess
    from reticent.releases.coefficients import Coefficients


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model: parameters, a bound on their excess risk, and their price.

    `theta` refers to scaled features; `coefficients` are on the original scale. `error` bounds the excess empirical
    risk, in the unit of the loss, with probability `confidence` if `certified`. A bound that parameters of zero meet on
    every table, or a bound of 0, says nothing, and such a model is not certified. It works where scikit-learn expects a
    fitted regressor or classifier.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
        >>> table = rt.Table.of(rows, domain)
        >>> made = rt.release(table, rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
        >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
        >>> model.positive
        'smoker = yes'
    """

    loss: ConvexLoss
    domain: Domain
    theta: np.ndarray
    error: float | None
    confidence: float | None
    origin: str
    certified: bool
    price: float = 0.0
    snapshot: str | None = None
    ledger_id: int | None = None
    gap: float = 0.0
    """How far the solver may be from the hypothesis' own minimum."""
    wanted: float | None = None
    """The requested excess risk, if it was not reached."""

    def __post_init__(self) -> None:
        theta = np.array(self.theta, dtype=np.float64)
        theta.setflags(write=False)
        object.__setattr__(self, "theta", theta)
        if self.certified and not (self.error is not None and 0 < self.error < self.problem.zero_excess):
            # As much holds for parameters of zero, unseen; and no noise can show that nothing is left to gain.
            for name, value in (("certified", False), ("error", None), ("confidence", None)):
                object.__setattr__(self, name, value)

    @cached_property
    def problem(self) -> Problem:
        return self.loss.on(self.domain)

    @property
    def names(self) -> tuple[str, ...]:
        """One name per entry of theta."""
        return self.problem.names

    @cached_property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The columns `predict` reads, in the order an array must have."""
        names = (f if isinstance(f, tuple) else (f,) for f in self.loss.features)
        return tuple(dict.fromkeys(name for group in names for name in group))

    @cached_property
    def coefficients(self) -> dict[str, float]:
        """On the original scale of features and label; products of numeric features are multiplied out.

        Of a Poisson loss they are of the logarithm of the mean; of a multinomial one each class has its own, and names
        begin with the class. Of a mean vector they are the means of its features, with missing numbers in the middle; a
        product of numbers is included if the numbers are features themselves.
        """
        if self.loss.task == "mean":
            return _feature_means(self._columns, self.theta)
        offset, scale = self.problem.design.label_units
        if self.loss.kind == "poisson":
            offset, scale = log(scale), 1.0
        elif self.loss.task != "number":
            offset, scale = 0.0, 1.0
        found: dict[str, float] = {}
        for prefix, part in zip(self._prefixes, by_output(self.problem, self.theta), strict=True):
            found[prefix + INTERCEPT] = offset
            for column, weight in zip(self._columns, part, strict=True):
                for names, value in _expanded(column, float(weight) * scale).items():
                    name = prefix + (":".join(names) if names else INTERCEPT)
                    found[name] = found.get(name, 0.0) + value
        return found

    @property
    def _prefixes(self) -> list[str]:
        return [f"{label}: " for label in self.classes_] if self.loss.task == "class" else [""]

    @property
    def note(self) -> str:
        """What to know before interpreting the coefficients; empty if there is nothing."""
        label = self.loss.label
        if self.problem.design.labelled.all():
            return ""
        return (
            f"records without a usable {label} are left out; the error is per record of the whole table: if many are"
            f" (rt.count(~rt.col({label!r}).is_known())), it is larger per record used"
        )

    @property
    def classes_(self) -> np.ndarray:
        """(negative, positive) of a classifier, or all classes of a multinomial one."""
        if self.loss.task not in ("sign", "class") or self.loss.label is None:
            raise AttributeError("a regression has no classes")
        attribute = self.domain[self.loss.label]
        if self.loss.task == "class":
            return np.array([attribute.value(int(code)) for code in self.problem.design.label_choices])
        if attribute.known == 2:
            positive = int(np.argmax(self.problem.design.label_values > 0))
            return np.array([attribute.value(1 - positive), attribute.value(positive)])
        return np.array([False, True])

    @property
    def positive(self) -> str | None:
        """The outcome that a positive margin predicts, such as `income = >50K`; None if the label is a number or
        absent.
        """
        if self.loss.label is None or self.loss.task not in ("sign", "number"):
            return None
        attribute = self.domain[self.loss.label]
        if not (self.loss.signs or isinstance(attribute, Categorical)):
            return None
        codes = np.flatnonzero(self.problem.design.label_values * self.problem.design.labelled > 0)
        named = attribute.labels[int(codes[0])] if len(codes) == 1 else self.loss.positive
        return f"{self.loss.label} = {named}"

    def features(self, rows: Any) -> np.ndarray:
        """The matrix of features: numbers scaled by the declared bounds, missing ones in the middle.

        Args:
            rows: As for `predict`.

        Returns:
            One row for each row, one column for each feature.

        Raises:
            QueryError: A column is missing.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> len(model.features({"age": [25, 60]}))
            2
        """
        columns = _columns(rows, self.feature_names_in_)
        count = max((len(values) for values in columns.values()), default=1)
        cached: dict[Factor, np.ndarray] = {}
        matrix = np.ones((count, len(self._columns)))
        for place, column in enumerate(self._columns):
            for factor in column:
                if factor not in cached:
                    cached[factor] = _factor(factor, self.domain[factor.attribute], columns[factor.attribute])
                matrix[:, place] *= cached[factor]
        return matrix

    def decision_function(self, rows: Any) -> np.ndarray:
        """The margin `<theta, features>` of each row; one column for each class of a multinomial loss.

        Args:
            rows: As for `predict`.

        Returns:
            The margins.

        Raises:
            QueryError: A column is missing.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> model.decision_function({"age": [25, 60]}).shape
            (2,)
        """
        margins = self.features(rows) @ by_output(self.problem, self.theta).T
        return margins if self.loss.task == "class" else margins[:, 0]

    def predict(self, rows: Any) -> np.ndarray:
        """Predict the label on its original scale, or the likeliest class.

        Args:
            rows: A data frame, an Arrow table or a mapping from column name to values.

        Returns:
            One prediction for each row.

        Raises:
            QueryError: A column is missing.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> len(model.predict({"age": [25, 60]}))
            2
        """
        if self.loss.task == "mean":
            raise QueryError("a mean predicts nothing; read model.theta")
        if self.loss.task == "margin":
            raise QueryError("a loss given for each label predicts a margin only; read model.decision_function(rows)")
        margin = self.decision_function(rows)
        if self.loss.task == "sign":
            return self.classes_[(margin >= 0).astype(int)]
        if self.loss.task == "class":
            return self.classes_[margin.argmax(axis=1)]
        offset, scale = self.problem.design.label_units
        return offset + scale * self.loss.predicted(margin)

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Predict the probability of each class; logistic and multinomial losses only.

        Args:
            rows: As for `predict`.

        Returns:
            One row for each row, one column for each class in the order of `classes_`.

        Raises:
            QueryError: The loss gives no probabilities.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> model.predict_proba({"age": [25, 60]}).shape
            (2, 2)
        """
        margin = self.decision_function(rows) if self.loss.kind in ("logistic", "multinomial") else None
        if margin is None:
            raise QueryError(f"{self.loss.kind} loss gives no probabilities; use rt.Logistic or rt.Multinomial")
        if self.loss.kind == "multinomial":
            return softmax(margin.T).T
        positive = 1.0 / (1.0 + np.exp(-np.clip(margin, -700, 700)))
        return np.column_stack([1.0 - positive, positive])

    def drawn_from(self, replicates: Replicates | None, sample: LossSample | None = None) -> Model:
        """Record the origin of this model, so that it can make statements about the population.

        Args:
            replicates: What might have been published instead; None where a release has none.
            sample: The number of records and the budget behind the model.

        Returns:
            The model itself.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(rho=1))
            >>> model = made.minimize(rt.MeanVector(features=["a"]))
            >>> model.drawn_from(None) is model
            True
        """
        self.__dict__["_replicates"] = replicates
        self.__dict__["_sample"] = sample
        return self

    def population(self, confidence: float = 0.95) -> Coefficients:
        """Standard errors and intervals of the coefficients in the population of the table's records.

        They are estimated by fitting the model to each replicate of a release. Coefficients are not certified. The
        estimates apply to simple random samples, and to features that were in the workload (docs/guide/population.md).

        Args:
            confidence: Of each interval by itself.

        Returns:
            One row for each coefficient, on the original scale.

        Raises:
            QueryError: The model is not of a release with replicates.

        Example:
            >>> import pyarrow as pa, reticent as rt
            >>> people = pa.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> smoker = rt.Categorical(["no", "yes"], other=False)
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 25)), smoker=smoker)
            >>> table, budget = rt.Table.of(people, domain), rt.Budget(epsilon=1, delta=1e-9)
            >>> release = rt.release(table, rt.marginals(domain, 2), budget).replicates(10)
            >>> model = release.minimize(rt.Squared(features=["smoker"], label="age"))
            >>> model.population().names
            ('(intercept)', 'smoker=yes')
        """
        from reticent.releases.coefficients import coefficient_intervals

        return coefficient_intervals(self, self.__dict__.get("_replicates"), confidence)

    @property
    def knows_table(self) -> bool:
        """Whether the model knows how many records it was fitted to."""
        return self.__dict__.get("_sample") is not None

    def population_excess(self, confidence: float = 0.9, *, records: int | None = None) -> PopulationExcess:
        """Bound the excess risk on the population from which the table's records were drawn, with a probability.

        There is one bound for a loss that was chosen beforehand and one for a loss chosen after earlier answers; the
        second says something only if the budget is small enough (docs/proofs/population.md).

        Args:
            confidence: Of the statement: below that of the model's own bound, which leaves the rest to the drawing of
                the records.
            records: For a model of a server: how many records its table has.

        Returns:
            Both bounds, each None where parameters of zero do as well on any population.

        Raises:
            QueryError: The model is not certified, holds with a lower confidence, or does not know how many records
                its table has.

        Example:
            >>> import pyarrow as pa, reticent as rt
            >>> people = pa.table({"age": [23, 41, 67] * 20000, "smoker": ["yes", "no", "no"] * 20000})
            >>> smoker = rt.Categorical(["no", "yes"], other=False)
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 25)), smoker=smoker)
            >>> loss = rt.Logistic(features=["age"], label="smoker", radius=1)
            >>> with rt.Session.open(None, rt.Table.of(people, domain), rt.Budget(rho=1)) as session:
            ...     model = session.minimize(loss, error=0.02)
            >>> model.error < model.population_excess().error < 0.1
            True
        """
        from reticent.knowledge.population_losses import LossSample, population_excess

        sample: LossSample | None = self.__dict__.get("_sample")
        if sample is None and records is not None:
            sample = LossSample(whole_number(records, "records", 1))
        if not self.certified or self.error is None or self.confidence is None:
            raise QueryError("nothing certifies this model on its table: fit it with error= in a session first")
        if sample is None:
            raise QueryError("this model does not know its table: state records=, how many it has")
        return population_excess(self.problem, self.error, self.confidence, sample, confidence)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the replicates, which may be large, and without the session; they are not part of a
        model.
        """
        return {name: value for name, value in self.__dict__.items() if name not in ("_replicates", "_sample")}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, under the name by which scikit-learn asks for them; the model is already fitted.

        Args:
            deep: Ignored.

        Returns:
            Loss, domain and theta.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(rho=1))
            >>> model = made.minimize(rt.MeanVector(features=["a"]))
            >>> sorted(model.get_params())
            ['domain', 'loss', 'theta']
        """
        return {"loss": self.loss, "domain": self.domain, "theta": self.theta}

    def fit(self, rows: Any, labels: Any = None) -> Model:
        """Refused: a model is fitted under privacy by `Session.minimize`.

        Args:
            rows: Ignored.
            labels: Ignored.

        Returns:
            Never.

        Raises:
            QueryError: Always.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(rho=1))
            >>> model = made.minimize(rt.MeanVector(features=["a"]))
            >>> model.fit([[1]])
            Traceback (most recent call last):
            reticent.errors.QueryError: a model is fitted under privacy by session.minimize(loss); ...
        """
        raise QueryError("a model is fitted under privacy by session.minimize(loss); ask for a new one instead")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

        kind = "classifier" if self.loss.task in ("sign", "class") else "regressor"
        return Tags(estimator_type=kind, target_tags=TargetTags(required=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the public description of the attributes that the model needs.

        Returns:
            The fields; `from_dict` is the inverse.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> rt.Model.from_dict(model.to_dict()).loss == model.loss
            True
        """
        own = {name: self.domain[name] for name in self.problem.attributes}
        return {
            "loss": self.loss.to_dict(),
            "domain": Domain(own).to_dict(),
            "theta": self.theta.tolist(),
            "names": list(self.names),
            "coefficients": self.coefficients,
            "positive": self.positive,
            "error": self.error,
            "confidence": self.confidence,
            "origin": self.origin,
            "certified": self.certified,
            "price": self.price,
            "snapshot": self.snapshot,
            "ledger_id": self.ledger_id,
            "gap": self.gap,
            "wanted": self.wanted,
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text.

        Returns:
            The text; `from_json` is the inverse.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> rt.Model.from_json(model.to_json()).loss == model.loss
            True
        """
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Model:
        """Restore a model from the fields that `to_dict` returned.

        Args:
            fields: The fields.

        Returns:
            The model.

        Raises:
            QueryError: The fields are no model's.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> rt.Model.from_dict(model.to_dict()).positive
            'smoker = yes'
        """
        plain = _plain_fields(fields)
        loss, domain = loss_from_dict(plain.pop("loss")), Domain.from_dict(plain.pop("domain"))
        size = len(loss.on(domain).names)
        if len(plain["theta"]) != size:
            raise QueryError(f"not a saved model: theta has {len(plain['theta'])} numbers, its loss has {size}")
        return cls(loss, domain, **plain)

    @classmethod
    def from_json(cls, text: str) -> Model:
        """Restore a model from the text that `to_json` returned.

        Args:
            text: The text.

        Returns:
            The model.

        Raises:
            QueryError: The text is no model's.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> rt.Model.from_json(model.to_json()).positive
            'smoker = yes'
        """
        try:
            fields = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            raise QueryError("not a saved model: a model is saved as JSON text, which this is not") from None
        return cls.from_dict(fields)

    def _repr_html_(self) -> str:
        from reticent.report import model_summary

        return model_summary(self)

    def __repr__(self) -> str:
        error, sure, kept = self.error, self.confidence, "uncertified"
        if self.certified and error is not None and sure is not None:
            kept = f"excess at most {shown_bound(error)} at {confidence_text(sure)}"
        of = "" if self.positive is None else f", of {self.positive}"
        missed = "" if self.wanted is None else f"; at most {self.wanted:g} was wanted and not reached"
        return f"Model({self.loss!r}{of}, {kept}, {self.origin}, price {self.price:.3g}{missed})"

    @property
    def _columns(self) -> list[Column]:
        return [column for block in self.problem.design.blocks for column in block.columns]


def free_model(knowledge: Knowledge, loss: ConvexLoss, confidence: float) -> Model:
    """The best of the paid models and of those that certificates bound; otherwise the working hypothesis' own
    minimiser.
    """
    problem = checked_loss(loss).on(knowledge.domain)
    if loss.digest not in knowledge.models:
        loss.refuse_unnamed_class(knowledge.domain)
    paid = knowledge.model(loss, confidence)
    found = [
        (implied_variation(c.certificates, problem, confidence), c.snapshot) for c in reversed(knowledge.certified)
    ]
    variation, snapshot = min(found, key=lambda way: way[0], default=(inf, None))
    if snapshot is not None and variation < 1:
        theta, gap = public_minimum(snapshot, problem)
        error = implied_error(variation, problem, theta, gap)
        if error < problem.zero_excess and (paid is None or error <= paid[0]):
            return Model(
                loss, knowledge.domain, theta, error, confidence, "certificate", True, snapshot=snapshot.digest, gap=gap
            )
    if paid is None:
        return guessed_model(knowledge, loss)
    error, model = paid
    return Model(
        loss, knowledge.domain, model.theta, error, confidence, "cache", True, snapshot=model.snapshot, gap=model.gap
    )


def guessed_model(knowledge: Knowledge, loss: ConvexLoss) -> Model:
    """The working hypothesis' own minimiser, without a certificate."""
    current = knowledge.current
    theta, gap = public_minimum(current, loss.on(knowledge.domain))
    return Model(loss, knowledge.domain, theta, None, None, "hypothesis", False, snapshot=current.digest, gap=gap)


def implied_variation(certificates: Sequence[Certificate], problem: Problem, confidence: float) -> float:
    """A bound on the total variation between data and snapshot on the loss' attributes; infinite if nothing covers
    them.

    It comes from an audit of predicates, or is half the number of cells times an audited cell error.
    """
    domain = problem.design.domain
    spike = Product(problem.attributes, tuple(np.eye(domain[name].size)[0] for name in problem.attributes))
    found: list[float] = []
    for certificate in certificates:
        bound = certificate.error_of(spike, confidence)
        found.append(bound if certificate.kind == "predicates" else bound * domain.cells(problem.attributes) / 2)
    return min(found, default=inf)


def implied_error(variation: float, problem: Problem, theta: np.ndarray, gap: float) -> float:
    """Excess risk <= swing TV + gap. The swing of the parameters takes the place of twice the loss' range in spec
    online.md 1 (docs/proofs/excess-risk.md).
    """
    return min(2 * problem.scale, sum(problem.swing(theta))) * variation + gap


def _feature_means(columns: Sequence[Column], means: np.ndarray) -> dict[str, float]:
    """Means on the original scale, from those of the scaled columns and of the terms that these contain beside them."""
    found: dict[tuple[str, ...], float] = {(): 1.0}
    for column, mean in sorted(zip(columns, means.tolist(), strict=True), key=lambda pair: len(pair[0])):
        terms = {names: weight for names, weight in _expanded(column, 1.0).items() if weight}
        names = tuple(factor.name for factor in column)
        slope = terms.pop(names)
        if terms.keys() <= found.keys():
            found[names] = (mean - sum(weight * found[part] for part, weight in terms.items())) / slope
    listed = (tuple(factor.name for factor in column) for column in columns)
    return {":".join(names): found[names] for names in listed if names in found}


def _expanded(column: Column, weight: float) -> dict[tuple[str, ...], float]:
    """A product of `offset + slope * number` and indicators, multiplied out into named terms."""
    terms: dict[tuple[str, ...], float] = {(): weight}
    for factor in column:
        grown: dict[tuple[str, ...], float] = {}
        for names, value in terms.items():
            if factor.code is None:
                grown[names] = grown.get(names, 0.0) + value * factor.offset
                grown[(*names, factor.name)] = value * factor.slope
            else:
                grown[(*names, factor.name)] = value
        terms = grown
    return terms


def _factor(factor: Factor, attribute: Attribute, values: Any) -> np.ndarray:
    if factor.code is not None:
        return (attribute.encode(values) == factor.code).astype(np.float64)
    numbers = _numbers(attribute, values)
    scaled = np.clip(factor.offset + factor.slope * numbers, -1.0, 1.0)
    return np.where(np.isnan(scaled), 0.0, scaled)


def _numbers(attribute: Attribute, values: Any) -> np.ndarray:
    """Raw numbers as they are; dates and anything else through the attribute's codes."""
    if getattr(attribute, "kind", "number") == "number":
        try:
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        except (TypeError, ValueError, RecursionError):
            pass
    representatives = attribute.representatives
    assert representatives is not None, "a numeric factor comes from an attribute with numbers"
    return representatives[attribute.encode(values)]


def _columns(rows: Any, names: Sequence[str]) -> dict[str, Any]:
    """Columns by name from a data frame, an Arrow table, a mapping, a list of mappings, or an array in order."""
    if has_type(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise QueryError(f"rows of shape {rows.shape} need {len(names)} columns: {', '.join(names)}")
        return {name: rows[:, place] for place, name in enumerate(names)}
    if is_sequence(rows):
        if not all(map(is_mapping, rows)):
            raise QueryError(f"rows need the columns {', '.join(names)}")
        lacking = next((name for row in rows for name in names if name not in row), None)
        if lacking is not None:
            raise QueryError(f"a row has no {lacking}; each needs {', '.join(names)}, None where unknown")
        return {name: [row[name] for row in rows] for name in names}
    try:
        found = {name: _plain(rows[name]) for name in names}
    except (KeyError, TypeError, IndexError, ValueError):
        raise QueryError(f"rows need the columns {', '.join(names)}") from None
    if len({column.shape for column in found.values()}) > 1 or any(column.ndim != 1 for column in found.values()):
        raise QueryError(f"rows need the columns {', '.join(names)}, all of one length")
    return found


def _plain(column: Any) -> Any:
    to_list = getattr(column, "to_pylist", None)
    return np.asarray(column) if to_list is None else np.asarray(to_list())


def _plain_fields(fields: Any) -> dict[str, Any]:
    """The fields that a saved model must have, each of its type; fields that follow from the others are left out."""
    if not is_mapping(fields):
        raise QueryError(f"not a saved model: an object of fields is wanted, not {type(fields).__name__}")
    plain = {key: value for key, value in fields.items() if key not in ("names", "coefficients", "positive")}
    unknown = [key for key in plain if key not in _CHECKS]
    if unknown:
        raise QueryError(f"not a saved model: it has no field {shown(unknown[0])}")
    for name, check in _CHECKS.items():
        if name not in plain and name in _REQUIRED:
            raise QueryError(f"not a saved model: {name} is missing")
        if name in plain and not check(plain[name]):
            raise QueryError(f"not a saved model: its {name} is not one")
    if plain["certified"] and None in (plain["error"], plain["confidence"]):
        raise QueryError("not a saved model: a certified one states its error and its confidence")
    return plain


_REQUIRED = ("loss", "domain", "theta", "error", "confidence", "origin", "certified")


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= float_info.max


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "loss": lambda value: isinstance(value, Mapping),
    "domain": lambda value: isinstance(value, Mapping),
    "theta": lambda value: is_list(value) and all(map(_finite, value)),
    "error": lambda value: value is None or (_finite(value) and value >= 0),
    "confidence": lambda value: value is None or (_finite(value) and 0 < value < 1),
    "origin": lambda value: isinstance(value, str),
    "certified": lambda value: isinstance(value, bool),
    "price": lambda value: _finite(value) and value >= 0,
    "snapshot": lambda value: value is None or isinstance(value, str),
    "ledger_id": lambda value: value is None or (isinstance(value, int) and not isinstance(value, bool)),
    "wanted": lambda value: value is None or (_finite(value) and value >= 0),
    "gap": lambda value: _finite(value) and value >= 0,
}
