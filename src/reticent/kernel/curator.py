"""The Curator is the only way to the rows: four verbs, each paid before it is sampled.

Every call runs: validate on public facts -> price -> budget check -> exact integers -> durable reservation -> noise ->
durable settlement -> return (docs/ledger.md). What comes back is read from the settled event, so that a live answer and
a replayed one are the same bytes.
"""

from __future__ import annotations

import base64
import math
import threading
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.group_counts import GroupCounts
from reticent.kernel.ledger import Event, Ledger
from reticent.kernel.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, Watch
from reticent.kernel.minimizers import MINIMIZERS, Minimizer
from reticent.kernel.statistics import (
    STATISTICS,
    CellScores,
    ConjunctionScores,
    LinearCount,
    MarginalCounts,
    Statistic,
)
from reticent.kernel.table import Table
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal

Noise = Laplace | Gaussian
Asked = Linear | Marginal | Groups | Statistic

SCORES = (CellScores, ConjunctionScores, ExcessRisks)
"""Lists whose sensitivity is that of each entry alone: candidates to select from, never numbers to measure."""


@dataclass(frozen=True, eq=False)
class Settled:
    """What a verb released: noisy numbers in records, or indices; its cost in nano-units and its ledger event."""

    values: tuple[np.ndarray, ...]
    cost: int
    ledger_id: int


class Epoch:
    """One AboveThreshold run, charged whole when it opened; its noisy threshold lives in memory only (spec 2.1)."""

    def __init__(self, mechanism: AboveThreshold, threshold: float, settled: Settled) -> None:
        self.mechanism = mechanism
        self.threshold = threshold
        self.cost = settled.cost
        self.ledger_id = settled.ledger_id
        self._watch: Watch | None = None
        self._scale: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an open epoch holds a secret threshold and is never stored")

    @property
    def open(self) -> bool:
        return self._watch is None or not self._watch.spent


