"""Offsets and clipped sums move as little as they declare, and each planted bug turns its check red."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.privacy.numeric_checks import CHECKS

from reticent.domain import Domain, numeric
from reticent.kernel import numeric_sums
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.table import exact_counts
from reticent.queries.groups import Groups
from reticent.sources import Table

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("name", CHECKS)
def test_sums_of_numbers_keep(name: str) -> None:
    CHECKS[name]()


def unclipped(attribute: numeric.Numeric, values: list) -> np.ndarray:
    """Positions of values beyond the edges beyond their bin."""
    low, width = numeric.spans(attribute)
    codes = attribute.encode(values)
    known = [value is not None and code < attribute.known for value, code in zip(values, codes, strict=True)]
    return np.array(
        [
            int(((float(value) - low[code]) / width[code]) * numeric.STEPS) if fits else numeric.HALF
            for value, code, fits in zip(values, codes, known, strict=True)
        ],
        dtype=np.int64,
    )


MUTATIONS: list[tuple[str, Callable[[Patch], None], str]] = [
    (
        "offsets from the lower end of a bin",
        lambda patch: patch.setattr(numeric_sums, "HALF", 0),
        "numbers under add-remove",
    ),
    (
        "half the sensitivity of a replaced record",
        lambda patch: patch.setattr(numeric_sums, "of_offsets", lambda _: Sensitivity(Fraction(1, 2), Fraction(1, 4))),
        "numbers under replace-one",
    ),
    (
        "values beyond the edges are not clipped",
        lambda patch: patch.setattr(numeric, "positions", unclipped),
        "numbers under add-remove",
    ),
    (
        "sums counted from the lower end of the range",
        lambda patch: patch.setattr(
            numeric_sums.ClippedSums,
            "_units",
            lambda self, units=numeric_sums.ClippedSums._units: (
                units(self)[0] + numeric_sums.RANGE // 2,
                units(self)[1],
            ),
        ),
        "numbers under add-remove",
    ),
]


@pytest.mark.parametrize(("plant", "check"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_a_planted_bug_turns_its_check_red(plant: Callable[[Patch], None], check: str, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check]()


def test_a_range_whose_middle_doubles_cannot_hold_is_clipped() -> None:
    """Its middle is rounded to its lower end: the other end lies a whole range beyond it, not a half."""
    domain = Domain(x=numeric.Numeric(edges=[1e16, 1e16 + 2]))
    table = Table.of(pa.table({"x": [1e16 + 2]}), domain, neighbours="add-remove", numbers=True)
    sums = numeric_sums.ClippedSums(Groups((), None, "x"), domain)
    moved = int(sums.evaluate(exact_counts(table), 1))
    assert 0 < moved <= sums.sensitivity("add-remove").l1 * sums.resolution(1)
