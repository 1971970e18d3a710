"""Synthetic numbers are spread inside their bins so that each bin keeps its mean (spec answers 5)."""

from __future__ import annotations

import numpy as np

from reticent.domain import Numeric

STEEPEST = 600.0
"""Of the exponential tilt within a bin: its mean then lies 1/600 of the width from an end."""
_HALVINGS = 60


def drawn_numbers(
    attribute: Numeric,
    codes: np.ndarray,
    generator: np.random.Generator,
    *,
    means: np.ndarray | None = None,
    independent: bool = False,
) -> np.ndarray:
    """A number for each code, as `Numeric.read` would give it: whole for integers and dates, and of the same bin.

    Numbers of a bin follow the density of largest entropy with the bin's mean, an exponential between its ends. Their
    own mean is that mean, as far as numbers within the bin allow; independent numbers have it on average only. Without
    `means` a bin's mean is its middle. Codes without a bin get NaN.
    """
    numbers = np.full(len(codes), np.nan)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(attribute.known + 1))
    for code in range(attribute.known):
        rows = order[starts[code] : starts[code + 1]]
        if len(rows):
            wanted = None if means is None else float(means[code])
            numbers[rows] = _bin(attribute, code, len(rows), wanted, generator, independent)
    return numbers


def _bin(
    attribute: Numeric, code: int, rows: int, mean: float | None, generator: np.random.Generator, independent: bool
) -> np.ndarray:
    low, high = attribute.bin(code)
    whole = attribute.whole or attribute.kind == "datetime"
    last = high if attribute.whole or code == attribute.known - 1 else _below(high, whole)
    if not last > low:
        return np.full(rows, low)
    # From the lower end, where floating point has digits to spare.
    length, mean = last - low, (high - low) / 2 if mean is None else min(max(mean, low), last) - low
    # A whole number stands for all that round to it.
    start, stop = (-0.5, length + 0.5) if whole else (0.0, high - low)
    places = generator.random(rows) if independent else (np.arange(rows) + generator.random(rows)) / rows
    found = start + (stop - start) * _tilted(places, (mean - start) / (stop - start))
    found = np.clip(found, 0.0, length)
    found = found if independent else _with_mean(found, mean, length)
    if whole:
        found = np.rint(found)
    if not independent:
        found = _summing_to(found, round(mean * rows), length, generator) if whole else found
        generator.shuffle(found)
    return np.minimum(low + found, last)


def _below(end: float, whole: bool) -> float:
    """The largest number of a bin whose upper end belongs to the next one."""
    return end - 1 if whole else float(np.nextafter(end, -np.inf))


def _tilted(places: np.ndarray, mean: float) -> np.ndarray:
    """Quantiles of the exponential density on [0, 1] with this mean."""
    slope = _slope(mean)
    return places if slope == 0 else np.log1p(places * np.expm1(slope)) / slope


def _slope(mean: float) -> float:
    """The tilt that gives a mean: 1/(1 - exp(-t)) - 1/t grows from 0 to 1 with t."""
    low, high = -STEEPEST, STEEPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # Close to zero the formula loses all digits, and its series does not.
        reached = 0.5 + middle / 12 if abs(middle) < 1e-3 else -1 / np.expm1(-middle) - 1 / middle
        low, high = (middle, high) if reached < mean else (low, middle)
    return (low + high) / 2


def _with_mean(found: np.ndarray, mean: float, length: float) -> np.ndarray:
    """Drawn toward the end that the mean lacks, which leaves no bin."""
    reached = float(found.mean())
    if mean < reached:
        return found * (mean / reached)
    return length - (length - found) * ((length - mean) / (length - reached)) if mean > reached else found


def _summing_to(found: np.ndarray, total: int, length: float, generator: np.random.Generator) -> np.ndarray:
    """Some whole numbers moved by one, within the bin, so that the sum comes out."""
    missing = total - round(found.sum())
    while missing:
        sign = 1 if missing > 0 else -1
        moved = generator.permutation(np.flatnonzero(found < length if sign > 0 else found > 0))[: abs(missing)]
        if not len(moved):
            break
        found[moved] += sign
        missing -= sign * len(moved)
    return found
