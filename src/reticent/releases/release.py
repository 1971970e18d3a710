"""A release is a hypothesis with its public transcript: it answers any question for free and provides synthetic
rows.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, overload, runtime_checkable

import numpy as np

from reticent.domain import Domain
from reticent.domain.files import named_path, reading_file, shown_path, write_file
from reticent.errors import BudgetError, QueryError, ReticentError, require, whole_number
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.junction_tree.tree import check_rules
from reticent.hypotheses.memory import keeping
from reticent.hypotheses.replicates import Replicates
from reticent.hypotheses.sampling import three_way_sets
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import LARGEST_MARGINAL
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Subsample
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.events import sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.verify import opening
from reticent.kernel.table import Table
from reticent.knowledge.answer import Answer
from reticent.knowledge.certificates import Certificate, certifies
from reticent.knowledge.free import free_answer, nothing_measured
from reticent.knowledge.guarantees import Guarantee, Outcome, Report, silent
from reticent.knowledge.knowledge import Certified, Knowledge
from reticent.knowledge.paid_models import LossCertificate
from reticent.knowledge.population import Sample
from reticent.knowledge.publications import (
    PublishedBudget,
    budget_of,
    composing,
    discovered,
    each_ledger_once,
    opened_budget,
    statement,
)
from reticent.knowledge.request import USUAL_CONFIDENCE, Request
from reticent.knowledge.tails import Shares
from reticent.knowledge.typical import TypicalError, expected_variation
from reticent.progress.bars import listening
from reticent.queries.base import Query, checked_query
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.statistics import StatisticQuery
from reticent.queries.workload import Workload
from reticent.releases.adaptive import Adaptive
from reticent.releases.candidates import measured_sets, target_sets
from reticent.releases.dualquery.analysis import amplified_run
from reticent.releases.preconditions import check_replicable, checked_replicates, checked_rows
from reticent.releases.replicates import PUBLIC_SEED, made_replicates
from reticent.releases.schema import FORMAT, LARGEST_CONTENT, read_release
from reticent.releases.synthesize import synthesize, weighted_rows
from reticent.releases.workload_audit import typical_error, typical_units

if TYPE_CHECKING:
    import pyarrow as pa

    from reticent.losses.losses import ConvexLoss
    from reticent.releases.models import Model
    from reticent.sql.result import ResultTable

UNSTATED = "no privacy statement: fitted to measurements that were made elsewhere"
PUBLISHED = "published"
"""Kinds of ledger events that hold a whole release."""


class Algorithm(Protocol):
    """An offline algorithm: it works through a Curator and spends at most `allowance` nano-units.

    A class attribute `only_gaussian` of True says that it needs no noise but Gaussian under a budget that is not pure.
    """

    def run(
        self, curator: Curator, workload: Workload, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome: ...

    def describe(self) -> dict[str, Any]: ...


@runtime_checkable
class Resumable(Protocol):
    """An algorithm whose defaults have changed: a run continues with the terms that were recorded when it began."""

    def terms(self) -> dict[str, Any]:
        """The terms to record, as plain values."""
        ...

    def resumed(self, begun: Mapping[str, Any]) -> Algorithm:
        """The algorithm with the terms of a run; an old run may lack some of them."""
        ...


def release(
    table: Table,
    workload: Workload,
    budget: Budget,
    *,
    algorithm: Algorithm | None = None,
    ledger: str | Path | Ledger | None = None,
    anchor: str | Path | None = None,
    progress: Report | bool = True,
) -> Release:
    """Learn a public distribution that answers a workload accurately, and certify its answers.

    Args:
        table: The private table.
        workload: The questions to answer accurately, such as `rt.marginals(domain, 3)`.
        budget: The total that may be spent.
        algorithm: `rt.Adaptive()` by default; `rt.MWEM`, `rt.TextbookPMW` and `rt.DualQuery` are the papers' own.
        ledger: A ledger or its file: measurements are then durable, after a crash the same call resumes with what was
            measured, and a session on the same ledger shares its budget.
        anchor: Where the ledger's anchor is kept, by default beside it.
        progress: True shows a bar on terminals and in notebooks, False none; a function is called with each step.

    Returns:
        The release: answers, synthetic rows, models and a report, all free from here on.

    Raises:
        QueryError: An argument has the wrong type or is out of range.
        BudgetError: The ledger has too little left.
        LedgerError: The ledger is another table's, damaged or in use.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
        >>> table = rt.Table.of(rows, domain)
        >>> made = rt.release(table, rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
        >>> made.answer(rt.count(rt.col("age") >= 40)).certified
        True
    """
    require(table, Table, "table", "rt.Table.read(file, domain)")
    require(workload, Workload | Conjunctions, "workload", "rt.marginals(domain, 3) or rt.Workload([...])")
    require(budget, Budget, "budget", "rt.Budget(epsilon=1, delta=1e-9)")
    algorithm = Adaptive() if algorithm is None else _checked(algorithm)
    if anchor is not None and not isinstance(ledger, str | Path):
        raise QueryError("anchor= is the place of a ledger file's anchor: give ledger= the name of that file, too")
    workload = workload.on(table.domain)
    check_rules(table.domain)
    found = discovered(table.domain, table.neighbours, table.unit)
    budget_of([PublishedBudget("", budget, 0), *found])  # refuses what together protects nobody
    key = _run_key(table, workload, budget, algorithm)
    only_gaussian = getattr(algorithm, "only_gaussian", False)
    noise = composing(budget, found).noise if only_gaussian else None
    opened = _open(ledger, table, budget, anchor, noise)
    try:
        budget = _composed_like(opened, budget)
        # A secret sample pays the prices of its own, smaller size into the whole table's ledger (spec 7.4).
        sample = _sample_of(algorithm, workload, table)
        curator = Curator(table if sample is None else Subsample(table, sample), opened)
        if (finished := _published(opened, key)) is not None:
            return finished
        before, begun = opened.charged(key), _begun(curator, opened, key, budget, algorithm, sample)
        typical = int(begun.get("typical", 0))
        allowance = int(begun["allowance"]) - typical
        with keeping("the release", ledger), listening(progress) as report:
            outcome = _as_begun(algorithm, begun).run(curator, workload, allowance=allowance, key=key, report=report)
            if typical:
                outcome = _with_typical(outcome, curator, workload, typical, algorithm, key)
        spent = opened.charged(key)
        if sample is not None:
            records = table.records or sample
            alone = amplified_run(budget, spent, sample=sample, records=records)
            notes = outcome.notes | {"sample": sample, "amplified": alone}
            outcome = replace(outcome, records=float(records), notes=notes)
        facts = {
            "name": table.name,
            "unit": table.unit,
            "neighbours": table.neighbours,
            "version": table.version,
            **statement(each_ledger_once(PublishedBudget(opened.name, budget, spent), *found)),
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
            told = f"{ledger}: {refused}"
            if budget.limit > opened.budget.limit:
                told += f"; the ledger was opened for {opened.budget!r}, which a release with {budget!r} does not raise"
            raise BudgetError(told, requested=refused.requested, remaining=left) from None
        raise
    finally:
        if opened is not ledger:
            opened.close()
    return published


def _sample_of(algorithm: Algorithm, workload: Workload | Conjunctions, table: Table) -> int | None:
    """The number of secret records that the algorithm uses; None for the whole table."""
    sampled = getattr(algorithm, "sampled", None)
    return None if sampled is None else sampled(workload, table.domain, table.records)


def _checked(algorithm: Any) -> Algorithm:
    """Check that this is an instance of an algorithm, not its class or name."""
    if isinstance(algorithm, type):
        raise QueryError(f"algorithm is the class {algorithm.__name__}; give an instance, for example rt.MWEM()")
    if not (hasattr(algorithm, "run") and hasattr(algorithm, "describe")):
        raise QueryError(f"algorithm is of type {type(algorithm).__name__}; give an instance, for example rt.MWEM()")
    return algorithm


def _open(
    ledger: str | Path | Ledger | None, table: Table, budget: Budget, anchor: str | Path | None, noise: str | None
) -> Ledger:
    if isinstance(ledger, Ledger):
        _require_one_unit(ledger.budget, budget, "the ledger")
        return ledger
    if ledger is None:
        return Ledger.memory(identity=table.identity, budget=budget.composed_like(noise))
    path = named_path(ledger, "census.ledger")
    with reading_file(path):
        total = _budget_of(path) or budget
    _require_one_unit(total, budget, str(path))
    return Ledger.open(path, identity=table.identity, budget=total, anchor=anchor, noise=noise)


def _require_one_unit(whole: Budget, budget: Budget, name: str) -> None:
    """A ledger counts in one unit; what is charged in the other would be stated as something that it is not."""
    if whole.unit != budget.unit:
        raise QueryError(f"{name} holds a budget of {whole.unit}, this release asks for {budget.unit}; use one kind")


def _composed_like(ledger: Ledger, budget: Budget) -> Budget:
    """The budget of this release in the units of its ledger."""
    if budget.gaussian and not ledger.budget.gaussian:
        raise QueryError(
            "the ledger composes all noise as zCDP, this release asks for exact composition of Gaussian noise: leave"
            " noise= out, or use another ledger"
        )
    return budget.composed_like(ledger.budget.noise)


def _budget_of(path: Path) -> Budget | None:
    """The whole budget of a ledger; None if there is no ledger yet."""
    facts = opening(path)
    return None if facts is None else opened_budget(facts)


def _begun(
    curator: Curator, ledger: Ledger, key: str, budget: Budget, algorithm: Any, sample: int | None
) -> Mapping[str, Any]:
    """The spending limit and the algorithm, fixed when the release first starts; a different plan could not
    resume it.
    """
    for event in map(ledger.event, ledger.noted("release")):
        if event.payload.get("run") == key:
            return event.payload
    terms: dict[str, Any] = {"run": key, "allowance": min(budget.limit, ledger.remaining), "sample": sample}
    if (units := typical_units(curator, algorithm, terms["allowance"])) > 0:
        terms["typical"] = units
    if isinstance(algorithm, Resumable):
        terms |= algorithm.terms()
    if terms["allowance"] > 0:
        ledger.append("release", terms)
    return terms


def _with_typical(
    outcome: Outcome, curator: Curator, workload: Workload, units: int, algorithm: Any, key: str
) -> Outcome:
    error = typical_error(curator, outcome, workload, units, confidence=algorithm.confidence, key=key)
    return outcome if error is None else replace(outcome, typical=(error,))


def _as_begun(algorithm: Algorithm, begun: Mapping[str, Any]) -> Algorithm:
    """The algorithm with the terms with which the run began."""
    return algorithm.resumed(begun) if isinstance(algorithm, Resumable) else algorithm


def _published(ledger: Ledger, key: str) -> Release | None:
    """The release that this same call has already published on the ledger, bit for bit the same on every processor."""
    for event in map(ledger.event, ledger.noted(PUBLISHED)):
        if event.payload["run"] == key:
            release = Release.from_bytes(ledger.get_blob(event.payload["release"]))
            return replace(release, facts=release.facts | {"charged_now": 0})
    return None


def _keep(ledger: Ledger, key: str, published: Release) -> None:
    """Store the release in the ledger that paid for it; a session on this ledger can start from it."""
    data = published.to_bytes()
    ledger.append(PUBLISHED, {"run": key, "release": sha256(data)}, blobs=[data])


def _run_key(table: Table, workload: Workload, budget: Budget, algorithm: Algorithm) -> str:
    """The key of one release in its ledger: after a crash, the same call finds its own measurements."""
    parts = [table.identity, workload.to_dict(), budget.to_dict(), algorithm.describe()]
    return "release:" + hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _version() -> str:
    from reticent import __version__

    return __version__


@dataclass(frozen=True, eq=False)
class Release:
    """A published distribution. It holds only public information and answers any number of questions.

    `rt.release` creates one, `rt.fit` creates one from measurements that were made elsewhere, and `Release.load` reads
    one.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
        >>> table = rt.Table.of(rows, domain)
        >>> made = rt.release(table, rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
        >>> made.synthesize(5, seed=1).num_rows
        5
    """

    hypothesis: Hypothesis
    measurements: tuple[Measurement, ...]
    """Shares of the table; of a mean, shares of the range of its column, whose smallest number is 0."""
    certificates: tuple[Certificate, ...]
    records: float
    notes: dict[str, Any]
    facts: dict[str, Any]
    knowledge: Knowledge
    """The knowledge behind all answers: one snapshot and the bounds on its errors."""
    guarantees: tuple[Guarantee, ...] = ()
    """The bound that a theorem or an audit gives for every query of the workload."""
    losses: tuple[LossCertificate, ...] = ()
    """Certificates for models of declared losses."""
    replicated: Replicates | None = None
    """The replicates added by `replicates`; they are post-processing and not part of what was paid for."""

    @classmethod
    def of(cls, outcome: Outcome, facts: dict[str, Any]) -> Release:
        """Create a release from the outcome of an algorithm.

        Args:
            outcome: What `Algorithm.run` returned.
            facts: Public facts of the run: domain, budget, algorithm, publications.

        Returns:
            The release.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1), table.identity)
            >>> workload = rt.marginals(table.domain, 1)
            >>> run = rt.MWEM(rounds=2).run(Curator(table, ledger), workload, allowance=10**9, key="run")
            >>> rt.Release.of(run, {}).records
            3000.0
        """
        snapshot, certificates, guarantees = Snapshot(outcome.hypothesis), outcome.certificates, outcome.guarantees
        bounds = (*certificates, *guarantees)
        uncertain = [float(outcome.notes.get("records_error", 0.0)), *(bound.records_error for bound in bounds)]
        certified = (Certified(snapshot, certificates, guarantees),) if bounds else ()
        learnt = frozenset(name for measured in outcome.measurements for name in measured.query.attributes)
        unit = facts.get("unit", "record")
        shares = Shares(joint=False, in_records=all(bound.of_counts is not None for bound in bounds))
        knowledge = Knowledge(
            snapshot, outcome.records, max(uncertain), certified, unit=unit, learnt=learnt, shares=shares
        )
        for error in outcome.typical:
            knowledge = knowledge.with_typical(snapshot, error)
        for loss, model in (pair for found in outcome.losses for pair in found.models().items()):
            knowledge = knowledge.with_model(loss, model)
        return cls(
            outcome.hypothesis,
            outcome.measurements,
            outcome.certificates,
            outcome.records,
            outcome.notes,
            facts,
            knowledge,
            outcome.guarantees,
            outcome.losses,
        )

    @property
    def domain(self) -> Domain:
        return self.hypothesis.domain

    @property
    def typical(self) -> tuple[TypicalError, ...]:
        """Typical errors: bounds that hold for most questions of a distribution."""
        return tuple(typical.error for typical in self.knowledge.typical)

    def __repr__(self) -> str:
        bound = min((c.bound for c in (*self.certificates, *self.guarantees)), default=None)
        if bound is None:
            certified = f", workload cells not certified: {why}" if (why := self.notes.get("uncertified")) else ""
        elif certifies(bound):
            certified = f", workload cells certified to ±{bound:.3g}"
        else:
            certified = ", workload cells not certified: too few records for this budget"
        certified = ", nothing measured: synthetic rows are uniform" if nothing_measured(self.knowledge) else certified
        fitted = "" if self.notes.get("converged", True) else f", fit {self.notes['fit']}"
        return f"<Release of {self.facts['name']!r}: {len(self.domain)} attributes, {self.privacy}{certified}{fitted}>"

    @property
    def stated(self) -> bool:
        """Whether the release states its privacy cost; one that `rt.fit` created from other measurements does not."""
        return self.facts["budget"] is not None

    @property
    def privacy(self) -> str:
        """The privacy guarantee in one line."""
        if not self.stated:
            return UNSTATED
        terms = self.facts["budget"].items()
        numbers = [f"{name} {float(Fraction(text)):g}" for name, text in terms if name != "noise"]
        guarantee = self.facts["privacy"]
        numbers += [f"GDP mu {guarantee['mu']:.4g}"] if "mu" in guarantee and "rho" in self.facts["budget"] else []
        stated = ", ".join(numbers)
        if "approximate" in self.facts["budget"] and "rho" in self.facts["budget"]:  # the sum with a discovery
            delta, epsilon = min(Budget.from_dict(self.facts["budget"]).guarantee()["epsilon"].items())
            stated = (
                f"epsilon {math.ceil(epsilon * 1000) / 1000:g}, delta {delta:g} with its discovered domain ({stated})"
            )
        unit = "person with all rows" if self.facts["unit"] == "row" else self.facts["unit"]
        return f"{stated}, {self.facts['neighbours']}, unit {unit}"

    @property
    def confidence(self) -> float:
        """The probability with which a stated error holds: that of its certificate, or the largest if they differ."""
        return max((bound.confidence for bound in (*self.certificates, *self.guarantees)), default=USUAL_CONFIDENCE)

    def answer(self, query: Query) -> Answer:
        """Answer one query from the released hypothesis. This is free, any number of times.

        Args:
            query: A query built with `rt.count`, `rt.marginal` and the like.

        Returns:
            The answer, with a bound on its error where one is certified.

        Raises:
            QueryError: The query does not fit the domain.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> made.answer(rt.count(rt.col("a") == 1)).certified
            True
        """
        asked = checked_query(query)
        found = free_answer(self.knowledge, Request(asked, confidence=self.confidence))
        assert found is not None, "without a wanted error there is an answer"
        return found.drawn_from(self._sample(asked))

    def _sample(self, query: Query) -> Sample:
        asked = query.resolve(self.domain)
        if not self.stated:
            return Sample(self.knowledge, asked, self.replicated)
        budget = partial(Budget.from_dict, self.facts["budget"])
        return Sample(self.knowledge, asked, self.replicated, budget, self.facts["neighbours"])

    @overload
    def ask(self, question: Query | StatisticQuery) -> Answer: ...

    @overload
    def ask(self, question: str, *, synthetic_rows: bool = False) -> ResultTable: ...

    def ask(self, question: Query | StatisticQuery | str, *, synthetic_rows: bool = False) -> Answer | ResultTable:
        """Answer a query or SQL text from what was published, like `Session.ask`.

        Args:
            question: A query, a statistic such as `rt.median("age")`, or one statement of SQL.
            synthetic_rows: Whether `SELECT *` and other lists of records show synthetic rows instead of being refused.

        Returns:
            The answer to a query, or the result of a statement; both are free.

        Raises:
            QueryError: The question cannot be answered; the message says why, and what can be asked instead.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> made.ask("SELECT COUNT(*) FROM people").rows
            ((3000.0,),)
        """
        if not isinstance(question, (str, StatisticQuery)):
            return self.answer(question)
        from reticent.sql.asking import answer_of, compile_statistic, free_table
        from reticent.sql.population import TableSample
        from reticent.sql.statement import compile_sql

        if isinstance(question, str):
            statement = compile_sql(question, self.domain, star=synthetic_rows)
        else:
            statement = compile_statistic(question, self.domain)
        found = free_table(self.knowledge, Request(statement, confidence=self.confidence))
        assert found is not None, "without a wanted error there is a result"
        if not isinstance(question, str):
            return answer_of(question, found)
        return found.drawn_from(TableSample(self.knowledge, statement, self.replicated))

    def expected_variation(self) -> dict[tuple[str, ...], float]:
        """Estimate, without a guarantee, the total variation of each measured marginal.

        Returns:
            A number for each set of attributes.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> list(made.expected_variation())
            [('a',)]
        """
        return expected_variation(self.hypothesis, self.measurements)

    def replicates(self, count: int = 80, *, seed: int = PUBLIC_SEED, progress: Report | bool = True) -> Release:
        """Add replicates, from which the distance of the release from the population is estimated. This is free and
        public.

        Each replicate perturbs the measurements as sampling and noise would have, and refits. `Answer.population`,
        `Model.population` and `synthesize(replicates=...)` use them; `save` writes them to the file. They apply to
        simple random samples: design weights, clusters and finite populations are not covered
        (docs/guide/population.md).

        Args:
            count: How many, 10 to 1000; survey files carry 80.
            seed: Of public randomness; the same seed yields the same replicates.
            progress: Whether to show a bar on terminals and in notebooks; or a function that is told of each replicate.

        Returns:
            A release that answers as this one does, with `replicated` set.

        Raises:
            QueryError: If the release was not made by `rt.Adaptive()`, or its workload held ranges.

        Example:
            >>> import reticent as rt
            >>> import pyarrow as pa
            >>> domain = rt.Domain(smokes=rt.Categorical(["no", "yes"]))
            >>> table = rt.Table.of(pa.table({"smokes": ["no", "no", "yes", "no"] * 500}), domain)
            >>> release = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> release.replicates(10).replicated.count
            10
        """
        count = checked_replicates(count)
        seed = whole_number(seed, "seed", 0)
        held = self.replicated
        if held is not None and (held.count, held.seed) == (count, seed):
            return self
        check_replicable(self.facts.get("algorithm", {}).get("algorithm"), levels="levels" in self.notes)
        with listening(progress) as report:
            made = made_replicates(
                self.hypothesis,
                self.measurements,
                records=self.records,
                public_records=self.facts["neighbours"] == "replace-one",
                count=count,
                sets=self._measured_sets,
                seed=seed,
                progress=report,
            )
        return self._with(made)

    @property
    def _measured_sets(self) -> list[tuple[str, ...]]:
        """The attribute sets inside those of the workload."""
        asked = Workload.from_dict(self.facts["workload"]).on(self.domain)
        return measured_sets(self.domain, target_sets(asked, self.domain), LARGEST_MARGINAL)

    def _with(self, replicated: Replicates | None) -> Release:
        return replace(self, replicated=replicated)

    def synthesize(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        independent: bool = False,
        replicates: int | None = None,
    ) -> pa.Table:
        """Draw synthetic rows with decoded values; their marginals are closer to the release than independent sampling
        allows.

        With `replicates=80` the rows have columns `repwt1` to `repwt80`, replicate weights in the survey convention:
        the variance of any statistic is the mean over replicates of its squared distance from the value with equal
        weights (scale 1/80, `mse=TRUE`). It includes the variance added by sampling the rows. Weights and rows are
        post-processing.

        Args:
            rows: How many; default: as many as records, four times as many with replicate weights, the fewest there.
            seed: Of public randomness: it cannot weaken privacy.
            independent: Draw rows independently, where a procedure assumes it.
            replicates: How many columns of replicate weights; made with `replicates()` unless the release holds them.

        Returns:
            Rows with the names and values of the domain.

        Raises:
            QueryError: If rows are too few for the weights, or the weights too uneven for the rows.
            ResourceError: If the rows need more memory than there is.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> made.synthesize(10, seed=1).num_rows
            10
        """
        require(independent, bool, "independent", "True or False")
        seed = None if seed is None else whole_number(seed, "seed", 0)
        count = None if replicates is None else checked_replicates(replicates)
        # A list of conjunctions is kept by its digest only.
        listed = "conjunctions" not in self.facts["workload"]
        asked = target_sets(Workload.from_dict(self.facts["workload"]), self.domain) if listed else ()
        sets = 0 if independent else len(three_way_sets(self.domain, asked))
        rows = checked_rows(rows, self.domain, self.records, sets=sets, replicates=count)
        assert rows is not None, "the number of records is known"
        if count is not None:
            held = self.replicated
            held = held if held is not None and held.count == count else self.replicates(count).replicated
            assert held is not None, "just made"
            return weighted_rows(held, rows, np.random.default_rng(seed), independent=independent)
        return synthesize(self.hypothesis, rows, np.random.default_rng(seed), asked=asked, independent=independent)

    def minimize(self, loss: ConvexLoss) -> Model:
        """Fit a model: the minimiser of a convex loss on the released hypothesis. This is free.

        Args:
            loss: For example `rt.Logistic(features=[...], label=...)`.

        Returns:
            The model, with a bound on its excess risk where a certificate covers the loss.

        Raises:
            QueryError: The loss does not fit the domain.

        Example:
            >>> import pyarrow, reticent as rt
            >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
            >>> made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
            >>> model = made.minimize(rt.Logistic(features=["age"], label="smoker"))
            >>> model.positive
            'smoker = yes'
        """
        from reticent.knowledge.population_losses import LossSample
        from reticent.releases.models import free_model

        sample = None
        if self.stated:
            fewest = self.knowledge.records * (1 - self.knowledge.records_error)
            budget = partial(Budget.from_dict, self.facts["budget"])
            sample = LossSample(fewest, self.knowledge.unit, self.facts["neighbours"], budget)
        return free_model(self.knowledge, loss, self.confidence).drawn_from(self.replicated, sample)

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        author: str | None = None,
        date: str | None = None,
        source: str | None = None,
    ) -> Path:
        """Write a self-contained HTML page: the amount spent, the guarantee, and the measurements.

        Args:
            path: The file to write.
            title: By default the table's name.
            author: Who publishes it.
            date: As it should be read, for example "17 November 2026".
            source: Where the rows come from and which were selected.

        Returns:
            The path.

        Raises:
            ReticentError: The file cannot be written.

        Example:
            >>> import tempfile
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     made.report(f"{folder}/release.html").name
            'release.html'
        """
        from reticent.report import Cover, write_release

        for name, text in (("title", title), ("author", author), ("date", date), ("source", source)):
            require(text, str | None, name, "a text, or None")
        return write_release(self, named_path(path), Cover(title, author, date, source))

    def plot(self, *names: str) -> Any:
        """Plot attributes with certified errors: bars for one attribute, a heat map for two. It needs matplotlib.

        Args:
            names: One or two attributes; without names every attribute by itself.

        Returns:
            A matplotlib figure.

        Raises:
            QueryError: An attribute is unknown, there are more than two, or matplotlib is not installed.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> release = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(rho=1))
            >>> figure = release.plot("a")  # doctest: +SKIP
        """
        from reticent.knowledge.plotting import plot_release

        return plot_release(self, names)

    def save(self, path: str | Path) -> Path:
        """Write the release to one file: domain, hypothesis, transcript, prices, versions. It holds no secrets.

        Args:
            path: The file to write.

        Returns:
            The path.

        Raises:
            ReticentError: The file cannot be written.

        Example:
            >>> import tempfile
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     made.save(f"{folder}/people.release").name
            'people.release'
        """
        return write_file(named_path(path, "census.release"), self.to_bytes())

    @property
    def digest(self) -> str:
        """SHA-256 of the saved file; the ledger that paid for it records the same, and `ledger verify --release`
        compares them.

        It covers the file without replicates, which may be added later at no cost.
        """
        return sha256(self._with(None).to_bytes())

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes; the same release always has the same bytes.

        Returns:
            The bytes.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> made.to_bytes() == made.to_bytes()
            True
        """
        manifest = {
            "format": FORMAT,
            "domain": self.domain.to_dict(),
            "certificates": [c.to_dict() for c in self.certificates],
            "records": self.records,
            "notes": self.notes,
            # What one call was charged is no fact about what it published: run again, it yields the same bytes.
            "facts": {name: fact for name, fact in self.facts.items() if name != "charged_now"},
            **({"guarantees": [g.to_dict() for g in self.guarantees]} if self.guarantees else {}),
            "measurements": [{"query": m.query.to_dict(), "sd": m.sd, "noise": m.noise} for m in self.measurements],
            **({"losses": [certificate.to_dict() for certificate in self.losses]} if self.losses else {}),
            **({"typical": [error.to_dict() for error in self.typical]} if self.typical else {}),
        }
        if (held := self.replicated) is not None:
            manifest["replicates"] = {"seed": held.seed, "sets": held.sets}
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_entry("manifest.json"), json.dumps(manifest, indent=1, default=_plain))
            archive.writestr(_entry("hypothesis.bin"), self.hypothesis.to_bytes())
            for index, measurement in enumerate(self.measurements):
                with archive.open(_entry(f"measurements/{index}.npy"), "w") as entry:
                    np.lib.format.write_array(entry, np.asarray(measurement.values), allow_pickle=False)
            for index, differences in enumerate(() if held is None else held.tables):
                with archive.open(_entry(f"replicates/{index}.npy"), "w") as entry:
                    np.lib.format.write_array(entry, differences, allow_pickle=False)
        return packed.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return Release.from_bytes, (self.to_bytes(),)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a file that `save` wrote.

        Args:
            path: The file.

        Returns:
            The release: same bytes, same answers.

        Raises:
            ReticentError: The file cannot be read, or is no release of this version.

        Example:
            >>> import tempfile
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     loaded = rt.Release.load(made.save(f"{folder}/people.release"))
            >>> loaded.to_bytes() == made.to_bytes()
            True
        """
        path = named_path(path, "census.release")
        with reading_file(path):
            if path.stat().st_size > LARGEST_CONTENT:
                raise ReticentError(f"{shown_path(path)}: not a saved release (larger than any)")
            packed = path.read_bytes()
        return cls.from_bytes(packed, shown_path(path))

    @classmethod
    def from_bytes(cls, packed: bytes, path: str = "these bytes") -> Release:
        """Read the bytes that `to_bytes` returned.

        Args:
            packed: The bytes.
            path: What error messages call them.

        Returns:
            The release.

        Raises:
            ReticentError: The bytes are no release of this version.

        Example:
            >>> import pyarrow, reticent as rt
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> made = rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
            >>> rt.Release.from_bytes(made.to_bytes()).domain == table.domain
            True
        """
        content = read_release(packed, path)
        outcome = Outcome(
            content.hypothesis,
            content.measurements,
            content.certificates,
            content.records,
            content.notes,
            content.guarantees,
            content.losses,
            content.typical,
        )
        return cls.of(outcome, content.facts)._with(content.replicates)

    def _repr_html_(self) -> str:
        from reticent.report import release_summary

        return release_summary(self)


def _entry(name: str) -> zipfile.ZipInfo:
    """An archive entry without the time and the operating system, which would otherwise be recorded."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
    return entry


def _plain(value: Any) -> Any:
    return cast("Any", value).tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
