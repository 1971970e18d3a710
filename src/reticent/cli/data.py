"""`check` and `plan`: before anything is spent."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click
from rich.table import Table as Grid

from reticent.cli.options import budget_from, budget_options, console, json_option, print_json, warn_of_delta
from reticent.domain import Domain
from reticent.errors import DomainError, QueryError

if TYPE_CHECKING:
    from reticent.planning.plan import Plan


@click.command()
@click.argument("table", metavar="TABLE")
@click.option("--domain", "domain_file", required=True, help="Public description of the columns: .toml or .json.")
@click.option("--query", help="SQL that selects the rows; for a file, write FROM rows.")
@click.option("--person", help="Column that identifies the person.")
@click.option("--records", type=int, help="The number of records that you will declare.")
@click.option(
    "--limit", type=float, help="Fail if more than this share of a column does not fit the domain.  [default: 0.25]"
)
@click.option("--examples", type=int, help="Number of misfits to show for each column.  [default: 5]")
@json_option
def check(
    table: str,
    domain_file: str,
    query: str | None,
    person: str | None,
    records: int | None,
    limit: float | None,
    examples: int | None,
    as_json: bool,
) -> None:
    """Show the values that do not fit the domain. The counts are exact: for the custodian, never for publication.

    \b
    Example:  reticent check census.parquet --domain census.toml
              reticent check visits.csv --domain visits.toml --query "SELECT * FROM rows WHERE year = '2024'"
    """
    from reticent.custodian.check import EXAMPLES, LIMIT
    from reticent.custodian.check import check as inspect

    declared, problem = _declared(domain_file)
    found = inspect(
        table,
        declared,
        query=query,
        person=person,
        records=records,
        limit=LIMIT if limit is None else limit,
        examples=EXAMPLES if examples is None else examples,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(str(found))
    if problem is not None:
        raise problem
    found.refuse_number("declare that number; `release` and `serve` also stop, unless --accept-misfits is given")
    found.refuse("correct the domain or the rows; `release` and `serve` also stop, unless --accept-misfits is given")


def _declared(path: str) -> tuple[Domain, DomainError | None]:
    """The domain of a file; for a draft, the part that can be checked, and the missing keys."""
    from reticent.custodian.check import readable_part
    from reticent.domain import Undeclared
    from reticent.domain.draft import read_draft

    try:
        return Domain.read(path), None
    except DomainError as problem:
        with suppress(DomainError):
            draft = read_draft(path)
            known = readable_part(draft) if any(isinstance(each, Undeclared) for each in draft.values()) else None
            if known is not None:
                return known, problem
        raise


@click.command()
@click.option("--records", type=int, help="Number of records or persons.")
@click.option("--domain", "domain_file", required=True, help="Public description of the columns: .toml or .json.")
@click.option("--losses", help="Plan for convex losses like those of this file, .toml or .json, instead of counts.")
@click.option("--queries", type=int, help="Number of adaptive questions.  [default: 10000; 100 with --losses]")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Probability that all errors hold jointly."
)
@click.option(
    "--error",
    type=float,
    help="Also print the budget that each mechanism needs for this error. With --losses: the excess risk; give"
    " two of --records, --error and a budget.",
)
@budget_options
@json_option
def plan(
    records: int | None,
    domain_file: str,
    losses: str | None,
    queries: int | None,
    confidence: float,
    error: float | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    as_json: bool,
) -> None:
    """Show what each mechanism would certify for these public facts, and which one to choose. Reads no data.

    \b
    Example:  reticent plan --records 48842 --domain census.toml --epsilon 1 --delta 1e-9 --queries 10000
              reticent plan --losses losses.toml --domain census.toml --error 0.02 --epsilon 1 --delta 1e-9
    """
    from reticent.planning.plan import plan as make

    stated = epsilon is not None or rho is not None
    if stated:
        warn_of_delta(budget_from(epsilon, delta, rho), records)
    if losses is not None:
        from reticent.planning.loss_files import read_losses

        found = make(
            domain=Domain.read(domain_file),
            losses=read_losses(losses),
            count=100 if queries is None else queries,
            records=records,
            error=error,
            budget=budget_from(epsilon, delta, rho) if stated else None,
            confidence=confidence,
        )
        print_json(found.to_dict()) if as_json else click.echo(str(found))
        return
    if records is None:
        raise QueryError("state --records, the number of records or persons; under add-remove a public estimate of it")
    made = make(
        records=records,
        domain=Domain.read(domain_file),
        budget=budget_from(epsilon, delta, rho),
        queries=10_000 if queries is None else queries,
        confidence=confidence,
    )
    needed = made.needed(error) if error is not None else {}
    fewest = made.records_needed(error) if error is not None else {}
    if as_json:
        print_json(made.to_dict() | ({"needed": needed, "records_needed": fewest} if needed else {}))
        return
    show_plan(made)
    if needed:
        console.print(
            f"\nFor an error of {error:g} each needs this multiple of the {made.budget.unit}, or this many records:",
            markup=False,
        )
        for name, factor in sorted(needed.items(), key=lambda entry: entry[1]):
            console.print(f"  {name:<26}{factor:>12.4g}{fewest[name]:>14.4g}", markup=False)


def show_plan(made: Plan) -> None:
    """Mechanisms by error, smallest first; predicted errors are marked."""
    setting = made.setting
    console.print(
        f"{setting.queries:,} questions, {setting.records:,} records, {float(made.domain.size):.3g} possible records,"
        f" confidence {1 - setting.failure:g}",
        markup=False,
    )
    console.print(made.guarantee + "\n", markup=False)
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
