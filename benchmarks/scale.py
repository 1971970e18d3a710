"""Large tables: a Table against DuckDB's own GROUP BY, counting on demand against one query per set, and growth."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.generated import domain_of, generated, plain_group_by
from benchmarks.growth import (
    COLUMNS,
    alone,
    read,
    timed,
    with_analysts,
    with_attributes,
    with_rows,
    with_universe,
    with_workload,
)
from reticent.sources import Table

BUILD_MOST = 1.5
MEMORY_MOST_GIB = 4.0
ON_DEMAND_LEAST = 5.0
WIDE = 40
_EVERY = 10
"""Of 780 pairs every tenth is asked of DuckDB and the mean taken for all; all would take a quarter of an hour."""


def on_demand(folder: Path, rows: int) -> dict[str, float]:
    """All pairs of many attributes without holding records, against one query per pair (every tenth of them)."""
    domain = domain_of(WIDE)
    pairs = list(itertools.combinations(domain.names, 2))
    with generated(folder, rows, WIDE) as path:
        with Table.read(path, domain, hold=1) as table:
            table._source.marginals(pairs[:3])
            own = timed(lambda: table._source.marginals(pairs))
        each = [timed(lambda pair=pair: plain_group_by(path, pair, domain)) for pair in pairs[::_EVERY]]
    one_by_one = sum(each) / len(each) * len(pairs)
    return {"pairs": len(pairs), "pairs_asked": len(each), "all_seconds": own, "one_by_one_seconds": one_by_one}


def building(folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """Table ready against the plain GROUP BY, alternating in one process, and the memory of a process of its own."""
    domain = domain_of(COLUMNS)
    own, plain = [], []
    with generated(folder, rows, COLUMNS) as path:
        for _ in range(repeats):
            plain.append(timed(lambda: plain_group_by(path, domain.names, domain)))
            own.append(timed(lambda: Table.read(path, domain)))
        peak = alone(read, str(path), COLUMNS)["peak_gib"]
    return {"rows": rows, "read_seconds": min(own), "group_by_seconds": min(plain), "peak_gib": peak}


def run(quick: bool) -> dict[str, Any]:
    """Growth and the marks of large tables; quick: a hundredth of the rows."""
    largest = 10**6 if quick else 10**8
    middle, small = (10**6, 10**5) if quick else (10**7, 10**6)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = building(folder, largest, 2)
        wide = on_demand(folder, middle)
        growth = {
            "rows": with_rows(folder, [10**5, 10**6] if quick else [10**5, 10**6, 10**7, 10**8]),
            "attributes": with_attributes(folder, [5, 25, 100] if quick else [5, 10, 25, 50, 100], small),
            "workload": with_workload(folder, [1, 2, 3] if quick else [1, 2, 3, 4, 5], small),
        }
    growth["universe"] = with_universe([8, 16, 64] if quick else [8, 12, 16, 20, 24, 50, 100])
    growth["analysts"] = with_analysts([1, 10] if quick else [1, 10, 100, 1000])
    ratios = {
        "table over GROUP BY (at most 1.5)": built["read_seconds"] / built["group_by_seconds"],
        "peak GiB over 4 (at most 1)": built["peak_gib"] / MEMORY_MOST_GIB,
        "one query per pair over counting on demand (at least 5)": wide["one_by_one_seconds"] / wide["all_seconds"],
    }
    most, memory, least = ratios.values()
    met = most <= BUILD_MOST and memory <= 1 and least >= ON_DEMAND_LEAST
    return {
        "name": "scale",
        "rows": largest,
        "ratios": ratios,
        "building": built,
        "on_demand": wide,
        "growth": growth,
        "met": met,
    }


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(run("--quick" in sys.argv), indent=2))
