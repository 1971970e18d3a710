"""`serve`: put tables behind HTTP and a web page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reticent.cli.options import budget_options, json_option, print_json, progress_bar
from reticent.errors import QueryError


@click.command()
@click.argument("table", metavar="[TABLE]", required=False)
@click.option("--config", "config_file", help="TOML file with [server] and one [tables.NAME] for each table.")
@click.option("--domain", help="Public description of the columns.")
@click.option("--ledger", help="File of the budget's account; made on the first start.")
@click.option("--anchor", help="Where the ledger's anchor is kept; best on another volume.")
@click.option("--query", help="SQL that selects the rows when TABLE is a database URL.")
@click.option("--person", help="Column that names the person; each person then weighs one.")
@click.option("--records", type=int, help="Public number of records, where the reader cannot know it.")
@click.option(
    "--neighbours", type=click.Choice(["replace-one", "add-remove"]), default="replace-one", show_default=True
)
@click.option("--title", default="", help="Name of the table on the page.")
@budget_options
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on.  [default: 8000]")
@click.option("--readers", type=int, help="Processes that answer what is free.  [default: 0, all in one process]")
@click.option("--tick", type=float, help="Seconds between the moments at which paid answers leave.  [default: 0.25]")
@click.option("--tls-certificate", help="PEM file; with --tls-key the server speaks HTTPS.")
@click.option("--tls-key", help="PEM file of the certificate's key.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--new-custodian-token", is_flag=True, help="Replace the first custodian's token, if it was lost.")
@json_option
def serve(table: str | None, config_file: str | None, new_custodian_token: bool, as_json: bool, **options: Any) -> None:
    """Serve one table, or several from a configuration file, to analysts with tokens.

    \b
    Example:  reticent serve census.parquet --domain census.toml --ledger census.ledger --epsilon 1 --delta 1e-9
    """
    try:
        from reticent.service import running
    except ImportError:
        raise QueryError("serving needs more packages: pip install 'reticent[serve]'") from None
    from reticent.service.tokens import Tokens

    settings = _settings(table, config_file, options)
    listener = running.listening(settings)
    tokens = Tokens(Path(settings.tokens))
    path = running.first_token(tokens, settings, renew=new_custodian_token)
    with progress_bar(quiet=as_json) as report:
        desks = running.open_desks(settings, report)
    scheme = "https" if settings.tls_certificate else "http"
    address = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{scheme}://{address}:{listener.getsockname()[1]}"
    if as_json:
        print_json({"url": url, "tables": list(desks), "custodian_token_file": None if path is None else str(path)})
    else:
        if path is not None:
            click.echo(f"The custodian's token is in {path}; keep it, then delete the file.", err=True)
        click.echo(f"Serving {', '.join(desks)} on {url}", err=True)
    running.serve(settings, listener, desks, tokens)


def _settings(table: str | None, config_file: str | None, options: dict[str, Any]) -> Any:
    from reticent.service.settings import Settings, TableSettings, read_settings

    server_names = ("host", "port", "readers", "tick", "tls_certificate", "tls_key", "log_level")
    server = {name: options[name] for name in server_names if options[name] is not None}
    if config_file is not None:
        if table is not None:
            raise QueryError("give TABLE or --config, not both")
        return read_settings(config_file, **server)
    if table is None or options["domain"] is None or options["ledger"] is None:
        raise QueryError("state TABLE, --domain and --ledger, or --config server.toml")
    names = (
        "domain",
        "ledger",
        "anchor",
        "query",
        "person",
        "records",
        "neighbours",
        "title",
        "epsilon",
        "delta",
        "rho",
    )
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(options["ledger"]).stem) or "table"
    entry = TableSettings(name=name, table=table, **{key: options[key] for key in names})
    return Settings(tables=(entry,), tokens=f"{options['ledger']}.tokens", **server)
