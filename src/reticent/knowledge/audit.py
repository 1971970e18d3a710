"""An audit releases the noisy largest error of a snapshot over a class of queries and turns it into a certificate."""

from __future__ import annotations

from collections.abc import Sequence

from reticent.hypotheses import load
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.statistics import Kind, MaxError, fine
from reticent.knowledge.certificates import Certificate

LONGEST_AUDIT = 4e9
"""Steps of the search for the worst range that an unasked audit may take: some seconds."""
NOISE_SHARE = 0.5
"""Of a wanted error: an audit passes more often than not when the true errors are at most the other half."""
WORTH = 0.5
"""Such an audit is tried when it costs at most this share of buying singly: then it saves more often than it loses."""
LAST_INDEX = 200
"""Later audits of a session would need a failure probability below 1e-60."""


def held(curator: Curator, hypothesis: Hypothesis, key: str) -> Hypothesis:
    """The hypothesis that a run audits: stored before anything is paid for that, and read again after a crash.

    A fit on another processor would be another one, about which the paid reading says nothing.
    """
    name = f"{key}:hypothesis"
    stored = curator.kept(name)
    if stored is not None:
        return load(stored)
    curator.keep(name, hypothesis.to_bytes())
    return hypothesis


def pay_audit(
    curator: Curator,
    hypothesis: Hypothesis | Snapshot,
    kind: Kind,
    sets: Sequence[tuple[str, ...]],
    noise: Noise,
    *,
    snapshot: str,
    records: float,
    records_error: float,
    index: int,
    confidence: float,
    key: str,
) -> Certificate:
    """Pays for one measurement; `index` counts the audits of this ledger's owner, so that all hold together.

    `records` is the public number of records or its released total, `records_error` bounds abs(n - records)/records.
    """
    sets = tuple(sets)
    guesses = tuple(p * records for p in hypothesis.marginals(sets))
    settled = curator.measure([MaxError(kind, sets, guesses, state=snapshot)], noise, key=key)
    step = 1 / fine(1)
    largest = 1 if kind == "cells" else max(guess.size for guess in guesses)
    return Certificate(
        kind=kind,
        sets=sets,
        snapshot=snapshot,
        reading=float(settled.values[0]) / records,
        noise=noise.describe(),
        # Guesses are rounded to the grid, cell by cell, and discrete noise may stray one step further.
        slack=(0.5 * largest + 1) * step / records,
        records=records,
        records_error=records_error,
        index=index,
        confidence=confidence,
        ledger_id=settled.ledger_id,
    )
