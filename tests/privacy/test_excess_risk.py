"""The excess risk of a model moves no further between neighbours than it states, float errors included."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.small_tables import MIXED

import reticent as rt
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.minimizers.excess_risk import ExcessRisk, least_scale
from reticent.losses.losses import Hinge, Logistic, Squared
from reticent.losses.public import Problem
from reticent.losses.risk import TensorRisk

LOSS = rt.Squared(features=["x"], label="y")


def excess_risk(radius: float, size: int) -> ExcessRisk:
    domain = Domain({"a": 5, "y": 2})
    loss = Logistic(features=["a"], label="y", radius=radius, positive=1)
    problem = loss.on(domain)
    theta = np.zeros(problem.dimension)
    theta[0] = radius
    return ExcessRisk((loss,), (theta,), (problem.scale,), domain, float(size))


@pytest.mark.parametrize("radius", [1e-14, 1e-9, 1e-6])
def test_a_loss_that_hardly_varies_is_refused(radius: float) -> None:
    """Risks of order one were subtracted and divided by a range of 1e-14: neighbours lay 400 records apart."""
    with pytest.raises(QueryError, match="larger radius"):
        excess_risk(radius, 20_000)


@pytest.mark.parametrize("radius", [1e-4, 1e-2, 1.0])
def test_excess_risk_moves_no_further_than_stated_on_small_balls(radius: float) -> None:
    size, moved, generator = 20_000, [], np.random.default_rng(0)
    risk = excess_risk(radius, size)
    codes = {"a": generator.integers(0, 5, size), "y": generator.integers(0, 2, size)}
    for first, second in ((0, 0), (0, 1), (4, 0), (4, 1), (2, 1)):
        codes["a"][0], codes["y"][0] = first, second
        source = Records.of_codes(risk.domain, codes, np.ones(size, dtype=np.int64))
        moved.append(int(risk.evaluate(source, 1)) / risk.resolution(1))
    assert max(moved) - min(moved) <= risk.sensitivity("replace-one").l1


def test_excess_risk_counts_its_float_error_against_the_records() -> None:
    excess_risk(1e-4, 10**5)
    with pytest.raises(QueryError, match="varies too little"):
        excess_risk(1e-4, 10**9)


def test_excess_risk_is_declared_for_the_table_it_reads() -> None:
    """Its allowance for float errors is proven up to twice this number; a caller could have named any."""
    table = rt.Table.of(pa.table({"x": [0.5, 1.5], "y": [0.5, 1.5], "z": [0, 1]}), MIXED)
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=rt.Budget(rho=1)))
    problem = LOSS.on(MIXED)
    theta = (np.zeros(problem.dimension),)
    with pytest.raises(QueryError, match="another number of records; the table has 2"):
        curator.measure([ExcessRisk((LOSS,), theta, (problem.scale,), MIXED, 1)], Gaussian(10))
    curator.measure([ExcessRisk((LOSS,), theta, (problem.scale,), MIXED, 2)], Gaussian(10))


@pytest.mark.parametrize(("kind", "moved"), [("replace-one", 2), ("add-remove", 1)])
@pytest.mark.parametrize("hidden", [0.0, 0.125, 0.25])
def test_every_part_of_the_movement_is_charged(kind: str, moved: int, hidden: float) -> None:
    """What a record moves, what is hidden, the solver's gap and the floats (docs/proofs/excess-risk.md, Claim 6)."""
    loss = Logistic(features=["a"], label="y", radius=2)
    problem = loss.on(PLANE)
    scale = least_scale(problem, np.zeros(problem.dimension), kind)
    risk = ExcessRisk((loss,), (np.zeros(problem.dimension),), (scale,), PLANE, 10, hidden=hidden)
    assert risk.sensitivity(kind).l1 == moved + Fraction(hidden) + Fraction(1, 20) + Fraction(1, 100)


PLANE = Domain({"a": 2, "y": 2})
CELLS = list(itertools.product(range(2), repeat=2))


def losses_of_one(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """The loss of each possible record, ridge included."""
    found = []
    for cell in CELLS:
        weights = np.zeros((2, 2))
        weights[cell] = 1
        found.append(TensorRisk(problem, weights).value(theta))
    return np.array(found)


@pytest.mark.parametrize("kind", ["replace-one", "add-remove"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_least_unit_covers_what_one_record_moves(kind: str, ridge: float, share: float) -> None:
    """At every other parameter of the ball, for every record, or every two: sampled, and at the ends of each axis."""
    generator = np.random.default_rng(3)
    for loss in (
        Logistic(features=["a"], label="y", radius=3, ridge=ridge),
        Hinge(features=["a"], label="y", radius=2, ridge=ridge),
        Squared(features=["a"], label="y", radius=1, ridge=ridge),
    ):
        problem = loss.on(PLANE)
        others = generator.normal(size=(200, problem.dimension))
        ends = np.concatenate([np.eye(problem.dimension), -np.eye(problem.dimension)])
        others = np.concatenate([others, ends, np.zeros((1, problem.dimension))])
        lengths = np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1e-9)
        others *= problem.radius / lengths * generator.uniform(0.5, 1, lengths.shape).round()
        theta = others[0] * share
        own, unit = losses_of_one(problem, theta), least_scale(problem, theta, kind)
        for other in others:
            gained = own - losses_of_one(problem, other)
            moved = np.ptp(gained) / 2 if kind == "replace-one" else np.abs(gained).max()
            assert moved <= unit * (1 + 1e-9), f"{loss.kind}: one record moves {moved:g} units of {unit:g}"


def test_scores_of_a_table_beyond_what_was_planned_are_cut() -> None:
    """The solver's steps suffice for twice the records named; what more would reach says nothing (Claim 4)."""
    loss = Logistic(features=["a"], label="y", radius=4)
    problem = loss.on(PLANE)
    # The worst parameters for the one kind of record: its score is the number of them.
    ends = (np.eye(problem.dimension) * problem.radius, -np.eye(problem.dimension) * problem.radius)
    theta = max(np.concatenate(ends), key=lambda end: losses_of_one(problem, end)[0])
    risk = ExcessRisk((loss,), (theta,), (least_scale(problem, theta, "add-remove"),), PLANE, 3)
    found = []
    for records in range(1, 9):
        codes = {"a": np.zeros(records, dtype=np.int64), "y": np.zeros(records, dtype=np.int64)}
        source = Records.of_codes(PLANE, codes, np.ones(records, dtype=np.int64))
        found.append(int(risk.evaluate(source, 1)) / risk.resolution(1))
    assert found[2] > found[1] > found[0] > 0
    assert found[4] == 1
    assert found[5:] == [0, 0, 0]
    assert np.abs(np.diff(found)).max() <= risk.sensitivity("add-remove").l1
