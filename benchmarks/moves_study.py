"""How often records of a support are moved, and after how many steps of a fit: other values of both constants.

Generated tables whose pairs are measured, and supports whose records were drawn from independent columns, which lack
most of what the tables have. Total variation over that of the measured values themselves, and processor seconds.
"""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses import moving
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.loglinear import LogLinear
from reticent.hypotheses.moving import fit_and_move, stratified_support
from reticent.queries.linear import Marginal

SETTINGS = ((0, 100), (1, 100), (2, 100), (4, 100), (2, 25), (2, 50), (2, 200))
"""Moves, and steps between them."""
COPIED = {"hidden column, 8 columns of 12 codes": (8, 12, 0.85), "hidden column, 20 columns of 4 codes": (20, 4, 0.7)}
CHAINS = {"chain, 12 columns of 10 codes": (12, 10, 0.9)}
RECORDS, SUPPORT, NOISE, SEED = 100_000, 1 << 15, 3e-5, 20261118


def moves_study() -> list[dict[str, Any]]:
    """One row for each table, one entry for each setting."""
    kept = moving.MOVES, moving.STEPS_BETWEEN_MOVES
    rows = []
    try:
        for name, (columns, codes, copied) in (COPIED | CHAINS).items():
            domain, measured, truths = _measured(columns, codes, copied, chain=name in CHAINS)
            row: dict[str, Any] = {"table": name}
            for setting in SETTINGS:
                moving.MOVES, moving.STEPS_BETWEEN_MOVES = setting
                row[entry_name(setting)] = _fitted(domain, measured, truths)
            rows.append(row)
    finally:
        moving.MOVES, moving.STEPS_BETWEEN_MOVES = kept
    return rows


def entry_name(setting: tuple[int, int]) -> str:
    return f"{setting[0]} after {setting[1]} steps"


def _measured(
    columns: int, codes: int, copied: float, *, chain: bool
) -> tuple[Domain, list[Measurement], list[np.ndarray]]:
    """All pairs of a table whose columns copy a hidden one, or each the one before it; with noise and without."""
    domain, random = Domain({f"c{i}": codes for i in range(columns)}), np.random.default_rng(SEED)
    source, table = random.integers(0, codes, RECORDS), []
    for _ in range(columns):
        table.append(np.where(random.random(RECORDS) < copied, source, random.integers(0, codes, RECORDS)))
        source = table[-1] if chain else source
    measured, truths = [], []
    for first, second in combinations(range(columns), 2):
        counts = np.bincount(codes * table[first] + table[second], minlength=codes**2)
        truths.append(counts.reshape(codes, codes) / RECORDS)
        noisy = truths[-1] + random.normal(0, NOISE, (codes, codes))
        measured.append(Measurement(Marginal((domain.names[first], domain.names[second])), noisy, NOISE))
    return domain, measured, truths


def _fitted(domain: Domain, measured: list[Measurement], truths: list[np.ndarray]) -> list[float]:
    """Total variation over that of the measured values, and processor seconds."""
    singles = tuple((name,) for name in domain.names)
    model = LogLinear(singles, tuple(np.zeros(domain.shape_of(names)) for names in singles))
    codes = np.random.default_rng(SEED).integers(0, domain.shape, (SUPPORT, len(domain)))
    start = time.process_time()
    held, _ = fit_and_move(stratified_support(domain, codes, np.zeros(SUPPORT)), measured, model, SUPPORT, seed=SEED)
    seconds = time.process_time() - start
    published = held.marginals([domain.canonical(m.query.attributes) for m in measured])
    off = sum(float(np.abs(cells - truth).sum()) for cells, truth in zip(published, truths, strict=True))
    plain = sum(float(np.abs(m.values - truth).sum()) for m, truth in zip(measured, truths, strict=True))
    return [off / plain, seconds]
