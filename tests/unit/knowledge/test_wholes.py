"""A part is at most its whole: statements about fewer attributes bound conditions on more of them (spec answers 1)."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import reticent as rt
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.mechanisms.base import Gaussian
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.free import free_answer
from reticent.knowledge.knowledge import Certified, Knowledge
from reticent.knowledge.measured import MeasuredMarginal
from reticent.knowledge.request import Request
from reticent.knowledge.tails import JOINT
from reticent.queries.linear import Conjunction, Range

DOMAIN = rt.Domain(a=6, b=5, c=4, d=3)
RECORDS = 100_000
CONFIDENCE = 0.95


def random_table(generator: np.random.Generator) -> np.ndarray:
    """Shares of all cells, a few of them large."""
    weights = generator.dirichlet(np.full(DOMAIN.size, 0.05))
    return weights.reshape(DOMAIN.shape)


def measured(truth: np.ndarray, names: tuple[str, ...], sd: float, generator: np.random.Generator) -> MeasuredMarginal:
    """A marginal with noise of so many records in each cell."""
    dropped = tuple(place for place, name in enumerate(DOMAIN.names) if name not in names)
    cells = truth.sum(axis=dropped)
    noisy = cells + generator.normal(0, sd / RECORDS, cells.shape)
    noise = Gaussian(Fraction(sd))
    return MeasuredMarginal(names, noisy, noise, RECORDS, 0.0, 1, declared=False, shares=JOINT)


def knowing(*marginals: MeasuredMarginal) -> Knowledge:
    known = Knowledge(Snapshot(DenseHypothesis(DOMAIN)), RECORDS, 0.0, shares=JOINT)
    for marginal in marginals:
        known = known.with_marginal(marginal)
    return known


def share(truth: np.ndarray, query: Conjunction | Range) -> float:
    form = query.compile(DOMAIN)
    dropped = tuple(place for place, name in enumerate(DOMAIN.names) if name not in form.attributes)
    return float((truth.sum(axis=dropped) * form.tensor()).sum())


def cell(**codes: int) -> Conjunction:
    return Conjunction(codes)


def test_a_cell_is_at_most_the_cell_of_fewer_attributes_that_holds_it() -> None:
    generator, truth = np.random.default_rng(1), np.zeros(DOMAIN.shape)
    truth[0] = 1 / truth[0].size
    known = knowing(measured(truth, ("a",), 50, generator))
    rare = known.free(cell(a=3, b=1, c=2), CONFIDENCE, 0.005)
    assert rare is not None, "nobody has a = 3"
    assert (rare.origin, rare.snapshot) == ("derived", None)
    assert rare.bounds is not None
    assert rare.bounds.low == 0
    assert 0 < rare.error <= 0.005
    assert known.free(cell(a=0, b=1, c=2), CONFIDENCE, 0.005) is None, "everybody has a = 0"
    assert known.free(cell(b=1, c=2), CONFIDENCE, None) is None, "nothing is known of b and c"


def test_what_nearly_everybody_satisfies_leaves_the_other_condition() -> None:
    generator, truth = np.random.default_rng(2), np.zeros(DOMAIN.shape)
    truth[:5] = 1 / truth[:5].size
    known = knowing(measured(truth, ("a",), 20, generator), measured(truth, ("b",), 20, generator))
    found = known.free(Range({"a": (0, 4), "b": (0, 1)}), CONFIDENCE, 0.01)
    assert found is not None
    assert float(found.compute()) == pytest.approx(0.4, abs=0.01)
    assert found.bounds is not None
    assert found.bounds.low > 0.39


def test_two_wholes_of_a_larger_whole_say_how_much_they_have_in_common() -> None:
    """Half of the records have a = 0, nearly all of these b = 0, and nearly all of these c = 0: so have half both."""
    generator, truth = np.random.default_rng(3), np.zeros(DOMAIN.shape)
    truth[0, 0, 0, :] = 0.5 / 3
    truth[1:, 1:, 1:, :] = 0.5 / truth[1:, 1:, 1:, :].size
    pairs = [measured(truth, names, 20, generator) for names in (("a", "b"), ("a", "c"))]
    found = knowing(*pairs).free(cell(a=0, b=0, c=0), CONFIDENCE, 0.02)
    assert found is not None
    assert float(found.compute()) == pytest.approx(0.5, abs=0.02)


def test_the_truth_lies_between_the_bounds_whatever_is_measured() -> None:
    """Statements hold together but with probability 1/1200 a table; thirty tables of a hundred questions."""
    missed = asked = 0
    for seed in range(30):
        generator = np.random.default_rng(seed)
        truth = random_table(generator)
        sets = [names for size in (1, 2, 3) for names in itertools.combinations(DOMAIN.names, size)]
        chosen = generator.choice(len(sets), 5, replace=False)
        known = knowing(*(measured(truth, sets[place], 100, generator) for place in chosen))
        for _ in range(100):
            names = generator.choice(DOMAIN.names, int(generator.integers(2, 5)), replace=False).tolist()
            ends = {name: sorted(generator.integers(0, DOMAIN[name].size, 2).tolist()) for name in names}
            query = Range({name: (low, high) for name, (low, high) in ends.items()})
            found = known.free(query, CONFIDENCE, None)
            if found is not None and found.bounds is not None:
                asked += 1
                low, high = float(found.bounds.low), float(found.bounds.high)
                missed += not low - 1e-12 <= share(truth, query) <= high + 1e-12
    assert asked > 1000
    assert missed == 0


def test_no_bound_of_a_declared_marginal_is_used_for_other_questions_at_its_own_share() -> None:
    """What was bought for one question may fail 19 in 400; as a statement for all questions it fails less often."""
    generator = np.random.default_rng(4)
    truth = random_table(generator)
    bought = measured(truth, ("a", "b"), 100, generator)
    form = cell(a=1, b=1).compile(DOMAIN)
    own = MeasuredMarginal(bought.attributes, bought.values, bought.noise, RECORDS, 0.0, 1, declared=True, shares=JOINT)
    assert own.for_all.error_of(form, CONFIDENCE) == bought.error_of(form, CONFIDENCE) > own.error_of(form, CONFIDENCE)
    wide, narrow = (knowing(one).free(cell(a=1, b=1, c=1), CONFIDENCE, None) for one in (bought, own))
    assert wide is not None
    assert narrow is not None
    assert wide.bounds is not None
    assert narrow.bounds is not None
    assert wide.bounds.high == narrow.bounds.high


@pytest.mark.parametrize("total", [1.0000000000000004, 0.9999999999999991])
def test_what_holds_for_every_record_is_known_exactly(total: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of 645,120 probabilities round: a total above 1 contradicted that no share exceeds 1, and one below 1 was
    certified without error.
    """
    monkeypatch.setattr(Snapshot, "expect", lambda _, form: total if not form.attributes else 0.5)
    snapshot = Snapshot(DenseHypothesis(DOMAIN))
    certificate = Certificate(
        "predicates", (DOMAIN.names,), snapshot.digest, 0.01, Gaussian(1).describe(), 0.0, RECORDS, 0.0, 1, 0.95, True
    )
    known = Knowledge(snapshot, RECORDS, 0.0, (Certified(snapshot, (certificate,)),), shares=JOINT)
    for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True):
        answer = free_answer(known, Request(Range({name: (0, size - 1)}), confidence=CONFIDENCE))
        assert answer is not None
        assert (answer.value, answer.error, answer.interval, answer.certified) == (1.0, 0.0, (1.0, 1.0), True)
