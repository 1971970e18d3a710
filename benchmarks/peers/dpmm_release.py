"""Runs dpmm's own AIM or MST, draws as many rows as were given, and scores them; prints one line of JSON.

Usage: dpmm_release.py aim|mst ROWS.csv SIZES.json SETS.json EPSILON DELTA CPU_SECONDS
Rows hold codes. Runs in an environment of its own with dpmm installed; nothing of it is part of Reticent.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

DEGREE = 3


def limited(seconds: int) -> None:
    """End in one line once this much processor time is used."""

    def stop(*_: object) -> None:
        print(f"did not finish in {seconds} s of processor time", file=sys.stderr)
        os._exit(1)

    signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, 2 * seconds))


def model_of(name: str, epsilon: float, delta: float, sizes: dict[str, int]):
    """AIM is told to care for triples; all else is the peer's default, on one processor."""
    if name == "aim":
        from dpmm.models.aim import AIMGM

        model = AIMGM(epsilon=epsilon, delta=delta, degree=DEGREE, n_jobs=1)
    else:
        from dpmm.models.mst import MSTGM

        model = MSTGM(epsilon=epsilon, delta=delta, n_jobs=1)
    model.set_domain(sizes)
    model.set_random_state(np.random.RandomState(0))
    return model


def marginal(rows: pd.DataFrame, names: list[str], sizes: dict[str, int]) -> np.ndarray:
    shape = tuple(sizes[name] for name in names)
    cells = np.ravel_multi_index([rows[name].to_numpy() for name in names], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))) / len(rows)


def main() -> None:
    name, file, sizes_file, sets_file, epsilon, delta, limit = sys.argv[1:8]
    limited(int(limit))
    sizes, sets = json.loads(Path(sizes_file).read_text()), json.loads(Path(sets_file).read_text())
    rows = pd.read_csv(file)[list(sizes)]
    with contextlib.redirect_stdout(io.StringIO()):
        model = model_of(name, float(epsilon), float(delta), sizes)
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(rows)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        drawn = model.generate(n_records=len(rows)).astype(int)
    distances = [np.abs(marginal(rows, s, sizes) - marginal(drawn, s, sizes)) for s in sets]
    print(
        json.dumps(
            {
                "rows tv": float(np.mean([d.sum() / 2 for d in distances])),
                "rows max": float(max(d.max() for d in distances)),
                "seconds": seconds,
                "cpu": cpu,
                "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )
    )


if __name__ == "__main__":
    main()
