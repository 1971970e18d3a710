"""Observes a run from outside: every draw of noise, every charge, every event and every read of rows.

The kernel has no hook for this; during a run its classes are wrapped where exact numbers meet noise. A recorder lets
the run proceed and records it. A replayer gives a second run, on a neighbouring table, the values that the first run
released, and computes the privacy loss of each draw between the two tables: from the exact numbers and the noise in
use, not from what a statistic declares about itself.
"""

from __future__ import annotations

import math
import random
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from reticent.errors import ReticentError
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.counting import records as records_module
from reticent.kernel.counting.marginals import Counts
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.discovery import values as values_module
from reticent.kernel.discovery.medians import MedianScores, PositionRuns
from reticent.kernel.ledger import ledger as ledger_module
from reticent.kernel.ledger.events import Event, History, canonical
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import (
    AboveThreshold,
    Exponential,
    Gaussian,
    Laplace,
    Noise,
    Sensitivity,
    Thresholded,
    Watch,
)
from reticent.kernel.minimizers.base import Minimizer
from reticent.kernel.minimizers.families import LongDescent, NoisyGradientDescent
from reticent.sources.undeclared import UndeclaredValues

VERBS = ("measure", "select", "select_medians", "select_values", "watch", "exceeds", "minimize")
"""Verbs of the curator; rows are read within these calls and nowhere else."""
READS = (
    "total",
    "marginal",
    "marginals",
    "weigh",
    "conjunctions",
    "positions",
    "weigh_bins",
    "remembered",
    "numbers",
    "texts",
)
STATISTIC = ("resolution", "sensitivity", "evaluate", "describe")
"""Methods that make a class a statistic of the kernel."""
SHOWN = 160
Original = Callable[..., Any]
"""A method of the kernel without the observer."""
ROUNDS = 100
"""Rounds of an observed descent: a hundred show as much as many thousands."""
HALF_PI = Fraction(math.pi) / 2
"""GDP over zCDP of Laplace noise and selections (docs/proofs/gaussian-dp.md, claim 5), rounded down."""
CERTAIN = 10**40
"""Above every noisy threshold."""


class Divergence(AssertionError):
    """The two runs differ in something that no released value explains, or a draw reveals more than was paid for."""


@dataclass(frozen=True)
class Draw:
    """One draw: the mechanism as it was used, its exact input and its output."""

    mechanism: str
    exact: np.ndarray
    released: np.ndarray


@dataclass
class RequestCharge:
    """The charge of a request, and the privacy loss of its draws so far."""

    key: str
    cost: int
    budget: Budget
    delta: Fraction = Fraction(0)
    told: Price = field(default_factory=Price.free)


@dataclass
class Watched:
    """A running epoch."""

    watch: Watch
    sensitivity: int
    ended: bool = False


@dataclass
class Recording:
    """One run: its draws, events, reads of rows and answers, in order, and the parts of the kernel that took part."""

    draws: list[Draw] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    statistics: list[Any] = field(default_factory=list)
    parts: set[type] = field(default_factory=set)


@cache
def kernel_statistics() -> tuple[type, ...]:
    """Every statistic of the kernel's loaded modules, found by its methods, so that a new one cannot be forgotten.

    A statistic that the curator accepts is always loaded.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("reticent.kernel.")]
    classes = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    found = [
        kind
        for kind in classes
        if kind.__module__.startswith("reticent.kernel.")
        and all(hasattr(kind, name) for name in STATISTIC)
        and not getattr(kind, "_is_protocol", False)
        and not kind.__name__.startswith("_")
    ]
    return tuple(sorted(found, key=lambda kind: kind.__name__))


@cache
def kernel_minimizers() -> tuple[type, ...]:
    """Every private minimiser of the kernel."""
    kinds, seen = [Minimizer], []
    while kinds:
        kind = kinds.pop()
        seen += [] if kind is Minimizer else [kind]
        kinds += kind.__subclasses__()
    return tuple(sorted(set(seen), key=lambda kind: kind.__name__))


class PieceScores:
    """The scores of one piece's candidates: constant on runs of positions, which differ from table to table."""

    def __init__(self, runs: PositionRuns) -> None:
        self.first, self.last, self.scores = (list(map(int, part)) for part in (runs.first, runs.last, runs.scores))

    def __sub__(self, other: PieceScores) -> tuple[int, int]:
        """The smallest and the largest change of a candidate's score."""
        if (self.first[0], self.last[-1]) != (other.first[0], other.last[-1]):
            raise Divergence("the candidates of a piece differ")
        changes = [self.at(place) - other.at(place) for place in {*self.first, *other.first}]
        return min(changes), max(changes)

    def at(self, place: int) -> int:
        return self.scores[bisect_right(self.first, place) - 1]


