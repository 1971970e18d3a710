"""All errors that users see: one line with the value, the bound and the remedy, never a value from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypeGuard

_LONGEST_BITS = 256
"""Python refuses to write whole numbers of thousands of digits."""
_SHOWN = 60
_LISTED = 20


_LONGEST_MESSAGE = 600


def one_line(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """The text without line breaks, abbreviated in the middle if it is too long."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
    return text if text.isprintable() else " ".join("".join(c if c.isprintable() else " " for c in text).split())


class ReticentError(Exception):
    """Base of all errors that the caller can fix; the command line exits with `exit_code`.

    Its text is one line of readable length, whatever a caller's name or value in it looks like.

    Example:
        >>> import reticent as rt
        >>> issubclass(rt.QueryError, rt.ReticentError)
        True
    """

    exit_code = 2

    def __str__(self) -> str:
        return one_line(super().__str__())


class DomainError(ReticentError, ValueError):
    """The public description of a table is inconsistent, or a name is not in it.

    Example:
        >>> import reticent as rt
        >>> rt.Domain(age=0)
        Traceback (most recent call last):
        ...
        reticent.errors.DomainError: ...
    """


class CapacityError(DomainError):
    """Exact inference on a junction tree needs more cells than allowed; a sampled support has no such limit."""


class QueryError(ReticentError, ValueError):
    """A question cannot be answered in this form; decided from the domain alone, before anything is spent.

    Example:
        >>> import reticent as rt
        >>> rt.records(-1)
        Traceback (most recent call last):
        ...
        reticent.errors.QueryError: ...
    """


class SourceError(ReticentError):
    """Rows could not be read: a missing file or column, a lost connection, a refused permission.

    Example:
        >>> import reticent as rt
        >>> rt.Table.read("absent.csv", rt.Domain(age=2))
        Traceback (most recent call last):
        ...
        reticent.errors.SourceError: ...
    """


class LedgerError(ReticentError):
    """The ledger is locked, damaged, rolled back, or belongs to another table or budget.

    Example:
        >>> import reticent as rt
        >>> budget = rt.Budget(rho=0.1)
        >>> rt.Ledger.memory(budget, {"table": "a"}).require({"table": "b"})
        Traceback (most recent call last):
        ...
        reticent.errors.LedgerError: ...
    """


class EntryError(LedgerError):
    """The ledger refuses a name or amount; the ledger is intact and nothing was written."""


class KeyReusedError(LedgerError):
    """The key belongs to another request, price or analyst."""


class KeyBusyError(LedgerError):
    """A request with the same key is in progress."""


class KeyForfeitedError(LedgerError):
    """The key was charged, and two crashes have forfeited its answer."""


class ResourceError(ReticentError):
    """This machine has too little memory; measurements are kept in the ledger."""


class BudgetError(ReticentError):
    """The budget cannot pay; nothing was spent.

    Args:
        message: One line for the user.
        requested: The price, in the budget's own unit.
        remaining: The remaining amount, in the same unit.

    Example:
        >>> import reticent as rt
        >>> refused = rt.BudgetError("too little is left", requested=0.2, remaining=0.1)
        >>> refused.requested, refused.remaining
        (0.2, 0.1)
    """

    exit_code = 3

    def __init__(self, message: str, *, requested: float, remaining: float) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(BudgetError, requested=self.requested, remaining=self.remaining), self.args


def require(value: object, kind: type | UnionType, name: str, example: str) -> None:
    """Raise QueryError with a remedy if an argument has the wrong type, before anything is opened or spent.

    The message names only the type: the argument may be a frame of rows, whose text would show some of them.
    """
    if not isinstance(value, kind):
        raise QueryError(f"{name} is of type {type(value).__name__}; give {example}")


def has_items(value: object) -> bool:
    """Whether the object is iterable; a zero-dimensional array only appears to be."""
    try:
        iter(value)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    except TypeError:
        return False
    return True


def has_type(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether an argument has a type, checked at run time, because not every caller uses a type checker."""
    return isinstance(value, kinds)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether unchecked plain values are a list."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list, a tuple or another sequence except text."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether unchecked plain values are a JSON object, whose keys are text."""
    # `dict` first: the test of an abstract class is slow, and JSON has no other mapping.
    return isinstance(value, (dict, Mapping))


def given(value: object) -> str:
    """An argument as messages show it: one short line; for an object that may hold rows, only its type."""
    scalar = (str, Real, date, type(None))
    if isinstance(value, Integral) and abs(int(value)).bit_length() > _LONGEST_BITS:
        return "(too long to show)"
    listed = (
        has_type(value, (list, tuple))
        and is_sequence(value)
        and len(value) <= _LISTED
        and all(isinstance(item, scalar) for item in value)
    )
    if not (isinstance(value, scalar) or listed):
        return f"(a {type(value).__name__})"
    text = str(value) if isinstance(value, date) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def real_number(value: object, name: str, wanted: str, *, error: type[ReticentError] = QueryError) -> float:
    """A number of any real type as a plain float; truth values and numbers beyond the range of floats are refused."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise error(f"{name} is of type {type(value).__name__}; give {wanted}")
    try:
        return float(value)
    except OverflowError:
        raise error(f"{name} is beyond all floating-point numbers; give {wanted}") from None


def whole_number(
    value: object, name: str, least: int, most: int | None = None, *, error: type[ReticentError] = QueryError
) -> int:
    """A whole number of any type, including NumPy's, as a plain int, because it may be written to JSON or a ledger."""
    wanted = (
        f"a whole number, at least {least}" if most is None else f"a whole number, at least {least} and at most {most}"
    )
    if not isinstance(value, Real):
        raise error(f"{name} is of type {type(value).__name__}; give {wanted}")
    number = int(value) if isinstance(value, Integral) and not has_type(value, bool) else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    long = number is not None and number.bit_length() > _LONGEST_BITS
    raise error(f"{name}={'(too long to show)' if long else value} must be {wanted}")
