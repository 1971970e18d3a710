"""`Scan`: one GROUP BY over the protected table, with its groups and the measures of each group.

Each measure in each class of groups is one query, a constant, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from reticent.domain import Domain
from reticent.knowledge.answer import JOINT_ORIGINS, Answer
from reticent.queries import Count, Expectation, Groups, Marginal, Predicate, Query, Total, Weights, all_of
from reticent.queries.base import KEPT_CELLS, RECORDS_FAILURE
from reticent.queries.forms import MAX_CELLS, Dense, Form, scaled_numbers, weighted_by
from reticent.sql.expressions import Binning, Computed, Expr, Partly, Sum
from reticent.sql.grouping import ClassKey, ColumnKey, GroupedBy, Grouping, compile_steps, distinct_keys, reachable
from reticent.sql.intervals import Interval
from reticent.sql.refusals import Meter
from reticent.sql.scope import Scope, Selection
from reticent.sql.vectors import INTEGER, TRUTH, Truth, Vector, to_interval

HALF = 0.5
"""An estimated number of records below it is none."""


@dataclass(frozen=True, eq=False)
class Scan:
    """Groups of the records that a scope selects."""

    scope: Scope
    grouping: Grouping
    measures: Measures

    @classmethod
    def of(cls, scope: Scope, listed: Sequence[GroupedBy], measures: Measures) -> Scan:
        possible = scope.where.widest
        grouping = Grouping(scope.domain, distinct_keys(listed), possible)
        scope.meter.charge(grouping.steps)
        return cls(scope, grouping, measures)

    @property
    def domain(self) -> Domain:
        return self.scope.domain

    @property
    def meter(self) -> Meter:
        return self.scope.meter

    @property
    def where(self) -> Selection:
        return self.scope.where

    @cached_property
    def rows(self) -> int:
        return len(self.grouping.rows)

    def place(
        self, where: Predicate, weight: str | Weights | None = None, *, aside: bool = False, middles: bool = False
    ) -> int:
        return self.measures.place(self.grouping, where, weight, aside=aside, middles=middles)

    def count(self, where: Predicate, *, aside: bool = False) -> Sum:
        """The number of records in each group."""
        return Sum(((1.0, self.place(where, aside=aside)),), self.rows, INTEGER)

    @cached_property
    def exists(self) -> Expr | None:
        """Whether each group has a record; without keys the single group is always there."""
        if not self.grouping.keys:
            return None
        return Computed(_occurs, (self.number_of(self.where),), self.rows, TRUTH)

    def number_of(self, where: Selection) -> Expr:
        """How many records of each group a selection holds."""
        sure = self.count(where.true)
        if where.exact:
            return sure
        opened = self.count(where.open(self.domain))
        return Partly(sure, opened, opened, where.share, 0.0, 1.0)

    def finer(self, name: str) -> tuple[Scan, np.ndarray, np.ndarray]:
        """The same groups divided by one more column: the scan, and for each of its groups this one's and the code."""
        keys = self.grouping.keys
        if name in self.grouping.columns:
            codes = self.grouping.codes(ColumnKey(name), self.grouping.rows)
            return self, np.arange(self.rows), codes
        grouping = Grouping(self.domain, (*keys, ColumnKey(name)), self.grouping.where)
        self.meter.charge(grouping.steps + grouping.size // 50)
        size = self.domain[name].size
        fine = Scan(self.scope, grouping, self.measures)
        # The added column is the last of the columns, and varies fastest.
        owners = np.searchsorted(self.grouping.rows, grouping.rows // size)
        return fine, owners, grouping.rows % size

    def coarser(self, kept: Sequence[ColumnKey | ClassKey]) -> tuple[Scan, np.ndarray]:
        """The same records grouped by some of the keys only: the scan, and for each group of this one that of it."""
        grouping = Grouping(self.domain, tuple(kept), self.grouping.where)
        self.meter.charge(grouping.steps)
        coarse = Scan(self.scope, grouping, self.measures)
        if not kept:
            return coarse, np.zeros(self.rows, dtype=np.int64)
        codes = [self.grouping.codes(key, self.grouping.rows) for key in kept]
        own = [grouping.codes(key, grouping.rows) for key in kept]
        sizes = [int(max(a.max(initial=0), b.max(initial=0))) + 1 for a, b in zip(codes, own, strict=True)]
        wanted, listed = np.ravel_multi_index(codes, sizes), np.ravel_multi_index(own, sizes)
        order = np.argsort(listed)
        return coarse, order[np.searchsorted(listed[order], wanted)]


def _occurs(counted: Vector) -> Truth:
    """Whether a number of records is not zero."""
    numbers: Interval = to_interval(counted)
    never = np.zeros(len(numbers.value), dtype=bool)
    return Truth((numbers.value >= HALF).astype(float), numbers.high > 0, ~(numbers.low > 0), never)


OBJECT_BYTES = 1000
"""Of a small object with its fields."""
COMPARISON_BYTES = 400
"""Of one comparison of a predicate, its texts included."""
TEXT_STEPS = 2
"""Of writing one comparison of a predicate as text."""


@dataclass(frozen=True, eq=False)
class GroupMeasure:
    """A linear query per group: the share of records with `where`, or the mean over all records of a number there."""

    grouping: Grouping
    where: Predicate
    weight: str | Weights | None = None
    """A column whose scaled numbers are summed, or any function of some columns with values in [0, 1]."""
    middles: bool = False
    """Whether a column's total must be that of the bins' representatives, whatever was bought of the rows' numbers."""


@dataclass(eq=False)
class Measures:
    """Distinct measures of one statement while it is compiled."""

    meter: Meter
    found: list[GroupMeasure] = field(default_factory=list)
    binned: dict[int, Binning] = field(default_factory=dict)
    """By the place of a column's total."""
    aside: set[int] = field(default_factory=set)
    """Places that only tighten a bound: they are read where that is free, and nothing is paid for them."""
    coarse: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Other places whose numbers bins blur, with the columns these are of."""
    present: dict[int, int] = field(default_factory=dict)
    """For the place of a total, that of the number of records which it sums."""
    _places: dict[tuple[int, str, str, bool], int] = field(default_factory=dict)

    def place(
        self,
        grouping: Grouping,
        where: Predicate,
        weight: str | Weights | None = None,
        *,
        aside: bool = False,
        middles: bool = False,
    ) -> int:
        self.meter.charge(TEXT_STEPS * where.size)
        weighed = "" if weight is None else f"column {weight}" if isinstance(weight, str) else weight.text
        key = (id(grouping), where.text, weighed, middles)
        if key not in self._places:
            self._places[key] = len(self.found)
            self.found.append(GroupMeasure(grouping, where, weight, middles))
            if aside:
                self.aside.add(self._places[key])
        if not aside:
            self.aside.discard(self._places[key])
        return self._places[key]

    def wholes(self) -> dict[int, int]:
        """For each place, that of the number of records it is a part of: of those it sums, or of the whole group."""
        groups = {
            id(one.grouping): place
            for place, one in enumerate(self.found)
            if one.weight is None and one.where.text == one.grouping.where.text
        }
        found = {place: groups[id(one.grouping)] for place, one in enumerate(self.found) if id(one.grouping) in groups}
        return {place: whole for place, whole in {**found, **self.present}.items() if place != whole}


@dataclass(frozen=True, eq=False)
class Block:
    """One measure within one combination of classes: where `mask` is false the share is exactly zero."""

    query: Query | None
    mask: np.ndarray
    """Over the flattened cells of the group columns."""
    columns: tuple[str, ...] = ()
    """The group columns; an equal query of the same statement may name them in another order."""
    form_bytes: int = 0
    text_bytes: int = 0
    of_bins: Query | None = None
    """The same total of representatives as a query of its own, asked if `query` is of the rows' own numbers."""

    @property
    def representatives(self) -> Block:
        """The block that reads the total of the representatives."""
        return replace(self, query=self.of_bins, of_bins=None)

    @property
    def footprint(self) -> int:
        """Bytes it may come to hold, the query's compiled form included."""
        return self.mask.nbytes + (0 if self.query is None else OBJECT_BYTES + self.form_bytes + self.text_bytes)

    def shares(self, answers: Mapping[Query, Answer], doubt: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, and their lowest and highest; without a query the share is 1, by the domain alone, within `doubt` of
        a released number of records.
        """
        if self.query is None:
            known = self.mask.astype(float)
            return known, known * (1 - doubt), known * (1 + doubt)
        answer = answers.get(self.query)
        if answer is None:  # it only tightens a bound, and could not be read for free
            value, low, high = 0.0, -np.inf, np.inf
        elif not answer.certified or answer.error is None:
            value, low, high = answer.value, -np.inf, np.inf
        elif answer.interval is None:
            value, low, high = answer.value, answer.value - answer.error, answer.value + answer.error
        else:
            value, (low, high) = answer.value, answer.interval
        return tuple(np.where(self.mask, self.laid_out(part), 0.0) for part in (value, low, high))  # pyright: ignore[reportReturnType]

    def laid_out(self, part: np.ndarray | float) -> np.ndarray:
        """Numbers of the query, one for each of the flattened cells; a single one stays single."""
        names, found = getattr(self.query, "names", ()), np.asarray(part)
        if found.ndim == len(names) and names != self.columns:
            found = np.transpose(found, [names.index(name) for name in self.columns])
        return found.ravel()

    def typical(self, answers: Mapping[Query, Answer], doubt: float) -> np.ndarray:
        """What most questions like each share err; NaN where nothing is stated. `doubt` is that of all records."""
        answer = None if self.query is None else answers.get(self.query)
        if answer is None or answer.typical is None:
            return np.full(self.mask.size, doubt if self.query is None else np.nan)
        return np.where(self.mask, self.laid_out(answer.typical), 0.0)


def blocks_of(measure: GroupMeasure, meter: Meter, asked: dict[Query, Query]) -> list[Block]:
    """In the order of the grouping's combinations; `asked` has the queries of the statement so far, each once."""
    found = []
    for chosen in measure.grouping.combinations:
        meter.charge(measure.where.size + chosen.size)
        block = _block(measure, all_of((measure.where, chosen)), meter)
        query = None if block.query is None else asked.setdefault(block.query, block.query)
        found.append(block if query is block.query else replace(block, query=query))
    return found


def _block(measure: GroupMeasure, where: Predicate, meter: Meter) -> Block:
    grouping, weight = measure.grouping, measure.weight
    domain, columns = grouping.domain, grouping.columns
    meter.charge(compile_steps(where, domain, domain.cells(columns)))
    form: Form = where.compile(domain, meter)
    names = () if weight is None else (weight,) if isinstance(weight, str) else weight.attributes
    if isinstance(form, Dense) or (isinstance(weight, Weights) and not weight.separate):
        meter.spend(2 * min(domain.cells({*form.attributes, *names}), MAX_CELLS))
    if isinstance(weight, str):
        form = weighted_by(form, weight, domain)
    elif weight is not None:
        form = weight.applied(form, domain)
    mask = reachable(form, columns, domain).ravel()
    query, of_bins = _query(weight, where, form, mask, columns), None
    if query is not None and measure.middles and isinstance(weight, str):
        of_bins = _query(Weights.of(**{weight: scaled_numbers(domain, weight)[0]}), where, form, mask, columns)
    return Block(query, mask, columns, _form_bytes(form), COMPARISON_BYTES * where.size, of_bins)


def _query(
    weight: str | Weights | None, where: Predicate, form: Form, mask: np.ndarray, columns: tuple[str, ...]
) -> Query | None:
    if not mask.any() or (not form.attributes and not columns):
        return None
    if not columns:
        if weight is None:
            return Count(where)
        return Total(weight, where) if isinstance(weight, str) else Expectation(weight, where)
    if weight is None and set(form.attributes) <= set(columns):
        # WHERE on grouped columns only leaves cells out: the whole marginal answers every such statement.
        return Marginal(columns)
    if isinstance(weight, Weights):
        return Groups(columns, where, weights=weight)
    return Groups(columns, where, weight)


def _form_bytes(form: Form) -> int:
    """Of what a query keeps once it is compiled."""
    if isinstance(form, Dense):
        return form.values.nbytes if form.values.size <= KEPT_CELLS else 0
    return sum(vector.nbytes for vector in form.vectors)


def queries_of(measures: Sequence[Sequence[Block]]) -> tuple[Query, ...]:
    """Each distinct query once, in the order of use."""
    return tuple(dict.fromkeys(block.query for blocks in measures for block in blocks if block.query is not None))


def share_interval(
    blocks: Sequence[Block],
    answers: Mapping[Query, Answer],
    rows: np.ndarray,
    limits: tuple[float, float] = (0.0, 1.0),
    doubt: float = 0.0,
) -> Interval:
    """The measure in every group; a certified share is a fraction, so its bounds are cut to its limits."""
    if not blocks:  # compiled on the way, and not used in the end
        return Interval.exactly(0.0, len(rows))
    parts = zip(*(block.shares(answers, doubt) for block in blocks), strict=True)
    values, low, high = ((part[0] if len(part) == 1 else np.concatenate(part))[rows] for part in parts)
    bounded = np.isfinite(low) & np.isfinite(high)
    return Interval(
        values,
        np.where(bounded, np.clip(low, *limits), low),
        np.where(bounded, np.clip(high, *limits), high),
    )


def joint_confidence(
    answers: Sequence[Answer], records_error: float, joint: frozenset[str] = frozenset()
) -> float | None:
    """With which probability all stated bounds hold at once.

    Answers whose origin is `joint` share one failure probability: in a session whose statements are joint, certificates
    and sums of measured cells. Certificates hold together by construction anyway, and so do all statements of one
    theorem; everything else may fail on its own account, the released number of records included.
    """
    certified = [answer for answer in answers if answer.certified and answer.confidence is not None]
    if answers and not certified:
        return None
    failures = [(answer.origin, 1 - answer.confidence) for answer in certified if answer.confidence]
    shared = [joint, *(frozenset({origin}) for origin in JOINT_ORIGINS if origin not in joint)]
    together = sum(max((f for origin, f in failures if origin in one), default=0.0) for one in shared)
    alone = sum(f for origin, f in failures if not any(origin in one for one in shared))
    size = RECORDS_FAILURE if records_error > 0 else 0.0
    return max(0.0, 1.0 - together - alone - size)
