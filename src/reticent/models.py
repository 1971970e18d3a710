"""A model is a frozen public value: the parameters that answer one convex loss, and how good they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.algorithms.risks import public_minimum
from reticent.domain import Domain
from reticent.domain.attribute import Attribute
from reticent.errors import QueryError
from reticent.queries.convex import ConvexLoss, checked_loss, loss_from_dict
from reticent.queries.features import Column, Factor
from reticent.queries.forms import Product
from reticent.queries.problem import Problem

if TYPE_CHECKING:
    from reticent.view import View


@dataclass(frozen=True, eq=False)
class Model:
    """`theta` lives on scaled features; `coefficients` are on the original scale.

    `error` bounds the excess empirical risk, in the unit of the loss, with probability `confidence` when `certified`.
    Works where scikit-learn expects a fitted regressor or classifier.
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

    def __post_init__(self) -> None:
        theta = np.array(self.theta, dtype=np.float64)
        theta.setflags(write=False)
        object.__setattr__(self, "theta", theta)

    @cached_property
    def problem(self) -> Problem:
        return self.loss.on(self.domain)

    @property
    def names(self) -> tuple[str, ...]:
        """One name per entry of theta."""
        return self.problem.design.names

    @cached_property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The columns `predict` reads, in the order an array must have."""
        names = (f if isinstance(f, tuple) else (f,) for f in self.loss.features)
        return tuple(dict.fromkeys(name for group in names for name in group))

    @cached_property
    def coefficients(self) -> dict[str, float]:
        """On the original scale of features and label; products of numeric features are multiplied out."""
        offset, scale = self.problem.design.label_units
        if self.loss.signs or self.loss.label is None:
            offset, scale = 0.0, 1.0
        found: dict[str, float] = {"(intercept)": offset}
        for column, weight in zip(self._columns, self.theta, strict=True):
            for name, value in _expanded(column, float(weight) * scale).items():
                found[name] = found.get(name, 0.0) + value
        return found

    @property
    def note(self) -> str:
        """What to know before reading the coefficients; empty where nothing can go wrong."""
        label = self.loss.label
        if self.problem.design.labelled.all():
            return ""
        return (
            f"records without a usable {label} are left out; the error is per record of the whole table: if many are"
            f" (rt.count(~rt.col({label!r}).is_known())), it is larger per record used"
        )

    @property
    def classes_(self) -> np.ndarray:
        """(negative, positive) of a classifier."""
        if not self.loss.signs or self.loss.label is None:
            raise AttributeError("a regression has no classes")
        attribute = self.domain[self.loss.label]
        if attribute.known == 2:
            positive = int(np.argmax(self.problem.design.label_values > 0))
            return np.array([attribute.value(1 - positive), attribute.value(positive)])
        return np.array([False, True])

    def features(self, rows: Any) -> np.ndarray:
        """One column per entry of theta: numbers scaled by the declared bounds, missing ones in the middle."""
        columns = _columns(rows, self.feature_names_in_)
        count = max((len(values) for values in columns.values()), default=1)
        cached: dict[Factor, np.ndarray] = {}
        matrix = np.ones((count, len(self.theta)))
        for place, column in enumerate(self._columns):
            for factor in column:
                if factor not in cached:
                    cached[factor] = _factor(factor, self.domain[factor.attribute], columns[factor.attribute])
                matrix[:, place] *= cached[factor]
        return matrix

    def decision_function(self, rows: Any) -> np.ndarray:
        """<theta, features> per row."""
        return self.features(rows) @ self.theta

    def predict(self, rows: Any) -> np.ndarray:
        """The label on its original scale, or the likelier class."""
        if self.loss.label is None:
            raise QueryError("a mean predicts nothing; read model.theta")
        margin = self.decision_function(rows)
        if self.loss.signs:
            return self.classes_[(margin >= 0).astype(int)]
        offset, scale = self.problem.design.label_units
        return offset + scale * margin

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Chances of (negative, positive), logistic loss only."""
        if self.loss.kind != "logistic":
            raise QueryError(f"{self.loss.kind} loss gives no probabilities; use rt.Logistic")
        positive = 1.0 / (1.0 + np.exp(-np.clip(self.decision_function(rows), -700, 700)))
        return np.column_stack([1.0 - positive, positive])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """As scikit-learn asks for; the model is already fitted."""
        return {"loss": self.loss, "domain": self.domain, "theta": self.theta}

    def fit(self, rows: Any, labels: Any = None) -> Model:
        """Refused: rows reach a model through a session only."""
        raise QueryError("a model is fitted under privacy by session.minimize(loss); ask for a new one instead")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags  # pyright: ignore[reportMissingImports]

        kind = "classifier" if self.loss.signs else "regressor"
        return Tags(estimator_type=kind, target_tags=TargetTags(required=True))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the public description of the attributes it needs."""
        own = {name: self.domain[name] for name in self.problem.attributes}
        return {
            "loss": self.loss.to_dict(),
            "domain": Domain(own).to_dict(),
            "theta": self.theta.tolist(),
            "names": list(self.names),
            "coefficients": self.coefficients,
            "error": self.error,
            "confidence": self.confidence,
            "origin": self.origin,
            "certified": self.certified,
            "price": self.price,
            "snapshot": self.snapshot,
            "ledger_id": self.ledger_id,
            "gap": self.gap,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Model:
        plain = {key: value for key, value in fields.items() if key not in ("names", "coefficients")}
        own = {"loss": loss_from_dict(fields["loss"]), "domain": Domain.from_dict(fields["domain"])}
        return cls(**(plain | own))

    @classmethod
    def from_json(cls, text: str) -> Model:
        return cls.from_dict(json.loads(text))

    def _repr_html_(self) -> str:
        from reticent.report import model_summary

        return model_summary(self)

    def __repr__(self) -> str:
        kept = f"excess at most {self.error:.3g} at {self.confidence:.4g}" if self.certified else "uncertified"
        return f"Model({self.loss!r}, {kept}, {self.origin}, price {self.price:.3g})"

    @property
    def _columns(self) -> list[Column]:
        return [column for block in self.problem.design.blocks for column in block.columns]


def minimize_on(view: View, loss: ConvexLoss) -> Model:
    """The hypothesis' own minimiser: free, with the excess risk that a total variation certificate implies."""
    problem = checked_loss(loss).on(view.domain)
    theta, gap = public_minimum(view.distribution, problem)
    error, confidence = implied_error(view.certificates, problem, gap)
    return Model(
        loss=loss,
        domain=view.domain,
        theta=theta,
        error=error,
        confidence=confidence,
        origin="hypothesis" if error is None else "certificate",
        certified=error is not None,
        snapshot=view.snapshot,
        gap=gap,
    )


