"""`release`: publish a table's answers and a synthetic copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from reticent.cli.options import (
    budget_from,
    budget_options,
    console,
    json_option,
    print_json,
    progress_bar,
    read_table,
    table_options,
    workload_from,
)
from reticent.cli.show import show_result
from reticent.errors import QueryError
from reticent.files import refuse_unwritable, writing

CHARTS, LONGEST_CHART = 3, 12
COVERED = {"cells": "every cell", "boxes": "every range", "predicates": "every condition"}
BARS = "bars: dark is certain, medium ends at the answer, light at the bound"
ALGORITHMS = ("adaptive", "mwem", "textbook", "dualquery")


def algorithm_named(
    name: str, error: float | None = None, rounds: int | None = None, model_cells: int | None = None
) -> Any:
    """An offline algorithm by its name on the command line."""
    import reticent as rt

    if name == "textbook":
        if error is None:
            raise QueryError("the textbook algorithm needs --error, the largest error to allow, for example 0.1")
        return rt.TextbookPMW(error=error)
    if name == "mwem":
        return rt.MWEM() if rounds is None else rt.MWEM(rounds=rounds)
    if name == "dualquery":
        return rt.DualQuery()
    return rt.Adaptive() if model_cells is None else rt.Adaptive(model_cells=model_cells)


@click.command()
@table_options
@click.option(
    "--workload",
    help="marginals:K, ranges:COLUMN, joined by +, or a file of attribute sets or SQL.  [default: marginals:3]",
)
@budget_options
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="adaptive", show_default=True)
@click.option("--error", type=float, help="For the textbook algorithm.")
@click.option("--rounds", type=int, help="For MWEM.")
@click.option("--model-cells", type=int, help="For adaptive: the largest model of a universe too large to hold.")
@click.option("--out", type=click.Path(path_type=Path), help="Synthetic rows: .parquet or .csv.")
@click.option("--rows", type=int, help="How many synthetic rows; default: as many as records.")
@click.option("--save", "save_file", type=click.Path(path_type=Path), help="The whole release, to ask: FILE.release.")
@click.option("--report", type=click.Path(path_type=Path), help="A self-contained HTML page.")
@click.option("--ledger", type=click.Path(path_type=Path), help="Durable account; also lets a crashed run resume.")
@json_option
def release(
    table: str,
    workload: str | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    algorithm: str,
    error: float | None,
    rounds: int | None,
    model_cells: int | None,
    out: Path | None,
    rows: int | None,
    save_file: Path | None,
    report: Path | None,
    ledger: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Learn a public distribution that answers the workload, and write synthetic rows and a report.

    \b
    Example:  reticent release census.parquet --domain census.toml --workload marginals:3 \\
                  --epsilon 1 --delta 1e-9 --out synthetic.parquet --report report.html
    """
    from reticent.releases import release as publish

    budget = budget_from(epsilon, delta, rho)
    method = algorithm_named(algorithm, error, rounds, model_cells)
    if rows is not None and rows < 1:
        raise QueryError(f"{rows} synthetic rows cannot be written; ask for at least 1")
    _writable(out, save_file, report)
    private = read_table(table, **reading)
    wanted = workload_from(workload or f"marginals:{min(3, len(private.domain))}", private.domain)
    with progress_bar(as_json) as listener:
        published = publish(private, wanted, budget, algorithm=method, ledger=ledger, progress=listener)
    written = write_outputs(published, out, rows, save_file, report)
    if as_json:
        certificates = [c.to_dict() for c in published.certificates]
        # Of "spent", as in `ledger show`; "unit" is what privacy protects.
        unit = {"spent_unit": f"nano-{budget.unit}"}
        print_json(unit | published.facts | {"certificates": certificates, "written": written})
        return
    show_release(published, written)
    if ledger is None:
        console.print("[dim]no --ledger: nothing but you remembers that this was spent[/dim]")


def _widths(certificate: Any) -> str:
    """How many columns: a range on many holds those on fewer, the cells of many do not."""
    found = sorted(set(map(len, certificate.sets)))
    if certificate.kind != "cells" or found == list(range(1, found[-1] + 1)):
        return f"up to {found[-1]} columns" if found[-1] > 1 else "1 column"
    return f"{' or '.join(map(str, found))} columns"


def _writable(*paths: Path | None) -> None:
    """Refuse a wrong destination before anything is spent."""
    for path in paths:
        if path is not None:
            refuse_unwritable(path)
    out = paths[0]
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise QueryError(f"{out}: synthetic rows are written as .parquet or .csv; choose one of these endings")


def write_outputs(
    published: Any, out: Path | None, rows: int | None, save_file: Path | None, report: Path | None
) -> dict[str, str]:
    """Writes what was asked for; returns what was written where."""
    written = {}
    if out is not None:
        synthetic = published.synthesize(rows or max(1, round(published.records)))
        write_rows(synthetic, out)
        written["synthetic rows"] = f"{out} ({synthetic.num_rows:,} rows)"
    if save_file is not None:
        written["release"] = str(published.save(save_file))
    if report is not None:
        written["report"] = str(published.report(report))
    return written


def write_rows(synthetic: Any, out: Path) -> None:
    from pyarrow import csv, parquet

    with writing(out):
        (csv.write_csv if out.suffix == ".csv" else parquet.write_table)(synthetic, out)


def show_release(published: Any, written: dict[str, str]) -> None:
    """What was spent and what is guaranteed in a few lines, then the first columns as bars."""
    from reticent.queries.linear import Marginal

    facts = published.facts
    console.print(f"[bold]{escape(facts['name'])}[/bold] published: {escape(published.privacy)}")
    if facts.get("charged_now") == 0:
        console.print("  published before with this ledger: read back from it; nothing was measured, nothing charged")
    for certificate in published.certificates:
        scope = f"{COVERED[certificate.kind]} of {_widths(certificate)}"
        console.print(f"  certified within [bold]{certificate.bound:.2%}[/bold] of the table: {scope}")
    if published.certificates:
        confidence = min(certificate.confidence for certificate in published.certificates)
        console.print(f"  (all of these at once, confidence {confidence:.0%})")
    if not published.certificates:
        console.print("  no bound was bought: this algorithm certifies no errors")
    for what, where in written.items():
        console.print(f"  {what}: {escape(where)}")
    short = [name for name in published.domain.names if published.domain[name].size <= LONGEST_CHART]
    for name in short[:CHARTS]:
        console.print()
        show_result(published.answer(Marginal((name,))), footer=False)
    if short:
        console.print(f"[dim]{BARS}[/dim]")
