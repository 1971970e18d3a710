"""The factored hypothesis with a structure that changes every round, beside mbi 2.0 (compiling, and warm).

Run: python benchmarks/factored.py [--quick] [--peers DIRECTORY]. The peer lives in its own environment under the
directory (or RETICENT_PEERS), created on first use; without one its columns are skipped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from reticent.domain import Domain
from reticent.errors import DomainError
from reticent.hypotheses.factored import FactoredHypothesis
from reticent.hypotheses.factored_engine import FactoredEngine
from reticent.hypotheses.junction import JunctionTree
from reticent.queries.forms import Product

ADULT_13 = {
    "workclass": 9,
    "education": 16,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "native-country": 42,
    "income>50K": 2,
    "age": 10,
    "capital-gain": 13,
    "capital-loss": 6,
    "hours-per-week": 10,
}
BINARY_100 = {f"b{i}": 2 for i in range(100)}
LIMIT = 2**24
LARGE = 2**18
PEER = "mbi==2.0.0"
ORACLES = ("message_passing_hugin", "message_passing_shafer_shenoy", "message_passing_implicit")
FIRST_TARGET, WARM_TARGET, CHANGE_TARGET, QUERY_TARGET = 50.0, 2.5, 0.100, 100e-6
# (domain, sets, attributes of a set, seed): random structures that pass the size guard
CASES = (
    ("adult13", 10, 3, 0),
    ("adult13", 15, 3, 1),
    ("adult13", 20, 3, 1),
    ("adult13", 20, 3, 7),
    ("adult13", 40, 2, 0),
    ("adult13", 40, 2, 1),
    ("binary100", 20, 3, 0),
    ("binary100", 50, 3, 0),
    ("binary100", 75, 3, 0),
)
QUICK = (1, 3, 7)


def structure(case: tuple[str, int, int, int]) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """Distinct random attribute sets in domain order."""
    which, count, order, seed = case
    domain = ADULT_13 if which == "adult13" else BINARY_100
    generator = np.random.default_rng(seed)
    sets = [tuple(np.sort(generator.choice(len(domain), order, replace=False))) for _ in range(count)]
    return domain, [tuple(list(domain)[i] for i in s) for s in dict.fromkeys(sets)]


def best(call: Callable[[], object], repeats: int = 5) -> float:
    found = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found = min(found, time.perf_counter() - start)
    return found


def own_inference(domain: dict[str, int], sets: list[tuple[str, ...]], seed: int) -> dict:
    """A round from nothing (order, tree, tape, all marginals) and a further one on the same structure."""
    generator = np.random.default_rng(seed)
    factors = [generator.normal(size=[domain[n] for n in s]) for s in sets]

    def anew() -> tuple[JunctionTree, FactoredEngine]:
        tree = JunctionTree(domain, sets, limit=LIMIT)
        engine = FactoredEngine(tree, sets)
        engine.evaluate(factors)
        return tree, engine

    tree, engine = anew()
    marginal = engine.evaluate(factors)[1][0]
    return {
        "log2_cells": tree.log2_cells,
        "first": best(anew),
        "warm": best(lambda: engine.evaluate(factors)),
        "covary": best(lambda: engine.covary(factors)),
        "marginal": marginal.ravel().tolist(),
    }


def own_updates(which: str, seed: int, rounds: int) -> dict:
    """Projections on random triples, a new structure every round: the slowest change and the slowest inside query."""
    domain = Domain(ADULT_13 if which == "adult13" else BINARY_100)
    hypothesis = FactoredHypothesis(domain, limit=2**21)
    generator = np.random.default_rng(seed)
    changes, queries, refused = [], [], 0
    for _ in range(rounds):
        positions = np.sort(generator.choice(len(domain), 3, replace=False))
        names = tuple(domain.names[p] for p in positions)
        form = Product(names, tuple(np.eye(domain[n].size)[0] for n in names))
        try:
            # on copies, so that a neighbour's burst of work does not count as ours
            changes.append(best(lambda: hypothesis.copy().project(form, 0.2), 3))  # noqa: B023 - called at once
            hypothesis.project(form, 0.2)
        except DomainError:
            refused += 1
            continue
        hypothesis.expect(form)
        queries.append(best(lambda: hypothesis.expect(form)))  # noqa: B023 - called at once
    return {
        "which": which,
        "log2_cells": hypothesis.tree.log2_cells,
        "refused": refused,
        "change_median": float(np.median(changes)),
        "change_slowest": max(changes),
        "query_slowest": max(queries),
    }


def peer_python(directory: Path) -> Path:
    """The peer's interpreter, in an environment of its own made on first use."""
    python = directory / "mbi" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory / "mbi")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", PEER], check=True)
    return python


