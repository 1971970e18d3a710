"""The command line: thin shells around the library; bad input gives one line and exit code 2, an empty budget 3.

No traceback reaches a user: a fault of this program is one line with a report id, and exit code 70.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from reticent import __version__
from reticent.cli.groups import Group
from reticent.domain.files import reason, shown_path
from reticent.errors import ReticentError

COMMANDS = {
    "demo": ("demo", "Publish a real public table offline, in a few seconds."),
    "domain": ("domain", "Draft the description of a table, or find missing parts privately."),
    "check": ("data", "Show the values that do not fit the domain, for the custodian. Not private."),
    "plan": ("data", "Show what each mechanism would certify, before anything is spent."),
    "release": ("publish", "Publish synthetic rows, a report and free answers under one budget."),
    "fit": ("fit", "Fit models by minimising convex losses, on a release, a server or your own table."),
    "estimate": ("estimate", "Fit a distribution to noisy measurements made with another tool."),
    "serve": ("serve", "Serve a table over HTTP with a web page."),
    "ask": ("online", "Ask a server one question in SQL."),
    "shell": ("shell", "Ask a release, a server or your own table at an SQL prompt."),
    "ledger": ("ledger", "Show, verify, back up or recover a ledger."),
    "audit": ("audit", "Attack the mechanisms of this installation and measure their privacy loss."),
}
"""Each command's module, and its line in the help."""
INTERRUPTED = 130
CLOSED_PIPE = 141
"""As the shell reports a program that SIGPIPE ended: the reader of the output, such as `head`, has closed it."""
INTERNAL = 70
"""The exit code of an internal error, as in sysexits.h."""
KEPT = "what was measured is kept in the ledger, if one was given: run the same command again"
SPELLED = "reticent-spelled"
PLAIN = {"±": "+-", "≥": ">=", "≤": "<=", "ρ": "rho", "ε": "eps", "█": "#", "▓": "+", "░": "-", "…": "..."}
"""Replacements for terminals without these characters."""


ARGUMENTS = {
    "declare records=": "declare --records N",
    "or use neighbours='add-remove'": "or use --neighbours add-remove",
    "or use add-remove": "or use --neighbours add-remove",
    "give its place with anchor=": "give its place with --anchor",
    "or leave anchor= out": "or leave --anchor out",
    "give the right one with anchor=": "give the right one with --anchor",
}
"""Remedies in the library's messages, and their form on the command line."""


REMEDIES = {"domain_file": "`reticent domain new TABLE --out domain.toml` drafts the description that it names"}
"""What to do where an option is missing that cannot be made up on the spot."""


class _ClosedPipeError(Exception):
    """The reader of the output has closed it. Click itself would end the program with exit code 1."""


@contextmanager
def _closed_pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as problem:
        raise _ClosedPipeError from problem


class _Lazy(Group):
    """Loads a command's module when it is called, so that help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"reticent.cli.{COMMANDS[cmd_name][0]}"), cmd_name)

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _closed_pipes():  # help and version are printed here
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _closed_pipes():
            return super().invoke(ctx)

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
    """Entry point: every failure, bad input or internal error, ends in one line on stderr."""
    _hold_streams()
    _spell_out()
    try:
        _require_text(sys.argv[1:] if arguments is None else arguments)
        code = cli.main(args=arguments, prog_name="reticent", standalone_mode=False)
        sys.stdout.flush()
    except Exception as problem:
        code = _failed(problem)
    if code not in (0, None):
        _let_go(sys.stdout)
    sys.exit(code if isinstance(code, int) else 0)


def _hold_streams() -> None:
    """Input and outputs that the caller closed (`>&-`) lead nowhere instead.

    Else Python has no stream to write to, and the first file that is opened, a ledger perhaps, takes their number:
    whatever a library writes to its standard error would end up in it.
    """
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
            opened = os.open(os.devnull, os.O_RDWR)  # its number was taken already
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
                opened = number
        setattr(sys, name, os.fdopen(opened, "r" if name == "stdin" else "w", encoding="utf-8"))


def _require_text(words: list[str]) -> None:
    """Refuse arguments that no shell can pass: zero bytes and invalid Unicode."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            raise ReticentError("an argument is not valid Unicode text; type it again") from None
        if "\0" in word:
            raise ReticentError("an argument holds a zero byte, which no shell can give; type it again")


def _failed(problem: Exception) -> int:
    """Print the problem in one line and return the exit code."""
    if isinstance(problem, click.exceptions.Abort):
        fail(f"interrupted; {KEPT}")
        return INTERRUPTED
    if isinstance(problem, click.ClickException):
        lacking = problem.param if isinstance(problem, click.MissingParameter) else None
        remedy = "" if lacking is None else REMEDIES.get(lacking.name or "", "")
        fail(f"{problem.format_message().rstrip('.')}; {remedy}" if remedy else problem.format_message())
        return 2
    if isinstance(problem, ReticentError):
        fail(_as_options(str(problem)))
        return problem.exit_code
    if isinstance(problem, (_ClosedPipeError, BrokenPipeError)):
        _let_go(sys.stderr)
        return CLOSED_PIPE
    if isinstance(problem, MemoryError):
        fail(f"not enough memory for this; {KEPT} with more memory or fewer attributes")
        return 2
    if isinstance(problem, OSError):
        named = f"{shown_path(problem.filename)}: " if isinstance(problem.filename, str) else "the output: "
        fail(f"{named}{reason(problem)}; {KEPT}")
        return 2
    fail(f"internal error, report {report_id(problem)}; please report this line; {KEPT}")
    return INTERNAL


def _as_options(message: str) -> str:
    """The message with the library's remedies replaced by those of the command line."""
    for argument, option in ARGUMENTS.items():
        message = message.replace(argument, option)
    return message


def report_id(problem: BaseException) -> str:
    """An identifier of an internal error from its place and type, without values, because some are private."""
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if "reticent" in Path(frame.filename).parts] or frames
    named = type(problem).__name__
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in ours]
    digest = hashlib.sha256("\n".join([__version__, named, *places]).encode()).hexdigest()[:12]
    return f"{digest} ({named} at {places[-1]})" if places else f"{digest} ({named})"


def fail(message: str) -> None:
    """Print one line on stderr, unless stderr is closed."""
    try:
        click.echo(f"reticent: {' '.join(message.split())}", err=True)
    except OSError:
        _let_go(sys.stderr)


def _spell_out() -> None:
    """Replace characters that the terminal cannot show, so that a paid answer is always printed."""
    codecs.register_error(SPELLED, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=SPELLED)


def _spelled(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end]
    return "".join(PLAIN.get(character, "?") for character in text), problem.end


def _let_go(stream: Any) -> None:
    """Prevent Python from writing to a closed output again when it exits."""
    try:
        stream.flush()
    except (OSError, ValueError):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (OSError, ValueError):
            return
