"""`ledger`: shows, verifies, copies and restores a ledger, and accepts a rollback."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from textwrap import indent
from typing import Any

import click
from rich.cells import cell_len

from reticent.cli.groups import Group
from reticent.cli.options import console, json_option, print_json
from reticent.domain.files import reading_file
from reticent.errors import LedgerError, QueryError, ReticentError
from reticent.kernel.accounting import NANO
from reticent.kernel.ledger.events import Event, History, sha256


@click.group(cls=Group)
def ledger() -> None:
    """Show, verify, copy or recover a ledger.

    \b
    Example:  reticent ledger verify census.ledger
    """


COLUMNS = ("event", "time (UTC)", "what", "price", "key", "for")
DIGEST, SHOWN_DIGITS = re.compile(r"[0-9a-f]{16,}"), 8
LONGEST_KEY = 40
PAGE = 1000
"""Events shown at once: their columns are as wide as the longest so far."""

anchor_option = click.option("--anchor", help="File of the anchor, if it is not in the ledger's folder.")


@ledger.command()
@click.argument("file")
@anchor_option
@json_option
def show(file: str, anchor: str | None, as_json: bool) -> None:
    """List every event with its cost, the remaining budget, and what the whole of it guarantees. Public facts only.

    \b
    Example:  reticent ledger show census.ledger
    """
    from reticent.kernel.ledger.verify import events_upto
    from reticent.kernel.ledger.verify import verify as read
    from reticent.knowledge.publications import opened_budget

    history = read(file, anchor=anchor, keep=False).history
    events = events_upto(file, history.sequence)
    if as_json:
        _print_events({"unit": _unit(history), "spent": history.spent, "limit": history.limit}, events)
        return
    widths = [max(len(COLUMNS[0]), len(str(history.sequence))), *map(len, COLUMNS[1:])]
    while page := list(islice(events, PAGE)):
        rows = list(map(_row, page))
        widths = [
            max(width, *map(cell_len, column)) for width, column in zip(widths, zip(*rows, strict=True), strict=True)
        ]
        # In a narrow terminal a line goes on in the next: a key that is cut could not be found again.
        for row in ([COLUMNS] if page[0].sequence == 1 else []) + rows:
            line = "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True))
            console.print(line.rstrip(), style="bold" if row is COLUMNS else None, markup=False, soft_wrap=True)
    budget = opened_budget(history.opening)
    spent, left = history.spent / NANO, (history.limit - history.spent) / NANO
    console.print(f"{budget.unit} spent {spent:.6g} of {history.limit / NANO:.6g}, left {left:.6g}")
    console.print(f"the whole budget guarantees {budget.describe()}")


def _row(event: Event) -> tuple[str, ...]:
    what = event.payload.get("kind", event.kind) if event.kind == "reserve" else event.kind
    price = f"{event.cost / NANO:.6g}" if event.kind == "reserve" else ""
    at = datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%d %H:%M")  # the ledger keeps whole minutes
    key = DIGEST.sub(lambda digest: f"{digest[0][:SHOWN_DIGITS]}…", event.key or "")
    return str(event.sequence), at, str(what), price, key[:LONGEST_KEY], event.analyst or ""


def _print_events(facts: dict[str, Any], events: Iterator[Event]) -> None:
    """One JSON object with the events last, written as they are read."""
    shown = json.dumps(facts | {"events": []}, indent=2)
    before, after = shown[: -len("]\n}")], "\n  ]\n}"
    for event in events:
        told = {name: getattr(event, name) for name in ("sequence", "kind", "at", "key", "analyst", "cost")}
        click.echo(before + "\n" + indent(json.dumps(told, indent=2), "    "), nl=False)
        before = ","
    click.echo(after)


@ledger.command()
@click.argument("file")
@anchor_option
@click.option(
    "--release",
    "release_file",
    type=click.Path(path_type=Path),
    help="Also check that this ledger published the release.",
)
@json_option
def verify(file: str, anchor: str | None, release_file: Path | None, as_json: bool) -> None:
    """Check the hash chain, the anchor and all stored data; exit code 2 if the file was edited, truncated or damaged.

    It needs no write permission and creates no files.

    \b
    Example:  reticent ledger verify census.ledger
    """
    from reticent.kernel.ledger.verify import events_upto
    from reticent.kernel.ledger.verify import verify as read

    statement = read(file, anchor=anchor, keep=False)
    if statement.damaged:
        raise LedgerError(
            f"{file}: chain intact, but damaged: {', '.join(statement.damaged[:5])}; what was measured is whole and is"
            " fitted again when the ledger is opened; restore a backup to have these back"
        )
    published = None
    if release_file is not None:
        published = _published(release_file, events_upto(file, statement.history.sequence))
    facts = {"events": statement.history.sequence, "spent": statement.history.spent, "anchored": statement.anchored}
    if as_json:
        print_json({"verified": True, "unit": _unit(statement.history)} | facts | _known(published))
        return
    anchored = "agrees with its anchor" if statement.anchored else "has no anchor to compare with"
    console.print(f"{file}: {facts['events']} events, chain intact, {anchored}")
    if published is not None:
        console.print(f"{release_file}: published by event {published} of this ledger")


def _known(published: int | None) -> dict[str, int]:
    return {} if published is None else {"published": published}


def _published(path: Path, events: Iterator[Event]) -> int:
    """The event that holds the same bytes."""
    from reticent.releases.release import Release

    with reading_file(path):
        data = path.read_bytes()
    digests = [sha256(data)]
    with suppress(ReticentError):
        release = Release.from_bytes(data, str(path))
        if release.replicated is not None:  # they are added after the payment
            digests.append(release.digest)
    for event in events:
        if event.kind in ("published", "start") and event.payload.get("release") in digests:
            return event.sequence
    raise LedgerError(f"{path}: this ledger has not published these bytes; compare with the ledger that paid for it")


@ledger.command()
@click.argument("file")
@click.argument("copy")
@json_option
def backup(file: str, copy: str, as_json: bool) -> None:
    """Copy a whole ledger, even while it is in use. Leave the anchor out: it must not be restored with the ledger.

    \b
    Example:  reticent ledger backup census.ledger /backup/census-monday.ledger
    """
    from reticent.cli.copies import back_up

    statement = back_up(file, copy)
    if as_json:
        print_json({"copy": copy, "events": statement.history.sequence, "spent": statement.history.spent})
        return
    console.print(f"{copy}: {statement.history.sequence} events, verified", soft_wrap=True)


@ledger.command()
@click.argument("copy")
@click.argument("file")
@anchor_option
@json_option
def restore(copy: str, file: str, anchor: str | None, as_json: bool) -> None:
    """Replace a lost or damaged ledger by a backup. The old file is kept under another name.

    A backup lacks later charges. If the anchor records more charges than the backup, the ledger opens only after
    `reticent ledger accept-rollback`.

    \b
    Example:  reticent ledger restore /backup/census-monday.ledger census.ledger
    """
    from reticent.cli.copies import restore_backup as put_back
    from reticent.kernel.ledger.anchor import places

    statement, problem, aside = put_back(copy, file, anchor=anchor)
    if as_json:
        facts = {
            "events": statement.history.sequence,
            "problem": problem,
            "kept": None if aside is None else str(aside),
        }
        print_json({"file": file} | facts)
        return
    console.print(f"{file}: restored, {statement.history.sequence} events", soft_wrap=True)
    if aside is not None:
        console.print(f"what was there is kept in {aside}", soft_wrap=True)
    if problem is not None:
        console.print(f"but {problem}", soft_wrap=True)
        named = "" if anchor is None else f" --anchor {shlex.quote(anchor)}"
        console.print(f"then: reticent ledger accept-rollback {shlex.quote(file)}{named}", soft_wrap=True)
    elif not places(file, anchor)[1].exists():
        told = "no anchor is beside it, which would tell what was charged since the backup: name it with --anchor"
        console.print(told, soft_wrap=True)


@ledger.command("accept-rollback")
@click.argument("file")
@anchor_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def accept_rollback(file: str, anchor: str | None, yes: bool, as_json: bool) -> None:
    """Continue with a ledger that disagrees with its anchor, or whose anchor is lost. Nothing is refunded.

    The amount spent is raised to that in the anchor. If the amount spent is unknown, the whole remaining budget is
    charged.

    \b
    Example:  reticent ledger accept-rollback census.ledger --anchor /mnt/other/census.anchor
    """
    from reticent.kernel.accounting import Budget
    from reticent.kernel.ledger.ledger import Ledger
    from reticent.kernel.ledger.verify import opening
    from reticent.kernel.ledger.verify import verify as read

    facts = opening(file)
    if facts is None:
        raise LedgerError(
            f"{file} holds no events: restore a backup first (reticent ledger restore); without one, Ledger.open(...,"
            " accept_rollback=True) with its table and budget begins anew with what the anchor saw spent"
        )
    try:
        if read(file, anchor=anchor, keep=False).anchored:
            raise QueryError(f"{file} agrees with its anchor: there is nothing to accept")
        problem = "its anchor is missing: all that remains will be charged"
    except LedgerError as found:
        problem = str(found)
    if not yes and not (sys.stdin.isatty() and click.confirm(f"{problem}. Accept?", default=False, err=True)):
        raise QueryError(f"{problem}. Nothing was changed; add --yes to accept this")
    terms = {name: term for name, term in facts["budget"].items() if name not in ("limit", "unit")}
    budget = Budget.from_dict(terms)
    with Ledger.open(file, identity=facts["identity"], budget=budget, anchor=anchor, accept_rollback=True) as accepted:
        spent, left = accepted.spent, accepted.remaining
    if as_json:
        print_json({"file": file, "unit": f"nano-{budget.unit}", "spent": spent, "remaining": left})
        return
    console.print(f"{file}: accepted; {budget.unit} spent {spent / NANO:.6g}, left {left / NANO:.6g}", soft_wrap=True)


def _unit(history: History) -> str:
    """Of the whole numbers in JSON."""
    return f"nano-{history.opening['budget']['unit']}"
