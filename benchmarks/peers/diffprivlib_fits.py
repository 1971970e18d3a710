"""Fits diffprivlib's own regressions, one by one, each with its share of the budget; prints one line of JSON.

Usage: diffprivlib_fits.py FITS.json EPSILON DELTA
FITS.json lists {"kind": "squared"|"logistic", "file": NPZ with x in [-1, 1] and y, "norm": the largest norm of x}. The
bounds given are the public ones; nothing is taken from the rows. Shares come from diffprivlib's own accountant.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from diffprivlib import BudgetAccountant
from diffprivlib.models import LinearRegression, LogisticRegression


def fit(kind: str, x: np.ndarray, y: np.ndarray, norm: float, epsilon: float) -> list[float]:
    """The intercept, then the coefficients."""
    if kind == "squared":
        model = LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1))
    else:
        model = LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=1000)
    model.fit(x, y)
    return [float(np.ravel(model.intercept_)[0]), *np.ravel(model.coef_).tolist()]


def main() -> None:
    listed = json.loads(Path(sys.argv[1]).read_text())
    epsilon, _ = BudgetAccountant(float(sys.argv[2]), float(sys.argv[3])).remaining(len(listed))
    start, models = time.perf_counter(), []
    for one in listed:
        arrays = np.load(one["file"])
        models.append(fit(one["kind"], arrays["x"], arrays["y"], one["norm"], epsilon))
    print(json.dumps({"models": models, "seconds": time.perf_counter() - start, "epsilon": epsilon}))


if __name__ == "__main__":
    main()
