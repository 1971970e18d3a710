"""Bars: on terminals and in notebooks, one at a time, never into a file; what a listener of one's own is told."""

from __future__ import annotations

import sys
import types
from typing import Any

import pyarrow as pa
import pytest

import reticent as rt
from reticent.progress import bars
from reticent.progress.bars import Progress, clock, listening, notebook_line, silent

STEP = Progress(1, 4, "round <1>", 0.25)


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (75, "1:15"), (3600, "1:00:00"), (4000, "1:06:40")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_notebook_line_has_the_time_left() -> None:
    line = notebook_line("round <1>", 1, 4, "25% spent", 10)
    assert 'value="1" max="4"' in line
    assert "0:30 left" in line
    assert "<1>" not in line
    assert "left" not in notebook_line("reading", 0, 0, "", 10)


def test_output_into_a_pipe_has_no_bar(capfd: pytest.CaptureFixture[str]) -> None:
    with listening(True) as report:
        assert report is silent


class Screen(types.ModuleType):
    """IPython as a kernel has it; keeps what is displayed."""

    def __init__(self) -> None:
        super().__init__("IPython")
        self.shown: list[str] = []
        self.display = types.ModuleType("IPython.display")
        self.display.HTML = str  # type: ignore[attr-defined]
        self.display.display = self._display  # type: ignore[attr-defined]

    def get_ipython(self) -> Any:
        return types.SimpleNamespace(kernel=object())

    def _display(self, html: str, display_id: bool) -> Any:
        self.shown.append(html)
        return types.SimpleNamespace(update=self.shown.append)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = Screen()
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made.display)
    monkeypatch.setattr(bars, "DELAY_SECONDS", 0)
    monkeypatch.setattr(bars, "UPDATE_SECONDS", 0)
    return made


def test_notebooks_show_one_bar_and_take_it_away(screen: Screen) -> None:
    with listening(True) as outer, listening(True) as inner:
        outer(STEP)
        inner(STEP)
    assert len(screen.shown) == 2, "the inner call is silent; the last update empties the output"
    assert "25% spent" in screen.shown[0]
    assert screen.shown[1] == ""
    with listening(True) as again:
        assert again is not silent


def test_a_short_call_shows_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "DELAY_SECONDS", 60)
    with listening(True) as report:
        report(STEP)
    assert screen.shown == []


@pytest.mark.parametrize("quiet", ["off", "0", "False"])
def test_bars_can_be_turned_off(screen: Screen, monkeypatch: pytest.MonkeyPatch, quiet: str) -> None:
    with listening(False) as report:
        assert report is silent
    monkeypatch.setenv("RETICENT_PROGRESS", quiet)
    with listening(True) as report:
        assert report is silent


def test_reading_discovery_release_and_opening_tell_where_they_are(screen: Screen, tmp_path: Any) -> None:
    rows = pa.table({"age": [21, 34, 48, 67] * 500})
    rt.discover(rows, {"age": "number"}, rt.Budget(epsilon=2), ledger=tmp_path / "d")
    table = rt.Table.of(rows, rt.Domain(age=rt.Numeric(edges=range(0, 101, 10))))
    rt.release(table, rt.marginals(table.domain, 1), rt.Budget(epsilon=1, delta=1e-9))
    with rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), purpose="unlimited"):
        pass
    told = " ".join(screen.shown)
    assert "edges of age" in told
    assert "reading" in told
    assert screen.shown.count("") >= 4


def test_a_listener_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(rt.QueryError, match="progress"), listening("yes"):  # type: ignore[arg-type]
        pass
