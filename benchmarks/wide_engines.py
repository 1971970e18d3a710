"""Engines of the papers on tables far wider than any tensor: to their end, killed, and opened again."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.dualquery_tables import read
from benchmarks.mixed import ROUNDING, Mixed
from benchmarks.pieces import Pieces
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.base import Linear

BUDGET = rt.Budget(epsilon=1, delta=1e-9)
WIDE_RECORDS, WIDE_COLUMNS, WIDE_QUESTIONS = 4_600_000, 30, 5000
PAID, KILLS = 1000, 10
INTRODUCTION = """A tuned session on 30 binary columns of 4.6 million records is asked disjunctions over three columns,
closed and opened again. On plants (69 binary columns, 23,215 records) `MWEM()` releases all pairs, and a session buys
disjunctions one by one while its process is killed ten times: each next one asks the last few again under their keys,
which must give the same numbers for nothing."""


def disjunctions(domain: rt.Domain, count: int, seed: int = 7) -> list[Mixed]:
    """Different ORs of a test and a pair of tests, over three columns."""
    generator = np.random.default_rng(seed)
    found: dict[Linear, Mixed] = {}
    while len(found) < count:
        names = [str(name) for name in generator.choice(domain.names, 3, replace=False)]
        one, two, three = (rt.col(name) == 1 for name in names)
        query = rt.count((one & two) | three)
        found[query] = Mixed(query, partial(_either, names))
    return list(found.values())


def _either(names: list[str], codes: Mapping[str, np.ndarray]) -> np.ndarray:
    one, two, three = (codes[name] == 1 for name in names)
    return (one & two) | three


def wide_session(folder: Path, records: int, questions: int) -> dict[str, Any]:
    """A tuned session on columns that hang together, asked, closed, and opened again."""
    generator = np.random.default_rng(3)
    domain = rt.Domain({f"c{place}": 2 for place in range(WIDE_COLUMNS)})
    drawn = 20_000
    taste = generator.random((drawn, 3))
    chances = taste @ generator.dirichlet(np.ones(3), WIDE_COLUMNS).T
    codes = (generator.random((drawn, WIDE_COLUMNS)) < chances).astype(np.int64)
    columns = dict(zip(domain.names, codes.T, strict=True))
    source = Records.of_codes(domain, columns, np.full(drawn, records // drawn, dtype=np.int64))
    table = Table(source, domain, records=drawn * (records // drawn))
    asked, path = disjunctions(domain, questions), folder / "wide.ledger"
    start = time.perf_counter()
    with rt.Session.open(path, table, BUDGET, engine="tuned", queries=questions) as session:
        answers = [session.ask(one.query) for one in asked]
        facts = session.describe()["epochs"]
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    with rt.Session.open(path, table, BUDGET, engine="tuned") as session:
        opened = time.perf_counter() - start
        again = session.describe()["epochs"]
    exact = [float(one.values(columns).mean()) for one in asked]
    missed = sum(
        answer.error is not None and abs(answer.value - share) > answer.error + ROUNDING
        for answer, share in zip(answers, exact, strict=True)
    )
    return {
        "table": f"{WIDE_COLUMNS} binary columns", "records": table.records, "questions": questions,
        "certified": sum(answer.certified for answer in answers), "bound": facts["error"], "missed": missed,
        "updates": facts["updates"], "updates after reopening": again["updates"], "seconds": seconds,
        "seconds to reopen": opened,
    }  # fmt: skip


def plants_mwem(rounds: int | None) -> dict[str, Any]:
    """MWEM of plants runs to its end."""
    table = read("plants", "plants", "plants")
    start = time.perf_counter()
    release = rt.release(table, rt.marginals(table.domain, 2), BUDGET, algorithm=rt.MWEM(rounds=rounds))
    bound = max((certificate.bound for certificate in release.certificates), default=None)
    return {
        "table": "plants",
        "rounds": release.notes["rounds"],
        "bound": bound,
        "seconds": time.perf_counter() - start,
    }


def killed(folder: Path, paid: int, kills: int) -> dict[str, Any]:
    """Paid ORs of plants; processes end without warning, and the next one goes on."""
    table = read("plants", "plants", "plants")
    path = folder / "plants.ledger"
    asked = disjunctions(table.domain, paid)
    start, lost, spent = time.perf_counter(), 0, 0.0
    told: dict[int, str] = {}
    for life in range(kills + 1):
        said, first, quota = folder / f"life {life}", max(0, len(told) - AGAIN), (life + 1) * paid // (kills + 1)
        said.touch()
        child = os.fork()
        if child == 0:
            _ask_all(path, table, asked[first:], first, said)
        while life < kills and len(said.read_text().splitlines()) < quota - first:
            time.sleep(0.05)
        if life < kills:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for line in said.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                place, value, so_far = line.split()
                lost += told.setdefault(int(place), value) != value
                lost += float(so_far) < spent
                spent = float(so_far)
    return {
        "table": "plants", "questions": len(told), "kills": kills, "lost or changed": lost, "spent": spent,
        "seconds": time.perf_counter() - start,
    }  # fmt: skip


def _ask_all(path: Path, table: Table, asked: list[Mixed], first: int, said: Path) -> None:
    """The child's whole life: it is killed somewhere in it, and closes nothing."""
    with said.open("w") as file, rt.Session.open(path, table, PLENTY, warm_start=0) as session:
        for place, one in enumerate(asked, start=first):
            answer = session.ask(one.query, error=PAID_ERROR, key=f"k{place}")
            file.write(f"{place} {answer.value!r} {session.spent!r}\n")
            file.flush()
        os._exit(0)


PLENTY, PAID_ERROR = rt.Budget(rho=10), 0.005
"""So that a thousand single purchases can be paid, and hardly any question is free."""
AGAIN = 3
"""Questions of the last life that the next one asks again under their keys."""


def run(quick: bool) -> dict[str, Any]:
    """All three, smaller where quick."""
    pieces = Pieces("wide_engines", quick)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        questions, paid, kills = (20, 20, 2) if quick else (WIDE_QUESTIONS, PAID, KILLS)
        found = {
            "wide": pieces.of("wide", partial(wide_session, folder, WIDE_RECORDS, questions)),
            "killed": pieces.of("killed", partial(killed, folder, paid, kills)),
            "mwem": pieces.of("mwem", partial(plants_mwem, 3 if quick else None)),
        }
    pieces.end()
    return found


def present(found: dict[str, Any]) -> list[Shown]:
    """What was lost, missed or forgotten: nothing may be."""
    wide, mwem, lives = found["wide"], found["mwem"], found["killed"]
    forgotten = wide["updates"] - wide["updates after reopening"]
    grids = {
        "A tuned session": (wide, {"seconds": "s", "seconds to reopen": "s"}),
        "MWEM of all pairs": (mwem, {"seconds": "s"}),
        "Paid disjunctions, killed and reopened": (lives, {"spent": "rho", "seconds": "s"}),
    }
    return [
        INTRODUCTION,
        Claim("answers of the wide session outside their bound", wide["missed"], at_most=0),
        Claim("updates of the wide session forgotten by reopening", forgotten, at_most=0),
        Claim("paid answers lost or changed by ten kills", lives["lost or changed"], at_most=0),
        Plot(
            "updates",
            "Updates of the wide session",
            "",
            "updates",
            {"30 columns": [("before closing", wide["updates"]), ("after reopening", wide["updates after reopening"])]},
            expected="As many after reopening as before.",
        ),
        *(Grid(title, dict.fromkeys(row, "") | units, [row]) for title, (row, units) in grids.items()),
    ]
