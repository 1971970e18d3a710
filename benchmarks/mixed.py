"""Paper algorithms on 500 mixed linear queries of two real tables: does every bound hold, and what is it worth?

A third each are boxes of up to three attributes, disjunctions of two tests, and means of codes or bins. Each run is a
release of its own; a run misses where any of its 500 answers lies further from the truth than it states.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow.csv
from scipy.stats import binom

import reticent as rt
from benchmarks import nist
from benchmarks.dualquery_tables import SHARED
from benchmarks.pieces import Pieces
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.base import Linear
from reticent.queries.linear import Range

QUERIES, RUNS, FAILURE = 500, 50, 0.05
CHANCE = 0.01
"""Bounds that fail as often as they may are above a claim's limit so rarely."""
BUDGET = rt.Budget(rho=20)
"""Far more than anybody should spend: with less the papers' constants say nothing about tables of this size."""
TEXTBOOK_ERROR = {"kdd99": 0.2, "nist": 0.1}
"""Updates move a universe of 2^117 cells by the error itself: half the error takes three times the rounds."""
ALGORITHMS: dict[str, Callable[[str], Any]] = {
    "MWEM": lambda _: rt.MWEM(rounds=60),
    "TextbookPMW": lambda place: rt.TextbookPMW(error=TEXTBOOK_ERROR[place], failure=FAILURE),
    "DualQuery": lambda _: rt.DualQuery(rounds=60, draws=10, step=0.3, replies=4),
}
ROUNDING = 1e-9
INTRODUCTION = """500 queries of each table: boxes of up to three attributes, disjunctions of two tests, and means. Each
of 50 runs is a new release. *Missed* counts runs in which any stated bound fails: that of an answer, of the closing
audit (`MWEM`, `DualQuery`) or of the theorem (`TextbookPMW`). Bounds are of confidence 0.95, so one run in twenty may
miss. The budget (rho 20) is far beyond use: with less the theorem of `TextbookPMW` says nothing about tables of this
size, and a run is refused."""


def tables() -> dict[str, Counted]:
    """kdd99 with its 41 features and NIST's ten columns of persons, both as codes."""
    sizes = json.loads((SHARED / "kdd99" / "kdd99-domain.json").read_text())
    features = pyarrow.csv.read_csv(SHARED / "kdd99" / "kdd99_binned.csv.gz").drop_columns(["attack"])
    connections = np.stack([features[name].to_numpy() for name in features.column_names])
    domain = nist.domain_of(())
    people = nist.people()
    persons = np.stack([domain[name].encode(people[name].to_numpy()) for name in domain.names])
    return {
        "kdd99": Counted.of({name: sizes[name] for name in features.column_names}, connections),
        "nist": Counted.of(dict(zip(domain.names, domain.shape, strict=True)), persons),
    }


@dataclass(frozen=True)
class Counted:
    """Records as columns of codes, and the same as a table."""

    table: Table
    codes: dict[str, np.ndarray]

    @classmethod
    def of(cls, sizes: dict[str, int], codes: np.ndarray) -> Counted:
        domain, records = rt.Domain(sizes), codes.shape[1]
        columns = dict(zip(domain.names, codes, strict=True))
        source = Records.of_codes(domain, columns, np.ones(records, dtype=np.int64))
        return cls(Table(source, domain, records=records), columns)

    def truth(self, asked: Mixed) -> float:
        """The exact share: the benchmark's own look at a public table."""
        return float(asked.values(self.codes).mean())


class Mixed(NamedTuple):
    """A linear query, and its value for each record."""

    query: Linear
    values: Callable[[Mapping[str, np.ndarray]], np.ndarray]


def mixed(domain: rt.Domain, count: int, seed: int = 5) -> list[Mixed]:
    """Boxes, disjunctions and means in equal parts, no two alike."""
    generator = np.random.default_rng(seed)
    kinds = itertools.cycle((_box, _either, _mean))
    found: dict[Linear, Mixed] = {}
    while len(found) < count:
        one = next(kinds)(domain, generator)
        found.setdefault(one.query, one)
    return list(found.values())


def _names(domain: rt.Domain, generator: np.random.Generator, count: int) -> list[str]:
    return [str(name) for name in generator.choice(domain.names, count, replace=False)]


