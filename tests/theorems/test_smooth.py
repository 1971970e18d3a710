"""Smooth tables on sampled records (003, Lemmas 3.5 and 3.6, Theorem 3.2)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.session_tables import forbidden, of_codes

import reticent as rt
from reticent.errors import QueryError
from reticent.sessions.session import Session

WIDTH, RECORDS = 14, 40_000
SURE = 1 - 1e-6
DOMAIN = rt.Domain({f"b{i}": 2 for i in range(WIDTH)})
NAMES = DOMAIN.names


def smooth_rows(seed: int, tilt: float = 0.08) -> dict[str, np.ndarray]:
    """Independent biased bits: the largest cell is (1/2 + tilt)^14."""
    generator = np.random.default_rng(seed)
    return {name: (generator.random(RECORDS) < 0.5 + tilt).astype(np.int64) for name in NAMES}


def largest(columns: dict[str, np.ndarray]) -> float:
    cells = sum(columns[name] << i for i, name in enumerate(NAMES))
    return float(np.bincount(cells).max() / RECORDS)


def questions(generator: np.random.Generator, count: int) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Conjunctions of up to three literals, fixed before any record is sampled."""
    found = []
    for _ in range(count):
        names = generator.choice(WIDTH, generator.integers(1, 4), replace=False)
        found.append((tuple(NAMES[i] for i in names), tuple(generator.integers(0, 2, len(names)).tolist())))
    return found


def holds(columns: dict[str, np.ndarray], names: tuple[str, ...], codes: tuple[int, ...]) -> np.ndarray:
    return np.logical_and.reduce([columns[name] == code for name, code in zip(names, codes, strict=True)])


def test_the_sampled_records_hold_a_distribution_within_gamma() -> None:
    """Lemma 3.6 by linear programming: the best distribution on V, not the one of the proof."""
    columns, asked = smooth_rows(0), questions(np.random.default_rng(1), 40)
    smooth = rt.Smooth(share=largest(columns), gamma=0.1)
    size = smooth.records(DOMAIN, queries=len(asked), failure=0.05)
    assert size < DOMAIN.size
    bad = 0
    for seed in range(5):
        drawn = np.random.default_rng(seed).integers(0, 2, size=(size, WIDTH))
        sample = dict(zip(NAMES, drawn.T, strict=True))
        rows = np.array([holds(sample, *q) for q in asked], dtype=float)
        truth = np.array([holds(columns, *q).mean() for q in asked])
        ones = np.ones((len(asked), 1))
        found = linprog(
            np.append(np.zeros(size), 1.0),
            A_ub=np.vstack([np.hstack([rows, -ones]), np.hstack([-rows, -ones])]),
            b_ub=np.concatenate([truth, -truth]),
            A_eq=np.append(np.ones(size), 0.0)[None, :],
            b_eq=[1.0],
        )
        bad += found.fun > smooth.gamma
    assert bad == 0


def test_the_size_is_that_of_the_lemma() -> None:
    """xi N ln(k/b) / gamma^2 up to its constant: half, to first order."""
    wide = rt.Domain({f"f{i}": 2 for i in range(60)})

    def size(density: float, gamma: float, queries: int) -> int:
        return rt.Smooth(share=density / 2.0**60, gamma=gamma).records(wide, queries=queries, failure=0.05)

    assert size(4, 0.01, 1000) == pytest.approx(4 * math.log(2 * 1000 / 0.05) / (2 * 0.01**2), rel=0.1)
    assert size(8, 0.02, 1000) == pytest.approx(2 * size(4, 0.02, 1000), rel=0.01)
    assert size(4, 0.01, 1000) == pytest.approx(4 * size(4, 0.02, 1000), rel=0.1)
    assert size(4, 0.02, 10**6) < 2 * size(4, 0.02, 1000)


