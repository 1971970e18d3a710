"""Answers on a terminal: a table, and bars whose ends show the certified error."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table as Grid

from reticent.cli.options import console
from reticent.domain.values import LONGEST, shown_number
from reticent.knowledge.answer import ORIGINS, Answer, shown_key
from reticent.sql import ResultTable

SHORTEST_BAR, LONGEST_BAR = 12, 40
SHOWN_ROWS = 40
BLOCKS, PLAIN = "█▓░", "#+-"
"""Certain, up to the value, up to the bound."""


def show_result(result: Any, *, footer: bool = True, unit: str = "record") -> None:
    """A SQL result, a marginal or a single answer; the footer says how sure it is and where it comes from.

    `unit` is what a marginal counts.
    """
    if isinstance(result, ResultTable):
        _show_table(result, footer)
    elif isinstance(result, Answer) and np.ndim(result.value):
        _show_marginal(result, footer, f"{unit}s")
    else:
        console.print(repr(result), markup=False)


def error_bar(value: float, error: float | None, top: float, width: int) -> str:
    """Full up to value - error, shaded up to the value, faint up to value + error."""
    if not top > 0 or not isfinite(value):
        return ""
    certain, shaded, faint = BLOCKS if _unicode() else PLAIN
    reach = error or 0.0
    low, middle, high = (_steps(value + sign * reach, top, width) for sign in (-1, 0, 1))
    return certain * low + shaded * (middle - low) + faint * (high - middle)


def _steps(length: float, top: float, width: int) -> int:
    return round(min(max(length, 0.0), top) / top * width)


def _unicode() -> bool:
    return "utf" in console.encoding.lower()


def rounded_number(value: float, error: float | None = None) -> str:
    """As many digits as the error leaves meaningful; all six of a number that is known."""
    if error == 0:
        return shown_number(value)
    if max(abs(value), error or 0.0) >= LONGEST:
        return f"{value:.4g}"
    if error is None:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    digits = max(0, int(np.ceil(1 - np.log10(error))))
    return f"{value:,.{digits}f}" if digits <= 6 else f"{value:.4g}"


def bounded(value: Any, error: float | None) -> str:
    if value is None or isinstance(value, (str, bool)):
        return shown_key(value)
    return (
        rounded_number(float(value))
        if error is None
        else f"{rounded_number(float(value), error)} ± {rounded_number(error, error)}"
    )


def _show_table(result: ResultTable, footer: bool) -> None:
    grid = Grid(box=None, header_style="bold", padding=(0, 2, 0, 0))
    rows = [
        [
            bounded(value, error) if aggregate else shown_key(value)
            for value, error, aggregate in zip(*row, result.aggregates, strict=True)
        ]
        for row in zip(result.rows[:SHOWN_ROWS], result.errors[:SHOWN_ROWS], strict=True)
    ]
    for name, aggregate in zip(result.columns, result.aggregates, strict=True):
        grid.add_column(escape(name), justify="right" if aggregate else "left", overflow="fold")
    bars = _bars_of(result, _room(result.columns, rows))
    if bars:
        grid.add_column("", no_wrap=True)
    for place, row in enumerate(rows):
        grid.add_row(*map(escape, row), *([f"[cyan]{bars[place]}[/cyan]"] if bars else []))
    console.print(grid)
    if len(result) > SHOWN_ROWS:
        console.print(f"... {len(result) - SHOWN_ROWS:,} more rows")
    if result.note:
        console.print(f"[yellow]{escape(result.note)}[/yellow]")
    if result.usual:
        console.print(f"[dim]{escape(result.usual)}[/dim]")
    if result.basis:
        console.print(f"[dim]{escape(result.basis)}[/dim]")
    if footer:
        meaning = "; ".join(ORIGINS.get(origin, origin) for origin in result.origin.split(" + "))
        price = f"; price {result.price:.3g}" if result.price else "; free"
        console.print(f"[dim]{escape(result.guarantee)}; {escape(meaning)}{price}[/dim]")


def _room(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Columns of the terminal that the text leaves to bars."""
    taken = sum(max(map(cell_len, column)) + 2 for column in zip(columns, *rows, strict=True))
    return min(LONGEST_BAR, console.width - taken - 2)


def _bars_of(result: ResultTable, width: int) -> list[str]:
    """Where one aggregate is shown for several groups and there is room."""
    places = [place for place, aggregate in enumerate(result.aggregates) if aggregate]
    if len(places) != 1 or len(result) < 2 or width < SHORTEST_BAR:
        return []
    pairs = [(row[places[0]], error[places[0]]) for row, error in zip(result.rows, result.errors, strict=True)]
    if any(isinstance(value, (str, bool)) for value, _ in pairs):
        return []  # texts and dates have no length
    values = [(0.0 if value is None else float(value), error) for value, error in pairs[:SHOWN_ROWS]]
    top = max(value + (error or 0.0) for value, error in values)
    return [error_bar(value, error, top, width) for value, error in values]


def _show_marginal(answer: Answer, footer: bool, counted: str) -> None:
    """One row per cell, largest first where there are many."""
    names = [name for name, _ in answer.labels]
    values = np.asarray(answer.value, dtype=float)
    counts = None if answer.count is None else np.asarray(answer.count)
    cells = list(np.ndindex(values.shape))
    cut = len(cells) > SHOWN_ROWS
    cells = sorted(cells, key=lambda cell: -values[cell])[:SHOWN_ROWS] if cut else cells
    grid = Grid(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        grid.add_column(escape(name))
    for name in ("share", counted, ""):
        grid.add_column(name, justify="left" if not name else "right", no_wrap=True)
    texts = [
        [
            *(shown_key(keys[code]) for keys, code in zip(answer.keys, cell, strict=True)),
            bounded(values[cell], answer.error),
        ]
        for cell in cells
    ]
    width = _room([*names, "share", counted], [[*text, "9,999,999"] for text in texts])
    top = max((float(values[cell]) + (answer.error or 0.0) for cell in cells), default=0.0)
    for cell, text in zip(cells, texts, strict=True):
        count = "" if counts is None else f"{counts[cell]:,.0f}"
        drawn = error_bar(float(values[cell]), answer.error, top, width) if width >= SHORTEST_BAR else ""
        grid.add_row(*map(escape, text), count, f"[cyan]{drawn}[/cyan]")
    console.print(grid)
    if cut:
        console.print(f"... the {SHOWN_ROWS} largest of {np.size(answer.value):,} cells")
    if footer:
        console.print(f"[dim]{escape(answer.guarantee)}; {escape(ORIGINS.get(answer.origin, answer.origin))}[/dim]")
