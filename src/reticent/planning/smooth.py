"""Smooth tables: the number of sampled records that represent a universe whose cells are all small (003, Lemma 3.6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError, real_number
from reticent.knowledge.answer import Answer

MOST_SUPPORT = 2**24
"""Sampled records: what a hypothesis can hold at all."""
_PARTS = np.linspace(0.005, 0.995, 199)


@dataclass(frozen=True)
class Smooth:
    """A declaration that no cell of the table holds more than `share` of the records, or that the table is close to
    such a one.

    Some distribution on sampled records of the universe is then within `gamma` of the table for every question fixed in
    advance (003, Lemma 3.6), so a threshold engine on these records needs no more updates than planned. If the
    declaration is false, answers keep their certificates, but more updates may be needed.

    Args:
        share: An upper bound on the share of any one cell; public knowledge, or purchased (`Smooth.of`).
        gamma: The distance allowed between the best distribution on the sampled records and the table.
        distance: For a pseudo-smooth table: its largest distance, on every question, from a table with cells below
            `share`.

    Raises:
        QueryError: A number is outside its range.

    Example:
        >>> import reticent as rt
        >>> wide = rt.Domain({f"flag{i}": 2 for i in range(40)})
        >>> rt.Smooth(share=2.0**-38, gamma=0.05).records(wide, queries=1000, failure=0.05)
        10386
    """

    share: float
    gamma: float = 0.05
    distance: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("share", 0.0), ("gamma", 0.0), ("distance", -1.0)):
            value = real_number(getattr(self, name), name, "a share of the table")
            if not max(0.0, least) <= value < 1 or value == least:
                bound = "from 0" if least < 0 else "above 0"
                raise QueryError(f"{name}={value!r} is a share of the table: {bound} and below 1")
            object.__setattr__(self, name, float(value))

    @classmethod
    def of(cls, answer: Answer, *, gamma: float = 0.05, distance: float = 0.0) -> Smooth:
        """Compute the smoothness from a certified marginal, whose largest cell bounds every cell of the universe.

        Args:
            answer: A certified answer to `rt.marginal(...)`, from a session or a release.
            gamma: As for `Smooth`.
            distance: As for `Smooth`.

        Returns:
            The smoothness that holds with the answer's confidence.

        Raises:
            QueryError: The answer is not certified, or its bound is vacuous.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"x": [0, 1, 2, 3] * 50_000})
            >>> table = rt.Table.of(rows, rt.Domain({"x": 4}))
            >>> with rt.Session.open(None, table, rt.Budget(rho=0.1), warm_start=0) as session:
            ...     found = rt.Smooth.of(session.ask(rt.marginal("x"), error=0.01))
            >>> 0.25 <= found.share <= 0.27
            True
        """
        values = np.asarray(answer.value)
        if not answer.certified or answer.error is None or values.ndim == 0:
            raise QueryError("smoothness follows from a certified marginal; ask rt.marginal(...) with error=")
        return cls(float(values.max()) + answer.error, gamma, distance)

    @property
    def error(self) -> float:
        """The error that the support may add to an answer."""
        return self.gamma + self.distance

    def records(self, domain: Domain, *, queries: int, failure: float) -> int:
        """The number of records to sample: the lemma's size, with the constants of docs/proofs/smooth-support.md.

        Args:
            domain: The universe.
            queries: Questions fixed in advance; a marginal counts as its cells.
            failure: The probability that the sampled records are a bad choice.

        Returns:
            The size of the sample.

        Raises:
            QueryError: The universe itself is smaller, or the sample does not fit in memory.

        Example:
            >>> import reticent as rt
            >>> pairs = rt.Domain({f"flag{i}": 2 for i in range(30)})
            >>> rt.Smooth(share=2.0**-30, gamma=0.1).records(pairs, queries=100, failure=0.1)
            563
        """
        size = domain.size
        density = self.share * size
        if density < 1:
            raise QueryError(f"share={self.share:.3g} is below 1/{size}: some cell holds at least that much")
        low, high = 1, 2
        while _failure(high, density, queries, self.gamma) > failure and high <= MOST_SUPPORT:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _failure(middle, density, queries, self.gamma) <= failure else (middle, high)
        if high >= size:
            raise QueryError(f"the universe has {size} cells, no more than a support would need: leave support= out")
        if high > MOST_SUPPORT:
            raise QueryError(
                f"cells of up to {self.share:.3g} need more than {MOST_SUPPORT} sampled records for gamma="
                f"{self.gamma:g}: allow a larger gamma, or give support= a number"
            )
        return high


def _failure(records: int, density: float, queries: int, gamma: float) -> float:
    """The probability of a bad sample, minimised over the allowance for its total (docs/proofs/smooth-support.md)."""
    error = gamma * (1 - _PARTS)
    each = 2 * queries * np.exp(-records * error**2 / (2 * density * (0.25 + error / 3)))
    total = np.exp(-records * _PARTS**2 / (2 * density))
    return float(min(1.0, (each + total).min()))


def stated_support(
    support: int | None, smoothness: float | None, gamma: float | None, distance: float | None
) -> int | Smooth | None:
    """The support from options and settings: a number of records, or the smoothness from which it is computed."""
    if smoothness is None:
        if gamma is not None or distance is not None:
            raise QueryError("gamma and distance belong to smoothness: state that, or leave them out")
        return support
    if support is not None:
        raise QueryError("support and smoothness are two ways to say how many records are sampled: give one of them")
    given = {"gamma": gamma, "distance": distance}
    return Smooth(smoothness, **{name: value for name, value in given.items() if value is not None})
