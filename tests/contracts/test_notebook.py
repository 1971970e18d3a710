"""A real Jupyter kernel without ipywidgets reads tables; DuckDB's progress bar asks for that package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

pytest.importorskip("ipykernel")
jupyter_client = pytest.importorskip("jupyter_client")

DOMAIN = "rt.Domain(a=3)"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """One kernel for all tests; ipywidgets is hidden from it whether or not it is installed here."""
    manager = jupyter_client.KernelManager()
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        assert run(client, "import sys; sys.modules['ipywidgets'] = None\nimport reticent as rt") == ("", None)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: Any, code: str) -> tuple[str, str | None]:
    """What a cell printed, and its error, if any."""
    heard, error = outputs(client, code)
    streams = [each["content"] for each in heard if each["msg_type"] == "stream"]
    return "".join(each["text"] for each in streams if each["name"] == "stdout"), error


def outputs(client: Any, code: str) -> tuple[list[dict[str, Any]], str | None]:
    """All messages of a cell, and its error, if any."""
    heard: list[dict[str, Any]] = []
    reply = client.execute_interactive(code, timeout=120, output_hook=heard.append)["content"]
    return heard, None if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"


def shown(client: Any, code: str) -> dict[str, Any]:
    """What the cell's value is displayed as, by type."""
    heard, error = outputs(client, code)
    assert error is None
    (value,) = [each["content"]["data"] for each in heard if each["msg_type"] == "execute_result"]
    return value


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    table = pa.table({"a": [0, 1, 2, 2]})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "rows.csv")
    return tmp_path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_files_are_read_in_a_kernel(kernel: Any, rows: Path, name: str) -> None:
    printed, error = run(kernel, f"print(repr(rt.Table.read({str(rows / name)!r}, {DOMAIN})))")
    assert error is None
    assert printed == f"<Table '{name}': 4 records, 1 attributes, replace-one>\n"


def test_objects_are_read_in_a_kernel(kernel: Any) -> None:
    code = f"import pandas as pd\nprint(repr(rt.Table.of(pd.DataFrame({{'a': [1, 2, 2]}}), {DOMAIN})))"
    printed, error = run(kernel, code)
    assert error is None
    assert "3 records" in printed


def test_a_damaged_file_is_told_as_what_it_is(kernel: Any, rows: Path) -> None:
    (rows / "cut.parquet").write_bytes((rows / "rows.parquet").read_bytes()[:-20])
    _, error = run(kernel, f"rt.Table.read({str(rows / 'cut.parquet')!r}, {DOMAIN})")
    assert error is not None
    assert error.startswith("SourceError: cut.parquet")
    assert "CSV" not in error


def test_the_first_hour_of_an_analyst(kernel: Any, rows: Path) -> None:
    """Read, publish, ask, plot and report; bars come and go without ipywidgets."""
    code = f"""
from pathlib import Path
from reticent.progress import bars
bars.DELAY_SECONDS = bars.UPDATE_SECONDS = 0
folder = Path({str(rows)!r})
domain = rt.Domain(a=3, b=rt.Categorical([True, False], nullable=True))
import pandas as pd
table = rt.Table.of(pd.DataFrame({{'a': [0, 1, 2, 2] * 500, 'b': [True, False, None, True] * 500}}), domain)
release = rt.release(table, rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
page = release.report(folder / "report.html")
"""
    heard, error = outputs(kernel, code)
    assert error is None
    drawn = [each for each in heard if each["msg_type"] in ("display_data", "update_display_data")]
    assert any("<progress" in each["content"]["data"]["text/html"] for each in drawn)
    assert drawn[-1]["content"]["data"]["text/html"] == "", "no bar stays behind"
    assert not [each for each in heard if each["msg_type"] == "stream"], "nothing else is printed"
    assert (rows / "report.html").stat().st_size > 1000
    assert "<table>" in shown(kernel, "release.ask(rt.marginal('a', 'b'))")["text/html"]
    for picture in ("release.ask(rt.marginal('a')).plot()", "release.ask(rt.marginal('a', 'b')).plot()"):
        assert "image/png" in shown(kernel, picture)
    assert "image/png" in shown(kernel, "release.ask('SELECT b, COUNT(*) FROM t GROUP BY b').plot()")
    names = "print(list(pd.DataFrame(release.ask('SELECT b, COUNT(*) AS n FROM t GROUP BY b')).columns))"
    assert run(kernel, names) == ("['b', 'n', 'n_error']\n", None)


def test_duckdb_itself_fails_there(kernel: Any) -> None:
    """What the tests above stand on: once this passes, the guard has nothing left to guard."""
    _, error = run(kernel, "import duckdb\nduckdb.connect().execute('SET enable_progress_bar = true')")
    assert error is not None