class TextCounts:
    """How many units have each text of a column."""

    def __init__(self, texts: Any, counts: Any) -> None:
        self.counts = dict(zip(map(str, texts), map(int, counts), strict=True))

    def __sub__(self, other: TextCounts) -> tuple[list[int], list[int], list[int]]:
        """Changes of the texts that both have, and the counts of texts that only one of them has."""
        both = self.counts.keys() & other.counts.keys()
        alone = [[c for text, c in one.counts.items() if text not in both] for one in (self, other)]
        return [self.counts[text] - other.counts[text] for text in sorted(both)], alone[0], alone[1]


class Coupled:
    """Replaces `secrets` in both runs."""

    def __init__(self) -> None:
        self._names = iter(range(10**9))

    def token_hex(self, size: int = 32) -> str:
        return f"{next(self._names):0{2 * size}x}"

    def SystemRandom(self) -> random.Random:
        return random.Random(0)


class Observer:
    """Lets a run happen and keeps it."""

    def __init__(self) -> None:
        self.seen = Recording()
        self._depth = 0
        self._reading = 0
        self._within: int | None = None
        """The number of draws of a mechanism that draws by another mechanism; None if there is none."""
        self._charge: RequestCharge | None = None
        self._paid_epochs: list[tuple[str, int, Budget]] = []
        self.largest_share = 0.0
        """The share of a charge that its draws revealed: 1 if the two tables are as far apart as was paid for."""
        self._epochs: dict[int, Watched] = {}

    # ---- what a replayer does otherwise

    def drawn(self, mechanism: str, exact: np.ndarray, draw: Callable[[], Any], loss: Callable[[Any], Price]) -> Any:
        """Record the result of `draw`; `loss` computes its privacy loss for a neighbour with other exact numbers."""
        released = draw()
        self.seen.draws.append(Draw(mechanism, np.array(exact), np.array(released)))
        return released

    def happened(self, event: str) -> None:
        self.seen.events.append(event)

    def read(self, what: str) -> None:
        self.seen.reads.append(what)

    def answered(self, answer: object) -> None:
        """Record what the run showed its user."""
        self.seen.answers.append(answer_text(answer))

    def finish(self) -> None:
        """The run is over."""

    # ---- where the kernel is watched

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe all runs of this process until the end of the block."""
        with ExitStack() as stack:

            def replace(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
                original = owner.__dict__[name]
                stack.enter_context(
                    patch.object(owner, name, lambda *given, **named: wrapper(original, *given, **named))
                )

            replace(Noise, "release", self._released)
            replace(Exponential, "draw", self._selected)
            replace(MedianScores, "draw", self._medians)
            replace(Thresholded, "release", self._thresholded)
            replace(AboveThreshold, "open", self._opened)
            replace(Watch, "exceeds", self._compared)
            replace(Ledger, "reserve", self._reserved)
            replace(Ledger, "settle", self._settled)
            replace(History, "apply", self._applied)
            for verb in VERBS:
                replace(Curator, verb, self._verb)
            for kind in (Counts, Records, UndeclaredValues):
                for name in set(READS) & set(vars(kind)):
                    if (kind, name) != (UndeclaredValues, "total"):  # the custodian's, when the table is opened
                        replace(kind, name, lambda original, *given, _name=name: self._read(_name, original, *given))
            for kind in kernel_statistics():
                if "evaluate" in vars(kind):
                    replace(kind, "evaluate", self._evaluated)
            for kind in kernel_minimizers():
                if "fetch" in vars(kind):
                    replace(kind, "fetch", self._evaluated)
            # All its noise is drawn before the first round: observed, each sum meets its own, as in its parent.
            stack.enter_context(patch.object(LongDescent, "release", NoisyGradientDescent.release))
            for kind in (NoisyGradientDescent, LongDescent):
                stack.enter_context(patch.object(kind, "most_rounds", ROUNDS))
            # Random names and secret samples are coupled: both runs draw the same.
            stack.enter_context(patch.object(ledger_module, "secrets", Coupled()))
            stack.enter_context(patch.object(records_module, "secrets", Coupled()))
            stack.enter_context(patch.object(values_module, "secrets", Coupled()))
            yield

    def _verb(self, original: Original, *given: Any, **named: Any) -> Any:
        self._depth += 1
        try:
            return original(*given, **named)
        finally:
            self._depth -= 1

    def _read(self, name: str, original: Original, source: Any, *given: Any) -> Any:
        if not self._depth:
            raise Divergence(f"rows were read outside the curator's verbs: {name}")
        if not self._reading:
            self.read(f"{name} {_asked(given)}"[:SHOWN])
        self._reading += 1
        try:
            return original(source, *given)
        finally:
            self._reading -= 1

    def _evaluated(self, original: Original, statistic: Any, *given: Any) -> Any:
        self.seen.parts.add(type(statistic))
        if not isinstance(statistic, Minimizer):
            self.seen.statistics.append(statistic)
        return original(statistic, *given)

    def _applied(self, original: Original, history: History, event: Event) -> None:
        told = {name: getattr(event, name) for name in ("kind", "key", "analyst", "cost", "payload")}
        self.happened(canonical(told))
        original(history, event)

    def _reserved(self, original: Original, ledger: Ledger, *given: Any, **named: Any) -> Any:
        reservation = original(ledger, *given, **named)
        _, kind, cost, request = given
        self._charge = RequestCharge(reservation.key, cost, ledger.budget, named.get("delta", Fraction(0)))
        if kind == "watch":
            (mechanism,) = request["mechanisms"]
            self._paid_epochs.append((canonical(mechanism), cost, ledger.budget))
        return reservation

    def _settled(self, original: Original, ledger: Ledger, reservation: Any, *given: Any, **named: Any) -> Any:
        charge, self._charge = self._charge, None
        if charge is not None and charge.key == reservation.key:
            self.largest_share = max(self.largest_share, share_told(charge))
        return original(ledger, reservation, *given, **named)

    def _told(self, loss: Price) -> None:
        """Add a privacy loss to the open charge."""
        if self._charge is None:
            raise Divergence("noise was drawn for which nothing was charged")
        self._charge.told = self._charge.told + loss

    # ---- the mechanisms

    def _released(self, original: Original, noise: Noise, counts: Any, grid: int = 1) -> Any:
        self.seen.parts.add(type(noise))
        if self._within is not None:
            self._within += 1
            return original(noise, counts, grid)
        return self.drawn(
            canonical({**noise.describe(), "grid": int(grid)}),
            np.asarray(counts),
            lambda: original(noise, counts, grid),
            lambda change: told_by_noise(noise, grid, change),
        )

    def _selected(
        self,
        original: Original,
        selection: Exponential,
        scores: Any,
        sensitivity: Any,
        grid: int = 1,
        draws: int = 1,
        copies: Any = None,
    ) -> Any:
        self.seen.parts.add(Exponential)
        if self._within is not None:
            self._within += draws
            return original(selection, scores, sensitivity, grid, draws, copies=copies)
        used = {**selection.describe(), "sensitivity": str(Fraction(sensitivity)), "grid": int(grid), "draws": draws}
        return self.drawn(
            canonical(used),
            np.asarray(scores),
            lambda: original(selection, scores, sensitivity, grid, draws),
            lambda change: told_by_selection(selection, Fraction(sensitivity) * grid, change) * draws,
        )

    def _medians(
        self,
        original: Original,
        scores: MedianScores,
        runs: Sequence[PositionRuns],
        selection: Exponential,
        sensitivity: Sensitivity,
        grid: int,
    ) -> Any:
        """A candidate is a position; the pieces' draws are independent."""
        used = {**selection.describe(), "sensitivity": str(sensitivity.l1), "grid": int(grid), **scores.describe()}

        def told(changes: Sequence[tuple[int, int]]) -> Price:
            unit, total = sensitivity.l1 * grid, Price.free()
            for change in changes:
                total = total + told_by_selection(selection, unit, change)
            return total

        exact = np.empty(len(runs), dtype=object)
        exact[:] = [PieceScores(piece) for piece in runs]
        return self.drawn(
            canonical(used),
            exact,
            lambda: self._inside(len(runs), original, scores, runs, selection, sensitivity, grid),
            told,
        )

    def _thresholded(self, original: Original, test: Thresholded, texts: Any, counts: Any) -> Any:
        """Texts that both tables may show lose by their noise; texts of one table by the probability that they are
        shown.
        """
        self.seen.parts.add(Thresholded)
        exact = np.empty(1, dtype=object)
        exact[0] = TextCounts(texts, counts)

        def release() -> np.ndarray:
            shown, noisy = self._inside(1, original, test, texts, counts)
            return np.array([shown, noisy.astype(object)], dtype=object)

        def told(changes: Sequence[tuple[list[int], list[int], list[int]]]) -> Price:
            ((both, *alone),) = changes
            rho = told_by_noise(test.noise, 1, both).rho
            return Price(None, rho, sum((chance_of_any(test, side) for side in alone), Fraction(0)))

        shown, noisy = self.drawn(canonical(test.describe()), exact, release, told)
        return shown, noisy.astype(np.int64)

    def _inside(self, allowed: int, original: Original, *given: Any) -> Any:
        """A mechanism that consists of this many draws of another one."""
        self._within = 0
        try:
            released = original(*given)
            if self._within != allowed:
                raise Divergence(f"a mechanism of {allowed} draws made {self._within}")
            return released
        finally:
            self._within = None

    def _opened(self, original: Original, test: AboveThreshold, threshold: int, sensitivity: int) -> Watch:
        self.seen.parts.add(AboveThreshold)
        described = canonical(test.describe())
        for place, (paid, cost, budget) in enumerate(self._paid_epochs):
            if paid == described and cost >= budget.cost(test.price()):
                del self._paid_epochs[place]
                break
        else:
            raise Divergence(f"an epoch was opened for which nothing was charged: {described}")
        watch = original(test, threshold, sensitivity)
        self.happened(f"threshold {threshold}, sensitivity {sensitivity}")
        self._epochs[id(watch)] = Watched(watch, sensitivity)
        return watch

    def _compared(self, original: Original, watch: Watch, value: int) -> bool:
        epoch = self._epochs[id(watch)]
        if epoch.ended:
            raise Divergence('an epoch went on after its first "above"')

        def moved(change: Any) -> Price:
            """Covered by the price of the epoch, as long as no tested value moves further than it was opened for."""
            if abs(int(change[0])) > epoch.sensitivity:
                raise Divergence(f"a tested value moves by {change[0]}, its epoch was opened for {epoch.sensitivity}")
            return Price.free()

        above = bool(self.drawn("comparison", np.array([value], dtype=object), lambda: original(watch, value), moved))
        if above and not watch.spent:
            original(watch, CERTAIN)
        epoch.ended = above
        return above


