"""The default release: measure low-order marginals, fit a shrunk log-linear model, spend more where it pays, audit.

Small universes are held whole. Where one noisy count for each cell tells more about the workload than many noisier
marginals, as in tables of a few binary attributes, all goes into that histogram. Large universes go in two rounds: all
pairs of the workload first; the released pairs tell which interactions are real, and these are measured again, with the
triples that noise would not drown. A tree of the strongest pairs then proposes records, whose weights are fitted to
everything measured (spec release.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from reticent.algorithms.allocation import Collection, divide, noise_costing, too_little
from reticent.algorithms.audit import LONGEST_AUDIT, audit
from reticent.algorithms.candidates import (
    HIGHEST_ORDER,
    Interaction,
    closure,
    interactions,
    pairs_of_a_tree,
    target_sets,
)
from reticent.algorithms.certificates import Certificate
from reticent.algorithms.outcome import Outcome, Progress, Report, silent
from reticent.domain import Domain
from reticent.errors import QueryError, whole_number
from reticent.hypotheses.base import FitReport, Hypothesis, Measurement
from reticent.hypotheses.dense import DenseHypothesis
from reticent.hypotheses.factored import FactoredHypothesis
from reticent.hypotheses.factored_engine import FactoredEngine
from reticent.hypotheses.histogram import estimate
from reticent.hypotheses.junction import JunctionTree
from reticent.hypotheses.loglinear import LogLinear, fit_loglinear
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import LARGEST_MARGINAL, SupportHypothesis
from reticent.kernel.accounting import Real, exact
from reticent.kernel.boxes import box_steps
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms import Sensitivity
from reticent.kernel.statistics import Kind
from reticent.queries.workload import Workload

__all__ = ["Adaptive"]

Set = tuple[str, ...]

ORDER_SHARES = (0.1, 0.3, 0.6)
"""Of the budget for 1-, 2- and 3-way marginals of a universe held whole (measured: spec release.md 1)."""
SIZE_POWER = 0.4
"""Within an order a marginal's share grows with this power of its cells; flatter favours the largest error."""
SINGLE_SHARE, FIRST_SHARE, SECOND_SHARE = 0.15, 0.42, 0.43
"""Large universes: single attributes; all pairs; what the pairs showed to matter."""
DROWNED = 0.3
"""A triple is worth measuring while half the sum of its cells' noise stays below this fraction of the table."""
HISTOGRAM_NOISE = 0.4
"""All cells are measured at once where the workload's marginals, summed from them, have less than this share of the
noise that marginals measured one by one have: noise that the sums have in common, a fit cannot average away."""
FAINT = 0.05
"""Pairs whose empirical scale is lower carry nothing but noise."""
PUBLIC_SEED = 20240229
"""Draws proposed records and likely tables: post-processing, no secret; a rerun finds the same ones."""
SUPPORT_WORK = 2**25
"""Records times fitted sets: an iteration of the last fit passes four times over these, half a second in all."""
STEPS = 4
AUDITS = 2
"""Of every cell, and of every range; each costs at least one unit."""


