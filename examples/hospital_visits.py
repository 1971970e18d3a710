"""Many rows for each patient: the person as the unit, with a public and with a private number of patients."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import reticent as rt

PATIENTS = 8_000
WARDS = ["surgery", "medicine", "maternity", "emergency"]
DOMAIN = rt.Domain(
    age=rt.Numeric(edges=[0, 18, 40, 65, 80, 120], whole=True, other=False),
    ward=rt.Categorical(WARDS, other=False),
    nights=rt.Numeric(edges=[0, 1, 3, 7, 14, 60], whole=True, other=False),
)


def visits() -> pa.Table:
    """Invented: a few patients come very often, and they come to the emergency ward."""
    generator = np.random.default_rng(1)
    often = generator.random(PATIENTS) < 0.02
    number = 1 + generator.poisson(np.where(often, 40, 2))
    patient = np.repeat(np.arange(PATIENTS), number)
    usual = generator.choice(4, len(patient), p=[0.4, 0.35, 0.15, 0.1])
    ward = np.where(np.repeat(often, number), 3, usual)
    return pa.table(
        {
            "patient": patient,
            "age": np.repeat(generator.integers(0, 95, PATIENTS), number),
            "ward": np.array(WARDS)[ward],
            "nights": generator.poisson(3, len(patient)),
        }
    )


def main() -> None:
    rows = visits()
    budget = rt.Budget(epsilon=1.0, delta=1e-8)
    question = "SELECT ward, COUNT(*), AVG(nights) FROM visits GROUP BY ward"

    declared = rt.Table.of(rows, DOMAIN, person="patient", records=PATIENTS, name="visits")
    print(f"{declared}: {rows.num_rows:,} rows")
    with rt.Session.open(None, declared, budget) as session:
        result = session.ask(question)
        print(result, end="\n\n")
    persons = sum(row[1] for row in result.rows)
    assert abs(persons - PATIENTS) < 0.05 * PATIENTS, "COUNT(*) counts persons, not rows"

    secret = rt.Table.of(rows, DOMAIN, person="patient", neighbours="add-remove", name="visits")
    print(secret)
    with rt.Session.open(None, secret, budget) as session:
        print(session.ask(question))


if __name__ == "__main__":
    main()
