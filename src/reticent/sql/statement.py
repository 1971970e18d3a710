"""`Statement`: SQL compiled once per text and domain, and evaluated on the answers of a release, a session or a server.

A compiled statement is a list of linear queries (`queries`, and `tightening`, whose free answers only make bounds
smaller) and a pure function of their answers (`run`).

`Kept` is a cache with a limited number of entries and bytes, because users can fill it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from sqlglot import exp

from reticent.domain import Domain
from reticent.errors import ReticentError
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import FITTED, ROWS, of_fit
from reticent.knowledge.raw_sums import CentredAnswer, RowsAnswer, with_counts
from reticent.queries import Predicate, Query, Weights
from reticent.sql.describe import Explained, Prospect, Shown, described, explained_table
from reticent.sql.dialects import CLOCK, clock_notes
from reticent.sql.error_targets import trials
from reticent.sql.expressions import Binning, Expr, Known, Presence, Run, Sum, array_steps, walk
from reticent.sql.intervals import Interval
from reticent.sql.ordering import Limited, sorted_rows
from reticent.sql.parse import parse_statement
from reticent.sql.planner import Planner, SyntheticNeeded
from reticent.sql.refusals import IN_PARTS, ONLY_SELECT, Meter, refused
from reticent.sql.relations import Relation, limited_rows, placeholder, synthetic_relation
from reticent.sql.result import ResultTable, basis_of, column_of, refuse_sums
from reticent.sql.scan import OBJECT_BYTES, Block, blocks_of, joint_confidence, queries_of, share_interval
from reticent.sql.scope import Scope
from reticent.sql.vectors import Bins, Labels, Truth

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LEAST_TOGETHER = 1e-9
"""Probability with which all bounds of a result must hold: rounding leaves as much of none."""
LARGEST_SHARE = 8
"""One value may take this part of the bytes; a larger one is not kept."""


class Kept(Generic[K, V]):
    """A cache that removes the least recently used entry first; safe for several threads.

    Entries of an earlier day (UTC) are removed, because CURRENT_DATE may be part of them.
    """

    def __init__(self, entries: int, size: int) -> None:
        self.entries = entries
        self.size = size
        self._day = _day()
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held(self) -> int:
        """Bytes kept now, as their owners state them."""
        return self._bytes

    def get(self, key: K) -> V | None:
        if _day() != self._day:
            self.clear()
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        if size * LARGEST_SHARE > self.size:
            return
        with self._lock:
            old = self._held.pop(key, None)
            self._bytes += size - (0 if old is None else old[1])
            self._held[key] = (value, size)
            while len(self._held) > self.entries or self._bytes > self.size:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0
            self._day = _day()


def _day() -> int:
    return int(time.time() // 86400)


KEPT_STATEMENTS = 256
KEPT_BYTES = 2**25
"""Of all kept statements of a process together; one that may come to hold more than an eighth is not kept."""
NODE_STEPS = 10
"""Of one node of a parsed tree."""
MANY_VALUES = 10_000
"""A column with more of them makes functions of its values costly."""
FEW = 8
"""Answers that fail on their own account and are still read to tighten a bound: more would cost too much confidence."""

Sample = Callable[[int], np.ndarray]
"""The codes of the first so many synthetic rows."""


@dataclass(frozen=True, eq=False)
class Statement:
    """The queries of a statement, and the computation of its result from their answers."""

    text: str
    domain: Domain
    relation: Relation
    measures: tuple[tuple[Block, ...], ...]
    rows: tuple[np.ndarray, ...]
    """The groups of each measure that are looked at."""
    weights: tuple[str | Weights | None, ...]
    """The column each measure sums, or the numbers; None for counts."""
    binned: Mapping[int, Binning]
    """What bins hide of the totals among the measures, by place."""
    coarse: Mapping[int, tuple[str, ...]]
    """Other measures that bins blur, and of which columns."""
    aside: frozenset[int]
    """Places of measures that only tighten bounds."""
    wholes: Mapping[int, int] = field(default_factory=dict)
    """For the places of measures, those of the number of records they are a part of."""
    told: tuple[str, ...] = ()
    """What is said with every result."""
    explained: Statement | None = None
    """Of an EXPLAIN: the statement that is explained."""
    synthetic: exp.Expr | None = field(default=None, repr=False)
    """A query of synthetic rows, which are drawn when it runs."""
    table: str | None = None

    @property
    def fields(self) -> tuple[Any, ...]:
        return self.relation.fields

    @cached_property
    def columns(self) -> tuple[tuple[str, ...] | None, ...]:
        """The columns whose numbers each measure sums; None for counts."""
        return tuple(
            None if weight is None else (weight,) if isinstance(weight, str) else weight.attributes
            for weight in self.weights
        )

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The linear queries, marginals and groups it needs, each once."""
        if self.explained is not None:
            return ()
        return queries_of([blocks for place, blocks in enumerate(self.measures) if place not in self.aside])

    def asked(self, of_rows: Collection[Query]) -> tuple[Query, ...]:
        """The queries if some totals are centred: including the counts of their records, and what moments need."""
        counted = [self.measures[self.binned[place].present] for place in self._totals(of_rows)]
        of_bins = [self.of_bins[query] for query in of_rows if query in self.of_bins]
        return tuple(dict.fromkeys((*self.queries, *queries_of(counted), *of_bins)))

    @cached_property
    def of_bins(self) -> Mapping[Query, Query]:
        """The same totals of representatives, by totals that moments read: their other powers are of representatives.

        They are asked if the total itself is bought of the rows' own numbers.
        """
        blocks = (block for blocks in self.measures for block in blocks)
        return {block.query: block.of_bins for block in blocks if block.query is not None and block.of_bins is not None}

    @cached_property
    def summed(self) -> tuple[Query, ...]:
        """The totals that it shows, or computes numbers from which may be of the rows' own."""
        return queries_of([self.measures[place] for place in self.binned if place not in self.aside])

    def read_blocks(self, answers: Mapping[Query, Answer]) -> tuple[tuple[Block, ...], ...]:
        """The measures as these answers serve them: moments do not read the rows' own numbers."""
        rows = {query for query in self.of_bins if isinstance(answers.get(query), RowsAnswer)}
        if not rows:
            return self.measures
        return tuple(
            tuple(
                block.representatives if block.of_bins is not None and block.query in rows else block for block in one
            )
            for one in self.measures
        )

    def present_blocks(self, of_rows: Collection[Query]) -> dict[Query, Block]:
        """For each of these totals, the count of its records in the same groups."""
        found: dict[Query, Block] = {}
        for place in self._totals(of_rows):
            for block, counted in zip(self.measures[place], self.measures[self.binned[place].present], strict=True):
                if block.query is not None and block.query in of_rows:
                    found.setdefault(block.query, counted)
        return found

    def _totals(self, of_rows: Collection[Query]) -> list[int]:
        """Places of measures that read any of these totals."""
        return [p for p in self.binned if any(block.query in of_rows for block in self.measures[p] if block.query)]

    @cached_property
    def tightening(self) -> tuple[Query, ...]:
        """Queries whose free answers make bounds tighter; the statement has a value without them."""
        return tuple(query for query in queries_of(self.measures) if query not in self.queries)

    @cached_property
    def numbers(self) -> int:
        """The largest number of numbers in its result."""
        shown = self.relation.rows if self.relation.limit is None else min(self.relation.rows, self.relation.limit)
        public = 0 if self.synthetic is None else len(self.fields)
        return shown * (public + sum(one.expr.known is None for one in self.fields))

    @cached_property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that an evaluation computes."""
        relation = self.relation
        roots = [*(one.expr for one in relation.fields), *relation.filters, *(r.expr for r in relation.order)]
        return tuple(walk(roots))

    @cached_property
    def steps(self) -> int:
        """The work of computing the result from its answers: see `reticent.sql.refusals`."""
        computed = sum(expr.cost for expr in self.expressions)
        asked = sum(
            4 * len(blocks) * array_steps(len(rows)) for blocks, rows in zip(self.measures, self.rows, strict=True)
        )
        shown = self.relation.rows * len(self.fields) // 2 + 4 * len(self.fields) * array_steps(self.relation.rows)
        return computed + asked + shown + (0 if self.synthetic is None else ROWS)

    @cached_property
    def search_steps(self) -> int:
        """The work of finding the errors with which averages and quotients reach the requested error."""
        found = 0
        for one in self.fields:
            if not isinstance(one.expr, (Known, Sum)):
                each = sum(expr.cost for expr in walk((one.expr,)))
                found += trials(one.expr) * each
        return found

    @cached_property
    def footprint(self) -> int:
        """The bytes that it may hold: its text, predicates, masks of groups, public columns and compiled forms."""
        blocks = sum(block.footprint for blocks in self.measures for block in blocks)
        seen: dict[int, int] = {}
        for expr in self.expressions:
            for array in _arrays(expr):
                seen[id(array)] = array.nbytes
        groups = sum({id(rows): rows.nbytes for rows in self.rows}.values())
        return 4 * len(self.text) + blocks + sum(seen.values()) + groups + OBJECT_BYTES * (1 + len(self.expressions))

    @property
    def counts(self) -> bool:
        """Whether all its numbers are sums of measures, none a quotient of them."""
        return all(isinstance(one.expr, (Known, Sum)) for one in self.fields)

    def run(
        self,
        answer: Callable[[Query], Answer],
        *,
        records: float,
        records_error: float = 0.0,
        counting: bool = False,
        unit: str = "record",
        tighten: Callable[[Query], Answer] | None = None,
        sample: Sample | None = None,
        joint: frozenset[str] = frozenset(),
        offset: Callable[[Query], np.ndarray | float] | None = None,
        asked: Sequence[Query] | None = None,
        fit: Callable[[Query], Answer] | None = None,
    ) -> ResultTable:
        """Ask every query once and compute the table; `records_error` bounds abs(n - records) / records.

        With `counting`, answers are shares of `records`, so that counts do not have that error.

        `tighten` answers for free; its answers hold jointly with those of `answer`. `sample` draws synthetic rows for
        statements that use them. Answers whose origin is `joint` fail together. `offset` is the correction of the
        shares of a total by measured offsets within bins. `asked` are the queries if some of its totals are centred.
        `fit` is the answer of one fitted distribution, from which numbers are computed whose parts must agree.
        """
        if self.explained is not None:
            prospects = [Prospect.free(query, (tighten or answer)(query)) for query in self.explained.queries]
            return explained_table(self.text, prospects, wanted=False)
        if self.synthetic is not None:
            return self._synthetic(sample)
        refuse_sums(self, unit)
        answers = {query: answer(query) for query in (self.queries if asked is None else asked)}
        if tighten is not None:
            answers |= self._tightened(tighten, joint)
        run = self.evaluation(answers, records, records_error, counting=counting)
        if offset is not None:
            run = replace(run, shifts={place: self._shift(place, offset) for place in run.binned})
        if fit is not None:
            run = self._fitted(run, answers, fit)
        table = self._table(run, answers, records_error, joint, counting=counting)
        return replace(table, basis=basis_of(self, table, run, unit))

    def _tightened(self, tighten: Callable[[Query], Answer], joint: frozenset[str]) -> dict[Query, Answer]:
        found = {query: answer for query in self.tightening if (answer := tighten(query)).certified}
        together = {query: answer for query, answer in found.items() if answer.origin in (*joint, "certificate")}
        return found if len(found) - len(together) <= FEW else together

    def evaluation(
        self, answers: Mapping[Query, Answer], records: float, records_error: float, *, counting: bool = False
    ) -> Run:
        """A new evaluation, in which nothing is computed yet."""
        doubt = records_error if counting else 0.0
        answers = self._with_bins(self._uncentred(answers, doubt), doubt)
        centred = {p: binning.present for p, binning in self.binned.items() if self._are(p, answers, CentredAnswer)}
        read, most = list(zip(self.read_blocks(answers), self.rows, strict=True)), 1 + doubt
        measured = [
            share_interval(blocks, answers, rows, (-most / 2, most / 2) if place in centred else (0.0, most), doubt)
            for place, (blocks, rows) in enumerate(read)
        ]
        size = np.full(1, float(records))
        spread = Interval.exact(size)
        if records_error and not counting:
            spread = Interval(size, size * (1 - records_error), size * (1 + records_error))
        hidden = {place: binning for place, binning in self.binned.items() if not self._are(place, answers, RowsAnswer)}
        public = {
            place: np.concatenate([np.full(block.mask.size, block.query is None) for block in blocks])[rows]
            for place, (blocks, rows) in enumerate(read)
            if doubt and any(block.query is None for block in blocks)
        }
        return Run(measured, spread, hidden, centred=centred, most=most, public=public)

    def possible(self, records: float, records_error: float = 0.0) -> Run:
        """An evaluation on nothing but the domain: its bounds are the ranges of all numbers."""
        return self.evaluation({}, records, records_error, counting=True).possible()

    def _fitted(self, run: Run, answers: Mapping[Query, Answer], fit: Callable[[Query], Answer]) -> Run:
        """The evaluation with the fit's own values beside the answers, if some of these are not from the fit.

        A part of a number of records that was measured, and of which only the fit knows a value, is that number times
        the fit's own proportion: a group is never shown with more than its records have.
        """
        if all(answer.origin in FITTED for answer in answers.values()):
            return run
        own = {query: fit(query) for query in answers}
        measured = {query for query, answer in answers.items() if not of_fit(answer, own[query])}
        if measured == own.keys():
            return run
        fitted = self.evaluation(own, float(run.records.value[0]), 0.0)
        read = [[block.query for block in blocks if block.query in answers] for blocks in self.read_blocks(answers)]
        places = frozenset(place for place, queries in enumerate(read) if not measured.issuperset(queries))
        measures = list(run.measures)
        for place in places.intersection(self.wholes):
            whole: int | None = self.wholes[place]
            while whole is not None and (whole in places or not read[whole]):
                whole = self.wholes.get(whole)
            if whole is not None:
                measures[place] = _proportional(
                    measures[place], run.measures[whole], fitted.measures[place].value, fitted.measures[whole].value
                )
        return replace(run, measures=measures, fit=replace(fitted, shifts=run.shifts), fitted=places)

    def _uncentred(self, answers: Mapping[Query, Answer], doubt: float) -> Mapping[Query, Answer]:
        """The same answers; if one of several totals could not be bought, all of them are whole totals."""
        centred = {query: answer for query, answer in answers.items() if isinstance(answer, CentredAnswer)}
        if all(self._are(place, answers, CentredAnswer) for place in self._totals(centred)):
            return answers
        counted = self.present_blocks(centred)
        return {
            **answers,
            **{q: with_counts(a, counted[q].shares(answers, doubt), 1 + doubt) for q, a in centred.items()},
        }

    def _with_bins(self, answers: Mapping[Query, Answer], doubt: float) -> Mapping[Query, Answer]:
        """The same answers, and estimates of totals of representatives that earlier ledgers did not buy."""
        rows = {query: answers[query] for query in self.of_bins if isinstance(answers.get(query), RowsAnswer)}
        missing = {query: answer for query, answer in rows.items() if self.of_bins[query] not in answers}
        if not missing:
            return answers
        counted = self.present_blocks(missing)
        found = dict(answers)
        for query, answer in missing.items():
            if isinstance(answer, CentredAnswer):
                answer = with_counts(answer, counted[query].shares(answers, doubt), 1 + doubt)
            value = np.asarray(answer.value)
            found[self.of_bins[query]] = Answer(query.text, value, None, None, None, "hypothesis", certified=False)
        return found

    def _shift(self, place: int, offset: Callable[[Query], np.ndarray | float]) -> np.ndarray:
        """The correction of a total by offsets in every group."""
        blocks = self.measures[place]
        found = [np.zeros(block.mask.size) if block.query is None else offset(block.query) for block in blocks]
        parts = [np.where(block.mask, block.laid_out(one), 0.0) for block, one in zip(blocks, found, strict=True)]
        return np.concatenate(parts)[self.rows[place]] if parts else np.zeros(len(self.rows[place]))

    def _are(self, place: int, answers: Mapping[Query, Answer], kind: type[RowsAnswer]) -> bool:
        """Whether a total uses the rows' own numbers in all groups, so that it has no binning error."""
        queries = [block.query for block in self.measures[place] if block.query is not None]
        return bool(queries) and all(isinstance(answers.get(query), kind) for query in queries)

    def kept(self, run: Run) -> Truth | None:
        """The rows that HAVING and similar clauses keep."""
        return None if not self.relation.filters else run.truth(Presence(self.relation.filters, self.relation.rows))

    def recomputed(
        self, answers: Mapping[Query, Answer], others: Iterable[Mapping[Query, Answer]], records: float
    ) -> Iterator[list[np.ndarray | None]]:
        """Columns of the rows kept by `answers`, from each of the other answers; None for one without numbers."""
        run = self.evaluation(answers, records, 0.0)
        shown = self._shown(run, self.kept(run))
        for other in others:
            again = self.evaluation(other, records, 0.0)
            vectors = [None if one.expr.known is not None else again.of(one.expr) for one in self.fields]
            yield [vector.take(shown).value if isinstance(vector, Interval) else None for vector in vectors]

    def _shown(self, run: Run, kept: Truth | None) -> np.ndarray:
        """The rows of the result, in its order."""
        relation = self.relation
        chosen = np.arange(relation.rows) if kept is None else np.flatnonzero(kept.holds)
        if relation.order:
            chosen = sorted_rows(run, relation.order, chosen)
        stop = None if relation.limit is None else relation.offset + relation.limit
        return chosen[relation.offset : stop]

    def _table(
        self,
        run: Run,
        found: Mapping[Query, Answer],
        records_error: float,
        joint: frozenset[str] = frozenset(),
        *,
        counting: bool = False,
    ) -> ResultTable:
        answers, relation = list(found.values()), self.relation
        kept = self.kept(run)
        shown = self._shown(run, kept)
        columns = [column_of(one.expr, run.of(one.expr), shown) for one in relation.fields]
        told, confidence = list(self.told), joint_confidence(answers, records_error, joint)
        if confidence is not None and confidence <= LEAST_TOGETHER:
            # Each bound holds singly with its own confidence; of all of them together nothing is known.
            columns, confidence = [replace(column, errors=[None] * len(shown)) for column in columns], None
            told.append("too many bounds to hold together at this confidence: ask for fewer numbers, or a higher one")
        bounded = all(
            error is not None
            for column in columns
            if column.number
            for value, error in zip(column.values, column.errors, strict=True)
            if value is not None
        )
        if confidence is None and any(error is not None for column in columns for error in column.errors):
            # From what is known of every table, and of the number of records.
            confidence = joint_confidence((), records_error)
        # Bounds are of certified answers alone; of other columns, and of which rows are shown, nothing is bounded.
        numbers = all(
            column.number or one.expr.known is not None for column, one in zip(columns, self.fields, strict=True)
        )
        alone = numbers and not relation.filters and relation.limit is None and not relation.offset
        origins = sorted({answer.origin for answer in answers})
        if not origins and records_error and any(error for column in columns for error in column.errors):
            origins = ["measured"]  # the number of records
        return ResultTable(
            sql=self.text,
            columns=tuple(one.name for one in relation.fields),
            aggregates=tuple(column.number for column in columns),
            rows=tuple(zip(*(column.values for column in columns), strict=True)),
            errors=tuple(zip(*(column.errors for column in columns), strict=True)),
            confidence=confidence,
            certified=bounded and confidence is not None and (alone or all(answer.certified for answer in answers)),
            origin=" + ".join(origins) or "public",
            price=sum(answer.price for answer in answers),
            note="; ".join((*told, *self._membership(run, kept, shown))),
            types=tuple(column.kind for column in columns),
            typical=self._typical(run, found, 0.0 if counting else records_error, shown),
        )

    def _typical(
        self, run: Run, found: Mapping[Query, Answer], records_error: float, shown: np.ndarray
    ) -> tuple[tuple[float | None, ...], ...]:
        """For each count, the typical error in records; empty if no count has one."""
        columns: list[Sequence[float | None]] = []
        for one in self.fields:
            expr = one.expr
            place = expr.terms[0][1] if isinstance(expr, Sum) and len(expr.terms) == 1 else None
            if not isinstance(expr, Sum) or place is None or self.weights[place] is not None:
                columns.append([None] * len(shown))
                continue
            blocks = self.measures[place]
            shares = np.concatenate([block.typical(found, run.most - 1) for block in blocks])[self.rows[place]]
            records = abs(expr.terms[0][0]) * float(run.records.value[0])
            # A noisy number of records moves a count by its own error, too.
            errors = (1 + records_error) * shares * records + records_error * np.abs(run.numbers(expr).value)
            columns.append([error if np.isfinite(error) else None for error in errors[shown].tolist()])
        stated = any(error is not None for column in columns for error in column)
        return tuple(zip(*columns, strict=True)) if stated else ()

    def _membership(self, run: Run, kept: Truth | None, shown: np.ndarray) -> list[str]:
        """A note if noise may change which rows belong to the result."""
        relation = self.relation
        truth = kept
        if relation.limit is not None or relation.offset:
            presence = None if kept is None else Presence(relation.filters, relation.rows)
            truth = Limited(relation.order, presence, relation.limit, relation.offset, relation.rows).evaluate(run)
        if truth is None:
            return []
        mine = np.zeros(relation.rows, dtype=bool)
        mine[shown] = True
        loose, missing = int((mine & ~truth.sure).sum()), int((~mine & truth.true).sum())
        if not loose and not missing:
            return []
        parts = [f"{loose} of them may not belong" if loose else "", f"{missing} others may" if missing else ""]
        return [f"rows are chosen by estimate: {' and '.join(part for part in parts if part)}"]

    def _synthetic(self, sample: Sample | None) -> ResultTable:
        """The query on synthetic rows drawn now; they and the result are public."""
        if sample is None:
            raise refused("synthetic rows cannot be drawn here", "use synthesize(rows) of a release")
        assert self.synthetic is not None, "only such statements get here"
        rows = synthetic_relation(sample(limited_rows(self.synthetic)), self.domain)
        found = _planned(self.synthetic, self.text, self.domain, self.table, rows)
        table = found._table(Run([], Interval.exactly(0.0, 1)), {}, 0.0)
        note = f"synthetic: of {ROWS} rows drawn from the published distribution, none of which is a record"
        unstated = tuple((None,) * len(row) for row in table.rows)
        return replace(table, errors=unstated, origin="synthetic", certified=False, confidence=None, note=note)


