"""What stands on the screen is what the table calls things: no pictures, one word for missing values and for truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.cli.cli_people import Called

import reticent as rt
from reticent.cli.show import bounded, show_result
from reticent.sql import ResultTable

Call = Callable[..., Called]


def test_keys_are_written_as_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ((True, 5.0), (False, 3.0), (None, 1.0))
    show_result(ResultTable("", ("smokes", "n"), (False, True), rows, ((None, 1.0),) * 3, 0.95, True, "cache", 0.0))
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown[:4] == ["smokes", "true", "false", "NULL"]


@pytest.mark.parametrize("values", [("2024-01-01", "2025-01-01"), ("many", "few"), (True, False)])
def test_texts_and_dates_have_no_bars(values: tuple[str | bool, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The median date of each group was drawn as 0 plus or minus its bound in days."""
    rows = tuple(("ab"[place], value) for place, value in enumerate(values))
    show_result(ResultTable("", ("k", "v"), (False, True), rows, ((None, 90.0),) * 2, 0.95, True, "cache", 0.0))
    assert not set("█▓░") & set(capsys.readouterr().out.split("bars:")[0])


def test_names_and_values_are_no_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ((":train:", 5.0), ("[b]", 3.0))
    show_result(ResultTable("", (":bus:", "n"), (False, True), rows, ((None, 1.0),) * 2, 0.95, True, "cache", 0.0))
    shown = capsys.readouterr().out
    assert all(text in shown for text in (":bus:", ":train:", "[b]"))


def test_a_ledger_shows_its_keys_as_they_are(tmp_path: Path, call: Call) -> None:
    rows = pa.table({"station": ["a", "b"] * 500})
    ledger = tmp_path / "s.discovery"
    rt.discover(rows, {"station": "text"}, rt.Budget(epsilon=2, delta=1e-6), ledger=ledger)
    assert "discover:station:values:1" in call("ledger", "show", str(ledger)).out


@pytest.mark.parametrize(("confidence", "text"), [(0.949999, "0.95"), (0.999999, "0.999999"), (1.0, "1")])
def test_a_probability_is_short_and_never_becomes_certainty(confidence: float, text: str) -> None:
    table = ResultTable("", ("n",), (True,), ((1.0,),), ((1.0,),), confidence, True, "cache", 0.0)
    assert table.guarantee == f"all bounds hold together with probability {text}"


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (5.005e14, 9.9e20, "5.005e+14 ± 9.9e+20"),
        (-2.5e15, None, "-2.5e+15"),
        (1234.5, 0.0, "1,234.50 ± 0"),
        (1234.5, 12.0, "1,234 ± 12"),
        (12345.0, None, "12,345"),
        (0.123456, 0.02, "0.123 ± 0.020"),
    ],
)
def test_numbers_of_a_terminal_have_no_digits_that_say_nothing(value: float, error: float | None, shown: str) -> None:
    """A median of numbers up to 1e21 was shown with 21 digits, and a known 1234.5 without its half."""
    assert bounded(value, error) == shown
