"""`domain`: drafts and shows domain files, and discovers undeclared columns privately."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from reticent.cli.groups import Group
from reticent.cli.options import (
    anchor_option,
    budget_from,
    budget_options,
    json_option,
    misfits_option,
    print_json,
    progress_bar,
    refuse_overwriting,
    telling_anchor,
)
from reticent.domain import Domain, Numeric, Undeclared
from reticent.domain.attribute import Attribute, closest
from reticent.domain.draft import ColumnFacts, Kind
from reticent.domain.files import named_path, refuse_unwritable, shown_path, write_file
from reticent.errors import DomainError
from reticent.kernel.accounting import Budget

KINDS: Mapping[str, Kind] = {"numbers": "number", "wholes": "number", "dates": "date", "datetimes": "datetime"}


@click.group(cls=Group)
def domain() -> None:
    """Draft the domain of a table from names and types, complete it privately, or show what it declares.

    \b
    Example:  reticent domain new census.csv --out census.toml
    """


@domain.command()
@click.argument("source", metavar="FILE|URL")
@click.option("--out", type=click.Path(path_type=Path), help="New .toml file for the draft; default: the screen.")
@click.option("--query", help="For a database: SQL that selects the columns; no row is read.")
@click.option("--codebook", type=click.Path(path_type=Path), help="Frictionless Table Schema or SDV metadata (JSON).")
@click.option(
    "--dictionary-is-public",
    is_flag=True,
    help="List the values in Arrow and Parquet dictionaries and in tables referenced by foreign keys.",
)
@click.option("--number", "numbers", multiple=True, metavar="COLUMN", help="A column of numbers; may be repeated.")
@click.option("--whole", "wholes", multiple=True, metavar="COLUMN", help="A column of whole numbers.")
@click.option("--date", "dates", multiple=True, metavar="COLUMN", help="A column of dates.")
@click.option("--datetime", "datetimes", multiple=True, metavar="COLUMN", help="A column of dates with times.")
@json_option
def new(
    source: str,
    out: Path | None,
    query: str | None,
    codebook: Path | None,
    dictionary_is_public: bool,
    as_json: bool,
    **kinds: tuple[str, ...],
) -> None:
    """Draft a domain from names and declared types: a Parquet schema, a CSV header, a database's catalogue.

    Truth values, enumerations and check constraints are filled in. Keys that depend on the rows stay empty, with a
    comment that says what to enter. A CSV file has no types, so --number, --whole and --date name the columns of each
    type.

    \b
    Example:  reticent domain new census.parquet --out census.toml
              reticent domain new census.csv --whole age --number income --date born --out census.toml
              reticent domain new census.csv --codebook schema.json --out census.toml
              reticent domain new postgresql://localhost/clinic --query "SELECT * FROM visits" --out visits.toml
    """
    from reticent.custodian.declared import declared_columns
    from reticent.domain.codebooks import merged, read_codebook
    from reticent.domain.draft import draft_text

    if out is not None:
        _refuse_existing(out)
    read, columns = declared_columns(source, query=query, public_dictionaries=dictionary_is_public)
    book = {} if codebook is None else read_codebook(named_path(codebook, "schema.json"))
    columns = _of_kinds([merged(column, book.get(column.name)) for column in columns], kinds)
    text = draft_text(_label(source), columns, read=read)
    unknown = sorted(set(book) - {column.name for column in columns})
    if out is not None:
        write_file(out, text.encode())
    if as_json:
        drafted = [column.name for column in columns]
        print_json({"columns": drafted, "not_in_the_table": unknown, **({"draft": text} if out is None else {})})
    elif out is None:
        click.echo(text, nl=False)
    if unknown:
        listed = ", ".join(unknown[:5])
        click.echo(f"The codebook also describes {listed}, which the table does not have.", err=True)
    if out is not None and not as_json:
        click.echo(
            f"{shown_path(out)}: {len(columns)} columns drafted. State what is open, then see what does not fit:"
        )
        click.echo(f"  reticent check {'...' if '://' in source else source} --domain {shown_path(out)}")


@domain.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show what a domain file declares: columns, their values, and rules about impossible records.

    \b
    Example:  reticent domain show census.toml
    """
    from reticent.domain import Domain

    declared = Domain.read(file)
    if declared.impossible:
        from reticent.hypotheses.junction_tree.tree import check_rules

        check_rules(declared)
    if as_json:
        columns = {name: {"codes": each.size, "values": _codes_text(each)} for name, each in declared.items()}
        rules = [{"rule": rule.text, "columns": list(rule.attributes)} for rule in declared.impossible]
        print_json({"columns": columns, "cells": declared.size, "impossible": rules})
        return
    width = max(map(len, declared.names))
    for name, attribute in declared.items():
        click.echo(f"{name:<{width}}  {attribute.size:>6} codes  {_codes_text(attribute)}")
    click.echo(f"{declared.size:,} possible combinations of codes" + (", but for" if declared.impossible else ""))
    for rule in declared.impossible:
        click.echo(f"  impossible: {rule.text}  ({int(rule.cells.sum()):,} of {rule.cells.size:,} cells)")


