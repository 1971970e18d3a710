"""A small dependent table over the real kernel, for tests of the offline algorithms."""

from __future__ import annotations

import numpy as np

from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Table

DOMAIN = Domain(a=4, b=5, c=2, d=3, e=2)
ROWS = 20_000
KEY = "test"


def _codes() -> np.ndarray:
    """A chain a - b - d with c and e hanging on it: strong pairs, a few triples, one independent attribute."""
    generator = np.random.default_rng(11)
    a = generator.choice(4, ROWS, p=[0.5, 0.3, 0.15, 0.05])
    b = np.where(generator.random(ROWS) < 0.7, a, generator.integers(0, 5, ROWS))
    c = (generator.random(ROWS) < 0.1 + 0.2 * a).astype(int)
    d = np.where(generator.random(ROWS) < 0.6, b % 3, 0)
    return np.stack([a, b, c, d, generator.integers(0, 2, ROWS)], axis=1)


CODES = _codes()


def source() -> Records:
    return Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, CODES.T, strict=True)), np.ones(ROWS, dtype=np.int64))


def table(neighbours: str = "replace-one") -> Table:
    if neighbours == "add-remove":
        return Table(source(), DOMAIN, neighbours="add-remove")
    return Table(source(), DOMAIN, records=ROWS)


def opened(budget: Budget, neighbours: str = "replace-one") -> tuple[Curator, Ledger]:
    of = table(neighbours)
    ledger = Ledger.memory(identity=of.identity, budget=budget)
    return Curator(of, ledger), ledger


def truth(sets) -> list[np.ndarray]:
    return [counts / ROWS for counts in source().marginals(list(sets))]


def variation(hypothesis, sets) -> float:
    """Mean total variation over the sets."""
    pairs = zip(truth(sets), hypothesis.marginals(list(sets)), strict=True)
    return float(np.mean([np.abs(t - h).sum() / 2 for t, h in pairs]))


def worst(hypothesis, sets) -> float:
    return max(float(np.abs(t - h).max()) for t, h in zip(truth(sets), hypothesis.marginals(list(sets)), strict=True))


def product_variation(sets) -> float:
    """What exact single attributes alone would give."""
    found = []
    for marginal in truth(sets):
        axes = range(marginal.ndim)
        ones = [marginal.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes]
        product = ones[0]
        for vector in ones[1:]:
            product = np.multiply.outer(product, vector)
        found.append(np.abs(marginal - product).sum() / 2)
    return float(np.mean(found))
