"""`Knowledge`: everything that was learned, as one frozen value; free answers are functions of it and the request.

A session's knowledge grows with every purchase; a release is knowledge with one certified snapshot. The certified
readings of a question are found in the same order for counts, marginals and groups: earlier answers, certificates, sums
of measured cells (spec online.md 2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from reticent.domain import Domain, Numeric
from reticent.errors import QueryError
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.choose import read_snapshot
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.knowledge.certificates import Certificate, tightest
from reticent.knowledge.guarantees import Guarantee
from reticent.knowledge.measured import (
    ByDigest,
    MeasuredGroups,
    MeasuredMarginal,
    MeasuredQueries,
    MeasuredQuery,
    MeasuredTables,
)
from reticent.knowledge.offsets import BinMeans
from reticent.knowledge.paid_models import PaidModel
from reticent.knowledge.raw_means import RawMean
from reticent.knowledge.raw_sums import RawSums
from reticent.knowledge.tails import MOST_READ, SINGLE, WIDER, Bounds, Shares, hull, joined
from reticent.knowledge.typical import TypicalError
from reticent.losses.losses import ConvexLoss
from reticent.queries.base import Linear
from reticent.queries.distribution import has_ranges
from reticent.queries.forms import Dense, Form, Outline, Product, essential, first_code, is_cell
from reticent.queries.groups import ONE_BY_ONE, Groups
from reticent.queries.linear import Marginal

VACUOUS = 0.5
"""No fraction is farther than this from one half: a larger bound certifies nothing."""
ROUNDING = 1 + 1e-9
"""A relative tolerance for an error that was just met."""
KEPT_CHOICES = 2**16
"""The size of the cache of choices, because analysts choose the questions."""
WHOLE = (0.0, 1.0)
"""The range of shares of the table."""
MOST_PARTS = 32
"""The largest number of sets of fewer attributes whose statements are read for one question."""
FEW_ATTRIBUTES = 4
"""Up to this number of attributes, all subsets are considered."""

Single = Linear | Marginal | Groups
"""A question that one measurement answers; all others are combined from several of them."""


@dataclass(frozen=True, eq=False)
class Certified:
    """A stored snapshot with its certificates."""

    snapshot: Snapshot
    certificates: tuple[Certificate, ...]
    guarantees: tuple[Guarantee, ...] = ()
    """Guarantees for the queries of a release's workload."""

    @property
    def bounds(self) -> tuple[Certificate | Guarantee, ...]:
        return (*self.certificates, *self.guarantees)

    def of_counts(self, records: float) -> Certified:
        """The same statements about shares of a released number of records, those that were made with this one."""
        certificates = (one.of_counts for one in self.certificates if one.records == records)
        guarantees = (one.of_counts for one in self.guarantees)
        found = (one for one in guarantees if one is not None and one.reading and one.reading.records == records)
        return Certified(self.snapshot, tuple(certificates), tuple(found))


@dataclass(frozen=True, eq=False)
class CertifiedBatch:
    """A declared batch with an audited largest error: the certificate covers these questions only."""

    snapshot: Snapshot
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class Typical:
    """A typical error of a distribution of questions on a snapshot."""

    snapshot: Snapshot
    error: TypicalError


class AnswerSource(Protocol):
    """The methods of a hypothesis that free answers need."""

    @property
    def domain(self) -> Domain: ...

    def expect(self, query: Linear | Product | Dense) -> float: ...

    def marginal(self, attributes: Sequence[str]) -> np.ndarray: ...


Held = Snapshot | MeasuredMarginal | MeasuredQuery | MeasuredGroups
"""The objects from which a question can be read."""


class AskedNumber:
    """A linear query, compiled without attributes that it does not constrain."""

    __slots__ = ("form",)

    def __init__(self, form: Form) -> None:
        self.form = form

    @property
    def forms(self) -> tuple[Form, ...]:
        return (self.form,)

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.form.attributes

    def read(self, held: Held) -> float:
        if not self.form.attributes:
            return float(self.form.tensor())  # the same for every record: a sum of probabilities may round beyond it
        return held.expect(self.form) if isinstance(held, Snapshot) else held.value_of(self.form)

    def origin(self, measured: MeasuredMarginal) -> str:
        return "derived"

    def bought(self, held: Held) -> bool:
        """Whether it was measured for exactly this question."""
        if isinstance(held, MeasuredMarginal):
            return held.declared and held.attributes == self.attributes and is_cell(self.form)
        return not isinstance(held, Snapshot)


