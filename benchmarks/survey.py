"""Regression on rows with replicate weights: do its intervals cover the coefficients of the population?

By R's svyglm where it is installed, and by the ten lines of Python that docs/guide/population.md prints.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

import reticent as rt
from benchmarks.populations import Truth
from benchmarks.release import DELTA
from reticent.errors import QueryError
from reticent.releases.synthesize import WEIGHT

REPLICATES = 24
NAMES = ("1", "age", "sex", "married")
MARRIED = 2
"""The code of married with a spouse at home."""
STEPS = 25
CONFIDENCE = 0.95
SCRIPT = """
suppressMessages(library(survey))
files <- commandArgs(trailingOnly = TRUE)
for (file in files) {
  rows <- read.csv(file)
  design <- svrepdesign(data = rows, weights = ~weight, repweights = "repwt[0-9]+", type = "bootstrap",
                        scale = 1/REPLICATES, rscales = 1, mse = TRUE, combined.weights = TRUE)
  fit <- svyglm(income ~ age + sex + married, design, family = quasibinomial)
  write.csv(cbind(coef(fit), SE(fit), confint(fit, ddf = REPLICATES - 1)), paste0(file, ".out"))
}
"""


def survey_coverage(truth: Truth, records: int, tables: int) -> dict[str, Any]:
    """Coverage and widths over tables drawn from the population."""
    target, _ = logistic(truth, truth.cells)
    weighed, raw = [], []
    for seed in range(tables):
        try:
            cells, error = weighted_cells(truth, records, seed)
        except QueryError as refusal:
            print(refusal, flush=True)
            continue
        weighed.append(cells)
        raw.append(error)
    if not weighed:
        return {"skipped": "all tables were refused weights"}
    fits, errors = np.array([in_python(truth, cells) for cells in weighed]), np.array(raw)
    found: dict[str, Any] = {"by": "the guide's ten lines of Python (R's survey package is not installed here)"}
    if (by_r := in_r(truth, weighed)) is not None:
        difference = float(np.abs((by_r[:, :, :2] - fits[:, :, :2]) / fits[:, :, 1:2]).max())
        fits, found = by_r, {"by": "R's svyglm", "difference": difference}
    covered = (fits[:, :, 2] <= target) & (target <= fits[:, :, 3])
    widths = np.median(fits[:, :, 1] / errors, axis=0)
    away = np.sqrt(np.mean(np.square((fits[:, :, 0] - target) / errors), axis=0))
    rows = [
        {"coefficient": n, "population": float(t), "covered": float(c), "width over raw": float(w), "error over raw": e}
        for n, t, c, w, e in zip(NAMES, target, covered.mean(axis=0), widths, map(float, away), strict=True)
    ]
    return found | {
        "coefficients": rows,
        "width": float(np.median(fits[:, :, 1] / errors)),
        "error": float(np.sqrt(np.mean(np.square(away)))),
        "tables": len(weighed),
        "refused": tables - len(weighed),
        "records": records,
        "replicates": REPLICATES,
    }


def weighted_cells(truth: Truth, records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a release added up by cell, `[1 + replicates, ...]`; and the standard errors that raw rows have.

    Equal rows are one row with the sum of their weights: no weighted estimate sees a difference, and files stay small.
    """
    sample, table = truth.sample(np.random.default_rng([seed, 5]), records)
    budget = rt.Budget(epsilon=1, delta=DELTA)
    release = rt.release(table, rt.marginals(truth.domain, 3), budget).replicates(REPLICATES, seed=seed)
    rows = release.synthesize(replicates=REPLICATES, seed=seed)
    places = np.ravel_multi_index([rows[name].to_numpy() for name in truth.domain.names], truth.domain.shape)
    columns = [None, *(rows[f"{WEIGHT}{i}"].to_numpy() for i in range(1, REPLICATES + 1))]
    cells = [np.bincount(places, column, truth.cells.size).reshape(truth.domain.shape) for column in columns]
    return np.array(cells), logistic(truth, sample.marginal(truth.domain.names) * records)[1]


def in_python(truth: Truth, cells: np.ndarray) -> np.ndarray:
    """Estimate, standard error and both ends, a row for each coefficient: scale 1/R around the equal weights."""
    from scipy.special import stdtrit

    value, *others = (logistic(truth, each)[0] for each in cells)
    error = np.sqrt(np.mean(np.square(np.array(others) - value), axis=0))
    reach = stdtrit(len(others) - 1, (1 + CONFIDENCE) / 2) * error
    return np.stack([value, error, value - reach, value + reach], axis=1)


def in_r(truth: Truth, weighed: list[np.ndarray]) -> np.ndarray | None:
    """The same by svyglm, for each table; None where R's package is missing."""
    interpreter = shutil.which("Rscript")
    if (
        interpreter is None
        or subprocess.run([interpreter, "-e", "library(survey)"], capture_output=True, check=False).returncode
    ):
        return None
    with tempfile.TemporaryDirectory() as folder:
        files = [str(_written(truth, cells, Path(folder) / f"{i}.csv")) for i, cells in enumerate(weighed)]
        script = Path(folder) / "fit.R"
        script.write_text(SCRIPT.replace("REPLICATES", str(REPLICATES)))
        subprocess.run([interpreter, str(script), *files], check=True)
        return np.array([_read(Path(f"{file}.out")) for file in files])


def _written(truth: Truth, cells: np.ndarray, file: Path) -> Path:
    codes = dict(zip(truth.domain.names, np.indices(truth.domain.shape).reshape(len(truth.domain), -1), strict=True))
    weights = cells.reshape(len(cells), -1)
    there = weights[0] > 0
    married = (codes["marital-status"] == MARRIED).astype(int)
    columns = {"income": codes[truth.label], "age": codes["age"], "sex": codes["sex"], "married": married}
    columns |= {"weight": weights[0]} | {f"{WEIGHT}{i}": each for i, each in enumerate(weights[1:], start=1)}
    arrow_csv.write_csv(pa.table({name: column[there] for name, column in columns.items()}), file)
    return file


def logistic(truth: Truth, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients by Newton's method on counted cells, and their standard errors for independent records."""
    codes = dict(zip(truth.domain.names, np.indices(cells.shape).reshape(cells.ndim, -1), strict=True))
    married = codes["marital-status"] == MARRIED
    features = np.stack([np.ones(cells.size), codes["age"], codes["sex"], married], axis=1).astype(float)
    weights, label = cells.ravel(), codes[truth.label]
    found, curvature = np.zeros(features.shape[1]), np.eye(features.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-features @ found))
        curvature = features.T @ (features * (weights * chance * (1 - chance))[:, None])
        found = found + np.linalg.solve(curvature, features.T @ (weights * (label - chance)))
    return found, np.sqrt(np.diag(np.linalg.inv(curvature)))


def _read(file: Path) -> np.ndarray:
    """Estimate, standard error and both ends, a row for each coefficient."""
    with file.open(newline="") as opened:
        return np.array([[float(cell) for cell in row[1:]] for row in list(csv.reader(opened))[1:]])
