"""What float64 adds to private sums stays within what sensitivities allow for, whatever number a caller names."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from reticent.domain import Domain
from reticent.errors import QueryError, SourceError
from reticent.kernel import table as kernel
from reticent.kernel.counting.records import Records
from reticent.kernel.minimizers.excess_risk import ExcessRisk
from reticent.kernel.minimizers.families import MINIMIZERS, Minimizer, OutputPerturbation, SufficientStatistics
from reticent.kernel.minimizers.solvers import GRID, LOCATED, float_slack, located_minimum, longest_sum
from reticent.kernel.table import MOST_UNDECLARED
from reticent.losses.losses import ConvexLoss, Huber, Logistic, Ridge, Squared
from reticent.losses.risk import TensorRisk, moments
from reticent.losses.solver import minimum
from reticent.sources import Table

DOMAIN = Domain({"a": 7, "b": 11, "c": 5, "y": 2})
LOGISTIC = Logistic(features=["a", "b", ("a", "c")], label="y", radius=2, categories=["b"])
SQUARED = Squared(features=["a", "b", ("a", "c")], label="y", radius=2, categories=["b"])
RIDGED = Logistic(features=["a", "b"], label="y", radius=2, ridge=0.1)
LOSSES = [LOGISTIC, SQUARED, Ridge(features=["a", "b"], label="y", ridge=0.3), Huber(features=["b"], label="y")]


def heavy(names: tuple[str, ...]) -> np.ndarray:
    """Counts of as many records as a table can hold, of very different sizes."""
    shares = np.random.default_rng(5).dirichlet(np.full(DOMAIN.cells(names), 0.3))
    return np.floor(shares * MOST_UNDECLARED).astype(np.int64).reshape(DOMAIN.shape_of(names))


def exactly(weights: np.ndarray, terms: np.ndarray) -> Fraction:
    pairs = zip(weights.ravel().tolist(), np.broadcast_to(terms, weights.shape).ravel().tolist(), strict=True)
    return sum((weight * Fraction(term) for weight, term in pairs), Fraction(0))


def test_a_gradient_of_the_largest_table_errs_by_less_than_the_slack() -> None:
    problem = LOGISTIC.on(DOMAIN)
    weights = heavy(problem.attributes)
    risk = TensorRisk(problem, weights.astype(np.float64))
    pulls = np.random.default_rng(6).uniform(-1, 1, (2, 7, 11, 5)) / problem.feature_norm
    found = risk.gather(pulls[None])
    by_label = np.moveaxis(weights, problem.attributes.index("y"), 0)
    features = np.concatenate([block_of(block) for block in problem.design.blocks], axis=-1)
    errors = [float(exactly(by_label, pulls * features[..., j]) - Fraction(found[j])) for j in range(problem.dimension)]
    # The products pull * feature are rounded here too, which the slack's spare covers.
    assert np.linalg.norm(errors) <= float(float_slack(longest_sum(problem), 1)) / 2


def block_of(block) -> np.ndarray:
    """A block's columns over all of a, b, c."""
    shape = [DOMAIN[name].size if name in block.attributes else 1 for name in "abc"]
    return np.broadcast_to(block.table.reshape(*shape, block.width), (7, 11, 5, block.width))


def test_moments_of_the_largest_table_err_by_less_than_the_slack() -> None:
    problem = SQUARED.on(DOMAIN)
    whole = heavy(DOMAIN.names)

    def marginals(sets):
        axes = {name: place for place, name in enumerate(DOMAIN.names)}
        return [whole.sum(axis=tuple(axes[n] for n in DOMAIN.names if n not in names)) for names in sets]

    gram, _, _ = moments(problem, marginals)
    counts = whole.sum(axis=3)
    features = np.concatenate([block_of(block) for block in problem.design.blocks], axis=-1)
    d, norm = problem.dimension, Fraction(problem.feature_norm) ** 2
    errors = [
        float((exactly(counts, features[..., i] * features[..., j]) - Fraction(gram[i, j])) / norm)
        for i in range(d)
        for j in range(i, d)
    ]
    assert np.linalg.norm(errors) <= float(float_slack(longest_sum(problem), 1)) / 2


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_the_allowance_rests_on_no_number_of_the_callers(loss: ConvexLoss, neighbours: str) -> None:
    """It was sized by `records`: a caller who named too few had it shrunk under the true error of the sums."""
    for kind in MINIMIZERS:
        found = {slack(kind, loss, neighbours, records) for records in (10, 10**6, MOST_UNDECLARED)}
        found.discard(None)
        assert len(found) <= 1
        assert all(value < Fraction(1, 500) for value in found), "negligible beside one record"


