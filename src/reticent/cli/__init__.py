"""The command line: thin shells around the library; bad input is one line and exit code 2, an empty budget 3."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from reticent import __version__
from reticent.errors import ReticentError

COMMANDS = {
    "demo": "demo",
    "check": "data",
    "plan": "data",
    "release": "publish",
    "ledger": "ledger",
    "serve": "serve",
    "ask": "online",
    "audit": "audit",
}
INTERRUPTED = 130


class _Lazy(click.Group):
    """Loads a command's module when it is called, so that help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"reticent.cli.{COMMANDS[cmd_name]}"), cmd_name)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="reticent")
def cli() -> None:
    """Answer unlimited questions about a sensitive table, or publish a synthetic copy, under one privacy budget.

    \b
    Example:  reticent release census.parquet --domain census.toml --epsilon 1 --delta 1e-9 --out synthetic.parquet
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every failure that is the caller's ends in one line on stderr."""
    try:
        code = cli.main(args=arguments, prog_name="reticent", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        _fail("interrupted; what was measured is kept in the ledger, if one was given: run the same command again")
        sys.exit(INTERRUPTED)
    except click.ClickException as problem:
        _fail(problem.format_message().replace("\n", " "))
        sys.exit(2)
    except ReticentError as problem:
        _fail(str(problem).replace("\n", " "))
        sys.exit(problem.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _fail(message: str) -> None:
    click.echo(f"reticent: {message}", err=True)
