"""Prior scales that all sets of an order tell together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.consistent import Departure, centred, consistent_of
from reticent.hypotheses.fitting.pooling import SHRINKING, VARIANCE, learn_scales, pooled_posteriors, unseen_law
from reticent.hypotheses.fitting.prior import LARGEST_SCALE, POOLED_GRID, Base, expected_from
from reticent.queries.linear import Marginal, Residual

EMPTY = Domain({f"c{i}": 2 for i in range(6)} | {"d": 3})


def total_variation(hypothesis: DenseHypothesis, cells: np.ndarray) -> float:
    return float(np.abs(hypothesis.probabilities() - cells).sum()) / 2


def every_set(domain: Domain, most: int) -> list[tuple[str, ...]]:
    return [names for order in range(1, most + 1) for names in combinations(domain.names, order)]


def measured(cells: np.ndarray, domain: Domain, most: int, sd: float, seed: int) -> list[Measurement]:
    """Residuals of all sets of up to so many attributes; single attributes ten times as precise."""
    generator, found = np.random.default_rng(seed), []
    for names in every_set(domain, most):
        table = cells.sum(axis=tuple(i for i, name in enumerate(domain.names) if name not in names))
        noise = sd / 10 if len(names) == 1 else sd
        noisy = table + generator.normal(0, noise, table.shape)
        found.append(Measurement(Residual(names), centred(noisy), noise))
    return found


def departures(tables: list[np.ndarray], sd: float) -> list[Departure]:
    flat = np.full(tables[0].shape, 1 / tables[0].size)
    return [Departure.from_expected(centred(table), sd, flat, residual=True) for table in tables]


def test_many_drowned_sets_show_together_that_they_hold_nothing() -> None:
    """One set of four cells cannot tell noise from a scale of a fifth; a hundred of them can. One strong set stays."""
    generator, sd = np.random.default_rng(9), 0.02
    tables = [0.25 + generator.normal(0, sd, (2, 2)) for _ in range(100)]
    tables.append(0.25 + np.array([[0.2, -0.2], [-0.2, 0.2]]))
    found = departures(tables, sd)
    posteriors, law = pooled_posteriors(np.stack([departure.losses() for departure in found]))
    scales = np.exp(posteriors @ np.log(POOLED_GRID))
    assert max(departure.scale for departure in found[:-1]) > 0.15
    assert scales[:-1].max() < 0.05
    assert scales[-1] > 0.5
    assert law.sum() == pytest.approx(1)


def test_a_lone_drowned_set_keeps_an_open_mind() -> None:
    posteriors, law = pooled_posteriors(np.zeros((1, POOLED_GRID.size)))
    assert law == pytest.approx(unseen_law())
    within = POOLED_GRID <= 1.001 * LARGEST_SCALE
    assert np.ptp(law[within]) < 1e-12
    assert law[within].sum() > 0.9
    assert np.exp(posteriors[0][within] @ np.log(POOLED_GRID[within]) / law[within].sum()) == pytest.approx(
        0.095, rel=0.01
    )


def test_cells_many_times_as_large_as_expected_are_no_noise() -> None:
    """Two rare codes that always come together: the pair's table is believed as far as noise warrants, not cut off."""
    sd = 1e-3
    rare = np.array([0.005, 0.995])
    expected = np.multiply.outer(rare, rare)
    table = np.array([[0.005, 0.0], [0.0, 0.995]])
    departure = Departure.from_expected(centred(table), sd, expected, residual=True)
    (scales,), _ = pooled_posteriors(np.stack([departure.losses()]))
    scale = float(scales @ POOLED_GRID**SHRINKING) ** (1 / SHRINKING)
    assert np.abs(departure.shrunk(scale) - table).max() < sd


@pytest.mark.parametrize("scale", [0.1, 0.6])
def test_the_scale_of_all_sets_is_found(scale: float) -> None:
    """Cells of sixteen codes each; what is far above noise is told by every set, and weak signals by all of them."""
    generator, sd = np.random.default_rng(10), 0.01
    tables = [centred((1 + scale * generator.normal(size=(4, 4))) / 16) for _ in range(60)]
    found = departures([table + generator.normal(0, sd, table.shape) for table in tables], sd)
    posteriors, _ = pooled_posteriors(np.stack([departure.losses() for departure in found]))
    typical = float(np.exp(np.mean(posteriors @ np.log(POOLED_GRID))))
    assert scale / 1.6 < typical < scale * 1.6


