"""What several commands share: options, the table they name, the budget they state, and a progress bar."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from reticent.algorithms.outcome import Progress as Step
from reticent.algorithms.outcome import Report
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import Budget

console = Console(highlight=False, soft_wrap=False)


def table_options(function: Callable) -> Callable:
    """TABLE and everything that says how to read it."""
    return click.argument("table", metavar="TABLE")(reading_options()(function))


def reading_options(*, domain_required: bool = True) -> Callable[[Callable], Callable]:
    """How to read a table."""
    options = [
        click.option("--domain", "domain_file", required=domain_required, help="Public description of the columns."),
        click.option("--query", help="SQL that selects the rows when TABLE is a database URL."),
        click.option("--person", help="Column that names the person; each person then weighs one."),
        click.option("--records", type=int, help="Public number of records, where the reader cannot know it."),
        click.option(
            "--neighbours",
            type=click.Choice(["replace-one", "add-remove"]),
            default="replace-one",
            show_default=True,
            help="What the guarantee protects: replacing one record, or adding and removing one.",
        ),
    ]

    def decorate(function: Callable) -> Callable:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def budget_options(function: Callable) -> Callable:
    """The three ways to state a budget."""
    for option in reversed(
        [
            click.option("--epsilon", type=float, help="Privacy budget epsilon, a total."),
            click.option("--delta", type=float, help="With --epsilon: (epsilon, delta); without it pure epsilon."),
            click.option("--rho", type=float, help="Budget in zero-concentrated differential privacy instead."),
        ]
    ):
        function = option(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines and nothing else.")


def budget_from(epsilon: float | None, delta: float | None, rho: float | None) -> Budget:
    if epsilon is None and rho is None:
        raise QueryError("state a budget: --epsilon 1 --delta 1e-9, --epsilon 1 (pure), or --rho 0.05")
    return Budget(epsilon=epsilon, delta=delta, rho=rho)


def read_table(table: str, domain_file: str, **reading: Any) -> Any:
    """The table with its domain; quiet about values."""
    from reticent.sources import Table

    domain = Domain.read(domain_file)
    return Table.read(table, domain, **{name: value for name, value in reading.items() if value is not None})


def workload_from(text: str, domain: Domain) -> Any:
    """`marginals:3`, `ranges:age`, a file of attribute sets, or a file of SQL statements."""
    from reticent.queries.workload import Workload

    if text.endswith(".sql"):
        from reticent.sql import workload_of_sql

        try:
            return workload_of_sql(Path(text).read_text(), domain)
        except OSError:
            raise QueryError(f"{text}: no such workload file") from None
    return Workload.parse(text, domain)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Report]:
    """A bar on a terminal with round and spent share; silent elsewhere. Public quantities only."""
    with bar_on_terminal(quiet) as update:

        def report(step: Step) -> None:
            update(step.message, step.step, step.steps, f"{step.spent:.0%} spent")

        yield report


@contextmanager
def bar_on_terminal(quiet: bool) -> Iterator[Callable[[str, int, int, str], None]]:
    """`update(message, done, total, note)`; the bar is gone when the work is done."""
    if quiet or not sys.stderr.isatty():
        yield lambda message, done, total, note: None
        return
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task("starting", total=None, note="")

        def update(message: str, done: int, total: int, note: str) -> None:
            bar.update(task, description=escape(message), completed=done, total=total, note=note)

        yield update
