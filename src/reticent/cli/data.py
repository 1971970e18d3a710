"""`check` and `plan`: before anything is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.table import Table as Grid

from reticent.cli.options import budget_from, budget_options, console, json_option, print_json
from reticent.domain import Domain

if TYPE_CHECKING:
    from reticent.planning import Plan


@click.command()
@click.argument("table", metavar="TABLE")
@click.option("--domain", "domain_file", required=True, help="Public description of the columns: .toml or .json.")
@click.option("--query", help="SQL that selects the rows when TABLE is a database URL.")
@click.option("--person", help="Column that names the person.")
@click.option("--records", type=int, help="The number you mean to declare.")
@json_option
def check(
    table: str, domain_file: str, query: str | None, person: str | None, records: int | None, as_json: bool
) -> None:
    """Show the custodian what does not fit the domain. Exact counts: never for publication.

    \b
    Example:  reticent check census.parquet --domain census.toml
    """
    from reticent.custodian import check as inspect

    found = inspect(table, Domain.read(domain_file), query=query, person=person, records=records)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(str(found))


@click.command()
@click.option("--records", type=int, required=True, help="Number of records or persons.")
@click.option("--domain", "domain_file", required=True, help="Public description of the columns: .toml or .json.")
@click.option("--queries", type=int, default=10_000, show_default=True, help="How many adaptive questions.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="That all of them are met together.")
@click.option("--error", type=float, help="Also print the budget each mechanism would need for this error.")
@budget_options
@json_option
def plan(
    records: int,
    domain_file: str,
    queries: int,
    confidence: float,
    error: float | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    as_json: bool,
) -> None:
    """What each mechanism certifies for these public facts, and which one to choose. Touches no data.

    \b
    Example:  reticent plan --records 48842 --domain census.toml --epsilon 1 --delta 1e-9 --queries 10000
    """
    from reticent.planning import plan as make

    made = make(
        records=records,
        domain=Domain.read(domain_file),
        budget=budget_from(epsilon, delta, rho),
        queries=queries,
        confidence=confidence,
    )
    needed = made.needed(error) if error is not None else {}
    if as_json:
        print_json(made.to_dict() | ({"needed": needed} if needed else {}))
        return
    show_plan(made)
    if needed:
        console.print(
            f"\nFor an error of {error:g} each would need so many times this {made.budget.unit}:", markup=False
        )
        for name, factor in sorted(needed.items(), key=lambda entry: entry[1]):
            console.print(f"  {name:<26}{factor:>12.4g}", markup=False)


def show_plan(made: Plan) -> None:
    """Mechanisms by error, smallest first; what is expected but not promised is marked."""
    setting = made.setting
    console.print(
        f"{setting.queries:,} questions, {setting.records:,} records, {float(made.domain.size):.3g} possible records,"
        f" confidence {1 - setting.failure:g}",
        markup=False,
    )
    console.print(made.budget.describe() + "\n", markup=False)
    grid = Grid(box=None, header_style="bold", padding=(0, 2, 0, 0))
    grid.add_column("mechanism", no_wrap=True)
    grid.add_column("error", justify="right", no_wrap=True)
    grid.add_column("what it is", overflow="fold")
    for option in sorted(made.options, key=lambda option: option.error):
        error = "vacuous" if option.vacuous else f"{option.error:.2g}" if option.certified else f"~{option.error:.2g}"
        grid.add_row(option.name, error, option.note)
    console.print(grid)
    console.print("\nAn error is a fraction of the table; ~ is expected and then certified by an audit, not promised.")
    if any(option.vacuous for option in made.options):
        console.print("vacuous: more than half the table, which says nothing.")
    console.print(made.advice, markup=False)
