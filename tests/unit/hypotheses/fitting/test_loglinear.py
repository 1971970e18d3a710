"""The MAP fit against finite differences, a brute-force optimiser, and itself on another engine."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseEngine
from reticent.hypotheses.fitting.consistent import Departure
from reticent.hypotheses.fitting.loglinear import FitProblem, fit_loglinear, terms_of
from reticent.hypotheses.fitting.prior import Prior, collapse, product_base, soft_floor
from reticent.hypotheses.fitting.quasi_newton import Diagonal, Objective, descend
from reticent.hypotheses.junction_tree.engine import FactoredEngine
from reticent.hypotheses.junction_tree.log_space import LogEngine
from reticent.hypotheses.junction_tree.tree import JunctionTree
from reticent.queries.linear import Conjunction, Marginal

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 3})
SETS = [s for k in (1, 2, 3) for s in itertools.combinations(DOMAIN.names, k)]
ENGINE_TOLERANCE = 1e-10


def dense(sets):
    return DenseEngine(DOMAIN.shape, [tuple(DOMAIN.index(name) for name in s) for s in sets])


def factored(sets):
    return FactoredEngine(JunctionTree(DOMAIN, sets), sets)


def logarithmic(sets):
    tree = JunctionTree(DOMAIN, sets)
    return LogEngine(tree, [tree.positions(s) for s in sets])


def measured(seed, sets, sd=0.01):
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.full(DOMAIN.size, 0.3)).reshape(DOMAIN.shape)
    found = []
    for names in sets:
        dropped = tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)
        marginal = truth.sum(axis=dropped)
        found.append(Measurement(Marginal(names), marginal + generator.normal(0, sd, marginal.shape), sd))
    return found


def with_query(measurements):
    return [*measurements, Measurement(Conjunction({"a": 1, "d": 2}), np.array(0.2), 0.005)]


def distribution(model):
    engine = dense(model.sets)
    engine.evaluate(model.potentials)
    return engine.probabilities.copy()


def problem_of(measurements, make_engine=dense):
    terms = terms_of(measurements, DOMAIN, Prior())
    base = product_base(DOMAIN, [(t.attributes, t.values, t.sd) for t in terms.values() if t.form is None])
    return FitProblem(list(terms.values()), base, make_engine)


@pytest.mark.parametrize("make_engine", [dense, factored, logarithmic])
def test_gradient_equals_finite_differences(make_engine):
    problem = problem_of(with_query(measured(1, SETS[:-2])), make_engine)
    generator = np.random.default_rng(2)
    point, direction = generator.normal(0, 0.3, (2, problem.size))
    problem.value(point)
    slope = problem.gradient() @ direction
    step = 1e-5
    difference = (problem.value(point + step * direction) - problem.value(point - step * direction)) / (2 * step)
    assert slope == pytest.approx(difference, rel=1e-6)


def test_reaches_the_optimum_of_a_brute_force_solver():
    measurements = with_query(measured(3, [("a",), ("b",), ("a", "b"), ("c", "d")], sd=0.02))
    problem = problem_of(measurements)

    def both(point):
        value = problem.value(point)
        return value, problem.gradient()

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-10}
    best = minimize(both, np.zeros(problem.size), jac=True, method="L-BFGS-B", options=options)
    model, report = fit_loglinear(
        measurements, DOMAIN, dense, prior=Prior(), tolerance=1e-8, progress=0.0, iterations=4000
    )
    assert report.converged
    assert report.objective == pytest.approx(best.fun, rel=1e-6)
    assert report.objective - best.fun <= report.gap + 1e-9
    problem.value(best.x)
    engine = dense(problem.sets)
    engine.evaluate(problem.potentials(best.x))
    assert np.abs(distribution(model) - engine.probabilities).max() < 1e-4


@pytest.mark.parametrize("make_engine", [factored, logarithmic])
def test_every_engine_gives_the_same_fit(make_engine):
    measurements = with_query(measured(4, [*SETS[:7], ("a", "b", "c")]))
    # With a prior that is given there is one start; with an empirical one, engines that hold cells may take another.
    options = {"iterations": 40, "progress": 0.0, "prior": Prior()}
    one, first = fit_loglinear(measurements, DOMAIN, dense, **options)
    two, second = fit_loglinear(measurements, DOMAIN, make_engine, **options)
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
    assert np.abs(distribution(one) - distribution(two)).max() < 1e-6


def test_log_engine_holds_factors_beyond_float64_products():
    generator = np.random.default_rng(0)
    sets = [("a", "b"), ("b", "c"), ("c", "d")]
    parameters = [generator.normal(0, 300, DOMAIN.shape_of(s)) for s in sets]
    weights = [generator.normal(size=DOMAIN.shape_of(s)) for s in sets]
    one, two = dense(sets), logarithmic(sets)
    (size, marginals), (other_size, others) = one.evaluate(parameters), two.evaluate(parameters)
    assert size == pytest.approx(other_size, rel=ENGINE_TOLERANCE)
    for left, right in zip([*marginals, *one.covary(weights)], [*others, *two.covary(weights)], strict=True):
        assert np.abs(left - right).max() < ENGINE_TOLERANCE


def test_exact_measurements_are_matched_and_weak_noise_is_shrunk():
    precise = measured(5, [("a", "b"), ("b", "c")], sd=1e-4)
    model, _ = fit_loglinear(precise, DOMAIN, dense, prior=Prior((3.0, 3.0)), iterations=2000, progress=1e-6)
    p = distribution(model)
    assert np.abs(p.sum(axis=(2, 3)) - precise[0].values).max() < 5e-3
    vague = [Measurement(Marginal(("a", "b")), np.random.default_rng(0).normal(1 / 12, 0.5, (3, 4)), 0.5)]
    model, _ = fit_loglinear(vague, DOMAIN, dense)
    pair = distribution(model).sum(axis=(2, 3))
    independent = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    assert np.abs(vague[0].values - independent).max() > 0.3
    assert np.abs(pair - independent).max() < 0.003


def test_repeated_measurements_merge_by_inverse_variance():
    once = [Measurement(Marginal(("a",)), np.array([0.2, 0.3, 0.5]), 0.01)]
    again = [*once, Measurement(Marginal(("a",)), np.array([0.5, 0.3, 0.2]), 0.02)]
    (term,) = terms_of(again, DOMAIN, Prior()).values()
    assert term.values == pytest.approx([0.26, 0.3, 0.44])
    assert term.sd == pytest.approx(0.01 / np.sqrt(1.25))


def test_a_warm_start_needs_few_steps():
    measurements = measured(6, SETS)
    model, cold = fit_loglinear(measurements, DOMAIN, dense)
    again, warm = fit_loglinear(measurements, DOMAIN, dense, start=model)
    assert warm.iterations <= cold.iterations / 2
    assert warm.objective <= cold.objective + 1e-9
    assert np.abs(distribution(again) - distribution(model)).max() < 0.02


def test_a_fit_that_was_cut_short_says_so():
    _, report = fit_loglinear(measured(7, SETS, sd=1e-3), DOMAIN, dense, iterations=3, tolerance=1e-12)
    assert not report.converged
    assert "not reached" in report.message


def test_a_histogram_moves_the_low_orders_it_contains():
    """Measured whole, the table's pairs are found as well as from pairs: not only a faint term of order four."""
    generator = np.random.default_rng(10)
    truth = generator.dirichlet(np.full(DOMAIN.size, 0.5)).reshape(DOMAIN.shape)
    whole = [Measurement(Marginal(DOMAIN.names), truth + generator.normal(0, 1e-3, truth.shape), 1e-3)]
    model, _ = fit_loglinear(whole, DOMAIN, dense)
    assert set(SETS) <= set(model.sets)
    missed = np.abs(distribution(model) - truth).sum(axis=(2, 3)).sum() / 2
    base = product_base(DOMAIN, [(DOMAIN.names, whole[0].values, 1e-3)])
    independent = np.multiply.outer(np.multiply.outer(np.outer(base["a"], base["b"]), base["c"]), base["d"])
    assert missed < 0.4 * np.abs(independent - truth).sum() / 2


