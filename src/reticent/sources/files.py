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
from reticent.sources.frames import check_header

_CSV = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
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
    return DuckDBEngine.over(scan.rows, label=location.name, query=query, form=scan.form)


def declared_names(location: Path) -> list[str]:
    """The column names in the header line of a CSV; nothing beyond it is read."""
    header = _header(location)
    names = _names(header, location.name, frozenset(), tab=_ending(location) == ".tsv")[1]
    check_header(names, location.name, _UNNAMED)
    return names


def file_format(location: Path) -> tuple[str, Path]:
    """`csv`, `parquet` or `arrow`, and the file with the header or schema: for a folder, its first file."""
    if "://" in str(location):
        raise SourceError("a URL is not supported here; use postgresql:// or a file")
    try:
        if not location.exists():
            raise SourceError(f"{location} does not exist; check the path")
        if location.is_dir():
            found = sorted(location.rglob("*.parquet"))
            if not found:
                raise _emptiness(location, "folder")
            return "parquet", found[0]
        form = _form(location)
        if location.stat().st_size == 0:
            raise _emptiness(location, form)
    except (OSError, ValueError):
        raise SourceError("the path cannot be opened; check its length, its characters and permissions") from None
    return form, location


def _form(location: Path) -> str:
    """The format that the file's name states."""
    for form, endings in (("csv", _CSV), ("parquet", _PARQUET), ("arrow", _ARROW)):
        if _ending(location) in endings:
            return form
    raise SourceError(f"{location.name} has no known format; use one of {_FORMATS}")


def _matches(pattern: str) -> bool:
    """Whether a pattern matches a file; it also follows links, as DuckDB may."""
    return next(glob.iglob(pattern, recursive=True, include_hidden=True), None) is not None


def _emptiness(location: Path, form: str) -> SourceError:
    """The refusal of a file of no bytes, or of a folder without Parquet."""
    if form == "folder":
        return SourceError(f"{location} has no .parquet file in it; check the path")
    remedy = "write at least a header line" if form == "csv" else "write it again with its columns"
    return SourceError(f"{location.name} is empty; {remedy}")


def declares_types(path: str | Path) -> bool:
    """Whether the format of a file, or a database, has types; in a CSV file everything is text."""
    return "://" in str(path) or _ending(Path(path)) not in _CSV


def _ending(location: Path) -> str:
    suffixes = [suffix.lower() for suffix in location.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _PACKED else (suffixes or [""])[-1]


def _scan(location: Path, domain: Domain, *, queried: bool) -> _Scan:
    several = any(sign in location.name for sign in "*?[")
    try:
        if not several and not location.exists():
            raise SourceError(f"{location} does not exist; check the path")
        if not several and location.is_dir():
            if not _matches(f"{glob.escape(str(location))}/**/*.parquet"):
                raise _emptiness(location, "folder")
            return _Scan(_parquet_scan(location / "**" / "*.parquet"), "parquet")
        form = _form(location)
        if several and not _matches(str(location)):
            raise SourceError(f"{location} matches no file; check the path")
        if not several and location.stat().st_size == 0:
            raise _emptiness(location, form)
    except (OSError, ValueError):
        raise SourceError("the path cannot be opened; check its length, its characters and permissions") from None
    if form == "parquet":
        return _Scan(_parquet_scan(location), form)
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
    check_header(names, location.name, _UNNAMED, lambda name: name.translate(_LOWER))
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