class Curator:
    """Answers `measure`, `select`, `exceeds` and `minimize` about one table against one ledger."""

    def __init__(self, table: Table, ledger: Ledger) -> None:
        ledger.require(table.identity)
        self._table = table
        self._ledger = ledger
        self._epochs: weakref.WeakSet[Epoch] = weakref.WeakSet()

    @property
    def domain(self) -> Domain:
        return self._table.domain

    @property
    def neighbours(self) -> str:
        return self._table.neighbours

    @property
    def records(self) -> int | None:
        """The public number of records (or persons); None where it is private."""
        return self._table.records

    @property
    def unit(self) -> str:
        """Whom one neighbour differs by: a record or a person."""
        return self._table.unit

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
        """BudgetError unless budget and cap could pay these nano-units now: for what must not be begun otherwise."""
        self._ledger.affordable(cost, key=key, analyst=analyst)

    def price(self, queries: Sequence[Asked], mechanism: Noise | Sequence[Noise]) -> Price:
        """What `measure` with the same arguments would charge."""
        _, _, price = self._priced(queries, mechanism)
        return price

    def measure(
        self,
        queries: Sequence[Asked],
        mechanism: Noise | Sequence[Noise],
        *,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Settled:
        """Noisy values in records, one array per query; several queries are one event and their prices add."""
        statistics, mechanisms, price = self._priced(queries, mechanism)
        request = {
            "statistics": [statistic.describe() for statistic in statistics],
            "mechanisms": [m.describe() for m in mechanisms],
        }

        def sample() -> Callable[[], list[np.ndarray]]:
            exact = [s.evaluate(self._table._source, self._table.grid) for s in statistics]
            grids = [s.resolution(self._table.grid) * self._table.grid for s in statistics]
            return lambda: [m.release(x, g) for m, x, g in zip(mechanisms, exact, grids, strict=True)]

        event = self._paid("measure", price, request, sample, key, analyst)
        grids = [s.resolution(self._table.grid) * self._table.grid for s in statistics]
        noisy = [unpack(text) for text in event.payload["values"]]
        return Settled(tuple(v / g for v, g in zip(noisy, grids, strict=True)), event.cost, event.sequence)

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
        sensitivity = scores.sensitivity(self.neighbours).l1

        def sample() -> Callable[[], list[np.ndarray]]:
            exact = scores.evaluate(self._table._source, self._table.grid)
            grid = scores.resolution(self._table.grid) * self._table.grid
            return lambda: [mechanism.draw(exact, sensitivity, grid, draws)]

        event = self._paid("select", mechanism.price() * draws, request, sample, key, analyst)
        return Settled(tuple(unpack(text) for text in event.payload["values"]), event.cost, event.sequence)

    def watch(
        self, threshold: float, mechanism: AboveThreshold, *, key: str | None = None, analyst: str | None = None
    ) -> Epoch:
        """Opens an epoch for `exceeds`: charged whole and never redeemed, whatever happens to it later.

        `key` only names the charge; a second epoch under it is refused.
        """
        _of_the_kernel(mechanism, AboveThreshold)
        request = {"threshold": threshold, "mechanisms": [mechanism.describe()]}
        event = self._paid("watch", mechanism.price(), request, lambda: list, key, analyst, redeemable=False)
        epoch = Epoch(mechanism, threshold, Settled((), event.cost, event.sequence))
        self._epochs.add(epoch)
        return epoch

    def exceeds(self, error: Statistic, epoch: Epoch) -> bool:
        """Whether a noisy error passes the epoch's noisy threshold; the first True ends the epoch."""
        self._known(error)
        if epoch not in self._epochs:
            raise QueryError("this epoch was paid for elsewhere, not by this table's ledger; open one with watch")
        grid = error.resolution(self._table.grid) * self._table.grid
        step = math.ceil(error.sensitivity(self.neighbours).l1 * grid)
        # Two threads that both met a fresh epoch would draw two thresholds for one charge.
        with epoch._lock:
            if epoch._watch is None:
                epoch._watch = epoch.mechanism.open(round(epoch.threshold * grid), step)
                epoch._scale = (grid, step)
        if epoch._scale != (grid, step):
            raise QueryError("an epoch compares statistics of one sensitivity and resolution; open another epoch")
        return epoch._watch.exceeds(int(error.evaluate(self._table._source, self._table.grid)))

    def minimize(self, minimizer: Minimizer, *, key: str | None = None, analyst: str | None = None) -> Settled:
        """Parameters from a private minimiser of one convex loss."""
        if type(minimizer) not in MINIMIZERS:
            raise QueryError(
                f"{type(minimizer).__name__} is not a minimiser of the kernel; use one of those it defines"
            )
        if minimizer.domain != self.domain or minimizer.neighbours != self.neighbours:
            raise QueryError("this minimiser was declared for another domain or kind of neighbours; declare it anew")
        if self.records is not None and minimizer.records != self.records:
            raise QueryError(f"this minimiser divides by {minimizer.records}; the table has {self.records} records")
        request: dict[str, object] = {"minimizer": minimizer.describe()}

        def sample() -> Callable[[], list[np.ndarray]]:
            exact = minimizer.fetch(self._table._source, self._table.grid)
            return lambda: [minimizer.release(exact)]

        event = self._paid("minimize", minimizer.price(), request, sample, key, analyst)
        return Settled(tuple(unpack(text) for text in event.payload["values"]), event.cost, event.sequence)

    def _priced(
        self, queries: Sequence[Asked], mechanism: Noise | Sequence[Noise]
    ) -> tuple[list[Statistic], list[Noise], Price]:
        statistics = [self._statistic(query) for query in queries]
        mechanisms = list(mechanism) if isinstance(mechanism, Sequence) else [mechanism] * len(statistics)
        if not statistics or len(mechanisms) != len(statistics):
            raise QueryError(f"{len(statistics)} queries and {len(mechanisms)} mechanisms: give one each, at least one")
        price = Price.free()
        for statistic, noise in zip(statistics, mechanisms, strict=True):
            _of_the_kernel(noise, Laplace, Gaussian)
            price = price + noise.price(statistic.sensitivity(self.neighbours))
        return statistics, mechanisms, price

    def _statistic(self, query: Asked) -> Statistic:
        if isinstance(query, Marginal):
            return MarginalCounts(query, self.domain)
        if isinstance(query, Groups):
            return GroupCounts(query, self.domain)
        if isinstance(query, Linear):
            return LinearCount(query, self.domain)
        if type(query) in SCORES:
            raise QueryError(f"{type(query).__name__} are scores to select from; measure a single statistic instead")
        return self._known(query)

    def _known(self, statistic: Statistic) -> Statistic:
        """Only the kernel's own statistics reach the rows: their sensitivities are proven, a caller's are claimed."""
        if type(statistic) not in (*STATISTICS, ExcessRisk, ExcessRisks):
            name = type(statistic).__name__
            raise QueryError(f"{name} is not a statistic of the kernel; use one of those it defines")
        if getattr(statistic, "domain", self.domain) != self.domain:
            raise QueryError("this statistic was declared for another domain; declare it for the table's own")
        if self.records is not None and getattr(statistic, "records", self.records) != self.records:
            raise QueryError(f"this statistic was declared for another table than this one of {self.records} records")
        return statistic

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
    ) -> Event:
        """Reserve, sample, settle; `prepare` touches the rows, what it returns draws the noise."""
        cost = self.budget.cost(price)
        # What cannot be redeemed cannot be read again either: a settled epoch would get a second threshold for free.
        earlier = self._ledger.settled(key, verb, request) if key is not None and redeemable else None
        if earlier is not None:
            return earlier
        self._ledger.affordable(cost, key=key, analyst=analyst)
        draw = prepare()
        reservation = self._ledger.reserve(key, verb, cost, request, analyst=analyst, redeemable=redeemable)
        try:
            values = [pack(array) for array in draw()]
        except BaseException:
            self._ledger.abandon(reservation)
            raise
        return self._ledger.settle(reservation, {"values": values})


def _of_the_kernel(mechanism: object, *kinds: type) -> None:
    """Price and noise of anything else would be whatever its author says."""
    if not isinstance(mechanism, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise QueryError(f"{type(mechanism).__name__} is not a mechanism of the kernel for this; use {names}")


def pack(values: np.ndarray) -> dict[str, object]:
    """An array as JSON-ready text, to the bit."""
    array = np.asarray(values, order="C")
    text = base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": text}


def unpack(packed: dict) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype=packed["dtype"]).reshape(packed["shape"])
