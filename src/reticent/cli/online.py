"""`ask`: one question to a running server or a saved release."""

from __future__ import annotations

import click

from reticent.cli.desks import is_release, release_desk, server_desk
from reticent.cli.options import json_option, print_json
from reticent.cli.show import show_result
from reticent.errors import QueryError


@click.command()
@click.argument("target", metavar="URL|FILE.release")
@click.argument("sql")
@click.option("--table", help="Which table, where the token sees several.")
@click.option("--error", type=float, help="Wanted error, as a fraction of the table for counts; may cost.")
@click.option("--confidence", type=float, help="Probability that the error bound holds.")
@click.option("--key", help="Makes a paid answer repeatable: the same key is charged once.")
@click.option("--max-price", type=float, help="Refuse rather than pay more than this.")
@click.option("--cost", "only_cost", is_flag=True, help="Print the price instead of asking.")
@json_option
def ask(
    target: str,
    sql: str,
    table: str | None,
    error: float | None,
    confidence: float | None,
    key: str | None,
    max_price: float | None,
    only_cost: bool,
    as_json: bool,
) -> None:
    """Ask a server or a saved release in SQL; a server's token comes from the environment variable RETICENT_TOKEN.

    \b
    Example:  reticent ask http://localhost:8000 "SELECT sex, COUNT(*) FROM census GROUP BY sex"
    """
    if is_release(target):
        if only_cost or any(value is not None for value in (table, error, confidence, key, max_price)):
            raise QueryError("a release answers for free and as well as it can: give the file and the SQL, no options")
        answer = release_desk(target).backend.ask(sql)
    else:
        connection = server_desk(target, table).backend
        with connection:
            if only_cost:
                if error is None:
                    raise QueryError("state --error: without one every answer is free")
                price = connection.cost(sql, error=error, confidence=confidence)
                print_json({"price": price}) if as_json else click.echo(f"{price:.9g}")
                return
            answer = connection.ask(sql, error=error, confidence=confidence, key=key, max_price=max_price)
    if as_json:
        print_json(answer.to_dict())
    else:
        show_result(answer)