def test_what_triples_show_is_no_departure_of_four() -> None:
    """A parity of three attributes beside a fourth: the table of four holds nothing that its triples do not."""
    domain = Domain({"a": 2, "b": 2, "c": 2, "d": 2})
    parity = np.fromfunction(lambda a, b, c: (a + b + c) % 2, (2, 2, 2))
    cells = (1 + 0.8 * (2 * parity - 1))[..., None] * np.array([0.5, 0.5]) / 8
    base = Base({name: np.array([0.5, 0.5]) for name in domain.names})
    values = dict(zip(every_set(domain, 4), measured(cells, domain, 4, 1e-3, 11), strict=True))

    def departure_of(names: tuple[str, ...], expected: np.ndarray) -> Departure:
        return Departure.from_expected(values[names].values, values[names].sd, expected, residual=True)

    learnt = learn_scales(every_set(domain, 4), base, departure_of, SHRINKING)
    assert learnt.scales["a", "b", "c"] > 0.5
    assert max(scale for names, scale in learnt.scales.items() if len(names) == 2) < 0.05
    assert np.abs(learnt.expected[domain.names] - cells).max() < 0.002
    assert learnt.scales[domain.names] < 0.1
    # A plan looks at what a set may be worth: its variance is no less than what a fit takes it for.
    planned = learn_scales(every_set(domain, 4), base, departure_of, VARIANCE)
    assert all(planned.scales[names] >= scale for names, scale in learnt.scales.items())


def test_orders_that_were_not_measured_have_half_the_scale_of_those_below() -> None:
    base = Base({name: np.full(size, 1 / size) for name, size in zip(EMPTY.names, EMPTY.shape, strict=True)})
    learnt = learn_scales(every_set(EMPTY, 3), base, lambda names, expected: None, VARIANCE)
    assert {scale for names, scale in learnt.scales.items() if len(names) == 2} == {0.5}
    assert {scale for names, scale in learnt.scales.items() if len(names) == 3} == {0.25}


def test_expected_tables_have_the_widest_known_ones_inside() -> None:
    cells = np.random.default_rng(12).dirichlet(np.full(16, 3.0)).reshape(2, 2, 2, 2)
    names = ("a", "b", "c", "d")
    base = Base({name: cells.sum(axis=tuple(j for j in range(4) if j != i)) for i, name in enumerate(names)})
    known = {("a", "b", "c"): cells.sum(axis=3), ("a", "b"): np.full((2, 2), 0.25), ("c", "d"): cells.sum(axis=(0, 1))}
    found = expected_from(base, known, names)
    assert found.sum(axis=3) == pytest.approx(known["a", "b", "c"], abs=1e-6)  # the pair inside it is not asked
    assert found.sum(axis=(0, 1)) == pytest.approx(known["c", "d"], abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_without_interactions_is_not_filled_with_noise(seed: int) -> None:
    """119 drowned sets of independent attributes: by scales of their own a fit had three times the error."""
    cells = np.full(EMPTY.shape, 1 / EMPTY.size)
    hypothesis = DenseHypothesis(EMPTY)
    hypothesis.fit(measured(cells, EMPTY, 4, 0.004, seed))
    assert total_variation(hypothesis, cells) < 0.02


@pytest.mark.parametrize("seed", range(2))
def test_one_strong_set_among_empty_ones_is_kept(seed: int) -> None:
    places = np.indices(EMPTY.shape)
    cells = (1 + 0.9 * (2 * (places[:4].sum(axis=0) % 2) - 1)) / EMPTY.size
    hypothesis = DenseHypothesis(EMPTY)
    hypothesis.fit(measured(cells, EMPTY, 4, 0.004, seed))
    assert total_variation(hypothesis, cells) < 0.03


def test_marginals_with_normal_noise_show_together_that_pairs_hold_little() -> None:
    """By scales of their own, each wider than its noise warrants, a fit of pairs was farther off than least squares."""
    domain = Domain({f"c{i}": 2 for i in range(10)})
    shares = np.random.default_rng(13).uniform(0.3, 0.7, 10)
    cells = np.ones(())
    for share in shares:
        cells = np.multiply.outer(cells, [share, 1 - share])
    pairs, sd = list(combinations(domain.names, 2)), 0.01
    errors: list[tuple[float, float]] = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        truths = DenseHypothesis(domain, cells).marginals(pairs)
        values = [truth + generator.normal(0, sd, truth.shape) for truth in truths]
        told = [Measurement(Marginal(names), value, sd) for names, value in zip(pairs, values, strict=True)]
        hypothesis = DenseHypothesis(domain)
        hypothesis.fit(told)
        plain = consistent_of(told, domain)
        errors.append(
            (
                sum(float(np.abs(h - t).sum()) for h, t in zip(hypothesis.marginals(pairs), truths, strict=True)),
                sum(float(np.abs(plain.marginal(s)[0] - t).sum()) for s, t in zip(pairs, truths, strict=True)),
            )
        )
    fitted, least_squares = np.mean(errors, axis=0)
    assert fitted < 0.6 * least_squares