def implied_error(
    certificates: Sequence[Any], problem: Problem, gap: float, confidence: float | None = None
) -> tuple[float | None, float | None]:
    """Excess risk <= 2 S TV + gap (spec online.md 1), and never above S; None where no certificate covers the loss.

    Total variation comes from an audit of predicates, or is half the number of cells times an audited cell error.
    """
    domain = problem.design.domain
    spike = Product(problem.attributes, tuple(np.eye(domain[name].size)[0] for name in problem.attributes))
    found = []
    for certificate in certificates:
        bound = certificate.error_of(spike, confidence)
        variation = bound if certificate.kind == "predicates" else bound * domain.cells(problem.attributes) / 2
        error = 2 * problem.scale * variation + gap
        if error < problem.scale:
            found.append((error, confidence or certificate.confidence))
    return min(found, default=(None, None))


def _expanded(column: Column, weight: float) -> dict[str, float]:
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
    return {":".join(names) if names else "(intercept)": value for names, value in terms.items()}


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
        except (TypeError, ValueError):
            pass
    representatives = attribute.representatives
    assert representatives is not None, "a numeric factor comes from an attribute with numbers"
    return representatives[attribute.encode(values)]


def _columns(rows: Any, names: Sequence[str]) -> dict[str, Any]:
    """Columns by name from a data frame, an Arrow table, a mapping, a list of mappings, or an array in order."""
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise QueryError(f"rows of shape {rows.shape} need {len(names)} columns: {', '.join(names)}")
        return {name: rows[:, place] for place, name in enumerate(names)}
    if isinstance(rows, Sequence):
        lacking = next((name for row in rows for name in names if name not in row), None)
        if lacking is not None:
            raise QueryError(f"a row has no {lacking}; each needs {', '.join(names)}, None where unknown")
        return {name: [row[name] for row in rows] for name in names}
    try:
        return {name: _plain(rows[name]) for name in names}
    except (KeyError, TypeError):
        raise QueryError(f"rows need the columns {', '.join(names)}") from None


def _plain(column: Any) -> Any:
    to_list = getattr(column, "to_pylist", None)
    return np.asarray(column) if to_list is None else np.asarray(to_list())
