"""Random ledgers as the library writes them, and random edits of their files."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tests.session_tables import DOMAIN, table

import reticent as rt
from reticent.errors import ReticentError
from reticent.kernel.curator import Curator
from reticent.kernel.discovery.lines import NumberLine
from reticent.kernel.discovery.medians import POSITIONS, MedianScores
from reticent.kernel.discovery.values import ValueCounts
from reticent.kernel.ledger.events import canonical, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace, Thresholded
from reticent.kernel.numeric_sums import ClippedSums
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.statistics import CellScores, MaxError
from reticent.kernel.table import Table
from reticent.queries.distribution import Distribution, Questions
from reticent.queries.groups import Groups
from reticent.queries.linear import Residual

BUDGETS = (
    rt.Budget(epsilon=1.0, delta=1e-9),
    rt.Budget(epsilon=2.0),
    rt.Budget(rho=0.02),
    rt.Budget(epsilon=1.0, delta=1e-9, noise="gaussian"),
    rt.Budget(rho=0.5, noise="gaussian"),
)
APPROXIMATE = (
    rt.Budget(epsilon=2.0, delta=1e-6, approximate=5e-7),
    rt.Budget(rho=0.5, approximate=1e-5),
    rt.Budget(rho=0.5, approximate=1e-300),
    rt.Budget(epsilon=1.0, delta=1e-6, approximate=1e-7, noise="gaussian"),
    rt.Budget(epsilon=3.0),
)
QUERIES = (
    rt.count(rt.col("a") >= 1),
    rt.count((rt.col("a") == 1) | (rt.col("c") == 2)),
    rt.marginal("a", "b"),
    rt.marginal("c"),
    rt.mean("c"),
)
RESIDUALS = tuple(map(Residual, [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("a", "b", "c")]))
ANALYSTS = (None, "ann", "bob")
GUESSES = (
    MaxError("cells", (("a",),), (np.full(4, 500.0),)),
    ErrorQuantile(Questions(DOMAIN, Distribution("mixed", (("a",),))), (np.full(4, 500.0),), 2**59),
    ClippedSums(Groups(("b",), rt.col("a") >= 1, "c"), DOMAIN),
)


class Undeclared:
    """A few numbers and texts of a column that nobody declared."""

    def total(self) -> int:
        return 400

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        return np.array([-2.0, 0.0, 17.5, 4e6]), np.array([90, 200, 60, 50], dtype=np.int64)

    def texts(self, name: str, most: int, key: str) -> tuple[list[str], np.ndarray]:
        return ["often", "rare", "usual"], np.array([300, 1, 99], dtype=np.int64)


def write_ledger(path: Path, rng: random.Random, operations: int = 8) -> None:
    """Measurements, selections, epochs, discovery, caps, notes with blobs, abandoned charges and restarts."""
    neighbours = rng.choice(["replace-one", "add-remove"])
    discovery = rng.random() < 0.35
    budget = rng.choice((*BUDGETS, *APPROXIMATE) if discovery else BUDGETS)
    source = _undeclared(neighbours, rng) if discovery else _table(neighbours, rng)
    operate = _discover if discovery else _operate
    for _ in range(rng.randint(1, 2)):
        with Ledger.open(path, identity=source.identity, budget=budget) as ledger:
            curator = Curator(source, ledger)
            for number in range(rng.randint(1, operations)):
                with suppress(ReticentError):
                    operate(rng, ledger, curator, budget, f"key {number}")


def write_small(path: Path, kind: str) -> None:
    """One charge of each kind, a cap, and charges of two analysts, under a budget that they use up to a part."""
    if kind == "discovery":
        budget, source = (
            rt.Budget(epsilon=2.0, delta=1e-6, approximate=5e-7),
            _undeclared("replace-one", random.Random(1)),
        )
    else:
        budget = rt.Budget(epsilon=1.0, delta=1e-9, noise="gaussian")
        source = table(40, weight=50, neighbours="add-remove", unit="row", most=2)
    with Ledger.open(path, identity=source.identity, budget=budget) as ledger:
        curator = Curator(source, ledger)
        ledger.set_cap("ann", budget.limit // 2)
        if kind == "discovery":
            line = NumberLine()
            scores = MedianScores("size", line, ((0, line.size * POSITIONS),))
            curator.select_medians(scores, Exponential(Fraction(1, 20)), key="medians", analyst="ann")
            shares = {"rho": Fraction(1, 100), "delta": Fraction(1, 10**7)}
            wanted = Thresholded.costing(**shares, neighbours=curator.neighbours, most=2)
            curator.select_values(ValueCounts("name", 2), wanted, key="values")
        else:
            curator.measure(
                [QUERIES[0].resolve(DOMAIN), QUERIES[2].resolve(DOMAIN)], Gaussian(40), key="a", analyst="ann"
            )
            curator.measure([GUESSES[1]], Gaussian(Fraction(91, 3)))


def _table(neighbours: str, rng: random.Random) -> Table:
    facts: dict = {"neighbours": neighbours} if neighbours == "add-remove" else {}
    if rng.random() < 0.25:
        facts = {"neighbours": neighbours, "unit": "row", "most": rng.randint(1, 9)}
    elif rng.random() < 0.25:
        facts |= {"unit": "person"}
    return table(40, weight=50, **facts)


def _undeclared(neighbours: Any, rng: random.Random) -> Table:
    facts: dict = {"records": 400} if neighbours == "replace-one" else {}
    domain = rt.Domain(size=rt.Undeclared("number"), name=rt.Undeclared("text"))
    return Table(Undeclared(), domain, neighbours=neighbours, unit=rng.choice(["record", "person"]), **facts)  # pyright: ignore[reportArgumentType]


def _discover(rng: random.Random, ledger: Ledger, curator: Curator, budget: rt.Budget, key: str) -> None:
    analyst = rng.choice(ANALYSTS)
    match rng.randrange(5):
        case 0 | 1:
            line = NumberLine()
            cuts = sorted(rng.randrange(line.size * POSITIONS) for _ in range(rng.randint(0, 2)))
            bounds = [0, *cuts, line.size * POSITIONS]
            scores = MedianScores("size", line, tuple(pairwise(bounds)))
            curator.select_medians(scores, Exponential(Fraction(1, rng.randint(3, 90))), key=key, analyst=analyst)
        case 2 | 3:
            most, sigma = rng.randint(1, 3), Fraction(rng.randint(3, 400), rng.randint(1, 9))
            wanted = Thresholded(sigma, rng.randint(2, 4) + int(sigma * rng.randint(1, 9)), most)
            if budget.approximate and rng.random() < 0.7:
                share = {"rho": Fraction(1, rng.randint(40, 400)), "delta": budget.approximate / rng.randint(2, 9)}
                wanted = Thresholded.costing(**share, neighbours=curator.neighbours, most=most)
            curator.select_values(ValueCounts("name", most), wanted, key=key, analyst=analyst)
        case _:
            ledger.set_cap(rng.choice(["ann", "bob"]), rng.randint(0, budget.limit))


def _operate(rng: random.Random, ledger: Ledger, curator: Curator, budget: rt.Budget, key: str) -> None:
    analyst = rng.choice(ANALYSTS)
    scale = Fraction(rng.randint(50, 5000), rng.randint(1, 7))
    noise = Laplace(scale) if budget.pure or rng.random() < 0.3 else Gaussian(scale)
    match rng.randrange(8):
        case 7:
            chosen = rng.sample(RESIDUALS, rng.randint(1, len(RESIDUALS)))
            curator.measure(chosen, [replaced(noise, rng) for _ in chosen], key=key, analyst=analyst)
        case 0 | 1:
            asked = [rng.choice(QUERIES).resolve(DOMAIN) for _ in range(rng.randint(1, 3))]
            curator.measure(asked, noise, key=key, analyst=analyst)
        case 2:
            curator.measure([rng.choice(GUESSES)], noise, analyst=analyst)
        case 3:
            scores = CellScores((("b",),), (np.zeros(3),))
            curator.select(scores, Exponential(Fraction(1, rng.randint(5, 90))), draws=rng.randint(1, 4), key=key)
        case 4:
            each = Fraction(1, rng.randint(50, 500))
            curator.watch(100.0, AboveThreshold(threshold_epsilon=each, query_epsilon=2 * each), analyst=analyst)
        case 5:
            ledger.set_cap(rng.choice(["ann", "bob"]), rng.randint(0, budget.limit))
        case _:
            ledger.append("note", {"number": rng.randint(0, 9)}, blobs=[rng.randbytes(20)])


def replaced(noise: Laplace | Gaussian, rng: random.Random) -> Laplace | Gaussian:
    """The same noise or one of another scale."""
    factor = Fraction(rng.randint(2, 9), 4)
    return Laplace(noise.scale * factor) if isinstance(noise, Laplace) else Gaussian(noise.sigma * factor)


def edit(path: Path, rng: random.Random) -> str:
    """One edit by somebody who may write the file, with or without mending the hashes; says what it was."""
    with sqlite3.connect(path) as connection:
        bodies = stored(connection)
        what = _change(bodies, rng)
        mended = rng.random() < 0.7
        _write(connection, bodies, mended=mended)
        if rng.random() < 0.1 and connection.execute("UPDATE blobs SET data = x'00'").rowcount > 0:
            what += " and blobs"
    return f"{what}{' with mended hashes' if mended else ''}"


def stored(connection: sqlite3.Connection) -> list[dict]:
    return [json.loads(body) for (body,) in connection.execute("SELECT body FROM events ORDER BY sequence")]


def rewrite(path: Path, bodies: list[dict]) -> None:
    """The file of somebody who knows the format: requests match their digests, and events their hashes."""
    for body in bodies:
        request = body["payload"].get("request") if isinstance(body.get("payload"), dict) else None
        if request is not None and "digest" in body["payload"]:
            told = {"kind": body["payload"].get("kind"), "request": request}
            body["payload"]["digest"] = sha256(canonical(told).encode())
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # a copy that nobody keeps
        _write(connection, bodies, mended=True)


def _write(connection: sqlite3.Connection, bodies: list[dict], *, mended: bool) -> None:
    for trigger in ("events_update", "events_delete"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    digests = [digest for (digest,) in connection.execute("SELECT digest FROM events ORDER BY sequence")]
    connection.execute("DELETE FROM events")
    head = "0" * 64
    for index, body in enumerate(bodies):
        if mended:
            body["sequence"], body["previous"] = index + 1, head
        text = canonical(body)
        head = sha256(text.encode()) if mended or index >= len(digests) else digests[index]
        connection.execute("INSERT INTO events VALUES (?, ?, ?)", (index + 1, text, head))


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The place of every field that holds no other."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path
    else:
        for name, part in inner:
            yield from leaves(part, (*path, name))


def at(value: Any, path: tuple) -> Any:
    for step in path:
        value = value[step]
    return value


def other_values(value: Any) -> list[Any]:
    """What a field may be changed to: a little more, a little less, nothing, another type."""
    if isinstance(value, bool):
        return [not value, None, "true"]
    if isinstance(value, int):
        return [value + 1, value - 1, 0, -1, value * 1000 + 7, str(value), None, value + 0.5]
    if isinstance(value, str):
        numbers = []
        with suppress(ValueError, ZeroDivisionError):
            numbers = [str(Fraction(value) * factor) for factor in (2, Fraction(1, 2), Fraction(999, 1000), 0, -1)]
        return [*numbers, value + "x", "", None, 3, [value]]
    return [0, 1, "ann", [], True]


def _change(bodies: list[dict], rng: random.Random) -> str:
    index = rng.randrange(len(bodies))
    chosen = bodies[index]
    match rng.randrange(9):
        case 0:
            chosen["cost"] = rng.choice([chosen["cost"] - 1, chosen["cost"] + 1, 0, -5])
            return f"cost of {chosen['kind']}"
        case 1:
            del bodies[index]
            return f"{chosen['kind']} removed"
        case 2:
            bodies.insert(rng.randrange(len(bodies) + 1), json.loads(json.dumps(chosen)))
            return f"{chosen['kind']} repeated"
        case 3:
            chosen["kind"] = rng.choice(["settle", "forfeit", "redeem", "note", "open", "cap"])
            return f"kind becomes {chosen['kind']}"
        case 4:
            chosen["analyst"] = rng.choice(["ann", None, "eve"])
            return f"analyst of {chosen['kind']}"
        case 5:
            chosen["key"] = rng.choice([None, "key 0", "another"])
            return f"key of {chosen['kind']}"
        case 6:
            bodies[0]["payload"]["budget"]["limit"] *= rng.choice([0, 2, 1000])
            return "limit"
        case _:
            path = rng.choice(list(leaves(chosen)))
            at(chosen, path[:-1])[path[-1]] = (changed := rng.choice(other_values(at(chosen, path))))
            return f"{'.'.join(map(str, path))} becomes {changed!r}"
