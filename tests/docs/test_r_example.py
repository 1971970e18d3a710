"""R's survey package reads our rows with replicate weights: the block of the guide runs as printed."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.docs.runnable import ROOT, blocks, run

PAGE = ROOT / "docs" / "guide" / "population.md"


def rscript() -> str:
    """The interpreter; skips where it, or its survey package, is not installed."""
    found = shutil.which("Rscript")
    if found is None:
        pytest.skip("Rscript is not installed (Debian: r-base-core and r-cran-survey)")
    if subprocess.run([found, "-e", "library(survey)"], capture_output=True, check=False).returncode:
        pytest.skip("R has no survey package (Debian: r-cran-survey)")
    return found


@pytest.mark.slow
def test_the_survey_package_finds_our_standard_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = rscript()
    runpy.run_path(str(ROOT / "examples" / "tiny_census.py"))["write"](tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    shown = []
    for block in blocks(PAGE):
        if block.language == "python":
            run(block, PAGE, namespace)
        elif block.language == "r":
            Path("example.R").write_text(block.text)
            done = subprocess.run([interpreter, "example.R"], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            shown.append(done.stdout)
    (printed,) = shown
    mean, error = (float(text) for text in re.findall(r"^age +([\d.]+) +([\d.]+)$", printed, re.MULTILINE)[0])

    def mean_age(rows: Any, weights: np.ndarray) -> float:
        ages = rows["age"].to_pandas().to_numpy(dtype=float)
        known = np.isfinite(ages)
        return float(np.average(ages[known], weights=weights[known]))

    own, own_error = namespace["with_standard_error"](mean_age, namespace["rows"])
    assert mean == pytest.approx(own, rel=1e-3)
    assert error == pytest.approx(own_error, rel=1e-2)
    for name in ("(Intercept)", "age", "sex"):
        assert re.search(rf"^{re.escape(name)}\w* +-?[\d.e-]+ +[\d.e-]+ ", printed, re.MULTILINE), printed
