"""The scalar queries of a workload as one class, closed under complement, and a hypothesis that learns from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Hypothesis, Measurement, average, conservative_target, solve_tilt
from reticent.hypotheses.choose import SUPPORT_RECORDS, choose, learned, with_room
from reticent.hypotheses.memory import refuse_beyond
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.linear_scores import LinearScores
from reticent.kernel.statistics import CellScores
from reticent.queries.base import Linear
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.linear import Conjunction, Marginal, Residual
from reticent.queries.scalars import READ_CELLS, ScalarQueries
from reticent.queries.workload import Workload

__all__ = ["Learner", "QueryClass"]

SUPPORT_WORK = 2**25
"""Records of a support times marginals and single queries: what one round reads."""
LISTED_CELLS = 2**22
"""Conjunctions over more cells are evaluated one by one; below, from one marginal for all on the same attributes."""
COPIES = 3
"""Of the hypothesis: its own, the one that an update falls back to, the published one; of the guesses alike."""

Set = tuple[str, ...]


class QueryClass:
    """Index i < size is a query whose count exceeds the guess; index i + size is its complement."""

    def __init__(self, workload: Workload | Conjunctions, domain: Domain) -> None:
        self.queries = ScalarQueries(workload, domain)
        self._domain = domain
        queries = self.queries
        listed = [names for names, _, _ in queries.listed if domain.cells(names) <= LISTED_CELLS]
        columns = [(entry.column,) for entry in queries.ranges]
        # Each set once: a workload of ranges and means asks for the same columns again and again.
        self._sets: list[Set] = list(dict.fromkeys([*queries.sets, *columns, *listed, *queries.shared_sets]))
        shared = set(queries.shared_sets)
        self._alone = [form.attributes for form in queries.forms if form.attributes not in shared]
        self._alone += [names for names, _, _ in queries.listed if domain.cells(names) > LISTED_CELLS]

    @property
    def size(self) -> int:
        return self.queries.size

    def scores(
        self, hypothesis: Hypothesis, records: float, past: Sequence[Measurement] = ()
    ) -> CellScores | LinearScores:
        """Signed errors in records: count - guess for every query, then the same of its complement.

        The hypothesis follows from what was released before, `past`, but for its last bits.
        """
        told = ((measured.query, measured) for measured in past)
        released = [(query.digest, float(m.values), m.sd) for query, m in told if not isinstance(query, Residual)]
        state = hashlib.sha256(repr(released).encode()).hexdigest()
        if self.queries.cells_only:
            guesses = [marginal * records for marginal in hypothesis.marginals(self.queries.sets)]
            return CellScores(self.queries.sets, tuple(-guess for guess in guesses), state=state)
        return LinearScores(self.queries, -records * self.guesses(hypothesis), state=state)

    def guesses(self, hypothesis: Hypothesis) -> np.ndarray:
        """q(p) of every query."""
        queries = self.queries
        read = dict(zip(self._sets, hypothesis.marginals(self._sets), strict=True))
        parts = [read[names].ravel() for names in queries.sets]
        parts += [entry.answers(self._domain, read[(entry.column,)]) for entry in queries.ranges]
        if queries.conjunctions is not None:
            listed = np.empty(len(queries.conjunctions))
            for names, places, codes in queries.listed:
                if names in read:
                    listed[places] = read[names][tuple(codes.T)]
                else:
                    cells = (Conjunction(dict(zip(names, row, strict=True))) for row in codes.tolist())
                    listed[places] = [hypothesis.expect(cell) for cell in cells]
            parts.append(listed)
        if queries.forms:
            shared = set(queries.shared_sets)
            read = {names: marginal for names, marginal in read.items() if names in shared}
            singles = (
                average(form, read[form.attributes]) if form.attributes in read else hypothesis.expect(form)
                for form in queries.forms
            )
            parts.append(np.fromiter(singles, dtype=np.float64, count=len(queries.forms)))
        return np.concatenate(parts)

    def start(self, tree_cells: int | None, algorithm: str) -> Hypothesis:
        """Uniform; refused where it and one round's guesses do not fit memory."""
        asked = [*self._sets, *self._alone]
        choice = choose(self._domain, Workload(map(Marginal, asked)), tree_cells=tree_cells or self.tree_cells)
        needed = COPIES * (choice.bytes + 8 * self.size)
        refuse_beyond(needed, algorithm, "use fewer or coarser attributes, or a smaller workload")
        return choice.build(np.random.default_rng(0))

    @property
    def support_records(self) -> int:
        """How many records a support may have for all guesses of a round to take a second or so."""
        read = len(self._sets) + len(self._alone)
        return min(SUPPORT_RECORDS, max(SUPPORT_WORK // read, SUPPORT_RECORDS // 8))

    @property
    def tree_cells(self) -> int:
        """Cells of a junction tree that is read as fast as such a support; single attributes always fit."""
        return max(self.support_records, 2 * sum(self._domain.shape))

    def query(self, index: int) -> tuple[Linear, bool]:
        """The query behind an index, and whether its complement was meant."""
        complement, place = divmod(index, self.size)
        return self.queries.query(place), bool(complement)


class Learner:
    """The hypothesis of a run over many rounds; it moves to a support where its junction tree has no room."""

    def __init__(self, queries: QueryClass, hypothesis: Hypothesis) -> None:
        self.hypothesis = hypothesis
        self.notes: list[str] = []
        self._queries = queries

    def scores(self, records: float, past: Sequence[Measurement]) -> CellScores | LinearScores:
        """For the next selection: the guesses of every query, after what was released before."""
        self.hypothesis, scores, note = with_room(
            self.hypothesis,
            lambda held: self._queries.scores(held, records, past),
            records=self._queries.support_records,
        )
        self._note(note)
        return scores

    def guess(self, query: Linear) -> float:
        self.hypothesis, guess, note = with_room(
            self.hypothesis, lambda held: held.expect(query), records=self._queries.support_records
        )
        self._note(note)
        return guess

    def reweight(self, query: Linear, eta: float) -> None:
        def move(held: Hypothesis) -> bool:
            held.reweight(query, eta)
            return True

        self._learn(move)

    def replay(self, answers: Sequence[tuple[Linear, float, float]]) -> None:
        """Project once onto every past answer (query, value, margin), oldest first (spec 4.4)."""
        for query, value, margin in answers:
            self._learn(partial(_project, query=query, value=value, margin=margin))

    @property
    def described(self) -> dict[str, list[str]]:
        """For the notes of an outcome; empty where nothing happened."""
        return {"learning": self.notes} if self.notes else {}

    def _learn(self, move: Callable[[Hypothesis], bool]) -> None:
        self.hypothesis, _, note = learned(self.hypothesis, move, records=self._queries.support_records)
        self._note(note)

    def _note(self, note: str) -> None:
        if note and note not in self.notes:
            self.notes.append(note)


def _project(hypothesis: Hypothesis, *, query: Linear, value: float, margin: float) -> bool:
    current = hypothesis.expect(query)
    target = conservative_target(measured=value, bound=margin, guess=current)
    if target is None:
        return False
    # Noise cannot rule records out: nothing comes nearer to an end of the query's range than half a margin, unless it
    # was nearer before.
    form = query.compile(hypothesis.domain)
    low, high = form.range
    floor = min(margin / 2, max(0.0, current - low), max(0.0, high - current))
    target = min(max(target, low + floor), high - floor)
    if isinstance(hypothesis, SupportHypothesis) and hypothesis.domain.cells(form.attributes) <= READ_CELLS:
        # Records in one cell of the query have one value: Newton's steps run over cells instead of records.
        hypothesis.reweight(form, solve_tilt(form.tensor(), hypothesis.marginal(form.attributes), target))
    else:
        hypothesis.project(form, target)
    return True
