"""Smooth parts of ordered attributes: learnt where they are, absent where they are not. All noise has fixed seeds."""

import itertools
import tracemalloc

import numpy as np
import pytest

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseEngine
from reticent.hypotheses.fitting import loglinear
from reticent.hypotheses.fitting.loglinear import SMOOTH, FitProblem, fit_loglinear, terms_of
from reticent.hypotheses.fitting.prior import Prior, product_base
from reticent.hypotheses.fitting.smoothness import (
    AMPLITUDES,
    LARGEST_MATRIX,
    Smoothness,
    SmoothPart,
    add_losses,
    learn_smoothness,
    ordered_codes,
    smooth_part,
)
from reticent.queries.linear import Marginal

DOMAIN = Domain(
    age=Integer(60),
    income=Numeric(edges=range(25), nullable=True, other=False),
    group=Categorical(["a", "b", "c", "d"], other=False),
)
PAIRS = list(itertools.combinations(DOMAIN.names, 2))
SEEDS = range(6)


def table(kind: str, seed: int) -> np.ndarray:
    """Logits of pairs: slow waves, independent cells, or steps at a few codes."""
    generator = np.random.default_rng(seed)
    total = np.zeros(DOMAIN.shape)
    for first, second in itertools.combinations(range(3), 2):
        logits = generator.normal(0, 0.7, (DOMAIN.shape[first], DOMAIN.shape[second]))
        if kind != "rough":
            for axis in (axis for axis, place in enumerate((first, second)) if place < 2):
                size = logits.shape[axis]
                basis = SmoothPart((size,), (size,), Smoothness(1.0, 0.0, 0.0))
                spectrum = np.sqrt(size) * np.maximum(np.arange(size), 1.0) ** -1.5
                if kind == "steps":
                    steps = np.cumsum(generator.random(size) < 3 / size)
                    logits = np.take(logits, steps, axis=axis)
                else:
                    logits = np.moveaxis(np.moveaxis(logits, axis, -1) * spectrum, -1, 0)
                    logits = np.moveaxis(np.stack([basis.table(row) for row in logits.reshape(size, -1).T]), -1, 0)
                    logits = np.moveaxis(logits.reshape(size, -1), 0, axis)
        shape = [size if axis in (first, second) else 1 for axis, size in enumerate(DOMAIN.shape)]
        total += logits.reshape(shape)
    weights = np.exp(total - total.max())
    return weights / weights.sum()


def summed(truth: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    return truth.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in names))


def measured(truth: np.ndarray, sd: float, seed: int) -> list[Measurement]:
    generator = np.random.default_rng(seed)
    sets = [*((name,) for name in DOMAIN.names), *PAIRS]
    return [Measurement(Marginal(s), summed(truth, s) + generator.normal(0, sd, DOMAIN.shape_of(s)), sd) for s in sets]


def dense(sets) -> DenseEngine:
    return DenseEngine(DOMAIN.shape, [tuple(DOMAIN.index(name) for name in s) for s in sets])


def variation(truth: np.ndarray, model: loglinear.LogLinear) -> float:
    _, found = dense(model.sets).evaluate(model.potentials)
    return sum(np.abs(found[model.sets.index(s)] - summed(truth, s)).sum() / 2 for s in PAIRS) / len(PAIRS)


def compared(kind: str, sd: float, monkeypatch: pytest.MonkeyPatch) -> tuple[float, int]:
    """Total variation over that of the fit without smooth parts, averaged over seeds; how many smooth parts."""
    ratios, parts = [], 0
    for seed in SEEDS:
        truth = table(kind, seed)
        released = measured(truth, sd, 1000 + seed)
        model, _ = fit_loglinear(released, DOMAIN, dense)
        parts += sum(text == SMOOTH for _, text in model.parameters)
        with monkeypatch.context() as plain:
            plain.setattr(loglinear, "smooth_part", lambda *_: None)
            without, _ = fit_loglinear(released, DOMAIN, dense)
        ratios.append(variation(truth, model) / variation(truth, without))
    return float(np.mean(ratios)), parts


