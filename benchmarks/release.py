"""Offline release on real tables beside private-pgm's own mechanisms, scored alike in one run.

Peers run from an external checkout: RETICENT_PGM names it, RETICENT_PEERS a folder with an environment `pgm`
(jax 0.4.35).
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import reticent as rt
from reticent.domain import Domain
from reticent.hypotheses.dense import DenseHypothesis
from reticent.queries.workload import Workload

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DELTA = 1e-9
TABLES = {
    "adult_reduced7": ("adult", "adult_reduced7.csv.gz", "adult_reduced7-domain.json"),
    "adult_orig": ("adult", "adult_orig.csv.gz", "adult_orig-domain.json"),
    "adult_32bin": ("adult", "adult_32bin.csv.gz", "adult_32bin-domain.json"),
    "kdd99": ("kdd99", "kdd99_binned.csv.gz", "kdd99-domain.json"),
    "plants": ("plants", "plants.csv.gz", "plants-domain.json"),
}
MARKS = {
    ("add-remove", 1.0): (0.022, 0.003),
    ("add-remove", 0.1): (0.085, 0.016),
    ("replace-one", 1.0): (0.027, 0.0035),
    ("replace-one", 0.1): (0.103, 0.021),
}
LONG = ("kdd99", "plants")
"""Tables that take a minute or two: one workload each."""
PEER_SECONDS = 1800


def read(name: str, neighbours: str = "replace-one") -> tuple[rt.Table, Path, Path]:
    folder, rows, domain = TABLES[name]
    files = DATA / folder / rows, DATA / folder / domain
    return rt.Table.read(files[0], Domain.read(files[1]), neighbours=neighbours), *files


def triples(domain: Domain, count: int, seed: int) -> Workload:
    """`count` random sets of three attributes."""
    every = list(itertools.combinations(domain.names, 3))
    chosen = np.random.default_rng(seed).choice(len(every), size=min(count, len(every)), replace=False)
    return Workload([rt.marginal(*every[i]) for i in sorted(chosen)], domain=domain)


def ours(table: rt.Table, workload: Workload, epsilon: float) -> dict[str, Any]:
    start = time.perf_counter()
    release = rt.release(table, workload, rt.Budget(epsilon=epsilon, delta=DELTA))
    seconds = time.perf_counter() - start
    found = rt.evaluate(release, table, workload)
    return {
        "tv": found.mean_total_variation,
        "max": found.max_error,
        "certified": release.certificates[0].bound,
        "seconds": seconds,
        "release": release,
    }


def product_baseline(table: rt.Table, workload: Workload) -> float:
    """Mean total variation of the product of exact one-way marginals; not private."""
    total = table._source.total()
    singles = {n: table._source.marginal((n,)) / total for n in table.domain.names}
    distances = []
    for names, truth in zip(workload.marginals, table._source.marginals(workload.marginals), strict=True):
        guess = np.ones(())
        for name in names:
            guess = np.multiply.outer(guess, singles[name])
        distances.append(float(np.abs(truth / total - guess).sum()) / 2)
    return statistics.mean(distances)


def small_table(runs: int) -> list[dict[str, Any]]:
    rows = []
    for (neighbours, epsilon), (tv_mark, max_mark) in MARKS.items():
        table, _, _ = read("adult_reduced7", neighbours)
        workload = rt.marginals(table.domain, 3)
        found = [ours(table, workload, epsilon) for _ in range(runs)]
        middle = {key: statistics.median(f[key] for f in found) for key in ("tv", "max", "certified", "seconds")}
        rows_tv = rt.evaluate(found[0]["release"].synthesize(48_842), table, workload).mean_total_variation or 0.0
        rows.append(
            {
                "neighbours": neighbours,
                "epsilon": epsilon,
                "mean TV": middle["tv"],
                "mark TV": tv_mark,
                "max error": middle["max"],
                "mark max": max_mark,
                "certified": middle["certified"],
                "seconds": middle["seconds"],
                "rows' TV over hypothesis'": rows_tv / found[0]["tv"],
                "met": middle["tv"] <= tv_mark and middle["max"] <= max_mark,
            }
        )
        print(rows[-1], flush=True)
    return rows


def large_table(name: str, runs: int) -> dict[str, Any]:
    table, _, _ = read(name)
    found, base = [], []
    for seed in range(runs):
        workload = triples(table.domain, 64, seed)
        found.append(ours(table, workload, 1.0))
        base.append(product_baseline(table, workload))
    middle = {key: statistics.median(f[key] for f in found) for key in ("tv", "max", "certified", "seconds")}
    row = {
        "table": name,
        "attributes": len(table.domain),
        "mean TV": middle["tv"],
        "product of exact 1-ways": statistics.median(base),
        "share of it": middle["tv"] / statistics.median(base),
        "max error": middle["max"],
        "certified": middle["certified"],
        "seconds": middle["seconds"],
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "met": middle["tv"] <= 0.5 * statistics.median(base),
    }
    print(row, flush=True)
    return row


def contingency(runs: int) -> list[dict[str, Any]]:
    """Relative entropy of the table to the release, all 3-way marginals, as in the MWEM paper's protocol."""
    rows = []
    for name in ("mildew", "czech", "rochdale"):
        frame = pd.read_csv(DATA / "contingency" / f"{name}.csv")
        columns = [c for c in frame.columns if c != "count"]
        domain = Domain(dict.fromkeys(columns, 2))
        people = frame.loc[frame.index.repeat(frame["count"]), columns]
        table = rt.Table.of(people, domain, name=name)
        truth = (frame["count"] / frame["count"].sum()).to_numpy()
        for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0):
            entropies = []
            for _ in range(runs):
                release = rt.release(table, rt.marginals(domain, 3), rt.Budget(epsilon=epsilon))
                hypothesis = release.hypothesis
                assert isinstance(hypothesis, DenseHypothesis)
                guess = hypothesis.probabilities().ravel()
                index = np.ravel_multi_index(tuple(frame[c] for c in columns), domain.shape)
                held = truth > 0
                entropies.append(float((truth[held] * np.log(truth[held] / guess[index][held])).sum()))
            rows.append({"table": name, "epsilon (pure)": epsilon, "relative entropy": statistics.median(entropies)})
    return rows


