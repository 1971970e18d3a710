"""`audit`: tests whether this installation keeps its privacy claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import click
from rich.table import Table as Grid

from reticent.auditing import DEEP, FALSE_ALARM, QUICK, Audit, VerdictLine, effort_for
from reticent.cli.options import bar_on_terminal, console, json_option, print_json
from reticent.errors import QueryError

VIOLATED = 1


@click.command()
@click.option("--deep", is_flag=True, help="Run an hour instead of two minutes, to find smaller faults.")
@click.option("--seconds", type=float, help="Processor seconds for each mechanism; algorithms get four times as many.")
@click.option("--minutes", type=float, help="Processor minutes for all of them together, instead of --seconds.")
@json_option
def audit(deep: bool, seconds: float | None, minutes: float | None, as_json: bool) -> int:
    """Run every mechanism and algorithm on generated neighbouring tables and measure how well results distinguish them.

    Each line shows the claimed privacy loss and the loss that the runs prove (Clopper-Pearson, corrected for the number
    of lines). The exit code is 1 if a proven loss exceeds its claim. The command reads no table.

    \b
    Example:  reticent audit
    """
    from reticent.auditing import audit as run

    effort = DEEP if deep else QUICK
    if minutes is not None:
        if deep or seconds is not None:
            raise QueryError("--minutes is for the whole audit: leave out --deep and --seconds")
        effort = effort_for(minutes)
    if seconds is not None:
        effort = replace(effort, seconds=seconds)
    with _progress(as_json) as listener:
        found = run(effort, listener=listener)
    if as_json:
        print_json(found.to_dict())
    else:
        show_audit(found)
    return 0 if found.green else VIOLATED


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    with bar_on_terminal(quiet) as update:
        yield lambda name, done, total: update(name, done, total, "")


def show_audit(found: Audit) -> None:
    group = ""
    grid = Grid(box=None, header_style="bold", padding=(0, 2, 0, 0))
    grid.add_column("", no_wrap=True)
    grid.add_column("check", max_width=44)
    for name in ("claimed", "proven", "runs"):
        grid.add_column(name, justify="right", no_wrap=True)
    for line in found.lines:
        if line.group != group:
            group = line.group
            grid.add_row("", f"[bold]{group}[/bold]")
        grid.add_row(*_row(line))
    console.print(grid)
    for line in found.lines:
        if not line.green and line.note:
            console.print(f"\n{line.name}: {line.note}", style="red", markup=False)
    colour = "green" if found.green else "red"
    console.print(f"\n[bold {colour}]{found.verdict}[/bold {colour}]")
    console.print(
        "Losses are epsilon, or rho (zero-concentrated) where marked. 'Replayed' lines are whole runs, recorded on one"
        " table and repeated on a neighbour; their runs are pairs. 'Proven' is a lower bound, 0 where so few runs"
        f" cannot tell the tables apart; it passes a true claim in at most one audit of {1 / FALSE_ALARM:,.0f}."
    )


def _row(line: VerdictLine) -> tuple[str, ...]:
    mark = "[green]ok[/green]" if line.green else "[bold red]VIOLATED[/bold red]"
    if line.claimed is None or line.seen is None:
        return mark, line.name, *(("replayed", "", f"{line.runs:,}") if line.runs else ("exact", "", ""))
    sign = "ρ " if line.unit == "rho" else "ε "
    return mark, line.name, f"{sign}{line.claimed:.3f}", f"≥ {line.seen:.3f}", f"{line.runs:,}"
