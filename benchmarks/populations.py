"""Populations with a known truth to draw tables from: real tables, taken for populations, and generated ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

import reticent as rt
from benchmarks import nist
from benchmarks.release import read
from reticent.domain import Domain
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.replicates import drawn_table

ADULT = ("marital-status", "race", "sex", "income>50K", "age")
"""Of adult_reduced7: small enough for many populations."""
NIST = ("MSP", "RAC1P", "SEX", "DEYE", "AGEP")
GENERATED = {"group": 5, "area": 4, "sex": 2, "label": 2, "age": 8}
SCALES = (0.7, 0.4, 0.15, 0.08)
"""Standard deviations of generated interactions, by order."""
PRESENT = 0.7
"""Chance of a generated interaction of two or more attributes to be there at all."""


SKEWED = {"kind": 6, "place": 9, "sex": 2, "label": 2, "income": 6}
STEEP = (1.5, 0.8, 0.3)
"""Of skewed populations: some codes are rare, and most attributes depend on each other."""


@dataclass(frozen=True, eq=False)
class Truth:
    """A population; the last attribute is numeric, `label` is 0 or 1, `groups` are those that means are asked for."""

    domain: Domain
    cells: np.ndarray
    records: int
    label: str
    groups: tuple[str, ...]
    features: tuple[str, str]
    """One of two values, and one of many."""

    @property
    def distribution(self) -> DenseHypothesis:
        return DenseHypothesis(self.domain, self.cells)

    def sample(self, generator: np.random.Generator, records: int | None = None) -> tuple[DenseHypothesis, rt.Table]:
        """A simple random sample, as a distribution and as a table."""
        records = records or self.records
        drawn = drawn_table(self.distribution, records, generator)
        counts = np.rint(drawn.marginal(self.domain.names) * records).astype(int)
        rows = np.repeat(np.argwhere(counts >= 0), counts.ravel(), axis=0)
        columns = dict(zip(self.domain.names, rows.T, strict=True))
        return DenseHypothesis(self.domain, counts), rt.Table.of(
            pa.table(columns), self.domain, neighbours="add-remove"
        )


def adult() -> Truth:
    """The rows of adult_reduced7."""
    from pyarrow import csv

    table, file, _ = read("adult_reduced7")
    rows = csv.read_csv(pa.input_stream(str(file), compression="gzip"))
    sizes = {name: table.domain[name].size for name in ADULT}
    codes = [rows[name].to_numpy() for name in ADULT]
    return _counted(sizes, codes, "income>50K", ("sex", "race", "marital-status"), ("sex", "marital-status"))


def american() -> Truth:
    """The rows of national2019, ages by decade: whether somebody sees badly is the label."""
    people, domain = nist.people(), nist.domain_of(())
    known = {name: np.array([str(v) for v in domain[name].labels]) for name in NIST[:-1]}
    codes = [np.argmax(people[name].to_numpy()[:, None] == labels, axis=1) for name, labels in known.items()]
    sizes = {name: len(labels) for name, labels in known.items()} | {"AGEP": 10}
    codes.append(people["AGEP"].to_numpy() // 10)
    return _counted(sizes, codes, "DEYE", ("SEX", "RAC1P", "MSP"), ("SEX", "MSP"))


def generated(seed: int, records: int) -> Truth:
    """A log-linear model of random order, two to four, with some of its interactions."""
    generator, domain = np.random.default_rng([seed, 22]), Domain(GENERATED)
    cells = _drawn(domain, SCALES[: int(generator.integers(2, 5))], generator)
    return Truth(domain, cells, records, "label", ("sex", "area", "group"), ("sex", "group"))


def skewed(seed: int, records: int) -> Truth:
    """Another shape, with rare codes and strong dependence."""
    domain = Domain(SKEWED)
    cells = _drawn(domain, STEEP, np.random.default_rng([seed, 23]))
    return Truth(domain, cells, records, "label", ("sex", "place", "kind"), ("sex", "kind"))


def _drawn(domain: Domain, scales: tuple[float, ...], generator: np.random.Generator) -> np.ndarray:
    logits = np.zeros(domain.shape)
    for order, scale in enumerate(scales, start=1):
        for axes in combinations(range(len(domain)), order):
            if order > 1 and generator.random() > PRESENT:
                continue
            shape = [size if axis in axes else 1 for axis, size in enumerate(domain.shape)]
            logits = logits + generator.normal(0.0, scale, shape)
    cells = np.exp(logits - logits.max())
    return cells / cells.sum()


def _counted(sizes: dict[str, int], codes: list[Any], label: str, groups: Any, features: Any) -> Truth:
    domain = Domain(sizes)
    cells = np.zeros(domain.shape)
    np.add.at(cells, tuple(codes), 1)
    return Truth(domain, cells, int(cells.sum()), label, groups, features)
