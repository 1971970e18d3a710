"""Forks one short-lived run on a random wide table per line of standard input and kills it at the step the line names.

As `session_server.py`, for universes far beyond any tensor: 10 to 100 columns of 2 to 2,000 codes, every engine and
every algorithm. The number `domain` of a line names the table, so every life of one ledger sees the same one.
`RETICENT_WIDE_RECORDS` makes supports smaller than a session's own: the same ways, at a fraction of the time.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tests.faults.crash_server import WRITE, Steps, arm, serve
from tests.session_tables import of_codes

import reticent as rt
from reticent.domain import Domain
from reticent.errors import KeyForfeitedError, QueryError
from reticent.hypotheses.choose import drawn_support, learned, with_room
from reticent.kernel.mechanisms import noise
from reticent.kernel.table import Table
from reticent.queries.workload import Workload
from reticent.sessions.session import Session

BUDGET = rt.Budget(rho=1)
WEIGHT = 10**6
ENGINES: dict[str, dict[str, Any]] = {
    "cold": {"warm_start": 0},
    "told": {"queries": 50, "error": 1e-4},
    "tuned": {"engine": "tuned", "queries": 500},
    "textbook": {"engine": "textbook", "queries": 500},
    "support": {"engine": "tuned", "queries": 500, "support": 4096},
    "warm": {"warm_start": 0.2},
}
ALGORITHMS: dict[str, Any] = {
    "MWEM": rt.MWEM(rounds=6),
    "MWEM on a small tree": rt.MWEM(rounds=6, tree_cells=2**14),
    "TextbookPMW": rt.TextbookPMW(error=0.2),
    "Adaptive": rt.Adaptive(support=2**12),
    "DualQuery": rt.DualQuery(rounds=4),
}


@lru_cache(maxsize=4)
def wide_table(number: int) -> Table:
    """Skewed columns, every other one a noisy function of the one before."""
    generator = np.random.default_rng([20261116, number])
    columns = int(generator.integers(10, 101))
    sizes = np.exp(generator.uniform(np.log(2), np.log(2000.99), columns)).astype(int)
    if number % 2:  # many small columns: their trees grow until they are too large
        sizes = np.minimum(sizes, 4)
    domain = Domain({f"c{i}": int(size) for i, size in enumerate(sizes)})
    codes: dict[str, np.ndarray] = {}
    for i, size in enumerate(sizes):
        column = np.minimum(generator.geometric(min(1.0, 3 / size), 300) - 1, size - 1)
        if i % 2:
            column = np.where(generator.random(300) < 0.8, codes[f"c{i - 1}"] % size, column)
        codes[f"c{i}"] = column.astype(np.int64)
    return of_codes(domain, codes, WEIGHT)


def question(domain: Domain, number: int) -> Any:
    """Cells, ranges, ORs, complements, wide conjunctions and marginals."""
    generator = np.random.default_rng([number, len(domain)])

    def condition(name: str) -> Any:
        code = int(generator.integers(min(domain[name].size, 4)))
        return rt.col(name) == code if generator.random() < 0.7 else rt.col(name) <= code

    def some(most: int) -> list[Any]:
        count = int(generator.integers(1, most + 1))
        return [condition(name) for name in generator.choice(domain.names, count, replace=False)]

    kind = number % 6
    if kind == 0:
        return rt.count(reduce(lambda a, b: a | b, some(3)))
    if kind == 1:
        return rt.count(reduce(lambda a, b: a & b, some(3)))
    if kind == 2:
        return rt.count(reduce(lambda a, b: a & b, some(10)))
    if kind == 3:
        return rt.count(~reduce(lambda a, b: a & b, some(3)))
    if kind == 4:
        return rt.count(reduce(lambda a, b: a & b, some(2)) | reduce(lambda a, b: a & b, some(2)))
    return rt.marginal(str(generator.choice(domain.names)))


def life(order: dict[str, Any], say: int) -> None:
    """Do what it was told to; everything it learns it says at once."""

    def tell(**fact: Any) -> None:
        WRITE(say, (json.dumps(fact) + "\n").encode())

    table = wide_table(order["domain"])
    steps = Steps(order["fatal"])
    arm(steps)
    noise.Noise.release = steps.around(noise.Noise.release)
    try:
        if order["engine"] in ENGINES:
            ask(order, table, tell)
        else:
            publish(order, table, tell)
        tell(steps=steps.count)
    except Exception as error:
        tell(error=f"{type(error).__name__}: {error}")


def ask(order: dict[str, Any], table: Table, tell: Any) -> None:
    options = ENGINES[order["engine"]]
    session = Session.open(order["path"], table, BUDGET, anchor=order["anchor"], **options)
    tell(spent=session.spent, opened=session.describe()["measured"])
    wanted = None if "engine" in options else 2e-5
    for number in order["numbers"]:
        before = session.spent
        try:
            answer = session.ask(question(table.domain, number), key=f"key-{number}", error=wanted)
            assert np.isfinite(np.asarray(answer.value)).all()
            tell(number=number, answer=answer.to_dict(), spent=session.spent)
        except KeyForfeitedError as error:
            tell(number=number, refused=str(error))
        except QueryError as error:  # a tensor or marginal too large: said before anything is paid
            assert session.spent == before, "charged, then refused"
            tell(skipped=str(error))
    left = [note for note in session.describe()["hypothesis"]["notes"] if "left out" in note]
    assert not left, left
    tell(digest=session.state.knowledge.current.digest)
    session.state.ledger.verify()
    session.close()


def publish(order: dict[str, Any], table: Table, tell: Any) -> None:
    generator = np.random.default_rng(order["domain"])
    names = generator.choice(table.domain.names, 8, replace=False)
    pairs = [rt.marginal(str(a), str(b)) for a, b in zip(names[::2], names[1::2], strict=True)]
    small = [pair for pair in pairs if table.domain.cells(table.domain.canonical(pair.attributes)) <= 2**16]
    workload = Workload([*small, *(rt.marginal(str(name)) for name in names)])
    try:
        release = rt.release(table, workload, BUDGET, algorithm=ALGORITHMS[order["engine"]], ledger=order["path"])
    except KeyForfeitedError as error:
        tell(number=0, refused=str(error))
        return
    value = release.ask(rt.count(rt.col(str(names[0])) == 0)).value
    tell(number=0, answer={"price": release.facts["publications"][0]["spent"], "value": value})
    assert rt.Release.from_bytes(release.to_bytes()).hypothesis.to_bytes() == release.hypothesis.to_bytes()


def draw_fewer_records(records: int) -> None:
    """Supports of this size, wherever a tree or a universe has no room."""
    sys.modules["reticent.hypotheses.choose"].SUPPORT_RECORDS = records  # pyright: ignore[reportAttributeAccessIssue]
    drawn_support.__defaults__ = (records,)
    for function in (with_room, learned):
        function.__kwdefaults__ = {"records": records}


def main() -> None:
    warnings.simplefilter("ignore")
    if "RETICENT_WIDE_RECORDS" in os.environ:
        draw_fewer_records(int(os.environ["RETICENT_WIDE_RECORDS"]))
    warm = {"domain": 1, "fatal": 0, "path": None, "anchor": None, "numbers": [0, 1], "engine": "tuned"}
    ask(warm, wide_table(1), lambda **fact: None)  # compiled and loaded once, before any fork
    serve(life)


if __name__ == "__main__":
    main()
