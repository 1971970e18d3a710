"""The game's public side: which queries were drawn and which records were played (spec 7.1).

Records that a domain declares impossible are repaired by a public rule. The player looks for the best record of all. If
it is impossible, codes of the attributes in violated rules are changed one at a time, each to the code that leaves the
fewest violations and, among those, wins the most; if this does not end, the reply is the record from which the player
started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.domain.impossible import impossible_rows
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.releases.dualquery.data_player import DataPlayer, Drawn, PlayerReply
from reticent.releases.dualquery.plan import DualQueryPlan
from reticent.releases.dualquery.query_player import QueryPlayer

if TYPE_CHECKING:
    from reticent.domain import Domain


RECENT = 32
"""The number of previous rounds from which a reply may start."""

Draw = Callable[[int], np.ndarray]
"""Indices drawn in a round; nothing else here depends on the table."""


class Game:
    """Plays a plan round by round; all its randomness is public and follows from `seed`.

    `shares` are released one-way distributions, one per attribute: where given, replies start from records drawn from
    them; else from records of the last rounds, so that attributes no drawn query names keep what earlier draws taught.
    With `rules`, replies that a domain declares impossible are mended (`possible.py`).
    """

    def __init__(
        self,
        plan: DualQueryPlan,
        queries: QueryPlayer,
        sizes: np.ndarray,
        player: DataPlayer,
        *,
        seed: int = 0,
        shares: list[np.ndarray] | None = None,
        rules: RecordMender | None = None,
    ) -> None:
        self._rules = rules
        self._plan = plan
        self._queries = queries
        self._sizes = sizes
        self._player = player
        self._seed = seed
        self._cumulative = None if shares is None else [np.cumsum(share) / share.sum() for share in shares]
        self._recent: list[np.ndarray] = []
        self._records: list[np.ndarray] = []
        self._satisfied = self._possible = self._bound = 0.0
        self._missed = 0.0

    def scale(self, turn: int) -> float:
        """The number of records that one met query represents: the `turn - 1` rounds so far are scaled to the table's
        size.
        """
        return self._plan.records / (self._plan.replies * (turn - 1))

    def play(self, turn: int, draw: Draw) -> PlayerReply:
        """Round `turn`, counted from 1, whose queries come from `draw`; the first is public and free."""
        public = np.random.default_rng([self._seed, turn])
        if turn == 1:
            indices = self._queries.uniform(self._plan.draws, public)
        else:
            indices = draw(turn)
        self._recent = [*self._recent, indices][-self._plan.memory :]
        clauses = self._queries.clauses(np.concatenate(self._recent))
        replies = [self._reply(clauses, public) for _ in range(self._plan.replies)]
        best = max(replies, key=lambda reply: reply.satisfied)
        drawn = clauses.total
        self._satisfied += best.satisfied
        self._possible += drawn
        self._bound += drawn if best.bound is None else best.bound
        if self._plan.step < 1:  # else the theorem says nothing, whatever the replies are
            self._missed += self._shortfall(indices, clauses, replies)
        played = np.stack([reply.record for reply in replies])
        self._queries.observe(played)
        self._records.append(played)
        return best

    def _shortfall(self, indices: np.ndarray, clauses: Drawn, replies: list[PlayerReply]) -> float:
        """By how much the replies to one round's own draws may miss the best record, as a share of the draws."""
        remembered = self._plan.memory > 1
        own = self._queries.clauses(indices) if remembered else clauses
        won = np.mean([own.satisfied(reply.record) if remembered else reply.satisfied for reply in replies])
        proven = [] if remembered else [reply.bound for reply in replies if reply.bound is not None]
        return float(min([own.total, *proven]) - won) / self._plan.draws

    @property
    def shortfall(self) -> float:
        """By how much replies may have missed the best ones: the mean over the rounds played."""
        return self._missed / max(1, len(self._records))

    @property
    def rounds(self) -> int:
        """How many were played."""
        return len(self._records)

    def _reply(self, clauses: Drawn, public: np.random.Generator) -> PlayerReply:
        start = self._start(public)
        if self._rules is None:
            return self._player.respond(clauses, self._sizes, start, int(public.integers(0, 2**63)))
        start = self._rules.nearest(start, public)
        reply = self._player.respond(clauses, self._sizes, start, int(public.integers(0, 2**63)))
        record = self._rules.mended(reply.record, start, clauses.satisfied)
        if record is reply.record:
            return reply
        # The bound stays: it is of all records, so that the shortfall counts what the rules cost.
        return PlayerReply(record, clauses.satisfied(record), reply.bound)

    def _start(self, public: np.random.Generator) -> np.ndarray:
        if self._cumulative is not None:
            drawn = [np.searchsorted(cumulative, public.random()) for cumulative in self._cumulative]
            return np.minimum(drawn, self._sizes - 1)
        if not self._records:
            return public.integers(0, self._sizes)
        back = public.integers(1, min(len(self._records), RECENT) + 1)
        return self._records[-back][public.integers(0, self._plan.replies)]

    @property
    def played(self) -> np.ndarray:
        """All records, one per row, in the order they were played."""
        return np.concatenate(self._records)

    @property
    def satisfied(self) -> float:
        """Share of the drawn queries that the best replies met so far."""
        return self._satisfied / max(self._possible, 1)

    def notes(self) -> dict[str, Any]:
        """Facts for a report: the plan, and how well the data player did; the bound is 1 if nothing is proven."""
        plan = self._plan
        return {
            "rounds": len(self._records),
            "draws": plan.draws,
            "step": float(plan.step),
            "replies": plan.replies,
            "memory": plan.memory,
            "satisfied": self.satisfied,
            "satisfiable at most": self._bound / max(self._possible, 1),
            **({"unpaid rounds": unpaid} if (unpaid := plan.rounds - len(self._records)) else {}),
        }


__all__ = ["RecordMender"]

SPARE = 64
"""Possible records drawn at once, to start from where a start is impossible."""


class RecordMender:
    """The rules of one domain, on records of codes."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._uniform = FactoredHypothesis(domain)
        self._places = [tuple(map(domain.index, rule.attributes)) for rule in domain.impossible]

    @classmethod
    def of(cls, domain: Domain) -> RecordMender | None:
        return cls(domain) if domain.impossible else None

    def nearest(self, start: np.ndarray, public: np.random.Generator) -> np.ndarray:
        """The start itself if it is possible, else the one of some possible records that shares most codes with it."""
        if not impossible_rows(self._domain, start[None, :])[0]:
            return start
        drawn = self._uniform.sample(SPARE, public)
        return drawn[int(np.argmax((drawn == start).sum(axis=1)))].astype(np.int64)

    def mended(self, record: np.ndarray, start: np.ndarray, won: Callable[[np.ndarray], float]) -> np.ndarray:
        """A possible record near `record`; `start` must be one."""
        mended = record
        # Every step leaves fewer violations, so there are no more steps than rules.
        while violated := self._violations(mended):
            best = (len(violated), 0.0)
            found: np.ndarray | None = None
            for place in dict.fromkeys(place for rule in violated for place in self._places[rule]):
                for code in range(self._domain.shape[place]):
                    changed = mended.copy()
                    changed[place] = code
                    offered = (len(self._violations(changed)), -float(won(changed)))
                    if offered[0] < len(violated) and offered < best:
                        best, found = offered, changed
            if found is None:
                return start
            mended = found
        return mended

    def _violations(self, record: np.ndarray) -> list[int]:
        rules = self._domain.impossible
        return [i for i, places in enumerate(self._places) if rules[i].cells[tuple(record[list(places)])]]