def test_nothing_measured_is_uniform():
    model, report = fit_loglinear([], DOMAIN, dense)
    assert report.converged
    assert distribution(model) == pytest.approx(np.full(DOMAIN.shape, 1 / DOMAIN.size))


@pytest.mark.parametrize("iterations", [5, 10, 400])
def test_the_entropy_fit_certifies_its_gap(iterations):
    """However early it stops, the gap bounds the distance to the optimum of an independent primal formulation."""
    measurements = measured(9, [("a", "b"), ("b", "c"), ("d",)], sd=0.02)

    def primal(p):
        total = float(np.sum(p * np.log(p * p.size)))
        for m in measurements:
            dropped = tuple(i for i, name in enumerate(DOMAIN.names) if name not in m.query.attributes)
            total += float(np.sum((p.sum(axis=dropped) - m.values) ** 2)) / (2 * m.sd)
        return total

    def softmax(logits):
        weights = np.exp(logits - logits.max())
        return (weights / weights.sum()).reshape(DOMAIN.shape)

    best = minimize(lambda x: primal(softmax(x)), np.zeros(DOMAIN.size), method="L-BFGS-B", options={"maxfun": 10**5})
    options = {"iterations": iterations, "progress": 0.0, "tolerance": 1e-7}
    model, report = fit_loglinear(measurements, DOMAIN, dense, method="entropy", **options)
    reached = primal(distribution(model))
    assert best.fun - 1e-6 <= reached <= best.fun + report.gap + 1e-6
    # strong duality: the reported dual value and the gap give the primal value
    assert reached == pytest.approx(report.gap - report.objective, abs=1e-9)
    assert report.converged == (iterations == 400)


