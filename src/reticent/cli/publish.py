"""`release`: publish a table's answers and a synthetic copy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.text import Text

from reticent.cli.options import (
    anchor_option,
    budget_from,
    budget_options,
    check_fit,
    console,
    json_option,
    misfits_option,
    print_json,
    progress_bar,
    read_table,
    refuse_overwriting,
    refuse_unused,
    table_options,
    telling_anchor,
    warn_of_delta,
    workload_from,
)
from reticent.cli.outputs import check_writable, write_outputs
from reticent.cli.show import show_result
from reticent.errors import QueryError
from reticent.knowledge.certificates import certifies
from reticent.report.words import analysis_rows, losses_sentence, worth_telling

CHARTS, LONGEST_CHART = 3, 12
COVERED = {"cells": "every cell", "boxes": "every range", "predicates": "every condition"}
BARS = "bars: dark is certain, medium ends at the answer, light at the bound"
ALGORITHMS = ("adaptive", "mwem", "textbook", "dualquery", "convex")


OPTIONS: dict[str, tuple[str, ...]] = {
    "adaptive": ("model_cells",),
    "mwem": ("rounds",),
    "textbook": ("error", "failure"),
    "convex": ("losses", "error", "failure", "rounds", "start"),
    "dualquery": (
        *("error", "failure", "rounds", "draws", "step", "sample"),
        *("refine", "replies", "memory", "player", "work", "seed"),
    ),
}
"""Options of `release` that an algorithm takes."""


def algorithm_named(name: str, **options: Any) -> Any:
    """An offline algorithm by its name on the command line, with the options that were given."""
    import reticent as rt

    given = {option: options[option] for option in OPTIONS[name] if options.get(option) is not None}
    if name == "textbook" and "error" not in given:
        raise QueryError("the textbook algorithm needs --error, the largest error to allow, for example 0.1")
    if "sample" in given:
        given["sample"] = int(given["sample"]) if given["sample"].isdecimal() else given["sample"]
    if name == "convex":
        from reticent.planning.loss_files import read_losses

        if "losses" not in given:
            raise QueryError("the convex algorithm needs --losses, a file of the losses to serve, .toml or .json")
        return rt.ConvexPMW(read_losses(given.pop("losses")), **given)
    kinds = {"adaptive": rt.Adaptive, "mwem": rt.MWEM, "textbook": rt.TextbookPMW, "dualquery": rt.DualQuery}
    return kinds[name](**given)


def algorithm_options(function: Any) -> Any:
    """Every parameter of every offline algorithm; `OPTIONS` says whose each is."""
    options = [
        click.option("--algorithm", type=click.Choice(ALGORITHMS), default="adaptive", show_default=True),
        click.option(
            "--error", type=float, help="For textbook, dualquery and convex: the error that the theorem guarantees."
        ),
        click.option("--losses", help="For convex: a file of the losses to serve, .toml or .json."),
        click.option("--start", type=float, help="For convex: share of the budget spent on the workload first."),
        click.option(
            "--failure", type=float, help="With --error: probability that the guarantee fails.  [default: 0.05]"
        ),
        click.option("--rounds", type=int, help="For mwem, dualquery and convex."),
        click.option("--draws", type=int, help="For dualquery: queries drawn in each round."),
        click.option("--step", type=float, help="For dualquery: the step of the query player's weights."),
        click.option("--sample", help="For dualquery: number of secretly sampled records, or 'theorem' with --error."),
        click.option("--refine", type=float, help="For dualquery: share of the budget for single columns."),
        click.option("--replies", type=int, help="For dualquery: records played in each round."),
        click.option("--memory", type=int, help="For dualquery: rounds whose draws the data player sees."),
        click.option("--player", type=click.Choice(["search", "exact"]), help="For dualquery: the data player."),
        click.option("--work", type=int, help="For dualquery: limit of one reply, in moves or nodes."),
        click.option("--seed", type=int, help="For dualquery: public randomness of the data player."),
        click.option(
            "--model-cells", type=int, help="For adaptive: size limit of the model, for universes too large to hold."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@table_options
@click.option(
    "--workload",
    help="marginals:K, ranges:COLUMN, joined by +, or a file of attribute sets or SQL.  [default: marginals:3]",
)
@budget_options
@algorithm_options
@click.option("--out", type=click.Path(path_type=Path), help="Synthetic rows: .parquet or .csv.")
@click.option("--rows", type=int, help="Number of synthetic rows; default: the number of records.")
@click.option(
    "--replicates", type=int, help="Add replicates, for the population: to the file of --save, as weights to --out."
)
@click.option(
    "--save",
    "save_file",
    type=click.Path(path_type=Path),
    help="Save the whole release, for later questions: FILE.release.",
)
@click.option("--report", type=click.Path(path_type=Path), help="A self-contained HTML page.")
@click.option(
    "--custodian-copy",
    type=click.Path(path_type=Path),
    help="The report with scores against the true rows. NOT PRIVATE: for the custodian only.",
)
@misfits_option
@click.option("--ledger", type=click.Path(path_type=Path), help="File of the ledger; a crashed run resumes from it.")
@anchor_option
@json_option
def release(
    table: str,
    workload: str | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    algorithm: str,
    out: Path | None,
    rows: int | None,
    replicates: int | None,
    save_file: Path | None,
    report: Path | None,
    custodian_copy: Path | None,
    ledger: Path | None,
    accept_misfits: bool,
    anchor: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn a public distribution that answers the workload, and write synthetic rows and a report.

    \b
    Example:  reticent release census.parquet --domain census.toml --workload marginals:3 \\
                  --epsilon 1 --delta 1e-9 --out synthetic.parquet --report report.html
    """
    from reticent.releases.preconditions import check_rows_to_draw
    from reticent.releases.release import release as publish

    parameters = {name: options.pop(name) for name in dict.fromkeys(sum(OPTIONS.values(), ()))}
    reading = options
    _refuse_unused(algorithm, out, save_file)
    budget = budget_from(epsilon, delta, rho)
    method = algorithm_named(algorithm, **parameters)
    if anchor is not None and ledger is None:
        raise QueryError("--anchor is the place of a ledger's anchor; name the ledger with --ledger")
    refuse_overwriting("out", "save_file", "report", "custodian_copy")
    check_writable(out, save_file, report, custodian_copy)
    if all(kept is None for kept in (out, save_file, report, ledger)):
        raise QueryError("nothing would be kept: give --out, --save, --report or --ledger")
    check_fit(table, accept_misfits, **reading)
    private = read_table(table, **reading)
    warn_of_delta(budget, private.records)
    usual = f"marginals:{min(3, len(private.domain))}"
    wanted = workload_from(usual if workload is None else workload, private.domain)
    check_rows_to_draw(
        private.domain,
        wanted,
        method,
        private.records,
        rows=rows,
        replicates=replicates,
        drawn=out is not None,
    )
    with telling_anchor(ledger, anchor), progress_bar(as_json) as listener:
        published = publish(private, wanted, budget, algorithm=method, ledger=ledger, anchor=anchor, progress=listener)
    outputs = write_outputs(published, out, rows, save_file, report, replicates, ledger=ledger, quiet=as_json)
    if custodian_copy is not None:
        outputs.write(
            "custodian's copy, not private", lambda made: _write_custodian_copy(made, private, custodian_copy)
        )
    outputs.finish()
    published, written = outputs.published, outputs.written
    if as_json:
        certificates = [c.to_dict() for c in published.certificates]
        # Of "spent", as in `ledger show`; "unit" is what privacy protects.
        unit = {"spent_unit": f"nano-{budget.unit}"}
        bounds = {"certificates": certificates, "guarantees": [_bound(g) for g in published.guarantees]}
        bounds |= {"losses": [c.to_dict() for c in published.losses]} if published.losses else {}
        stated = {name: published.notes[name] for name in ("analyses", "amplified") if name in published.notes}
        print_json(unit | published.facts | bounds | stated | {"written": written})
        return
    show_release(published, written)
    if ledger is None:
        console.print("[dim]no --ledger: this spending is not recorded in any file[/dim]")


