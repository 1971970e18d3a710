"""Publish a census table once: a release, synthetic rows, a report, and the custodian's own look at the errors."""

from __future__ import annotations

from pathlib import Path

import tiny_census

import reticent as rt


def main(folder: Path = Path()) -> None:
    tiny_census.write(folder)
    domain = rt.Domain.read(folder / "census.toml")
    table = rt.Table.read(folder / "census.parquet", domain)
    assert table.records is not None, "public under replace-one"
    budget = rt.Budget(epsilon=1.0, delta=1e-9)
    print(rt.plan(records=table.records, domain=domain, budget=budget), end="\n\n")

    workload = rt.marginals(domain, 2) + rt.marginals(domain, 3)
    release = rt.release(table, workload, budget, ledger=folder / "census.ledger")
    print(release)
    release.save(folder / "census.release")
    release.report(folder / "census.html")
    rows = release.synthesize(table.records)
    print(release.ask("SELECT education, COUNT(*) FROM census GROUP BY education"))

    print("\nThe release itself:", rt.evaluate(release, table, workload), sep="\n")
    print("\nSynthetic rows (they add sampling error):", rt.evaluate(rows, table, workload), sep="\n")


if __name__ == "__main__":
    main()
