"""Files as DuckDB relations; the format follows from the file name, never from the rows."""

from __future__ import annotations

import csv
import glob
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from reticent.domain import Attribute, Domain
from reticent.errors import SourceError
from reticent.sources.duckdb import DuckDBEngine, quoted_text
from reticent.sources.frames import check_names

_CSV = (".csv", ".tsv", ".txt")
_ENDINGS = {"csv": _CSV, "parquet": (".parquet", ".pq"), "arrow": (".arrow", ".feather", ".ipc")}
_PACKED = (".gz", ".zst")
_FORMATS = ".csv .tsv .txt (also .gz, .zst) .parquet .pq .arrow .feather .ipc, or a folder of .parquet"
_HEADER_BYTES = 1 << 20
_UNNAMED = "name it in the first line"
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
"""DuckDB ignores the case of these letters only."""


@dataclass(frozen=True)
class _Scan:
    """SQL or Arrow data, and the format it was read as."""

    rows: Any
    form: str


def open_file(path: str | Path, domain: Domain, query: str | None) -> DuckDBEngine:
    """The engine over one file, a Parquet folder or a glob of files; a query names it `rows`."""
    if not str(path).strip():
        # An empty name would be the working folder, with all that lies in it.
        raise SourceError("the path is empty; give a file, or '.' for the folder you are in")
    if "://" in str(path):
        # A URL may hold a password: only its scheme is repeated.
        scheme = str(path).split("://", 1)[0]
        raise SourceError(f"{scheme}:// is not supported; use postgresql://, a file, or Table.of with Ibis or Spark")
    location = Path(path).expanduser()
    scan = _scan(location, domain, queried=query is not None)
    return DuckDBEngine.over(scan.rows, label=location.name or location.resolve().name, query=query, form=scan.form)


def declared_names(location: Path) -> list[str]:
    """The column names in the header line of a CSV; nothing beyond it is read."""
    header = _header(location)
    names = _names(header, location.name, frozenset(), tab=_ending(location) == ".tsv")[1]
    check_names(names, location.name, unnamed=_UNNAMED, fold=str.lower)
    return names


def file_format(location: Path) -> tuple[str, Path]:
    """`csv`, `parquet` or `arrow`, and the file with the header or schema: of several, the first."""
    if "://" in str(location):
        raise SourceError("a URL is not supported here; use postgresql:// or a file")
    form, found = _located(location)
    return form, found[0]


def _located(location: Path) -> tuple[str, list[Path]]:
    """The format of one file, of a folder or of a pattern, and the files; refused if there are none."""
    several = any(sign in location.name for sign in "*?[")
    try:
        folder = not several and location.is_dir()
        pattern = f"{glob.escape(str(location))}/**/*.parquet" if folder else str(location)
        one = not several and not folder and location.exists()
        found = [location] if one else sorted(map(Path, glob.glob(pattern, recursive=True, include_hidden=True)))
        empty = one and location.stat().st_size == 0
    except (OSError, ValueError):
        raise SourceError("the path cannot be opened; check its length, its characters and permissions") from None
    if not found:
        absent = "has no .parquet file in it" if folder else "does not exist"
        raise SourceError(f"{location} {absent}; check the path")
    form = "parquet" if folder else next((form for form, ends in _ENDINGS.items() if _ending(location) in ends), None)
    if form is None:
        raise SourceError(f"{location.name} has no known format; use one of {_FORMATS}")
    if empty:
        remedy = "write at least a header line" if form == "csv" else "write it again with its columns"
        raise SourceError(f"{location.name} is empty; {remedy}")
    return form, found


def declares_types(path: str | Path) -> bool:
    """Whether the format of a file, or a database, has types; in a CSV file everything is text."""
    return "://" in str(path) or _ending(Path(path)) not in _CSV


def _ending(location: Path) -> str:
    suffixes = [suffix.lower() for suffix in location.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _PACKED else (suffixes or [""])[-1]


def _scan(location: Path, domain: Domain, *, queried: bool) -> _Scan:
    form = _located(location)[0]
    if form == "parquet":
        return _Scan(_parquet_scan(location / "**" / "*.parquet" if location.is_dir() else location), form)
    if form == "csv":
        return _Scan(_csv_scan(location, domain, tab=_ending(location) == ".tsv", queried=queried), form)
    return _Scan(_arrow_table(location), form)


def _parquet_scan(location: Path) -> str:
    """A scan that reads values in folder names (`year=2024`) as text: a common type would depend on rows."""
    return f"read_parquet({quoted_text(str(location))}, hive_types_autocast = false)"


def _csv_scan(location: Path, domain: Domain, *, tab: bool, queried: bool) -> str:
    """A scan with every field as text and the delimiter from the header, so that types do not depend on rows.

    An empty field is null, in quotes too: many programs quote every field. Only in columns that declare the empty text
    is a field in quotes that text.
    """
    wanted = frozenset() if queried else frozenset(domain.names)
    delimiter, names = _names(_header(location), location.name, wanted, tab=tab)
    check_names(names, location.name, unnamed=_UNNAMED, fold=lambda name: name.translate(_LOWER))
    columns = ", ".join(f"{quoted_text(name)}: 'VARCHAR'" for name in names)
    empty = [name for name in domain.names if _declares_empty(domain[name])]
    scan = (
        f"read_csv({quoted_text(str(location))}, auto_detect = false, header = true, delim = {quoted_text(delimiter)}, "
        f"quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = {str(not empty).lower()}, "
        f"columns = {{{columns}}})"
    )
    # A query may give a column another name.
    nulls = [name for name in names if name not in empty and not (queried and name not in domain)]
    if not empty or not nulls:
        return scan
    replaced = (f"nullif({column}, '') AS {column}" for column in map(DuckDBEngine.dialect.quoted, nulls))
    return f"(SELECT * REPLACE ({', '.join(replaced)}) FROM {scan})"


def _declares_empty(attribute: Attribute) -> bool:
    """Whether the empty text has a code of its own, as a value or by an alias."""
    empty, null = attribute.encode(["", None])
    return bool(empty < attribute.known and empty != null)


def _names(header: str, label: str, wanted: frozenset[str], *, tab: bool) -> tuple[str, list[str]]:
    """The delimiter that finds most of the required names, then most names; and the names."""
    delimiters = "\t" if tab else ",;\t|"
    parsed = {mark: _fields(header, mark, label) for mark in delimiters}
    delimiter = max(delimiters, key=lambda mark: (len(wanted & set(parsed[mark])), len(parsed[mark])))
    return delimiter, [name.strip() for name in parsed[delimiter]]


def _fields(header: str, delimiter: str, name: str) -> list[str]:
    """The names in a header line; its length is limited when it is read."""
    before = csv.field_size_limit(_HEADER_BYTES)
    try:
        return next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error:
        raise SourceError(f"{name} has a header line that is not CSV; check its quotes") from None
    finally:
        csv.field_size_limit(before)


def _header(location: Path) -> str:
    """The first line; lines end with LF, CR LF or CR."""
    try:
        with pa.input_stream(str(location), compression="detect") as stream:
            start = stream.read(_HEADER_BYTES + 1)
        line = min((start.split(end, 1)[0] for end in (b"\n", b"\r")), key=len)
        if len(line) > _HEADER_BYTES:
            raise SourceError(f"{location.name} has a header line over {_HEADER_BYTES:,} bytes; shorten its names")
        header = line.decode("utf-8-sig")
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
        raise SourceError(f"{location.name} is not a complete Arrow file; write it again") from None
