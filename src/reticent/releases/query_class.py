"""The scalar queries of a workload as one class, closed under complement, and a hypothesis that learns from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Self, TypeGuard

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
from reticent.queries.forms import Form
from reticent.queries.linear import Conjunction, Marginal, Residual
from reticent.queries.scalars import READ_CELLS, ScalarQueries
from reticent.queries.workload import Workload

__all__ = ["Learner", "QueryClass"]

SUPPORT_WORK = 2**25
"""Limit on records of a support times marginals and single queries: the work of one round."""
LISTED_CELLS = 2**22
"""Conjunctions over more cells are evaluated one by one; below, from one marginal for all with the same attributes."""
COPIES = 3
"""Copies of a hypothesis held at once: its own, the fallback of an update, and the published one."""

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
        self,
        hypothesis: Hypothesis,
        records: float,
        past: Sequence[Measurement] = (),
        kept: KeptGuesses | None = None,
    ) -> CellScores | LinearScores:
        """Signed errors in records: count - guess for every query, then the same for its complement.

        The hypothesis follows, except for its last bits, from `past`, which was released before.
        """
        told = ((measured.query, measured) for measured in past)
        released = [(query.digest, float(m.values), m.sd) for query, m in told if not isinstance(query, Residual)]
        state = hashlib.sha256(repr(released).encode()).hexdigest()
        if self.queries.cells_only:
            read = (kept or KeptGuesses()).read(hypothesis, self._sets)
            return CellScores(self.queries.sets, tuple(-records * read[s] for s in self.queries.sets), state=state)
        return LinearScores(self.queries, -records * self.guesses(hypothesis, kept), state=state)

    def guesses(self, hypothesis: Hypothesis, kept: KeptGuesses | None = None) -> np.ndarray:
        """q(p) of every query; the guesses in `kept` are not computed again."""
        queries, kept = self.queries, kept or KeptGuesses()
        read = kept.read(hypothesis, self._sets)
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
            parts.append(np.empty(len(queries.forms)))
            for place, form in enumerate(queries.forms):
                names = form.attributes
                if (known := kept.singles.get((names, place))) is None:
                    known = average(form, read[names]) if names in shared else hypothesis.expect(form)
                    kept.singles[names, place] = known
                parts[-1][place] = known
        return np.concatenate(parts)

    def start(self, tree_cells: int | None, algorithm: str) -> Hypothesis:
        """The uniform start; refused if it and one round's guesses do not fit into memory."""
        asked = [*self._sets, *self._alone]
        choice = choose(self._domain, Workload(map(Marginal, asked)), tree_cells=tree_cells or self.tree_cells)
        needed = COPIES * choice.bytes + self.queries.bytes
        refuse_beyond(needed, algorithm, "use fewer or coarser attributes, or a smaller workload")
        return choice.build(np.random.default_rng(0))

    @property
    def support_records(self) -> int:
        """The number of records of a support with which all guesses of a round take about a second."""
        read = len(self._sets) + len(self._alone)
        return min(SUPPORT_RECORDS, max(SUPPORT_WORK // read, SUPPORT_RECORDS // 8))

    @property
    def tree_cells(self) -> int:
        """The number of cells of a junction tree that is read as fast as such a support; single attributes
        always fit.
        """
        return max(self.support_records, 2 * sum(self._domain.shape))

    def query(self, index: int) -> tuple[Linear, bool]:
        """The query behind an index, and whether its complement was meant."""
        complement, place = divmod(index, self.size)
        return self.queries.query(place), bool(complement)


class KeptGuesses:
    """Guesses that no update has changed since they were read; `parts` of the attributes are independent under it."""

    def __init__(self, parts: Iterable[frozenset[str]] = ()) -> None:
        self.singles: dict[tuple[Set, int], float] = {}
        """Guesses by attributes, and by position among the single queries."""
        self.parts = list(parts)
        self._marginals: dict[Set, np.ndarray] = {}

    def read(self, hypothesis: Hypothesis, sets: Sequence[Set]) -> dict[Set, np.ndarray]:
        """The marginals over these sets: products of the marginals of their independent pieces, which are read
        together.
        """
        kept, place = self._marginals, {name: part for part, names in enumerate(self.parts) for name in names}
        pieces = {names: _pieces(names, place) for names in sets if names not in kept}
        missing = [piece for piece in dict.fromkeys(chain.from_iterable(pieces.values())) if piece not in kept]
        kept.update(zip(missing, hypothesis.marginals(missing), strict=True))
        for names, found in pieces.items():
            if len(found) > 1:
                kept[names] = _product(names, {piece: kept[piece] for piece in found}, hypothesis.domain)
        return kept

    def join(self, names: Iterable[str]) -> None:
        """Join all parts that contain these attributes, which an update has moved together."""
        touched = [part for part in self.parts if not part.isdisjoint(names)]
        moved = frozenset[str]().union(*touched)
        self.parts = [part for part in self.parts if part not in touched] + [moved]
        self.singles = {at: guess for at, guess in self.singles.items() if moved.isdisjoint(at[0])}
        self._marginals = {at: table for at, table in self._marginals.items() if moved.isdisjoint(at)}


def _pieces(names: Set, place: Mapping[str, int]) -> list[Set]:
    """The names grouped by part; one piece if there are no parts."""
    found: dict[int | None, list[str]] = {}
    for name in names:
        found.setdefault(place.get(name), []).append(name)
    return [tuple(piece) for piece in found.values()]


def _product(names: Set, pieces: Mapping[Set, np.ndarray], domain: Domain) -> np.ndarray:
    table = np.ones(())
    for piece, marginal in pieces.items():
        table = table * marginal.reshape([domain[name].size if name in piece else 1 for name in names])
    return table


class Learner:
    """The hypothesis of a run over many rounds; it is replaced by a support if its junction tree becomes too large.

    A hypothesis that began uniform is a product over parts of the attributes that its updates have joined, and an
    update moves only the part it names. Guesses about the other parts are kept from round to round.
    """

    def __init__(self, queries: QueryClass, hypothesis: Hypothesis) -> None:
        self.hypothesis = hypothesis
        self.notes: list[str] = []
        self._queries = queries
        self._kept = KeptGuesses([frozenset(hypothesis.domain.names)])

    @classmethod
    def uniform(cls, queries: QueryClass, tree_cells: int | None, algorithm: str) -> Self:
        """Start from the uniform distribution, under the rules of the domain."""
        learner = cls(queries, queries.start(tree_cells, algorithm))
        domain = learner.hypothesis.domain
        learner._kept.parts = [frozenset({name}) for name in domain.names]
        for rule in domain.impossible:
            learner._kept.join(rule.attributes)
        return learner

    def scores(self, records: float, past: Sequence[Measurement]) -> CellScores | LinearScores:
        """Scores for the next selection: the guesses of every query, given what was released before."""
        self.hypothesis, scores, note = with_room(
            self.hypothesis,
            lambda held: self._queries.scores(held, records, past, self._still(held)),
            records=self._queries.support_records,
        )
        self._note(note)
        return scores

    def guess(self, query: Linear) -> float:
        self.hypothesis, guess, note = with_room(
            self.hypothesis, lambda held: _expected(held, query), records=self._queries.support_records
        )
        self._note(note)
        return guess

    def reweight(self, query: Linear, eta: float) -> None:
        def move(held: Hypothesis) -> bool:
            form = query.compile(held.domain)
            if _by_cells(held, form):
                held.reweight_cells(form, eta)
            else:
                held.reweight(form, eta)
            return True

        self._learn(query, move)

    def replay(self, answers: Sequence[tuple[Linear, float, float]]) -> None:
        """Project once onto every past answer (query, value, margin), oldest first (spec 4.4)."""
        for query, value, margin in answers:
            self._learn(query, partial(_project, query=query, value=value, margin=margin))

    @property
    def described(self) -> dict[str, list[str]]:
        """Facts for the notes of an outcome; empty if nothing happened."""
        return {"learning": self.notes} if self.notes else {}

    def _learn(self, query: Linear, move: Callable[[Hypothesis], bool]) -> None:
        self.hypothesis, moved, note = learned(self.hypothesis, move, records=self._queries.support_records)
        if moved:
            self._kept.join(query.attributes)
        self._note(note)

    def _still(self, hypothesis: Hypothesis) -> KeptGuesses | None:
        """The guesses that need not be read again; sampled records are not a product of parts."""
        return None if isinstance(hypothesis, SupportHypothesis) else self._kept

    def _note(self, note: str) -> None:
        if note and note not in self.notes:
            self.notes.append(note)


def _by_cells(hypothesis: Hypothesis, form: Form) -> TypeGuard[SupportHypothesis]:
    """Whether records in the same cell of the query, which have the same value, are read and moved together."""
    return isinstance(hypothesis, SupportHypothesis) and hypothesis.domain.cells(form.attributes) <= READ_CELLS


def _expected(hypothesis: Hypothesis, query: Linear) -> float:
    form = query.compile(hypothesis.domain)
    if _by_cells(hypothesis, form):
        return average(form, hypothesis.marginal(form.attributes))
    return hypothesis.expect(form)


def _project(hypothesis: Hypothesis, *, query: Linear, value: float, margin: float) -> bool:
    form = query.compile(hypothesis.domain)
    weights = hypothesis.marginal(form.attributes) if _by_cells(hypothesis, form) else None
    current = hypothesis.expect(form) if weights is None else average(form, weights)
    target = conservative_target(measured=value, bound=margin, guess=current)
    if target is None:
        return False
    # Noise cannot rule records out: nothing comes nearer to an end of the query's range than half a margin, unless it
    # was nearer before.
    low, high = form.range
    floor = min(margin / 2, max(0.0, current - low), max(0.0, high - current))
    target = min(max(target, low + floor), high - floor)
    if weights is None or not _by_cells(hypothesis, form):
        hypothesis.project(form, target)
    else:
        hypothesis.reweight_cells(form, solve_tilt(form.tensor(), weights, target))
    return True
