"""Which pairs a long record-and-replay run makes: programs by their weights, tables of persons from a pool.

A database reads a table of persons, which takes longer than most programs that then run on it. So a long run reads a
few hundred of them once. Tests that plant bugs do not: a bug may be in the reading.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from tests.evidence.service_program import SERVICE

from reticent.auditing.neighbours import Neighbourhood, neighbourhood, random_domain
from reticent.auditing.programs import PROGRAMS, Program, declared
from reticent.auditing.replay import Replay, replay_pair
from reticent.kernel.table import Neighbours, Unit

ALL = {**PROGRAMS, "service": SERVICE}
POOL = 150
"""Tables with their neighbours, of each unit and relation."""
POOLED, ON_DEMAND = 0.85, 0.5
"""The share of pairs of persons that are of the pool; and of the others, those that a database counts."""


@cache
def _of_pool(neighbours: Neighbours, unit: Unit, number: int) -> Neighbourhood:
    rng = random.Random(f"{neighbours} {unit} {number}")
    return neighbourhood(rng, random_domain(rng), neighbours, unit, on_demand=0.0)


def pooled(rng: random.Random, neighbours: Neighbours, unit: Unit) -> Neighbourhood:
    """As `programs.declared`."""
    if unit == "record":
        return declared(rng, neighbours, unit)
    if rng.random() < POOLED:
        return _of_pool(neighbours, unit, rng.randrange(POOL))
    return neighbourhood(rng, random_domain(rng), neighbours, unit, on_demand=ON_DEMAND)


def program_of(seed: int) -> str:
    """The name of the program that this seed is a pair of."""
    weights = [program.weight for program in ALL.values()]
    return random.Random(f"program of {seed}").choices(list(ALL), weights)[0]


def long_run_pair(seed: int) -> tuple[str, Replay]:
    """One pair of a long run."""
    name = program_of(seed)
    program: Program = ALL[name]
    return name, replay_pair(replace(program, tables=pooled) if program.tables is declared else program, seed)
