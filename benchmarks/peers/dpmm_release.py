"""Runs dpmm's own AIM or MST, draws as many rows as were given, and scores them; prints one line of JSON.

Usage: dpmm_release.py aim|mst ROWS.csv SIZES.json SETS.json EPSILON DELTA CPU_SECONDS
Rows hold codes. Runs in an environment of its own with dpmm installed; nothing of it is part of Reticent.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scoring import limited, scores

DEGREE = 3


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
    print(scores(rows, drawn, sets, sizes, seconds, cpu))


if __name__ == "__main__":
    main()
