"""Google's DP-Auditorium, another reading of the same promise, finds nothing in counts, releases and threshold tests.

It is on no package index. `RETICENT_DP_AUDITORIUM` names folders that hold its source and `etils` (docs/evidence.md):
its histogram tester needs no more. The other testers need TensorFlow and Vizier, and are not run.
"""

from __future__ import annotations

import importlib
import os
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reticent.auditing.cases import DOMAIN, neighbours_alone
from reticent.kernel.accounting import Budget
from reticent.kernel.mechanisms.base import AboveThreshold, Laplace, Sensitivity
from reticent.kernel.table import Table
from reticent.queries.linear import Count
from reticent.queries.predicate import col
from reticent.queries.workload import marginals
from reticent.releases.adaptive import Adaptive
from reticent.releases.release import release

SOURCE = "RETICENT_DP_AUDITORIUM"
FAILURE = 1e-6
"""Of a verdict on a right mechanism."""
COUNTS, EPOCHS, RELEASES = 200_000, 20_000, 2_000
CLAIMED = 0.1
"""Of a release. So few runs show only a loss far above a claim: smaller ones are for `reticent audit`."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(SOURCE not in os.environ, reason=f"{SOURCE} names no folder with dp_auditorium"),
]


@pytest.fixture(scope="module")
def auditorium() -> ModuleType:
    """Its histogram tester, loaded without the packages around it, which import everything."""
    folders = os.environ[SOURCE].split(os.pathsep)
    sys.path += folders
    root = next(Path(folder) / "dp_auditorium" for folder in folders if (Path(folder) / "dp_auditorium").is_dir())
    for name in ("dp_auditorium", "dp_auditorium.testers", "dp_auditorium.configs"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    return importlib.import_module("dp_auditorium.testers.histogram_tester")


def rejects(auditorium: ModuleType, samples: tuple[np.ndarray, np.ndarray], epsilon: float, bins: int) -> bool:
    """Whether it finds that the runs on either table lose more than epsilon, in one direction or the other."""
    configs = importlib.import_module("dp_auditorium.configs.property_tester_config")
    properties = importlib.import_module("dp_auditorium.configs.privacy_property")
    config = configs.HistogramPropertyTesterConfig(
        test_discrete_mechanism=False,
        histogram_size=bins,
        min_value=float(min(map(np.min, samples))),
        max_value=float(max(map(np.max, samples))),
        approximate_dp=properties.ApproximateDp(epsilon=epsilon, delta=0.0),
    )
    tester: Any = auditorium.HistogramTester(config)
    return any(
        tester.reject_property(tester.estimate_lower_bound(first, second, FAILURE / 2))
        for first, second in (samples, samples[::-1])
    )


def test_counts(auditorium: ModuleType) -> None:
    noise = Laplace(1)
    epsilon = float(noise.price(Sensitivity.scalar()).pure or 0)
    runs = [noise.release(np.full(COUNTS, count, dtype=np.int64)) for count in (0, 1)]
    samples = np.clip(runs[0], -5, 6).astype(float), np.clip(runs[1], -5, 6).astype(float)
    assert not rejects(auditorium, samples, epsilon, 12)
    assert rejects(auditorium, samples, epsilon / 2, 12)


def epochs(mechanism: AboveThreshold, sensitivity: int, moved: int) -> tuple[np.ndarray, np.ndarray]:
    """One test in each of many epochs: as far below the threshold on one table as above it on the other."""
    runs = ([mechanism.open(0, sensitivity).exceeds(value) for _ in range(EPOCHS)] for value in (-moved, moved))
    first, second = (np.array(run, dtype=float) for run in runs)
    return first, second


def test_threshold_tests(auditorium: ModuleType) -> None:
    mechanism = AboveThreshold(threshold_epsilon=Fraction(1, 6), query_epsilon=Fraction(1, 3))
    epsilon = float(mechanism.price().pure or 0)
    assert not rejects(auditorium, epochs(mechanism, 60, 30), epsilon, 2)
    assert rejects(auditorium, epochs(mechanism, 1, 30), epsilon, 2), "opened for a sixtieth of what its values move"


def cells(budget: Budget) -> tuple[np.ndarray, np.ndarray]:
    """One cell of many releases on each of two neighbours, of which one has all records in it and one all but one."""
    question, workload = Count((col("a") == 0) & (col("b") == 0)), marginals(DOMAIN, 1)

    def once(table: Table) -> float:
        return float(release(table, workload, budget, algorithm=Adaptive()).ask(question).value)

    first, second = (np.array([once(table) for _ in range(RELEASES)]) for table in neighbours_alone(2))
    return first, second


def test_cells_of_releases(auditorium: ModuleType) -> None:
    assert not rejects(auditorium, cells(Budget(epsilon=CLAIMED)), CLAIMED, 4)
    assert rejects(auditorium, cells(Budget(epsilon=40.0)), CLAIMED, 4), "a release of 400 times the claim shows"
