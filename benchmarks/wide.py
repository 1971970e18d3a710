"""Offline release of the tables that take minutes; marks and scores are those of `benchmarks/release.py`."""

from __future__ import annotations

from typing import Any

from benchmarks.release import DATA, LARGE, large_table, presented_tables
from benchmarks.shown import Shown


def run(quick: bool) -> dict[str, Any]:
    """One workload each: the long one takes a minute or two."""
    if not DATA.is_dir():
        return {"skipped": "the public tables of ../shared/data are not on this machine"}
    return {LARGE: [] if quick else [large_table(name, 1) for name in ("adult_32bin", "kdd99", "plants")]}


def present(found: dict[str, Any]) -> list[Shown]:
    return ["15, 42 and 69 attributes; one run each.", *presented_tables(found[LARGE])]