def _refuse_unused(algorithm: str, out: Path | None, save_file: Path | None) -> None:
    """Refuse options of other algorithms, and of files that are not written."""
    for name in dict.fromkeys(sum(OPTIONS.values(), ())):
        takers = [other for other, names in OPTIONS.items() if name in names]
        if algorithm not in takers:
            refuse_unused(f"with --algorithm {algorithm}, only with {_listed(takers)}", name)
    if algorithm != "adaptive":
        refuse_unused(f"with --algorithm {algorithm}, only with adaptive", "replicates")
    if out is None:
        refuse_unused("without --out, where synthetic rows are written", "rows")
        if save_file is None:
            refuse_unused("without --save or --out, which replicates are written to", "replicates")


def _write_custodian_copy(published: Any, private: Any, path: Path) -> Path:
    """Write the custodian's copy with exact scores to a separate file that only its owner may read."""
    from reticent.custodian.scores import score
    from reticent.report import Cover, write_release

    written = write_release(published, path, Cover(), score(published, private).rows())
    written.chmod(0o600)
    return written


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _bound(guarantee: Any) -> dict[str, Any]:
    return {
        "theorem": guarantee.theorem,
        "error": guarantee.error,
        "confidence": guarantee.confidence,
        "origin": guarantee.origin,
    }


