"""R's svyglm on rows with replicate weights: do its intervals cover the coefficients of the population?"""

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

RECORDS, REPLICATES = 20_000, 20
NAMES = ("1", "age", "sex", "married")
MARRIED = 2
"""The code of married with a spouse at home."""
STEPS = 25
SCRIPT = """
suppressMessages(library(survey))
files <- commandArgs(trailingOnly = TRUE)
for (file in files) {
  rows <- read.csv(file)
  rows$one <- 1
  design <- svrepdesign(data = rows, weights = ~one, repweights = "repwt[0-9]+", type = "bootstrap",
                        scale = 1/REPLICATES, rscales = 1, mse = TRUE, combined.weights = TRUE)
  fit <- svyglm(income ~ age + sex + married, design, family = quasibinomial)
  write.csv(cbind(coef(fit), SE(fit), confint(fit, ddf = REPLICATES - 1)), paste0(file, ".out"))
}
"""


def survey_coverage(truth: Truth, tables: int) -> dict[str, Any]:
    """Coverage and widths over tables drawn from the population; a reason where R's package is missing."""
    interpreter = shutil.which("Rscript")
    if (
        interpreter is None
        or subprocess.run([interpreter, "-e", "library(survey)"], capture_output=True, check=False).returncode
    ):
        return {"skipped": "Rscript with its survey package is not installed (Debian: r-cran-survey)"}
    target, _ = logistic(truth, truth.cells)
    files, raw = [], []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(tables):
            file = Path(folder) / f"{seed}.csv"
            try:
                raw.append(_written(truth, seed, file))
            except QueryError as refusal:
                print(refusal, flush=True)
                continue
            files.append(str(file))
        if not files:
            return {"skipped": "all tables were refused weights"}
        script = Path(folder) / "fit.R"
        script.write_text(SCRIPT.replace("REPLICATES", str(REPLICATES)))
        subprocess.run([interpreter, str(script), *files], check=True)
        fits = np.array([_read(Path(f"{file}.out")) for file in files])
    covered = (fits[:, :, 2] <= target) & (target <= fits[:, :, 3])
    widths = np.median(fits[:, :, 1] / np.array(raw), axis=0)
    rows = [
        {"coefficient": name, "population": float(t), "covered": float(c), "width over raw": float(w)}
        for name, t, c, w in zip(NAMES, target, covered.mean(axis=0), widths, strict=True)
    ]
    return {
        "coefficients": rows,
        "width": float(np.median(fits[:, :, 1] / np.array(raw))),
        "tables": len(files),
        "refused": tables - len(files),
        "records": RECORDS,
        "replicates": REPLICATES,
    }


def _written(truth: Truth, seed: int, file: Path) -> np.ndarray:
    """Rows of a release with replicate weights, as a file; returns the standard errors that raw rows have."""
    sample, table = truth.sample(np.random.default_rng([seed, 5]), RECORDS)
    budget = rt.Budget(epsilon=1, delta=DELTA)
    release = rt.release(table, rt.marginals(truth.domain, 3), budget).replicates(REPLICATES, seed=seed)
    rows = release.synthesize(replicates=REPLICATES, seed=seed)
    columns = {
        "income": rows[truth.label],
        "age": rows["age"],
        "sex": rows["sex"],
        "married": pa.array((rows["marital-status"].to_numpy() == MARRIED).astype(int)),
    }
    weights = {name: rows[name] for name in rows.column_names if name.startswith("repwt")}
    arrow_csv.write_csv(pa.table(columns | weights), file)
    return logistic(truth, sample.marginal(truth.domain.names) * RECORDS)[1]


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
