"""Runs private-pgm's own mechanisms from an external checkout and scores the fitted model; prints one line of JSON.

Usage: pgm_release.py CHECKOUT aim|mwem+pgm ROWS.csv DOMAIN.json SETS.json EPSILON DELTA CPU_SECONDS
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

from scoring import limited


def load(checkout: Path, name: str):
    """A mechanism script of the checkout as a module."""
    sys.path[:0] = [str(checkout / "src"), str(checkout / "mechanisms")]
    spec = importlib.util.spec_from_file_location(name.replace("+", "_"), checkout / "mechanisms" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CACHED_SETS = 40
"""With more, compiled code piles up from round to round until the compiler runs out of memory."""


def forgetful(module) -> None:
    """Drop compiled code before each round's selection; nothing else changes."""
    import jax

    select = module.worst_approximated

    def after_forgetting(*arguments, **options):
        jax.clear_caches()
        return select(*arguments, **options)

    module.worst_approximated = after_forgetting


def fitted(module, name: str, data, sets, epsilon: float, delta: float):
    """The model the mechanism would draw rows from, and how it draws: its generator hands the model over instead."""
    import mbi

    kept, draw = [], mbi.MarkovRandomField.synthetic_data
    mbi.MarkovRandomField.synthetic_data = lambda self, *_, **__: kept.append(self) or self
    with contextlib.redirect_stdout(io.StringIO()):
        if name == "aim":
            module.AIM(epsilon, delta).run(data, [(s, 1.0) for s in sets])
        else:
            if len(sets) > CACHED_SETS:
                forgetful(module)
            module.mwem_pgm(data, epsilon, delta, workload=sets)
    return kept[-1], draw


def main() -> None:
    checkout, name, rows, domain, sets_file, epsilon, delta, limit = sys.argv[1:9]
    limited(int(limit))
    module = load(Path(checkout), name)
    import numpy as np
    from mbi import Dataset

    sets = [tuple(s) for s in json.loads(Path(sets_file).read_text())]
    data = Dataset.load(rows, domain)
    start, cpu = time.perf_counter(), time.process_time()
    model, draw = fitted(module, name, data, sets, float(epsilon), float(delta))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    records = data.project(sets[0]).datavector().sum()
    drawn = draw(model, rows=int(records))
    of_model, of_rows, largest = [], [], 0.0
    for s in sets:
        truth = np.asarray(data.project(s).datavector(), dtype=float) / records
        for source, distances in ((model, of_model), (drawn, of_rows)):
            guess = np.asarray(source.project(s).datavector(), dtype=float)
            difference = np.abs(truth - guess / guess.sum())
            distances.append(difference.sum() / 2)
            largest = max(largest, difference.max()) if source is model else largest
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = {"tv": float(np.mean(of_model)), "max": float(largest), "seconds": seconds, "cpu": cpu, "GiB": peak}
    found["rows tv"] = float(np.mean(of_rows))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