def _widths(certificate: Any) -> str:
    """The number of columns in words: ranges on many columns include those on fewer, cells do not."""
    found = sorted(set(map(len, certificate.sets)))
    if certificate.kind != "cells" or found == list(range(1, found[-1] + 1)):
        return f"up to {found[-1]} columns" if found[-1] > 1 else "1 column"
    return f"{' or '.join(map(str, found))} columns"


def _stated(bound: float) -> str:
    if not certifies(bound):
        return "not certified, too few records for this budget"
    return f"certified within [bold]{bound:.2%}[/bold] of the table"


def _uncertified(published: Any) -> str:
    if why := published.notes.get("uncertified"):
        return f"not certified, {why}"
    why = "no bound was bought: this algorithm" if published.stated else "a fit to others' measurements"
    return f"{why} certifies no errors"


def _item(text: str, *, markup: bool = True) -> None:
    """Print a fact below the heading; the lines that a narrow terminal breaks off are indented like its first."""
    shown = Text.from_markup(text) if markup else Text(text)
    for line in shown.wrap(console, max(1, console.width - 2)):
        line.rstrip()
        console.print(Text("  ") + line)


def show_release(published: Any, written: dict[str, str]) -> None:
    """Print the amount spent and the guarantees in a few lines, then the first columns as bars."""
    from reticent.queries.linear import Marginal

    facts = published.facts
    done = "published" if published.stated else "fitted"
    console.print(f"[bold]{escape(facts['name'])}[/bold] {done}: {escape(published.privacy)}")
    if facts.get("charged_now") == 0:
        _item("published before with this ledger: read back from it; nothing was measured, nothing charged")
    for certificate in published.certificates:
        _item(f"{_stated(certificate.bound)}: {COVERED[certificate.kind]} of {_widths(certificate)}")
    for error in filter(lambda told: certifies(told.bound), worth_telling(published.typical, published.certificates)):
        _item(f"typically within {error.bound:.2%}: {error.words}")
    for guarantee in published.guarantees:
        by = "by the theorem" if guarantee.origin == "theorem" else "by an audit"
        by = "by the noise of their measurements" if guarantee.measured else by
        _item(f"{_stated(guarantee.bound)}: {guarantee.covered}, {by}")
    for certificate in published.losses:
        _item(f"{losses_sentence(certificate, published.confidence)}", markup=False)
    bounds = (*published.certificates, *published.guarantees)
    if any(certifies(bound.bound) for bound in bounds):
        which = "all of these" if len({bound.origin for bound in bounds}) == 1 else "all of one line"
        _item(f"({which} at once, confidence {min(bound.confidence for bound in bounds):.0%})")
    elif not bounds and not published.losses:
        _item(_uncertified(published))
    for words, value in analysis_rows(published.notes):
        _item(f"{words}: {value}", markup=False)
    for what, where in written.items():
        console.print(f"  {what}: {where}", markup=False, soft_wrap=True)  # a path stays whole
    short = [name for name in published.domain.names if published.domain[name].size <= LONGEST_CHART]
    for name in short[:CHARTS]:
        console.print()
        show_result(published.answer(Marginal((name,))), footer=False, unit=facts["unit"])
    if short:
        console.print(f"[dim]{BARS}[/dim]")
