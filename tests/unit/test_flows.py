"""The files that a question crosses are as many as docs/architecture.md says; a free count stays within its mark."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_FREE = 25
QUOTED = re.compile(
    r"visits: (\d+) for a free count.*?(\d+) for this question when its text is new. Of the (\d+), (\d+) compile and"
    r" evaluate SQL.*?(\d+) belong to the service and\s+(\d+) to the kernel",
    re.DOTALL,
)


def test_the_page_quotes_what_the_script_counts() -> None:
    # In a process of its own: what observes calls stays with every thread that is started later.
    printed = subprocess.run(
        [sys.executable, "-m", "scripts.flows"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    free, paid = (
        [line.strip() for line in part.splitlines() if line.startswith("  ")] for part in printed.split("a paid SQL")
    )
    of = {name: sum(file.startswith(f"{name}/") for file in paid) for name in ("sql", "service", "kernel")}
    quoted = QUOTED.search((ROOT / "docs" / "architecture.md").read_text())
    assert quoted is not None
    assert [int(number) for number in quoted.groups()] == [len(free), len(paid), len(paid), *of.values()]
    assert len(free) <= MOST_FREE