@dataclass(frozen=True)
class Adaptive:
    """`audit_share` of the budget certifies the workload at the end; the rest is measured.

    Universes of up to `histogram_cells` may be measured whole (a second or two at this size); those of up to
    `dense_cells` are held whole; beyond, a junction tree of up to `model_cells` proposes `support` weighted records.
    """

    audit_share: Real = Fraction(1, 25)
    histogram_cells: int = 2**15
    dense_cells: int = 2**22
    model_cells: int = 2**17
    support: int = 2**17
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0 <= float(self.audit_share) <= 0.5:
            raise QueryError(f"audit_share={self.audit_share} is a share of the budget: from 0 to 0.5")
        if not 0 < self.confidence < 1:
            raise QueryError(f"confidence={self.confidence} must lie strictly between 0 and 1")
        for name, least in {"histogram_cells": 0, "dense_cells": 1, "model_cells": 1, "support": 1}.items():
            object.__setattr__(self, name, whole_number(getattr(self, name), name, least))

    @property
    def _audit_share(self) -> Fraction:
        return exact(self.audit_share, "audit_share") if self.audit_share else Fraction(0)

    def describe(self) -> dict[str, Any]:
        return {
            "algorithm": "Adaptive",
            "audit_share": str(self._audit_share),
            "histogram_cells": self.histogram_cells,
            "dense_cells": self.dense_cells,
            "model_cells": self.model_cells,
            "support": self.support,
            "confidence": self.confidence,
        }

    def run(
        self, curator: Curator, workload: Workload, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome:
        """Spend `allowance`; the same key after a crash reads back what was already measured."""
        domain = curator.domain
        targets = target_sets(workload, domain)
        if not targets:
            raise QueryError("the workload asks nothing; name at least one marginal or query")
        self._check_size(domain, targets)
        collection = Collection(curator, allowance, key)
        audits = int(allowance * self._audit_share)
        if self.audit_share and audits < AUDITS:
            needed = ceil(AUDITS / self._audit_share)
            raise too_little(allowance, curator.budget, f"marginals and {AUDITS} audits", needed=needed)
        units = allowance - audits
        learn = self._whole if domain.size <= self.dense_cells else self._proposed
        hypothesis, notes = learn(collection, domain, targets, units, report)
        certificates = ()
        if self.audit_share:
            report(Progress(STEPS - 1, STEPS, "auditing the workload", collection.spent_share))
            certificates = self._certify(curator, collection, hypothesis, list(targets), key)
        count, error = collection.records
        report(Progress(STEPS, STEPS, "done", collection.spent_share))
        measurements = tuple(collection.measurements())
        return Outcome(hypothesis, measurements, certificates, count, notes | {"records_error": error})

    def _check_size(self, domain: Domain, targets: Mapping[Set, float]) -> None:
        """Before anything is spent: what is measured must fit the model."""
        if domain.size <= self.dense_cells:
            return
        if sum(domain.shape) > self.model_cells:
            raise QueryError(
                f"model_cells={self.model_cells} cannot hold {len(domain)} single attributes with "
                f"{sum(domain.shape)} codes; allow at least that many"
            )
        for pair in closure(targets, 2):
            if domain.cells(pair) > LARGEST_MARGINAL:
                raise QueryError(
                    f"{' and '.join(pair)} have {domain.cells(pair)} cells together; at most {LARGEST_MARGINAL}:"
                    " use coarser bins, or leave the pair out of the workload"
                )

    # -- universes held whole ------------------------------------------------------------------------------

    def _whole(
        self, collection: Collection, domain: Domain, targets: Mapping[Set, float], units: int, report: Report
    ) -> tuple[Hypothesis, dict[str, Any]]:
        sets = {1: [(name,) for name in domain.names]}
        sets |= {order: closure(targets, order) for order in range(2, HIGHEST_ORDER + 1)}
        present = [order for order in sets if sets[order]]
        pots = divide(units, [ORDER_SHARES[order - 1] for order in present])
        shares: dict[Set, int] = {}
        for order, pot in zip(present, pots, strict=True):
            weights = [domain.cells(s) ** SIZE_POWER for s in sets[order]]
            shares |= dict(zip(sets[order], divide(pot, weights), strict=True))
        if self._histogram_pays(collection, domain, {s: shares[s] for s in sets[present[-1]]}, units):
            return self._histogram(collection, domain, units, report)
        report(Progress(0, STEPS, f"measuring {len(shares)} marginals", 0.0))
        collection.measure("all", shares)
        report(Progress(1, STEPS, "fitting", collection.spent_share))
        hypothesis = DenseHypothesis(domain)
        fitted = hypothesis.fit(collection.measurements())
        return hypothesis, {"representation": "dense", "measured": len(shares)} | _fit_notes(fitted)

    def _histogram_pays(self, collection: Collection, domain: Domain, shares: Mapping[Set, int], units: int) -> bool:
        """Whether all cells together would show these marginals with less noise than their own shares do."""
        if domain.size > self.histogram_cells or min(shares.values()) < 1:
            return False
        own = sum(domain.cells(s) * collection.sd(share) for s, share in shares.items())
        summed = sum((domain.cells(s) * domain.size) ** 0.5 for s in shares) * collection.sd(units)
        return summed < HISTOGRAM_NOISE * own

    def _histogram(
        self, collection: Collection, domain: Domain, units: int, report: Report
    ) -> tuple[Hypothesis, dict[str, Any]]:
        report(Progress(0, STEPS, f"measuring {domain.size} cells", 0.0))
        collection.measure("histogram", {domain.names: units})
        report(Progress(1, STEPS, "fitting", collection.spent_share))
        (measured,) = collection.measurements()
        generator = np.random.default_rng(PUBLIC_SEED)
        likely, how = estimate(domain, measured, laplace=collection.pure, generator=generator)
        return DenseHypothesis(domain, likely), {"representation": "dense", "measured": 1, "fit": how}

    # -- large universes -----------------------------------------------------------------------------------

    def _proposed(
        self, collection: Collection, domain: Domain, targets: Mapping[Set, float], units: int, report: Report
    ) -> tuple[Hypothesis, dict[str, Any]]:
        singles, pairs = [(name,) for name in domain.names], closure(targets, 2)
        pots = divide(units, [SINGLE_SHARE, FIRST_SHARE, SECOND_SHARE])
        first = dict(zip(singles, divide(pots[0], [1.0] * len(singles)), strict=True))
        first |= dict(zip(pairs, divide(pots[1], [1.0] * len(pairs)), strict=True))
        report(Progress(0, STEPS, f"measuring {len(first)} marginals", 0.0))
        collection.measure("first", first)
        found = interactions(collection.measurements(), domain)
        real = {pair: found[pair] for pair in pairs if found[pair].scale > FAINT}
        tree = pairs_of_a_tree(domain, _gains(real, targets), self.model_cells)
        report(Progress(1, STEPS, f"measuring {len(real)} real interactions again", collection.spent_share))
        second = self._second_round(collection, domain, targets, real, pots[2])
        collection.measure("second", second)
        report(Progress(2, STEPS, f"fitting {len(tree)} pairs on a tree, then all", collection.spent_share))
        chosen = [m for m in collection.measurements() if _useful(m, domain, real)]
        model, fitted = self._fit_tree(domain, chosen, tree)
        hypothesis = self._propose(domain, model, len({m.query for m in chosen}))
        refined = hypothesis.fit(chosen, start=model, progress=3e-3)
        triples = sum(len(s) > 2 for s in second)
        notes = {"representation": "support", "pairs": len(pairs), "real": len(real), "tree": len(tree)}
        return hypothesis, notes | {"triples": triples, "tree_fit": fitted.message} | _fit_notes(refined)

    def _second_round(
        self,
        collection: Collection,
        domain: Domain,
        targets: Mapping[Set, float],
        real: Mapping[Set, Interaction],
        units: int,
    ) -> dict[Set, int]:
        """Real pairs and the workload's triples that are not drowned when all of these share alike."""
        triples = [s for s in closure(targets, HIGHEST_ORDER) if any(p in real for p in closure([s], 2))]
        triples.sort(key=domain.cells)
        count, _ = collection.records
        while triples:
            sd = collection.sd(max(1, units // (len(real) + len(triples))))
            fitting = [s for s in triples if 0.4 * domain.cells(s) * sd <= DROWNED * count]
            if len(fitting) == len(triples):
                break
            triples = fitting
        sets = [*real, *triples] or [(name,) for name in domain.names]
        return dict(zip(sets, divide(units, [1.0] * len(sets)), strict=True))

    def _fit_tree(
        self, domain: Domain, measurements: Sequence[Measurement], tree: Sequence[Set]
    ) -> tuple[LogLinear, FitReport]:
        structure = JunctionTree(domain, [*((name,) for name in domain.names), *tree])
        held = [m for m in measurements if structure.host(structure.positions(m.query.attributes)) is not None]

        def engine(sets: Sequence[Set]) -> FactoredEngine:
            return FactoredEngine(structure, sets)

        return fit_loglinear(held, domain, engine)

    def _propose(self, domain: Domain, model: LogLinear, sets: int) -> SupportHypothesis:
        """Records drawn from the tree; their density lets the next fit reweight them to any other model."""
        factored = FactoredHypothesis(domain, dict(zip(model.sets, model.potentials, strict=True)))
        records = min(self.support, max(SUPPORT_WORK // sets, self.support // 8))
        codes = factored.systematic(records, np.random.default_rng(PUBLIC_SEED))
        # Neighbours alike: rows drawn at equal steps through the weights are then stratified.
        codes = codes[np.lexsort([codes[:, i] for i in np.argsort(domain.shape, kind="stable")])]
        density = np.zeros(len(codes))
        for names, potential in zip(model.sets, model.potentials, strict=True):
            density += potential[tuple(codes[:, domain.index(name)] for name in names)]
        return SupportHypothesis(domain, codes, log_density=density)

    # -- the end -------------------------------------------------------------------------------------------

    def _certify(
        self, curator: Curator, collection: Collection, hypothesis: Hypothesis, sets: Sequence[Set], key: str
    ) -> tuple[Certificate, ...]:
        """All that is left buys two audits: every cell tightly, every range of codes more widely.

        Cells are those of the sets and of small sets inside them; the ranges of a set hold those inside it already.
        Sets too wide for one table are left out, and ranges where looking for the worst one would take minutes; public
        sizes decide.
        """
        domain = curator.domain
        inside = [smaller for order in range(1, HIGHEST_ORDER + 1) for smaller in closure(sets, order)]
        held = [s for s in dict.fromkeys([*sets, *inside]) if domain.cells(s) <= LARGEST_MARGINAL]
        audited = {"cells": held, "boxes": [s for s in sets if domain.cells(s) <= LARGEST_MARGINAL]}
        count, error = collection.records
        steps = sum(box_steps(domain.shape_of(s)) for s in audited["boxes"])
        kinds: list[Kind] = ["cells", "boxes"] if 0 < steps <= LONGEST_AUDIT else ["cells"]
        snapshot = Snapshot(hypothesis).digest
        certificates = []
        for index, (kind, units) in enumerate(zip(kinds, divide(collection.left, [1.0] * len(kinds)), strict=True)):
            certificate = audit(
                curator,
                hypothesis,
                kind,
                audited[kind],
                noise_costing(curator.budget, Sensitivity.scalar(), units),
                snapshot=snapshot,
                records=count,
                records_error=error,
                index=index + 1,
                confidence=self.confidence,
                key=f"{key}:audit:{kind}",
            )
            certificates.append(certificate)
        return tuple(certificates)


def _gains(real: Mapping[Set, Interaction], targets: Mapping[Set, float]) -> dict[Set, float]:
    """What a pair brings to the workload: its total variation in every target that contains it."""
    asked = dict.fromkeys(real, 0.0)
    for names, weight in targets.items():
        for pair in closure([names], 2):
            if pair in asked:
                asked[pair] += weight
    return {pair: interaction.variation * asked[pair] for pair, interaction in real.items()}


def _useful(measurement: Measurement, domain: Domain, real: Mapping[Set, Interaction]) -> bool:
    names = domain.canonical(measurement.query.attributes)
    return len(names) != 2 or names in real


def _fit_notes(fitted: FitReport) -> dict[str, Any]:
    return {"fit": fitted.message or "converged", "objective": fitted.objective, "iterations": fitted.iterations}
