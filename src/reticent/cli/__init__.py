"""The command line: thin shells around the library; bad input is one line and exit code 2, an empty budget 3."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from reticent import __version__
from reticent.cli.groups import Group
from reticent.errors import ReticentError

COMMANDS = {
    "demo": ("demo", "Publish a real public table: the whole job in a few seconds, offline."),
    "check": ("data", "Show the custodian what does not fit the domain. Not private."),
    "plan": ("data", "What each mechanism certifies, before anything is spent."),
    "release": ("publish", "Publish synthetic rows, a report and free answers under one budget."),
    "serve": ("serve", "Put a table behind HTTP and a web page."),
    "ask": ("online", "Ask a server one question in SQL."),
    "shell": ("shell", "SQL at a prompt: a release, a server or a table of your own."),
    "ledger": ("ledger", "Show or verify the account of a budget."),
    "audit": ("audit", "Try to catch this installation breaking its promises."),
}
"""Each command's module, and its line in the help."""
INTERRUPTED = 130


class _Lazy(Group):
    """Loads a command's module when it is called, so that help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"reticent.cli.{COMMANDS[cmd_name][0]}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="reticent")
def cli() -> None:
    """Answer unlimited questions about a sensitive table, or publish a synthetic copy, under one privacy budget.

    \b
    Example:  reticent demo
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every failure that is the caller's ends in one line on stderr."""
    try:
        code = cli.main(args=arguments, prog_name="reticent", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        fail("interrupted; what was measured is kept in the ledger, if one was given: run the same command again")
        sys.exit(INTERRUPTED)
    except click.ClickException as problem:
        fail(problem.format_message())
        sys.exit(2)
    except ReticentError as problem:
        fail(str(problem))
        sys.exit(problem.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def fail(message: str) -> None:
    """One line on stderr."""
    click.echo(f"reticent: {' '.join(message.split())}", err=True)