@pytest.mark.parametrize(("codes", "columns"), [(1, 2), (2, 1), (5, 3), (40, 1), (40, 7)])
@pytest.mark.parametrize("sd", [1e-2, 1e-5])
def test_likelihoods_are_those_of_normal_numbers(codes: int, columns: int, sd: float) -> None:
    generator = np.random.default_rng(codes)
    root = generator.normal(0, 1e-2, (codes, codes))
    away, sizes = generator.normal(0, 1e-2, (codes, columns)), generator.random(columns) + 0.1
    losses = np.zeros(AMPLITUDES.size)
    add_losses(root @ root.T, away, sizes, sd, losses)
    for amplitude, loss in zip(AMPLITUDES, losses, strict=True):
        expected = 0.0
        for size, column in zip(sizes, away.T, strict=True):
            covariance = (amplitude * size) ** 2 * (root @ root.T) + sd * sd * np.eye(codes)
            expected += np.linalg.slogdet(covariance)[1] + column @ np.linalg.solve(covariance, column)
        assert loss == pytest.approx(expected, rel=1e-6)


def test_which_attributes_are_in_order() -> None:
    assert [ordered_codes(DOMAIN[name]) for name in DOMAIN.names] == [60, 24, 0]
    assert ordered_codes(Integer(2)) == 0, "two codes have no frequencies"


def test_the_basis_is_orthonormal_and_leaves_missing_values_apart() -> None:
    part = SmoothPart((60, 25), (60, 24), Smoothness(2.0, 1.0, 0.1))
    generator = np.random.default_rng(0)
    cells, other = generator.normal(size=(60, 25)), generator.normal(size=1500)
    assert part.table(part.coefficients(cells)) == pytest.approx(cells)
    assert np.vdot(part.table(other), cells) == pytest.approx(other @ part.coefficients(cells))
    matrix = np.stack([part.coefficients(row.reshape(60, 25)) for row in np.eye(1500)], axis=1)
    assert part.curvatures(cells) == pytest.approx((matrix**2) @ cells.ravel())
    missing = np.zeros((60, 25))
    missing[:, 24] = generator.normal(size=60)
    assert not part.coefficients(missing).reshape(60, 25)[:, :24].any()
    assert part.scales.reshape(60, 25)[3, 4] == pytest.approx(2.0 / 5)


def exact_cosines(run: int) -> np.ndarray:
    """Orthonormal cosines from their definition, the arguments reduced to one period in whole numbers."""
    places = np.outer(2 * np.arange(run) + 1, np.arange(run)) % (4 * run)
    waves = np.cos(np.pi * places / (2 * run)) * np.sqrt(2 / run)
    waves[:, 0] = np.sqrt(1 / run)
    return waves


@pytest.mark.parametrize("run", [LARGEST_MATRIX + 1, LARGEST_MATRIX + 2])
def test_many_codes_have_the_same_basis_by_a_fast_transform(run: int) -> None:
    part = SmoothPart((2, run + 1), (0, run), Smoothness(2.0, 1.0, 0.1))
    generator = np.random.default_rng(2)
    cells = generator.random((2, run + 1))
    basis = np.eye(run + 1)
    basis[:run, :run] = exact_cosines(run)
    assert part.coefficients(cells).reshape(2, -1) == pytest.approx(cells @ basis, rel=0, abs=1e-12)
    assert part.table(cells.ravel()) == pytest.approx(cells @ basis.T, rel=0, abs=1e-12)
    assert part.curvatures(cells.ravel()).reshape(2, -1) == pytest.approx(cells @ basis**2, rel=0, abs=1e-12)


def test_the_basis_of_many_codes_takes_no_matrix() -> None:
    tracemalloc.start()
    part = SmoothPart((5000, 3), (5000, 0), Smoothness(2.0, 1.0, 0.1))
    cells = part.table(part.scales)
    assert part.coefficients(cells) == pytest.approx(part.scales, abs=1e-12)
    learn_smoothness(cells, 1.0, np.full((5000, 3), 1 / 15000), (5000, 0))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5000 * 5000 * 8 / 4


