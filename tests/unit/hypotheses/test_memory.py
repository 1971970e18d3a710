"""Too little memory is said before anything is spent; what ran out of it all the same goes on where it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.session_tables import DOMAIN, table

import reticent as rt
from reticent.errors import ResourceError
from reticent.hypotheses import memory
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.kernel.ledger.verify import verify
from reticent.sessions.session import Session

BUDGET = rt.Budget(rho=0.5)
LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import reticent as rt
from reticent.domain import Domain
from reticent.errors import ResourceError
from tests.session_tables import of_codes

domain = Domain({f"c{i}": 2 for i in range(22)})
rows = of_codes(domain, {name: np.arange(100) % 2 for name in domain.names}, 10**6)
small = Domain({"a": 2})
tiny = of_codes(small, {"a": np.arange(10**6) % 2})
for algorithm in (None, rt.MWEM(rounds=1)):  # libraries are loaded before the limit
    rt.release(tiny, rt.marginals(small, 1), rt.Budget(rho=1), algorithm=algorithm)
rt.Session.open(None, tiny, rt.Budget(rho=1), engine="tuned", queries=10)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, resource.RLIM_INFINITY))
for algorithm in (None, rt.MWEM(rounds=5)):
    try:
        rt.release(rows, rt.marginals(domain, 1), rt.Budget(rho=1), algorithm=algorithm, ledger=sys.argv[2])
    except ResourceError as refused:
        print(refused)
try:
    rt.Session.open(sys.argv[2] + "s", rows, rt.Budget(rho=1), engine="tuned", queries=10)
except ResourceError as refused:
    print(refused)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits of a process are read from /proc")
def test_a_run_beyond_the_limit_of_its_process_is_refused_before_it_spends(tmp_path: Path) -> None:
    tests, ledger = Path(__file__).parents[1], tmp_path / "a.ledger"
    command = [sys.executable, "-c", LIMITED, str(tests), str(ledger)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"OMP_NUM_THREADS": "1"} | _path())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done
    assert all("MiB are available" in line for line in lines)
    assert verify(ledger).history.spent == 0


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(rt.__file__).parents[1])}


def test_the_least_of_all_limits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_system", lambda: 5000)
    monkeypatch.setattr(memory, "_container", lambda folder: None)
    monkeypatch.setattr(memory, "_limits", lambda: [None, 3000])
    assert memory.available() == 3000
    memory.refuse_beyond(3000, "a run", "use less")
    with pytest.raises(ResourceError, match=r"a run needs about .* use less"):
        memory.refuse_beyond(3001, "a run", "use less")
    monkeypatch.setattr(memory, "_limits", list)
    monkeypatch.setattr(memory, "_system", lambda: None)
    assert memory.available() is None
    memory.refuse_beyond(2**60, "a run", "use less")


@pytest.mark.parametrize(("most", "room"), [("1000\n", 1000 - 700 + 200), ("max\n", None)])
def test_a_container_gives_up_its_file_pages(tmp_path: Path, most: str, room: int | None) -> None:
    (tmp_path / "memory.max").write_text(most)
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 400\ninactive_file 200\n")
    assert memory._container(tmp_path) == room


def test_what_was_measured_before_memory_ran_out_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = tmp_path / "a.ledger", table()
    algorithm = rt.Adaptive(histogram_cells=0)

    def exhausted(self: DenseHypothesis, *_: object, **options: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(DenseHypothesis, "fit", exhausted)
        with pytest.raises(ResourceError, match=r"a\.ledger keeps what was measured: repeat the same call"):
            rt.release(rows, rt.marginals(DOMAIN, 2), BUDGET, algorithm=algorithm, ledger=path)
        with pytest.raises(ResourceError, match="give ledger="):
            rt.release(rows, rt.marginals(DOMAIN, 2), BUDGET, algorithm=algorithm)
        with pytest.raises(ResourceError, match=r"b\.ledger keeps what was measured"):
            Session.open(tmp_path / "b.ledger", rows, BUDGET, warm_start=0.5)
    measured = verify(path).history.spent
    assert measured > 0
    release = rt.release(rows, rt.marginals(DOMAIN, 2), BUDGET, algorithm=algorithm, ledger=path)
    assert release.facts["charged_now"] < BUDGET.limit - measured + 1
    warm = verify(tmp_path / "b.ledger").history.spent
    with Session.open(tmp_path / "b.ledger", rows, BUDGET, warm_start=0.5) as session:
        # Once, and besides it a certificate and a typical error.
        assert 0 < warm < session.spent * 1e9 <= warm + BUDGET.limit / 10 + 1, "the warm start was paid once"