def _proportional(part: Interval, whole: Interval, fitted: np.ndarray, fitted_whole: np.ndarray) -> Interval:
    """A part of a known number of records, as large as the fit's own part of its own."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(fitted_whole > 0, np.clip(fitted / fitted_whole, 0.0, 1.0) * whole.value, part.value)
    return part.near(np.clip(value, 0.0, np.maximum(whole.value, 0.0)))


def _arrays(expr: Expr) -> list[np.ndarray]:
    """What an expression holds on to."""
    if isinstance(expr, Known):
        vector = expr.vector
        if isinstance(vector, (Labels, Bins)):
            return [vector.codes] if vector.codes.strides != (0,) else []
        if isinstance(vector, Interval):
            return [vector.value, vector.low, vector.high]
        return [vector.value, vector.true, vector.false, vector.null]
    return [held for held in vars(expr).values() if isinstance(held, np.ndarray)]


def run(
    text: str,
    domain: Domain,
    answer: Callable[[Query], Answer],
    *,
    records: float,
    records_error: float = 0.0,
    unit: str = "record",
    table: str | None = None,
    sample: Sample | None = None,
) -> ResultTable:
    """Compile and run on free answers; `table` is the only name FROM may use, any single name if it is None."""
    statement = compile_sql(text, domain, table=table)
    return statement.run(answer, records=records, records_error=records_error, unit=unit, tighten=answer, sample=sample)


def compile_sql(text: str, domain: Domain, *, table: str | None = None, star: bool = False) -> Statement:
    """The statement of a text; the last few hundred are kept.

    Args:
        text: One statement of SQL.
        domain: The public facts about the table.
        table: The only name that FROM may use for the table; None for any single name.
        star: Whether `SELECT *` and other lists of records mean synthetic rows, instead of being refused.
    """
    if not isinstance(text, str):
        raise refused(f"SQL must be text, not {type(text).__name__}", ONLY_SELECT)
    key = (text, domain, table, star)
    found = STATEMENTS.get(key)
    if found is None:
        found = statement_of(parse_statement(text, domain.names), text, domain, table, star=star)
        STATEMENTS.put(key, found, found.footprint)
    return found


STATEMENTS: Kept[tuple[str, Domain, str | None, bool], Statement] = Kept(KEPT_STATEMENTS, KEPT_BYTES)


def statement_of(
    tree: exp.Expr | Explained | Shown,
    text: str,
    domain: Domain,
    table: str | None = None,
    *,
    where: Predicate | None = None,
    star: bool = False,
) -> Statement:
    """Compile a parsed query; a tree too deep for Python is too deep for a question."""
    try:
        return _statement(tree, text, domain, table, star, where)
    except RecursionError:
        raise refused("the statement is nested too deep", "ask its parts one by one") from None
    except ReticentError:
        raise
    except Exception:
        # Trees of the parser library may have unexpected shapes; they are refused, without a traceback.
        raise refused("the statement has a form that is not understood", ONLY_SELECT) from None


def _statement(
    tree: exp.Expr | Explained | Shown,
    text: str,
    domain: Domain,
    table: str | None,
    star: bool,
    where: Predicate | None = None,
) -> Statement:
    if isinstance(tree, Shown):
        return _assembled(described(tree, domain, table), Planner(domain, table, Meter()), text)
    if isinstance(tree, Explained):
        inner = _statement(tree.this, tree.text, domain, table, star)
        return replace(inner, text=text, explained=inner)
    try:
        return _planned(tree, text, domain, table, None, where)
    except SyntheticNeeded:
        return _of_synthetic(tree, text, domain, table)
    except _RowsListed as listed:
        if not star:
            raise listed.refusal from None
        return _of_synthetic(_star_of_synthetic(tree), text, domain, table)


class _RowsListed(Exception):  # decided by the caller: a refusal, or synthetic rows
    def __init__(self, refusal: ReticentError) -> None:
        self.refusal = refusal


def _of_synthetic(tree: exp.Expr, text: str, domain: Domain, table: str | None) -> Statement:
    """Compiled on a row that stands for all, to refuse what is wrong before any row is drawn."""
    found = _planned(tree, text, domain, table, placeholder(domain))
    return replace(found, synthetic=tree, table=table)


def _star_of_synthetic(tree: exp.Expr) -> exp.Expr:
    """The same query, of the synthetic table."""
    copied = tree.copy()
    views = {cte.alias.lower() for cte in copied.find_all(exp.CTE)}
    for node in copied.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and node.name.lower() not in views:
            if node.args.get("alias") is None:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
            node.set("this", exp.to_identifier(f"{node.name}_synthetic", quoted=True))
    return copied


def _planned(
    tree: exp.Expr,
    text: str,
    domain: Domain,
    table: str | None,
    synthetic: Relation | None,
    where: Predicate | None = None,
) -> Statement:
    meter = Meter(remedy=lambda: _remedy(tree, domain))
    meter.charge(NODE_STEPS * sum(1 for _ in tree.walk()))
    planner = Planner(domain, table, meter, synthetic, where)
    if CLOCK in tree.meta:
        planner.public += clock_notes(tree)
    found = planner.query(tree)
    if isinstance(found, Scope):
        raise _RowsListed(planner.rows_refused(tree))
    return _assembled(found, planner, text)


def _remedy(tree: exp.Expr, domain: Domain) -> str:
    """What helps if a statement takes too much work: with a column of very many values, no part of it does."""
    used = {column.name.lower() for column in tree.find_all(exp.Column)}
    wide = [name for name in domain.names if name.lower() in used and domain[name].size > MANY_VALUES]
    if not wide:
        return IN_PARTS
    name = max(wide, key=lambda name: domain[name].size)
    return (
        f"{name} has {domain[name].size} values: declare a coarser column beside it, such as its first letters, or "
        "list the values with IN"
    )


def _assembled(relation: Relation, planner: Planner, text: str) -> Statement:
    measures, used = planner.measures, _used(relation, planner)
    asked: dict[Query, Query] = {}
    blocks = tuple(
        tuple(blocks_of(measure, planner.meter, asked)) if place in used else ()
        for place, measure in enumerate(measures.found)
    )
    told = [note for notes in planner.told for note in notes]
    found = Statement(
        text,
        planner.domain,
        relation,
        blocks,
        tuple(measure.grouping.rows for measure in measures.found),
        tuple(measure.weight for measure in measures.found),
        dict(measures.binned),
        dict(measures.coarse),
        frozenset(measures.aside),
        measures.wholes(),
        tuple(dict.fromkeys((*told, *planner.public, *([relation.note] if relation.note else [])))),
    )
    Meter().charge(found.steps)
    return found


def _used(relation: Relation, planner: Planner) -> set[int]:
    """Measures that the result depends on; a plan may have compiled others on the way."""
    roots = [*(one.expr for one in relation.fields), *relation.filters, *(r.expr for r in relation.order)]
    found = {place for expr in walk(roots) for place in expr.own_places}
    for place in list(found):
        binning = planner.measures.binned.get(place)
        if binning is not None:
            found |= {binning.present} if binning.reach is None else {binning.present, binning.reach}
    return found