class Replayer(Observer):
    """Gives a run the released values of another run, and raises Divergence if they differ."""

    def __init__(self, recorded: Recording) -> None:
        super().__init__()
        self._recorded = recorded
        self.compared = 0

    def drawn(self, mechanism: str, exact: np.ndarray, draw: Callable[[], Any], loss: Callable[[Any], Price]) -> Any:
        place = len(self.seen.draws)
        if place == len(self._recorded.draws):
            raise Divergence(f"one draw more: {mechanism[:SHOWN]}")
        recorded = self._recorded.draws[place]
        if recorded.mechanism != mechanism or recorded.exact.shape != exact.shape:
            raise Divergence(f"draw {place}: recorded {recorded.mechanism[:SHOWN]}, replayed {mechanism[:SHOWN]}")
        told = loss(np.ravel(exact).astype(object) - np.ravel(recorded.exact).astype(object))
        if mechanism != "comparison":
            self._told(told)
        self.seen.draws.append(recorded)
        self.compared += 1
        return recorded.released.copy()

    def happened(self, event: str) -> None:
        super().happened(event)
        _same("event", self._recorded.events, self.seen.events)

    def read(self, what: str) -> None:
        super().read(what)
        _same("read of rows", self._recorded.reads, self.seen.reads)

    def answered(self, answer: object) -> None:
        super().answered(answer)
        _same("answer", self._recorded.answers, self.seen.answers)

    def finish(self) -> None:
        """Check that the recorded run did nothing more."""
        for name in ("draws", "events", "reads", "answers"):
            recorded, replayed = getattr(self._recorded, name), getattr(self.seen, name)
            if len(recorded) != len(replayed):
                raise Divergence(f"the recorded run has {len(recorded)} {name}, the replayed one {len(replayed)}")


