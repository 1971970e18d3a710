"""The dense hypothesis against the machine's own limits: one thread, one process, ratios of minima taken in turns."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.shown import Claim, Plot, Shown
from reticent.domain import Domain
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.dense.marginal_tree import marginal_tree
from reticent.hypotheses.snapshot import Snapshot
from reticent.queries.forms import Dense, Product
from reticent.queries.linear import Conjunction

DENSE_MOST = 1.2
FUSED_MOST = 1.3
BOX_MOST = 1.0
READS_MOST = 3.0
SUMS_LEAST = 100.0
SNAPSHOT_MOST = 20e-6

# A box round may take six times its share of a dense round, and this long.
_BOX_FACTOR = 6.0
_BOX_SECONDS = 20e-6
_DENSE_AXES = [(0, 3, 5), (1, 2, 7), (0, 1, 2), (5, 6, 7), (2, 4, 6)]
_BOX_AXES = [(0, 3, 5), (0, 1, 2, 3), (1, 3, 5, 6), (2, 3, 4, 6), (4, 5, 6), (0, 2, 3, 5, 6), (0, 1, 2, 3, 4)]


def minima(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The least seconds of each action, in turns, on the thread's own clock: neighbours must not decide a ratio."""
    least = dict.fromkeys(actions, float("inf"))
    for _ in range(repeats):
        for name, action in actions.items():
            start = time.thread_time()
            action()
            least[name] = min(least[name], time.thread_time() - start)
    return least


def _uniform_domain(size: int, count: int) -> Domain:
    return Domain({f"a{place}": size for place in range(count)})


def _weighted(domain: Domain, axes: Sequence[int], random: np.random.Generator) -> Product:
    names = tuple(domain.names[axis] for axis in axes)
    return Product(names, tuple(random.random(size) for size in domain.shape_of(names)))


def _cell(domain: Domain, axes: Sequence[int], code: int) -> Product | Dense:
    return Conjunction({domain.names[axis]: code for axis in axes}).compile(domain)


def rounds(domain: Domain, repeats: int) -> dict[str, float]:
    """Dense and fused rounds over (read + scale) and over scale; boxes over what they are allowed."""
    random = np.random.default_rng(0)
    hypothesis = DenseHypothesis(domain, random.random(domain.shape) + 0.5)
    flat = np.ones(domain.size)
    dense, fused, boxes = {}, {}, {}
    for axes in _DENSE_AXES:
        query, upcoming = _weighted(domain, axes, random), _weighted(domain, (0, 4, 6), random)
        hypothesis.reweight_and_expect(query, 0.01, upcoming)
        least = minima(
            {
                "read": flat.sum,
                "scale": lambda: np.multiply(flat, 1.0000001, out=flat),
                "round": lambda q=query: (hypothesis.expect(q), hypothesis.reweight(q, 0.01)),
                "fused": lambda q=query, u=upcoming: hypothesis.reweight_and_expect(q, -0.01, u),
            },
            repeats,
        )
        dense[axes] = least["round"] / (least["read"] + least["scale"])
        fused[axes] = least["fused"] / least["scale"]
    limit = least["read"] + least["scale"]
    for axes in _BOX_AXES:
        # a fresh query each time: finding its box is part of the round
        queries = iter([_cell(domain, axes, code % 8) for code in range(40 * repeats)])

        def box_round(queries: Any = queries) -> None:
            query = next(queries)
            hypothesis.project(query, 1.01 * hypothesis.expect(query))

        seconds = minima({"box": box_round}, 40 * repeats)["box"]
        share = 1.0 / domain.cells([domain.names[axis] for axis in axes])
        boxes[axes] = seconds / (_BOX_FACTOR * share * limit + _BOX_SECONDS)
    return {"dense": max(dense.values()), "fused": max(fused.values()), "box": max(boxes.values())}


