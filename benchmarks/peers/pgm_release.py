"""Runs private-pgm's own mechanisms from an external checkout and scores the fitted model; prints one line of JSON.

Usage: pgm_release.py CHECKOUT aim|mwem+pgm ROWS.csv DOMAIN.json SETS.json EPSILON DELTA
Runs in an environment of its own with mbi installed; nothing of it is part of Reticent.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import resource
import sys
import time
from pathlib import Path


def load(checkout: Path, name: str):
    """A mechanism script of the checkout as a module."""
    sys.path[:0] = [str(checkout / "src"), str(checkout / "mechanisms")]
    spec = importlib.util.spec_from_file_location(name.replace("+", "_"), checkout / "mechanisms" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fitted(module, name: str, data, sets, epsilon: float, delta: float):
    """The model the mechanism would draw rows from: its row generator hands the model over instead."""
    import mbi

    kept = []
    for kind in {type(None), getattr(mbi, "MarkovRandomField", None)} - {type(None), None}:
        kind.synthetic_data = lambda self, *_, **__: kept.append(self) or self
    with contextlib.redirect_stdout(io.StringIO()):
        if name == "aim":
            module.AIM(epsilon, delta).run(data, [(s, 1.0) for s in sets])
        else:
            module.mwem_pgm(data, epsilon, delta, workload=sets, rounds=len(sets) if len(sets) < 40 else None)
    return kept[-1]


def main() -> None:
    checkout, name, rows, domain, sets_file, epsilon, delta = sys.argv[1:8]
    module = load(Path(checkout), name)
    import numpy as np
    from mbi import Dataset

    sets = [tuple(s) for s in json.loads(Path(sets_file).read_text())]
    data = Dataset.load(rows, domain)
    start = time.perf_counter()
    model = fitted(module, name, data, sets, float(epsilon), float(delta))
    seconds = time.perf_counter() - start
    records = data.project(sets[0]).datavector().sum()
    distances, largest = [], 0.0
    for s in sets:
        guess = np.asarray(model.project(s).datavector(), dtype=float)
        difference = np.abs(np.asarray(data.project(s).datavector(), dtype=float) / records - guess / guess.sum())
        distances.append(difference.sum() / 2)
        largest = max(largest, difference.max())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"tv": float(np.mean(distances)), "max": float(largest), "seconds": seconds, "GiB": peak}))


if __name__ == "__main__":
    main()
