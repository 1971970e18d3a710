"""dpmm's own AIM and MST beside ours: same rows, neighbours (add-remove), budget, triples; rows scored on both sides.

Its environment is made on first use (`benchmarks/peers/environment.py`).
"""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

import reticent as rt
from benchmarks import nist
from benchmarks.beside import beside
from benchmarks.fresh import WARM, first_release, how_timed
from benchmarks.peers.environment import PeerAbsent, told
from benchmarks.release import DATA, DELTA, TABLES, ours, triples
from benchmarks.shown import Shown

EPSILON = 1.0
CPU_SECONDS = 600
"""What a peer may compute; clocks say little on a shared machine."""
CLOCK_SECONDS = 2400
CASES = (
    ("mst", "adult_reduced7"),
    ("aim", "adult_reduced7"),
    ("mst", "adult_orig"),
    ("mst", "nist"),
    ("mst", "plants"),
)
"""AIM is run where it can be expected to finish."""
RUNS = 3


def codes_of(name: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Rows as codes, and how many codes each column has; NIST's without the rules, which dpmm states differently."""
    if name == "nist":
        domain, people = nist.domain_of(()), nist.people()
        labels = {column: [str(v) for v in domain[column].labels] for column in nist.COLUMNS[1:]}
        coded = {column: people[column].map({v: i for i, v in enumerate(labels[column])}) for column in labels}
        return pd.DataFrame({"AGEP": people["AGEP"], **coded}), {c: domain[c].size for c in nist.COLUMNS}
    folder, rows, file = TABLES[name]
    domain = rt.Domain.read(DATA / folder / file)
    sizes = {column: domain[column].size for column in domain.names}
    return pd.read_csv(DATA / folder / rows)[list(sizes)], sizes


def case(algorithm: str, name: str) -> dict[str, Any]:
    """Ours, and the peer beside it where it ran."""
    rows, sizes = codes_of(name)
    domain = rt.Domain(sizes)
    table = rt.Table.of(rows, domain, neighbours="add-remove")
    workload = rt.marginals(domain, 3).on(domain) if len(sizes) < 8 else triples(domain, 64, 0)
    row: dict[str, Any] = {"peer": f"dpmm {algorithm.upper()}", "table": name}
    runs = [ours(table, workload, EPSILON) for _ in range(RUNS)]
    scores = [rt.evaluate(run["release"].synthesize(len(rows)), table, workload) for run in runs]
    row["our mean TV"] = statistics.median(s.mean_total_variation or 0.0 for s in scores)
    row["our largest error"] = statistics.median(s.max_error for s in scores)
    with tempfile.TemporaryDirectory() as folder:
        file, sizes_file, sets = (Path(folder) / n for n in ("rows.csv", "sizes.json", "sets.json"))
        rows.to_csv(file, index=False)
        sizes_file.write_text(json.dumps(sizes))
        sets.write_text(json.dumps([list(s) for s in workload.marginals]))
        first = first_release(file, sizes, workload.marginals, EPSILON, DELTA, 1)
        row |= {"our seconds": first["seconds"], WARM: statistics.median(run["seconds"] for run in runs)}
        arguments = [algorithm, file, sizes_file, sets, EPSILON, DELTA, CPU_SECONDS]
        try:
            theirs = told("dpmm", "dpmm_release.py", arguments, CLOCK_SECONDS)
        except PeerAbsent as reason:
            return row | {"skipped": str(reason)}
    row |= {"its mean TV": theirs["rows tv"], "its largest error": theirs["rows max"], "its seconds": theirs["seconds"]}
    row["TV ratio"] = row["our mean TV"] / theirs["rows tv"]
    return row | {"time ratio": max(first["seconds"] / theirs["seconds"], first["cpu"] / theirs["cpu"])}


def run(quick: bool) -> dict[str, Any]:
    """Each case: its error and time, ours, and the ratios."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    found = []
    for algorithm, name in itertools.islice(CASES, 1 if quick else None):
        found.append(case(algorithm, name))
        print(found[-1], flush=True)
    return {"cases": found}


def present(found: dict[str, Any]) -> list[Shown]:
    columns = {"peer": "", "table": "", "its mean TV": "", "our mean TV": "", "its largest error": ""}
    columns |= {"our largest error": "", "its seconds": "s", "our seconds": "s", WARM: "s"}
    return [
        (
            f"Epsilon 1, delta {DELTA:g}, add-remove; all 35 triples of adult_reduced7, 64 random ones of the others."
            " As many synthetic rows as the table has are scored, theirs and ours; one run of each peer, medians of"
            f" {RUNS} for ours. The time ratio is the larger of clock and processor time; a peer is given"
            f" {CPU_SECONDS} s of it."
        ),
        how_timed(found["cases"]),
        *beside("dpmm", "dpmm", found["cases"], _name, columns),
    ]


def _name(row: dict[str, Any]) -> str:
    return f"{row['peer']}, {row['table']}"
