"""`fit`: models of convex losses, from a release, a server or the user's own table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table as Grid

from reticent.cli.options import (
    anchor_option,
    budget_options,
    console,
    json_option,
    print_json,
    reading_options,
    refuse_overwriting,
    refuse_unused,
)
from reticent.cli.targets import Target, is_release, is_server, opened_target
from reticent.domain.files import refuse_unwritable, write_file
from reticent.domain.values import confidence_text, shown_bound, shown_number
from reticent.errors import QueryError

if TYPE_CHECKING:
    from reticent.releases.models import Model

ENGINES = ("default", "convex-tuned", "convex-textbook")
SHOWN = 40
"""Coefficients of one model; --json and --out have all."""


@click.command()
@click.argument("target", metavar="TABLE|URL|FILE.release")
@click.argument("losses", metavar="LOSSES")
@click.option("--error", type=float, help="Largest acceptable excess risk, in the unit of the loss; may cost.")
@click.option("--confidence", type=float, help="Probability that the bound holds.")
@click.option("--key", help="Idempotency key: the same key is charged once and gets the same models.")
@click.option("--max-price", type=float, help="For a server: refuse if the price is higher.")
@click.option("--cost", "only_cost", is_flag=True, help="Print the price instead of fitting.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the models to this JSON file.")
@click.option("--table", "served", help="For a server: name of the table, if the token may ask several.")
@reading_options(domain_required=False)
@click.option("--ledger", type=click.Path(path_type=Path), help="For a table: file of its ledger.")
@anchor_option
@click.option("--warm-start", type=float, help="For a table: share of the budget spent when the session opens.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="default",
    show_default=True,
    help="For a table: the convex engines answer all losses within one error.",
)
@click.option("--queries", type=int, help="With a convex engine: number of losses to expect.")
@budget_options
@json_option
def fit(
    target: str,
    losses: str,
    error: float | None,
    confidence: float | None,
    key: str | None,
    max_price: float | None,
    only_cost: bool,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit models by minimising the convex losses of a file, LOSSES, in TOML or JSON.

    Models from a release are free. Models from a server or your own table are free and uncertified, unless you give
    --error or use a convex engine.

    \b
    Example:  reticent fit census.release losses.toml
              reticent fit census.parquet losses.toml --domain census.toml --ledger census.ledger --rho 0.05 \\
                  --error 0.02 --out models.json
    """
    from reticent.planning.loss_files import read_losses

    _refuse_unused(target, options["engine"])
    asked = read_losses(losses)
    refuse_overwriting("out")
    if out is not None:
        refuse_unwritable(out)
    opened = _opened(target, asked, error, confidence, as_json, **options)
    try:
        if only_cost:
            price = _price(opened, asked, error, confidence)
            print_json({"price": price}) if as_json else click.echo(opened.priced(price) if price else "free")
            return
        models = _fitted(opened, asked, error, confidence, key, max_price)
    finally:
        opened.close()
    described = [model.to_dict() for model in models]
    if out is not None:
        write_file(out, json.dumps(described, indent=2).encode())
    if as_json:
        print_json(described)
        return
    for model in models:
        show_model(model)
    if out is not None:
        console.print(f"models: {out}", markup=False)


def _refuse_unused(target: str, engine: str) -> None:
    """Refuse options that have no effect on this kind of target."""
    reading = ("domain_file", "query", "person", "most", "records", "version", "neighbours")
    reading = (*reading, "ledger", "anchor", "warm_start", "engine")
    budget = ("queries", "epsilon", "delta", "rho")
    if is_server(target):
        refuse_unused("with a server, which has its own table and budget", *reading, *budget)
    elif is_release(target):
        asking = ("served", "error", "confidence", "key", "max_price", "only_cost")
        refuse_unused("with a release, whose models are free", *reading, *budget, *asking)
    else:
        refuse_unused("with a table of your own, only with a server", "served", "max_price")
        if engine == "default":
            refuse_unused("with the default engine, only with a convex one", "queries")
        else:
            refuse_unused(f"with --engine {engine}, which starts from uniform", "warm_start")


def _opened(
    target: str, losses: Sequence[Any], error: float | None, confidence: float | None, quiet: bool, **options: Any
) -> Target:
    opening = {name: options.pop(name) for name in ("warm_start", "engine", "queries")}
    if opening["engine"] != "default":
        # Of a session that goes on, the terms of its first opening hold.
        opening |= {"losses": losses, "error": error}
        if confidence is not None:
            opening["confidence"] = confidence
    return opened_target(target, lambda: opening, quiet, **options)


def _price(opened: Target, losses: Sequence[Any], error: float | None, confidence: float | None) -> float:
    if error is None and opened.tests:
        request = opened.backend.request(tuple(losses), None, confidence)
        return opened.backend.budget.amount(opened.backend.quote(request).price)
    if error is None:
        raise QueryError("state --error: without one every model is free")
    return float(opened.backend.cost(list(losses), error=error, confidence=confidence))


def _fitted(
    opened: Target,
    losses: Sequence[Any],
    error: float | None,
    confidence: float | None,
    key: str | None,
    max_price: float | None,
) -> list[Model]:
    if opened.free:
        return [opened.backend.minimize(loss) for loss in losses]
    options: dict[str, Any] = {"error": error, "confidence": confidence, "key": key}
    if max_price is not None:
        options["max_price"] = max_price
    return opened.backend.minimize(list(losses), **options)


def show_model(model: Model) -> None:
    """What it is, what is certified, and its coefficients on the original scale."""
    console.print(repr(model), markup=False, soft_wrap=True)
    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(justify="right", no_wrap=True)
    for name, value in list(model.coefficients.items())[:SHOWN]:
        grid.add_row(name, shown_number(value))
    console.print(grid)
    if len(model.coefficients) > SHOWN:
        console.print(f"  and {len(model.coefficients) - SHOWN} more", markup=False)
    if model.note:
        console.print(f"  {model.note}", markup=False, soft_wrap=True)
    if (told := _about_population(model)) is not None:
        console.print(f"  {told}", markup=False, soft_wrap=True)


def _about_population(model: Model) -> str | None:
    """What is certified about the population; nothing where that is nothing, or the table is a server's."""
    if model.confidence is None or not model.knows_table:
        return None
    found = model.population_excess(1 - 2 * (1 - model.confidence))
    if found.error is None:
        return None
    sure = confidence_text(found.confidence)
    return f"on the population excess risk at most {shown_bound(found.error)} at {sure}, {found.note}"
