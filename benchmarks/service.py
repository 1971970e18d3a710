"""Free answers a second over HTTP on loopback: one writer, three readers, the load generator on the same two cores.

`python -m benchmarks.service [--quick]`. Fifty analysts keep connections open. The rate is what they get when none
pauses; latencies are taken at an offered rate just above the mark, from the moment a question was due, so that a server
that stalls cannot hide the questions it delayed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.shown import Claim, Grid, Plot, Shown

TARGET = 2000.0
LATENCY = 0.025
OFFERED = 1.05 * TARGET
ANALYSTS = 50
READERS = 3
"""One more than processors: a reader that waits for one leaves less waiting behind it."""
SETTLE_SECONDS = 3.0
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


class Caller(asyncio.Protocol):
    """One connection; asks again when the reply is complete and, where there is a pause, the next question is due."""

    def __init__(self, requests: Any, seconds: float, pause: float, latencies: list[float]) -> None:
        self._requests, self._pause, self._latencies = requests, pause, latencies
        self._loop = asyncio.get_running_loop()
        self._due = time.perf_counter() + pause * random.random()
        self._end = self._due + seconds
        self.done = self._loop.create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._schedule()

    def _schedule(self) -> None:
        wait = self._due - time.perf_counter()
        if self._pause and wait > 0:
            self._loop.call_later(wait, self._send)
        else:
            self._send()

    def _send(self) -> None:
        if not self._pause:
            self._due = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        place = self._buffer.find(b"content-length: ") + 16
        length = int(self._buffer[place : self._buffer.index(b"\r", place)])
        if len(self._buffer) < head + 4 + length:
            return
        now = time.perf_counter()
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._buffer[:300].decode()))
            return
        self._latencies.append(now - self._due)
        self._buffer = b""
        self._due += self._pause
        if now < self._end:
            self._schedule()
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionResetError())


async def load(port: int, token: str, questions: list[bytes], seconds: float, offered: float = 0.0) -> list[float]:
    """Latencies of all requests within so many seconds; `offered` a second in all, 0 for as many as possible."""
    head = f"POST /v1/tables/survey/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: "
    requests = itertools.cycle([f"{head}{len(b)}\r\n\r\n".encode() + b for b in questions])
    latencies: list[float] = []
    pause = ANALYSTS / offered if offered else 0.0
    loop = asyncio.get_running_loop()
    callers = [
        (await loop.create_connection(lambda: Caller(requests, seconds, pause, latencies), "127.0.0.1", port))[1]
        for _ in range(ANALYSTS)
    ]
    await asyncio.gather(*(caller.done for caller in callers))
    return latencies


def start(folder: Path, readers: int) -> tuple[subprocess.Popen, int]:
    """A server on the tests' survey, with ticks and rate limits off."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "service"))
    from serving import write_survey

    write_survey(folder)
    (folder / "server.toml").write_text(
        f'[server]\nport = 0\nreaders = {readers}\ntick = 0.0\nrate = 0.0\nlog_level = "warning"\ntokens = "tokens"\n'
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


def measure(kind: str, port: int, token: str, seconds: float, server: int) -> dict[str, Any]:
    """Rate and latencies, and the processor time behind them: the latter also means something on a busy machine."""
    questions = bodies(kind)
    asyncio.run(load(port, token, questions[-2000:], min(1.0, seconds)))
    before, own = _cpu(server), time.process_time()
    count = len(asyncio.run(load(port, token, questions, seconds)))
    server_cpu, own_cpu = _cpu(server) - before, time.process_time() - own
    latencies = sorted(asyncio.run(load(port, token, questions[::-1], seconds, OFFERED)))
    return {
        "kind": kind,
        "different": len(questions),
        "per_second": round(count / seconds, 1),
        "median_ms": round(1000 * latencies[len(latencies) // 2], 2),
        "p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 2),
        "server_cpu_us": round(1e6 * server_cpu / count, 1),
        "generator_cpu_us": round(1e6 * own_cpu / count, 1),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _cpu(process: int) -> float:
    """Seconds of processor time of a process and its children that still run."""
    total = 0.0
    for pid in [process, *_children(process)]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


def run(quick: bool = False) -> dict[str, Any]:
    """Different JSON questions, repeated ones, and repeated SQL, each through the readers."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        process, port = start(Path(name), READERS)
        try:
            token = Path(name, "tokens.custodian").read_text().strip()
            _settle(port)
            for kind in ("distinct", "repeated", "sql"):
                rows.append(measure(kind, port, token, 2.0 if quick else 10.0, process.pid))
                print("  ".join(f"{name}: {value}" for name, value in rows[-1].items()), flush=True)
        finally:
            process.terminate()
            process.wait(30)
    ratios = {}
    for row in rows:
        ratios[f"{row['kind']}: {TARGET:.0f} a second over rate (at most 1)"] = TARGET / row["per_second"]
        ratios[f"{row['kind']}: p99 over {1000 * LATENCY:.0f} ms (at most 1)"] = row["p99_ms"] / (1000 * LATENCY)
    met = all(ratio <= 1 for ratio in ratios.values())
    return {"answered": rows, "readers": READERS, "ratios": ratios, "met": met}


def present(found: dict[str, Any]) -> list[Shown]:
    rows = found["answered"]
    named = [(KINDS[row["kind"]], row) for row in rows]
    readers = f"{found.get('readers', 2)} readers"
    setting = f"Fifty analysts on loopback, one writer and {readers}, the load generator on the same two cores. Rates "
    setting += f"are taken with nobody pausing, latencies at {OFFERED:,.0f} a second, from the moment each was due."
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


def _settle(port: int) -> None:
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
    print(json.dumps(run("--quick" in sys.argv)["ratios"], indent=2))
