"""The state of a session: curator, ledger, journal, knowledge, and the lock that guards them.

Readers take `knowledge` once and work on that immutable value. A payer holds `lock` from the decision to the purchase,
and only `learn` and `pay` replace the knowledge.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator, Noise, Settled
from reticent.kernel.ledger.columns import Reservation
from reticent.knowledge.knowledge import Knowledge, Single
from reticent.knowledge.learning import Measured, learn, understand
from reticent.sessions.journal import ASK, LEAST_INDEXED, Journal
from reticent.sessions.resume import indexed

UNKEYED = "asked:"
"""Names of questions of several parts that were asked without a key."""


def part_key(name: str, key: str | None) -> str:
    """The key under which the errors of a question's parts are recorded."""
    return f"{UNKEYED}{name}" if key is None else key


class Payment(NamedTuple):
    """A purchase: the settled event and its content."""

    settled: Settled
    measured: list[Measured]


class State:
    """The parts of a session, all public; only `learn` and `pay` change `knowledge`."""

    def __init__(self, curator: Curator, journal: Journal, knowledge: Knowledge) -> None:
        self.curator = curator
        self.journal = journal
        self.ledger = journal.ledger
        self.domain: Domain = curator.domain
        self.neighbours = curator.neighbours
        self.lock = threading.RLock()
        self._knowledge = knowledge
        self._unindexed = 0

    @property
    def knowledge(self) -> Knowledge:
        """An immutable value; the next purchase replaces it."""
        return self._knowledge

    @property
    def budget(self) -> Budget:
        return self.ledger.budget

    def learn(self, knowledge: Knowledge) -> None:
        """Replace the knowledge; the caller has held the lock since it read the old one."""
        with self.lock:
            self._knowledge = knowledge

    def pay(self, queries: Sequence[Single], noises: Sequence[Noise], *, key: str, analyst: str | None) -> Payment:
        """Buy what one charge measures and learn it. A key that has paid reads its result again and learns nothing."""
        with self.lock:
            known, fresh = self._knowledge, not self.settled(key)
            settled = self.curator.measure(queries, noises, key=key, analyst=analyst)
            measured = understand(known, queries, noises, settled)
            if fresh:
                self.learn(learn(known, measured))
                self._count_purchase()
        return Payment(settled, measured)

    def recall(self, name: str, key: str | None = None) -> list[float] | None:
        """The errors of a question's parts that this key, or else any earlier request, recorded last."""
        return self.journal.targets(part_key(name, key), name)

    def told(self, name: str) -> dict[str, Any] | None:
        """The answer that was recorded for a question of several parts when it was bought."""
        return self.journal.told_of(part_key(name, None))

    def record(self, name: str, answer: dict[str, Any]) -> None:
        """Record the answer to a question of several parts for all who repeat it, unless another thread has."""
        with self.lock:
            if self.told(name) is None:
                self.journal.save_told(part_key(name, None), name, answer)

    def has_begun(self, key: str) -> bool:
        """Whether this key itself has recorded the errors of its question's parts."""
        return self.journal.has_targets(key)

    def remember(self, name: str, key: str | None, errors: list[float]) -> None:
        """Record the errors of a question's parts before any is paid, so that a retry asks for the same.

        Without a key the question itself is the name: asking again returns what was bought for it, or chooses other
        errors if it missed the requested one. Free answers record nothing.
        """
        self.journal.save_targets(part_key(name, key), name, errors)

    def charged(self, key: str) -> bool:
        """Whether this ledger key was charged, settled or not."""
        return self.ledger.lookup(key) is not None

    def settled(self, key: str) -> bool:
        """Whether this ledger key has a result."""
        found = self.ledger.lookup(key)
        return found is not None and not isinstance(found, Reservation)

    def question_key(
        self, queries: Sequence[Single], noises: Sequence[Noise], *, key: str | None, analyst: str | None
    ) -> str:
        """The ledger key of a purchase: the user's key, or one that the purchase itself determines.

        A crash therefore loses no answer; a forfeited key gets a successor.
        """
        if key is not None:
            return ASK + key
        (digest, *others), (noise, *beside) = [query.digest[:24] for query in queries], noises
        more = "".join(f"+{name}:{float(one.sd):.17g}" for name, one in zip(others, beside, strict=True))
        return self.journal.usable(f"{ASK}{digest}:{float(noise.sd):.17g}{more}:{analyst or ''}")

    def index_purchases(self, *, closing: bool = False) -> None:
        """Record the knowledge and the index of purchases if there are enough new ones, so that an opening has little
        to read.
        """
        with self.lock:
            self.learn(indexed(self.journal, self._knowledge, closing=closing))

    def _count_purchase(self) -> None:
        self._unindexed += 1
        if self._unindexed >= LEAST_INDEXED:
            self.index_purchases()
            self._unindexed = 0