class AskedTable:
    """A marginal (groups without a condition) or groups: one bound serves every cell.

    The axes of a marginal are in the domain's order, those of groups in the order of their names.
    """

    __slots__ = ("attributes", "domain", "query")

    def __init__(self, query: Marginal | Groups, domain: Domain) -> None:
        self.query = query
        self.domain = domain
        self.attributes = query.span(domain) if isinstance(query, Groups) else query.canonical(domain)

    @property
    def forms(self) -> Sequence[Form]:
        """Forms whose errors bound those of all cells; none if there are too many cells to read at once."""
        query, domain = self.query, self.domain
        if isinstance(query, Marginal):
            return (Product(self.attributes, tuple(first_code(domain[name].size) for name in self.attributes)),)
        if not query.fits(domain) and domain.cells(query.names) > ONE_BY_ONE:
            return ()
        try:
            return query.representatives(domain)
        except QueryError:
            return ()

    def read(self, held: Held) -> np.ndarray:
        if isinstance(held, MeasuredGroups):
            assert isinstance(self.query, Groups), "only groups are read from measured groups"
            return held.over(self.query)
        assert not isinstance(held, MeasuredQuery), "a measured number tells nothing about a table"
        if isinstance(held, MeasuredMarginal):
            cells = held.over(self.attributes)
            return cells if isinstance(self.query, Marginal) else self.query.read(self.domain, cells)
        return self.on(held)

    def on(self, distribution: AnswerSource) -> np.ndarray:
        if isinstance(self.query, Marginal):
            return distribution.marginal(self.attributes)
        return group_values(self.query, distribution)

    def origin(self, measured: MeasuredMarginal) -> str:
        return "cache" if self.bought(measured) else "derived"

    def bought(self, held: Held) -> bool:
        """Whether it was measured for exactly this question."""
        if isinstance(held, MeasuredMarginal):
            return isinstance(self.query, Marginal) and held.declared and held.attributes == self.attributes
        return not isinstance(held, Snapshot)


Asked = AskedNumber | AskedTable


class Source(NamedTuple):
    """One certified source of answers: its error, its origin, and the object from which questions are read."""

    error: float
    origin: str
    held: Held
    snapshot: str | None = None
    ledger_id: int | None = None

    def reading(self, asked: Asked) -> Reading:
        return Reading(self.error, self.origin, partial(asked.read, self.held), self.snapshot, self.ledger_id)


UNASKED = Source(inf, "", None)  # pyright: ignore[reportArgumentType]


class Reading(NamedTuple):
    """One statement about a question: the fraction computed by `compute` is within `error` of the true value.

    `bounds` states more if several statements were intersected.
    """

    error: float
    origin: str
    compute: Callable[[], float | np.ndarray]
    snapshot: str | None = None
    ledger_id: int | None = None
    bounds: Bounds | None = None


Way = TypeVar("Way", Source, Reading)


