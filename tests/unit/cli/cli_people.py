"""What the tests of the command line share: a tiny table on disk, and what a call showed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RECORDS = 2000
DOMAIN = """
[age]
edges = [17, 25, 45, 65, 90]
whole = true
other = false

[sex]
values = ["Female", "Male"]
other = false

[smoker]
values = ["no", "yes"]
nullable = true
"""


def write_people(folder: Path) -> None:
    random = np.random.default_rng(4)
    lines = ["age,sex,smoker"]
    for _ in range(RECORDS):
        smoker = random.choice(["no", "yes", ""], p=[0.7, 0.25, 0.05])
        lines.append(f"{random.integers(17, 90)},{random.choice(['Female', 'Male'])},{smoker}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.toml").write_text(DOMAIN)


@dataclass(frozen=True)
class Called:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)
