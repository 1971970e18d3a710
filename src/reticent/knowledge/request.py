"""`Request`: one frozen value with the question, the requested error with its unit, the confidence, key and analyst.

Every interface (session, SQL, service, command line, client) builds it once; it is not checked again afterwards.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

from reticent.domain import Domain
from reticent.domain.values import shown_bound
from reticent.errors import QueryError, given, real_number, require
from reticent.kernel.ledger.events import sha256
from reticent.knowledge.answer import Answer
from reticent.knowledge.tails import check_confidence
from reticent.queries.base import Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, OfColumn, Ratio

if TYPE_CHECKING:
    from reticent.losses.losses import ConvexLoss
    from reticent.sql.statement import Statement

USUAL_CONFIDENCE = 0.95
Promise = Literal["certified", "typical"]
PROMISES: tuple[Promise, ...] = get_args(Promise)
"""What a wanted error bounds: this very question, or 19 of 20 like it."""
Numbers = Literal["", "counted", "centred"]
"""A total is of bins, or of the rows' own numbers: with a count of its own, as earlier ledgers bought it, or
alone what these lie above the middle of their range."""
VACUOUS = 0.5
"""Of the range of an answer: its middle is never farther off, whatever the rows are."""
ROUNDING = 1 + 1e-9
_PERCENT = re.compile(r"\s*(\d{1,12}(?:\.\d{0,18})?|\.\d{1,18})\s*%\s*", re.ASCII)


# `repr` of an error is part of the name under which a ledger keeps a question of several parts: the two classes and
# their fields must keep their names.
@dataclass(frozen=True)
class Records:
    """A number of records; a bare number would be a share of the table."""

    number: float


@dataclass(frozen=True)
class Percent:
    """A share of the range of an answer: of the table for counts, of the column's declared range for means."""

    share: float

    def __str__(self) -> str:
        return f"{100 * self.share:g}%"


WantedError: TypeAlias = float | Records | Percent
"""A bare number is in the unit of the answer."""
Question: TypeAlias = "Query | Statement | ConvexLoss | tuple[Query, ...] | tuple[ConvexLoss, ...]"
"""A tuple is a declared batch."""


class _Fields(NamedTuple):
    question: Question
    error: WantedError | None
    confidence: float
    key: str | None
    analyst: str | None
    strict: bool
    max_price: float | None
    promise: Promise
    numbers: Numbers
    counting: bool


class Request(_Fields):
    """A validated request; without an error it asks for the best free answer.

    `key` is an idempotency key: the same key returns the same bytes. `strict` refuses uncertified answers. `max_price`
    is the largest price that the user allows, in the unit of the budget. With the `promise` "typical", a free answer is
    accepted if most questions like this one are within the error; otherwise the request pays as usual. `numbers` asks
    for a total of the rows' own numbers instead of their bins. `counting` asks for a count: its error is a share of the
    released number of records, not of a private one. It is a tuple, because a million free answers need a
    million requests.
    """

    __slots__ = ()

    def __new__(
        cls,
        question: Question,
        error: WantedError | str | None = None,
        confidence: float = USUAL_CONFIDENCE,
        key: str | None = None,
        analyst: str | None = None,
        strict: bool = False,
        max_price: float | None = None,
        promise: Promise = "certified",
        numbers: Numbers = "",
        counting: bool = False,
    ) -> Request:
        if error is not None:
            error = checked_error(error)
        if type(confidence) is not float or not 0 < confidence < 1:
            confidence = check_confidence(confidence)
        if key is not None:
            require(key, str, "key", 'text that names the request, for example "visits-1"')
        if analyst is not None:
            require(analyst, str, "analyst", "the analyst's name")
        if not isinstance(cast("object", promise), str) or promise not in PROMISES:
            raise QueryError(f"promise={given(promise)} is unknown; give one of {', '.join(map(repr, PROMISES))}")
        fields = (question, error, confidence, key, analyst, strict, max_price, promise, numbers, counting)
        return tuple.__new__(cls, fields)  # pyright: ignore[reportUnknownMemberType]

    def but(self, **changes: Any) -> Request:
        """The same request with some fields changed, checked like any other."""
        return Request(**(self._asdict() | changes))

    def part(
        self,
        question: Query,
        error: float | None,
        *,
        confidence: float,
        name: str,
        numbers: Numbers = "",
        counting: bool = False,
    ) -> Request:
        """One part of a question; `name` distinguishes its key."""
        key = None if self.key is None else f"{self.key}:{name}"
        return Request(
            question,
            error,
            confidence,
            key,
            self.analyst,
            self.strict,
            promise=self.promise,
            numbers=numbers,
            counting=counting,
        )