def _same(what: str, recorded: Sequence[str], replayed: Sequence[str]) -> None:
    place = len(replayed) - 1
    if place >= len(recorded):
        raise Divergence(f"one {what} more: {replayed[place][:SHOWN]}")
    if recorded[place] != replayed[place]:
        start = next((at for at, (a, b) in enumerate(zip(recorded[place], replayed[place], strict=False)) if a != b), 0)
        shown = slice(max(0, start - 40), start + SHOWN)
        raise Divergence(f"{what} {place}: recorded ...{recorded[place][shown]}, replayed ...{replayed[place][shown]}")


def _asked(given: Sequence[Any]) -> str:
    """The attributes of a read; how a remembered one is counted does not matter."""
    told = [value for value in given if not callable(value)]
    named = [sorted(value) if isinstance(value, dict) else getattr(value, "digest", value) for value in told]
    return str(named)


# ---- what a draw tells about a change of its exact numbers


def told_by_noise(noise: Noise, grid: int, change: Sequence[int]) -> Price:
    """The privacy loss of additive noise between two vectors (docs/proofs/laplace.md, gaussian.md)."""
    parts = noise.refinement(grid)
    scale = noise.grid_scale(grid * parts)
    distance, square = sum(abs(int(c)) for c in change) * parts, sum(int(c) ** 2 for c in change) * parts**2
    pure, rho = Fraction(distance) / scale if isinstance(noise, Laplace) else None, Fraction(square) / (2 * scale**2)
    # docs/proofs/gaussian-dp.md, Claim 1, in steps of the grid
    exactly = isinstance(noise, Gaussian) and scale >= Fraction(11, 10)
    if pure is not None:
        return Price(pure, rho, gaussian=rho * HALF_PI)
    return Price(None, rho, gaussian=rho * (1 + 1 / (4 * scale**2)) ** 2 if exactly else None)