def peer_inference(directory: Path, cases: list[dict]) -> list[dict]:
    script = Path(__file__).with_name("peers") / "mbi_inference.py"
    # one thread, like our side; float32, its default, although ours is float64
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(peer_python(directory)), "-W", "ignore", str(script)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return json.loads(done.stdout)


def compare(own: dict, peer: dict[str, dict]) -> dict:
    """Ratios to the peer's fastest oracle, chosen anew for the first call and for the warm one."""
    first, warm = (min(oracle[kind] for oracle in peer.values()) for kind in ("first", "warm"))
    apart = max(np.abs(np.subtract(own["marginal"], oracle["marginal"])).max() for oracle in peer.values())
    return {
        "peer_first": first,
        "peer_warm": warm,
        "first_ratio": first / own["first"],
        "warm_ratio": warm / own["warm"],
        "largest_difference": float(apart),
    }


def run(quick: bool = False, peers: str | None = None) -> dict:
    """All figures, and the gates of issue 3 with their verdicts."""
    cases = [CASES[i] for i in QUICK] if quick else list(CASES)
    rows, questions = [], []
    for case in cases:
        domain, sets = structure(case)
        rows.append({"case": f"{case[0]}, {case[1]} sets of {case[2]}", **own_inference(domain, sets, case[3])})
        oracles = ORACLES[:1] if quick else ORACLES
        questions.append({"domain": domain, "sets": sets, "seed": case[3], "oracles": oracles})
    directory = peers or os.environ.get("RETICENT_PEERS")
    if directory:
        for row, found in zip(rows, peer_inference(Path(directory), questions), strict=True):
            row.update(compare(row, found))
    rounds = 10 if quick else 60
    updates = [own_updates("adult13", 0, rounds), own_updates("binary100", 0, rounds)]
    return {
        "rows": rows,
        "updates": updates,
        "peer": PEER if directory else "skipped: no --peers and no RETICENT_PEERS",
        "gates": gates(rows, updates),
    }


def gates(rows: list[dict], updates: list[dict]) -> list[dict]:
    found = [
        ("slowest structure change, s", max(u["change_slowest"] for u in updates), CHANGE_TARGET, False),
        ("slowest query inside a clique, s", max(u["query_slowest"] for u in updates), QUERY_TARGET, False),
    ]
    if all("first_ratio" in row for row in rows):
        large = [row["warm_ratio"] for row in rows if row["log2_cells"] >= math.log2(LARGE)]
        found.append(("times faster than mbi compiling", min(r["first_ratio"] for r in rows), FIRST_TARGET, True))
        found.append(("times faster than warm mbi, 2^18 cells up", min(large), WARM_TARGET, True))
    return [
        {"gate": name, "value": value, "bound": bound, "passed": value >= bound if at_least else value <= bound}
        for name, value, bound, at_least in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers", help="directory that holds, or will hold, the peer's environment")
    arguments = parser.parse_args()
    result = run(arguments.quick, arguments.peers)
    print(f"peer: {result['peer']}")
    for row in result["rows"]:
        line = f"{row['case']:28s} 2^{row['log2_cells']:4.1f}  new structure {1e3 * row['first']:7.2f} ms"
        line += f"  warm {1e3 * row['warm']:7.2f} ms  covary {1e3 * row['covary']:7.2f} ms"
        if "peer_first" in row:
            line += f"  mbi first {row['peer_first']:6.2f} s ({row['first_ratio']:.0f}x)"
            line += f"  warm {1e3 * row['peer_warm']:8.2f} ms ({row['warm_ratio']:.1f}x)"
            line += f"  differ by {row['largest_difference']:.0e}"
        print(line)
    for u in result["updates"]:
        print(
            f"{u['which']:10s} projections to 2^{u['log2_cells']:.1f} cells ({u['refused']} refused): structure change "
            f"{1e3 * u['change_median']:.1f} ms median, {1e3 * u['change_slowest']:.1f} slowest; "
            f"query inside a clique {1e6 * u['query_slowest']:.0f} us slowest"
        )
    for gate in result["gates"]:
        print(f"{'pass' if gate['passed'] else 'FAIL'}  {gate['gate']}: {gate['value']:.3g} (bound {gate['bound']:g})")


if __name__ == "__main__":
    main()
