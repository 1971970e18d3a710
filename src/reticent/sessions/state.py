"""The state of a session: curator, ledger, journal, knowledge, and the lock that guards them.

Readers take `knowledge` once and work on that value; it never changes under them. Whoever pays holds `lock` from the
decision to the purchase, and only `learn` and `pay` replace what is known.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

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
    """Under which the errors wanted of a question's parts are kept."""
    return f"{UNKEYED}{name}" if key is None else key


class Payment(NamedTuple):
    """What was bought: the settled event, and what it says."""

    settled: Settled
    measured: list[Measured]


class State:
    """What a session holds; its parts are public, `knowledge` changes through `learn` and `pay` alone."""

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
        """An immutable value; the next purchase puts another one in its place."""
        return self._knowledge

    @property
    def budget(self) -> Budget:
        return self.ledger.budget

    def learn(self, knowledge: Knowledge) -> None:
        """From now on this is known; the caller holds the lock since it read what was known before."""
        with self.lock:
            self._knowledge = knowledge

    def pay(self, queries: Sequence[Single], noises: Sequence[Noise], *, key: str, analyst: str | None) -> Payment:
        """Buy what one charge measures and learn it. A key that has paid reads its own again, which teaches nothing."""
        with self.lock:
            known, fresh = self._knowledge, not self.settled(key)
            settled = self.curator.measure(queries, noises, key=key, analyst=analyst)
            measured = understand(known, queries, noises, settled)
            if fresh:
                self.learn(learn(known, measured))
                self._count_purchase()
        return Payment(settled, measured)

    def recall(self, name: str, key: str | None = None) -> list[float] | None:
        """The errors wanted of a question's parts when this key, or anybody, first asked it."""
        return self.journal.targets(part_key(name, key), name)

    def remember(self, name: str, key: str | None, errors: list[float]) -> None:
        """Write down what is wanted of a question's parts, before any is paid: a retry knows more, but asks alike.

        Without a key the question itself is the name: whoever asks it again gets what was bought for it, also where
        that came out short of the error. What is free leaves no trace.
        """
        self.journal.save_targets(part_key(name, key), name, errors)

    def charged(self, key: str) -> bool:
        """Whether something was charged under this key of the ledger, answered or not."""
        return self.ledger.lookup(key) is not None

    def settled(self, key: str) -> bool:
        """Whether this key of the ledger has its result."""
        found = self.ledger.lookup(key)
        return found is not None and not isinstance(found, Reservation)

    def question_key(
        self, queries: Sequence[Single], noises: Sequence[Noise], *, key: str | None, analyst: str | None
    ) -> str:
        """The ledger's key of a purchase: the asker's, or one that the purchase itself determines.

        So a crash loses no answer; what a second crash forfeited gets a new one.
        """
        if key is not None:
            return ASK + key
        (digest, *others), (noise, *beside) = [query.digest[:24] for query in queries], noises
        more = "".join(f"+{name}:{float(one.sd):.17g}" for name, one in zip(others, beside, strict=True))
        return self.journal.usable(f"{ASK}{digest}:{float(noise.sd):.17g}{more}:{analyst or ''}")

    def index_purchases(self, *, closing: bool = False) -> None:
        """Write down what is known and where it was bought, if enough is new: no opening has much to learn again."""
        with self.lock:
            self.learn(indexed(self.journal, self._knowledge, closing=closing))

    def _count_purchase(self) -> None:
        self._unindexed += 1
        if self._unindexed >= LEAST_INDEXED:
            self.index_purchases()
            self._unindexed = 0
