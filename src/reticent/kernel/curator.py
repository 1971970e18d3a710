"""`Curator`: the only access to rows, by four verbs, each of which pays before it samples.

Every call runs: validate on public facts -> price -> budget check -> exact integers -> durable reservation -> noise ->
durable settlement -> return (docs/ledger.md). The result is read from the settled event, so that a live answer and a
replayed one are the same bytes.
"""

from __future__ import annotations

import base64
import math
import os
import threading
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.domain import Domain, Undeclared
from reticent.errors import LedgerError, QueryError
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.discovery.lines import CalendarLine, NumberLine
from reticent.kernel.discovery.medians import MedianScores
from reticent.kernel.discovery.values import ValueCounts
from reticent.kernel.ledger.events import canonical, sha256
from reticent.kernel.ledger.ledger import Event, Ledger
from reticent.kernel.linear_scores import LargestError, LinearScores
from reticent.kernel.mechanisms.base import (
    AboveThreshold,
    Exponential,
    Gaussian,
    Laplace,
    Sensitivity,
    Thresholded,
    Watch,
    restore,
)
from reticent.kernel.mechanisms.sampler_check import verify_samplers
from reticent.kernel.minimizers.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.minimizers.families import MINIMIZERS, Minimizer
from reticent.kernel.minimizers.solvers import refuse_long
from reticent.kernel.numeric_sums import BinOffsets, ClippedSums
from reticent.kernel.order_statistic import ErrorQuantile
from reticent.kernel.residual_counts import ResidualCounts, joint_price
from reticent.kernel.statistics import (
    FLOATS,
    STATISTICS,
    BlockCounts,
    CellScores,
    ConjunctionScores,
    GroupCounts,
    LinearCount,
    MarginalCounts,
    PartitionCounts,
    Statistic,
)
from reticent.kernel.table import Table, exact_counts
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal, Residual

OTHER_STATISTICS = (
    BlockCounts,
    LinearScores,
    LargestError,
    ErrorQuantile,
    BinOffsets,
    ClippedSums,
    ExcessRisk,
    ExcessRisks,
    ResidualCounts,
    PartitionCounts,
)
"""Statistics of modules of their own."""

Noise = Laplace | Gaussian
Asked = Linear | Marginal | Groups | Residual | Statistic

SCORES = (CellScores, ConjunctionScores, LinearScores, ExcessRisks)
"""Lists whose sensitivity is that of each entry alone: candidates to select from, never numbers to measure."""


KEPT = "kept"
"""Free events that hold public bytes of an unfinished run."""
NAMED = 24
"""So many digits of a state name it in a key."""


@dataclass(frozen=True, eq=False)
class Settled:
    """The release of a verb: noisy numbers in records, or indices; its cost in nano-units and its ledger event.

    `noises` are those of measured numbers as they were drawn: a key that an earlier version charged keeps its noise.
    """

    values: tuple[np.ndarray, ...]
    cost: int
    ledger_id: int
    noises: tuple[Noise, ...] = ()


class Epoch:
    """One AboveThreshold run, charged completely when it opens; its noisy threshold is in memory only (spec 2.1)."""

    def __init__(
        self, mechanism: AboveThreshold, threshold: float, settled: Settled, moved: Fraction | None = None
    ) -> None:
        self.mechanism = mechanism
        self.threshold = threshold
        self.moved = moved
        """The most that one person moves any tested value, in records; without it, what the first one tested does."""
        self.cost = settled.cost
        self.ledger_id = settled.ledger_id
        self._watch: Watch | None = None
        self._scale: tuple[int, int] | None = None
        self._ended = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an open epoch holds a secret threshold and is never stored")

    @property
    def open(self) -> bool:
        return not self._ended and (self._watch is None or not self._watch.spent)

    def end(self) -> None:
        """Give up the rest of the run; its charge stands."""
        self._ended, self._watch = True, None