def marginals(domain: Domain, repeats: int, sampled: int) -> dict[str, float]:
    """All 3-way marginals through the tree: in reads of the tensor, and against one sum per marginal."""
    tensor = np.random.default_rng(1).random(domain.shape)
    sets = tuple(itertools.combinations(range(len(domain)), 3))
    tree = marginal_tree(domain.shape, sets)
    tree.reduce(tensor)
    least = minima({"read": tensor.sum, "tree": lambda: tree.reduce(tensor)}, repeats)
    each = []
    for axes in sets[:: max(1, len(sets) // sampled)]:
        rest = tuple(axis for axis in range(len(domain)) if axis not in axes)
        each.append(minima({"sum": lambda rest=rest: tensor.sum(axis=rest)}, 2)["sum"])
    sums = float(np.mean(each)) * len(sets)
    return {"reads": least["tree"] / least["read"], "sums": sums / least["tree"], "sets": float(len(sets))}


def free_answers() -> float:
    """Seconds of one three-attribute answer from a snapshot of 2^17 cells."""
    domain = Domain({f"a{place}": size for place, size in enumerate((8, 4, 16, 2, 8, 16))})
    random = np.random.default_rng(2)
    snapshot = Snapshot(DenseHypothesis(domain, random.random(domain.shape)))
    query = _cell(domain, (0, 2, 4), 1)
    return minima({"answer": lambda: snapshot.expect(query)}, 500)["answer"]


def run(quick: bool) -> dict[str, Any]:
    """The marks of issue 3 as ratios; quick: fewer repetitions."""
    repeats = 10 if quick else 25
    moved = rounds(_uniform_domain(8, 8), repeats)
    binary = marginals(_uniform_domain(2, 24), repeats, 6)
    octal = marginals(_uniform_domain(8, 8), repeats, 6)
    answer = free_answers()
    found = {
        "cells": 2**24,
        "dense round": moved["dense"],
        "fused round": moved["fused"],
        "box round": moved["box"],
        "binary": binary,
        "octal": octal,
        "answer seconds": answer,
    }
    for shown in present(found):
        if isinstance(shown, Claim):
            print(f"{shown.measured:>12}  {shown.text} ({shown.mark})")
    return found


def present(found: dict[str, Any]) -> list[Shown]:
    binary, octal = found["binary"], found["octal"]
    limits = {
        "dense round / (read + scale)": found["dense round"] / DENSE_MOST,
        "fused round / scale": found["fused round"] / FUSED_MOST,
        "box round / its share": found["box round"] / BOX_MOST,
        "marginals of 24 binary / 3 reads": binary["reads"] / READS_MOST,
        "marginals of 8 octal / 3 reads": octal["reads"] / READS_MOST,
        "one answer / 20 µs": found["answer seconds"] / SNAPSHOT_MOST,
    }
    return [
        "A tensor of 2²⁴ cells on one thread, against reading and scaling the same memory in the same process.",
        Claim("a round over reading and scaling once", found["dense round"], at_most=DENSE_MOST, unit="times"),
        Claim("a fused round over scaling once", found["fused round"], at_most=FUSED_MOST, unit="times"),
        Claim(
            "a round on a box over six times its share and 20 µs", found["box round"], at_most=BOX_MOST, unit="times"
        ),
        Claim("all 3-way marginals of 24 binary attributes", binary["reads"], at_most=READS_MOST, unit="reads"),
        Claim("the same by one sum each, over ours", binary["sums"], at_least=SUMS_LEAST, unit="times"),
        Claim("all 3-way marginals of 8 attributes of 8", octal["reads"], at_most=READS_MOST, unit="reads"),
        Claim("one answer from a snapshot", 1e6 * found["answer seconds"], at_most=1e6 * SNAPSHOT_MOST, unit="µs"),
        Plot(
            "limits",
            "How much of its allowance each operation takes",
            "",
            "measured over allowed",
            {"dense hypothesis": list(limits.items())},
            marks={"allowed": 1.0},
            expected="Expected: at most 1.",
        ),
    ]


if __name__ == "__main__":
    import sys

    run("--quick" in sys.argv)
