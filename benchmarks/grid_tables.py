"""Tables of the grid: public ones, and generated ones of shapes that nothing in the library was tuned on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import prod

import numpy as np

import reticent as rt
from benchmarks.release import DATA, read
from reticent.domain import Domain
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.workload import Workload

ROWS = 100_000
SEED = 20261117


def of_codes(shape: tuple[int, ...], codes: np.ndarray, weights: np.ndarray | None = None) -> Table:
    """A table of integer columns; rows may stand for several records."""
    domain = Domain({f"c{i}": size for i, size in enumerate(shape)})
    counted = np.ones(len(codes), dtype=np.int64) if weights is None else weights
    columns = dict(zip(domain.names, codes.T, strict=True))
    return Table(Records.of_codes(domain, columns, counted), domain, neighbours="add-remove")


def of_cells(shape: tuple[int, ...], probabilities: np.ndarray, rows: int, generator: np.random.Generator) -> Table:
    counts = generator.multinomial(rows, probabilities.ravel() / probabilities.sum())
    cells = np.flatnonzero(counts)
    return of_codes(shape, np.stack(np.unravel_index(cells, shape), axis=1), counts[cells].astype(np.int64))


def xor(columns: int, rows: int = ROWS) -> Table:
    """A label that is the parity of some binary columns, one in twenty flipped; two columns of no use."""
    generator = np.random.default_rng(SEED)
    bits = generator.integers(0, 2, (rows, columns))
    label = (bits.sum(axis=1) + (generator.random(rows) < 0.05)) % 2
    return of_codes(
        (2,) * columns + (2, 3, 4), np.column_stack([bits, label, generator.integers(0, (3, 4), (rows, 2))])
    )


def interactions(shape: tuple[int, ...], order: int, rows: int = ROWS) -> Table:
    """A random log-linear model: every set of up to `order` attributes has normal parameters of scale 0.6 / size."""
    generator = np.random.default_rng(SEED + order)
    logits = np.zeros(shape)
    for size in range(1, order + 1):
        for axes in combinations(range(len(shape)), size):
            logits = logits + generator.normal(0, 0.6 / size, [n if i in axes else 1 for i, n in enumerate(shape)])
    return of_cells(shape, np.exp(logits - logits.max()), rows, generator)


def heavy_cells(rows: int = ROWS) -> Table:
    """A hundred thousand cells; ten of them hold nine tenths of the records."""
    shape, generator = (10, 10, 10, 10, 10), np.random.default_rng(SEED)
    weights = np.full(prod(shape), 0.1 / prod(shape))
    weights[generator.choice(weights.size, 10, replace=False)] += 0.9 * generator.dirichlet(np.ones(10))
    return of_cells(shape, weights, rows, generator)


def binary(columns: int, rows: int = ROWS) -> Table:
    """Each column copies one of the two before it, or their parity, three times in four."""
    generator = np.random.default_rng(SEED + columns)
    codes = generator.integers(0, 2, (rows, columns))
    for i in range(2, columns):
        source = (codes[:, i - 1], codes[:, i - 2], codes[:, i - 1] ^ codes[:, i - 2])[i % 3]
        codes[:, i] = np.where(generator.random(rows) < 0.75, source, codes[:, i])
    return of_codes((2,) * columns, codes)


def many_codes(codes: int = 2000, rows: int = ROWS) -> Table:
    """Three columns of many codes, skewed; the second depends on the first."""
    generator = np.random.default_rng(SEED)
    drawn = np.minimum((generator.pareto(1.0, (rows, 3)) * codes / 100).astype(int), codes - 1)
    drawn[:, 1] = np.where(generator.random(rows) < 0.5, drawn[:, 0], drawn[:, 1])
    return of_codes((codes,) * 3, drawn)


def replicated(table: Table, times: int) -> Table:
    """Every record so many times."""
    source = table._source
    assert isinstance(source, Records)
    return Table(Records(table.domain, source._planes, source._weights * times), table.domain, neighbours="add-remove")


def contingency(name: str) -> Table:
    """A published table of binary columns: one row for each cell, the last column counts its records."""
    cells = np.loadtxt(DATA / "contingency" / f"{name}.csv", delimiter=",", skiprows=1, dtype=np.int64)
    held = cells[cells[:, -1] > 0]
    return of_codes((2,) * (cells.shape[1] - 1), held[:, :-1], held[:, -1])


def workload(domain: Domain, order: int, most: int = 64) -> Workload:
    """All sets of some attributes, or `most` of them."""
    sets = list(combinations(domain.names, order))
    chosen = np.random.default_rng(SEED).choice(len(sets), size=min(most, len(sets)), replace=False)
    return Workload([rt.marginal(*sets[i]) for i in sorted(chosen)], domain=domain)


Case = tuple[str, Callable[[], Table], int, tuple[float, ...]]
"""Name, table, order of the workload, epsilons."""

MIXED = (5, 6, 4, 7, 3, 8)
CONTINGENCY = ("czech", "mildew", "rochdale")
QUICK: list[Case] = [
    ("xor of 3 and label", lambda: xor(3), 4, (0.1, 1, 10)),
    ("interactions of order 3, 10 binary", lambda: interactions((2,) * 10, 3), 3, (0.1, 1, 100)),
    ("interactions of order 4, mixed", lambda: interactions(MIXED, 4), 3, (0.1, 1, 100)),
    ("heavy cells", heavy_cells, 3, (0.1, 1, 10)),
]
FULL: list[Case] = [
    ("xor of 3 and label", lambda: xor(3), 4, (0.01, 0.1, 1, 10)),
    ("xor of 4 and label", lambda: xor(4), 5, (0.1, 1, 10)),
    ("xor of 5 and label", lambda: xor(5), 5, (0.1, 1, 10)),
    ("interactions of order 2, 10 binary", lambda: interactions((2,) * 10, 2), 2, (0.01, 1, 100)),
    ("interactions of order 3, 12 binary", lambda: interactions((2,) * 12, 3), 3, (0.1, 1, 100)),
    ("interactions of order 4, mixed", lambda: interactions(MIXED, 4), 3, (0.01, 0.1, 1, 10, 100)),
    ("interactions of order 5, mixed", lambda: interactions(MIXED, 5), 4, (0.1, 1, 10)),
    ("heavy cells", heavy_cells, 3, (0.01, 0.1, 1, 10, 100)),
    ("100 binary columns", lambda: binary(100), 3, (0.1, 1, 10)),
    ("200 binary columns", lambda: binary(200), 2, (0.1, 1)),
    ("three columns of 2,000 codes", many_codes, 1, (0.1, 1, 10)),
    ("three columns of 2,000 codes, pairs", many_codes, 2, (1,)),
    *(
        (f"interactions of order 4, n = 1e{power}", lambda n=10**power: interactions(MIXED, 4, n), 3, (1.0,))
        for power in range(3, 8)
    ),
]
PUBLIC: list[Case] = [
    ("adult_reduced7", lambda: read("adult_reduced7", "add-remove")[0], 3, (0.01, 0.1, 1, 10, 100)),
    ("adult_reduced7 x 100", lambda: replicated(read("adult_reduced7", "add-remove")[0], 100), 3, (0.1, 1, 10)),
    ("adult_reduced7, 4-way", lambda: read("adult_reduced7", "add-remove")[0], 4, (1, 10)),
    ("adult_orig", lambda: read("adult_orig", "add-remove")[0], 3, (1,)),
    ("adult_32bin", lambda: read("adult_32bin", "add-remove")[0], 3, (1, 10)),
    ("plants", lambda: read("plants", "add-remove")[0], 3, (1,)),
    ("kdd99", lambda: read("kdd99", "add-remove")[0], 3, (1,)),
    *((f"contingency, {name}", lambda name=name: contingency(name), 3, (0.1, 1, 10)) for name in CONTINGENCY),
]


def cases(quick: bool) -> list[Case]:
    """Public tables take part where they are."""
    return QUICK if quick else [*FULL, *(PUBLIC if DATA.is_dir() else [])]
