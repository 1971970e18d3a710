"""A release is a hypothesis with its public transcript: it answers any question for free and yields synthetic rows."""

from __future__ import annotations

import hashlib
import json
import platform
import zipfile
from dataclasses import dataclass, replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reticent.algorithms.adaptive import Adaptive
from reticent.algorithms.candidates import target_sets
from reticent.algorithms.certificates import Certificate
from reticent.algorithms.estimates import expected_variation
from reticent.algorithms.outcome import Outcome, Report, silent
from reticent.answer import Answer
from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError, ReticentError, require, whole_number
from reticent.files import write_file
from reticent.hypotheses import load as load_hypothesis
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.events import sha256
from reticent.kernel.ledger import Ledger
from reticent.kernel.statement import verify
from reticent.kernel.subsample import Subsample
from reticent.kernel.table import Table
from reticent.publications import Publication, statement
from reticent.queries.base import Linear, Query
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.linear import Marginal
from reticent.queries.parsing import query_from_dict
from reticent.queries.workload import Workload
from reticent.synthetic import synthesize
from reticent.view import View

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
PUBLISHED = "published"
"""Ledger events that hold a whole release."""


class Algorithm(Protocol):
    """An offline algorithm: a loop over a Curator that spends at most `allowance` nano-units."""

    def run(
        self, curator: Curator, workload: Workload, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome: ...

    def describe(self) -> dict[str, Any]: ...


def release(
    table: Table,
    workload: Workload,
    budget: Budget,
    *,
    algorithm: Algorithm | None = None,
    ledger: str | Path | Ledger | None = None,
    progress: Report = silent,
) -> Release:
    """Learn a public distribution whose answers to the workload are accurate, spending `budget`.

    With `ledger=` the measurements are durable: after a crash the same call resumes with what was measured, and a
    session on the same ledger shares its budget.
    """
    require(table, Table, "table", "rt.Table.read(file, domain)")
    require(workload, Workload | Conjunctions, "workload", "rt.marginals(domain, 3) or rt.Workload([...])")
    require(budget, Budget, "budget", "rt.Budget(epsilon=1, delta=1e-9)")
    algorithm = Adaptive() if algorithm is None else _checked(algorithm)
    workload = workload.on(table.domain)
    key = _run_key(table, workload, budget, algorithm)
    opened = _open(ledger, table, budget)
    try:
        # A secret sample pays the prices of its own, smaller size into the whole table's ledger (spec 7.4).
        sample = getattr(algorithm, "sample", None)
        curator = Curator(table if sample is None else Subsample(table, sample), opened)
        before, allowance = opened.charged(key), _allowance(opened, key, budget, sample)
        outcome = algorithm.run(curator, workload, allowance=allowance, key=key, report=progress)
        if sample is not None:
            outcome = replace(outcome, records=float(table.records or sample), notes=outcome.notes | {"sample": sample})
        spent = opened.charged(key)
        facts = {
            "name": table.name,
            "unit": table.unit,
            "neighbours": table.neighbours,
            "version": table.version,
            **statement([Publication(opened.name, budget, spent)]),
            "charged_now": spent - before,
            "algorithm": algorithm.describe(),
            "workload": workload.to_dict(),
            "reticent": _version(),
            "python": platform.python_version(),
        }
        published = Release.of(outcome, facts)
        if ledger is not None:
            _keep(opened, key, published)
    except BudgetError as refused:
        if isinstance(ledger, str | Path):
            left = refused.remaining
            raise BudgetError(f"{ledger}: {refused}", requested=refused.requested, remaining=left) from None
        raise
    finally:
        if opened is not ledger:
            opened.close()
    return published


def _checked(algorithm: Any) -> Algorithm:
    """An instance, not its class or its name."""
    if isinstance(algorithm, type):
        raise QueryError(f"algorithm is the class {algorithm.__name__}; give an instance, for example rt.MWEM()")
    if not (hasattr(algorithm, "run") and hasattr(algorithm, "describe")):
        raise QueryError(f"algorithm is of type {type(algorithm).__name__}; give an instance, for example rt.MWEM()")
    return algorithm


def _open(ledger: str | Path | Ledger | None, table: Table, budget: Budget) -> Ledger:
    if isinstance(ledger, Ledger):
        return ledger
    if ledger is None:
        return Ledger.memory(identity=table.identity, budget=budget)
    path = Path(ledger)
    total = _budget_of(path) if path.exists() else budget
    if total.unit != budget.unit:
        raise QueryError(f"{path} holds a budget of {total.unit}, this release asks for {budget.unit}; use one kind")
    return Ledger.open(path, identity=table.identity, budget=total)


def _budget_of(path: Path) -> Budget:
    written = verify(path).history.opening["budget"]
    return Budget.from_dict({name: text for name, text in written.items() if name not in ("limit", "unit")})


def _allowance(ledger: Ledger, key: str, budget: Budget, sample: int | None) -> int:
    """What the release may spend, settled when it first starts: a plan made from another amount could not resume it."""
    for event in ledger.events():
        if event.kind == "release" and event.payload.get("run") == key:
            return int(event.payload["allowance"])
    allowance = min(budget.limit, ledger.remaining)
    if allowance > 0:
        ledger.append("release", {"run": key, "allowance": allowance, "sample": sample})
    return allowance


def _keep(ledger: Ledger, key: str, published: Release) -> None:
    """In the ledger that paid: a session on it starts from this where it cannot pay for more."""
    if not any(event.kind == PUBLISHED and event.payload["run"] == key for event in ledger.events()):
        data = published.to_bytes()
        ledger.append(PUBLISHED, {"run": key, "release": sha256(data)}, blobs=[data])


def _run_key(table: Table, workload: Workload, budget: Budget, algorithm: Algorithm) -> str:
    """Names one release in its ledger: the same call after a crash finds its own measurements again."""
    parts = [table.identity, workload.to_dict(), budget.to_dict(), algorithm.describe()]
    return "release:" + hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _version() -> str:
    from reticent import __version__

    return __version__


@dataclass(frozen=True, eq=False)
class Release:
    """What was published; holds nothing that is not public."""

    hypothesis: Hypothesis
    measurements: tuple[Measurement, ...]
    certificates: tuple[Certificate, ...]
    records: float
    notes: dict[str, Any]
    facts: dict[str, Any]
    view: View

    @classmethod
    def of(cls, outcome: Outcome, facts: dict[str, Any]) -> Release:
        snapshot = Snapshot(outcome.hypothesis)
        uncertain = float(outcome.notes.get("records_error", 0.0))
        view = View(snapshot, outcome.certificates, outcome.records, snapshot.digest, uncertain)
        return cls(
            outcome.hypothesis,
            outcome.measurements,
            outcome.certificates,
            outcome.records,
            outcome.notes,
            facts,
            view,
        )

    @property
    def domain(self) -> Domain:
        return self.hypothesis.domain

    def __repr__(self) -> str:
        bound = min((c.bound for c in self.certificates), default=None)
        certified = "" if bound is None else f", workload cells certified to ±{bound:.3g}"
        return f"<Release of {self.facts['name']!r}: {len(self.domain)} attributes, {self.privacy}{certified}>"

    @property
    def privacy(self) -> str:
        """The guarantee in one line."""
        stated = ", ".join(f"{name} {float(Fraction(text)):g}" for name, text in self.facts["budget"].items())
        return f"{stated}, {self.facts['neighbours']}, unit {self.facts['unit']}"

    def answer(self, query: Query) -> Answer:
        """Free and unlimited: a function of the released hypothesis."""
        return self.view.answer(query)

    def ask(self, question: Query | str) -> Any:
        """As a session's `ask`: a query, or SQL text, answered from what was published."""
        if isinstance(question, str):
            from reticent.sql import run

            view = self.view
            return run(question, self.domain, view.answer, records=view.records, records_error=view.records_error)
        return self.answer(question)

    def expected_variation(self) -> dict[tuple[str, ...], float]:
        """An estimate, not a bound, of the total variation of each measured marginal."""
        return expected_variation(self.hypothesis, self.measurements)

    def synthesize(self, rows: int, *, seed: int | None = None, independent: bool = False) -> pa.Table:
        """Synthetic rows with decoded values; marginals are closer than independent sampling allows.

        The seed concerns public post-processing only: it cannot weaken privacy.
        """
        rows = whole_number(rows, "rows", 1)
        seed = None if seed is None else whole_number(seed, "seed", 0)
        workload = self.facts["workload"]
        # A list of conjunctions is kept by its digest only.
        asked = () if "conjunctions" in workload else target_sets(Workload.from_dict(workload), self.domain)
        return synthesize(self.hypothesis, rows, np.random.default_rng(seed), asked=asked, independent=independent)

    def minimize(self, loss: Any) -> Any:
        """The minimiser of a convex loss on the released hypothesis, with its certificate where one covers it."""
        from reticent.models import minimize_on

        return minimize_on(self.view, loss)

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page: what was spent, what is guaranteed, what was measured."""
        from reticent.report import write_release

        return write_release(self, Path(path))

    def plot(self, *names: str) -> Any:
        """Bars with certified errors: one or two attributes together, else every short one by itself."""
        from reticent.plotting import plot_release

        return plot_release(self, names)

    def save(self, path: str | Path) -> Path:
        """One file: domain, hypothesis, transcript, prices, versions; no secrets."""
        return write_file(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        manifest = {
            "format": FORMAT,
            "domain": self.domain.to_dict(),
            "certificates": [c.to_dict() for c in self.certificates],
            "records": self.records,
            "notes": self.notes,
            "facts": self.facts,
            "measurements": [{"query": m.query.to_dict(), "sd": m.sd, "noise": m.noise} for m in self.measurements],
        }
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", json.dumps(manifest, indent=1, default=_plain))
            archive.writestr("hypothesis.bin", self.hypothesis.to_bytes())
            for index, measurement in enumerate(self.measurements):
                with archive.open(f"measurements/{index}.npy", "w") as entry:
                    np.lib.format.write_array(entry, np.asarray(measurement.values), allow_pickle=False)
        return packed.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return Release.from_bytes, (self.to_bytes(),)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Reads what `save` wrote; refuses other files in one line."""
        require(path, str | Path, "path", 'the name of a saved release, for example "census.release"')
        try:
            return cls.from_bytes(Path(path).read_bytes(), str(path))
        except FileNotFoundError:
            raise ReticentError(f"{path}: no such file") from None
        except OSError as problem:
            raise ReticentError(f"{path}: not a saved release ({type(problem).__name__})") from None

    @classmethod
    def from_bytes(cls, packed: bytes, path: str = "these bytes") -> Release:
        """The inverse of `to_bytes`; `path` is used in messages."""
        try:
            with zipfile.ZipFile(BytesIO(packed)) as archive:
                manifest = json.loads(archive.read("manifest.json"))
                if manifest["format"] != FORMAT:
                    raise ReticentError(f"{path}: release format {manifest['format']}, this version reads {FORMAT}")
                hypothesis = load_hypothesis(archive.read("hypothesis.bin"))
                measurements = tuple(
                    Measurement(_measured(m["query"]), _array(archive, index), m["sd"], m.get("noise"))
                    for index, m in enumerate(manifest["measurements"])
                )
        except (zipfile.BadZipFile, KeyError, json.JSONDecodeError, ValueError) as problem:
            raise ReticentError(f"{path}: not a saved release ({type(problem).__name__})") from None
        certificates = tuple(Certificate.from_dict(c) for c in manifest["certificates"])
        outcome = Outcome(hypothesis, measurements, certificates, manifest["records"], manifest["notes"])
        return cls.of(outcome, manifest["facts"])

    def _repr_html_(self) -> str:
        from reticent.report import release_summary

        return release_summary(self)


def _measured(described: Any) -> Linear | Marginal:
    query = query_from_dict(described)
    if not isinstance(query, (Linear, Marginal)):
        raise ValueError("only linear queries and marginals are measured")
    return query


def _array(archive: zipfile.ZipFile, index: int) -> np.ndarray:
    with archive.open(f"measurements/{index}.npy") as entry:
        return np.lib.format.read_array(entry, allow_pickle=False)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
