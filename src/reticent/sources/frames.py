"""Data frames in memory as Arrow tables; a column without a common declared type is encoded cell by cell.

If a library inferred one type from all cells, one cell could change the codes of all others (docs/proofs/reading.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from reticent.domain import Attribute, Domain, Numeric, Undeclared
from reticent.domain.numeric import HALF, positions
from reticent.domain.values import identity_of, name_of
from reticent.errors import SourceError


@dataclass
class ArrowFrame:
    """An Arrow table; for each column encoded here, the columns that hold its codes, statuses and positions."""

    table: pa.Table
    coded: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    """Names of columns that the domain does not use; a message may list them."""
    read: tuple[str, ...] = ()
    """Names of columns that hold readings of undeclared attributes, one cell by one."""
    named: dict[str, str] = field(default_factory=dict)
    """For a person column whose identifiers were numbered here, the column that holds their texts."""


def pandas_frame(frame: Any, domain: Domain, person: str | None, label: str) -> ArrowFrame:
    """A pandas frame: NumPy and extension types are kept, objects and categories are encoded cell by cell."""
    names = [name for name in frame.columns if isinstance(name, str)]
    check_names(names, label)
    places = {name: place for place, name in enumerate(frame.columns) if isinstance(name, str)}
    made = _Columns(domain, person, len(frame))
    for name, place in places.items():
        made.add(name, lambda place=place: _pandas_column(frame.iloc[:, place]))
    return made.frame(names)


def polars_frame(frame: Any, domain: Domain, person: str | None, label: str) -> ArrowFrame:
    """A polars frame: every type but Object, and those that Arrow lacks, is declared for the whole column."""
    made = _Columns(domain, person, frame.height)
    for name in frame.columns:
        made.add(name, lambda name=name: _polars_column(frame.get_column(name)))
    return made.frame(frame.columns)


def arrow_frame(table: pa.Table, domain: Domain, person: str | None, label: str) -> ArrowFrame:
    """An Arrow table with only the needed columns, because engines are slow with thousands of columns."""
    names = table.column_names
    check_names(names, label)
    needed = {name: table.column(place) for place, name in enumerate(names) if name in domain or name == person}
    return _whole(needed, table.num_rows, {}, [name for name in names if name not in needed])


def _whole(
    arrays: dict[str, Any],
    rows: int,
    coded: dict[str, tuple[str, str, str]],
    unread: Sequence[str],
    read: Sequence[str] = (),
    named: dict[str, str] | None = None,
) -> ArrowFrame:
    if not arrays and unread:
        # A table without columns has no rows either.
        arrays, unread = {unread[0]: pa.nulls(rows)}, unread[1:]
    table = pa.table(list(arrays.values()), names=list(arrays))
    return ArrowFrame(table, coded, tuple(unread), tuple(read), named or {})


def check_names(names: Sequence[str], label: str, *, unnamed: str = "", fold: Callable[[str], str] = str) -> None:
    """Refuse columns that share a name after `fold` and, where a remedy for it is given, columns without one."""
    seen: dict[str, str] = {}
    for place, name in enumerate(names, start=1):
        if unnamed and not name:
            raise SourceError(f"{label}: column {place} has no name; {unnamed}")
        if (other := seen.setdefault(fold(name), name)) != name:
            raise SourceError(f"{label} names columns {other!r} and {name!r}, which differ only in case; rename one")
        if len(seen) < place:
            raise SourceError(f"{label} names the column {name!r} twice; rename one")


@dataclass(frozen=True)
class _Cells:
    """Cells without a common type: distinct values, and the index of each row's value among them (-1: null)."""

    values: Sequence[Any]
    places: np.ndarray | None = None

    def spread(self, found: np.ndarray, missing: int) -> np.ndarray:
        return found if self.places is None else np.append(found, missing)[self.places]


class _Columns:
    """Collects the needed columns; of the others only the names."""

    def __init__(self, domain: Domain, person: str | None, rows: int) -> None:
        self._domain, self._person, self._rows = domain, person, rows
        self._arrays: dict[str, Any] = {}
        self._unread: list[str] = []
        self._read: list[str] = []
        self._judged: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._names: dict[str, pa.Array] = {}

    def add(self, name: str, convert: Callable[[], pa.Array | _Cells]) -> None:
        if name not in self._domain and name != self._person:
            self._unread.append(name)
            return
        column = convert()
        if not isinstance(column, _Cells):
            self._arrays[name] = column
            return
        if name in self._domain and isinstance(attribute := self._domain[name], Undeclared) and name != self._person:
            self._arrays[name] = _readings(attribute, column)
            self._read.append(name)
            return
        self._arrays[name] = pa.nulls(self._rows)
        if name == self._person:
            self._arrays[name], self._names[name] = _identities(column), _names(column)
        if name in self._domain:
            self._judged[name] = _judged(self._domain[name], column)

    def frame(self, names: Sequence[str]) -> ArrowFrame:
        # Longer than every name, so none of them.
        stem = max(names, key=len, default="")
        coded = {
            name: (f"{stem} code {place}", f"{stem} status {place}", f"{stem} position {place}")
            for place, name in enumerate(self._judged)
        }
        arrays = dict(self._arrays)
        for name, stored in coded.items():
            arrays |= {column: pa.array(found) for column, found in zip(stored, self._judged[name], strict=True)}
        named = dict.fromkeys(self._names, f"{stem} person")
        arrays |= {named[name]: texts for name, texts in self._names.items()}
        return _whole(arrays, self._rows, coded, self._unread, self._read, named)


