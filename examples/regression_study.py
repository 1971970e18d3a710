"""Many regressions under one budget, on a real public table: the RAND Health Insurance Experiment, from statsmodels."""

from __future__ import annotations

import itertools

import reticent as rt
from reticent.cli.demo import domain, rows

LABEL = "doctor_visits"


def main() -> None:
    table = rt.Table.of(rows(), domain(), name="visits")
    with rt.Session.open(None, table, rt.Budget(epsilon=1.0, delta=1e-9)) as session:
        before = session.spent
        features = [name for name in table.domain if name != LABEL]
        models = {}
        for pair in itertools.combinations(features, 2):
            models[pair] = session.minimize(rt.Squared(features=list(pair), label=LABEL))
        assert session.spent == before, "fits on the public distribution are free"
    print(f"{len(models)} linear models, nothing spent on them\n")
    for pair in (("free_care", "chronic_diseases"), ("free_care", "health")):
        print(" + ".join(pair))
        for name, value in models[pair].coefficients.items():
            print(f"  {name:<28}{value:8.3f}")


if __name__ == "__main__":
    main()
