"""Free answers a second over HTTP on loopback: one writer, three readers, the load generator on the same two cores.

`python -m benchmarks.service [--quick] [--minutes M [--rate R]]`. Fifty analysts keep connections open. The rate is
what they get when none pauses; latencies are taken at half the rate of the mark, from the moment a question was due, so
that a server that stalls cannot hide the questions it delayed. `--minutes 10` then holds that rate, or another, and
looks at memory.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.callers import Callers, dialled
from benchmarks.shown import Claim, Grid, Plot, Shown

TARGET = 10_000.0
LATENCY = 0.010
OFFERED = TARGET / 2
EARLIER_OFFERED = 2100.0
"""Of records that do not say at which rate their latencies were taken."""
ANALYSTS = 50
READERS = 3
"""One more than processors: a reader that waits for one leaves less waiting behind it."""
SETTLE_SECONDS = 3.0
FILLING = 20_000
"""Answers after which caches are full: each reader keeps two thousand of a kind."""
KINDS = {"distinct": "all different", "repeated": "repeated", "sql": "SQL"}


def bodies(kind: str) -> list[bytes]:
    """Questions about the survey of the service's tests, on up to three columns, all of them different."""
    edges = [25, 35, 45, 55, 65]
    if kind == "sql":
        columns = ["sex", "smoker", "region", "age"]
        texts = [
            f"SELECT {column}, COUNT(*) FROM survey WHERE age >= {edge} GROUP BY {column}"
            for column, edge in itertools.product(columns, edges)
        ]
        return [json.dumps({"sql": text}).encode() for text in texts]
    ages = [{"op": op, "column": "age", "value": e} for op in ("<", ">=") for e in edges]
    ages += [{"op": "and", "of": list(pair)} for pair in itertools.product(ages[:5], ages[5:10])]
    others = [_subsets("sex", ["Female", "Male"]), _subsets("smoker", ["no", "yes"])]
    others.append(_subsets("region", ["north", "south", "west"]))
    found = [
        {"op": "and", "of": [age, *rest]}
        for age in ages
        for first, second in itertools.permutations(others, 2)
        for rest in itertools.product(first, second)
    ]
    random.Random(5).shuffle(found)
    chosen = found[:100] if kind == "repeated" else found
    return [json.dumps({"query": {"query": "count", "where": where}}).encode() for where in chosen]


def _subsets(column: str, values: list[str]) -> list[dict[str, Any]]:
    lists = [list(v) for size in range(1, len(values) + 1) for v in itertools.permutations(values, size)]
    plain = [{"op": "in", "column": column, "values": v} for v in lists]
    return plain + [{"op": "not", "of": condition} for condition in plain]


def requests(kind: str, tokens: list[str]) -> Iterator[bytes]:
    """The questions in turn, without end, each from another analyst than the one before."""
    heads = [
        f"POST /v1/tables/survey/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
        for token in tokens
    ]
    pairs = zip(itertools.cycle(heads), bodies(kind), strict=False)
    return itertools.cycle([f"{head}{len(body)}\r\n\r\n".encode() + body for head, body in pairs])


def start(folder: Path, readers: int, more: str = "") -> tuple[subprocess.Popen, int]:
    """A server on the tests' survey, with ticks and rate limits off; `more` are further settings of its own."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "service"))
    from serving import write_survey

    write_survey(folder)
    (folder / "server.toml").write_text(
        f'[server]\nport = 0\nreaders = {readers}\ntick = 0.0\nrate = 0.0\nlog_level = "warning"\n'
        f'tokens = "tokens"\n{more}'
        '[tables.survey]\ntable = "survey.parquet"\ndomain = "survey.toml"\nledger = "survey.ledger"\n'
        "epsilon = 1.0\ndelta = 1e-9\n"
    )
    command = [sys.executable, "-c", "from reticent.cli import main; main()", "serve", "--config", "server.toml"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Serving" in line:
            return process, int(line.rpartition(":")[2])
    raise RuntimeError("the server did not start")


def measure(kind: str, port: int, tokens: list[str], seconds: float, server: int) -> dict[str, Any]:
    """Rate and latencies, and the processor time behind them: the latter also means something on a busy machine."""
    asked = requests(kind, tokens)
    callers = Callers([dialled(port) for _ in range(ANALYSTS)])
    try:
        callers.flood(asked, min(1.0, seconds))
        before, own = processor_seconds(server), time.process_time()
        begun = time.perf_counter()
        count = callers.flood(asked, seconds)
        passed = time.perf_counter() - begun
        server_cpu, own_cpu = processor_seconds(server) - before, time.process_time() - own
        latencies = sorted(callers.offer(asked, seconds, OFFERED))
    finally:
        callers.close()
    return {
        "kind": kind,
        "different": len(bodies(kind)),
        "per_second": round(count / passed, 1),
        "median_ms": round(1000 * latencies[len(latencies) // 2], 2),
        "p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 2),
        "server_cpu_us": round(1e6 * server_cpu / count, 1),
        "generator_cpu_us": round(1e6 * own_cpu / count, 1),
        "load_average": round(os.getloadavg()[0], 2),
    }


def hold(port: int, tokens: list[str], minutes: float, rate: float, server: int) -> dict[str, Any]:
    """Memory of all processes of the server before and after so many minutes at a fixed rate of different questions."""
    asked = requests("distinct", tokens)
    callers = Callers([dialled(port) for _ in range(ANALYSTS)])
    try:
        callers.flood(asked, 60.0, FILLING)  # until everything that is remembered is full
        before, count, end = resident_megabytes(server), 0, time.perf_counter() + 60 * minutes
        while time.perf_counter() < end:
            count += len(callers.offer(asked, 10.0, rate))
    finally:
        callers.close()
    return {"minutes": minutes, "answers": count, "before_mb": before, "after_mb": resident_megabytes(server)}


def resident_megabytes(process: int) -> float:
    """Resident megabytes of a process and its children."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in [process, *_children(process)])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def processor_seconds(process: int) -> float:
    """Seconds of processor time of a process and its children that still run."""
    total = 0.0
    for pid in [process, *_children(process)]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


