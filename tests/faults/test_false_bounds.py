"""No bound is smaller than the noise of its own audit: an audit that reads a negative error has read noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.kernel.mechanisms.base import Noise, restore
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.guarantees import AuditReading
from reticent.knowledge.tails import reach
from reticent.knowledge.typical import TypicalError

DOMAIN = rt.Domain({"a": 3, "b": 4})
CELLS = np.array([[400, 0, 0, 100], [0, 300, 0, 0], [0, 0, 150, 50]])
BUDGET = rt.Budget(rho=0.5)
LEAST = 0.05


@pytest.fixture(autouse=True)
def audits_read_far_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single numbers, which audits are, stray by twenty standard deviations."""
    original = Noise.release

    def release(noise: Noise, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        if counts.size > 1:
            return original(noise, counts, grid)
        return counts - round(20 * noise.sd * grid)

    monkeypatch.setattr(Noise, "release", release)


def table() -> rt.Table:
    codes = np.repeat(np.argwhere(CELLS >= 0), CELLS.ravel(), axis=0)
    return rt.Table.of(pa.table({"a": codes[:, 0], "b": codes[:, 1]}), DOMAIN, neighbours="replace-one")


def own_noise(statement: Certificate | TypicalError | AuditReading, records: float) -> float:
    """The least that a bound can honestly be, whatever share of the failure probability it has."""
    return reach(restore(statement.noise), LEAST) / records  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("workload", ["marginals", "ranges"])
def test_releases(workload: str) -> None:
    asked = rt.marginals(DOMAIN, 2) if workload == "marginals" else rt.ranges("b", domain=DOMAIN)
    release = rt.release(table(), asked, BUDGET)
    for certificate in release.certificates:
        assert certificate.bound >= own_noise(certificate, CELLS.sum())
    for guarantee in release.guarantees:
        assert guarantee.reading is not None
        assert guarantee.bound >= own_noise(guarantee.reading, CELLS.sum())
    assert release.certificates or release.guarantees


def test_sessions() -> None:
    with rt.Session.open(None, table(), BUDGET, warm_start=0.5) as session:
        session.certify("cells", order=1, amount=0.01)
        stated = [*session.certificates, *session.typical]
        assert stated
        for statement in stated:
            assert statement.bound >= own_noise(statement, CELLS.sum())
