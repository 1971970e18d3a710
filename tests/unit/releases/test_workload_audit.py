"""A default release buys what most questions like its workload's err, and resumes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.session_tables import DOMAIN, codes, inside, table

import reticent as rt
from reticent.kernel.curator import Curator
from reticent.knowledge.publications import composing
from reticent.queries.linear import Range
from reticent.releases import workload_audit as bought

BUDGET = rt.Budget(epsilon=1, delta=1e-9)


def test_most_questions_of_the_workload_err_no_more(tmp_path: Path) -> None:
    release = rt.release(table(), rt.marginals(DOMAIN, 2), BUDGET, ledger=tmp_path / "a.ledger")
    (typical,) = release.typical
    assert {len(names) for names in typical.distribution["sets"]} == {1, 2}
    assert release.facts["spent"] <= composing(BUDGET).limit
    generator, columns, wrong = np.random.default_rng(3), codes(), []
    for _ in range(400):
        names = typical.distribution["sets"][generator.integers(len(typical.distribution["sets"]))]
        box = {}
        for name in names:
            ranges = [(a, b) for a in range(DOMAIN[name].size) for b in range(a, DOMAIN[name].size)][:-1]
            box[name] = ranges[generator.integers(len(ranges))]
        answer = release.ask(Range(box))
        if answer.typical is not None:
            wrong.append(abs(answer.value - inside(columns, box)) > answer.typical)
    assert len(wrong) > 300
    assert np.mean(wrong) < 0.1
    again = rt.release(table(), rt.marginals(DOMAIN, 2), BUDGET, ledger=tmp_path / "a.ledger")
    assert again.digest == release.digest


def test_a_crash_before_the_typical_error_resumes_and_pays_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ledger"

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("reticent.releases.workload_audit.measure_typical", crash)
        with pytest.raises(KeyboardInterrupt):
            rt.release(table(), rt.marginals(DOMAIN, 2), BUDGET, ledger=path)
    release = rt.release(table(), rt.marginals(DOMAIN, 2), BUDGET, ledger=path)
    assert len(release.typical) == 1
    assert release.facts["spent"] <= composing(BUDGET).limit


def test_who_buys_no_certificate_buys_no_typical_error() -> None:
    curator = Curator(table(), rt.Ledger.memory(BUDGET, table().identity))
    assert bought.typical_units(curator, rt.Adaptive(), 10**9) > 0
    assert bought.typical_units(curator, rt.Adaptive(audit_share=0), 10**9) == 0
    assert bought.typical_units(curator, rt.MWEM(), 10**9) == 0
    assert rt.release(table(), rt.marginals(DOMAIN, 1), BUDGET, algorithm=rt.Adaptive(audit_share=0)).typical == ()
