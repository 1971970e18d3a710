"""Every paid operation of a session, and the offline releases, on a disk that fails at a chosen step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from tests.session_tables import DOMAIN, table

import reticent as rt
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.kernel.ledger.chain import stored_events
from reticent.kernel.ledger.events import Event
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.store import MemoryStore
from reticent.kernel.table import Table
from reticent.queries.linear import Range
from reticent.sessions.session import Session

BUDGET = rt.Budget(rho=2)
ROWS = table(300, weight=1000)
LOSSES = [
    rt.Squared(features=["a"], label="b"),
    rt.Squared(features=["a"], label="e", radius=1.0),
    rt.Squared(features=["a"], label="e", ridge=0.5),
]
"""One that the uniform hypothesis does not get wrong, one that fails its audit, one that is cheaper bought at once."""
BOXES = [Range({"a": (0, low), "b": (0, high)}) for low in range(3) for high in range(2)]
PART = rt.mean("c", where=(rt.col("a") <= 1) & (rt.col("e") == 0))
STATEMENT = "SELECT AVG(c) FROM t WHERE a <= 1 AND b <= 1"


class Killed(BaseException):
    """Stands for the end of the process."""


class Disk(MemoryStore):
    """Outlives its ledgers; the process dies before or after the chosen write."""

    def __init__(self) -> None:
        super().__init__()
        self.fatal, self.steps = 0, 0

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        self._step()
        super().append(event, blobs)
        self._step()

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.fatal:
            raise Killed

    def arm(self, fatal: int) -> None:
        self.fatal, self.steps = fatal, 0

    def close(self) -> None:
        """What is written stays."""

    def ledger(self, budget: rt.Budget = BUDGET, rows: Table = ROWS) -> Ledger:
        return Ledger(self, None, identity=rows.identity, budget=budget)

    def events(self) -> list[Event]:
        return list(stored_events(self))

    def reserved(self) -> dict[str, int]:
        return {str(event.key): event.cost for event in self.events() if event.kind == "reserve"}


@contextmanager
def opened(disk: Disk, rows: Table = ROWS, **options: Any) -> Iterator[Session]:
    """A session on this disk; `Session.open` itself knows files and memory only."""
    memory = Ledger.memory
    Ledger.memory = classmethod(lambda cls, budget, identity=None: disk.ledger(budget, rows))  # pyright: ignore
    try:
        session = Session.open(None, rows, BUDGET, **options)
    finally:
        Ledger.memory = memory
    yield session
    disk.arm(0)  # a process that is killed closes nothing; one that closes writes down what free answers saved
    session.close()


@contextmanager
def other_processor() -> Iterator[None]:
    """Floats computed from a hypothesis come out with other last bits, as without fused multiplication."""
    kept = {name: getattr(DenseHypothesis, name) for name in ("marginal", "marginals", "fit")}
    generator = np.random.default_rng(3)

    def jitter(array: np.ndarray) -> np.ndarray:
        return array * (1 + generator.choice([-4, 4], array.shape) * 2.0**-52)

    def fit(self: DenseHypothesis, *given: Any, **options: Any) -> Any:
        report = kept["fit"](self, *given, **options)
        self._flat *= 1 + generator.choice([-4, 4], self._flat.shape) * 2.0**-52
        return report

    DenseHypothesis.marginal = lambda self, attributes: jitter(kept["marginal"](self, attributes))
    DenseHypothesis.marginals = lambda self, sets: [jitter(m) for m in kept["marginals"](self, sets)]
    DenseHypothesis.fit = fit  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for name, method in kept.items():
            setattr(DenseHypothesis, name, method)


Operation = Callable[[Session], Any]
OPERATIONS: dict[str, Operation] = {
    "count": lambda s: s.ask(rt.count((rt.col("a") >= 1) & (rt.col("b") == 1)), error=1e-4),
    "keyed count": lambda s: s.ask(rt.count((rt.col("a") >= 1) & (rt.col("b") == 1)), error=1e-4, key="k"),
    "marginal": lambda s: s.ask(rt.marginal("a", "c"), error=2e-4, key="m"),
    "groups": lambda s: s.ask("SELECT a, COUNT(*) FROM t WHERE c <= 2 AND e = 0 GROUP BY a", error="0.2%"),
    "mean": lambda s: s.ask(PART, error=0.01),
    "keyed mean": lambda s: s.ask(PART, error=0.01, key="mean"),
    "statement": lambda s: s.ask(STATEMENT, error=0.01),
    "batch": lambda s: s.ask_all(BOXES, error=0.003),
    "tight batch": lambda s: s.ask_all(BOXES, error=3e-4),
    "loss": lambda s: s.minimize(LOSSES[0], error=0.05),
    "keyed loss": lambda s: s.minimize(LOSSES[0], error=0.05, key="loss"),
    "bought loss": lambda s: s.minimize(LOSSES[2], error=0.05),
    "failed audit": lambda s: s.minimize(LOSSES[1], error=0.1),
    "keyed failed audit": lambda s: s.minimize(LOSSES[1], error=0.1, key="loss"),
    "losses": lambda s: s.minimize(LOSSES, error=0.1),
    "keyed losses": lambda s: s.minimize(LOSSES, error=0.1, key="losses"),
    "audit": lambda s: s.certify("cells", order=2, amount=0.01),
}
KEYED = {name for name in OPERATIONS if name.startswith("keyed")} | {"marginal"}

WORKLOAD = rt.marginals(DOMAIN, 2)
RELEASES: dict[str, Any] = {
    "Adaptive": rt.Adaptive(),
    "MWEM": rt.MWEM(rounds=3),
    "TextbookPMW": rt.TextbookPMW(error=0.2),
    "DualQuery": rt.DualQuery(rounds=4, draws=5),
}


def price(result: Any) -> float:
    """What a result says it cost."""
    if isinstance(result, list):
        return sum(map(price, result))
    return getattr(result, "price", 0.0)


def content(result: Any) -> Any:
    """What it says, in comparable form."""
    if isinstance(result, list):
        return [content(one) for one in result]
    if hasattr(result, "theta"):
        return result.theta.tobytes()
    if hasattr(result, "reading"):
        return result.reading
    if hasattr(result, "rows"):
        return repr(result.rows)
    return np.asarray(result.value).tobytes()
