"""Every error a user can meet: one line with the value, the bound and the remedy, never a value from the table."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from types import UnionType
from typing import Any

_LONGEST_BITS = 256
"""Python refuses to write whole numbers of thousands of digits."""


class ReticentError(Exception):
    """Base of all errors that are the caller's to mend; the command line exits with `exit_code`."""

    exit_code = 2


class DomainError(ReticentError, ValueError):
    """The public description of a table is inconsistent, or a name is not in it."""


class QueryError(ReticentError, ValueError):
    """A question cannot be asked as it stands; judged on the domain alone."""


class SourceError(ReticentError):
    """Rows could not be read: a missing file or column, a lost connection, a refused permission."""


class LedgerError(ReticentError):
    """The ledger is locked, damaged, rolled back, or belongs to another table or budget."""


class EntryError(LedgerError):
    """The ledger does not take such a name or amount; it is well and nothing was written."""


class KeyReusedError(LedgerError):
    """The key belongs to another request, price or analyst."""


class KeyBusyError(LedgerError):
    """The key is being answered right now."""


class KeyForfeitedError(LedgerError):
    """The key was charged, and two crashes later nothing can be answered for it."""


class BudgetError(ReticentError):
    """The budget cannot pay; carries both amounts, in the budget's own unit, and nothing was spent."""

    exit_code = 3

    def __init__(self, message: str, *, requested: float, remaining: float) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(BudgetError, requested=self.requested, remaining=self.remaining), self.args


def require(value: object, kind: type | UnionType, name: str, example: str) -> None:
    """QueryError with a remedy where an argument is of another kind: before anything is opened or spent.

    It names the kind only: what was given may be a frame of rows, and its text would show some.
    """
    if not isinstance(value, kind):
        raise QueryError(f"{name} is of type {type(value).__name__}; give {example}")


def whole_number(
    value: object, name: str, least: int, most: int | None = None, *, error: type[ReticentError] = QueryError
) -> int:
    """A whole number of any type, NumPy's too, as a plain int: it may end in JSON or in a ledger."""
    wanted = f"a whole number, at least {least}" if most is None else f"a whole number from {least} to {most}"
    if not isinstance(value, Real):
        raise error(f"{name} is of type {type(value).__name__}; give {wanted}")
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    long = number is not None and number.bit_length() > _LONGEST_BITS
    raise error(f"{name}={'(too long to show)' if long else value} must be {wanted}")
