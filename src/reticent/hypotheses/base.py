"""A hypothesis is a public distribution over the universe; it sees released numbers, never rows.

Also the container of saved hypotheses (a JSON header and raw arrays, the same bytes for the same state), and
projections: targets, clamps and the one-dimensional tilt (spec 4.2, 4.3).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from reticent.errors import QueryError, ReticentError, is_mapping
from reticent.queries.forms import Dense, Product

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.queries.linear import Linear, Marginal, Residual


__all__ = [
    "MARGIN",
    "FitReport",
    "Hypothesis",
    "Measurement",
    "average",
    "binary_eta",
    "clamp_target",
    "conservative_target",
    "finite_target",
    "form_of",
    "pack",
    "saved_kind",
    "solve_tilt",
    "unpack",
]


@dataclass(frozen=True, eq=False)
class Measurement:
    """A released noisy answer as shares of the table: one number for a query, one array for a marginal or a residual.

    `rt.fit` takes a list of them, with values in the unit of the query's answer: shares, and for `rt.mean` numbers of
    the column.

    Args:
        query: What was measured: a linear query, or a marginal.
        values: Noisy shares of the table, or a noisy mean.
        sd: Standard deviation of the noise of each value.
        noise: How the mechanism describes itself; may be left out.

    Raises:
        QueryError: Values that are no finite numbers, or a deviation that is not positive.

    Example:
        >>> import reticent as rt
        >>> rt.Measurement(rt.marginal("sex"), [0.48, 0.52], sd=0.01).values.shape
        (2,)
    """

    query: Linear | Marginal | Residual
    values: np.ndarray
    sd: float
    noise: Mapping[str, str] | None = None
    """The mechanism's description of itself, in records; None if the values were taken from a larger measurement."""

    def __post_init__(self) -> None:
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise QueryError("values must be numbers, in a table with one axis for each attribute") from None
        values.setflags(write=False)
        if not np.isfinite(values).all():
            raise QueryError("a measurement must be finite; divide noisy counts by a positive number of records")
        if not (isinstance(self.sd, Real) and 0 < self.sd < math.inf):
            raise QueryError(f"a measurement needs its noise: sd={self.sd!r} must be positive and finite")
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class FitReport:
    """The result of a fit: `gap` bounds objective minus optimum, and is infinite if nothing is certified."""

    objective: float
    gap: float
    iterations: int
    evaluations: int
    converged: bool
    method: str
    message: str = ""
    misfit: float = 0.0
    """The largest distance of a measured cell from the fit, in standard deviations of its noise."""


@runtime_checkable
class Hypothesis(Protocol):
    """The interface of distributions over the universe that every algorithm uses (spec 4)."""

    @property
    def kind(self) -> str:
        """The name of the representation, in its saved bytes."""
        ...

    @property
    def domain(self) -> Domain: ...

    @property
    def log_size(self) -> float:
        """Natural logarithm of the number of records that may carry weight: ln|U|, or ln M (spec 6.4)."""
        ...

    def expect(self, query: Linear | Product | Dense) -> float:
        """q(p), a fraction."""
        ...

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        """The distribution of some attributes, axes in domain order."""
        ...

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Many marginals at once, sharing the work."""
        ...

    def project(self, query: Linear | Product | Dense, target: float) -> float:
        """Move to the nearest distribution (in KL divergence) with q(p) = target; returns eta, 0.0 if q is constant."""
        ...

    def reweight(self, query: Linear | Product | Dense, eta: float) -> None:
        """p(x) becomes proportional to p(x) exp(eta q(x))."""
        ...

    def fit(self, measurements: Sequence[Measurement]) -> FitReport:
        """Refit to noisy measurements of different precision; free post-processing (spec 4.4)."""
        ...

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Independent records as codes, one row each, columns in domain order."""
        ...

    def copy(self) -> Self: ...

    def to_bytes(self) -> bytes: ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...


def form_of(query: Linear | Product | Dense, domain: Domain) -> Product | Dense:
    """The compiled form of a query; forms pass through."""
    if not isinstance(query, Product | Dense):
        return query.compile(domain)
    last = -1
    for name in query.attributes:
        place = domain.index(name)
        if place <= last:
            raise QueryError(f"attributes {', '.join(query.attributes)} must come in the domain's order")
        last = place
    return query


def average(form: Product | Dense, marginal: np.ndarray) -> float:
    """Sum of weight times q over the form's own attributes, one vector at a time for products."""
    if not isinstance(form, Product):
        return float(np.vdot(marginal, form.values))
    vectors, count = form.vectors, len(form.vectors)
    if not count:
        return float(marginal)
    left = marginal
    # `dot` on two dimensions at most: half the overhead of a matrix product, and questions come by the thousand.
    for vector in vectors[:1:-1]:
        left = left.reshape(-1, vector.size).dot(vector)
    if count > 1:
        vector = vectors[1]
        left = (left if left.ndim == 2 else left.reshape(-1, vector.size)).dot(vector)
    return float(left.dot(vectors[0]))


_MAGIC = b"reticent-hypothesis-1\n"
_LENGTH = 8


