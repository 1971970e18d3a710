"""Twenty-four yes/no columns: a universe of 2^24 possible records, released through marginals of neighbouring pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import reticent as rt

COLUMNS, PERSONS = 24, 20_000


def answers() -> pa.Table:
    """Invented survey: each answer repeats the one before with probability 0.8."""
    generator = np.random.default_rng(2)
    table = np.empty((PERSONS, COLUMNS), dtype=np.int64)
    table[:, 0] = generator.integers(0, 2, PERSONS)
    for column in range(1, COLUMNS):
        same = generator.random(PERSONS) < 0.8
        table[:, column] = np.where(same, table[:, column - 1], generator.integers(0, 2, PERSONS))
    return pa.table({f"q{column}": table[:, column] for column in range(COLUMNS)})


def main() -> None:
    domain = rt.Domain({f"q{column}": 2 for column in range(COLUMNS)})
    table = rt.Table.of(answers(), domain, name="survey")
    neighbours = rt.Workload([rt.marginal(f"q{c}", f"q{c + 1}") for c in range(COLUMNS - 1)], domain=domain)
    release = rt.release(table, neighbours, rt.Budget(epsilon=1.0, delta=1e-9))
    print(release)
    far = release.answer(rt.count((rt.col("q0") == 1) & (rt.col("q5") == 1)))
    print("q0 and q5, never measured together:", far)
    print(rt.evaluate(release, table, neighbours))


if __name__ == "__main__":
    main()
