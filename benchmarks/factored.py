"""The factored hypothesis with a structure that changes every round, beside mbi 2.0 (compiling, and warm).

The peer lives in its own environment (`benchmarks/peers/environment.py`), made on first use; a quick run takes it only
where it already is.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers.environment import PeerAbsent, python_of
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.domain import Domain
from reticent.errors import DomainError
from reticent.hypotheses.junction_tree.engine import FactoredEngine
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.hypotheses.junction_tree.tree import JunctionTree
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
STEPS = ("log2_cells", "first", "warm", "covary")
LARGE_BAND = 18
WIDTHS = (1, 2, 3, 4, 6, 8, 10, 12, 13, 14, 15, 16)
QUICK_WIDTHS = (1, 4, 12, 14)


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


def band(width: int) -> list[tuple[str, ...]]:
    """Pairs of the hundred binary attributes at most so far apart: their treewidth is exactly that distance."""
    names = list(BINARY_100)
    return [(names[i], other) for i in range(len(names)) for other in names[i + 1 : i + 1 + width]]


def treewidths(widths: Sequence[int]) -> dict:
    """The cost of a fit's step against treewidth; its power of the number of cells, fitted where cells dominate."""
    points = []
    for width in widths:
        found = own_inference(BINARY_100, band(width), width)
        points.append({"treewidth": width, "pairs": len(band(width)), **{k: found[k] for k in STEPS}})
    large = [point for point in points if point["log2_cells"] >= LARGE_BAND]
    cells = [point["log2_cells"] * math.log(2) for point in large]
    seconds = np.log([point["warm"] for point in large])
    return {"points": points, "slope": float(np.polyfit(cells, seconds, 1)[0])}


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


def peer_inference(cases: list[dict]) -> list[dict]:
    script = Path(__file__).with_name("peers") / "mbi_inference.py"
    # one thread, like our side; float32, its default, although ours is float64
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(python_of("mbi")), "-W", "ignore", str(script)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise PeerAbsent((done.stderr.strip().splitlines() or ["died without a word"])[-1][:120])
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


def run(quick: bool) -> dict:
    """Own figures beside the peer's, where it runs."""
    cases = [CASES[i] for i in QUICK] if quick else list(CASES)
    rows, questions = [], []
    for case in cases:
        domain, sets = structure(case)
        rows.append({"case": f"{case[0]}, {case[1]} sets of {case[2]}", **own_inference(domain, sets, case[3])})
        oracles = ORACLES[:1] if quick else ORACLES
        questions.append({"domain": domain, "sets": sets, "seed": case[3], "oracles": oracles})
    peer = PEER
    try:
        for row, found in zip(rows, peer_inference(questions), strict=True):
            row.update(compare(row, found))
    except PeerAbsent as reason:
        peer = f"skipped: {reason}"
    for row in rows:
        del row["marginal"]
    rounds = 10 if quick else 60
    found = {
        "rows": rows,
        "updates": [own_updates(which, 0, rounds) for which in ("adult13", "binary100")],
        "treewidth": treewidths(QUICK_WIDTHS if quick else WIDTHS),
        "peer": peer,
    }
    for shown in present(found):
        if isinstance(shown, Claim):
            print(f"{shown.measured:>12}  {shown.text} ({shown.mark})")
    return found


def present(found: dict) -> list[Shown]:
    rows, updates = found["rows"], found["updates"]
    parts: list[Shown] = [
        f"Marginals of random structures, and of a structure that changes every round; beside {found['peer']}.",
        Claim("slowest change of structure", 1e3 * max(u["change_slowest"] for u in updates), at_most=100, unit="ms"),
        Claim("slowest query inside a clique", 1e6 * max(u["query_slowest"] for u in updates), at_most=100, unit="µs"),
    ]
    series = {"ours, new structure": [(r["case"], 1e3 * r["first"]) for r in rows]}
    series["ours, known structure"] = [(r["case"], 1e3 * r["warm"]) for r in rows]
    columns = {"case": "", "cells": "2^", "new": "ms", "known": "ms", "covariances": "ms"}
    table = [
        {
            "case": r["case"],
            "cells": r["log2_cells"],
            "new": 1e3 * r["first"],
            "known": 1e3 * r["warm"],
            "covariances": 1e3 * r["covary"],
        }
        for r in rows
    ]
    if all("peer_first" in row for row in rows):
        large = [row["warm_ratio"] for row in rows if row["log2_cells"] >= math.log2(LARGE)]
        least = min(r["first_ratio"] for r in rows)
        parts.append(Claim("faster than mbi on a new structure, which it compiles", least, at_least=50, unit="times"))
        parts.append(Claim("faster than compiled mbi from 2^18 cells on", min(large), at_least=2.5, unit="times"))
        series["mbi, new structure"] = [(r["case"], 1e3 * r["peer_first"]) for r in rows]
        series["mbi, compiled"] = [(r["case"], 1e3 * r["peer_warm"]) for r in rows]
        columns |= {"mbi new": "ms", "mbi compiled": "ms", "largest difference": ""}
        table = [
            row
            | {
                "mbi new": 1e3 * r["peer_first"],
                "mbi compiled": 1e3 * r["peer_warm"],
                "largest difference": r["largest_difference"],
            }
            for row, r in zip(table, rows, strict=True)
        ]
    expected = "Expected: a new structure costs us milliseconds, compilation costs seconds."
    parts.append(
        Plot("structures", "All marginals of one structure", "", "milliseconds", series, log="y", expected=expected)
    )
    return [*parts, Grid("Structures", columns, table), *_against_treewidth(found["treewidth"])]


def _against_treewidth(found: dict) -> list[Shown]:
    """Cost doubles with each unit once cells outweigh bookkeeping; a line of slope one in the number of cells."""
    points, slope = found["points"], found["slope"]
    steps = {"new structure": "first", "known structure (a step of a fit)": "warm"}
    by_width = {name: [(p["treewidth"], 1e3 * p[key]) for p in points] for name, key in steps.items()}
    by_cells = {name: [(2 ** p["log2_cells"], 1e3 * p[key]) for p in points] for name, key in steps.items()}
    last = points[-1]
    doubling = [(p["treewidth"], 1e3 * last["warm"] * 2.0 ** (p["treewidth"] - last["treewidth"])) for p in points]
    return [
        Plot(
            "treewidth",
            "All marginals of 100 binary attributes, pairs in a band",
            "treewidth",
            "milliseconds",
            by_width,
            lines={"twice for each unit": [point for point in doubling if point[1] > 0.5]},
            log="y",
            expected="Expected: twice the cost for each unit of treewidth, once cells outweigh bookkeeping.",
        ),
        Plot(
            "treewidth-cells",
            "The same against the cells of all cliques",
            "cells",
            "milliseconds",
            by_cells,
            log="xy",
            expected=f"Expected: slope 1 where cliques are large; a step has {slope:.2f} from 2^{LARGE_BAND} on.",
        ),
    ]
