"""`ledger`: read an account without opening it for writing."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.table import Table as Grid

from reticent.cli.groups import Group
from reticent.cli.options import console, json_option, print_json
from reticent.kernel.accounting import NANO
from reticent.kernel.events import History


@click.group(cls=Group)
def ledger() -> None:
    """Show or verify a ledger.

    \b
    Example:  reticent ledger verify census.ledger
    """


@ledger.command()
@click.argument("file")
@click.option("--anchor", help="Where the anchor is kept, if not beside the ledger.")
@json_option
def show(file: str, anchor: str | None, as_json: bool) -> None:
    """Every event, what it cost, and what is left. Public facts only.

    \b
    Example:  reticent ledger show census.ledger
    """
    from reticent.kernel.statement import verify as read

    statement = read(file, anchor=anchor)
    history = statement.history
    if as_json:
        events = [
            {"sequence": e.sequence, "kind": e.kind, "at": e.at, "key": e.key, "analyst": e.analyst, "cost": e.cost}
            for e in statement.events
        ]
        print_json({"unit": _unit(history), "spent": history.spent, "limit": history.limit, "events": events})
        return
    grid = Grid(
        "event", "time (UTC)", "what", "for", "price", "key", box=None, header_style="bold", padding=(0, 2, 0, 0)
    )
    for event in statement.events:
        what = event.payload.get("kind", event.kind) if event.kind == "reserve" else event.kind
        price = f"{event.cost / NANO:.6g}" if event.kind == "reserve" else ""
        at = datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        grid.add_row(str(event.sequence), at, what, event.analyst or "", price, (event.key or "")[:40])
    console.print(grid)
    unit = history.opening["budget"]["unit"]
    left = history.limit - history.spent
    console.print(f"{unit} spent {history.spent / NANO:.6g} of {history.limit / NANO:.6g}, left {left / NANO:.6g}")


@ledger.command()
@click.argument("file")
@click.option("--anchor", help="Where the anchor is kept, if not beside the ledger.")
@json_option
def verify(file: str, anchor: str | None, as_json: bool) -> None:
    """Check the hash chain and the anchor; exit code 2 if the file was edited, cut or rolled back.

    \b
    Example:  reticent ledger verify census.ledger
    """
    from reticent.kernel.statement import verify as read

    statement = read(file, anchor=anchor)
    facts = {"events": len(statement.events), "spent": statement.history.spent, "anchored": statement.anchored}
    if as_json:
        print_json({"verified": True, "unit": _unit(statement.history)} | facts)
        return
    anchored = "agrees with its anchor" if statement.anchored else "has no anchor to compare with"
    console.print(f"{file}: {facts['events']} events, chain intact, {anchored}")


def _unit(history: History) -> str:
    """Of the whole numbers in JSON."""
    return f"nano-{history.opening['budget']['unit']}"