def _judged(attribute: Attribute, cells: _Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes, statuses = attribute.judge(cells.values)
    missing, null = (int(found[0]) for found in attribute.judge([None]))
    inside = positions(attribute, cells.values) if isinstance(attribute, Numeric) else np.full(len(codes), HALF)
    return (
        cells.spread(codes, missing).astype(np.int32),
        cells.spread(statuses, null).astype(np.int8),
        cells.spread(inside, HALF).astype(np.uint16),
    )


def _readings(attribute: Undeclared, cells: _Cells) -> pa.Array:
    """Each cell's own reading: a text, a number or seconds since 1970; null if there is none."""
    found = [attribute.read(cell) for cell in cells.values]
    listed = found if cells.places is None else [None if place < 0 else found[place] for place in cells.places]
    texts = attribute.kind == "text"
    whole = [None if text is None or not _utf8(text) else text for text in listed] if texts else listed
    return pa.array(whole, pa.large_string() if texts else pa.float64())


def _utf8(text: Any) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _identities(cells: _Cells) -> pa.Array:
    """Persons numbered in order of appearance, null for nobody."""
    numbers: dict[Any, int] = {}
    whom = map(identity_of, cells.values)
    listed = [-1 if who is None else numbers.setdefault(who, len(numbers)) for who in whom]
    found = np.array(listed, dtype=np.int64)
    persons = cells.spread(found, -1)
    return pa.array(persons, mask=persons < 0)


def _names(cells: _Cells) -> pa.Array:
    """The text of each cell's own identifier, never its number here, which the cells of others decide."""
    texts = pa.array(map(name_of, cells.values), pa.large_string())
    return texts if cells.places is None else texts.take(pa.array(cells.places, mask=cells.places < 0))


def _pandas_column(values: Any) -> pa.Array | _Cells:
    import pandas as pd

    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _Cells(list(dtype.categories), np.asarray(values.cat.codes))
    if _pandas_declares(dtype):
        wanted = None
    elif dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=True) == "string":
        # All text, so each cell has the code that it would have alone; only faster.
        wanted = pa.large_string()
    else:
        return _Cells(list(values))
    try:
        return pa.array(values, type=wanted, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # The message of the failed conversion quotes a cell.
        return _Cells(list(values))


def _pandas_declares(dtype: Any) -> bool:
    """Whether the type determines the type of every cell."""
    import pandas as pd

    if isinstance(dtype, np.dtype):
        return dtype.kind == "M" or (dtype.kind in "biuf" and dtype.itemsize <= 8)
    numbers = (pd.BooleanDtype, pd.Float32Dtype, pd.Float64Dtype)
    whole = (pd.Int8Dtype, pd.Int16Dtype, pd.Int32Dtype, pd.Int64Dtype)
    unsigned = (pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype)
    others = (pd.StringDtype, pd.DatetimeTZDtype, pd.ArrowDtype)
    return isinstance(dtype, (*numbers, *whole, *unsigned, *others))


def _polars_column(column: Any) -> pa.Array | _Cells:
    import polars as pl

    if column.dtype != pl.Object:
        try:
            return column.to_arrow()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
    return _Cells(column.to_list())


def untyped_columns(rows: Any) -> frozenset[str]:
    """Columns of a pandas frame whose cells may have any type, even where all of them are text."""
    if not hasattr(rows, "iloc"):
        return frozenset()
    types = zip(rows.columns, rows.dtypes, strict=True)  # categories have a type of their own, of kind O too
    return frozenset(name for name, dtype in types if isinstance(name, str) and dtype.kind == "O")


def untyped_cells(rows: Any, name: str) -> Sequence[Any]:
    """The distinct or listed cells of a frame's column that has no common declared type; of other columns none."""
    try:
        column = _pandas_column(rows[name]) if hasattr(rows, "iloc") else _polars_column(rows[name])
    except (TypeError, KeyError, AttributeError, ImportError):
        return []
    return column.values if isinstance(column, _Cells) else []
