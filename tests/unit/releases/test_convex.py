"""ConvexPMW certifies what it reaches, never makes things worse, resumes, and refuses what it cannot promise."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.errors import ReticentError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.minimizers import families as minimizers
from reticent.kernel.table import Table
from reticent.knowledge.risks import public_minimum
from reticent.losses.base import ConvexLoss
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum
from reticent.releases.models import free_model

DOMAIN = rt.Domain({"a": 4, "b": 3, "y": 2})
LOSSES: tuple[ConvexLoss, ...] = (
    rt.Squared(features=["a", "b"], label="y", radius=1),
    rt.Logistic(features=["a", "b"], label="y", radius=2, categories=["b"]),
    rt.Hinge(features=["a"], label="y", radius=2, width=0.0),
    rt.MeanVector(features=["a", "b"]),
)
WORKLOAD = rt.marginals(DOMAIN, 1)
BUDGET = rt.Budget(rho=0.2)
RARE = 1e-6


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy descent of thousands of rounds takes seconds; other minimisers take over."""
    monkeypatch.setattr(minimizers, "MOST_ROUNDS", 100)


def table(seed: int, count: int = 10**6, **facts: Any) -> tuple[Table, np.ndarray]:
    data = np.random.default_rng(seed).dirichlet(np.full(DOMAIN.size, 0.5)).reshape(DOMAIN.shape)
    counts = np.floor(data * count).astype(np.int64)
    counts.flat[0] += count - counts.sum()
    codes = np.indices(DOMAIN.shape).reshape(3, -1)
    source = Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes, strict=True)), counts.ravel())
    return Table(source, DOMAIN, **(facts or {"records": count})), counts / count


def excess(loss: ConvexLoss, theta: np.ndarray, data: np.ndarray) -> float:
    problem = loss.on(DOMAIN)
    axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in problem.attributes)
    risk = TensorRisk(problem, data.sum(axis=axes))
    best, gap = minimum(risk)
    return risk.value(theta) - risk.value(best) - gap


def surely(release: rt.Release, loss: ConvexLoss) -> float:
    """The certified error at a confidence that no run of this test will miss."""
    model = free_model(release.knowledge, loss, 1 - RARE)
    assert model.error is not None
    return model.error


def worst_of_uniform(data: np.ndarray) -> float:
    start = DenseHypothesis(DOMAIN)
    return max(excess(loss, public_minimum(start, loss.on(DOMAIN))[0], data) for loss in LOSSES)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_every_declared_loss_is_certified_and_none_gets_worse(seed: int, neighbours: str) -> None:
    facts = {} if neighbours == "replace-one" else {"neighbours": neighbours}
    rows, data = table(seed, **facts)
    release = rt.release(rows, WORKLOAD, BUDGET, algorithm=rt.ConvexPMW(LOSSES, rounds=5))
    models = [release.minimize(loss) for loss in LOSSES]
    assert {model.origin for model in models} == {"cache"}
    worst = max(excess(loss, model.theta, data) for loss, model in zip(LOSSES, models, strict=True))
    assert worst <= min(surely(release, loss) for loss in LOSSES)
    assert worst <= worst_of_uniform(data) + 1e-9
    assert 0 < release.notes["rounds"] <= 5
    assert release.facts["spent"] <= BUDGET.limit


def test_a_promised_error_is_met_within_the_planned_rounds() -> None:
    rows, data = table(3, 10**9)
    release = rt.release(rows, WORKLOAD, rt.Budget(rho=2.0), algorithm=rt.ConvexPMW(LOSSES, error=0.05, failure=RARE))
    assert 0 < release.notes["rounds"] < release.notes["planned"]
    assert "every declared loss" in release.notes["guarantee"]
    for loss in LOSSES:
        model = release.minimize(loss)
        assert excess(loss, model.theta, data) <= surely(release, loss)
        assert 0 < (model.error or 0.0) <= 0.05


def test_other_losses_of_the_release_are_uncertified_and_files_keep_the_certificate(tmp_path: Path) -> None:
    rows, _ = table(1)
    release = rt.release(rows, WORKLOAD, BUDGET, algorithm=rt.ConvexPMW(LOSSES, rounds=2))
    other = rt.Logistic(features=["b"], label="y", radius=1)
    assert not release.minimize(other).certified
    release.save(tmp_path / "a.release")
    again = rt.Release.load(tmp_path / "a.release")
    assert again.digest == release.digest
    for loss in LOSSES:
        assert again.minimize(loss).to_json() == release.minimize(loss).to_json()


DAMAGE: list[tuple[str, Any]] = [
    ("thetas", [[0.0]]),
    ("gaps", [-1.0]),
    ("scale", -1.0),
    ("reading", -1e12),
    ("noise", {"mechanism": "Laplace"}),
    ("losses", [{"loss": "squared"}]),
    ("records_error", 2.0),
]


