"""The default release: measures marginals of the workload in rounds, fits a shrunk log-linear model and audits it.

Single queries are measured themselves if reading them off a noisy table would give a larger error (`direct.py`). For
the rest of the workload, the first round measures every set of attributes inside its sets. Later rounds add precision
where it reduces the workload's error most (`rounds.py`); with Gaussian noise they measure residuals of marginals.

A small universe is held as a whole. It is measured as one histogram if one noisy count per cell answers the workload
better than many noisier marginals, as in tables of a few binary attributes; with Gaussian noise, only if the noise
exceeds the counts, because residuals are better otherwise. In a large universe a junction tree of the strongest pairs
proposes records, and their weights are fitted to all measurements (spec release.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError, whole_number
from reticent.hypotheses.base import FitReport, Hypothesis, Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.consistent import MeasuredForm
from reticent.hypotheses.fitting.histogram import drowns, estimate
from reticent.hypotheses.fitting.loglinear import LogLinear, fit_loglinear
from reticent.hypotheses.fitting.missing import with_missing_cells
from reticent.hypotheses.fitting.proportional import move_onto
from reticent.hypotheses.junction_tree.engine import FactoredEngine
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.hypotheses.junction_tree.tree import JunctionTree, rule_masks, rule_tree_cells
from reticent.hypotheses.memory import refuse_beyond
from reticent.hypotheses.moving import fit_and_move, log_density, stratified_support
from reticent.hypotheses.one_thread import on_one_thread
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import LARGEST_MARGINAL, SupportHypothesis
from reticent.kernel.accounting import Real, exact
from reticent.kernel.curator import Curator
from reticent.knowledge.certificates import held
from reticent.knowledge.guarantees import Guarantee, MeasuredShare, Outcome, Progress, Report, silent
from reticent.knowledge.tails import check_confidence
from reticent.queries.linear import Marginal, Residual
from reticent.queries.workload import Workload
from reticent.releases.budgeting import TOTAL_SHARE, Collection, Steps, checked_share, too_little
from reticent.releases.candidates import (
    Interaction,
    closure,
    interactions,
    measured_sets,
    pairs_of_a_tree,
    target_sets,
    without_single_codes,
)
from reticent.releases.direct import QUERIES, DirectQueries, NoiseCosts
from reticent.releases.levels import LevelPlan, level_plans
from reticent.releases.pure_plan import histogram_serves
from reticent.releases.rounds import (
    ONLY_ROUND,
    STEPS,
    TOTAL,
    first_shares,
    measure_in_rounds,
    records_share,
    residuals_planned,
)
from reticent.releases.table_audits import AUDITS, TableAudits
from reticent.releases.workload_audit import audited

__all__ = ["Adaptive"]

Set = tuple[str, ...]

HISTOGRAM_NOISE = 0.4
"""The histogram is measured if the workload's marginals, summed from its cells, have less than this share of the noise
of marginals measured one by one. The sums share their noise, which a fit cannot average away.
"""
PUBLIC_SEED = 20240229
"""Seed for proposed records and likely tables. It is public post-processing, and a rerun draws the same ones."""
SUPPORT_WORK = 2**25
"""Limit on records times fitted sets. One iteration of the last fit passes over them four times, which takes half a
second.
"""
FORMER_FAINT = 0.05
"""The scale below which earlier versions left a pair out of their fits."""
FORMER_FIT = {"method": "staged"}
"""The fit of runs whose audit began before hypotheses were stored; the audit refers to this fit only."""
FIRST_STEPS = ("round 1", "histogram", "all", "first")
"""Names under which runs began before ranges were measured in levels."""
OWN_NOISE = "noise of the queries' own measurements"
"""What a certificate of queries that were measured themselves rests on."""
AUDITED = f"marginals and {AUDITS} audits"
UNAUDITED = "use rt.Adaptive(audit_share=0), which certifies nothing"


@dataclass(frozen=True)
class Adaptive:
    """The default algorithm of `rt.release`.

    A share `audit_share` of the budget certifies the workload at the end; the rest is spent on measurements, and all of
    it if the table has too few records for any certificate. A universe of up to `histogram_cells` cells may be measured
    as one histogram, which takes a second or two at this size. A universe of up to `dense_cells` cells is held as one
    tensor. For larger universes a junction tree of up to `model_cells` cells proposes `support` weighted records.

    Args:
        audit_share: The share of the budget for the certificate, from 0 to 0.5.
        histogram_cells: The largest universe that may be measured as one histogram.
        dense_cells: The largest universe that is held as one tensor.
        model_cells: The largest number of cells of the junction tree of a larger universe.
        support: The number of weighted records that represent a larger universe.
        confidence: The probability with which the certificate holds.
        at_once: Measure marginals, a universe held whole in one round, for sessions, which answer from single
            measurements.

    Raises:
        QueryError: An argument has the wrong type or is out of range.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
        >>> table = rt.Table.of(rows, domain)
        >>> method = rt.Adaptive(audit_share=0.1)
        >>> made = rt.release(table, rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9), algorithm=method)
        >>> made.domain.names
        ('age', 'smoker')
    """

    audit_share: Real = Fraction(1, 25)
    histogram_cells: int = 2**15
    dense_cells: int = 2**22
    model_cells: int = 2**17
    support: int = 2**17
    confidence: float = 0.95
    at_once: bool = False

    only_gaussian: ClassVar[bool] = True
    """With a budget that is not pure, all its noise is Gaussian: a new ledger may compose it exactly."""

    def __post_init__(self) -> None:
        if checked_share(self.audit_share) is None:
            raise QueryError("audit_share is None; give a share of the budget, from 0 to 0.5")
        check_confidence(self.confidence)
        for name, least in {"histogram_cells": 0, "dense_cells": 1, "model_cells": 1, "support": 1}.items():
            object.__setattr__(self, name, whole_number(getattr(self, name), name, least))

    @property
    def _audit_share(self) -> Fraction:
        return exact(self.audit_share, "audit_share") if self.audit_share else Fraction(0)

    def describe(self) -> dict[str, Any]:
        """Plain values that identify this run in its ledger. The same description under the same key continues an
        interrupted run.

        Returns:
            The algorithm and its settings, as plain values.

        Example:
            >>> import reticent as rt
            >>> rt.Adaptive().describe()["algorithm"]
            'Adaptive'
        """
        return {
            "algorithm": "Adaptive",
            "audit_share": str(self._audit_share),
            "histogram_cells": self.histogram_cells,
            "dense_cells": self.dense_cells,
            "model_cells": self.model_cells,
            "support": self.support,
            "confidence": self.confidence,
            **({"at_once": True} if self.at_once else {}),
        }

    @on_one_thread
    def run(
        self,
        curator: Curator,
        workload: Workload,
        *,
        allowance: int,
        key: str,
        report: Report = silent,
        analyst: str | None = None,
    ) -> Outcome:
        """Measure, fit and audit. After a crash, the same key returns the measurements already made.

        Args:
            curator: The only way to the rows; it charges the ledger.
            workload: What the release should answer well.
            allowance: Nano-units to spend.
            key: Names the run in the ledger.
            report: Called with public progress.
            analyst: Who pays, under that analyst's cap; None for spending that is nobody's.

        Returns:
            The fitted hypothesis, what was measured, and what is certified.

        Raises:
            QueryError: The workload is empty, or the universe or the memory it needs is too large.
            BudgetError: The allowance pays for less than one measurement.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 1000}), rt.Domain(a=3))
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1), table.identity)
            >>> workload = rt.marginals(table.domain, 1)
            >>> run = rt.Adaptive().run(Curator(table, ledger), workload, allowance=ledger.remaining, key="run")
            >>> run.records
            3000.0
        """
        domain = curator.domain
        targets = target_sets(workload, domain)
        if not targets and workload:
            raise QueryError(
                "the workload asks for the number of records alone, which every release states: name a marginal or "
                "query of at least one column, or ask a session for rt.count()"
            )
        if not targets:
            raise QueryError("the workload is empty; name at least one marginal or query")
        self._check_size(domain, targets)
        refuse_beyond(self.memory(domain, targets), "Adaptive", "use coarser attributes or a smaller workload")
        collection = Collection(curator, allowance, key, analyst)
        direct = self._direct(collection, workload.on(domain), targets)
        own = direct is not None and direct.all_queries and collection.bounds_queries(QUERIES)
        tables = direct is None or not direct.complete
        audits = int(allowance * self._audit_share) if tables or not own else 0
        if self.audit_share and (tables or not own) and audits < AUDITS:
            needed = ceil(AUDITS / self._audit_share)
            raise too_little(allowance, curator.budget, AUDITED, needed=needed, remedy=UNAUDITED)
        asked = targets if direct is None else direct.tables
        checks = TableAudits.of(curator, asked, audits, confidence=self.confidence, key=key)
        if checks.spare(collection):
            audits = 0
        units = allowance - audits
        if audits and (direct is None or own):
            collection.spare = lambda: checks.spare(collection)
        collection.plans = _level_plans(curator, workload, collection, key)
        if direct is not None:
            targets, units = direct.tables, self._measure_queries(collection, direct, units, audits, report)
        learn = self._whole if domain.size <= self.dense_cells else self._proposed
        fitted_formerly = curator.begun(f"{key}:audit:cells") is not None and curator.kept(f"{key}:hypothesis") is None
        fit_options = FORMER_FIT if fitted_formerly else {}
        learned = without_single_codes(domain, targets, collection.plans)
        hypothesis, notes = learn(collection, domain, learned, units, report, fit_options)
        certificates, guarantees = (), ()
        if self.audit_share:
            report(Progress(STEPS - 1, STEPS, "auditing the workload", collection.spent_share))
            hypothesis = held(curator, hypothesis, key)
            if collection.singles:
                guarantees = self._own_noise(collection, workload, hypothesis)
                if not own:
                    audit = self._guarantee(curator, collection, workload, hypothesis, bool(targets), key)
                    hypothesis, guarantees = audit[0], (*guarantees, *audit[1])
            if targets or not collection.singles:
                certificates, why = checks.pay(collection, hypothesis, fitted_formerly=fitted_formerly)
                notes |= {"uncertified": why} if why else {}
        count, error = collection.records
        done = "done" if notes.get("converged", True) else f"done; fit {notes['fit']}"
        report(Progress(STEPS, STEPS, done, collection.spent_share))
        measurements = (*collection.measurements(), *collection.queries())
        queries = sum(len(single.queries) for single in collection.singles)
        notes |= {"records_error": error} | ({"queries": queries} if queries else {})
        return Outcome(hypothesis, measurements, certificates, count, notes, guarantees)

    def _check_size(self, domain: Domain, targets: Mapping[Set, float]) -> None:
        """Check, before anything is spent, that the measurements fit the model."""
        if domain.size <= self.dense_cells:
            return
        if sum(domain.shape) > self.model_cells:
            raise QueryError(
                f"model_cells={self.model_cells} cannot hold {len(domain)} single attributes with "
                f"{sum(domain.shape)} codes; allow at least that many"
            )
        if (cells := rule_tree_cells(domain)) > self.model_cells:
            raise QueryError(
                f"model_cells={self.model_cells} cannot hold the domain's impossible rules, whose tree has {cells} "
                "cells; allow at least that many"
            )
        for pair in closure(targets, 2):
            if domain.cells(pair) > LARGEST_MARGINAL:
                raise QueryError(
                    f"{' and '.join(pair)} have {domain.cells(pair)} cells together; at most {LARGEST_MARGINAL}:"
                    " use coarser bins, or leave the pair out of the workload"
                )

    def memory(self, domain: Domain, targets: Mapping[Set, float]) -> int:
        """Bytes that a run holds at once: measured cells as counted, released and fitted, and the hypothesis.

        Args:
            domain: The domain of the table.
            targets: Attribute sets of the workload, with their weights.

        Returns:
            An estimate from public facts alone.

        Example:
            >>> import reticent as rt
            >>> rt.Adaptive().memory(rt.Domain(a=3, b=2), {("a", "b"): 1.0}) < 2**20
            True
        """
        sets = measured_sets(domain, targets, LARGEST_MARGINAL)
        if domain.size <= self.dense_cells:
            # weights, their fit's two tensors and the logits that replace them
            return 8 * (3 * sum(map(domain.cells, sets)) + 4 * domain.size)
        records = min(self.support, max(SUPPORT_WORK // max(1, len(sets)), self.support // 8))
        return 8 * (3 * sum(map(domain.cells, sets)) + records * len(sets))

    def _direct(self, collection: Collection, workload: Workload, targets: Mapping[Set, float]) -> DirectQueries | None:
        """The queries to measure themselves; None for a run that an earlier version began without, and for a session,
        which answers from single measurements.
        """
        begun = any(map(collection.begun, (*FIRST_STEPS, TOTAL, ONLY_ROUND, "levels")))
        if self.at_once or (begun and not collection.begun(QUERIES)):
            return None
        terms = NoiseCosts(collection.cells_over_queries, collection.pure, collection.public_records)
        direct = DirectQueries.of(workload, workload.domain or collection.domain, targets, terms)
        if not direct.measured or collection.begun(QUERIES):
            return direct if direct.measured else None
        spend = int(collection.left * (1 - self._audit_share) * direct.share(collection.domain))
        return direct if min(direct.units(spend).values()) > 0 else None

    def _measure_queries(
        self, collection: Collection, direct: DirectQueries, units: int, audits: int, report: Report
    ) -> int:
        """Measure the chosen queries; returns the units that are left, but for `audits`."""
        spend = int(units * direct.share(collection.domain))
        shares = direct.units(spend)
        report(Progress(0, STEPS, f"measuring {sum(map(len, shares))} queries", collection.spent_share))
        collection.measure_queries(QUERIES, shares)
        if not collection.knows_records:
            # An earlier version counted queries without their rest, and the records beside them.
            collection.measure_records(TOTAL, int((units - spend) * TOTAL_SHARE))
        return collection.left - audits if collection.steps.whole else units - spend

    def _own_noise(self, collection: Collection, workload: Workload, hypothesis: Hypothesis) -> tuple[Guarantee, ...]:
        """The bounds that the measurements of single queries give for themselves, all together."""
        domain, readings = collection.domain, collection.readings()
        if not readings:
            return ()
        measured = tuple(
            MeasuredShare(place, hypothesis.expect(query), readings[query])
            for place, query in enumerate(workload.on(domain).queries)
            if query in readings
        )
        failure = (1 - self.confidence) / len(measured)
        return (
            Guarantee(
                theorem=OWN_NOISE,
                error=max(one.error(failure) for one in measured),
                confidence=self.confidence,
                snapshot=Snapshot(hypothesis).digest,
                workload=workload,
                domain=domain,
                measured=measured,
            ),
        )

    def _guarantee(
        self,
        curator: Curator,
        collection: Collection,
        workload: Workload,
        hypothesis: Hypothesis,
        tables: bool,
        key: str,
    ) -> tuple[Hypothesis, tuple[Guarantee, ...]]:
        """Audit the largest error of the single queries, with half of what is left if tables are audited, too."""
        left = max(0, collection.left)
        steps = Steps(curator, left // 2 if tables else left, f"{key}:queries")
        count, error = collection.records
        held_as, _, guarantees = audited(
            curator,
            workload,
            hypothesis,
            steps,
            records=count,
            records_error=error,
            confidence=self.confidence,
            key=key,
            tables=False,
        )
        collection.steps.left -= left // 2 if tables else left
        return held_as, guarantees

    # -- universes held whole ------------------------------------------------------------------------------

    def _whole(
        self,
        collection: Collection,
        domain: Domain,
        targets: Mapping[Set, float],
        units: int,
        report: Report,
        fit_options: Mapping[str, Any],
    ) -> tuple[Hypothesis, dict[str, Any]]:
        if domain.names in collection.plans and domain.size <= LARGEST_MARGINAL:
            return self._levels(collection, domain, units, report)
        sets = measured_sets(domain, targets, LARGEST_MARGINAL)
        whole, counted = self._measures_cells(collection, domain, targets, sets, units)
        units -= counted
        if whole:
            units += collection.spare()
            return self._histogram(collection, domain, sets, units, report)
        measure_in_rounds(collection, domain, targets, sets, units, report, at_once=self.at_once, residuals=True)
        report(Progress(STEPS - 2, STEPS, "fitting", collection.spent_share))
        hypothesis = DenseHypothesis(domain)
        fitted = hypothesis.fit(collection.fitted(), **fit_options)
        notes = {"representation": "dense", "measured": len(sets)} | _fit_notes(fitted)
        return hypothesis, notes | _ranges_kept(collection, hypothesis)

    def _levels(
        self, collection: Collection, domain: Domain, units: int, report: Report
    ) -> tuple[Hypothesis, dict[str, Any]]:
        """If the ranges cover all attributes, the joined levels are the hypothesis; a fit would add nothing."""
        levels = len(collection.plans[domain.names].widths)
        report(Progress(0, STEPS, f"measuring {domain.size} cells in {levels} levels", 0.0))
        collection.measure("levels", {domain.names: units})
        report(Progress(STEPS - 2, STEPS, "fitting", collection.spent_share))
        table = collection.tables()[domain.names]
        notes = {"representation": "dense", "measured": levels, "fit": "joined levels", "levels": levels}
        return DenseHypothesis(domain, table.values), notes

    def _measures_cells(
        self, collection: Collection, domain: Domain, targets: Mapping[Set, float], sets: Sequence[Set], units: int
    ) -> tuple[bool, int]:
        """Whether all cells are measured at once, and the units spent on the number of records to decide this."""
        if collection.plans or collection.singles or domain.size > self.histogram_cells:
            return False, 0
        if collection.begun("histogram") and not collection.begun(TOTAL):
            return True, 0
        if collection.pure and any(map(collection.begun, ("histogram", "round 1", ONLY_ROUND))):
            # An earlier version, or another processor's floats, may have decided otherwise.
            counted = _count_records(collection, units) if collection.begun(TOTAL) else 0
            return collection.begun("histogram"), counted
        if not self._histogram_pays(collection, domain, targets, sets, units):
            return False, 0
        stepwise = collection.pure or residuals_planned(collection, domain, sets, at_once=self.at_once)
        if self.at_once or not stepwise or units * TOTAL_SHARE < 1:
            return True, 0
        # Sets in rounds tell the workload with less noise, if normal; the mean of likely tables does better where all
        # drowns.
        counted = _count_records(collection, units)
        count, sd = max(collection.records[0], 1.0), collection.sd(units - counted)
        if drowns(domain.size, sd / count):
            return True, counted
        return collection.pure and histogram_serves(domain, sets, targets, sd**-2.0, count), counted

    def _histogram_pays(
        self, collection: Collection, domain: Domain, targets: Mapping[Set, float], sets: Sequence[Set], units: int
    ) -> bool:
        """Whether a histogram of all cells would show the workload with less noise than separate marginals, from sizes
        alone.
        """
        if collection.pure and not self.at_once:
            return histogram_serves(domain, sets, targets, 1.0, None)
        alone = first_shares(domain, sets, units)
        shares = {s: alone[s] for s in sets if len(s) == max(map(len, sets))}
        if min(shares.values()) < 1:
            return False
        own = sum(domain.cells(s) * collection.sd(share) for s, share in shares.items())
        summed = sum((domain.cells(s) * domain.size) ** 0.5 for s in shares) * collection.sd(units)
        return summed < HISTOGRAM_NOISE * own

    def _histogram(
        self, collection: Collection, domain: Domain, sets: Sequence[Set], units: int, report: Report
    ) -> tuple[Hypothesis, dict[str, Any]]:
        report(Progress(0, STEPS, f"measuring {domain.size} cells", 0.0))
        collection.measure("histogram", {domain.names: units})
        report(Progress(1, STEPS, "fitting", collection.spent_share))
        (measured,) = [m for m in collection.measurements() if isinstance(m.query, Marginal) and m.query.names]
        generator = np.random.default_rng(PUBLIC_SEED)
        likely, how = estimate(domain, measured, sets, laplace=collection.pure, generator=generator)
        return DenseHypothesis(domain, likely), {"representation": "dense", "measured": 1, "fit": how}

    # -- large universes -----------------------------------------------------------------------------------

    def _proposed(
        self,
        collection: Collection,
        domain: Domain,
        targets: Mapping[Set, float],
        units: int,
        report: Report,
        fit_options: Mapping[str, Any],
    ) -> tuple[Hypothesis, dict[str, Any]]:
        sets, pairs = measured_sets(domain, targets, LARGEST_MARGINAL), closure(targets, 2)
        # What a session answers from single measurements is of marginals.
        measure_in_rounds(collection, domain, targets, sets, units, report, at_once=False, residuals=not self.at_once)
        measurements = collection.fitted()
        found = interactions(measurements, domain)
        if fit_options:
            found = {pair: interaction for pair, interaction in found.items() if interaction.scale > FORMER_FAINT}
            measurements = [m for m in measurements if len(m.query.attributes) != 2 or _names(m, domain) in found]
        tree = pairs_of_a_tree(domain, _gains(found, targets), self.model_cells)
        report(Progress(STEPS - 2, STEPS, f"fitting {len(tree)} pairs on a tree, then all", collection.spent_share))
        model, fitted = self._fit_tree(domain, measurements, tree, fit_options)
        hypothesis = self._propose(domain, model, measurements, complete=not fit_options)
        if fit_options:
            refined = hypothesis.fit(measurements, start=model, **fit_options, progress=3e-3)
        else:
            records = self._records(measurements)
            hypothesis, refined = fit_and_move(hypothesis, measurements, model, records, PUBLIC_SEED)
        notes = {"representation": "support", "measured": len(sets), "pairs": len(pairs), "tree": len(tree)}
        notes |= {"tree_fit": fitted.message} | _fit_notes(refined)
        return hypothesis, notes | _ranges_kept(collection, hypothesis)

    def _fit_tree(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        tree: Sequence[Set],
        fit_options: Mapping[str, Any],
    ) -> tuple[LogLinear, FitReport]:
        rules = rule_masks(domain)
        structure = JunctionTree(domain, [*((name,) for name in domain.names), *tree, *rules])
        held = [m for m in measurements if structure.host(structure.positions(m.query.attributes)) is not None]

        def engine(sets: Sequence[Set]) -> FactoredEngine:
            return FactoredEngine(structure, sets, rules)

        return fit_loglinear(held, domain, engine, **fit_options)

    def _propose(
        self, domain: Domain, model: LogLinear, measurements: Sequence[Measurement], *, complete: bool
    ) -> SupportHypothesis:
        """Records drawn from the tree; their density lets the next fit reweight them to another model.

        With `complete`, cells that were clearly measured but are nearly absent from the tree get records too.
        """
        factored = FactoredHypothesis(domain, dict(zip(model.sets, model.potentials, strict=True)))
        records = self._records(measurements)
        codes = factored.systematic(records, np.random.default_rng(PUBLIC_SEED))
        if complete:
            codes = with_missing_cells(domain, codes, measurements, 2 * records)
        return stratified_support(domain, codes, log_density(domain, codes, model), distinct=complete)

    def _records(self, measurements: Sequence[Measurement]) -> int:
        """The number of records to draw: fewer if each step of the last fit passes over many sets."""
        sets = len({m.query for m in measurements})
        return min(self.support, max(SUPPORT_WORK // sets, self.support // 8))


def _level_plans(curator: Curator, workload: Workload, collection: Collection, key: str) -> dict[Set, LevelPlan]:
    """The widths at which ranges are measured; empty for a run that began before levels existed."""
    domain = curator.domain
    pure, public = collection.pure, collection.public_records
    plans = level_plans(workload.on(domain), domain, pure=pure, public_records=public)
    if not any(len(plan.widths) > 1 for plan in plans.values()):
        return plans
    begun = (curator.begun(curator.successor(f"{key}:{name}")[0]) for name in FIRST_STEPS)
    statistics: list[Any] = [request["statistics"] for request in begun if request is not None]
    formerly = statistics and not any("blocks" in described for listed in statistics for described in listed)
    return {} if formerly else plans


def _count_records(collection: Collection, units: int) -> int:
    """Buy the number of records if it is private and a choice depends on it; returns the units that this may cost."""
    if collection.public_records:
        return 0
    share = int(units * TOTAL_SHARE)
    if sum(size > 1 for size in collection.domain.shape) == 1:
        column = (collection.domain.size, 1.0, 1.0)
        share = max(share, int(units * records_share([column], 2 if collection.pure else 1)))
    collection.measure_records(TOTAL, share)
    return share


def _ranges_kept(collection: Collection, hypothesis: Hypothesis) -> dict[str, Any]:
    """Adjust the fit to the joined levels, and keep it at the queries that were measured: a fit uses the noise of each
    cell and ignores that blocks are known better.
    """
    tables = collection.tables()
    if not tables:
        return {}
    queries: dict[Set, list[MeasuredForm]] = {}
    for m in collection.queries():
        if not isinstance(m.query, (Marginal, Residual)):
            form = m.query.compile(collection.domain)
            queries.setdefault(form.attributes, []).append(
                MeasuredForm(form.attributes, form.tensor(), float(m.values), m.sd)
            )
    move_onto(hypothesis, {names: table.values for names, table in tables.items()}, queries)
    return {"levels": sum(len(collection.plans[names].widths) for names in tables)}


def _gains(real: Mapping[Set, Interaction], targets: Mapping[Set, float]) -> dict[Set, float]:
    """The gain of a pair for the workload: its total variation in every target that contains it."""
    asked = dict.fromkeys(real, 0.0)
    for names, weight in targets.items():
        for pair in closure([names], 2):
            if pair in asked:
                asked[pair] += weight
    return {pair: interaction.variation * asked[pair] for pair, interaction in real.items()}


def _names(measurement: Measurement, domain: Domain) -> Set:
    return domain.canonical(measurement.query.attributes)


def _fit_notes(fitted: FitReport) -> dict[str, Any]:
    return {
        "fit": fitted.message or "converged",
        "converged": fitted.converged,
        "objective": fitted.objective,
        "iterations": fitted.iterations,
        "misfit": fitted.misfit,
    }