def peer(algorithm: str, epsilon: float) -> dict[str, Any]:
    """A peer's fitted model on adult_reduced7, add-remove, in its own environment; or why it did not run."""
    checkout, folder = os.environ.get("RETICENT_PGM"), os.environ.get("RETICENT_PEERS")
    label = {"peer": f"private-pgm {algorithm}", "epsilon": epsilon}
    if not checkout or not folder:
        return label | {"skipped": "set RETICENT_PGM to a checkout and RETICENT_PEERS to its environments"}
    table, rows, domain = read("adult_reduced7", "add-remove")
    with tempfile.TemporaryDirectory() as scratch:
        plain, sets = Path(scratch) / "rows.csv", Path(scratch) / "sets.json"
        with gzip.open(rows) as packed, plain.open("wb") as out:
            shutil.copyfileobj(packed, out)
        sets.write_text(json.dumps([list(s) for s in itertools.combinations(table.domain.names, 3)]))
        python = Path(folder) / "pgm" / "bin" / "python"
        script = Path(__file__).parent / "peers" / "pgm_release.py"
        command = [python, "-W", "ignore", script, checkout, algorithm, plain, domain, sets, str(epsilon), str(DELTA)]
        try:
            done = subprocess.run(
                [str(c) for c in command], capture_output=True, text=True, timeout=PEER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return label | {"skipped": f"did not finish in {PEER_SECONDS} s"}
    if done.returncode:
        return label | {"skipped": done.stderr.strip().splitlines()[-1][:120]}
    return label | json.loads(done.stdout.strip().splitlines()[-1])


def compared(own: list[dict[str, Any]], quick: bool) -> list[dict[str, Any]]:
    """Ours over each peer that ran: error and time, add-remove."""
    rows = []
    for algorithm, epsilon in [("mwem+pgm", 1.0), ("aim", 1.0), ("mwem+pgm", 0.1), ("aim", 0.1)][: 1 if quick else 4]:
        found = peer(algorithm, epsilon)
        mine = next(r for r in own if r["neighbours"] == "add-remove" and r["epsilon"] == epsilon)
        if "tv" in found:
            found |= {"our TV over theirs": mine["mean TV"] / found["tv"]}
            found |= {"our seconds over theirs": mine["seconds"] / found["seconds"]}
        rows.append(found)
        print(found, flush=True)
    return rows


def run(quick: bool) -> dict[str, Any]:
    """Marks of issue 4; medians of several runs with fresh noise."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    own = small_table(1 if quick else 5)
    names = ("adult_orig",) if quick else ("adult_orig", "adult_32bin", "kdd99", "plants")
    return {
        "adult_reduced7, all 35 triples": own,
        "peers on adult_reduced7, add-remove": [] if quick else compared(own, quick),
        "64 random triples, epsilon 1, replace-one": [
            large_table(name, 1 if quick or name in LONG else 3) for name in names
        ],
        "contingency tables": contingency(1 if quick else 5),
    }