def _codes_text(attribute: Attribute) -> str:
    """Declared values or bins, and the codes beside them."""
    from reticent.sql.describe import values_text

    text, beside = values_text(attribute), attribute.labels[attribute.known :]
    return ", ".join([text, *(label for label in beside if not text.endswith(label))])


def _of_kinds(columns: list[ColumnFacts], kinds: Mapping[str, tuple[str, ...]]) -> list[ColumnFacts]:
    """With the kinds that the custodian names on the command line."""
    stated = {name: kind for kind, names in kinds.items() for name in names}
    for name in stated:
        if name not in {column.name for column in columns}:
            raise DomainError(f"unknown column {name!r}{closest(name, [column.name for column in columns])}")
    return [
        replace(column, kind=KINDS[stated[column.name]], whole=stated[column.name] == "wholes", identifier=False)
        if column.name in stated
        else column
        for column in columns
    ]


def _clipped(found: Domain, draft: Mapping[str, Attribute]) -> Iterator[str]:
    """A line for each discovered column of numbers whose sums leave something out."""
    from reticent.discovery.edges import clipped_note

    for name, declared in draft.items():
        attribute = found.get(name)
        if isinstance(declared, Undeclared) and isinstance(attribute, Numeric):
            yield from filter(None, [clipped_note(name, attribute, declared)])


def _refuse_existing(out: Path) -> None:
    refuse_unwritable(out)
    if out.suffix.lower() != ".toml":
        raise DomainError(f"{shown_path(out)}: a draft ends in .toml")
    if out.exists():
        raise DomainError(
            f"{shown_path(out)}: exists already; a draft would replace what you stated: choose another name"
        )


def _label(source: str) -> str:
    """The name of the source; of a database nothing, for its address may hold a password."""
    return "a database" if "://" in source else Path(source).name


@domain.command()
@click.argument("table", metavar="FILE|URL")
@click.option("--draft", required=True, help="The draft with empty lists, as `reticent domain new` writes it.")
@click.option("--ledger", required=True, type=click.Path(path_type=Path), help="File of the ledger of this budget.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The finished domain: .toml or .json; default: the screen."
)
@budget_options
@click.option("--edges", type=int, default=7, show_default=True, help="Edges of a number or a date: 1, 3, 7, 15, ...")
@click.option(
    "--values",
    type=int,
    default=1,
    show_default=True,
    help="With --person: number of values that count for each person.",
)
@click.option("--query", help="SQL that selects the rows; for a file, write FROM rows.")
@click.option("--person", help="Column that identifies the person; each person then counts as one.")
@click.option("--records", type=int, help="Public number of records, if the source does not state it.")
@click.option(
    "--neighbours",
    type=click.Choice(["replace-one", "add-remove"]),
    default="replace-one",
    show_default=True,
    help="What the guarantee protects: replacing one record, or adding and removing one.",
)
@misfits_option
@anchor_option
@json_option
def discover(
    table: str,
    draft: str,
    ledger: Path,
    out: Path | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    anchor: Path | None,
    accept_misfits: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the missing edges and categories of a draft privately, paid from a ledger.

    Numbers and dates get edges at their quantiles. Texts get the values that enough records share, which needs --delta.
    Sessions and releases on the domain state the sum of this budget and theirs.

    \b
    Example:  reticent domain discover census.csv --draft census.toml --epsilon 0.1 --delta 1e-9 \\
                  --ledger census.discovery --out census-domain.toml
    """
    from reticent.custodian.check import refuse_unreadable
    from reticent.discovery.discover import discover as search
    from reticent.domain.domain import dumps_toml
    from reticent.domain.draft import read_draft

    refuse_overwriting("out")
    if out is not None:
        refuse_unwritable(out)
    budget = budget_from(epsilon, delta, rho)
    if not accept_misfits:
        refuse_unreadable(table, read_draft(draft), query=options["query"], person=options["person"])
    with telling_anchor(ledger, anchor), progress_bar(as_json) as listener:
        found = search(
            table,
            draft,
            budget,
            ledger=ledger,
            anchor=anchor,
            progress=listener,
            **options,
        )
    if out is not None:
        found.write(out)
    described, notes = found.to_dict(), list(_clipped(found, read_draft(draft)))
    if as_json:
        print_json({"domain": described, "paid": [dict(paid) for paid in found.discovered], "notes": notes})
    elif out is None:
        click.echo(dumps_toml(described), nl=False)
    else:
        missing = [name for name in read_draft(draft) if name not in found]
        click.echo(f"{shown_path(out)}: {len(found)} columns, {found.size:,} possible records.")
        if missing:
            click.echo(f"Left out, as no value is common enough: {', '.join(missing)}.")
        for note in notes:
            click.echo(note)
        total = Budget.from_dict(found.discovered[-1]["budget"])
        click.echo(f"Paid: {total.describe()}. Whatever uses this domain adds that.")