def chance_of_any(test: Thresholded, counts: Sequence[int]) -> Fraction:
    """The probability that one of these counts passes the threshold, by sums of floats; rounded down by their error."""
    sigma, none_shown = float(test.noise.grid_scale(1)), 1.0
    reach = range(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    weights = {j: math.exp(-j * j / (2 * sigma * sigma)) for j in reach}
    mass = math.fsum(weights.values())
    for count in counts:
        none_shown *= 1 - math.fsum(w for j, w in weights.items() if count + j >= test.threshold) / mass
    return Fraction(max(0.0, (1 - none_shown) * (1 - 1e-9) - 1e-12))


def told_by_selection(selection: Exponential, unit: Fraction, change: Sequence[int]) -> Price:
    """The privacy loss of one draw, from the range in which scores move (docs/proofs/exponential.md)."""
    moved = [int(c) for c in change]
    reach = selection.epsilon / (2 * unit) * (max(moved) - min(moved))
    return Price(reach, reach**2 / 8, gaussian=reach**2 / 8 * HALF_PI)


def share_told(charge: RequestCharge) -> float:
    """The share of the price that the draws revealed; Divergence if it exceeds the price."""
    try:
        lost = charge.budget.cost(charge.told)
    except ReticentError as problem:
        raise Divergence(f"{charge.key}: {problem}") from None
    if charge.told.delta > charge.delta:
        told, paid = float(charge.told.delta), float(charge.delta)
        raise Divergence(f"{charge.key} fails with probability {told:.3g} and was charged for {paid:.3g}")
    if lost > charge.cost:
        raise Divergence(f"{charge.key} tells {lost} nano-units about the change and was charged {charge.cost}")
    return lost / charge.cost if charge.cost else 0.0


def answer_text(answer: object) -> str:
    """An answer as text, exact to the bit."""
    if isinstance(answer, bytes):
        return answer.hex()
    if isinstance(answer, np.ndarray):
        return f"{answer.dtype} {answer.shape} {np.ascontiguousarray(answer).tobytes().hex()}"
    if isinstance(answer, list | tuple):
        return " ".join(map(answer_text, answer))
    return repr(answer)
