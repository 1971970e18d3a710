"""Writes census.parquet and census.toml: 20,000 invented persons and what may be said about them in public."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PERSONS = 20_000
DOMAIN = """\
[age]
edges = [17, 25, 35, 45, 55, 65, 90]
whole = true
other = false

[sex]
values = ["Female", "Male"]
other = false

[smoker]
values = ["no", "yes"]
other = false

[education]
values = ["basic", "school", "college", "higher"]
other = false

[income]
edges = [0, 10000, 20000, 30000, 40000, 60000, 100000]
other = false
"""


def rows(persons: int = PERSONS) -> pa.Table:
    """Invented with a fixed seed: younger people smoke more, income grows with age and education."""
    generator = np.random.default_rng(7)
    age = generator.integers(17, 91, persons)
    education = generator.choice(4, persons, p=[0.2, 0.4, 0.25, 0.15])
    smokes = generator.random(persons) < 0.15 + 0.1 * (age < 45)
    income = generator.lognormal(10, 0.45, persons) + 180 * (age - 17) + 4000 * education
    return pa.table(
        {
            "age": age,
            "sex": np.array(["Female", "Male"])[generator.integers(0, 2, persons)],
            "smoker": np.where(smokes, "yes", "no"),
            "education": np.array(["basic", "school", "college", "higher"])[education],
            "income": np.clip(income, 0, 99_999).round(),
        }
    )


def write(folder: Path) -> None:
    pq.write_table(rows(), folder / "census.parquet")
    (folder / "census.toml").write_text(DOMAIN)


if __name__ == "__main__":
    write(Path())
    print(f"census.parquet and census.toml: {PERSONS:,} invented persons, 5 columns")
