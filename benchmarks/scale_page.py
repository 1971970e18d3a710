"""Writes docs/scale.md: prose and arithmetic around the figures that `python -m benchmarks scale engines` recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.growth import slopes
from benchmarks.render import DOCS, file_name, grid_text
from benchmarks.scale import curve, points_of
from benchmarks.shown import number

DOCUMENT = DOCS / "scale.md"
TEMPLATE = Path(__file__).with_suffix(".md")
SUITES = ("scale", "engines", "table")
BILLIONS = 10**10
CORES = 64
DISK_BYTES_A_SECOND = 10**9


def write(record: Mapping[str, Any]) -> None:
    """The page, if all its suites were recorded."""
    if all("found" in record.get(name, {}) for name in SUITES):
        DOCUMENT.write_text(render(record))


def render(record: Mapping[str, Any]) -> str:
    scale, engines = record["scale"]["found"], record["engines"]["found"]
    facts = {**_measured(scale), **projected(scale, engines), "engines": _engines(engines)}
    for name, found in scale["growth"].items():
        plot = curve(name, found)
        facts[f"{name}_plot"] = f"![{plot.title}. {plot.expected}](figures/{file_name('scale', plot)})"
        facts[f"{name}_table"] = grid_text(replace(points_of(name, found), title="")).strip()
        facts |= {f"{name}_{what}_slope": f"{slope:.2f}" for what, slope in found["slopes"].items()}
    facts["rows_last_slope"] = f"{_last_slope(scale['growth']['rows']['points']):.2f}"
    facts["distinct_peak"] = f"{record['table']['found']['seconds']['peak_gib']:.1f}"
    facts["measured_at"] = record["scale"]["at"]
    return TEMPLATE.read_text().format(**facts)


def _last_slope(points: Sequence[Mapping[str, Any]]) -> float:
    return slopes(points[-2:], "rows", "seconds")["seconds"]


def _measured(scale: Mapping[str, Any]) -> dict[str, str]:
    built, wide = scale["building"], scale["on_demand"]
    return {
        "rows": f"{built['rows']:,}",
        "read": number(built["read_seconds"]),
        "group_by": number(built["group_by_seconds"]),
        "ratio": f"{built['ratio']:.2f}",
        "peak": f"{built['peak_gib']:.2f}",
        "pairs": str(wide["pairs"]),
        "wide_rows": f"{wide['rows']:,}",
        "pairs_seconds": number(wide["all_seconds"]),
        "pairs_one_by_one": number(wide["one_by_one_seconds"]),
        "pairs_asked": str(wide["pairs_asked"]),
        "pairs_ratio": f"{wide['ratio']:.1f}",
        "threads": str(scale["threads"]),
    }


def _engines(engines: Mapping[str, Any]) -> str:
    lines = ["| engine | rows | Table ready, s | same integers as DuckDB |", "|---|---|---|---|"]
    for point in engines["points"]:
        same = "yes" if point["same integers"] else "**no**"
        lines.append(f"| {point['engine']} | {point['rows']:,} | {number(point['seconds'])} | {same} |")
    return "\n".join([*lines, *(f"\nNot measured: {reason}" for reason in engines["absent"])])


def projected(scale: Mapping[str, Any], engines: Mapping[str, Any]) -> dict[str, str]:
    """Core-seconds of a row, from the largest table measured here, times rows, over cores."""
    largest = scale["growth"]["rows"]["points"][-1]
    duckdb = largest["cpu_seconds"] / largest["rows"]
    spark = engines["seconds_a_million_rows"].get("Spark, local mode", 0.0) * scale["threads"] / 10**6
    bytes_a_row = scale["building"]["bytes"] / scale["building"]["rows"]
    total = bytes_a_row * BILLIONS
    return {
        "duckdb_row": number(1e9 * duckdb),
        "duckdb_hours": number(duckdb * BILLIONS / 3600),
        "duckdb_minutes": number(duckdb * BILLIONS / CORES / 60),
        "spark_row": number(1e9 * spark),
        "spark_hours": number(spark * BILLIONS / 3600),
        "spark_minutes": number(spark * BILLIONS / CORES / 60),
        "cores": str(CORES),
        "bytes_row": number(bytes_a_row),
        "gigabytes": number(total / 1e9),
        "disk_minutes": number(total / DISK_BYTES_A_SECOND / 60),
    }