def test_refuses_an_unknown_method():
    with pytest.raises(QueryError, match="entropy"):
        fit_loglinear(measured(0, [("a",)]), DOMAIN, dense, method="guess")


@pytest.mark.parametrize("scale", [0.1, 0.6])
def test_excess_variance_reveals_the_scale(scale):
    generator = np.random.default_rng(8)
    expected = generator.dirichlet(np.ones(2000))
    values = expected * (1 + generator.normal(0, scale, 2000)) + generator.normal(0, 1e-5, 2000)
    assert scale / 1.5 < Departure.from_expected(values, 1e-5, expected, residual=False).scale < scale * 1.5
    noise = expected + generator.normal(0, 1e-4, 2000)
    assert Departure.from_expected(noise, 1e-4, expected, residual=False).scale < 0.05


def test_collapse_weighs_by_precision():
    known = [
        (("a",), np.array([1.0, 2.0]), 1.0),
        (("a", "b"), np.array([[1.0, 1.0], [2.0, 2.0]]), 0.5),
    ]
    found = collapse(known, ("a",))
    assert found is not None
    # summing two cells of sd .5 leaves variance .5: weights 1 and 2
    assert found[0] == pytest.approx([(1 + 2 * 2) / 3, (2 + 2 * 4) / 3])
    assert found[1] == pytest.approx(3**-0.5)
    assert collapse(known, ("b", "c")) is None


def test_soft_floor_never_rules_a_code_out():
    floored = soft_floor(np.array([-5.0, 0.0, 1.0, 100.0]), 1.0)
    assert floored.min() == 0.5
    assert floored[-1] == pytest.approx(100.0, rel=1e-4)


def test_descent_solves_a_quadratic_and_reports_its_gap():
    matrix = np.diag([1.0, 10.0, 100.0])
    state = {}

    def value(point):
        state["point"] = point
        return 0.5 * point @ matrix @ point - point.sum()

    objective = Objective(value, lambda: matrix @ state["point"] - 1.0)
    found = descend(
        objective,
        np.zeros(3),
        preconditioner=Diagonal(np.ones(3)),
        gap_bound=lambda gradient: 0.5 * float(gradient @ gradient),
        tolerance=1e-12,
        progress=0.0,
        iterations=100,
    )
    assert found.certified
    assert found.point == pytest.approx([1.0, 0.1, 0.01], abs=1e-5)


@pytest.mark.parametrize("scales", [(), (0.0,), (1.0, float("inf"))])
def test_refuses_prior_scales_that_mean_nothing(scales):
    with pytest.raises(QueryError):
        Prior(scales)
