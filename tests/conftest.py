"""What every test may lean on: the public tables beside the project, or a clear reason for their absence."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine must fail no test: examples have no limit by the clock.
settings.register_profile("no clock", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")

# Shells start background jobs with Ctrl-C ignored; tests that send it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real public tables; where it is absent the test says so, in CI it must be there."""
    if not SHARED.is_dir():
        if os.environ.get("CI") and os.environ.get("RETICENT_NEEDS_SHARED"):
            pytest.fail("CI must have ../shared/data beside the project")
        pytest.skip("the public tables of ../shared/data are not on this machine")
    return SHARED