def run(quick: bool = False, minutes: float = 0.0, rate: float = OFFERED) -> dict[str, Any]:
    """Different JSON questions, repeated ones, and repeated SQL, each through the readers."""
    rows, held = [], None
    with tempfile.TemporaryDirectory() as name:
        process, port = start(Path(name), READERS)
        try:
            tokens = analyst_tokens(Path(name))
            settle(port)
            for kind in ("distinct", "repeated", "sql"):
                rows.append(measure(kind, port, tokens, 2.0 if quick else 10.0, process.pid))
                print("  ".join(f"{name}: {value}" for name, value in rows[-1].items()), flush=True)
            if minutes:
                held = hold(port, tokens, minutes, rate, process.pid)
                print("  ".join(f"{name}: {value}" for name, value in held.items()), flush=True)
        finally:
            process.terminate()
            process.wait(30)
    ratios = {}
    for row in rows:
        ratios[f"{row['kind']}: {TARGET:.0f} a second over rate (at most 1)"] = TARGET / row["per_second"]
        ratios[f"{row['kind']}: p99 over {1000 * LATENCY:.0f} ms (at most 1)"] = row["p99_ms"] / (1000 * LATENCY)
    met = all(ratio <= 1 for ratio in ratios.values())
    found = {"answered": rows, "readers": READERS, "offered": OFFERED, "ratios": ratios, "met": met}
    return found | ({"held": held} if held else {})


def analyst_tokens(folder: Path) -> list[str]:
    """A token for each, as a custodian would give them out."""
    from reticent.service.auth import Tokens

    tokens = Tokens(folder / "tokens")
    made = [tokens.create(f"analyst-{place}", "analyst")[1] for place in range(ANALYSTS)]
    tokens.close()
    return made


def present(found: dict[str, Any]) -> list[Shown]:
    rows = found["answered"]
    named = [(KINDS[row["kind"]], row) for row in rows]
    readers = f"{found.get('readers', 2)} readers"
    setting = f"Fifty analysts on loopback, one writer and {readers}, the load generator on the same two cores. Rates "
    offered = found.get("offered", EARLIER_OFFERED)
    setting += f"are taken with nobody pausing, latencies at {offered:,.0f} a second, from the moment each was due."
    shown: list[Shown] = [setting]
    shown += [Claim(f"{name}: answers a second", row["per_second"], at_least=TARGET) for name, row in named]
    shown += [Claim(f"{name}: 99th percentile", row["p99_ms"], at_most=1e3 * LATENCY, unit="ms") for name, row in named]
    latencies = {"median": "median_ms", "99th percentile": "p99_ms"}
    return [
        *shown,
        Plot(
            "rate",
            "Free answers",
            "",
            "answers a second",
            {readers: [(name, row["per_second"]) for name, row in named]},
            marks={"mark": TARGET},
            expected="Expected: at least the mark, most where questions repeat.",
        ),
        Plot(
            "latency",
            "How long an answer takes",
            "",
            "milliseconds",
            {label: [(name, row[key]) for name, row in named] for label, key in latencies.items()},
            marks={"mark for the 99th": 1e3 * LATENCY},
            log="y",
            expected="Expected: below the mark at the offered rate.",
        ),
        Grid(
            "Processor time of one answer",
            {"questions": "", "different ones": "", "server": "µs", "generator": "µs", "load average": ""},
            [
                {
                    "questions": name,
                    "different ones": row["different"],
                    "server": row["server_cpu_us"],
                    "generator": row["generator_cpu_us"],
                    "load average": row["load_average"],
                }
                for name, row in named
            ],
        ),
    ]


def settle(port: int) -> None:
    """Readers start after the address is announced, the slowest a moment after the first."""
    import httpx

    for _ in range(300):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                time.sleep(SETTLE_SECONDS)
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the server does not answer")


if __name__ == "__main__":
    options = [name for name in ("minutes", "rate") if f"--{name}" in sys.argv]
    given = {name: float(sys.argv[sys.argv.index(f"--{name}") + 1]) for name in options}
    print(json.dumps(run("--quick" in sys.argv, **given)["ratios"], indent=2))
