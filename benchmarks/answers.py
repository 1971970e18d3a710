"""What answers claim, held against the tables themselves (spec answers.md): groups, means, sums and typical errors.

Free groups of a session beside those of its own release; no count below zero and no mean outside its bins; certified
sums and means against raw rows; typical errors against every question they speak of; predicted bounds beside obtained
ones. True answers are computed here only. Streams of questions are in `benchmarks/streams.py`, stated prices against
the ledger's charges in `tests/faults/test_prices.py`.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import reticent as rt
from benchmarks import nist
from benchmarks.online_rivals import BUDGET
from benchmarks.release import DATA, TABLES
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.sessions.session import Session

KDD_COLUMNS = (
    "protocol_type",
    "service",
    "flag",
    "src_bytes",
    "logged_in",
    "count",
    "serror_rate",
    "same_srv_rate",
    "dst_host_count",
    "attack",
)
"""Ten of the 42: categories, sizes and rates."""
GROUP_MARK = 1.1
TYPICAL_MARK = 0.0052
PREDICTED_MARK = 1.3
PREDICTED_TABLES = 4
"""Of five, on which predictions are to be within the mark."""
MISSED_MARK = 0.05
NEARER_MARK = 5.0
STARTED = ("adult_reduced7", "kdd99", "nist", "adult_32bin", "plants")
IMPOSSIBLE = 10_000
"""Random statements, on all tables together."""
GROUPED = 100
"""Statements on each table, groups of a session beside those of its release."""
ADULT_SESSIONS, OTHER_SESSIONS = 20, 1
TYPICAL_SESSIONS = 200
PREDICTED_SESSIONS = 5
"""On each table; bounds of one session are up to a third from their median."""
NUMBER_TABLES, NUMBER_STATEMENTS = 10, 20
OBTAINED = "obtained over predicted"


@dataclass(frozen=True)
class Case:
    """A table with its codes, which only the benchmark reads."""

    name: str
    domain: rt.Domain
    codes: dict[str, np.ndarray]

    @property
    def records(self) -> int:
        return len(next(iter(self.codes.values())))

    def table(self) -> Table:
        weights = np.ones(self.records, dtype=np.int64)
        return Table(Records.of_codes(self.domain, self.codes, weights), self.domain, records=self.records, name="t")

    def counts(self, names: list[str], chosen: np.ndarray) -> np.ndarray:
        """How many chosen records each group has."""
        shape = self.domain.shape_of(names)
        cells = np.ravel_multi_index(tuple(self.codes[name][chosen] for name in names), shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def case(name: str) -> Case:
    """One of the tables of the issue, as codes."""
    if name == "nist":
        domain, rows = nist.domain_of(), nist.people()
        return Case(name, domain, {column: domain[column].encode(rows[column].tolist()) for column in domain.names})
    folder, rows, described = TABLES[name]
    domain = rt.Domain.read(DATA / folder / described)
    frame = pd.read_csv(DATA / folder / rows)
    names = KDD_COLUMNS if name == "kdd99" else domain.names
    domain = rt.Domain({column: domain[column].size for column in names})
    return Case(name, domain, {column: frame[column].to_numpy(np.int64) for column in names})


# ---- groups: a session beside its own release


def conditions(found: Case, generator: np.random.Generator) -> tuple[str, np.ndarray]:
    """A random condition in SQL, and the records that it selects; none half of the time."""
    chosen = np.ones(found.records, dtype=bool)
    if generator.random() < 0.5:
        return "", chosen
    name = str(generator.choice(found.domain.names))
    attribute = found.domain[name]
    if isinstance(attribute, rt.Categorical):
        code = int(generator.integers(attribute.size))
        return f" WHERE {name} = '{attribute.value(code)}'", found.codes[name] == code
    low, high = sorted(generator.integers(0, attribute.size, 2).tolist())
    return f' WHERE "{name}" BETWEEN {low} AND {high}', (found.codes[name] >= low) & (found.codes[name] <= high)


def grouped(found: Case, session: Session, statements: int, seed: int = 5) -> dict[str, float]:
    """Mean absolute error of free groups, of a session and of its own release, and what is impossible in them."""
    generator, release = np.random.default_rng(seed), session.release()
    errors: dict[str, list[float]] = {"session": [], "release": []}
    negative = asked = 0
    for _ in range(statements):
        names = [str(n) for n in generator.choice(found.domain.names, int(generator.integers(1, 3)), replace=False)]
        if found.domain.cells(names) > 5000:
            continue
        where, chosen = conditions(found, generator)
        quoted = ", ".join(f'"{name}"' for name in names)
        text = f"SELECT {quoted}, COUNT(*) FROM t{where} GROUP BY {quoted}"
        truth = found.counts(names, chosen)
        asked += 1
        for source, answering in (("session", session), ("release", release)):
            table = answering.ask(text)
            places = [found.domain[name].encode([row[i] for row in table.rows]) for i, name in enumerate(names)]
            values = np.zeros(truth.shape)
            shown = [float(row[-1]) for row in table.rows]
            values[tuple(places)] = shown
            negative += sum(value < 0 for value in shown)
            errors[source].append(float(np.abs(values - truth).mean()))
    ours, its = statistics.mean(errors["session"]), statistics.mean(errors["release"])
    return {"statements": asked, "session": ours, "release": its, "ratio": ours / its, "negative counts": negative}


def numeric(domain: rt.Domain) -> list[str]:
    return [name for name in domain.names if not isinstance(domain[name], rt.Categorical)]


def impossible(found: Case, session: Session, statements: int, seed: int = 6) -> dict[str, int]:
    """Random statements: counts below zero, means outside the bins that their condition allows, and statements some of
    whose certified intervals have nothing in common.
    """
    generator, numbers = np.random.default_rng(seed), numeric(found.domain)
    told = {"asked": 0, "numbers": 0, "negative": 0, "outside": 0, "conflict": 0}
    for turn in range(statements):
        told["asked"] += 1
        if turn % 2 and numbers:
            name, by = str(generator.choice(numbers)), str(generator.choice(found.domain.names))
            low, high = sorted(generator.integers(0, found.domain[name].size, 2).tolist())
            by = by if found.domain[by].size <= 200 else name
            text = f'SELECT "{by}", AVG("{name}") FROM t WHERE "{name}" BETWEEN {low} AND {high} GROUP BY "{by}"'
            answer = session.ask(text)
            values = [row[-1] for row in answer.rows]
            told["outside"] += sum(v is not None and not low - 1e-9 <= float(v) <= high + 1e-9 for v in values)
        else:
            by = str(generator.choice(found.domain.names))
            where, _ = conditions(found, generator)
            answer = session.ask(f'SELECT "{by}", COUNT(*) FROM t{where} GROUP BY "{by}"')
            values = [row[-1] for row in answer.rows]
            told["negative"] += sum(float(value) < 0 for value in values)
        told["numbers"] += len(values)
        told["conflict"] += "conflict" in answer.origin.split(" + ")
    return told


# ---- numbers: sums and means against the rows' own


def skewed_numbers(generator: np.random.Generator, rows: int) -> np.ndarray:
    """Numbers of a skewed kind, some beyond the declared range [0, 300]."""
    kinds = (
        lambda: generator.lognormal(3, 1.0, rows),
        lambda: generator.exponential(40, rows),
        lambda: 300 * generator.beta(0.5, 4, rows),
    )
    return kinds[int(generator.integers(len(kinds)))]()


def numbers(tables: int, statements: int, seed: int = 11) -> dict[str, Any]:
    """Random AVG and SUM against raw rows: half of the tables in coarse bins, half in fine ones.

    Free answers with measured offsets beside middles of bins; then the same statements paid for.
    """
    generator, rows, letters = np.random.default_rng(seed), 20_000, np.array(list("abcd"))
    errors: dict[str, list[float]] = {"offsets": [], "middles": []}
    counted = {"free certified": 0, "free missed": 0, "paid certified": 0, "paid missed": 0}
    for turn in range(tables):
        values, group = skewed_numbers(generator, rows), generator.integers(0, 4, rows)
        coarse = turn % 2 == 0
        edges = [0, 100, 300] if coarse else list(range(0, 301, 10))
        declared = rt.Domain(
            x=rt.Numeric(edges=edges, other=False, nullable=False), g=rt.Categorical(letters.tolist(), other=False)
        )
        frame, clipped = pa.table({"x": values, "g": letters[group]}), np.clip(values, 0, 300)
        own, binned = (rt.Table.of(frame, declared, numbers=kept, progress=False) for kept in (True, False))
        with (
            Session.open(None, own, BUDGET, warm_start=0.5, progress=False) as placed,
            Session.open(None, binned, BUDGET, warm_start=0.5, progress=False) as middles,
        ):
            for text, truth, wanted in _statements(generator, statements, clipped, group):
                free, other, paid = placed.ask(text), middles.ask(text), placed.ask(text, error=wanted)
                for kind, table in (("free", free), ("paid", paid)):
                    value, bound = table.rows[0][0], table.errors[0][0]
                    counted[f"{kind} certified"] += bound is not None
                    counted[f"{kind} missed"] += bound is not None and abs(value - truth) > bound
                if coarse:
                    errors["offsets"].append(abs(free.rows[0][0] - truth) / truth)
                    errors["middles"].append(abs(other.rows[0][0] - truth) / truth)
    medians = {f"median error, {kind}": statistics.median(found) for kind, found in errors.items()}
    return {"statements": tables * statements, **counted, **medians}


def _statements(
    generator: np.random.Generator, count: int, clipped: np.ndarray, group: np.ndarray
) -> Iterator[tuple[str, float, float]]:
    """A statement, what is true of the rows, and an error to pay for."""
    for turn in range(count):
        code = int(generator.integers(5))
        where, chosen = (f" WHERE g = '{'abcd'[code]}'", group == code) if code < 4 else ("", group >= 0)
        low = 0
        if generator.random() < 0.3:
            low = 100
            where += f"{' AND' if where else ' WHERE'} x >= 100"
            chosen = chosen & (clipped >= 100)
        if turn % 2:
            yield f"SELECT SUM(x) FROM t{where}", float(clipped[chosen].sum()), 0.03 * 300 * len(clipped)
        else:
            yield f"SELECT AVG(x) FROM t{where}", float(clipped[chosen].mean()), (300 - low) / 5


# ---- typical errors and predictions


def every_question(sizes: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[tuple[int, int]], float]]:
    """All questions of the declared distribution `mixed` on ordered columns: axes, ranges of codes, and weight."""
    sets = [s for k in range(1, len(sizes) + 1) for s in itertools.combinations(range(len(sizes)), k)]
    found = []
    for axes in sets:
        ranges = [
            [(low, high) for low in range(sizes[a]) for high in range(low, sizes[a]) if high - low + 1 < sizes[a]]
            for a in axes
        ]
        drawn = list(itertools.product(*ranges))
        found += [(axes, list(one), 1 / len(sets) / len(drawn)) for one in drawn]
    return found


def exceeded(truth: np.ndarray, guess: np.ndarray, bound: float, questions: list[Any]) -> float:
    """The probability that a question of the distribution errs more than the bound."""
    total = 0.0
    difference = truth - guess
    for axes, ranges, weight in questions:
        place: list[slice] = [slice(None)] * difference.ndim
        for axis, (low, high) in zip(axes, ranges, strict=True):
            place[axis] = slice(low, high + 1)
        total += weight * (abs(float(difference[tuple(place)].sum())) > bound)
    return total


def typical_claims(sessions: int, seed: int = 3) -> dict[str, Any]:
    """Independent sessions on a small table: how often the stated typical error speaks for fewer than 19 of 20."""
    generator, sizes, records = np.random.default_rng(seed), (6, 5, 4), 4000
    hidden = generator.random(records)
    codes = {
        f"x{i}": np.minimum((size * (0.6 * hidden + 0.4 * generator.random(records))).astype(np.int64), size - 1)
        for i, size in enumerate(sizes)
    }
    found = Case("small", rt.Domain({f"x{i}": size for i, size in enumerate(sizes)}), codes)
    truth = found.counts(found.domain.names, np.ones(records, dtype=bool)) / records
    questions, table, shares, bounds = every_question(sizes), found.table(), [], []
    for _ in range(sessions):
        with Session.open(None, table, BUDGET, warm_start=0.5, progress=False) as session:
            (stated,) = session.state.knowledge.typical
            guess = np.asarray(stated.snapshot.thaw().marginal(found.domain.names))
            shares.append(exceeded(truth, guess, stated.error.bound, questions))
            bounds.append(stated.error.bound)
    failed = sum(share > 1 - stated.error.share for share in shares)
    return {
        "sessions": sessions,
        "claims that failed": failed,
        "questions beyond the bound, on average": statistics.mean(shares),
        "median bound": statistics.median(bounds),
    }


def starts(found: Case, sessions: int, predicted: int) -> dict[str, Any]:
    """Half on the start: the typical error of boxes on up to three columns, and what was predicted of the worst.

    Medians, of the typical error over `sessions` and of predictions over so many others, which take longer.
    """
    bounds, table = [], found.table()
    for _ in range(sessions):
        with Session.open(None, table, BUDGET, warm_start=0.5, progress=False) as session:
            bounds += [stated.error.bound for stated in session.state.knowledge.typical]
    obtained, told = [], []
    for _ in range(predicted):
        with Session.open(None, table, BUDGET, purpose="unlimited", progress=False) as session:
            prediction = session.state.journal.prediction()
            assert prediction is not None, "an unlimited session predicts"
            obtained.append(session.certificates[0].bound)
            told.append(prediction["bound"])
    ratios = [bound / before for bound, before in zip(obtained, told, strict=True)]
    return {
        "table": found.name,
        "sessions": sessions,
        "typical": statistics.median(bounds),
        "sessions with a prediction": predicted,
        "worst": statistics.median(obtained),
        "predicted": statistics.median(told),
        OBTAINED: statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


def run(quick: bool) -> dict[str, Any]:
    """The must-shows of the specification; quick: one table, and few sessions."""
    found: dict[str, Any] = {"groups": [], "impossible": [], "starts": []}
    found["numbers"] = numbers(2 if quick else NUMBER_TABLES, NUMBER_STATEMENTS)
    print(found["numbers"], flush=True)
    found["typical claims"] = typical_claims(5 if quick else TYPICAL_SESSIONS)
    print(found["typical claims"], flush=True)
    for name in STARTED[:1] if quick else STARTED:
        one = case(name)
        with Session.open(None, one.table(), BUDGET, warm_start=0.5, progress=False) as session:
            groups = grouped(one, session, 10 if quick else GROUPED)
            wrong = impossible(one, session, 100 if quick else IMPOSSIBLE // len(STARTED))
        found["groups"].append({"table": name, **groups})
        found["impossible"].append({"table": name, **wrong})
        print(found["groups"][-1], found["impossible"][-1], flush=True)
        typical = 1 if quick else ADULT_SESSIONS if name == STARTED[0] else OTHER_SESSIONS
        found["starts"].append(starts(one, typical, 1 if quick else PREDICTED_SESSIONS))
        print(found["starts"][-1], flush=True)
    return found


def present(found: dict[str, Any]) -> list[Shown]:
    groups, numbers, claims, started = found["groups"], found["numbers"], found["typical claims"], found["starts"]
    wrong = sum(row["negative"] + row["outside"] for row in found["impossible"])
    wrong += sum(row["negative counts"] for row in groups)
    off = {row["table"]: max(row[OBTAINED], 1 / row[OBTAINED]) for row in started}
    near = sum(factor <= PREDICTED_MARK for factor in off.values())
    low = max(started, key=lambda row: row[OBTAINED])
    most = max(groups, key=lambda row: row["ratio"])
    asked = sum(row["asked"] for row in found["impossible"])
    missed = max(numbers[f"{kind} missed"] / max(1, numbers[f"{kind} certified"]) for kind in ("free", "paid"))
    nearer = numbers["median error, middles"] / numbers["median error, offsets"]
    return [
        "Sessions with half of their budget on the start (epsilon 1), and true answers computed here only.",
        Claim(
            f"error of free groups over that of its own release, worst table ({most['table']})",
            most["ratio"],
            at_most=GROUP_MARK,
        ),
        Claim(f"negative counts and means outside their bins in {asked} statements", wrong, at_most=0),
        Claim("certified sums and means that miss the raw rows, as a share", missed, at_most=MISSED_MARK),
        Claim("median error with offsets, times nearer than middles of coarse bins", nearer, at_least=NEARER_MARK),
        Claim(
            f"typical errors that failed, as a share of {claims['sessions']} sessions",
            claims["claims that failed"] / claims["sessions"],
            at_most=MISSED_MARK,
        ),
        Claim(
            f"typical error of {started[0]['table']}, median of {started[0]['sessions']} sessions",
            started[0]["typical"],
            at_most=TYPICAL_MARK,
        ),
        Claim(
            f"tables of {len(off)} on which predicted bounds were within {PREDICTED_MARK} of the obtained ones",
            near,
            at_least=min(PREDICTED_TABLES, len(off)),
        ),
        Claim(
            f"obtained over predicted, median of {started[0]['sessions with a prediction']} sessions,"
            f" worst table ({low['table']})",
            low[OBTAINED],
            at_most=PREDICTED_MARK,
        ),
        Plot(
            "predicted-bounds",
            "The bound of the first certificate, predicted and obtained",
            "predicted",
            "obtained",
            log="xy",
            series={row["table"]: [(row["predicted"], row["worst"])] for row in started},
            lines={"as predicted": sorted((row["predicted"], row["predicted"]) for row in started)},
            expected="Points on the line: predicted before the audit is paid for.",
        ),
        Grid("Groups", dict.fromkeys(groups[0], ""), groups),
        Grid("Starts", dict.fromkeys(started[0], ""), started),
    ]
