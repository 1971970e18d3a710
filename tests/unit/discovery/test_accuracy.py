"""Rank errors of discovered edges on skewed public columns: at most 4% in nine of ten runs, at epsilon .05 each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import reticent as rt

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
RECORDS, EDGES, RUNS, ALLOWED = 20_000, 7, 40, 0.04
"""Of 10 runs two beyond 4% would fail a column, of 40 it takes five: far less a matter of chance, at the same mark."""


def columns() -> dict[str, np.ndarray]:
    adult = pd.read_csv(DATA / "adult" / "adult_uci_train.data.gz", header=None, skipinitialspace=True)
    nist = pd.read_csv(DATA / "nist" / "national2019.csv.gz", low_memory=False)
    rand = pd.read_csv(DATA / "cm" / "randhie.csv.gz")
    histograms = pd.read_csv(DATA / "dpbench1d" / "dpbench1d.csv.gz")
    rng = np.random.default_rng(0)
    found = {
        "capital-gain": adult[10],
        "capital-loss": adult[11],
        "fnlwgt": adult[2],
        "hours": adult[12],
        "PINCP": nist["PINCP"],
        "POVPIP": nist["POVPIP"],
        "WGTP": nist["WGTP"],
        "mdvis": rand["mdvis"],
        "fmde": rand["fmde"],
        "NETTRACE": pd.Series(rng.choice(4096, RECORDS, p=histograms["NETTRACE"] / histograms["NETTRACE"].sum())),
    }
    numbers = {name: pd.to_numeric(each, errors="coerce").dropna().to_numpy(float) for name, each in found.items()}
    return {name: rng.choice(each, RECORDS, replace=len(each) < RECORDS) for name, each in numbers.items()}


def rank_error(values: np.ndarray, edges: np.ndarray) -> float:
    """The largest distance, over the targets, to [#{< x}, #{<= x}] of the best edge."""
    ordered = np.sort(values)
    below, upto = (np.searchsorted(ordered, edges, side) for side in ("left", "right"))
    targets = np.arange(1, EDGES + 1) / (EDGES + 1) * len(values)
    distance = np.maximum(0, np.maximum(below - targets[:, None], targets[:, None] - upto))
    return float(distance.min(axis=1).max()) / len(values)


@pytest.mark.slow
@pytest.mark.shared
def test_edges_are_within_four_percent_in_nine_of_ten_runs(tmp_path: Path) -> None:
    held = columns()
    frame = pd.DataFrame(held)
    budget = rt.Budget(epsilon=0.05 * len(held))
    errors: dict[str, list[float]] = {name: [] for name in held}
    for run in range(RUNS):
        kinds = dict.fromkeys(held, "number")
        found = rt.discover(frame, kinds, budget, ledger=tmp_path / str(run), edges=EDGES, neighbours="add-remove")
        for name, values in held.items():
            errors[name].append(rank_error(values, np.array(found[name].edges, dtype=float)))
    for name, listed in errors.items():
        assert np.mean(np.array(listed) <= ALLOWED) >= 0.9, f"{name}: {sorted(listed)}"
