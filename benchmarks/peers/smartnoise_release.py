"""Runs SmartNoise's own MWEM or AIM and scores the fitted distribution on all triples; prints one line of JSON.

Usage: smartnoise_release.py mwem|aim ROWS.csv EPSILON DELTA
Rows hold codes. Both are scored in SmartNoise's own encoding, true marginals against the fitted ones, as ours are.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import resource
import sys
import time

import numpy as np
import pandas as pd

WIDTH = 3


def mwem(rows: pd.DataFrame, epsilon: float):
    """The fitted and the true histogram, and the seconds of the fit."""
    from snsynth.mwem import MWEMSynthesizer

    synthesizer = MWEMSynthesizer(epsilon=epsilon, marginal_width=WIDTH)
    start = time.perf_counter()
    synthesizer.fit(rows, categorical_columns=list(rows.columns), preprocessor_eps=0.0)
    seconds = time.perf_counter() - start
    guess, truth, _ = synthesizer.synthetic_histograms[0]
    axes = range(truth.ndim)

    def pair(names: tuple[int, ...]):
        dropped = tuple(a for a in axes if a not in names)
        return truth.sum(axis=dropped), guess.sum(axis=dropped)

    return [pair(s) for s in itertools.combinations(axes, WIDTH)], seconds


def aim(rows: pd.DataFrame, epsilon: float, delta: float):
    """Pairs of true and fitted marginals, and the seconds of the fit."""
    from mbi import Dataset
    from snsynth.aim import AIMSynthesizer

    synthesizer = AIMSynthesizer(epsilon=epsilon, delta=delta, degree=WIDTH)
    start = time.perf_counter()
    synthesizer.fit(rows, categorical_columns=list(rows.columns), preprocessor_eps=0.0)
    seconds = time.perf_counter() - start
    model = synthesizer.synthesizer
    coded = pd.DataFrame(synthesizer._transformer.transform(rows), columns=list(model.domain))
    data = Dataset(coded, domain=model.domain)
    pairs = [
        (np.asarray(data.project(s).datavector()), np.asarray(model.project(s).datavector()))
        for s in itertools.combinations(model.domain, WIDTH)
    ]
    return pairs, seconds


def main() -> None:
    name, file, epsilon, delta = sys.argv[1:5]
    rows = pd.read_csv(file)
    with contextlib.redirect_stdout(io.StringIO()):
        pairs, seconds = mwem(rows, float(epsilon)) if name == "mwem" else aim(rows, float(epsilon), float(delta))
    differences = [np.abs(truth / truth.sum() - guess / guess.sum()) for truth, guess in pairs]
    print(
        json.dumps(
            {
                "tv": float(np.mean([d.sum() / 2 for d in differences])),
                "max": float(max(d.max() for d in differences)),
                "seconds": seconds,
                "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )
    )


if __name__ == "__main__":
    main()
