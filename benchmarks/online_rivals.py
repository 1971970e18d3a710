"""Streams of questions, and the engines that online answering is compared with: plain noise and Turbo's rule.

Simulated with ordinary random numbers from true answers, which are computed in benchmarks only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import reticent as rt
from reticent.kernel.statistics import ONE, of_one_marginal
from reticent.knowledge.publications import composing
from reticent.knowledge.tails import noise_within
from reticent.queries.base import Linear, Query
from reticent.queries.forms import Product
from reticent.queries.linear import Conjunction, Marginal, Range

BUDGET = rt.Budget(epsilon=1, delta=1e-9)
GAUSSIAN_BUDGET = composing(BUDGET)
"""As a ledger for Gaussian noise holds it, ours and the rival's."""
CONFIDENCE = 0.95

# ---- streams


def cells(domain: rt.Domain, generator: np.random.Generator) -> Query:
    names = generator.choice(domain.names, 3, replace=False).tolist()
    return Conjunction({name: int(generator.integers(domain[name].size)) for name in names})


def boxes(domain: rt.Domain, generator: np.random.Generator, orders: tuple[int, int] = (2, 4)) -> Query:
    names = generator.choice(domain.names, int(generator.integers(*orders)), replace=False).tolist()
    ends = {name: sorted(generator.integers(0, domain[name].size, 2).tolist()) for name in names}
    return Range({name: (low, high) for name, (low, high) in ends.items()})


def wide(domain: rt.Domain, generator: np.random.Generator) -> Query:
    return boxes(domain, generator, (5, 8))


def repeats(domain: rt.Domain, generator: np.random.Generator) -> Query:
    """One of two hundred boxes, again and again."""
    return boxes(domain, np.random.default_rng(1000 + int(generator.integers(200))))


def groups(domain: rt.Domain, generator: np.random.Generator) -> Query:
    return Marginal(generator.choice(domain.names, 2, replace=False).tolist())


def half_spaces(domain: rt.Domain, generator: np.random.Generator) -> Query:
    first, second = generator.choice(["age", "education", "occupation"], 2, replace=False).tolist()
    level = int(generator.integers(4, domain[first].size + domain[second].size - 4))
    found = None
    for code in range(domain[first].size):
        rest = level - code
        if rest >= domain[second].size:
            continue
        part = (rt.col(first) == code) & (rt.col(second) >= max(0, rest))
        found = part if found is None else found | part
    return rt.count(found)


STREAMS: dict[str, Callable[[rt.Domain, np.random.Generator], Query]] = {
    "cells": cells,
    "boxes": boxes,
    "repeats": repeats,
    "GROUP BYs": groups,
    "wide boxes": wide,
    "half-spaces": half_spaces,
}


PATIENCE = 1000
"""Repeats in a row after which a kind of question counts as used up."""


def stream(name: str, domain: rt.Domain, length: int) -> list[Query]:
    """Different questions where the kind has enough of them; else as they are drawn, repeats included."""
    generator, found, repeated = np.random.default_rng(7), {}, 0
    while len(found) < length and repeated < PATIENCE:
        question = STREAMS[name](domain, generator)
        repeated = repeated + 1 if question.digest in found else 0
        found[question.digest] = question
    if len(found) == length:
        return list(found.values())
    generator = np.random.default_rng(7)
    return [STREAMS[name](domain, generator) for _ in range(length)]


def different(questions: list[Query]) -> int:
    return len({question.digest for question in questions})


# ---- engines to compare with


Share = Fraction | int
"""Of a whole budget."""


def cached(questions: list[Query], price: Callable[[Query], Share]) -> int:
    """Fresh noise for every distinct question while the budget lasts; repeats are free."""
    seen: set[str] = set()
    answered, left = 0, Fraction(1)
    for question in questions:
        if question.digest not in seen:
            cost = price(question)
            if cost > left:
                continue
            left -= cost
            seen.add(question.digest)
        answered += 1
    return answered


def gaussian_price(domain: rt.Domain, records: int, error: float) -> Callable[[Query], Share]:
    """The library's own discrete noise on whole counts, which costs a bound one record of rounding."""
    return _price(domain, records, error, GAUSSIAN_BUDGET, pure=False)


def laplace_price(domain: rt.Domain, records: int, error: float) -> Callable[[Query], Share]:
    return _price(domain, records, error, BUDGET, pure=True)


