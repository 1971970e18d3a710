"""The rule of investments: what a session may spend beyond the questions it is asked (spec answers 4).

Investments are a warm start, audits that no question requested, offsets within bins, a noisy total, the part of a whole
marginal beyond the requested cell, and a marginal measured together with a cell. Their total never exceeds a fortieth
of the budget plus the savings from free answers: the price of each such question with plain noise, without repeated
questions, which a cache answers for free. A session therefore answers at least about 0.95 of the questions that plain
noise with a cache answers, and more if questions overlap.

All of this is public and recorded before it is spent: a session that resumes after a crash follows the same rule.
"""

from __future__ import annotations

import threading
from fractions import Fraction

from reticent.errors import QueryError
from reticent.kernel.curator import Curator
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import WIDE, error_floor, share_of
from reticent.knowledge.knowledge import Knowledge, Single
from reticent.knowledge.measured import possible
from reticent.knowledge.request import Request
from reticent.knowledge.tails import noise_failure, noise_within
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.sessions.journal import Journal

INVESTED_SHARE = Fraction(1, 40)
"""The share of the budget for investments: with it, and the 2% that shared failure probabilities add to prices, 0.95 of
the answers of plain noise remain."""
MOST_COUNTED = 2**16
"""The largest number of free answers whose savings are counted, because analysts choose the questions."""
NAMED = 16
"""Digits of a question's digest."""


class Investments:
    """The amount that may still be invested, in ledger units; any number of threads may give free answers."""

    def __init__(self, journal: Journal, curator: Curator, allowance: int, *, audits: bool) -> None:
        self._journal = journal
        self._curator = curator
        self._lock = threading.Lock()
        self._prices: dict[tuple[float, float, int], int] = {}
        self.allowance = allowance
        self.audits = audits
        """Whether audits of batches are investments, too: they are where the budget is kept for few questions."""
        self.saved, self._counted = journal.savings()
        self._new: list[str] = []
        self.invested, asked = journal.investments()
        self._counted |= asked

    @property
    def left(self) -> int:
        """The amount that the rule allows now."""
        return self.allowance + self.saved - self.invested

    def allows(self, key: str, units: int) -> bool:
        """Whether an amount may be invested under a ledger key; an investment that was begun continues."""
        return units <= self.left or self._journal.invested(key)

    def invest(self, key: str, units: int, question: str = "") -> None:
        """Record an investment before it is paid for; once for each key."""
        with self._lock:
            if self._journal.invested(key):
                return
            self._write_savings()
            self._journal.save_investment(key, units, question)
            self.invested += units
            if question:
                self._counted.add(question)

    def free(self, request: Request, answer: Answer, known: Knowledge) -> None:
        """Count the saving of an answer that investments made free: its price with plain noise, the first time."""
        query, error = request.question, request.error
        if answer.origin not in WIDE or not isinstance(error, float) or not isinstance(query, Single):
            return
        name = question_name(query)
        if name in self._counted or len(self._counted) >= MOST_COUNTED:
            return
        self.count_saved(name, self._plain_price(known, query, error, request.confidence))

    def count_saved(self, name: str, units: int) -> None:
        """Count the saving of a question, named by its digest, against its price by itself; the first time only."""
        name = name[:NAMED]
        with self._lock:
            if name not in self._counted and len(self._counted) < MOST_COUNTED:
                self._counted.add(name)
                self._new.append(name)
                self.saved += units

    def write(self) -> None:
        """Record the savings since the last investment, as when a session is closed."""
        with self._lock:
            self._write_savings()

    def _write_savings(self) -> None:
        if self._new:
            self._journal.save_savings(self.saved, self._new)
            self._new = []

    def _plain_price(self, known: Knowledge, query: Single, error: float, confidence: float) -> int:
        """The price of one measurement within the error that has its failure probability for itself."""
        try:
            share = share_of(query, error, known.domain)
        except QueryError:
            return 0
        parts = _parts(query, known)
        key = (share, confidence, parts if isinstance(query, Linear) else -parts)
        found = self._prices.get(key)
        if found is None:
            failure = noise_failure(confidence, known.records_error)
            room = (share - error_floor(known, binary=True)) * known.records
            found = 0
            if room > 0 and failure > 0:
                noise = noise_within(room, failure / parts, pure=self._curator.budget.pure)
                found = self._curator.budget.cost(self._curator.price([query], noise))
            if len(self._prices) >= MOST_COUNTED:
                self._prices.clear()
            self._prices[key] = found
        return found


def question_name(query: Single) -> str:
    """The name of a question in savings and investments."""
    return query.digest[:NAMED]


def _parts(query: Single, known: Knowledge) -> int:
    """The number of values that one measurement of a question releases."""
    if isinstance(query, Linear):
        return 1
    if isinstance(query, Groups):
        return max(1, int(possible(query, known.domain).sum()))
    return known.domain.cells(query.canonical(known.domain))