def _box(domain: rt.Domain, generator: np.random.Generator) -> Mixed:
    ends = {}
    for name in _names(domain, generator, int(generator.integers(1, 4))):
        low, high = sorted(map(int, generator.integers(0, domain[name].size, 2)))
        ends[name] = (low, high)

    def inside(codes: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.prod([(codes[name] >= low) & (codes[name] <= high) for name, (low, high) in ends.items()], axis=0)

    return Mixed(Range(ends), inside)


def _either(domain: rt.Domain, generator: np.random.Generator) -> Mixed:
    (one, other) = _names(domain, generator, 2)
    code, most = (int(generator.integers(0, domain[name].size)) for name in (one, other))
    query = rt.count((rt.col(one) == code) | (rt.col(other) <= most))
    return Mixed(query, lambda codes: ((codes[one] == code) | (codes[other] <= most)).astype(float))


def _mean(domain: rt.Domain, generator: np.random.Generator) -> Mixed:
    """Of a code scaled to [0, 1], among the records of one value of another attribute; others count 0."""
    (one, other) = _names(domain, generator, 2)
    code = int(generator.integers(0, domain[other].size))
    values = np.zeros((domain[one].size, domain[other].size))
    values[:, code] = np.arange(len(values)) / max(1, len(values) - 1)
    return Mixed(rt.linear(one, other, values=values), lambda codes: values[codes[one], codes[other]])


def one_run(counted: Counted, asked: list[Mixed], truths: np.ndarray, place: str, name: str) -> dict[str, float]:
    """A release of its own: its largest error, what it states, and whether all of that holds."""
    start = time.process_time()
    workload = rt.Workload([one.query for one in asked])
    release = rt.release(counted.table, workload, BUDGET, algorithm=ALGORITHMS[name](place), progress=False)
    answers = [release.answer(one.query) for one in asked]
    errors = np.abs([answer.value for answer in answers] - truths)
    bounds = np.array([np.inf if answer.error is None else answer.error for answer in answers])
    stated = [guarantee.error for guarantee in release.guarantees]
    return {
        "error": float(errors.max()),
        "bound": min(stated, default=np.inf),
        "certified": float(np.isfinite(bounds).mean()),
        "missed": float((errors > bounds + ROUNDING).any() or any(errors.max() > b + ROUNDING for b in stated)),
        "seconds": time.process_time() - start,
    }


def measured(place: str, name: str, runs: list[dict[str, float]], queries: int) -> dict[str, Any]:
    """All runs of one algorithm on one table."""
    return {
        "table": place, "algorithm": name, "queries": queries, "runs": len(runs),
        "missed": sum(one["missed"] for one in runs),
        "runs that state a bound": sum(one["bound"] < np.inf for one in runs),
        "answers with a bound": min(one["certified"] for one in runs),
        "median bound": float(np.median([one["bound"] for one in runs])),
        "median of largest errors": float(np.median([one["error"] for one in runs])),
        "seconds of a run": float(np.median([one["seconds"] for one in runs])),
    }  # fmt: skip


def run(quick: bool) -> dict[str, Any]:
    """Every algorithm on every table, in new releases; runs that ended before the suite was stopped count."""
    rows, pieces = [], Pieces("mixed", quick)
    for place, counted in tables().items():
        asked = mixed(counted.table.domain, 30 if quick else QUERIES)
        truths = np.array([counted.truth(one) for one in asked])
        for name in ALGORITHMS:
            release = partial(one_run, counted, asked, truths, place, name)
            runs = [pieces.of(f"{place} {name} {turn}", release) for turn in range(1 if quick else RUNS)]
            rows.append(measured(place, name, runs, len(asked)))
    pieces.end()
    return {"rows": rows}


def present(found: dict[str, Any]) -> list[Shown]:
    """Misses held against what chance explains, and what the bounds are worth."""
    rows = found["rows"]
    text = "{algorithm} on {table}: runs of {runs} with a bound that fails"
    claims = [
        Claim(text.format(**row), row["missed"], at_most=int(binom.isf(CHANCE, row["runs"], FAILURE))) for row in rows
    ]
    columns = dict.fromkeys(rows[0], "") | {"seconds of a run": "s"}
    series = {
        what: [(f"{row['algorithm']}, {row['table']}", row[what]) for row in rows]
        for what in ("median of largest errors", "median bound")
    }
    title, unit = "Largest error and its bound, medians of 50 runs", "share of the table"
    plot = Plot("bounds", title, "", unit, series, expected="Every error below its bound.")
    return [INTRODUCTION, *claims, plot, Grid("Each algorithm and table", columns, rows)]
