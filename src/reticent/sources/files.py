"""Files become DuckDB relations; their format is told by their name, never guessed from their rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.sources.duckdb import DuckDBEngine, literal

_CSV = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_PACKED = (".gz", ".zst")
_FORMATS = ".csv .tsv .txt (also .gz, .zst) .parquet .pq .arrow .feather .ipc, or a folder of .parquet"
_HEADER_BYTES = 1 << 20


def open_file(path: str | Path, domain: Domain, query: str | None) -> DuckDBEngine:
    """The engine over one file, a Parquet folder or a glob of them; a query sees it as the table `rows`."""
    if not str(path).strip():
        # An empty name would be the working folder, with all that lies in it.
        raise SourceError("the path is empty; give a file, or '.' for the folder you are in")
    if "://" in str(path):
        # A URL may hold a password: only its scheme is repeated.
        scheme = str(path).split("://", 1)[0]
        raise SourceError(f"{scheme}:// is not supported; use postgresql://, a file, or Table.of with Ibis or Spark")
    location = Path(path).expanduser()
    scan = _scan(location, domain if query is None else None)
    return DuckDBEngine.over(scan, label=location.name, query=query)


def _scan(location: Path, domain: Domain | None) -> Any:
    suffixes = [suffix.lower() for suffix in location.suffixes]
    ending = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _PACKED else (suffixes or [""])[-1]
    if not any(sign in location.name for sign in "*?["):
        if not location.exists():
            raise SourceError(f"{location} does not exist; check the path")
        if location.is_dir():
            return f"read_parquet({literal(str(location / '**' / '*.parquet'))})"
        if location.stat().st_size == 0:
            raise SourceError(f"{location.name} is empty; write at least a header line")
    if ending in _PARQUET:
        return f"read_parquet({literal(str(location))})"
    if ending in _CSV:
        return _csv_scan(location, domain, tab=ending == ".tsv")
    if ending in _ARROW:
        return _arrow_table(location)
    raise SourceError(f"{location.name} has no known format; use one of {_FORMATS}")


def _csv_scan(location: Path, domain: Domain | None, *, tab: bool) -> str:
    """Every field is text and the delimiter follows from the header: sniffing rows would make types depend on them."""
    header = _header(location)
    delimiters = "\t" if tab else ",;\t|"
    parsed = {mark: next(csv.reader([header], delimiter=mark), []) for mark in delimiters}
    wanted = set(domain.names) if domain is not None else set()
    delimiter = max(delimiters, key=lambda mark: (len(wanted & set(parsed[mark])), len(parsed[mark])))
    names = [name.strip() for name in parsed[delimiter]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SourceError(f"{location.name} names the column {twice[0]!r} twice; rename one")
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({literal(str(location))}, auto_detect = false, header = true, delim = {literal(delimiter)}, "
        f"quote = '\"', escape = '\"', nullstr = '', columns = {{{columns}}})"
    )


def _header(location: Path) -> str:
    try:
        with pa.input_stream(str(location), compression="detect") as stream:
            line = stream.read(_HEADER_BYTES).split(b"\n", 1)[0]
        header = line.decode("utf-8-sig").rstrip("\r")
    except (OSError, UnicodeDecodeError):
        raise SourceError(f"{location.name} cannot be read as UTF-8 text; check its encoding and permissions") from None
    if not header.strip():
        raise SourceError(f"{location.name} has no header line; write the column names into its first line")
    return header


def _arrow_table(location: Path) -> pa.Table:
    try:
        with pa.memory_map(str(location)) as stream:
            try:
                return pa.ipc.open_file(stream).read_all()
            except pa.ArrowInvalid:
                stream.seek(0)
                return pa.ipc.open_stream(stream).read_all()
    except (pa.ArrowException, OSError):
        raise SourceError(f"{location.name} is not a whole Arrow file; write it again") from None
