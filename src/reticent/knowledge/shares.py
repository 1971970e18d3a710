"""How the probability of failure is shared out, so that every answer holds singly with its confidence (answers 1).

Statements that a session makes for all questions at once (certificates of classes, typical errors, sums of measured
cells) have a twentieth of it together; what one question buys for itself has the rest. So all of them may be
intersected. docs/budget.md adds the shares up. A session that was told the error of its questions and buys no start
sells each of them for itself: there statements for all questions have a five-hundredth, and prices rise by less than a
thousandth instead of a fiftieth.

Ledgers of version 0.1 shared otherwise: each kind of statement had all of it, and no two were ever combined.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

SESSION_WIDE = Fraction(1, 20)
"""Of an answer's failure probability: for all statements about whole classes of questions, jointly."""
PLAIN_WIDE = Fraction(1, 500)
"""The same of a `plain` session, which was told the error of its questions and buys no start."""

Kind = Literal["certificates", "typical", "derived"]
KINDS: dict[Kind, Fraction] = {"certificates": Fraction(1, 3), "typical": Fraction(1, 3), "derived": Fraction(1, 3)}
"""Of the session-wide part."""


@dataclass(frozen=True)
class Shares:
    """`joint` statements hold together; without that each holds by itself, as in ledgers of version 0.1."""

    joint: bool
    plain: bool = False

    @property
    def wide(self) -> Fraction:
        """Of all statements about whole classes of questions, jointly."""
        return PLAIN_WIDE if self.plain else SESSION_WIDE

    def certificate(self, index: int) -> float:
        """Of the audit with this index, counted from 1."""
        return float(session_share("certificates", index, self.wide)) if self.joint else 2.0**-index

    def derived(self, index: int) -> float:
        """Of all sums of cells of the measured marginal with this index, counted from 1."""
        return float(session_share("derived", index, self.wide)) if self.joint else 1 / (index * (index + 1))

    @property
    def own(self) -> float:
        """Of what a question bought for itself."""
        return float(1 - self.wide) if self.joint else 1.0


FIRST_AUDIT = Fraction(3, 4)
"""Of what the audits of one loss's models may fail, the first one's part (docs/budget.md)."""


def audit_share(attempt: int) -> float:
    """Of the failure probability of a loss: for the audit of its models with this number, counted from 1.

    An audit that a question orders for itself is its own purchase. Should it fail, each further one has half of what is
    left, so that all that were ever bought for a loss hold together.
    """
    part = FIRST_AUDIT if attempt == 1 else (1 - FIRST_AUDIT) / 2 ** (attempt - 1)
    return float((1 - SESSION_WIDE) * part)


JOINT = Shares(joint=True)
SINGLE = Shares(joint=False)


def session_share(kind: Kind, index: int, wide: Fraction = SESSION_WIDE) -> Fraction:
    """What the statement with this index (from 1) of its kind may take: 1/(j (j + 1)) of the kind's part.

    These add up to the kind's part over all j, so that all of them hold jointly however many there will be.
    """
    return wide * KINDS[kind] / (index * (index + 1))
