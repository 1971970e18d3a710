"""Tables as plain codes for peers that draw rows, and both sides' scores on the same random triples.

Add-remove neighbours; as many synthetic rows as the table has are scored, theirs and ours.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import reticent as rt
from benchmarks import nist
from benchmarks.fresh import WARM, first_release
from benchmarks.peers.environment import PeerAbsent, told
from benchmarks.release import DATA, DELTA, TABLES, ours, triples
from reticent.queries.workload import Workload

EPSILON = 1.0
CLOCK_SECONDS = 2400
RUNS = 3
FEW_COLUMNS = 7
"""So many columns are asked for all their triples, more for 64 random ones."""


@dataclass(frozen=True)
class Coded:
    """Rows as codes, how many codes each column has, and the triples asked."""

    name: str
    rows: pd.DataFrame
    sizes: dict[str, int]
    workload: Workload

    @classmethod
    def read(cls, name: str) -> Coded:
        rows, sizes = codes_of(name)
        domain = rt.Domain(sizes)
        few = len(sizes) <= FEW_COLUMNS
        return cls(name, rows, sizes, rt.marginals(domain, 3).on(domain) if few else triples(domain, 64, 0))

    def write(self, folder: Path) -> list[Path]:
        """Files with rows, sizes and sets of columns, as the peers' scripts read them."""
        files = [folder / name for name in ("rows.csv", "sizes.json", "sets.json")]
        self.rows.to_csv(files[0], index=False)
        files[1].write_text(json.dumps(self.sizes))
        files[2].write_text(json.dumps([list(s) for s in self.workload.marginals]))
        return files


def codes_of(name: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Rows as codes, and how many codes each column has; NIST's without the rules, which peers state differently."""
    if name == "nist":
        domain, people = nist.domain_of(()), nist.people()
        labels = {column: [str(v) for v in domain[column].labels] for column in nist.COLUMNS[1:]}
        coded = {column: people[column].map({v: i for i, v in enumerate(labels[column])}) for column in labels}
        return pd.DataFrame({"AGEP": people["AGEP"], **coded}), {c: domain[c].size for c in nist.COLUMNS}
    folder, rows, file = TABLES[name]
    domain = rt.Domain.read(DATA / folder / file)
    sizes = {column: domain[column].size for column in domain.names}
    return pd.read_csv(DATA / folder / rows)[list(sizes)], sizes


def our_side(coded: Coded) -> dict[str, Any]:
    """Our error on rows, and our seconds: medians of `RUNS`."""
    table = rt.Table.of(coded.rows, rt.Domain(coded.sizes), neighbours="add-remove")
    runs = [ours(table, coded.workload, EPSILON) for _ in range(RUNS)]
    scores = [rt.evaluate(run["release"].synthesize(len(coded.rows)), table, coded.workload) for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        rows = coded.write(Path(folder))[0]
        first = first_release(rows, coded.sizes, coded.workload.marginals, EPSILON, DELTA, 1)
    return {
        "our mean TV": statistics.median(s.mean_total_variation or 0.0 for s in scores),
        "our largest error": statistics.median(s.max_error for s in scores),
        "our seconds": first["seconds"],
        "our processor seconds": first["cpu"],
        WARM: statistics.median(run["seconds"] for run in runs),
    }


def beside_peer(
    coded: Coded, our: dict[str, Any], label: str, environment: str, script: str, arguments: list[Any], limit: int
) -> dict[str, Any]:
    """One row of the page: ours, and the peer's where it ended within `limit` processor seconds."""
    row: dict[str, Any] = {"peer": label, "table": coded.name, **our}
    with tempfile.TemporaryDirectory() as folder:
        files = coded.write(Path(folder))
        try:
            theirs = told(environment, script, [*arguments, *files, EPSILON, DELTA, limit], CLOCK_SECONDS)
        except PeerAbsent as reason:
            return row | {"skipped": str(reason)}
    row |= {"its mean TV": theirs["rows tv"], "its largest error": theirs["rows max"], "its seconds": theirs["seconds"]}
    row["TV ratio"] = our["our mean TV"] / theirs["rows tv"]
    clock, processor = our["our seconds"] / theirs["seconds"], our["our processor seconds"] / theirs["cpu"]
    return row | {"time ratio": max(clock, processor)}
