"""`ask`: one question to a running server or a saved release."""

from __future__ import annotations

import click

from reticent.cli.options import json_option, print_json, refuse_unused, wanted_error
from reticent.cli.show import show_result
from reticent.cli.targets import is_release, release_target, server_target
from reticent.errors import QueryError


@click.command()
@click.argument("target", metavar="URL|FILE.release")
@click.argument("sql")
@click.option("--table", help="Name of the table, if the token may ask several.")
@click.option("--error", help="Wanted error: records for counts, the column's unit for AVG, or 1%; may cost.")
@click.option("--confidence", type=float, help="Probability that the error bound holds.")
@click.option("--key", help="Idempotency key: the same key is charged once and gets the same answer.")
@click.option("--max-price", type=float, help="Refuse if the price is higher.")
@click.option("--typical", is_flag=True, help="Accept a free answer if 19 of 20 such questions are within --error.")
@click.option("--population", type=float, help="For a release: intervals for the population at this confidence.")
@click.option(
    "--mode",
    type=click.Choice(["estimated", "certified"]),
    help="Kind of --population; default: estimated, if there are replicates.",
)
@click.option("--cost", "only_cost", is_flag=True, help="Print the price instead of asking.")
@json_option
def ask(
    target: str,
    sql: str,
    table: str | None,
    error: str | None,
    confidence: float | None,
    key: str | None,
    max_price: float | None,
    typical: bool,
    population: float | None,
    mode: str | None,
    only_cost: bool,
    as_json: bool,
) -> None:
    """Ask a server or a saved release in SQL; a server's token comes from the environment variable RETICENT_TOKEN.

    \b
    Example:  reticent ask http://localhost:8000 "SELECT sex, COUNT(*) FROM census GROUP BY sex"
    """
    if is_release(target):
        if only_cost or typical or any(value is not None for value in (table, error, confidence, key, max_price)):
            raise QueryError(
                "answers from a release are free and as accurate as it allows: give the file and the SQL,"
                " and no options but --population and --mode"
            )
        answer = release_target(target).backend.ask(sql)
        if population is None:
            refuse_unused("without --population", "mode")
        else:
            answer = answer.population(population, mode=mode)
    else:
        refuse_unused("with a server, whose answers are about the table; ask a saved release", "population", "mode")
        wanted = None if error is None else wanted_error(error)
        if error is None:
            refuse_unused("without --error: answers are free then", "key", "max_price", "typical")
        if only_cost:
            refuse_unused("with --cost, which pays nothing", "key", "max_price", "typical")
        asked = server_target(target, table)
        connection = asked.backend
        with connection:
            if only_cost:
                if wanted is None:
                    raise QueryError("state --error: without one every answer is free")
                price = connection.cost(sql, error=wanted, confidence=confidence)
                print_json({"price": price}) if as_json else click.echo(asked.priced(price) if price else "free")
                return
            promise = "typical" if typical else "certified"
            answer = connection.ask(
                sql, error=wanted, confidence=confidence, key=key, max_price=max_price, promise=promise
            )
    if as_json:
        print_json(answer.to_dict())
    else:
        show_result(answer)