class Ways(NamedTuple):
    """What was bought for a question itself, and the narrowest of all other statements about it."""

    own: list[Source]
    wide: list[Source]
    fit: Snapshot | None
    """The working hypothesis, where it is among the others and the narrowest of them is of a snapshot."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Certified snapshots, the working hypothesis, measured marginals, queries and groups, and audited batches."""

    current: Snapshot
    records: float
    """The public number of records, or its released noisy total."""
    records_error: float
    """Bounds abs(n - records) / records; 0 when the number is public."""
    certified: tuple[Certified, ...] = ()
    marginals: tuple[MeasuredMarginal, ...] = ()
    queries: MeasuredQueries = field(default_factory=ByDigest)
    """By digest of the compiled form, so that equivalent questions are one question."""
    batches: Mapping[str, CertifiedBatch] = field(default_factory=dict)
    groups: MeasuredTables = field(default_factory=MeasuredTables)
    models: Mapping[str, tuple[PaidModel, ...]] = field(default_factory=dict)
    """By digest of the loss."""
    means: Mapping[str, tuple[RawMean, ...]] = field(default_factory=dict)
    """Of the rows' own numbers, by digest of the question."""
    residuals: tuple[Measurement, ...] = ()
    """Residuals that releases measured."""
    sums: Mapping[str, tuple[RawSums, ...]] = field(default_factory=dict)
    """Of the rows' own numbers, by digest of the groups."""
    bin_means: Mapping[str, BinMeans] = field(default_factory=dict)
    """Measured offsets of numbers within their bins, by column."""
    unfitted: int = 0
    """The number of purchases since the working hypothesis was last fitted."""
    fitted: int = 0
    """The number of measured marginals, from the first, to which it was fitted."""
    typical: tuple[Typical, ...] = ()
    """Typical errors, oldest first."""
    notes: tuple[str, ...] = ()
    """Notes about learning that did not fit in memory."""
    unit: str = "record"
    """The unit of weight one: a record, a person with all rows, or a row of a person."""
    shares: Shares = SINGLE
    """The division of the failure probability; only joint statements are intersected."""
    learnt: frozenset[str] = frozenset()
    """Columns of measurements that the first hypothesis was fitted to and that are not kept here."""
    counting: bool = False
    """Whether shares are of `records`, a released number, instead of the private number of records: times `records`
    they are counts, whose errors do not include that of the number."""

    @cached_property
    def of_counts(self) -> Knowledge:
        """The same knowledge for questions about counts; itself if the number of records is public."""
        if self.counting or not self.records_error or not self.shares.in_records:
            return self
        certified = tuple(one.of_counts(self.records) for one in self.certified)
        typical = tuple(replace(t, error=t.error.of_counts) for t in self.typical if t.error.records == self.records)
        return replace(self, counting=True, certified=certified, typical=typical)

    @property
    def whole(self) -> tuple[float, float]:
        """The range of possible shares."""
        return (0.0, 1 + self.records_error) if self.counting else WHOLE

    @property
    def vacuous(self) -> float:
        """No share is farther than this from the middle of the range: a larger bound certifies nothing."""
        return VACUOUS * self.whole[1]

    @cached_property
    def domain(self) -> Domain:
        return self.current.domain

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates of all snapshots, oldest first."""
        return tuple(c for certified in self.certified for c in certified.certificates)

    @property
    def newest(self) -> Certified:
        """The newest certified snapshot; without one, the uncertified working hypothesis."""
        return self.certified[-1] if self.certified else Certified(self.current, ())

    def sums_of(self, digest: str) -> tuple[RawSums, ...]:
        """Purchased sums of the rows' own numbers of the groups with this digest."""
        found = self.sums.get(digest, ())
        return tuple(replace(sums, counting=True) for sums in found) if self.counting else found

    def form(self, query: Linear) -> Form:
        """The compiled query without attributes that it does not constrain."""
        return essential(query.compile(self.domain))

    # -- learning ------------------------------------------------------------------------------------------

    def with_query(self, measured: MeasuredQuery, current: Snapshot) -> Knowledge:
        digest = self.form(measured.query).digest
        queries = self.queries.adding(digest, measured)
        return replace(self, queries=queries, current=current, unfitted=self.unfitted + 1)

    def with_marginal(self, measured: MeasuredMarginal, *, fitted: bool = False) -> Knowledge:
        marginals = (*self.marginals, measured.ranked(1 + len(self.marginals)))
        return replace(self, marginals=marginals, unfitted=self.unfitted + (not fitted))

    def with_residuals(
        self, measured: Sequence[Measurement], marginals: Sequence[MeasuredMarginal], *, fitted: bool = False
    ) -> Knowledge:
        """Knowledge with residuals, for fits, and the marginals that they determine, for derived answers."""
        known = replace(self, residuals=(*self.residuals, *measured))
        for marginal in marginals:
            known = known.with_marginal(marginal, fitted=fitted)
        return known.with_current(known.current) if fitted else known

    def with_groups(self, measured: MeasuredGroups, *, fitted: bool = False) -> Knowledge:
        return replace(self, groups=self.groups.adding(measured), unfitted=self.unfitted + (not fitted))

    def with_certificate(self, snapshot: Snapshot, certificate: Certificate) -> Knowledge:
        """Knowledge with a further certificate; the newest certified snapshot comes last.

        The certificate keeps its reading; its share of the failure probability follows this knowledge's own rule.
        """
        certificate = replace(certificate, joint=self.shares.joint, plain=self.shares.plain)
        kept = [c for c in self.certified if c.snapshot.digest != snapshot.digest]
        earlier = [c for c in self.certified if c.snapshot.digest == snapshot.digest]
        certificates = (*(earlier[0].certificates if earlier else ()), certificate)
        guarantees = earlier[0].guarantees if earlier else ()
        return replace(self, certified=(*kept, Certified(snapshot, certificates, guarantees)))

    def with_typical(self, snapshot: Snapshot, error: TypicalError) -> Knowledge:
        error = replace(error, plain=self.shares.plain)
        return replace(self, typical=(*self.typical, Typical(snapshot, error)))

    def with_batch(self, digests: tuple[str, ...], batch: CertifiedBatch) -> Knowledge:
        certificate = replace(batch.certificate, joint=self.shares.joint, plain=self.shares.plain)
        batch = replace(batch, certificate=certificate)
        return replace(self, batches={**self.batches, **dict.fromkeys(digests, batch)})

    def with_model(self, loss: ConvexLoss, model: PaidModel) -> Knowledge:
        """Knowledge with a purchased model, added once."""
        known = self.models.get(loss.digest, ())
        if any(model.ledger_id == other.ledger_id for other in known):
            return self
        return replace(self, models={**self.models, loss.digest: (*known, model)})

    def with_mean(self, digest: str, mean: RawMean) -> Knowledge:
        """Knowledge with a purchased mean, added once."""
        known = self.means.get(digest, ())
        if any(mean.ledger_id == other.ledger_id for other in known):
            return self
        return replace(self, means={**self.means, digest: (*known, mean)})

    def with_sums(self, digest: str, sums: RawSums) -> Knowledge:
        """Knowledge with purchased sums, added once."""
        known = self.sums.get(digest, ())
        if any(sums.ledger_id == other.ledger_id for other in known):
            return self
        return replace(self, sums={**self.sums, digest: (*known, sums)})

    def with_bin_means(self, means: Mapping[str, BinMeans]) -> Knowledge:
        """Knowledge with measured offsets; they move values, not the working hypothesis."""
        return replace(self, bin_means={**self.bin_means, **means})

    def with_current(self, current: Snapshot) -> Knowledge:
        """Knowledge with a working hypothesis that was fitted to all measurements."""
        return replace(self, current=current, unfitted=0, fitted=len(self.marginals))

    def with_note(self, note: str) -> Knowledge:
        return replace(self, notes=(*self.notes, note)) if note and note not in self.notes else self

    def measurements(self) -> list[Measurement]:
        """All measurements, in the form that a fit takes."""
        own = [m for m in self.marginals if not m.combined]
        found = [Measurement(Marginal(m.attributes), m.values, m.sd, m.noise.describe()) for m in own]
        found += self.residuals
        for repeats in self.queries.values():
            found += [
                Measurement(m.query, np.asarray(m.value), m.noise.sd / self.records, m.noise.describe())
                for m in repeats
            ]
        return found + [measurement for measured in self.groups for measurement in measured.measurements()]

    # -- reading -------------------------------------------------------------------------------------------

    def readings(self, query: Single, confidence: float) -> list[Reading]:
        """Every certified statement about a question, in the order cache, certificate, derived."""
        asked = AskedNumber(self.form(query)) if isinstance(query, Linear) else AskedTable(query, self.domain)
        return [source.reading(asked) for source in self._sources(asked, confidence)]

    def free(self, query: Single, confidence: float, wanted: float | None) -> Reading | None:
        """The first reading within `wanted`, a fraction; without `wanted`, the reading with the smallest error.

        If statements hold jointly: the question's own purchase, otherwise the intersection of all other statements.
        """
        if self.shares.joint:
            return self._joint(query, confidence, wanted)
        if not isinstance(query, Linear):
            return best(self.readings(query, confidence), wanted, self.vacuous)
        form = query.compile(self.domain)
        outlined = form.outline
        if len(outlined.attributes) < len(form.attributes):
            form = essential(form)
        asked = AskedNumber(form)
        if outlined.kind == "weighted" or self._guaranteed or (self._bought_singly and self._repeated(form)):
            source = best(self._sources(asked, confidence), wanted, self.vacuous)
        else:
            source = self._choice(asked, (outlined, confidence, wanted))
        return None if source is None else source.reading(asked)

    def _joint(self, query: Single, confidence: float, wanted: float | None) -> Reading | None:
        asked = AskedNumber(self.form(query)) if isinstance(query, Linear) else AskedTable(query, self.domain)
        ways = self._ways(asked, confidence)
        own = ways.own
        bought = best(own, wanted, self.vacuous) if own else None
        if bought is not None and wanted is not None:
            return bought.reading(asked)  # what was bought never changes
        found = None
        if wanted is None and ways.fit is not None and isinstance(asked, AskedNumber) and asked.attributes:
            found = _number(asked.form, ways, self.whole)
        if found is None:
            found = self._intersected(query, asked, ways.wide, confidence, wanted)
        if bought is None:
            return found
        return bought.reading(asked) if found is None or found.bounds is None else self._cut(bought, asked, found)

    def _cut(self, bought: Source, asked: Asked, found: Reading) -> Reading:
        """What was bought for a question, as far as all other statements about it, `found`, leave it possible; or these
        where they alone are narrower.

        Nowhere is the result wider than what was bought, or than the other statements.
        """
        read, other = asked.read(bought.held), found.bounds
        assert other is not None, "statements that were intersected"
        own = joined([(read, bought.error)], read, self.whole)
        value = own.value()
        if found.error < own.error(value):
            return found
        both = Bounds(*_overlap(own, other), own.fitted)
        if both.empty:  # one of them failed: what was bought speaks for itself
            return bought.reading(asked)
        each = np.minimum(_errors(own, value), _errors(other, found.compute()))
        least, most = np.maximum(both.low, both.high - each), np.minimum(both.high, both.low + each)
        moved = np.clip(value, least, most)
        near = float(moved) if isinstance(read, float) else moved
        return Reading(both.error(near), bought.origin, lambda: near, None, bought.ledger_id, both)

    def _intersected(
        self, query: Single, asked: Asked, wide: Sequence[Source], confidence: float, wanted: float | None
    ) -> Reading | None:
        """The intersection of all statements about the question, and the fitted value moved into it."""
        stated = [(asked.read(source.held), source.error) for source in wide]
        logical = self.whole
        if isinstance(asked, AskedNumber) and self._needs_wholes(wide, stated, wanted):
            logical = self._of_wholes(asked.form, confidence)
        if not wide and logical == self.whole:
            return None
        bounds = joined(stated, 0.0, logical)
        if wanted is not None and (bounds.empty or bounds.width > 2 * wanted * ROUNDING):
            return None
        fitted, first = self._fitted(query, wide, stated), wide[0] if wide else Source(inf, "derived", self.current)
        bounds = bounds._replace(fitted=fitted)
        if bounds.empty:
            if logical != self.whole:
                # Intervals from fewer attributes may contradict each other; their ends are then in the wrong order.
                stated.append(((logical[0] + logical[1]) / 2, abs(logical[1] - logical[0]) / 2))
            nearest = Bounds(*self.whole, fitted).value()  # a marginal that speaks for itself may be below zero
            contradicted = hull(stated, fitted, self.whole)
            return Reading(inf, "conflict", lambda: nearest, self.current.digest, None, contradicted)
        value = bounds.value(wanted)
        error = bounds.error(value)
        if not wide and error >= self.vacuous:
            return None
        return Reading(error, first.origin, lambda: value, first.snapshot, first.ledger_id, bounds)

    def _needs_wholes(self, wide: Sequence[Source], stated: Sequence[tuple[Any, float]], wanted: float | None) -> bool:
        """Whether conditions on fewer attributes may give a smaller interval: the question's own statements are too
        wide, or not from a snapshot.

        A certificate of the same snapshot never gives less for the question itself than for a condition on fewer
        attributes.
        """
        if not wide:
            return True
        if wanted is None:
            return not isinstance(wide[0].held, Snapshot)
        return joined(stated, 0.0, self.whole).width > 2 * wanted * ROUNDING

    def _of_wholes(self, form: Form, confidence: float) -> tuple[float, float]:
        """The interval of a condition on several attributes from intervals of conditions on fewer of them.

        A part is at most its whole; the intersection of two conditions is at least their sum minus the condition that
        contains both (Fréchet).
        """
        low, high = whole = self.whole
        if not isinstance(form, Product) or not form.binary or len(form.attributes) < 2:
            return low, high
        vectors = dict(zip(form.attributes, form.vectors, strict=True))
        known: dict[tuple[str, ...], tuple[float, float]] = {(): (2 - high, high)}
        for names in self._parts_of(form.attributes):
            known[names] = self._stated(Product(names, tuple(vectors[name] for name in names)), confidence)
            high = min(high, known[names][1])
        for (first, (least, _)), (second, (other, _)) in itertools.combinations(known.items(), 2):
            if least > 0 and other > 0 and len(set(first) | set(second)) == len(vectors):
                shared = tuple(name for name in first if name in second)
                low = max(low, least + other - known.get(shared, whole)[1])
        return low, high

    def _stated(self, form: Form, confidence: float) -> tuple[float, float]:
        """The interval of a number from all statements that hold for all questions."""
        asked = AskedNumber(form)
        own, wide, _ = self._ways(asked, confidence)
        stated = [(asked.read(source.held), source.error) for source in wide]
        for source in own:
            if isinstance(held := source.held, MeasuredMarginal):
                stated.append((asked.read(held), held.for_all.error_of(form, confidence)))
        bounds = joined(stated, 0.0, self.whole)
        return float(bounds.low), float(bounds.high)

    def _parts_of(self, attributes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Sets of fewer attributes with statements, the largest first."""
        found = self._wholes.get(attributes)
        if found is None:
            if len(self._wholes) >= KEPT_CHOICES:
                self._wholes.clear()
            stated = [marginal.attributes for marginal in self.marginals]
            stated += [names for certificate in self.certificates for names in certificate.sets]
            common = {tuple(name for name in attributes if name in names) for names in map(set, stated)}
            parts = {part for names in common for part in _subsets(names) if part != attributes}
            found = tuple(sorted(parts, key=lambda part: (-len(part), part))[:MOST_PARTS])
            self._wholes[attributes] = found
        return found

    def _fitted(self, query: Single, wide: Sequence[Source], stated: Sequence[tuple[Any, float]]) -> Any:
        """The value of the working hypothesis, which combines all measurements to which it was fitted.

        A marginal to which it was not fitted yet is used instead if it is the narrowest statement.
        """
        first = wide[0].held if wide else None
        if isinstance(first, MeasuredMarginal) and first.rank > self.fitted:
            return self._possible(query, stated[0][0])
        for source, (value, _) in zip(wide, stated, strict=True):
            if source.held is self.current:
                return value
        return self.guess(query, named=False).compute()

    def _possible(self, query: Single, measured: Any) -> Any:
        """A noisy value, set to 0 where the hypothesis has probability 0 because of rules."""
        if not self.domain.impossible:
            return measured
        guess = self.guess(query, named=False).compute()
        if isinstance(guess, float):
            return measured if guess else 0.0
        return np.where(np.asarray(guess) == 0.0, 0.0, measured)

    def _ways(self, asked: Asked, confidence: float) -> Ways:
        if isinstance(asked, AskedNumber) and not (self._bought_singly and self._repeated(asked.form)):
            outlined = asked.form.outline
            if outlined.kind != "weighted":
                key, choices = (outlined, confidence, None), self._choices
                found = choices.get(key)
                if found is None:
                    if len(choices) >= KEPT_CHOICES:
                        choices.clear()
                    found = choices[key] = self._sorted(asked, confidence)
                return found
        return self._sorted(asked, confidence)

    def _sorted(self, asked: Asked, confidence: float) -> Ways:
        sources = self._sources(asked, confidence)
        own = [source for source in sources if asked.bought(source.held)]
        # A theorem's bound has a separate failure probability, so it is not intersected.
        others = (s for s in sources if not asked.bought(s.held) and s.origin != "theorem")
        wide = sorted((s for s in others if s.error < self.vacuous), key=lambda s: s.error)
        wide = [source for source in wide[:MOST_READ] if source.error <= WIDER * wide[0].error]
        by_snapshot = bool(wide) and isinstance(wide[0].held, Snapshot)
        return Ways(own, wide, self.current if by_snapshot and any(s.held is self.current for s in wide) else None)

    def typical_error(
        self, query: Single, share: float | np.ndarray, fitted: float | np.ndarray | None, confidence: float
    ) -> float | None:
        """The typical error of questions like this one, for a given answered share; None if the distribution does not
        draw them.

        The statement applies to a snapshot, from which the share may differ. `fitted` is the value of the working
        hypothesis, if it is already known.
        """
        asked, stated = self._typical_of(query, confidence)
        least = inf
        for bound, snapshot in stated:
            if bound < least:
                known = fitted is not None and (snapshot is self.current or snapshot.digest == self.current.digest)
                guess = fitted if known else asked.read(snapshot)
                least = min(least, bound + _farthest(share, guess))
        return least if least < self.vacuous else None

    def audited(self, query: Single, confidence: float) -> Reading | None:
        """The value of the snapshot with the smallest typical error for questions like this one; None without one."""
        asked, stated = self._typical_of(query, confidence)
        if not stated:
            return None
        _, snapshot = min(stated, key=lambda one: one[0])
        value, fitted = asked.read(snapshot), self.guess(query, named=False).compute()
        return Reading(inf, "typical", lambda: value, snapshot.digest, bounds=Bounds(*WHOLE, fitted))

    def _typical_of(self, query: Single, confidence: float) -> tuple[Asked, list[tuple[float, Snapshot]]]:
        """The question, and the typical errors whose distributions draw it, each with its snapshot."""
        if not isinstance(query, Linear):
            asked = AskedTable(query, self.domain)
            forms = [essential(form) for form in asked.forms] if self.typical else []
        else:
            asked = AskedNumber(self.form(query))
            forms = asked.forms
        drawn = (typical for typical in self.typical if self._drawn(typical.error, asked, forms))
        return asked, [(typical.error.bound_at(confidence), typical.snapshot) for typical in drawn]

    def _drawn(self, error: TypicalError, asked: Asked, forms: Sequence[Form]) -> bool:
        """Whether a distribution draws the question, or every cell of a table."""
        if isinstance(asked, AskedNumber):
            return error.asks(asked.form, self.domain)
        if not forms or not all(error.asks(form, self.domain) for form in forms):
            return False
        return all(
            self.domain[name].size == self.domain[name].known or not has_ranges(self.domain[name])
            for name in asked.query.names
        )

    def restated(self, reading: Reading, query: Linear, confidence: float) -> Reading:
        """The statements of the certificates behind a reading, for the same snapshot at another confidence."""
        certified = next(one for one in self.certified if one.snapshot.digest == reading.snapshot)
        bounds = [bound for bound in certified.bounds if bound.origin == reading.origin]
        return reading._replace(error=tightest(bounds, self.form(query), confidence)[0])

    def guess(self, query: Single, *, named: bool = True) -> Reading:
        """The working hypothesis' own answer without a certificate; naming its snapshot hashes the whole hypothesis."""
        current = self.current

        def value(held: Hypothesis | Snapshot) -> float | np.ndarray:
            return held.expect(query) if isinstance(query, Linear) else AskedTable(query, self.domain).on(held)

        return Reading(inf, "hypothesis", partial(read_snapshot, current, value), current.digest if named else None)

    def model(self, loss: ConvexLoss, confidence: float) -> tuple[float, PaidModel] | None:
        """The purchased model of a loss with the smallest error at this confidence, and that error."""
        scale, known = loss.on(self.domain).scale, self.models.get(loss.digest, ())
        found = [(model.error(confidence, self.records_error), model) for model in known]
        return min((way for way in found if way[0] < scale), key=lambda way: way[0], default=None)

    def _choice(self, asked: AskedNumber, key: tuple[Outline, float, float | None]) -> Source | None:
        """The source for all sums of cells of one outline, cached because it is the same for all of them."""
        choices = self._choices
        found: Any = choices.get(key, UNASKED)
        if found is UNASKED:
            if len(choices) >= KEPT_CHOICES:
                choices.clear()
            found = choices[key] = best(self._sources(asked, key[1]), key[2], self.vacuous)
        return found

    def _sources(self, asked: Asked, confidence: float) -> list[Source]:
        """Every certified statement about a question, with its error."""
        if not self.counting:
            return self._stated_sources(asked, confidence)
        if isinstance(asked, AskedNumber) and not asked.attributes:
            # What holds for every record is as large as the number of records, or as a constant part of it.
            whole = Source(self.records_error * asked.read(self.current), "derived", self.current)
            return [whole, *map(self._of_records, self._repeats(asked.form, confidence))]
        return [self._of_records(source) for source in self._stated_sources(asked, confidence)]

    def _of_records(self, source: Source) -> Source:
        """The same statement about shares of the released number of records.

        Noise was added to counts, so measured ones have the error of the number of records besides their noise. Audits
        leave it out already.
        """
        if isinstance(source.held, Snapshot):
            return source
        return source._replace(error=source.error - self.records_error * (1 - VALUE_ROUNDING))

    def _stated_sources(self, asked: Asked, confidence: float) -> list[Source]:
        if isinstance(asked, AskedNumber):
            found = self._repeats(asked.form, confidence)
            if not asked.attributes and not self.records_error:
                # What holds for every record, or for none, needs no measurement where their number is public.
                found.append(Source(0.0, "public", self.current))
        else:
            found = self._repeated_groups(asked.query, confidence)
        forms = asked.forms if self.certified or self.marginals else ()
        if not forms:
            return found
        for certified in self.certified:
            bounds = (tightest(certified.bounds, form, confidence) for form in forms)
            error, bound = max(bounds, key=lambda pair: pair[0])
            if bound is not None:
                snapshot = certified.snapshot
                found.append(Source(error, bound.origin, snapshot, snapshot.digest, bound.ledger_id))
        for measured in self._covering(asked.attributes):
            error = max(measured.error_of(form, confidence) for form in forms)
            found.append(Source(error, asked.origin(measured), measured, None, measured.ledger_id))
        return found

    @cached_property
    def _bought_singly(self) -> bool:
        """Whether anything was answered that was asked by itself."""
        return bool(self.queries or self.batches or self.groups)

    @cached_property
    def _guaranteed(self) -> bool:
        """Whether some bound depends on the query itself and not only on its outline."""
        return any(certified.guarantees for certified in self.certified)

    def _repeated(self, form: Form) -> bool:
        """Whether exactly this question was answered before, possibly as one of several groups."""
        if (self.queries or self.batches) and (form.digest in self.queries or form.digest in self.batches):
            return True
        return bool(self.groups.holding(form))

    def _repeats(self, form: Form, confidence: float) -> list[Source]:
        found = []
        for grouped in self.groups.holding(form):
            found.append(Source(grouped.error_at(confidence), "cache", grouped, None, grouped.ledger_id))
        if not (self.queries or self.batches):
            return found
        for measured in self.queries.get(form.digest, ()):
            error = measured.error_at(confidence, self.records, self.records_error)
            found.append(Source(error, "cache", measured, None, measured.ledger_id))
        batch = self.batches.get(form.digest)
        if batch is not None:
            snapshot, certificate = batch.snapshot, batch.certificate
            certificate = certificate.of_counts if self.counting else certificate
            error = certificate.bound_at(confidence)
            found.append(Source(error, "batch", snapshot, snapshot.digest, certificate.ledger_id))
        return found

    def _repeated_groups(self, query: Marginal | Groups, confidence: float) -> list[Source]:
        if isinstance(query, Marginal):
            return []  # a marginal that was bought is among the measured ones
        return [
            Source(measured.error_at(confidence), "cache", measured, None, measured.ledger_id)
            for measured in self.groups.same(query, self.domain)
        ]

    def _covering(self, attributes: tuple[str, ...]) -> tuple[MeasuredMarginal, ...]:
        """Measured marginals that contain these attributes; cached for each attribute set."""
        if not attributes:
            return ()
        found = self._index.get(attributes)
        if found is None:
            found = tuple(m for m in self.marginals if set(attributes) <= set(m.attributes))
            self._index[attributes] = found
        return found

    def finest_sd(self, attributes: tuple[str, ...]) -> float:
        """The smallest noise of a cell of these attributes among measured marginals, in records; else infinite."""
        return min((measured.summed_sd(attributes) for measured in self._covering(attributes)), default=inf)

    @cached_property
    def tables(self) -> dict[tuple[Single, tuple[str, ...], float, bool], Any]:
        """Free answers to groups and marginals by question, confidence and strictness; cached by `sql.asking`."""
        return {}

    @cached_property
    def bin_offsets(self) -> dict[str, np.ndarray]:
        """The distance of the mean of each code's numbers from its representative, in the column's unit."""
        found = {}
        for name, measured in self.bin_means.items():
            attribute = self.domain[name]
            assert isinstance(attribute, Numeric), "only numbers lie in bins"
            counts = np.asarray(self.current.marginal((name,))) * self.records
            found[name] = np.zeros(attribute.size)
            found[name][: attribute.known] = measured.offsets(attribute, counts)
        return found

    @cached_property
    def _index(self) -> dict[tuple[str, ...], tuple[MeasuredMarginal, ...]]:
        return {}

    @cached_property
    def _wholes(self) -> dict[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        return {}

    @cached_property
    def _choices(self) -> dict[tuple[Outline, float, float | None], Any]:
        """A source, or none, by outline, confidence and requested error; for joint statements, all that are read."""
        return {}


def _number(form: Form, ways: Ways, whole: tuple[float, float]) -> Reading | None:
    """The best there is of one number, where the fit is among the statements: most questions by far.

    None where these contradict each other.
    """
    low, high = whole
    wide, fit = ways.wide, ways.fit
    fitted = 0.0
    for error, _, held, _, _ in wide:
        value = held.expect(form) if isinstance(held, Snapshot) else held.value_of(form)
        if held is fit:
            fitted = value
        if value - error > low:
            low = float(value - error)
        if value + error < high:
            high = float(value + error)
    if low > high:
        return None
    value = low if fitted < low else high if fitted > high else fitted
    first = wide[0]
    error = max(value - low, high - value)
    return Reading(error, first.origin, lambda: value, first.snapshot, first.ledger_id, Bounds(low, high, fitted))


def _overlap(first: Bounds, second: Bounds) -> tuple[Any, Any]:
    low, high = np.maximum(first.low, second.low), np.minimum(first.high, second.high)
    return (low, high) if np.ndim(low) or np.ndim(high) else (float(low), float(high))


def _errors(bounds: Bounds, value: Any) -> Any:
    """The largest distance of the true value from a value, in every cell."""
    return np.maximum(value - bounds.low, bounds.high - value)


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All non-empty subsets; for many attributes only the full set and those of up to two attributes."""
    sizes = range(1, len(names) + 1) if len(names) <= FEW_ATTRIBUTES else (1, 2, len(names))
    return itertools.chain.from_iterable(itertools.combinations(names, size) for size in sizes)


def _farthest(share: Any, guess: Any) -> float:
    """The largest distance of two numbers, or of two tables cell by cell."""
    if isinstance(share, float) and isinstance(guess, float):
        return abs(share - guess)
    return float(np.max(np.abs(np.asarray(share) - np.asarray(guess)), initial=0.0))


def best(ways: Sequence[Way], wanted: float | None = None, vacuous: float = VACUOUS) -> Way | None:
    """The first source within the requested error; without one, the source with the smallest error."""
    if wanted is not None:
        return next((way for way in ways if way.error <= wanted), None)
    return min((way for way in ways if way.error < vacuous), key=lambda way: way.error, default=None)


def group_values(query: Groups, distribution: AnswerSource) -> np.ndarray:
    """All groups from one marginal, or one by one if the marginal would be too large."""
    domain = distribution.domain
    if query.fits(domain):
        return query.read(domain, distribution.marginal(query.span(domain)))
    shape = domain.shape_of(query.names)
    if (groups := math.prod(shape)) > ONE_BY_ONE:
        raise QueryError(
            f"{groups} groups whose condition spans {', '.join(query.span(domain))}; at most {ONE_BY_ONE}: "
            "group by fewer columns or drop a condition"
        )
    return np.array([distribution.expect(part) for part in query.parts(domain)]).reshape(shape)
