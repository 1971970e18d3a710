"""The files that a release is written to: checked before anything is spent; one that fails leaves the others."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from reticent.cli.options import progress_bar
from reticent.domain.files import reason, refuse_unwritable, replacing, shown_path, writing
from reticent.errors import QueryError, ReticentError

ROWS_FORMATS = (".parquet", ".csv")


def check_writable(out: Path | None, *others: Path | None) -> None:
    """Refuse a wrong destination before anything is spent."""
    for path in (out, *others):
        if path is not None:
            refuse_unwritable(path)
    if out is not None and out.suffix not in ROWS_FORMATS:
        raise QueryError(f"{out}: synthetic rows are written as .parquet or .csv; choose one of these endings")


def write_rows(synthetic: Any, out: Path) -> None:
    from pyarrow import csv, parquet

    with writing(out), replacing(out) as draft:
        (csv.write_csv if out.suffix == ".csv" else parquet.write_table)(synthetic, draft)


def write_outputs(
    published: Any,
    out: Path | None,
    rows: int | None,
    save_file: Path | None,
    report: Path | None,
    replicates: int | None = None,
    *,
    ledger: Path | None = None,
    quiet: bool = True,
) -> Outputs:
    """Write the requested files, the release first and once more with its replicates; `finish` tells what failed."""
    outputs = Outputs(published, ledger)
    if save_file is not None:
        outputs.save(save_file)
    if replicates is not None:
        outputs.add_replicates(replicates, quiet)
        if save_file is not None and outputs.published.replicated is not None:
            outputs.save(save_file)
    if report is not None:
        outputs.write("report", lambda made: made.report(report))
    if out is not None:
        outputs.write_synthetic(out, rows, replicates)
    return outputs


@dataclass
class Outputs:
    """Writes a paid release to the requested files, the release itself first.

    After payment no failure may lose the release. What fails is told after everything else is written; if neither a
    file nor the ledger holds the release, it is saved to a new file, whose name is told.
    """

    published: Any
    ledger: Path | None = None
    """The ledger that keeps the release, if any."""
    written: dict[str, str] = field(default_factory=dict)
    """What was written where."""
    problems: list[str] = field(default_factory=list)
    kept: Path | None = None
    """The file of the release."""

    def save(self, path: Path) -> None:
        with self._attempt():
            self.kept = self.published.save(path)
            self.written["release"] = str(path)

    def add_replicates(self, count: int, quiet: bool) -> None:
        with self._attempt(), progress_bar(quiet) as listener:
            self.published = self.published.replicates(count, progress=listener)

    def write(self, what: str, write: Callable[[Any], Path]) -> None:
        """Write a page or another file made of the release."""
        with self._attempt():
            self.written[what] = str(write(self.published))

    def write_synthetic(self, out: Path, rows: int | None, replicates: int | None = None) -> None:
        """Write synthetic rows; if weights cannot be made, rows without weights."""
        synthetic, note = None, ""
        if replicates is not None and self.published.replicated is not None:
            with self._attempt():
                synthetic = self.published.synthesize(rows, replicates=replicates)
        if synthetic is None:
            note = "" if replicates is None else ", without weights"
            with self._attempt():
                synthetic = self.published.synthesize(rows)
        if synthetic is not None:
            with self._attempt():
                write_rows(synthetic, out)
                rows_written = {"synthetic rows": f"{out} ({synthetic.num_rows:,} rows{note})"}
                self.written = rows_written | self.written  # told first

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        try:
            yield
        except ReticentError as problem:
            self.problems.append(str(problem))
        except OSError as problem:
            self.problems.append(f"an output cannot be written ({reason(problem)})")
        except MemoryError:
            self.problems.append("not enough memory for the rows: ask for fewer with --rows")
        except BaseException:  # an interruption, or a fault of this program
            if (told := self._where_kept()) is not None:
                click.echo(f"reticent: {told}", err=True)
            raise

    def finish(self) -> None:
        """Raise one line about everything that failed, if anything did."""
        if not self.problems:
            return
        written = f"written: {', '.join(self.written.values())}" if self.written else "nothing else was written"
        told = [*dict.fromkeys(self.problems), written, self._where_kept()]
        raise ReticentError("; ".join(filter(None, told)))

    def _where_kept(self) -> str | None:
        """Where the release is, and what to do with it; it is saved now if nothing holds it."""
        if not self.published.stated:  # a fit to others' measurements costs nothing
            return None
        if self.ledger is not None:
            return f"{shown_path(self.ledger)} keeps the paid release: run again with other outputs, it costs nothing"
        if self.kept is None:
            self.kept = _rescued(self.published)
        if self.kept is None:
            return "the paid release could not be saved anywhere and is lost"
        place = shown_path(self.kept)
        return f'the paid release is in {place}: in Python, rt.Release.load("{place}").synthesize() draws rows'


def _rescued(published: Any) -> Path | None:
    """The file to which the release was saved, in the first folder that takes it, under a name of its own."""
    name = f"reticent-{published.digest[:16]}.release"
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            return published.save(folder / name)
        except ReticentError:
            continue
    return None
