"""How results reach data frames: Arrow's C stream, the interchange protocol, and named rows for everything else.

A missing value is None (NaN in a row's numbers), a truth value True or False, in results as in synthetic rows; text
shows NULL, true and false.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Cell = str | int | float | bool | None


class Framed:
    """A result that data frame libraries read by themselves: `pl.DataFrame(result)`, `pd.DataFrame(result)`."""

    def to_arrow(self) -> pa.Table:
        """An Arrow table with a column for each key and each value, and one for each error."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """A pandas frame with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self.to_arrow().__dataframe__(nan_as_null, allow_copy)

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        """Rows of `to_arrow`, errors included; pandas takes the column names from their `_fields`.

        A missing number is NaN here: of a column of nothing but None pandas would make objects, which do not add up.
        """
        import pyarrow as pa

        table = self.to_arrow()
        row = type("Row", (tuple,), {"__slots__": (), "_fields": tuple(table.column_names)})
        columns = [
            [nan if value is None else value for value in column.to_pylist()]
            if pa.types.is_floating(column.type)
            else column.to_pylist()
            for column in table.columns
        ]
        return iter([row(each) for each in zip(*columns, strict=True)])


def key_column(values: Sequence[Cell]) -> pa.Array:
    """One type per column: numbers and truth values beside `(other)` become text; nothing but nulls is text."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds and (kinds <= {int, float} or len(kinds) == 1):
        return pa.array(values)
    return pa.array([None if value is None else shown_key(value) for value in values], pa.string())


def new_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, with underscores where it is taken."""
    while wanted in taken:
        wanted += "_"
    return wanted


def shown_key(value: Cell) -> str:
    """The text of a key: NULL for a missing value, true and false for truth values."""
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)
