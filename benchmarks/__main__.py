"""`python -m benchmarks [--quick] [NAME ...]`: runs each suite in its own process and records what it saw."""

from __future__ import annotations

import argparse
import json
import multiprocessing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.site.quoted import requote

from benchmarks import comparison_page, scale_page
from benchmarks.render import write_validation
from benchmarks.suite import measured, outcome_of

SUITES = {
    "machine": "The machine's limits",
    "release": "Offline release on real tables",
    "wide": "Offline release of wide tables",
    "nist": "NIST's score of synthetic rows",
    "contingency": "Contingency tables of the MWEM paper",
    "grid": "The default release beside linear mechanisms",
    "plan_constants": "Constants of the plan and of smooth priors",
    "sensitivity": "Other values of the constants of plans and fits",
    "convergence": "Published cells beside their own measurements",
    "downstream": "Models trained on synthetic rows",
    "ranges": "Ranges of ordered attributes beside trees and wavelets",
    "population": "Intervals for the population",
    "pgm": "Offline release beside private-pgm",
    "sweep": "Offline release by epsilon, n, k and |U|",
    "smartnoise": "Offline release beside SmartNoise",
    "dpsynth": "Offline release beside dpsynth",
    "dpmm": "Offline release beside dpmm",
    "online": "Online sessions beside Laplace, Gaussian and PMW",
    "answers": "What answers claim, against the tables",
    "streams": "Streams of questions beside Gaussian noise with a cache",
    "convex": "Fifty regressions under one budget",
    "fits": "Four hundred adaptive regressions under one budget",
    "audit_constants": "Constants of audits that losses order",
    "dualquery": "DualQuery",
    "mixed": "Mixed linear queries of two real tables",
    "adversary": "Paper engines against an adversary who knows the rows",
    "wide_engines": "Paper engines on wide tables, killed and reopened",
    "rates": "Rates of the papers",
    "loss_rates": "Rates for convex losses",
    "minimax": "The minimax theorem at work",
    "table": "Table: building it and its true marginals",
    "scale": "Growth with rows, attributes, workload, universe and analysts",
    "engines": "The same rows in DuckDB, PostgreSQL and Spark",
    "dense": "Dense hypothesis",
    "factored": "Factored hypothesis beside mbi",
    "ledger": "Ledger: durable payment",
    "service": "HTTP service",
    "door": "PostgreSQL door",
    "clone": "Clean clone",
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which suites: {', '.join(SUITES)}; default all")
    parser.add_argument("--quick", action="store_true", help="small sizes, under five minutes in all")
    parser.add_argument("--render", action="store_true", help="measure nothing; write the figures of all pages again")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(SUITES)
    if unknown:
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; choose from {', '.join(SUITES)}")
    file = RESULTS / ("quick.json" if arguments.quick else "full.json")
    failed = [] if arguments.render else [n for n in arguments.names or SUITES if not _ran(n, arguments.quick, file)]
    if not arguments.quick:
        record = json.loads(file.read_text())
        write_validation(record, SUITES)
        scale_page.write(record)
        comparison_page.write(record)
        requote(record)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _ran(name: str, quick: bool, file: Path) -> bool:
    """Whether a suite came to its end; recorded either way."""
    print(f"\n== {SUITES[name]} ({name}) ==", flush=True)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=measured, args=(name, quick, queue))
    process.start()
    outcome = outcome_of(process, queue)
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    _keep(file, name, {"title": SUITES[name], "at": stamp, **outcome})
    print(f"-- {name}: {outcome['seconds']:.0f} s")
    return "failed" not in outcome


def _keep(file: Path, name: str, entry: dict[str, Any]) -> None:
    """Reads the file again, so that suites measured meanwhile by another process stay."""
    record = json.loads(file.read_text()) if file.exists() else {}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(dict(sorted((record | {name: entry}).items())), indent=1, default=str) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