def shared_confidence(confidence: float, parts: int) -> float:
    """Per-part confidence such that all parts hold jointly (union bound)."""
    return 1 - (1 - confidence) / max(1, parts)


def part_name(text: str, error: WantedError, confidence: float) -> str:
    """The name under which a ledger keeps the errors of a question's parts."""
    return sha256(repr((text, error, confidence)).encode())


def records(number: float) -> Records:
    """A wanted error as a number of records, where a bare number would be a share of the table.

    Args:
        number: How many records the answer may be off.

    Returns:
        What `ask`, `ask_all` and `cost` take as `error`.

    Raises:
        QueryError: It is no finite number above 0.

    Example:
        >>> import reticent as rt
        >>> rt.records(80)
        Records(number=80.0)
    """
    return Records(_positive(number, "records"))


def checked_error(error: Any) -> WantedError:
    """The checked `error=` argument: a number above 0, `rt.records(80)` or text such as "1%"."""
    if isinstance(error, (Records, Percent)):
        return error
    if isinstance(error, str):
        found = _PERCENT.fullmatch(error)
        if found is None:
            raise QueryError(f'error="{error[:40]}" is text; give a number, or a percentage such as "1%"')
        if not 0 < float(found[1]) <= 100:
            raise QueryError(f'error="{error[:40]}" cannot be met; give a percentage above 0 and at most 100')
        return Percent(float(found[1]) / 100)
    if not isinstance(error, Real):
        raise QueryError(
            f'error is of type {type(error).__name__}; give a number above 0, rt.records(80), or text such as "1%"'
        )
    return _positive(error, "error")


def _positive(value: Any, name: str) -> float:
    number = real_number(value, name, "a finite number above 0")
    if not 0 < number < math.inf:
        raise QueryError(f"{name}={number!r} cannot be met; give a finite number above 0")
    return number


def error_in_unit(error: WantedError, query: Query, domain: Domain, count: float, most: float = 1.0) -> float:
    """The error in the unit of the query's answer; refused if it is half of the answer's range or more.

    `most` is the largest share of `count` that a count may be, where `count` is a released number of records.
    """
    spread = _spread(query, domain)
    counted = counts_records(query)
    if isinstance(error, Records):
        if not counted:
            raise QueryError(
                f"{query.wording} is not a count; give its error in the unit of the answer, not in records"
            )
        wanted = error.number / count
    else:
        wanted = error.share * spread if isinstance(error, Percent) else error
    if spread == 0 or wanted < VACUOUS * spread * (most if isinstance(error, Records) else 1.0):
        return wanted
    if not counted:
        raise QueryError(f"an error of {wanted:g} is half the range of {query.wording} or more; ask for one below it")
    unstated = wanted >= 1 and not isinstance(error, Records)
    hint = f"; for {wanted:g} records give rt.records({wanted:g})" if unstated else ""
    raise QueryError(f"an error of {wanted:g} of the table says nothing; ask for one below {VACUOUS:g}{hint}")


def _spread(query: Query, domain: Domain) -> float:
    """The length of the range of possible answers."""
    return abs(query.units(domain)[1]) if isinstance(query, (Linear, Ratio)) else 1.0


def counts_records(query: Query) -> bool:
    """Whether the answer to a query is a number of records, or one for each cell."""
    if isinstance(query, Linear):
        return not isinstance(query, OfColumn)
    return isinstance(query, Marginal) or (isinstance(query, Groups) and query.counts)


def excess_error(error: WantedError) -> float:
    """The requested excess risk of a model: a number in the unit of its loss."""
    if isinstance(error, (Records, Percent)):
        raise QueryError("the error of a model is an excess risk; give a number in the unit of its loss")
    return error


def with_shortfall(answer: Answer, wanted: float) -> Answer:
    """The answer with the requested error, if it misses that error: the budget could not pay, or estimates were off."""
    if answer.wanted is not None:
        return answer
    reached = answer.typical if answer.origin == "typical" else answer.error
    if reached is not None and reached <= wanted * ROUNDING:
        return answer
    reached = "no bound was" if answer.error is None else f"±{shown_bound(answer.error)} was"
    note = f"±{shown_bound(wanted)} was wanted and not reached, {reached}"
    return replace(answer, wanted=wanted, note=note)
