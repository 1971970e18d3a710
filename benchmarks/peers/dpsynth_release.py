"""Runs a mechanism of dpsynth from external checkouts, draws as many rows as were given, and scores them.

Usage: dpsynth_release.py DPSYNTH MBI swift|aim|mst ROWS.csv SIZES.json SETS.json EPSILON DELTA CPU_SECONDS
Rows hold codes. Prints one line of JSON. Runs in an environment of its own; nothing of it is part of Reticent.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scoring import limited, scores

LOWEST_RHO = 1e-6


def bracketed() -> None:
    """Start dpsynth's search for its budget above 0, where the released dp_accounting divides by it."""
    import dp_accounting

    bracket = dp_accounting.LowerEndpointAndGuess(LOWEST_RHO, 1.0)
    search = dp_accounting.calibrate_dp_mechanism
    dp_accounting.calibrate_dp_mechanism = functools.partial(search, bracket_interval=bracket)


def mechanism_of(name: str, sets: list[tuple[str, ...]], epsilon: float, delta: float):
    """As its documentation runs it: one-way marginals first, then the mechanism, told the workload if it takes one."""
    from dpsynth import discrete_mechanisms as mechanisms

    bracketed()
    inner = {
        "swift": lambda: mechanisms.SWIFTConfig(workload=sets),
        "aim": lambda: mechanisms.AIMConfig(workload=sets),
        "mst": mechanisms.MSTConfig,
    }[name]()
    return mechanisms.DiscreteConfig(mechanism=inner).calibrate(epsilon=epsilon, delta=delta)


def main() -> None:
    dpsynth, checkout, name, file, sizes_file, sets_file, epsilon, delta, limit = sys.argv[1:10]
    limited(int(limit))
    sys.path[:0] = [dpsynth, str(Path(checkout) / "src")]
    import mbi

    sizes = json.loads(Path(sizes_file).read_text())
    sets = [tuple(s) for s in json.loads(Path(sets_file).read_text())]
    frame = pd.read_csv(file)[list(sizes)]
    rows = {column: frame[column].to_numpy(dtype=np.int64) for column in sizes}
    data = mbi.Dataset(rows, mbi.Domain(tuple(sizes), tuple(sizes.values())))
    with contextlib.redirect_stdout(io.StringIO()):
        mechanism = mechanism_of(name, sets, float(epsilon), float(delta))
        start, cpu = time.perf_counter(), time.process_time()
        result = mechanism(np.random.default_rng(0), data)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    drawn = {column: np.asarray(result.synthetic_data.data[column], dtype=np.int64) for column in sizes}
    print(scores(rows, drawn, sets, sizes, seconds, cpu))


if __name__ == "__main__":
    main()