def slack(kind: type[Minimizer], loss: ConvexLoss, neighbours: str, records: int) -> Fraction | None:
    try:
        return kind(loss, DOMAIN, neighbours=neighbours, records=records, rho=1).slack()
    except QueryError:
        return None


def test_excess_risk_under_add_remove_allows_for_the_largest_table() -> None:
    loss = Logistic(features=["a"], label="y", radius=1e-4)
    problem = loss.on(DOMAIN)
    few = ExcessRisk((loss,), (np.zeros(problem.dimension),), (problem.scale,), DOMAIN, 1000)
    few.sensitivity("replace-one")
    with pytest.raises(QueryError, match="varies too little"):
        few.sensitivity("add-remove")


@pytest.mark.parametrize(
    "facts",
    [{"neighbours": "add-remove"}, {"neighbours": "add-remove", "person": "who"}, {"person": "who", "records": 2}],
)
@pytest.mark.parametrize("hold", [1, 10**6])
def test_more_records_than_floats_allow_for_are_refused_while_loading(facts, hold, monkeypatch) -> None:
    rows = pa.table({"a": [0, 1, 2, 3], "b": [0, 1, 2, 3], "c": [0] * 4, "y": [0] * 4, "who": [1, 2, 3, 4]})
    monkeypatch.setattr(kernel, "MOST_UNDECLARED", 3)
    assert Table.of(rows.slice(0, 3), DOMAIN, hold=hold, **facts).domain == DOMAIN
    with pytest.raises(SourceError, match="more than 3 "):
        Table.of(rows, DOMAIN, hold=hold, **facts)
    assert Table.of(rows, DOMAIN, hold=hold).records == 4


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_every_minimiser_charges_for_rounding_and_floats(neighbours: str) -> None:
    """Beside what records move: one step of the grid for each coordinate, and the slack (docs/proofs/float-sums.md)."""
    facts = {"neighbours": neighbours, "records": 1000, "rho": 1}
    moved, seen = 2 if neighbours == "replace-one" else 1, set()
    for kind in MINIMIZERS:
        loss = SQUARED if kind is SufficientStatistics else RIDGED if kind is OutputPerturbation else LOGISTIC
        minimizer = kind(loss, DOMAIN, **facts)
        slack, dimension = minimizer.slack(), minimizer.problem.dimension
        stated = getattr(minimizer, "sensitivities", None) or [minimizer.sensitivity]
        wanted = [moved]
        if kind is SufficientStatistics:
            wanted, dimension = [math.sqrt(moved), moved, 1], 1
        for sensitivity, units in zip(stated, wanted, strict=True):
            l2 = sensitivity(0).l2_squared if callable(sensitivity) else sensitivity.l2_squared
            assert math.sqrt(l2) >= units + float(slack) + math.sqrt(dimension) / GRID
        seen.add(kind)
    assert seen == set(MINIMIZERS)


@pytest.mark.parametrize("records", [1, 3])
def test_a_minimum_is_found_on_a_table_of_many_more_records_than_were_named(records: int) -> None:
    """Steps for the smoothness of fewer records would run away from the minimum, further than the noise allows for."""
    domain = Domain({"a": 3, "y": 2})
    loss = Logistic(features=["a"], label="y", radius=4, ridge=0.05)
    counts = np.array([[40, 3], [2, 50], [7, 9]])
    cells = np.array(list(np.ndindex(3, 2)))
    source = Records.of_codes(domain, {"a": cells[:, 0], "y": cells[:, 1]}, counts.ravel().astype(np.int64))
    minimizer = OutputPerturbation(loss, domain, neighbours="add-remove", records=records, rho=1)
    risk, ratio = minimizer.fetch(source, 1)
    reach = float(LOCATED) * minimizer.unit
    found = located_minimum(risk, minimizer.shape.heavier(ratio), reach)
    best, gap = minimum(risk, radius=minimizer.problem.radius)  # Newton's method knows nothing of steps
    assert np.linalg.norm(found - best) <= reach + math.sqrt(2 * gap / minimizer.convexity)
