"""Do errors and table sizes scale as the theorems say? Slopes of the planner's formulas and of real runs.

A claim is a power law `y ~ x^slope`; its slope is fitted in the logarithm of both. Formulas carry logarithmic factors
that the papers' `~` hides, so a fitted slope is near the exponent, not equal to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.planning.plan import Setting, dualquery, textbook_offline, textbook_online, tuned_online
from reticent.releases.dualquery import plan as dualquery_plan

RHO, EPSILON = 0.05, 1.0
BASE = Setting(records=10**7, log_universe=math.log(2**20), queries=10_000, failure=0.05, pure=False, amount=RHO)
PURE = replace(BASE, pure=True, amount=EPSILON)
INTRODUCTION = """Records needed and certified errors are those of the planner's formulas, which the tests hold against
the proofs; the last two laws are true errors of real runs. `a` is the error, `k` the number of questions, `|U|` the
number of possible records."""
SLOPE_WITHIN = 0.1
"""Logarithmic factors bend formulas that hide them; runs have noise beside."""


@dataclass(frozen=True)
class Law:
    """One power law, the slope its theorem gives, and the points that were computed or measured."""

    name: str
    text: str
    expected: float
    x_label: str
    y_label: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray

    @property
    def slope(self) -> float:
        return float(np.polyfit(np.log(self.x), np.log(self.y), 1)[0])

    def record(self) -> dict[str, Any]:
        return {
            "claim": self.text,
            "expected slope": self.expected,
            "measured slope": round(self.slope, 3),
            "x": self.x_label,
            "y": self.y_label,
            "points": [[float(x), float(y)] for x, y in zip(self.x, self.y, strict=True)],
        }


def needed(formula: Callable[[Setting], float], setting: Setting, error: float) -> float:
    """Records from which on a formula certifies `error`, by bisection."""
    low, high = 1, 10**24
    while high - low > low // 10**6 + 1:
        middle = math.isqrt(low * high) if high > 2 * low else (low + high) // 2
        enough = formula(replace(setting, records=middle)) <= error
        low, high = (low, middle) if enough else (middle, high)
    return float(high)


def offline_claims(points: int) -> list[Law]:
    """n ~ log k log|U| / a^3 (pure), log k sqrt(log|U|) / a^2 (approximate); spec 5.1."""
    errors = np.geomspace(0.005, 0.2, points)
    universes = np.geomspace(math.log(2**10), math.log(2**10) * 100, points)
    counts = np.geomspace(1e40, 1e280, points)
    found = []
    for kind, setting, by_error, by_universe in (("pure", PURE, 3.0, 1.0), ("approximate", BASE, 2.0, 0.5)):
        law = "log k log|U| / a³" if kind == "pure" else "log k √(log|U|) / a²"
        sizes = [needed(textbook_offline, setting, a) for a in errors]
        text = f"offline, {kind}: n ~ {law}, in 1/a"
        found.append(Law(f"offline-{kind}-error", text, by_error, "1 / error", "records needed", 1 / errors, sizes))
        sizes = [needed(textbook_offline, replace(setting, log_universe=u), 0.05) for u in universes]
        text = f"offline, {kind}: n ~ {law}, in log|U|"
        name = f"offline-{kind}-universe"
        found.append(Law(name, text, by_universe, "ln |U|", "records needed", universes, sizes))
        sizes = [needed(textbook_offline, replace(setting, queries=k), 0.05) for k in counts]
        text = f"offline, {kind}: n ~ {law}, in log k"
        found.append(Law(f"offline-{kind}-queries", text, 1.0, "ln k", "records needed", np.log(counts), sizes))
    return found


def online_claims(points: int) -> list[Law]:
    """Error ~ 1/sqrt n, records ~ log k (approximate); error ~ n^(-1/3) (pure); spec 6.2. DualQuery n^(-1/3)."""
    sizes = np.geomspace(1e6, 1e10, points)
    counts = np.geomspace(1e40, 1e280, points)
    found = []
    for name, formula, setting, expected in (
        ("tuned", tuned_online, BASE, -1 / 2),
        ("textbook", textbook_online, replace(BASE, records=10**9), -1 / 2),
        ("tuned, pure", tuned_online, PURE, -1 / 3),
        ("dualquery", dualquery, BASE, -1 / 3),
    ):
        scale = setting.records / BASE.records
        errors = [formula(replace(setting, records=int(n * scale))) for n in sizes]
        text = f"{name}: certified error in n"
        plain = name.replace(", ", "-")
        found.append(Law(f"online-{plain}-records", text, round(expected, 3), "n", "error", sizes * scale, errors))
    errors = [needed(textbook_online, replace(BASE, queries=k), 0.1) for k in counts]
    text = "textbook: records for one error in log k"
    found.append(Law("online-textbook-queries", text, 1.0, "ln k", "records needed", np.log(counts), errors))
    return found


def round_claims(points: int) -> list[Law]:
    """DualQuery plays T = 16 ln|Q| / a^2 rounds; spec 7.3."""
    errors, counts = np.geomspace(0.01, 0.3, points), np.geomspace(1e2, 1e9, points)
    universe = BASE.log_universe
    by_error = [dualquery_plan.textbook(BASE.records, 10_000, universe, error=float(a)).rounds for a in errors]
    by_count = [dualquery_plan.textbook(BASE.records, int(k), universe, error=0.05).rounds for k in counts]
    return [
        Law("dualquery-rounds-error", "dualquery: rounds in 1/a", 2.0, "1 / error", "rounds", 1 / errors, by_error),
        Law("dualquery-rounds-queries", "dualquery: rounds in log k", 1.0, "ln k", "rounds", np.log(counts), by_count),
    ]


def sample_table(records: int) -> Table:
    """Eight dependent binary attributes with exactly so many records: distinct ones carry weights."""
    domain = rt.Domain({f"x{place}": 2 for place in range(8)})
    cells = np.array(np.unravel_index(np.arange(domain.size), domain.shape))
    shares = np.exp(2 * np.sin(0.7 * np.arange(domain.size)) + 1.5 * (cells[0] == cells[1]) + cells[2] * cells[3])
    weights = np.floor(shares / shares.sum() * records).astype(np.int64)
    weights[0] += records - weights.sum()
    return Table(
        Records.of_codes(domain, dict(zip(domain.names, cells, strict=True)), weights), domain, records=records
    )


def true_error(table: Table, query: Any, value: float) -> float:
    form = query.compile(table.domain)
    exact = table._source.marginal(table.domain.canonical(form.attributes)) / table._source.total()
    return abs(float((exact * form.tensor()).sum()) - value)


def online_run(records: int, questions: int) -> dict[str, Any]:
    """The tuned engine on random cells of three-way marginals: certified and largest true error."""
    table = sample_table(records)
    cells = list(rt.marginals(table.domain, 3).scalars(table.domain))
    chosen = np.random.default_rng(9).integers(0, len(cells), questions)
    with rt.Session.open(None, table, rt.Budget(rho=RHO), engine="tuned", queries=questions) as session:
        worst = max(true_error(table, cells[i], float(session.ask(cells[i]).value)) for i in chosen)
        facts = session.describe()["epochs"]
    return {
        "records": records,
        "certified": facts["error"],
        "largest true error": worst,
        "updates": facts["updates"],
        "allowed": facts["planned"],
    }


def offline_run(records: int) -> dict[str, Any]:
    """The textbook algorithm at the smallest error it promises for so many records."""
    table = sample_table(records)
    workload = rt.marginals(table.domain, 3)
    setting = replace(BASE, records=records, log_universe=math.log(table.domain.size), queries=len(workload))
    promised = 1.02 * textbook_offline(setting)
    release = rt.release(table, workload, rt.Budget(rho=RHO), algorithm=rt.TextbookPMW(error=promised / 4))
    return {
        "records": records,
        "certified": promised,
        "largest true error": rt.evaluate(release, table, workload).max_error,
        "updates": release.notes["rounds"] - 1,
        "allowed": release.notes["planned"],
    }


def run_claims(name: str, runs: list[dict[str, Any]]) -> Law:
    sizes = [run["records"] for run in runs]
    seen = [run["largest true error"] for run in runs]
    plain = name.replace(" ", "-")
    return Law(f"run-{plain}", f"{name}: largest true error of real runs in n", -0.5, "n", "error", sizes, seen)


def run(quick: bool) -> dict[str, Any]:
    """Slopes expected and measured; real runs beside what they promised."""
    points = 6 if quick else 16
    online = [online_run(n, 200 if quick else 1000) for n in (10**6, 10**7, 10**8, *(() if quick else (10**9,)))]
    offline = [offline_run(n) for n in (10**6, 2 * 10**6, *(() if quick else (4 * 10**6, 10**7)))]
    claims = [*offline_claims(points), *online_claims(points), *round_claims(points)]
    claims += [run_claims("tuned online", online), run_claims("textbook offline", offline)]
    return {
        "slopes": {claim.name: claim.record() for claim in claims},
        "tuned online": online,
        "textbook offline": offline,
        "all within what was certified": all(r["largest true error"] <= r["certified"] for r in [*online, *offline]),
    }


def present(found: dict[str, Any]) -> list[Shown]:
    """Every law with its line of the expected slope through the middle of the points."""
    laws = found["slopes"]
    shown: list[Shown] = [INTRODUCTION]
    shown += [
        Claim(f"slope: {law['claim']}", law["measured slope"], expected=law["expected slope"], within=SLOPE_WITHIN)
        for law in laws.values()
    ]
    shown += [law_plot(name, law) for name, law in laws.items()]
    columns = {"records": "", "certified": "", "largest true error": "", "updates": "", "allowed": ""}
    return [
        *shown,
        *(Grid(f"Real runs: {name}", columns, found[name]) for name in ("tuned online", "textbook offline")),
    ]


def law_plot(name: str, law: dict[str, Any]) -> Plot:
    logarithms = np.log(np.array(law["points"]))
    middle = np.exp(logarithms[:, 1].mean() - law["expected slope"] * logarithms[:, 0].mean())
    ends = [min(x for x, _ in law["points"]), max(x for x, _ in law["points"])]
    return Plot(
        name,
        law["claim"],
        law["x"],
        law["y"],
        {f"measured, slope {law['measured slope']:.3f}": law["points"]},
        lines={
            f"expected, slope {law['expected slope']:.3g}": [(x, middle * x ** law["expected slope"]) for x in ends]
        },
        log="xy",
        expected=f"Expected: a straight line of slope {law['expected slope']:.3g}.",
    )


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(run("--quick" in sys.argv), indent=1))
