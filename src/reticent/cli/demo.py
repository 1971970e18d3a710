"""`demo`: publishes a real public table from an installed package, offline, in less than a minute."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

import reticent as rt
from reticent.cli.options import console, json_option, print_json, progress_bar
from reticent.cli.outputs import write_rows
from reticent.cli.publish import BARS
from reticent.cli.show import bounded, show_result
from reticent.domain.files import writing
from reticent.errors import SourceError

EPSILON, DELTA = 1.0, 1e-9

QUESTIONS = (
    ("How many person-years had five or more visits?", "SELECT COUNT(*) FROM visits WHERE doctor_visits >= 5"),
    (
        "And how many in excellent health had none at all?",
        "SELECT COUNT(*) FROM visits WHERE health = 'excellent' AND doctor_visits = 0",
    ),
)
GROUPED = (
    (
        "Does free care bring people to the doctor? The share that went at least once:",
        "SELECT free_care, AVG(IF(doctor_visits > 0, 1, 0)) went FROM visits GROUP BY 1",
    ),
    ("How is health distributed?", "SELECT health, COUNT(*) FROM visits GROUP BY health"),
)


def domain() -> Any:
    """Public facts about the experiment: declared bins and categories, not learned from the rows."""
    return rt.Domain(
        # More than 30 visits a year count as 30: a mean is only as exact as its range is short.
        doctor_visits=rt.Numeric(edges=[0, 1, 2, 3, 5, 8, 13, 31], whole=True, other=False),
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
    raw: Any = randhie.load_pandas().data
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
@json_option
def demo(out: Path, as_json: bool) -> None:
    """Publish a real public health table: synthetic rows, a report, and answers with error bars.

    \b
    Example:  reticent demo
    """
    started = time.perf_counter()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    if not as_json:
        introduce()
    table = rt.Table.of(rows(), domain(), name="visits")
    workload = rt.marginals(table.domain, 3)
    with progress_bar(as_json) as listener:
        release = rt.release(table, workload, rt.Budget(epsilon=EPSILON, delta=DELTA), progress=listener)
    # The table is public, so for once the truth may be shown beside the promise.
    truth = rt.evaluate(release, table, workload)
    write_rows(release.synthesize(round(release.records)), out / "synthetic.parquet")
    release.save(out / "visits.release")
    release.report(out / "report.html")
    seconds = time.perf_counter() - started
    if as_json:
        asked = [release.ask(sql).to_dict() for _, sql in QUESTIONS + GROUPED]
        print_json(release.facts | {"answers": asked, "max_error": truth.max_error, "seconds": seconds})
        return
    show_promise(release, workload, truth.max_error)
    show_answers(release)
    conclude(out, seconds)


def introduce() -> None:
    console.print(
        "[bold]Reticent demo[/bold]\n\n"
        "The RAND Health Insurance Experiment: 20,190 person-years of doctor visits,\n"
        "health and insurance. The unit protected is one person-year (this public\n"
        "extract names no persons).\n"
        f"Budget: epsilon {EPSILON:g}, delta {DELTA:g}, for everything below together."
    )


def show_promise(release: Any, workload: Any, largest: float) -> None:
    bound = next(c for c in release.certificates if c.kind == "cells")
    console.print(
        f"\nMeasured with noise, then fitted: all {len(workload.marginals)} tables of three columns,"
        f" {len(workload):,} cells.\n"
        f"  Certified  every cell within [bold]{bound.bound:.2%}[/bold] of the truth"
        f" (all at once, confidence {bound.confidence:.0%})\n"
        f"  In truth   {largest:.2%} at most (the custodian's own look, never published)"
    )


def show_answers(release: Any) -> None:
    console.print(f"\nEvery answer from now on is free. In SQL, with its certified error\n({BARS}):")
    for question, sql in QUESTIONS:
        result = release.ask(sql)
        console.print(f"\n[bold]{question}[/bold]\n  [dim]{escape(sql)}[/dim]")
        console.print(f"  {bounded(result.rows[0][0], result.errors[0][0])}")
    for question, sql in GROUPED:
        console.print(f"\n[bold]{question}[/bold]\n  [dim]{escape(sql)}[/dim]")
        show_result(release.ask(sql), footer=False)


def command() -> str:
    """The command that starts `reticent`: its name if the shell finds it, otherwise its path."""
    called = Path(sys.argv[0])
    if shutil.which("reticent") or called.name != "reticent":
        return "reticent"
    return os.path.relpath(called) if called.is_absolute() else str(called)


def conclude(out: Path, seconds: float) -> None:
    console.print(
        f"\nWritten to [bold]{escape(str(out))}/[/bold]:\n"
        "  synthetic.parquet  20,190 synthetic rows; none belongs to a person\n"
        "  report.html        what was spent, what is guaranteed: open it in a browser\n"
        "  visits.release     ask more, for free:"
    )
    # One line however narrow the terminal is, to be copied.
    console.print(f"  {shlex.join([command(), 'shell', str(out / 'visits.release')])}", soft_wrap=True, markup=False)
    console.print(f"\n{seconds:.0f} seconds.")
