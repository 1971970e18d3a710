"""All ranges of ordered attributes: the default release beside raw noise, Haar wavelets and b-ary trees.

Rivals are small implementations from the papers: noise on every cell; Haar wavelets with an equal share for each level
(Xiao, Wang and Gehrke 2010); a b-ary tree with an equal share for each level, made consistent by two passes of weighted
means (Hay, Rastogi, Miklau and Suciu 2010), of the branching factor that theory finds best for the size and the noise
(Qardaji, Yang and Li 2013). They spend the whole budget, know the number of records, and add continuous noise; the
release pays for its two audits and its typical error as well. Their errors do not depend on the table.
"""

from __future__ import annotations

import gzip
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.counting.boxes import largest_box
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.statistics import of_one_marginal
from reticent.kernel.table import Table
from reticent.knowledge.publications import composing
from reticent.releases.budgeting import noise_costing
from reticent.releases.workload_audit import TYPICAL_SHARE

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dpbench1d" / "dpbench1d.csv.gz"
DELTA = 1e-9
EPSILONS = (0.1, 1.0)
RECORDS = 100_000
"""Of a generated table."""
ASKED = 20_000
"""Ranges drawn once; means over them stand for means over all."""
TRIALS = 2000
"""Of each rival."""
LARGEST_FACTOR = 64
FEW_CODES = 64
RUNS, RUNS_OF_FEW = 30, 2000
"""Of the releases of a row: one error on few codes varies by a third, so 2,000 of them vary by less than 1%."""

Rival = Callable[[np.ndarray, float, bool, np.random.Generator], np.ndarray]


