"""Dashboards through the PostgreSQL door: 100,000 statements on loopback, what they spend and how fast they are.

`python -m benchmarks.door [--quick]`. Statements are counts and means by groups under conditions that nobody declared,
one thousand different ones, and dashboards ask each of them again. The same statements are asked over HTTP, for the
rate beside it, of a server with no reader: the door is the writer's, so both have one process.
"""

from __future__ import annotations

import itertools
import json
import random
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.callers import Callers, dialled, postgres_answer
from benchmarks.service import analyst_tokens, processor_seconds, settle, start
from benchmarks.shown import Claim, Grid, Plot, Shown

STATEMENTS = 100_000
DIFFERENT = 1000
CONNECTIONS = 10
HALF = 0.5
"""Of the rate over HTTP."""
LONGEST = 3600.0


def statements() -> list[str]:
    """As dashboards write them: one or two groups, and filters on age, sex or region."""
    keys = ["sex", "smoker", "region", "sex, smoker", "sex, region", "smoker, region", "age", "age, sex"]
    measures = [
        "count(*) AS n",
        "count(*) AS n, avg(age) AS mean_age",
        "100.0 * count(*) / sum(count(*)) OVER () AS pct",
    ]
    filters = [f"age {sign} {edge}" for sign in ("<", ">=") for edge in (25, 35, 45, 55, 65)]
    filters += [f"age BETWEEN {low} AND {high}" for low, high in ((25, 44), (35, 64), (45, 89))]
    others = ["", " AND sex = 'Male'", " AND region IN ('north', 'west')", " AND smoker IS NOT NULL"]
    found = [
        f"SELECT {key}, {measure} FROM survey WHERE {one}{other} GROUP BY {key} ORDER BY {key}"
        for key, measure, one, other in itertools.product(keys, measures, filters, others)
    ]
    random.Random(3).shuffle(found)
    return found[:DIFFERENT]


def over_http(token: str) -> Iterator[bytes]:
    head = f"POST /v1/tables/survey/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: "
    bodies = [json.dumps({"sql": text}) for text in statements()]
    return itertools.cycle([f"{head}{len(body)}\r\n\r\n{body}".encode() for body in bodies])


def over_postgres() -> Iterator[bytes]:
    """As the simple query protocol sends them."""
    texts = [text.encode() + b"\0" for text in statements()]
    return itertools.cycle([b"Q" + struct.pack("!i", len(text) + 4) + text for text in texts])


def signed_in(port: int, number: int, token: str) -> socket.socket:
    """The socket of a connection that a driver has opened, with everything that authentication needs."""
    import os

    import psycopg

    opened = psycopg.connect(
        host="127.0.0.1", port=port, dbname="reticent", user=f"analyst-{number}", password=token, autocommit=True
    )
    wire = socket.socket(fileno=os.dup(opened.fileno()))
    wire.setblocking(True)
    _OPEN.append(opened)
    return wire


_OPEN: list[Any] = []
"""Drivers end their connection when they are forgotten."""


def measure(callers: Callers, requests: Iterator[bytes], count: int, server: int) -> dict[str, Any]:
    """The first round compiles every statement; the rate is that of all further ones."""
    try:
        began = time.perf_counter()
        callers.flood(requests, LONGEST, DIFFERENT)
        first = time.perf_counter() - began
        before, began = processor_seconds(server), time.perf_counter()
        answered = callers.flood(requests, LONGEST, count - DIFFERENT)
        passed = time.perf_counter() - began
    finally:
        callers.close()
    return {
        "answers": answered + DIFFERENT,
        "first_ms": round(1000 * first / DIFFERENT, 2),
        "per_second": round(answered / passed, 1),
        "server_cpu_us": round(1e6 * (processor_seconds(server) - before) / answered, 1),
    }


def run(quick: bool = False) -> dict[str, Any]:
    """Rates of both doors and what was spent."""
    from reticent.kernel.ledger.verify import verify

    count = 10 * DIFFERENT if quick else STATEMENTS
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        free.bind(("127.0.0.1", 0))
        door = free.getsockname()[1]
        free.close()
        process, port = start(folder, 0, f"postgres = {door}\n")
        try:
            settle(port)
            tokens = analyst_tokens(folder)[:CONNECTIONS]
            before = verify(folder / "survey.ledger", keep=False).history.spent
            http = measure(Callers([dialled(port) for _ in tokens]), over_http(tokens[0]), count, process.pid)
            wires = [signed_in(door, number, token) for number, token in enumerate(tokens)]
            postgres = measure(Callers(wires, postgres_answer), over_postgres(), count, process.pid)
            spent = verify(folder / "survey.ledger", keep=False).history.spent - before
        finally:
            process.terminate()
            process.wait(30)
    for row in (http, postgres):
        print("  ".join(f"{name}: {value}" for name, value in row.items()), flush=True)
    ratios = {
        "half of the rate over HTTP over the door's (at most 1)": HALF * http["per_second"] / postgres["per_second"],
        "spent in nano-units (at most 0)": float(spent),
    }
    met = ratios["spent in nano-units (at most 0)"] == 0 and max(ratios.values()) <= 1
    return {"http": http, "postgres": postgres, "spent": spent, "ratios": ratios, "met": met}


def present(found: dict[str, Any]) -> list[Shown]:
    http, postgres = found["http"], found["postgres"]
    setting = f"{postgres['answers']:,} statements of dashboards, {DIFFERENT} different ones, on {CONNECTIONS} "
    setting += "connections, through one process; the first of each is compiled, the rate is that of the others."
    return [
        setting,
        Claim("budget spent", float(found["spent"]), at_most=0.0),
        Claim("PostgreSQL: answers a second", postgres["per_second"], at_least=HALF * http["per_second"]),
        Plot(
            "rate",
            "Dashboards",
            "",
            "answers a second",
            {"one process": [("HTTP", http["per_second"]), ("PostgreSQL", postgres["per_second"])]},
            marks={"half of HTTP's": HALF * http["per_second"]},
            expected="Expected: at least half of the rate over HTTP.",
        ),
        Grid(
            "Dashboards through both doors",
            {"door": "", "answers": "", "a second": "", "server": "µs", "first of each": "ms"},
            [
                {
                    "door": label,
                    "answers": row["answers"],
                    "a second": row["per_second"],
                    "server": row["server_cpu_us"],
                    "first of each": row["first_ms"],
                }
                for label, row in (("HTTP", http), ("PostgreSQL", postgres))
            ],
        ),
    ]


if __name__ == "__main__":
    print(json.dumps(run("--quick" in sys.argv)["ratios"], indent=2))
