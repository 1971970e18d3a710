"""Online answering on Adult's seven attributes, side by side: which engine answers how many questions within an error.

Epsilon 1, delta 1e-9, replace-one. True answers are computed here only. Laplace, Gaussian and Turbo's rule (as
described in the spec) are played on the same streams as the real engine; speeds of free, paid and SQL answers follow.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.online_rivals import (
    BUDGET,
    CONFIDENCE,
    STREAMS,
    cached,
    different,
    gaussian_price,
    laplace_price,
    stream,
    true_share,
    turbo,
)
from benchmarks.online_speed import speeds
from benchmarks.plainly import claims
from benchmarks.shown import Grid, Plot, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.planning.plan import PRACTICAL
from reticent.queries.base import Query
from reticent.queries.linear import Range
from reticent.sessions.session import Session

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult"
INTRODUCTION = """Adult, seven attributes, epsilon 1, delta 1e-9, replace-one. Every engine gets the same streams of
questions and the same budget; an answer counts when it is certified within the error. Turbo's rule certifies nothing:
its answers count when they are within. Our session is opened in three ways: *told* how many questions come and how good
answers must be (`queries=`, `error=`; it then chooses what to do), *by default* (half of the budget on a warm start),
and *cold* (no warm start). Certificates of one session hold together with probability 0.95, and so does all that a
threshold engine tests and measures; an answer that the default engine sells holds with 0.95 by itself. Answers outside
their bounds are counted, no run is repeated for them."""
DISTINCT = """All questions of a stream differ where its kind has that many; *distinct* says how many do. A repeated
question is answered again for free by every engine with a cache, and counts as answered."""
REPEATING = """**Recorded before repeats were taken out of the streams:** a part of the questions had been asked before,
and counts as answered."""
MARKS = {0.5: 0.016, 0.95: 0.013}
MILLION_MARK = 0.0012
RMS_RATIO_LEAST = 5.0
PLAIN = "plain answers"
LONG = ((0.02, 30_000), (0.05, 100_000))
"""Errors and lengths of streams that only a fit can serve."""
TUNED_QUERIES = 10**5
TUNED_MARKS = {10**6: 0.1, 10**7: 0.035}
TOLD, OPENED, COLD = "default", "default, warm", "default, cold"
"""Under these names the three ways to open our session are recorded."""
LABELS = {TOLD: "ours, told", OPENED: "ours, by default", COLD: "ours, cold"}
CERTIFYING = ("Laplace + cache", "Gaussian + cache", "textbook PMW", TOLD, OPENED)
ROUNDING = 1e-9


def adult() -> tuple[rt.Domain, dict[str, np.ndarray]]:
    domain = rt.Domain.read(DATA / "adult_reduced7-domain.json")
    import gzip

    with gzip.open(DATA / "adult_reduced7.csv.gz", "rt") as file:
        names = file.readline().strip().split(",")
        codes = np.loadtxt(file, delimiter=",", dtype=np.int64)
    return domain, {name: codes[:, place] for place, name in enumerate(names)}


def table_of(domain: rt.Domain, columns: dict[str, np.ndarray]) -> Table:
    rows = len(columns[domain.names[0]])
    return Table(Records.of_codes(domain, columns, np.ones(rows, dtype=np.int64)), domain, records=rows)


# ---- the real engine


def opened(path: Path, table: Table, share: float) -> tuple[Session, float]:
    start = time.perf_counter()
    session = Session.open(path, table, BUDGET, warm_start=share)
    return session, time.perf_counter() - start


def box_after(answer: float, turn: int, domain: rt.Domain) -> Range:
    """The next question of an adaptive analyst: every bit of the last answer decides it."""
    chance = random.Random(hash((answer, turn)))
    names = chance.sample(domain.names, chance.randint(1, 3))
    ends = {name: sorted((chance.randrange(domain[name].size), chance.randrange(domain[name].size))) for name in names}
    return Range({name: (low, high) for name, (low, high) in ends.items()})


def certificate_marks(session: Session, exact: np.ndarray, questions: int) -> dict[str, float]:
    """The certified bound, and the true errors of adaptive questions: each box depends on the last answer.

    Bounds hold all together with the session's confidence, so some may be missed: they are counted, not run again.
    """
    domain, spent = session.domain, session.spent
    errors, last, missed = [], 0.0, 0
    for turn in range(questions):
        query = box_after(last, turn, domain)
        answer = session.ask(query)
        last = float(answer.value)
        errors.append(last - true_share(query, exact, domain))
        # Certified statements that exclude each other are told and bound nothing: one of them has failed.
        missed += answer.error is None or abs(errors[-1]) > answer.error + ROUNDING
    assert session.spent == spent
    bound = session.certificates[0].bound
    rms = float(np.sqrt(np.mean(np.square(errors))))
    found = {"bound": bound, "true_rms": rms, "bound_over_rms": bound / rms, "largest": float(np.max(np.abs(errors)))}
    return found | {"asked": questions, "missed": missed}


def within(session: Session, questions: list[Query], error: float) -> int:
    """How many answers are certified within the error."""
    answers = (session.ask(question, error=error) for question in questions)
    return sum(bool(a.certified and a.error is not None and a.error <= error * (1 + ROUNDING)) for a in answers)


def played(path: Path, table: Table, questions: list[Query], error: float) -> int:
    """From a copy of the same opened ledger."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = Path(folder) / path.name
        for suffix in ("", ".anchor"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        with Session.open(copy, table, BUDGET) as session:
            return within(session, questions, error)


def told(folder: Path, table: Table, questions: list[Query], error: float) -> tuple[int, str]:
    """As a user opens it who knows how many questions come and how good answers must be; and what it chose."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        path = Path(own) / "told.ledger"
        with Session.open(path, table, BUDGET, queries=len(questions), error=error) as session:
            chosen = "warm start" if session.spent else PLAIN
            return within(session, questions, error), chosen


def comparison(folder: Path, table: Table, exact: np.ndarray, errors: list[float], length: int) -> Iterator[dict]:
    domain, records = table.domain, int(table.records or 0)
    plan = rt.plan(records=records, domain=domain, budget=BUDGET, queries=length)
    textbook = next(o.error for o in plan.options if o.name == "textbook PMW (online)")
    for name in STREAMS:
        questions = stream(name, domain, length)
        for error in errors:
            default, chosen = told(folder, table, questions, error)
            row = {
                "Laplace + cache": cached(questions, laplace_price(domain, records, error)),
                "Gaussian + cache": cached(questions, gaussian_price(domain, records, error)),
                "textbook PMW": length if textbook <= error else 0,
                "Turbo's rule": turbo(questions, exact, domain, records, error),
                TOLD: default,
                OPENED: played(folder / "0.5.ledger", table, questions, error),
                # Told nothing else, it starts as cold as it does when it chooses plain answers.
                COLD: default if chosen == PLAIN else played(folder / "cold.ledger", table, questions, error),
            }
            asked = {"stream": name, "error": error, "asked": length, "distinct": different(questions)}
            yield asked | row | {"it chose": chosen}


def run(quick: bool) -> dict[str, Any]:
    """Certificates against their marks, and questions answered within the error by every engine."""
    domain, columns = adult()
    table = table_of(domain, columns)
    exact = np.zeros(domain.shape)
    np.add.at(exact, tuple(columns[name] for name in domain.names), 1 / len(columns[domain.names[0]]))
    memory = Path("/dev/shm")
    found: dict[str, Any] = {"name": "online", "ratios": {}, "certificates": {}}
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        for share in (0.5,) if quick else (0.5, 0.95):
            session, seconds = opened(folder / f"{share}.ledger", table, share)
            with session:
                marks = certificate_marks(session, exact, 2_000 if quick else 100_000)
            found["certificates"][f"{share:.0%} warm start"] = marks | {"seconds": seconds}
            found["ratios"][f"certified bound over {MARKS[share]} ({share:.0%}, at most 1)"] = (
                marks["bound"] / MARKS[share]
            )
            found["ratios"][f"bound over true RMS ({share:.0%}, at least 5)"] = marks["bound_over_rms"]
            outside = f"share of adaptive answers outside their bounds ({share:.0%}, at most {1 - CONFIDENCE:.2f})"
            found["ratios"][outside] = marks["missed"] / marks["asked"]
        if not quick:
            found["ratios"] |= million(domain, columns, folder)
        opened(folder / "cold.ledger", table, 0.0)[0].close()
        errors, length = ([0.005], 600) if quick else ([0.005, 0.01, 0.02, 0.05], 3_000)
        found["answered"] = [_shown(row) for row in comparison(folder, table, exact, errors, length)]
        found["long streams"] = [] if quick else long_streams(folder, table)
    played_all = [*found["answered"], *found["long streams"]]
    lost = max(row["Gaussian + cache"] / row[TOLD] for row in played_all)
    found["ratios"]["Gaussian + cache over ours, told what comes, where it does best (at most 1)"] = lost
    found["tuned PMW"], tuned = tuned_marks(domain)
    found["speed"], speed = speeds(quick)
    found["ratios"] |= tuned | speed
    return found


def long_streams(folder: Path, table: Table) -> list[dict[str, Any]]:
    """Boxes beyond what plain noise can pay: the same engine, told so, warms up."""
    rows, domain, records = [], table.domain, int(table.records or 0)
    for error, length in LONG:
        questions = stream("boxes", domain, length)
        default, chosen = told(folder, table, questions, error)
        row = {
            "Laplace + cache": cached(questions, laplace_price(domain, records, error)),
            "Gaussian + cache": cached(questions, gaussian_price(domain, records, error)),
            TOLD: default,
        }
        asked = {"stream": "boxes", "error": error, "asked": length, "distinct": different(questions)}
        rows.append(_shown(asked | row | {"it chose": chosen}))
    return rows


def tuned_marks(domain: rt.Domain) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The threshold mechanism with the planner's constants for many questions, beside the default's expectation."""
    rows, ratios = [], {}
    for records, mark in TUNED_MARKS.items():
        plan = rt.plan(records=records, domain=domain, budget=BUDGET, queries=TUNED_QUERIES, confidence=CONFIDENCE)
        errors = {option.name: option.error for option in plan.options}
        tuned, practical = errors["tuned PMW (online)"], errors[PRACTICAL]
        rows.append({"records": records, "tuned PMW, certified": tuned, "default, expected": practical})
        ratios[f"tuned PMW certified for 10^5 questions ({records:,} records, at most {mark})"] = tuned
        ratios[f"default's expectation over tuned PMW ({records:,} records, at most 1)"] = practical / tuned
    return rows, ratios


def million(domain: rt.Domain, columns: dict[str, np.ndarray], folder: Path) -> dict[str, float]:
    """The same table drawn with replacement to a million records."""
    draw = np.random.default_rng(5).integers(0, len(columns[domain.names[0]]), 10**6)
    larger = {name: column[draw] for name, column in columns.items()}
    with opened(folder / "million.ledger", table_of(domain, larger), 0.95)[0] as session:
        bound = session.certificates[0].bound
    return {f"certified bound over {MILLION_MARK} (10^6 records, 95%, at most 1)": bound / MILLION_MARK}


ENGINES = (*CERTIFYING, COLD)
CLOSE = (0.005, 0.01)
"""Errors at which the engines differ; beyond, all but the textbook answer everything."""


def present(found: dict[str, Any]) -> list[Shown]:
    certificates, answered = found["certificates"], found["answered"]
    measures = {"bound": "certified bound", "largest": "largest true error", "true_rms": "true RMS error"}
    bounds = {name: [(share, row[key]) for share, row in certificates.items()] for key, name in measures.items()}
    errors = [e for e in CLOSE if any(row["error"] == e for row in answered)]
    return [
        INTRODUCTION,
        DISTINCT if "distinct" in answered[0] else REPEATING,
        *claims(found),
        Plot(
            "certificates",
            "Adaptive boxes on up to three attributes: what is certified, and what is true",
            "",
            "error, as a share of the table",
            bounds,
            expected="Expected: every true error below the bound, and a bound several times the usual error.",
        ),
        _grid("Certificates, each over one session's adaptive questions", _certified(certificates)),
        *(_answered(answered, error) for error in errors),
        _grid("Questions answered within the error", [_labelled(row) for row in answered]),
        *([_grid("Long streams", [_labelled(row) for row in long])] if (long := found.get("long streams")) else []),
        Grid(
            "Tuned PMW for 10^5 questions beside the default",
            dict.fromkeys(found["tuned PMW"][0], ""),
            found["tuned PMW"],
        ),
        Grid("Speed", {"": "", "value": ""}, [{"": name, "value": value} for name, value in found["speed"].items()]),
    ]


def _certified(certificates: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    names = {"bound": "certified bound", "largest": "largest true error", "asked": "questions", "missed": "outside it"}
    return [
        {"spent on the start": share} | {name: row[key] for key, name in names.items() if key in row}
        for share, row in certificates.items()
    ]


def _labelled(row: dict[str, Any]) -> dict[str, Any]:
    """With the names of ours that a reader understands, and which certifying engine answered most."""
    played = [engine for engine in CERTIFYING if engine in row]
    best = max(row[engine] for engine in played)
    most = " = ".join(LABELS.get(engine, engine) for engine in played if row[engine] == best)
    return {LABELS.get(name, name): value for name, value in row.items()} | {"most": most}


def _grid(title: str, rows: list[dict[str, Any]]) -> Grid:
    return Grid(title, dict.fromkeys(rows[0], ""), rows)


def _answered(rows: list[dict[str, Any]], error: float) -> Plot:
    kept = [row for row in rows if row["error"] == error]
    return Plot(
        f"answered-{str(error).replace('.', '-')}",
        f"Of {kept[0]['asked']:,} questions, answered within {error}",
        "",
        "questions",
        {LABELS.get(engine, engine): [(row["stream"], row[engine]) for row in kept] for engine in ENGINES},
        expected="Expected: ours ahead where questions share structure; plain noise where they do not.",
    )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    print("  ".join(f"{name}: {value}" for name, value in row.items()), flush=True)
    return row


if __name__ == "__main__":
    import json
    import sys

    result = run("--quick" in sys.argv)
    print(json.dumps({k: v for k, v in result.items() if k != "answered"}, indent=2))