def shapes(size: int) -> dict[str, np.ndarray]:
    """Generated histograms of one ordered attribute, RECORDS records each (nearly)."""
    generator = np.random.default_rng(7)
    codes = np.arange(size)
    spikes = np.zeros(size)
    spikes[generator.choice(size, max(3, size // 200), replace=False)] = 1.0
    sparse = np.where(generator.random(size) < 0.03, generator.pareto(1.0, size) + 0.1, 0.0)
    bell = np.exp(-0.5 * ((codes - 0.37 * size) / (0.1 * size)) ** 2)
    weights = {
        "smooth": bell + 0.3 * np.exp(-0.5 * ((codes - 0.75 * size) / (0.05 * size)) ** 2),
        "spiky": spikes + 0.1 / size,
        "sparse": sparse + (codes == size // 2),
        "uniform": np.ones(size),
        "heavy tail": 1.0 / (1.0 + codes),
    }
    return {name: np.round(RECORDS * w / w.sum()).astype(np.int64) for name, w in weights.items()}


def squares(size: int) -> dict[str, np.ndarray]:
    """Generated tables of two ordered attributes."""
    generator = np.random.default_rng(8)
    x, y = np.meshgrid(np.arange(size) / size, np.arange(size) / size, indexing="ij")
    ridge = np.exp(-0.5 * ((x - y) / 0.08) ** 2 - 0.5 * ((x + y - 0.9) / 0.4) ** 2)
    spots = np.where(generator.random((size, size)) < 0.01, generator.pareto(1.0, (size, size)) + 0.1, 0.0)
    tables = {"ridge": ridge, "spots": spots + 1e-4, "uniform": np.ones((size, size))}
    return {name: np.round(RECORDS * w / w.sum()).astype(np.int64) for name, w in tables.items()}


# ---- rivals


def noise(shape: tuple[int, ...], sd: float, pure: bool, generator: np.random.Generator) -> np.ndarray:
    return generator.laplace(0.0, sd / 2**0.5, shape) if pure else generator.normal(0.0, sd, shape)


def raw(counts: np.ndarray, sd: float, pure: bool, generator: np.random.Generator) -> np.ndarray:
    return counts + noise(counts.shape, sd, pure, generator)


def haar(counts: np.ndarray, sd: float, pure: bool, generator: np.random.Generator) -> np.ndarray:
    """Of one attribute: half the difference of two halves, at every width below the whole, whose sum is known."""
    height = (counts.size - 1).bit_length()
    share = sd * (height if pure else height**0.5)
    padded = np.pad(counts.astype(float), (0, 2**height - counts.size))
    found = padded.sum(keepdims=True)
    for level in range(height):
        blocks = padded.reshape(2 ** (level + 1), -1).sum(axis=1)
        half = (blocks[::2] - blocks[1::2]) / 2 + noise((2**level,), share / 2, pure, generator)
        found = np.stack([found / 2 + half, found / 2 - half], axis=1).ravel()
    return found[: counts.size]


def blocks_of(cells: np.ndarray, width: int) -> np.ndarray:
    for axis in range(cells.ndim):
        cells = np.add.reduceat(cells, np.arange(0, cells.shape[axis], width), axis=axis)
    return cells


def repeated(cells: np.ndarray, times: int) -> np.ndarray:
    for axis in range(cells.ndim):
        cells = np.repeat(cells, times, axis=axis)
    return cells


def tree(factor: int) -> Rival:
    """A tree whose nodes have `factor` children along each axis; all nodes at one height have the same variance."""

    def release(counts: np.ndarray, sd: float, pure: bool, generator: np.random.Generator) -> np.ndarray:
        height = levels_of(max(counts.shape), factor)
        side, children = factor**height, factor**counts.ndim
        share = sd * (height if pure else height**0.5)
        cells = np.pad(counts.astype(float), [(0, side - size) for size in counts.shape])
        means, variance = [cells + noise(cells.shape, share, pure, generator)], share**2
        for level in range(1, height):
            nodes = blocks_of(cells, factor**level)
            own, below = nodes + noise(nodes.shape, share, pure, generator), blocks_of(means[-1], factor)
            weight = children * variance / (children * variance + share**2)
            means.append(weight * own + (1 - weight) * below)
            variance = weight * share**2
        found = np.full((1,) * counts.ndim, cells.sum())
        for estimate in reversed(means):
            found = estimate + repeated((found - blocks_of(estimate, factor)) / children, factor)
        return found[tuple(slice(size) for size in counts.shape)]

    return release


def levels_of(size: int, factor: int) -> int:
    height = 1
    while factor**height < size:
        height += 1
    return height


def best_factor(size: int, dimensions: int, pure: bool) -> int:
    """Of least mean squared error over all ranges: what a level and those below it tell, by the energy of ranges."""
    errors = {}
    for factor in range(2, min(size, LARGEST_FACTOR) + 1):
        height = levels_of(size, factor)
        coarse = [coarse_energy(size, factor**level) ** dimensions for level in range(height + 1)]
        share = height**-2.0 if pure else 1 / height
        known = np.cumsum([share * factor ** (level * dimensions) for level in range(height)])
        errors[factor] = sum((a - b) / t for (a, b), t in zip(pairwise(coarse), known, strict=True))
    return min(errors, key=errors.__getitem__)


def coarse_energy(size: int, width: int) -> float:
    """Mean over all ranges of the sum over blocks of the squared overlap over the width."""
    # codes i <= j are in (i + 1)(size - j) ranges together
    codes = np.arange(size)
    begun = np.cumsum(codes + 1.0)
    before = np.where(codes >= width, begun[codes // width * width - 1], 0.0)
    together = 2 * (size - codes) * (begun - before) - (codes + 1.0) * (size - codes)
    return float(together.sum()) / width / (size * (size + 1) / 2)


# ---- scores


class Asked:
    """Ranges drawn once; the mean absolute error over them, in records."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        generator = np.random.default_rng(9)
        self._ends = []
        for size in shape:
            one = generator.integers(0, size + 1, ASKED)
            other = (one + generator.integers(1, size + 1, ASKED)) % (size + 1)
            self._ends.append((np.minimum(one, other), np.maximum(one, other)))

    def error(self, found: np.ndarray, truth: np.ndarray) -> float:
        away = found - truth
        for axis in range(away.ndim):
            away = np.cumsum(np.pad(away, [(int(place == axis), 0) for place in range(away.ndim)]), axis=axis)
        total = np.zeros(ASKED)
        for corner in np.ndindex(*(2,) * away.ndim):
            sign = (-1.0) ** (away.ndim - sum(corner))
            total += sign * away[tuple(ends[side] for ends, side in zip(self._ends, corner, strict=True))]
        return float(np.abs(total).mean())


def table_of(counts: np.ndarray) -> Table:
    names = ["x", "y"][: counts.ndim]
    domain = rt.Domain(dict(zip(names, counts.shape, strict=True)))
    codes = np.nonzero(counts)
    source = Records.of_codes(domain, dict(zip(names, codes, strict=True)), counts[codes].astype(np.int64))
    return Table(source, domain, records=int(counts.sum()))


def released(counts: np.ndarray, budget: rt.Budget) -> tuple[np.ndarray, float, bool]:
    """The published table in records, the processor time, and whether the certificate of ranges holds.

    As `rt.release` runs it, with what that leaves after the typical error, which is not measured here.
    """
    table = table_of(counts)
    curator = Curator(table, Ledger.memory(budget, table.identity))
    allowance = budget.limit - int(budget.limit * TYPICAL_SHARE)
    start = time.process_time()
    made = rt.Adaptive().run(curator, rt.ranges(table.domain.names), allowance=allowance, key="ranges")
    seconds = time.process_time() - start
    found = made.hypothesis.marginal(table.domain.names)
    worst = largest_box(np.rint((found * counts.sum() - counts) * 2**20).astype(np.int64)) / 2**20 / counts.sum()
    bounds = [certificate.bound for certificate in made.certificates if certificate.kind == "boxes"]
    return found * counts.sum(), seconds, worst <= min(bounds, default=1.0)


def cases(quick: bool) -> Iterator[tuple[str, np.ndarray]]:
    if DATA.exists():
        with gzip.open(DATA, "rt") as file:
            names = file.readline().strip().split(",")
            columns = np.loadtxt(file, delimiter=",", dtype=np.int64).T
        for name, counts in list(zip(names, columns, strict=True))[: 2 if quick else None]:
            yield f"dpbench1d {name}", counts
    for size in (64,) if quick else (64, 500, 4096):
        for name, counts in shapes(size).items():
            yield f"{name}, {size}", counts
    for size in (16,) if quick else (64,):
        for name, counts in squares(size).items():
            yield f"{name}, {size} x {size}", counts


def run(quick: bool) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    rivals: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, counts in cases(quick):
        asked = Asked(counts.shape)
        repeats = 3 if quick else RUNS_OF_FEW if counts.size <= FEW_CODES else RUNS
        for epsilon in EPSILONS:
            for pure in (False, True):
                budget = composing(rt.Budget(epsilon=epsilon) if pure else rt.Budget(epsilon=epsilon, delta=DELTA))
                key = (counts.shape, epsilon, pure)
                if key not in rivals:
                    rivals[key] = rival_errors(counts.shape, budget, pure, asked)
                runs = [released(counts, budget) for _ in range(repeats)]
                error = statistics.fmean(asked.error(found, counts) for found, _, _ in runs)
                row = {
                    "table": name,
                    "epsilon": epsilon,
                    "noise": "Laplace" if pure else "Gaussian",
                    "releases": repeats,
                    "release": error,
                    **rivals[key],
                    "ratio": error / rivals[key]["tree"],
                    "certificates held": statistics.fmean(held for _, _, held in runs),
                    "seconds": statistics.median(seconds for _, seconds, _ in runs),
                }
                rows.append(row)
                print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return {"rows": rows}


def rival_errors(shape: tuple[int, ...], budget: rt.Budget, pure: bool, asked: Asked) -> dict[str, Any]:
    """Mean errors of the rivals, in records; a table without records stands for all, for their errors are the same."""
    sd = noise_costing(budget, of_one_marginal("replace-one"), budget.limit).sd
    generator = np.random.default_rng(10)
    nothing = np.zeros(shape)
    factor = best_factor(max(shape), len(shape), pure)
    tried: dict[str, Rival] = {"raw": raw, "tree": tree(factor)} | ({"haar": haar} if len(shape) == 1 else {})
    found = {
        name: statistics.fmean(asked.error(make(nothing, sd, pure, generator), nothing) for _ in range(TRIALS))
        for name, make in tried.items()
    }
    return {**found, "b": factor}


def present(found: dict[str, Any]) -> list[Shown]:
    rows = found["rows"]
    public = [row for row in rows if row["table"].startswith("dpbench1d")]
    square = [row for row in rows if " x " in row["table"]]
    shown: list[Shown] = [
        (
            f"Mean absolute error over all ranges, in records, of {RUNS} releases a row ({RUNS_OF_FEW} of tables of up "
            f"to {FEW_CODES} codes); rivals over {TRIALS} trials. The tree is b-ary and consistent with the best b for "
            "its size and noise."
        ),
        *(
            Claim(f"largest error over that of the best tree, {name}", max(row["ratio"] for row in part), at_most=1.1)
            for name, part in {"dpbench1d": public, "64 x 64": square, "all tables": rows}.items()
            if part
        ),
        Claim("certificates of ranges that held", statistics.fmean(r["certificates held"] for r in rows), at_least=0.9),
    ]
    series = {
        f"epsilon {epsilon:g}, {kind}": [
            (row["table"], row["ratio"]) for row in rows if row["epsilon"] == epsilon and row["noise"] == kind
        ]
        for epsilon in EPSILONS
        for kind in ("Gaussian", "Laplace")
    }
    plot = Plot(
        "ranges",
        "Ranges: error of the release over that of the best tree",
        "table",
        "ratio of mean errors",
        series,
        marks={"mark": 1.1},
        expected="Below the mark everywhere; far below where a table is smooth or sparse.",
    )
    listed = dict.fromkeys(rows[0], "")
    return [*shown, plot, Grid("", listed, rows)]
