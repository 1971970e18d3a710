"""A quote says how a request will be answered and what that costs at most: decided once, from public facts alone.

`cost` reads its price, `ask` carries it out. A quote is made on one value of knowledge; where more is known by the time
it is carried out, it is made again, so that nobody pays for what another thread has bought meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from reticent.kernel.curator import Noise
from reticent.knowledge.answer import Answer
from reticent.knowledge.knowledge import Knowledge, Single
from reticent.knowledge.request import Request
from reticent.queries.linear import Marginal

if TYPE_CHECKING:
    from reticent.releases.models import Model
    from reticent.sql.result import ResultTable

Result: TypeAlias = "Answer | ResultTable | Model | list[Answer] | list[Model]"


class Free(NamedTuple):
    """Known well enough, or known as well as it can be without a wanted error."""

    request: Request
    known: Knowledge
    result: Any
    price: int = 0


@dataclass(frozen=True, eq=False)
class Purchase:
    """What would be measured to meet a wanted error: a whole marginal or one query, its noise and its price."""

    query: Single
    noise: Noise
    cost: int
    invested: int = 0
    """Of the cost, what goes beyond the question asked: a cell may be bought with its whole marginal."""
    beside: tuple[Marginal, Noise] | None = None
    """A marginal that is measured in the same charge, for later questions."""

    @property
    def queries(self) -> tuple[Single, ...]:
        """All that one charge measures."""
        return (self.query,) if self.beside is None else (self.query, self.beside[0])

    @property
    def noises(self) -> tuple[Noise, ...]:
        return (self.noise,) if self.beside is None else (self.noise, self.beside[1])


@dataclass(frozen=True, eq=False)
class Measure:
    """One charge at most; nothing where the key was charged before and only its result is read again.

    `bought` is empty where a test decides whether anything is measured. A second entry is what an earlier version would
    have bought under the same key.
    """

    request: Request
    known: Knowledge
    price: int
    bought: tuple[Purchase, ...] = ()


@dataclass(frozen=True, eq=False)
class Certify:
    """One charge that `run` makes: an audit, and then singly what it does not certify; or one mean of numbers."""

    request: Request
    known: Knowledge
    run: Callable[[], Any]
    most: Callable[[], int]

    @cached_property
    def price(self) -> int:
        """The audit, and everything singly should it fail."""
        return self.most()


@dataclass(frozen=True, eq=False)
class Split:
    """A question of several parts: each is carried out on its own, and their answers are joined.

    The price is at most the sum: a part may buy what answers the next one for nothing. `begin` writes down what a
    retry must know before the first part is paid; it says False where others began the same question meanwhile.
    """

    request: Request
    known: Knowledge
    parts: Sequence[Quote]
    join: Callable[[list[Any]], Any]
    begin: Callable[[], bool] = lambda: True

    @cached_property
    def price(self) -> int:
        return sum(part.price for part in self.parts)


Quote = Free | Measure | Certify | Split
