"""`serve`: serves tables over HTTP with a web page."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from reticent.cli.options import (
    ENGINE_NAMES,
    START_NAMES,
    budget_options,
    check_fit,
    engine_options,
    json_option,
    misfits_option,
    most_option,
    print_json,
    progress_bar,
    refuse_unused,
    start_options,
    telling_anchor,
    version_option,
    warn_of_delta,
)
from reticent.errors import QueryError

TABLE_NAMES = (
    *("domain", "ledger", "anchor", "query", "person", "most", "records", "version", "neighbours", "title"),
    *("epsilon", "delta", "rho"),
    *ENGINE_NAMES,
    "error",
    *START_NAMES,
)
"""Options that describe the one table of a server without a configuration file."""


@click.command()
@click.argument("table", metavar="[TABLE]", required=False)
@click.option("--config", "config_file", help="TOML file with [server] and one [tables.NAME] for each table.")
@click.option("--domain", help="Public description of the columns.")
@click.option("--ledger", help="File of the ledger; created on the first start.")
@click.option("--anchor", help="File of the ledger's anchor; keep it on another volume.")
@click.option("--query", help="SQL that selects the rows when TABLE is a database URL.")
@click.option("--person", help="Column that identifies the person; each person then counts as one.")
@most_option
@click.option("--records", type=int, help="Public number of records, if the source does not state it.")
@version_option
@click.option(
    "--neighbours", type=click.Choice(["replace-one", "add-remove"]), default="replace-one", show_default=True
)
@click.option("--name", help="Name of the table in SQL and in URLs; default: the ledger's name without its suffix.")
@click.option("--title", default="", help="Title of the table on the web page.")
@budget_options
@start_options
@engine_options
@click.option("--error", type=float, help="For convex engines: the excess risk of all models.")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on.  [default: 8000]")
@click.option("--postgres", type=int, metavar="PORT", help="Also accept PostgreSQL clients, on this port.")
@click.option(
    "--readers", type=int, help="Number of processes that give free answers.  [default: 0, all in one process]"
)
@click.option("--tick", type=float, help="Seconds between the times at which paid answers are sent.  [default: 0.25]")
@click.option("--tls-certificate", help="PEM file; with --tls-key the server speaks HTTPS.")
@click.option("--tls-key", help="PEM file of the certificate's key.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--new-custodian-token", is_flag=True, help="Create a new first custodian token, if it was lost.")
@misfits_option
@json_option
def serve(
    table: str | None,
    config_file: str | None,
    new_custodian_token: bool,
    accept_misfits: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Serve one table, or several from a configuration file, to analysts with tokens.

    \b
    Example:  reticent serve census.parquet --domain census.toml --ledger census.ledger --epsilon 1 --delta 1e-9
    """
    try:
        from reticent.service import server as running
    except ModuleNotFoundError:
        raise QueryError("serving needs more packages: pip install 'reticent[serve]'") from None
    from reticent.service.auth import Tokens
    from reticent.service.paid_answers import longest

    settings = _settings(table, config_file, options)
    running.check_openings(settings)
    with ExitStack() as failed:
        listener = failed.enter_context(running.bind_listener(settings))
        if (postgres := running.listening_postgres(settings)) is not None:
            failed.enter_context(postgres)
        for entry in settings.tables:
            check_fit(entry.table, accept_misfits or entry.accept_misfits, entry.domain, **entry.reading)
        tokens = Tokens(Path(settings.tokens))  # before anything is paid: its file may not be usable
        failed.callback(tokens.close)
        with ExitStack() as told, progress_bar(quiet=as_json) as report:
            for entry in settings.tables:
                told.enter_context(telling_anchor(entry.ledger, entry.anchor))
            tables = running.open_tables(settings, report)
        # Not before: a start that fails would leave a token of which nobody is told.
        path = running.first_token(tokens, settings, renew=new_custodian_token)
        failed.pop_all()
    # Measured before the first answer; without ticks the duration of a fit is not hidden.
    seconds = longest() if settings.tick else None
    for name, served in tables.items():
        # Of the ledger's public facts: the number of records is there where it is public, and nowhere else.
        warn_of_delta(served.budget, served.ledger.identity["records"], f"{name}: ")
    scheme = "https" if settings.tls_certificate else "http"
    address = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{scheme}://{address}:{listener.getsockname()[1]}"
    if as_json:
        token_file = None if path is None else str(path)
        facts = {"url": url, "tables": list(tables), "custodian_token_file": token_file, "longest_fit_seconds": seconds}
        if postgres is not None:
            facts["postgres_port"] = postgres.getsockname()[1]
        print_json(facts)
    else:
        if path is not None:
            click.echo(f"The custodian's token is in {path}; keep it, then delete the file.")
        if seconds is not None:
            click.echo(f"A paid model is answered after a time that no row can change: at most {seconds:.3g} s.")
        click.echo(f"Serving {', '.join(tables)} on {url}")
        if postgres is not None:
            click.echo(f"PostgreSQL clients: host {settings.host}, port {postgres.getsockname()[1]}, database reticent")
    running.serve(settings, listener, tables, tokens, postgres)


def _settings(table: str | None, config_file: str | None, options: dict[str, Any]) -> Any:
    from reticent.service.settings import Settings, TableSettings, read_settings

    server_names = ("host", "port", "postgres", "readers", "tick", "tls_certificate", "tls_key", "log_level")
    server = {name: options[name] for name in server_names if options[name] is not None}
    if config_file is not None:
        if table is not None:
            raise QueryError("give TABLE or --config, not both")
        refuse_unused("with --config, whose tables say it themselves", "name", *TABLE_NAMES)
        return read_settings(config_file, **server)
    if table is None or options["domain"] is None or options["ledger"] is None:
        raise QueryError("state TABLE, --domain and --ledger, or --config server.toml")
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(options["ledger"]).stem) or "table"
    entry = TableSettings(name=options["name"] or stem, table=table, **_stated(options))
    return Settings(tables=(entry,), tokens=f"{options['ledger']}.tokens", **server)


def _stated(options: dict[str, Any]) -> dict[str, Any]:
    """The table's settings from the options; without --engine, the default engine."""
    stated = {key: options[key] for key in TABLE_NAMES} | {"numbers": bool(options["numbers"])}
    return stated if stated["engine"] is not None else stated | {"engine": "default"}
