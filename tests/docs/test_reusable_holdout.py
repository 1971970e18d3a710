"""The example does what its text says: raw answers are overfitted, a session's are not."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "reusable_holdout.py"
NOISE = 0.06
"""Five standard deviations of an accuracy on 2,000 fresh records."""


def test_raw_answers_are_overfitted_and_the_session_is_not() -> None:
    found = runpy.run_path(str(EXAMPLE))["run"]()
    assert found["raw answers: claimed accuracy"] > 0.6
    assert abs(found["raw answers: accuracy on fresh records"] - 0.5) < NOISE
    gap = found["session: claimed accuracy"] - found["session: accuracy on fresh records"]
    assert abs(gap) < found["session: largest expected bias of any one answer"] + NOISE
    assert found["session: claimed accuracy"] < found["raw answers: claimed accuracy"] - 0.03