def _price(domain: rt.Domain, records: int, error: float, budget: rt.Budget, *, pure: bool) -> Callable[[Query], Share]:
    def price(question: Query) -> Share:
        cells = domain.cells(question.canonical(domain)) if isinstance(question, Marginal) else 1
        noise = noise_within(records * error - 1, (1 - CONFIDENCE) / cells, pure=pure)
        return Fraction(budget.cost(noise.price(of_one_marginal("replace-one") if cells > 1 else ONE)), budget.limit)

    return price


class Turbo:
    """PMW-bypass as in the spec: bypass until a question's cells have learned enough, then threshold runs."""

    def __init__(self, exact: np.ndarray, records: int, error: float, rho: float) -> None:
        self.exact, self.records, self.error, self.left = exact, records, error, rho
        self.weights, self.total = np.full(exact.shape, 1 / exact.size), 1.0
        self.updates = np.zeros(exact.shape, dtype=np.int16)
        self.needed = 5
        self.generator = np.random.default_rng(3)
        self.open = False
        self.noisy = 0.0

    def ask(self, region: Any, truth: float) -> float | None:
        """An answer, or None when the budget cannot pay it; `region` selects the cells of a 0/1 question."""
        failure = math.log(1 / (1 - CONFIDENCE))
        guess = float(self.weights[region].sum()) / self.total
        if self.updates[region].min() < self.needed:
            epsilon = failure / (self.records * self.error)
            if not self._pay(epsilon):
                return None
            answer = truth + self.generator.laplace(0, 1 / (self.records * epsilon))
            if abs(answer - guess) > 0.01 * self.error:
                self._learn(region, answer > guess)
            self.updates[region] += 1
            return answer
        epsilon = 4 * failure / (self.records * self.error)
        scale = 1 / (self.records * epsilon)
        if not self.open:
            if not self._pay(3 * epsilon):
                return None
            self.open, self.noisy = True, self.error / 2 + self.generator.laplace(0, scale)
        if abs(truth - guess) + self.generator.laplace(0, scale) < self.noisy:
            return guess
        self.open, self.needed = False, self.needed + 1
        answer = truth + self.generator.laplace(0, scale)
        self._learn(region, answer > guess)
        return answer

    def _pay(self, epsilon: float) -> bool:
        price = epsilon**2 / 2
        affordable = price <= self.left
        self.left -= price if affordable else 0.0
        return affordable

    def _learn(self, region: Any, up: bool) -> None:
        before = float(self.weights[region].sum())
        self.weights[region] *= math.exp(4 / 8 if up else -4 / 8)
        self.total += float(self.weights[region].sum()) - before


def turbo(questions: list[Query], exact: np.ndarray, domain: rt.Domain, records: int, error: float) -> int:
    """Answers within the error; GROUP BYs are left out, the rule has none.

    Attributes that no question looks at stay uniform in its weights, so they are summed out beforehand.
    """
    asked = [question for question in questions if isinstance(question, Linear)]
    names = domain.canonical({name for question in asked for name in question.attributes})
    dropped = tuple(place for place, name in enumerate(domain.names) if name not in names)
    engine, answered = Turbo(_marginal(exact, dropped), records, error, float(BUDGET.rho or 0)), 0
    for question in asked:
        region, truth = region_of(question, domain, names), true_share(question, exact, domain)
        answer = engine.ask(region, truth)
        answered += answer is not None and abs(answer - truth) <= error
    return answered


def region_of(question: Linear, domain: rt.Domain, names: tuple[str, ...]) -> Any:
    """Slices where the question is a box, so that only its cells are touched; else a mask."""
    form = question.compile(domain)
    if isinstance(form, Product):
        spans = {name: np.flatnonzero(vector) for name, vector in zip(form.attributes, form.vectors, strict=True)}
        if all(span.size and span[-1] - span[0] + 1 == span.size for span in spans.values()):
            return tuple(
                slice(int(spans[name][0]), int(spans[name][-1]) + 1) if name in spans else slice(None) for name in names
            )
    shape = [domain[name].size if name in form.attributes else 1 for name in names]
    return np.broadcast_to(form.tensor().reshape(shape) > 0, domain.shape_of(names))


def true_share(query: Any, exact: np.ndarray, domain: rt.Domain) -> float:
    form = query.compile(domain)
    dropped = tuple(place for place, name in enumerate(domain.names) if name not in form.attributes)
    return float((_marginal(exact, dropped) * form.tensor()).sum())


_KEPT: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}


def _marginal(exact: np.ndarray, dropped: tuple[int, ...]) -> np.ndarray:
    key = (id(exact), dropped)
    if key not in _KEPT:
        _KEPT[key] = exact.sum(axis=dropped)
    return _KEPT[key]