@pytest.mark.parametrize("engine", ["tuned", "textbook"])
def test_a_smooth_table_is_learned_on_the_sampled_records(engine: str, tmp_path: Path) -> None:
    """Theorem 3.2: questions fixed in advance are answered within the error, with the epochs that ln M allows."""
    columns, asked = smooth_rows(3, 0.12), questions(np.random.default_rng(2), 60)
    rows = of_codes(DOMAIN, columns, 500)
    smooth = rt.Smooth(share=largest(columns), gamma=0.25, distance=0.01)
    budget, path, count = rt.Budget(rho=0.5), tmp_path / "smooth.ledger", len(asked)
    with Session.open(path, rows, budget, engine=engine, queries=count, support=smooth, confidence=SURE) as session:
        epochs = session.answering.epochs
        assert epochs.plan.gamma == pytest.approx(0.26)
        assert epochs.snapshot.kind == "support"
        for names, codes in asked:
            question = rt.count(_predicate(names, codes))
            answer = session.ask(question)
            assert answer.certified
            assert abs(answer.value - holds(columns, names, codes).mean()) <= answer.error
        assert epochs.updates <= epochs.opened <= epochs.plan.epochs
        assert session.describe()["epochs"]["gamma"] == pytest.approx(0.26)
        digest = epochs.snapshot.digest
    with Session.open(path, forbidden(rows), budget, engine=engine) as session:
        assert session.answering.epochs.snapshot.digest == digest, "the sampled records are those of the first opening"


def _predicate(names: tuple[str, ...], codes: tuple[int, ...]) -> rt.col:
    found = rt.col(names[0]) == codes[0]
    for name, code in zip(names[1:], codes[1:], strict=True):
        found = found & (rt.col(name) == code)
    return found


def test_smoothness_follows_from_a_paid_marginal() -> None:
    columns = smooth_rows(4)
    with Session.open(None, of_codes(DOMAIN, columns, 100), rt.Budget(rho=0.1), warm_start=0) as session:
        found = rt.Smooth.of(session.ask(rt.marginal(*NAMES[:8]), error=0.005), gamma=0.2)
        with pytest.raises(QueryError, match="certified marginal"):
            rt.Smooth.of(session.ask(rt.marginal(*NAMES[4:12])))
    assert largest(columns) <= found.share <= 0.05


def test_what_cannot_be_is_refused() -> None:
    for wrong in ({"share": 0}, {"share": 1.5}, {"share": 0.1, "gamma": 0}, {"share": 0.1, "distance": -0.1}):
        with pytest.raises(QueryError, match="share of the table"):
            rt.Smooth(**wrong)
    with pytest.raises(QueryError, match="below 1/16384"):
        rt.Smooth(share=1e-6).records(DOMAIN, queries=10, failure=0.05)
    with pytest.raises(QueryError, match="leave support= out"):
        rt.Smooth(share=0.1).records(DOMAIN, queries=10, failure=0.05)
    with pytest.raises(QueryError, match="larger gamma"):
        rt.Smooth(share=0.1).records(rt.Domain({f"f{i}": 2 for i in range(40)}), queries=10, failure=0.05)
    with pytest.raises(QueryError, match="no effect"):
        Session.open(None, of_codes(DOMAIN, smooth_rows(0)), rt.Budget(rho=1), support=rt.Smooth(share=0.1))


@pytest.mark.parametrize("mixed", [0.05, 0.3])
def test_a_hypothesis_mixed_with_uniform_errs_by_what_is_mixed(mixed: float) -> None:
    """Claim 10 (a): on the cells that the table leaves empty, also with the table itself for the other part."""
    columns = smooth_rows(5)
    cells = sum(columns[name][:1000] << i for i, name in enumerate(NAMES))
    table = np.bincount(cells, minlength=DOMAIN.size) / 1000
    answers = (1 - mixed) * table + mixed / DOMAIN.size
    assert answers[table == 0].sum() >= mixed * (1 - 1000 / DOMAIN.size)


def test_a_floor_under_the_smooth_table_saves_its_own_share_of_records() -> None:
    """Claim 10 (c), by the lemma's sizes: the rest of such a table is rougher, and may err by more."""
    wide, density, floor, gamma = rt.Domain({f"f{i}": 2 for i in range(60)}), 40.0, 0.2, 0.02

    def size(cells: float, within: float) -> int:
        return rt.Smooth(share=cells / 2.0**60, gamma=within).records(wide, queries=1000, failure=0.05)

    saved = size((density - floor) / (1 - floor), gamma / (1 - floor)) / size(density, gamma)
    assert saved == pytest.approx((1 - floor) * (1 - floor / density), rel=0.02)
