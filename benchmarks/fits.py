"""Four hundred adaptive logistic fits of Adult, each wanted within an excess risk: how many does a session certify?

One to five random features, any categorical label, radius 2. Nothing is said beforehand, losses come one by one, and
every certified model is held against the best fit of the rows.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

import reticent as rt
from benchmarks.convex import adult
from benchmarks.pieces import Pieces
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.domain import Categorical
from reticent.losses.base import ConvexLoss
from reticent.losses.risk import ListedRisk
from reticent.losses.solver import minimum
from reticent.releases.models import Model

BUDGET = rt.Budget(epsilon=1, delta=1e-9)
FITS, WANTED, RADIUS, MARK = 400, 0.05, 2.0, 200
FAILURE = 0.05
CHANCE = 0.01
"""Sessions whose bounds fail as often as they may are above the claim's limit so rarely."""
SEVEN = ("age", "workclass", "education-num", "marital-status", "race", "sex", "income")
INTRODUCTION = """400 logistic losses of Adult, one to five random features and any categorical label each, radius 2,
excess risk within 0.05 at (1, 1e-9), asked one by one of a session that was told nothing: of twelve attributes, and of
seven. It buys a late start before the first, then audits each model by itself. Every certified model is judged on the
rows: *outside* counts those whose excess risk is above what they state at confidence 0.95, *wider* those that state
more than 0.05, which do not count as certified."""


def drawn(domain: rt.Domain, generator: np.random.Generator) -> ConvexLoss:
    """A logistic loss of random features."""
    label = str(generator.choice([name for name in domain.names if isinstance(domain[name], Categorical)]))
    pool = [name for name in domain.names if name not in (label, "relationship")]
    features = [str(name) for name in generator.choice(pool, size=generator.integers(1, 6), replace=False)]
    values = domain[label].values  # pyright: ignore[reportAttributeAccessIssue]
    positive = None if len(values) == 2 else values[int(generator.integers(len(values)))]
    return rt.Logistic(features=features, label=label, radius=RADIUS, positive=positive)


class Judge:
    """The custodian's look at the rows: the exact excess risk of a model."""

    def __init__(self, rows: pd.DataFrame, domain: rt.Domain) -> None:
        self._domain = domain
        self._codes = {name: domain[name].encode(rows[name].to_numpy()) for name in domain.names}
        self._records = len(rows)

    def excess(self, model: Model) -> float:
        problem = model.loss.on(self._domain)
        names = problem.attributes
        shape = self._domain.shape_of(names)
        cells = np.ravel_multi_index([self._codes[name] for name in names], shape)
        distinct, counts = np.unique(cells, return_counts=True)
        listed = np.stack(np.unravel_index(distinct, shape), axis=1)
        risk = ListedRisk(problem, listed, counts / self._records)
        best, gap = minimum(risk)
        # The minimum may lie lower by the gap: it counts against the model.
        return risk.value(model.theta) - risk.value(best) + gap


def fitted(columns: tuple[str, ...] | None, fits: int) -> dict[str, Any]:
    """One session, asked that many losses."""
    rows, domain = adult()
    if columns is not None:
        rows, domain = rows.loc[:, list(columns)], rt.Domain({name: domain[name] for name in columns})
    judge, generator, origins = Judge(rows, domain), np.random.default_rng(1), Counter()
    excesses, bounds, wider, start = [], [], 0, time.process_time()
    with rt.Session.open(None, rt.Table.of(rows, domain), BUDGET) as session:
        for _ in range(fits):
            model = session.minimize(drawn(domain, generator), error=WANTED)
            reached = model.certified and model.error is not None and model.error <= WANTED
            origins[model.origin if reached else "not certified"] += 1
            # A bound above what was wanted is stated too, and must hold as any other.
            wider += int(model.certified and not reached)
            if model.certified and model.error is not None:
                excesses.append(judge.excess(model))
                bounds.append(model.error)
        spent = session.spent
    outside = int((np.array(excesses) > np.array(bounds)).sum())
    return {
        "attributes": len(domain), "fits": fits, "certified": len(bounds) - wider, "wider": wider,
        "audited": origins["batch"], "bought": origins["measured"], "asked again": origins["cache"], "outside": outside,
        "largest excess": max(excesses, default=0.0), "median excess": float(np.median([0.0, *excesses])),
        "median bound": float(np.median([0.0, *bounds])), "spent": spent, "seconds": time.process_time() - start,
    }  # fmt: skip


def run(quick: bool) -> dict[str, Any]:
    fits, pieces = 3 if quick else FITS, Pieces("fits", quick)
    columns = {"twelve": None, "seven": SEVEN}
    sessions = [pieces.of(name, partial(fitted, chosen, fits)) for name, chosen in columns.items()]
    pieces.end()
    return {"sessions": sessions, "mark": MARK}


def present(found: dict[str, Any]) -> list[Shown]:
    """How many were certified, and by what."""
    sessions = found["sessions"]
    wide = sessions[0]
    series = {
        f"{session['attributes']} attributes": [(name, session[name]) for name in ("audited", "bought", "asked again")]
        for session in sessions
    }
    judged = [
        Claim(
            f"models of {session['attributes']} attributes outside their bound, of {session['certified']} and"
            f" {session['wider']} with a wider one",
            session["outside"],
            at_most=int(binom.isf(CHANCE, session["certified"] + session["wider"], FAILURE)),
        )
        for session in sessions
    ]
    return [
        INTRODUCTION,
        Claim("fits of 400 certified within 0.05", wide["certified"], at_least=found["mark"]),
        *judged,
        Plot("certified", "What certified 400 fits", "", "fits", series, expected="Audits, nearly all."),
        Grid("Two sessions", dict.fromkeys(wide, "") | {"spent": "rho", "seconds": "s"}, sessions),
    ]
