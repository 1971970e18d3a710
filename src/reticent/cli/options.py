"""Parts that several commands share: options, the table, the budget and a progress bar."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from reticent.domain import Domain
from reticent.domain.files import named_path, shown_path
from reticent.errors import QueryError, one_line
from reticent.kernel.accounting import Budget
from reticent.progress.bars import Report, bar, listening

if TYPE_CHECKING:
    from reticent.knowledge.request import Records


class _Output(Console):
    """The standard output; one that its reader has closed is an error like any other, not an exit from within."""

    def on_broken_pipe(self) -> None:
        raise


console = _Output(highlight=False, soft_wrap=False, emoji=False)
"""Names of columns and values are shown literally: `:station:` is not replaced by an emoji."""


version_option = click.option(
    "--version", help="Version of the rows; the ledger refuses any other than the version of its first opening."
)
most_option = click.option("--most", type=int, help="With --person: count rows, at most this many of each person.")


def table_options(function: Callable) -> Callable:
    """TABLE and everything that says how to read it."""
    return click.argument("table", metavar="TABLE")(reading_options()(function))


def reading_options(*, domain_required: bool = True) -> Callable[[Callable], Callable]:
    """How to read a table."""
    options = [
        click.option("--domain", "domain_file", required=domain_required, help="Public description of the columns."),
        click.option("--query", help="SQL that selects the rows; for a file, write FROM rows."),
        click.option("--person", help="Column that identifies the person; each person then counts as one."),
        most_option,
        click.option("--records", type=int, help="Public number of records, if the source does not state it."),
        version_option,
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
            click.option(
                "--delta", type=float, help="With --epsilon: (epsilon, delta) privacy; without --delta, pure epsilon."
            ),
            click.option(
                "--rho", type=float, help="Instead of --epsilon: budget in zero-concentrated differential privacy."
            ),
        ]
    ):
        function = option(function)
    return function


ENGINE_NAMES = ("engine", "queries", "losses", "support", "smoothness", "gamma", "distance")


def engine_options(function: Callable) -> Callable:
    """How a session answers; all engines but the default one answer all questions, or all losses, within one error."""
    engines = ["default", "tuned", "textbook", "hardt-rothblum", "convex-tuned", "convex-textbook"]
    for option in reversed(
        [
            click.option("--engine", type=click.Choice(engines), help="How to answer.  [default: default]"),
            click.option("--queries", type=int, help="Number of questions to expect."),
            click.option("--losses", help="For convex engines: a .toml or .json file of losses like those to expect."),
            click.option("--support", type=int, help="For threshold engines: number of sampled records to learn on."),
            click.option(
                "--smoothness",
                type=float,
                help="Instead of --support: no cell holds more than this share of the table.",
            ),
            click.option(
                "--gamma", type=float, help="With --smoothness: error that sampling may add.  [default: 0.05]"
            ),
            click.option("--distance", type=float, help="With --smoothness: distance of the table from a smooth one."),
        ]
    ):
        function = option(function)
    return function


START_NAMES = ("numbers", "purpose", "useful")


def start_options(function: Callable) -> Callable:
    """Options of a session's opening: its purpose, and whether it sells means of the rows' own numbers."""
    for option in reversed(
        [
            click.option(
                "--numbers",
                is_flag=True,
                default=None,
                help="Store the position of each number in its bin, to sell AVG and SUM of the rows' own numbers.",
            ),
            click.option(
                "--purpose",
                type=click.Choice(["unlimited", "few"]),
                help="Buy a warm start for any number of answers, or keep the budget for few.  [default: predicted]",
            ),
            click.option("--useful", type=float, help="Largest predicted bound at which the warm start is bought."),
        ]
    ):
        function = option(function)
    return function


def engine_from(
    engine: str | None,
    queries: int | None,
    losses: str | None,
    support: int | None,
    smoothness: float | None,
    gamma: float | None,
    distance: float | None,
) -> dict[str, Any]:
    """The values of `engine_options` as arguments of `Session.open`."""
    from reticent.planning.loss_files import read_losses
    from reticent.planning.smooth import stated_support

    sampled = stated_support(support, smoothness, gamma, distance)
    planned = {} if losses is None else {"losses": read_losses(losses)}
    return {"engine": engine or "default", "queries": queries, "support": sampled} | planned


anchor_option = click.option(
    "--anchor", type=click.Path(path_type=Path), help="File of the ledger's anchor; keep it on another volume."
)


@contextmanager
def telling_anchor(ledger: str | Path | None, anchor: str | Path | None) -> Iterator[None]:
    """Context manager for code that may create a ledger: warns afterwards if the anchor is in the same folder."""
    new = ledger is not None and anchor is None and not Path(ledger).exists()
    yield
    if new:
        click.echo(
            f"The anchor is kept beside the ledger, in {one_line(f'{ledger}.anchor')}: restoring the folder"
            " restores both and hides a rollback. Use --anchor to keep it on another volume.",
            err=True,
        )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


misfits_option = click.option(
    "--accept-misfits", is_flag=True, help="Continue although much of a column, or --records, does not fit."
)


def check_fit(table: str, accept: bool, domain_file: str, **reading: Any) -> None:
    """Stop before anything is spent if much of a column, or the declared number of records, does not fit; only
    custodians' commands check this.
    """
    if not accept:
        from reticent.custodian.check import refuse_misfits

        declared = {name: reading.get(name) for name in ("query", "person")}
        if reading.get("neighbours") != "add-remove" and reading.get("most") is None:  # else no number is declared
            declared["records"] = reading.get("records")
        refuse_misfits(table, Domain.read(domain_file), **declared)


def budget_from(epsilon: float | None, delta: float | None, rho: float | None) -> Budget:
    if epsilon is None and rho is None:
        raise QueryError("state a budget: --epsilon 1 --delta 1e-9, --epsilon 1 (pure), or --rho 0.05")
    return Budget(epsilon=epsilon, delta=delta, rho=rho)


def warn_of_delta(budget: Budget, records: int | None, where: str = "") -> None:
    """Warn on stderr of a delta that allows to publish whole records; `records` is public, None where it is private.

    Publishing every record with probability delta is (0, delta)-private, and reveals delta times `records` of them.
    """
    if budget.delta is not None and records is not None and budget.delta * records >= 1:
        better = min(USUAL_DELTA, 10.0 ** -math.ceil(2 * math.log10(records))) if records > 1 else USUAL_DELTA
        click.echo(
            f"{where}delta {float(budget.delta):g} is not below 1/{records}: whole records may be revealed; use"
            f" {better:.0e}".replace("e-0", "e-"),
            err=True,
        )


USUAL_DELTA = 1e-9


def wanted_error(text: str) -> float | str | Records:
    """The value of --error: a number in the unit of the shown column, `80 records`, or a percentage as text."""
    from reticent.knowledge.request import checked_error, records

    word = text.strip().lower()
    number_text = word.removesuffix("records").removesuffix("record")
    try:
        number = float(number_text)
    except ValueError:
        if "%" not in text:
            raise QueryError(f"{text[:40]} is not an error: give a number above 0, 80 records, or 1%") from None
        checked_error(text)
        return text
    checked_error(number)
    return number if number_text == word else records(number)


def refuse_unused(why: str, *names: str) -> None:
    """Refuse an option without effect, before anything is read or spent."""
    ctx = click.get_current_context()
    for name in names:
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            option = next(p.opts[0] for p in ctx.command.params if p.name == name)
            raise QueryError(f"{option} has no effect {why}; leave it out")


def refuse_overwriting(*names: str) -> None:
    """Refuse an output that would overwrite an input, the ledger or another output of the same command."""
    ctx = click.get_current_context()
    options = {p.name: p.opts[0] if isinstance(p, click.Option) else "the input" for p in ctx.command.params if p.name}
    given = {name: ctx.params[name] for name in options if isinstance(ctx.params.get(name), str | Path)}
    outputs = {name: given.pop(name) for name in names if name in given}
    kept = [(options[name], value) for name, value in given.items() if name in _PLACES or _is_file(value)]
    kept += [(options["ledger"], f"{given['ledger']}{end}") for end in _BESIDE if "ledger" in given]
    for name, output in outputs.items():
        for other, place in kept:
            if _same_file(output, place):
                raise QueryError(f"{options[name]} {shown_path(output)} would overwrite {other}; choose another name")
        kept.append((options[name], output))


_PLACES = ("ledger", "anchor")
_BESIDE = ("-wal", "-shm", ".lock", ".anchor")


def _is_file(value: str | Path) -> bool:
    try:
        return Path(value).is_file()
    except (OSError, ValueError):  # a statement or an address, not the name of a file
        return False


def _same_file(one: str | Path, other: str | Path) -> bool:
    try:
        return Path(one).resolve() == Path(other).resolve() or (
            _is_file(one) and _is_file(other) and Path(one).samefile(other)
        )
    except (OSError, ValueError):
        return False


def read_table(table: str, domain_file: str, **reading: Any) -> Any:
    """Read the table with its domain; messages contain no values."""
    from reticent.sources import Table

    domain = Domain.read(domain_file)
    rows = {} if reading.get("most") is None else {"rows": "bounded"}
    quiet = bool(click.get_current_context().params.get("as_json"))
    given = {name: value for name, value in reading.items() if value is not None}
    return Table.read(table, domain, progress=not quiet, **rows, **given)


def workload_from(text: str, domain: Domain) -> Any:
    """`marginals:3`, `ranges:age`, a file of attribute sets, or a file of SQL statements."""
    from reticent.queries.workload import Workload

    if text.endswith(".sql"):
        from reticent.sql import read_sql_workload

        return read_sql_workload(named_path(text, "questions.sql"), domain)
    return Workload.parse(text, domain)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Report]:
    """A progress bar on a terminal with round, spent share and remaining time; public quantities only."""
    with listening(not quiet) as report:
        yield report


@contextmanager
def bar_on_terminal(quiet: bool) -> Iterator[Callable[[str, int, int, str], None]]:
    """Yield `update(message, done, total, note)`; the bar disappears when the work is done."""
    with bar(not quiet) as update:
        yield update or (lambda message, done, total, note: None)