@pytest.mark.parametrize("runs", [(60, 0), (60, 20)])
def test_the_power_of_the_frequency_is_found(runs: tuple[int, int]) -> None:
    generator = np.random.default_rng(1)
    expected = np.full((60, 20), 1 / 1200)
    for decline in (1.0, 2.0):
        part = SmoothPart((60, 20), runs, Smoothness(3.0, decline, 0.0))
        values = expected * (1 + part.table(part.scales * generator.normal(size=1200)))
        found = learn_smoothness(values + generator.normal(0, 1e-5, values.shape), 1e-5, expected, runs)
        assert found is not None
        assert abs(found.decline - decline) <= 0.5
        assert 1.5 < found.amplitude < 6.0


def test_noise_and_rough_cells_have_no_smooth_part() -> None:
    expected = np.full((60, 8), 1 / 480)
    generator = np.random.default_rng(2)
    found = []
    for _ in range(20):
        noise = generator.normal(0, 1e-3, expected.shape)
        found.append(learn_smoothness(expected + noise, 1e-3, expected, (60, 0)))
        rough = expected * (1 + generator.normal(0, 0.5, expected.shape))
        found.append(learn_smoothness(rough + noise / 10, 1e-4, expected, (60, 0)))
    assert found.count(None) >= 38
    assert smooth_part(DOMAIN, ("group",), np.ones(4) / 4, 0.1, np.ones(4) / 4) is None


def test_where_measurements_decide_there_is_no_smooth_part() -> None:
    """Frequencies that all stand out of the noise are followed anyway: a prior could only be wrong about them."""
    generator = np.random.default_rng(4)
    expected = np.full((60, 4), 1 / 240)
    part = SmoothPart((60, 4), (60, 0), Smoothness(3.0, 1.0, 0.0, 0.5))
    values = expected * (1 + part.table(part.scales * generator.normal(size=240)))
    found = []
    for sd in (1e-3, 1e-6):
        noisy = values + generator.normal(0, sd, values.shape)
        assert learn_smoothness(noisy, sd, expected, (60, 0)) is not None
        found.append(smooth_part(DOMAIN, ("age", "group"), noisy, sd, expected))
    assert found[0] is not None
    assert found[1] is None


@pytest.mark.parametrize(("kind", "sd", "most"), [("smooth", 1e-3, 0.75), ("smooth", 1e-4, 0.9), ("steps", 1e-3, 0.9)])
def test_smooth_tables_gain(kind: str, sd: float, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ratio, parts = compared(kind, sd, monkeypatch)
    assert ratio < most
    assert parts


@pytest.mark.parametrize("sd", [1e-2, 1e-3, 1e-4, 1e-5])
def test_rough_tables_lose_nothing(sd: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ratio, _ = compared("rough", sd, monkeypatch)
    assert ratio < 1.01


def test_the_gradient_is_that_of_the_objective() -> None:
    released = measured(table("smooth", 0), 1e-3, 5)
    terms = terms_of(released, DOMAIN, Prior())
    base = product_base(DOMAIN, [(t.attributes, t.values, t.sd) for t in terms.values()])
    grown = loglinear.with_smooth_parts(terms, base, DOMAIN)
    assert len(grown) > len(terms)
    problem = FitProblem(list(grown.values()), base, dense, degrees=2.0)
    generator = np.random.default_rng(3)
    point, direction = generator.normal(0, 0.1, (2, problem.size))
    problem.value(point)
    slope = problem.gradient() @ direction
    step = 1e-6
    difference = (problem.value(point + step * direction) - problem.value(point - step * direction)) / (2 * step)
    assert slope == pytest.approx(difference, rel=1e-4)


def test_a_start_keeps_its_smooth_part_where_it_is_smooth_no_longer() -> None:
    """A session's later fits may learn otherwise: the distribution they begin at stays the same."""
    truth = table("smooth", 0)
    released = measured(truth, 1e-3, 5)
    model, _ = fit_loglinear(released, DOMAIN, dense)
    assert any(text == SMOOTH for _, text in model.parameters)
    again, warm = fit_loglinear(released, DOMAIN, dense, start=model)
    assert warm.iterations <= 20
    assert variation(truth, again) == pytest.approx(variation(truth, model), rel=0.05)
    terms = terms_of(released, DOMAIN, Prior())
    moved = loglinear.with_lost_parts(model.parameters, terms, DOMAIN)
    assert set(moved) == set(terms)
    for names in PAIRS:
        potential = model.potentials[model.sets.index(names)]
        assert moved[names, ""] == pytest.approx(potential.ravel())
