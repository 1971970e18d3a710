"""DualQuery on a real table, beside the figures of a public implementation (benchmarks/dualquery.py has them all)."""

from __future__ import annotations

import pytest
from benchmarks.dualquery import REDUCED7_MAX, REDUCED7_TV, reduced7


@pytest.mark.shared
def test_the_tuned_plan_beats_the_public_implementation(shared_data):
    found = reduced7(1)["tuned"]
    assert found["max"] <= REDUCED7_MAX
    assert found["tv"] <= 0.75 * REDUCED7_TV