def pack(kind: str, header: dict[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """Bytes of a header and arrays. Floats in the header survive exactly: JSON writes the shortest text that reads back
    the same.

    Keys keep their order, because the order of a domain's attributes matters.
    """
    arrays = [np.asarray(array, order="C") for array in arrays]
    described = [[array.dtype.str, list(array.shape)] for array in arrays]
    text = json.dumps({"kind": kind, "header": header, "arrays": described}).encode()
    return b"".join([_MAGIC, len(text).to_bytes(_LENGTH, "little"), text, *(array.tobytes() for array in arrays)])


def saved_kind(data: bytes) -> str:
    """Which hypothesis the bytes hold."""
    return _read_header(data)[0]["kind"]


def unpack(kind: str, data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header and fresh, writable arrays; refuses bytes of another kind or length."""
    header, start = _read_header(data)
    if header["kind"] != kind:
        raise ReticentError(f"these bytes hold a {header['kind']} hypothesis, not a {kind} one")
    arrays: list[np.ndarray] = []
    for dtype_text, shape in header["arrays"]:
        dtype = np.dtype(dtype_text)
        if dtype.kind not in "fiu" or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ReticentError("a saved hypothesis holds a part that is not an array of numbers; save it again")
        count = math.prod(shape)
        if start + count * dtype.itemsize > len(data):
            raise ReticentError("a saved hypothesis is cut short; save it again")
        arrays.append(np.frombuffer(data, dtype, count, start).reshape(shape).copy())
        start += count * dtype.itemsize
    if start != len(data):
        raise ReticentError("a saved hypothesis has bytes after its end; save it again")
    return header["header"], arrays


def _read_header(data: bytes) -> tuple[Mapping[str, Any], int]:
    start = len(_MAGIC) + _LENGTH
    if not data.startswith(_MAGIC) or len(data) < start:
        raise ReticentError("these bytes are not a saved hypothesis of this version")
    length = int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        header: Any = json.loads(data[start : start + length])
    except (ValueError, RecursionError):
        header = None
    if not is_mapping(header) or not {"kind", "header", "arrays"} <= set(header):
        raise ReticentError("the header of a saved hypothesis is damaged; save it again")
    return header, start + length


# A target is kept this share of the range away from the ends of the range: near enough that a target at an
# end is still met to 1e-12, far enough that eta stays below 28 from the middle.
MARGIN = 2.0**-40
_NEWTON_STEPS = 200


def finite_target(target: float) -> float:
    """Check that a target is finite; an infinity or a NaN would silently destroy every weight."""
    target = float(target)
    if not math.isfinite(target):
        raise QueryError(f"cannot project to {target}; the target must be a finite number")
    return target


def conservative_target(*, measured: float, bound: float, guess: float) -> float | None:
    """The measurement moved by its noise bound toward the guess; None if it would reach the guess (spec 4.3).

    By keyword only, because an exchange of two fractions would silently give another target.
    """
    distance = measured - guess
    if not abs(distance) > bound:
        return None
    return measured - math.copysign(bound, distance)


def clamp_target(target: float, low: float, high: float) -> float:
    """The nearest number strictly inside the range a query has on the support."""
    margin = MARGIN * (high - low)
    return min(max(target, low + margin), high - margin)


def binary_eta(inside: float, outside: float, target: float) -> float:
    """eta = logit t - logit q(p) for a 0/1 query that holds on weight `inside`, not on `outside`."""
    target = clamp_target(target, 0.0, 1.0)
    return math.log(target) - math.log1p(-target) - (math.log(inside) - math.log(outside))


def solve_tilt(values: np.ndarray, weights: np.ndarray, target: float) -> float:
    """The eta with sum(w q exp(eta q)) = t sum(w exp(eta q)); 0.0 if q is constant where w > 0.

    The mean increases with eta, and its slope is the variance: Newton's method inside a bracket.
    """
    values, weights = np.ravel(values), np.ravel(weights)
    alive = weights > 0
    if not alive.all():
        values, weights = values[alive], weights[alive]
    if values.size == 0 or values.min() == values.max():
        return 0.0
    low, high = float(values.min()), float(values.max())
    aim = clamp_target(target, low, high)
    below, above, eta = -math.inf, math.inf, 0.0
    for _ in range(_NEWTON_STEPS):
        # centred at the end of the range that dominates, so that no exponent is positive
        tilted = weights * np.exp(eta * (values - (high if eta > 0 else low)))
        total = tilted.sum()
        mean = float((tilted @ values) / total)
        miss = mean - aim
        if miss > 0:
            above = eta
        else:
            below = eta
        if abs(miss) <= 1e-16 * (high - low) or not below < above:
            break
        slope = float((tilted @ np.square(values - mean)) / total)
        step = _safeguarded(eta, -miss / slope if slope > 0 else math.copysign(math.inf, -miss), below, above)
        if step == eta:
            break
        eta = step
    return eta


def _safeguarded(eta: float, newton: float, below: float, above: float) -> float:
    """The Newton point if it lies inside the bracket and is not too far; otherwise bisect, or double outward."""
    reach = 2.0 * abs(eta) + 64.0
    point = eta + max(min(newton, reach), -reach)
    if below < point < above:
        return point
    if math.isinf(below) or math.isinf(above):
        return eta + math.copysign(reach, newton)
    return 0.5 * (below + above)