class Curator:
    """Answers `measure`, `select`, `exceeds` and `minimize` about one table against one ledger."""

    def __init__(self, table: Table, ledger: Ledger) -> None:
        verify_samplers()  # before anything is reserved that could then not be drawn
        ledger.require(table.identity)
        self._table = table
        self._ledger = ledger
        self._epochs: weakref.WeakSet[Epoch] = weakref.WeakSet()
        self.worked = 0
        """Cells visited by solvers so far: a function of what was asked, the same on every table."""

    @property
    def domain(self) -> Domain:
        return self._table.domain

    @property
    def neighbours(self) -> str:
        return self._table.neighbours

    @property
    def records(self) -> int | None:
        """The public number of records (or persons); None if it is private."""
        return self._table.records

    @property
    def unit(self) -> str:
        """The unit of counting: records, persons, or rows of persons."""
        return self._table.unit

    @property
    def most(self) -> int | None:
        """The number of rows of one person that count, if rows are the unit."""
        return self._table.most

    def has_numbers(self, column: str) -> bool:
        """Whether the table holds the positions of a column's numbers within bins: a public fact of how it was read."""
        return self._table.has_numbers(column)

    def moved(self, sensitivity: Sensitivity) -> Sensitivity:
        """The sensitivity on this table, given that of one record: a person may have several rows."""
        return sensitivity.times(self._table.most or 1)

    def sensitivity(self, statistic: Statistic) -> Sensitivity:
        """The largest change of a statistic of this table between neighbours."""
        return self.moved(statistic.sensitivity(self.neighbours))

    @property
    def version(self) -> str | None:
        """The custodian's declared version of the table."""
        return self._table.version

    @property
    def budget(self) -> Budget:
        return self._ledger.budget

    @property
    def remaining(self) -> int:
        """Nano-units left."""
        return self._ledger.remaining

    def affordable(self, cost: int, *, key: str | None = None, analyst: str | None = None) -> None:
        """Raise BudgetError unless budget and cap can pay this now; for work that must not begin otherwise."""
        self._ledger.affordable(cost, key=key, analyst=analyst)

    def as_drawn(self, noise: Noise) -> Noise:
        """The noise on the grid of this ledger: one that composes exactly draws it on a fine grid."""
        return noise.refined() if self.budget.gaussian else noise

    def price(self, queries: Sequence[Asked], mechanism: Noise | Sequence[Noise]) -> Price:
        """The charge of `measure` with the same arguments."""
        return self.priced(queries, mechanism)[2]

    def priced(
        self, queries: Sequence[Asked], mechanism: Noise | Sequence[Noise], key: str | None = None
    ) -> tuple[list[Statistic], list[Noise], Price]:
        """The statistics of the queries, the mechanism of each, and the charge of `measure` with the same arguments."""
        statistics = [self._statistic(query) for query in queries]
        mechanisms = list(mechanism) if isinstance(mechanism, Sequence) else [mechanism] * len(statistics)
        if not statistics or len(mechanisms) != len(statistics):
            raise QueryError(
                f"{len(statistics)} queries and {len(mechanisms)} mechanisms: give one mechanism per query"
            )
        for noise in mechanisms:
            _of_the_kernel(noise, Laplace, Gaussian)
        mechanisms = [self.as_drawn(noise) for noise in mechanisms]
        begun = (None if key is None else self._ledger.requested(key)) or {}
        former: list[Any] = [restore(described) for described in begun.get("mechanisms", ())]
        if len(former) == len(mechanisms) and all(a.continues(b) for a, b in zip(mechanisms, former, strict=True)):
            mechanisms = former
        price, together = Price.free(), []
        for statistic, noise in zip(statistics, mechanisms, strict=True):
            if isinstance(statistic, ResidualCounts) and isinstance(noise, Gaussian):
                together.append((statistic, noise))
            else:
                price = price + noise.price(self.sensitivity(statistic))
        if together:
            price = price + joint_price(together, self.neighbours) * (self.most or 1) ** 2
        return statistics, mechanisms, price

    def measure(
        self,
        queries: Sequence[Asked],
        mechanism: Noise | Sequence[Noise],
        *,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Settled:
        """Noisy values in records, one array per query; several queries are one event and their prices add up.

        Residuals with Gaussian noise have a joint price, which is smaller (docs/proofs/residuals.md).
        """
        statistics, mechanisms, price = self.priced(queries, mechanism, key)
        request = {
            "statistics": [statistic.describe() for statistic in statistics],
            "mechanisms": [m.describe() for m in mechanisms],
        }

        def sample() -> Callable[[], list[np.ndarray]]:
            exact = [s.evaluate(exact_counts(self._table), self._table.grid) for s in statistics]
            grids = [s.resolution(self._table.grid) * self._table.grid for s in statistics]
            for noise, grid in zip(mechanisms, grids, strict=True):
                noise.grid_scale(grid * noise.refinement(grid))  # refused before anything is charged
            return lambda: [m.release(x, g) for m, x, g in zip(mechanisms, exact, grids, strict=True)]

        if any(isinstance(getattr(statistic, "state", None), str) for statistic in statistics):
            named = all(_named(statistic, key) for statistic in statistics)
            request = self._as_begun(
                key, request, lambda: {**request, "statistics": [_stateless(s).describe() for s in statistics]}, named
            )
        event = self._paid("measure", price, request, sample, key, analyst, work=sum(map(_work, statistics)))
        return released(event, statistics, mechanisms, self._table.grid)

    def select(
        self,
        scores: Statistic,
        mechanism: Exponential,
        *,
        draws: int = 1,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Settled:
        """Indices drawn by the exponential mechanism with the given scores; every draw pays."""
        if draws < 1:
            raise QueryError(f"{draws} draws: ask for at least one")
        self._known(scores)
        _of_the_kernel(mechanism, Exponential)
        request = {"scores": scores.describe(), "mechanisms": [mechanism.describe()], "draws": draws}
        if getattr(scores, "state", None) is not None:
            # No certificate depends on which of two nearly equal lists of scores an index was drawn from.
            request = self._as_begun(key, request, lambda: {**request, "scores": _stateless(scores).describe()}, True)
        sensitivity = self.sensitivity(scores).l1

        def sample() -> Callable[[], list[np.ndarray]]:
            exact = scores.evaluate(exact_counts(self._table), self._table.grid)
            grid = scores.resolution(self._table.grid) * self._table.grid
            return lambda: [mechanism.draw(exact, sensitivity, grid, draws)]

        event = self._paid("select", mechanism.price() * draws, request, sample, key, analyst, work=_work(scores))
        return Settled(tuple(unpack_array(text) for text in event.payload["values"]), event.cost, event.sequence)

    def select_medians(
        self, scores: MedianScores, mechanism: Exponential, *, key: str | None = None, analyst: str | None = None
    ) -> Settled:
        """A position for each piece; one price for all of them, because a unit changes all their scores by one
        together.
        """
        _of_the_kernel(scores, MedianScores)
        _of_the_kernel(scores.line, NumberLine, CalendarLine)  # it is shown the rows' numbers
        _of_the_kernel(mechanism, Exponential)
        self._require_undeclared(scores.name)
        request = {"scores": scores.describe(), "mechanisms": [mechanism.describe()], "draws": 1}

        def sample() -> Callable[[], list[np.ndarray]]:
            runs = scores.evaluate(exact_counts(self._table), self._table.grid)  # pyright: ignore[reportArgumentType]
            sensitivity = scores.sensitivity(self.neighbours)
            return lambda: [scores.draw(runs, mechanism, sensitivity, self._table.grid)]

        event = self._paid("select", mechanism.price(), request, sample, key, analyst)
        return Settled(tuple(unpack_array(text) for text in event.payload["values"]), event.cost, event.sequence)

    def select_values(
        self, values: ValueCounts, mechanism: Thresholded, *, key: str | None = None, analyst: str | None = None
    ) -> Settled:
        """Texts whose noisy number of units passes the threshold, and these numbers."""
        _of_the_kernel(values, ValueCounts)
        _of_the_kernel(mechanism, Thresholded)
        self._require_undeclared(values.name)
        if values.most != mechanism.most:
            raise QueryError(
                f"a unit counts for {values.most} texts and the mechanism allows {mechanism.most}; use the same number"
            )
        request = {"scores": values.describe(), "mechanisms": [mechanism.describe()], "draws": 1}

        def sample() -> Callable[[], list[np.ndarray]]:
            texts, counts = values.evaluate(exact_counts(self._table))  # pyright: ignore[reportArgumentType]

            def draw() -> list[np.ndarray]:
                shown, noisy = mechanism.release(texts, counts)
                return [np.array(shown.tolist() or [""])[: len(shown)], noisy]

            return draw

        event = self._paid("select", mechanism.price(self.neighbours), request, sample, key, analyst)
        return Settled(tuple(unpack_array(text) for text in event.payload["values"]), event.cost, event.sequence)

    def _require_undeclared(self, name: str) -> None:
        if not isinstance(self.domain[name], Undeclared):
            raise QueryError(f"{name} is declared, so there is nothing to discover; ask for its marginal")

    def watch(
        self,
        threshold: float,
        mechanism: AboveThreshold,
        *,
        moved: Fraction | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Epoch:
        """Open an epoch for `exceeds`: it is charged completely and never redeemed.

        `moved` is the largest change of any tested value by one person, in records; it scales the noises. `key` only
        names the charge; a second epoch under it is refused.
        """
        _of_the_kernel(mechanism, AboveThreshold)
        request = {"threshold": threshold, "mechanisms": [mechanism.describe()]}
        event = self._paid("watch", mechanism.price(), request, lambda: list, key, analyst, redeemable=False)
        epoch = Epoch(mechanism, threshold, Settled((), event.cost, event.sequence), moved)
        self._epochs.add(epoch)
        return epoch

    def exceeds(self, error: Statistic, epoch: Epoch) -> bool:
        """Whether a noisy error passes the epoch's noisy threshold; the first True ends the epoch."""
        self._known(error)
        if epoch not in self._epochs:
            raise QueryError("this epoch was paid from another ledger; open a new one with watch")
        if epoch._ended:
            raise QueryError("this epoch has ended; open and pay for a new one")
        refuse_long(work := _work(error))
        if os.getpid() != epoch._process:
            # Parent and child could each end the epoch once: two positive answers for one charge.
            raise LedgerError("the epoch was opened by a parent process: use it in that process only")
        grid = error.resolution(self._table.grid) * self._table.grid
        own = math.ceil(self.sensitivity(error).l1 * grid)
        step = own if epoch.moved is None else math.ceil(epoch.moved * grid)
        if own > step:
            raise QueryError(
                f"one person moves this statistic by {own / grid:g}, in this epoch at most {step / grid:g}:"
                " open an epoch for it"
            )
        # Two threads that use a new epoch at once would draw two thresholds for one charge.
        with epoch._lock:
            if epoch._watch is None:
                epoch._watch = epoch.mechanism.open(round(epoch.threshold * grid), step)
                epoch._scale = (grid, step)
        if epoch._scale != (grid, step):
            raise QueryError("an epoch compares statistics of one sensitivity and resolution; open another epoch")
        self.worked += work
        return epoch._watch.exceeds(int(error.evaluate(exact_counts(self._table), self._table.grid)))

    def minimize(self, minimizer: Minimizer, *, key: str | None = None, analyst: str | None = None) -> Settled:
        """Parameters from a private minimiser of one convex loss."""
        if type(minimizer) not in MINIMIZERS:
            raise QueryError(
                f"{type(minimizer).__name__} is not a minimiser of the kernel; use one of those it defines"
            )
        if self.most is not None:
            raise QueryError("models need records or persons as units; read the table without rows='bounded'")
        if minimizer.domain != self.domain or minimizer.neighbours != self.neighbours:
            raise QueryError("this minimiser was declared for another domain or neighbour relation; declare it again")
        if self.records is not None and minimizer.records != self.records:
            raise QueryError(f"this minimiser divides by {minimizer.records}; the table has {self.records} records")
        if key is None or self._ledger.lookup(key) is None:
            minimizer.refuse_infeasible()
        request: dict[str, object] = {"minimizer": minimizer.describe()}

        def sample() -> Callable[[], list[np.ndarray]]:
            exact = minimizer.fetch(exact_counts(self._table), self._table.grid)
            return lambda: [minimizer.release(exact)]

        event = self._paid("minimize", minimizer.price(), request, sample, key, analyst, work=minimizer.work)
        return Settled(tuple(unpack_array(text) for text in event.payload["values"]), event.cost, event.sequence)

    def _statistic(self, query: Asked) -> Statistic:
        if isinstance(query, (Linear, Marginal, Groups, Residual)):
            return counted_statistic(query, self.domain)
        if type(query) in SCORES:
            raise QueryError(f"{type(query).__name__} are scores to select from; measure a single statistic instead")
        return self._known(query)

    def _known(self, statistic: Statistic) -> Statistic:
        """Only the kernel's own statistics may read rows, because their sensitivities are proven."""
        if type(statistic) not in (*STATISTICS, *OTHER_STATISTICS):
            raise QueryError(f"{type(statistic).__name__} is not a statistic of the kernel; use one that it defines")
        if getattr(statistic, "domain", self.domain) != self.domain:
            raise QueryError("this statistic was declared for another domain; declare it for the table's own")
        if self.records is not None and getattr(statistic, "records", self.records) != self.records:
            raise QueryError(f"this statistic was declared for another number of records; the table has {self.records}")
        return statistic

    def _as_begun(
        self, key: str | None, request: dict[str, object], former: Callable[[], dict[str, object]], named: bool
    ) -> dict[str, object]:
        """The request as this key began it, if it is the same request as described by earlier versions.

        Earlier versions bound requests to the bits of computed floats, which another processor need not reproduce. If
        the key is `named` after the state, descriptions that differ only in these bits are the same request.
        """
        begun = None if key is None else self._ledger.requested(key)
        if begun is None or canonical(begun) == canonical(request):
            return request
        return begun if canonical(begun) in _wordings(former(), named, begun) else request

    def begun(self, key: str) -> dict[str, object] | None:
        """The request for which a key was charged, with which an interrupted run continues."""
        return self._ledger.requested(key)

    def successor(self, key: str) -> tuple[str, int]:
        """This key or the first of its successors that is not forfeited, and the charges of forfeited ones."""
        return self._ledger.successor(key)

    def keep(self, name: str, data: bytes) -> None:
        """Store public bytes that a run needs again after a crash, because a fit need not be bit-identical."""
        self._ledger.append(KEPT, {"name": name, "data": sha256(data)}, blobs=[data])

    def kept(self, name: str) -> bytes | None:
        for event in map(self._ledger.event, self._ledger.noted(KEPT)):
            if event.payload["name"] == name:
                return self._ledger.get_blob(event.payload["data"])
        return None

    def _paid(
        self,
        verb: str,
        price: Price,
        request: dict[str, object],
        prepare: Callable[[], Callable[[], list[np.ndarray]]],
        key: str | None,
        analyst: str | None,
        *,
        redeemable: bool = True,
        work: int = 0,
    ) -> Event:
        """Reserve, sample, settle; `prepare` reads the rows, and the function it returns draws the noise.

        `work` is the number of steps on any table. Too much work is refused, except for a key that has paid.
        """
        pending = None if key is None else self._ledger.reservation(key)
        # An earlier version may have charged more for the same request.
        cost = max(self.budget.cost(price), 0 if pending is None else pending.cost)
        # A non-redeemable result cannot be read again either: a settled epoch would get a second threshold for free.
        if key is not None and redeemable and (earlier := self._ledger.settled(key, verb, request)) is not None:
            return earlier
        if work and (key is None or self._ledger.lookup(key) is None):
            refuse_long(work)
        self._ledger.affordable(cost, key=key, analyst=analyst, delta=price.delta)
        self.worked += work
        draw = prepare()
        reservation = self._ledger.reserve(
            key, verb, cost, request, analyst=analyst, redeemable=redeemable, delta=price.delta
        )
        try:
            values = [pack_array(array) for array in draw()]
        except BaseException:
            self._ledger.abandon(reservation)
            raise
        return self._ledger.settle(reservation, {"values": values})


def counted_statistic(query: Linear | Marginal | Groups | Residual, domain: Domain) -> Statistic:
    """The statistic that the kernel counts to answer a question."""
    if isinstance(query, Marginal):
        return MarginalCounts(query, domain)
    if isinstance(query, Residual):
        return ResidualCounts(query, domain)
    return GroupCounts(query, domain) if isinstance(query, Groups) else LinearCount(query, domain)


def released(event: Event, statistics: Sequence[Statistic], noises: Sequence[Noise], grid: int) -> Settled:
    """The values of a settled measurement, in records, read from its public event."""
    noisy, grids = map(unpack_array, event.payload["values"]), [one.resolution(grid) * grid for one in statistics]
    found = (v / (g * noise.refinement(g)) for v, g, noise in zip(noisy, grids, noises, strict=True))
    return Settled(tuple(found), event.cost, event.sequence, tuple(noises))


def _work(statistic: Statistic) -> int:
    """The work of a solver; all other statistics take one pass of counting."""
    return statistic.work if isinstance(statistic, ExcessRisks) else 0


def _stateless(statistic: Any) -> Any:
    """The same statistic, described by the bits of its numbers."""
    return statistic if getattr(statistic, "state", None) is None else replace(statistic, state=None)


def _named(statistic: Any, key: str | None) -> bool:
    state = getattr(statistic, "state", None)
    return state is None or (key is not None and state[:NAMED] in key)


def _wordings(former: dict[str, object], named: bool, begun: dict[str, object]) -> tuple[str, ...]:
    """Descriptions that the request may have had in earlier versions, up to the bits of its floats if the key names
    their state.
    """
    return tuple(map(canonical, (former, _with_floats_of(begun, former)) if named else (former,)))


def _with_floats_of(begun: Any, former: Any) -> Any:
    """`former` with the digests of floats that `begun` has in the same places."""
    if isinstance(former, dict) and isinstance(begun, dict):
        taken = {name: begun.get(name) for name in FLOATS if name in former}
        return {name: _with_floats_of(begun.get(name), part) for name, part in former.items()} | taken
    if isinstance(former, list) and isinstance(begun, list) and len(former) == len(begun):
        return [_with_floats_of(theirs, ours) for theirs, ours in zip(begun, former, strict=True)]
    return former


def _of_the_kernel(used: object, *kinds: type) -> None:
    """Refuse an object that the kernel does not define, because its price and noise would be unproven; so could those
    of a subclass be.
    """
    if type(used) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise QueryError(f"{type(used).__name__} cannot be used here; use {names}")


def pack_array(values: np.ndarray) -> dict[str, object]:
    """An array as text for JSON, bit for bit."""
    array = np.asarray(values, order="C")
    text = base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": text}


def unpack_array(packed: dict) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype=packed["dtype"]).reshape(packed["shape"])