@pytest.mark.parametrize(("name", "value"), DAMAGE, ids=[name for name, _ in DAMAGE])
def test_a_damaged_certificate_is_refused_in_one_line(name: str, value: Any) -> None:
    rows, _ = table(1)
    release = rt.release(rows, WORKLOAD, BUDGET, algorithm=rt.ConvexPMW(LOSSES[:1], rounds=1))
    packed = BytesIO()
    with zipfile.ZipFile(BytesIO(release.to_bytes())) as old, zipfile.ZipFile(packed, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "manifest.json":
                manifest = json.loads(content)
                manifest["losses"][0][name] = value
                content = json.dumps(manifest).encode()
            new.writestr(entry.filename, content)
    with pytest.raises(ReticentError, match="not a saved release") as caught:
        rt.Release.from_bytes(packed.getvalue())
    assert "\n" not in str(caught.value)


def test_a_run_that_was_interrupted_goes_on_with_what_it_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = table(2)
    own, calls = Curator.minimize, []

    def dies(self: Curator, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return own(self, *args, **options)

    algorithm = rt.ConvexPMW(LOSSES, rounds=4)
    with monkeypatch.context() as patch:
        patch.setattr(Curator, "minimize", dies)
        with pytest.raises(KeyboardInterrupt):
            rt.release(rows, WORKLOAD, BUDGET, algorithm=algorithm, ledger=tmp_path / "a.ledger")
    release = rt.release(rows, WORKLOAD, BUDGET, algorithm=algorithm, ledger=tmp_path / "a.ledger")
    again = rt.release(rows, WORKLOAD, BUDGET, algorithm=algorithm, ledger=tmp_path / "a.ledger")
    assert release.facts["spent"] <= BUDGET.limit
    assert 0 < release.facts["charged_now"] < release.facts["spent"]
    assert again.facts["charged_now"] == 0
    assert again.digest == release.digest


def test_a_start_on_marginals_is_audited_like_any_other() -> None:
    rows, data = table(5)
    release = rt.release(rows, rt.marginals(DOMAIN, 2), BUDGET, algorithm=rt.ConvexPMW(LOSSES, rounds=2, start=0.5))
    assert release.measurements
    for loss in LOSSES:
        assert release.minimize(loss).certified
        assert excess(loss, release.minimize(loss).theta, data) <= surely(release, loss)


@pytest.mark.parametrize(
    "columns", [26, pytest.param(69, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.slow)]
)
def test_a_universe_too_large_to_hold_is_learned_to_the_end(columns: int) -> None:
    generator = np.random.default_rng(4)
    first = generator.integers(0, 2, 4000)
    codes = {f"c{i}": np.where(generator.random(4000) < 0.8, first, 1 - first) for i in range(columns)}
    domain = rt.Domain(dict.fromkeys(codes, 2))
    source = Records.of_codes(domain, codes, np.full(4000, 1000, dtype=np.int64))
    rows = Table(source, domain, records=4_000_000)
    names = list(codes)
    losses = [rt.Logistic(features=names[i : i + 3], label=names[i + 3], radius=2) for i in range(0, columns - 4, 5)]
    release = rt.release(rows, rt.marginals(domain, 1), rt.Budget(rho=1.0), algorithm=rt.ConvexPMW(losses, rounds=3))
    assert all(release.minimize(loss).certified for loss in losses)


REFUSED: list[tuple[Any, str]] = [
    (lambda: rt.ConvexPMW([]), "from 1 to"),
    (lambda: rt.ConvexPMW(LOSSES, error=0.1, rounds=3), "leave out"),
    (lambda: rt.ConvexPMW(LOSSES, error=-1), "above 0"),
    (lambda: rt.ConvexPMW(LOSSES, start=0.95), "share of the budget"),
    (lambda: rt.ConvexPMW(LOSSES, failure=2), "below 1"),
    (lambda: rt.release(table(1)[0], WORKLOAD, BUDGET, algorithm=rt.ConvexPMW(LOSSES, failure=1e-17)), "more than 1.1"),
    (
        lambda: rt.release(
            table(1, neighbours="add-remove")[0], WORKLOAD, BUDGET, algorithm=rt.ConvexPMW(LOSSES, failure=1e-7)
        ),
        "more than 5.8e-07, or neighbours='replace-one'",
    ),
    (lambda: rt.ConvexPMW(["squared"]), "not a known loss"),
    (lambda: rt.release(table(1)[0], WORKLOAD, BUDGET, algorithm=rt.ConvexPMW(LOSSES, error=1e-4)), "not promised"),
    (lambda: rt.release(table(1)[0], WORKLOAD, rt.Budget(epsilon=1), algorithm=rt.ConvexPMW(LOSSES)), "delta"),
    (
        lambda: rt.release(
            table(1, neighbours="add-remove")[0], WORKLOAD, BUDGET, algorithm=rt.ConvexPMW(LOSSES, error=0.1)
        ),
        "replace-one",
    ),
]


@pytest.mark.parametrize(("declare", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_cannot_be_promised_is_refused_in_one_line(declare: Any, words: str) -> None:
    with pytest.raises(rt.QueryError, match=words) as caught:
        declare()
    assert "\n" not in str(caught.value)
