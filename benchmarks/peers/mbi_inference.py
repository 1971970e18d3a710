"""Runs inside mbi's own environment: times its marginal oracles on the cases read from standard input as JSON."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from mbi import CliqueVector, Domain, Factor, marginal_oracles

ORACLES = ("message_passing_hugin", "message_passing_shafer_shenoy", "message_passing_implicit")
WARM_RUNS = 5


def potentials(domain: Domain, case: dict) -> CliqueVector:
    """The same normal factors the other side draws, from the case's public seed."""
    generator = np.random.default_rng(case["seed"])
    cliques = [tuple(s) for s in case["sets"]]
    arrays = {}
    for clique in cliques:
        part = domain.project(clique)
        arrays[clique] = Factor(part, jnp.asarray(generator.normal(size=part.shape)))
    return CliqueVector(domain, cliques, arrays)


def timed(call) -> tuple[float, CliqueVector]:
    start = time.perf_counter()
    result = jax.block_until_ready(call())
    return time.perf_counter() - start, result


def main() -> None:
    results = []
    for case in json.load(sys.stdin):
        domain = Domain(tuple(case["domain"]), tuple(case["domain"].values()))
        given = jax.block_until_ready(potentials(domain, case))
        found = {}
        for name in case["oracles"]:
            oracle = getattr(marginal_oracles, name)
            first, marginals = timed(lambda: oracle(given))  # noqa: B023 - called at once
            warm = min(timed(lambda: oracle(given))[0] for _ in range(WARM_RUNS))  # noqa: B023
            sample = np.asarray(marginals[tuple(case["sets"][0])].datavector(), float)
            found[name] = {"first": first, "warm": warm, "marginal": sample.tolist()}
        results.append(found)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
