"""`demo`: the main job on real public data that a package ships, offline, in about a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from rich.table import Table as Grid

import reticent as rt
from reticent.cli.options import console, progress_bar
from reticent.cli.publish import write_rows
from reticent.errors import SourceError

EPSILON, DELTA = 1.0, 1e-9
BAR = 36

QUESTIONS = (
    ("SELECT COUNT(*) FROM visits WHERE doctor_visits >= 5", "heavy users of outpatient care"),
    ("SELECT AVG(doctor_visits) FROM visits WHERE free_care = 'yes'", "mean visits under free care"),
    ("SELECT AVG(doctor_visits) FROM visits WHERE free_care = 'no'", "mean visits with coinsurance"),
    ("SELECT COUNT(*) FROM visits WHERE health = 'poor' AND doctor_visits = 0", "in poor health, no visit at all"),
)


def domain() -> Any:
    """Public facts about the experiment, declared before looking: bins and categories, never learned from rows."""
    return rt.Domain(
        doctor_visits=rt.Numeric(edges=[0, 1, 2, 3, 5, 8, 13, 100], whole=True, other=False),
        free_care=rt.Categorical(["yes", "no"], other=False),
        deductible=rt.Categorical(["yes", "no"], other=False),
        limitation=rt.Categorical(["none", "some"], other=False),
        chronic_diseases=rt.Numeric(edges=[0, 5, 10, 15, 20, 60], other=False),
        health=rt.Categorical(["excellent", "good", "fair", "poor"], other=False),
        incentive=rt.Numeric(edges=[0, 3, 6, 7, 9], other=False),
    )


def rows() -> Any:
    """The RAND Health Insurance Experiment as statsmodels ships it, with readable columns."""
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        raise SourceError("the demo reads a table that statsmodels ships: pip install statsmodels") from None
    raw = randhie.load_pandas().data
    health = ["excellent"] * len(raw)
    for name, column in (("good", "hlthg"), ("fair", "hlthf"), ("poor", "hlthp")):
        health = [name if flag else old for flag, old in zip(raw[column] == 1, health, strict=True)]
    frame = raw[["mdvis", "disea", "lpi"]].rename(
        columns={"mdvis": "doctor_visits", "disea": "chronic_diseases", "lpi": "incentive"}
    )
    return frame.assign(
        free_care=["yes" if rate == 0 else "no" for rate in raw["lncoins"]],
        deductible=["yes" if flag == 1 else "no" for flag in raw["idp"]],
        limitation=["some" if share > 0 else "none" for share in raw["physlm"]],
        health=health,
    )


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo-output"), show_default=True)
def demo(out: Path) -> None:
    """Publish a real public health table: synthetic rows, a report, and answers with error bars.

    \b
    Example:  reticent demo
    """
    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    console.print("[bold]Reticent demo[/bold]: the RAND Health Insurance Experiment, 20,190 person-years.")
    console.print("The privacy unit here is one person-year (this public extract names no persons).\n")
    table = rt.Table.of(rows(), domain(), name="visits")
    budget = rt.Budget(epsilon=EPSILON, delta=DELTA)
    workload = rt.marginals(table.domain, 3)
    console.print(f"Universe of {table.domain.size:,} possible records; budget {budget.describe()}.")
    with progress_bar(False) as listener:
        release = rt.release(table, workload, budget, progress=listener)
    bound = release.certificates[0]
    console.print(
        f"\nLearned {len(workload.marginals)} three-way tables. [bold]Certified:[/bold] each of their"
        f" {len(workload):,} cells is within [bold]{bound.bound:.2%}[/bold] of the truth"
        f" (all at once, confidence {bound.confidence:.0%}).\n"
    )
    show_answers(release)
    show_marginal(release)
    synthetic = release.synthesize(20_190)
    write_rows(synthetic, out / "synthetic.parquet")
    release.save(out / "visits.release")
    release.report(out / "report.html")
    console.print(f"\nWritten to [bold]{out}/[/bold]: synthetic.parquet ({synthetic.num_rows:,} rows), report.html,")
    console.print("visits.release (reload with rt.Release.load; every further answer is free).")
    console.print(f"{time.perf_counter() - started:.0f} seconds.")


def show_answers(release: Any) -> None:
    grid = Grid("question (SQL)", "answer", "±", "", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for text, meaning in QUESTIONS:
        result = release.ask(text)
        value, error = result.rows[0][0], result.errors[0][0]
        shown = "no certificate" if error is None else f"{error:,.2f}"
        grid.add_row(text, f"{value:,.2f}", shown, meaning)
    console.print(grid)


def show_marginal(release: Any) -> None:
    """Visits by health as bars: what a released marginal looks like."""
    answer = release.answer(rt.marginal("health", "doctor_visits"))
    shares = answer.value / answer.value.sum(axis=1, keepdims=True)
    console.print("\n[bold]Person-years without any visit, by health[/bold] (from the release)")
    for label, share in zip(answer.labels[0][1], shares[:, 0], strict=True):
        console.print(f"  {label:<10} {'█' * round(share * BAR):<{BAR}} {share:.0%}")
