"""A peer's cases beside ours on the page: error and time of each as ratios, one plot, one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.shown import Claim, Grid, Plot, Shown

FASTER = 0.1
"""The largest share of a peer's time that ours may take, where a suite does not ask for less."""


def beside(
    peer: str,
    figure: str,
    cases: list[dict[str, Any]],
    name: Callable[[dict[str, Any]], str],
    columns: dict[str, str],
    faster: float = FASTER,
) -> list[Shown]:
    """Cases that ran have ratios; those that did not say why in the table."""
    ratios = (("TV ratio", "our error", 1.0), ("time ratio", "our time", faster))
    ran = [(name(row), row) for row in cases if "TV ratio" in row]
    shown: list[Shown] = [
        Claim(f"{what} over that of {case}", row[key], at_most=most) for case, row in ran for key, what, most in ratios
    ]
    if ran:
        sides = {peer: "its mean TV", "ours": "our mean TV"}
        bars = {side: [(case, row[key]) for case, row in ran] for side, key in sides.items()}
        expected = "Expected: ours below."
        shown.append(Plot(figure, f"Beside {peer}", "", "mean total variation", bars, expected=expected))
    return [*shown, Grid("Each case", columns | {"TV ratio": "", "time ratio": "", "skipped": ""}, cases)]
