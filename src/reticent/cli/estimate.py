"""`estimate`: fits a distribution to noisy measurements made with another tool."""

from __future__ import annotations

from pathlib import Path

import click

from reticent.cli.options import json_option, print_json, refuse_unused
from reticent.cli.outputs import check_writable, write_outputs
from reticent.cli.publish import show_release


@click.command()
@click.argument("measurements", metavar="MEASUREMENTS")
@click.option("--domain", "domain_file", required=True, help="Description of the table's columns, .toml or .json.")
@click.option("--records", type=int, required=True, help="Number of records of the measured table.")
@click.option("--out", type=click.Path(path_type=Path), help="Synthetic rows: .parquet or .csv.")
@click.option("--rows", type=int, help="Number of synthetic rows; default: the number of records.")
@click.option("--save", "save_file", type=click.Path(path_type=Path), help="Save the fit: FILE.release.")
@click.option("--report", type=click.Path(path_type=Path), help="A self-contained HTML page.")
@json_option
def estimate(
    measurements: str,
    domain_file: str,
    records: int,
    out: Path | None,
    rows: int | None,
    save_file: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Fit a distribution to noisy measurements made with another tool.

    MEASUREMENTS is a JSON list of objects with "query", "values" (shares of the table) and "sd". Nothing is measured or
    charged. The result states no privacy guarantee of its own; that of the measurements extends to it.

    \b
    Example:  reticent estimate measured.json --domain census.toml --records 48842 --out synthetic.parquet
    """
    from reticent.domain import Domain
    from reticent.releases.measured import fit, read_measurements
    from reticent.releases.preconditions import checked_rows

    if out is None:
        refuse_unused("without --out, where synthetic rows are written", "rows")
    check_writable(out, save_file, report)
    domain = Domain.read(domain_file)
    if out is not None:
        checked_rows(rows, domain, records)
    fitted = fit(domain, read_measurements(measurements), records=records, name=Path(measurements).stem)
    outputs = write_outputs(fitted, out, rows, save_file, report)
    outputs.finish()
    written = outputs.written
    if as_json:
        print_json(fitted.facts | {"fit": fitted.notes, "written": written})
        return
    show_release(fitted, written)
