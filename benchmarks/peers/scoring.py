"""What the scripts of peers share: a limit on processor time, and the score of drawn rows.

Imported by scripts that run in a peer's own environment, so it needs numpy only.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence

import numpy as np

Columns = Mapping[str, np.ndarray]


def limited(seconds: int) -> None:
    """End in one line once this much processor time is used."""

    def stop(*_: object) -> None:
        print(f"did not finish in {seconds} s of processor time", file=sys.stderr)
        os._exit(1)

    signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, 2 * seconds))


def marginal(rows: Columns, names: Sequence[str], sizes: Mapping[str, int]) -> np.ndarray:
    """Shares of the cells of one set of columns; `rows` hold codes."""
    shape = tuple(sizes[name] for name in names)
    cells = np.ravel_multi_index([np.asarray(rows[name]) for name in names], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))) / len(cells)


def scores(
    rows: Columns, drawn: Columns, sets: Sequence[Sequence[str]], sizes: Mapping[str, int], seconds: float, cpu: float
) -> str:
    """One line of JSON: error of the drawn rows over all sets, and what the fit took."""
    distances = [np.abs(marginal(rows, s, sizes) - marginal(drawn, s, sizes)) for s in sets]
    found = {
        "rows tv": float(np.mean([d.sum() / 2 for d in distances])),
        "rows max": float(max(d.max() for d in distances)),
        "seconds": seconds,
        "cpu": cpu,
        "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    return json.dumps(found)
