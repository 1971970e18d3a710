"""`shell`: SQL at a prompt, with the price before it is paid; statements may also come through a pipe.

Completion at the SQL prompt: keywords, columns, and the declared values of the column just named.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.markup import escape

from reticent.cli import fail
from reticent.cli.options import (
    ENGINE_NAMES,
    START_NAMES,
    anchor_option,
    budget_options,
    console,
    engine_from,
    engine_options,
    json_option,
    print_json,
    reading_options,
    refuse_unused,
    start_options,
    wanted_error,
)
from reticent.cli.show import show_result
from reticent.cli.targets import Target, is_release, is_server, opened_target
from reticent.domain import Domain
from reticent.errors import QueryError, ReticentError
from reticent.knowledge.request import Records
from reticent.sql.names import quoted_name

LABELS_SHOWN = 12
WELCOME = "SQL in one line, or \\help. Tab completes columns and values; \\q or Ctrl-D leaves."
FREE_ONLY = "Every answer is free until you set a wanted error: \\error 1%, or \\error 50 for 50 records."


@click.command()
@click.argument("target", metavar="TABLE|URL|FILE.release")
@reading_options(domain_required=False)
@click.option("--ledger", type=click.Path(path_type=Path), help="For a table: file of its ledger.")
@anchor_option
@click.option(
    "--warm-start",
    type=float,
    help="Share of the budget spent when the session opens; default: by the table's public facts.",
)
@start_options
@engine_options
@budget_options
@click.option("--table", "served", help="For a server: name of the table, if the token may ask several.")
@click.option("--error", help="Requested error from the start: records for counts, the column's unit for AVG, or 1%.")
@click.option("--yes", is_flag=True, help="Pay without asking.")
@json_option
def shell(target: str, error: str | None, yes: bool, as_json: bool, **options: Any) -> None:
    """Ask a saved release (free), a server, or your own table with a budget, in SQL.

    Without --error answers are free and have the bounds that are already certified. With --error, the shell shows the
    price of a more accurate answer and pays after you confirm.

    \b
    Example:  reticent shell census.release
              reticent shell http://localhost:8000
              reticent shell census.parquet --domain census.toml --ledger census.ledger --epsilon 1 --delta 1e-9
              echo "SELECT sex, COUNT(*) FROM census GROUP BY sex" | reticent shell census.release
    """
    _refuse_unused(target)
    wanted = None if error is None else wanted_error(error)
    live = sys.stdin.isatty()
    asked = _opened(target, as_json, **options)
    try:
        prompt = Prompt(asked, wanted, _agree if live and not yes else (lambda price: yes), as_json)
        if live:
            _converse(prompt)
        elif code := _piped(prompt):
            click.get_current_context().exit(code)
    finally:
        asked.close()


def _piped(prompt: Prompt) -> int:
    """Run statements; a refusal is printed, and the next statement is asked. The exit code is that of the first
    refusal.
    """
    code = 0
    for statement in statements(sys.stdin):
        try:
            prompt.take(statement)
        except ReticentError as problem:
            fail(str(problem))
            code = code or problem.exit_code
    return code


def _refuse_unused(target: str) -> None:
    """Refuse options that have no effect on this kind of target."""
    reading = ("domain_file", "query", "person", "most", "records", "version", "neighbours")
    reading = (*reading, "ledger", "anchor", "warm_start", *START_NAMES, *ENGINE_NAMES)
    budget = ("epsilon", "delta", "rho")
    if is_server(target):
        refuse_unused("with a server, which has its own table and budget", *reading, *budget)
    elif is_release(target):
        refuse_unused("with a release, whose answers are free", *reading, *budget, "served", "error", "yes")
    else:
        refuse_unused("with a table of your own, only with a server", "served")


def _opened(target: str, quiet: bool, **options: Any) -> Target:
    engine = {name: options.pop(name) for name in ENGINE_NAMES}
    start = {name: options.pop(name) for name in ("warm_start", "purpose", "useful")}
    return opened_target(target, lambda: engine_from(**engine) | start, quiet, **options)


def _agree(price: str) -> bool:
    return click.confirm(f"This costs {price}. Pay?", default=False, err=True)


class Prompt:
    """Takes one line at a time: a command that starts with a backslash, or SQL."""

    def __init__(
        self, asked: Target, error: float | str | Records | None, agree: Callable[[str], bool], as_json: bool
    ) -> None:
        self.asked = asked
        self.error = error
        self.done = False
        self._agree = agree
        self._as_json = as_json
        self._commands: dict[str, Callable[[str], None]] = {
            "\\cost": self._cost,
            "\\error": self._set_error,
            "\\budget": lambda _: console.print(self.asked.budget(), markup=False),
            "\\domain": self._domain,
            "\\help": self._help,
            "\\quit": self._quit,
        }
        self._commands |= {short: self._commands[name] for short, name in ALIASES.items()}

    def take(self, line: str) -> None:
        text = line.strip().rstrip(";").strip()
        if not text or self.done:
            return
        name, _, rest = text.partition(" ")
        if not text.startswith("\\") and text.lower() not in WORDS:
            self._ask(text)
            return
        command = self._commands.get(name.lower())
        if command is None:
            raise QueryError(f"unknown command {name}; \\help lists the commands")
        command(rest.strip())

    def _ask(self, sql: str) -> None:
        price = self.asked.cost(sql, self.error)
        if price > 0 and not self._agree(self.asked.priced(price)):
            why = "not asked" if sys.stdin.isatty() else "not asked: add --yes to pay without being asked"
            raise QueryError(f"{why}; it would cost {self.asked.priced(price)}")
        result = self.asked.ask(sql, self.error)
        if self._as_json:
            print_json(result.to_dict())
        else:
            show_result(result)

    def _cost(self, sql: str) -> None:
        if self.asked.free:
            raise QueryError("every answer from a release is free; leave \\cost out")
        if self.error is None:
            raise QueryError("without a wanted error every answer is free; \\error 1% sets one")
        price = self.asked.cost(sql, self.error)
        console.print("free" if price == 0 else self.asked.priced(price), markup=False)

    def _set_error(self, text: str) -> None:
        if self.asked.free:
            raise QueryError("answers from a release are free and as accurate as it allows; leave \\error out")
        if text in ("", "off", "none"):
            self.error = None if text else self.error
        else:
            self.error = wanted_error(text)
        if isinstance(self.error, Records):
            state = f"{self.error.number:g} records"
        else:
            stated = f"{self.error:g}" if isinstance(self.error, float) else self.error
            state = "off: free answers only" if stated is None else stated
        console.print(f"wanted error {state}", markup=False)

    def _domain(self, name: str) -> None:
        names = self.asked.domain.canonical([name]) if name else self.asked.domain.names
        width = max(map(len, names))
        for each in names:
            labels = self.asked.domain[each].labels
            more = f", ... ({len(labels)} in all)" if not name and len(labels) > LABELS_SHOWN else ""
            shown = labels if name else labels[:LABELS_SHOWN]
            console.print(f"[bold]{escape(each):<{width}}[/bold]  {escape(', '.join(shown))}{more}")

    def _help(self, _: str) -> None:
        for name, meaning in COMMANDS.items():
            console.print(f"[bold]{escape(name):<9}[/bold] {escape(meaning)}")
        shorts = ", ".join(f"{short} for {name}" for short, name in ALIASES.items())
        console.print(f"Also {escape(shorts)}. The up key brings back earlier statements.")
        console.print(
            "Anything else is SQL: aggregates from COUNT(*) to CORR and MEDIAN, with WHERE, GROUP BY, subqueries and"
            " window functions; EXPLAIN shows what a statement would cost. Piped statements end with a semicolon."
        )

    def _quit(self, _: str) -> None:
        self.done = True


def _converse(prompt: Prompt) -> None:
    """The live loop: errors are one line, and the prompt comes back."""
    from prompt_toolkit import PromptSession

    asked = prompt.asked
    console.print(f"[bold]{escape(asked.name)}[/bold]: {len(asked.domain)} columns. {escape(asked.budget())}")
    console.print(escape(WELCOME))
    if prompt.error is None and not asked.free:
        console.print(escape(FREE_ONLY))
    session: PromptSession[str] = PromptSession(
        history=_history(), completer=SqlCompleter(asked.domain, Path(asked.name).stem), complete_while_typing=False
    )
    while not prompt.done:
        try:
            prompt.take(session.prompt("reticent> "))
        except KeyboardInterrupt:
            continue
        except (EOFError, click.Abort):
            return
        except (ReticentError, MemoryError) as problem:
            fail(str(problem) or "not enough memory for this question")


def _history() -> Any:
    """Questions of earlier shells, readable by their owner only; in memory where no file can be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "reticent"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "history"
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Commands are single lines; SQL ends at a semicolon outside quotes, at an empty line, or at the end."""
    waiting = ""
    for line in lines:
        alone = not waiting.strip() and line.strip().lower() in WORDS
        if alone or line.startswith("\\") or not line.strip():
            yield from filter(None, [waiting.strip(), line.strip()])
            waiting = ""
            continue
        waiting += line
        while (end := _semicolon(waiting)) is not None:
            yield waiting[:end].strip()
            waiting = waiting[end + 1 :]
    if waiting.strip():
        yield waiting.strip()


def _semicolon(text: str) -> int | None:
    quote = ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == ";":
            return place
    return None


KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "IN", "BETWEEN",
    "IS NULL", "IS NOT NULL", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "DESC", "ASC", "FILTER",
    "COUNT(*)", "SUM(", "AVG(", "MEDIAN(", "STDDEV(", "CORR(", "WITH",
)  # fmt: skip
COMMANDS = {
    "\\cost": "price of a statement at the wanted error, without asking it",
    "\\error": "wanted error from now on: records for counts, or 1%; `\\error off` for free answers only",
    "\\budget": "the amounts spent and left",
    "\\domain": "columns and their values; `\\domain COLUMN` for one",
    "\\help": "this list",
    "\\quit": "leave",
}
ALIASES = {
    "\\q": "\\quit",
    "\\d": "\\domain",
    "\\h": "\\help",
    "\\?": "\\help",
    "exit": "\\quit",
    "quit": "\\quit",
    "help": "\\help",
}
"""What hands type that know other shells."""
WORDS = frozenset(name for name in ALIASES if not name.startswith("\\"))
_VALUE_WANTED = re.compile(
    r"(?P<name>\"[^\"]+\"|\w+)\s*(?:=|<>|!=|\bIN\s*\((?:[^()]*,)?|\bLIKE)\s*(?P<typed>'?[^',)]*)$", re.I
)
_WORD = re.compile(r"[\\\w*()\"]+$")


class SqlCompleter(Completer):
    """Works from the domain alone."""

    def __init__(self, domain: Domain, table: str) -> None:
        self._domain = domain
        self._words = [*map(quoted_name, domain.names), quoted_name(table), *KEYWORDS]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if text.startswith("\\") and " " not in text:
            yield from _matching(COMMANDS, text)
            return
        wanted = _VALUE_WANTED.search(text)
        if wanted and (values := self._values(wanted["name"])):
            yield from _matching(values, wanted["typed"])
            return
        word = _WORD.search(text)
        yield from _matching(self._words, word.group() if word else "")

    def _values(self, name: str) -> list[str]:
        """As SQL literals, for columns that hold text."""
        known = {text.lower(): text for text in self._domain.names}
        named = known.get(name.strip('"').lower())
        if named is None or (attribute := self._domain[named]).representatives is not None:
            return []
        extra = {attribute.null_code, attribute.other_code}
        return [_literal(text) for code, text in enumerate(attribute.labels) if code not in extra]


def _matching(words: Iterable[str], typed: str) -> Iterator[Completion]:
    bare = typed.lower()
    for word in words:
        if word.lower().startswith(bare) or word.lower().startswith("'" + bare):
            yield Completion(word, start_position=-len(typed))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
