"""`python -m benchmarks [--quick] [NAME ...]`: runs each suite in its own process and records what it saw."""

from __future__ import annotations

import argparse
import json
import multiprocessing
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.render import write_validation
from benchmarks.suite import measured, outcome_of

SUITES = {
    "machine": "The machine's limits",
    "table": "Table: building it and its true marginals",
    "ledger": "Ledger: durable payment",
    "dense": "Dense hypothesis",
    "factored": "Factored hypothesis beside mbi",
    "release": "Offline release beside peers",
    "online": "Online sessions beside Laplace, Gaussian and PMW",
    "dualquery": "DualQuery",
    "minimax": "The minimax theorem at work",
    "convex": "Fifty regressions under one budget",
    "rates": "Rates of the papers",
    "service": "HTTP service",
    "scale": "Growth with rows, attributes and workload",
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which suites: {', '.join(SUITES)}; default all")
    parser.add_argument("--quick", action="store_true", help="small sizes, under five minutes in all")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(SUITES)
    if unknown:
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; choose from {', '.join(SUITES)}")
    file = RESULTS / ("quick.json" if arguments.quick else "full.json")
    record = json.loads(file.read_text()) if file.exists() else {}
    context = multiprocessing.get_context("spawn")
    failed = []
    for name in arguments.names or SUITES:
        print(f"\n== {SUITES[name]} ({name}) ==", flush=True)
        queue = context.Queue()
        process = context.Process(target=measured, args=(name, arguments.quick, queue))
        process.start()
        outcome = outcome_of(process, queue)
        stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        record[name] = {"title": SUITES[name], "at": stamp, **outcome}
        failed += [name] if "failed" in outcome else []
        RESULTS.mkdir(exist_ok=True)
        file.write_text(json.dumps(record, indent=1, default=str, sort_keys=True) + "\n")
        print(f"-- {name}: {outcome['seconds']:.0f} s")
    if not arguments.quick:
        write_validation(record)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
